// One function per command: declares it and its options, and sets `chosen` when it is given.
#ifndef LITHIFY_APPS_LITHIFY_COMMANDS_H_
#define LITHIFY_APPS_LITHIFY_COMMANDS_H_

#include "session.h"

namespace lithify::cli {

void AddCompact(CLI::App& app, Command& chosen);
void AddStatus(CLI::App& app, Command& chosen);
void AddFiles(CLI::App& app, Command& chosen);
void AddVerify(CLI::App& app, Command& chosen);
void AddGc(CLI::App& app, Command& chosen);
void AddAudit(CLI::App& app, Command& chosen);
void AddAuditVerify(CLI::App& audit, Command& chosen);  // Below `audit`.
void AddConfig(CLI::App& app, Command& chosen);

// Procedures on Iceberg tables.
void AddRewriteDataFiles(CLI::App& app, Command& chosen);
void AddTableHealth(CLI::App& app, Command& chosen);
void AddExpireSnapshots(CLI::App& app, Command& chosen);
void AddRemoveOrphanFiles(CLI::App& app, Command& chosen);
void AddRewriteManifests(CLI::App& app, Command& chosen);
void AddRollbackToSnapshot(CLI::App& app, Command& chosen);
void AddInitState(CLI::App& app, Command& chosen);

// Programs of their own beside this one, which they replace: Arrow Flight takes longer to load than
// most commands to run.
void AddServe(CLI::App& app, Command& chosen);
void AddMaintain(CLI::App& app, Command& chosen);
void AddDaemon(CLI::App& app, Command& chosen);
void AddWorker(CLI::App& app, Command& chosen);
void AddSql(CLI::App& app, Command& chosen);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_COMMANDS_H_
