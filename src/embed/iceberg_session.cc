#include "embed/iceberg_session.h"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "catalog/sqlite_catalog.h"
#include "config/spill.h"
#include "rewrite/parquet_runner.h"

namespace lithify::embed {
namespace {

constexpr std::string_view kSqlite = "sqlite://";

// "sqlite:///lake/c.db" is the absolute path, as in SQLAlchemy's URLs with four slashes, too:
// "sqlite:////lake/c.db". A relative path is refused, since it would change with the directory.
Result<std::string> SqlitePath(const std::string& uri) {
  std::string path = uri.substr(kSqlite.size());
  if (!path.starts_with('/')) {
    return Fail(Code::kInvalid, "the path of a SQLite catalog must be absolute", uri,
                "write it like sqlite:///lake/catalog.db");
  }
  while (path.starts_with("//")) path.erase(0, 1);
  return path;
}

// Whether the section has anything that only the host that it was written for may be sent. A header
// may carry a key.
bool HasCredentials(const config::CatalogConfig& catalog) {
  return !catalog.token.empty() || !catalog.client_id.empty() || !catalog.client_secret.empty() ||
         !catalog.oauth2_server_uri.empty() || !catalog.scope.empty() || !catalog.headers.empty();
}

bool SameOrigin(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const auto first = net::UrlOrigin(one);
  const auto second = net::UrlOrigin(other);
  return first && second && *first == *second;
}

// One log per REST catalog and user.
std::string RestLogName(std::string_view uri) {
  std::string host(uri.substr(uri.find("://") + 3));
  host = host.substr(0, host.find_first_of("/?#"));
  std::ranges::replace(host, ':', '_');
  return host + ".audit.jsonl";
}

// Locations without the files of this machine.
class BucketLocations final : public storage::Locations {
 public:
  explicit BucketLocations(std::unique_ptr<storage::Locations> all) : all_(std::move(all)) {}

  Result<storage::Place> Resolve(std::string_view location) override {
    LITHIFY_TRY(Check(location));
    return all_->Resolve(location);
  }
  Result<std::string> Canonical(std::string_view location) override {
    LITHIFY_TRY(Check(location));
    return all_->Canonical(location);
  }

 private:
  static Status Check(std::string_view location) {
    for (const std::string_view scheme : {"s3://", "s3a://", "s3n://"}) {
      if (location.starts_with(scheme)) return {};
    }
    return Fail(Code::kDenied, "only files in buckets are used for others", std::string(location),
                "files of this machine need server.local_files = true");
  }

