#include "observe/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "net/scripted_server.h"

namespace lithify::observe {
namespace {

using net::Answer;
using net::ScriptedAnswer;
using net::ScriptedRequest;
using net::ScriptedServer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

class TelemetryTest : public testing::Test {
 protected:
  std::unique_ptr<Telemetry> Start(TelemetryOptions options) {
    auto started = Telemetry::Start(std::move(options),
                                    {.metrics = metrics_,
                                     .clock = clock_,
                                     .random = random_,
                                     .version = "1.2.3",
                                     .on_trouble = [this](const std::string&) { ++troubles_; }});
    EXPECT_TRUE(started) << started.error().ToString();
    return std::move(*started);
  }
  static TelemetryOptions To(const std::string& url) {
    TelemetryOptions options;
    for (const Signal signal : kSignals) {
      options.Of(signal).url = url + "/v1/" + std::string(SignalName(signal));
      options.Of(signal).delay = seconds(600);
    }
    return options;
  }
  double Dropped(const std::string& signal, const std::string& reason) {
    double sum = 0;
    for (const MetricPoint& point : metrics_.Points()) {
      if (point.instrument != &metric::kLithifyTelemetryDropped) continue;
      if (point.attributes.at("lithify.telemetry.signal") == signal &&
          point.attributes.at("lithify.reason") == reason) {
        sum += point.value;
      }
    }
    return sum;
  }
  static std::vector<ScriptedRequest> To(const ScriptedServer& server, const std::string& target) {
    std::vector<ScriptedRequest> out;
    for (const ScriptedRequest& request : server.Requests()) {
      if (request.target == target) out.push_back(request);
    }
    return out;
  }

  SystemClock clock_;
  SystemRandom random_;
  Metrics metrics_;
  std::atomic<int> troubles_ = 0;
};

TEST_F(TelemetryTest, OffIsNull) { EXPECT_EQ(Start({}), nullptr); }

TEST_F(TelemetryTest, AllSignalsAreSentAtTheEnd) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, ""); });
  TelemetryOptions options = To(server.Url(""));
  options.Of(Signal::kTraces).headers = {{"x-tenant", "a"}};
  options.Of(Signal::kTraces).authorization = Secret("Bearer t");
  options.Of(Signal::kMetrics).gzip = true;
  const auto telemetry = Start(options);
  metrics_.Add(metric::kOuriosCompactionFiles, 3);
  {
    Span outer(telemetry.get(), "sweep");
    Span inner(telemetry.get(), "commit", outer.context());
    EXPECT_EQ(inner.context().trace_id, outer.context().trace_id);
    EXPECT_NE(inner.context().span_id, outer.context().span_id);
    inner.Fail(Error{.code = Code::kDenied, .message = "no", .context = {}, .hint = {}});
  }
  telemetry->Emit(LogRecord{.time = clock_.Now(), .event = "an.event", .body = "text"});
  telemetry->Shutdown(seconds(5));
  const auto traces = To(server, "/v1/traces");
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces[0].headers.at("content-type"), "application/x-protobuf");
  EXPECT_EQ(traces[0].headers.at("x-tenant"), "a");
  EXPECT_EQ(traces[0].headers.at("authorization"), "Bearer t");
  EXPECT_THAT(traces[0].body, HasSubstr("sweep"));
  EXPECT_THAT(traces[0].body, HasSubstr("denied"));
  ASSERT_EQ(To(server, "/v1/logs").size(), 1U);
  const auto metrics = To(server, "/v1/metrics");
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].headers.at("content-encoding"), "gzip");
  EXPECT_THAT(metrics[0].body, StartsWith("\x1f\x8b"));
  EXPECT_EQ(troubles_, 0);
}

TEST_F(TelemetryTest, WhatMayComeThroughIsTriedAgainWhenToldTo) {
  std::atomic<int> calls = 0;
  ScriptedServer server([&](const ScriptedRequest&) {
    return ++calls == 1 ? Answer(503, "", {{"Retry-After", "0"}}) : Answer(200, "");
  });
  TelemetryOptions options;
  options.Of(Signal::kLogs).url = server.Url("/v1/logs");
  options.Of(Signal::kLogs).delay = milliseconds(1);
  const auto telemetry = Start(options);
  telemetry->Emit(LogRecord{.time = clock_.Now(), .body = "x"});
  for (int i = 0; i < 500 && calls < 2; ++i) clock_.Sleep(milliseconds(10));
  EXPECT_EQ(calls, 2);
  telemetry->Shutdown(seconds(5));
  EXPECT_EQ(Dropped("logs", "refused"), 0);
}

