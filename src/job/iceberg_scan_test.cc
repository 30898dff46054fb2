#include "job/iceberg_scan.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "job/parquet_table_fixture.h"
#include "rewrite/parquet_fixture.h"
#include "rewrite/table_batches.h"
#include "rewrite/table_fixture.h"
#include "storage/forwarding_store.h"
#include "table/puffin.h"

namespace lithify::job {
namespace {

using testing::HasSubstr;

// Counts the data files that are opened.
class OpenCounter final : public storage::ForwardingStore {
 public:
  explicit OpenCounter(storage::Store& store) : ForwardingStore(store) {}
  Result<std::unique_ptr<storage::Reader>> Open(const std::string& key) override {
    Count(key);
    return ForwardingStore::Open(key);
  }
  Result<std::unique_ptr<storage::Reader>> OpenKnown(const storage::ObjectInfo& object) override {
    Count(object.key);
    return ForwardingStore::OpenKnown(object);
  }
  int opened() const { return opened_; }

 private:
  void Count(const std::string& key) {
    if (key.starts_with("t/data/")) ++opened_;
  }
  std::atomic<int> opened_{0};
};

class IcebergScanTest : public ParquetTable {
 protected:
  Result<std::unique_ptr<IcebergScan>> Open(std::vector<int> columns, const std::string& where = "",
                                            const std::string& version = "") {
    metadata_ = Load().metadata;
    LITHIFY_TRY_ASSIGN(const ScanVersion at, FindVersion(metadata_, version));
    return OpenScan(over_ ? *over_ : *locations_, metadata_, at,
                    {.field_ids = std::move(columns),
                     .where = where,
                     .threads = 2,
                     .memory_bytes = 64 * kMiB,
                     .cancel = &cancel_});
  }

  // Ids, sorted; with `columns` none, only the number of rows.
  static Result<std::vector<int64_t>> Ids(IcebergScan& scan) {
    std::vector<int64_t> ids;
    const auto schema = arrow::schema({arrow::field("id", arrow::int64())});
    while (true) {
      ArrowArray batch;
      LITHIFY_TRY_ASSIGN(const bool more, scan.Next(&batch));
      if (!more) break;
      const auto rows = arrow::ImportRecordBatch(&batch, schema).ValueOrDie();
      EXPECT_TRUE(rows->ValidateFull().ok());
      const auto& column = static_cast<const arrow::Int64Array&>(*rows->column(0));
      for (int64_t i = 0; i < column.length(); ++i) ids.push_back(column.Value(i));
    }
    std::ranges::sort(ids);
    return ids;
  }
  static Result<int64_t> Count(IcebergScan& scan) {
    int64_t rows = 0;
    while (true) {
      ArrowArray batch;
      LITHIFY_TRY_ASSIGN(const bool more, scan.Next(&batch));
      if (!more) return rows;
      EXPECT_EQ(batch.n_children, 0);
      rows += batch.length;
      batch.release(&batch);
    }
  }
  std::vector<int64_t> AllIds(const std::string& where = "", const std::string& version = "") {
    auto scan = Open({1}, where, version);
    EXPECT_TRUE(scan) << scan.error().ToString();
    auto ids = Ids(**scan);
    EXPECT_TRUE(ids) << ids.error().ToString();
    return *ids;
  }
  Error ErrorOf(std::vector<int> columns) {
    auto scan = Open(std::move(columns));
    if (!scan) return scan.error();
    ArrowArray batch;
    while (true) {
      auto more = (*scan)->Next(&batch);
      if (!more) {
        // It stays what it is.
        EXPECT_EQ((*scan)->Next(&batch).error().message, more.error().message);
        return more.error();
      }
      if (!*more) return Error{Code::kInternal, "no error", "", ""};
      batch.release(&batch);
    }
  }

