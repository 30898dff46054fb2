#include "workers/open_fleet.h"

#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "fleet/calls.h"
#include "fleet/discovery.h"
#include "fleet/dispatcher.h"
#include "fleet/flight_link.h"
#include "fleet/seal.h"
#include "storage/read_whole.h"
#include "storage/secret_file.h"

namespace lithify::apps {
namespace {

Result<std::string> ReadPem(const std::string& path, const char* key) {
  if (path.empty()) return std::string();
  return storage::ReadWhole(path, key);
}

Result<std::unique_ptr<fleet::Discovery>> MakeDiscovery(const config::FleetConfig& config) {
  if (config.discovery == "dns") return fleet::MakeDnsDiscovery(config.dns, fleet::ResolveHost);
  if (config.discovery == "file") return fleet::MakeFileDiscovery(config.workers_file);
  return fleet::MakeListDiscovery(config.workers);
}

fleet::DispatcherOptions MakeOptions(const config::FleetConfig& config) {
  fleet::DispatcherOptions options;
  if (config.distribution == "local") options.distribution = group::Distribution::kLocal;
  if (config.distribution == "require") options.distribution = group::Distribution::kRequire;
  options.min_workers = config.min_workers;
  options.placement.max_inflight_groups_per_worker = config.max_inflight_groups_per_worker;
  options.placement.group_attempts = config.group_attempts;
  options.placement.hedge = config.hedge;
  options.times = {.silence = config.silence, .attempt = config.attempt};
  options.queue_file = config.queue_file;
  return options;
}

class Fleet final : public OpenedFleet {
 public:
  Status Open(const config::FleetConfig& config, std::function<void(const std::string&)> told) {
    Secret secret = config.secret;
    if (!config.secret_file.empty()) {
      auto read = storage::ReadSecretLine(config.secret_file);
      if (!read) return Fail(std::move(read.error()).In("fleet.secret_file"));
      secret = std::move(*read);
    }
    auto key = fleet::FleetKey::Make(std::move(secret), false);
    if (!key) return Fail(std::move(key.error()).In("fleet.secret"));
    fleet::FlightLinkOptions link;
    link.tls = !config.insecure_loopback;
    LITHIFY_TRY_ASSIGN(link.ca, ReadPem(config.tls_ca, "fleet.tls_ca"));
    LITHIFY_TRY_ASSIGN(link.client_cert, ReadPem(config.tls_cert, "fleet.tls_cert"));
    if (!config.tls_key.empty()) {
      auto pem = storage::ReadSecretFile(config.tls_key);
      if (!pem) return Fail(std::move(pem.error()).In("fleet.tls_key"));
      link.client_key = std::move(*pem);
    }
    // Workers that come and go cannot have certificates of their addresses: they show one of a
    // name.
    link.server_name = config.tls_server_name;
    if (link.server_name.empty() && config.discovery == "dns") {
      auto name = fleet::ParseWorkerAddress(config.dns);
      if (!name) return Fail(std::move(name.error()).In("fleet.dns"));
      link.server_name = name->host;
    }
    LITHIFY_TRY_ASSIGN(auto discovery, MakeDiscovery(config));
    const auto make_link = [this, link, key = std::move(*key)](const std::string& address) {
      fleet::FlightLinkOptions options = link;
      options.address = address;
      return fleet::OpenFlightLink(std::move(options), key, clock_, random_);
    };
    fleet::DispatcherServices services{
        .discovery = std::move(discovery),
        .make_link = make_link,
        .clock = clock_,
        .random = random_,
        .calls = std::make_unique<fleet::ThreadCalls>(fleet::CallThreads()),
        .on_job = {}};
    if (told) {
      services.on_job = [told = std::move(told)](const group::FleetStory& story) {
        for (const group::GroupStory& group : story.groups) {
          for (const std::string& failure : group.failures) {
            told("job " + story.job_id + ", group " + std::to_string(group.number) + ": " +
                 failure);
          }
        }
        for (const std::string& note : story.notes) told("job " + story.job_id + ": " + note);
      };
    }
    dispatcher_.emplace(std::move(services), MakeOptions(config));
    return {};
  }

  group::Fleet& fleet() override { return *dispatcher_; }
  void Stop() override { dispatcher_->Stop(); }

 private:
  SystemClock clock_;
  SystemRandom random_;
  std::optional<fleet::Dispatcher> dispatcher_;
};

}  // namespace

Result<std::unique_ptr<OpenedFleet>> OpenFleet(const config::FleetConfig& config,
                                               std::function<void(const std::string&)> told) {
  if (!config.configured()) return nullptr;
  auto fleet = std::make_unique<Fleet>();
  LITHIFY_TRY(fleet->Open(config, std::move(told)));
  return fleet;
}

}  // namespace lithify::apps
