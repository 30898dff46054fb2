#include "observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lithify::observe {
namespace {

using metric::Instrument;
using metric::Kind;

constexpr double kBounds[] = {1, 10};
constexpr Instrument Make(std::string_view name, Kind kind) {
  return {.name = name,
          .unit = "1",
          .brief = "",
          .kind = kind,
          .observable = false,
          .zero = false,
          .attributes = {},
          .buckets = {}};
}
constexpr Instrument kJobs = Make("jobs", Kind::kCounter);
constexpr Instrument kBytes = Make("bytes", Kind::kCounter);
constexpr Instrument kSmall = Make("small_files", Kind::kGauge);
constexpr Instrument kTook = {.name = "took",
                              .unit = "s",
                              .brief = "",
                              .kind = Kind::kHistogram,
                              .observable = false,
                              .zero = false,
                              .attributes = {},
                              .buckets = kBounds};

TEST(Metrics, SumsAreByNameAndAttributes) {
  Metrics metrics;
  metrics.Add(kJobs, 1, {{"outcome", "success"}});
  metrics.Add(kJobs, 2, {{"outcome", "success"}});
  metrics.Add(kJobs, 1, {{"outcome", "failed"}});
  metrics.Add(kBytes, 7);
  EXPECT_EQ(MetricsJson(metrics),
            R"([{"name":"bytes","attributes":{},"kind":"sum","value":7.0},)"
            R"({"name":"jobs","attributes":{"outcome":"failed"},"kind":"sum","value":1.0},)"
            R"({"name":"jobs","attributes":{"outcome":"success"},"kind":"sum","value":3.0}])");
}

TEST(Metrics, AGaugeIsReplacedAndForgotten) {
  Metrics metrics;
  metrics.Set(kSmall, 4, {{"table", "a"}});
  metrics.Set(kSmall, 2, {{"table", "a"}});
  metrics.Set(kSmall, 1, {{"table", "b"}});
  metrics.Add(kJobs, 1);
  const auto points = metrics.Points();
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[1].instrument, &kSmall);
  EXPECT_EQ(points[1].value, 2);
  metrics.Forget(kSmall);
  metrics.Forget(kJobs);
  ASSERT_EQ(metrics.Points().size(), 1U);
  EXPECT_EQ(metrics.Points().front().name, "jobs");
}

TEST(Metrics, ABoundBelongsToTheBucketBelowIt) {
  Metrics metrics;
  for (const double value : {0.5, 1.0, 1.5, 10.0, 10.5}) metrics.Record(kTook, value);
  const auto points = metrics.Points();
  ASSERT_EQ(points.size(), 1U);
  EXPECT_THAT(points[0].bucket_counts, testing::ElementsAre(2, 2, 1));
  EXPECT_EQ(points[0].count, 5U);
  EXPECT_EQ(points[0].value, 23.5);
  EXPECT_EQ(points[0].min, 0.5);
  EXPECT_EQ(points[0].max, 10.5);
}

TEST(Metrics, SetsOfAttributesAreBounded) {
  Metrics metrics;
  for (size_t i = 0; i < Metrics::kSeriesMax + 5; ++i) {
    metrics.Add(kJobs, 1, {{"n", std::to_string(i)}});
    metrics.Set(kSmall, 1, {{"n", std::to_string(i)}});
  }
  double overflow = 0;
  for (const MetricPoint& point : metrics.Points()) {
    if (point.attributes.contains("otel.metric.overflow")) overflow += point.value;
  }
  EXPECT_EQ(overflow, 5);
  EXPECT_EQ(metrics.Points().size(), 2 * Metrics::kSeriesMax + 1);
}

TEST(Metrics, BrokenNamesAreNoBrokenJson) {
  Metrics metrics;
  metrics.Set(kSmall, 1, {{"table", "\xff\"\n"}});
  EXPECT_EQ(MetricsJson(metrics),
            "[{\"name\":\"small_files\",\"attributes\":{\"table\":\"\xef\xbf\xbd\\\"\\n\"},"
            "\"kind\":\"gauge\",\"value\":1.0}]");
}

}  // namespace
}  // namespace lithify::observe
