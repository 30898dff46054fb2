#include "embed/hive_session.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "embed/claim_holder.h"
#include "rewrite/event_file.h"
#include "rewrite/parquet_runner.h"
#include "storage/local_store.h"
#include "storage/throttled_store.h"

extern "C" char** environ;

namespace lithify::embed {
namespace {

constexpr int kNiceness = 10;
constexpr size_t kConfigBytesMax = 4 * 1024 * 1024;

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

}  // namespace

std::vector<std::pair<std::string, std::string>> ProcessEnvironment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

Result<std::string> LocalRoot(const std::string& root) {
  const size_t scheme = root.find("://");
  if (scheme == std::string::npos) return root;
  const std::string name = root.substr(0, scheme);
  if (name == "file") return root.substr(scheme + 3);
  return Fail(Code::kUnsupported, "trees on \"" + name + "://\" are not supported yet", root,
              "give a local directory (a mounted one will do)");
}

Result<config::HiveConfig> LoadConfig(
    const std::string& root, const std::string& config_file,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::vector<config::Override>& overrides) {
  std::string path = config_file;
  if (path.empty() && !root.empty()) {
    const std::string beside = root + "/" + std::string(kConfigName);
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
                                                       config::HiveConfig config) {
  LITHIFY_TRY_ASSIGN(const std::string path, LocalRoot(root));
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
  LITHIFY_TRY_ASSIGN(session->store_, storage::OpenLocalStore(session->root_));
  session->memory_ =
      std::make_shared<job::SweepMemory>(MakeClaimHolder(session->random_), IsHolderGone);
  session->audit_ = observe::OpenFileAuditLog(session->audit_path());
  return session;
}

std::unique_ptr<HiveWork> HiveSession::Begin(observe::Progress& progress,
                                             const CancelFlag& cancel) {
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
                                   .memory = memory_};
  job::HiveSettings settings;
  settings.series = config_.series;
  settings.options = config_.options;
  settings.claim_ttl = config_.claim_ttl;
  settings.shape = config_.shape;
  settings.verify = config_.verify;
  settings.threads = threads();
  settings.partitions_at_once = partitions_at_once();
  settings.memory_bytes = config_.memory_bytes;
  settings.audit_series = config_.audit_series;
  // A log inside the tree moves with the tree; one elsewhere may be that of several.
  if (!config_.audit_log_path.empty()) settings.audit_tree = root_;
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
  return config_.audit_log_path.empty() ? root_ + "/_lithify/audit.jsonl" : config_.audit_log_path;
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
