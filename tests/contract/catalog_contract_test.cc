// What every Catalog promises (catalog/catalog.h), on each implementation that runs in this
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "catalog/catalog.h"
#include "catalog/memory_catalog.h"
#include "catalog/sqlite_catalog.h"
#include "storage/locations.h"
#include "storage/memory_store.h"

namespace lithify::catalog {
namespace {

using table::AddSnapshot;
using table::AssertRefSnapshotId;
using table::AssertTableUuid;
using table::SetProperties;
using table::SetSnapshotRef;
using table::TableRequirement;
using table::TableUpdate;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string MetadataText(const std::string& location) {
  return R"({"format-version":2,"table-uuid":"u-1","location":")" + location +
         R"(","last-sequence-number":0,"last-updated-ms":5,"last-column-id":1,"schemas":[{"type":)"
         R"("struct","schema-id":0,"fields":[{"id":1,"name":"c","required":false,"type":"int"}]}],)"
         R"("current-schema-id":0,"partition-specs":[{"spec-id":0,"fields":[]}],)"
         R"("default-spec-id":0,"last-partition-id":999,)"
         R"("sort-orders":[{"order-id":0,"fields":[]}],)"
         R"("default-sort-order-id":0,"properties":{},"x-unknown":[1.50]})";
}

// The world around a catalog: everything it writes is in `store`.
class World {
 public:
  virtual ~World() = default;
  virtual Catalog& catalog() = 0;
  virtual void Create(const TableIdent& ident) = 0;

  std::string Location(const TableIdent& ident) const { return "mem://lake/" + ident.ToString(); }
  std::vector<std::string> Keys() const { return store->Keys(); }

  SystemClock clock;
  SeededRandom random{7};
  std::shared_ptr<storage::MemoryStore> store = std::make_shared<storage::MemoryStore>(clock);
  std::unique_ptr<storage::Locations> locations = storage::MakeStoreLocations(store, "mem", "lake");
};

class MemoryWorld final : public World {
 public:
  Catalog& catalog() override { return catalog_; }
  void Create(const TableIdent& ident) override {
    EXPECT_TRUE(catalog_.CreateTable(ident, MetadataText(Location(ident))));
  }

 private:
  MemoryCatalog catalog_{*locations, clock, random, "mem://lake/warehouse/"};
};

class SqliteWorld final : public World {
 public:
  SqliteWorld() {
    directory_ = testing::TempDir() + "/catalog-XXXXXX";
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    SqliteOptions options;
    options.path = directory_ + "/catalog.db";
    options.create = true;
    options.warehouse = "mem://lake/warehouse/";
    auto opened = OpenSqliteCatalog(options, *locations, clock, random);
    EXPECT_TRUE(opened) << opened.error().ToString();
    catalog_ = std::move(*opened);
  }
  ~SqliteWorld() override { std::filesystem::remove_all(directory_); }

  Catalog& catalog() override { return *catalog_; }
  void Create(const TableIdent& ident) override {
    std::string text;
    for (const std::string& part : ident.namespace_parts) text += (text.empty() ? "" : ".") + part;
    const std::string location = Location(ident) + "/metadata/00000-a.metadata.json";
    const auto place = locations->Resolve(location);
    ASSERT_TRUE(place);
    ASSERT_TRUE(place->store->PutNew(place->key, MetadataText(Location(ident))));
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((directory_ + "/catalog.db").c_str(), &db), SQLITE_OK);
    const std::string sql = "INSERT INTO iceberg_tables VALUES ('default','" + text + "','" +
                            ident.name + "','" + location + "',NULL,'TABLE')";
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  }

 private:
  std::string directory_;
  std::unique_ptr<Catalog> catalog_;
};

struct Implementation {
  const char* name;
  std::function<std::unique_ptr<World>()> make;
};

class CatalogContract : public testing::TestWithParam<Implementation> {
 protected:
  Catalog& catalog() { return world_->catalog(); }

  static TableUpdate NewSnapshot(int64_t id, int64_t sequence, std::optional<int64_t> parent) {
    iceberg::Snapshot snapshot;
    snapshot.snapshot_id = id;
    snapshot.parent_snapshot_id = parent;
    snapshot.sequence_number = sequence;
    snapshot.timestamp_ms = 6;
    snapshot.manifest_list = "mem://lake/l" + std::to_string(id);
    snapshot.summary = {{"operation", "append"}};
    return AddSnapshot{snapshot};
  }
  static TableUpdate Main(int64_t id) { return SetSnapshotRef{"main", {id, true, {}, {}, {}}}; }

