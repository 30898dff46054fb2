// One simulated world of the Iceberg job: one table of format version 2 or 3 in a catalog in
// memory, with rewriters, other engines that append, delete and update, and maintenance (expiry,
// orphan removal, manifests, rollbacks, tags), under a seeded scheduler with crashes, frozen
// processes, jumps of the clock, storage faults, refused commits, and commits whose reply is lost
// before, after, or long before they are applied.
//
// What is promised, and checked by an oracle after each commit and each removal of a file:
//  - A snapshot of another engine has the rows of its parent, changed by what that engine did; a
//    snapshot of lithify has those of its parent: nothing lost, nothing back, nothing twice; in
//    version 3 with the same _row_id and _last_updated_sequence_number (I22).
//  - A delete is only removed if it applies to no live data file; an entry that stays keeps its
//    numbers (I1, I6, I10).
//  - First row ids of data files never overlap; the table's counters never go back.
//  - No file that a retained snapshot or the metadata needs is ever removed (I8, I14, I15), and
//    branches and tags stay where their owners put them.
//  - A job that says that it changed nothing has no snapshot and never gets one; one that says what
//    it did agrees with the summaries of its snapshots (I30); each intent in the audit log has an
//    outcome.
//  - Once all is quiet, one rewrite applies every delete, a second one plans nothing (I27), and
//    expiry and orphan removal leave exactly what the table refers to.
// Orphan removal gets the youngest bound that its contract allows: nothing is older than it that a
// process at work has written.
#ifndef LITHIFY_TESTS_SIM_ICEBERG_WORLD_H_
#define LITHIFY_TESTS_SIM_ICEBERG_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fleet_workers.h"

namespace lithify::sim {

struct IcebergReport {
  std::optional<std::string> violation;
  std::vector<std::string> trace;  // Only if asked for.
  uint64_t steps = 0;
  uint64_t commits = 0;
  uint64_t replaces = 0;  // Snapshots of lithify.
  uint64_t rewrites = 0;  // Successful calls of rewrite_data_files that changed something.
  uint64_t retries = 0;   // Attempts of it beyond the first.
  uint64_t lost_races = 0;
  uint64_t unknown_outcomes = 0;
  uint64_t late_commits = 0;  // Applied long after their reply was lost.
  uint64_t crashes = 0;
  uint64_t snapshots_expired = 0;
  uint64_t files_expired = 0;
  uint64_t orphans = 0;
  FleetCounts fleet;

  void Add(const IcebergReport& other);
};

// Who rewrites: the process of the job itself, or workers, under all that befalls them. With
// workers it is promised, too, that what was committed is never removed by one of them, that what a
// worker says and did not do is never committed, and that what is left over goes with the orphans.
enum class Who { kJob, kWorkers };

IcebergReport RunIcebergWorld(uint64_t seed, bool trace, Who who = Who::kJob);

// Runs the seeds from `first`; stops at the first violation and returns its seed. Adds up what
// happened in `total`.
std::optional<uint64_t> RunIcebergSeeds(uint64_t first, uint64_t count, IcebergReport& total,
                                        Who who = Who::kJob);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_ICEBERG_WORLD_H_
