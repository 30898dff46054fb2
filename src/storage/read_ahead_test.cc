#include "storage/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lithify::storage {
namespace {

using Requests = std::vector<std::pair<int64_t, int64_t>>;  // Offset and length.

// Objects of one content, whose reads can be looked at, held up and made to fail.
class Far {
 public:
  static constexpr int64_t kSize = 1000;
  using Hook = std::function<Status(const std::string& key, int64_t offset, int64_t bytes)>;

  ReadAhead::Open open() {
    return [this](const std::string& key) -> Result<std::shared_ptr<Reader>> {
      return std::make_shared<FarReader>(*this, key);
    };
  }
  static char ByteAt(const std::string& key, int64_t offset) {
    return static_cast<char>((offset * 7 + offset / 256 + static_cast<int64_t>(key.back())) & 0xff);
  }
  static std::string Bytes(const std::string& key, int64_t offset, int64_t bytes) {
    std::string part;
    for (int64_t i = offset; i < std::min(kSize, offset + bytes); ++i) part += ByteAt(key, i);
    return part;
  }
  // Called by each read, before it is done.
  void OnRead(Hook hook) { hook_ = std::move(hook); }
  void CutTo(int64_t size) { size_ = size; }
  Requests requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // Waits until so many reads were begun.
  void Await(size_t count) {
    std::unique_lock lock(mutex_);
    begun_.wait(lock, [&] { return requests_.size() >= count; });
  }

 private:
  class FarReader final : public Reader {
   public:
    FarReader(Far& far, std::string key) : far_(far), key_(std::move(key)) {}
    int64_t size() const override { return kSize; }
    Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
      {
        const std::lock_guard lock(far_.mutex_);
        far_.requests_.emplace_back(offset, std::ssize(out));
      }
      far_.begun_.notify_all();
      if (far_.hook_) LITHIFY_TRY(far_.hook_(key_, offset, std::ssize(out)));
      const std::string bytes = Bytes(key_, offset, std::min(far_.size_ - offset, std::ssize(out)));
      std::ranges::copy(std::as_bytes(std::span(bytes)), out.begin());
      return std::ssize(bytes);
    }

   private:
    Far& far_;
    const std::string key_;
  };

  std::mutex mutex_;
  std::condition_variable begun_;
  Requests requests_;
  Hook hook_;
  int64_t size_ = kSize;
};

