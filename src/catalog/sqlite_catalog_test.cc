#include "catalog/sqlite_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace lithify::catalog {
namespace {

namespace fs = std::filesystem;
using table::AssertRefSnapshotId;
using table::SetProperties;
using table::TableUpdate;
using testing::ElementsAre;
using testing::HasSubstr;

// A default VFS where the fsync of a journal or write-ahead log, or the writing of one, can be made
// to fail.
class FailingJournal {
 public:
  FailingJournal() {
    real_ = sqlite3_vfs_find(nullptr);
    vfs_ = *real_;
    vfs_.zName = "failing-journal";
    vfs_.xOpen = &Open;
    sqlite3_vfs_register(&vfs_, 1);
  }
  ~FailingJournal() {
    fail_ = false;
    write_code_ = SQLITE_OK;
    sqlite3_vfs_register(real_, 1);
    sqlite3_vfs_unregister(&vfs_);
  }
  static void set_fail(bool fail) { fail_ = fail; }
  static void set_write_code(int code) { write_code_ = code; }

 private:
  static int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    const int rc = real_->xOpen(real_, name, file, flags, out);
    if (rc == SQLITE_OK && (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0) {
      real_methods_ = file->pMethods;
      methods_ = *real_methods_;
      methods_.xSync = &Sync;
      methods_.xWrite = &Write;
      file->pMethods = &methods_;
    }
    return rc;
  }
  static int Sync(sqlite3_file* file, int flags) {
    return fail_ ? SQLITE_IOERR_FSYNC : real_methods_->xSync(file, flags);
  }
  static int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
    return write_code_ == SQLITE_OK ? real_methods_->xWrite(file, bytes, count, at)
                                    : write_code_.load();
  }

  sqlite3_vfs vfs_;
  static inline sqlite3_vfs* real_ = nullptr;
  static inline const sqlite3_io_methods* real_methods_ = nullptr;
  static inline sqlite3_io_methods methods_;
  static inline std::atomic<bool> fail_ = false;
  static inline std::atomic<int> write_code_ = SQLITE_OK;
};

class SqliteCatalogTest : public testing::Test {
 protected:
  SqliteCatalogTest() {
    directory_ = testing::TempDir() + "/sqlite-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    options_.path = directory_ + "/catalog.db";
    options_.busy_wait = std::chrono::milliseconds(20);
  }
  ~SqliteCatalogTest() override {
    sqlite3_close(db_);
    fs::remove_all(directory_);
  }

  // Another program's connection to the same file.
  std::string Sql(const std::string& sql) {
    if (db_ == nullptr) {
      EXPECT_EQ(sqlite3_open(options_.path.c_str(), &db_), SQLITE_OK);
    }
    std::string out;
    char* error = nullptr;
    sqlite3_exec(
        db_, sql.c_str(),
        [](void* to, int count, char** values, char**) {
          for (int i = 0; i < count; ++i) {
            static_cast<std::string*>(to)->append(values[i] == nullptr ? "null" : values[i]) += ';';
          }
          return 0;
        },
        &out, &error);
    if (error != nullptr) out += error;
    sqlite3_free(error);
    return out;
  }

  std::unique_ptr<Catalog> Open() {
    auto opened = OpenSqliteCatalog(options_, *locations_, clock_, random_);
    EXPECT_TRUE(opened) << opened.error().ToString();
    return opened ? std::move(*opened) : nullptr;
  }
  Error OpenError() {
    auto opened = OpenSqliteCatalog(options_, *locations_, clock_, random_);
    EXPECT_FALSE(opened);
    return opened ? Error() : opened.error();
  }
  // With the file made new, and table sales.eu.orders in it.
  std::unique_ptr<Catalog> OpenWithTable() {
    options_.create = true;
    auto catalog = Open();
    options_.create = false;
    AddTable("default", "sales.eu", "orders", "'TABLE'");
    return catalog;
  }
  void AddTable(const std::string& catalog, const std::string& name_space, const std::string& name,
                const std::string& type) {
    const std::string location = "mem://lake/" + name + "/metadata/00000-a.metadata.json";
    const storage::Place place = locations_->Resolve(location).value();
    static_cast<void>(place.store->PutNew(
        place.key,
        R"({"format-version":1,"location":"mem://lake/t","last-updated-ms":5,"last-column-id":1,)"
        R"("schema":{"type":"struct","fields":[]},"partition-spec":[]})"));
    EXPECT_EQ(Sql("INSERT INTO iceberg_tables VALUES ('" + catalog + "','" + name_space + "','" +
                  name + "','" + location + "',NULL" + (type.empty() ? "" : "," + type) + ")"),
              "");
  }
  Result<LoadedTable> Set(Catalog& catalog, const std::string& value) {
    const std::vector<TableUpdate> updates = {SetProperties{{{"a", value}}}};
    return catalog.CommitTable(ident_, {}, updates);
  }

