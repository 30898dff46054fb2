// Conditions of WHERE clauses that the files of one table can be pruned by. Private to this module.
//
// What is not understood is left out, so that a filter may let more rows pass than the statement
// does, and never fewer: DuckDB looks at every row again.
#ifndef LITHIFY_SERVE_SELECT_FILTER_H_
#define LITHIFY_SERVE_SELECT_FILTER_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/select_statement.h"

namespace lithify::serve {

struct FilteredTable {
  const nlohmann::json* node = nullptr;  // The BASE_TABLE of the tree.
  std::string alias;
  const std::vector<UsedColumn>* columns = nullptr;
  std::string filter;  // What is found, in the language of table/iceberg_filter.h.
};

void FindFilters(const nlohmann::json& statements, const std::vector<ParameterValue>& parameters,
                 std::vector<FilteredTable>& tables);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SELECT_FILTER_H_
