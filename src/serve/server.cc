#include "serve/server.h"

#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "embed/audit.h"
#include "embed/environment.h"
#include "serve/audit_trail.h"
#include "serve/executor.h"
#include "serve/health.h"
#include "serve/identity.h"
#include "serve/job_registry.h"
#include "serve/listener.h"
#include "serve/sessions.h"
#include "serve/status_page.h"
#include "serve/table_access.h"

namespace lithify::serve {
namespace {

using Told = std::function<void(const Error&)>;

// Members in the order in which they need each other.
class FlightSqlServer final : public Server {
 public:
  FlightSqlServer(config::HiveConfig config, std::string version, Told told)
      : config_(std::move(config)),
        version_(std::move(version)),
        told_([this, told = std::move(told)](const Error& error) {
          audit_fails_ = true;
          told(error);
        }),
        jobs_({.running_per_owner = static_cast<size_t>(config_.server.jobs_per_user_max),
               .running = static_cast<size_t>(config_.server.jobs_max)},
              clock_, random_),
        sessions_({.idle = config_.server.session_idle, .absolute = config_.server.session_max},
                  clock_, random_) {}

  Status Assemble(job::TableSightings* sightings, group::Fleet* fleet) {
    fleet_ = fleet;
    LITHIFY_TRY_ASSIGN(auto access, TableAccess::Make(config_, clock_, told_, sightings, fleet));
    LITHIFY_TRY_ASSIGN(authenticator_, MakeAuthenticator(config_.auth, clock_, random_));
    executor_ = std::make_unique<Executor>(std::move(access), jobs_, clock_);
    return {};
  }

  std::vector<std::string> Warnings() const override { return authenticator_->Warnings(); }
  std::string catalogs() const override {
    std::string names;
    for (const std::string& name : executor_->access().catalogs()) {
      names += (names.empty() ? "" : ", ") + name;
    }
    return names;
  }

  Status Start() override {
    LITHIFY_TRY_ASSIGN(auto log,
                       embed::OpenAuditFile(config_.audit_log, config_.audit_log.path, told_));
    audit_ = std::make_unique<AuditTrail>(std::move(log), told_);
    LITHIFY_TRY_ASSIGN(listener_, Listener::Start({.config = config_.server,
                                                   .authenticator = *authenticator_,
                                                   .executor = *executor_,
                                                   .jobs = jobs_,
                                                   .sessions = sessions_,
                                                   .audit = *audit_,
                                                   .clock = clock_,
                                                   .random = random_,
                                                   .version = version_}));
    LITHIFY_TRY(StartProbes());
    const Status page = StartPage();
    if (!page) listener_->Stop();
    return page;
  }

  // After the other: what is asked has begun by then, and a probe that is not answered waits.
  Status StartProbes() {
    if (config_.server.health_listen.empty()) return {};
    auto probes =
        ListenForProbes(config_.server.health_listen, [this] { return listener_->draining(); });
    if (!probes) {
      listener_->Stop();
      return Fail(std::move(probes.error()));
    }
    probes_ = *std::move(probes);
    return {};
  }

  // Nobody asked for it where it is by default: a second server on the machine goes without.
  Status StartPage() {
    if (config_.server.page_listen.empty()) return {};
    auto page = StatusPage::Listen({.config = config_.server,
                                    .authenticator = *authenticator_,
                                    .access = executor_->access(),
                                    .jobs = jobs_,
                                    .audit = *audit_,
                                    .clock = clock_,
                                    .version = version_,
                                    .signs = !config_.audit_log.signing_key.empty(),
                                    .audit_fails = [this] { return audit_fails_.load(); },
                                    .fleet = fleet_});
    if (page) {
      page_ = *std::move(page);
      page_line_ = "lithify shows its status at " + page_->location();
      return {};
    }
    if (config_.server.page_listen != config::kPageListenDefault) {
      return Fail(std::move(page.error()));
    }
    page_line_ = "lithify shows no status page: " + page.error().ToString();
    return {};
  }

  std::string location() const override { return listener_->location(); }
  std::string probes() const override {
    return probes_ ? "http://" + probes_->address() : std::string();
  }
  std::string page() const override { return page_line_; }
  void Stop() override {
    page_.reset();  // Its questions are short, and asked again by whoever looks on.
    listener_->Stop();
    probes_.reset();  // It told that the server drains.
  }

 private:
  const config::HiveConfig config_;
  const std::string version_;
  std::atomic<bool> audit_fails_{false};
  const Told told_;
  SystemClock clock_;
  SystemRandom random_;
  JobRegistry jobs_;
  Sessions sessions_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<AuditTrail> audit_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<http::Listener> probes_;
  group::Fleet* fleet_ = nullptr;
  std::unique_ptr<StatusPage> page_;
  std::string page_line_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Make(const config::HiveConfig& config, std::string version,
                                             Told told, job::TableSightings* sightings,
                                             group::Fleet* fleet) {
  config::HiveConfig own = config;
  // One log for all that the server does, whatever catalog it is in.
  if (own.audit_log.path.empty()) own.audit_log.path = embed::StatePath("server.audit.jsonl");
  auto server =
      std::make_unique<FlightSqlServer>(std::move(own), std::move(version), std::move(told));
  LITHIFY_TRY(server->Assemble(sightings, fleet));
  return server;
}

}  // namespace lithify::serve
