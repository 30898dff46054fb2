#include "observe/telemetry_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lithify::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Environment = std::vector<std::pair<std::string, std::string>>;

class TelemetryOptionsTest : public testing::Test {
 protected:
  TelemetryOptions Read(const Environment& environment) {
    warnings_.clear();
    return ReadTelemetryOptions(environment, "lithify", warnings_);
  }
  std::string Resource(const TelemetryOptions& options, const std::string& key) {
    for (const auto& [name, value] : options.resource) {
      if (name == key) return std::get<std::string>(value);
    }
    return "none";
  }
  std::vector<std::string> warnings_;
};

TEST_F(TelemetryOptionsTest, OffUnlessAnEndpointIsNamed) {
  EXPECT_FALSE(Read({}).on());
  EXPECT_FALSE(Read({{"OTEL_SERVICE_NAME", "x"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}).on());
  EXPECT_FALSE(
      Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, {"OTEL_SDK_DISABLED", "TRUE"}}).on());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TelemetryOptionsTest, EndpointsOfAllAndOfOne) {
  const auto options = Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/otlp/"},
                             {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://logs/in"},
                             {"OTEL_TRACES_EXPORTER", "none"}});
  EXPECT_EQ(options.Of(Signal::kMetrics).url, "http://c:4318/otlp/v1/metrics");
  EXPECT_EQ(options.Of(Signal::kTraces).url, "");
  EXPECT_EQ(options.Of(Signal::kLogs).url, "https://logs/in");
  EXPECT_EQ(Resource(options, "service.name"), "lithify");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TelemetryOptionsTest, HowItIsSent) {
  const auto options = Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
                             {"OTEL_EXPORTER_OTLP_HEADERS", "x-a=1%202, Authorization=Bearer%20t"},
                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "3000"},
                             {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "500"},
                             {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
                             {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"},
                             {"OTEL_METRIC_EXPORT_INTERVAL", "250"},
                             {"OTEL_BSP_MAX_QUEUE_SIZE", "10"},
                             {"OTEL_BSP_SCHEDULE_DELAY", "70"},
                             {"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta"}});
  const SignalOptions& metrics = options.Of(Signal::kMetrics);
  EXPECT_THAT(metrics.headers, ElementsAre(Pair("x-a", "1 2")));
  EXPECT_EQ(metrics.authorization.Reveal(), "Bearer t");
  EXPECT_EQ(metrics.timeout, std::chrono::seconds(3));
  EXPECT_EQ(options.Of(Signal::kTraces).timeout, std::chrono::milliseconds(500));
  EXPECT_TRUE(metrics.gzip);
  EXPECT_EQ(metrics.ca_file, "/ca.pem");
  EXPECT_EQ(metrics.delay, std::chrono::milliseconds(250));
  EXPECT_EQ(options.Of(Signal::kTraces).queue_max, 10U);
  EXPECT_EQ(options.Of(Signal::kTraces).batch_max, 10U);
  EXPECT_EQ(options.Of(Signal::kTraces).delay, std::chrono::milliseconds(70));
  EXPECT_EQ(options.temporality, Temporality::kDelta);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(TelemetryOptionsTest, ResourceAndSampler) {
  const auto options = Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
                             {"OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.name=b%2Cc"},
                             {"OTEL_SERVICE_NAME", "mine"},
                             {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
                             {"OTEL_TRACES_SAMPLER_ARG", "0.25"}});
  EXPECT_EQ(Resource(options, "service.name"), "mine");
  EXPECT_EQ(Resource(options, "deployment.name"), "b,c");
  EXPECT_EQ(options.sampled_share, 0.25);
  EXPECT_TRUE(options.parent_based);
}

TEST_F(TelemetryOptionsTest, WhatIsWrongIsToldAndStopsNothing) {
  const auto options = Read({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"},
                             {"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"},
                             {"OTEL_METRICS_EXPORTER", "prometheus"},
                             {"OTEL_EXPORTER_OTLP_HEADERS", "secret"},
                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
                             {"OTEL_TRACES_SAMPLER", "jaeger_remote"}});
  EXPECT_EQ(options.Of(Signal::kLogs).url, "");
  EXPECT_EQ(options.Of(Signal::kMetrics).url, "");
  EXPECT_EQ(options.Of(Signal::kTraces).url, "http://c/v1/traces");
  EXPECT_EQ(options.Of(Signal::kTraces).timeout, std::chrono::seconds(10));
  EXPECT_EQ(options.sampled_share, 1);
  EXPECT_EQ(warnings_.size(), 5U);
  for (const std::string& warning : warnings_) EXPECT_THAT(warning, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace lithify::observe
