// LocalStore killed at every change it makes to the disk, in turn: before, after, and with half of
// a write done. Whatever is visible afterwards is an old object or a new one, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "storage/local_store.h"

namespace lithify::storage {
namespace {

namespace fs = std::filesystem;

// Of this test's build directory, where the library and the program are too.
std::string Beside(const std::string& name) {
  return fs::read_symlink("/proc/self/exe").replace_filename(name).string();
}

class StoreCrash : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lithify_crash_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    fs::create_directory(Root());
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string Root() const { return dir_ + "/root"; }

  // Runs store_steps on an empty root; returns the status of waitpid().
  int Run(std::map<std::string, std::string> variables) {
    fs::remove_all(Root());
    fs::create_directory(Root());
    variables["KILL_AT_ROOT"] = Root();
    variables["LD_PRELOAD"] = Beside("kill_at.so");
    const std::string program = Beside("store_steps");
    const pid_t child = fork();
    if (child == 0) {
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      execl(program.c_str(), program.c_str(), Root().c_str(), nullptr);
      _exit(127);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  // The calls of one whole run, without numbers, with "R" for the root and "T" for random digits.
  std::vector<std::string> Calls() {
    const std::string log = dir_ + "/log";
    fs::remove(log);
    EXPECT_EQ(Run({{"KILL_AT_LOG", log}}), 0);
    std::ifstream in(log);
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) {
      const size_t space = line.find(' ');
      EXPECT_EQ(line.substr(0, space), std::to_string(out.size() + 1));
      line = line.substr(space + 1);
      for (size_t at = 0; (at = line.find(Root(), at)) != std::string::npos;) {
        line.replace(at, Root().size(), "R");
      }
      for (size_t at = 0; (at = line.find(".tmp", at)) != std::string::npos; ++at) {
        line.replace(at - 16, 16, "T");
        at -= 15;
      }
      out.push_back(line);
    }
    return out;
  }

  std::string dir_;
};

// R218, R219: bytes, then the name, then the directory entry; new directories into their parents.
TEST_F(StoreCrash, EveryChangeIsDurableInOrder) {
  EXPECT_THAT(
      Calls(),
      testing::ElementsAre(
          "mkdirat R/a", "fsync R", "mkdirat R/a/b", "fsync R/a",
          // PutNew.
          "flock R/a/b", "openat R/a/b/m.T.tmp", "pwrite R/a/b/m.T.tmp", "fsync R/a/b/m.T.tmp",
          "renameat2 R/a/b/m.T.tmp -> R/a/b/m", "fsync R/a/b", "flock R/a/b",
          // PutIf.
          "flock R/a/b", "openat R/a/b/m.T.tmp", "pwrite R/a/b/m.T.tmp", "fsync R/a/b/m.T.tmp",
          "renameat R/a/b/m.T.tmp -> R/a/b/m", "fsync R/a/b", "flock R/a/b",
          // A published writer, and a dropped one.
          "openat R/a/b/data.T.tmp", "pwrite R/a/b/data.T.tmp", "pwrite R/a/b/data.T.tmp",
          "pwrite R/a/b/data.T.tmp", "pwrite R/a/b/data.T.tmp", "pwrite R/a/b/data.T.tmp",
          "pwrite R/a/b/data.T.tmp", "fsync R/a/b/data.T.tmp",
          "renameat2 R/a/b/data.T.tmp -> R/a/b/data", "fsync R/a/b", "openat R/a/b/dropped.T.tmp",
          "pwrite R/a/b/dropped.T.tmp", "unlinkat R/a/b/dropped.T.tmp",
          // Remove.
          "flock R/a/b", "unlinkat R/a/b/data", "flock R/a/b"));
}

TEST_F(StoreCrash, KilledAnywhereNothingIsTornAndALaterRunWorks) {
  const size_t calls = Calls().size();
  ASSERT_EQ(calls, 34U);
  for (const std::string when : {"before", "after", "torn"}) {
    for (size_t n = 1; n <= calls; ++n) {
      SCOPED_TRACE(when + " call " + std::to_string(n));
      const int status = Run({{"KILL_AT_N", std::to_string(n)}, {"KILL_AT_WHEN", when}});
      ASSERT_TRUE(WIFSIGNALED(status));
      ASSERT_EQ(WTERMSIG(status), SIGKILL);
      auto store = OpenLocalStore(Root(), {.sync = false}).value();
      // Renames are calls 9, 16 and 27; the removal is call 33.
      const size_t done = when == "after" ? n : n - 1;
      const auto m = store->Get("a/b/m", 1'000'000);
      const std::string expected =
          done >= 16 ? std::string(20'000, '2') : std::string(done >= 9 ? 10'000 : 0, '1');
      EXPECT_TRUE(m ? m->bytes == expected && !expected.empty() : expected.empty());
      const auto data = store->Get("a/b/data", 20'000'000);
      EXPECT_EQ(data.has_value(), done >= 27 && done < 33);
      if (data) {
        EXPECT_TRUE(data->bytes == std::string(11'000'000, '3'));
      }
      // The rest is temporaries, at most one; and no lock is left behind.
      int temporaries = 0;
      const auto listed = store->List("a/b/").value();
      for (const auto& info : listed) {
        if (info.key == "a/b/m" || info.key == "a/b/data") continue;
        EXPECT_TRUE(info.key.ends_with(".tmp")) << info.key;
        ++temporaries;
      }
      EXPECT_LE(temporaries, 1);
      if (when == "torn" && n == 7) {
        EXPECT_EQ(listed.at(0).size, 5'000);
      }
      EXPECT_TRUE(store->PutNew("a/b/after", "x"));
    }
  }
}

// Each call fails in turn, once: the error has the code that its place and errno ask for, only a
// published name may be in doubt, and nothing else stays behind.
TEST_F(StoreCrash, AFailingCallIsReportedAndCleanedUp) {
  struct Case {
    int n;
    int error;
    Code code;
    std::vector<std::string> left;
  };
  const std::vector<Case> cases = {
      {1, EROFS, Code::kDenied, {}},
      {1, ENOSPC, Code::kLimit, {}},
      {2, EIO, Code::kTransient, {}},                    // fsync of a new directory's parent.
      {5, ENOLCK, Code::kUnsupported, {}},               // No locks on this file system.
      {6, EDQUOT, Code::kLimit, {}},                     // PutNew: create,
      {7, ENOSPC, Code::kLimit, {}},                     // write,
      {8, EIO, Code::kTransient, {}},                    // fsync,
      {9, EEXIST, Code::kConflict, {}},                  // name,
      {9, EIO, Code::kUnknownOutcome, {"a/b/m.T.tmp"}},  // in doubt: the bytes stay,
      {10, EIO, Code::kUnknownOutcome, {"a/b/m"}},       // directory.
      {14, ENOSPC, Code::kLimit, {"a/b/m"}},             // PutIf: write,
      {16, EROFS, Code::kDenied, {"a/b/m"}},             // name,
      {17, EIO, Code::kUnknownOutcome, {"a/b/m"}},       // directory.
      {20, ENOSPC, Code::kLimit, {"a/b/m"}},             // Writer: write,
      {24, ENOSPC, Code::kLimit, {"a/b/m"}},             // past the page cache,
      {24, EIO, Code::kTransient, {"a/b/m"}},            //
      {25, EIO, Code::kTransient, {"a/b/m"}},            // its end,
      {26, EIO, Code::kTransient, {"a/b/m"}},            // fsync,
      {27, EEXIST, Code::kConflict, {"a/b/m"}},          // name,
      {28, EIO, Code::kUnknownOutcome, {"a/b/data", "a/b/m"}},  // directory.
      {33, EPERM, Code::kDenied, {"a/b/data", "a/b/m"}},        // Remove.
  };
  for (const Case& c : cases) {
    SCOPED_TRACE("call " + std::to_string(c.n) + " errno " + std::to_string(c.error));
    const int status = Run({{"KILL_AT_N", std::to_string(c.n)},
                            {"KILL_AT_WHEN", "fail"},
                            {"KILL_AT_ERRNO", std::to_string(c.error)}});
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 10 + static_cast<int>(c.code));
    std::vector<std::string> left;
    const auto listed = OpenLocalStore(Root()).value()->List("a/b/").value();
    for (const auto& info : listed) {
      std::string key = info.key;
      if (key.ends_with(".tmp")) key.replace(key.size() - 20, 16, "T");
      left.push_back(key);
    }
    EXPECT_EQ(left, c.left);
  }
}

// A file system without RENAME_NOREPLACE: link() and unlink() do the same. One that refuses direct
// writes after it has taken the flag: call 24 is done again through the page cache.
TEST_F(StoreCrash, WhatAFileSystemDoesNotKnowIsDoneInAnotherWay) {
  for (const int n : {9, 24, 27}) {
    EXPECT_EQ(Run({{"KILL_AT_N", std::to_string(n)},
                   {"KILL_AT_WHEN", "fail"},
                   {"KILL_AT_ERRNO", std::to_string(EINVAL)}}),
              0);
    const auto listed = OpenLocalStore(Root()).value()->List("a/b/").value();
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(listed[0].key, "a/b/m");
    EXPECT_EQ(listed[0].size, 20'000);
  }
}

}  // namespace
}  // namespace lithify::storage
