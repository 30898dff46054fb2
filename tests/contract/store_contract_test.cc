// The contract of storage::Store on those that need no server.
#include "store_contract.h"

#include <fcntl.h>
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

struct LocalWorld final : World {
  explicit LocalWorld(bool sync) : local(OpenLocalStore(dir.path(), {.sync = sync}).value()) {}
  Store& store() override { return *local; }
  std::string path() const override { return dir.path(); }
  TempDir dir;
  std::unique_ptr<Store> local;
};

struct MemoryWorld final : World {
  Store& store() override { return over ? *over : memory; }
  TestClock clock;
  MemoryStore memory{clock};
  std::unique_ptr<Store> over;  // The memory; null: nothing.
};

// What holds where keys are paths.
class TreeContract : public StoreContract {};

TEST_P(TreeContract, AnObjectIsNoDirectory) {
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
// R238, H3: whoever has opened an object reads on, whatever happens to its name.
TEST_P(TreeContract, ReadersOutliveRemovalAndReplacement) {
  ASSERT_EQ(CodeOf(store().PutNew("x", "old")), kOk);
  auto reader = store().Open("x").value();
  ASSERT_EQ(CodeOf(store().PutIf("x", "new!", store().Get("x", 9).value().version)), kOk);
  ASSERT_EQ(CodeOf(store().Remove("x")), kOk);
  std::string got(3, ' ');
  EXPECT_EQ(reader->ReadAt(0, std::as_writable_bytes(std::span(got))).value(), 3);
  EXPECT_EQ(got, "old");
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract,
                         testing::Values("Local", "LocalNoSync", "Memory", "Throttled", "Faulty"),
                         [](const auto& param) { return param.param; });

INSTANTIATE_TEST_SUITE_P(Stores, TreeContract,
                         testing::Values("Local", "LocalNoSync", "Memory", "Throttled", "Faulty"),
                         [](const auto& param) { return param.param; });

class LocalStoreTest : public StoreContract {
 protected:
  std::string Path(const std::string& name) const { return world_->path() + "/" + name; }
};
INSTANTIATE_TEST_SUITE_P(Local, LocalStoreTest, testing::Values("Local"));

TEST_P(LocalStoreTest, OpeningTellsWhatIsWrongWithTheRoot) {
  EXPECT_EQ(
      OpenLocalStore(Path("absent")).error().ToString(),
      "not_found: " + Path("absent") + ": no such directory (next: check the path, or create it)");
  ASSERT_EQ(CodeOf(store().PutNew("f", "x")), kOk);
  EXPECT_EQ(CodeOf(OpenLocalStore(Path("f"))), Code::kInvalid);
  EXPECT_EQ(OpenLocalStore(world_->path() + "//").value()->Describe(), world_->path());
  fs::create_directory_symlink(world_->path(), Path("root_link"));
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
      auto own = OpenLocalStore(world_->path());
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
      OpenLocalStore(world_->path(), {.lock_wait = std::chrono::milliseconds(20)}).value();
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
  // What a writer holds back is more than the limit, and less than this.
  Status second;
  for (int i = 0; i < 100 && second; ++i) second = writer->Append(Bytes(big));
  const Status third = writer->Append(Bytes("x"));
  const Status flushed = writer->Flush();
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
  EXPECT_EQ(CodeOf(flushed), Code::kLimit) << "a writer that lost bytes went on";
  EXPECT_EQ(CodeOf(published), Code::kLimit) << "a writer that lost bytes published";
  EXPECT_EQ(Names("d/"), KeyList{"d/m"});
  EXPECT_EQ(Content("d/m"), "small");
}

// A user without rights. Root passes all permission checks, so the child gives root up.
TEST_P(LocalStoreTest, AReadOnlyDirectoryIsDenied) {
  ASSERT_EQ(CodeOf(store().PutNew("d/m", "x")), kOk);
  const std::string version = store().Get("d/m", 9).value().version;
  fs::permissions(world_->path(), fs::perms(0755));
  fs::permissions(Path("d"), fs::perms(0555));
  fs::permissions(Path("d/m"), fs::perms(0444));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(100);
    auto own = OpenLocalStore(world_->path()).value();
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

std::unique_ptr<World> MakeWorld(const std::string& kind) {
  if (kind.starts_with("Local")) return std::make_unique<LocalWorld>(kind == "Local");
  auto world = std::make_unique<MemoryWorld>();
  if (kind == "Throttled") {
    world->over = std::make_unique<ThrottledStore>(world->memory, world->clock, 100 * kMiB);
  } else if (kind == "Faulty") {
    world->over = std::make_unique<FaultyStore>(
        world->memory, [](std::string_view, const std::string&, bool) -> Status { return {}; });
  }
  return world;
}

}  // namespace lithify::storage
