// Groups that share a link: while one writes, the next one reads (docs/decisions/
// 2026-12-01-reading-while-writing.md). Nothing here depends on time: who reads and who writes
// waits for what has to come before.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/turns.h"
#include "rewrite/splice_fixture.h"
#include "storage/counting_store.h"

namespace lithify::rewrite {
namespace {

constexpr int kGroups = 4;
constexpr int kFiles = 5;
constexpr auto kPatience = std::chrono::seconds(30);

// What happened, by group: those of "g2/…" are of group 2. Thread-safe.
class Link {
 public:
  explicit Link(const Turns& turns) : turns_(turns) {}

  // The last file but one of a group comes when the next group is about to load: it waits for its
  // turn, or it reads already. The last one is late: it comes when that group reads.
  void Reads(int group) {
    std::unique_lock lock(mutex_);
    const int number = ++asked_[group];
    const auto goes_on = [&] {
      return group == kGroups - 1 || number < kFiles - 1 || HasRead(group + 1) ||
             (number == kFiles - 1 && turns_.waiting() > 0);
    };
    for (int i = 0; i < 3000 && !goes_on(); ++i) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    if (!goes_on()) ++in_vain_;
    reads_.push_back(group);
    changed_.notify_all();
  }
  // Ends when the next group has read something.
  void Writes(int group) {
    std::unique_lock lock(mutex_);
    if (group == kGroups - 1) return;
    if (!changed_.wait_for(lock, kPatience, [&] { return HasRead(group + 1); })) ++in_vain_;
  }
  std::vector<int> reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  int in_vain() {
    const std::lock_guard lock(mutex_);
    return in_vain_;
  }

 private:
  bool HasRead(int group) const { return std::ranges::find(reads_, group) != reads_.end(); }

  const Turns& turns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, int> asked_;  // Reads, by group.
  std::vector<int> reads_;    // Groups, in the order of their reads.
  int in_vain_ = 0;           // Waits for another group that did not come.
};

class LinkedStore final : public storage::ForwardingStore {
 public:
  LinkedStore(storage::Store& store, Link& link) : ForwardingStore(store), link_(link) {}

  bool small_reads_are_cheap() const override { return false; }
  Result<std::unique_ptr<storage::Reader>> OpenKnown(const storage::ObjectInfo& known) override {
    LITHIFY_TRY_ASSIGN(auto reader, store_.OpenKnown(known));
    if (known.key.find("/in") == std::string::npos) return reader;
    return std::make_unique<LinkedReader>(std::move(reader), link_, GroupOf(known.key));
  }
  Result<std::unique_ptr<storage::Writer>> Create(const std::string& key) override {
    LITHIFY_TRY_ASSIGN(auto writer, store_.Create(key));
    return std::make_unique<LinkedWriter>(std::move(writer), link_, GroupOf(key));
  }

 private:
  static int GroupOf(const std::string& key) { return key[1] - '0'; }

  class LinkedReader final : public storage::Reader {
   public:
    LinkedReader(std::unique_ptr<storage::Reader> reader, Link& link, int group)
        : reader_(std::move(reader)), link_(link), group_(group) {}
    int64_t size() const override { return reader_->size(); }
    Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
      link_.Reads(group_);
      return reader_->ReadAt(offset, out);
    }

   private:
    const std::unique_ptr<storage::Reader> reader_;
    Link& link_;
    const int group_;
  };

  class LinkedWriter final : public storage::Writer {
   public:
    LinkedWriter(std::unique_ptr<storage::Writer> writer, Link& link, int group)
        : writer_(std::move(writer)), link_(link), group_(group) {}
    Status Append(std::span<const std::byte> bytes) override { return writer_->Append(bytes); }
    int64_t size() const override { return writer_->size(); }
    Status Flush() override { return writer_->Flush(); }
    Status Publish() override {
      link_.Writes(group_);
      return writer_->Publish();
    }
    void Discard() noexcept override { writer_->Discard(); }

   private:
    const std::unique_ptr<storage::Writer> writer_;
    Link& link_;
    const int group_;
  };