// A door that is opened once.
class Door {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

Extent Part(const std::string& key, int64_t offset, int64_t bytes, int64_t round = 0) {
  return {key, offset, bytes, bytes, round, round};
}

Result<std::string> Read(ReadAhead& ahead, const std::string& key, int64_t offset, int64_t bytes) {
  std::string out(static_cast<size_t>(bytes), '?');
  LITHIFY_TRY_ASSIGN(const int64_t got,
                     ahead.ReadAt(key, offset, std::as_writable_bytes(std::span(out))));
  out.resize(static_cast<size_t>(got));
  return out;
}

void ExpectRead(ReadAhead& ahead, const std::string& key, int64_t offset, int64_t bytes) {
  const auto read = Read(ahead, key, offset, bytes);
  ASSERT_TRUE(read) << read.error().ToString();
  EXPECT_EQ(*read, Far::Bytes(key, offset, bytes)) << key << " " << offset << " " << bytes;
}

TEST(ReadAheadTest, OneRequestServesManyReads) {
  Far far;
  ReadAhead ahead(far.open(), 1000, nullptr);
  ahead.Expect({Part("a", 100, 300)});
  for (int64_t at = 100; at < 400; at += 20) ExpectRead(ahead, "a", at, 20);
  ExpectRead(ahead, "a", 100, 300);
  EXPECT_EQ(far.requests(), (Requests{{100, 300}}));
  EXPECT_EQ(ahead.bytes_held(), 300);
}

TEST(ReadAheadTest, WhatIsNotExpectedIsReadAsItIsAskedFor) {
  Far far;
  ReadAhead ahead(far.open(), 1000, nullptr);
  ExpectRead(ahead, "a", 5, 10);
  ExpectRead(ahead, "a", 990, 20);
  ExpectRead(ahead, "a", 2000, 20);
  EXPECT_EQ(far.requests(), (Requests{{5, 10}, {990, 20}, {2000, 20}}));
  EXPECT_EQ(ahead.bytes_held(), 0);
}

TEST(ReadAheadTest, AReadMayLieInSeveralExtentsAndEndBehindThem) {
  Far far;
  ReadAhead ahead(far.open(), 1000, nullptr);
  ahead.Expect({Part("a", 0, 100), Part("a", 100, 100)});
  far.Await(2);
  ExpectRead(ahead, "a", 50, 100);
  ExpectRead(ahead, "a", 150, 100);
  Requests requests = far.requests();
  std::ranges::sort(requests);
  EXPECT_EQ(requests, (Requests{{0, 100}, {100, 100}, {200, 50}}));
}

TEST(ReadAheadTest, FetchesInOrderAsFarAsTheBoundGoes) {
  Far far;
  ReadAhead ahead(far.open(), 400, nullptr);
  far.OnRead([&](const std::string&, int64_t, int64_t) -> Status {
    EXPECT_LE(ahead.bytes_held(), 400);
    return {};
  });
  std::vector<Extent> extents;
  for (int64_t i = 0; i < 10; ++i) extents.push_back(Part("a", i * 100, 100, i));
  ahead.Expect(std::move(extents));
  far.Await(4);
  for (int64_t round = 0; round < 10; ++round) {
    ExpectRead(ahead, "a", round * 100, 100);
    const size_t fetched = std::min<size_t>(10, static_cast<size_t>(round) + 4);
    // What was read through stays until its round is over: there is no room for more.
    EXPECT_EQ(far.requests().size(), fetched);
    std::set<int64_t> offsets;
    for (const auto& [offset, bytes] : far.requests()) offsets.insert(offset / 100);
    EXPECT_EQ(*offsets.rbegin(), static_cast<int64_t>(fetched) - 1);
    EXPECT_EQ(offsets.size(), fetched);
    ahead.End(round);
    far.Await(std::min<size_t>(10, fetched + 1));
  }
  EXPECT_EQ(ahead.bytes_held(), 0);
}

TEST(ReadAheadTest, WhatIsOverIsForgotten) {
  Far far;
  ReadAhead ahead(far.open(), 1000, nullptr);
  ahead.Expect({Part("a", 0, 100, 0), {"b", 0, 100, 100, 0, 1}});
  ExpectRead(ahead, "a", 0, 100);
  ExpectRead(ahead, "b", 0, 100);
  ahead.End(0);
  EXPECT_EQ(ahead.bytes_held(), 100);
  ExpectRead(ahead, "a", 10, 10);
  ExpectRead(ahead, "b", 10, 10);
  ahead.End(1);
  EXPECT_EQ(ahead.bytes_held(), 0);
  ExpectRead(ahead, "b", 20, 10);
  EXPECT_EQ(far.requests().size(), 4U);
  EXPECT_EQ(far.requests().back(), (std::pair<int64_t, int64_t>(20, 10)));
}

// A round that the bound does not hold is fetched about once each time that it is read through; now
// and then the threads are in each other's way.
TEST(ReadAheadTest, ARoundLargerThanTheBound) {
  Far far;
  ReadAhead ahead(far.open(), 300, nullptr);
  std::atomic<int64_t> most{0};
  far.OnRead([&](const std::string&, int64_t, int64_t) -> Status {
    most = std::max<int64_t>(most, ahead.bytes_held());
    return {};
  });
  std::vector<Extent> extents;
  for (int64_t i = 0; i < 10; ++i) extents.push_back(Part("a", i * 100, 100));
  ahead.Expect(std::move(extents));
  for (int pass = 0; pass < 3; ++pass) {
    for (int64_t at = 0; at < 1000; at += 50) ExpectRead(ahead, "a", at, 50);
  }
  EXPECT_LE(far.requests().size(), 45U);
  EXPECT_LE(most, 300);
  for (const auto& [offset, bytes] : far.requests()) EXPECT_EQ(bytes, 100);
}

// What is needed first makes what is needed later go, and not the other way round.
TEST(ReadAheadTest, RoundsToComeMakeRoom) {
  Far far;
  ReadAhead ahead(far.open(), 300, nullptr);
  ahead.Expect({Part("a", 100, 100, 1), Part("a", 200, 100, 1), Part("a", 300, 100, 2)});
  for (int64_t at = 100; at < 400; at += 100) ExpectRead(ahead, "a", at, 10);
  ahead.Expect({Part("a", 0, 100, 0)});
  ExpectRead(ahead, "a", 0, 50);
  ExpectRead(ahead, "a", 50, 50);
  ahead.End(0);
  far.Await(5);
  Requests requests = far.requests();
  ASSERT_EQ(requests.size(), 5U);
  EXPECT_EQ(requests[3], (std::pair<int64_t, int64_t>(0, 100)));
  EXPECT_EQ(requests[4], (std::pair<int64_t, int64_t>(300, 100)));
}

TEST(ReadAheadTest, MoreThanTheBoundIsNeverHeld) {
  Far far;
  ReadAhead ahead(far.open(), 99, nullptr);
  ahead.Expect({Part("a", 0, 100)});
  ExpectRead(ahead, "a", 10, 30);
  EXPECT_EQ(far.requests(), (Requests{{10, 30}}));
}

// A failure concerns whoever reads just that.
TEST(ReadAheadTest, ErrorsAreThoseOfTheRead) {
  Far far;
  far.OnRead([&](const std::string& key, int64_t offset, int64_t bytes) -> Status {
    const bool bad = key == "a" && offset <= 150 && offset + bytes > 150;
    return bad ? Fail(Code::kTransient, "byte 150", key) : Status();
  });
  ReadAhead ahead(far.open(), 1000, nullptr);
  ahead.Expect({Part("a", 100, 100), Part("b", 100, 100)});
  ExpectRead(ahead, "a", 100, 50);
  ExpectRead(ahead, "b", 140, 20);
  const auto read = Read(ahead, "a", 140, 20);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kTransient);
  EXPECT_EQ(read.error().message, "byte 150");
  ExpectRead(ahead, "a", 160, 40);
  // It was tried once.
  EXPECT_EQ(std::ranges::count(far.requests(), std::pair<int64_t, int64_t>(100, 100)), 2);
  EXPECT_EQ(ahead.bytes_held(), 100);
}

