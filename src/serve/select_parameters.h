// Parameters of a prepared statement, from Arrow to DuckDB. Private to this module.
#ifndef LITHIFY_SERVE_SELECT_PARAMETERS_H_
#define LITHIFY_SERVE_SELECT_PARAMETERS_H_

#include <arrow/type_fwd.h>
#include <duckdb.h>

#include <memory>
#include <vector>

#include "base/result.h"
#include "serve/select_statement.h"

namespace lithify::serve {

// Column i of the only row is parameter i + 1; null: no parameters. kInvalid: another number of
// them or of rows, or a type that is no parameter's.
Status BindParameters(duckdb_prepared_statement statement,
                      const std::shared_ptr<arrow::RecordBatch>& parameters);

// The same ones, as far as conditions on them can be pushed down.
std::vector<ParameterValue> ParameterValues(const std::shared_ptr<arrow::RecordBatch>& parameters);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SELECT_PARAMETERS_H_