  const std::unique_ptr<storage::Locations> all_;
};

}  // namespace

bool IsSqliteCatalog(std::string_view uri) { return uri.starts_with(kSqlite); }

bool IsRestCatalog(std::string_view uri) {
  return uri.starts_with("http://") || uri.starts_with("https://");
}

std::string StatePath(const std::string& file_name) {
  const char* state = std::getenv("XDG_STATE_HOME");  // NOLINT(concurrency-mt-unsafe)
  const char* home = std::getenv("HOME");             // NOLINT(concurrency-mt-unsafe)
  const std::string base = state != nullptr && *state == '/' ? std::string(state)
                           : home != nullptr                 ? std::string(home) + "/.local/state"
                                                             : std::string("/var/tmp");
  return base + "/lithify/" + file_name;
}

Result<TableName> ParseTableName(std::string_view text) {
  LITHIFY_TRY_ASSIGN(auto parsed, catalog::ParseTableIdent(text));
  // The first part is the catalog; a table without a namespace is in "default" (R064).
  std::vector<std::string> parts = std::move(parsed.namespace_parts);
  const bool bare = text.find('.') == std::string_view::npos;
  if (bare) {
    return Fail(Code::kInvalid, "a table is named by its catalog first", std::string(text),
                "write it like lake.sales.orders");
  }
  TableName name{.catalog = parts.front(), .ident = {}};
  parts.erase(parts.begin());
  if (parts.empty()) parts.emplace_back("default");
  name.ident.namespace_parts = std::move(parts);
  name.ident.name = std::move(parsed.name);
  return name;
}

Result<config::CatalogConfig> ChooseCatalog(const config::HiveConfig& config,
                                            const std::string& name, const std::string& uri,
                                            const std::string& warehouse) {
  config::CatalogConfig chosen;
  chosen.name = name;
  const auto found = std::ranges::find(config.catalogs, name, &config::CatalogConfig::name);
  if (found != config.catalogs.end()) chosen = *found;
  if (!uri.empty() && HasCredentials(chosen) && !SameOrigin(uri, chosen.uri)) {
    return Fail(Code::kInvalid,
                "the credentials of [catalogs." + name + "] are for " +
                    net::UrlForMessages(chosen.uri) + " and are not sent to " +
                    net::UrlForMessages(uri),
                "--catalog-uri",
                "name the table by a catalog that is not configured, or give the other host a "
                "[catalogs.…] section of its own");
  }
  if (!uri.empty()) chosen.uri = uri;
  if (!warehouse.empty()) chosen.warehouse = warehouse;
  if (!chosen.uri.empty()) return chosen;
  std::string known;
  for (const config::CatalogConfig& catalog : config.catalogs) {
    known += (known.empty() ? "" : ", ") + catalog.name;
  }
  return Fail(
      Code::kInvalid,
      "no catalog \"" + name + "\" is configured" + (known.empty() ? "" : "; there are: " + known),
      {},
      "give --catalog-uri sqlite:///path/to/catalog.db or https://host/…, or a "
      "[catalogs." +
          name + "] section in the configuration file");
}

Status IcebergSession::OpenCatalog(const config::CatalogConfig& catalog, const Call& call) {
  std::string beside;
  std::string path;
  if (IsSqliteCatalog(catalog.uri)) {
    LITHIFY_TRY_ASSIGN(path, SqlitePath(catalog.uri));
    beside = path + ".audit.jsonl";
  } else if (IsRestCatalog(catalog.uri)) {
    beside = StatePath(RestLogName(catalog.uri));
  } else {
    return Fail(Code::kInvalid, "a catalog's URI begins with sqlite://, http:// or https://",
                catalog.uri);
  }
  if (audit_path_.empty()) audit_path_ = std::move(beside);
  LITHIFY_TRY_ASSIGN(audit_, OpenAuditFile(config_.audit_log, audit_path_, call.on_audit_error));
  return path.empty() ? OpenRest(catalog, call) : OpenSqlite(catalog, path);
}

// Where there is no catalog at all, there is no place for its log, and nobody who refused.
void IcebergSession::AuditRefusal(const Call& call, const std::string& catalog_uri,
                                  const Error& error) {
  const bool refused =
      error.code == Code::kDenied || (error.code == Code::kNotFound && IsRestCatalog(catalog_uri));
  if (!refused || !audit_) return;
  observe::AuditEvent event;
  event.phase = observe::AuditEvent::Phase::kAborted;
  event.time = clock_.Now();
  event.job_id = MakeUuidV7(clock_, random_);
  event.procedure = call.procedure;
  event.table = call.ident.ToString();
  event.catalog = net::UrlForMessages(catalog_uri);
  event.actor = call.principal;
  event.error = error.ToString();
  // The refusal is what the caller is told, also where it cannot be written down.
  static_cast<void>(audit_->Append(event));
}

Status IcebergSession::OpenSqlite(const config::CatalogConfig& catalog, const std::string& path) {
  LITHIFY_TRY_ASSIGN(catalog_, catalog::OpenSqliteCatalog({.path = path,
                                                           .catalog_name = catalog.name,
                                                           .or_the_only_one = true,
                                                           .warehouse = catalog.warehouse},
                                                          *locations_, clock_, random_));
  return {};
}

Status IcebergSession::OpenRest(const config::CatalogConfig& catalog, const Call& call) {
  net::HttpOptions http;
  http.stop = call.stop;
  LITHIFY_TRY_ASSIGN(http_, net::OpenHttpClient(std::move(http)));
  if (call.tokens) {
    tokens_ = call.tokens;
  } else if (!catalog.token.empty()) {
    tokens_ = std::make_unique<net::StaticToken>(catalog.token);
  } else if (!catalog.client_id.empty()) {
    std::string endpoint = catalog.oauth2_server_uri;
    if (endpoint.empty()) {
      endpoint = catalog.uri + (catalog.uri.ends_with('/') ? "" : "/") + "v1/oauth/tokens";
    }
    net::ClientCredentials credentials;
    credentials.token_endpoint = std::move(endpoint);
    credentials.client_id = catalog.client_id;
    credentials.client_secret = catalog.client_secret;
    credentials.scope = catalog.scope;
    // The catalog's own endpoint takes form fields; an identity provider takes either.
    credentials.authentication = net::ClientCredentials::Authentication::kForm;
    tokens_ = net::MakeClientCredentialsSource(std::move(credentials), *http_, clock_);
  }
  catalog::RestOptions options;
  options.uri = catalog.uri;
  options.warehouse = catalog.warehouse;
  options.headers = catalog.headers;
  options.stop = call.stop;
  options.cache = call.cache;
  LITHIFY_TRY_ASSIGN(auto opened,
                     catalog::OpenRestCatalog(options, *http_, tokens_.get(), clock_, random_));
  rest_ = opened.get();
  catalog_ = std::move(opened);
  lending_options_ = std::move(options);
  lending_options_.vended_credentials = true;
  return {};
}

// Answers with credentials are not kept, so that the other calls do not ask for any.
Result<catalog::LoadedTable> IcebergSession::Borrow(const catalog::TableIdent& ident) {
  if (!lending_) {
    LITHIFY_TRY_ASSIGN(lending_, catalog::OpenRestCatalog(lending_options_, *http_, tokens_.get(),
                                                          clock_, random_));
  }
  return lending_->LoadTable(ident);
}

Result<std::unique_ptr<IcebergSession>> IcebergSession::Open(const config::HiveConfig& config,
                                                             const config::CatalogConfig& catalog,
                                                             const Call& call,
                                                             const Environment& environment) {
  std::unique_ptr<IcebergSession> session(new IcebergSession(config));
  session->audit_path_ = config.audit_log.path;
  session->fleet_ = call.fleet;
  session->telemetry_ = call.telemetry;
  session->trace_ = call.trace;
  TableBuckets::Lender lender;
  if (IsRestCatalog(catalog.uri) && catalog.vended_credentials) {
    lender = [raw = session.get(), ident = call.ident]() -> Result<catalog::LoadedTable> {
      auto lent = raw->Borrow(ident);
      if (!lent) return Fail(std::move(lent.error()).In(kAskedToLend));
      return lent;
    };
  }
  session->buckets_ = std::make_unique<TableBuckets>(config.s3, environment, std::move(lender),
                                                     session->clock_, session->random_);
  session->buckets_->StopWhen(call.stop);
  if (call.only_lent_storage) session->buckets_->OnlyLent();
  session->locations_ = storage::MakeLakeLocations(
      [buckets = session->buckets_.get()](const std::string& bucket, const std::string& location) {
        return buckets->Open(bucket, location);
      },
      {.direct = config.direct_io});
  if (call.no_local_files) {
    session->locations_ = std::make_unique<BucketLocations>(std::move(session->locations_));
  }
  if (call.around_storage) {
    session->locations_ =
        call.around_storage(std::move(session->locations_),
                            [buckets = session->buckets_.get()](std::string_view location) {
                              return buckets->Describe(location);
                            });
  }
  if (Status opened = session->OpenCatalog(catalog, call); !opened) {
    session->AuditRefusal(call, catalog.uri, opened.error());
    return Fail(std::move(opened.error()));
  }
  if (call.guard) session->guard_ = call.guard(*session->catalog_);
  return session;
}

job::IcebergJob IcebergSession::MakeJob(observe::Progress& progress, const std::string& principal,
                                        const std::string& job_id) {
  job::IcebergSettings settings;
  settings.principal = principal;
  settings.job_id = job_id;
  return MakeJob(progress, std::move(settings));
}

job::IcebergJob IcebergSession::MakeJob(observe::Progress& progress,
                                        job::IcebergSettings settings) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (!settings.trace.valid()) settings.trace = trace_;
  settings.verify = config_.verify;
  settings.threads = config_.jobs > 0 ? config_.jobs : cores;
  settings.memory_bytes = config_.memory_bytes;
  settings.spill_directory = config::SpillDirectoryOf(config_.spill_directory);
  settings.spill_bytes_max = config_.spill_bytes_max;
  return {Services(progress), std::move(settings)};
}

job::IcebergServices IcebergSession::Services(observe::Progress& progress) {
  return {.catalog = catalog(),
          .locations = *locations_,
          .make_runner =
              [memory = config_.memory_bytes](storage::Store& store) {
                return rewrite::MakeParquetRunner(store, memory);
              },
          .clock = clock_,
          .random = random_,
          .audit = *audit_,
          .progress = progress,
          .fleet = fleet_,
          .telemetry = telemetry_,
          .loans = [this](const catalog::TableIdent&) { return buckets_->Lend(); }};
}

}  // namespace lithify::embed
