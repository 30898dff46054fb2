// What can be said of tables without asking anybody (R020, T2): those that callers of this process
// touched, by the summaries of their snapshots.
#ifndef LITHIFY_MAINTAIN_SIGHTED_TABLES_H_
#define LITHIFY_MAINTAIN_SIGHTED_TABLES_H_

#include "base/clock.h"
#include "job/table_sightings.h"
#include "maintain/report.h"
#include "maintain/scheduler.h"
#include "observe/metrics.h"

namespace lithify::maintain {

// Of the tables of the catalog and namespaces of `options`, each with its gate; the gauges of those
// tables are set, and of no others. Null: no callers are in this process, so that nothing is known.
// Makes no request. How many files are small is in no summary: it stays unknown.
TickReport ReportSighted(const job::TableSightings* sightings, const SchedulerOptions& options,
                         Clock& clock, observe::Metrics& metrics);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_SIGHTED_TABLES_H_
