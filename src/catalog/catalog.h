// Iceberg catalogs: where a table's current metadata is, and the one place where it changes.
// Implementations: SQLite (embedded, files of pyiceberg's SqlCatalog and of Iceberg's JdbcCatalog),
// REST (Iceberg's REST OpenAPI), in-memory (simulation).
//
// Errors, all calls: kNotFound no such table or namespace; kDenied the catalog says no, never
// retried; kTransient nothing happened, worth a retry; kInvalid a request that is wrong. Commit
// only: kConflict a requirement did not hold or somebody else was first: nothing changed, load and
// plan again; kUnknownOutcome it may have been applied (time-out, 5xx, connection lost after
// sending): look for your own snapshot, never clean up (R115, R302, I8, I35).
//
// Thread safety: thread-safe.
#ifndef LITHIFY_CATALOG_CATALOG_H_
#define LITHIFY_CATALOG_CATALOG_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "table/iceberg_metadata.h"

namespace lithify::catalog {

struct TableIdent {
  std::vector<std::string> namespace_parts;  // At least one; any depth.
  std::string name;
  std::string ToString() const;  // "sales.eu.orders".
  auto operator<=>(const TableIdent&) const = default;
};

// "ns.table", "a.b.table"; a part with a dot in it is quoted with backquotes or double quotes.
// kInvalid for empty parts; a single part is in namespace "default" (R064).
Result<TableIdent> ParseTableIdent(std::string_view text);

// "sales.eu", quoted where needed.
std::string NamespaceName(const std::vector<std::string>& parts);

struct StorageCredential {
  std::string prefix;  // Locations that it is for.
  std::map<std::string, std::string> config;
};

struct LoadedTable {
  TableIdent ident;
  std::string metadata_location;
  std::string metadata_text;  // metadata.json as the catalog gave it.
  iceberg::TableMetadata metadata;
  std::map<std::string, std::string> config;   // REST: table-specific client configuration.
  std::vector<StorageCredential> credentials;  // REST: vended.
};

// What a new table is to be. Ids of columns and of partition fields are wishes: a REST server gives
// its own, so look at what comes back.
struct TableDraft {
  iceberg::Schema schema;
  iceberg::PartitionSpec spec;
  // "format-version" is taken out of them: 2 (if absent) or 3.
  std::map<std::string, std::string> properties;
  std::string location;  // Empty: where the catalog puts tables.
};

class Catalog {
 public:
  virtual ~Catalog() = default;

  // Children of a namespace (empty: top level), as full paths, sorted.
  virtual Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) = 0;
  virtual Result<std::vector<TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) = 0;
  virtual Result<LoadedTable> LoadTable(const TableIdent& ident) = 0;
  // Where the table's current metadata is, also where it cannot be read from here.
  virtual Result<std::string> MetadataLocation(const TableIdent& ident);
  // Whether a change may be sent now; asked right before one is made ready and sent. An error is
  // known to be about nothing that was sent, and is given on as it is. kDenied: the caller's token
  // does not live long enough (Q14).
  virtual Status MayCommit() { return {}; }
  // Whether the catalog lets whoever opened it change the table, as far as it can be asked without
  // changing anything: kDenied if not, kTransient if it does not answer. A success is no promise:
  // a catalog that knows no grants, or cannot be asked, gives it, too.
  virtual Status CheckMayWrite(const LoadedTable&) { return {}; }
  // One atomic change. Returns the table as it is after it.
  virtual Result<LoadedTable> CommitTable(const TableIdent& ident,
                                          std::span<const table::TableRequirement> requirements,
                                          std::span<const table::TableUpdate> updates) = 0;
  // Whether an error of CommitTable other than kUnknownOutcome is the answer to the one request
  // that was made, so that nothing of it is or will be applied. False where something that stands
  // between might send a request twice, and the error may be of the second.
  virtual bool AnswersOnce() const { return false; }

  // Makes a namespace; those above it need not exist. False if it was there already, then with the
  // properties it had. kUnknownOutcome: look, or call again, which is harmless. Catalogs of callers
  // who have no business with it say kUnsupported, as this one does.
  virtual Result<bool> CreateNamespace(const std::vector<std::string>& parts,
                                       const std::map<std::string, std::string>& properties);
  // Makes an empty table. kConflict: there is one already, or a view, which stays as it is;
  // kNotFound: there is no such namespace, though some servers make the table all the same;
  // kInvalid: no location is given and none is known, or the draft makes no sense; kUnknownOutcome
  // as of a commit. kUnsupported as CreateNamespace().
  virtual Result<LoadedTable> CreateTable(const TableIdent& ident, const TableDraft& draft);

  // For messages: "sqlite:///lake/catalog.db".
  virtual std::string Describe() const = 0;
};

// All namespaces below `parent`, with it unless it is empty, as far as they may be listed; parents
// before children. kLimit beyond 100,000 of them.
Result<std::vector<std::vector<std::string>>> AllNamespaces(Catalog& catalog,
                                                            const std::vector<std::string>& parent);

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_CATALOG_H_
