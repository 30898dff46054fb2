#include "serve/status_data.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "job/iceberg_job.h"
#include "job/maintenance_log.h"
#include "plan/maintenance_policy.h"
#include "serve/maintenance.h"
#include "serve/show.h"

namespace lithify::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSnapshotsMax = 200;
constexpr size_t kLogRowsMax = 50;
constexpr auto kLogAge = std::chrono::days(30);
constexpr int64_t kKiB = 1024;

// Names are bytes of whoever made the table.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json TimeOrNull(const std::optional<int64_t>& ms) {
  return ms ? Json(FormatTime(Time(std::chrono::milliseconds(*ms)))) : Json();
}

Json HealthJson(const std::string& name, const plan::TableHealth& health) {
  return {{"name", name},
          {"small_files", health.small_files},
          {"live_data_files", health.live_data_files},
          {"avg_file_bytes", health.avg_file_bytes},
          {"total_bytes", health.total_bytes},
          {"total_records", health.total_records},
          {"delete_files", health.delete_files},
          {"delete_ratio", health.delete_ratio},
          {"eligible_groups", health.eligible_groups},
          {"est_rewrite_bytes", health.est_rewrite_bytes},
          {"opted_in", health.opted_in},
          {"last_compaction", TimeOrNull(health.last_compaction_snapshot_ms)}};
}

