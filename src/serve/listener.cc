#include "serve/listener.h"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>
#include <arrow/flight/server_auth.h>
#include <arrow/flight/server_middleware.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "flightsql/messages.h"
#include "net/address.h"
#include "serve/audit_resources.h"
#include "serve/call_watch.h"
#include "serve/flight_error.h"
#include "serve/running_statements.h"
#include "serve/sql_info.h"
#include "serve/statement_store.h"
#include "serve/statement_stream.h"
#include "storage/read_whole.h"
#include "storage/secret_file.h"

namespace lithify::serve {
namespace {

namespace flight = arrow::flight;

constexpr std::string_view kMiddleware = "lithify-caller";
constexpr std::string_view kSessionCookie = "arrow_flight_session_id";
constexpr std::string_view kHealthCheck = "HealthCheck";

// A value of an HTTP header "cookie": "a=1; b=2".
std::string CookieValue(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const size_t end = std::min(header.find(';'), header.size());
    std::string_view pair = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
      return std::string(pair.substr(name.size() + 1));
    }
  }
  return {};
}

std::string Header(const flight::CallHeaders& headers, std::string_view name) {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string() : std::string(at->second);
}

// Who calls, for the time of one call. That nobody is known is told by the call itself, since the
// health check needs no caller.
class CallerMiddleware final : public flight::ServerMiddleware {
 public:
  CallerMiddleware(Result<Caller> caller, std::string session, TraceContext trace)
      : caller_(std::move(caller)), session_(std::move(session)), trace_(std::move(trace)) {}

  std::string name() const override { return std::string(kMiddleware); }
  void SendingHeaders(flight::AddCallHeaders* headers) override {
    // The client goes on with the token that the provider made of its password.
    if (caller_ && caller_->issued) {
      headers->AddHeader("authorization", "Bearer " + caller_->token.Reveal());
    }
  }
  void CallCompleted(const arrow::Status&) override {}

  const Result<Caller>& caller() const { return caller_; }
  const std::string& session() const { return session_; }
  const TraceContext& trace() const { return trace_; }

 private:
  const Result<Caller> caller_;
  const std::string session_;
  const TraceContext trace_;
};

class CallerFactory final : public flight::ServerMiddlewareFactory {
 public:
  CallerFactory(Authenticator& authenticator, AuditTrail& audit, const Clock& clock)
      : authenticator_(authenticator), audit_(audit), clock_(clock) {}

  arrow::Status StartCall(const flight::CallInfo& info, const flight::ServerCallContext& context,
                          std::shared_ptr<flight::ServerMiddleware>* middleware) override {
    const flight::CallHeaders& headers = context.incoming_headers();
    auto caller = Authenticate(Header(headers, "authorization"));
    const bool handshake = info.method == flight::FlightMethod::Handshake;
    if (caller ? caller->issued : handshake) RecordLogin(caller, context.peer());
    if (!caller && handshake) return Refuse(caller.error());
    *middleware = std::make_shared<CallerMiddleware>(
        std::move(caller), CookieValue(Header(headers, "cookie"), kSessionCookie),
        ParseTraceparent(Header(headers, "traceparent")).value_or(TraceContext()));
    return arrow::Status::OK();
  }

  // What shows a token each time is no login: its statements are on record. A probe of the health
  // needs no caller, and is none either.
  void RecordLogin(const Result<Caller>& caller, const std::string& client) {
    observe::AuditEvent event;
    event.phase = observe::AuditEvent::Phase::kRecorded;
    event.kind = observe::AuditKind::kAuth;
    event.procedure = "login";
    event.time = clock_.Now();
    event.client_ip = client;
    event.actor = caller ? caller->name : std::string(kUnknownCaller);
    if (caller) event.subject = caller->subject;
    if (!caller) {
      event.failed = true;
      event.error = caller.error().ToString();
      event.error_code = CodeName(caller.error().code);
    }
    audit_.Record(std::move(event));
  }

  // What cannot be asked now may be asked again; all else is a caller that nobody knows.
  static arrow::Status Refuse(const Error& error) {
    return error.code == Code::kTransient ? ToFlight(error) : NotAuthenticated(error);
  }

 private:
  Result<Caller> Authenticate(const std::string& header) {
    try {
      LITHIFY_TRY_ASSIGN(const Credentials credentials, ParseAuthorization(header));
      return authenticator_.Authenticate(credentials);
    } catch (const std::exception& e) {
      return Fail(Code::kInternal, std::string("unexpected exception: ") + e.what());
    }
  }

  Authenticator& authenticator_;
  AuditTrail& audit_;
  const Clock& clock_;
};

// "select", "call", "show": the statement type of the audit log.
struct StatementType {
  std::string operator()(const sql::Query& query) const {
    return query.explain ? "explain_select" : "select";
  }
  std::string operator()(const sql::Call& call) const { return call.procedure; }
  std::string operator()(const sql::ExplainCall& explain) const {
    return "explain_" + explain.call.procedure;
  }
  std::string operator()(const sql::SetProperties&) const { return "set_properties"; }
  std::string operator()(const sql::UnsetProperties&) const { return "unset_properties"; }
  std::string operator()(const sql::CancelJob&) const { return "cancel_job"; }
  std::string operator()(const sql::Describe&) const { return "describe"; }
  template <typename Show>
  std::string operator()(const Show&) const {
    return "show";
  }
};

