// A worker behind Flight on loopback, and the link to it: all of it but the rewrite is real.
#include <arrow/buffer.h>
#include <arrow/flight/client.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fleet/flight_link.h"
#include "fleet/flight_worker.h"
#include "fleet/own_certificate.h"
#include "fleet/scripted_attempt.h"
#include "fleet/seal.h"

namespace lithify::fleet {
namespace {

namespace flight = arrow::flight;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";
constexpr Duration kPatience = seconds(30);

FleetKey Key(std::string_view secret = kSecret) {
  return FleetKey::Make(Secret(secret), secret.empty()).value();
}

class FlightTest : public testing::Test {
 protected:
  ~FlightTest() override { StopWorker(); }

  Status StartWorker(FlightWorkerOptions options = {}, std::string_view secret = kSecret) {
    StopWorker();
    WorkerOptions own;
    own.id = "w/" + std::to_string(++lives_);
    own.version = "0.1.0";
    own.memory_bytes = 1 << 30;
    service_ = WorkerService::Make(own, script_.Opener(), clock_);
    auto worker = FlightWorker::Start(
        options, {.service = *service_, .id = own.id, .key = Key(secret), .clock = worker_clock_});
    if (!worker) return Fail(worker.error());
    worker_ = *std::move(worker);
    return {};
  }
  void StopWorker() {
    if (service_) service_->Drain(Duration::zero());
    if (worker_) worker_->Stop();
    worker_.reset();
    service_.reset();
  }
  std::unique_ptr<WorkerLink> Link(std::string_view secret = kSecret) {
    return OpenFlightLink({.address = worker_->address(),
                           .tls = false,
                           .ca = {},
                           .client_cert = {},
                           .client_key = {},
                           .server_name = {}},
                          Key(secret), clock_, random_)
        .value();
  }
  LinkResult<group::GroupResult> Compact(WorkerLink& link, const std::string& attempt,
                                         LinkTimes times = {}) {
    return link.Compact(OrderOf(attempt, 5), times, [this](int64_t n) { bytes_ += n; }, cancel_);
  }

  // A call by hand: the frames or the error.
  arrow::Result<std::vector<std::string>> Call(
      const std::string& action, const std::string& body,
      const std::vector<std::pair<std::string, std::string>>& headers) {
    ARROW_ASSIGN_OR_RAISE(const auto location,
                          flight::Location::Parse("grpc+tcp://" + worker_->address()));
    ARROW_ASSIGN_OR_RAISE(const auto client, flight::FlightClient::Connect(location));
    flight::FlightCallOptions options;
    options.timeout = flight::TimeoutDuration{30.0};
    options.headers = headers;
    ARROW_ASSIGN_OR_RAISE(const auto stream,
                          client->DoAction(options, {action, arrow::Buffer::FromString(body)}));
    std::vector<std::string> frames;
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto result, stream->Next());
      if (!result) return frames;
      frames.push_back(result->body->ToString());
    }
  }
  RequestSeal Sealed(const std::string& action, const std::string& body) {
    return SealRequest(Key(), "w/" + std::to_string(lives_), action, body, clock_.Now(), random_);
  }

  // May be ahead or behind.
  class ShiftedClock final : public Clock {
   public:
    Time Now() const override { return SystemClock().Now() + shift; }
    Duration Monotonic() const override { return SystemClock().Monotonic(); }
    void Sleep(Duration d) override { SystemClock().Sleep(d); }
    Duration shift{};
  };

  SystemClock clock_;
  ShiftedClock worker_clock_;
  SystemRandom random_;
  Script script_;
  CancelFlag cancel_;
  std::atomic<int64_t> bytes_ = 0;
  group::GroupResult result_ = WireWorld(7).Result();
  int lives_ = 0;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<FlightWorker> worker_;
};

