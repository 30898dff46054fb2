#include "serve/status_page.h"

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "net/address.h"
#include "page/assets.h"
#include "serve/status_data.h"
#include "storage/read_whole.h"
#include "storage/secret_file.h"

namespace lithify::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBatchMax = 500;
// Of one answer; a catalog of many tables is asked for in batches.
constexpr auto kAnswerTime = std::chrono::minutes(2);
constexpr unsigned kConnectionsMax = 64;
constexpr unsigned kConnectionsOfAddress = 32;  // A proxy may have one for all of its clients.
constexpr auto kConnectionLife = kAnswerTime + std::chrono::minutes(1);
// Questions about tables at a time. The page asks three.
constexpr size_t kQuestionsMax = 32;
constexpr size_t kQuestionsOfCaller = 8;

// No other site's page may read, embed or open what is here.
const std::vector<std::pair<std::string, std::string>> kHeaders = {
    {"Content-Security-Policy", std::string(page::kContentPolicy)},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Frame-Options", "DENY"},
};

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int StatusOf(Code code, bool known) {
  switch (code) {
    case Code::kInvalid: return 400;
    case Code::kDenied: return known ? 403 : 401;
    case Code::kNotFound: return 404;
    case Code::kTransient:
    case Code::kCancelled:
    case Code::kLimit: return 503;
    default: return 500;
  }
}

// `known`: the caller is, and what is wrong is another thing.
http::Response ErrorAnswer(const Error& error, bool known) {
  http::Response answer{
      .status = StatusOf(error.code, known),
      .body = Dump(
          {{"error",
            {{"code", CodeName(error.code)}, {"message", error.message}, {"hint", error.hint}}}}),
      .content_type = "application/json",
      .headers = kHeaders};
  if (answer.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

Result<std::string> One(const http::Request& request, const char* name) {
  auto values = request.Values(name);
  if (values.size() == 1) return std::move(values.front());
  return Fail(Code::kInvalid, std::string("one parameter \"") + name + "\" is needed");
}

Result<std::vector<std::string>> NamespaceOf(const http::Request& request) {
  auto parts = request.Values("namespace");
  if (!parts.empty()) return parts;
  return Fail(Code::kInvalid, "a parameter \"namespace\" is needed, once for each of its parts");
}

Result<StatusData::Batch> BatchOf(const http::Request& request) {
  StatusData::Batch batch;
  LITHIFY_TRY_ASSIGN(batch.catalog, One(request, "catalog"));
  LITHIFY_TRY_ASSIGN(batch.namespace_parts, NamespaceOf(request));
  if (!request.Values("after").empty()) {
    LITHIFY_TRY_ASSIGN(batch.after, One(request, "after"));
  }
  batch.limit = kBatchMax;
  if (request.Values("limit").empty()) return batch;
  LITHIFY_TRY_ASSIGN(const std::string limit, One(request, "limit"));
  const char* end = limit.data() + limit.size();
  const auto [read, error] = std::from_chars(limit.data(), end, batch.limit);
  if (error != std::errc() || read != end || batch.limit < 1 || batch.limit > kBatchMax) {
    return Fail(Code::kInvalid, "\"limit\" is a number from 1 to " + std::to_string(kBatchMax));
  }
  return batch;
}

Result<ResolvedTable> TableOf(const http::Request& request) {
  ResolvedTable table;
  LITHIFY_TRY_ASSIGN(table.catalog, One(request, "catalog"));
  LITHIFY_TRY_ASSIGN(table.ident.namespace_parts, NamespaceOf(request));
  LITHIFY_TRY_ASSIGN(table.ident.name, One(request, "name"));
  return table;
}

// The address as it was asked for, but for secrets: there are none in it.
std::string Asked(const http::Request& request) {
  std::string text = "GET " + request.path;
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    text += separator + name + "=" + value;
    separator = '&';
  }
  return text;
}

Result<http::ListenerOptions> OptionsOf(const config::ServerConfig& config) {
  const auto parsed = net::ParseAddress(config.page_listen);
  if (!parsed) return Fail(parsed.error());
  http::ListenerOptions options;
  options.listen = config.page_listen;
  options.connections_max = kConnectionsMax;
  options.connections_per_address_max = kConnectionsOfAddress;
  options.connection_life = kConnectionLife;
  options.connection_bytes = 64 * size_t{1024};  // A token may be long.
  options.waits = true;
  options.known_hosts_only = true;
  options.hosts = {parsed->host};
  for (const std::string& host : config.page_hosts) options.hosts.push_back(host);
  if (!config.tls_client_ca_file.empty()) {
    // Whoever asks clients for certificates would have a way around them here.
    return Fail(Code::kInvalid, "the status page cannot ask for certificates of clients", {},
                "server.page_listen = \"\" where server.tls_client_ca_file is set");
  }
  // No name of a certificate is an address of this machine alone.
  if (net::IsLoopback(parsed->host)) return options;
  if (config.tls_cert_file.empty() && config.tls_key_file.empty()) {
    if (config.allow_plaintext) return options;
    return Fail(Code::kInvalid, "tokens would cross the network in plaintext", {},
                "give server.tls_cert_file and server.tls_key_file; behind something that speaks "
                "TLS set server.allow_plaintext = true");
  }
  LITHIFY_TRY_ASSIGN(options.tls_cert,
                     storage::ReadWhole(config.tls_cert_file, "server.tls_cert_file"));
  LITHIFY_TRY_ASSIGN(options.tls_key, storage::ReadSecretFile(config.tls_key_file));
  return options;
}

}  // namespace

