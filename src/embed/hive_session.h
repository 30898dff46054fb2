// A tree opened for work: configuration, store, runner, audit log, put together the same way for
// the command line and for an embedding process.
#ifndef LITHIFY_EMBED_HIVE_SESSION_H_
#define LITHIFY_EMBED_HIVE_SESSION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "config/config.h"
#include "job/hive_job.h"
#include "observe/audit_log.h"
#include "observe/progress.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::embed {

// The file that is read when no other is named.
inline constexpr std::string_view kConfigName = "lithify.toml";

// All variables of this process.
std::vector<std::pair<std::string, std::string>> ProcessEnvironment();

// kUnsupported for "s3://…" and other schemes; "file:///x" is "/x".
Result<std::string> LocalRoot(const std::string& root);

// Reads `config_file`, or <root>/lithify.toml if that exists and no file is named (an empty root:
// the defaults). kInvalid for everything that is wrong with it.
Result<config::HiveConfig> LoadConfig(
    const std::string& root, const std::string& config_file,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::vector<config::Override>& overrides);

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
  // kNotFound or kDenied if the root is no directory that can be read.
  static Result<std::unique_ptr<HiveSession>> Open(const std::string& root,
                                                   config::HiveConfig config);

  // Borrows this session, `progress` and `cancel`.
  std::unique_ptr<HiveWork> Begin(observe::Progress& progress, const CancelFlag& cancel);

  const std::string& root() const { return root_; }  // Absolute.
  const config::HiveConfig& config() const { return config_; }
  int threads() const;  // After "0: all cores".
  int partitions_at_once() const;
  Clock& clock() { return clock_; }
  observe::AuditLog& audit() { return *audit_; }
  std::string audit_path() const;

 private:
  HiveSession(std::string root, config::HiveConfig config)
      : root_(std::move(root)), config_(std::move(config)) {}

  const std::string root_;
  const config::HiveConfig config_;
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<observe::AuditLog> audit_;
  std::shared_ptr<job::SweepMemory> memory_;
};

// Gives the calling thread, and those that it starts later, a low CPU priority and the idle I/O
// class, as far as the system allows; never an error.
void LowerThreadPriority();

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_HIVE_SESSION_H_
