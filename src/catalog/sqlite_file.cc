#include "catalog/sqlite_file.h"

#include <sys/stat.h>

#include <memory>
#include <utility>

namespace lithify::catalog {
namespace {

struct Finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

Error SqliteError(int rc, const char* text, const std::string& path) {
  Error error{Code::kInternal, std::string("SQLite says: ") + text, path, {}};
  switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      error.code = Code::kTransient;
      error.hint = "somebody else uses the catalog: try again";
      break;
    case SQLITE_IOERR:
    case SQLITE_INTERRUPT:
    case SQLITE_SCHEMA: error.code = Code::kTransient; break;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      error.code = Code::kDenied;
      error.hint = "check the permissions of the file and of its directory";
      break;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG: error.code = Code::kLimit; break;
    case SQLITE_CORRUPT: error.code = Code::kCorrupt; break;
    case SQLITE_NOTADB:
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
      error.code = Code::kInvalid;
      error.hint = "is it the file of an Iceberg catalog?";
      break;
    default: break;
  }
  return error;
}

}  // namespace

Result<SqliteFile> SqliteFile::Open(const std::string& path, bool create, Duration busy_wait) {
  // SQLite reads these as something other than a file.
  if (path.empty() || path.starts_with(':') || path.find('\0') != std::string::npos) {
    return Fail(Code::kInvalid, "this is no path of a catalog's file", path);
  }
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (!exists && !create) {
    return Fail(Code::kNotFound, "there is no such catalog file", path, "check the path");
  }
  if (exists && !S_ISREG(info.st_mode)) return Fail(Code::kInvalid, "it is no file", path);
  sqlite3* db = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (create ? SQLITE_OPEN_CREATE : 0);
  const int rc = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  if (db == nullptr) return Fail(Code::kLimit, "no memory for a connection", path);
  SqliteFile file(db, path);
  if (rc != SQLITE_OK) return Fail(file.Failed(rc));
  sqlite3_busy_timeout(
      db,
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(busy_wait).count()));
  // A commit is on disk when it returns; and nobody's schema may run code of its own.
  LITHIFY_TRY(file.Run("PRAGMA synchronous = FULL"));
  LITHIFY_TRY(file.Run("PRAGMA trusted_schema = OFF"));
  return file;
}

SqliteFile::SqliteFile(SqliteFile&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)), path_(std::move(other.path_)) {}

SqliteFile::~SqliteFile() {
  if (db_ != nullptr) sqlite3_close_v2(db_);
}

Error SqliteFile::Failed(int rc) const { return SqliteError(rc, sqlite3_errmsg(db_), path_); }

Result<std::vector<SqliteFile::Row>> SqliteFile::Run(
    const char* sql, std::initializer_list<std::string_view> texts) {
  sqlite3_stmt* prepared = nullptr;
  int rc = sqlite3_prepare_v2(db_, sql, -1, &prepared, nullptr);
  const Statement statement(prepared);
  if (rc != SQLITE_OK) return Fail(Failed(rc));
  int index = 0;
  for (const std::string_view text : texts) {
    rc = sqlite3_bind_text64(prepared, ++index, text.data(), text.size(), SQLITE_STATIC,
                             SQLITE_UTF8);
    if (rc != SQLITE_OK) return Fail(Failed(rc));
  }
  std::vector<Row> rows;
  while ((rc = sqlite3_step(prepared)) == SQLITE_ROW) {
    Row& row = rows.emplace_back();
    for (int column = 0; column < sqlite3_column_count(prepared); ++column) {
      const auto* bytes = sqlite3_column_text(prepared, column);
      if (bytes == nullptr) {
        row.emplace_back();
      } else {
        row.emplace_back(std::string(reinterpret_cast<const char*>(bytes),
                                     static_cast<size_t>(sqlite3_column_bytes(prepared, column))));
      }
    }
  }
  if (rc != SQLITE_DONE) return Fail(Failed(rc));
  return rows;
}

void SqliteFile::Rollback() {
  if (in_transaction()) static_cast<void>(Run("ROLLBACK"));
}

}  // namespace lithify::catalog
