// Trees of hive-partitioned Parquet in the autonomous half ([maintenance] trees). Mode and that
// list are their gates: they have no owner's property, and no catalog that grants.
//
// A tree is due by the rules of plan/schedule.h, as tables are. Then each of its partitions is a
// candidate of plan/maintenance_plan.h with a commit of its own, and a sweep (job/hive_job.h)
// rewrites those that were chosen; late files are adopted and garbage is collected everywhere. A
// quiet window is not needed, since only sealed partitions are candidates; nor a lease, since a
// sweep claims each partition.
//
// One bad partition stops no other: it backs off by itself, and has a breaker of its own. A tree
// backs off, and its breaker counts, where a sweep came to nothing at all.
//
// Thread safety: one call at a time.
#ifndef LITHIFY_MAINTAIN_TREE_SCHEDULER_H_
#define LITHIFY_MAINTAIN_TREE_SCHEDULER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "job/hive_job.h"
#include "maintain/job_watch.h"
#include "maintain/report.h"
#include "maintain/state.h"
#include "plan/hive_plan.h"
#include "plan/maintenance_plan.h"
#include "plan/schedule.h"

namespace lithify::maintain {

// How MaintenanceState and budgets name a tree; reports and log rows name it by its root.
std::string TreeKey(std::string_view root);
bool IsTreeKey(std::string_view key);
// Whether a log row's table is a tree's root.
bool IsTreeRoot(std::string_view name);

// A tree that is open.
class Tree {
 public:
  virtual ~Tree() = default;
  // Changes nothing.
  virtual Result<job::StatusReport> Look(const CancelFlag& cancel) = 0;
  // Rewrites these partitions and no others.
  virtual Result<job::SweepReport> Sweep(std::vector<job::ChosenPartition> chosen,
                                         const CancelFlag& cancel) = 0;
  virtual int threads() const = 0;  // Of one sweep.
  virtual int threads_per_partition() const = 0;
  virtual const plan::HiveOptions& options() const = 0;  // That it plans by.
};
using OpenTree = std::function<Result<std::unique_ptr<Tree>>(const std::string& root)>;

struct TreeOptions {
  std::vector<std::string> roots;
  plan::ScheduleOptions schedule;
  plan::MaintenanceOptions ranking;
  OverrunLimits overrun = {};              // Of a sweep.
  std::optional<Duration> read_life = {};  // How long after its time a partition is read.
};

struct TreeTick {
  bool on_demand = false;
  bool acts = false;          // Else nothing is changed, and no run is recorded.
  bool looks_at_all = false;  // Also at trees that are not due.
  bool afresh = false;        // Without it a look that changes nothing may be an hour old.
  MaintenanceState& state;
  TickReport& report;
  std::function<std::string()> new_job_id;
  // Told before the first byte is read for a rewrite: a tree that takes its process down must not
  // do so again at once (MaintenanceState::running).
  std::function<void(const std::string& key, Time started)> running;
  std::function<void(JobLine)> done;
  std::function<void(LoudLine, const Error&)> shout;
  const CancelFlag& cancel;
};

class TreeScheduler {
 public:
  static constexpr Duration kLookLife = std::chrono::hours(1);

  TreeScheduler(TreeOptions options, OpenTree open, Clock& clock);

  // What goes wrong is in the report, and stops no other tree.
  void Tick(const TreeTick& tick);
  // Whether a row of the log about this root is about our tree: in a bucket it is, while the path
  // of another machine may be another directory.
  bool IsShared(std::string_view root) const;

 private:
  // What a look found, as far as it is needed.
  struct Seen {
    Time at;
    std::vector<plan::MaintenanceCandidate> candidates;
    std::vector<std::string> partitions;  // All of them.
    std::vector<std::string> problems;
    int64_t small_files = 0;
    int64_t rewrite_bytes = 0;
  };
  struct Work {
    std::string root;
    std::string key;
    plan::DueVerdict verdict;
    size_t report = 0;  // Index into TickReport::tables.
    Tree* tree = nullptr;
    std::optional<Error> error;
    size_t first = 0;  // Its candidates, in the list of all.
    size_t count = 0;
  };
  struct Ranking {
    std::vector<plan::MaintenanceCandidate> candidates;
    plan::MaintenancePlan plan;
  };

  void Forget(MaintenanceState& state) const;
  std::optional<Work> Decide(const TreeTick& tick, const std::string& root);
  void LookInto(const TreeTick& tick, Work& work, Ranking& ranking);
  Result<const Seen*> Look(const TreeTick& tick, Work& work);
  Seen ToSeen(const Work& work, const job::StatusReport& status) const;
  plan::MaintenanceCandidate ToCandidate(const Work& work,
                                         const job::PartitionStatus& status) const;
  void Hold(const TreeTick& tick, const Work& work, plan::MaintenanceCandidate& candidate) const;
  void Rank(const TreeTick& tick, const std::vector<Work>& work, Ranking& ranking);
  void Run(const TreeTick& tick, Work& work, const Ranking& ranking);
  void Failed(const TreeTick& tick, const Work& work, JobLine line, const Error& error);
  void Settle(const TreeTick& tick, const Work& work, const Ranking& ranking,
              const job::SweepReport& swept, const Error& stopped, JobLine line);
  void Remember(MaintenanceState& state, const Work& work, const job::SweepReport& swept,
                const JobLine& line) const;
  plan::ScheduleOptions OfPartitions() const;

  const TreeOptions options_;
  const OpenTree open_;
  Clock& clock_;
  std::map<std::string, std::unique_ptr<Tree>> open_trees_;  // By root.
  std::map<std::string, Seen> seen_;                         // By root; of the last look.
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_TREE_SCHEDULER_H_
