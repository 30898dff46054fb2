#include "sort/row_sorter.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"

namespace lithify::sort {
namespace {

namespace fs = std::filesystem;

// Keys of one input, added at once or in pieces.
struct Input {
  KeyRows keys;
  size_t rows_at_a_time = 1000;
};

struct Settings {
  int64_t memory_bytes = 64 << 10;
  int threads = 1;
  bool spill = true;
};

class RowSorterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string top = (fs::temp_directory_path() / "lithify-sort-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(top.data()), nullptr);
    top_ = top;
    auto opened = SpillDirectory::Open(top_, 0);
    ASSERT_TRUE(opened) << opened.error().ToString();
    spill_ = *opened;
  }
  void TearDown() override {
    EXPECT_EQ(spill_->bytes(), 0);
    fs::remove_all(top_);
  }

  Result<SortedRows> Sort(const std::vector<Input>& inputs, const Settings& settings,
                          SpillDirectory* spill = nullptr, const CancelFlag* cancel = nullptr) {
    SpillDirectory* own = settings.spill ? spill_.get() : nullptr;
    const auto sorter = MakeRowSorter({.memory_bytes = settings.memory_bytes,
                                       .threads = settings.threads,
                                       .spill = spill != nullptr ? spill : own,
                                       .cancel = cancel});
    for (const Input& input : inputs) {
      for (size_t from = 0; from < input.keys.size(); from += input.rows_at_a_time) {
        KeyRows some;
        const size_t to = std::min(from + input.rows_at_a_time, input.keys.size());
        for (size_t i = from; i < to; ++i) {
          some.prefixes.push_back(input.keys.prefixes[i]);
          if (!input.keys.has_rests()) continue;
          some.bytes += input.keys.rest(i);
          some.ends.push_back(some.bytes.size());
        }
        LITHIFY_TRY(sorter->Add(some, from == 0));
      }
    }
    return sorter->Finish();
  }