  std::string directory_;
  sqlite3* db_ = nullptr;
  SqliteOptions options_;
  SystemClock clock_;
  SeededRandom random_{7};
  std::shared_ptr<storage::MemoryStore> store_ = std::make_shared<storage::MemoryStore>(clock_);
  std::unique_ptr<storage::Locations> locations_ =
      storage::MakeStoreLocations(store_, "mem", "lake");
  const TableIdent ident_{{"sales", "eu"}, "orders"};
};

TEST_F(SqliteCatalogTest, TheRowIsWhatOtherProgramsExpect) {
  const auto catalog = OpenWithTable();
  EXPECT_EQ(catalog->Describe(), "sqlite://" + options_.path);
  const LoadedTable table = Set(*catalog, "1").value();
  EXPECT_EQ(Sql("SELECT * FROM iceberg_tables"),
            "default;sales.eu;orders;" + table.metadata_location +
                ";mem://lake/orders/metadata/00000-a.metadata.json;TABLE;");
}

TEST_F(SqliteCatalogTest, SchemaV0AndItsMigrationUnderUs) {
  Sql("CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace "
      "VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), "
      "previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, "
      "table_name)); CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT "
      "NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value "
      "VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))");
  AddTable("lake", "sales.eu", "orders", "");
  const auto catalog = Open();
  EXPECT_TRUE(Set(*catalog, "1"));
  EXPECT_EQ(catalog->LoadTable(ident_)->metadata.Property("a", ""), "1");
  EXPECT_EQ(Sql("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"), "");
  EXPECT_TRUE(Set(*catalog, "2"));
  EXPECT_EQ(catalog->ListTables({"sales", "eu"})->size(), 1);
}

TEST_F(SqliteCatalogTest, ViewsAndRowsWithoutALocationAreNoTables) {
  const auto catalog = OpenWithTable();
  AddTable("default", "sales.eu", "view", "'VIEW'");
  AddTable("default", "sales.eu", "old", "NULL");
  Sql("INSERT INTO iceberg_tables VALUES ('default','x','empty',NULL,NULL,'TABLE')");
  Sql("INSERT INTO iceberg_namespace_properties VALUES ('default','only.props','exists','true')");
  EXPECT_THAT(*catalog->ListTables({"sales", "eu"}),
              ElementsAre(TableIdent{{"sales", "eu"}, "old"}, ident_));
  EXPECT_EQ(catalog->LoadTable({{"sales", "eu"}, "view"}).error().code, Code::kNotFound);
  EXPECT_EQ(catalog->LoadTable({{"x"}, "empty"}).error().code, Code::kNotFound);
  EXPECT_EQ(catalog->ListNamespaces({})->size(), 3);
  EXPECT_EQ(catalog->ListTables({"only", "props"})->size(), 0);
}

TEST_F(SqliteCatalogTest, NamesAreNeverPartOfTheStatement) {
  const auto catalog = OpenWithTable();
  const std::string name = "x'); DROP TABLE iceberg_tables; --";
  EXPECT_EQ(catalog->LoadTable({{"sales"}, name}).error().code, Code::kNotFound);
  EXPECT_EQ(catalog->ListTables({name}).error().code, Code::kNotFound);
  EXPECT_EQ(catalog->ListNamespaces({"%"}).error().code, Code::kNotFound);
  // "a.b" could be one part or two: no guess.
  EXPECT_EQ(catalog->LoadTable({{"sales.eu"}, "orders"}).error().code, Code::kInvalid);
  EXPECT_TRUE(catalog->LoadTable(ident_));
}

TEST_F(SqliteCatalogTest, ChoosesTheOnlyCatalogOfTheFile) {
  options_.create = true;
  EXPECT_NE(Open(), nullptr);
  options_.create = false;
  AddTable("lake", "sales.eu", "orders", "'TABLE'");
  EXPECT_TRUE(Open()->LoadTable(ident_));
  AddTable("test", "a", "t", "'TABLE'");
  const Error error = OpenError();
  EXPECT_EQ(error.code, Code::kInvalid);
  EXPECT_THAT(error.message, HasSubstr(R"("lake", "test")"));
  options_.catalog_name = "lake";
  EXPECT_TRUE(Open()->LoadTable(ident_));
  options_.catalog_name = "test";
  EXPECT_EQ(Open()->LoadTable(ident_).error().code, Code::kNotFound);
}

