// lithify init-state: the table of the maintenance log, made by an operator (R167).
#include <memory>
#include <string>

#include "commands.h"
#include "iceberg_table.h"
#include "job/maintenance_log.h"
#include "observe/audit_log.h"

namespace lithify::cli {
namespace {

constexpr const char* kProcedure = "init_state";

struct Options {
  TableOptions table;
  std::string location = {};
  bool ddl = false;
};

// A catalog alone stands for the log's usual name in it.
std::string FullName(const std::string& name) {
  if (name.find('.') != std::string::npos) return name;
  return name + "." + job::DefaultLogIdent().ToString();
}

// What was made is on record; a failure to make it is the answer of this command alone, but for
// refusals of the catalog (R168).
Status Audit(embed::IcebergSession& session, const catalog::TableIdent& ident,
             const Result<job::InitResult>& result) {
  if (result && !result->table_created && !result->namespace_created) return {};
  if (!result && result.error().code != Code::kDenied) return {};
  SystemRandom random;
  observe::AuditEvent event;
  event.phase = observe::AuditEvent::Phase::kRecorded;
  event.kind = observe::AuditKind::kAdminDdl;
  event.time = session.clock().Now();
  event.job_id = MakeUuidV7(session.clock(), random);
  event.procedure = kProcedure;
  event.table = ident.ToString();
  event.catalog = session.catalog().Describe();
  event.failed = !result;
  if (!result) event.error = result.error().ToString();
  if (!result) event.error_code = std::string(CodeName(result.error().code));
  return session.audit().Append(event);
}

int Run(Options options) {
  options.table.table = FullName(options.table.table);
  if (options.ddl) return Print(job::MaintenanceLogDdl(options.table.table)) ? kDone : kFailed;
  auto opened = OpenTable(options.table, kProcedure);
  if (!opened) return ReportTable(options.table, kProcedure, opened.error());
  const auto result =
      job::InitMaintenanceLog(opened->session->catalog(), opened->ident, options.location);
  if (Status audited = Audit(*opened->session, opened->ident, result); !audited) {
    PrintUnrecorded(audited.error());
  }
  if (!result) return ReportTable(options.table, kProcedure, result.error());
  if (options.table.common.json) {
    return PrintJson({{"procedure", kProcedure},
                      {"table", opened->ident.ToString()},
                      {"status", result->table_created ? "created" : "exists"},
                      {"namespace_created", result->namespace_created},
                      {"location", result->location}})
               ? kDone
               : kFailed;
  }
  if (options.table.common.quiet) return kDone;
  return Print((result->table_created ? "made " : "is there already: ") + opened->ident.ToString() +
               " at " + result->location + "\n")
             ? kDone
             : kFailed;
}

}  // namespace

void AddInitState(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "init-state", "Make the table of the maintenance log, where it is missing");
  const auto options = std::make_shared<Options>();
  AddTable(*command, options->table);
  command->get_option("TABLE")->description(
      "CATALOG, for CATALOG.sqe_system.maintenance_log, or another table's full name");
  command->get_option("--warehouse")
      ->description(
          "Warehouse of a REST catalog; of a SQLite catalog the location that new "
          "tables go below");
  command->add_option("--location", options->location,
                      "Where its files go (default: where the catalog puts tables)");
  command->add_flag("--ddl", options->ddl,
                    "Change nothing; print the statement that makes it, for Spark");
  command->callback([options, &chosen] { chosen = [options] { return Run(*options); }; });
}

}  // namespace lithify::cli
