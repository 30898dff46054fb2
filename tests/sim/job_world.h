// A small tree in memory with everything that a HiveJob needs, for directed tests.
#ifndef LITHIFY_TESTS_SIM_JOB_WORLD_H_
#define LITHIFY_TESTS_SIM_JOB_WORLD_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "job/hive_job.h"
#include "sim_runner.h"
#include "sim_scheduler.h"
#include "storage/memory_store.h"
#include "table/hive_manifest.h"

namespace lithify::sim {

// Keeps the lines. Thread-safe, but for who reads what it kept meanwhile.
class LineProgress final : public observe::Progress {
 public:
  void AddTotal(int64_t bytes, int64_t /*items*/) override { total_bytes += bytes; }
  void AddBytes(int64_t bytes) override { done_bytes += bytes; }
  void AddItem() override { ++done_items; }
  void Line(std::string_view text) override {
    const std::lock_guard lock(mutex_);
    lines.emplace_back(text);
  }
  void Finish() override {}

  std::atomic<int64_t> total_bytes = 0;
  std::atomic<int64_t> done_bytes = 0;
  std::atomic<int64_t> done_items = 0;
  std::vector<std::string> lines;

 private:
  std::mutex mutex_;
};

struct JobWorld {
  JobWorld();

  // Hour partition of tenant "a" on 2026-11-29.
  static std::string Hour(std::string_view hour);
  // A writer's file; its name is "<name>.parquet".
  void Write(const std::string& prefix, const std::string& name, std::vector<std::string> rows);
  // Files f1 … f5 with rows r1 … r5.
  void WriteFive(const std::string& prefix);
  // A job on the plain store.
  job::HiveJob Job() { return Job(store); }
  // A job that sees the tree through `seen`.
  job::HiveJob Job(storage::Store& seen);
  Result<job::SweepReport> Sweep() { return Job().Sweep({}, false, CancelFlag()); }
  Result<job::SweepReport> Sweep(storage::Store& seen) {
    return Job(seen).Sweep({}, false, CancelFlag());
  }

  // Generation 0 if there is none.
  HiveManifest Manifest(const std::string& prefix);
  std::multiset<std::string> LiveRows(const std::string& prefix);
  std::set<std::string> Names(const std::string& prefix);
  std::vector<observe::AuditEvent> Events();
  std::vector<std::string> Phases();  // "intent 2", "committed 2", ….

  SimClock clock;
  SeededRandom random;
  storage::MemoryStore store;
  std::unique_ptr<observe::AuditLog> audit;
  LineProgress progress;
  job::HiveSettings settings;  // Without claims: a crashed job's would be in the way of the next.
  std::shared_ptr<job::SweepMemory> memory;  // Null: each job has one of its own.
  observe::Metrics* metrics = nullptr;

 private:
  std::vector<std::unique_ptr<SimRunner>> runners_;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_JOB_WORLD_H_
