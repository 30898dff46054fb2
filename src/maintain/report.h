// What one tick of the scheduler saw and did, for `lithify maintain status`, logs and pages.
// Values.
#ifndef LITHIFY_MAINTAIN_REPORT_H_
#define LITHIFY_MAINTAIN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "observe/metrics.h"
#include "plan/maintenance_plan.h"

namespace lithify::maintain {

// What must not go unnoticed (R025, T3): each is an audit event, a count and a line of its own, at
// every tick at which it still holds.
struct LoudLine {
  std::string what =
      {};  // "no_grant", "unreadable_namespace", "unreadable_table", "no_credential", ….
  std::string where = {};  // A namespace or table; empty: everything.
  std::string why = {};
  std::string next = {};  // What to do about it, in the catalog's terms.
};

// The gates of one table (R023), as far as this identity may see.
enum class TableGate {
  kOptedIn,
  kNotOptedIn,
  kUnreadable,  // It could not be loaded: nobody knows whether it is opted in.
  kGone,        // The catalog listed it, and then said that it is not there.
};
std::string_view TableGateName(TableGate gate);  // "opted_in".

struct TableReport {
  std::string table = {};  // "lake.sales.orders".
  TableGate gate = TableGate::kNotOptedIn;
  std::string gate_reason = {};
  std::string due = {};     // DueName(); empty: not asked.
  std::string reason = {};  // Of it.
  std::optional<Time> next = {};
  // Of tables that were looked into at this tick; of those that a caller touched what the summary
  // of their snapshot says, which small files are not in.
  std::optional<int64_t> small_files = {};
  std::optional<int64_t> data_files = {};
  std::optional<int64_t> file_bytes_average = {};
  std::optional<int64_t> delete_files = {};
  std::optional<int64_t> est_rewrite_bytes = {};
  std::optional<Time> seen = {};           // When a caller touched it.
  std::vector<std::string> warnings = {};  // Of properties.
};

// A candidate and its verdict: the rows of system.maintenance_plan.
struct PlanLine {
  std::string table = {};
  std::string partition = {};
  std::string kind = {};
  std::string verdict = {};
  std::string reason = {};
  int64_t rank = 0;  // 0: not ranked.
  double score = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t outputs = 0;
  int64_t delete_rows = 0;
  double expected_saved_seconds = 0;
  double compute_seconds = 0;
  double reads_per_day = 0;
  double survival = 0;
  double waiting_seconds = 0;
  double life_days = 0;  // For so long its gain is counted.
  // Files that a read by key opens; unset: there is no sort order.
  std::optional<double> files_per_key = {};
  std::optional<double> files_per_key_after = {};
};

PlanLine LineOf(std::string table, std::string_view kind,
                const plan::MaintenanceCandidate& candidate,
                const plan::MaintenanceDecision& decision);

struct JobLine {
  std::string job_id = {};
  std::string table = {};
  std::string procedure = {};
  std::string status = {};  // As in the maintenance log: "success", "failed", "skipped", "partial".
  std::string reason = {};
  int64_t files_in = 0;
  int64_t files_out = 0;
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  int64_t rows_removed = 0;
  std::optional<int64_t> snapshot_id = {};
  double predicted_seconds = 0;  // Of all threads together.
  double actual_seconds = 0;
  Time started = {};
  Time ended = {};
};

struct TickReport {
  std::string mode = {};
  std::string catalog = {};
  std::string principal = {};  // Empty: nobody; no request is made.
  // Of what it knows nothing, if that is much: without a principal it knows what callers touched.
  std::string limits = {};
  Time began = {};
  Time ended = {};
  std::optional<Error> error = {};  // Why the tick saw nothing.
  std::vector<LoudLine> loud = {};
  std::vector<TableReport> tables = {};
  std::vector<PlanLine> plan = {};
  std::vector<JobLine> jobs = {};
  std::vector<std::string> warnings = {};
};

// One JSON object; `metrics` may be null.
std::string ReportJson(const TickReport& report, const observe::Metrics* metrics);
// The report back, without the error's code. kCorrupt for what is none.
Result<TickReport> ParseReport(std::string_view json);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_REPORT_H_
