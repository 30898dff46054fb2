#include "serve/maintenance.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "job/iceberg_job.h"
#include "job/maintenance_candidates.h"
#include "job/table_looks.h"
#include "plan/maintenance_plan.h"
#include "plan/maintenance_policy.h"
#include "serve/show.h"

namespace lithify::serve {
namespace {

using enum ColumnType;

const std::vector<Column> kPlanColumns = {
    {"catalog", kText, false},
    {"namespace", kText, false},
    {"name", kText, false},
    {"partition", kText, true},
    {"kind", kText, false},
    {"verdict", kText, false},
    {"reason", kText, false},
    {"rank", kInt, true},
    {"score", kDouble, true},
    {"files", kInt, false},
    {"bytes", kInt, false},
    {"outputs", kInt, false},
    {"delete_rows", kInt, false},
    {"saved_seconds", kDouble, false},
    {"compute_seconds", kDouble, false},
    {"reads_per_day", kDouble, false},
    {"survival", kDouble, false},
};

const std::vector<Column> kRunColumns = {
    {"table", kText, false},     {"status", kText, false},         {"reason", kText, false},
    {"partitions", kInt, false}, {"files_rewritten", kInt, false}, {"files_added", kInt, false},
    {"bytes_in", kInt, false},   {"bytes_out", kInt, false},       {"rows_removed", kInt, false},
    {"snapshot_id", kInt, true}, {"job_id", kText, true},
};

struct OptedIn {
  ResolvedTable table;
  plan::TablePolicy policy;
  std::optional<Error> error;                          // It could not be looked into.
  std::vector<iceberg::PartitionKey> partitions = {};  // Of its candidates.
  size_t first = 0;                                    // Of its candidates, in those of all.
  size_t count = 0;
};

// The opted-in tables that a caller sees, and what there is to do in them.
class Round {
 public:
  Round(const TableAccess& access, const CallContext& call, const CancelFlag& cancel)
      : access_(access), call_(call), cancel_(cancel) {}

  // `only`: this table alone, whether it is opted in or not.
  Status Look(const std::string& catalog, const std::optional<ResolvedTable>& only) {
    if (only) return Look(*only);
    job::LookRequest request;
    LITHIFY_TRY_ASSIGN(const auto session,
                       access_.Open(catalog, "run_maintenance", {}, call_, Stop()));
    LITHIFY_TRY_ASSIGN(const auto looks, job::LookAtTables(session->catalog(), request, cancel_));
    for (const job::NamespaceLook& look : looks) {
      for (const job::TableLook& table : look.tables) {
        // Of what the caller may not see nothing is told.
        if (table.error) continue;
        const auto policy =
            plan::ResolvePolicy(table.properties, plan::MaintenanceDefaults(), std::nullopt);
        if (policy.enabled) LITHIFY_TRY(Add({catalog, table.ident}, policy));
      }
    }
    return {};
  }

  void Rank() {
    plan_ =
        plan::PlanMaintenance(candidates_, plan::MaintenanceOptions(), plan::MaintenancePriors());
  }

  std::function<bool()> Stop() const {
    return [this] { return cancel_.requested(); };
  }

  const std::vector<OptedIn>& tables() const { return tables_; }
  const std::vector<plan::MaintenanceCandidate>& candidates() const { return candidates_; }
  const plan::MaintenancePlan& plan() const { return plan_; }

 private:
  Status Look(const ResolvedTable& only) {
    LITHIFY_TRY_ASSIGN(const auto session,
                       access_.Open(only.catalog, "run_maintenance", only.ident, call_, Stop()));
    LITHIFY_TRY_ASSIGN(const auto loaded, session->catalog().LoadTable(only.ident));
    return Add(only, plan::ResolvePolicy(loaded.metadata.properties, plan::MaintenanceDefaults(),
                                         std::nullopt));
  }

  Status Add(ResolvedTable table, plan::TablePolicy policy) {
    LITHIFY_TRY(cancel_.Check());
    OptedIn one{.table = std::move(table), .policy = std::move(policy), .error = {}};
    one.first = candidates_.size();
    auto debt = Debt(one);
    if (!debt && call_.token->refused()) return Fail(std::move(debt.error()));
    if (debt) {
      const TableName name{one.table};
      for (plan::MaintenanceCandidate& candidate : debt->At(debt->looked_at, {})) {
        candidate.name_space = name.name_space;
        candidates_.push_back(std::move(candidate));
      }
      one.partitions = std::move(debt->partitions);
      one.count = candidates_.size() - one.first;
    } else {
      one.error = std::move(debt.error());
    }
    tables_.push_back(std::move(one));
    return {};
  }

