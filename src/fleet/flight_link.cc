#include "fleet/flight_link.h"

#include <arrow/buffer.h>
#include <arrow/flight/client.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fleet/discovery.h"
#include "fleet/packed.h"
#include "fleet/wire.h"
#include "net/address.h"

namespace lithify::fleet {
namespace {

namespace flight = arrow::flight;

constexpr Duration kHelloTimeout = std::chrono::seconds(10);
constexpr auto kLook = std::chrono::milliseconds(100);
// Of frames that have come in and were not looked at: beyond that the worker has to wait, so that
// none fills the memory, however fast it talks.
constexpr size_t kUnseenBytesMax = size_t{1} << 20;

std::unexpected<LinkError> Transport(std::string message, const std::string& address) {
  return std::unexpected(
      LinkError{.transport = true, .error = {Code::kTransient, std::move(message), address, {}}});
}
std::unexpected<LinkError> Application(Error error, const std::string& address) {
  return std::unexpected(LinkError{.transport = false, .error = std::move(error).In(address)});
}

std::string SystemRoots() {
  for (const char* path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!text.empty()) return text;
  }
  return {};
}

Result<std::unique_ptr<flight::FlightClient>> Connect(const FlightLinkOptions& options) {
  LITHIFY_TRY_ASSIGN(const net::Address address, ParseWorkerAddress(options.address));
  if (!options.tls && !net::IsLoopback(address.host)) {
    return Fail(Code::kInvalid, "keys of the storage would cross the network in plaintext",
                options.address, "use TLS");
  }
  if (options.client_cert.empty() != options.client_key.empty()) {
    return Fail(Code::kInvalid, "a client's certificate and key go together", options.address);
  }
  flight::FlightClientOptions client = flight::FlightClientOptions::Defaults();
  if (options.tls) {
    client.tls_root_certs = options.ca.empty() ? SystemRoots() : options.ca;
    client.cert_chain = options.client_cert;
    client.private_key = options.client_key.Reveal();
    client.override_hostname = options.server_name;
  }
  // A worker that stands still is found by pings, one that was restarted within seconds; workers
  // are not behind proxies of the web.
  client.generic_options = {
      {"grpc.keepalive_time_ms", 10'000},
      {"grpc.keepalive_timeout_ms", 10'000},
      {"grpc.http2.max_pings_without_data", 0},
      // Answers fit into a window; a ping with each costs more than a frame of progress.
      {"grpc.http2.bdp_probe", 0},
      {"grpc.initial_reconnect_backoff_ms", 100},
      {"grpc.max_reconnect_backoff_ms", 2'000},
      {"grpc.enable_http_proxy", 0},
      {"grpc.max_receive_message_length", static_cast<int>(kAnswerBytesMax) + 1024}};
  const std::string host = address.bracketed_host();
  const auto location = options.tls ? flight::Location::ForGrpcTls(host, address.port)
                                    : flight::Location::ForGrpcTcp(host, address.port);
  if (!location.ok()) return Fail(Code::kInvalid, location.status().ToString(), options.address);
  auto connected = flight::FlightClient::Connect(*location, client);
  if (!connected.ok()) {
    return Fail(Code::kInvalid, connected.status().ToString(), options.address);
  }
  return std::move(*connected);
}

// A call on its way: what came in, as a thread of its own reads it.
struct Call {
  flight::FlightCallOptions options;
  flight::Action action;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> frames;
  size_t unseen_bytes = 0;  // Of frames.
  bool given_up = false;
  bool over = false;
  arrow::Status end;
};
using CallPtr = std::shared_ptr<Call>;

void Read(flight::FlightClient& client, const CallPtr& call) {
  const auto read = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(const auto stream, client.DoAction(call->options, call->action));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto result, stream->Next());
      if (!result) return arrow::Status::OK();
      std::unique_lock lock(call->mutex);
      call->changed.wait(lock,
                         [&] { return call->given_up || call->unseen_bytes < kUnseenBytesMax; });
      // Then the stream goes, and the worker hears of it.
      if (call->given_up) return arrow::Status::Cancelled("given up");
      call->frames.push_back(result->body ? result->body->ToString() : std::string());
      call->unseen_bytes += call->frames.back().size();
      call->changed.notify_all();
    }
  };
  arrow::Status end = arrow::Status::UnknownError("unexpected exception");
  try {
    end = read();
  } catch (const std::exception& e) {
    end = arrow::Status::UnknownError("unexpected exception: ", e.what());
  }
  const std::lock_guard lock(call->mutex);
  call->end = std::move(end);
  call->over = true;
  call->changed.notify_all();
}

class FlightLink final : public WorkerLink {
 public:
  FlightLink(std::unique_ptr<flight::FlightClient> client, std::string address, FleetKey key,
             const Clock& clock, Random& random)
      : client_(std::move(client)),
        address_(std::move(address)),
        key_(std::move(key)),
        clock_(clock),
        random_(random) {}

