// How often the partitions of an Iceberg table are written, as its own metadata tells: the live
// files, by the snapshots that added them. Pure.
#ifndef LITHIFY_PLAN_WRITE_RATES_H_
#define LITHIFY_PLAN_WRITE_RATES_H_

#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/iceberg.h"

namespace lithify::plan {

// Unset: the metadata does not tell.
struct WriteRates {
  std::optional<double> commits_per_hour;  // That touch the partition.
  double append_share = 0;                 // Of these commits: those that only add files.
  std::optional<double> files_per_hour;    // Data files that writers add to it.
  std::optional<double> seconds_since_write;
  std::optional<double> seconds_since_compaction;  // Of the table: its last `replace` snapshot.
};

// Looks back a day, but no further than the oldest snapshot that is kept and than the last
// compaction, which has taken older files away.
inline constexpr Duration kWriteRatesWindow = std::chrono::hours(24);
inline constexpr Duration kWriteRatesWindowMin = std::chrono::minutes(10);
// A compaction that is further ahead of now is of a clock that was wrong (T18): were it believed,
// nothing would be worth doing until that time has come.
inline constexpr Duration kWriteRatesSkewMax = std::chrono::minutes(5);

// By index into live.partitions. Format version 1 has no sequence numbers: nothing is known then.
std::vector<WriteRates> WriteRatesOf(const iceberg::TableMetadata& table,
                                     const iceberg::LiveSet& live, Time now);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_WRITE_RATES_H_
