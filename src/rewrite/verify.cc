#include "rewrite/verify.h"

#include <string>
#include <utility>

#include "rewrite/column_copy.h"
#include "rewrite/row_check.h"

namespace lithify::rewrite {

Result<std::vector<ContentDigest>> DigestRowGroups(OpenedGroup& file, const RowRule& rule,
                                                   const std::function<bool(int)>& wanted,
                                                   int64_t bytes_max, const CancelFlag& cancel) {
  LITHIFY_CHECK(file.inputs.size() == 1, "one file at a time");
  LITHIFY_TRY_ASSIGN(const RowChecker checker, RowChecker::Make(rule, *file.output_schema));
  InputSource& in = *file.inputs.front();
  std::vector<ContentDigest> digests(static_cast<size_t>(in.footer->num_row_groups()));
  int64_t first_row = 0;
  for (int g = 0; g < in.footer->num_row_groups(); ++g) {
    const int64_t rows = in.footer->RowGroup(g)->num_rows();
    ContentDigest& digest = digests[static_cast<size_t>(g)];
    digest.rows = wanted(g) ? rows : -1;
    if (digest.rows < 0 || rows == 0) {
      first_row += rows;
      continue;
    }
    LITHIFY_TRY(cancel.Check());
    const int64_t row_bytes = 8 * (1 + static_cast<int64_t>(checker.time_columns()));
    if (rows > bytes_max / row_bytes) {
      return Fail(Code::kLimit,
                  "a row group of " + std::to_string(rows) + " rows does not fit the memory bound",
                  in.key, "raise --memory");
    }
    RowGroupRows shared(rows, checker.time_columns(), true);
    for (size_t leaf = 0; leaf < file.leaves.size(); ++leaf) {
      ColumnCopyOptions options;
      options.leaf = static_cast<int>(leaf);
      options.output = file.leaves[leaf];
      options.rule = checker.For(options.leaf);
      options.first_group = g;
      options.last_group = g;
      auto column = GuardParquet("column " + options.output.path, [&]() -> Result<Digest128> {
        const auto copy = MakeColumnCopy(file.inputs, options);
        LITHIFY_TRY_ASSIGN(const Digest128 read, copy->Copy(rows, nullptr, shared));
        LITHIFY_TRY(copy->Finish());
        return read;
      });
      if (!column) return Fail(std::move(column.error()).In(in.key));
      digest.columns[file.leaves[leaf].path].Add(*column);
    }
    digest.row = shared.RowDigest();
    LITHIFY_TRY(checker.CheckTimes(
        shared.times(), [&](int64_t row) { return std::pair(in.key, first_row + row); }));
    first_row += rows;
  }
  return digests;
}

}  // namespace lithify::rewrite
