#include "job/fleet_report.h"

#include "base/text.h"

namespace lithify::job {

FleetSums SumUp(const group::FleetStory& story) {
  FleetSums sums;
  for (const group::GroupStory& group : story.groups) {
    sums.attempts += group.attempts;
    if (group.repeated) ++sums.hedged;
    if (group.worker.empty()) continue;
    if (!group.failures.empty()) ++sums.failed_over;
    FleetSums::Worker& worker = sums.workers[group.worker];
    ++worker.groups;
    worker.bytes_in += group.bytes_in;
    worker.bytes_out += group.bytes_out;
  }
  return sums;
}

std::string FleetSummary(const group::FleetStory& story) {
  const FleetSums sums = SumUp(story);
  const auto counted = [](int64_t count, const char* what) {
    return FormatCount(count) + " " + what + (count == 1 ? "" : "s");
  };
  std::string text = "by " + counted(std::ssize(sums.workers), "worker") + ": " +
                     counted(std::ssize(story.groups), "group") + " in " +
                     counted(sums.attempts, "attempt");
  if (sums.hedged > 0) text += ", " + FormatCount(sums.hedged) + " repeated for lagging behind";
  if (sums.failed_over > 0) text += ", " + FormatCount(sums.failed_over) + " after a failure";
  return text;
}

}  // namespace lithify::job
