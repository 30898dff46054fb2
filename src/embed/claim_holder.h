// Who this process is in a claim on a partition (Q3) or in a lease (R149), and whether the process
// of another claim is still there.
#ifndef LITHIFY_EMBED_CLAIM_HOLDER_H_
#define LITHIFY_EMBED_CLAIM_HOLDER_H_

#include <string>

#include "base/random.h"

namespace lithify::embed {

// A new one: "<host>-<pid>-<16 hex digits>", of letters, digits, '.', '_' and '-'. The first eight
// digits are those of this process, and tell it from others that have host name and pid in common,
// one after the other or in two containers.
std::string MakeClaimHolder(Random& random);

// True if `holder` is of this host, and of a pid that no process has now, or that this process has
// got since. Containers which share a host name but not their pids may be wrong about each other;
// then both do the same work, as without claims.
bool IsHolderGone(const std::string& holder);

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_CLAIM_HOLDER_H_