  Result<LoadedTable> Commit(const std::vector<TableRequirement>& requirements,
                             const std::vector<TableUpdate>& updates) {
    return catalog().CommitTable(ident_, requirements, updates);
  }

  std::unique_ptr<World> world_ = GetParam().make();
  const TableIdent ident_{{"sales", "eu"}, "orders"};
};

TEST_P(CatalogContract, ListsNamespacesOfAnyDepthAndTables) {
  world_->Create({{"sales", "eu"}, "b"});
  world_->Create({{"sales", "eu"}, "a"});
  world_->Create({{"ops"}, "a"});
  using Path = std::vector<std::string>;
  EXPECT_THAT(*catalog().ListNamespaces({}), ElementsAre(Path{"ops"}, Path{"sales"}));
  EXPECT_THAT(*catalog().ListNamespaces({"sales"}), ElementsAre(Path{"sales", "eu"}));
  EXPECT_THAT(*catalog().ListNamespaces({"sales", "eu"}), IsEmpty());
  EXPECT_EQ(catalog().ListNamespaces({"none"}).error().code, Code::kNotFound);
  EXPECT_THAT(*catalog().ListTables({"sales", "eu"}),
              ElementsAre(TableIdent{{"sales", "eu"}, "a"}, TableIdent{{"sales", "eu"}, "b"}));
  EXPECT_THAT(*catalog().ListTables({"sales"}), IsEmpty());
  EXPECT_EQ(catalog().ListTables({"none"}).error().code, Code::kNotFound);
}

TEST_P(CatalogContract, LoadsATableAsItIs) {
  world_->Create(ident_);
  const Result<LoadedTable> table = catalog().LoadTable(ident_);
  ASSERT_TRUE(table) << table.error().ToString();
  EXPECT_EQ(table->ident, ident_);
  EXPECT_EQ(table->metadata_text, MetadataText(world_->Location(ident_)));
  EXPECT_EQ(table->metadata.table_uuid, "u-1");
  EXPECT_THAT(table->metadata_location, HasSubstr("/metadata/00000-"));
  EXPECT_EQ(catalog().LoadTable({{"sales"}, "orders"}).error().code, Code::kNotFound);
  const Result<LoadedTable> none = catalog().LoadTable({{"sales", "eu"}, "none"});
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_THAT(none.error().ToString(), HasSubstr("sales.eu.none"));
}

TEST_P(CatalogContract, ACommitIsTheNextMetadataFile) {
  world_->Create(ident_);
  const LoadedTable before = catalog().LoadTable(ident_).value();
  const Result<LoadedTable> after =
      Commit({AssertTableUuid{"u-1"}, AssertRefSnapshotId{"main", std::nullopt}},
             {NewSnapshot(1, 1, std::nullopt), Main(1)});
  ASSERT_TRUE(after) << after.error().ToString();
  EXPECT_EQ(after->metadata.current_snapshot_id, 1);
  EXPECT_EQ(after->metadata.last_sequence_number, 1);
  EXPECT_THAT(after->metadata_text, HasSubstr(R"("x-unknown":[1.50])"));
  EXPECT_THAT(after->metadata_location, HasSubstr(world_->Location(ident_) + "/metadata/00001-"));
  ASSERT_EQ(after->metadata.metadata_log.size(), 1);
  EXPECT_EQ(after->metadata.metadata_log[0].metadata_file, before.metadata_location);
  // The same for the next reader, and the file holds what it says.
  const LoadedTable again = catalog().LoadTable(ident_).value();
  EXPECT_EQ(again.metadata_location, after->metadata_location);
  EXPECT_EQ(again.metadata_text, after->metadata_text);
  const storage::Place place = world_->locations->Resolve(after->metadata_location).value();
  EXPECT_EQ(place.store->Get(place.key, 1 << 20)->bytes, after->metadata_text);
  // The old one stays.
  EXPECT_EQ(world_->Keys().size(), 2);
}

// Only where the table asks for it, and only what its log of metadata files has dropped.
TEST_P(CatalogContract, OldMetadataFilesGoWhereTheTableAsksForThat) {
  world_->Create(ident_);
  const auto set = [&](const std::string& key, const std::string& value) {
    const auto done = Commit({}, {SetProperties{{{key, value}}}});
    ASSERT_TRUE(done) << done.error().ToString();
  };
  set("write.metadata.previous-versions-max", "2");
  for (int i = 0; i < 4; ++i) set("a", std::to_string(i));
  EXPECT_EQ(world_->Keys().size(), 6);
  set("write.metadata.delete-after-commit.enabled", "true");
  const size_t files = world_->Keys().size();
  EXPECT_EQ(files, 6);  // One came, one went; those that nobody names any more stay.
  for (int i = 0; i < 4; ++i) set("b", std::to_string(i));
  EXPECT_EQ(world_->Keys().size(), files);
  const LoadedTable table = catalog().LoadTable(ident_).value();
  EXPECT_EQ(table.metadata.metadata_log.size(), 2);
  for (const auto& entry : table.metadata.metadata_log) {
    const storage::Place place = world_->locations->Resolve(entry.metadata_file).value();
    EXPECT_TRUE(place.store->Stat(place.key)) << entry.metadata_file;
  }
}

TEST_P(CatalogContract, R115ABrokenRequirementChangesNothing) {
  world_->Create(ident_);
  ASSERT_TRUE(Commit({}, {NewSnapshot(1, 1, std::nullopt), Main(1)}));
  const LoadedTable before = catalog().LoadTable(ident_).value();
  const size_t files = world_->Keys().size();
  const std::vector<std::vector<TableRequirement>> broken = {
      {AssertTableUuid{"u-2"}},
      {AssertRefSnapshotId{"main", std::nullopt}},
      {AssertRefSnapshotId{"main", 2}},
      {AssertTableUuid{"u-1"}, AssertRefSnapshotId{"other", 1}},
      {table::AssertCurrentSchemaId{1}},
      {table::AssertDefaultSpecId{1}},
      {table::AssertDefaultSortOrderId{1}}};
  for (const auto& requirements : broken) {
    const Result<LoadedTable> refused = Commit(requirements, {SetProperties{{{"a", "b"}}}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kConflict) << refused.error().ToString();
    EXPECT_THAT(refused.error().ToString(), HasSubstr("sales.eu.orders"));
  }
  // A number that somebody else took is a conflict, what makes no sense is not.
  EXPECT_EQ(Commit({}, {NewSnapshot(2, 1, 1)}).error().code, Code::kConflict);
  EXPECT_EQ(Commit({}, {Main(77)}).error().code, Code::kInvalid);
  EXPECT_EQ(catalog().LoadTable(ident_)->metadata_location, before.metadata_location);
  EXPECT_EQ(world_->Keys().size(), files);
}

TEST_P(CatalogContract, ACommitToNoTableIsNotFound) {
  world_->Create(ident_);
  const std::vector<TableUpdate> updates = {SetProperties{{{"a", "b"}}}};
  const Result<LoadedTable> none = catalog().CommitTable({{"sales", "eu"}, "none"}, {}, updates);
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_EQ(world_->Keys().size(), 1);
}

// Each round all threads commit on the same base: exactly one wins.
TEST_P(CatalogContract, OfConcurrentCommitsOnOneBaseExactlyOneWins) {
  world_->Create(ident_);
  constexpr int kThreads = 4;
  constexpr int kRounds = 15;
  std::optional<int64_t> head;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> won = 0;
    std::atomic<int> lost = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const int64_t id = round * kThreads + i + 1;
        for (;;) {
          const auto result = Commit({AssertRefSnapshotId{"main", head}},
                                     {NewSnapshot(id, round + 1, head), Main(id)});
          if (!result && result.error().code == Code::kTransient) continue;
          if (result) {
            ++won;
          } else if (result.error().code == Code::kConflict) {
            ++lost;
          } else {
            ADD_FAILURE() << result.error().ToString();
          }
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, kThreads - 1);
    const LoadedTable table = catalog().LoadTable(ident_).value();
    EXPECT_EQ(table.metadata.snapshots.size(), static_cast<size_t>(round) + 1);
    head = table.metadata.current_snapshot_id;
  }
  // Losers leave no file behind.
  EXPECT_EQ(world_->Keys().size(), kRounds + 1);
}

// --- what is new ---------------------------------------------------------------------------------

TableDraft Draft() {
  TableDraft draft;
  iceberg::Field key;
  key.id = 1;
  key.name = "key";
  key.required = true;
  key.type.kind = iceberg::TypeKind::kString;
  iceberg::Field at;
  at.id = 2;
  at.name = "at";
  at.type.kind = iceberg::TypeKind::kLong;
  draft.schema.fields = {key, at};
  draft.spec.fields = {{{2}, 1000, "at_trunc", "truncate[100]"}};
  draft.properties = {{"owner", "me"}, {"format-version", "2"}};
  return draft;
}

TEST_P(CatalogContract, ANamespaceIsMadeOnce) {
  using Path = std::vector<std::string>;
  EXPECT_EQ(catalog().CreateNamespace({"ops", "log"}, {}).value(), true);
  EXPECT_EQ(catalog().CreateNamespace({"ops", "log"}, {{"a", "b"}}).value(), false);
  EXPECT_EQ(catalog().CreateNamespace({"ops"}, {}).value(), false);  // It has a child.
  EXPECT_EQ(catalog().CreateNamespace({"other"}, {{"a", "b"}}).value(), true);
  EXPECT_THAT(*catalog().ListNamespaces({}), ElementsAre(Path{"ops"}, Path{"other"}));
  EXPECT_THAT(*catalog().ListNamespaces({"ops"}), ElementsAre(Path{"ops", "log"}));
  EXPECT_THAT(*catalog().ListTables({"ops", "log"}), IsEmpty());
  EXPECT_EQ(catalog().CreateNamespace({}, {}).error().code, Code::kInvalid);
  EXPECT_EQ(catalog().CreateNamespace({"a", ""}, {}).error().code, Code::kInvalid);
}

TEST_P(CatalogContract, ANewTableIsAsTheDraftSays) {
  ASSERT_TRUE(catalog().CreateNamespace(ident_.namespace_parts, {}));
  const Result<LoadedTable> made = catalog().CreateTable(ident_, Draft());
  ASSERT_TRUE(made) << made.error().ToString();
  const LoadedTable table = catalog().LoadTable(ident_).value();
  EXPECT_EQ(table.metadata_location, made->metadata_location);
  EXPECT_EQ(table.metadata_text, made->metadata_text);
  EXPECT_THAT(table.metadata_location,
              HasSubstr("mem://lake/warehouse/sales/eu/orders/metadata/00000-"));
  const iceberg::TableMetadata& metadata = table.metadata;
  EXPECT_EQ(metadata.format_version, 2);
  EXPECT_EQ(metadata.table_uuid.size(), 36);
  EXPECT_EQ(metadata.location, "mem://lake/warehouse/sales/eu/orders");
  EXPECT_EQ(metadata.schema(), Draft().schema);
  EXPECT_EQ(metadata.last_column_id, 2);
  EXPECT_EQ(*metadata.FindSpec(metadata.default_spec_id), Draft().spec);
  EXPECT_EQ(metadata.last_partition_id, 1000);
  EXPECT_EQ(metadata.properties, (std::map<std::string, std::string>{{"owner", "me"}}));
  EXPECT_EQ(metadata.current_snapshot_id, std::nullopt);
  EXPECT_THAT(*catalog().ListTables(ident_.namespace_parts), ElementsAre(ident_));
  // And it takes commits.
  const auto after =
      Commit({AssertTableUuid{metadata.table_uuid}, AssertRefSnapshotId{"main", std::nullopt}},
             {NewSnapshot(1, 1, std::nullopt), Main(1)});
  ASSERT_TRUE(after) << after.error().ToString();
}

TEST_P(CatalogContract, ANewTableOfVersion3AtALocationOfItsOwn) {
  ASSERT_TRUE(catalog().CreateNamespace(ident_.namespace_parts, {}));
  TableDraft draft = Draft();
  draft.location = "mem://lake/elsewhere/";
  draft.properties["format-version"] = "3";
  const Result<LoadedTable> made = catalog().CreateTable(ident_, draft);
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->metadata.format_version, 3);
  EXPECT_EQ(made->metadata.location, "mem://lake/elsewhere");
  EXPECT_THAT(made->metadata_location, HasSubstr("mem://lake/elsewhere/metadata/00000-"));
  draft.properties["format-version"] = "1";
  EXPECT_EQ(catalog().CreateTable({{"sales", "eu"}, "b"}, draft).error().code, Code::kInvalid);
}

