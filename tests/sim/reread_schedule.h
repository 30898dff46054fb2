// One directed schedule: an operator rolls a partition back, by publishing an older live set,
// between the garbage collection's load and its removals. Random schedules cannot show that the
// second look matters, since no compactor ever makes a retired file live again.
#ifndef LITHIFY_TESTS_SIM_REREAD_SCHEDULE_H_
#define LITHIFY_TESTS_SIM_REREAD_SCHEDULE_H_

#include <optional>
#include <string>

namespace lithify::sim {

// Nothing if every live file still exists afterwards, else what is missing.
std::optional<std::string> RunRereadSchedule();

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_REREAD_SCHEDULE_H_
