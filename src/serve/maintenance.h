// CALL system.run_maintenance and system.maintenance_plan: what the scheduler decides by, for a
// caller: the tables that the caller sees, with the caller's token, and with no other identity
// (R005, R065). What [maintenance] configures is the scheduler's and is not read here: values are
// the tables' own properties, and the defaults. Private to this module.
#ifndef LITHIFY_SERVE_MAINTENANCE_H_
#define LITHIFY_SERVE_MAINTENANCE_H_

#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "observe/progress.h"
#include "serve/rows.h"
#include "serve/table_access.h"
#include "sql/procedures.h"

namespace lithify::serve {

const std::vector<Column>& MaintenancePlanColumns();
const std::vector<Column>& MaintenanceRunColumns();

// One row for each partition of an opted-in table in which there is something to do, and for each
// such table without any, with its verdict, in the order in which they would be run; of all
// catalogs.
Result<Rows> PlanMaintenance(const TableAccess& access, const CallContext& call,
                             const CancelFlag& cancel);

// The same of this table alone, whether it is opted in or not.
Result<Rows> PlanTableMaintenance(const ResolvedTable& table, const TableAccess& access,
                                  const CallContext& call, const CancelFlag& cancel);

// One row for each opted-in table. A table that fails does not stop the others; its row says why.
Result<Rows> RunMaintenance(const sql::BoundCall& bound, bool explain, const TableAccess& access,
                            const CallContext& call, observe::Progress& progress,
                            const CancelFlag& cancel);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_MAINTENANCE_H_
