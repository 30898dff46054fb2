// The contract of storage::Store as tests, for every implementation (storage/store.h). Each binary
// says what there is to test: MakeWorld() and the instances.
#ifndef LITHIFY_TESTS_CONTRACT_STORE_CONTRACT_H_
#define LITHIFY_TESTS_CONTRACT_STORE_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "storage/store.h"

namespace lithify::storage {

// One store under test, with what it stands on.
struct World {
  virtual ~World() = default;
  virtual Store& store() = 0;
  // Where it is on this machine, if it is.
  virtual std::string path() const { return {}; }
};
std::unique_ptr<World> MakeWorld(const std::string& kind);

inline std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class StoreContract : public testing::TestWithParam<std::string> {
 protected:
  Code CodeOf(const Status& status) { return status ? static_cast<Code>(-1) : status.error().code; }
  template <typename T>
  Code CodeOf(const Result<T>& result) {
    return result ? static_cast<Code>(-1) : result.error().code;
  }
  std::string Content(const std::string& key) {
    const auto blob = store().Get(key, kGiB);
    return blob ? blob->bytes : blob.error().ToString();
  }
  std::vector<std::string> Names(const std::string& prefix) {
    std::vector<std::string> out;
    const auto listed = store().List(prefix).value();
    for (const auto& info : listed) out.push_back(info.key);
    return out;
  }
  Store& store() { return world_->store(); }

  std::unique_ptr<World> world_ = MakeWorld(GetParam());
};

inline constexpr Code kOk = static_cast<Code>(-1);
using KeyList = std::vector<std::string>;

TEST_P(StoreContract, AbsentKeys) {
  for (const std::string key : {"a", "a/b/c"}) {
    EXPECT_EQ(CodeOf(store().Stat(key)), Code::kNotFound);
    EXPECT_EQ(CodeOf(store().Get(key, 10)), Code::kNotFound);
    EXPECT_EQ(CodeOf(store().Open(key)), Code::kNotFound);
    EXPECT_EQ(CodeOf(store().Remove(key)), Code::kNotFound);
    EXPECT_EQ(CodeOf(store().PutIf(key, "x", "v")), Code::kConflict);
  }
  EXPECT_EQ(Names(""), KeyList{});
  EXPECT_EQ(Names("no/such/"), KeyList{});
  EXPECT_EQ(Names(""), KeyList{}) << "a read or a failed PutIf has made something";
}

TEST_P(StoreContract, PutNewThenRead) {
  ASSERT_EQ(CodeOf(store().PutNew("p/q/m.json", "hello")), kOk);
  EXPECT_EQ(Content("p/q/m.json"), "hello");
  const auto info = store().Stat("p/q/m.json").value();
  EXPECT_EQ(info.key, "p/q/m.json");
  EXPECT_EQ(info.size, 5);
  EXPECT_GT(info.modified, ParseTime("2020-01-01").value());
  EXPECT_EQ(store().List("p/q/").value(), std::vector<ObjectInfo>{info});
  EXPECT_EQ(CodeOf(store().PutNew("p/q/m.json", "other")), Code::kConflict);
  EXPECT_EQ(Content("p/q/m.json"), "hello");
  EXPECT_EQ(Names("p/q/"), KeyList{"p/q/m.json"}) << "a temporary was left";
  EXPECT_EQ(CodeOf(store().Remove("p/q/m.json")), kOk);
  EXPECT_EQ(CodeOf(store().Remove("p/q/m.json")), Code::kNotFound);
  EXPECT_EQ(CodeOf(store().PutNew("p/q/m.json", "")), kOk);
  EXPECT_EQ(Content("p/q/m.json"), "");
}

TEST_P(StoreContract, ManyAreRemovedAndEachIsAnsweredFor) {
  const KeyList odd = {"d/a b&c<d>\"'+%2F=ü", "d/\t \n\r", "d/ x ", "d/\x01", "d/]]>"};
  KeyList keys = odd;
  for (int i = 0; i < 20; ++i) keys.push_back("d/e/" + std::to_string(i));
  for (const auto& key : keys) ASSERT_EQ(CodeOf(store().PutNew(key, "x")), kOk) << key;
  ASSERT_EQ(CodeOf(store().PutNew("d/e/stays", "x")), kOk);
  keys.insert(keys.begin() + 3, "d/../e/stays");
  keys.push_back("d/absent");
  const std::vector<Status> removed = store().RemoveMany(keys);
  ASSERT_EQ(removed.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i == 3) {
      EXPECT_EQ(CodeOf(removed[i]), Code::kInvalid);
    } else if (keys[i] == "d/absent") {
      EXPECT_TRUE(removed[i] || removed[i].error().code == Code::kNotFound);
    } else {
      EXPECT_EQ(CodeOf(removed[i]), kOk) << keys[i];
    }
  }
  EXPECT_EQ(Names("d/"), KeyList{"d/e/"});
  EXPECT_EQ(Names("d/e/"), KeyList{"d/e/stays"});
  EXPECT_TRUE(store().RemoveMany({}).empty());
}