  Link& link_;
};

class LoadTurnsTest : public RunnerTest {
 protected:
  // Two of them at a time.
  void RewriteAll(bool in_turn) {
    for (int g = 0; g < kGroups; ++g) {
      for (int f = 0; f < kFiles; ++f) {
        const auto column = Longs(1000 * g + f, 7);
        ASSERT_TRUE(store_.PutNew(Key(g, f), WriteParquet(*OneColumn(column), 1 << 20, Plain())));
      }
    }
    LinkedStore store(store_, link_);
    ForEach(kGroups, 2, [&](size_t g) {
      GroupRequest request = RequestOf(static_cast<int>(g));
      if (in_turn) {
        request.turn_to_load = [&](const CancelFlag& cancel) { return turns_.Take(cancel); };
      }
      const auto report = MakeParquetRunner(store)->Run(request, cancel_);
      ASSERT_TRUE(report) << report.error().ToString();
      EXPECT_EQ(report->rows_out, kFiles * kRows);
    });
  }

  // Reads of a group before those of the group before it were nearly done.
  int ReadTooEarly() {
    const std::vector<int> reads = link_.reads();
    EXPECT_EQ(reads.size(), size_t{kGroups * kFiles});
    std::map<int, int> done;
    int early = 0;
    for (const int group : reads) {
      early += group > 0 && done[group - 1] < kFiles - 1 ? 1 : 0;
      ++done[group];
    }
    return early;
  }

  GroupRequest RequestOf(int group) {
    GroupRequest request = Request();
    request.partition = "g" + std::to_string(group) + "/";
    request.new_name = [] { return "out.parquet"; };
    for (int f = 0; f < kFiles; ++f) {
      const std::string key = Key(group, f);
      request.inputs.push_back({.key = key, .size = store_.Stat(key)->size});
    }
    return request;
  }
  void PutForOne() {
    Put("in0.parquet", WriteParquet(*OneColumn(Longs(1, 7)), 1 << 20, Plain()));
    Request();
  }
  static std::string Key(int group, int file) {
    return "g" + std::to_string(group) + "/in" + std::to_string(file) + ".parquet";
  }

  Turns turns_{LoadsAtOnce(2)};
  Link link_{turns_};
};

TEST_F(LoadTurnsTest, EachReadsWhileTheOneBeforeWrites) {
  RewriteAll(true);
  EXPECT_EQ(link_.in_vain(), 0);
  EXPECT_EQ(ReadTooEarly(), 0);
  EXPECT_EQ(turns_.waiting(), 0);
}

// The control: without turns they read together, and then both write.
TEST_F(LoadTurnsTest, WithoutTurnsTheyReadTogether) {
  RewriteAll(false);
  EXPECT_GT(ReadTooEarly(), 0);
}

TEST_F(LoadTurnsTest, OnDisksNobodyWaits) {
  PutForOne();
  int asked = 0;
  request_.turn_to_load = [&](const CancelFlag&) {
    ++asked;
    return Result<Turns::Turn>(nullptr);
  };
  ASSERT_TRUE(runner_->Run(request_, cancel_));
  EXPECT_EQ(asked, 0);
  storage::CountingStore far(store_, std::chrono::microseconds(0));
  ASSERT_TRUE(MakeParquetRunner(far)->Run(request_, cancel_));
  EXPECT_EQ(asked, 1);
}

// The turn is over when the inputs are there: before anything is written.
TEST_F(LoadTurnsTest, AsLongAsInputsAreLoaded) {
  PutForOne();
  storage::CountingStore far(store_, std::chrono::microseconds(0));
  request_.turn_to_load = [&](const CancelFlag& cancel) {
    EXPECT_EQ(far.Count("/in").requests, 0);
    return turns_.Take(cancel);
  };
  request_.before_publish = [&]() -> Status {
    CancelFlag stop;
    stop.Request();
    EXPECT_TRUE(turns_.Take(stop));  // Nobody has it.
    return {};
  };
  ASSERT_TRUE(MakeParquetRunner(far)->Run(request_, cancel_));
}

TEST_F(LoadTurnsTest, WhoWaitsIsStopped) {
  PutForOne();
  const auto held = turns_.Take(cancel_);
  CancelFlag stop;
  storage::CountingStore far(store_, std::chrono::microseconds(0));
  request_.turn_to_load = [&](const CancelFlag& cancel) {
    stop.Request();  // From now on it waits in vain.
    return turns_.Take(cancel);
  };
  const auto report = MakeParquetRunner(far)->Run(request_, stop);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCancelled);
  EXPECT_EQ(far.Count().requests, 0);
}

}  // namespace
}  // namespace lithify::rewrite
