// What the process tells its caller (docs/CLI.md).
#ifndef LITHIFY_APPS_LITHIFY_EXIT_CODE_H_
#define LITHIFY_APPS_LITHIFY_EXIT_CODE_H_

namespace lithify::cli {

enum ExitCode : int {
  kDone = 0,        // Done, or nothing to do.
  kFailed = 1,      // At least one partition or file failed; the others were done.
  kUsage = 2,       // Wrong usage or configuration; nothing was touched.
  kMismatch = 3,    // A verification found a mismatch.
  kUnreadable = 4,  // The tree could not be read at all.
  kStopped = 130,   // Stopped by SIGINT or SIGTERM; the tree is consistent.
};

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_EXIT_CODE_H_