// One question of a caller while it is answered.
struct StatusPage::Call {
  const http::Request& request;
  CallContext context;
  CancelFlag cancel;

  StatusData Data(const TableAccess& access) const { return {access, context, cancel}; }
};

StatusPage::StatusPage(Services services)
    : services_(std::move(services)),
      watch_(services_.clock),
      running_({.all = kQuestionsMax, .of_owner = kQuestionsOfCaller}) {}

StatusPage::~StatusPage() { ending_ = true; }

Result<std::unique_ptr<StatusPage>> StatusPage::Listen(Services services) {
  const std::string where = "server.page_listen = \"" + services.config.page_listen + "\"";
  auto options = OptionsOf(services.config);
  if (!options) return Fail(std::move(options.error()).In(where));
  std::unique_ptr<StatusPage> page(new StatusPage(std::move(services)));
  page->tls_ = !options->tls_cert.empty();
  auto listener = http::Listener::Start(*options, page->Routes());
  if (!listener) return Fail(std::move(listener.error()).In(where));
  page->listener_ = *std::move(listener);
  return page;
}

std::string StatusPage::location() const {
  return (tls_ ? "https://" : "http://") + listener_->address() + "/";
}

std::vector<http::Route> StatusPage::Routes() {
  std::vector<http::Route> routes;
  for (const page::Asset& asset : page::Assets()) {
    routes.push_back({std::string(asset.path), [&asset](const http::Request&) {
                        return http::Response{.body = std::string(asset.bytes),
                                              .content_type = std::string(asset.content_type),
                                              .headers = kHeaders};
                      }});
  }
  const auto answer = [&](const char* path, bool on_record, Make make) {
    routes.push_back({std::string("/api/v1/") + path,
                      [this, on_record, make = std::move(make)](const http::Request& request) {
                        return Answer(request, on_record, make);
                      }});
  };
  // What is of the caller alone, and asked for every other second, is not recorded.
  answer("server", false, [this](Call& call) { return ServerJson(call); });
  answer("jobs", false, [this](Call& call) -> Result<std::string> {
    return JobsJson(services_.jobs.List(call.context.caller), services_.clock.Now());
  });
  const TableAccess& access = services_.access;
  answer("tables", true, [&access](Call& call) -> Result<std::string> {
    if (call.request.Values("namespace").empty()) return call.Data(access).Tables();
    LITHIFY_TRY_ASSIGN(const auto catalog, One(call.request, "catalog"));
    LITHIFY_TRY_ASSIGN(const auto parts, NamespaceOf(call.request));
    return call.Data(access).TablesIn(catalog, parts);
  });
  answer("plan", true, [&access](Call& call) { return call.Data(access).Plan(); });
  answer("health", true, [&access](Call& call) -> Result<std::string> {
    LITHIFY_TRY_ASSIGN(const auto batch, BatchOf(call.request));
    return call.Data(access).Health(batch);
  });
  answer("table", true, [&access](Call& call) -> Result<std::string> {
    LITHIFY_TRY_ASSIGN(const auto table, TableOf(call.request));
    return call.Data(access).Table(table);
  });
  return routes;
}

