// An Iceberg table for SELECT: our own scan, with deletes applied and files pruned.
#ifndef LITHIFY_SERVE_ICEBERG_TABLE_H_
#define LITHIFY_SERVE_ICEBERG_TABLE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "catalog/catalog.h"
#include "serve/select.h"
#include "storage/locations.h"

namespace lithify::serve {

// The table as it was loaded; `version` as in TableName. `locations` are all that is read from, and
// whatever they borrow from lives as long as the pointer. One scan has `memory_bytes` for its
// buffers. kNotFound: there is no such version. kUnsupported: no column can be read.
Result<std::shared_ptr<TableSource>> MakeIcebergTable(std::shared_ptr<storage::Locations> locations,
                                                      catalog::LoadedTable table,
                                                      std::string_view version,
                                                      int64_t memory_bytes);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_ICEBERG_TABLE_H_