// Of a statement, without what came of it.
observe::AuditEvent StatementEvent(const CallContext& call, std::string text, Time now) {
  observe::AuditEvent event;
  event.phase = observe::AuditEvent::Phase::kRecorded;
  event.kind = observe::AuditKind::kQuery;
  event.time = now;
  event.actor = call.caller.name;
  event.subject = call.caller.subject;
  event.roles = call.caller.roles;
  event.groups = call.caller.groups;
  event.session_id = call.session;
  event.client_ip = call.client;
  event.query_id = call.job_id;  // That of the job, if it is one.
  // Who writes the own token into a statement need not find it in the log.
  event.query_text = call.caller.token.HideIn(std::move(text));
  return event;
}

void AddFailure(const Error& error, const Caller& caller, observe::AuditEvent& event) {
  event.failed = true;
  event.error = caller.token.HideIn(error.ToString());
  event.error_code = CodeName(error.code);
}

// One statement while it runs. On record when it ends, whatever came of it.
struct Running {
  Running(AuditTrail& trail, const Executor& by, const Clock& the_clock)
      : audit(trail), executor(by), clock(the_clock), begin(the_clock.Monotonic()) {}
  ~Running() {
    if (!planned) return;
    observe::AuditEvent event = StatementEvent(call, planned->text, clock.Now());
    event.procedure = std::visit(StatementType(), planned->statement);
    event.duration_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(clock.Monotonic() - begin).count();
    event.resources = executor.Resources(*planned, call);
    if (error) AddFailure(*error, call.caller, event);
    audit.Record(std::move(event));
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  AuditTrail& audit;
  const Executor& executor;
  const Clock& clock;
  const Duration begin;
  std::optional<Error> error;
  CallContext call;
  std::shared_ptr<const PlannedStatement> planned;
  std::shared_ptr<arrow::RecordBatch> parameters;
  CancelFlag cancel;                          // Of what is no job,
  std::unique_ptr<observe::Progress> silent;  // likewise.
  std::unique_ptr<RunningJob> job;
  std::unique_ptr<RunningStatements::Slot> slot;

  const CancelFlag& flag() const { return job ? job->cancel() : cancel; }
  observe::Progress& progress() const { return job ? *job : *silent; }
};

Result<flight::FlightServerOptions> MakeOptions(const config::ServerConfig& config) {
  const auto parsed = net::ParseAddress(config.listen);
  if (!parsed) return Fail(Error(parsed.error()).In("server.listen"));
  const net::Address& address = *parsed;
  const bool tls = !config.tls_cert_file.empty() || !config.tls_key_file.empty();
  if (!tls && !net::IsLoopback(address.host) && !config.allow_plaintext) {
    return Fail(Code::kInvalid, "tokens would cross the network in plaintext",
                "server.listen = \"" + config.listen + "\"",
                "give server.tls_cert_file and server.tls_key_file; behind something that speaks "
                "TLS set server.allow_plaintext = true");
  }
  const std::string host = address.bracketed_host();
  const auto location = tls ? flight::Location::ForGrpcTls(host, address.port)
                            : flight::Location::ForGrpcTcp(host, address.port);
  if (!location.ok()) return Fail(Code::kInvalid, location.status().ToString(), "server.listen");
  flight::FlightServerOptions options(*location);
  options.auth_handler = std::make_shared<flight::NoOpAuthHandler>();  // Middleware does it.
  if (!tls) return options;
  LITHIFY_TRY_ASSIGN(std::string certificate,
                     storage::ReadWhole(config.tls_cert_file, "server.tls_cert_file"));
  auto key = storage::ReadSecretFile(config.tls_key_file);
  if (!key) return Fail(std::move(key.error()).In("server.tls_key_file"));
  options.tls_certificates.push_back(
      {.pem_cert = std::move(certificate), .pem_key = key->Reveal()});
  if (config.tls_client_ca_file.empty()) return options;
  LITHIFY_TRY_ASSIGN(options.root_certificates,
                     storage::ReadWhole(config.tls_client_ca_file, "server.tls_client_ca_file"));
  options.verify_client = true;
  return options;
}

class FlightListener final : public Listener, private flight::FlightServerBase {
 public:
  explicit FlightListener(const Services& services)
      : services_(services),
        tickets_(services.clock, services.random, {.oldest_goes = true}),
        prepared_(services.clock, services.random, {}),
        running_({.all = static_cast<size_t>(services.config.statements_max),
                  .of_owner = static_cast<size_t>(services.config.statements_per_user_max)}),
        watch_(services.clock) {}

  Status Listen() {
    LITHIFY_TRY_ASSIGN(auto options, MakeOptions(services_.config));
    options.middleware.emplace_back(std::string(kMiddleware), callers_);
    tls_ = !options.tls_certificates.empty();
    const arrow::Status started = Init(options);
    if (started.ok()) return {};
    return Fail(Code::kInvalid, "cannot listen: " + started.message(),
                "server.listen = \"" + services_.config.listen + "\"",
                "is the port taken, and are certificate and key a pair?");
  }

  std::string location() const override {
    const std::string& listen = services_.config.listen;
    return (tls_ ? "grpc+tls://" : "grpc://") + listen.substr(0, listen.rfind(':') + 1) +
           std::to_string(port());
  }

