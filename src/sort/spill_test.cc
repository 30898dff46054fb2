#include "sort/spill.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace lithify::sort {
namespace {

namespace fs = std::filesystem;

class SpillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string top = (fs::temp_directory_path() / "lithify-spill-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(top.data()), nullptr);
    top_ = top;
  }
  void TearDown() override { fs::remove_all(top_); }
  std::string Path(const std::string& name) const { return (top_ / name).string(); }

  fs::path top_;
};

std::vector<uint8_t> Bytes(size_t size, uint8_t first = 1) {
  std::vector<uint8_t> out(size);
  std::iota(out.begin(), out.end(), first);
  return out;
}

size_t Entries(const std::string& path) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
}

TEST_F(SpillTest, GivesBackWhatWasAppended) {
  auto directory = SpillDirectory::Open(Path("a/b"), 0);
  ASSERT_TRUE(directory) << directory.error().ToString();
  auto file = (*directory)->Create();
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ((*file)->Append(Bytes(1000)), 0);
  EXPECT_EQ((*file)->Append({}), 1000);
  EXPECT_EQ((*file)->Append(Bytes(10, 7)), 1000);
  EXPECT_EQ((*file)->size(), 1010);
  (*file)->WillRead(0, 1010);
  std::vector<uint8_t> back(10);
  ASSERT_TRUE((*file)->Read(1000, back));
  EXPECT_EQ(back, Bytes(10, 7));
  ASSERT_TRUE((*file)->Read(500, back));
  EXPECT_EQ(back, Bytes(10, static_cast<uint8_t>(501)));
}

TEST_F(SpillTest, NoNameIsLeftWhileAFileIsOpen) {
  auto directory = SpillDirectory::Open(Path("s"), 0);
  ASSERT_TRUE(directory);
  auto file = (*directory)->Create();
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->Append(Bytes(100)));
  EXPECT_EQ(Entries(Path("s")), 0U);
}

