#include "maintain/sighted_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "base/clock.h"

namespace lithify::maintain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

const Time kNow = Time(std::chrono::hours(500'000));
using Values = std::map<std::string, std::string>;

class SightedTables : public testing::Test {
 protected:
  SightedTables() {
    options_.mode = Mode::kAdvisory;
    options_.catalog = "lake";
    options_.log = catalog::TableIdent{.namespace_parts = {"sqe_system"}, .name = "log"};
  }

  void See(const std::string& name_space, const std::string& name, const Values& summary,
           const Values& properties = {}) {
    catalog::LoadedTable table;
    table.ident = {.namespace_parts = {name_space}, .name = name};
    table.metadata.properties = properties;
    iceberg::Snapshot snapshot;
    snapshot.snapshot_id = 5;
    snapshot.summary = summary;
    table.metadata.snapshots = {snapshot};
    table.metadata.refs["main"].snapshot_id = 5;
    sightings_.Saw("lake", table, kNow);
  }

  TickReport Report() { return ReportSighted(&sightings_, options_, clock_, metrics_); }

  std::vector<std::string> Gauges() const {
    std::vector<std::string> lines;
    for (const observe::MetricPoint& point : metrics_.Points()) {
      if (point.instrument->kind != metric::Kind::kGauge) continue;
      lines.push_back(point.name + " " + point.attributes.at("lithify.table") + " " +
                      std::to_string(static_cast<int64_t>(point.value)));
    }
    return lines;
  }

  SystemClock clock_;
  observe::Metrics metrics_;
  SchedulerOptions options_;
  job::TableSightings sightings_{{"sqe.maintenance", "lithify.maintenance"}};
};

TEST_F(SightedTables, SayWhatTheSummarySaysAndThatThereIsNoMore) {
  See("sales", "t",
      {{"total-data-files", "6"}, {"total-files-size", "600"}, {"total-delete-files", "2"}},
      {{"sqe.maintenance.enabled", "true"}});
  const TickReport report = Report();
  EXPECT_EQ(report.mode, "advisory");
  EXPECT_THAT(report.principal, IsEmpty());
  EXPECT_THAT(report.limits, HasSubstr("only tables that callers of this process have touched"));
  ASSERT_EQ(report.tables.size(), 1U);
  const TableReport& table = report.tables[0];
  EXPECT_EQ(table.table, "lake.sales.t");
  EXPECT_EQ(table.gate, TableGate::kOptedIn);
  EXPECT_EQ(table.data_files, 6);
  EXPECT_EQ(table.file_bytes_average, 100);
  EXPECT_EQ(table.delete_files, 2);
  EXPECT_EQ(table.small_files, std::nullopt);
  EXPECT_EQ(table.seen, kNow);
  EXPECT_THAT(Gauges(), UnorderedElementsAre("lithify.table.data_files lake.sales.t 6",
                                             "lithify.table.delete_files lake.sales.t 2",
                                             "lithify.table.file.size lake.sales.t 100"));
  const auto again = ParseReport(ReportJson(report, nullptr));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->limits, report.limits);
  EXPECT_EQ(again->tables[0].data_files, 6);
  EXPECT_EQ(again->tables[0].file_bytes_average, 100);
  EXPECT_EQ(again->tables[0].seen, kNow);
}

TEST_F(SightedTables, WhatIsNoNumberIsNotKnown) {
  See("sales", "t", {{"total-data-files", "many"}, {"total-files-size", "600"}});
  See("sales", "u", {{"total-data-files", "0"}, {"total-files-size", "-1"}});
  const TickReport report = Report();
  EXPECT_EQ(report.tables[0].data_files, std::nullopt);
  EXPECT_EQ(report.tables[0].file_bytes_average, std::nullopt);
  EXPECT_EQ(report.tables[1].data_files, 0);
  EXPECT_EQ(report.tables[1].file_bytes_average, std::nullopt);
  EXPECT_THAT(Gauges(), ElementsAre("lithify.table.data_files lake.sales.u 0"));
}

TEST_F(SightedTables, OnlyTheNamespacesThatCountAndNotTheLog) {
  See("sales", "t", {});
  See("other", "t", {});
  See("sqe_system", "log", {});
  const auto names = [this] {
    std::vector<std::string> out;
    for (const TableReport& table : Report().tables) out.push_back(table.table);
    return out;
  };
  EXPECT_THAT(names(), ElementsAre("lake.other.t", "lake.sales.t"));
  options_.namespaces = {{"sales"}, {"sqe_system"}};
  EXPECT_THAT(names(), ElementsAre("lake.sales.t"));
  options_.catalog = "elsewhere";
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(Gauges(), IsEmpty());
}

TEST_F(SightedTables, WithoutCallersNothingIsKnown) {
  See("sales", "t", {});
  const TickReport report = ReportSighted(nullptr, options_, clock_, metrics_);
  EXPECT_THAT(report.tables, IsEmpty());
  EXPECT_THAT(report.limits, HasSubstr("nothing is known"));
}

}  // namespace
}  // namespace lithify::maintain
