// The trees of the configuration, opened as the command line opens them.
#ifndef LITHIFY_MAINTAIN_HIVE_TREE_H_
#define LITHIFY_MAINTAIN_HIVE_TREE_H_

#include <functional>

#include "base/cancel.h"
#include "base/result.h"
#include "config/config.h"
#include "embed/environment.h"
#include "maintain/tree_scheduler.h"
#include "observe/metrics.h"
#include "observe/progress.h"
#include "observe/telemetry.h"

namespace lithify::maintain {

// `config` holds for all of them; a lithify.toml inside a tree is not read, since whoever can write
// there is not who configured this process. `progress` and `cancel` outlive every tree; `told`: of
// audit records that cannot be written. Sweeps are counted in `metrics`, and their spans go to
// `telemetry`, which may be null.
OpenTree OpenHiveTrees(config::HiveConfig config, embed::Environment environment,
                       observe::Progress& progress, const CancelFlag& cancel,
                       std::function<void(const Error&)> told, observe::Metrics& metrics,
                       observe::Telemetry* telemetry);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_HIVE_TREE_H_