// A process that is killed leaves nothing: neither a name nor its space.
TEST_F(SpillTest, AKilledProcessLeavesNothing) {
  const pid_t child = fork();
  if (child == 0) {
    auto directory = SpillDirectory::Open(Path("s"), 0);
    auto file = (*directory)->Create();
    if (!(*file)->Append(Bytes(100000))) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(Entries(Path("s")), 0U);
}

TEST_F(SpillTest, TheBoundHoldsOverAllFilesAndIsGivenBack) {
  auto directory = SpillDirectory::Open(Path("s"), 1000);
  ASSERT_TRUE(directory);
  auto a = (*directory)->Create();
  auto b = (*directory)->Create();
  ASSERT_TRUE(a && b);
  ASSERT_TRUE((*a)->Append(Bytes(600)));
  ASSERT_TRUE((*b)->Append(Bytes(400)));
  const auto refused = (*a)->Append(Bytes(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kLimit);
  EXPECT_EQ(refused.error().context, Path("s"));
  EXPECT_EQ(refused.error().message,
            "spilled data would grow over its bound of 1000 B: 1000 B are held, and 1 B more are "
            "needed");
  EXPECT_FALSE(refused.error().hint.empty());
  EXPECT_EQ((*a)->size(), 600);
  b->reset();
  EXPECT_EQ((*directory)->bytes(), 600);
  EXPECT_EQ((*directory)->bytes_most(), 1000);
  EXPECT_EQ((*a)->Append(Bytes(400)), 600);
  a->reset();
  EXPECT_EQ((*directory)->bytes(), 0);
}

TEST_F(SpillTest, AFileMayOutliveItsDirectory) {
  auto directory = SpillDirectory::Open(Path("s"), 0);
  ASSERT_TRUE(directory);
  auto file = (*directory)->Create();
  ASSERT_TRUE(file);
  directory->reset();
  EXPECT_EQ((*file)->Append(Bytes(10)), 0);
}

TEST_F(SpillTest, ReadingWhatIsNotThereIsCorrupt) {
  auto directory = SpillDirectory::Open(Path("s"), 0);
  ASSERT_TRUE(directory);
  auto file = (*directory)->Create();
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->Append(Bytes(100)));
  std::vector<uint8_t> into(10);
  for (const int64_t offset : {int64_t{91}, int64_t{101}, int64_t{-1}, INT64_MAX}) {
    const Status read = (*file)->Read(offset, into);
    ASSERT_FALSE(read) << offset;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
  }
  EXPECT_TRUE((*file)->Read(90, into));
}

TEST_F(SpillTest, TheDirectoryIsMadeForThisUserAlone) {
  const mode_t mask = umask(0);
  const auto directory = SpillDirectory::Open(Path("new/one/"), 0);
  umask(mask);
  ASSERT_TRUE(directory);
  struct stat info{};
  ASSERT_EQ(stat(Path("new/one").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
}

TEST_F(SpillTest, WhatOthersCouldMeddleWithIsRefused) {
  const auto code = [&](const std::string& path) {
    const auto opened = SpillDirectory::Open(path, 0);
    EXPECT_TRUE(opened || opened.error().context == Path("x")) << opened.error().ToString();
    return opened ? "opened" : CodeName(opened.error().code);
  };
  fs::create_directory(Path("x"));
  fs::permissions(Path("x"), fs::perms(0755));
  EXPECT_EQ(code(Path("x")), "opened");
  for (const int mode : {0775, 0777, 0757, 01777}) {
    fs::permissions(Path("x"), fs::perms(mode));
    EXPECT_EQ(code(Path("x")), "denied") << std::oct << mode;
  }
  fs::remove(Path("x"));
  fs::create_directory(Path("y"));
  fs::create_directory_symlink(Path("y"), Path("x"));
  EXPECT_EQ(code(Path("x")), "denied");
  EXPECT_EQ(code(Path("x/")), "denied");
  fs::remove(Path("x"));
  std::ofstream(Path("x")) << "a file";
  EXPECT_EQ(code(Path("x")), "invalid");
  fs::remove(Path("x"));
  EXPECT_EQ(SpillDirectory::Open("", 0).error().code, Code::kInvalid);
  EXPECT_EQ(SpillDirectory::Open(Path("x"), -1).error().code, Code::kInvalid);
  if (geteuid() != 0) return;  // Only root can give a directory away.
  fs::create_directory(Path("x"));
  ASSERT_EQ(chown(Path("x").c_str(), 12345, 12345), 0);
  EXPECT_EQ(code(Path("x")), "denied");
}

TEST_F(SpillTest, ADirectoryThatIsGoneIsAnError) {
  auto directory = SpillDirectory::Open(Path("s"), 0);
  ASSERT_TRUE(directory);
  fs::remove(Path("s"));
  const auto file = (*directory)->Create();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kInvalid);
  EXPECT_EQ(file.error().context, Path("s"));
}

// A system whose calls go as told.
class FaultySystem final : public SpillSystem {
 public:
  int OpenUnnamed(int directory) override {
    if (unnamed_errno == 0) return SpillSystem::OpenUnnamed(directory);
    errno = unnamed_errno;
    return -1;
  }
  ssize_t Write(int fd, const void* bytes, size_t size, int64_t offset) override {
    const int call = writes++;
    if (call >= fail_from && call < fail_to) {
      if (fail_errno == 0) return 0;
      errno = fail_errno;
      return -1;
    }
    return SpillSystem::Write(fd, bytes, std::min(size, most), offset);
  }
  ssize_t Read(int fd, void* into, size_t size, int64_t offset) override {
    const int call = reads++;
    if (call >= fail_from && call < fail_to) {
      errno = fail_errno;
      return -1;
    }
    return SpillSystem::Read(fd, into, std::min(size, most), offset);
  }

  int unnamed_errno = 0;
  int fail_errno = EINTR;
  std::atomic<int> fail_from{INT32_MAX};
  int fail_to = INT32_MAX;
  size_t most = SIZE_MAX;
  std::atomic<int> writes{0};
  std::atomic<int> reads{0};
};

TEST_F(SpillTest, ShortAndInterruptedCallsGoOn) {
  FaultySystem system;
  system.most = 7;
  system.fail_from = 2;
  system.fail_to = 5;
  auto directory = SpillDirectory::Open(Path("s"), 0, &system);
  ASSERT_TRUE(directory);
  auto file = (*directory)->Create();
  ASSERT_TRUE(file);
  ASSERT_EQ((*file)->Append(Bytes(100)), 0);
  EXPECT_EQ(system.writes, 15 + 3);
  std::vector<uint8_t> back(100);
  ASSERT_TRUE((*file)->Read(0, back));
  EXPECT_EQ(back, Bytes(100));
  EXPECT_EQ(system.reads, 15 + 3);
}

TEST_F(SpillTest, AFailedAppendLeavesTheFileAsItWas) {
  const std::vector<std::pair<int, Code>> cases = {
      {ENOSPC, Code::kLimit},  {EDQUOT, Code::kLimit},      {EFBIG, Code::kLimit},
      {EIO, Code::kTransient}, {EBADMSG, Code::kTransient}, {0, Code::kLimit}};
  for (const auto& [err, code] : cases) {
    FaultySystem system;
    system.most = 30;
    auto directory = SpillDirectory::Open(Path("s"), 0, &system);
    ASSERT_TRUE(directory);
    auto file = (*directory)->Create();
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->Append(Bytes(100)));
    system.fail_from = system.writes + 2;  // Some of it is written before.
    system.fail_errno = err;
    const auto failed = (*file)->Append(Bytes(100));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, code) << failed.error().ToString();
    EXPECT_EQ(failed.error().context, Path("s"));
    EXPECT_NE(failed.error().message.find("cannot spill 100 B more than the 100 B held: "),
              std::string::npos);
    EXPECT_FALSE(failed.error().hint.empty());
    EXPECT_EQ((*directory)->bytes(), 100);
    system.fail_from = INT32_MAX;
    EXPECT_EQ((*file)->Append(Bytes(5, 9)), 100);
    std::vector<uint8_t> back(5);
    ASSERT_TRUE((*file)->Read(100, back));
    EXPECT_EQ(back, Bytes(5, 9));
  }
}

