// The guards of an Iceberg commit, each of which a test build can break, to show that the suite
// notices (negative controls; see base/guard.h). All are constants.
//
// A test build defines one of LITHIFY_BREAK_ICEBERG_VALIDATION, LITHIFY_BREAK_ICEBERG_INPUTS_LIVE,
// LITHIFY_BREAK_ICEBERG_UNKNOWN_OUTCOME, LITHIFY_BREAK_ICEBERG_SEQUENCE_PIN,
// LITHIFY_BREAK_ICEBERG_ARRIVALS.
#ifndef LITHIFY_COMMIT_ICEBERG_GUARD_H_
#define LITHIFY_COMMIT_ICEBERG_GUARD_H_

namespace lithify::guard {

// Deletes that came or went since the planned snapshot and reach an input are a conflict (I4, T14).
#ifdef LITHIFY_BREAK_ICEBERG_VALIDATION
inline constexpr bool kIcebergValidation = false;
#else
inline constexpr bool kIcebergValidation = true;
#endif

// Every input is live in the state that the commit lands on (I5, R120).
#ifdef LITHIFY_BREAK_ICEBERG_INPUTS_LIVE
inline constexpr bool kIcebergInputsLive = false;
#else
inline constexpr bool kIcebergInputsLive = true;
#endif

// After a lost reply our own snapshot is looked for before anything else (I8, R302).
#ifdef LITHIFY_BREAK_ICEBERG_UNKNOWN_OUTCOME
inline constexpr bool kIcebergUnknownOutcome = false;
#else
inline constexpr bool kIcebergUnknownOutcome = true;
#endif

// Outputs keep the data sequence number of the planned snapshot (I1, R110).
#ifdef LITHIFY_BREAK_ICEBERG_SEQUENCE_PIN
inline constexpr bool kIcebergSequencePin = false;
#else
inline constexpr bool kIcebergSequencePin = true;
#endif

// New equality deletes of a partition that rows come to from another one are a conflict (I1).
#ifdef LITHIFY_BREAK_ICEBERG_ARRIVALS
inline constexpr bool kIcebergArrivals = false;
#else
inline constexpr bool kIcebergArrivals = true;
#endif

}  // namespace lithify::guard

#endif  // LITHIFY_COMMIT_ICEBERG_GUARD_H_
