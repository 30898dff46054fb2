// What a scheduler must know after a restart (R157): when each table was run, what is learned, how
// much of the run's budget is spent. A file of this machine; where it is lost, the maintenance log
// has the runs.
#ifndef LITHIFY_MAINTAIN_STATE_H_
#define LITHIFY_MAINTAIN_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "plan/maintenance_plan.h"
#include "plan/schedule.h"
#include "storage/store.h"

namespace lithify::maintain {

struct BudgetUse {
  int64_t bytes = 0;
  double seconds = 0;
  int64_t commits = 0;
  bool operator==(const BudgetUse&) const = default;
};

// Since the last fire of the configuration's own schedule: what budgets are of.
struct RunUse {
  Time since;
  BudgetUse all;
  std::map<std::string, BudgetUse> of_namespace;
  bool operator==(const RunUse&) const = default;
};

plan::MaintenancePriors TreePriors();

struct MaintenanceState {
  // By "catalog.ns.table", "tree:ROOT", and "tree:ROOT\nPARTITION" of partitions that failed.
  std::map<std::string, plan::TableHistory> tables;
  // When a partition of a table became worth doing and was not done: "table\npartition".
  std::map<std::string, Time> waiting_since;
  plan::MaintenancePriors priors;
  // Of trees, where a commit is one conditional write and not a catalog's.
  plan::MaintenancePriors tree_priors = TreePriors();
  RunUse run;
  // Tables that a job works on: what is still here when a process starts was cut off.
  std::map<std::string, Time> running;
};

std::string StateJson(const MaintenanceState& state);
// kCorrupt, with where, for what is no state. An empty text is an empty state.
Result<MaintenanceState> ParseState(std::string_view text);

// Somebody asks for a table's breaker and back-off to end.
struct ResetRequest {
  std::string table;  // As in reports: "lake.sales.orders", or a tree's root.
  std::string by;     // The user of the machine.
  Time at;
  bool operator==(const ResetRequest&) const = default;
};

// The object `key`, replaced as a whole or not at all. One process at a time: a second one that
// replaces it meanwhile is kConflict.
class StateFile {
 public:
  // `store` outlives it.
  StateFile(storage::Store& store, std::string key) : store_(store), key_(std::move(key)) {}
  // An empty state where there is none; kCorrupt where something else is there.
  Result<MaintenanceState> Load();
  Status Save(const MaintenanceState& state);

  // Requests lie beside the state, which belongs to the process that runs jobs: it takes them at
  // its next tick, whichever process asked. Asked for twice, a table is there once. kLimit: too
  // many wait.
  Status AskForReset(const ResetRequest& request);
  Result<std::vector<ResetRequest>> TakeResets();

 private:
  storage::Store& store_;
  const std::string key_;
};

// Held by the one process that runs jobs by a state file, for as long as it lives.
class StateLock {
 public:
  explicit StateLock(std::string path) : path_(std::move(path)) {}
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
  // kConflict: another process holds it. One that is held already stays so.
  Status Take();

 private:
  const std::string path_;  // A file of its own, which stays.
  int fd_ = -1;
};

// Replaces the object, whatever it was.
Status ReplaceObject(storage::Store& store, const std::string& key, std::string_view bytes);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_STATE_H_
