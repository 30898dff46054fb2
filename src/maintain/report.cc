#include "maintain/report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace lithify::maintain {
namespace {

using Json = nlohmann::ordered_json;

Json OfTable(const TableReport& table) {
  Json one;
  one["table"] = table.table;
  one["gate"] = TableGateName(table.gate);
  one["gate_reason"] = table.gate_reason;
  if (!table.due.empty()) {
    one["due"] = table.due;
    one["reason"] = table.reason;
  }
  if (table.next) one["next"] = FormatTime(*table.next);
  if (table.small_files) one["small_files"] = *table.small_files;
  if (table.data_files) one["data_files"] = *table.data_files;
  if (table.file_bytes_average) one["file_bytes_average"] = *table.file_bytes_average;
  if (table.seen) one["seen"] = FormatTime(*table.seen);
  if (table.delete_files) one["delete_files"] = *table.delete_files;
  if (table.est_rewrite_bytes) one["est_rewrite_bytes"] = *table.est_rewrite_bytes;
  if (!table.warnings.empty()) one["warnings"] = table.warnings;
  return one;
}

Json OfPlan(const PlanLine& line) {
  Json one;
  one["table"] = line.table;
  one["partition"] = line.partition;
  one["kind"] = line.kind;
  one["verdict"] = line.verdict;
  one["reason"] = line.reason;
  one["rank"] = line.rank;
  one["score"] = line.score;
  one["files"] = line.files;
  one["bytes"] = line.bytes;
  one["outputs"] = line.outputs;
  one["delete_rows"] = line.delete_rows;
  one["expected_saved_seconds"] = line.expected_saved_seconds;
  one["compute_seconds"] = line.compute_seconds;
  one["reads_per_day"] = line.reads_per_day;
  one["survival"] = line.survival;
  one["waiting_seconds"] = line.waiting_seconds;
  one["life_days"] = line.life_days;
  if (line.files_per_key) one["files_per_key"] = *line.files_per_key;
  if (line.files_per_key_after) one["files_per_key_after"] = *line.files_per_key_after;
  return one;
}

Json OfJob(const JobLine& job) {
  Json one;
  one["job_id"] = job.job_id;
  one["table"] = job.table;
  one["procedure"] = job.procedure;
  one["status"] = job.status;
  one["reason"] = job.reason;
  one["files_in"] = job.files_in;
  one["files_out"] = job.files_out;
  one["bytes_in"] = job.bytes_in;
  one["bytes_out"] = job.bytes_out;
  one["rows_removed"] = job.rows_removed;
  one["snapshot_id"] = job.snapshot_id ? Json(*job.snapshot_id) : Json();
  one["predicted_seconds"] = job.predicted_seconds;
  one["actual_seconds"] = job.actual_seconds;
  one["started"] = FormatTime(job.started);
  one["ended"] = FormatTime(job.ended);
  return one;
}

template <typename T, typename F>
Json ListOf(const std::vector<T>& items, const F& make) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(make(item));
  return list;
}

template <typename T>
std::optional<T> Optional(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

Time ToTime(const Json& object, const char* key) {
  const auto time = ParseTime(object.at(key).get<std::string>());
  if (!time) throw std::runtime_error(std::string(key) + ": " + time.error().ToString());
  return *time;
}

TableReport ToTable(const Json& one) {
  TableReport table;
  table.table = one.at("table");
  const std::string gate = one.at("gate");
  for (const TableGate known :
       {TableGate::kOptedIn, TableGate::kNotOptedIn, TableGate::kUnreadable, TableGate::kGone}) {
    if (TableGateName(known) == gate) table.gate = known;
  }
  table.gate_reason = one.at("gate_reason");
  table.due = one.value("due", "");
  table.reason = one.value("reason", "");
  if (one.contains("next")) table.next = ToTime(one, "next");
  table.small_files = Optional<int64_t>(one, "small_files");
  table.data_files = Optional<int64_t>(one, "data_files");
  table.file_bytes_average = Optional<int64_t>(one, "file_bytes_average");
  if (one.contains("seen")) table.seen = ToTime(one, "seen");
  table.delete_files = Optional<int64_t>(one, "delete_files");
  table.est_rewrite_bytes = Optional<int64_t>(one, "est_rewrite_bytes");
  table.warnings = one.value("warnings", std::vector<std::string>());
  return table;
}

PlanLine ToPlan(const Json& one) {
  return {.table = one.at("table"),
          .partition = one.at("partition"),
          .kind = one.at("kind"),
          .verdict = one.at("verdict"),
          .reason = one.at("reason"),
          .rank = one.at("rank"),
          .score = one.at("score"),
          .files = one.at("files"),
          .bytes = one.at("bytes"),
          .outputs = one.at("outputs"),
          .delete_rows = one.at("delete_rows"),
          .expected_saved_seconds = one.at("expected_saved_seconds"),
          .compute_seconds = one.at("compute_seconds"),
          .reads_per_day = one.at("reads_per_day"),
          .survival = one.at("survival"),
          .waiting_seconds = one.at("waiting_seconds"),
          .life_days = one.value("life_days", 0.0),
          .files_per_key = Optional<double>(one, "files_per_key"),
          .files_per_key_after = Optional<double>(one, "files_per_key_after")};
}

JobLine ToJob(const Json& one) {
  return {.job_id = one.at("job_id"),
          .table = one.at("table"),
          .procedure = one.at("procedure"),
          .status = one.at("status"),
          .reason = one.at("reason"),
          .files_in = one.at("files_in"),
          .files_out = one.at("files_out"),
          .bytes_in = one.at("bytes_in"),
          .bytes_out = one.at("bytes_out"),
          .rows_removed = one.at("rows_removed"),
          .snapshot_id = Optional<int64_t>(one, "snapshot_id"),
          .predicted_seconds = one.at("predicted_seconds"),
          .actual_seconds = one.at("actual_seconds"),
          .started = ToTime(one, "started"),
          .ended = ToTime(one, "ended")};
}

}  // namespace

