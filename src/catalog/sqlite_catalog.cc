#include "catalog/sqlite_catalog.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "base/text.h"
#include "catalog/metadata_file.h"
#include "catalog/namespace_tree.h"
#include "catalog/sqlite_file.h"

namespace lithify::catalog {
namespace {

// As pyiceberg and Iceberg's JdbcCatalog make them (V1).
constexpr const char* kCreateTables =
    "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, "
    "table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, "
    "metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))";
constexpr const char* kCreateNamespaces =
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, "
    "namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, "
    "property_value VARCHAR(1000) NOT NULL, PRIMARY KEY (catalog_name, namespace, property_key))";

Result<std::string> NamespaceText(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty() || part.find('.') != std::string::npos) {
      return Fail(Code::kInvalid,
                  "a SQLite catalog cannot hold a namespace with an empty part or a dot in one",
                  JsonQuote(part));
    }
    if (!text.empty()) text += '.';
    text += part;
  }
  return text;
}

NamespacePath PathOf(std::string_view text) {
  NamespacePath path;
  for (;;) {
    const size_t dot = text.find('.');
    path.emplace_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return path;
    text.remove_prefix(dot + 1);
  }
}

// Of a commit that did nothing for certain: what the codes of a commit do not promise (catalog.h),
// as a full disk or a damaged file, would read as an unknown outcome.
std::unexpected<Error> NothingHappened(Error error) {
  switch (error.code) {
    case Code::kCorrupt:
    case Code::kLimit:
    case Code::kInternal:
    case Code::kUnknownOutcome: error.code = Code::kTransient; break;
    default: break;
  }
  return Fail(std::move(error));
}

