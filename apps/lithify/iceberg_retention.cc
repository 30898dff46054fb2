// lithify expire-snapshots, remove-orphan-files, rewrite-manifests and rollback-to-snapshot.
#include <unistd.h>

#include <memory>

#include "base/text.h"
#include "commands.h"
#include "iceberg_table.h"
#include "iceberg_text.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

struct Options {
  TableOptions table;
  std::string older_than = {};
  std::optional<int> retain_last = {};
  std::vector<int64_t> snapshot_ids = {};
  int64_t snapshot_id = 0;
  bool dry_run = false;
  plan::OrphanOptions orphans = {};
};

// Opens the table, runs `work(job, ident, now)` and prints its result.
template <typename Work, typename Show>
int With(const Options& options, const std::string& procedure, Work work, Show show) {
  auto opened = OpenTable(options.table, procedure);
  if (!opened) return ReportTable(options.table, procedure, opened.error());
  const auto progress = StartProgress(options.table.common, opened->session->clock(), procedure);
  auto job = opened->session->MakeJob(*progress, "");
  const auto result = work(job, opened->ident, opened->session->clock().Now());
  progress->Finish();
  if (!result) return ReportTable(options.table, procedure, result.error());
  return show(*result);
}

int ShowRemoved(const Options& options, const job::RemovedFiles& removed) {
  for (const Error& error : removed.failed) PrintError(error);
  const bool printed =
      options.table.common.json
          ? PrintJson(RemovedJson(removed))
          : options.table.common.quiet || Print(RemovedText(removed, ColourOn(STDOUT_FILENO)));
  return removed.failed.empty() && printed ? kDone : kFailed;
}

int RunExpire(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  return With(
      options, "expire_snapshots",
      [&](job::IcebergJob& job, const catalog::TableIdent& ident,
          Time now) -> Result<job::RemovedFiles> {
        plan::ExpireOptions wanted{.older_than = std::nullopt,
                                   .retain_last = options.retain_last,
                                   .snapshot_ids = options.snapshot_ids};
        if (!options.older_than.empty()) {
          LITHIFY_TRY_ASSIGN(wanted.older_than, ParseTimeOrAge(options.older_than, now));
        }
        return job.ExpireSnapshots(ident, wanted, options.dry_run, cancel);
      },
      [&](const job::RemovedFiles& removed) { return ShowRemoved(options, removed); });
}

int RunOrphans(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  return With(
      options, "remove_orphan_files",
      [&](job::IcebergJob& job, const catalog::TableIdent& ident,
          Time now) -> Result<job::RemovedFiles> {
        plan::OrphanOptions wanted = options.orphans;
        if (!options.older_than.empty()) {
          LITHIFY_TRY_ASSIGN(wanted.older_than, ParseTimeOrAge(options.older_than, now));
        }
        return job.RemoveOrphanFiles(ident, wanted, options.dry_run, cancel);
      },
      [&](const job::RemovedFiles& removed) { return ShowRemoved(options, removed); });
}

int RunManifests(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  return With(
      options, "rewrite_manifests",
      [&](job::IcebergJob& job, const catalog::TableIdent& ident, Time) {
        return job.RewriteManifests(ident, cancel);
      },
      [&](const job::ManifestsResult& done) {
        const bool printed =
            options.table.common.json
                ? PrintJson({{"procedure", "rewrite_manifests"},
                             {"table", done.table},
                             {"status", done.snapshot_id ? "committed" : "skipped"},
                             {"manifests_rewritten", done.rewritten},
                             {"manifests_added", done.added},
                             {"snapshot_id", done.snapshot_id ? Json(*done.snapshot_id) : Json()},
                             {"job_id", done.job_id}})
                : options.table.common.quiet ||
                      Print(done.snapshot_id
                                ? "rewrote " + FormatCount(done.rewritten) + " manifests into " +
                                      FormatCount(done.added) + "\n"
                                : std::string("nothing to gain\n"));
        return printed ? kDone : kFailed;
      });
}

int RunRollback(const Options& options) {
  return With(
      options, "rollback_to_snapshot",
      [&](job::IcebergJob& job, const catalog::TableIdent& ident, Time) {
        return job.RollbackToSnapshot(ident, options.snapshot_id);
      },
      [&](int64_t before) {
        const bool moved = before != options.snapshot_id;
        const bool printed = options.table.common.json
                                 ? PrintJson({{"procedure", "rollback_to_snapshot"},
                                              {"table", TableInReports(options.table)},
                                              {"status", moved ? "committed" : "skipped"},
                                              {"previous_snapshot_id", before},
                                              {"current_snapshot_id", options.snapshot_id}})
                                 : options.table.common.quiet ||
                                       Print(moved ? "snapshot " + std::to_string(before) + " -> " +
                                                         std::to_string(options.snapshot_id) + "\n"
                                                   : std::string("it is the current one\n"));
        return printed ? kDone : kFailed;
      });
}

}  // namespace

void AddExpireSnapshots(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "expire-snapshots", "Iceberg: drop old snapshots and the files that only they need");
  const auto options = std::make_shared<Options>();
  AddTable(*command, options->table);
  command->add_option("--older-than", options->older_than,
                      "A UTC time, an age like 5d, or now (default: the table's "
                      "history.expire.max-snapshot-age-ms, else 5d)");
  command->add_option("--retain-last", options->retain_last,
                      "Keep so many snapshots of each branch (default: the table's, else 1)");
  command->add_option("--snapshot-id", options->snapshot_ids, "Only this one; may be repeated");
  command->add_flag("--dry-run", options->dry_run, "Change nothing; print what would go");
  command->callback([options, &chosen] { chosen = [options] { return RunExpire(*options); }; });
}

void AddRemoveOrphanFiles(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "remove-orphan-files", "Iceberg: remove files under the table that nothing refers to");
  const auto options = std::make_shared<Options>();
  AddTable(*command, options->table);
  command->add_option("--older-than", options->older_than,
                      "A UTC time or an age (default: 3d; at least a day)");
  command->add_flag("--dry-run", options->dry_run, "Remove nothing; print what would go");
  command->add_option("--max-deletes", options->orphans.deletes_max, "Remove so many; 0: all")
      ->capture_default_str();
  command->add_flag("--other-locations", options->orphans.other_locations,
                    "Also look below write.data.path and the like outside the table's location");
  command->add_flag("--force", options->orphans.force,
                    "Even if more than half of all files look like orphans");
  command->callback([options, &chosen] { chosen = [options] { return RunOrphans(*options); }; });
}

void AddRewriteManifests(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("rewrite-manifests", "Iceberg: merge small manifests");
  const auto options = std::make_shared<Options>();
  AddTable(*command, options->table);
  command->callback([options, &chosen] { chosen = [options] { return RunManifests(*options); }; });
}

void AddRollbackToSnapshot(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "rollback-to-snapshot", "Iceberg: make an older snapshot of the table its current one");
  const auto options = std::make_shared<Options>();
  AddTable(*command, options->table);
  command->add_option("SNAPSHOT_ID", options->snapshot_id, "An ancestor of the current snapshot")
      ->required();
  command->callback([options, &chosen] { chosen = [options] { return RunRollback(*options); }; });
}

}  // namespace lithify::cli
