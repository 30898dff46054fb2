// An order's group rewritten from the table's own metadata: what an attempt of a worker really is.
#ifndef LITHIFY_FLEET_TABLE_ATTEMPT_H_
#define LITHIFY_FLEET_TABLE_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "fleet/order_storage.h"
#include "fleet/worker_service.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::fleet {

// Of groups that are sorted, as of rewrite::Ordering.
struct SpillPlace {
  std::string directory;
  int64_t bytes_max = 0;  // Of each group.
};

using MakeRunner =
    std::function<std::unique_ptr<rewrite::GroupRunner>(storage::Store&, int64_t memory_bytes)>;

// Reads the metadata that the order names, and from then on only what lies below the places that it
// names itself: the table's location, write.data.path and its like, and the directory of the
// metadata file, if that is called "metadata". New files go below the data location, and no file of
// anybody else is replaced or removed (storage/scoped_locations.h). Groups of one job on one
// snapshot share what was read of it. `clock` and `random` outlive all attempts.
WorkerService::OpenAttempt OpenTableAttempts(OrderStorageOptions options, MakeRunner make_runner,
                                             Clock& clock, Random& random, SpillPlace spill = {});

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_TABLE_ATTEMPT_H_
