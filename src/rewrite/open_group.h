// The inputs of a group, opened: footers parsed and checked, and one schema for the outputs.
#ifndef LITHIFY_REWRITE_OPEN_GROUP_H_
#define LITHIFY_REWRITE_OPEN_GROUP_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/column_copy.h"
#include "rewrite/group_runner.h"

namespace lithify::rewrite {

struct OpenedGroup {
  std::vector<std::unique_ptr<InputSource>> inputs;
  std::unique_ptr<SchemaNode> output_schema;
  std::vector<OutputLeaf> leaves;
  std::vector<std::string> notes;
  bool one_schema = true;
  // What the inputs are read through, to be told what is read; null: nothing is read ahead.
  storage::ReadAhead* ahead = nullptr;
};

// What will be read of the inputs besides.
enum class Reading { kFooters, kPages };

// Parses every input's footer, checks that all can be read and are what the table says of them,
// and unites their schemas, or brings them under that of `table` where there is one. Files are
// opened by `threads` threads. `nearly_there`, on one of them, when only few are still on their
// way: one in eight, but for a single one.
Result<OpenedGroup> OpenGroup(ReaderCache& cache, const std::vector<InputFile>& inputs,
                              const TableTarget* table, Reading reading, int threads,
                              BoundedPool& pool, const CancelFlag* cancel,
                              const std::function<void()>& nearly_there = {});

// One file under its own schema, for reading back.
Result<OpenedGroup> OpenFile(ReaderCache& cache, const InputFile& file, BoundedPool& pool,
                             const CancelFlag* cancel);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_OPEN_GROUP_H_
