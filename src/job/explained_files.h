// How many files a dry run opens to explain the tiers of what would be rewritten. Private to this
// module.
#ifndef LITHIFY_JOB_EXPLAINED_FILES_H_
#define LITHIFY_JOB_EXPLAINED_FILES_H_

#include <cstdint>
#include <string>

#include "base/text.h"

namespace lithify::job {

// Seconds on a local disk. A group that begins below it is explained as a whole.
inline constexpr int64_t kExplainedFilesMax = 10'000;

inline std::string WhyNotExplained() {
  return "tiers are not explained: " + FormatCount(kExplainedFilesMax) +
         " files were opened for others; ask for fewer at once";
}

}  // namespace lithify::job

#endif  // LITHIFY_JOB_EXPLAINED_FILES_H_
