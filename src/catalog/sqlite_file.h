// SQLite calls as Results. Only sqlite_catalog.cc includes this.
#ifndef LITHIFY_CATALOG_SQLITE_FILE_H_
#define LITHIFY_CATALOG_SQLITE_FILE_H_

#include <sqlite3.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::catalog {

// One connection. Not thread-safe.
class SqliteFile {
 public:
  static Result<SqliteFile> Open(const std::string& path, bool create, Duration busy_wait);
  SqliteFile(SqliteFile&& other) noexcept;
  SqliteFile& operator=(SqliteFile&&) = delete;
  ~SqliteFile();

  // A row's columns; null is nullopt.
  using Row = std::vector<std::optional<std::string>>;
  // Runs one statement with the texts bound to its parameters in order.
  Result<std::vector<Row>> Run(const char* sql, std::initializer_list<std::string_view> texts = {});
  // Rows that the last INSERT, UPDATE or DELETE changed.
  int64_t changes() const { return sqlite3_changes64(db_); }
  // The last call failed for nothing but others that use the file.
  bool busy() const { return (sqlite3_errcode(db_) & 0xff) == SQLITE_BUSY; }
  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }
  // Ends an open transaction; SQLite may have done so itself.
  void Rollback();

 private:
  SqliteFile(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  Error Failed(int rc) const;

  sqlite3* db_;
  std::string path_;
};

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_SQLITE_FILE_H_
