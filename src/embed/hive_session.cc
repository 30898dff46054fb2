#include "embed/hive_session.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>

#include "config/spill.h"
#include "embed/claim_holder.h"
#include "rewrite/event_file.h"
#include "rewrite/parquet_runner.h"
#include "storage/local_store.h"
#include "storage/throttled_store.h"

namespace lithify::embed {
namespace {

constexpr int kNiceness = 10;
constexpr std::string_view kAuditFile = "_lithify/audit.jsonl";
constexpr const char* kAuditPrefix = "_lithify/audit/";
constexpr size_t kConfigBytesMax = 4 * 1024 * 1024;

std::string PrefixOf(const storage::S3Place& place) {
  return place.key.empty() ? std::string() : place.key + "/";
}

// The file has to be reached by what is known without it.
Result<config::HiveConfig> LoadConfigInBucket(const storage::S3Place& place,
                                              const Environment& environment,
                                              const std::vector<config::Override>& overrides,
                                              std::function<bool()> stop) {
  LITHIFY_TRY_ASSIGN(config::HiveConfig known,
                     config::LoadHiveConfig("", "", environment, overrides));
  SystemClock clock;
  SystemRandom random;
  LITHIFY_TRY_ASSIGN(const auto access,
                     storage::S3Access::Open(known.s3, LookUpIn(environment), clock, random));
  access->StopWhen(std::move(stop));
  const auto store = access->Store(place.bucket, PrefixOf(place));
  const auto file = store->Get(std::string(kConfigName), kConfigBytesMax);
  if (!file && file.error().code == Code::kNotFound) return known;
  if (!file) return Fail(file.error());
  const std::string name = place.ToString() + "/" + std::string(kConfigName);
  LITHIFY_TRY_ASSIGN(config::HiveConfig config,
                     config::LoadHiveConfig(file->bytes, name, environment, overrides));
  if (config.s3 == known.s3) return config;
  return Fail(Code::kInvalid, "[s3] in a file of the bucket itself comes too late", name,
              "give it in a local file with --config, or as LITHIFY_S3__… variables");
}

}  // namespace

Result<std::string> ReadConfigFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Fail(Code::kInvalid, "is a directory, not a configuration file", path);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Fail(Code::kInvalid,
                std::string("cannot open the configuration file: ") + std::strerror(errno), path);
  }
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) return Fail(Code::kInvalid, "cannot read the configuration file", path);
  std::string text = std::move(content).str();
  if (text.size() > kConfigBytesMax) {
    return Fail(Code::kInvalid, "the configuration file is larger than 4 MiB", path);
  }
  return text;
}

Result<Root> ParseRoot(const std::string& root) {
  LITHIFY_TRY_ASSIGN(auto s3, storage::ParseS3Place(root));
  if (s3) return Root{.path = {}, .s3 = std::move(s3)};
  const size_t scheme = root.find("://");
  if (scheme == std::string::npos) return Root{.path = root, .s3 = {}};
  const std::string name = root.substr(0, scheme);
  if (name == "file") return Root{.path = root.substr(scheme + 3), .s3 = {}};
  return Fail(Code::kUnsupported, "trees on \"" + name + "://\" are not supported", root,
              "give a local directory (a mounted one will do) or s3://bucket/prefix");
}

std::string KeyBelow(const std::string& root, const std::string& partition) {
  std::string key = partition;
  const std::string below = root + (root.ends_with('/') ? "" : "/");
  const auto place = storage::ParseS3Place(partition);
  if (place && *place) {
    key = (*place)->ToString();
  } else {
    // A path as the shell completes it.
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::canonical(partition, error);
    if (!error && absolute.string().starts_with(below)) key = absolute.string();
  }
  if (key.starts_with(below)) key.erase(0, below.size());
  while (key.starts_with("./")) key.erase(0, 2);
  while (key.ends_with('/')) key.pop_back();
  return key;
}

Result<config::HiveConfig> LoadConfig(const std::string& root, const std::string& config_file,
                                      const Environment& environment,
                                      const std::vector<config::Override>& overrides,
                                      std::function<bool()> stop) {
  LITHIFY_TRY_ASSIGN(const Root place, ParseRoot(root));
  if (place.s3 && config_file.empty()) {
    return LoadConfigInBucket(*place.s3, environment, overrides, std::move(stop));
  }
  std::string path = config_file;
  if (path.empty() && !place.path.empty()) {
    const std::string beside = place.path + "/" + std::string(kConfigName);
    std::error_code error;
    const auto status = std::filesystem::status(beside, error);
    if (std::filesystem::exists(status)) {
      path = beside;
    } else if (status.type() != std::filesystem::file_type::not_found) {
      return Fail(Code::kInvalid, "cannot tell whether it exists: " + error.message(), beside);
    }
  }
  std::string text;
  if (!path.empty()) {
    LITHIFY_TRY_ASSIGN(text, ReadConfigFile(path));
  }
  return config::LoadHiveConfig(text, path, environment, overrides);
}

Result<std::unique_ptr<HiveSession>> HiveSession::Open(const std::string& root,
                                                       config::HiveConfig config,
                                                       const Environment& environment) {
  LITHIFY_TRY_ASSIGN(const Root place, ParseRoot(root));
  LITHIFY_TRY_ASSIGN(auto session, place.s3 ? OpenS3(*place.s3, std::move(config), environment)
                                            : OpenLocal(place.path, std::move(config)));
  session->memory_ =
      std::make_shared<job::SweepMemory>(MakeClaimHolder(session->random_), IsHolderGone);
  return session;
}

