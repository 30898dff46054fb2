#include "observe/metrics.h"

#include <gtest/gtest.h>

namespace lithify::observe {
namespace {

TEST(Metrics, SumsAreByNameAndAttributes) {
  Metrics metrics;
  metrics.Add("jobs", 1, {{"outcome", "success"}});
  metrics.Add("jobs", 2, {{"outcome", "success"}});
  metrics.Add("jobs", 1, {{"outcome", "failed"}});
  metrics.Add("bytes", 7);
  EXPECT_EQ(MetricsJson(metrics),
            R"([{"name":"bytes","attributes":{},"kind":"sum","value":7.0},)"
            R"({"name":"jobs","attributes":{"outcome":"failed"},"kind":"sum","value":1.0},)"
            R"({"name":"jobs","attributes":{"outcome":"success"},"kind":"sum","value":3.0}])");
}

TEST(Metrics, AGaugeIsReplacedAndForgotten) {
  Metrics metrics;
  metrics.Set("small_files", 4, {{"table", "a"}});
  metrics.Set("small_files", 2, {{"table", "a"}});
  metrics.Set("small_files", 1, {{"table", "b"}});
  metrics.Add("jobs", 1);
  const auto points = metrics.Points();
  ASSERT_EQ(points.size(), 3U);
  EXPECT_TRUE(points[1].gauge);
  EXPECT_EQ(points[1].value, 2);
  metrics.Forget("small_files");
  metrics.Forget("jobs");
  ASSERT_EQ(metrics.Points().size(), 1U);
  EXPECT_EQ(metrics.Points().front().name, "jobs");
}

TEST(Metrics, BrokenNamesAreNoBrokenJson) {
  Metrics metrics;
  metrics.Set("x", 1, {{"table", "\xff\"\n"}});
  EXPECT_EQ(MetricsJson(metrics),
            "[{\"name\":\"x\",\"attributes\":{\"table\":\"\xef\xbf\xbd\\\"\\n\"},"
            "\"kind\":\"gauge\",\"value\":1.0}]");
}

}  // namespace
}  // namespace lithify::observe
