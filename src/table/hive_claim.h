// `_compaction.lock` of a hive partition: text to model and back (Q3; docs/FORMATS.md). A claim
// saves work: whoever finds a live one goes elsewhere. It protects nothing, and nothing may rely
// on it: commits are compare-and-swaps of the manifest.
//
// Pure, thread-safe.
#ifndef LITHIFY_TABLE_HIVE_CLAIM_H_
#define LITHIFY_TABLE_HIVE_CLAIM_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::table {

inline constexpr int64_t kClaimBytesMax = 4096;
// No claim is made for longer, and one that says so is not believed: its holder's clock was wrong,
// and the partition must not wait for that.
inline constexpr Duration kClaimTtlMax = std::chrono::hours(24);

struct HiveClaim {
  std::string holder;  // The process: "<host>-<pid>-<random>".
  std::string job_id;
  Time claimed_at;
  Time expires_at;
  bool operator==(const HiveClaim&) const = default;
};

std::string SerializeClaim(const HiveClaim& claim);
// kCorrupt for anything else than an object with these four members; others are ignored.
Result<HiveClaim> ParseClaim(std::string_view json);

// False once it has expired, at the latest kClaimTtlMax from now.
bool IsLiveClaim(const HiveClaim& claim, Time now);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_HIVE_CLAIM_H_