  iceberg::TableMetadata metadata_;
  std::unique_ptr<storage::Locations> over_;  // Instead of the table's own.
};

TEST_F(IcebergScanTest, DeletionVectors) {
  Create(3);
  Append({Rows("a", 0, 10), Rows("b", 10, 10)});
  const int64_t before = Head().snapshot_id;
  Delete({DeletedRows("dv1", "a", {0, 5, 9}),
          DeletedRows("dv2", "b", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})});
  EXPECT_EQ(AllIds(), (std::vector<int64_t>{1, 2, 3, 4, 6, 7, 8}));
  EXPECT_EQ(AllIds("", std::to_string(before)).size(), 20u);
  SetRef("then", before, false);
  EXPECT_EQ(AllIds("", "then").size(), 20u);
  EXPECT_EQ(Count(**Open({})).value(), 7);
  EXPECT_EQ(FindVersion(metadata_, "never").error().code, Code::kNotFound);
}

TEST_F(IcebergScanTest, FilesThatCannotMatchAreLeftOut) {
  Create();
  Append({Rows("a", 0, 10), Rows("b", 10, 10), Rows("c", 20, 10, 2)});
  const auto read = [&](const std::string& where) {
    auto scan = Open({1}, where);
    EXPECT_TRUE(scan) << scan.error().ToString();
    EXPECT_EQ((*scan)->files_live(), 3);
    EXPECT_TRUE(Ids(**scan));
    return (*scan)->files_read();
  };
  EXPECT_EQ(read(""), 3);
  EXPECT_EQ(read("\"id\" >= 10"), 2);
  EXPECT_EQ(read("\"day\" = 2"), 1);
  EXPECT_EQ(read("\"id\" > 100"), 0);
  // What is no filter rules nothing out.
  EXPECT_EQ(read("\"id\" >= 'x'"), 3);
  EXPECT_EQ(read("nobody = 3"), 3);
}

TEST_F(IcebergScanTest, DamageIsNamedByItsLocation) {
  Create();
  iceberg::DataFile wrong = Rows("a", 0, 10);
  wrong.record_count = 11;
  Append({wrong});
  Error error = ErrorOf({1});
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.ToString(), HasSubstr("s3://b/t/data/a"));
  EXPECT_THAT(error.message, HasSubstr("11 rows, the file has 10"));
  Remove({"a"});
  Append({Data("gone")});
  error = ErrorOf({1});
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.hint, HasSubstr("run the statement again"));
  Remove({"gone"});
  iceberg::DataFile orc = Data("o");
  orc.file_format = "ORC";
  Append({orc});
  EXPECT_EQ(ErrorOf({1}).code, Code::kUnsupported);
  EXPECT_EQ(ErrorOf({}).code, Code::kUnsupported);
}

TEST_F(IcebergScanTest, DeletesBeyondTheFileAreNotTakenOnTrust) {
  Create(3);
  Append({Rows("a", 0, 10)});
  Delete({DeletedRows("dv", "a", {3, 10})});
  for (const auto& columns : {std::vector<int>{1}, std::vector<int>{}}) {
    const Error error = ErrorOf(columns);
    EXPECT_EQ(error.code, Code::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("row 10 is deleted"));
  }
}

TEST_F(IcebergScanTest, FilesAreReadAheadAndNoFurther) {
  Create();
  std::vector<iceberg::DataFile> files;
  for (int i = 0; i < 40; ++i) files.push_back(Rows("f" + std::to_string(i), i * 10, 10));
  Append(files);
  auto counter = std::make_shared<OpenCounter>(*store_);
  over_ = storage::MakeStoreLocations(counter, "s3", "b");
  auto scan = Open({1});
  ASSERT_TRUE(scan);
  ArrowArray batch;
  ASSERT_TRUE((*scan)->Next(&batch).value());
  batch.release(&batch);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // One taken, two for each of two threads that wait, and one in the hands of each.
  EXPECT_LE(counter->opened(), 1 + 4 + 2);
  // It can be left at any time.
  scan->reset();
  scan = Open({1});
  EXPECT_EQ(Ids(**scan)->size(), 400u);
  EXPECT_GE(counter->opened(), 40);
}

TEST_F(IcebergScanTest, StopsWhenAsked) {
  Create();
  std::vector<iceberg::DataFile> files;
  for (int i = 0; i < 20; ++i) files.push_back(Rows("f" + std::to_string(i), i * 10, 10));
  Append(files);
  auto scan = Open({1});
  ASSERT_TRUE(scan);
  cancel_.Request();
  EXPECT_EQ(Ids(**scan).error().code, Code::kCancelled);
}

TEST_F(IcebergScanTest, ATableWithoutSnapshotHasNoRows) {
  Create();
  EXPECT_TRUE(AllIds().empty());
  EXPECT_EQ(Count(**Open({})).value(), 0);
}

}  // namespace
}  // namespace lithify::job
