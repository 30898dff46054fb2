#include "serve/table_access.h"

#include <algorithm>
#include <cctype>
#include <thread>
#include <utility>

#include "serve/sighting_catalog.h"
#include "serve/token_life_catalog.h"

namespace lithify::serve {
namespace {

std::string Join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

// The keys of a catalog's section that would be a credential of this server.
std::vector<std::string> CredentialsIn(const config::CatalogConfig& catalog) {
  const std::string section = "catalogs." + catalog.name + ".";
  std::vector<std::string> keys;
  if (!catalog.token.empty()) keys.push_back(section + "token");
  if (!catalog.client_id.empty()) keys.push_back(section + "client_id");
  if (!catalog.client_secret.empty()) keys.push_back(section + "client_secret");
  for (const auto& [name, value] : catalog.headers) {
    if (net::MayBeCredential(name)) keys.push_back(section + "headers: " + name);
  }
  const size_t host = catalog.uri.find("://");
  const size_t path = host == std::string::npos ? host : catalog.uri.find('/', host + 3);
  if (embed::IsRestCatalog(catalog.uri) &&
      catalog.uri.substr(0, path).find('@') != std::string::npos) {
    keys.push_back(section + "uri (its user)");
  }
  return keys;
}

std::vector<std::string> ProblemsOf(const config::HiveConfig& config) {
  std::vector<std::string> problems;
  if (config.catalogs.empty()) {
    problems.emplace_back(
        "there is no [catalogs.NAME] section: name at least one catalog to serve");
  }
  const std::string& chosen = config.server.catalog;
  if (!chosen.empty() && std::ranges::find(config.catalogs, chosen, &config::CatalogConfig::name) ==
                             config.catalogs.end()) {
    problems.push_back("server.catalog: there is no [catalogs." + chosen + "]");
  }
  std::vector<std::string> keys;
  for (const config::CatalogConfig& catalog : config.catalogs) {
    for (std::string& key : CredentialsIn(catalog)) keys.push_back(std::move(key));
    if (embed::IsSqliteCatalog(catalog.uri) && !config.server.local_files) {
      problems.push_back(
          "catalogs." + catalog.name +
          ": a SQLite catalog knows no users: whoever connects works with the rights "
          "of this process; set server.local_files = true if that is meant");
    }
  }
  if (!config.s3.access_key_id.empty()) keys.emplace_back("s3.access_key_id");
  if (!config.s3.secret_access_key.empty()) keys.emplace_back("s3.secret_access_key");
  if (!config.s3.session_token.empty()) keys.emplace_back("s3.session_token");
  for (const std::string& key : keys) {
    problems.push_back(key +
                       ": the interactive server has no credential of its own (R001); remove "
                       "it, callers bring theirs");
  }
  return problems;
}

// The lower bound counts; a caller's 0 bounds nothing.
template <typename T>
T Lower(T server, T caller) {
  if (caller <= 0) return server;
  return server <= 0 ? caller : std::min(server, caller);
}

config::HiveConfig Within(const config::HiveConfig& config, const CallLimits& limits) {
  config::HiveConfig out = config;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  out.jobs = Lower(config.jobs > 0 ? config.jobs : cores, limits.jobs);
  out.memory_bytes = Lower(config.memory_bytes, limits.memory_bytes);
  if (limits.verify == "counts") out.verify = rewrite::Verify::kCounts;
  if (limits.verify == "sample") out.verify = rewrite::Verify::kSample;
  if (limits.verify == "full") out.verify = rewrite::Verify::kFull;
  return out;
}

}  // namespace

Result<Secret> CallerToken::Token() {
  if (refused())
    return Fail(Code::kDenied, "the catalog does not take the caller's token (any more)");
  return token_;
}

Status CallerToken::Invalidate(const Secret&) {
  refused_.store(true, std::memory_order_relaxed);
  return Fail(Code::kDenied, "the catalog does not take the caller's token", {},
              "log in again: it may have run out, be revoked, or be for another audience");
}

Result<TableAccess> TableAccess::Make(const config::HiveConfig& config, const Clock& clock,
                                      embed::AuditErrorHandler audit_failed,
                                      job::TableSightings* sightings, group::Fleet* fleet) {
  const std::vector<std::string> problems = ProblemsOf(config);
  if (problems.empty()) {
    return TableAccess(config, clock, std::move(audit_failed), sightings, fleet);
  }
  std::string message = "the configuration does not do for a server:";
  for (const std::string& problem : problems) message += "\n  " + problem;
  return Fail(Code::kInvalid, message);
}

Status TableAccess::CheckToken(const CallContext& call) const {
  return CheckTokenLife(call.caller, clock_->Now(), kCommitTokenLife);
}

const config::CatalogConfig* TableAccess::Find(const std::string& name) const {
  const auto at = std::ranges::find(config_.catalogs, name, &config::CatalogConfig::name);
  return at == config_.catalogs.end() ? nullptr : &*at;
}

int TableAccess::Threads(const CallLimits& limits) const { return Within(config_, limits).jobs; }

std::vector<std::string> TableAccess::catalogs() const {
  std::vector<std::string> names;
  for (const config::CatalogConfig& catalog : config_.catalogs) names.push_back(catalog.name);
  std::ranges::sort(names);
  return names;
}

Result<std::string> TableAccess::ChooseCatalog(const std::string& name,
                                               const CallContext& call) const {
  std::string chosen = name;
  if (chosen.empty()) chosen = call.catalog;
  if (chosen.empty()) chosen = config_.server.catalog;
  if (chosen.empty() && config_.catalogs.size() == 1) chosen = config_.catalogs.front().name;
  if (chosen.empty()) {
    return Fail(Code::kInvalid,
                "which catalog is meant is not said; there are: " + Join(catalogs()), {},
                "write it before the namespace, as in " + catalogs().front() + ".sales.orders");
  }
  if (Find(chosen) != nullptr) return chosen;
  return Fail(Code::kNotFound,
              "there is no catalog \"" + chosen + "\"; there are: " + Join(catalogs()));
}

Result<ResolvedTable> TableAccess::Resolve(const std::vector<std::string>& parts,
                                           const CallContext& call) const {
  ResolvedTable out;
  std::vector<std::string> rest = parts;
  const bool named = rest.size() > 2 && Find(rest.front()) != nullptr;
  LITHIFY_TRY_ASSIGN(out.catalog, ChooseCatalog(named ? rest.front() : std::string(), call));
  if (named) rest.erase(rest.begin());
  if (rest.empty() || rest.back().empty()) return Fail(Code::kInvalid, "a table needs a name");
  out.ident.name = std::move(rest.back());
  rest.pop_back();
  if (rest.empty()) rest = call.schema;
  if (rest.empty()) rest = {"default"};
  out.ident.namespace_parts = std::move(rest);
  return out;
}

Result<std::unique_ptr<embed::IcebergSession>> TableAccess::Open(
    const std::string& catalog, const std::string& procedure, const catalog::TableIdent& ident,
    const CallContext& call, std::function<bool()> stop, const CallLimits& limits) const {
  const config::CatalogConfig* chosen = Find(catalog);
  if (chosen == nullptr) return Fail(Code::kNotFound, "there is no catalog \"" + catalog + "\"");
  embed::IcebergSession::Call opened;
  opened.procedure = procedure;
  opened.ident = ident;
  opened.principal = call.caller.name;
  opened.stop = std::move(stop);
  // Without a token no header is sent at all: an empty one would be a malformed request.
  if (!call.token->anonymous()) opened.tokens = call.token;
  // Q14: nothing is sent that the token might not outlive.
  opened.guard = [this, &call,
                  &catalog](catalog::Catalog& inner) -> std::unique_ptr<catalog::Catalog> {
    auto guarded = std::make_unique<TokenLifeCatalog>(inner, call.caller, *clock_);
    if (sightings_ == nullptr) return guarded;
    return std::make_unique<SightingCatalog>(std::move(guarded), catalog, *sightings_, *clock_);
  };
  opened.fleet = fleet_;
  opened.trace = call.trace;
  opened.on_audit_error = audit_failed_;
  opened.only_lent_storage = true;
  opened.no_local_files = !config_.server.local_files;
  return embed::IcebergSession::Open(Within(config_, limits), *chosen, opened, {});
}

}  // namespace lithify::serve
