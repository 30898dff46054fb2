// Who rewrote what, of a job whose groups went to workers.
#ifndef LITHIFY_JOB_FLEET_REPORT_H_
#define LITHIFY_JOB_FLEET_REPORT_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "group/fleet.h"

namespace lithify::job {

struct FleetReport {
  group::FleetStory story;
  Duration checked{};  // What looking at the results took, in all; several are at a time.
};

struct FleetSums {
  struct Worker {
    int64_t groups = 0;
    int64_t bytes_in = 0;
    int64_t bytes_out = 0;
  };
  std::map<std::string, Worker> workers;  // Those whose results were used.
  int64_t attempts = 0;
  int64_t hedged = 0;       // Groups that were given to a second worker, since they lagged behind.
  int64_t failed_over = 0;  // Groups that somebody did after somebody else had failed.
};
FleetSums SumUp(const group::FleetStory& story);

// "by 4 workers: 16 groups in 18 attempts, 1 repeated for lagging behind, 1 after a failure".
std::string FleetSummary(const group::FleetStory& story);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_FLEET_REPORT_H_
