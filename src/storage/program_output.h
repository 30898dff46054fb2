// What another program writes to its standard output, within bounds.
#ifndef LITHIFY_STORAGE_PROGRAM_OUTPUT_H_
#define LITHIFY_STORAGE_PROGRAM_OUTPUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::storage {

// A command in its words, as a POSIX shell would take it apart, but with nothing of a shell beyond:
// spaces separate, '…' and "…" quote, a backslash makes the next character an ordinary one (within
// "…" only a quote or a backslash). kInvalid: a quote that is not closed, or no word at all.
Result<std::vector<std::string>> SplitCommand(std::string_view command);

struct ProgramLimits {
  Duration time;
  int64_t bytes;
  std::function<bool()> stop;  // Asked twenty times a second; empty: never.
};

// Runs words[0], looked up in PATH, with the others as its arguments: no shell, this process's
// environment, nothing to read, and nowhere to complain to (standard error is thrown away: it may
// hold secrets). It gets no file or socket of ours, and a process group of its own, which is ended
// when a bound is met.
//
// kInvalid: it cannot be run. kDenied: it took too long, wrote too much, or ended with an error.
// kCancelled: `stop` said so. Messages name words[0] and no other word.
Result<std::string> OutputOf(const std::vector<std::string>& words, const ProgramLimits& limits,
                             const Clock& clock);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_PROGRAM_OUTPUT_H_
