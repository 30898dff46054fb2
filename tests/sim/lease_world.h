// One simulated world of several coordinators that compact one table, each tick after a claim on
// it, while other engines write: clocks that differ and jump, frozen and crashed coordinators,
// refused commits, replies that are lost, and commits that land long after.
//
// What is promised, and checked after each commit:
//  - With leases in the catalog: at any moment the log has at most one live claim on a key, by the
//    world's clock, as long as clocks differ by less than the lease allows for. Where all clocks
//    are the same, at most one coordinator believes that it holds the key.
//  - With any lease, or none, or one that fails, or one that says "yours" to everybody: no row is
//    lost, doubled or brought back (iceberg_oracle.h), and each data file is rewritten by at most
//    one commit: of the plans that have it, one is carried out.
#ifndef LITHIFY_TESTS_SIM_LEASE_WORLD_H_
#define LITHIFY_TESTS_SIM_LEASE_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lithify::sim {

enum class LeaseKind { kCatalog, kNone, kFailing, kLying };

struct LeaseReport {
  std::optional<std::string> violation;
  std::vector<std::string> trace;  // Only if asked for.
  uint64_t steps = 0;
  uint64_t acquired = 0;
  uint64_t reacquired = 0;
  uint64_t stolen = 0;
  uint64_t held = 0;
  uint64_t lost = 0;    // Renewals that found the claim gone.
  uint64_t errors = 0;  // Of claims: the job ran unleased.
  uint64_t jobs = 0;
  uint64_t overlapping = 0;  // Begun while another one ran.
  uint64_t commits = 0;      // Of jobs.
  uint64_t wasted = 0;       // Attempts of jobs that came to nothing.
  uint64_t unknown_outcomes = 0;
  uint64_t late_commits = 0;
  uint64_t crashes = 0;

  void Add(const LeaseReport& other);
};

LeaseReport RunLeaseWorld(LeaseKind kind, uint64_t seed, bool trace);

// Runs the seeds from `first`; stops at the first violation and returns its seed.
std::optional<uint64_t> RunLeaseSeeds(LeaseKind kind, uint64_t first, uint64_t count,
                                      LeaseReport& total);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_LEASE_WORLD_H_
