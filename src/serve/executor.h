// Statements of callers: planned without any effect, then run (R069).
//
// Thread safety: thread-safe.
#ifndef LITHIFY_SERVE_EXECUTOR_H_
#define LITHIFY_SERVE_EXECUTOR_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "flightsql/messages.h"
#include "observe/audit_log.h"
#include "serve/job_registry.h"
#include "serve/rows.h"
#include "serve/select.h"
#include "serve/table_access.h"
#include "serve/taken_tokens.h"
#include "sql/procedures.h"
#include "sql/statement.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace lithify::serve {

struct PlannedStatement {
  std::string text;
  sql::Statement statement;
  std::optional<sql::BoundCall> call;  // Of CALL and EXPLAIN CALL.
  bool explain = false;  // EXPLAIN CALL, or EXPLAIN of a query, which is `explained` then.
  std::string explained;
  std::vector<std::vector<std::string>> tables;  // Of a query: the names that it reads.
  std::shared_ptr<arrow::Schema> result;
  std::shared_ptr<arrow::Schema> parameters;  // Null or without fields: it takes none.
  bool changes = false;  // Something: it runs once for each time it is planned, and is a job.
  bool lasts = false;    // It may take long, so that progress is told.
};

// As SHOW JOBS and system.jobs have them.
Rows JobRows(const std::vector<JobInfo>& jobs);

// Of EXPLAIN of a query: a row for each use of a table, and one with DuckDB's plan.
Rows PlanRows(const SelectPlan& plan);

class Executor {
 public:
  // `jobs` and `clock` outlive it.
  Executor(TableAccess access, JobRegistry& jobs, const Clock& clock)
      : access_(std::move(access)), jobs_(jobs), clock_(clock), tokens_(clock) {}

  // kInvalid with the position and a hint, kUnsupported, kLimit (too long); of a query also what
  // the catalog says of its tables, or of a token that nobody has checked. Changes nothing.
  // `about`, unless null, gets what a statement was about that cannot be planned, as far as it was
  // read.
  Result<std::shared_ptr<const PlannedStatement>> Plan(
      std::string_view text, const CallContext& call, const CancelFlag& cancel,
      std::vector<observe::AuditResource>* about = nullptr);

  // Whether these can be the parameters of the statement: rows with a column for each. kInvalid.
  // What is no query has none, and is not run once for each row of nothing.
  static Status CheckParameters(const PlannedStatement& planned,
                                const arrow::RecordBatch& parameters);

  // `parameters`: as CheckParameters takes them; null: none. A query is run once for each row, in
  // order, as far as its result is asked for: the rows of all are one result, and the first error
  // ends it and tells which row it was. `call`, `progress` and `cancel` outlive the result, and so
  // do `planned` and the executor.
  Result<std::unique_ptr<SelectResult>> Run(const PlannedStatement& planned,
                                            const std::shared_ptr<arrow::RecordBatch>& parameters,
                                            const CallContext& call, observe::Progress& progress,
                                            const CancelFlag& cancel);

  // GetCatalogs, GetDbSchemas, GetTables, GetTableTypes and GetKeys.
  std::shared_ptr<arrow::Schema> QuestionSchema(const flightsql::Command& question) const;
  Result<std::shared_ptr<arrow::RecordBatch>> Ask(const flightsql::Command& question,
                                                  const CallContext& call,
                                                  const CancelFlag& cancel);

  // What the statement is about, for the record.
  std::vector<observe::AuditResource> Resources(const PlannedStatement& planned,
                                                const CallContext& call) const;

  const TableAccess& access() const { return access_; }

 private:
  Status PlanStatement(const CallContext& call, const CancelFlag& cancel,
                       PlannedStatement& planned);
  Status PlanCall(const sql::Call& call, bool explain, PlannedStatement& planned);
  Status PlanQuery(const CallContext& call, const CancelFlag& cancel, PlannedStatement& planned);
  Result<std::unique_ptr<SelectResult>> RunQuery(
      const PlannedStatement& planned, const std::shared_ptr<arrow::RecordBatch>& parameters,
      const CallContext& call, Duration time_max, const CancelFlag& cancel);
  Result<std::unique_ptr<SelectResult>> RunRows(
      const PlannedStatement& planned, const std::shared_ptr<arrow::RecordBatch>& parameters,
      const CallContext& call, const CancelFlag& cancel);
  SelectLimits Limits() const;

  const TableAccess access_;
  JobRegistry& jobs_;
  const Clock& clock_;
  TakenTokens tokens_;
  SelectEngine select_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_EXECUTOR_H_