class SqliteCatalog final : public Catalog {
 public:
  SqliteCatalog(SqliteFile file, std::string path, std::string name, std::string warehouse,
                storage::Locations& locations, const Clock& clock, Random& random)
      : file_(std::move(file)),
        path_(std::move(path)),
        name_(std::move(name)),
        warehouse_(std::move(warehouse)),
        locations_(locations),
        clock_(clock),
        random_(random) {}

  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    const std::lock_guard lock(mutex_);
    LITHIFY_TRY_ASSIGN(const std::set<NamespacePath> all, Namespaces());
    auto children = ChildNamespaces(all, parent);
    if (!children) return Fail(std::move(children.error()).In(Describe()));
    return children;
  }

  Result<std::vector<TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override {
    LITHIFY_TRY_ASSIGN(const std::string text, NamespaceText(namespace_parts));
    const std::lock_guard lock(mutex_);
    LITHIFY_TRY_ASSIGN(const bool typed, HasTypes());
    const char* sql =
        typed ? "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace "
                "= ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL) ORDER BY table_name"
              : "SELECT table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace "
                "= ? ORDER BY table_name";
    LITHIFY_TRY_ASSIGN(const auto rows, file_.Run(sql, {name_, text}));
    if (rows.empty()) {
      LITHIFY_TRY_ASSIGN(const std::set<NamespacePath> all, Namespaces());
      if (!NamespaceExists(all, namespace_parts)) {
        return Fail(NoSuchNamespace(namespace_parts).error().In(Describe()));
      }
    }
    std::vector<TableIdent> idents;
    for (const auto& row : rows) idents.push_back({namespace_parts, row[0].value_or("")});
    return idents;
  }

  Result<LoadedTable> LoadTable(const TableIdent& ident) override {
    LITHIFY_TRY_ASSIGN(const std::string text, NamespaceText(ident.namespace_parts));
    for (int attempt = 1;; ++attempt) {
      LITHIFY_TRY_ASSIGN(const std::string location, Locate(ident, text));
      Result<LoadedTable> table = ReadTable(locations_, ident, location);
      if (table || table.error().code != Code::kCorrupt || attempt == 3) return table;
      // Other engines may delete old metadata files: gone between the two looks is no damage.
      LITHIFY_TRY_ASSIGN(const std::string now, Locate(ident, text));
      if (now == location) return table;
    }
  }

  Result<std::string> MetadataLocation(const TableIdent& ident) override {
    LITHIFY_TRY_ASSIGN(const std::string text, NamespaceText(ident.namespace_parts));
    return Locate(ident, text);
  }

  Result<LoadedTable> CommitTable(const TableIdent& ident,
                                  std::span<const table::TableRequirement> requirements,
                                  std::span<const table::TableUpdate> updates) override {
    LITHIFY_TRY_ASSIGN(const std::string text, NamespaceText(ident.namespace_parts));
    const Result<LoadedTable> current = LoadTable(ident);
    if (!current) return NothingHappened(current.error());
    Result<LoadedTable> next =
        StageCommit(locations_, clock_, random_, *current, requirements, updates);
    if (!next) return NothingHappened(std::move(next.error()));
    Swap swap;
    {
      const std::lock_guard lock(mutex_);
      swap = SwapLocation(ident, text, current->metadata_location, next->metadata_location);
    }
    if (swap.status) {
      RemoveDropped(locations_, *current, *next);
      return next;
    }
    if (swap.known) {
      Unstage(locations_, next->metadata_location);
      return NothingHappened(std::move(swap.status.error()).In(ident.ToString()));
    }
    return Look(ident, text, *current, *next, swap.status.error());
  }

  Result<bool> CreateNamespace(const std::vector<std::string>& parts,
                               const std::map<std::string, std::string>& properties) override {
    LITHIFY_TRY(CheckNamespaceParts(parts));
    LITHIFY_TRY_ASSIGN(const std::string text, NamespaceText(parts));
    // A namespace is its properties: without any it has one that says so, as with pyiceberg.
    std::map<std::string, std::string> stored = properties;
    if (stored.empty()) stored.emplace("exists", "true");
    const std::lock_guard lock(mutex_);
    LITHIFY_TRY(file_.Run("BEGIN IMMEDIATE"));
    const Result<bool> done = [&]() -> Result<bool> {
      LITHIFY_TRY_ASSIGN(const std::set<NamespacePath> all, Namespaces());
      if (NamespaceExists(all, parts)) return false;
      for (const auto& [key, value] : stored) {
        LITHIFY_TRY(file_.Run(
            "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, "
            "property_value) VALUES (?, ?, ?, ?)",
            {name_, text, key, value}));
      }
      LITHIFY_TRY(file_.Run("COMMIT"));
      return true;
    }();
    if (file_.in_transaction()) file_.Rollback();
    if (!done) return Fail(Error(done.error()).In(Describe()));
    return done;
  }

  Result<LoadedTable> CreateTable(const TableIdent& ident, const TableDraft& draft) override {
    LITHIFY_TRY_ASSIGN(const std::string text, NamespaceText(ident.namespace_parts));
    if (ident.name.empty()) return Fail(Code::kInvalid, "the table's name is empty");
    {
      // Before anything is written, for a good answer; the transaction below looks again.
      const std::lock_guard lock(mutex_);
      if (Status free = CheckNameIsFree(ident, text); !free) return NothingHappened(free.error());
    }
    Result<LoadedTable> table = StageTable(locations_, clock_, random_, ident, draft, warehouse_);
    if (!table) return NothingHappened(std::move(table.error()));
    Swap insert;
    {
      const std::lock_guard lock(mutex_);
      insert = InsertTable(ident, text, table->metadata_location);
    }
    if (insert.status) return table;
    if (insert.known) {
      Unstage(locations_, table->metadata_location);
      return NothingHappened(std::move(insert.status.error()).In(ident.ToString()));
    }
    // COMMIT failed half-way: the row says what happened. The staged file stays, whatever it was.
    Error error = std::move(insert.status.error()).In(ident.ToString());
    const Result<std::string> location = LocateCommitted(ident, text);
    if (location && *location == table->metadata_location) return table;
    if (location) return TableExists(ident);
    error.code = location.error().code == Code::kNotFound && !MayRecover() ? Code::kTransient
                                                                           : Code::kUnknownOutcome;
    error.hint = "look for the table before anything else";
    return Fail(std::move(error));
  }

  bool AnswersOnce() const override { return true; }
  std::string Describe() const override { return "sqlite://" + path_; }

 private:
  // Whether it is known that nothing was changed, if `status` is an error.
  struct Swap {
    Status status;
    bool known = true;
  };

  std::unexpected<Error> NoSuchTable(const TableIdent& ident) {
    return Fail(Code::kNotFound, "there is no such table in catalog " + JsonQuote(name_),
                ident.ToString(), "see what " + Describe() + " holds");
  }

  // V1 has views in the same table. Asked for each time: another program may migrate the file.
  Result<bool> HasTypes() {
    LITHIFY_TRY_ASSIGN(const auto rows,
                       file_.Run("SELECT 1 FROM pragma_table_info('iceberg_tables') WHERE name = "
                                 "'iceberg_type'"));
    return !rows.empty();
  }

  Result<std::set<NamespacePath>> Namespaces() {
    std::set<NamespacePath> all;
    for (const char* sql :
         {"SELECT DISTINCT table_namespace FROM iceberg_tables WHERE catalog_name = ?",
          "SELECT DISTINCT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?"}) {
      LITHIFY_TRY_ASSIGN(const auto rows, file_.Run(sql, {name_}));
      for (const auto& row : rows) {
        if (row[0] && !row[0]->empty()) all.insert(PathOf(*row[0]));
      }
    }
    return all;
  }

  Result<std::string> Locate(const TableIdent& ident, const std::string& text) {
    const std::lock_guard lock(mutex_);
    return LocateLocked(ident, text);
  }

  Result<std::string> LocateLocked(const TableIdent& ident, const std::string& text) {
    LITHIFY_TRY_ASSIGN(const bool typed, HasTypes());
    const char* sql =
        typed ? "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND "
                "table_namespace = ? AND table_name = ? AND (iceberg_type = 'TABLE' OR "
                "iceberg_type IS NULL)"
              : "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND "
                "table_namespace = ? AND table_name = ?";
    LITHIFY_TRY_ASSIGN(const auto rows, file_.Run(sql, {name_, text, ident.name}));
    if (rows.empty() || !rows[0][0]) return NoSuchTable(ident);
    return *rows[0][0];
  }

  bool MayRecover() {
    const std::lock_guard lock(mutex_);
    const auto mode = file_.Run("PRAGMA journal_mode");
    return !mode || mode->empty() || (*mode)[0][0] == "wal";
  }

  // As other programs see it: in a transaction that could not be ended we would see our own change.
  Result<std::string> LocateCommitted(const TableIdent& ident, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (file_.in_transaction()) {
      return Fail(Code::kInternal, "a transaction could not be ended", path_);
    }
    return LocateLocked(ident, text);
  }

  // One compare-and-swap in a transaction of its own. Needs mutex_.
  Swap SwapLocation(const TableIdent& ident, const std::string& text, const std::string& from,
                    const std::string& to) {
    const auto begun = file_.Run("BEGIN IMMEDIATE");
    if (!begun) return {Fail(begun.error())};
    const auto updated = file_.Run(
        "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE "
        "catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?",
        {to, from, name_, text, ident.name, from});
    if (!updated) {
      file_.Rollback();
      return {Fail(updated.error()), !file_.in_transaction()};
    }
    if (file_.changes() != 1) {
      file_.Rollback();
      return {Fail(Code::kConflict, "somebody else changed the table first", {},
                   "load it and plan again"),
              !file_.in_transaction()};
    }
    return Commit();
  }

  Swap Commit() {
    const auto committed = file_.Run("COMMIT");
    if (committed) return {};
    // Readers are in the way: the transaction is whole and still ours to take back.
    const bool known = file_.busy() && file_.in_transaction();
    file_.Rollback();
    return {Fail(committed.error()), known && !file_.in_transaction()};
  }

  // Also a view takes a name. Needs mutex_.
  Status CheckNameIsFree(const TableIdent& ident, const std::string& text) {
    LITHIFY_TRY_ASSIGN(const std::set<NamespacePath> all, Namespaces());
    if (!NamespaceExists(all, ident.namespace_parts)) {
      return Fail(NoSuchNamespace(ident.namespace_parts).error().In(Describe()));
    }
    LITHIFY_TRY_ASSIGN(const auto rows,
                       file_.Run("SELECT 1 FROM iceberg_tables WHERE catalog_name = ? AND "
                                 "table_namespace = ? AND table_name = ?",
                                 {name_, text, ident.name}));
    if (!rows.empty()) return TableExists(ident);
    return {};
  }

  // In a transaction of its own, in which nobody else takes the name. Needs mutex_.
  Swap InsertTable(const TableIdent& ident, const std::string& text, const std::string& location) {
    const auto begun = file_.Run("BEGIN IMMEDIATE");
    if (!begun) return {Fail(begun.error())};
    const Status inserted = [&]() -> Status {
      LITHIFY_TRY(CheckNameIsFree(ident, text));
      LITHIFY_TRY_ASSIGN(const bool typed, HasTypes());
      const char* sql =
          typed ? "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, "
                  "metadata_location, iceberg_type) VALUES (?, ?, ?, ?, 'TABLE')"
                : "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, "
                  "metadata_location) VALUES (?, ?, ?, ?)";
      LITHIFY_TRY(file_.Run(sql, {name_, text, ident.name, location}));
      return {};
    }();
    if (!inserted) {
      file_.Rollback();
      return {inserted, !file_.in_transaction()};
    }
    return Commit();
  }

  // COMMIT failed half-way: the row says what happened. The staged file stays, whatever it was.
  Result<LoadedTable> Look(const TableIdent& ident, const std::string& text,
                           const LoadedTable& before, const LoadedTable& next, Error error) {
    error = std::move(error).In(ident.ToString());
    const Result<std::string> location = LocateCommitted(ident, text);
    if (location && *location == next.metadata_location) return next;
    // Not so with a write-ahead log: what could not be synced is in it still, and comes to life if
    // the machine goes down before somebody else commits.
    if (location && *location == before.metadata_location && !MayRecover()) {
      error.code = Code::kTransient;
      return Fail(std::move(error));
    }
    if (location) {
      // Somebody came after us, or instead of us: then our file is in the log or not.
      Result<LoadedTable> table = ReadTable(locations_, ident, *location);
      if (table) {
        for (const auto& entry : table->metadata.metadata_log) {
          if (entry.metadata_file == next.metadata_location) return table;
        }
      }
    }
    error.code = Code::kUnknownOutcome;
    error.hint = "look for the new snapshot in the table before anything else";
    return Fail(std::move(error));
  }

  std::mutex mutex_;
  SqliteFile file_;
  const std::string path_;
  const std::string name_;
  const std::string warehouse_;
  storage::Locations& locations_;
  const Clock& clock_;
  Random& random_;
};