  std::string top_;
  std::shared_ptr<SpillDirectory> spill_;
};

// What comes out must be: by the plain comparison and the library's sort.
SortedRows Expected(const std::vector<Input>& inputs) {
  std::vector<std::pair<uint64_t, std::string>> keys;
  for (const Input& input : inputs) {
    for (size_t i = 0; i < input.keys.size(); ++i) {
      keys.emplace_back(input.keys.prefixes[i], input.keys.rest(i));
    }
  }
  SortedRows out;
  out.rows.resize(keys.size());
  std::iota(out.rows.begin(), out.rows.end(), 0U);
  const auto less = [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; };
  out.in_order = std::is_sorted(out.rows.begin(), out.rows.end(), less);
  std::stable_sort(out.rows.begin(), out.rows.end(), less);
  for (size_t i = 0; i < keys.size(); ++i) {
    out.key_begins.Push(i == 0 || keys[out.rows[i - 1]] != keys[out.rows[i]]);
  }
  return out;
}

// Empty: as expected.
std::string Difference(const SortedRows& sorted, const SortedRows& expected) {
  if (sorted.rows.size() != expected.rows.size()) return "other number of rows";
  for (size_t i = 0; i < sorted.rows.size(); ++i) {
    if (sorted.rows[i] != expected.rows[i]) return "rows differ at rank " + std::to_string(i);
  }
  if (sorted.key_begins.size() != expected.key_begins.size()) return "other number of bits";
  for (size_t i = 0; i < sorted.rows.size(); ++i) {
    if (sorted.key_begins[i] != expected.key_begins[i]) {
      return "key_begins differs at rank " + std::to_string(i);
    }
  }
  if (sorted.key_begins.words() != expected.key_begins.words()) return "bits after the last";
  if (sorted.in_order != expected.in_order) return "in_order is wrong";
  return {};
}

enum class Order { kRandom, kSorted, kNearly, kDescending, kDisjoint };

// Keys by a seed.
struct Shape {
  uint64_t distinct = 0;  // Prefixes; 0: all 64 bits.
  uint64_t stretch = 1;   // Prefixes are multiples of it.
  int rest_bytes_max = 0;
  int rest_common = 0;        // Bytes that rests begin with.
  uint64_t rest_letters = 2;  // Different bytes after that.
  Order order = Order::kRandom;
};

Input MakeInput(SeededRandom& random, const Shape& shape, size_t rows, size_t number) {
  std::vector<std::pair<uint64_t, std::string>> keys;
  for (size_t i = 0; i < rows; ++i) {
    uint64_t prefix = random.Next();
    if (shape.distinct > 0) prefix = prefix % shape.distinct * shape.stretch;
    if (shape.order == Order::kDisjoint) prefix = (prefix >> 8) | ((7 * number % 5) << 56);
    std::string rest;
    if (shape.rest_bytes_max > 0 && random.Next() % 16 != 0) {
      rest.assign(static_cast<size_t>(shape.rest_common), 'x');
      const uint64_t more = random.Next() % (static_cast<uint64_t>(shape.rest_bytes_max) + 1);
      // Zeros, too: a rest that ends is not one that goes on with them.
      for (uint64_t j = 0; j < more; ++j) {
        rest += static_cast<char>(random.Next() % shape.rest_letters * 255 /
                                  std::max<uint64_t>(shape.rest_letters - 1, 1));
      }
    }
    keys.emplace_back(prefix, std::move(rest));
  }
  if (shape.order != Order::kRandom) std::sort(keys.begin(), keys.end());
  if (shape.order == Order::kDescending) std::reverse(keys.begin(), keys.end());
  if (shape.order == Order::kNearly) {
    for (size_t i = 0; i < rows / 50; ++i) {
      std::swap(keys[random.Next() % rows], keys[random.Next() % rows]);
    }
  }
  Input out;
  for (const auto& [prefix, rest] : keys) {
    out.keys.prefixes.push_back(prefix);
    if (shape.rest_bytes_max == 0) continue;
    out.keys.bytes += rest;
    out.keys.ends.push_back(out.keys.bytes.size());
  }
  return out;
}

TEST_F(RowSorterTest, EqualKeysKeepTheirOrder) {
  const auto sorter = MakeRowSorter({.memory_bytes = 1 << 20});
  KeyRows keys;
  keys.prefixes = {5, 3, 5, 3};
  ASSERT_TRUE(sorter->Add(keys, true));
  EXPECT_EQ(keys.size(), 0U);
  keys.prefixes = {4, 3};
  ASSERT_TRUE(sorter->Add(keys, false));
  const auto sorted = sorter->Finish();
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->rows, (std::vector<uint32_t>{1, 3, 5, 4, 0, 2}));
  EXPECT_FALSE(sorted->in_order);
  std::vector<bool> begins;
  for (size_t i = 0; i < sorted->key_begins.size(); ++i) begins.push_back(sorted->key_begins[i]);
  EXPECT_EQ(begins, (std::vector<bool>{true, false, false, true, true, false}));
}

TEST_F(RowSorterTest, NothingIsInOrder) {
  const auto sorted = Sort({}, {});
  ASSERT_TRUE(sorted);
  EXPECT_TRUE(sorted->rows.empty());
  EXPECT_EQ(sorted->key_begins.size(), 0U);
  EXPECT_TRUE(sorted->in_order);
  EXPECT_EQ(sorted->runs, 0);
}