// Files by size: below 64 KiB, 256 KiB, … 4 GiB, and all others.
class Histogram {
 public:
  Histogram() {
    constexpr int kBounds = 9;
    for (int64_t bound = 64 * kKiB; bounds_.size() < kBounds; bound *= 4) bounds_.push_back(bound);
    counts_.resize(bounds_.size() + 1);
  }
  void Add(int64_t size, int64_t files) {
    const auto at = std::ranges::upper_bound(bounds_, size);
    counts_[static_cast<size_t>(at - bounds_.begin())] += files;
  }
  const std::vector<int64_t>& bounds() const { return bounds_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  std::vector<int64_t> bounds_;
  std::vector<int64_t> counts_;
};

Json HistogramJson(const job::DebtResult& debt) {
  if (debt.live.data_files.empty()) return {};
  Histogram before;
  for (const iceberg::LiveDataFile& file : debt.live.data_files) before.Add(file.size, 1);
  Histogram after = before;
  for (const plan::FileGroup& group : debt.plan.groups) {
    for (const int32_t file : group.data_files) {
      after.Add(debt.live.data_files[static_cast<size_t>(file)].size, -1);
    }
    // A group without live rows has no output (I26).
    if (group.live_records > 0) after.Add(group.bytes / group.outputs, group.outputs);
  }
  return {{"bounds", before.bounds()}, {"before", before.counts()}, {"after", after.counts()}};
}

// A number of a snapshot's summary, which whoever committed it has written.
std::optional<int64_t> Total(const iceberg::Snapshot& snapshot, const char* key) {
  const auto at = snapshot.summary.find(key);
  if (at == snapshot.summary.end()) return std::nullopt;
  int64_t number = 0;
  const char* end = at->second.data() + at->second.size();
  const auto [read, error] = std::from_chars(at->second.data(), end, number);
  return error == std::errc() && read == end ? std::optional(number) : std::nullopt;
}

Json OrNull(const std::optional<int64_t>& number) { return number ? Json(*number) : Json(); }

Json SnapshotJson(const iceberg::TableMetadata& table, const iceberg::Snapshot& snapshot) {
  Json refs = Json::array();
  for (const auto& [name, ref] : table.refs) {
    if (ref.snapshot_id == snapshot.snapshot_id) refs.push_back(name);
  }
  const auto operation = snapshot.summary.find("operation");
  return {{"snapshot_id", std::to_string(snapshot.snapshot_id)},
          {"committed_at", TimeOrNull(snapshot.timestamp_ms)},
          {"operation", operation != snapshot.summary.end() ? Json(operation->second) : Json()},
          {"is_current", table.current_snapshot_id == snapshot.snapshot_id},
          {"refs", std::move(refs)},
          {"total_data_files", OrNull(Total(snapshot, "total-data-files"))},
          {"total_files_size", OrNull(Total(snapshot, "total-files-size"))},
          {"total_records", OrNull(Total(snapshot, "total-records"))},
          {"total_delete_files", OrNull(Total(snapshot, "total-delete-files"))},
          {"total_position_deletes", Total(snapshot, "total-position-deletes").value_or(0)},
          {"total_equality_deletes", Total(snapshot, "total-equality-deletes").value_or(0)}};
}

// The newest first.
Json SnapshotsJson(const iceberg::TableMetadata& table) {
  std::vector<const iceberg::Snapshot*> newest;
  for (const iceberg::Snapshot& snapshot : table.snapshots) newest.push_back(&snapshot);
  std::ranges::stable_sort(newest, std::ranges::greater(), [](const iceberg::Snapshot* snapshot) {
    return std::pair(snapshot->timestamp_ms, snapshot->sequence_number);
  });
  newest.resize(std::min(newest.size(), kSnapshotsMax));
  Json list = Json::array();
  for (const iceberg::Snapshot* snapshot : newest) list.push_back(SnapshotJson(table, *snapshot));
  return list;
}

std::string Quoted(const std::string& part) {
  std::string out = "\"";
  for (const char c : part) {
    if (c == '"') out += c;
    out += c;
  }
  return out + '"';
}

// All parts quoted, so that whatever is in a name stays a name where the statement is pasted.
std::string OptInStatement(const ResolvedTable& table) {
  std::string name = Quoted(table.catalog);
  for (const std::string& part : table.ident.namespace_parts) name += "." + Quoted(part);
  name += "." + Quoted(table.ident.name);
  return "ALTER TABLE " + name + " SET TBLPROPERTIES ('" +
         std::string(plan::kMaintenancePrefixes.front()) + ".enabled' = 'true')";
}

// What is needed before maintenance touches the table (R023). Its own identity is not known here,
// and never is (R003): what it may do is the catalog's to say.
Json GatesJson(const ResolvedTable& table, const plan::TablePolicy& policy) {
  return {{{"gate", "opt_in"},
           {"state", policy.enabled ? "open" : "closed"},
           {"reason", policy.enabled_reason},
           {"statement", policy.enabled ? Json() : Json(OptInStatement(table))}},
          {{"gate", "grant"},
           {"state", "unknown"},
           {"reason",
            "The principal of maintenance needs a grant of the catalog to write this table. "
            "Callers cannot see it; the last jobs tell whether it could."},
           {"statement", Json()}}};
}

struct ToJson {
  Json operator()(std::monostate) const { return {}; }
  Json operator()(Time time) const { return FormatTime(time); }
  template <typename T>
  Json operator()(const T& value) const {
    return value;
  }
};

// Rows of system.maintenance_plan. `parts`: the namespace, where its name is in the rows.
Json PlanJson(const Rows& rows, const std::map<std::string, std::vector<std::string>>* parts) {
  Json list = Json::array();
  for (const std::vector<Cell>& row : rows.rows()) {
    Json one;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string& column = rows.columns()[i].name;
      const bool of_table = column == "catalog" || column == "namespace" || column == "name";
      if (of_table && parts == nullptr) continue;
      one[column] = column == "namespace" ? Json(parts->at(std::get<std::string>(row[i])))
                                          : std::visit(ToJson(), row[i]);
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json LogJson(std::string state, std::vector<job::LogRow> rows) {
  std::ranges::sort(rows, std::ranges::greater(), &job::LogRow::finished_at_ms);
  rows.resize(std::min(rows.size(), kLogRowsMax));
  Json list = Json::array();
  for (const job::LogRow& row : rows) {
    list.push_back({{"job_id", row.job_id},
                    {"status", row.status},
                    {"started", TimeOrNull(row.started_at_ms)},
                    {"ended", TimeOrNull(row.finished_at_ms)},
                    {"files_in", row.files_in},
                    {"files_out", row.files_out},
                    {"bytes_in", row.bytes_in},
                    {"bytes_out", row.bytes_out},
                    {"rows_removed", row.rows_removed},
                    {"error", row.error ? Json(*row.error) : Json()}});
  }
  return {{"state", std::move(state)}, {"rows", std::move(list)}};
}

// The maintenance log as any other table, read as the caller (R162).
Result<job::LogView> ReadLog(const ResolvedTable& table, const TableAccess& access,
                             const CallContext& call, const CancelFlag& cancel) {
  const catalog::TableIdent ident = job::DefaultLogIdent();
  LITHIFY_TRY_ASSIGN(const auto session, access.Open(table.catalog, "maintenance_log", ident, call,
                                                     [&cancel] { return cancel.requested(); }));
  SystemRandom random;
  job::MaintenanceLog log({.catalog = session->catalog(),
                           .locations = session->locations(),
                           .clock = session->clock(),
                           .random = random},
                          ident);
  const Time oldest = session->clock().Now() - kLogAge;
  job::LogFilter filter;
  filter.leases = false;
  filter.table_name = table.catalog + "." + table.ident.ToString();
  filter.finished_after_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(oldest.time_since_epoch()).count();
  return log.Read(filter, cancel);
}

Result<Json> LogOf(const ResolvedTable& table, const TableAccess& access, const CallContext& call,
                   const CancelFlag& cancel) {
  auto view = ReadLog(table, access, call, cancel);
  if (view) return LogJson("read", std::move(view->rows));
  if (call.token->refused()) return Fail(std::move(view.error()));
  switch (view.error().code) {
    case Code::kCancelled: return Fail(std::move(view.error()));
    case Code::kNotFound: return LogJson("absent", {});
    case Code::kDenied: return LogJson("hidden", {});
    default: return LogJson("failed", {});  // The rest of the page does not depend on it.
  }
}

Json GroupJson(const std::string& catalog, const std::vector<std::string>& namespace_parts) {
  return {{"catalog", catalog}, {"namespace", namespace_parts}, {"tables", Json::array()}};
}

}  // namespace

Result<std::string> StatusData::Tables() const {
  Json groups = Json::array();
  Json unlisted = Json::array();
  for (const std::string& catalog : access_.catalogs()) {
    const auto tables = ListTables(access_, catalog, call_, cancel_);
    if (!tables && tables.error().code == Code::kDenied && !call_.token->refused()) {
      unlisted.push_back(catalog);
      continue;
    }
    if (!tables) return Fail(tables.error());
    const std::vector<std::string>* last = nullptr;  // They come by namespace.
    for (const ResolvedTable& table : *tables) {
      if (last == nullptr || *last != table.ident.namespace_parts) {
        groups.push_back(GroupJson(catalog, table.ident.namespace_parts));
      }
      last = &table.ident.namespace_parts;
      groups.back()["tables"].push_back(table.ident.name);
    }
  }
  return Dump({{"namespaces", std::move(groups)}, {"unlisted", std::move(unlisted)}});
}

Result<std::string> StatusData::TablesIn(const std::string& catalog,
                                         const std::vector<std::string>& namespace_parts) const {
  LITHIFY_TRY_ASSIGN(const auto names, NamesIn(catalog, namespace_parts));
  Json group = GroupJson(catalog, namespace_parts);
  for (const std::string& name : names) group["tables"].push_back(name);
  return Dump({{"namespaces", Json::array({std::move(group)})}, {"unlisted", Json::array()}});
}

Result<std::vector<std::string>> StatusData::NamesIn(
    const std::string& catalog, const std::vector<std::string>& namespace_parts) const {
  LITHIFY_TRY_ASSIGN(const std::string chosen, access_.ChooseCatalog(catalog, call_));
  LITHIFY_TRY_ASSIGN(const auto session, access_.Open(chosen, "show_tables", {}, call_,
                                                      [this] { return cancel_.requested(); }));
  LITHIFY_TRY_ASSIGN(const auto tables, session->catalog().ListTables(namespace_parts));
  std::vector<std::string> names;
  for (const catalog::TableIdent& table : tables) names.push_back(table.name);
  std::ranges::sort(names);
  return names;
}

Result<std::string> StatusData::Health(const Batch& batch) const {
  LITHIFY_TRY_ASSIGN(auto names, NamesIn(batch.catalog, batch.namespace_parts));
  if (batch.after) names.erase(names.begin(), std::ranges::upper_bound(names, *batch.after));
  const std::string& catalog = batch.catalog;
  const auto stop = [this] { return cancel_.requested(); };
  const bool more = names.size() > batch.limit;
  if (more) names.resize(batch.limit);
  Json list = Json::array();
  for (const std::string& name : names) {
    LITHIFY_TRY(cancel_.Check());
    const ResolvedTable table{catalog, {batch.namespace_parts, name}};
    const auto look = [&]() -> Result<job::HealthResult> {
      LITHIFY_TRY_ASSIGN(const auto session,
                         access_.Open(catalog, "table_health", table.ident, call_, stop));
      const auto progress = observe::MakeSilentProgress();
      plan::RewriteOptions options;
      options.target_file_size_bytes = 0;  // The table's own.
      return session->MakeJob(*progress, call_.caller.name).GetTableHealth(table.ident, options);
    };
    const auto health = look();
    if (health) {
      list.push_back(HealthJson(name, health->health));
      continue;
    }
    if (call_.token->refused() || cancel_.requested()) return Fail(health.error());
    // A table that went meanwhile, or that the caller may list and not load; else it is broken.
    list.push_back({{"name", name}, {"error", CodeName(health.error().code)}});
  }
  return Dump({{"tables", std::move(list)}, {"next", more ? Json(names.back()) : Json()}});
}

Result<std::string> StatusData::Table(const ResolvedTable& table) const {
  LITHIFY_TRY_ASSIGN(const std::string catalog, access_.ChooseCatalog(table.catalog, call_));
  LITHIFY_TRY_ASSIGN(const auto session, access_.Open(catalog, "table_health", table.ident, call_,
                                                      [this] { return cancel_.requested(); }));
  const auto progress = observe::MakeSilentProgress();
  auto job = session->MakeJob(*progress, call_.caller.name);
  LITHIFY_TRY_ASSIGN(const auto loaded, session->catalog().LoadTable(table.ident));
  const plan::TablePolicy policy =
      plan::ResolvePolicy(loaded.metadata.properties, plan::MaintenanceDefaults(), std::nullopt);
  LITHIFY_TRY_ASSIGN(const auto debt,
                     job.GetTableDebt(table.ident, plan::RewriteOptionsOf(policy)));
  LITHIFY_TRY_ASSIGN(const Rows planned, PlanTableMaintenance(table, access_, call_, cancel_));
  LITHIFY_TRY_ASSIGN(Json log, LogOf(table, access_, call_, cancel_));
  return Dump({{"catalog", table.catalog},
               {"namespace", table.ident.namespace_parts},
               {"name", table.ident.name},
               {"health", HealthJson(table.ident.name, debt.health.health)},
               {"histogram", HistogramJson(debt)},
               {"snapshots", SnapshotsJson(debt.metadata)},
               {"snapshots_total", debt.metadata.snapshots.size()},
               {"gates", GatesJson(table, policy)},
               {"plan", PlanJson(planned, nullptr)},
               {"log", std::move(log)}});
}

Result<std::string> StatusData::Plan() const {
  LITHIFY_TRY_ASSIGN(const Rows rows, PlanMaintenance(access_, call_, cancel_));
  std::map<std::string, std::vector<std::string>> parts;
  for (const std::vector<Cell>& row : rows.rows()) {
    const auto& name = std::get<std::string>(row[1]);
    if (parts.contains(name)) continue;
    // Quoted where needed, as a table's name is.
    LITHIFY_TRY_ASSIGN(auto ident, catalog::ParseTableIdent(name + ".x"));
    parts[name] = std::move(ident.namespace_parts);
  }
  return Dump({{"plan", PlanJson(rows, &parts)}});
}

std::string JobsJson(const std::vector<JobInfo>& jobs, Time now) {
  Json list = Json::array();
  for (const JobInfo& job : jobs) {
    list.push_back({{"id", job.id},
                    {"procedure", job.procedure},
                    {"table", job.table},
                    {"state", JobStateName(job.state)},
                    {"cancel_requested", job.cancel_requested},
                    {"bytes_total", job.bytes_total},
                    {"bytes_done", job.bytes_done},
                    {"items_total", job.items_total},
                    {"items_done", job.items_done},
                    {"message", job.message},
                    {"started", FormatTime(job.started)},
                    {"finished", job.finished ? Json(FormatTime(*job.finished)) : Json()},
                    {"error", job.error}});
  }
  return Dump({{"now", FormatTime(now)}, {"jobs", std::move(list)}});
}

}  // namespace lithify::serve
