// Test-only: the maintenance log and the lease in it, from a process of its own, on a catalog by
// its URI. Prints one JSON document; an error is one line of text.
//
//   lease_tool URI HOLDER append COUNT         rows of jobs, numbered, in one commit
//   lease_tool URI HOLDER rows                 how many rows there are
//   lease_tool URI HOLDER claim KEY SECONDS    kind, holder, stolen_from
//   lease_tool URI HOLDER release KEY          claims it, as its own, and releases it
//   lease_tool URI HOLDER compact              whatever was appended
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config.h"
#include "embed/iceberg_session.h"
#include "job/maintenance_log.h"
#include "maintain/lease.h"
#include "rewrite/parquet_runner.h"

namespace lithify {
namespace {

using Json = nlohmann::ordered_json;

job::LogRow JobRow(int64_t n) {
  job::LogRow row;
  row.job_id = "job-" + std::to_string(n);
  row.table_name = "lake.sales.t" + std::to_string(n % 3);
  row.trigger = job::log_trigger::kScheduled;
  row.principal = "sqe";
  row.started_at_ms = 1'800'000'000'000 + n;
  row.finished_at_ms = row.started_at_ms + 1000;
  row.status = n % 2 == 0 ? job::log_status::kSuccess : job::log_status::kFailed;
  row.files_in = n;
  row.files_out = n + 1;
  row.bytes_in = n + 2;
  row.bytes_out = n + 3;
  row.rows_removed = n + 4;
  if (n % 2 == 0) row.snapshot_id = n + 5;
  if (n % 2 == 1) row.error = "why \"" + std::to_string(n) + "\"";
  return row;
}

Result<Json> Claim(maintain::Lease& lease, const std::string& key, int64_t seconds,
                   const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const auto claim, lease.Claim(key, std::chrono::seconds(seconds), cancel));
  return Json{{"kind", maintain::ClaimKindName(claim.kind)},
              {"holder", claim.holder},
              {"stolen_from", claim.stolen_from},
              {"id", claim.claim.id}};
}

Result<Json> Run(const std::vector<std::string>& args) {
  config::CatalogConfig catalog;
  catalog.uri = args[0];
  const config::HiveConfig config;
  LITHIFY_TRY_ASSIGN(
      const auto session,
      embed::IcebergSession::Open(config, catalog,
                                  {.procedure = "lease_tool", .ident = job::DefaultLogIdent()},
                                  embed::ProcessEnvironment()));
  SystemRandom random;
  job::MaintenanceLog log({.catalog = session->catalog(),
                           .locations = session->locations(),
                           .clock = session->clock(),
                           .random = random},
                          job::DefaultLogIdent());
  const auto lease = maintain::MakeCatalogLease(log, {.holder = args[1]}, session->clock(), random);
  const CancelFlag cancel;
  const std::string& command = args[2];
  if (command == "append" && args.size() == 4) {
    std::vector<job::LogRow> rows;
    for (int64_t n = 0; n < std::atoll(args[3].c_str()); ++n) rows.push_back(JobRow(n));
    LITHIFY_TRY_ASSIGN(const int64_t snapshot, log.Append(rows, cancel));
    return Json{{"snapshot_id", snapshot}};
  }
  if (command == "rows" && args.size() == 3) {
    LITHIFY_TRY_ASSIGN(const auto view, log.Read({}, cancel));
    return Json{{"rows", view.rows.size()}};
  }
  if (command == "claim" && args.size() == 5) {
    return Claim(*lease, args[3], std::atoll(args[4].c_str()), cancel);
  }
  if (command == "release" && args.size() == 4) {
    LITHIFY_TRY_ASSIGN(const auto own, lease->Claim(args[3], std::chrono::seconds(300), cancel));
    if (!own.reacquired) return Fail(Code::kNotFound, "it was not ours");
    LITHIFY_TRY(lease->Release(own.claim, cancel));
    return Json{{"released", own.claim.id}};
  }
  if (command == "compact" && args.size() == 3) {
    const auto progress = observe::MakeSilentProgress();
    LITHIFY_TRY_ASSIGN(
        const auto done,
        job::CompactMaintenanceLog(
            {.catalog = session->catalog(),
             .locations = session->locations(),
             .make_runner = [](storage::Store& store) { return rewrite::MakeParquetRunner(store); },
             .clock = session->clock(),
             .random = random,
             .audit = session->audit(),
             .progress = *progress},
            {}, job::DefaultLogIdent(), {.appends_min = 1}, cancel));
    return Json{{"files_rewritten", done.files_rewritten}, {"files_added", done.files_added}};
  }
  return Fail(Code::kInvalid, "no such command");
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 3) {
    std::fputs("usage: lease_tool URI HOLDER COMMAND …\n", stderr);
    return 2;
  }
  const auto done = lithify::Run(args);
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", done->dump().c_str());
  return 0;
}
