// remove_orphan_files: files under a table's locations that no metadata of it reaches, old enough
// that no writer can be about to commit them.
#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "job/iceberg_audit.h"
#include "job/iceberg_files.h"
#include "job/iceberg_job.h"
#include "job/iceberg_load.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_snapshot.h"

namespace lithify::job {
namespace {

using Phase = observe::AuditEvent::Phase;

bool IsMetadataJson(std::string_view location) {
  return location.ends_with(".metadata.json") || location.ends_with(".metadata.json.gz");
}

// True if `inner` is `outer` or lies below it.
bool Within(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

class Orphans {
 public:
  Orphans(const IcebergServices& services, const IcebergSettings& settings,
          const catalog::TableIdent& ident, const CancelFlag& cancel)
      : services_(services),
        settings_(settings),
        ident_(ident),
        cancel_(cancel),
        walk_(services.locations, cancel) {
    report_.procedure = "remove_orphan_files";
    report_.table = ident.ToString();
    report_.job_id = JobId(services, settings);
  }

  Result<RemovedFiles> Run(const plan::OrphanOptions& options, bool dry_run) {
    report_.dry_run = dry_run;
    other_locations_ = options.other_locations;
    LITHIFY_TRY_ASSIGN(table_, LoadAudited(services_, ident_, Event()));
    LITHIFY_TRY(plan::CheckGcAllowed(table_.metadata));
    LITHIFY_TRY(ListAll());
    LITHIFY_TRY(CheckNeighbours());
    LITHIFY_TRY(Reach(table_));
    LITHIFY_TRY(CheckForeignMetadata());
    // What was committed while we listed (R184).
    LITHIFY_TRY_ASSIGN(const auto newer, LoadAudited(services_, ident_, Event()));
    LITHIFY_TRY(SameTable(table_, newer));
    LITHIFY_TRY(Reach(newer));
    if (!dry_run) LITHIFY_TRY(CheckClock(services_.locations, newer.metadata));
    LITHIFY_TRY_ASSIGN(report_.orphans, plan::PlanOrphans(listing_.files, referenced_, options,
                                                          services_.clock.Now()));
    Doomed doomed;
    for (const plan::ListedFile& file : report_.orphans.orphans) {
      report_.bytes += file.size;
      doomed.emplace(file.location, DoomedFile{.kind = FileKind::kOther, .listed = file});
    }
    if (dry_run || doomed.empty()) {
      for (const plan::ListedFile& file : report_.orphans.orphans) {
        report_.files.push_back(file.location);
        ++report_.files_removed;
      }
      report_.status = dry_run ? "dry run" : "deleted=0";
      return std::move(report_);
    }
    // What removes no snapshot is no commit that the catalog could refuse, and the store may know
    // less of rights than it: so it is asked (R305).
    LITHIFY_TRY(MayWrite(newer));
    LITHIFY_TRY(Audit(Phase::kIntent, doomed));
    const Status removed = RemoveUnreached(services_, newer, walk_, doomed, cancel_, report_);
    report_.by_kind.clear();
    // Also what was removed before something went wrong is on record (R056, R178).
    const std::string error = removed ? "" : removed.error().ToString();
    if (Status audited = Audit(Phase::kCollected, {}, error); !audited) {
      report_.notes.push_back("audit log: " + audited.error().ToString());
    }
    LITHIFY_TRY(removed);
    report_.status = "deleted=" + std::to_string(report_.files_removed);
    return std::move(report_);
  }

 private:
  Status ListAll() {
    const iceberg::TableMetadata& table = table_.metadata;
    LITHIFY_TRY_ASSIGN(const std::set<std::string> all, LocationsOf(table));
    LITHIFY_TRY_ASSIGN(const std::string home, services_.locations.Canonical(table.location));
    std::set<std::string> wanted = {home};
    for (const std::string& location : all) {
      if (Within(location, home)) continue;
      if (other_locations_) {
        wanted.insert(location);
      } else {
        report_.notes.push_back("not looked at, outside the table's location: " + location);
      }
    }
    for (const std::string& location : wanted) {
      const bool inside = std::ranges::any_of(wanted, [&](const std::string& other) {
        return other != location && Within(location, other);
      });
      if (inside) continue;
      listed_.push_back(location);
      LITHIFY_TRY(ListBelow(services_.locations, location, cancel_, listing_));
    }
    if (listing_.irregular > 0) {
      report_.notes.push_back(FormatCount(listing_.irregular) +
                              " links or special files are left alone");
    }
    return {};
  }

  // Where a table's files are by its properties, as they are written there.
  static std::set<std::string> WrittenLocations(const iceberg::TableMetadata& table) {
    std::set<std::string> out = {table.location};
    for (const char* key : {"write.data.path", "write.folder-storage.path",
                            "write.object-storage.path", "write.metadata.path"}) {
      const std::string location = table.Property(key, "");
      if (!location.empty()) out.insert(location);
    }
    return out;
  }

  // The same, canonical.
  Result<std::set<std::string>> LocationsOf(const iceberg::TableMetadata& table) {
    std::set<std::string> out;
    for (const std::string& location : WrittenLocations(table)) {
      LITHIFY_TRY_ASSIGN(std::string canonical, services_.locations.Canonical(location));
      out.insert(std::move(canonical));
    }
    return out;
  }

  bool IsElsewhere(const std::string& location) const {
    return std::ranges::all_of(
        listed_, [&](const std::string& own) { return storage::IsElsewhere(own, location); });
  }

  Status Reach(const catalog::LoadedTable& table) {
    for (const char* name : {"/metadata/version-hint.text", "/metadata/.version-hint.text.crc"}) {
      LITHIFY_TRY_ASSIGN(auto hint, services_.locations.Canonical(table.metadata.location + name));
      referenced_.insert(std::move(hint));
    }
    Status walked = walk_.Table(
        table.metadata, table.metadata_location,
        BothReadings([&](const std::string& path, FileKind) { referenced_.insert(path); }));
    if (!walked) return Fail(IfMovedOn(services_, table, std::move(walked.error())));
    return {};
  }

  // Another table that has a file of its own among what was listed: it would look like an orphan
  // (I18). Every doubt but a denial ends the run; what the catalog hides is looked for below.
  Status CheckNeighbours() {
    std::vector<std::vector<std::string>> pending = {{}};
    int64_t denied = 0;
    while (!pending.empty()) {
      LITHIFY_TRY(cancel_.Check());
      const std::vector<std::string> parent = std::move(pending.back());
      pending.pop_back();
      auto children = services_.catalog.ListNamespaces(parent);
      LITHIFY_TRY(Tolerate(children, "namespaces", denied));
      if (children) std::ranges::move(*children, std::back_inserter(pending));
      if (parent.empty()) continue;
      auto tables = services_.catalog.ListTables(parent);
      LITHIFY_TRY(Tolerate(tables, "tables of a namespace", denied));
      if (!tables) continue;
      for (const catalog::TableIdent& other : *tables) {
        if (other != ident_) LITHIFY_TRY(CheckNeighbour(other, denied));
      }
    }
    if (denied > 0) {
      report_.notes.push_back("the catalog did not show " + FormatCount(denied) +
                              " other tables or namespaces; only their metadata files were looked "
                              "for");
    }
    if (elsewhere_ > 0) {
      report_.notes.push_back(FormatCount(elsewhere_) +
                              " other tables are in another storage, with their metadata: they "
                              "were not looked at");
    }
    return {};
  }

  template <typename T>
  static Status Tolerate(const Result<T>& result, const std::string& what, int64_t& denied) {
    if (result || result.error().code == Code::kNotFound) return {};
    if (result.error().code != Code::kDenied) {
      return Fail(
          Error(result.error()).In(what).Hint("nothing was removed: other tables might be here"));
    }
    ++denied;
    return {};
  }

  Status CheckNeighbour(const catalog::TableIdent& other, int64_t& denied) {
    LITHIFY_TRY(cancel_.Check());
    auto loaded = services_.catalog.LoadTable(other);
    if (!loaded &&
        (loaded.error().code == Code::kUnsupported || loaded.error().code == Code::kDenied)) {
      // Metadata in a storage that cannot be read from here is of a table that is not here either.
      const auto metadata = services_.catalog.MetadataLocation(other);
      if (metadata && IsElsewhere(*metadata)) {
        ++elsewhere_;
        return {};
      }
    }
    LITHIFY_TRY(Tolerate(loaded, other.ToString(), denied));
    if (!loaded || loaded->metadata.table_uuid == table_.metadata.table_uuid) return {};
    for (const std::string& location : WrittenLocations(loaded->metadata)) {
      if (!IsElsewhere(location)) LITHIFY_TRY(CheckApart(other, location));
    }
    return {};
  }

  // The other table's location is neither below one that was listed nor above it.
  Status CheckApart(const catalog::TableIdent& other, const std::string& location) {
    const auto canonical = services_.locations.Canonical(location);
    if (!canonical) {
      return Fail(Code::kDenied,
                  "table " + other.ToString() + " uses " + location +
                      ", which may be here under another name: " + canonical.error().message,
                  report_.table,
                  "nothing was removed; set the location of table " + other.ToString() +
                      " and its write.….path properties to the scheme and host that this table "
                      "has, like " +
                      listed_.front());
    }
    for (const std::string& own : listed_) {
      if (!Within(*canonical, own) && !Within(own, *canonical)) continue;
      return Fail(Code::kDenied,
                  "table " + other.ToString() + " uses " + *canonical + ", which overlaps " + own,
                  report_.table, "nothing was removed; give each table locations of its own");
    }
    return {};
  }

  // Metadata of another table below this one's location, whoever's catalog it is in (I18).
  Status CheckForeignMetadata() {
    for (const plan::ListedFile& file : listing_.files) {
      if (!IsMetadataJson(file.location) || referenced_.contains(file.location)) continue;
      LITHIFY_TRY(cancel_.Check());
      auto text = table::ReadMetadataFile(services_.locations, file.location);
      if (!text && text.error().code == Code::kNotFound) continue;
      if (!text) return Fail(std::move(text.error()));
      const auto parsed = table::ParseTableMetadata(*text, file.location);
      if (!parsed) {
        return Fail(
            Error(parsed.error())
                .Hint("nothing was removed: it may be the metadata of another table; move it "
                      "away by hand if it is not"));
      }
      if (parsed->table_uuid == table_.metadata.table_uuid) continue;
      return Fail(Code::kDenied, "metadata of another table is here: " + file.location,
                  report_.table,
                  "nothing was removed; if that table is gone, remove its files by hand first");
    }
    return {};
  }

  Status MayWrite(const catalog::LoadedTable& table) {
    Status may = services_.catalog.MayCommit();
    if (may) may = services_.catalog.CheckMayWrite(table);
    if (!may) RecordRefusal(services_, may.error(), Event());
    return may;
  }

  observe::AuditEvent Event() const {
    return MakeEvent(services_, settings_, ident_, report_.procedure, report_.job_id);
  }

  Status Audit(Phase phase, const Doomed& doomed, const std::string& error = {}) {
    observe::AuditEvent event = Event();
    event.error = error;
    event.phase = phase;
    event.bytes_in = report_.bytes;
    for (const auto& [location, file] : doomed) event.inputs.push_back(location);
    if (phase == Phase::kCollected) event.inputs = report_.files;
    std::ranges::sort(event.inputs);
    return services_.audit.Append(event);
  }

  const IcebergServices& services_;
  const IcebergSettings& settings_;
  const catalog::TableIdent& ident_;
  const CancelFlag& cancel_;
  ReachWalk walk_;
  catalog::LoadedTable table_;
  bool other_locations_ = false;
  int64_t elsewhere_ = 0;            // Other tables whose metadata is in another storage.
  std::vector<std::string> listed_;  // Canonical locations.
  Listing listing_;
  std::unordered_set<std::string> referenced_;
  RemovedFiles report_;
};

}  // namespace

Result<RemovedFiles> IcebergJob::RemoveOrphanFiles(const catalog::TableIdent& ident,
                                                   const plan::OrphanOptions& options, bool dry_run,
                                                   const CancelFlag& cancel) {
  return Orphans(services_, settings_, ident, cancel).Run(options, dry_run);
}

}  // namespace lithify::job
