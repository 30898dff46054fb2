// The procedures of CALL as the caller: a bound call to what src/job does, and its result as rows
// (R067, R068, R073, docs/SQL.md).
//
// Thread safety: free functions.
#ifndef LITHIFY_SERVE_PROCEDURES_H_
#define LITHIFY_SERVE_PROCEDURES_H_

#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "job/iceberg_job.h"
#include "observe/progress.h"
#include "serve/rows.h"
#include "serve/table_access.h"
#include "sql/procedures.h"

namespace lithify::serve {

// Of the result; with `explain` of EXPLAIN CALL. kUnsupported, before anything is opened: this
// server does not run it, or it cannot be explained.
Result<std::vector<Column>> ProcedureColumns(const sql::BoundCall& call, bool explain);

// Runs it, once; with `explain` nothing is changed. Always one row, also for a skip; for the
// explanation of a rewrite one per partition.
Result<Rows> RunProcedure(const sql::BoundCall& call, bool explain, const TableAccess& access,
                          const CallContext& context, observe::Progress& progress,
                          const CancelFlag& cancel);

// Of table_health.
const std::vector<Column>& HealthColumns();
std::vector<Cell> HealthCells(const job::HealthResult& result);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_PROCEDURES_H_
