// What a statement is about, for the record (R168, R169). Private to this module.
#ifndef LITHIFY_SERVE_AUDIT_RESOURCES_H_
#define LITHIFY_SERVE_AUDIT_RESOURCES_H_

#include <vector>

#include "observe/audit_log.h"
#include "serve/executor.h"
#include "serve/table_access.h"

namespace lithify::serve {

// The tables and views that a query reads, the table of a CALL, ALTER, DESCRIBE or SHOW, the
// namespace of a SHOW, the job of a CANCEL: by names alone, asks nobody. Also of what could not be
// planned, as far as it was read; one whose catalog is not to be told is left out.
std::vector<observe::AuditResource> ResourcesOf(const PlannedStatement& planned,
                                                const TableAccess& access, const CallContext& call);

// The catalogs, and what is named of their namespaces, that GetDbSchemas and GetTables ask for.
std::vector<observe::AuditResource> ResourcesOf(const flightsql::Command& question,
                                                const TableAccess& access);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_AUDIT_RESOURCES_H_