TEST_P(StoreContract, BytesPassUnchanged) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  ASSERT_EQ(CodeOf(store().PutNew("x", all)), kOk);
  EXPECT_EQ(Content("x"), all);
}

TEST_P(StoreContract, KeysAreOddButLegal) {
  const KeyList keys = {".hidden",          "a=%2F..x/b", "sp ace/ü\n",   "...",
                        "_compaction.lock", "back\\sl/x", "x.parquet.tmp"};
  for (const auto& key : keys) {
    ASSERT_EQ(CodeOf(store().PutNew(key, key)), kOk) << key;
    EXPECT_EQ(Content(key), key);
  }
}

TEST_P(StoreContract, BadKeysAreRefusedByEveryVerb) {
  using namespace std::string_literals;
  for (const std::string& key : {""s, "/"s, "/a"s, "a/"s, "a//b"s, "."s, ".."s, "./a"s, "../a"s,
                                 "a/.."s, "a/../b"s, "a/./b"s, "a\0b"s, "a/..\0"s}) {
    EXPECT_EQ(CodeOf(CheckKey(key)), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().Stat(key)), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().Get(key, 1)), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().Open(key)), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().PutNew(key, "x")), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().PutIf(key, "x", "v")), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().Create(key)), Code::kInvalid) << key;
    EXPECT_EQ(CodeOf(store().Remove(key)), Code::kInvalid) << key;
  }
  for (const std::string prefix : {"/", "a", "../", "a//", "/a/", "./"}) {
    EXPECT_EQ(CodeOf(store().List(prefix)), Code::kInvalid) << prefix;
  }
  EXPECT_EQ(Names(""), KeyList{});
}

TEST_P(StoreContract, GetIsBounded) {
  ASSERT_EQ(CodeOf(store().PutNew("x", "12345")), kOk);
  EXPECT_EQ(store().Get("x", 5).value().bytes, "12345");
  EXPECT_EQ(CodeOf(store().Get("x", 4)), Code::kLimit);
}

// Whoever knows what is there reads it, or is told that it is another one.
TEST_P(StoreContract, WhatIsKnownIsOpenedAsKnown) {
  ASSERT_EQ(CodeOf(store().PutNew("d/x", "12345")), kOk);
  const auto read = [&](const ObjectInfo& known) -> Result<std::string> {
    std::string got(9, ' ');
    LITHIFY_TRY_ASSIGN(const auto reader, store().OpenKnown(known));
    EXPECT_EQ(reader->size(), known.size);
    LITHIFY_TRY_ASSIGN(const int64_t some,
                       reader->ReadAt(1, std::as_writable_bytes(std::span(got))));
    return got.substr(0, static_cast<size_t>(some));
  };
  const ObjectInfo listed = store().List("d/").value().at(0);
  EXPECT_EQ(read(listed).value(), "2345");
  EXPECT_EQ(read(store().Stat("d/x").value()).value(), "2345");
  EXPECT_EQ(read({.key = "d/x", .size = 5}).value(), "2345");
  for (const int64_t size : {2, 4, 6, 100}) {
    EXPECT_EQ(CodeOf(read({.key = "d/x", .size = size})), Code::kCorrupt) << size;
  }
  ASSERT_EQ(CodeOf(store().PutIf("d/x", "abcde", store().Get("d/x", 9).value().version)), kOk);
  EXPECT_EQ(read({.key = "d/x", .size = 5}).value(), "bcde");
  if (!listed.version.empty()) {
    EXPECT_NE(store().Stat("d/x").value().version, listed.version);
    ObjectInfo old = listed;
    old.modified -= std::chrono::hours(1);
    EXPECT_EQ(CodeOf(read(old)), Code::kConflict);
  }
  ASSERT_EQ(CodeOf(store().Remove("d/x")), kOk);
  EXPECT_EQ(CodeOf(read(listed)), Code::kNotFound);
  EXPECT_EQ(CodeOf(read({.key = "d//x", .size = 5})), Code::kInvalid);
}

