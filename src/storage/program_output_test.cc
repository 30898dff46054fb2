#include "storage/program_output.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

namespace lithify::storage {
namespace {

using Words = std::vector<std::string>;

TEST(SplitCommand, AsAShellWouldWithoutBeingOne) {
  const std::vector<std::pair<const char*, Words>> kCommands = {
      {"/bin/x", {"/bin/x"}},
      {"  x\t-a  --b=c ", {"x", "-a", "--b=c"}},
      {R"("/a b/x" "with space" '')", {"/a b/x", "with space", ""}},
      {R"(x 'a\b"c' "d\"e\\f\g'h" i\ j\'k)", {"x", R"(a\b"c)", R"(d"e\f\g'h)", "i j'k"}},
      {R"(x a"b c"'d e'f)", {"x", "ab cd ef"}},
      // Nothing of a shell: these are ordinary words.
      {"x $HOME `id` $(id) ; rm * > y | z & ~/w #c",
       {"x", "$HOME", "`id`", "$(id)", ";", "rm", "*", ">", "y", "|", "z", "&", "~/w", "#c"}},
  };
  for (const auto& [command, words] : kCommands) {
    EXPECT_EQ(SplitCommand(command).value(), words) << command;
  }
  for (const char* bad : {"", "  ", "x 'a", "x \"a", "x a\\", "\"\" x"}) {
    EXPECT_EQ(SplitCommand(bad).error().code, Code::kInvalid) << bad;
  }
}

class ProgramOutputTest : public testing::Test {
 protected:
  Result<std::string> Run(const std::string& script) {
    return OutputOf({"/bin/sh", "-c", script}, limits_, clock_);
  }

  SystemClock clock_;
  ProgramLimits limits_{std::chrono::seconds(30), 1000, {}};
};

TEST_F(ProgramOutputTest, WhatItWritesAndNothingElse) {
  EXPECT_EQ(Run("printf 'one\\ntwo'").value(), "one\ntwo");
  EXPECT_EQ(Run("printf out; printf hush >&2").value(), "out");
  EXPECT_EQ(Run("true").value(), "");
  EXPECT_EQ(Run("cat").value(), "");  // There is nothing to read.
  EXPECT_EQ(OutputOf({"printf", "%s", "a b"}, limits_, clock_).value(), "a b");
  EXPECT_EQ(Run("head -c 1000 /dev/zero | tr '\\0' x").value(), std::string(1000, 'x'));
}

TEST_F(ProgramOutputTest, AnEndThatIsNoSuccess) {
  const auto failed = Run("printf hush; printf hush >&2; exit 3");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().ToString(),
            "denied: /bin/sh: it ended with status 3 (next: run it by hand to see what it says)");
  EXPECT_EQ(Run("kill -9 $$").error().message, "it was ended by signal 9");
  const auto absent = OutputOf({"/nonexistent/program", "hush"}, limits_, clock_);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().ToString(),
            "invalid: /nonexistent/program: it cannot be run: No such file or directory");
}

TEST_F(ProgramOutputTest, MegabytesAreNotTaken) {
  const auto much = Run("while :; do printf %1000s hush; done");
  ASSERT_FALSE(much);
  EXPECT_EQ(much.error().code, Code::kDenied);
  EXPECT_EQ(much.error().message, "it writes more than 1000 bytes");
}

// Not only itself is ended, but all that it started.
TEST_F(ProgramOutputTest, OneThatHangsIsEndedWithAllItsOwn) {
  const std::string file = testing::TempDir() + "/program_output_" + std::to_string(getpid());
  pid_t sleeping = 0;
  pid_t shell = 0;
  // On a busy machine it may be ended before it has said who it is.
  for (const int ms : {300, 1000, 1000, 1000}) {
    limits_.time = std::chrono::milliseconds(ms);
    const auto hanging = Run("sleep 600 & echo $! > " + file + "; echo $$ >> " + file + "; wait");
    ASSERT_FALSE(hanging);
    EXPECT_EQ(hanging.error().code, Code::kDenied);
    EXPECT_EQ(hanging.error().message, "it takes longer than 1 s");
    std::ifstream in(file);
    if (in >> sleeping >> shell) break;
  }
  ASSERT_GT(shell, 0);
  EXPECT_EQ(kill(shell, 0), -1);
  // Somebody else's child by now, who looks after it soon: dead, if not yet gone.
  const auto state_of = [](pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    return stat >> number >> name >> state ? state : std::string("gone");
  };
  const auto ended = [&] { return state_of(sleeping) == "gone" || state_of(sleeping) == "Z"; };
  for (int i = 0; i < 500 && !ended(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(ended()) << state_of(sleeping);
  std::filesystem::remove(file);
}

// It has closed its output, and goes on; or has ended, and something that it started goes on.
TEST_F(ProgramOutputTest, ItsEndIsItsEnd) {
  EXPECT_EQ(Run("printf x; (sleep 5) & exit 0").value(), "x");
  EXPECT_EQ(Run("printf x; exec >&-; exit 4").error().message, "it ended with status 4");
}

TEST_F(ProgramOutputTest, WhoIsToStopDoesNotWait) {
  limits_.stop = [] { return true; };
  EXPECT_EQ(Run("sleep 600").error().code, Code::kCancelled);
}

TEST_F(ProgramOutputTest, NoFileOfOursIsOpenInIt) {
  std::ofstream ours(testing::TempDir() + "/program_output_open_" + std::to_string(getpid()));
  // ls has its own one on the directory.
  EXPECT_EQ(OutputOf({"ls", "/proc/self/fd"}, limits_, clock_).value(), "0\n1\n2\n3\n");
  std::filesystem::remove(testing::TempDir() + "/program_output_open_" + std::to_string(getpid()));
}

}  // namespace
}  // namespace lithify::storage
