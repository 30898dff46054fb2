// One simulated world of the hive job: a tree in memory, two compactors with their own settings, a
// writer, a late writer, somebody who meddles with claims, and readers, under a seeded scheduler
// with crashes, frozen processes, jumps of the clock and storage faults. An oracle looks at the
// tree after every change.
//
// What is promised, and checked:
//  - At every moment a manifest names files that exist, and their rows are pairwise different. Each
//    generation follows its predecessor by one and shows every row that the predecessor showed.
//  - Without a manifest, all files together show no row twice.
//  - Every acknowledged row is live, or in an unlisted file that nothing takes for garbage.
//  - A reader that took a live set finds each of its files for gc_grace, counted from the moment at
//    which it read the manifest or began its listing.
//  - A reader without a manifest must list first and look for the manifest after that: if there
//    still is none, no output can have been in the listing, and it sees every row that was
//    acknowledged before it began, once. (Looking first and listing afterwards is not safe: the
//    first compaction may run in between.) If there is one by then, the manifest counts, and files
//    that came after the bootstrap's listing are seen from the next adoption on.
//  - Once all is quiet, sweeps come to rest: all acknowledged rows live, exactly once; no garbage;
//    nothing left to plan; an outcome on record for every intent, and the right one; one event for
//    every commit.
#ifndef LITHIFY_TESTS_SIM_HIVE_WORLD_H_
#define LITHIFY_TESTS_SIM_HIVE_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lithify::sim {

struct WorldReport {
  std::optional<std::string> violation;
  std::vector<std::string> trace;  // Only if asked for.
  uint64_t steps = 0;
  uint64_t generations = 0;
  uint64_t swaps = 0;
  uint64_t adoptions = 0;
  uint64_t fences = 0;
  uint64_t crashes = 0;
  uint64_t unknown_outcomes = 0;
  uint64_t lost_races = 0;
  uint64_t claimed = 0;  // Partitions passed over because of a claim.
  uint64_t reads = 0;
};

WorldReport RunWorld(uint64_t seed, bool trace);

// Runs the seeds from `first`; stops at the first violation and returns its seed. Adds up what
// happened in `total`.
std::optional<uint64_t> RunSeeds(uint64_t first, uint64_t count, WorldReport& total);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_HIVE_WORLD_H_