TEST_F(FlightTest, AGroupFromOrderToAdoption) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  const auto status = link->AskStatus(kPatience);
  ASSERT_TRUE(status) << status.error().error.ToString();
  EXPECT_EQ(status->id, "w/1");
  EXPECT_EQ(status->max_inflight_groups, 2);
  std::thread ends([&] {
    script_.Move("a", 1000);
    // A frame in between.
    for (int i = 0; i < 4; ++i) std::this_thread::sleep_for(milliseconds(600));
    script_.Move("a", 500);
    script_.End("a", result_);
  });
  const auto result = Compact(*link, "a");
  ends.join();
  ASSERT_TRUE(result) << result.error().error.ToString();
  EXPECT_EQ(Difference(*result, result_), "");
  EXPECT_GE(bytes_, 1000);
  EXPECT_TRUE(link->Adopt("a", kPatience));
  StopWorker();
  EXPECT_EQ(script_.removed(), 0);
}

TEST_F(FlightTest, DroppedOnes) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  script_.EndAll(result_);
  ASSERT_TRUE(Compact(*link, "a"));
  EXPECT_TRUE(link->Drop("a", kPatience));
  EXPECT_EQ(script_.removed(), 1);
  const auto late = link->Adopt("a", kPatience);
  ASSERT_FALSE(late);
  EXPECT_FALSE(late.error().transport);
  EXPECT_EQ(late.error().error.code, Code::kNotFound);
}

TEST_F(FlightTest, KeysGoToTheAttempt) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  GroupOrder order = OrderOf("a", 5);
  order.loans = {{.prefix = "s3://lake/t", .settings = {}, .expires = {}}};
  order.loans[0].settings.access_key_id = "id";
  order.loans[0].settings.secret_access_key = Secret("hush");
  std::vector<storage::Loan> fresh = order.loans;
  fresh[0].settings.secret_access_key = Secret("fresh");
  std::thread refreshes([&] {
    ASSERT_TRUE(script_.WaitForStart("a"));
    EXPECT_EQ(script_.loans("a"), order.loans);
    EXPECT_TRUE(link->Refresh("a", fresh, kPatience));
    EXPECT_EQ(script_.loans("a"), fresh);
    script_.End("a", result_);
  });
  EXPECT_TRUE(link->Compact(order, {}, nullptr, cancel_));
  refreshes.join();
}

TEST_F(FlightTest, FailuresOfTheGroup) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  script_.End("a", Fail(Code::kConflict, std::string(5000, 'x'), "somewhere", "plan again"));
  const auto failed = Compact(*link, "a");
  ASSERT_FALSE(failed);
  EXPECT_FALSE(failed.error().transport);
  EXPECT_EQ(failed.error().error.code, Code::kConflict);
  EXPECT_EQ(failed.error().error.message, std::string(5000, 'x'));
  EXPECT_EQ(failed.error().error.hint, "plan again");
  EXPECT_TRUE(failed.error().error.context.starts_with("127.0.0.1:"))
      << failed.error().error.context;
}

TEST_F(FlightTest, FullWorkers) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  std::thread one([&] { EXPECT_TRUE(Compact(*link, "a")); });
  std::thread two([&] { EXPECT_TRUE(Compact(*link, "b")); });
  ASSERT_TRUE(script_.WaitForStart("a") && script_.WaitForStart("b"));
  const auto three = Compact(*link, "c");
  EXPECT_TRUE(!three && three.error().transport);
  script_.EndAll(result_);
  one.join();
  two.join();
}

TEST_F(FlightTest, StoppedByTheCaller) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  std::thread cancels([&] {
    ASSERT_TRUE(script_.WaitForStart("a"));
    cancel_.Request();
  });
  const auto result = Compact(*link, "a");
  cancels.join();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().error.code, Code::kCancelled);
  // The worker hears of it.
  EXPECT_TRUE(script_.WaitForCancel("a"));
}

TEST_F(FlightTest, NothingMovesForTooLong) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  // The worker says each second that it is there; the group is not.
  const auto result = Compact(*link, "a", {.silence = milliseconds(2500), .attempt = seconds(60)});
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transport);
  EXPECT_TRUE(result.error().error.message.starts_with("nothing has moved for"))
      << result.error().error.message;
  EXPECT_TRUE(script_.WaitForCancel("a"));
}