  ~FlightLink() override {
    std::list<Reader> readers;
    {
      const std::lock_guard lock(mutex_);
      readers.swap(readers_);
    }
    for (Reader& reader : readers) {
      GiveUp(reader.call);
      reader.thread.join();
    }
  }

  LinkResult<WorkerStatus> AskStatus(Duration timeout) override {
    const Duration deadline = clock_.Monotonic() + timeout;
    if (auto known = Meet(timeout); !known) return std::unexpected(std::move(known.error()));
    auto frame = Ask(kStatus, Secret("{}"), std::max(deadline - clock_.Monotonic(), kTimeoutMin));
    if (!frame) return std::unexpected(std::move(frame.error()));
    if (auto* status = std::get_if<WorkerStatus>(&*frame)) return std::move(*status);
    return Strange();
  }

  LinkResult<group::GroupResult> Compact(const GroupOrder& order, const LinkTimes& times,
                                         const OnProgress& on_progress,
                                         const CancelFlag& cancel) override {
    auto body = EncodeOrder(order);
    if (!body) return Application(std::move(body.error()), address_);
    if (auto known = Meet(std::min(times.silence, kHelloTimeout)); !known) {
      return std::unexpected(std::move(known.error()));
    }
    const RequestSeal seal = Sealed(kCompact, *body);
    const CallPtr call = Send(kCompact, *body, seal.Headers(), times.attempt);
    auto result = Follow(order, times, on_progress, cancel, *call, seal.nonce);
    GiveUp(call);
    return result;
  }

  LinkResult<void> Adopt(const std::string& attempt, Duration timeout) override {
    return Do(kAdopt, {.attempt = attempt, .loans = {}}, timeout);
  }
  LinkResult<void> Drop(const std::string& attempt, Duration timeout) override {
    return Do(kDrop, {.attempt = attempt, .loans = {}}, timeout);
  }
  LinkResult<void> Refresh(const std::string& attempt, const std::vector<storage::Loan>& loans,
                           Duration timeout) override {
    return Do(kRefresh, {.attempt = attempt, .loans = loans}, timeout);
  }

 private:
  static constexpr Duration kTimeoutMin = std::chrono::milliseconds(100);
  struct Reader {
    CallPtr call;
    std::thread thread;
  };
  struct Known {
    std::string worker;
    Duration offset{};  // Of its clock, from ours.
  };

  std::unexpected<LinkError> Strange() const {
    return Application({Code::kCorrupt,
                        "the worker's answer makes no sense",
                        {},
                        "run the same version on both sides"},
                       address_);
  }

  std::unexpected<LinkError> Ended(const arrow::Status& status) const {
    const auto detail = flight::FlightStatusDetail::UnwrapStatus(status);
    const bool refused = detail && detail->code() == flight::FlightStatusCode::Unauthenticated;
    const std::string text = status.message().substr(0, 2000);
    if (!refused) return Transport(text, address_);
    return Application({Code::kDenied, text, {}, {}}, address_);
  }

