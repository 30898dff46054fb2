#include "serve/executor.h"

#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <utility>

#include "job/iceberg_scan.h"
#include "rewrite/table_batches.h"
#include "serve/audit_resources.h"
#include "serve/caller_tables.h"
#include "serve/procedures.h"
#include "serve/rows.h"
#include "serve/show.h"

namespace lithify::serve {
namespace {

const std::vector<Column> kJobColumns = {
    {"job_id", ColumnType::kText, false},     {"procedure", ColumnType::kText, false},
    {"table", ColumnType::kText, false},      {"state", ColumnType::kText, false},
    {"started_at", ColumnType::kTime, false}, {"finished_at", ColumnType::kTime, true},
    {"bytes_done", ColumnType::kInt, false},  {"bytes_total", ColumnType::kInt, false},
    {"items_done", ColumnType::kInt, false},  {"items_total", ColumnType::kInt, false},
    {"message", ColumnType::kText, true},     {"error", ColumnType::kText, true},
};
const std::vector<Column> kExplainColumns = {
    {"table", ColumnType::kText, true},       {"snapshot_id", ColumnType::kInt, true},
    {"columns", ColumnType::kTexts, true},    {"filter", ColumnType::kText, true},
    {"files", ColumnType::kInt, true},        {"files_left_out", ColumnType::kInt, true},
    {"bytes", ColumnType::kInt, true},        {"records", ColumnType::kInt, true},
    {"delete_files", ColumnType::kInt, true}, {"plan", ColumnType::kText, true},
};
const std::vector<Column> kCancelColumns = {{"job_id", ColumnType::kText, false},
                                            {"status", ColumnType::kText, false}};

// A result that is there already.
class RowsResult final : public SelectResult {
 public:
  explicit RowsResult(std::shared_ptr<arrow::RecordBatch> batch)
      : schema_(batch->schema()), batch_(std::move(batch)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    return std::exchange(batch_, nullptr);
  }