// Rests that are empty, that end in zeros, and rows without any beside rows that have some.
TEST_F(RowSorterTest, RestsCompareAsBytesAndByLength) {
  const auto sorter = MakeRowSorter({.memory_bytes = 1 << 20});
  KeyRows keys;
  keys.prefixes = {1, 1};
  ASSERT_TRUE(sorter->Add(keys, true));
  const std::vector<std::string> rests = {std::string("\xff"),
                                          std::string("\0\0", 2),
                                          "",
                                          std::string("\0", 1),
                                          std::string("a\0\0\0\0\0\0\0\0", 9),
                                          "a"};
  for (const std::string& rest : rests) {
    keys.prefixes.push_back(1);
    keys.bytes += rest;
    keys.ends.push_back(keys.bytes.size());
  }
  ASSERT_TRUE(sorter->Add(keys, true));
  keys.prefixes = {1};
  ASSERT_TRUE(sorter->Add(keys, true));
  const auto sorted = sorter->Finish();
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->rows, (std::vector<uint32_t>{0, 1, 4, 8, 5, 3, 7, 6, 2}));
  EXPECT_FALSE(sorted->key_begins[3]);
  EXPECT_TRUE(sorted->key_begins[4]);
}

// One piece that descends where it begins, and once more.
TEST_F(RowSorterTest, APieceThatDescendsTwice) {
  SeededRandom random(1);
  std::vector<Input> inputs = {MakeInput(random, {.order = Order::kSorted}, 3000, 0)};
  KeyRows& keys = inputs[0].keys;
  std::rotate(keys.prefixes.begin(), keys.prefixes.begin() + 500, keys.prefixes.begin() + 1000);
  std::rotate(keys.prefixes.begin() + 1000, keys.prefixes.begin() + 1500,
              keys.prefixes.begin() + 2000);
  keys.prefixes[1000] = 5;  // The second piece begins with a descent; it has another one.
  const auto sorted = Sort(inputs, {.memory_bytes = 1 << 20});
  ASSERT_TRUE(sorted);
  EXPECT_EQ(Difference(*sorted, Expected(inputs)), "");
}

TEST_F(RowSorterTest, AnyKeysInAnyMemory) {
  const bool held = rc::check("as std::stable_sort has it", [&] {
    SeededRandom random(*rc::gen::arbitrary<uint64_t>());
    Shape shape;
    shape.distinct = *rc::gen::element<uint64_t>(0, 0, 1, 2, 10, 1000, 100000);
    shape.stretch = *rc::gen::element<uint64_t>(1, 3, uint64_t{1} << 40, uint64_t{1} << 57);
    shape.rest_bytes_max = *rc::gen::element(0, 0, 1, 7, 8, 9, 30, 600);
    shape.rest_common = *rc::gen::element(0, 0, 5, 16, 300);
    shape.rest_letters = *rc::gen::element<uint64_t>(1, 2, 256);
    shape.order = *rc::gen::element(Order::kRandom, Order::kSorted, Order::kNearly,
                                    Order::kDescending, Order::kDisjoint);
    const size_t inputs_count = *rc::gen::inRange<size_t>(1, 9);
    const size_t rows_max = shape.rest_bytes_max > 100 ? 300 : 3000;
    std::vector<Input> inputs;
    for (size_t i = 0; i < inputs_count; ++i) {
      inputs.push_back(MakeInput(random, shape, random.Next() % rows_max + 1, i));
      inputs.back().rows_at_a_time = *rc::gen::element<size_t>(1, 7, 1000, 100000);
      // A mixture: some inputs are in order and others are not, some have rests.
      if (*rc::gen::inRange(0, 4) == 0) shape.order = Order::kRandom;
    }
    Settings settings;
    settings.memory_bytes = *rc::gen::element<int64_t>(0, 64 << 10, 200 << 10, 1 << 20, 64 << 20);
    settings.threads = *rc::gen::inRange(0, 4);
    const auto sorted = Sort(inputs, settings);
    RC_ASSERT(sorted.has_value());
    const std::string difference = Difference(*sorted, Expected(inputs));
    if (!difference.empty()) RC_FAIL(difference);
  });
  EXPECT_TRUE(held);
}

