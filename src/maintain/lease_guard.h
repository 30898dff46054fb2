// The guard of a claim, which a test build can break, to show that the simulation notices (negative
// control; see base/guard.h).
#ifndef LITHIFY_MAINTAIN_LEASE_GUARD_H_
#define LITHIFY_MAINTAIN_LEASE_GUARD_H_

namespace lithify::guard {

// A claim is appended on top of the snapshot in which no live claim was seen, or not at all (R152).
#ifdef LITHIFY_BREAK_LEASE_HEAD
inline constexpr bool kLeaseHead = false;
#else
inline constexpr bool kLeaseHead = true;
#endif

}  // namespace lithify::guard

#endif  // LITHIFY_MAINTAIN_LEASE_GUARD_H_
