// The views of schema "system" over all that a caller sees: tables, their health, their snapshots
// (docs/SQL.md). Rows are made when a statement asks for them, as the caller. Private to this
// module.
#ifndef LITHIFY_SERVE_VIEWS_H_
#define LITHIFY_SERVE_VIEWS_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "serve/rows.h"
#include "serve/table_access.h"

namespace lithify::serve {

struct View {
  std::string_view name;
  std::vector<Column> columns;
  // A table that is gone by the time it is read, or that the caller may list but not load, is left
  // out of what needs it loaded; any other error is the statement's.
  std::function<Result<Rows>(const TableAccess&, const CallContext&, const CancelFlag&)> make;
};

// Without system.jobs, which needs the server's jobs.
std::span<const View> Views();

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_VIEWS_H_
