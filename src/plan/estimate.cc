#include "plan/estimate.h"

#include <algorithm>

namespace lithify::plan {

Duration EstimateTime(const Work& work, const CostModel& model) {
  const auto bytes = static_cast<double>(work.bytes);
  const double compute = bytes / (static_cast<double>(kBytesPerSecondPerThread) * model.threads);
  const double transfer = model.io_limit_bytes_per_second <= 0
                              ? 0.0
                              : 2.0 * bytes / static_cast<double>(model.io_limit_bytes_per_second);
  using Seconds = std::chrono::duration<double>;
  const Seconds fixed = Seconds(kTimePerPartition) * static_cast<double>(work.partitions) +
                        Seconds(kTimePerFile) * static_cast<double>(work.files);
  const auto at_once =
      std::clamp<int64_t>(work.partitions, 1, std::max(1, model.partitions_at_once));
  return std::chrono::duration_cast<Duration>(Seconds(std::max(compute, transfer)) +
                                              fixed / static_cast<double>(at_once));
}

}  // namespace lithify::plan