TEST_P(CatalogContract, ATableIsNotMadeOverAnotherOrInNoNamespace) {
  EXPECT_EQ(catalog().CreateTable(ident_, Draft()).error().code, Code::kNotFound);
  EXPECT_THAT(world_->Keys(), IsEmpty());
  world_->Create(ident_);
  const Result<LoadedTable> second = catalog().CreateTable(ident_, Draft());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict) << second.error().ToString();
  EXPECT_THAT(second.error().ToString(), HasSubstr("sales.eu.orders"));
  EXPECT_EQ(catalog().LoadTable(ident_)->metadata.table_uuid, "u-1");
  EXPECT_EQ(world_->Keys().size(), 1);
}

TEST_P(CatalogContract, OfThoseWhoMakeATableExactlyOneDoes) {
  ASSERT_TRUE(catalog().CreateNamespace(ident_.namespace_parts, {}));
  for (int round = 0; round < 10; ++round) {
    const TableIdent ident{ident_.namespace_parts, "t" + std::to_string(round)};
    std::atomic<int> won = 0;
    std::atomic<int> lost = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (;;) {
          const Result<LoadedTable> made = catalog().CreateTable(ident, Draft());
          if (!made && made.error().code == Code::kTransient) continue;
          if (!made) {
            EXPECT_EQ(made.error().code, Code::kConflict) << made.error().ToString();
          }
          ++(made ? won : lost);
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, 3);
  }
  EXPECT_EQ(world_->Keys().size(), 10);  // Losers leave no file behind.
}

