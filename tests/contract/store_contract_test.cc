// The contract of storage::Store, run on every implementation (storage/store.h).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "storage/faulty_store.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "storage/throttled_store.h"

namespace lithify::storage {
namespace {

namespace fs = std::filesystem;

class TempDir {
 public:
  TempDir() {
    std::string name = (fs::temp_directory_path() / "lithify_store_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sleeping moves it on: simulated time costs none.
class TestClock final : public Clock {
 public:
  Time Now() const override { return Time(Duration(1'795'969'200'000'000)) + Monotonic(); }
  Duration Monotonic() const override { return Duration(micros_.load()); }
  void Sleep(Duration d) override { micros_ += d.count(); }

 private:
  std::atomic<int64_t> micros_{0};
};

// One store under test, with what it stands on.
struct World {
  virtual ~World() = default;
  TestClock clock;
  std::unique_ptr<TempDir> dir;
  std::unique_ptr<Store> base;
  std::unique_ptr<Store> store;
};

std::unique_ptr<World> MakeWorld(const std::string& kind) {
  auto world = std::make_unique<World>();
  if (kind.starts_with("Local")) {
    world->dir = std::make_unique<TempDir>();
    world->store = OpenLocalStore(world->dir->path(), {.sync = kind == "Local"}).value();
    return world;
  }
  auto memory = std::make_unique<MemoryStore>(world->clock);
  if (kind == "Memory") {
    world->store = std::move(memory);
    return world;
  }
  world->base = std::move(memory);
  if (kind == "Throttled") {
    world->store = std::make_unique<ThrottledStore>(*world->base, world->clock, 100 * kMiB);
  } else {
    world->store = std::make_unique<FaultyStore>(
        *world->base, [](std::string_view, const std::string&, bool) -> Status { return {}; });
  }
  return world;
}

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

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
  Store& store() { return *world_->store; }

  std::unique_ptr<World> world_ = MakeWorld(GetParam());
};

constexpr Code kOk = static_cast<Code>(-1);
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

TEST_P(StoreContract, AnObjectIsNoDirectory) {
  ASSERT_EQ(CodeOf(store().PutNew("f", "x")), kOk);
  EXPECT_EQ(CodeOf(store().PutNew("f/g", "x")), Code::kInvalid);
  EXPECT_EQ(CodeOf(store().Stat("f/g")), Code::kNotFound);
  EXPECT_EQ(Names("f/"), KeyList{});
  ASSERT_EQ(CodeOf(store().PutNew("d/e", "x")), kOk);
  EXPECT_EQ(CodeOf(store().Stat("d")), Code::kNotFound);
  EXPECT_EQ(CodeOf(store().Get("d", 10)), Code::kNotFound);
  EXPECT_EQ(CodeOf(store().Open("d")), Code::kNotFound);
  EXPECT_EQ(CodeOf(store().Remove("d")), Code::kNotFound);
  EXPECT_EQ(CodeOf(store().PutNew("d", "x")), Code::kConflict);
  EXPECT_EQ(Content("d/e"), "x");
}

TEST_P(StoreContract, GetIsBounded) {
  ASSERT_EQ(CodeOf(store().PutNew("x", "12345")), kOk);
  EXPECT_EQ(store().Get("x", 5).value().bytes, "12345");
  EXPECT_EQ(CodeOf(store().Get("x", 4)), Code::kLimit);
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

// R238, H3: whoever has opened an object reads on, whatever happens to its name.
TEST_P(StoreContract, ReadersOutliveRemovalAndReplacement) {
  ASSERT_EQ(CodeOf(store().PutNew("x", "old")), kOk);
  auto reader = store().Open("x").value();
  ASSERT_EQ(CodeOf(store().PutIf("x", "new!", store().Get("x", 9).value().version)), kOk);
  ASSERT_EQ(CodeOf(store().Remove("x")), kOk);
  std::string got(3, ' ');
  EXPECT_EQ(reader->ReadAt(0, std::as_writable_bytes(std::span(got))).value(), 3);
  EXPECT_EQ(got, "old");
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
bool CountUp(Store& store, const std::string& key, int times) {
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

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract,
                         testing::Values("Local", "LocalNoSync", "Memory", "Throttled", "Faulty"),
                         [](const auto& param) { return param.param; });

class LocalStoreTest : public StoreContract {
 protected:
  std::string Path(const std::string& name) const { return world_->dir->path() + "/" + name; }
};
INSTANTIATE_TEST_SUITE_P(Local, LocalStoreTest, testing::Values("Local"));

TEST_P(LocalStoreTest, OpeningTellsWhatIsWrongWithTheRoot) {
  EXPECT_EQ(
      OpenLocalStore(Path("absent")).error().ToString(),
      "not_found: " + Path("absent") + ": no such directory (next: check the path, or create it)");
  ASSERT_EQ(CodeOf(store().PutNew("f", "x")), kOk);
  EXPECT_EQ(CodeOf(OpenLocalStore(Path("f"))), Code::kInvalid);
  EXPECT_EQ(OpenLocalStore(world_->dir->path() + "//").value()->Describe(), world_->dir->path());
  fs::create_directory_symlink(world_->dir->path(), Path("root_link"));
  EXPECT_EQ(OpenLocalStore(Path("root_link")).value()->Get("f", 1).value().bytes, "x");
}

// T27, H4: the lock orders processes, not only threads.
TEST_P(LocalStoreTest, FourProcessesCountByPutIfAndLoseNothing) {
  ASSERT_EQ(CodeOf(store().PutNew("d/n", "0")), kOk);
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto own = OpenLocalStore(world_->dir->path());
      _exit(own && CountUp(**own, "d/n", 100) ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Content("d/n"), "400");
  EXPECT_EQ(Names("d/"), KeyList{"d/n"});
}

TEST_P(LocalStoreTest, AHeldLockIsTransientAndNamesTheDirectory) {
  ASSERT_EQ(CodeOf(store().PutNew("d/m", "x")), kOk);
  auto impatient =
      OpenLocalStore(world_->dir->path(), {.lock_wait = std::chrono::milliseconds(20)}).value();
  const std::string version = impatient->Get("d/m", 9).value().version;
  const int fd = open(Path("d").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  for (const Status& status : {impatient->PutIf("d/m", "y", version), impatient->PutNew("d/k", "y"),
                               impatient->Remove("d/m")}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kTransient);
    EXPECT_EQ(status.error().context, Path("d"));
  }
  EXPECT_EQ(Content("d/m"), "x");
  close(fd);
  EXPECT_EQ(CodeOf(impatient->PutIf("d/m", "y", version)), kOk);
}

TEST_P(LocalStoreTest, LinksPipesAndDevicesAreNotOurs) {
  const TempDir outside;
  std::ofstream(outside.path() + "/secret") << "secret";
  fs::create_symlink(outside.path() + "/secret", Path("link"));
  fs::create_symlink(outside.path() + "/dangling", Path("dangling"));
  fs::create_directory_symlink(outside.path(), Path("dir"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(CodeOf(store().PutNew("real", "x")), kOk);
  // Listed, so that nobody takes the directory for complete, but as not ours.
  EXPECT_EQ(Names(""), (KeyList{"dangling", "dir", "link", "pipe", "real"}));
  const auto listed = store().List("").value();
  for (const ObjectInfo& info : listed) {
    if (info.key == "real") {
      EXPECT_EQ(info, store().Stat("real").value());
    } else {
      EXPECT_EQ(info, (ObjectInfo{.key = info.key, .size = 0, .modified = {}, .regular = false}));
    }
  }
  EXPECT_EQ(CodeOf(store().List("dir/")), Code::kDenied);
  for (const std::string key : {"link", "dangling", "dir/secret", "pipe"}) {
    EXPECT_EQ(CodeOf(store().Stat(key)), Code::kDenied) << key;
    EXPECT_EQ(CodeOf(store().Get(key, 100)), Code::kDenied) << key;
    EXPECT_EQ(CodeOf(store().Open(key)), Code::kDenied) << key;
    EXPECT_EQ(CodeOf(store().Remove(key)), Code::kDenied) << key;
    EXPECT_EQ(CodeOf(store().PutIf(key, "x", "v")), Code::kDenied) << key;
  }
  EXPECT_EQ(CodeOf(store().PutNew("dir/new", "x")), Code::kDenied);
  EXPECT_EQ(CodeOf(store().Create("dir/sub/new")), Code::kDenied);
  EXPECT_EQ(CodeOf(store().PutNew("dangling", "x")), Code::kConflict);
  auto writer = store().Create("dangling").value();
  EXPECT_EQ(CodeOf(writer->Publish()), Code::kConflict);
  EXPECT_EQ(fs::exists(outside.path() + "/new"), false);
  EXPECT_EQ(fs::exists(outside.path() + "/dangling"), false);
  std::string secret;
  std::ifstream(outside.path() + "/secret") >> secret;
  EXPECT_EQ(secret, "secret");
}

TEST_P(LocalStoreTest, AFileCutShortInPlaceIsCorrupt) {
  ASSERT_EQ(CodeOf(store().PutNew("x", "0123456789")), kOk);
  auto reader = store().Open("x").value();
  fs::resize_file(Path("x"), 4);
  std::string got(10, ' ');
  EXPECT_EQ(CodeOf(reader->ReadAt(0, std::as_writable_bytes(std::span(got)))), Code::kCorrupt);
  EXPECT_EQ(reader->ReadAt(0, std::as_writable_bytes(std::span(got)).first(4)).value(), 4);
}

TEST_P(LocalStoreTest, TimesAreThoseOfTheFileInMicroseconds) {
  ASSERT_EQ(CodeOf(store().PutNew("x", "")), kOk);
  const timespec times[2] = {{0, UTIME_OMIT}, {1'795'969'200, 123'456'789}};
  ASSERT_EQ(utimensat(AT_FDCWD, Path("x").c_str(), times, 0), 0);
  EXPECT_EQ(FormatTime(store().Stat("x").value().modified), "2026-11-29T16:20:00.123456Z");
  // What was set just now is that time.
  EXPECT_GE(store().Stat("x").value().changed, SystemClock().Now() - std::chrono::minutes(5));
  EXPECT_LE(store().Stat("x").value().changed, SystemClock().Now() + std::chrono::minutes(5));
  EXPECT_EQ(store().List("").value()[0], store().Stat("x").value());
}

// An output that waited for its siblings is not old when it becomes visible.
TEST_P(LocalStoreTest, AWritersObjectIsOfTheTimeOfItsPublication) {
  auto writer = store().Create("x").value();
  ASSERT_EQ(CodeOf(writer->Append(std::as_bytes(std::span("abc", 3)))), kOk);
  const std::string temporary = Path(Names("").at(0));
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, temporary.c_str(), times, 0), 0);
  ASSERT_EQ(store().List("").value().at(0).modified, ParseTime("2001-09-09T01:46:40").value());
  const Time before = SystemClock().Now();
  ASSERT_EQ(CodeOf(writer->Publish()), kOk);
  // The kernel's time of files is that of its last tick.
  EXPECT_GE(store().Stat("x").value().modified, before - std::chrono::milliseconds(100));
}

TEST_P(LocalStoreTest, TooLongNamesAreInvalid) {
  EXPECT_EQ(CodeOf(store().PutNew(std::string(300, 'n'), "x")), Code::kInvalid);
  EXPECT_EQ(CodeOf(store().PutNew(std::string(300, 'n') + "/x", "x")), Code::kInvalid);
}

// R314: a full disk is an error before anything is published, and leaves no temporary.
TEST_P(LocalStoreTest, NoRoomIsALimitAndLeavesNothing) {
  ASSERT_EQ(CodeOf(store().PutNew("d/m", "small")), kOk);
  const std::string version = store().Get("d/m", 100).value().version;
  const std::string big(64 * 1024, 'x');
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = old;
  tight.rlim_cur = 10'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Status put_new = store().PutNew("d/big", big);
  const Status put_if = store().PutIf("d/m", big, version);
  auto writer = store().Create("d/streamed").value();
  const Status first = writer->Append(Bytes(std::string_view(big).substr(0, 8'000)));
  const Status second = writer->Append(Bytes(big));
  const Status third = writer->Append(Bytes("x"));
  const Status published = writer->Publish();
  writer.reset();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(CodeOf(put_new), Code::kLimit);
  EXPECT_EQ(CodeOf(put_if), Code::kLimit);
  EXPECT_EQ(CodeOf(first), kOk);
  ASSERT_EQ(CodeOf(second), Code::kLimit);
  EXPECT_EQ(second.error().context, Path("d/streamed"));
  EXPECT_EQ(CodeOf(third), Code::kLimit) << "a writer that lost bytes went on";
  EXPECT_EQ(CodeOf(published), Code::kLimit) << "a writer that lost bytes published";
  EXPECT_EQ(Names("d/"), KeyList{"d/m"});
  EXPECT_EQ(Content("d/m"), "small");
}

// A user without rights. Root passes all permission checks, so the child gives root up.
TEST_P(LocalStoreTest, AReadOnlyDirectoryIsDenied) {
  ASSERT_EQ(CodeOf(store().PutNew("d/m", "x")), kOk);
  const std::string version = store().Get("d/m", 9).value().version;
  fs::permissions(world_->dir->path(), fs::perms(0755));
  fs::permissions(Path("d"), fs::perms(0555));
  fs::permissions(Path("d/m"), fs::perms(0444));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(100);
    auto own = OpenLocalStore(world_->dir->path()).value();
    if (own->Get("d/m", 9).value().bytes != "x") _exit(1);
    if (CodeOf(own->PutNew("d/n", "y")) != Code::kDenied) _exit(2);
    if (CodeOf(own->PutIf("d/m", "y", version)) != Code::kDenied) _exit(3);
    if (CodeOf(own->Create("d/s/t")) != Code::kDenied) _exit(4);
    if (CodeOf(own->Create("d/n")) != Code::kDenied) _exit(5);
    if (CodeOf(own->Remove("d/m")) != Code::kDenied) _exit(6);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  fs::permissions(Path("d"), fs::perms(0755));
  EXPECT_EQ(Names("d/"), KeyList{"d/m"});
}

TEST(MemoryStoreTest, SeamsForSimulations) {
  TestClock clock;
  MemoryStore store(clock);
  ASSERT_TRUE(store.PutNew("a/x", "1"));
  EXPECT_EQ(store.Stat("a/x").value().modified, clock.Now());
  ASSERT_TRUE(store.SetModified("a/x", Time{}));
  EXPECT_EQ(store.Stat("a/x").value().modified, Time{});
  EXPECT_EQ(store.SetModified("a/y", Time{}).error().code, Code::kNotFound);
  auto writer = store.Create("a/w").value();
  EXPECT_EQ(store.Keys(), (KeyList{"a/w.0000000000000001.tmp", "a/x"}));
  ASSERT_TRUE(store.Remove("a/w.0000000000000001.tmp"));  // By a careless collector.
  EXPECT_EQ(writer->Append(Bytes("x")).error().code, Code::kTransient);
  EXPECT_EQ(writer->Publish().error().code, Code::kTransient);
}

TEST(FaultyStoreTest, ErrorsBeforeAndAfter) {
  TestClock clock;
  MemoryStore memory(clock);
  std::string fail_op;
  bool fail_before = true;
  FaultyStore store(memory, [&](std::string_view op, const std::string&, bool before) -> Status {
    if (op != fail_op || before != fail_before) return {};
    return Fail(before ? Code::kTransient : Code::kUnknownOutcome, "injected");
  });
  fail_op = "PutNew";
  EXPECT_EQ(store.PutNew("x", "1").error().code, Code::kTransient);
  EXPECT_EQ(memory.Keys(), KeyList{});
  fail_before = false;
  EXPECT_EQ(store.PutNew("x", "1").error().code, Code::kUnknownOutcome);
  EXPECT_EQ(memory.Keys(), KeyList{"x"});
  fail_op = "Publish";
  auto writer = store.Create("y").value();
  EXPECT_EQ(writer->Publish().error().code, Code::kUnknownOutcome);
  EXPECT_EQ(memory.Keys(), (KeyList{"x", "y"}));
  fail_op = "Append";
  fail_before = true;
  auto other = store.Create("z").value();
  EXPECT_EQ(other->Append(Bytes("1")).error().code, Code::kTransient);
  other.reset();
  EXPECT_EQ(memory.Keys(), (KeyList{"x", "y"})) << "no crash: discarded";
}

TEST(FaultyStoreTest, ACrashIsForeverAndLeavesTemporaries) {
  TestClock clock;
  MemoryStore memory(clock);
  int asked = 0;
  {
    FaultyStore store(memory, [&](std::string_view op, const std::string&, bool before) -> Status {
      ++asked;
      if (op == "Append" && !before) return Fail(Code::kCancelled, "crash");
      return {};
    });
    ASSERT_TRUE(store.PutNew("x", "1"));
    auto writer = store.Create("y").value();
    EXPECT_EQ(writer->Append(Bytes("1")).error().code, Code::kCancelled);
    EXPECT_TRUE(store.crashed());
    const int asked_until_crash = asked;
    EXPECT_EQ(writer->Publish().error().code, Code::kCancelled);
    EXPECT_EQ(store.Get("x", 1).error().code, Code::kCancelled);
    EXPECT_EQ(store.Remove("x").error().code, Code::kCancelled);
    EXPECT_EQ(asked, asked_until_crash);
    writer->Discard();
    writer.reset();
    EXPECT_EQ(memory.Keys(), (KeyList{"x", "y.0000000000000001.tmp"}));
  }
}

// `--io-limit`: 10 s worth of bytes take 10 s less the burst, on the simulated clock.
TEST(ThrottledStoreTest, KeepsTheRateOverReadsAndWrites) {
  TestClock clock;
  MemoryStore memory(clock);
  ThrottledStore store(memory, clock, kMiB);
  const std::string data(5 * kMiB, 'x');
  auto writer = store.Create("x").value();
  ASSERT_TRUE(writer->Append(Bytes(data)));
  ASSERT_TRUE(writer->Publish());
  std::string got(data.size(), ' ');
  auto reader = store.Open("x").value();
  ASSERT_EQ(reader->ReadAt(0, std::as_writable_bytes(std::span(got))).value(), 5 * kMiB);
  EXPECT_TRUE(got == data);
  // The last slice may start with an empty bucket, and the first with a full one.
  EXPECT_GE(clock.Monotonic(), std::chrono::milliseconds(9'500));
  EXPECT_LE(clock.Monotonic(), std::chrono::milliseconds(10'000));
}

TEST(ThrottledStoreTest, MetadataNeverWaitsButIsCharged) {
  TestClock clock;
  MemoryStore memory(clock);
  ThrottledStore store(memory, clock, kMiB);
  ASSERT_TRUE(store.PutNew("m", std::string(3 * kMiB, 'x')));
  ASSERT_TRUE(store.Get("m", kGiB));
  EXPECT_EQ(clock.Monotonic(), Duration(0));
  auto writer = store.Create("x").value();
  ASSERT_TRUE(writer->Append(Bytes("x")));
  EXPECT_NEAR(static_cast<double>(clock.Monotonic().count()), 5.75e6, 10.0);
}

TEST(ThrottledStoreTest, AWaitEndsOnRequest) {
  TestClock clock;
  MemoryStore memory(clock);
  CancelFlag cancel;
  ThrottledStore store(memory, clock, 10, &cancel);
  auto writer = store.Create("x").value();
  ASSERT_TRUE(writer->Append(Bytes("xx")));
  cancel.Request();
  EXPECT_EQ(writer->Append(Bytes("xx")).error().code, Code::kCancelled);
  ASSERT_TRUE(writer->Publish()) << "publishing must not be cut off by the throttle";
}

}  // namespace
}  // namespace lithify::storage