TEST(ReadAheadTest, AnObjectThatWasCutShort) {
  Far far;
  far.CutTo(250);
  ReadAhead ahead(far.open(), 1000, nullptr);
  ahead.Expect({Part("a", 200, 100)});
  ExpectRead(ahead, "a", 200, 50);
  EXPECT_EQ(Read(ahead, "a", 200, 100)->size(), 50U);
  EXPECT_EQ(Read(ahead, "a", 260, 10)->size(), 0U);
}

TEST(ReadAheadTest, AReaderThatWaitsIsCancelledAtOnce) {
  Far far;
  Door door;
  far.OnRead([&](const std::string&, int64_t, int64_t) -> Status {
    door.Pass();
    return {};
  });
  CancelFlag cancel;
  {
    ReadAhead ahead(far.open(), 1000, &cancel);
    ahead.Expect({Part("a", 0, 100)});
    far.Await(1);
    std::jthread canceller([&] { cancel.Request(); });
    const auto read = Read(ahead, "a", 0, 100);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::kCancelled);
    ahead.Expect({Part("b", 0, 100)});
    door.Open();
  }
  EXPECT_EQ(far.requests().size(), 1U);
}

// Readers of all rounds, while rounds end and the bound holds a few extents of many.
TEST(ReadAheadTest, ManyThreads) {
  Far far;
  std::atomic<int64_t> most{0};
  ReadAhead ahead(far.open(), 500, nullptr);
  far.OnRead([&](const std::string& key, int64_t offset, int64_t bytes) -> Status {
    int64_t before = most;
    const int64_t now = ahead.bytes_held();
    while (now > before && !most.compare_exchange_weak(before, now)) {
    }
    const bool bad = key == "c" && bytes == 100 && offset == 300;
    return bad ? Fail(Code::kTransient, "once in a while", key) : Status();
  });
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  std::vector<Extent> extents;
  for (int64_t round = 0; round < 10; ++round) {
    for (const std::string& key : keys) extents.push_back(Part(key, round * 100, 100, round));
  }
  ahead.Expect(std::move(extents));
  for (int64_t round = 0; round < 10; ++round) {
    std::vector<std::jthread> readers;
    for (int t = 0; t < 8; ++t) {
      readers.emplace_back([&, t] {
        for (int64_t i = 0; i < 100; ++i) {
          const std::string& key = keys[static_cast<size_t>((i + t) % 4)];
          // Also a little of the round that comes.
          ExpectRead(ahead, key, round * 100 + (i * 37 + t * 11) % 110, 1 + i % 25);
        }
      });
    }
    readers.clear();
    ahead.End(round);
  }
  EXPECT_LE(most, 500);
  EXPECT_EQ(ahead.bytes_held(), 0);
}

}  // namespace
}  // namespace lithify::storage