// The control: it moves slower than the whole takes, and faster than the silence.
TEST_F(FlightTest, WhatMovesIsWaitedFor) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  std::thread moves([&] {
    for (int i = 0; i < 12; ++i) {
      script_.Move("a", 0);
      std::this_thread::sleep_for(milliseconds(500));
    }
    script_.End("a", result_);
  });
  EXPECT_TRUE(Compact(*link, "a", {.silence = seconds(5), .attempt = seconds(60)}));
  moves.join();
}

TEST_F(FlightTest, TheWholeTakesTooLong) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  const auto result = Compact(*link, "a", {.silence = seconds(60), .attempt = milliseconds(1500)});
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transport);
  EXPECT_TRUE(script_.WaitForCancel("a"));
}

TEST_F(FlightTest, NobodyListens) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  StopWorker();
  const auto status = link->AskStatus(seconds(5));
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().transport);
  const auto result = Compact(*link, "a");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transport);
  EXPECT_TRUE(link->Adopt("a", seconds(2)).error().transport);
}

TEST_F(FlightTest, TheWorkerStopsMeanwhile) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  std::thread stops([&] {
    ASSERT_TRUE(script_.WaitForStart("a"));
    service_->Drain(Duration::zero());
  });
  const auto result = Compact(*link, "a");
  stops.join();
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().transport);
  EXPECT_EQ(result.error().error.message, "the worker stops");
}

TEST_F(FlightTest, AnotherLifeOfTheSameWorker) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  script_.EndAll(result_);
  ASSERT_TRUE(Compact(*link, "a"));
  FlightWorkerOptions options;
  options.listen = worker_->address();
  ASSERT_TRUE(StartWorker(options));
  // It was another one that had the outputs: nobody knows from this one.
  const auto adopted = link->Adopt("a", seconds(10));
  ASSERT_FALSE(adopted);
  EXPECT_TRUE(adopted.error().transport) << adopted.error().error.ToString();
  EXPECT_EQ(link->AskStatus(seconds(10))->id, "w/2");
  EXPECT_EQ(link->Adopt("a", seconds(10)).error().error.code, Code::kNotFound);
}

TEST_F(FlightTest, AnotherSecret) {
  ASSERT_TRUE(StartWorker());
  const auto link = Link("another secret of more than 32 b.");
  const auto status = link->AskStatus(kPatience);
  ASSERT_FALSE(status);
  EXPECT_FALSE(status.error().transport);
  EXPECT_EQ(status.error().error.code, Code::kDenied);
  // No order was sent to who does not know the secret.
  EXPECT_EQ(Compact(*link, "a").error().error.code, Code::kDenied);
  EXPECT_EQ(service_->AskStatus().inflight, 0);
}

TEST_F(FlightTest, ClocksThatDiffer) {
  worker_clock_.shift = std::chrono::hours(-3);
  ASSERT_TRUE(StartWorker());
  const auto link = Link();
  EXPECT_TRUE(link->AskStatus(kPatience));
  // The control: by one's own clock it is refused.
  const auto refused = Call("status", "{}", Sealed("status", "{}").Headers());
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("in the future"), std::string::npos);
}

TEST_F(FlightTest, OnlySignedRequestsAndOnce) {
  ASSERT_TRUE(StartWorker());
  const RequestSeal seal = Sealed("status", "{}");
  const auto code = [](const arrow::Status& status) {
    const auto detail = flight::FlightStatusDetail::UnwrapStatus(status);
    return detail ? detail->CodeAsString() : "none";
  };
  const auto first = Call("status", "{}", seal.Headers());
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->size(), 1U);
  EXPECT_TRUE(OpenFrame(Key(), seal.nonce, 0, first->front()));
  EXPECT_EQ(code(Call("status", "{}", seal.Headers()).status()), "Unauthenticated");
  EXPECT_EQ(code(Call("status", "{}", {}).status()), "Unauthenticated");
  for (const char* action :
       {"compact_file_group", "adopt_outputs", "drop_attempt", "refresh_credentials", "other"}) {
    EXPECT_EQ(code(Call(action, "{}", {}).status()), "Unauthenticated") << action;
    EXPECT_EQ(code(Call(action, "{}", Sealed("status", "{}").Headers()).status()),
              "Unauthenticated")
        << action;
    // Signed, and nonsense: told in a sealed frame.
    const RequestSeal own = Sealed(action, "{}");
    const auto frames = Call(action, "{}", own.Headers());
    ASSERT_TRUE(frames.ok()) << action << frames.status();
    const auto frame = DecodeFrame(OpenFrame(Key(), own.nonce, 0, frames->front()).value());
    EXPECT_TRUE(std::holds_alternative<FailedFrame>(*frame)) << action;
  }
  EXPECT_EQ(code(Call("hello", "x", {}).status()), "Unauthenticated");
}