// Keys of `count` inputs, each in order.
std::vector<Input> OrderedInputs(size_t count, size_t rows, Order order) {
  SeededRandom random(count);
  std::vector<Input> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(MakeInput(random, {.order = order}, rows, i));
  }
  return out;
}

// A system that counts, and fails or lies as told.
class TestSystem final : public SpillSystem {
 public:
  ssize_t Write(int fd, const void* bytes, size_t size, int64_t offset) override {
    if (++writes == fail_write) {
      errno = fail_errno;
      return -1;
    }
    if (writes == cancel_at_write) cancel.Request();
    return SpillSystem::Write(fd, bytes, size, offset);
  }
  ssize_t Read(int fd, void* into, size_t size, int64_t offset) override {
    if (++reads == fail_read) {
      errno = fail_errno;
      return -1;
    }
    if (reads == cancel_at_read) cancel.Request();
    const ssize_t got = SpillSystem::Read(fd, into, size, offset);
    if (reads == flip_at_read) {
      static_cast<uint8_t*>(into)[flip % static_cast<uint64_t>(got)] ^= 1U << (flip >> 32) % 8;
    }
    return got;
  }

  std::atomic<int> writes{0};
  std::atomic<int> reads{0};
  int fail_write = 0;
  int fail_read = 0;
  int fail_errno = ENOSPC;
  int cancel_at_write = 0;
  int cancel_at_read = 0;
  int flip_at_read = 0;
  uint64_t flip = 0;
  CancelFlag cancel;
};

TEST_F(RowSorterTest, MoreRunsThanCanBeMergedAtATime) {
  SeededRandom random(7);
  for (const int rest_bytes : {0, 20}) {
    const std::vector<Input> inputs = {
        MakeInput(random, {.distinct = 50000, .rest_bytes_max = rest_bytes}, 100000, 0)};
    for (const int threads : {1, 2}) {
      TestSystem system;
      const auto spill = SpillDirectory::Open(top_, 0, &system);
      ASSERT_TRUE(spill);
      const auto sorted = Sort(inputs, {.threads = threads}, spill->get());
      ASSERT_TRUE(sorted) << sorted.error().ToString();
      EXPECT_EQ(Difference(*sorted, Expected(inputs)), "");
      // Eight readers are all that fit into the memory: the runs went through several passes.
      EXPECT_GT(sorted->runs_spilled, 8 * 4);
      EXPECT_GE(sorted->runs, sorted->runs_spilled);
      EXPECT_GT(system.reads, sorted->runs_spilled);
    }
  }
  EXPECT_EQ(spill_->bytes(), 0);
}

TEST_F(RowSorterTest, WhatCameInOrderIsNeitherSortedNorReadBack) {
  TestSystem system;
  const auto spill = SpillDirectory::Open(top_, 0, &system);
  ASSERT_TRUE(spill);
  SeededRandom random(1);
  std::vector<Input> inputs = {MakeInput(random, {.order = Order::kSorted}, 50000, 0)};
  const auto sorted = Sort(inputs, {}, spill->get());
  ASSERT_TRUE(sorted);
  EXPECT_EQ(Difference(*sorted, Expected(inputs)), "");
  EXPECT_TRUE(sorted->in_order);
  EXPECT_EQ(sorted->runs, 1);
  EXPECT_GT(sorted->runs_spilled, 1);
  EXPECT_EQ(system.reads, 0);
}

TEST_F(RowSorterTest, InputsThatFollowEachOtherAreNotReadBack) {
  TestSystem system;
  const auto spill = SpillDirectory::Open(top_, 0, &system);
  ASSERT_TRUE(spill);
  // Each in order, in disjoint ranges, not in the order of these.
  const std::vector<Input> inputs = OrderedInputs(5, 20000, Order::kDisjoint);
  const auto sorted = Sort(inputs, {.threads = 1}, spill->get());
  ASSERT_TRUE(sorted);
  EXPECT_EQ(Difference(*sorted, Expected(inputs)), "");
  EXPECT_FALSE(sorted->in_order);
  EXPECT_GE(sorted->runs, 5);
  EXPECT_GT(sorted->runs_spilled, 5);
  EXPECT_EQ(system.reads, 0);
}

