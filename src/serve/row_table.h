// Tables of rows in memory, for the views of the server itself (system.*).
#ifndef LITHIFY_SERVE_ROW_TABLE_H_
#define LITHIFY_SERVE_ROW_TABLE_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "serve/rows.h"
#include "serve/select.h"

namespace lithify::serve {

// kInternal as Rows::ToBatch().
Result<std::shared_ptr<TableSource>> MakeRowTable(const Rows& rows);

// With rows that are made when they are asked for; once, and never for a statement that only asks
// what columns there are. `make` gives rows of these columns.
std::shared_ptr<TableSource> MakeRowTable(std::vector<Column> columns,
                                          std::function<Result<Rows>()> make);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_ROW_TABLE_H_
