#include "embed/claim_holder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace lithify::embed {
namespace {

// "<host>-", of a holder of this process.
std::string Host(const std::string& holder) {
  const std::string tail = "-" + std::to_string(getpid()) + "-0123456789abcdef";
  return holder.substr(0, holder.size() - tail.size()) + "-";
}

TEST(ClaimHolder, Q3NamesHostProcessAndChance) {
  SeededRandom random(1);
  const std::string one = MakeClaimHolder(random);
  const std::string two = MakeClaimHolder(random);
  EXPECT_NE(one, two);
  EXPECT_EQ(one.substr(0, one.size() - 8), two.substr(0, two.size() - 8));
  // Two in one process are both there.
  EXPECT_FALSE(IsHolderGone(one));
  EXPECT_FALSE(IsHolderGone(two));
  EXPECT_NE(one.find("-" + std::to_string(getpid()) + "-"), std::string::npos);
}

TEST(ClaimHolder, Q3AProcessThatEndedIsGone) {
  SeededRandom random(1);
  const std::string host = Host(MakeClaimHolder(random));
  const std::string digits = "-0123456789abcdef";
  // Our pid with other digits: a process before us, with the same pid.
  EXPECT_TRUE(IsHolderGone(host + std::to_string(getpid()) + digits));
  EXPECT_FALSE(IsHolderGone(host + std::to_string(getppid()) + digits));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  // Until it is waited for, the pid is taken.
  EXPECT_FALSE(IsHolderGone(host + std::to_string(child) + digits));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(IsHolderGone(host + std::to_string(child) + digits));
  EXPECT_FALSE(IsHolderGone("x" + host + std::to_string(child) + digits));
}

TEST(ClaimHolder, WhatIsNotOursToJudgeIsNotGone) {
  SeededRandom random(1);
  const std::string host = Host(MakeClaimHolder(random));
  for (const std::string& text :
       {std::string(), host, host + "-1-0123456789abcdef", host + "0-0123456789abcdef",
        host + "99999999999999-0123456789abcdef", host + "x-0123456789abcdef",
        host + std::to_string(getpid()) + "-0123", std::string("job-019e5c1f")}) {
    EXPECT_FALSE(IsHolderGone(text)) << text;
  }
}

}  // namespace
}  // namespace lithify::embed