TEST_F(RowSorterTest, InputsInOrderAreRunsAsTheyAre) {
  const std::vector<Input> few = OrderedInputs(6, 10000, Order::kSorted);
  const auto merged = Sort(few, {.memory_bytes = 64 << 20});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->runs, 6);
  EXPECT_EQ(Difference(*merged, Expected(few)), "");
  // Many that overlap are sorted: that takes less than so wide a merge.
  const std::vector<Input> many = OrderedInputs(30, 10000, Order::kSorted);
  const auto sorted = Sort(many, {.memory_bytes = 64 << 20});
  ASSERT_TRUE(sorted);
  EXPECT_EQ(sorted->runs, 1);
  EXPECT_EQ(Difference(*sorted, Expected(many)), "");
}

TEST_F(RowSorterTest, WithoutADirectoryTheMemoryIsALimit) {
  SeededRandom random(1);
  const std::vector<Input> inputs = {MakeInput(random, {}, 20000, 0)};
  const auto refused = Sort(inputs, {.spill = false});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kLimit);
  EXPECT_NE(refused.error().message.find("64.0 KiB"), std::string::npos);
  EXPECT_FALSE(refused.error().hint.empty());
  EXPECT_TRUE(Sort(inputs, {.memory_bytes = 1 << 20, .spill = false}));
}

TEST_F(RowSorterTest, ABoundOrAFullDiskIsALimitWhereverItIsMet) {
  SeededRandom random(1);
  const std::vector<Input> inputs = {MakeInput(random, {}, 50000, 0)};
  TestSystem counting;
  {
    const auto spill = SpillDirectory::Open(top_, 0, &counting);
    ASSERT_TRUE(Sort(inputs, {.threads = 2}, spill->get()));
  }
  int failed = 0;
  for (int write = 1; write <= counting.writes; write += 1 + write / 4) {
    TestSystem system;
    system.fail_write = write;
    system.fail_errno = write % 2 == 0 ? ENOSPC : EDQUOT;
    const auto spill = SpillDirectory::Open(top_, 0, &system);
    const auto sorted = Sort(inputs, {.threads = 2}, spill->get());
    ASSERT_FALSE(sorted);
    EXPECT_EQ(sorted.error().code, Code::kLimit);
    EXPECT_EQ((*spill)->bytes(), 0);
    ++failed;
  }
  EXPECT_GT(failed, 8);
  const auto small = SpillDirectory::Open(top_, 100000);
  const auto sorted = Sort(inputs, {}, small->get());
  ASSERT_FALSE(sorted);
  EXPECT_EQ(sorted.error().code, Code::kLimit);
  EXPECT_NE(sorted.error().message.find("97.7 KiB"), std::string::npos)
      << sorted.error().ToString();
}

TEST_F(RowSorterTest, ADiskThatFailsOrLiesIsNoOrder) {
  SeededRandom random(1);
  const std::vector<Input> inputs = {
      MakeInput(random, {.distinct = 9000, .rest_bytes_max = 9}, 30000, 0)};
  TestSystem counting;
  {
    const auto spill = SpillDirectory::Open(top_, 0, &counting);
    ASSERT_TRUE(Sort(inputs, {}, spill->get()));
  }
  ASSERT_GT(counting.reads, 20);
  for (int read = 1; read <= counting.reads; read += 1 + read / 20) {
    TestSystem system;
    system.flip_at_read = read;
    system.flip = random.Next();
    const auto spill = SpillDirectory::Open(top_, 0, &system);
    const auto sorted = Sort(inputs, {}, spill->get());
    ASSERT_FALSE(sorted) << "read " << read << " of " << counting.reads;
    EXPECT_EQ(sorted.error().code, Code::kCorrupt);
    EXPECT_FALSE(sorted.error().hint.empty());
  }
  TestSystem system;
  system.fail_read = 5;
  system.fail_errno = EIO;
  const auto spill = SpillDirectory::Open(top_, 0, &system);
  const auto sorted = Sort(inputs, {}, spill->get());
  ASSERT_FALSE(sorted);
  EXPECT_EQ(sorted.error().code, Code::kTransient);
}

