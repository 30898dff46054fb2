// How many requests a rewrite makes of a store where each is a round trip (R183, R216), and that it
// is the same rewrite whatever becomes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/delete_scan.h"
#include "rewrite/splice_fixture.h"
#include "storage/counting_store.h"
#include "storage/faulty_store.h"
#include "storage/read_ahead.h"

namespace lithify::rewrite {
namespace {

using storage::CountingStore;
using storage::FaultyStore;
using storage::ReadAhead;

// Columns of numbers that do not pack, and one of texts that do.
std::shared_ptr<arrow::Table> Mixed(int columns, int rows, uint64_t seed) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (int c = 0; c < columns; ++c) {
    arrow::Int64Builder builder;
    EXPECT_TRUE(builder.Reserve(rows).ok());
    for (int r = 0; r < rows; ++r) {
      state = state * 6364136223846793005 + 1442695040888963407;
      builder.UnsafeAppend(static_cast<int64_t>(state >> 2));
    }
    arrays.push_back(builder.Finish().ValueOrDie());
    fields.push_back(arrow::field("n" + std::to_string(c), arrow::int64(), false));
  }
  arrays.push_back(Texts("t", 40, true, rows));
  fields.push_back(arrow::field("text", arrow::utf8()));
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

class ReadRequestsTest : public SpliceTest {
 protected:
  void PutFiles(int files, int columns, int rows, int64_t row_group_rows,
                const std::shared_ptr<parquet::WriterProperties>& properties = Properties()) {
    Request().threads = 4;
    request_.verify = Verify::kSample;
    for (int i = 0; i < files; ++i) {
      Put("in" + std::to_string(inputs_++) + ".parquet",
          WriteParquet(*Mixed(columns, rows, static_cast<uint64_t>(i)), row_group_rows,
                       properties));
    }
  }

  static int64_t Sizes(const std::vector<InputFile>& inputs) {
    int64_t bytes = 0;
    for (const InputFile& input : inputs) bytes += input.size;
    return bytes;
  }

  std::vector<std::string> Outputs(const GroupReport& report) {
    std::vector<std::string> outputs;
    for (const OutputFile& output : report.outputs) outputs.push_back(Bytes(output.name));
    return outputs;
  }

  // As it is made where reads are cheap.
  const std::vector<std::string>& Near() {
    const auto report = runner_->Run(request_, cancel_);
    EXPECT_TRUE(report) << report.error().ToString();
    if (report) near_ = Outputs(*report);
    return near_;
  }

  // What is the same whatever row groups there are.
  enum class Same { kBytes, kRows };

  // The same, made from afar. The most requests for one input.
  int64_t RunFar(Same same = Same::kBytes) {
    far_.Forget();
    const auto report = MakeParquetRunner(far_)->Run(request_, cancel_);
    EXPECT_TRUE(report) << report.error().ToString();
    if (!report) return -1;
    if (same == Same::kBytes) {
      EXPECT_TRUE(Outputs(*report) == Near());
    } else {
      const auto near = runner_->Run(request_, cancel_);
      EXPECT_TRUE(near && Output(*report)->Equals(*Output(*near)));
    }
    std::map<std::string, int64_t> requests;
    for (const auto& request : far_.requests()) ++requests[request.key];
    int64_t most = 0;
    for (const InputFile& input : request_.inputs) most = std::max(most, requests[input.key]);
    EXPECT_LE(far_.Count().at_once, 2 * ReadAhead::kRequestsAtOnce);
    return most;
  }

  int64_t Far(std::string_view verb) const {
    return std::ranges::count(far_.requests(), verb, &CountingStore::Request::verb);
  }