  bool draining() const override { return running_.draining(); }

  void Stop() override {
    running_.Drain(services_.config.drain);
    services_.jobs.CancelAll();
    running_.StopAll();
    running_.Drain(kStopGrace);
    const std::chrono::sys_time<std::chrono::nanoseconds> deadline =
        services_.clock.Now() + kStopGrace;
    static_cast<void>(Shutdown(&deadline));
  }

  // --- calls -------------------------------------------------------------------------------------

  arrow::Status GetFlightInfo(const flight::ServerCallContext& context,
                              const flight::FlightDescriptor& request,
                              std::unique_ptr<flight::FlightInfo>* info) override {
    return Guarded([&] { return Inform(context, request, info); });
  }

  arrow::Status GetSchema(const flight::ServerCallContext& context,
                          const flight::FlightDescriptor& request,
                          std::unique_ptr<flight::SchemaResult>* schema) override {
    return Guarded([&] { return TellSchema(context, request, schema); });
  }

  arrow::Status DoGet(const flight::ServerCallContext& context, const flight::Ticket& request,
                      std::unique_ptr<flight::FlightDataStream>* stream) override {
    return Guarded([&] { return Get(context, request, stream); });
  }

  arrow::Status DoPut(const flight::ServerCallContext& context,
                      std::unique_ptr<flight::FlightMessageReader> reader,
                      std::unique_ptr<flight::FlightMetadataWriter> writer) override {
    return Guarded([&] { return Put(context, std::move(reader), std::move(writer)); });
  }

  arrow::Status DoAction(const flight::ServerCallContext& context, const flight::Action& action,
                         std::unique_ptr<flight::ResultStream>* result) override {
    return Guarded([&] { return Act(context, action, result); });
  }

  arrow::Status ListActions(const flight::ServerCallContext&,
                            std::vector<flight::ActionType>* actions) override {
    *actions = {
        {std::string(kHealthCheck), "Whether the server takes statements; needs no token"},
        {std::string(flightsql::kCreatePreparedStatement), "Plans a statement for repeated use"},
        {std::string(flightsql::kClosePreparedStatement), "Forgets a prepared statement"},
        {std::string(flightsql::kCancelQuery), "Stops the statement of a FlightInfo"},
        flight::ActionType::kCancelFlightInfo,
        flight::ActionType::kSetSessionOptions,
        flight::ActionType::kGetSessionOptions,
        flight::ActionType::kCloseSession,
    };
    return arrow::Status::OK();
  }

 private:
  static constexpr std::chrono::seconds kStopGrace{5};

  // What libraries throw ends the call, and not the process.
  template <typename Work>
  static arrow::Status Guarded(Work work) {
    try {
      return work();
    } catch (const std::exception& e) {
      return ToFlight(Error{Code::kInternal,
                            std::string("unexpected exception: ") + e.what(),
                            {},
                            "please report this"});
    }
  }

  arrow::Status Inform(const flight::ServerCallContext& context,
                       const flight::FlightDescriptor& request,
                       std::unique_ptr<flight::FlightInfo>* info) {
    CallContext call;
    ARROW_RETURN_NOT_OK(Identify(context, call));
    auto offer = Offer(context, request, call);
    if (!offer) return Told(offer.error(), call);
    flight::FlightEndpoint endpoint;
    endpoint.ticket.ticket = std::move(offer->ticket);
    ARROW_ASSIGN_OR_RAISE(auto made, flight::FlightInfo::Make(*offer->schema, request,
                                                              {std::move(endpoint)}, -1, -1));
    *info = std::make_unique<flight::FlightInfo>(std::move(made));
    return arrow::Status::OK();
  }

  arrow::Status TellSchema(const flight::ServerCallContext& context,
                           const flight::FlightDescriptor& request,
                           std::unique_ptr<flight::SchemaResult>* schema) {
    CallContext call;
    ARROW_RETURN_NOT_OK(Identify(context, call));
    auto offer = Offer(context, request, call);
    if (!offer) return Told(offer.error(), call);
    ARROW_ASSIGN_OR_RAISE(*schema, flight::SchemaResult::Make(*offer->schema));
    return arrow::Status::OK();
  }

  arrow::Status Get(const flight::ServerCallContext& context, const flight::Ticket& request,
                    std::unique_ptr<flight::FlightDataStream>* stream) {
    CallContext call;
    ARROW_RETURN_NOT_OK(Identify(context, call));
    const auto command = flightsql::ParseCommand(request.ticket);
    if (!command) return Told(command.error(), call);
    const auto* ticket = std::get_if<flightsql::StatementTicket>(&*command);
    if (ticket == nullptr) return Answer(context, *command, call, stream);
    auto stored = Redeem(ticket->handle, call.caller.owner);
    if (!stored) return Told(stored.error(), call);
    return Run(context, std::move(call), *std::move(stored), ticket->handle, stream);
  }

