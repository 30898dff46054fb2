#include "maintain/query_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "observe/audit_log.h"

namespace lithify::maintain {
namespace {

const Time kNow = ParseTime("2026-11-30T12:00:00Z").value();

class QueryLogFile : public testing::Test {
 protected:
  QueryLogFile() {
    std::filesystem::create_directories(directory_);
    log_ = observe::OpenFileAuditLog(path_);
  }
  ~QueryLogFile() override { std::filesystem::remove_all(directory_); }

  void Select(const std::string& table, Time at, bool failed = false,
              observe::AuditKind kind = observe::AuditKind::kQuery,
              const std::string& statement = "select") {
    observe::AuditEvent event;
    event.phase = observe::AuditEvent::Phase::kRecorded;
    event.kind = kind;
    event.failed = failed;
    event.time = at;
    event.procedure = statement;
    event.resources = {{.catalog = "lake",
                        .namespace_parts = {"sales", "eu"},
                        .name = table,
                        .object_type = "table"}};
    ASSERT_TRUE(log_->Append(event));
  }

  const std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / ("query_log." + std::to_string(getpid()));
  const std::string path_ = directory_ / "server.audit.jsonl";
  std::unique_ptr<observe::AuditLog> log_;
  QueryLog reads_{path_};
};

using std::chrono::days;
using std::chrono::hours;

TEST_F(QueryLogFile, SuccessfulSelectsAreCountedOnce) {
  Select("orders", kNow - days(4));
  Select("orders", kNow - hours(1));
  Select("orders", kNow - hours(1), true);
  Select("orders", kNow - hours(1), false, observe::AuditKind::kAdminDdl);
  Select("orders", kNow - hours(1), false, observe::AuditKind::kQuery, "table_health");
  Select("other", kNow);
  ASSERT_TRUE(reads_.Refresh(kNow));
  ASSERT_TRUE(reads_.Refresh(kNow));
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").reads, 2);
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").days, 4);
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.other").reads, 1);
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.none").reads, 0);
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.none").days, 4);
  Select("orders", kNow);
  ASSERT_TRUE(reads_.Refresh(kNow));
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").reads, 3);
}

TEST_F(QueryLogFile, OldReadsAreForgotten) {
  Select("orders", kNow - days(20));
  Select("orders", kNow);
  ASSERT_TRUE(reads_.Refresh(kNow));
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").reads, 1);
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").days, QueryLog::kDays);
}

TEST_F(QueryLogFile, ALineIsTakenWhenItIsWhole) {
  Select("orders", kNow);
  std::string line;
  std::getline(std::ifstream(path_) >> std::ws, line);
  {
    std::ofstream out(path_, std::ios::app);
    out << "no json\n" << line.substr(0, 40);
  }
  ASSERT_TRUE(reads_.Refresh(kNow));
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").reads, 1);
  {
    std::ofstream out(path_, std::ios::app);
    out << line.substr(40) << "\n";
  }
  ASSERT_TRUE(reads_.Refresh(kNow));
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").reads, 2);
}

TEST_F(QueryLogFile, ALogThatGoesOnInANewFileIsFollowed) {
  Select("orders", kNow);
  ASSERT_TRUE(reads_.Refresh(kNow));
  std::filesystem::rename(path_, path_ + ".00000000000000000000");
  log_ = observe::OpenFileAuditLog(path_);
  Select("orders", kNow);
  ASSERT_TRUE(reads_.Refresh(kNow));
  EXPECT_DOUBLE_EQ(reads_.Of("lake.sales.eu.orders").reads, 2);
}

TEST_F(QueryLogFile, NoFileIsNoLog) {
  QueryLog none(path_ + ".none");
  ASSERT_TRUE(none.Refresh(kNow));
  EXPECT_DOUBLE_EQ(none.Of("lake.sales.eu.orders").days, 0);
  QueryLog odd(directory_);
  EXPECT_FALSE(odd.Refresh(kNow));
}

}  // namespace
}  // namespace lithify::maintain