std::string_view TableGateName(TableGate gate) {
  switch (gate) {
    case TableGate::kOptedIn: return "opted_in";
    case TableGate::kNotOptedIn: return "not_opted_in";
    case TableGate::kUnreadable: return "unreadable";
    case TableGate::kGone: return "gone";
  }
  return "unreadable";
}

PlanLine LineOf(std::string table, std::string_view kind,
                const plan::MaintenanceCandidate& candidate,
                const plan::MaintenanceDecision& decision) {
  const auto& keys = candidate.files_per_key;
  return {.table = std::move(table),
          .partition = candidate.partition,
          .kind = std::string(kind),
          .verdict = std::string(plan::MaintenanceVerdictName(decision.verdict)),
          .reason = decision.reason,
          .rank = decision.rank,
          .score = decision.score,
          .files = candidate.files_in,
          .bytes = candidate.bytes_in,
          .outputs = candidate.outputs,
          .delete_rows = candidate.delete_rows,
          .expected_saved_seconds = decision.expected_saved_seconds,
          .compute_seconds = decision.compute_seconds,
          .reads_per_day = decision.reads_per_day,
          .survival = decision.survival,
          .waiting_seconds = candidate.waiting_seconds,
          .life_days = decision.life_days,
          .files_per_key = keys ? std::optional(keys->before) : std::nullopt,
          .files_per_key_after = keys ? std::optional(keys->after) : std::nullopt};
}

std::string ReportJson(const TickReport& report, const observe::Metrics* metrics) {
  Json out;
  out["mode"] = report.mode;
  out["catalog"] = report.catalog;
  out["principal"] = report.principal;
  if (!report.limits.empty()) out["limits"] = report.limits;
  out["began"] = FormatTime(report.began);
  out["ended"] = FormatTime(report.ended);
  out["error"] = report.error ? Json(report.error->ToString()) : Json();
  out["loud"] = ListOf(report.loud, [](const LoudLine& line) {
    return Json{{"what", line.what}, {"where", line.where}, {"why", line.why}, {"next", line.next}};
  });
  out["tables"] = ListOf(report.tables, OfTable);
  out["plan"] = ListOf(report.plan, OfPlan);
  out["jobs"] = ListOf(report.jobs, OfJob);
  out["warnings"] = report.warnings;
  if (metrics != nullptr) out["metrics"] = Json::parse(observe::MetricsJson(*metrics));
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<TickReport> ParseReport(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    TickReport report;
    report.mode = json.at("mode");
    report.catalog = json.at("catalog");
    report.principal = json.at("principal");
    report.limits = json.value("limits", "");
    report.began = ToTime(json, "began");
    report.ended = ToTime(json, "ended");
    if (const auto error = Optional<std::string>(json, "error")) {
      report.error = Error{Code::kInternal, *error, {}, {}};
    }
    for (const Json& line : json.at("loud")) {
      report.loud.push_back({.what = line.at("what"),
                             .where = line.at("where"),
                             .why = line.at("why"),
                             .next = line.at("next")});
    }
    for (const Json& one : json.at("tables")) report.tables.push_back(ToTable(one));
    for (const Json& one : json.at("plan")) report.plan.push_back(ToPlan(one));
    for (const Json& one : json.at("jobs")) report.jobs.push_back(ToJob(one));
    report.warnings = json.at("warnings").get<std::vector<std::string>>();
    return report;
  } catch (const std::exception& e) {
    return Fail(Code::kCorrupt, std::string("no report of maintenance: ") + e.what());
  }
}

}  // namespace lithify::maintain
