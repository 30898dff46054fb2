// lithify: what a person types. docs/CLI.md describes commands, output and exit codes.
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.h"
#include "session.h"

namespace lithify::cli {
namespace {

constexpr const char* kExamples = R"END(Examples:
  lithify compact /data/lake --dry-run        what would be done, and why
  lithify compact /data/lake                  one sweep
  lithify compact /data/lake --watch          sweep for ever, at the configured interval
  lithify compact s3://bucket/lake            the same in object storage
  lithify status /data/lake --tenant acme     files, sizes and backlog of one tenant
  lithify files /data/lake/data/tenant_id=acme/year=2026/month=11/day=29/hour=16
  lithify verify /data/lake                   re-read everything that is live, and prove it
  lithify table-health lake.sales.orders --catalog-uri sqlite:///lake/catalog.db
  lithify rewrite-data-files lake.sales.orders --catalog-uri sqlite:///lake/catalog.db --dry-run
  lithify serve --config lithify.toml         the Flight SQL server
  lithify sql -e "CALL system.table_health(table => 'sales.orders')"

Exit codes: 0 done or nothing to do, 1 something failed, 2 wrong usage or configuration,
3 verification found a mismatch, 4 the tree cannot be read, 130 stopped by a signal.
Configuration: ROOT/lithify.toml, LITHIFY_<SECTION>__<FIELD>, --set KEY=VALUE.)END";

int Main(int argc, char** argv) {
  // Tokens and keys are in memory: no core file, and nobody else's look into it (R267).
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  CLI::App app("Makes few large Parquet files of many small ones, in place, without losing a row.",
               "lithify");
  app.set_version_flag("--version", "lithify " LITHIFY_VERSION);
  app.footer(kExamples);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Command chosen;
  AddCompact(app, chosen);
  AddStatus(app, chosen);
  AddFiles(app, chosen);
  AddVerify(app, chosen);
  AddGc(app, chosen);
  AddAudit(app, chosen);
  AddConfig(app, chosen);
  AddRewriteDataFiles(app, chosen);
  AddTableHealth(app, chosen);
  AddExpireSnapshots(app, chosen);
  AddRemoveOrphanFiles(app, chosen);
  AddRewriteManifests(app, chosen);
  AddRollbackToSnapshot(app, chosen);
  AddInitState(app, chosen);
  AddServe(app, chosen);
  AddMaintain(app, chosen);
  AddDaemon(app, chosen);
  AddWorker(app, chosen);
  AddSql(app, chosen);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" with code 0, printed to stdout.
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  const int code = chosen();
  EndTelemetry();
  return code;
}

}  // namespace
}  // namespace lithify::cli

int main(int argc, char** argv) {
  try {
    return lithify::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    // Out of memory and the like; every step before it either happened as a whole or not at all.
    std::fprintf(stderr, "lithify: internal: %s\n  next: give more memory, or lower --memory\n",
                 error.what());
    return lithify::cli::kFailed;
  }
}
