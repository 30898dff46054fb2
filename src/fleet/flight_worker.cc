#include "fleet/flight_worker.h"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>
#include <arrow/flight/server_auth.h>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "fleet/packed.h"
#include "net/address.h"

namespace lithify::fleet {
namespace {

Result<net::Address> ListenAddress(const FlightWorkerOptions& options) {
  auto address = net::ParseAddress(options.listen);
  if (!address) return Fail(std::move(address.error()).In("worker.listen"));
  return address;
}

namespace flight = arrow::flight;

// So often a caller hears of its group; it hears of its worker's end by that, too. Of a group on a
// link of 50 Mbit/s a frame each second is a part in five thousand of what it moves.
constexpr Duration kFrameEvery = std::chrono::seconds(2);
constexpr Duration kLook = std::chrono::milliseconds(100);
constexpr Duration kStopGrace = std::chrono::seconds(5);
constexpr size_t kTextBytesMax = 1000;  // gRPC sends errors in headers.

flight::Result ResultOf(std::string bytes) {
  flight::Result result;
  result.body = arrow::Buffer::FromString(std::move(bytes));
  return result;
}

arrow::Status Reply(std::string bytes, std::unique_ptr<flight::ResultStream>* out) {
  std::vector<flight::Result> results;
  results.push_back(ResultOf(std::move(bytes)));
  *out = std::make_unique<flight::SimpleResultStream>(std::move(results));
  return arrow::Status::OK();
}

arrow::Status Refuse(const Error& error) {
  // Who cannot say who it is learns no more than that; all else may be tried again elsewhere.
  const auto code = error.code == Code::kDenied ? flight::FlightStatusCode::Unauthenticated
                                                : flight::FlightStatusCode::Unavailable;
  return flight::MakeFlightError(code, error.ToString().substr(0, kTextBytesMax));
}

// What cannot be said is told as that.
std::string FrameBytes(const Frame& frame) {
  auto bytes = EncodeFrame(frame);
  if (bytes) return *std::move(bytes);
  const FailedFrame failed{{.transport = false, .error = std::move(bytes.error())}};
  return EncodeFrame(failed).value();
}

// The frames of one group, sealed for the request that ordered it.
class GroupStream final : public flight::ResultStream {
 public:
  GroupStream(std::unique_ptr<WorkerService::Follower> follower, FleetKey key, std::string nonce,
              const flight::ServerCallContext& context)
      : follower_(std::move(follower)),
        key_(std::move(key)),
        nonce_(std::move(nonce)),
        context_(context) {}

  arrow::Result<std::unique_ptr<flight::Result>> Next() override {
    ProgressFrame sum;
    for (Duration waited{}; waited < kFrameEvery; waited += kLook) {
      // The stream is dropped then, and the attempt with it.
      if (context_.is_cancelled()) {
        return flight::MakeFlightError(flight::FlightStatusCode::Cancelled, "the caller has gone");
      }
      std::optional<Frame> frame = follower_->Next(kLook);
      if (!frame) return nullptr;
      const auto* progress = std::get_if<ProgressFrame>(&*frame);
      if (progress == nullptr) return Sealed(*frame);
      sum.group_id = progress->group_id;
      sum.bytes_read = progress->bytes_read;
      sum.moved = sum.moved || progress->moved;
    }
    return Sealed(sum);
  }

 private:
  std::unique_ptr<flight::Result> Sealed(const Frame& frame) {
    return std::make_unique<flight::Result>(
        ResultOf(SealFrame(key_, nonce_, index_++, Packed(FrameBytes(frame)))));
  }

  const std::unique_ptr<WorkerService::Follower> follower_;
  const FleetKey key_;
  const std::string nonce_;
  const flight::ServerCallContext& context_;  // Outlives the stream.
  uint64_t index_ = 0;
};

class Server final : public FlightWorker, private flight::FlightServerBase {
 public:
  Server(FlightWorkerOptions options, Services services)
      : options_(std::move(options)),
        services_(std::move(services)),
        guard_(services_.key, services_.id, services_.clock) {}

  Status Listen() {
    LITHIFY_TRY(CheckListening(options_));
    LITHIFY_TRY_ASSIGN(address_, ListenAddress(options_));
    const bool tls = !options_.tls_cert.empty();
    const std::string host = address_.bracketed_host();
    const auto location = tls ? flight::Location::ForGrpcTls(host, address_.port)
                              : flight::Location::ForGrpcTcp(host, address_.port);
    if (!location.ok()) return Fail(Code::kInvalid, location.status().ToString(), "worker.listen");
    flight::FlightServerOptions options(*location);
    options.auth_handler = std::make_shared<flight::NoOpAuthHandler>();  // Requests are signed.
    if (tls) {
      options.tls_certificates.push_back(
          {.pem_cert = options_.tls_cert, .pem_key = options_.tls_key.Reveal()});
    }
    if (!options_.tls_client_ca.empty()) {
      options.root_certificates = options_.tls_client_ca;
      options.verify_client = true;
    }
    const arrow::Status started = Init(options);
    if (!started.ok()) {
      return Fail(Code::kInvalid, "cannot listen: " + started.message(),
                  "worker.listen = \"" + options_.listen + "\"",
                  "is the port taken, and are certificate and key a pair?");
    }
    address_.port = port();
    return {};
  }

