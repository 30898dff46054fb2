// Every row belongs to its path (R222, R307): tenant, time bucket, and the path's other values.
#ifndef LITHIFY_REWRITE_ROW_CHECK_H_
#define LITHIFY_REWRITE_ROW_CHECK_H_

#include <parquet/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rewrite/group_runner.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// What one output column has to be checked for; made once per group.
struct ColumnRule {
  int leaf = -1;
  std::string name;
  // Exactly one of the three.
  std::optional<std::string> equals_text;
  std::optional<int64_t> equals_number;
  bool is_unsigned = false;
  bool null_passes = false;
  int time_rank = -1;            // Position in RowRule::time_columns.
  int64_t units_per_second = 0;  // Time columns; days are 0 with `is_days`.
  bool is_days = false;
};

class RowChecker {
 public:
  // kUnsupported, naming it, if a required check column is absent from the output schema or has a
  // type that cannot be checked.
  static Result<RowChecker> Make(const RowRule& rule, const SchemaNode& output);

  // The rule of output column `leaf`, or null.
  const ColumnRule* For(int leaf) const;
  size_t time_columns() const { return time_columns_; }

  // Equality rules, one batch of a flat column: `definition` may be null if the column is
  // required; values are dense. kCorrupt names the first bad value; `row` is that of the batch's
  // first in its file.
  static Status CheckEquals(const ColumnRule& rule, std::span<const parquet::ByteArray> values,
                            int64_t nulls, int64_t row);
  static Status CheckEquals(const ColumnRule& rule, std::span<const int64_t> values, int64_t nulls,
                            int64_t row);

  // Time rules, after all columns of a row group were read: `times[rank][row]` is the row's raw
  // value, 0 for null. The first non-zero value decides; none means 1970-01-01T00 (R198).
  // `place` tells the file and the row in it, for a row of the group.
  using RowPlace = std::function<std::pair<std::string, int64_t>(int64_t)>;
  Status CheckTimes(const std::vector<std::vector<int64_t>>& times, const RowPlace& place) const;

 private:
  const RowRule* rule_ = nullptr;
  std::vector<ColumnRule> rules_;
  size_t time_columns_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ROW_CHECK_H_
