#include "maintain/table_sessions.h"

#include <memory>
#include <utility>

#include "embed/iceberg_session.h"
#include "maintain/refusal.h"

namespace lithify::maintain {
namespace {

// What looks keep from tick to tick.
constexpr catalog::TableCache::Bounds kLookedAt{.tables = 20'000, .bytes = size_t{256} << 20};

// A job's: within the rules of its table, the catalog that tells its refusals.
class JobCatalog final : public catalog::ForwardingCatalog {
 public:
  JobCatalog(catalog::Catalog& catalog, OptInCatalog::Rules rules)
      : ForwardingCatalog(static_cast<catalog::Catalog&>(opted_in_)),
        telling_(catalog),
        opted_in_(telling_, std::move(rules)) {}

 private:
  RefusalCatalog telling_;
  OptInCatalog opted_in_;
};

// Where sessions are opened, which outlives them.
struct Ground {
  config::HiveConfig config;
  config::CatalogConfig catalog;
  embed::Environment environment;
};

class PrincipalSession final : public TableSession {
 public:
  using Call = embed::IcebergSession::Call;

  static Result<std::unique_ptr<TableSession>> Open(const Ground& ground, Call call,
                                                    std::unique_ptr<JobCredential> credential) {
    call.around_storage = MakeRefusalLocations;
    if (!call.guard) {
      call.guard = [](catalog::Catalog& inner) -> std::unique_ptr<catalog::Catalog> {
        return std::make_unique<RefusalCatalog>(inner);
      };
    }
    auto session =
        embed::IcebergSession::Open(ground.config, ground.catalog, call, ground.environment);
    if (!session) return Fail(OfCatalog(std::move(session.error())));
    call.guard = {};  // It has what was lent to it for one opening.
    return std::unique_ptr<TableSession>(
        new PrincipalSession(ground, std::move(call), std::move(credential), std::move(*session)));
  }

  catalog::Catalog& catalog() override { return session_->catalog(); }
  catalog::RestCatalog* rest() override { return session_->rest(); }
  Result<std::unique_ptr<TableSession>> ForReading(const catalog::TableIdent& ident) override {
    Call call = call_;
    call.ident = ident;
    return Open(ground_, std::move(call), nullptr);
  }
  storage::Locations& locations() override { return session_->locations(); }
  job::IcebergJob MakeJob(observe::Progress& progress, job::IcebergSettings settings) override {
    return session_->MakeJob(progress, std::move(settings));
  }
  job::IcebergServices Services(observe::Progress& progress) override {
    return session_->Services(progress);
  }

 private:
  PrincipalSession(const Ground& ground, Call call, std::unique_ptr<JobCredential> credential,
                   std::unique_ptr<embed::IcebergSession> session)
      : ground_(ground),
        call_(std::move(call)),
        credential_(std::move(credential)),
        session_(std::move(session)) {}

  const Ground& ground_;
  const Call call_;
  // Outlives the session that uses it, and ends with it. Null: the catalog knows no identities, or
  // it is another session's.
  const std::unique_ptr<JobCredential> credential_;
  const std::unique_ptr<embed::IcebergSession> session_;
};

class PrincipalSessions final : public TableSessions {
 public:
  PrincipalSessions(Ground ground, const Principal* principal, group::Fleet* fleet,
                    observe::Telemetry* telemetry)
      : ground_(std::move(ground)), principal_(principal), fleet_(fleet), telemetry_(telemetry) {}

  Result<std::unique_ptr<TableSession>> Open(const SessionRequest& request) override {
    embed::IcebergSession::Call call;
    call.procedure = request.procedure;
    call.ident = request.ident;
    call.principal = actor();
    call.stop = request.stop;
    call.fleet = fleet_;
    call.telemetry = telemetry_;
    if (request.looks_around) call.cache = looked_at_;
    std::unique_ptr<JobCredential> credential;
    if (principal_ != nullptr) {
      auto minted = principal_->Mint(request.job_id);
      if (!minted) return Fail(std::move(minted.error()).In(kPrincipalToken));
      credential = std::make_unique<JobCredential>(std::move(*minted));
      call.tokens = credential->tokens();
    }
    if (request.opted_in) {
      call.guard = [&request, lent = credential.get()](
                       catalog::Catalog& inner) -> std::unique_ptr<catalog::Catalog> {
        OptInCatalog::Rules rules{.ident = request.ident,
                                  .is_opted_in = request.opted_in,
                                  .property = request.property,
                                  .renew = {},
                                  .may_commit = request.may_commit};
        if (lent != nullptr) {
          rules.renew = [lent]() -> Status { return lent->Renew(kCommitTokenLife); };
        }
        return std::make_unique<JobCatalog>(inner, std::move(rules));
      };
    }
    return PrincipalSession::Open(ground_, std::move(call), std::move(credential));
  }

  std::string actor() const override {
    return principal_ != nullptr ? principal_->user_id() : std::string("lithify");
  }

 private:
  const Ground ground_;
  const Principal* const principal_;
  group::Fleet* const fleet_;
  observe::Telemetry* const telemetry_;
  const std::shared_ptr<catalog::TableCache> looked_at_ =
      std::make_shared<catalog::TableCache>(kLookedAt);
};

}  // namespace

std::unique_ptr<TableSessions> MakeTableSessions(const config::HiveConfig& config,
                                                 const config::CatalogConfig& catalog,
                                                 const Principal* principal,
                                                 embed::Environment environment, int threads,
                                                 group::Fleet* fleet,
                                                 observe::Telemetry* telemetry) {
  config::HiveConfig own = config;
  own.jobs = threads;
  config::CatalogConfig bare = catalog;
  if (principal != nullptr) {
    // Whatever the section has for the command line's users is not the principal's to use.
    bare.token = {};
    bare.client_id.clear();
    bare.client_secret = {};
    std::erase_if(bare.headers,
                  [](const auto& header) { return net::MayBeCredential(header.first); });
  }
  return std::make_unique<PrincipalSessions>(Ground{.config = std::move(own),
                                                    .catalog = std::move(bare),
                                                    .environment = std::move(environment)},
                                             principal, fleet, telemetry);
}

}  // namespace lithify::maintain