TEST_F(FlightTest, HealthNeedsNoSecret) {
  ASSERT_TRUE(StartWorker());
  FlightLinkOptions options;
  options.address = worker_->address();
  options.tls = false;
  EXPECT_TRUE(ProbeWorker(options, kPatience));
  service_->Drain(Duration::zero());
  EXPECT_FALSE(ProbeWorker(options, kPatience));
  StopWorker();
  EXPECT_FALSE(ProbeWorker(options, seconds(2)));
}

TEST_F(FlightTest, WithoutASecretOnLoopback) {
  ASSERT_TRUE(StartWorker({}, ""));
  EXPECT_TRUE(Link("")->AskStatus(kPatience));
  EXPECT_FALSE(Link()->AskStatus(kPatience));
}

TEST_F(FlightTest, NoPlaintextBeyondLoopback) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "10.0.0.1:5", "127.evil.example:1"}) {
    const Status refused =
        CheckListening({.listen = address, .tls_cert = {}, .tls_key = {}, .tls_client_ca = {}});
    ASSERT_FALSE(refused) << address;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_FALSE(OpenFlightLink({.address = address,
                                 .tls = false,
                                 .ca = {},
                                 .client_cert = {},
                                 .client_key = {},
                                 .server_name = {}},
                                Key(), clock_, random_))
        << address;
  }
  for (const char* address : {"127.0.0.1:0", "[::1]:0", "localhost:0"}) {
    EXPECT_TRUE(
        CheckListening({.listen = address, .tls_cert = {}, .tls_key = {}, .tls_client_ca = {}}))
        << address;
  }
  for (const char* address : {"", ":1", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "::1:5"}) {
    EXPECT_FALSE(
        CheckListening({.listen = address, .tls_cert = {}, .tls_key = {}, .tls_client_ca = {}}))
        << address;
  }
  EXPECT_FALSE(CheckListening(
      {.listen = "127.0.0.1:0", .tls_cert = "x", .tls_key = {}, .tls_client_ca = {}}));
  EXPECT_FALSE(CheckListening(
      {.listen = "127.0.0.1:0", .tls_cert = {}, .tls_key = {}, .tls_client_ca = "x"}));
}

TEST_F(FlightTest, TlsOnBothSides) {
  const OwnCertificate server = MakeCertificate("IP:127.0.0.1");
  const OwnCertificate client = MakeCertificate("DNS:coordinator");
  const OwnCertificate stranger = MakeCertificate("DNS:stranger");
  FlightWorkerOptions worker;
  worker.tls_cert = server.cert;
  worker.tls_key = Secret(server.key);
  worker.tls_client_ca = client.cert;
  ASSERT_TRUE(StartWorker(worker));
  const auto status = [&](const std::string& ca, const OwnCertificate& own) {
    FlightLinkOptions options;
    options.address = worker_->address();
    options.ca = ca;
    options.client_cert = own.cert;
    options.client_key = Secret(own.key);
    return OpenFlightLink(options, Key(), clock_, random_).value()->AskStatus(seconds(10));
  };
  EXPECT_TRUE(status(server.cert, client));
  EXPECT_FALSE(status(server.cert, stranger));
  EXPECT_FALSE(status(server.cert, {}));
  EXPECT_FALSE(status(stranger.cert, client));
  EXPECT_FALSE(Link()->AskStatus(seconds(5)));  // In plaintext.
}

}  // namespace
}  // namespace lithify::fleet
