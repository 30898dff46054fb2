// How the outputs are encoded: the request's codec and page size, and per column what the inputs'
// own encodings show to be worth it.
#ifndef LITHIFY_REWRITE_WRITER_PROPERTIES_H_
#define LITHIFY_REWRITE_WRITER_PROPERTIES_H_

#include <arrow/util/type_fwd.h>
#include <parquet/properties.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"

namespace lithify::rewrite {

// By the name in OutputShape; kInvalid for an unknown one.
Result<arrow::Compression::type> CodecOf(const std::string& name);

// kInvalid for an unknown codec. Reads the first pages of some inputs.
Result<std::shared_ptr<parquet::WriterProperties>> MakeProperties(const OpenedGroup& group,
                                                                  const OutputShape& shape,
                                                                  BoundedPool& pool);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_WRITER_PROPERTIES_H_