TEST_P(StoreContract, PutIfReplacesOnlyTheVersionThatWasRead) {
  ASSERT_EQ(CodeOf(store().PutNew("d/m", "one")), kOk);
  const std::string first = store().Get("d/m", 100).value().version;
  EXPECT_EQ(store().Get("d/m", 100).value().version, first);
  ASSERT_EQ(CodeOf(store().PutIf("d/m", "two", first)), kOk);
  EXPECT_EQ(Content("d/m"), "two");
  const std::string second = store().Get("d/m", 100).value().version;
  EXPECT_NE(first, second);
  EXPECT_EQ(CodeOf(store().PutIf("d/m", "six", first)), Code::kConflict);
  EXPECT_EQ(CodeOf(store().PutIf("d/m", "six", "")), Code::kConflict);
  EXPECT_EQ(CodeOf(store().PutIf("d/other", "six", second)), Code::kConflict);
  EXPECT_EQ(Content("d/m"), "two");
  ASSERT_EQ(CodeOf(store().PutIf("d/m", "a longer third", second)), kOk);
  EXPECT_EQ(Content("d/m"), "a longer third");
  ASSERT_EQ(CodeOf(store().Remove("d/m")), kOk);
  EXPECT_EQ(CodeOf(store().PutIf("d/m", "x", second)), Code::kConflict);
  EXPECT_EQ(Names("d/"), KeyList{});
}

TEST_P(StoreContract, ListsImmediateChildrenInKeyOrder) {
  for (const std::string key : {"b", "a/x", "a.z", "a/y/z", "a0", ".h", "a/y/w", "c/d/e"}) {
    ASSERT_EQ(CodeOf(store().PutNew(key, "12")), kOk);
  }
  EXPECT_EQ(Names(""), (KeyList{".h", "a.z", "a/", "a0", "b", "c/"}));
  EXPECT_EQ(Names("a/"), (KeyList{"a/x", "a/y/"}));
  EXPECT_EQ(Names("a/y/"), (KeyList{"a/y/w", "a/y/z"}));
  EXPECT_EQ(Names("c/"), KeyList{"c/d/"});
  const auto listed = store().List("a/").value();
  EXPECT_EQ(listed[0].size, 2);
  EXPECT_EQ(listed[1], (ObjectInfo{.key = "a/y/", .size = 0, .modified = {}}));
}

