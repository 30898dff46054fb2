// The guards of the fleet on which it rests that nothing is lost and that jobs come to their end,
// in the manner of base/guard.h: a test build defines LITHIFY_BREAK_FLEET_ADOPT or
// LITHIFY_BREAK_FLEET_OTHER_WORKER.
#ifndef LITHIFY_FLEET_FLEET_GUARD_H_
#define LITHIFY_FLEET_FLEET_GUARD_H_

namespace lithify::guard {

// A result is used only after its worker has given the outputs away: else it removes them later.
#ifdef LITHIFY_BREAK_FLEET_ADOPT
inline constexpr bool kFleetAdopt = false;
#else
inline constexpr bool kFleetAdopt = true;
#endif

// A group goes to another worker than the one that failed with it (R127, R289).
#ifdef LITHIFY_BREAK_FLEET_OTHER_WORKER
inline constexpr bool kFleetOtherWorker = false;
#else
inline constexpr bool kFleetOtherWorker = true;
#endif

}  // namespace lithify::guard

#endif  // LITHIFY_FLEET_FLEET_GUARD_H_