TEST_F(SpillTest, AFailedReadSaysSo) {
  FaultySystem system;
  auto directory = SpillDirectory::Open(Path("s"), 0, &system);
  ASSERT_TRUE(directory);
  auto file = (*directory)->Create();
  ASSERT_TRUE(file);
  ASSERT_TRUE((*file)->Append(Bytes(100)));
  system.fail_from = 0;
  system.fail_errno = EIO;
  std::vector<uint8_t> back(5);
  const Status read = (*file)->Read(0, back);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kTransient);
  EXPECT_EQ(read.error().message, "cannot read what was spilled: Input/output error");
}

TEST_F(SpillTest, WithoutUnnamedFilesTheNameIsTakenAtOnce) {
  for (const int err : {EOPNOTSUPP, EISDIR, EINVAL, ENOSYS}) {
    FaultySystem system;
    system.unnamed_errno = err;
    auto directory = SpillDirectory::Open(Path("s"), 0, &system);
    ASSERT_TRUE(directory);
    auto file = (*directory)->Create();
    ASSERT_TRUE(file) << file.error().ToString();
    EXPECT_EQ(Entries(Path("s")), 0U);
    EXPECT_EQ((*file)->Append(Bytes(10)), 0);
  }
  FaultySystem system;
  system.unnamed_errno = EMFILE;
  auto directory = SpillDirectory::Open(Path("s"), 0, &system);
  ASSERT_TRUE(directory);
  const auto file = (*directory)->Create();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kLimit);
  EXPECT_EQ(file.error().hint, "raise the limit of open files (ulimit -n)");
}

// A real full disk.
TEST_F(SpillTest, AFullDiskIsALimit) {
  fs::create_directory(Path("disk"));
  if (mount("none", Path("disk").c_str(), "tmpfs", 0, "size=65536,mode=0700") != 0) {
    GTEST_SKIP() << "no right to mount a file system";
  }
  {
    auto directory = SpillDirectory::Open(Path("disk"), 0);
    ASSERT_TRUE(directory);
    auto file = (*directory)->Create();
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->Append(Bytes(20000)));
    const auto full = (*file)->Append(Bytes(60000));
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, Code::kLimit);
    EXPECT_NE(full.error().message.find("No space left on device"), std::string::npos)
        << full.error().ToString();
    // What was written of it is no longer held.
    EXPECT_EQ((*file)->Append(Bytes(40000, 3)), 20000);
    std::vector<uint8_t> back(40000);
    ASSERT_TRUE((*file)->Read(20000, back));
    EXPECT_EQ(back, Bytes(40000, 3));
  }
  EXPECT_EQ(umount(Path("disk").c_str()), 0);
}

TEST_F(SpillTest, TheLargestFileOfTheProcessIsALimit) {
  auto directory = SpillDirectory::Open(Path("s"), 0);
  ASSERT_TRUE(directory);
  auto file = (*directory)->Create();
  ASSERT_TRUE(file);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto first = (*file)->Append(Bytes(4000));
  const auto over = (*file)->Append(Bytes(4000));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(first);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::kLimit);
  EXPECT_NE(over.error().hint.find("ulimit -f"), std::string::npos) << over.error().ToString();
  EXPECT_EQ((*file)->Append(Bytes(4000)), 4000);
}

TEST_F(SpillTest, ManyThreadsNeverGoOverTheBound) {
  constexpr int64_t kMost = 100000;
  auto directory = SpillDirectory::Open(Path("s"), kMost);
  ASSERT_TRUE(directory);
  std::atomic<int64_t> refused{0};
  const auto work = [&](size_t thread) {
    for (int round = 0; round < 50; ++round) {
      auto file = (*directory)->Create();
      ASSERT_TRUE(file);
      for (int i = 0; i < 20; ++i) {
        const auto at = (*file)->Append(Bytes(1000 + thread * 100, static_cast<uint8_t>(i)));
        if (!at) {
          ASSERT_EQ(at.error().code, Code::kLimit);
          refused.fetch_add(1);
          continue;
        }
        std::vector<uint8_t> back(1000);
        ASSERT_TRUE((*file)->Read(*at, back));
        ASSERT_EQ(back, Bytes(1000, static_cast<uint8_t>(i)));
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 8; ++i) threads.emplace_back(work, i);
  }
  EXPECT_EQ((*directory)->bytes(), 0);
  EXPECT_LE((*directory)->bytes_most(), kMost);
  EXPECT_GT((*directory)->bytes_most(), kMost / 10);
}

}  // namespace
}  // namespace lithify::sort
