// What writers hold while a group is written: one output at a time, out of the group's memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/text.h"
#include "rewrite/parquet_fixture.h"
#include "storage/forwarding_store.h"

namespace lithify::rewrite {
namespace {

// A store whose writers hold what they get until they are flushed or published. Thread-safe.
class HoldingStore final : public storage::ForwardingStore {
 public:
  HoldingStore(storage::Store& store, int64_t buffer_bytes)
      : ForwardingStore(store), buffer_bytes_(buffer_bytes) {}

  Result<std::unique_ptr<storage::Writer>> Create(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(auto writer, store_.Create(key));
    return std::make_unique<HoldingWriter>(*this, std::move(writer));
  }
  int64_t writer_buffer_bytes() const override { return buffer_bytes_; }

  std::atomic<int> most_holding = 0;
  std::atomic<int> flushed = 0;
  std::atomic<int> published = 0;
  std::atomic<int64_t> most_bytes = 0;  // What writers hold, as is said of them, and all buffers.

 private:
  class HoldingWriter final : public storage::Writer {
   public:
    HoldingWriter(HoldingStore& store, std::unique_ptr<storage::Writer> writer)
        : store_(store), writer_(std::move(writer)) {}
    ~HoldingWriter() override { LetGo(); }
    Status Append(std::span<const std::byte> bytes) override {
      if (!std::exchange(holding_, true)) ++store_.holding_;
      const int holding = store_.holding_;
      Raise(store_.most_holding, holding);
      Raise(store_.most_bytes,
            holding * store_.buffer_bytes_ + arrow::default_memory_pool()->bytes_allocated());
      return writer_->Append(bytes);
    }
    int64_t size() const override { return writer_->size(); }
    Status Flush() override {
      ++store_.flushed;
      LetGo();
      return writer_->Flush();
    }
    Status Publish() override {
      ++store_.published;
      LetGo();
      return writer_->Publish();
    }
    void Discard() noexcept override { writer_->Discard(); }

   private:
    void LetGo() {
      if (std::exchange(holding_, false)) --store_.holding_;
    }

    HoldingStore& store_;
    const std::unique_ptr<storage::Writer> writer_;
    bool holding_ = false;
  };

  template <typename T>
  static void Raise(std::atomic<T>& most, T value) {
    T known = most;
    while (known < value && !most.compare_exchange_weak(known, value)) {
    }
  }

  const int64_t buffer_bytes_;
  std::atomic<int> holding_ = 0;
};

// Numbers that do not pack: 8 bytes each.
std::shared_ptr<arrow::Table> Numbers(int rows, uint64_t seed) {
  arrow::Int64Builder builder;
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (int r = 0; r < rows; ++r) {
    state = state * 6364136223846793005 + 1442695040888963407;
    EXPECT_TRUE(builder.Append(static_cast<int64_t>(state >> 2)).ok());
  }
  return arrow::Table::Make(arrow::schema({arrow::field("n", arrow::int64(), false)}),
                            {builder.Finish().ValueOrDie()});
}

class WriterMemoryTest : public RunnerTest {
 protected:
  // Of about 800 KiB each.
  void PutFiles(int files) {
    for (int i = 0; i < files; ++i) {
      const auto table = Numbers(100'000, static_cast<uint64_t>(i));
      tables_.push_back(table);
      Put("in" + std::to_string(i) + ".parquet",
          WriteParquet(*table, 10'000,
                       parquet::WriterProperties::Builder().disable_dictionary()->build()));
    }
  }
  std::vector<int64_t> RowGroups(storage::Store& store, int64_t memory) {
    Request().memory_bytes = memory;
    request_.shape.page_bytes = 64 * kKiB;
    const auto report = MakeParquetRunner(store)->Run(request_, cancel_);
    EXPECT_TRUE(report) << report.error().ToString();
    std::vector<int64_t> groups;
    if (!report) return groups;
    for (const OutputFile& output : report->outputs) groups.push_back(output.row_groups);
    EXPECT_TRUE(Output(*report)->Equals(
        *arrow::ConcatenateTables(tables_).ValueOrDie()->CombineChunks().ValueOrDie(), false));
    return groups;
  }

  std::vector<std::shared_ptr<arrow::Table>> tables_;
};

TEST_F(WriterMemoryTest, OneOutputAtATimeHoldsAny) {
  PutFiles(8);
  HoldingStore holding(store_, 0);
  Request().shape.row_group_bytes = 256 * kKiB;
  request_.shape.outputs = 4;
  const auto report = MakeParquetRunner(holding)->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->outputs.size(), 4U);
  EXPECT_EQ(holding.most_holding, 1);
  // The last one is published at once.
  EXPECT_EQ(holding.flushed, 3);
  EXPECT_EQ(holding.published, 4);
}

TEST_F(WriterMemoryTest, TheWriterIsPaidForByTheGroup) {
  PutFiles(10);
  const auto with_16 = RowGroups(store_, 16 * kMiB);
  const auto with_12 = RowGroups(store_, 12 * kMiB);
  ASSERT_NE(with_16, with_12);
  HoldingStore small(store_, 4 * kMiB);
  EXPECT_EQ(RowGroups(small, 16 * kMiB), with_12);
  // It does not fit, and that is no reason to fail: a quarter is charged.
  HoldingStore huge(store_, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(RowGroups(huge, 16 * kMiB), with_12);
}

// What a job does by default, one to sixteen: five groups share the memory, a quarter of each share
// is a writer, and each makes many outputs, which all live to the end.
TEST_F(WriterMemoryTest, GroupsTogetherStayBelowTheBound) {
  PutFiles(20);
  constexpr int kGroups = 5;
  constexpr int64_t kMemory = 60 * kMiB;
  Request().memory_bytes = kMemory / kGroups;
  request_.shape.outputs = 8;
  request_.shape.page_bytes = 64 * kKiB;
  HoldingStore holding(store_, 3 * kMiB);
  const auto runner = MakeParquetRunner(holding);
  std::atomic<int> names = 0;
  request_.new_name = [&] { return "o" + std::to_string(names++) + ".parquet"; };
  ForEach(2 * kGroups, kGroups, [&](size_t) {
    const auto report = runner->Run(request_, cancel_);
    EXPECT_TRUE(report && report->outputs.size() == 8U);
  });
  EXPECT_EQ(holding.published, 2 * kGroups * 8);
  EXPECT_LE(holding.most_holding, kGroups);
  EXPECT_LE(holding.most_bytes, kMemory);
  EXPECT_GT(holding.most_bytes, kMemory / 4);
}

}  // namespace
}  // namespace lithify::rewrite
