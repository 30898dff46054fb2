// When the time of a file says nothing of its age.
#ifndef LITHIFY_PLAN_UNKNOWN_TIME_H_
#define LITHIFY_PLAN_UNKNOWN_TIME_H_

#include "base/clock.h"

namespace lithify::plan {

// A time up to this one is unknown: stores that know none give the epoch, in some zone and by some
// clock (I19).
inline constexpr Time kUnknownTime{std::chrono::days(1)};

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_UNKNOWN_TIME_H_
