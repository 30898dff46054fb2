// lithify-worker: rewrites file groups for a coordinator, with the keys that come with each, and
// has nothing else: no catalog, no identity, no plan, no commit (docs/FLEET.md).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "config/spill.h"
#include "config/worker.h"
#include "daemon/daemon.h"
#include "fleet/flight_link.h"
#include "fleet/flight_worker.h"
#include "fleet/table_attempt.h"
#include "rewrite/parquet_runner.h"
#include "storage/read_whole.h"
#include "storage/secret_file.h"

namespace lithify {
namespace {

constexpr const char* kProgram = "lithify-worker";
constexpr Duration kProbeTimeout = std::chrono::seconds(5);

constexpr const char* kFooter = R"(Example:
  lithify-worker --config /etc/lithify-worker.toml --port-file /run/lithify/worker
  lithify-worker --set worker.insecure_loopback=true --set worker.local_files=true
  lithify-worker --probe 10.0.0.7:50061 --ca /etc/ssl/fleet-ca.pem

It stops on SIGTERM and SIGINT: groups that run have worker.drain to end and to be adopted.
Configuration: [worker] of the file; LITHIFY_WORKER__<FIELD>; --set KEY=VALUE. See docs/FLEET.md.)";

struct Options {
  std::string config_file;
  std::vector<std::string> set;
  bool check = false;
  std::string port_file;
  std::string probe;
  std::string ca;
  std::string cert;
  std::string key;
};

Result<config::WorkerConfig> Load(const Options& options) {
  LITHIFY_TRY_ASSIGN(const auto overrides, config::ParseOverrides(options.set));
  std::string text;
  if (!options.config_file.empty()) {
    LITHIFY_TRY_ASSIGN(text, storage::ReadWhole(options.config_file, "--config"));
  }
  const config::Environment environment = config::ProcessEnvironment();
  auto loaded = config::LoadWorkerConfig({text, options.config_file, environment, overrides});
  Wipe(text);  // A secret may stand in it.
  return loaded;
}

Result<Secret> ReadKey(const std::string& path, const char* what) {
  auto key = storage::ReadSecretFile(path);
  if (!key) return Fail(std::move(key.error()).In(what));
  return key;
}

Result<fleet::FleetKey> KeyOf(const config::WorkerConfig& config) {
  Secret secret = config.secret;
  if (!config.secret_file.empty()) {
    LITHIFY_TRY_ASSIGN(secret, storage::ReadSecretLine(config.secret_file));
  }
  return fleet::FleetKey::Make(std::move(secret), config.insecure_loopback);
}

Result<fleet::FlightWorkerOptions> Listening(const config::WorkerConfig& config) {
  fleet::FlightWorkerOptions options;
  options.listen = config.listen;
  options.told = [](const std::string& line) { daemon::Tell(kProgram, line); };
  if (!config.tls_cert.empty()) {
    LITHIFY_TRY_ASSIGN(options.tls_cert, storage::ReadWhole(config.tls_cert, "worker.tls_cert"));
    LITHIFY_TRY_ASSIGN(options.tls_key, ReadKey(config.tls_key, "worker.tls_key"));
  }
  if (!config.tls_client_ca.empty()) {
    LITHIFY_TRY_ASSIGN(options.tls_client_ca,
                       storage::ReadWhole(config.tls_client_ca, "worker.tls_client_ca"));
  }
  LITHIFY_TRY(fleet::CheckListening(options));
  return options;
}

// Whole or not at all: somebody waits for it.
Status WritePortFile(const std::string& path, const std::string& address) {
  if (path.empty()) return {};
  const std::string partial = path + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << address << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(partial, path, error);
  if (file && !error) return {};
  return Fail(Code::kInvalid, "cannot be written" + (error ? ": " + error.message() : ""),
              "--port-file \"" + path + "\"");
}

// The whole worker, from its configuration to the signal that ends it.
Status Serve(const Options& options) {
  LITHIFY_TRY_ASSIGN(const config::WorkerConfig config, Load(options));
  LITHIFY_TRY_ASSIGN(const fleet::FleetKey key, KeyOf(config));
  LITHIFY_TRY_ASSIGN(fleet::FlightWorkerOptions listening, Listening(config));
  if (options.check) return {};

  const daemon::StopSignals signals;
  SystemClock clock;
  SystemRandom random;
  fleet::WorkerOptions worker;
  // Another one in each life: what was signed for the last one is worth nothing to this.
  worker.id = (config.id.empty() ? "worker" : config.id) + "/" + MakeUuidV7(clock, random);
  worker.version = LITHIFY_VERSION;
  worker.max_inflight_groups = config.max_inflight_groups;
  worker.threads = config.threads > 0
                       ? config.threads
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  worker.memory_bytes = config.memory_bytes;
  worker.unadopted = config.unadopted;
  worker.told = listening.told;
  const auto service = fleet::WorkerService::Make(
      worker,
      fleet::OpenTableAttempts(
          {.s3 = config.s3, .endpoints = config.endpoints, .local_files = config.local_files},
          rewrite::MakeParquetRunner, clock, random,
          {.directory = config::SpillDirectoryOf(config.spill_directory),
           .bytes_max = config.spill_bytes_max}),
      clock);
  LITHIFY_TRY_ASSIGN(const auto server,
                     fleet::FlightWorker::Start(
                         std::move(listening),
                         {.service = *service, .id = worker.id, .key = key, .clock = clock}));
  if (Status written = WritePortFile(options.port_file, server->address()); !written) {
    server->Stop();
    return written;
  }
  std::printf("lithify-worker listens on %s\n", server->address().c_str());
  std::fflush(stdout);
  signals.Wait();
  daemon::Tell(kProgram, "stopping");
  service->Drain(config.drain);
  server->Stop();
  return {};
}

// Its own configuration is not needed: a certificate of the fleet is, where it asks for one.
Status Probe(const Options& options) {
  fleet::FlightLinkOptions link;
  link.address = options.probe;
  link.tls = !options.ca.empty();
  if (link.tls) {
    LITHIFY_TRY_ASSIGN(link.ca, storage::ReadWhole(options.ca, "--ca"));
  }
  if (!options.cert.empty()) {
    LITHIFY_TRY_ASSIGN(link.client_cert, storage::ReadWhole(options.cert, "--cert"));
    LITHIFY_TRY_ASSIGN(link.client_key, ReadKey(options.key, "--key"));
  }
  return fleet::ProbeWorker(link, kProbeTimeout);
}

int Main(int argc, char** argv) {
  CLI::App app("Rewrites file groups of Iceberg tables for a coordinator.", kProgram);
  app.set_version_flag("--version", "lithify-worker " LITHIFY_VERSION);
  app.footer(kFooter);
  Options options;
  app.add_option("--config", options.config_file, "Configuration file (TOML)");
  app.add_option("--set", options.set, "KEY=VALUE, above file and environment; may be repeated");
  app.add_flag("--check", options.check, "Check the configuration, and end");
  app.add_option("--port-file", options.port_file, "Write HOST:PORT to it once it serves");
  CLI::Option* probe =
      app.add_option("--probe", options.probe, "Ask the worker at HOST:PORT whether it takes work");
  app.add_option("--ca", options.ca, "Of --probe: PEM with the roots; without it no TLS")
      ->needs(probe);
  CLI::Option* cert =
      app.add_option("--cert", options.cert, "Of --probe: a certificate to show")->needs(probe);
  app.add_option("--key", options.key, "Of --probe: its key")->needs(cert);
  try {
    app.parse(argc, argv);
    if (!options.cert.empty() && options.key.empty()) throw CLI::RequiredError("--key");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? daemon::kDone : daemon::kUsage;
  }
  if (!options.probe.empty()) {
    const Status alive = Probe(options);
    return daemon::Finish(kProgram, alive) == daemon::kDone ? daemon::kDone : daemon::kFailed;
  }
  return daemon::Finish(kProgram, Serve(options));
}

}  // namespace
}  // namespace lithify

int main(int argc, char** argv) {
  return lithify::daemon::Run(lithify::kProgram, [&] { return lithify::Main(argc, argv); });
}