  // Tables of two catalogs may have one name.
  struct TableName {
    explicit TableName(const ResolvedTable& table)
        : name_space(table.catalog + "." + catalog::NamespaceName(table.ident.namespace_parts)) {}
    std::string name_space;
  };

  Result<job::TableDebt> Debt(const OptedIn& one) {
    LITHIFY_TRY_ASSIGN(const auto session, access_.Open(one.table.catalog, "table_health",
                                                        one.table.ident, call_, Stop()));
    const auto progress = observe::MakeSilentProgress();
    auto job = session->MakeJob(*progress, call_.caller.name);
    return job::LoadTableDebt(job, one.table.ident, plan::RewriteOptionsOf(one.policy),
                              session->clock());
  }

  const TableAccess& access_;
  const CallContext& call_;
  const CancelFlag& cancel_;
  std::vector<OptedIn> tables_;
  std::vector<plan::MaintenanceCandidate> candidates_;
  plan::MaintenancePlan plan_;
};

// Of all candidates of the table, the one that is nearest to being worth it.
const plan::MaintenanceDecision* Best(const Round& round, const OptedIn& table) {
  const plan::MaintenanceDecision* best = nullptr;
  for (size_t i = table.first; i < table.first + table.count; ++i) {
    const plan::MaintenanceDecision& decision = round.plan().decisions[i];
    if (best == nullptr || decision.score > best->score) best = &decision;
  }
  return best;
}

// Its candidates as rows, in the order in which they would be run.
Rows PlanRows(const Round& round) {
  struct Line {
    const OptedIn* table;
    size_t candidate;
  };
  std::vector<Line> lines;
  for (const OptedIn& table : round.tables()) {
    for (size_t i = table.first; i < table.first + table.count; ++i) lines.push_back({&table, i});
  }
  std::ranges::sort(lines, [&](const Line& a, const Line& b) {
    const auto key = [&](const Line& line) {
      const int64_t rank = round.plan().decisions[line.candidate].rank;
      return std::tuple(rank == 0, rank, line.table->table.catalog,
                        line.table->table.ident.ToString(), line.candidate);
    };
    return key(a) < key(b);
  });
  Rows rows(kPlanColumns);
  for (const Line& line : lines) {
    const plan::MaintenanceCandidate& candidate = round.candidates()[line.candidate];
    const plan::MaintenanceDecision& decision = round.plan().decisions[line.candidate];
    rows.Add(
        {line.table->table.catalog, catalog::NamespaceName(line.table->table.ident.namespace_parts),
         line.table->table.ident.name,
         candidate.partition.empty() ? Cell() : Cell(candidate.partition),
         std::string(plan::MaintenanceKindName(candidate.kind)),
         std::string(plan::MaintenanceVerdictName(decision.verdict)), decision.reason,
         decision.rank > 0 ? Cell(decision.rank) : Cell(),
         decision.rank > 0 ? Cell(decision.score) : Cell(), candidate.files_in, candidate.bytes_in,
         candidate.outputs, candidate.delete_rows, decision.expected_saved_seconds,
         decision.compute_seconds, decision.reads_per_day, decision.survival});
  }
  return rows;
}

class RunOfTable {
 public:
  RunOfTable(const Round& round, const TableAccess& access, const CallContext& call,
             observe::Progress& progress, const CancelFlag& cancel)
      : round_(round), access_(access), call_(call), progress_(progress), cancel_(cancel) {}

  std::vector<Cell> Go(const OptedIn& table, bool dry_run) {
    const std::string name = table.table.ident.ToString();
    const auto skipped = [&](const std::string& status, const std::string& why) {
      return std::vector<Cell>{name,       status,     why,        int64_t{0},
                               int64_t{0}, int64_t{0}, int64_t{0}, int64_t{0},
                               int64_t{0}, Cell(),     Cell()};
    };
    if (table.error) return skipped("failed", table.error->ToString());
    if (!table.policy.enabled) return skipped("skipped", table.policy.enabled_reason);
    const plan::MaintenanceJob* planned = nullptr;
    for (const plan::MaintenanceJob& job : round_.plan().jobs) {
      const size_t first = job.candidates.front();
      if (first >= table.first && first < table.first + table.count) planned = &job;
    }
    if (planned == nullptr) {
      const auto* best = Best(round_, table);
      return skipped("skipped", best != nullptr ? best->reason : std::string("the table is empty"));
    }
    const auto partitions = static_cast<int64_t>(planned->candidates.size());
    if (dry_run) {
      const auto* best = Best(round_, table);
      return {name,       std::string("planned"), best->reason, partitions, planned->files,
              int64_t{0}, planned->bytes,         int64_t{0},   int64_t{0}, Cell(),
              Cell()};
    }
    auto done = Rewrite(table, *planned);
    if (!done) return skipped("failed", done.error().ToString());
    return {name,
            std::string(job::RewriteStatusName(done->status)),
            done->reason,
            partitions,
            done->files_rewritten,
            done->files_added,
            done->bytes_in,
            done->bytes_out,
            done->rows_removed,
            done->snapshot_id ? Cell(*done->snapshot_id) : Cell(),
            done->job_id};
  }