INSTANTIATE_TEST_SUITE_P(
    All, CatalogContract,
    testing::Values(Implementation{"Memory", [] { return std::make_unique<MemoryWorld>(); }},
                    Implementation{"Sqlite", [] { return std::make_unique<SqliteWorld>(); }}),
    [](const testing::TestParamInfo<Implementation>& test) { return test.param.name; });

// --- the seams of the in-memory catalog
// -----------------------------------------------------------

class MemoryCatalogFaults : public testing::Test {
 protected:
  MemoryCatalogFaults() { EXPECT_TRUE(catalog_.CreateTable(ident_, MetadataText("mem://lake/t"))); }
  Result<LoadedTable> Set(const std::string& value) {
    const std::vector<TableUpdate> updates = {SetProperties{{{"a", value}}}};
    return catalog_.CommitTable(ident_, {}, updates);
  }
  std::string Value() { return catalog_.LoadTable(ident_)->metadata.Property("a", "unset"); }
  void FailNext(MemoryCatalog::Fault fault) {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [fault](const TableIdent&) { return fault; };
    catalog_.set_hooks(hooks);
  }

  SystemClock clock_;
  SeededRandom random_{7};
  std::shared_ptr<storage::MemoryStore> store_ = std::make_shared<storage::MemoryStore>(clock_);
  std::unique_ptr<storage::Locations> locations_ =
      storage::MakeStoreLocations(store_, "mem", "lake");
  MemoryCatalog catalog_{*locations_, clock_, random_};
  const TableIdent ident_{{"n"}, "t"};
};

