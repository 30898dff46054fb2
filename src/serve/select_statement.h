// What DuckDB's own parser makes of a statement (json_serialize_sql), read for three things: what
// must not be there, which tables it names, and what it says of their columns. Private to this
// module; knows neither DuckDB nor Arrow.
#ifndef LITHIFY_SERVE_SELECT_STATEMENT_H_
#define LITHIFY_SERVE_SELECT_STATEMENT_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/select.h"

namespace lithify::serve {

// Where a statement reads a table; one that it names twice is there twice.
struct TableUse {
  TableName name;
  std::string alias;  // How columns of it may be qualified.
  // The name is also that of a common table expression, elsewhere in the statement.
  bool shadowed = false;
};

// A column as pushing down needs it: `format` is that of Arrow's C data interface.
struct UsedColumn {
  std::string name;
  std::string format;
};

// A value of a parameter, where conditions on it can be pushed down: type is BIGINT, BOOLEAN, DATE,
// TIMESTAMP or VARCHAR as in DuckDB, and the text as it is written there. Empty: it cannot.
struct ParameterValue {
  std::string type;
  std::string text;
};

class SelectStatement {
 public:
  // `tree` is what json_serialize_sql() gave for `sql`. kInvalid: bad syntax, with the position.
  // kDenied: another statement than one SELECT, or a function that is not to be had.
  static Result<SelectStatement> Read(std::string_view sql, std::string_view tree);
  SelectStatement(SelectStatement&&) noexcept;
  SelectStatement& operator=(SelectStatement&&) noexcept;
  ~SelectStatement();

  const std::vector<TableUse>& tables() const { return tables_; }

  // The statement with replacements[i] in the place of the name of table use i; an empty one leaves
  // it alone. Columns that are qualified by a dotted name keep its last part.
  Result<std::string> Replace(const std::vector<std::string>& replacements);
  // Where a byte of what Replace() gave is in the statement as it was.
  size_t OriginalPosition(size_t position) const;
  // "line 2, column 14".
  static std::string Place(std::string_view sql, size_t position);

  // What the statement says of the rows of each table use that can matter, in the language of
  // table/iceberg_filter.h: every row that has part in the result fulfils it. Empty: nothing that
  // is understood. `columns` are those of each use; `parameters` are $1, $2, …, as far as known.
  std::vector<std::string> Filters(const std::vector<std::vector<UsedColumn>>& columns,
                                   const std::vector<ParameterValue>& parameters) const;

 private:
  struct Tree;
  struct Edit {
    size_t begin = 0;
    size_t end = 0;
    std::string text;
  };
  SelectStatement(std::string sql, std::unique_ptr<Tree> tree);

  std::string sql_;
  std::unique_ptr<Tree> tree_;
  std::vector<TableUse> tables_;
  std::vector<Edit> edits_;  // As Replace() made them, in order.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SELECT_STATEMENT_H_