  arrow::Status Put(const flight::ServerCallContext& context,
                    std::unique_ptr<flight::FlightMessageReader> reader,
                    std::unique_ptr<flight::FlightMetadataWriter> writer) {
    CallContext call;
    ARROW_RETURN_NOT_OK(Identify(context, call));
    const auto command = flightsql::ParseCommand(reader->descriptor().cmd);
    if (!command) return Told(command.error(), call);
    if (const auto* query = std::get_if<flightsql::PreparedQuery>(&*command)) {
      return BindParameters(query->handle, call, *reader, *writer);
    }
    StoredStatement statement;
    if (const auto* update = std::get_if<flightsql::StatementUpdate>(&*command)) {
      auto planned = Plan(context, update->query, call);
      if (!planned) return Told(planned.error(), call);
      statement.planned = *std::move(planned);
    } else if (const auto* prepared = std::get_if<flightsql::PreparedUpdate>(&*command)) {
      auto stored = prepared_.Get(prepared->handle, call.caller.owner);
      if (!stored) return Told(stored.error(), call);
      statement = *std::move(stored);
      auto parameters = ReceiveParameters(*statement.planned, call, *reader);
      if (!parameters) return Told(parameters.error(), call);
      if (*parameters) statement.parameters = *std::move(parameters);
    } else {
      return Told(Error{Code::kUnsupported, "only updates and parameters can be put", {}, {}},
                  call);
    }
    return Update(context, std::move(call), std::move(statement), *writer);
  }

  arrow::Status Act(const flight::ServerCallContext& context, const flight::Action& action,
                    std::unique_ptr<flight::ResultStream>* result) {
    if (action.type == kHealthCheck) return Reply(Health(), result);
    CallContext call;
    ARROW_RETURN_NOT_OK(Identify(context, call));
    const std::string_view body = action.body ? std::string_view(*action.body) : std::string_view();
    if (action.type == flightsql::kCreatePreparedStatement)
      return Prepare(context, body, call, result);
    if (action.type == flightsql::kClosePreparedStatement) return Close(body, call, result);
    if (action.type == flightsql::kCancelQuery) return CancelQuery(body, call, result);
    if (action.type == flight::ActionType::kCancelFlightInfo.type) {
      return CancelFlightInfo(body, call, result);
    }
    return SessionAction(context, action.type, body, call, result);
  }

  // What GetFlightInfo offers: a schema and the ticket to it.
  struct Offered {
    std::shared_ptr<arrow::Schema> schema;
    std::string ticket;
  };

  arrow::Status Identify(const flight::ServerCallContext& context, CallContext& call) {
    const auto* middleware =
        dynamic_cast<CallerMiddleware*>(context.GetMiddleware(std::string(kMiddleware)));
    if (middleware == nullptr) return arrow::Status::UnknownError("a call without a caller");
    if (!middleware->caller()) {
      callers_->RecordLogin(middleware->caller(), context.peer());
      return CallerFactory::Refuse(middleware->caller().error());
    }
    call.caller = *middleware->caller();
    call.client = context.peer();
    call.trace = middleware->trace();
    call.token = std::make_shared<CallerToken>(call.caller.token);
    if (middleware->session().empty()) return arrow::Status::OK();
    return UseSession(middleware->session(), call);
  }

  arrow::Status UseSession(const std::string& id, CallContext& call) {
    auto options = services_.sessions.Use(id, call.caller);
    if (!options) return CallerFactory::Refuse(options.error());
    call.session = id;
    if (const auto at = options->find("catalog"); at != options->end()) call.catalog = at->second;
    if (const auto at = options->find("schema"); at != options->end()) {
      if (const auto name = sql::ParseTableName(at->second)) call.schema = name->parts;
    }
    return arrow::Status::OK();
  }

  // The error as the client gets it.
  static arrow::Status Told(const Error& error, const CallContext& call) {
    // A commit that was refused so cannot be looked for, either: the text says so.
    const bool by_token = error.code == Code::kDenied || error.code == Code::kUnknownOutcome;
    return by_token && call.token->refused() ? NotAuthenticated(error) : ToFlight(error);
  }

  // `work` with a flag that is raised when the client leaves, the time is over or the server ends.
  template <typename Work>
  auto Watched(const flight::ServerCallContext& context, const CallContext& call, Work work)
      -> decltype(work(std::declval<const CancelFlag&>())) {
    CancelFlag stop;
    LITHIFY_TRY_ASSIGN(const auto slot,
                       running_.Begin(call.caller.owner, {}, [&stop] { stop.Request(); }));
    const auto watched = watch_.Begin([&context] { return context.is_cancelled(); }, stop,
                                      services_.config.statement_timeout);
    auto done = work(stop);
    if (done || done.error().code != Code::kCancelled || !watched->late()) return done;
    return Fail(Code::kLimit, "it was not answered within server.statement_timeout",
                done.error().context, "is the catalog slow? ask for less, or raise it");
  }

  Result<std::shared_ptr<const PlannedStatement>> Plan(const flight::ServerCallContext& context,
                                                       std::string_view text,
                                                       const CallContext& call) {
    std::vector<observe::AuditResource> about;
    auto planned = Watched(context, call, [&](const CancelFlag& stop) {
      return services_.executor.Plan(text, call, stop, &about);
    });
    if (planned) return planned;
    observe::AuditEvent event = StatementEvent(call, std::string(text), services_.clock.Now());
    event.procedure = "plan";
    event.resources = std::move(about);
    AddFailure(planned.error(), call.caller, event);
    services_.audit.Record(std::move(event));
    return planned;
  }