TEST_F(SqliteCatalogTest, FilesThatAreNoCatalog) {
  EXPECT_EQ(OpenError().code, Code::kNotFound);
  EXPECT_FALSE(fs::exists(options_.path));
  Sql("CREATE TABLE other (x)");
  EXPECT_EQ(OpenError().code, Code::kInvalid);
  EXPECT_THAT(OpenError().ToString(), HasSubstr(options_.path));
  options_.path = directory_ + "/text";
  std::ofstream(options_.path) << std::string(5000, 'x');
  EXPECT_EQ(OpenError().code, Code::kInvalid);
  options_.path = directory_;
  EXPECT_EQ(OpenError().code, Code::kInvalid);
  for (const char* path : {"", ":memory:"}) {
    options_.path = path;
    options_.create = true;
    EXPECT_EQ(OpenError().code, Code::kInvalid);
  }
}

TEST_F(SqliteCatalogTest, AMetadataFileThatIsMissingOrDamagedIsCorrupt) {
  const auto catalog = OpenWithTable();
  const std::string key = store_->Keys().at(0);
  ASSERT_TRUE(store_->Remove(key));
  EXPECT_EQ(catalog->LoadTable(ident_).error().code, Code::kCorrupt);
  EXPECT_THAT(catalog->LoadTable(ident_).error().ToString(), HasSubstr("does not exist"));
  // Of a commit: nothing happened, which kCorrupt does not promise.
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kTransient);
  EXPECT_THAT(Set(*catalog, "1").error().ToString(), HasSubstr("does not exist"));
  ASSERT_TRUE(store_->PutNew(key, "{"));
  EXPECT_EQ(catalog->LoadTable(ident_).error().code, Code::kCorrupt);
  Sql("UPDATE iceberg_tables SET metadata_location = 'mem://elsewhere/x.json'");
  EXPECT_EQ(catalog->LoadTable(ident_).error().code, Code::kUnsupported);
}

TEST_F(SqliteCatalogTest, AFileInUseIsTransientAndLeavesNothingBehind) {
  const auto catalog = OpenWithTable();
  Sql("BEGIN IMMEDIATE");
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kTransient);
  Sql("ROLLBACK");
  EXPECT_EQ(store_->Keys().size(), 1);
  // A reader lets us begin, but not commit.
  Sql("BEGIN; SELECT * FROM iceberg_tables");
  EXPECT_EQ(Set(*catalog, "2").error().code, Code::kTransient);
  EXPECT_EQ(store_->Keys().size(), 1);
  Sql("COMMIT");
  EXPECT_EQ(catalog->LoadTable(ident_)->metadata.Property("a", "unset"), "unset");
  EXPECT_TRUE(Set(*catalog, "3"));
}

TEST_F(SqliteCatalogTest, AnUpdateThatFailsIsAKnownFailure) {
  const auto catalog = OpenWithTable();
  Sql("CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kInvalid);
  EXPECT_EQ(store_->Keys().size(), 1);
  Sql("DROP TRIGGER no");
  EXPECT_TRUE(Set(*catalog, "2"));
}

TEST_F(SqliteCatalogTest, I35WhatFailsBeforeTheCommitIsAKnownFailure) {
  FailingJournal vfs;
  const auto catalog = OpenWithTable();
  for (const int code :
       {SQLITE_FULL, SQLITE_NOMEM, SQLITE_CORRUPT, SQLITE_INTERNAL, SQLITE_IOERR_WRITE}) {
    FailingJournal::set_write_code(code);
    const Result<LoadedTable> failed = Set(*catalog, "1");
    FailingJournal::set_write_code(SQLITE_OK);
    ASSERT_FALSE(failed) << code;
    EXPECT_EQ(failed.error().code, Code::kTransient) << code << ": " << failed.error().ToString();
    EXPECT_THAT(failed.error().message, HasSubstr("SQLite says")) << code;
    // Rolled back, and nothing is left behind.
    EXPECT_EQ(store_->Keys().size(), 1) << code;
    EXPECT_EQ(catalog->LoadTable(ident_)->metadata.Property("a", "unset"), "unset");
  }
  EXPECT_TRUE(Set(*catalog, "2"));
}

TEST_F(SqliteCatalogTest, I8ACommitThatFailsHalfWayIsLookedAt) {
  FailingJournal vfs;
  const auto catalog = OpenWithTable();
  FailingJournal::set_fail(true);
  const Result<LoadedTable> failed = Set(*catalog, "1");
  FailingJournal::set_fail(false);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kTransient) << failed.error().ToString();
  EXPECT_EQ(catalog->LoadTable(ident_)->metadata.Property("a", "unset"), "unset");
  // After such an error nothing is cleaned up.
  EXPECT_EQ(store_->Keys().size(), 2);
  EXPECT_TRUE(Set(*catalog, "2"));
  EXPECT_EQ(catalog->LoadTable(ident_)->metadata.Property("a", "unset"), "2");
}

