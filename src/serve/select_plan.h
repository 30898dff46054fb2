// What DuckDB's EXPLAIN (FORMAT json) says. Private to this module.
#ifndef LITHIFY_SERVE_SELECT_PLAN_H_
#define LITHIFY_SERVE_SELECT_PLAN_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lithify::serve {

struct DuckPlan {
  std::string text;                               // As SelectPlan has it.
  std::vector<std::vector<std::string>> columns;  // Of each table.
};

// `names`: of the tables, whose scans are called by ScanName() there. kInternal for what is no such
// plan.
Result<DuckPlan> ReadDuckPlan(std::string_view json, const std::vector<std::string>& names);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SELECT_PLAN_H_