  Result<Offered> Offer(const flight::ServerCallContext& context,
                        const flight::FlightDescriptor& request, const CallContext& call) {
    if (request.type != flight::FlightDescriptor::CMD) {
      return Fail(Code::kInvalid, "a path is no statement", {}, "send a command of Flight SQL");
    }
    LITHIFY_TRY_ASSIGN(const auto command, flightsql::ParseCommand(request.cmd));
    if (const auto* query = std::get_if<flightsql::StatementQuery>(&command)) {
      LITHIFY_TRY_ASSIGN(auto planned, Plan(context, query->query, call));
      return Issue({.planned = std::move(planned), .parameters = nullptr}, call);
    }
    if (const auto* prepared = std::get_if<flightsql::PreparedQuery>(&command)) {
      LITHIFY_TRY_ASSIGN(auto stored, prepared_.Get(prepared->handle, call.caller.owner));
      return Issue(std::move(stored), call);
    }
    LITHIFY_TRY_ASSIGN(auto schema, QuestionSchema(command));
    // Questions change nothing: they are their own tickets.
    return Offered{.schema = std::move(schema), .ticket = request.cmd};
  }

  Result<Offered> Issue(StoredStatement statement, const CallContext& call) {
    auto schema = statement.planned->result;
    if (!schema) schema = arrow::schema({});  // Known once it runs.
    LITHIFY_TRY_ASSIGN(auto handle, tickets_.Add(call.caller.owner, std::move(statement)));
    return Offered{.schema = std::move(schema),
                   .ticket = flightsql::PackCommand(flightsql::StatementTicket{std::move(handle)})};
  }

  Result<std::shared_ptr<arrow::Schema>> QuestionSchema(const flightsql::Command& command) {
    if (std::holds_alternative<flightsql::GetSqlInfo>(command)) return SqlInfoSchema();
    if (std::holds_alternative<flightsql::GetXdbcTypeInfo>(command)) return TypeInfoSchema();
    auto schema = services_.executor.QuestionSchema(command);
    if (schema->num_fields() > 0) return schema;
    return Fail(Code::kInvalid, "updates and tickets are not asked for", {},
                "put updates, and get tickets");
  }

  // What runs once is taken out by the first who asks (R069).
  Result<StoredStatement> Redeem(const std::string& handle, const std::string& owner) {
    LITHIFY_TRY_ASSIGN(auto stored, tickets_.Get(handle, owner));
    if (!stored.planned->changes) return stored;
    return tickets_.Take(handle, owner);
  }

  Result<std::shared_ptr<Running>> Begin(CallContext call, StoredStatement statement,
                                         const std::string& handle) {
    auto running = std::make_shared<Running>(services_.audit, services_.executor, services_.clock);
    running->call = std::move(call);
    running->planned = std::move(statement.planned);
    running->parameters = std::move(statement.parameters);
    running->silent = observe::MakeSilentProgress();
    if (Status admitted = Admit(*running, handle); !admitted) {
      Error error = std::move(admitted.error());
      // Too many at once, or the server ends: both pass.
      if (error.code == Code::kLimit || error.code == Code::kCancelled) {
        error.code = Code::kTransient;
      }
      if (running->job) running->job->End(Fail(error));
      running->error = error;
      return Fail(std::move(error));
    }
    return running;
  }

  // A job, if it is one, and a place among the statements that run.
  Status Admit(Running& running, const std::string& handle) {
    const PlannedStatement& planned = *running.planned;
    if (planned.changes && planned.call) {
      const auto table = planned.call->Table();
      LITHIFY_TRY_ASSIGN(
          running.job,
          services_.jobs.Begin(running.call.caller, std::string(planned.call->procedure().name),
                               table ? table->ToString() : std::string()));
      running.call.job_id = running.job->id();
    }
    LITHIFY_TRY_ASSIGN(running.slot,
                       running_.Begin(running.call.caller.owner, handle, Stopper(running)));
    return {};
  }

  // Of one that is alive as long as its slot.
  std::function<void()> Stopper(Running& running) {
    return [this, &running] {
      running.cancel.Request();
      if (running.job) {
        static_cast<void>(services_.jobs.Cancel(running.call.caller, running.job->id()));
      }
    };
  }

  Result<std::unique_ptr<SelectResult>> Execute(Running& running) {
    try {
      return services_.executor.Run(*running.planned, running.parameters, running.call,
                                    running.progress(), running.flag());
    } catch (const std::exception& e) {
      // What a change had come to, nobody knows here.
      return Fail(running.planned->changes ? Code::kUnknownOutcome : Code::kInternal,
                  std::string("unexpected exception: ") + e.what(), {}, "please report this");
    }
  }

  // `context` outlives the stream: both live as long as the call.
  StatementRun MakeRun(const flight::ServerCallContext& context,
                       const std::shared_ptr<Running>& running) {
    StatementRun run;
    Running* raw = running.get();
    run.run = [this, raw]() -> Result<std::unique_ptr<SelectResult>> {
      auto result = Execute(*raw);
      if (!result) raw->error = result.error();
      if (raw->job) raw->job->End(result ? Status() : Status(Fail(result.error())));
      return result;
    };
    run.progress = [this, raw] { return ProgressJson(*raw); };
    run.gone = [&context] { return context.is_cancelled(); };
    run.to_flight = [raw](const Error& error) {
      raw->error = error;
      return Told(error, raw->call);
    };
    run.stop = Stopper(*raw);
    run.owner = running;
    run.bytes_max = services_.config.result_bytes_max;
    // What is there in whole needs nobody's patience, and a change that was made is told.
    const bool query = std::holds_alternative<sql::Query>(raw->planned->statement);
    run.stall_max = query ? services_.config.client_stall : Duration::zero();
    return run;
  }

