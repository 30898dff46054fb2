// Small results, such as the row of a procedure or a list of tables: rows in memory, as one Arrow
// record batch.
//
// Thread safety: a plain value.
#ifndef LITHIFY_SERVE_ROWS_H_
#define LITHIFY_SERVE_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace lithify::serve {

enum class ColumnType {
  kText,   // utf8
  kInt,    // int64
  kInt32,  // int32
  kByte,   // uint8
  kDouble,
  kBool,
  kTime,   // timestamp[us], in UTC
  kBytes,  // binary
  kTexts,  // list<utf8>
};

struct Column {
  std::string name;
  ColumnType type = ColumnType::kText;
  bool nullable = true;
};

using Cell = std::variant<std::monostate, std::string, int64_t, double, bool, Time,
                          std::vector<std::string>>;

class Rows {
 public:
  explicit Rows(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns, each of its column's type (kText and kBytes: std::string;
  // all whole numbers: int64_t) or std::monostate where the column is nullable.
  void Add(std::vector<Cell> row);
  // Stable, by the first columns that differ; null first.
  void Sort();

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }
  std::shared_ptr<arrow::Schema> schema() const;
  // kInternal if there is no memory for it, or a cell is of another type than its column.
  Result<std::shared_ptr<arrow::RecordBatch>> ToBatch() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_ROWS_H_
