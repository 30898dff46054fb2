#include "plan/estimate.h"

#include <algorithm>

namespace lithify::plan {

double EstimateSeconds(const Work& work, const CostModel& model) {
  const auto bytes = static_cast<double>(work.bytes);
  const double compute = bytes / (model.bytes_per_second_per_thread * model.threads);
  const double transfer = model.io_limit_bytes_per_second <= 0
                              ? 0.0
                              : 2.0 * bytes / static_cast<double>(model.io_limit_bytes_per_second);
  const CostModel::Seconds fixed = model.time_per_partition * static_cast<double>(work.partitions) +
                                   model.time_per_file * static_cast<double>(work.files);
  const auto at_once =
      std::clamp<int64_t>(work.partitions, 1, std::max(1, model.partitions_at_once));
  return std::max(compute, transfer) + fixed.count() / static_cast<double>(at_once);
}

Duration EstimateTime(const Work& work, const CostModel& model) {
  return std::chrono::duration_cast<Duration>(CostModel::Seconds(EstimateSeconds(work, model)));
}

}  // namespace lithify::plan