 private:
  Result<job::RewriteResult> Rewrite(const OptedIn& table, const plan::MaintenanceJob& planned) {
    LITHIFY_TRY(cancel_.Check());
    LITHIFY_TRY(access_.CheckToken(call_));
    LITHIFY_TRY_ASSIGN(const auto session, access_.Open(table.table.catalog, "rewrite_data_files",
                                                        table.table.ident, call_, round_.Stop()));
    job::RewriteRequest request;
    request.ident = table.table.ident;
    request.options = plan::RewriteOptionsOf(table.policy);
    request.options.only_partitions.emplace();
    for (const size_t candidate : planned.candidates) {
      request.options.only_partitions->push_back(table.partitions[candidate - table.first]);
    }
    return session->MakeJob(progress_, call_.caller.name).RewriteDataFiles(request, cancel_);
  }

  const Round& round_;
  const TableAccess& access_;
  const CallContext& call_;
  observe::Progress& progress_;
  const CancelFlag& cancel_;
};

}  // namespace

const std::vector<Column>& MaintenancePlanColumns() { return kPlanColumns; }
const std::vector<Column>& MaintenanceRunColumns() { return kRunColumns; }

Result<Rows> PlanMaintenance(const TableAccess& access, const CallContext& call,
                             const CancelFlag& cancel) {
  Round round(access, call, cancel);
  for (const std::string& catalog : access.catalogs()) {
    LITHIFY_TRY(round.Look(catalog, std::nullopt));
  }
  round.Rank();
  return PlanRows(round);
}

Result<Rows> PlanTableMaintenance(const ResolvedTable& table, const TableAccess& access,
                                  const CallContext& call, const CancelFlag& cancel) {
  Round round(access, call, cancel);
  LITHIFY_TRY(round.Look(table.catalog, table));
  round.Rank();
  return PlanRows(round);
}

Result<Rows> RunMaintenance(const sql::BoundCall& bound, bool explain, const TableAccess& access,
                            const CallContext& call, observe::Progress& progress,
                            const CancelFlag& cancel) {
  const bool dry_run = explain || bound.Boolean("dry_run").value_or(false);
  CallContext at = call;
  if (!bound.catalog().empty()) at.catalog = bound.catalog();
  std::optional<ResolvedTable> only;
  if (const auto named = bound.Table()) {
    LITHIFY_TRY_ASSIGN(only, access.Resolve(named->parts, at));
  }
  LITHIFY_TRY_ASSIGN(const std::string catalog, access.ChooseCatalog(at.catalog, at));
  if (!dry_run) LITHIFY_TRY(access.CheckToken(call));
  Round round(access, call, cancel);
  LITHIFY_TRY(round.Look(only ? only->catalog : catalog, only));
  round.Rank();
  // In the order of the plan, so that what is worth most is done if the call is stopped.
  std::vector<const OptedIn*> order;
  for (const plan::MaintenanceJob& job : round.plan().jobs) {
    for (const OptedIn& table : round.tables()) {
      const size_t first = job.candidates.front();
      const bool is_its = first >= table.first && first < table.first + table.count;
      if (is_its && std::ranges::find(order, &table) == order.end()) order.push_back(&table);
    }
  }
  for (const OptedIn& table : round.tables()) {
    if (std::ranges::find(order, &table) == order.end()) order.push_back(&table);
  }
  RunOfTable run(round, access, call, progress, cancel);
  Rows rows(kRunColumns);
  for (const OptedIn* table : order) {
    LITHIFY_TRY(cancel.Check());
    rows.Add(run.Go(*table, dry_run));
  }
  return rows;
}

}  // namespace lithify::serve