TEST_F(SqliteCatalogTest, I8ACommitThatAWriteAheadLogMayStillHoldIsUnknown) {
  FailingJournal vfs;
  OpenWithTable();
  EXPECT_EQ(Sql("PRAGMA journal_mode = WAL"), "wal;");
  const auto catalog = Open();
  EXPECT_TRUE(Set(*catalog, "0"));
  const size_t files = store_->Keys().size();
  FailingJournal::set_fail(true);
  const Result<LoadedTable> failed = Set(*catalog, "1");
  FailingJournal::set_fail(false);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kUnknownOutcome) << failed.error().ToString();
  EXPECT_EQ(store_->Keys().size(), files + 1);
  EXPECT_TRUE(Set(*catalog, "2"));
  EXPECT_EQ(catalog->LoadTable(ident_)->metadata.Property("a", "unset"), "2");
}

TEST_F(SqliteCatalogTest, MetadataOfACommitThatWasNotAppliedIsRemoved) {
  OpenWithTable();
  const std::vector<std::string> keys = store_->Keys();
  std::function<Status()> after_put;
  const auto faulty = std::make_shared<storage::FaultyStore>(
      *store_, [&](std::string_view op, const std::string&, bool before) -> Status {
        if (op == "PutNew" && !before) return after_put();
        return {};
      });
  const auto locations = storage::MakeStoreLocations(faulty, "mem", "lake");
  const auto catalog = std::move(OpenSqliteCatalog(options_, *locations, clock_, random_).value());

  // Written or not, nobody was told of it.
  after_put = [] { return Fail(Code::kUnknownOutcome, "who knows"); };
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kTransient);
  EXPECT_EQ(store_->Keys(), keys);
  // The compare-and-swap is lost: somebody changed the table.
  after_put = [&]() -> Status {
    Sql("UPDATE iceberg_tables SET metadata_location = 'mem://lake/other.metadata.json'");
    return {};
  };
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kConflict);
  EXPECT_EQ(store_->Keys(), keys);
  // Or dropped it.
  Sql("UPDATE iceberg_tables SET metadata_location = "
      "'mem://lake/orders/metadata/00000-a.metadata.json'");
  after_put = [&]() -> Status {
    Sql("DELETE FROM iceberg_tables");
    return {};
  };
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kConflict);
  EXPECT_EQ(store_->Keys(), keys);
  EXPECT_EQ(Set(*catalog, "1").error().code, Code::kNotFound);
  EXPECT_TRUE(catalog->AnswersOnce());
}

TEST_F(SqliteCatalogTest, TheMetadataLocationIsToldAlsoWhereItCannotBeRead) {
  const auto catalog = OpenWithTable();
  EXPECT_EQ(*catalog->MetadataLocation(ident_), "mem://lake/orders/metadata/00000-a.metadata.json");
  Sql("UPDATE iceberg_tables SET metadata_location = 's3://b/x.metadata.json'");
  EXPECT_EQ(catalog->LoadTable(ident_).error().code, Code::kUnsupported);
  EXPECT_EQ(*catalog->MetadataLocation(ident_), "s3://b/x.metadata.json");
  EXPECT_EQ(catalog->MetadataLocation({{"sales"}, "none"}).error().code, Code::kNotFound);
}

TEST_F(SqliteCatalogTest, TwoProgramsOnOneFileLoseNoCommit) {
  OpenWithTable();
  options_.busy_wait = std::chrono::seconds(10);
  constexpr int kCommits = 20;
  std::vector<std::thread> programs;
  for (const std::string name : {"x", "y"}) {
    programs.emplace_back([this, name] {
      const auto catalog = Open();
      for (int done = 0; done < kCommits;) {
        const LoadedTable table = catalog->LoadTable(ident_).value();
        const int counted = std::stoi(table.metadata.Property(name, "0"));
        EXPECT_EQ(counted, done);
        const std::vector<TableUpdate> updates = {
            SetProperties{{{name, std::to_string(done + 1)}}}};
        const auto committed = catalog->CommitTable(ident_, {}, updates);
        if (committed) {
          ++done;
        } else {
          EXPECT_EQ(committed.error().code, Code::kConflict) << committed.error().ToString();
        }
      }
    });
  }
  for (std::thread& program : programs) program.join();
  const LoadedTable table = Open()->LoadTable(ident_).value();
  EXPECT_EQ(table.metadata.Property("x", ""), "20");
  EXPECT_EQ(table.metadata.Property("y", ""), "20");
  EXPECT_THAT(table.metadata_location, HasSubstr("/00040-"));
  EXPECT_EQ(store_->Keys().size(), 2 * kCommits + 1);
}

}  // namespace
}  // namespace lithify::catalog