TEST_F(RowSorterTest, StopsOnRequestWhereverItIs) {
  SeededRandom random(1);
  const std::vector<Input> inputs = {MakeInput(random, {}, 50000, 0)};
  const auto code = [&](const std::function<void(TestSystem&)>& set) {
    TestSystem system;
    set(system);
    const auto spill = SpillDirectory::Open(top_, 0, &system);
    const auto sorted = Sort(inputs, {.threads = 2}, spill->get(), &system.cancel);
    return sorted ? std::string_view("sorted") : CodeName(sorted.error().code);
  };
  EXPECT_EQ(code([](TestSystem&) {}), "sorted");
  EXPECT_EQ(code([](TestSystem& system) { system.cancel.Request(); }), "cancelled");
  EXPECT_EQ(code([](TestSystem& system) { system.cancel_at_write = 3; }), "cancelled");
  EXPECT_EQ(code([](TestSystem& system) { system.cancel_at_read = 3; }), "cancelled");
  EXPECT_EQ(code([](TestSystem& system) { system.cancel_at_read = 60; }), "cancelled");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The data of this process, in bytes, as RLIMIT_DATA counts it.
int64_t DataBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoll(line.substr(7)) * 1024;
  }
  return 0;
}

// A child that may have no more than `memory` beyond what it has, and the result while it is made,
// sorts what takes several times as much.
TEST_F(RowSorterTest, TheMemoryIsABound) {
  constexpr int64_t kRows = 3 << 20;
  constexpr int64_t kMemory = 16 << 20;
  constexpr int64_t kResult = kRows * 4 + kRows / 8;
  const auto sort_with = [&](int64_t memory, uint64_t distinct, size_t rest_bytes) {
    const pid_t child = fork();
    if (child == 0) {
      const auto bound = [before = DataBytes()](int64_t bytes) {
        rlimit limit{};
        getrlimit(RLIMIT_DATA, &limit);
        limit.rlim_cur = static_cast<rlim_t>(before + bytes);
        setrlimit(RLIMIT_DATA, &limit);
      };
      bound(memory);
      const auto sorter = MakeRowSorter({.memory_bytes = kMemory, .spill = spill_.get()});
      SeededRandom random(1);
      KeyRows keys;
      for (int64_t i = 0; i < kRows; ++i) {
        keys.prefixes.push_back(random.Next() % distinct);
        if (rest_bytes > 0) {
          keys.bytes.append(rest_bytes, static_cast<char>(random.Next()));
          keys.ends.push_back(keys.bytes.size());
        }
        if (keys.size() == 4096 && !sorter->Add(keys, false)) _exit(1);
      }
      if (!sorter->Add(keys, false)) _exit(1);
      bound(memory + kResult);
      const auto sorted = sorter->Finish();
      _exit(sorted && sorted->runs_spilled > 1 ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status == 0;
  };
  constexpr int64_t kConstant = 4 << 20;
  EXPECT_TRUE(sort_with(kMemory + kConstant, UINT64_MAX, 0));
  EXPECT_TRUE(sort_with(kMemory + kConstant, 10, 0));
  EXPECT_TRUE(sort_with(kMemory + kConstant, 10, 25));
  // The limit does limit.
  EXPECT_FALSE(sort_with(kMemory / 2, UINT64_MAX, 0));
}
#endif

}  // namespace
}  // namespace lithify::sort
