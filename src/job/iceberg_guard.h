// The guards of the Iceberg procedures that a test build can break, to show that the suite notices
// (negative controls; see base/guard.h, and commit/iceberg_guard.h for those of the commit). All
// are constants.
//
// A test build defines one of LITHIFY_BREAK_ICEBERG_KEEP_UNKNOWN, LITHIFY_BREAK_ICEBERG_LOOK,
// LITHIFY_BREAK_FLEET_NAMED_PATHS.
#ifndef LITHIFY_JOB_ICEBERG_GUARD_H_
#define LITHIFY_JOB_ICEBERG_GUARD_H_

namespace lithify::guard {

// Outputs of a commit that may have been applied are never removed (I8, R302).
#ifdef LITHIFY_BREAK_ICEBERG_KEEP_UNKNOWN
inline constexpr bool kIcebergKeepUnknown = false;
#else
inline constexpr bool kIcebergKeepUnknown = true;
#endif

// What the newest metadata reaches is taken out before anything is removed (R184).
#ifdef LITHIFY_BREAK_ICEBERG_LOOK
inline constexpr bool kIcebergLook = false;
#else
inline constexpr bool kIcebergLook = true;
#endif

// What a worker says of the files that a delete file names is not believed (R102, R141).
#ifdef LITHIFY_BREAK_FLEET_NAMED_PATHS
inline constexpr bool kFleetNamedPaths = false;
#else
inline constexpr bool kFleetNamedPaths = true;
#endif

}  // namespace lithify::guard

#endif  // LITHIFY_JOB_ICEBERG_GUARD_H_
