// One job's claim on one partition, for as long as it rewrites it (Q3). For efficiency only: every
// failure of a claim's operation means to go on without one, and a note. Private to this module.
//
// A claim is renewed by the work itself (Renew), not by a thread: work that makes no progress for
// longer than the claim lives loses it, and others may then do it too.
#ifndef LITHIFY_JOB_HIVE_CLAIM_H_
#define LITHIFY_JOB_HIVE_CLAIM_H_

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/hive_job.h"
#include "storage/store.h"
#include "table/hive_claim.h"

namespace lithify::job {

class PartitionClaim {
 public:
  // `ttl` > 0.
  PartitionClaim(const HiveServices& services, const PartitionId& id, const std::string& job_id,
                 Duration ttl);
  // Releases.
  ~PartitionClaim();
  PartitionClaim(const PartitionClaim&) = delete;
  PartitionClaim& operator=(const PartitionClaim&) = delete;

  // nullopt: go on; claimed, or not, then a note says why. Else the live claim of somebody else.
  // To be called once.
  std::optional<table::HiveClaim> Take();
  // Any thread, often: does something only once half of the claim's time is over.
  void Renew();
  // Removes the claim if it is still ours. Not while Renew may run.
  void Release();

  std::vector<std::string> TakeNotes();

 private:
  enum class Tried { kDone, kTaken, kAgain };

  table::HiveClaim Make() const;
  Result<Tried> TryOnce(std::optional<table::HiveClaim>& other);
  Tried InDoubt(Error error);
  Status RenewNow();
  void Remove();
  bool IsOurs(const table::HiveClaim& claim) const;
  void Note(std::string text);

  const HiveServices& services_;
  const std::string key_;
  const std::string job_id_;
  const Duration ttl_;
  std::mutex renewing_;
  std::mutex notes_mutex_;
  std::vector<std::string> notes_;
  std::optional<Error> doubt_;              // Of Take(): what the last write in doubt met.
  bool tried_ = false;                      // Something of ours may be there.
  std::atomic<bool> held_{false};           // As far as we know.
  std::atomic<Duration::rep> renew_at_{0};  // Monotonic.
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_HIVE_CLAIM_H_
