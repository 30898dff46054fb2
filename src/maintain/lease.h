// Who works on what, so that several coordinators do not do the same work at the same time.
//
// A lease is not a correctness mechanism (R145). It saves work, and nothing else: every caller must
// be right without one, with one that fails, and with one that lies. What keeps a table right is
// its own commit (commit/iceberg_commit.h). So an error of any call means: go on unleased, with a
// warning (R292); and a lease lost in the middle of a job does not stop the job (R296).
//
// Thread safety: thread-safe.
#ifndef LITHIFY_MAINTAIN_LEASE_H_
#define LITHIFY_MAINTAIN_LEASE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "job/maintenance_log.h"

namespace lithify::maintain {

// A claim on a key that is ours.
struct OwnClaim {
  std::string key;
  std::string id;  // UUIDv7, of this claim alone.
  Time until;      // By our clock.
};

struct ClaimResult {
  enum class Kind {
    kAcquired,  // `claim` is ours.
    kHeld,      // By another: leave the key alone this time (R293).
    // Renew() only: the claim was stolen, or somebody ended it. The job may go on (R296).
    kLost,
  };
  Kind kind = Kind::kAcquired;
  OwnClaim claim;
  std::string holder;  // kHeld, kLost: whose it is, as far as that is known.
  Time until;          // kHeld: when that ends.
  // kAcquired: whose claim had run out and was taken over; empty: nobody's.
  std::string stolen_from;
  bool reacquired = false;  // kAcquired: it was ours already.
};
std::string_view ClaimKindName(ClaimResult::Kind kind);  // "acquired".

class Lease {
 public:
  virtual ~Lease() = default;
  // Never waits for another holder. A live claim of this holder on the key is the result again.
  virtual Result<ClaimResult> Claim(const std::string& key, Duration ttl,
                                    const CancelFlag& cancel) = 0;
  // To be called when half of the time is over. kAcquired with the new end, or kLost.
  virtual Result<ClaimResult> Renew(const OwnClaim& claim, Duration ttl,
                                    const CancelFlag& cancel) = 0;
  // Always, after success and failure (R146). To release what is not ours any more is no error.
  virtual Status Release(const OwnClaim& claim, const CancelFlag& cancel) = 0;
  virtual std::string_view name() const = 0;  // "none", "catalog".
};

// lease = "none": every claim is acquired.
std::unique_ptr<Lease> MakeNoLease(const Clock& clock, Random& random);

struct CatalogLeaseOptions {
  std::string holder;  // R149: stable for the process, different from all others.
  // How far the clocks of coordinators may be apart. Claims that ended longer ago are not looked
  // at, and those that begin further ahead are of a wrong clock and do not hold.
  Duration skew_max = std::chrono::hours(1);
  int attempts = 6;  // Of a claim or renewal against other writers of the log; then kConflict.
};
// lease = "catalog": rows of the maintenance log (R148). A claim is appended on top of the very
// snapshot in which no live claim was seen, so that of two that claim at once one is told that the
// other holds it, also in a log without rows (R152). Whoever claims a key also ends, in the same
// commit, every claim on it that has run out.
//
// kConflict: the log is written to so often that no attempt came through. Other errors are those of
// the log.
std::unique_ptr<Lease> MakeCatalogLease(job::MaintenanceLog& log, CatalogLeaseOptions options,
                                        const Clock& clock, Random& random);

// "<host>-<pid>-<digits>", the same for the life of this process (R149); in a pod the host is the
// pod's name.
std::string ProcessHolder();

// --- parts for tests ---------------------------------------------------------------------------

// What rows of a log say of claims on one key, in any order of the rows: a claim has the rows of
// one job_id; it ends at the latest finished_at_ms of its rows, or once one of them says so.
struct ClaimState {
  std::string id;
  std::string holder;
  int64_t started_ms = 0;  // First row.
  int64_t until_ms = 0;
  bool ended = false;  // Released or stolen.
};
std::vector<ClaimState> ClaimsOf(const std::vector<job::LogRow>& rows, std::string_view key);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_LEASE_H_