  std::string address() const override { return address_.ToString(); }

  void Stop() override {
    const std::chrono::sys_time<std::chrono::nanoseconds> deadline =
        services_.clock.Now() + kStopGrace;
    static_cast<void>(Shutdown(&deadline));
  }

  arrow::Status DoAction(const flight::ServerCallContext& context, const flight::Action& action,
                         std::unique_ptr<flight::ResultStream>* result) override {
    try {
      return Act(context, action, result);
    } catch (const std::exception& e) {
      return arrow::Status::UnknownError("unexpected exception: ", e.what());
    }
  }

 private:
  arrow::Status Act(const flight::ServerCallContext& context, const flight::Action& action,
                    std::unique_ptr<flight::ResultStream>* result) {
    const std::string_view body = action.body ? std::string_view(*action.body) : std::string_view();
    if (action.type == kHealth) {
      if (!services_.service.AskStatus().draining) return Reply("ok", result);
      return Refuse({Code::kTransient, "the worker stops", {}, {}});
    }
    if (action.type == kHello) return SayHello(body, result);
    if (body.size() > kRequestBytesMax) {
      return Refuse({Code::kDenied, "the request is larger than any", {}, {}});
    }
    const auto seal = RequestSeal::OfHeaders(context.incoming_headers());
    if (!seal) return Rejected(seal.error(), action.type, context);
    if (const Status admitted = guard_.Admit(*seal, action.type, body); !admitted) {
      return Rejected(admitted.error(), action.type, context);
    }
    if (action.type == kCompact) return Compact(context, body, *seal, result);
    return Reply(
        SealFrame(services_.key, seal->nonce, 0, Packed(FrameBytes(Answer(action.type, body)))),
        result);
  }

  arrow::Status Rejected(const Error& error, const std::string& type,
                         const flight::ServerCallContext& context) {
    if (options_.told) {
      options_.told("refused " + type.substr(0, 100) + " from " + context.peer() + ": " +
                    error.ToString());
    }
    return Refuse(error);
  }

  arrow::Status SayHello(std::string_view nonce, std::unique_ptr<flight::ResultStream>* result) {
    if (!IsNonce(nonce)) return Refuse({Code::kDenied, "the nonce is none", {}, {}});
    const int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                            services_.clock.Now().time_since_epoch())
                            .count();
    return Reply(EncodeHello(services_.key, nonce, {.worker = services_.id, .now_ms = now}),
                 result);
  }

  arrow::Status Compact(const flight::ServerCallContext& context, std::string_view body,
                        const RequestSeal& seal, std::unique_ptr<flight::ResultStream>* result) {
    auto order = DecodeOrder(body);
    LinkResult<std::unique_ptr<WorkerService::Follower>> follower =
        order ? services_.service.Begin(*order)
              : std::unexpected(LinkError{.transport = false, .error = std::move(order.error())});
    if (!follower) {
      const FailedFrame failed{std::move(follower.error())};
      return Reply(SealFrame(services_.key, seal.nonce, 0, Packed(FrameBytes(failed))), result);
    }
    *result =
        std::make_unique<GroupStream>(*std::move(follower), services_.key, seal.nonce, context);
    return arrow::Status::OK();
  }

  Frame Answer(const std::string& type, std::string_view body) {
    if (type == kStatus) return services_.service.AskStatus();
    auto request = DecodeAttempt(body);
    if (!request) return FailedFrame{{.transport = false, .error = std::move(request.error())}};
    LinkResult<void> done;
    if (type == kAdopt) {
      done = services_.service.Adopt(request->attempt);
    } else if (type == kDrop) {
      done = services_.service.Drop(request->attempt);
    } else if (type == kRefresh) {
      done = services_.service.Refresh(request->attempt, request->loans);
    } else {
      done = std::unexpected(LinkError{
          .transport = false,
          .error = {Code::kUnsupported, "there is no such action", type.substr(0, 100), {}}});
    }
    if (!done) return FailedFrame{std::move(done.error())};
    return AcceptedFrame();
  }

  const FlightWorkerOptions options_;
  const Services services_;
  RequestGuard guard_;
  net::Address address_;
};

}  // namespace

Status CheckListening(const FlightWorkerOptions& options) {
  LITHIFY_TRY_ASSIGN(const net::Address address, ListenAddress(options));
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return Fail(Code::kInvalid, "certificate and key go together",
                "worker.tls_cert, worker.tls_key");
  }
  if (options.tls_cert.empty() && !options.tls_client_ca.empty()) {
    return Fail(Code::kInvalid, "callers can show certificates over TLS alone",
                "worker.tls_client_ca", "give worker.tls_cert and worker.tls_key");
  }
  if (!options.tls_cert.empty() || net::IsLoopback(address.host)) return {};
  return Fail(Code::kInvalid, "keys of the storage would cross the network in plaintext",
              "worker.listen = \"" + options.listen + "\"",
              "give worker.tls_cert and worker.tls_key");
}

Result<std::unique_ptr<FlightWorker>> FlightWorker::Start(FlightWorkerOptions options,
                                                          Services services) {
  auto server = std::make_unique<Server>(std::move(options), std::move(services));
  LITHIFY_TRY(server->Listen());
  return server;
}

}  // namespace lithify::fleet
