// What a catalog shows of the tables of some namespaces: one load of each, and nothing of their
// files. Both the scheduler and a caller's own CALL system.run_maintenance begin with it, each with
// the catalog as they may see it.
#ifndef LITHIFY_JOB_TABLE_LOOKS_H_
#define LITHIFY_JOB_TABLE_LOOKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "catalog/catalog.h"

namespace lithify::job {

struct TableLook {
  catalog::TableIdent ident;
  std::optional<Error> error;  // Why it could not be loaded; nothing of the below is known then.
  std::string table_uuid;
  int64_t snapshot_id = 0;  // Of branch main; 0: none.
  int64_t snapshot_ms = 0;
  std::map<std::string, std::string> properties;
  std::map<std::string, std::string> summary;  // Of the snapshot.
};

struct NamespaceLook {
  std::vector<std::string> parts;
  std::optional<Error> error;  // Why its tables could not be listed.
  std::vector<TableLook> tables;
};

struct LookRequest {
  // Unset: all that the catalog lists, those within others too.
  std::optional<std::vector<std::vector<std::string>>> namespaces;
  int at_once = 8;  // Loads.
  size_t tables_max = 100'000;
};

// What is wrong with one table or namespace is in its look (kNotFound: the table was listed, and
// was not there when it was loaded); an error is about all of them: that namespaces cannot be
// listed, that the catalog fails time and again (kTransient), kLimit, kCancelled.
Result<std::vector<NamespaceLook>> LookAtTables(catalog::Catalog& catalog,
                                                const LookRequest& request,
                                                const CancelFlag& cancel);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_TABLE_LOOKS_H_