Result<std::unique_ptr<HiveSession>> HiveSession::OpenLocal(const std::string& path,
                                                            config::HiveConfig config) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(path, error);
  if (error == std::errc::permission_denied) {
    return Fail(Code::kDenied, "the root cannot be read: " + error.message(), path);
  }
  if (error || !std::filesystem::is_directory(absolute, error)) {
    return Fail(Code::kNotFound, "the root is no directory that exists", path,
                "give the directory that holds the series, like the parent of data/");
  }
  std::unique_ptr<HiveSession> session(new HiveSession(absolute.string(), std::move(config)));
  LITHIFY_TRY_ASSIGN(session->store_, storage::OpenLocalStore(
                                          session->root_, {.direct = session->config_.direct_io}));
  LITHIFY_TRY_ASSIGN(session->audit_, OpenAuditFile(session->config_.audit_log,
                                                    session->audit_path(), session->AuditErrors()));
  return session;
}

Result<std::unique_ptr<HiveSession>> HiveSession::OpenS3(const storage::S3Place& place,
                                                         config::HiveConfig config,
                                                         const Environment& environment) {
  std::unique_ptr<HiveSession> session(new HiveSession(place.ToString(), std::move(config)));
  LITHIFY_TRY_ASSIGN(session->s3_,
                     storage::S3Access::Open(session->config_.s3, LookUpIn(environment),
                                             session->clock_, session->random_));
  session->bucket_ = session->s3_->Store(place.bucket, PrefixOf(place));
  session->store_ = session->bucket_;
  const config::AuditLogConfig& audit = session->config_.audit_log;
  LITHIFY_TRY_ASSIGN(session->audit_,
                     audit.path.empty() ? OpenAuditObjects(audit, *session->store_, kAuditPrefix,
                                                           session->AuditErrors())
                                        : OpenAuditFile(audit, audit.path, session->AuditErrors()));
  return session;
}

void HiveSession::StopWhen(std::function<bool()> stop) {
  if (s3_) s3_->StopWhen(std::move(stop));
}

void HiveSession::OnAuditError(AuditErrorHandler told) {
  const std::lock_guard lock(audit_errors_->mutex);
  audit_errors_->told = std::move(told);
}

AuditErrorHandler HiveSession::AuditErrors() {
  return [errors = audit_errors_](const Error& error) {
    const std::lock_guard lock(errors->mutex);
    if (errors->told) errors->told(error);
  };
}

Status HiveSession::CheckWrites() {
  if (!bucket_) return {};
  const std::lock_guard lock(probe_mutex_);
  if (!probed_) {
    Status told = bucket_->Probe("_lithify/probe-" + MakeUuidV7(clock_, random_));
    // What passes is asked again.
    if (!told && told.error().code != Code::kUnsupported) return told;
    probed_ = std::move(told);
  }
  return *probed_;
}

void HiveSession::Observe(observe::Metrics* metrics, observe::Telemetry* telemetry) {
  metrics_ = metrics;
  telemetry_ = telemetry;
}

std::unique_ptr<HiveWork> HiveSession::Begin(
    observe::Progress& progress, const CancelFlag& cancel,
    std::optional<std::vector<job::ChosenPartition>> only) {
  std::unique_ptr<HiveWork> work(new HiveWork());
  storage::Store* store = store_.get();
  if (config_.io_limit_bytes_per_second > 0) {
    work->throttled_ = std::make_unique<storage::ThrottledStore>(
        *store, clock_, config_.io_limit_bytes_per_second, &cancel);
    store = work->throttled_.get();
  }
  work->runner_ = rewrite::MakeParquetRunner(*store);
  const job::HiveServices services{.store = *store,
                                   .runner = *work->runner_,
                                   .clock = clock_,
                                   .random = random_,
                                   .audit = *audit_,
                                   .progress = progress,
                                   .encode_events = rewrite::EncodeCompactionEvents,
                                   .memory = memory_,
                                   .metrics = metrics_,
                                   .telemetry = telemetry_};
  job::HiveSettings settings;
  settings.series = config_.series;
  settings.options = config_.options;
  settings.claim_ttl = config_.claim_ttl;
  settings.shape = config_.shape;
  if (auto order = config::SortOrderOf(config_)) {
    settings.ordering = std::make_shared<const rewrite::Ordering>(
        rewrite::Ordering{.order = *std::move(order),
                          .spill_directory = config::SpillDirectoryOf(config_.spill_directory),
                          .spill_bytes_max = config_.spill_bytes_max});
  }
  settings.verify = config_.verify;
  settings.threads = threads();
  settings.partitions_at_once = partitions_at_once();
  settings.memory_bytes = config_.memory_bytes;
  settings.audit_series = config_.audit_series;
  settings.only_partitions = std::move(only);
  // A log inside the tree moves with the tree; one elsewhere may be that of several.
  if (!config_.audit_log.path.empty()) settings.audit_tree = root_;
  work->job_.emplace(services, std::move(settings));
  return work;
}

int HiveSession::threads() const {
  if (config_.jobs > 0) return config_.jobs;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int HiveSession::partitions_at_once() const {
  if (config_.partitions_at_once > 0) return std::min(config_.partitions_at_once, threads());
  return std::max(1, threads() / 2);  // Q5.
}

std::string HiveSession::audit_path() const {
  if (!config_.audit_log.path.empty()) return config_.audit_log.path;
  return root_ + "/" + std::string(bucket_ ? kAuditPrefix : kAuditFile);
}

void LowerThreadPriority() {
  // On Linux both work on the calling thread alone; a thread inherits from the one that starts it.
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && now < kNiceness) setpriority(PRIO_PROCESS, 0, kNiceness);
  constexpr long kWhoProcess = 1;
  constexpr long kClassIdle = 3L << 13;
  syscall(SYS_ioprio_set, kWhoProcess, 0L, kClassIdle);
}

}  // namespace lithify::embed