TEST_F(MemoryCatalogFaults, R302RepliesThatAreLost) {
  FailNext(MemoryCatalog::Fault::kLostBeforeApply);
  EXPECT_EQ(Set("1").error().code, Code::kUnknownOutcome);
  EXPECT_EQ(Value(), "unset");
  FailNext(MemoryCatalog::Fault::kLostAfterApply);
  EXPECT_EQ(Set("2").error().code, Code::kUnknownOutcome);
  EXPECT_EQ(Value(), "2");
  FailNext(MemoryCatalog::Fault::kConflict);
  EXPECT_EQ(Set("3").error().code, Code::kConflict);
  FailNext(MemoryCatalog::Fault::kDenied);
  EXPECT_EQ(Set("3").error().code, Code::kDenied);
  EXPECT_EQ(Value(), "2");
}

TEST_F(MemoryCatalogFaults, WithoutAWarehouseATableNeedsALocation) {
  EXPECT_EQ(catalog_.CreateTable({{"n"}, "u"}, Draft()).error().code, Code::kInvalid);
  TableDraft draft = Draft();
  draft.location = "mem://lake/u";
  EXPECT_TRUE(catalog_.CreateTable({{"n"}, "u"}, draft));
}

// The server tries again when it lost a race and the requirements still hold.
TEST_F(MemoryCatalogFaults, HooksLetOthersInAtEachStep) {
  std::vector<std::string> steps;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const TableIdent&) { steps.push_back("apply " + Value()); };
  hooks.before_swap = [&](const TableIdent&) {
    steps.emplace_back("swap");
    if (steps.size() != 2) return;
    const std::vector<TableUpdate> updates = {SetProperties{{{"other", "x"}}}};
    EXPECT_TRUE(catalog_.CommitTable(ident_, {}, updates));
  };
  hooks.before_answer = [&](const TableIdent&) { steps.push_back("answer " + Value()); };
  catalog_.set_hooks(hooks);
  const Result<LoadedTable> table = Set("1");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->metadata.Property("other", ""), "x");
  EXPECT_THAT(steps, ElementsAre("apply unset", "swap", "apply unset", "swap", "answer unset",
                                 "swap", "answer 1"));
  EXPECT_EQ(store_->Keys().size(), 3);
}

}  // namespace
}  // namespace lithify::catalog
