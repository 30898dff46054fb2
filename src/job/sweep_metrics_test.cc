#include "job/sweep_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "job_world.h"
#include "storage/faulty_store.h"

namespace lithify::job {
namespace {

using sim::JobWorld;
using testing::ElementsAre;

const std::string kSealed = JobWorld::Hour("10");
const std::string kOpen = JobWorld::Hour("12");

// "name value" or "name{first attribute=value,…} value"; of histograms the count.
std::map<std::string, double> Told(const observe::Metrics& metrics) {
  std::map<std::string, double> out;
  for (const observe::MetricPoint& point : metrics.Points()) {
    std::string name = point.name;
    for (const auto& [key, value] : point.attributes) name.append(" ").append(value);
    const bool histogram = point.instrument->kind == metric::Kind::kHistogram;
    out[name] = histogram ? static_cast<double>(point.count) : point.value;
  }
  return out;
}

TEST(SweepMetrics, CountersBeginAtZero) {
  observe::Metrics metrics;
  SeedSweepMetrics(metrics);
  const auto told = Told(metrics);
  EXPECT_EQ(told, (std::map<std::string, double>{{"ourios.compaction.files", 0},
                                                 {"ourios.compaction.orphan.files", 0},
                                                 {"ourios.compaction.partitions", 0},
                                                 {"ourios.compaction.rows", 0}}));
}

// R250-R260, T26.
TEST(SweepMetrics, OneSweepThatCommitsAndOneWithNothingToDo) {
  JobWorld world;
  observe::Metrics metrics;
  world.metrics = &metrics;
  world.WriteFive(kSealed);
  world.WriteFive(kOpen);
  const auto first = world.Sweep();
  ASSERT_TRUE(first);
  auto told = Told(metrics);
  EXPECT_EQ(told["ourios.compaction.sweeps committed"], 1);
  EXPECT_EQ(told["ourios.compaction.duration committed"], 1);
  EXPECT_EQ(told["ourios.compaction.partitions"], 1);
  EXPECT_EQ(told["ourios.compaction.files"], 5);
  EXPECT_EQ(told["ourios.compaction.rows"], 5);
  EXPECT_EQ(told["ourios.compaction.io read"], 35);
  EXPECT_EQ(told["ourios.compaction.io write"], first->partitions[0].bytes_out);
  EXPECT_EQ(told["ourios.compaction.backlog a"], 0);
  // All that is live: one output, and the five of the partition that is no candidate yet.
  EXPECT_EQ(told["ourios.storage.parquet.file.size a"], 6);
  EXPECT_EQ(told["lithify.storage.parquet.files irreducible a"], 1);
  EXPECT_EQ(told["lithify.storage.parquet.files open a"], 5);
  EXPECT_EQ(told["lithify.storage.parquet.files small a"], 0);
  EXPECT_EQ(told["lithify.storage.parquet.files sized a"], 0);

  ASSERT_TRUE(world.Sweep());
  told = Told(metrics);
  EXPECT_EQ(told["ourios.compaction.sweeps committed"], 1);
  EXPECT_EQ(told["ourios.compaction.sweeps noop"], 1);
  EXPECT_EQ(told["ourios.compaction.files"], 5);
  EXPECT_EQ(told["lithify.storage.parquet.files irreducible a"], 1);
}

TEST(SweepMetrics, ADryRunCountsNothing) {
  JobWorld world;
  observe::Metrics metrics;
  world.metrics = &metrics;
  world.WriteFive(kSealed);
  ASSERT_TRUE(world.Job().Sweep({}, true, CancelFlag()));
  EXPECT_TRUE(metrics.Points().empty());
}

TEST(SweepMetrics, WhatFailsAsAWholeKeepsTheBacklog) {
  observe::Metrics metrics;
  SweepReport report;
  report.whole = true;
  PartitionOutcome waiting;
  waiting.id.tenant = "a";
  waiting.plan.verdict = plan::Verdict::kClaimed;
  report.partitions = {waiting};
  CountSweep(metrics, report, std::chrono::seconds(1));
  EXPECT_EQ(Told(metrics)["ourios.compaction.backlog a"], 1);

  CountSweep(metrics, Fail(Code::kTransient, "cannot list"), std::chrono::seconds(1));
  auto told = Told(metrics);
  EXPECT_EQ(told["ourios.compaction.sweeps error"], 1);
  EXPECT_EQ(told["ourios.compaction.backlog a"], 1);

  // A tenant that is gone is told of no more.
  report.partitions[0].id.tenant = "b";
  report.partitions[0].outcome = Outcome::kFailed;
  report.partitions[0].plan.verdict = plan::Verdict::kCandidate;
  CountSweep(metrics, report, std::chrono::seconds(1));
  told = Told(metrics);
  EXPECT_FALSE(told.contains("ourios.compaction.backlog a"));
  EXPECT_EQ(told["ourios.compaction.backlog b"], 1);
  EXPECT_EQ(told["ourios.compaction.sweeps error"], 2);
}

TEST(SweepMetrics, EmptyFilesAreLeftOutAndTheBoundIsExact) {
  observe::Metrics metrics;
  SweepReport report;
  report.whole = true;
  PartitionOutcome partition;
  partition.id.tenant = "a";
  partition.plan.verdict = plan::Verdict::kNothingToGain;
  partition.live_file_bytes = {0, kSmallFileBytes - 1, kSmallFileBytes};
  report.partitions = {partition};
  CountSweep(metrics, report, std::chrono::seconds(1));
  auto told = Told(metrics);
  EXPECT_EQ(told["lithify.storage.parquet.files small a"], 1);
  EXPECT_EQ(told["lithify.storage.parquet.files sized a"], 1);
  EXPECT_EQ(told["ourios.storage.parquet.file.size a"], 2);
}

}  // namespace
}  // namespace lithify::job
