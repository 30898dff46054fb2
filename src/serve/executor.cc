#include "serve/executor.h"

#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <utility>

#include "serve/procedures.h"
#include "serve/rows.h"
#include "serve/show.h"

namespace lithify::serve {
namespace {

using Reader = std::shared_ptr<arrow::RecordBatchReader>;

const std::vector<Column> kJobColumns = {
    {"job_id", ColumnType::kText, false},     {"procedure", ColumnType::kText, false},
    {"table", ColumnType::kText, false},      {"state", ColumnType::kText, false},
    {"started_at", ColumnType::kTime, false}, {"finished_at", ColumnType::kTime, true},
    {"bytes_done", ColumnType::kInt, false},  {"bytes_total", ColumnType::kInt, false},
    {"items_done", ColumnType::kInt, false},  {"items_total", ColumnType::kInt, false},
    {"message", ColumnType::kText, true},     {"error", ColumnType::kText, true},
};
const std::vector<Column> kCancelColumns = {{"job_id", ColumnType::kText, false},
                                            {"status", ColumnType::kText, false}};

Result<Reader> ReaderOf(const Rows& rows) {
  LITHIFY_TRY_ASSIGN(auto batch, rows.ToBatch());
  auto reader = arrow::RecordBatchReader::Make({std::move(batch)}, rows.schema());
  if (!reader.ok()) return Fail(Code::kInternal, reader.status().ToString());
  return *std::move(reader);
}

Cell OrNull(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

bool IsAlter(const sql::Statement& statement) {
  return std::holds_alternative<sql::SetProperties>(statement) ||
         std::holds_alternative<sql::UnsetProperties>(statement);
}

// A success counts for nothing if the catalog stopped taking the token on the way: what was hidden
// must not look like what is not there.
Status StillTaken(const CallContext& call) {
  if (!call.token->refused()) return {};
  return Fail(Code::kDenied, "the catalog does not take the caller's token");
}

}  // namespace

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

Result<std::shared_ptr<const PlannedStatement>> Executor::Plan(std::string_view text,
                                                               const CallContext& call,
                                                               const CancelFlag& /*cancel*/) {
  const auto bytes_max = static_cast<size_t>(access_.config().server.request_bytes_max);
  if (text.size() > bytes_max) {
    return Fail(Code::kLimit, "the statement is longer than allowed", "server.request_bytes_max");
  }
  auto planned = std::make_shared<PlannedStatement>();
  LITHIFY_TRY_ASSIGN(planned->statement, sql::Parse(text));
  planned->text = text;
  const sql::Statement& statement = planned->statement;
  if (std::holds_alternative<sql::Query>(statement)) {
    return Fail(Code::kUnsupported, "SELECT is not there yet");
  }
  if (const auto* run = std::get_if<sql::Call>(&statement)) {
    LITHIFY_TRY(PlanCall(*run, false, *planned));
  } else if (const auto* explain = std::get_if<sql::ExplainCall>(&statement)) {
    LITHIFY_TRY(PlanCall(explain->call, true, *planned));
  } else if (std::holds_alternative<sql::ShowJobs>(statement)) {
    planned->result = Rows(kJobColumns).schema();
  } else if (std::holds_alternative<sql::CancelJob>(statement)) {
    planned->result = Rows(kCancelColumns).schema();
  } else {
    planned->result = Rows(ShowColumns(statement)).schema();
    planned->changes = IsAlter(statement);
  }
  LITHIFY_TRY(StillTaken(call));
  return planned;
}

Result<Reader> Executor::Run(const PlannedStatement& planned,
                             const std::shared_ptr<arrow::RecordBatch>& /*parameters*/,
                             const CallContext& call, observe::Progress& progress,
                             const CancelFlag& cancel) {
  if (planned.call) {
    LITHIFY_TRY_ASSIGN(const Rows rows, RunProcedure(*planned.call, planned.explain, access_, call,
                                                     progress, cancel));
    return ReaderOf(rows);
  }
  if (std::holds_alternative<sql::ShowJobs>(planned.statement)) {
    return ReaderOf(JobRows(jobs_.List(call.caller)));
  }
  if (const auto* job = std::get_if<sql::CancelJob>(&planned.statement)) {
    LITHIFY_TRY(jobs_.Cancel(call.caller, job->id));
    Rows rows(kCancelColumns);
    rows.Add({job->id, std::string("stopping")});
    return ReaderOf(rows);
  }
  LITHIFY_TRY_ASSIGN(const Rows rows, RunShow(planned.statement, access_, call, cancel));
  LITHIFY_TRY(StillTaken(call));
  return ReaderOf(rows);
}

std::shared_ptr<arrow::Schema> Executor::QuestionSchema(const flightsql::Command& question) const {
  return Rows(AnswerColumns(question)).schema();
}

Result<Reader> Executor::Ask(const flightsql::Command& question, const CallContext& call,
                             const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const Rows rows, AnswerQuestion(
                                          question, access_, call,
                                          [](const iceberg::Schema&) -> Result<std::string> {
                                            return Fail(Code::kUnsupported, "x");
                                          },
                                          cancel));
  LITHIFY_TRY(StillTaken(call));
  return ReaderOf(rows);
}

}  // namespace lithify::serve
