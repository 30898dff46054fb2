#include "report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace lithify {
namespace {

using maintain::TableGate;
using maintain::TickReport;
using testing::HasSubstr;
using testing::Not;

int64_t Lines(const std::string& text) { return std::ranges::count(text, '\n'); }

TickReport Of(int count) {
  TickReport report;
  report.mode = "active";
  for (int i = 0; i < count; ++i) {
    const std::string name = "lake.sales.t" + std::to_string(i);
    report.tables.push_back(
        {.table = name, .gate = TableGate::kOptedIn, .gate_reason = "opted in", .due = "not_yet"});
    report.plan.push_back({.table = name, .partition = "day=1", .verdict = "run", .rank = i + 1});
    report.jobs.push_back({.table = name, .procedure = "rewrite_data_files", .status = "success"});
  }
  return report;
}

TEST(ReportText, AFewLinesAreAllShownInTheirOrder) {
  const TickReport report = Of(50);
  for (const std::string& text :
       {PlanText(report, false, kRowsShown), StatusText(report, false, kRowsShown)}) {
    EXPECT_THAT(text, Not(HasSubstr("more")));
    EXPECT_EQ(Lines(text), 52);  // One line says who and when, one has the names of the columns.
    EXPECT_LT(text.find("lake.sales.t0 "), text.find("lake.sales.t49 "));
  }
  EXPECT_THAT(RunText(report, false, kRowsShown), Not(HasSubstr("more")));
}

TEST(ReportText, ManyLinesAreCountedAndAllOfThemAreThereForWhoAsks) {
  const TickReport report = Of(1'234);
  EXPECT_THAT(PlanText(report, false, kRowsShown), HasSubstr("… and 1,184 more candidates (--all"));
  EXPECT_EQ(Lines(PlanText(report, false, kRowsShown)), 53);
  EXPECT_THAT(StatusText(report, false, kRowsShown), HasSubstr("… and 1,184 more tables (--all"));
  EXPECT_EQ(Lines(StatusText(report, false, kRowsShown)), 53);
  EXPECT_THAT(RunText(report, false, kRowsShown), HasSubstr("… and 1,184 more jobs (--all"));
  EXPECT_EQ(Lines(PlanText(report, false, kAllRows)), 1'236);
  EXPECT_EQ(Lines(StatusText(report, false, kAllRows)), 1'236);
  EXPECT_THAT(RunText(report, false, kAllRows), HasSubstr("lake.sales.t1233 "));
}

TEST(ReportText, WhatIsWrongIsAmongThoseThatAreShown) {
  TickReport report = Of(1'000);
  report.tables[900].due = "breaker_open";
  report.tables[900].reason = "the breaker is open after 5 failures in a row";
  report.tables[901].gate = TableGate::kUnreadable;
  report.tables[902].due = "backing_off";
  report.jobs[903].status = "failed";
  const std::string status = StatusText(report, false, kRowsShown);
  for (const char* table : {"lake.sales.t900 ", "lake.sales.t901 ", "lake.sales.t902 "}) {
    EXPECT_THAT(status, HasSubstr(table));
  }
  EXPECT_THAT(status, HasSubstr("the breaker is open after 5 failures in a row"));
  EXPECT_THAT(RunText(report, false, kRowsShown), HasSubstr("lake.sales.t903 "));
  for (int i = 0; i < 60; ++i) {
    report.loud.push_back({.what = "no_grant", .where = "t" + std::to_string(i), .why = "no"});
    report.warnings.push_back("w" + std::to_string(i));
  }
  const std::string text = StatusText(report, false, kRowsShown);
  EXPECT_THAT(text, HasSubstr("… and 10 more of what keeps maintenance away"));
  EXPECT_THAT(text, HasSubstr("… and 10 more warnings"));
}

}  // namespace
}  // namespace lithify