TEST_P(StoreContract, PagesHoldAThousandAtMostAndEverythingOnce) {
  KeyList all;
  for (int i = 0; i < 1003; ++i) {
    all.push_back("p/k" + std::to_string(10'000 + i));
    if (i % 100 == 0) all.push_back("p/" + std::to_string(i) + "/x/y");
  }
  for (const auto& key : all) ASSERT_EQ(CodeOf(store().PutNew(key, "12")), kOk);
  ASSERT_EQ(CodeOf(store().PutNew("q", "12")), kOk);
  ASSERT_EQ(CodeOf(store().PutNew("p0", "12")), kOk);
  std::ranges::sort(all);
  KeyList listed;
  std::vector<size_t> pages;
  const auto visit = [&](std::vector<ObjectInfo> page) -> Status {
    pages.push_back(page.size());
    for (auto& info : page) {
      EXPECT_EQ(info.size, info.key.ends_with('/') ? 0 : 2);
      EXPECT_TRUE(info.regular);
      listed.push_back(std::move(info.key));
    }
    // The store is free for others meanwhile.
    return store().Stat("q") ? Status() : Fail(Code::kInternal, "q");
  };
  ASSERT_EQ(CodeOf(store().ListPages("p/", ListDepth::kAll, visit)), kOk);
  std::ranges::sort(listed);
  EXPECT_EQ(listed, all);
  EXPECT_EQ(pages, (std::vector<size_t>{1000, 14}));
  listed.clear();
  pages.clear();
  ASSERT_EQ(CodeOf(store().ListPages("p/", ListDepth::kChildren, visit)), kOk);
  for (auto& key : all) key = key.ends_with("/y") ? key.substr(0, key.size() - 3) : key;
  std::ranges::sort(all);
  std::ranges::sort(listed);
  EXPECT_EQ(listed, all);
  EXPECT_EQ(pages, (std::vector<size_t>{1000, 14}));
  EXPECT_EQ(Names("p/"), all);
}

TEST_P(StoreContract, AVisitorEndsAListing) {
  for (const std::string key : {"a/b", "a/c", "a/d/e"}) {
    ASSERT_EQ(CodeOf(store().PutNew(key, "12")), kOk);
  }
  int pages = 0;
  const auto visit = [&](std::vector<ObjectInfo>) -> Status {
    ++pages;
    return Fail(Code::kCancelled, "enough");
  };
  EXPECT_EQ(CodeOf(store().ListPages("a/", ListDepth::kAll, visit)), Code::kCancelled);
  EXPECT_EQ(CodeOf(store().ListPages("", ListDepth::kChildren, visit)), Code::kCancelled);
  EXPECT_EQ(pages, 2);
  EXPECT_EQ(CodeOf(store().ListPages("no/such/", ListDepth::kAll, visit)), kOk);
  EXPECT_EQ(CodeOf(store().ListPages("a", ListDepth::kAll, visit)), Code::kInvalid);
  EXPECT_EQ(pages, 2);
}

TEST_P(StoreContract, WriterPublishesOnceAndWhole) {
  auto writer = store().Create("p/x.parquet").value();
  EXPECT_EQ(CodeOf(writer->Append(Bytes("abc"))), kOk);
  EXPECT_EQ(CodeOf(writer->Append(Bytes(""))), kOk);
  EXPECT_EQ(CodeOf(writer->Append(Bytes("defg"))), kOk);
  EXPECT_EQ(writer->size(), 7);
  EXPECT_EQ(CodeOf(store().Stat("p/x.parquet")), Code::kNotFound);
  for (const std::string& name : Names("p/")) EXPECT_TRUE(name.ends_with(".tmp")) << name;
  EXPECT_EQ(CodeOf(writer->Publish()), kOk);
  EXPECT_EQ(Names("p/"), KeyList{"p/x.parquet"});
  EXPECT_EQ(Content("p/x.parquet"), "abcdefg");
  EXPECT_EQ(CodeOf(writer->Publish()), Code::kInternal);
  EXPECT_EQ(CodeOf(writer->Append(Bytes("x"))), Code::kInternal);
  writer->Discard();
  writer.reset();
  EXPECT_EQ(Content("p/x.parquet"), "abcdefg");
}

TEST_P(StoreContract, DiscardLeavesNothing) {
  auto writer = store().Create("p/x").value();
  ASSERT_EQ(CodeOf(writer->Append(Bytes("abc"))), kOk);
  writer->Discard();
  EXPECT_EQ(Names("p/"), KeyList{});
  EXPECT_NE(CodeOf(writer->Publish()), kOk);
  {
    auto dropped = store().Create("p/x").value();
    ASSERT_EQ(CodeOf(dropped->Append(Bytes("abc"))), kOk);
  }
  EXPECT_EQ(Names("p/"), KeyList{});
}

TEST_P(StoreContract, PublishConflictsWithWhoeverCameFirst) {
  auto first = store().Create("p/x").value();
  auto second = store().Create("p/x").value();
  ASSERT_EQ(CodeOf(first->Append(Bytes("first"))), kOk);
  ASSERT_EQ(CodeOf(second->Append(Bytes("second"))), kOk);
  EXPECT_EQ(CodeOf(second->Publish()), kOk);
  EXPECT_EQ(CodeOf(first->Publish()), Code::kConflict);
  first.reset();
  EXPECT_EQ(Content("p/x"), "second");
  EXPECT_EQ(Names("p/"), KeyList{"p/x"});
}

TEST_P(StoreContract, BigObjectsAndReadsAcrossTheEnd) {
  std::string data(20 * kMiB + 77, '\0');
  SeededRandom random(5);
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    const uint64_t word = random.Next();
    std::copy_n(reinterpret_cast<const char*>(&word), 8, data.data() + i);
  }
  auto writer = store().Create("big").value();
  for (size_t at = 0; at < data.size(); at += 3 * kMiB) {
    const auto piece = std::string_view(data).substr(at, 3 * kMiB);
    ASSERT_EQ(CodeOf(writer->Append(Bytes(piece))), kOk);
  }
  ASSERT_EQ(CodeOf(writer->Publish()), kOk);
  EXPECT_EQ(store().Stat("big").value().size, static_cast<int64_t>(data.size()));
  auto reader = store().Open("big").value();
  ASSERT_EQ(reader->size(), static_cast<int64_t>(data.size()));
  std::string got(data.size() + 100, 'x');
  const auto out = std::as_writable_bytes(std::span(got));
  EXPECT_EQ(reader->ReadAt(0, out).value(), reader->size());
  EXPECT_TRUE(std::string_view(got).substr(0, data.size()) == data);
  EXPECT_EQ(got.substr(data.size()), std::string(100, 'x'));
  EXPECT_EQ(reader->ReadAt(reader->size() - 10, out.first(50)).value(), 10);
  EXPECT_EQ(got.substr(0, 10), data.substr(data.size() - 10));
  EXPECT_EQ(reader->ReadAt(12'345'678, out.first(50)).value(), 50);
  EXPECT_EQ(got.substr(0, 50), data.substr(12'345'678, 50));
  EXPECT_EQ(reader->ReadAt(reader->size(), out).value(), 0);
  EXPECT_EQ(reader->ReadAt(reader->size() + 1, out).value(), 0);
  EXPECT_EQ(reader->ReadAt(0, out.first(0)).value(), 0);
  EXPECT_EQ(CodeOf(reader->ReadAt(-1, out)), Code::kInvalid);
  EXPECT_TRUE(store().Get("big", kGiB).value().bytes == data);
}

TEST_P(StoreContract, OfEightPutNewsExactlyOneWins) {
  for (int round = 0; round < 20; ++round) {
    const std::string key = "r" + std::to_string(round) + "/m";
    std::atomic<int> winner{-1};
    std::atomic<int> wins{0};
    std::atomic<int> conflicts{0};
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        // Streamed and in one piece compete on equal terms.
        Status put;
        if (t % 2 == 0) {
          put = store().PutNew(key, std::to_string(t));
        } else {
          auto writer = store().Create(key).value();
          const std::string text = std::to_string(t);
          put = writer->Append(Bytes(text));
          if (put) put = writer->Publish();
        }
        if (put) {
          ++wins;
          winner = t;
        } else if (put.error().code == Code::kConflict) {
          ++conflicts;
        }
      });
    }
    threads.clear();
    EXPECT_EQ(wins, 1);
    EXPECT_EQ(conflicts, 7);
    EXPECT_EQ(Content(key), std::to_string(winner.load()));
    EXPECT_EQ(Names("r" + std::to_string(round) + "/"), KeyList{key});
  }
}

// Adds 1 to the number under `key`, `times` times; false on any error but a conflict.
inline bool CountUp(Store& store, const std::string& key, int times) {
  for (int done = 0; done < times;) {
    const auto blob = store.Get(key, 100);
    if (!blob) return false;
    const Status put = store.PutIf(key, std::to_string(std::stoi(blob->bytes) + 1), blob->version);
    if (put) {
      ++done;
    } else if (put.error().code != Code::kConflict) {
      ADD_FAILURE() << put.error().ToString();
      return false;
    }
  }
  return true;
}

TEST_P(StoreContract, EightThreadsCountByPutIfAndLoseNothing) {
  ASSERT_EQ(CodeOf(store().PutNew("d/n", "0")), kOk);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] { EXPECT_TRUE(CountUp(store(), "d/n", 200)); });
    }
  }
  EXPECT_EQ(Content("d/n"), "1600");
  EXPECT_EQ(Names("d/"), KeyList{"d/n"});
}

}  // namespace lithify::storage

#endif  // LITHIFY_TESTS_CONTRACT_STORE_CONTRACT_H_
