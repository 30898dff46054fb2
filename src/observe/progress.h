// What a person sees while work goes on: a bar with rate and time left on a terminal, plain lines
// elsewhere. Never on the way of the work: updates are counters, drawing is throttled.
#ifndef LITHIFY_OBSERVE_PROGRESS_H_
#define LITHIFY_OBSERVE_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lithify::observe {

// Thread-safe.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void AddTotal(int64_t bytes, int64_t items) = 0;  // More work became known.
  virtual void AddBytes(int64_t bytes) = 0;                 // Input bytes done.
  virtual void AddItem() = 0;                               // One partition done.
  virtual void Line(std::string_view text) = 0;  // A message of its own line, above the bar.
  virtual void Finish() = 0;                     // Clears the bar; further calls only print lines.
};

enum class ProgressMode { kBar, kLines, kNone };

// kBar when `fd` is a terminal (and TERM is not "dumb"), else kLines. Writes to `fd` (stderr).
// kLines prints at most one progress line every 5 s.
std::unique_ptr<Progress> MakeProgress(int fd, ProgressMode mode, const Clock& clock,
                                       std::string label);
ProgressMode DetectProgressMode(int fd);
// Nobody looks.
std::unique_ptr<Progress> MakeSilentProgress();

// The bar's text for `width` columns, pure: "compact  42% ▕████▏ 1.2/2.8 GiB  310 MiB/s  4 s left
// 12/40 partitions". Never wider than `width`: parts that do not fit are left out, the bar first.
// The share is that of bytes, or of items while no bytes are known. Without `unicode` the bar is
// drawn as "[####    ]".
std::string DrawBar(std::string_view label, int64_t bytes_done, int64_t bytes_total,
                    int64_t items_done, int64_t items_total, Duration elapsed, int width,
                    bool unicode = true);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_PROGRESS_H_
