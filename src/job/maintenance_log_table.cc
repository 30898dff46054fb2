// The table of the maintenance log itself: how it is made, what it must look like, how it is kept
// small.
#include <algorithm>
#include <chrono>
#include <utility>

#include "commit/iceberg_commit.h"
#include "job/maintenance_log.h"
#include "job/maintenance_log_columns.h"
#include "table/iceberg_value.h"

namespace lithify::job {
namespace {

// A day of finished_at_ms is a partition.
constexpr const char* kDayTransform = "truncate[86400000]";

// What makes the reader of a lease read little, however old the table is: small files, few
// snapshots, few old metadata files.
const std::map<std::string, std::string>& TableProperties() {
  static const std::map<std::string, std::string> properties = {
      {"history.expire.max-snapshot-age-ms", "1800000"},
      {"history.expire.min-snapshots-to-keep", "5"},
      {"write.metadata.delete-after-commit.enabled", "true"},
      {"write.metadata.previous-versions-max", "10"},
      {"write.parquet.compression-codec", "zstd"},
      {"write.target-file-size-bytes", "524288"},
      {"comment", "What maintenance did, and the leases of its coordinators"}};
  return properties;
}

catalog::TableDraft Draft(const std::string& location) {
  catalog::TableDraft draft;
  int id = 0;
  for (const LogColumn& column : kLogColumns) {
    iceberg::Field field;
    field.id = ++id;
    field.name = column.name;
    field.required = column.required;
    field.type.kind = column.kind;
    draft.schema.fields.push_back(std::move(field));
  }
  const auto id_of = [&](std::string_view name) {
    return std::ranges::find(draft.schema.fields, name, &iceberg::Field::name)->id;
  };
  draft.spec.fields = {{{id_of("trigger")}, 1000, "trigger", "identity"},
                       {{id_of("finished_at_ms")}, 1001, "finished_at_ms_trunc", kDayTransform}};
  draft.properties = TableProperties();
  draft.properties["format-version"] = "2";
  draft.location = location;
  return draft;
}

std::string_view TypeName(iceberg::TypeKind kind) {
  return kind == iceberg::TypeKind::kLong ? "long" : "string";
}

Result<InitResult> Existing(const catalog::LoadedTable& table) {
  Status fits = CheckLogSchema(table.metadata.schema());
  if (!fits) return Fail(std::move(fits.error()).In(table.ident.ToString()));
  return InitResult{false, false, table.metadata.location};
}

// Where the history ends before a compaction is seen in it, somebody else expires snapshots, and
// nobody can tell: then there may be much to do.
bool HasAppends(const iceberg::TableMetadata& table, int wanted) {
  const iceberg::Snapshot* at = table.RefSnapshot("main");
  for (int appends = 0; at != nullptr; ++appends) {
    const auto operation = at->summary.find("operation");
    if (operation != at->summary.end() && operation->second == "replace") return appends >= wanted;
    if (appends >= wanted) return true;
    if (!at->parent_snapshot_id) return appends + 1 >= wanted;
    at = table.FindSnapshot(*at->parent_snapshot_id);
  }
  return table.RefSnapshot("main") != nullptr;
}

// Files all of whose rows ended before then; returns how many rows those are. A file that does not
// say when its rows ended stays.
Result<int64_t> RemoveOldRows(const IcebergServices& services, const IcebergSettings& settings,
                              const catalog::LoadedTable& table, Time before) {
  const iceberg::Schema& schema = table.metadata.schema();
  const auto ended =
      std::ranges::find(schema.fields, std::string_view("finished_at_ms"), &iceberg::Field::name);
  const int64_t before_ms =
      std::chrono::floor<std::chrono::milliseconds>(before.time_since_epoch()).count();
  const auto is_old = [&](const iceberg::DataFile& file) {
    const auto bound =
        std::ranges::find(file.upper_bounds, ended->id, &std::pair<int, std::string>::first);
    if (bound == file.upper_bounds.end()) return false;
    const auto latest = table::ValueFromBytes(ended->type, bound->second);
    const int64_t* ms = latest ? std::get_if<int64_t>(&*latest) : nullptr;
    return ms != nullptr && *ms < before_ms;
  };
  commit::RemovalCommit request;
  request.ident = table.ident;
  request.job_id = MakeUuidV7(services.clock, services.random);
  request.trigger = settings.trigger;
  request.principal = settings.principal;
  request.table_uuid = table.metadata.table_uuid;
  request.schema_id = table.metadata.current_schema_id;
  request.leaves = is_old;
  request.bounds_of = {ended->id};
  commit::IcebergCommitter committer({.catalog = services.catalog,
                                      .locations = services.locations,
                                      .clock = services.clock,
                                      .random = services.random,
                                      .sleep = {}});
  LITHIFY_TRY_ASSIGN(const auto done, committer.CommitRemoval(request, CancelFlag()));
  return done.records_removed;
}

// Somebody else is at it.
bool IsLostRace(const Error& error) { return error.code == Code::kConflict; }

}  // namespace

catalog::TableIdent DefaultLogIdent() { return {{"sqe_system"}, "maintenance_log"}; }

Status CheckLogSchema(const iceberg::Schema& schema) {
  std::string wrong;
  const auto add = [&](std::string_view name, std::string_view what) {
    wrong += (wrong.empty() ? "" : ", ") + std::string(name) + " " + std::string(what);
  };
  for (const LogColumn& column : kLogColumns) {
    const auto field = std::ranges::find(schema.fields, column.name, &iceberg::Field::name);
    if (field == schema.fields.end()) {
      add(column.name, "is missing");
    } else if (field->type.kind != column.kind) {
      add(column.name, "is no " + std::string(TypeName(column.kind)));
    } else if (field->required && !column.required) {
      add(column.name, "must not be required");
    }
  }
  for (const iceberg::Field& field : schema.fields) {
    const bool ours =
        std::ranges::find(kLogColumns, field.name, &LogColumn::name) != kLogColumns.end();
    if (field.required && !ours) add(field.name, "is required and not a column of the log");
  }
  if (wrong.empty()) return {};
  return Fail(Code::kInvalid, "the table is no maintenance log: " + wrong, {},
              "name another table, or move this one out of the way and run `lithify init-state`");
}

Result<InitResult> InitMaintenanceLog(catalog::Catalog& catalog, const catalog::TableIdent& ident,
                                      const std::string& location) {
  const auto found = catalog.LoadTable(ident);
  if (found) return Existing(*found);
  if (found.error().code != Code::kNotFound) return Fail(found.error());
  const catalog::TableDraft draft = Draft(location);
  InitResult result;
  auto made = catalog.CreateTable(ident, draft);
  if (!made && made.error().code == Code::kNotFound) {
    LITHIFY_TRY_ASSIGN(result.namespace_created,
                       catalog.CreateNamespace(ident.namespace_parts, {}));
    made = catalog.CreateTable(ident, draft);
  }
  if (made) {
    result.table_created = true;
    result.location = made->metadata.location;
    return result;
  }
  const Code code = made.error().code;
  if (code != Code::kConflict && code != Code::kUnknownOutcome) return Fail(made.error());
  // Somebody else made it at the same time, or it was us.
  const auto now = catalog.LoadTable(ident);
  if (!now) return Fail(made.error());
  LITHIFY_TRY_ASSIGN(const InitResult existing, Existing(*now));
  result.location = existing.location;
  return result;
}

std::string MaintenanceLogDdl(std::string_view name) {
  std::string ddl = "CREATE TABLE IF NOT EXISTS " + std::string(name) + " (\n";
  size_t longest = 0;
  for (const LogColumn& column : kLogColumns) longest = std::max(longest, column.name.size());
  for (size_t i = 0; i < kLogColumns.size(); ++i) {
    const LogColumn& column = kLogColumns[i];
    ddl += "  `" + std::string(column.name) + "`" +
           std::string(longest - column.name.size() + 1, ' ') +
           (column.kind == iceberg::TypeKind::kLong ? "BIGINT" : "STRING") +
           (column.required ? " NOT NULL" : "") + (i + 1 < kLogColumns.size() ? ",\n" : "\n");
  }
  ddl += ")\nUSING iceberg\nPARTITIONED BY (`trigger`, truncate(86400000, finished_at_ms))\n";
  ddl += "TBLPROPERTIES (\n";
  for (const auto& [key, value] : TableProperties()) {
    if (key != "comment") ddl += "  '" + key + "' = '" + value + "',\n";
  }
  return ddl + "  'format-version' = '2'\n);\n";
}

Result<LogCompaction> CompactMaintenanceLog(const IcebergServices& services,
                                            const IcebergSettings& settings,
                                            const catalog::TableIdent& ident,
                                            const LogCompactionOptions& options,
                                            const CancelFlag& cancel) {
  LogCompaction result;
  LITHIFY_TRY_ASSIGN(const auto table, services.catalog.LoadTable(ident));
  LITHIFY_TRY(CheckLogSchema(table.metadata.schema()));
  if (!HasAppends(table.metadata, options.appends_min)) return result;
  result.ran = true;
  if (options.keep_rows > Duration::zero() && table.metadata.RefSnapshot("main") != nullptr) {
    const auto removed =
        RemoveOldRows(services, settings, table, services.clock.Now() - options.keep_rows);
    if (!removed && !IsLostRace(removed.error())) return Fail(removed.error());
    if (removed) result.rows_removed = *removed;
  }
  IcebergJob job(services, settings);
  RewriteRequest request;
  request.ident = ident;
  request.options.target_file_size_bytes = 0;  // The table's.
  request.options.min_input_files = 2;
  const auto rewritten = job.RewriteDataFiles(request, cancel);
  if (!rewritten && !IsLostRace(rewritten.error())) return Fail(rewritten.error());
  if (rewritten) {
    result.files_rewritten = rewritten->files_rewritten;
    result.files_added = rewritten->files_added;
  }
  const auto manifests = job.RewriteManifests(ident, cancel);
  if (!manifests && !IsLostRace(manifests.error())) return Fail(manifests.error());
  if (manifests) result.manifests_rewritten = manifests->rewritten;
  plan::ExpireOptions expire;
  expire.older_than = services.clock.Now() - options.keep_snapshots;
  expire.retain_last = options.keep_snapshots_min;
  const auto expired = job.ExpireSnapshots(ident, expire, /*dry_run=*/false, cancel);
  if (!expired && !IsLostRace(expired.error())) return Fail(expired.error());
  if (expired) result.snapshots_expired = expired->snapshots_removed;
  return result;
}

}  // namespace lithify::job
