// Tables of rows in memory, for the views of the server itself (system.*).
#ifndef LITHIFY_SERVE_ROW_TABLE_H_
#define LITHIFY_SERVE_ROW_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "serve/select.h"

namespace lithify::serve {

enum class CellType { kBool, kInt64, kDouble, kText, kTimestamp };  // Timestamps are in UTC.

struct RowColumn {
  std::string name;
  CellType type = CellType::kText;
};

using Cell =
    std::variant<std::monostate, bool, int64_t, double, std::string, Time>;  // First: null.

// Each row has a cell for each column, of its type or null: kInternal otherwise.
Result<std::shared_ptr<TableSource>> MakeRowTable(const std::vector<RowColumn>& columns,
                                                  const std::vector<std::vector<Cell>>& rows);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_ROW_TABLE_H_