  static void GiveUp(const CallPtr& call) {
    const std::lock_guard lock(call->mutex);
    call->given_up = true;
    call->changed.notify_all();
  }

  CallPtr Send(std::string_view action, const Secret& body,
               std::vector<std::pair<std::string, std::string>> headers, Duration timeout) {
    auto call = std::make_shared<Call>();
    call->options.timeout =
        flight::TimeoutDuration{static_cast<double>(timeout.count()) / 1'000'000.0};
    call->options.headers = std::move(headers);
    call->action.type = action;
    call->action.body = arrow::Buffer::FromString(body.Reveal());
    const std::lock_guard lock(mutex_);
    for (auto at = readers_.begin(); at != readers_.end();) {
      const bool over = [&] {
        const std::lock_guard call_lock(at->call->mutex);
        return at->call->over;
      }();
      if (over) at->thread.join();
      at = over ? readers_.erase(at) : std::next(at);
    }
    readers_.push_back(
        {call, std::thread([client = client_.get(), call] { Read(*client, call); })});
    return call;
  }

  // The next frame; nothing after `until` or once `cancel` was set.
  std::optional<std::string> Wait(Call& call, Duration until, const CancelFlag* cancel) const {
    std::unique_lock lock(call.mutex);
    while (call.frames.empty() && !call.over && clock_.Monotonic() < until &&
           (cancel == nullptr || !cancel->requested())) {
      call.changed.wait_for(lock, kLook);
    }
    if (call.frames.empty()) return std::nullopt;
    std::string frame = std::move(call.frames.front());
    call.frames.pop_front();
    call.unseen_bytes -= frame.size();
    call.changed.notify_all();
    return frame;
  }

  // Of a call that gives nothing more: why.
  std::unexpected<LinkError> WhyNothing(Call& call, const std::string& silent) const {
    const std::lock_guard lock(call.mutex);
    if (!call.over) return Transport(silent, address_);
    if (call.end.ok()) return Transport("the answer was cut off", address_);
    return Ended(call.end);
  }

  // Who it is, and that it knows the secret.
  LinkResult<void> Meet(Duration timeout) {
    const std::string nonce = MakeNonce(random_);
    const Time before = clock_.Now();
    const CallPtr call = Send(kHello, Secret(nonce), {}, timeout);
    const auto answer = Wait(*call, clock_.Monotonic() + timeout, nullptr);
    GiveUp(call);
    if (!answer)
      return WhyNothing(*call, "the worker did not answer in " + FormatDuration(timeout));
    const auto hello = DecodeHello(key_, nonce, *answer);
    if (!hello) return Application(hello.error(), address_);
    const Time middle = before + (clock_.Now() - before) / 2;
    const std::lock_guard lock(mutex_);
    known_.worker = hello->worker;
    known_.offset = Time(std::chrono::milliseconds(hello->now_ms)) - middle;
    met_ = true;
    return {};
  }

  RequestSeal Sealed(std::string_view action, const Secret& body) {
    const std::lock_guard lock(mutex_);
    return SealRequest(key_, known_.worker, action, body.Reveal(), clock_.Now() + known_.offset,
                       random_);
  }

  LinkResult<Frame> Open(const std::string& bytes, const std::string& nonce, uint64_t index) const {
    const auto body = OpenFrame(key_, nonce, index, bytes);
    if (!body) return Application(body.error(), address_);
    const auto text = Unpacked(*body);
    if (!text) return Application(text.error(), address_);
    auto frame = DecodeFrame(*text);
    if (!frame) return Application(std::move(frame.error()), address_);
    if (auto* failed = std::get_if<FailedFrame>(&*frame)) {
      failed->error.error = std::move(failed->error.error).In(address_);
      return std::unexpected(std::move(failed->error));
    }
    return *std::move(frame);
  }