  arrow::Status Run(const flight::ServerCallContext& context, CallContext call,
                    StoredStatement statement, const std::string& handle,
                    std::unique_ptr<flight::FlightDataStream>* stream) {
    const CallContext for_errors = call;
    auto running = Begin(std::move(call), std::move(statement), handle);
    if (!running) return Told(running.error(), for_errors);
    StatementRun run = MakeRun(context, *running);
    auto schema = (*running)->planned->result;
    if (!schema) {
      // It depends on the parameters: what comes first is told by the result alone.
      auto result = run.run();
      if (!result) return Told(result.error(), for_errors);
      schema = (*result)->schema();
      auto ready = std::make_shared<std::unique_ptr<SelectResult>>(*std::move(result));
      run.run = [ready] { return Result<std::unique_ptr<SelectResult>>(std::move(*ready)); };
    }
    *stream = MakeStatementStream(std::move(schema), std::move(run));
    return arrow::Status::OK();
  }

  arrow::Status Update(const flight::ServerCallContext& context, CallContext call,
                       StoredStatement statement, flight::FlightMetadataWriter& writer) {
    std::unique_ptr<flight::FlightDataStream> stream;
    ARROW_RETURN_NOT_OK(Run(context, std::move(call), std::move(statement), {}, &stream));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto payload, stream->Next());
      if (payload.ipc_message.metadata == nullptr) break;
    }
    // How many rows that concerned is told by the result that nobody asked for.
    return writer.WriteMetadata(*arrow::Buffer::FromString(flightsql::PackUpdateCount(-1)));
  }

  arrow::Status Answer(const flight::ServerCallContext& context, const flightsql::Command& question,
                       const CallContext& call, std::unique_ptr<flight::FlightDataStream>* stream) {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (const auto* info = std::get_if<flightsql::GetSqlInfo>(&question)) {
      ARROW_ASSIGN_OR_RAISE(batch, SqlInfo(info->info, services_.version));
    } else if (const auto* types = std::get_if<flightsql::GetXdbcTypeInfo>(&question)) {
      ARROW_ASSIGN_OR_RAISE(batch, TypeInfo(types->data_type));
    }
    if (!batch) {
      auto answer = Watched(context, call, [&](const CancelFlag& stop) {
        return services_.executor.Ask(question, call, stop);
      });
      RecordQuestion(question, call, answer ? nullptr : &answer.error());
      if (!answer) return Told(answer.error(), call);
      batch = *std::move(answer);
    }
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::RecordBatchReader::Make({batch}, batch->schema()));
    *stream = std::make_unique<flight::RecordBatchStream>(std::move(reader));
    return arrow::Status::OK();
  }

  // Those that the catalog is asked about: drivers ask them where a person might write SHOW.
  void RecordQuestion(const flightsql::Command& question, const CallContext& call,
                      const Error* error) {
    const bool tables = std::holds_alternative<flightsql::GetTables>(question);
    if (!tables && !std::holds_alternative<flightsql::GetDbSchemas>(question)) return;
    observe::AuditEvent event = StatementEvent(call, {}, services_.clock.Now());
    event.procedure = tables ? "get_tables" : "get_db_schemas";
    event.resources = ResourcesOf(question, services_.executor.access());
    if (error != nullptr) AddFailure(*error, call.caller, event);
    services_.audit.Record(std::move(event));
  }

  std::string ProgressJson(const Running& running) {
    nlohmann::ordered_json json = {{"state", "running"}};
    if (!running.job) return json.dump();
    json["job_id"] = running.job->id();
    for (const JobInfo& info : services_.jobs.List(running.call.caller)) {
      if (info.id != running.job->id()) continue;
      json["bytes_done"] = info.bytes_done;
      json["bytes_total"] = info.bytes_total;
      json["items_done"] = info.items_done;
      json["items_total"] = info.items_total;
      json["message"] = info.message;
    }
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  // --- prepared statements -----------------------------------------------------------------------

  static arrow::Result<std::string> SchemaBytes(const std::shared_ptr<arrow::Schema>& schema) {
    if (!schema) return std::string();
    ARROW_ASSIGN_OR_RAISE(const auto bytes, arrow::ipc::SerializeSchema(*schema));
    return bytes->ToString();
  }

  arrow::Status Prepare(const flight::ServerCallContext& context, std::string_view body,
                        const CallContext& call, std::unique_ptr<flight::ResultStream>* result) {
    const auto query = flightsql::ParseCreatePrepared(body);
    if (!query) return Told(query.error(), call);
    const auto planned = Plan(context, *query, call);
    if (!planned) return Told(planned.error(), call);
    const auto handle =
        prepared_.Add(call.caller.owner, {.planned = *planned, .parameters = nullptr});
    if (!handle) return Told(handle.error(), call);
    flightsql::PreparedStatement prepared{
        .handle = *handle, .dataset_schema = {}, .parameter_schema = {}};
    ARROW_ASSIGN_OR_RAISE(prepared.dataset_schema, SchemaBytes((*planned)->result));
    ARROW_ASSIGN_OR_RAISE(prepared.parameter_schema, SchemaBytes((*planned)->parameters));
    return Reply(flightsql::PackPrepared(prepared), result);
  }

  arrow::Status Close(std::string_view body, const CallContext& call,
                      std::unique_ptr<flight::ResultStream>* result) {
    const auto handle = flightsql::ParseClosePrepared(body);
    if (!handle) return Told(handle.error(), call);
    prepared_.Remove(*handle, call.caller.owner);
    return Reply({}, result);
  }

  // All rows that the client sends, as one; null: none. What they are too many of is known before
  // they are all here.
  Result<std::shared_ptr<arrow::RecordBatch>> ReadParameters(flight::FlightMessageReader& reader) {
    const auto failed = [](const arrow::Status& status) {
      return Fail(Code::kInvalid, "the parameters cannot be read: " + status.ToString());
    };
    std::vector<std::shared_ptr<arrow::RecordBatch>> parts;
    int64_t bytes = 0;
    for (;;) {
      const auto chunk = reader.Next();
      if (!chunk.ok()) return failed(chunk.status());
      if (!chunk->data && !chunk->app_metadata) break;
      if (!chunk->data || chunk->data->num_rows() == 0) continue;
      bytes += arrow::util::TotalBufferSize(*chunk->data);
      if (bytes > services_.config.request_bytes_max) {
        return Fail(Code::kLimit, "the parameters are larger than allowed",
                    "server.request_bytes_max", "bind fewer rows at a time");
      }
      parts.push_back(chunk->data);
    }
    if (parts.empty()) return nullptr;
    if (parts.size() == 1) return parts.front();
    auto joined = arrow::ConcatenateRecordBatches(parts);
    if (!joined.ok()) return failed(joined.status());
    return *std::move(joined);
  }

  // The same, while the call has a place among statements, and only what the statement can be run
  // with.
  Result<std::shared_ptr<arrow::RecordBatch>> ReceiveParameters(
      const PlannedStatement& planned, const CallContext& call,
      flight::FlightMessageReader& reader) {
    LITHIFY_TRY_ASSIGN(const auto slot, running_.Begin(call.caller.owner, {}, [] {}));
    LITHIFY_TRY_ASSIGN(auto parameters, ReadParameters(reader));
    if (!parameters) return nullptr;
    LITHIFY_TRY(Executor::CheckParameters(planned, *parameters));
    return parameters;
  }

  arrow::Status BindParameters(const std::string& handle, const CallContext& call,
                               flight::FlightMessageReader& reader,
                               flight::FlightMetadataWriter& writer) {
    // Nothing is read for a handle that is not the caller's.
    const auto known = prepared_.Get(handle, call.caller.owner);
    if (!known) return Told(known.error(), call);
    auto parameters = ReceiveParameters(*known->planned, call, reader);
    if (!parameters) return Told(parameters.error(), call);
    const Status bound = prepared_.Bind(handle, call.caller.owner, *std::move(parameters));
    if (!bound) return Told(bound.error(), call);
    return writer.WriteMetadata(*arrow::Buffer::FromString(flightsql::PackBoundHandle(handle)));
  }

  // --- actions -----------------------------------------------------------------------------------

  // One result, be it empty: clients wait for it.
  static arrow::Status Reply(std::string body, std::unique_ptr<flight::ResultStream>* result) {
    std::vector<flight::Result> results;
    results.emplace_back(arrow::Buffer::FromString(std::move(body)));
    *result = std::make_unique<flight::SimpleResultStream>(std::move(results));
    return arrow::Status::OK();
  }

  std::string Health() const {
    return nlohmann::ordered_json{{"status", running_.draining() ? "draining" : "serving"},
                                  {"version", services_.version}}
        .dump();
  }

  // Of the statement of the info's tickets: one that runs is told to stop, one that has not begun
  // never will; one that has ended, or was nobody's, cannot be cancelled.
  flightsql::CancelOutcome StopTickets(const flight::FlightInfo& info, const CallContext& call) {
    auto outcome = flightsql::CancelOutcome::kNotCancellable;
    for (const flight::FlightEndpoint& endpoint : info.endpoints()) {
      const auto command = flightsql::ParseCommand(endpoint.ticket.ticket);
      const auto* ticket = command ? std::get_if<flightsql::StatementTicket>(&*command) : nullptr;
      if (ticket == nullptr) continue;
      if (tickets_.Remove(ticket->handle, call.caller.owner)) {
        outcome = flightsql::CancelOutcome::kCancelled;
      }
      if (running_.Stop(call.caller.owner, ticket->handle)) {
        outcome = flightsql::CancelOutcome::kCancelling;
      }
    }
    return outcome;
  }

  arrow::Status CancelQuery(std::string_view body, const CallContext& call,
                            std::unique_ptr<flight::ResultStream>* result) {
    const auto serialised = flightsql::ParseCancelQuery(body);
    if (!serialised) return Told(serialised.error(), call);
    std::unique_ptr<flight::FlightInfo> info;
    ARROW_RETURN_NOT_OK(flight::FlightInfo::Deserialize(*serialised, &info));
    return Reply(flightsql::PackCancelResult(StopTickets(*info, call)), result);
  }

  arrow::Status CancelFlightInfo(std::string_view body, const CallContext& call,
                                 std::unique_ptr<flight::ResultStream>* result) {
    flight::CancelFlightInfoRequest request;
    ARROW_RETURN_NOT_OK(flight::CancelFlightInfoRequest::Deserialize(body, &request));
    flight::CancelFlightInfoResult outcome;
    using flightsql::CancelOutcome;
    const auto stopped =
        request.info ? StopTickets(*request.info, call) : CancelOutcome::kNotCancellable;
    outcome.status = stopped == CancelOutcome::kCancelling  ? flight::CancelStatus::kCancelling
                     : stopped == CancelOutcome::kCancelled ? flight::CancelStatus::kCancelled
                                                            : flight::CancelStatus::kNotCancellable;
    std::string bytes;
    ARROW_RETURN_NOT_OK(outcome.SerializeToString(&bytes));
    return Reply(std::move(bytes), result);
  }

  arrow::Status SessionAction(const flight::ServerCallContext& context, const std::string& type,
                              std::string_view body, CallContext& call,
                              std::unique_ptr<flight::ResultStream>* result) {
    if (type == flight::ActionType::kSetSessionOptions.type) {
      return SetOptions(context, body, call, result);
    }
    if (type == flight::ActionType::kGetSessionOptions.type) return GetOptions(call, result);
    if (type == flight::ActionType::kCloseSession.type) return CloseSession(call, result);
    return Told(Error{Code::kUnsupported, "there is no action \"" + type + "\"", {}, {}}, call);
  }

  arrow::Status SetOptions(const flight::ServerCallContext& context, std::string_view body,
                           CallContext& call, std::unique_ptr<flight::ResultStream>* result) {
    flight::SetSessionOptionsRequest request;
    ARROW_RETURN_NOT_OK(flight::SetSessionOptionsRequest::Deserialize(body, &request));
    if (call.session.empty()) {
      const auto opened = services_.sessions.Open(call.caller);
      if (!opened) return Told(opened.error(), call);
      call.session = *opened;
      context.AddHeader("set-cookie", std::string(kSessionCookie) + "=" + call.session +
                                          (tls_ ? "; Secure" : "") + "; HttpOnly");
    }
    flight::SetSessionOptionsResult outcome;
    for (const auto& [name, value] : request.session_options) {
      if (const auto problem = SetOption(name, value, call)) outcome.errors[name] = {*problem};
    }
    std::string bytes;
    ARROW_RETURN_NOT_OK(outcome.SerializeToString(&bytes));
    return Reply(std::move(bytes), result);
  }

  // The problem, if there is one.
  std::optional<flight::SetSessionOptionErrorValue> SetOption(
      const std::string& name, const flight::SessionOptionValue& value, const CallContext& call) {
    using enum flight::SetSessionOptionErrorValue;
    if (name != "catalog" && name != "schema") return kInvalidName;
    const auto* text = std::get_if<std::string>(&value);
    const bool unset = std::holds_alternative<std::monostate>(value);
    if (text == nullptr && !unset) return kInvalidValue;
    const bool valid =
        unset ||
        (name == "catalog" ? services_.executor.access().ChooseCatalog(*text, call).has_value()
                           : sql::ParseTableName(*text).has_value());
    if (!valid) return kInvalidValue;
    const Status set = services_.sessions.SetOption(call.session, call.caller, name,
                                                    unset ? std::nullopt : std::optional(*text));
    return set ? std::nullopt : std::optional(kError);
  }

  arrow::Status GetOptions(const CallContext& call, std::unique_ptr<flight::ResultStream>* result) {
    flight::GetSessionOptionsResult outcome;
    if (!call.session.empty()) {
      const auto options = services_.sessions.Use(call.session, call.caller);
      if (!options) return Told(options.error(), call);
      for (const auto& [name, value] : *options) outcome.session_options[name] = value;
    }
    std::string bytes;
    ARROW_RETURN_NOT_OK(outcome.SerializeToString(&bytes));
    return Reply(std::move(bytes), result);
  }

  arrow::Status CloseSession(const CallContext& call,
                             std::unique_ptr<flight::ResultStream>* result) {
    if (call.session.empty()) {
      return Told(Error{Code::kNotFound, "there is no session to close", {}, {}}, call);
    }
    const Status closed = services_.sessions.Close(call.session, call.caller);
    if (!closed) return Told(closed.error(), call);
    flight::CloseSessionResult outcome(flight::CloseSessionStatus::kClosed);
    std::string bytes;
    ARROW_RETURN_NOT_OK(outcome.SerializeToString(&bytes));
    return Reply(std::move(bytes), result);
  }

  const Services services_;
  const std::shared_ptr<CallerFactory> callers_ =
      std::make_shared<CallerFactory>(services_.authenticator, services_.audit, services_.clock);
  StatementStore tickets_;
  StatementStore prepared_;
  RunningStatements running_;
  CallWatch watch_;
  bool tls_ = false;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::Start(const Services& services) {
  auto listener = std::make_unique<FlightListener>(services);
  LITHIFY_TRY(listener->Listen());
  return listener;
}

}  // namespace lithify::serve
