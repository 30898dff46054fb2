// Tiny flat Parquet files with field ids, written and read by Arrow's own column writer and reader:
// what other engines write into a table, and what a reader finds in it. Shares no code with the
// product.
#ifndef LITHIFY_TESTS_SIM_PARQUET_COLUMNS_H_
#define LITHIFY_TESTS_SIM_PARQUET_COLUMNS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lithify::sim {

struct SimColumn {
  enum class Kind { kInt, kLong, kText };
  int field_id = 0;
  std::string name;
  Kind kind = Kind::kLong;
  bool required = false;
  std::vector<std::optional<int64_t>> numbers;  // kInt, kLong.
  std::vector<std::string> texts;               // kText, which is required.
};

std::string EncodeColumns(const std::vector<SimColumn>& columns);
// kCorrupt for what is no such file.
Result<std::vector<SimColumn>> DecodeColumns(std::string_view bytes);
// By field id; null if there is none.
const SimColumn* FindColumn(const std::vector<SimColumn>& columns, int field_id);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_PARQUET_COLUMNS_H_
