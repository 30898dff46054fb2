// One column with nearly all of the bytes: its pages are read ahead and compressed aside.

#include "rewrite/page_threads.h"

#include <random>

#include "base/position_set.h"
#include "base/text.h"
#include "rewrite/parquet_fixture.h"

namespace lithify::rewrite {
namespace {

class PageThreadsTest : public RunnerTest {
 protected:
  // `rows` rows of one small column and a wide one, in pages of about 1 MiB.
  std::shared_ptr<arrow::Table> PutWide(int rows, size_t length, int distinct) {
    arrow::Int64Builder ids;
    arrow::BinaryBuilder bodies;
    std::vector<std::string> values(static_cast<size_t>(distinct));
    for (auto& value : values) {
      value.resize(length);
      for (char& c : value) c = static_cast<char>('a' + random_() % 26);
    }
    for (int i = 0; i < rows; ++i) {
      EXPECT_TRUE(ids.Append(i).ok());
      if (i % 7 == 3) {
        EXPECT_TRUE(bodies.AppendNull().ok());
      } else {
        EXPECT_TRUE(bodies.Append(values[static_cast<size_t>(i % distinct)]).ok());
      }
    }
    auto table = arrow::Table::Make(
        arrow::schema({arrow::field("id", arrow::int64()), arrow::field("body", arrow::binary())}),
        {ids.Finish().ValueOrDie(), bodies.Finish().ValueOrDie()});
    auto properties = parquet::WriterProperties::Builder();
    properties.compression(arrow::Compression::ZSTD)->enable_page_checksum();
    if (distinct == rows) properties.disable_dictionary();
    properties.dictionary_pagesize_limit(64 * kMiB);
    Put("in" + std::to_string(inputs_++) + ".parquet",
        WriteParquet(*table, 1 << 20, properties.build()));
    return table;
  }
  // The bytes of all outputs, which are removed.
  std::vector<std::string> BytesWith(int threads) {
    request_.threads = threads;
    outputs_ = 0;
    const auto report = runner_->Run(request_, cancel_);
    EXPECT_TRUE(report) << report.error().ToString();
    std::vector<std::string> bytes;
    if (!report) return bytes;
    for (const auto& output : report->outputs) {
      bytes.push_back(Bytes(output.name));
      EXPECT_TRUE(store_.Remove("p/" + output.name));
    }
    return bytes;
  }

  std::mt19937 random_{7};
};

TEST_F(PageThreadsTest, R232_TheSameBytesWithAnyNumberOfThreads) {
  const auto one = PutWide(2000, 4096, 2000);
  const auto two = PutWide(3000, 4096, 3000);
  Request();
  request_.shape.row_group_bytes = 7 * kMiB;  // Row groups end within chunks and pages.
  for (const char* codec : {"zstd", "snappy", "none"}) {
    request_.shape.codec = codec;
    const auto alone = BytesWith(1);
    ASSERT_EQ(alone.size(), 1U);
    const auto expected = arrow::ConcatenateTables({one, two}).ValueOrDie();
    EXPECT_TRUE(ReadParquet(alone[0])->Equals(*expected->CombineChunks().ValueOrDie()));
    for (const int threads : {2, 3, 8}) {
      EXPECT_TRUE(BytesWith(threads) == alone) << codec << ", " << threads << " threads";
    }
  }
}

TEST_F(PageThreadsTest, R232_AWideColumnWithADictionaryToo) {
  PutWide(4000, 64 * 1024, 100);
  Request();
  const auto alone = BytesWith(1);
  const auto several = BytesWith(3);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_TRUE(several == alone);
}

TEST_F(PageThreadsTest, PagesAboveTheBoundGoOneByOne) {
  PutWide(12, 3 * kMiB, 12);
  Request();
  request_.memory_bytes = 128 * kMiB;  // Pages ahead of 4 MiB at most; a batch makes larger ones.
  request_.shape.page_bytes = 5 * kMiB;
  const auto alone = BytesWith(1);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_TRUE(BytesWith(2) == alone);
}

TEST_F(PageThreadsTest, R100_DeletedRowsAreLeftOut) {
  PutWide(3000, 4096, 3000);
  PositionSet deleted;
  for (int64_t i = 0; i < 3000; i += 3) deleted.Add(i);
  for (int64_t i = 1000; i < 2200; ++i) deleted.Add(i);
  request_.inputs[0].deleted = std::make_shared<const PositionSet>(std::move(deleted));
  Request();
  const auto alone = BytesWith(1);
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(ReadParquet(alone[0])->num_rows(), 1200);
  EXPECT_TRUE(BytesWith(2) == alone);
}

TEST_F(PageThreadsTest, ADamagedPageIsCorruptAndLeavesNothing) {
  PutWide(3000, 4096, 3000);
  std::string damaged = Bytes("in0.parquet");
  damaged[damaged.size() / 2] ^= 1;
  Put("damaged.parquet", damaged);
  Request();
  const auto keys = store_.Keys();
  for (const int threads : {1, 2, 4}) {
    request_.threads = threads;
    const auto report = runner_->Run(request_, cancel_);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
    EXPECT_NE(report.error().ToString().find("p/damaged.parquet"), std::string::npos);
    EXPECT_EQ(store_.Keys(), keys);
  }
}

TEST_F(PageThreadsTest, AStopWhilePagesAreReadAheadLeavesNothing) {
  PutWide(3000, 4096, 3000);
  Request();
  request_.shape.row_group_bytes = kMiB;
  request_.threads = 4;
  request_.on_progress = [&](int64_t) { cancel_.Request(); };
  const auto keys = store_.Keys();
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCancelled);
  EXPECT_EQ(store_.Keys(), keys);
}

// A task that counts its runs and asks for another until it has had enough.
class Counting final : public PageThreads::Task {
 public:
  explicit Counting(int runs) : runs_(runs) {}
  void Work() override { ++worked_; }
  bool Finish() override { return ++finished_ < runs_; }
  int finished() const { return finished_; }

 private:
  const int runs_;
  int worked_ = 0;
  int finished_ = 0;
};

TEST(PageThreads, WhoWaitsWorksWhereThereIsNoThread) {
  PageThreads none(0, kMiB);
  Counting task(5);
  auto lock = none.Lock();
  none.Start(task, lock);
  EXPECT_EQ(task.finished(), 0);
  none.WorkUntil(lock, [&] { return task.finished() == 5; });
  EXPECT_EQ(task.finished(), 5);
}

TEST(PageThreads, ADroppedTaskRunsNoMore) {
  PageThreads threads(2, kMiB);
  for (int i = 0; i < 200; ++i) {
    auto task = std::make_unique<Counting>(1'000'000'000);
    {
      auto lock = threads.Lock();
      threads.Start(*task, lock);
      if (i % 2 == 0) threads.WorkUntil(lock, [&] { return task->finished() > 3; });
    }
    threads.Drop(*task);
    const int runs = task->finished();
    task.reset();
    EXPECT_LT(runs, 1'000'000'000);
  }
}

}  // namespace
}  // namespace lithify::rewrite