TEST_F(TelemetryTest, WhatIsRefusedIsDroppedAndCountedAndToldOnce) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(400, "no"); });
  TelemetryOptions options;
  options.Of(Signal::kTraces).url = server.Url("/v1/traces");
  options.Of(Signal::kTraces).batch_max = 1;
  const auto telemetry = Start(options);
  for (int i = 0; i < 3; ++i) Span(telemetry.get(), "s");
  telemetry->Shutdown(seconds(5));
  EXPECT_EQ(Dropped("traces", "refused"), 3);
  EXPECT_EQ(troubles_, 1);
}

TEST_F(TelemetryTest, PartOfABatchMayBeRejected) {
  // partial_success { rejected_spans: 2 }.
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, "\x0a\x02\x08\x02"); });
  TelemetryOptions options;
  options.Of(Signal::kTraces).url = server.Url("/v1/traces");
  const auto telemetry = Start(options);
  for (int i = 0; i < 3; ++i) Span(telemetry.get(), "s");
  telemetry->Shutdown(seconds(5));
  EXPECT_EQ(Dropped("traces", "refused"), 2);
}

TEST_F(TelemetryTest, NobodyThereCostsABoundedEnd) {
  TelemetryOptions options = To("http://127.0.0.1:1");
  const auto telemetry = Start(options);
  metrics_.Add(metric::kOuriosCompactionFiles, 3);
  Span(telemetry.get(), "s");
  telemetry->Shutdown(milliseconds(300));
  EXPECT_EQ(Dropped("traces", "unreachable"), 1);
  EXPECT_EQ(Dropped("metrics", "unreachable"), 1);
}

TEST_F(TelemetryTest, AReceiverThatHangsHoldsNobodyUp) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.bytes = "", .then = ScriptedAnswer::Then::kHang};
  });
  TelemetryOptions options;
  options.Of(Signal::kTraces).url = server.Url("/v1/traces");
  options.Of(Signal::kTraces).queue_max = 10;
  options.Of(Signal::kTraces).batch_max = 10;
  const auto telemetry = Start(options);
  for (int i = 0; i < 1000; ++i) Span(telemetry.get(), "s");
  // One batch is under way, and one waits.
  EXPECT_GE(Dropped("traces", "queue_full"), 970);
  telemetry->Shutdown(milliseconds(300));
  EXPECT_EQ(Dropped("traces", "queue_full") + Dropped("traces", "unreachable"), 1000);
}

TEST_F(TelemetryTest, TheParentDecidesAndTheShareIsKept) {
  ScriptedServer server([](const ScriptedRequest&) { return Answer(200, ""); });
  TelemetryOptions options;
  options.Of(Signal::kTraces).url = server.Url("/v1/traces");
  options.sampled_share = 0.25;
  const auto telemetry = Start(options);
  const TraceContext parent{.trace_id = std::string(32, 'f'), .span_id = std::string(16, '1')};
  EXPECT_FALSE(telemetry->MakeContext(parent).sampled);
  TraceContext sampled = parent;
  sampled.sampled = true;
  EXPECT_TRUE(telemetry->MakeContext(sampled).sampled);
  EXPECT_EQ(telemetry->MakeContext(sampled).trace_id, parent.trace_id);
  int roots = 0;
  for (int i = 0; i < 4000; ++i) roots += telemetry->MakeContext({}).sampled ? 1 : 0;
  EXPECT_GT(roots, 800);
  EXPECT_LT(roots, 1200);
}

TEST(Span, WithoutTelemetryPassesItsParentOn) {
  const TraceContext parent{.trace_id = std::string(32, 'a'), .span_id = std::string(16, 'b')};
  EXPECT_EQ(Span(nullptr, "s", parent).context(), parent);
}

}  // namespace
}  // namespace lithify::observe