  LinkResult<Frame> Ask(std::string_view action, const Secret& body, Duration timeout) {
    const RequestSeal seal = Sealed(action, body);
    const CallPtr call = Send(action, body, seal.Headers(), timeout);
    const auto answer = Wait(*call, clock_.Monotonic() + timeout, nullptr);
    GiveUp(call);
    if (!answer)
      return WhyNothing(*call, "the worker did not answer in " + FormatDuration(timeout));
    return Open(*answer, seal.nonce, 0);
  }

  LinkResult<void> Do(std::string_view action, const AttemptRequest& request, Duration timeout) {
    const auto body = EncodeAttempt(request);
    if (!body) return Application(body.error(), address_);
    const Duration deadline = clock_.Monotonic() + timeout;
    const bool met = [&] {
      const std::lock_guard lock(mutex_);
      return met_;
    }();
    if (!met) {
      if (auto known = Meet(timeout); !known) return known;
    }
    const auto frame = Ask(action, *body, std::max(deadline - clock_.Monotonic(), kTimeoutMin));
    if (!frame) return std::unexpected(frame.error());
    if (std::holds_alternative<AcceptedFrame>(*frame)) return {};
    return Strange();
  }

  LinkResult<group::GroupResult> Follow(const GroupOrder& order, const LinkTimes& times,
                                        const OnProgress& on_progress, const CancelFlag& cancel,
                                        Call& call, const std::string& nonce) {
    const Duration end = clock_.Monotonic() + times.attempt;
    Duration heard = clock_.Monotonic();
    int64_t bytes = 0;
    for (uint64_t index = 0;; ++index) {
      const auto bytes_in = Wait(call, std::min(end, heard + times.silence), &cancel);
      if (cancel.requested()) {
        return Application({Code::kCancelled, "stopped on request", {}, {}}, address_);
      }
      if (!bytes_in) {
        const bool late = clock_.Monotonic() >= end;
        return WhyNothing(call,
                          late ? "the attempt took longer than " + FormatDuration(times.attempt)
                               : "nothing has moved for " + FormatDuration(times.silence));
      }
      auto frame = Open(*bytes_in, nonce, index);
      if (!frame) return std::unexpected(std::move(frame.error()));
      if (auto* done = std::get_if<DoneFrame>(&*frame)) {
        if (done->group_id != order.task.number) return Strange();
        return std::move(done->result);
      }
      const auto* progress = std::get_if<ProgressFrame>(&*frame);
      if (progress == nullptr || progress->group_id != order.task.number) return Strange();
      if (progress->moved) heard = clock_.Monotonic();
      if (on_progress && progress->bytes_read > bytes) on_progress(progress->bytes_read - bytes);
      bytes = std::max(bytes, progress->bytes_read);
      if (clock_.Monotonic() >= std::min(end, heard + times.silence)) {
        return Transport("nothing has moved for " + FormatDuration(times.silence), address_);
      }
    }
  }

  const std::unique_ptr<flight::FlightClient> client_;
  const std::string address_;
  const FleetKey key_;
  const Clock& clock_;
  Random& random_;
  std::mutex mutex_;
  std::list<Reader> readers_;
  Known known_;
  bool met_ = false;
};

}  // namespace

Result<std::unique_ptr<WorkerLink>> OpenFlightLink(FlightLinkOptions options, FleetKey key,
                                                   const Clock& clock, Random& random) {
  LITHIFY_TRY_ASSIGN(auto client, Connect(options));
  return std::make_unique<FlightLink>(std::move(client), std::move(options.address), std::move(key),
                                      clock, random);
}

Status ProbeWorker(const FlightLinkOptions& options, Duration timeout) {
  LITHIFY_TRY_ASSIGN(const auto client, Connect(options));
  flight::FlightCallOptions call;
  call.timeout = flight::TimeoutDuration{static_cast<double>(timeout.count()) / 1'000'000.0};
  const auto ask = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(const auto stream,
                          client->DoAction(call, {std::string(kHealth), nullptr}));
    return stream->Drain();
  };
  const arrow::Status asked = ask();
  if (asked.ok()) return {};
  return Fail(Code::kTransient, asked.message(), options.address);
}

}  // namespace lithify::fleet
