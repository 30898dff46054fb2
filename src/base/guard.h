// The guards that keep rows safe, each of which a test build can break, to show that the suite
// notices: a guard that no test misses is not proven (negative controls). All are constants: the
// shipped binary has no switch that turns one off.
//
// A test build defines one of LITHIFY_BREAK_BOOTSTRAP, LITHIFY_BREAK_REREAD, LITHIFY_BREAK_GRACE,
// LITHIFY_BREAK_FENCE, LITHIFY_BREAK_MARK_CHECK, LITHIFY_BREAK_COMPARE_AND_SWAP.
#ifndef LITHIFY_BASE_GUARD_H_
#define LITHIFY_BASE_GUARD_H_

namespace lithify::guard {

// The first manifest is published before any output is visible (R215, T20).
#ifdef LITHIFY_BREAK_BOOTSTRAP
inline constexpr bool kBootstrap = false;
#else
inline constexpr bool kBootstrap = true;
#endif

// The manifest is read again right before each removal (T23).
#ifdef LITHIFY_BREAK_REREAD
inline constexpr bool kReread = false;
#else
inline constexpr bool kReread = true;
#endif

// Nothing is removed before its grace has passed (R238, T24, H2, H3).
#ifdef LITHIFY_BREAK_GRACE
inline constexpr bool kGrace = false;
#else
inline constexpr bool kGrace = true;
#endif

// An unpublished output is removed only after a new generation has made its commit impossible.
#ifdef LITHIFY_BREAK_FENCE
inline constexpr bool kFence = false;
#else
inline constexpr bool kFence = true;
#endif

// An unlisted file without our mark in its footer is somebody's data, not garbage (T22, H1).
#ifdef LITHIFY_BREAK_MARK_CHECK
inline constexpr bool kMarkCheck = false;
#else
inline constexpr bool kMarkCheck = true;
#endif

// A manifest is replaced only if it is the one that the plan was made on (R218, R219, T27).
#ifdef LITHIFY_BREAK_COMPARE_AND_SWAP
inline constexpr bool kCompareAndSwap = false;
#else
inline constexpr bool kCompareAndSwap = true;
#endif

}  // namespace lithify::guard

#endif  // LITHIFY_BASE_GUARD_H_
