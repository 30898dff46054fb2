// When the time of a partition is over, by the values of its tuple. Pure.
#ifndef LITHIFY_PLAN_PARTITION_TIME_H_
#define LITHIFY_PLAN_PARTITION_TIME_H_

#include <optional>

#include "base/clock.h"
#include "base/iceberg.h"

namespace lithify::plan {

// The end of the year, month, day or hour that its rows are of, or of the date, if it is divided by
// one itself; of several the earliest. nullopt: the table is not divided by time, or the value is
// null or of no calendar.
std::optional<Time> PartitionEnd(const iceberg::TableMetadata& table,
                                 const iceberg::PartitionKey& partition);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_PARTITION_TIME_H_