 private:
  const std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::RecordBatch> batch_;
};

Result<std::unique_ptr<SelectResult>> ResultOf(const Rows& rows) {
  LITHIFY_TRY_ASSIGN(auto batch, rows.ToBatch());
  return std::make_unique<RowsResult>(std::move(batch));
}

Cell OrNull(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

std::string NameText(const TableName& name) {
  return sql::TableName{.parts = name.parts, .position = {}}.ToString() +
         (name.version.empty() ? "" : " AT " + name.version);
}

bool IsAlter(const sql::Statement& statement) {
  return std::holds_alternative<sql::SetProperties>(statement) ||
         std::holds_alternative<sql::UnsetProperties>(statement);
}

// Serialised, as GetTables wants it.
Result<std::string> SchemaBytes(const iceberg::Schema& schema) {
  ArrowSchema exported;
  LITHIFY_TRY(rewrite::ExportTableSchema(job::ScanColumns(schema), &exported));
  const auto columns = arrow::ImportSchema(&exported);
  if (!columns.ok()) return Fail(Code::kInternal, columns.status().ToString());
  const auto bytes = arrow::ipc::SerializeSchema(**columns);
  if (!bytes.ok()) return Fail(Code::kInternal, bytes.status().ToString());
  return (*bytes)->ToString();
}

bool HasDictionary(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY ||
         std::ranges::any_of(type.fields(),
                             [](const auto& field) { return HasDictionary(*field->type()); });
}

// A query that is run once for each row of its parameters.
class RowByRow final : public SelectResult {
 public:
  // Runs it for row `row`, in what is left of the time.
  using RunRow = std::function<Result<std::unique_ptr<SelectResult>>(int64_t row)>;

  static Result<std::unique_ptr<SelectResult>> Make(RunRow run, int64_t rows) {
    auto result = std::unique_ptr<RowByRow>(new RowByRow(std::move(run), rows));
    LITHIFY_TRY(result->Begin());
    result->schema_ = result->current_->schema();
    return result;
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (current_) {
      auto batch = current_->Next();
      if (!batch) return Fail(InRow(std::move(batch.error())));
      if (*batch) return batch;
      current_.reset();
      if (++row_ == rows_) break;
      LITHIFY_TRY(Begin());
      if (!current_->schema()->Equals(*schema_)) {
        return Fail(InRow(Error{Code::kInvalid,
                                "the result has other types than that of the first row",
                                {},
                                "CAST the columns that depend on the parameters"}));
      }
    }
    return nullptr;
  }

 private:
  RowByRow(RunRow run, int64_t rows) : run_(std::move(run)), rows_(rows) {}

  Status Begin() {
    auto result = run_(row_);
    if (!result) return Fail(InRow(std::move(result.error())));
    current_ = *std::move(result);
    return {};
  }

  Error InRow(Error error) const {
    return std::move(error).In("row " + std::to_string(row_ + 1) + " of " + std::to_string(rows_) +
                               " of the parameters");
  }

  const RunRow run_;
  const int64_t rows_;
  int64_t row_ = 0;  // That of `current_`.
  std::unique_ptr<SelectResult> current_;
  std::shared_ptr<arrow::Schema> schema_;
};

Status NoDictionaries(const arrow::Schema& schema) {
  for (const auto& field : schema.fields()) {
    if (!HasDictionary(*field->type())) continue;
    return Fail(Code::kUnsupported, "column \"" + field->name() + "\" is an ENUM", {},
                "CAST it to VARCHAR");
  }
  return {};
}

// A success counts for nothing if the catalog stopped taking the token on the way: what was hidden
// must not look like what is not there.
Status StillTaken(const CallContext& call) {
  if (!call.token->refused()) return {};
  return Fail(Code::kDenied, "the catalog does not take the caller's token");
}

}  // namespace

Rows PlanRows(const SelectPlan& plan) {
  Rows rows(kExplainColumns);
  for (const SelectPlan::Read& read : plan.reads) {
    std::vector<Cell> row = {NameText(read.name), Cell(), read.columns, OrNull(read.filter)};
    row.resize(kExplainColumns.size());
    if (const auto& table = read.table) {
      if (table->snapshot_id) row[1] = *table->snapshot_id;
      row[4] = table->files;
      row[5] = table->files_live - table->files;
      row[6] = table->bytes;
      row[7] = table->records;
      row[8] = table->delete_files;
    }
    rows.Add(std::move(row));
  }
  std::vector<Cell> last(kExplainColumns.size());
  last.back() = plan.text;
  rows.Add(std::move(last));
  return rows;
}

Rows JobRows(const std::vector<JobInfo>& jobs) {
  Rows rows(kJobColumns);
  for (const JobInfo& job : jobs) {
    const bool stopping = job.state == JobState::kRunning && job.cancel_requested;
    rows.Add({job.id, job.procedure, job.table,
              std::string(stopping ? "stopping" : JobStateName(job.state)), job.started,
              job.finished ? Cell(*job.finished) : Cell(), job.bytes_done, job.bytes_total,
              job.items_done, job.items_total, OrNull(job.message), OrNull(job.error)});
  }
  return rows;
}

Status Executor::PlanCall(const sql::Call& call, bool explain, PlannedStatement& planned) {
  LITHIFY_TRY_ASSIGN(planned.call, sql::Bind(call));
  planned.explain = explain;
  LITHIFY_TRY_ASSIGN(auto columns, ProcedureColumns(*planned.call, explain));
  planned.result = Rows(std::move(columns)).schema();
  planned.changes = planned.call->procedure().changes && !explain;
  planned.lasts = true;
  return {};
}

Status Executor::PlanQuery(const CallContext& call, const CancelFlag& cancel,
                           PlannedStatement& planned) {
  LITHIFY_TRY(tokens_.Check(access_, call, cancel));
  CallerTables tables(access_, call, jobs_, cancel);
  const std::string& sql = planned.explain ? planned.explained : planned.text;
  auto answer = select_.Describe(sql, tables, Limits(), cancel);
  planned.tables = tables.asked();
  LITHIFY_TRY_ASSIGN(auto described, std::move(answer));
  planned.lasts = true;
  planned.parameters = std::move(described.parameters);
  if (planned.explain) {
    planned.result = Rows(kExplainColumns).schema();
    return {};
  }
  planned.result = std::move(described.result);
  if (planned.result) LITHIFY_TRY(NoDictionaries(*planned.result));
  return {};
}

SelectLimits Executor::Limits() const {
  const config::ServerConfig& server = access_.config().server;
  return {.memory_bytes = server.statement_memory_bytes,
          .threads = 1,
          .result_rows_max = 0,
          .result_bytes_max = 0,  // The stream to the client counts them.
          .time_max = server.statement_timeout};
}

Status Executor::PlanStatement(const CallContext& call, const CancelFlag& cancel,
                               PlannedStatement& planned) {
  const sql::Statement& statement = planned.statement;
  if (const auto* query = std::get_if<sql::Query>(&statement)) {
    planned.text = query->text;
    planned.explain = query->explain;
    if (query->explain) {
      LITHIFY_TRY_ASSIGN(planned.explained, sql::Explained(*query));
    }
    LITHIFY_TRY(PlanQuery(call, cancel, planned));
  } else if (const auto* run = std::get_if<sql::Call>(&statement)) {
    LITHIFY_TRY(PlanCall(*run, false, planned));
  } else if (const auto* explain = std::get_if<sql::ExplainCall>(&statement)) {
    LITHIFY_TRY(PlanCall(explain->call, true, planned));
  } else if (std::holds_alternative<sql::ShowJobs>(statement)) {
    planned.result = Rows(kJobColumns).schema();
  } else if (std::holds_alternative<sql::CancelJob>(statement)) {
    planned.result = Rows(kCancelColumns).schema();
  } else {
    planned.result = Rows(ShowColumns(statement)).schema();
    planned.changes = IsAlter(statement);
  }
  return StillTaken(call);
}

Result<std::shared_ptr<const PlannedStatement>> Executor::Plan(
    std::string_view text, const CallContext& call, const CancelFlag& cancel,
    std::vector<observe::AuditResource>* about) {
  const auto bytes_max = static_cast<size_t>(access_.config().server.request_bytes_max);
  if (text.size() > bytes_max) {
    return Fail(Code::kLimit, "the statement is longer than allowed", "server.request_bytes_max");
  }
  auto planned = std::make_shared<PlannedStatement>();
  LITHIFY_TRY_ASSIGN(planned->statement, sql::Parse(text));
  planned->text = text;
  if (Status done = PlanStatement(call, cancel, *planned); !done) {
    if (about != nullptr) *about = Resources(*planned, call);
    return Fail(std::move(done.error()));
  }
  return planned;
}

Status Executor::CheckParameters(const PlannedStatement& planned,
                                 const arrow::RecordBatch& parameters) {
  const int wanted = planned.parameters ? planned.parameters->num_fields() : 0;
  const int64_t rows = parameters.num_rows();
  if (parameters.num_columns() != wanted) {
    return Fail(Code::kInvalid,
                "the statement has " + std::to_string(wanted) + " parameters, and " +
                    std::to_string(parameters.num_columns()) + " are given",
                {}, wanted == 0 ? "only queries have parameters: write the values into it" : "");
  }
  if (wanted > 0 || rows <= 1) return {};
  return Fail(Code::kInvalid,
              std::to_string(rows) + " rows of parameters are given to a statement that has none",
              {},
              planned.changes ? "send it once for each time that it is to run: what came of each "
                                "is told by its own answer"
                              : "send it once for each time that it is to run");
}

Result<std::unique_ptr<SelectResult>> Executor::RunQuery(
    const PlannedStatement& planned, const std::shared_ptr<arrow::RecordBatch>& parameters,
    const CallContext& call, Duration time_max, const CancelFlag& cancel) {
  LITHIFY_TRY(tokens_.Check(access_, call, cancel));
  CallerTables tables(access_, call, jobs_, cancel);
  SelectLimits limits = Limits();
  limits.time_max = time_max;
  if (!planned.explain) return select_.Run(planned.text, parameters, tables, limits, cancel);
  LITHIFY_TRY_ASSIGN(const auto plan,
                     select_.Explain(planned.explained, parameters, tables, limits, cancel));
  return ResultOf(PlanRows(plan));
}

Result<std::unique_ptr<SelectResult>> Executor::RunRows(
    const PlannedStatement& planned, const std::shared_ptr<arrow::RecordBatch>& parameters,
    const CallContext& call, const CancelFlag& cancel) {
  const Duration time_max = Limits().time_max;
  if (!parameters || parameters->num_rows() <= 1) {
    return RunQuery(planned, parameters, call, time_max, cancel);
  }
  const Duration end = clock_.Monotonic() + time_max;
  const auto run = [this, &planned, parameters, &call, &cancel, time_max,
                    end](int64_t row) -> Result<std::unique_ptr<SelectResult>> {
    if (time_max == Duration::zero()) {
      return RunQuery(planned, parameters->Slice(row, 1), call, time_max, cancel);
    }
    const Duration left = end - clock_.Monotonic();
    if (left <= Duration::zero()) {
      return Fail(Code::kLimit, "all rows together took longer than server.statement_timeout", {},
                  "bind fewer rows at a time");
    }
    return RunQuery(planned, parameters->Slice(row, 1), call, left, cancel);
  };
  return RowByRow::Make(run, parameters->num_rows());
}

Result<std::unique_ptr<SelectResult>> Executor::Run(
    const PlannedStatement& planned, const std::shared_ptr<arrow::RecordBatch>& parameters,
    const CallContext& call, observe::Progress& progress, const CancelFlag& cancel) {
  if (std::holds_alternative<sql::Query>(planned.statement)) {
    return RunRows(planned, parameters, call, cancel);
  }
  if (planned.call) {
    LITHIFY_TRY_ASSIGN(const Rows rows, RunProcedure(*planned.call, planned.explain, access_, call,
                                                     progress, cancel));
    return ResultOf(rows);
  }
  if (std::holds_alternative<sql::ShowJobs>(planned.statement)) {
    return ResultOf(JobRows(jobs_.List(call.caller)));
  }
  if (const auto* job = std::get_if<sql::CancelJob>(&planned.statement)) {
    LITHIFY_TRY(jobs_.Cancel(call.caller, job->id));
    Rows rows(kCancelColumns);
    rows.Add({job->id, std::string("stopping")});
    return ResultOf(rows);
  }
  LITHIFY_TRY_ASSIGN(const Rows rows, RunShow(planned.statement, access_, call, cancel));
  // What was changed was changed.
  if (!planned.changes) LITHIFY_TRY(StillTaken(call));
  return ResultOf(rows);
}

std::vector<observe::AuditResource> Executor::Resources(const PlannedStatement& planned,
                                                        const CallContext& call) const {
  return ResourcesOf(planned, access_, call);
}

std::shared_ptr<arrow::Schema> Executor::QuestionSchema(const flightsql::Command& question) const {
  return Rows(AnswerColumns(question)).schema();
}

Result<std::shared_ptr<arrow::RecordBatch>> Executor::Ask(const flightsql::Command& question,
                                                          const CallContext& call,
                                                          const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const Rows rows, AnswerQuestion(question, access_, call, SchemaBytes, cancel));
  LITHIFY_TRY(StillTaken(call));
  return rows.ToBatch();
}

}  // namespace lithify::serve