http::Response StatusPage::Answer(const http::Request& request, bool on_record, const Make& make) {
  // A browser says whose page asks: no other site's needs to.
  const std::string_view site = request.Header("Sec-Fetch-Site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return ErrorAnswer(Error{Code::kDenied, "another site's page asks", {}, {}}, true);
  }
  bool known = false;
  auto made = MakeAnswer(request, on_record, make, known);
  http::Response answer = made ? http::Response{.body = *std::move(made),
                                                .content_type = "application/json",
                                                .headers = kHeaders}
                               : ErrorAnswer(made.error(), known);
  // Each question has the whole life of a connection, and its token is gone with it.
  answer.headers.emplace_back("Connection", "close");
  return answer;
}

Result<std::string> StatusPage::MakeAnswer(const http::Request& request, bool on_record,
                                           const Make& make, bool& known) {
  LITHIFY_TRY_ASSIGN(Credentials credentials, ParseAuthorization(request.Header("Authorization")));
  if (credentials.kind != Credentials::Kind::kBearer &&
      credentials.kind != Credentials::Kind::kNone) {
    return Fail(Code::kDenied, "credentials of this kind are not taken here", {},
                "send a bearer token");
  }
  LITHIFY_TRY_ASSIGN(Caller caller, services_.authenticator.Authenticate(credentials));
  Call call{.request = request, .context = {}, .cancel = {}};
  call.context.token = std::make_shared<CallerToken>(caller.token);
  call.context.caller = std::move(caller);
  call.context.client = request.client;
  const auto watched = watch_.Begin([this, &request] { return ending_ || request.gone(); },
                                    call.cancel, kAnswerTime);
  std::unique_ptr<RunningStatements::Slot> slot;
  known = true;
  if (on_record) {
    LITHIFY_TRY_ASSIGN(
        slot, running_.Begin(call.context.caller.owner, {}, [&call] { call.cancel.Request(); }));
  }
  const Duration began = services_.clock.Monotonic();
  auto made = make(call);
  if (watched->late() && !made && made.error().code == Code::kCancelled) {
    made = Fail(Code::kTransient, "the catalog takes too long to answer");
  }
  if (on_record) Record(call, request, made, services_.clock.Monotonic() - began);
  // The catalog may know better than who looked at the token here.
  known = !call.context.token->refused();
  if (made) return made;
  Error error = std::move(made.error());
  error.message = call.context.caller.token.HideIn(std::move(error.message));
  return Fail(std::move(error));
}

Result<std::string> StatusPage::ServerJson(const Call& call) const {
  const Caller& caller = call.context.caller;
  Json workers;
  if (services_.fleet != nullptr) {
    workers = Json::array();
    for (const group::FleetWorker& worker : services_.fleet->Workers()) {
      workers.push_back(
          {{"state", worker.state}, {"groups", worker.groups}, {"slots", worker.slots}});
    }
  }
  return Dump(
      {{"program", "lithify"},
       {"version", services_.version},
       {"caller",
        {{"name", caller.name}, {"verified", caller.verified}, {"anonymous", caller.anonymous}}},
       {"catalogs", services_.access.catalogs()},
       {"audit",
        {{"state", services_.audit_fails() ? "failing" : "writing"}, {"signed", services_.signs}}},
       {"workers", std::move(workers)}});
}

void StatusPage::Record(const Call& call, const http::Request& request,
                        const Result<std::string>& outcome, Duration took) {
  const Caller& caller = call.context.caller;
  observe::AuditEvent event;
  event.phase = observe::AuditEvent::Phase::kRecorded;
  event.kind = observe::AuditKind::kQuery;
  event.procedure = "status_page";
  event.time = services_.clock.Now();
  event.actor = caller.name;
  event.subject = caller.subject;
  event.roles = caller.roles;
  event.groups = caller.groups;
  event.client_ip = call.context.client;
  event.query_text = caller.token.HideIn(Asked(request));
  event.duration_ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  if (!outcome) {
    event.failed = true;
    event.error = caller.token.HideIn(outcome.error().ToString());
    event.error_code = CodeName(outcome.error().code);
  }
  services_.audit.Record(std::move(event));
}

}  // namespace lithify::serve
