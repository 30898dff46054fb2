// lithify inside another process: one sweep, or a background loop beside the writer.
//
//   std::string error;
//   auto compactor = lithify::Compactor::Open({.root = "/data/lake"}, &error);
//   if (!compactor) { … error says what, where, why and what next … }
//   compactor->Start(std::chrono::minutes(5), {.on_error = [](const std::string& e) { … }});
//   …
//   compactor->Stop();
//
// Several compactors, in one process or many, may work on one tree at once. All work runs on
// threads of lithify, at low priority where the configuration says so; the caller's threads keep
// theirs. This header needs C++20 and nothing but the standard library; it throws nothing, and what
// an event callback throws becomes an error of the sweep's summary.
#ifndef LITHIFY_COMPACTOR_H_
#define LITHIFY_COMPACTOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lithify {

class Compactor {
 public:
  struct Options {
    std::string root = {};         // A directory.
    std::string config_file = {};  // Empty: <root>/lithify.toml if it exists, else the defaults.
    std::string config_text = {};  // TOML instead of a file; only one of the two may be given.
    // {"limits.jobs", "1"}: above file and environment.
    std::vector<std::pair<std::string, std::string>> overrides = {};
    bool use_environment = true;  // LITHIFY_<SECTION>__<FIELD> variables count.
  };

  // What came of one partition; those that needed nothing are not reported.
  struct PartitionEvent {
    std::string partition = {};  // "data/tenant_id=a/year=2026/month=11/day=29/hour=07/".
    std::string outcome = {};    // "committed", "adopted", "lost_race", "failed", "cancelled".
    std::string error = {};      // For "failed": what, where, why, what next.
    uint64_t generation = 0;
    int64_t files_in = 0;
    int64_t files_out = 0;
    int64_t bytes_in = 0;
    int64_t bytes_out = 0;
    int64_t rows = 0;
  };

  struct SweepSummary {
    int64_t partitions = 0;  // Looked at.
    int64_t committed = 0;
    int64_t adopted = 0;
    int64_t skipped = 0;
    int64_t lost_races = 0;  // Another compactor was first: not an error.
    int64_t failed = 0;
    int64_t files_in = 0;  // Of the committed partitions, as are the next four.
    int64_t files_out = 0;
    int64_t bytes_in = 0;
    int64_t bytes_out = 0;
    int64_t rows = 0;
    int64_t files_removed = 0;  // By garbage collection.
    bool cancelled = false;     // Stopped early; what was committed stays committed.
    std::chrono::microseconds took{0};
    std::vector<std::string> errors = {};  // One per failure; empty: all is well.
    bool ok() const { return errors.empty() && failed == 0; }
  };

  // Called on a thread of lithify, one call at a time; must not call Stop() or destroy the
  // compactor.
  struct Events {
    std::function<void(const PartitionEvent&)> on_partition = {};
    std::function<void(const SweepSummary&)> on_sweep = {};
    std::function<void(const std::string&)> on_error = {};  // A sweep that could not run at all.
  };

  // nullptr, with the reason in `error` (if not nullptr), for a wrong configuration or a root that
  // cannot be opened.
  static std::unique_ptr<Compactor> Open(Options options, std::string* error);

  ~Compactor();  // Stops the loop.
  Compactor(const Compactor&) = delete;
  Compactor& operator=(const Compactor&) = delete;

  // One sweep, now; waits for it. While the loop sweeps, it waits for its turn.
  SweepSummary RunOnce(const Events& events);
  SweepSummary RunOnce() { return RunOnce(Events{}); }

  // Sweeps at once and then `interval` after the end of each sweep. False if a loop runs already
  // (also while Stop() waits for its end), the interval is not positive, or there is no thread to
  // be had. A failed sweep never ends the loop.
  bool Start(std::chrono::milliseconds interval, Events events);
  bool Start(std::chrono::milliseconds interval) { return Start(interval, Events{}); }
  // Asks a running sweep to stop and waits for it; the tree is consistent. A store that does not
  // answer is waited for a second, and ten where it is asked to publish. Safe to call at any time,
  // also without a loop. It may be started again.
  void Stop();

 private:
  class Impl;
  explicit Compactor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lithify

#endif  // LITHIFY_COMPACTOR_H_
