// A tree opened for work: configuration, store, runner, audit log, put together the same way for
// the command line and for an embedding process.
#ifndef LITHIFY_EMBED_HIVE_SESSION_H_
#define LITHIFY_EMBED_HIVE_SESSION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "config/config.h"
#include "embed/audit.h"
#include "embed/environment.h"
#include "job/hive_job.h"
#include "observe/audit_log.h"
#include "observe/metrics.h"
#include "observe/progress.h"
#include "observe/telemetry.h"
#include "rewrite/group_runner.h"
#include "storage/s3_access.h"
#include "storage/store.h"

namespace lithify::embed {

// The file that is read when no other is named.
inline constexpr std::string_view kConfigName = "lithify.toml";

// Where a tree is: a directory of this machine, or a prefix of a bucket.
struct Root {
  std::string path;                    // Local; as it was given.
  std::optional<storage::S3Place> s3;  // Set: `path` is empty.
};
// "/x", "file:///x", "s3://bucket/prefix" (also s3a:, s3n:). kUnsupported for other schemes.
Result<Root> ParseRoot(const std::string& root);

// `partition` as a key below `root` (as HiveSession::root() gives it): a key already, or a path or
// location that leads there. Without "./" before and slashes behind it.
std::string KeyBelow(const std::string& root, const std::string& partition);

// The text of a configuration file on this machine. kInvalid if it cannot be read.
Result<std::string> ReadConfigFile(const std::string& path);

// Reads `config_file`, or <root>/lithify.toml if that exists and no file is named (an empty root:
// the defaults). kInvalid for everything that is wrong with it.
//
// How a bucket is reached has to be known before a file in it is read: there, [s3] is kInvalid
// unless the environment and `overrides` say the same. `stop` is what S3Access::StopWhen() gets for
// that; empty: never.
Result<config::HiveConfig> LoadConfig(const std::string& root, const std::string& config_file,
                                      const Environment& environment,
                                      const std::vector<config::Override>& overrides,
                                      std::function<bool()> stop = {});

// One job on an opened tree, with what belongs to it alone.
class HiveWork {
 public:
  job::HiveJob& job() { return *job_; }

 private:
  friend class HiveSession;
  HiveWork() = default;

  std::unique_ptr<storage::Store> throttled_;  // Null without an I/O limit.
  std::unique_ptr<rewrite::GroupRunner> runner_;
  std::optional<job::HiveJob> job_;
};

// Thread-safe: several HiveWorks may be busy at once.
class HiveSession {
 public:
  // kNotFound or kDenied if the root is no directory that can be read. `environment` is where
  // credentials for S3 may come from.
  static Result<std::unique_ptr<HiveSession>> Open(const std::string& root,
                                                   config::HiveConfig config,
                                                   const Environment& environment);

  // S3Access::StopWhen(), for a tree in a bucket. Before the first request.
  void StopWhen(std::function<bool()> stop);

  // Whom to tell that a record could not be written, where the work goes on without it. One call at
  // a time, by any thread.
  void OnAuditError(AuditErrorHandler told);

  // Where jobs that begin later are counted and told of; both outlive the session, and may be null.
  void Observe(observe::Metrics* metrics, observe::Telemetry* telemetry);

  // Before the first write: whether the store keeps its word on conditional writes, tried out with
  // an object under _lithify/ (Q2). Asked once; nothing is done for a local tree. kUnsupported if
  // it does not.
  Status CheckWrites();

  // Borrows this session, `progress` and `cancel`. `only`: HiveSettings::only_partitions.
  std::unique_ptr<HiveWork> Begin(
      observe::Progress& progress, const CancelFlag& cancel,
      std::optional<std::vector<job::ChosenPartition>> only = std::nullopt);

  // Absolute, or "s3://bucket/prefix"; without a slash at its end, but for "/".
  const std::string& root() const { return root_; }
  const config::HiveConfig& config() const { return config_; }
  int threads() const;  // After "0: all cores".
  int partitions_at_once() const;
  Clock& clock() { return clock_; }
  observe::AuditLog& audit() { return *audit_; }
  // For people: a file, or objects below "s3://…".
  std::string audit_path() const;

 private:
  HiveSession(std::string root, config::HiveConfig config)
      : root_(std::move(root)), config_(std::move(config)) {}
  static Result<std::unique_ptr<HiveSession>> OpenLocal(const std::string& path,
                                                        config::HiveConfig config);
  static Result<std::unique_ptr<HiveSession>> OpenS3(const storage::S3Place& place,
                                                     config::HiveConfig config,
                                                     const Environment& environment);

  AuditErrorHandler AuditErrors();

  struct AuditErrorReceiver {
    std::mutex mutex;
    AuditErrorHandler told;
  };

  const std::string root_;
  const config::HiveConfig config_;
  const std::shared_ptr<AuditErrorReceiver> audit_errors_ = std::make_shared<AuditErrorReceiver>();
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<storage::S3Access> s3_;  // Null for a local tree.
  std::shared_ptr<storage::S3Store> bucket_;
  std::shared_ptr<storage::Store> store_;
  std::mutex probe_mutex_;
  std::optional<Status> probed_;
  std::unique_ptr<observe::AuditLog> audit_;
  std::shared_ptr<job::SweepMemory> memory_;
  observe::Metrics* metrics_ = nullptr;
  observe::Telemetry* telemetry_ = nullptr;
};

// Gives the calling thread, and those that it starts later, a low CPU priority and the idle I/O
// class, as far as the system allows; never an error.
void LowerThreadPriority();

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_HIVE_SESSION_H_