  CountingStore far_{store_, std::chrono::microseconds(200)};
  std::vector<std::string> near_;
};

// One request brings all of a small file: its footer, all columns, indexes.
TEST_F(ReadRequestsTest, TinyFilesAreOneRequestEach) {
  PutFiles(300, 4, 600, 1 << 20);
  EXPECT_EQ(RunFar(), 1);
  EXPECT_EQ(far_.Count("/in").requests, 300);
  EXPECT_EQ(far_.Count("/in").bytes, Sizes(request_.inputs));
  // Read back: the end, what is sampled.
  EXPECT_LE(far_.Count("/out").requests, 3);
  request_.shape.splice = false;
  request_.verify = Verify::kFull;
  EXPECT_EQ(RunFar(), 1);
}

TEST_F(ReadRequestsTest, SmallFilesAreOneRequestEachWhereThereIsMemory) {
  PutFiles(40, 10, 9'000, 1 << 20);  // 0.83 MiB each.
  request_.memory_bytes = 2 * kGiB;
  EXPECT_EQ(RunFar(), 1);
  EXPECT_EQ(far_.Count("/in").repeated_bytes, 0);
}

// Else their footers are read before all the rest.
TEST_F(ReadRequestsTest, SmallFilesWithLittleMemory) {
  PutFiles(40, 10, 9'000, 1 << 20);
  request_.memory_bytes = 128 * kMiB;
  // One more in the first, the last and the one between, for a look at their dictionaries; one for
  // the column that is sampled at the end of the output.
  EXPECT_LE(RunFar(), 4);
  EXPECT_EQ(Far("Open"), 0);
  EXPECT_LE(far_.Count("/in").requests, 40 * 2 + 3 + 40);
  for (const bool splice : {true, false}) {
    request_.shape.splice = splice;
    for (const Verify verify : {Verify::kCounts, Verify::kFull}) {
      request_.verify = verify;
      EXPECT_LE(RunFar(), 3);
      EXPECT_LE(far_.Count("/in").requests, 40 * 2 + 3);
      // No more than the ends of files, whose footers come twice, and what is looked at before.
      EXPECT_LE(far_.Count("/in").repeated_bytes, 40 * 64 * kKiB + 3 * kMiB);
    }
  }
}

// Files of several row groups of 33 columns, with page indexes and a filter: the end, each row
// group, the indexes.
TEST_F(ReadRequestsTest, LargeFiles) {
  PutFiles(2, 32, 24'000, 6'000, Plain([](auto& b) {
             b.enable_write_page_index()->data_pagesize(16 << 10);
             b.enable_bloom_filter("n0", parquet::BloomFilterOptions{});
           }));
  ASSERT_GT(request_.inputs[0].size, kWholeBytes);
  request_.verify = Verify::kCounts;
  request_.shape.growth_max = 0;
  EXPECT_LE(RunFar(), 1 + 4 + 1);
  request_.verify = Verify::kFull;
  EXPECT_LE(RunFar(), 1 + 4 + 1);
  // Row groups that are moved, with their filters.
  request_.shape.row_group_bytes = 2 * kMiB;
  request_.shape.bloom_columns = {"n0"};
  EXPECT_LE(RunFar(), 1 + 4 + 1 + 4);
  // Read back: the end, each row group.
  EXPECT_LE(far_.Count("/out").requests, 1 + 8);
  request_.verify = Verify::kSample;
  EXPECT_LE(RunFar(), 1 + 4 + 1 + 4 + 1);
  request_.shape.splice = false;
  request_.verify = Verify::kFull;
  EXPECT_LE(RunFar(), 1 + 4);
  EXPECT_LE(far_.Count("/in").repeated_bytes, 2 * 256 * kKiB);
}

// Row groups that do not fit the memory for reading ahead come in smaller parts, each some times.
TEST_F(ReadRequestsTest, RowGroupsLargerThanTheMemory) {
  PutFiles(2, 16, 64'000, 64'000);
  request_.memory_bytes = 40 * kMiB;
  ASSERT_GT(request_.inputs[0].size, request_.memory_bytes / 6);
  const int64_t parts = request_.inputs[0].size / (request_.memory_bytes / 6 / 8) + 1;
  for (const bool splice : {true, false}) {
    for (const int threads : {1, 4}) {
      request_.shape.splice = splice;
      request_.threads = threads;
      // Either may run out of memory, and begin again with smaller row groups.
      EXPECT_LE(RunFar(Same::kRows), 40 * parts);
    }
  }
}

TEST_F(ReadRequestsTest, DeletedRows) {
  PutFiles(6, 10, 60'000, 20'000);
  ASSERT_GT(request_.inputs[0].size, kWholeBytes);
  for (size_t i = 0; i < request_.inputs.size(); ++i) {
    PositionSet deleted;
    // All of one row group, some of another one.
    for (int64_t row = 0; row < 25'000; row += i % 2 == 0 ? 1 : 7) deleted.Add(row);
    request_.inputs[i].deleted = std::make_shared<const PositionSet>(std::move(deleted));
  }
  // Of a row group that is deleted one column is read, to count its rows.
  EXPECT_LE(RunFar(), 1 + 3 + 1 + 1 + 1);
  request_.verify = Verify::kFull;
  EXPECT_LE(RunFar(), 1 + 3 + 1 + 1);
}

TEST_F(ReadRequestsTest, FactsAndVerificationOfOneFile) {
  PutFiles(1, 32, 24'000, 6'000);
  const std::string key = request_.inputs[0].key;
  const auto runner = MakeParquetRunner(far_);
  ASSERT_TRUE(runner->Inspect({.key = key}));
  EXPECT_EQ(far_.Count().requests, 2);
  // By now that is known.
  const storage::ObjectInfo listed = *store_.Stat(key);
  EXPECT_EQ(runner->Inspect(listed)->rows, 24'000);
  EXPECT_EQ(far_.Count().requests, 2);
  far_.Forget();
  EXPECT_EQ(MakeParquetRunner(far_)->Inspect(listed)->rows, 24'000);
  EXPECT_EQ(far_.Count().requests, 1);
  far_.Forget();
  const auto verified = runner->VerifyFile(key, {}, cancel_);
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->digest, runner_->VerifyFile(key, {}, cancel_)->digest);
  // Its size, the end, row groups.
  EXPECT_LE(far_.Count().requests, 2 + 4);
}

// A file that was replaced is another one, though it is as long and as old.
TEST_F(ReadRequestsTest, FactsOfAFileThatIsReplaced) {
  const auto schema = arrow::schema({arrow::field("n", arrow::int64(), false)});
  const std::string one = WriteParquet(*MakeTable(schema, {"[1, 2, 3]"}));
  const std::string other = WriteParquet(*MakeTable(schema, {"[4, 5, 6]"}));
  ASSERT_EQ(one.size(), other.size());
  Request();
  Put("in.parquet", one);
  const std::string key = request_.inputs[0].key;
  const storage::ObjectInfo before = *store_.Stat(key);
  const auto runner = MakeParquetRunner(far_);
  ASSERT_TRUE(runner->Inspect(before));
  ASSERT_TRUE(store_.PutIf(key, other, before.version));
  ASSERT_TRUE(store_.SetModified(key, before.modified));
  const storage::ObjectInfo after = *store_.Stat(key);
  ASSERT_NE(after.version, before.version);
  far_.Forget();
  ASSERT_TRUE(runner->Inspect(after));
  EXPECT_EQ(far_.Count().requests, 1);
  // Who was told of the first one is not given the other, neither facts nor rows.
  EXPECT_EQ(MakeParquetRunner(far_)->Inspect(before).error().code, Code::kConflict);
  request_.inputs[0].version = before.version;
  EXPECT_EQ(MakeParquetRunner(far_)->Run(request_, cancel_).error().code, Code::kConflict);
  request_.inputs[0].version = after.version;
  EXPECT_TRUE(MakeParquetRunner(far_)->Run(request_, cancel_));
  ASSERT_TRUE(store_.Remove(key));
  EXPECT_EQ(MakeParquetRunner(far_)->Inspect(before).error().code, Code::kNotFound);
}

// Of a delete file not even the size is known.
TEST_F(ReadRequestsTest, DeleteFiles) {
  const auto schema = arrow::schema({arrow::field("file_path", arrow::utf8(), false),
                                     arrow::field("pos", arrow::int64(), false)});
  const std::string bytes = WriteParquet(*MakeTable(schema, {R"(["a", "a", "b"])", "[3, 5, 0]"}));
  ASSERT_TRUE(store_.PutNew("p/deletes.parquet", bytes));
  const auto same = [](std::string_view path) { return std::string(path); };
  const auto found = ReadPositionDeletes(far_, "p/deletes.parquet", 3, same, {});
  ASSERT_TRUE(found) << found.error().ToString();
  EXPECT_EQ(found->at("a").size(), 2);
  EXPECT_EQ(found->at("b").size(), 1);
  EXPECT_EQ(far_.Count().requests, 1);
  // Too large to be read whole: asked for, opened, the end, two columns.
  far_.Forget();
  const auto part = ReadPositionDeletes(far_, "p/deletes.parquet", 3, same, {.memory_bytes = 4096});
  EXPECT_TRUE(part) << part.error().ToString();
  EXPECT_EQ(far_.Count().requests, 5);
}

// Where reads are cheap everything is as it was: nothing is read ahead or by other threads.
TEST_F(ReadRequestsTest, NothingOfThisWhereReadsAreCheap) {
  PutFiles(20, 10, 9'000, 1 << 20);
  CountingStore near(store_, std::chrono::microseconds(0), true);
  ASSERT_TRUE(MakeParquetRunner(near)->Run(request_, cancel_));
  std::set<std::thread::id> threads;
  int64_t opened = 0;
  for (const auto& request : near.requests()) {
    threads.insert(request.thread);
    EXPECT_NE(request.verb, "Get");
    opened += request.verb == "Open" ? 1 : 0;
    // The end of a file, or part of one column.
    if (request.key.starts_with("p/in")) {
      EXPECT_LE(request.bytes, 128 * kKiB) << request.verb << " " << request.key;
    }
  }
  EXPECT_EQ(opened, 20 + 1);
  EXPECT_LE(near.Count().at_once, request_.threads);
}

// ---------------------------------------------------------------------------------------- faults

class ReadFaultsTest : public ReadRequestsTest {
 protected:
  // Files that are held, others that are not, of two row groups; row groups of outputs that fit the
  // memory for reading ahead, and some that do not.
  void PutMany() {
    PutFiles(5, 6, 30'000, 16'000);
    request_.memory_bytes = 32 * kMiB;
    Near();
  }

  Result<GroupReport> RunWith(const FaultyStore::Hook& hook) {
    FaultyStore faulty(far_, hook);
    return MakeParquetRunner(faulty)->Run(request_, cancel_);
  }

  int64_t ReadsOfARun() {
    std::atomic<int64_t> reads{0};
    EXPECT_TRUE(RunWith([&](std::string_view op, const std::string& key, bool before) -> Status {
      if (before && IsRead(op, key)) ++reads;
      return {};
    }));
    return reads;
  }

  static bool IsRead(std::string_view op, const std::string& key) {
    return key.starts_with("p/in") && (op == "ReadAt" || op == "Get" || op == "Open");
  }
};

// Whatever read fails from some time on, the rewrite fails with that error, and leaves nothing.
TEST_F(ReadFaultsTest, WhatFailsForGoodIsTheErrorOfTheRewrite) {
  PutMany();
  const int64_t reads = ReadsOfARun();
  ASSERT_GE(reads, 20);
  for (const Code code : {Code::kTransient, Code::kCorrupt, Code::kConflict, Code::kNotFound}) {
    for (int64_t n = 0; n < 15; n += 2) {
      std::atomic<int64_t> at{0};
      const auto outputs_before = store_.Keys().size();
      const auto report =
          RunWith([&](std::string_view op, const std::string& key, bool before) -> Status {
            if (!before || !IsRead(op, key) || at++ < n) return {};
            return Fail(code, "no more");
          });
      ASSERT_FALSE(report) << n;
      EXPECT_EQ(report.error().code, code) << report.error().ToString();
      EXPECT_NE(report.error().ToString().find("no more"), std::string::npos);
      EXPECT_EQ(store_.Keys().size(), outputs_before);
    }
  }
}

// One read that fails is the error of the rewrite, or nobody's; a wrong output it never is.
TEST_F(ReadFaultsTest, OneReadThatFails) {
  PutMany();
  const int64_t reads = ReadsOfARun();
  int64_t failed = 0;
  for (int64_t n = 0; n < reads; ++n) {
    std::atomic<int64_t> at{0};
    const auto report =
        RunWith([&](std::string_view op, const std::string& key, bool before) -> Status {
          if (before || !IsRead(op, key) || at++ != n) return {};
          return Fail(Code::kTransient, "once");
        });
    if (report) {
      EXPECT_TRUE(Outputs(*report) == near_) << n;
    } else {
      ++failed;
      EXPECT_EQ(report.error().code, Code::kTransient) << report.error().ToString();
    }
  }
  EXPECT_GT(failed, 0);
  EXPECT_LT(failed, reads);
}

TEST_F(ReadFaultsTest, Cancelled) {
  PutMany();
  const int64_t reads = ReadsOfARun();
  for (int64_t n = 0; n < reads - 2; n += 3) {
    CancelFlag cancel;
    std::atomic<int64_t> at{0};
    FaultyStore faulty(far_, [&](std::string_view op, const std::string& key, bool before) {
      if (before && IsRead(op, key) && at++ == n) cancel.Request();
      return Status();
    });
    const auto keys = store_.Keys().size();
    const auto report = MakeParquetRunner(faulty)->Run(request_, cancel);
    ASSERT_FALSE(report) << n;
    EXPECT_EQ(report.error().code, Code::kCancelled) << report.error().ToString();
    EXPECT_EQ(store_.Keys().size(), keys);
    // What is under way is waited for, and no more is asked for.
    EXPECT_LE(at, n + 1 + 2 * ReadAhead::kRequestsAtOnce);
  }
}

// Of files that are not as long as their listing says, the same is said from near and from afar.
TEST_F(ReadFaultsTest, FilesOfAnotherLength) {
  PutMany();
  const std::vector<InputFile> inputs = request_.inputs;
  for (const int64_t more : {-1, 1, 5000}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      request_.inputs = inputs;
      request_.inputs[i].size += more;
      const auto near = runner_->Run(request_, cancel_);
      const auto far = MakeParquetRunner(far_)->Run(request_, cancel_);
      ASSERT_FALSE(near);
      ASSERT_FALSE(far);
      EXPECT_EQ(near.error().code, Code::kCorrupt);
      EXPECT_EQ(far.error().code, Code::kCorrupt) << far.error().ToString();
    }
  }
}

}  // namespace
}  // namespace lithify::rewrite