// The name to use: as asked for, or the only one in the file.
Result<std::string> ChooseName(SqliteFile& file, const SqliteOptions& options) {
  LITHIFY_TRY_ASSIGN(const auto rows,
                     file.Run("SELECT catalog_name FROM iceberg_tables UNION SELECT catalog_name "
                              "FROM iceberg_namespace_properties ORDER BY 1"));
  const auto named = [&](const auto& row) { return row[0] == options.catalog_name; };
  const bool other = options.or_the_only_one && rows.size() == 1;
  if (!options.catalog_name.empty() && (!other || std::ranges::any_of(rows, named))) {
    return options.catalog_name;
  }
  if (rows.empty()) return "default";
  if (rows.size() == 1) return rows[0][0].value_or("");
  std::string names;
  for (const auto& row : rows) {
    if (!names.empty()) names += ", ";
    names += JsonQuote(row[0].value_or(""));
  }
  return Fail(Code::kInvalid, "the file holds several catalogs: " + names, options.path,
              "say which one by its name");
}

}  // namespace

Result<std::unique_ptr<Catalog>> OpenSqliteCatalog(SqliteOptions options,
                                                   storage::Locations& locations,
                                                   const Clock& clock, Random& random) {
  LITHIFY_TRY_ASSIGN(SqliteFile file,
                     SqliteFile::Open(options.path, options.create, options.busy_wait));
  if (options.create) {
    LITHIFY_TRY(file.Run(kCreateTables));
    LITHIFY_TRY(file.Run(kCreateNamespaces));
  }
  LITHIFY_TRY_ASSIGN(std::string name, ChooseName(file, options));
  return std::make_unique<SqliteCatalog>(std::move(file), std::move(options.path), std::move(name),
                                         std::move(options.warehouse), locations, clock, random);
}

}  // namespace lithify::catalog
