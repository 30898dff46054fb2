#include "observe/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/text.h"

namespace lithify::observe {
namespace {

constexpr Duration kBarInterval = std::chrono::milliseconds(100);
constexpr Duration kLineInterval = std::chrono::seconds(5);
constexpr int kBarCellsMin = 6;
constexpr int kBarCellsMax = 30;

int Percent(int64_t done, int64_t total) {
  if (total <= 0) return 0;
  if (done >= total) return 100;
  return static_cast<int>(static_cast<double>(done) * 100.0 / static_cast<double>(total));
}

// "1.2/2.8 GiB": both in the unit of the total.
std::string BytesOf(int64_t done, int64_t total) {
  const std::string all = FormatBytes(total);
  const size_t space = all.find(' ');
  const std::string_view unit = std::string_view(all).substr(space + 1);
  int64_t scale = 1;
  if (unit == "KiB") scale = kKiB;
  if (unit == "MiB") scale = kMiB;
  if (unit == "GiB") scale = kGiB;
  if (unit == "TiB") scale = 1024 * kGiB;
  if (scale == 1) return std::to_string(done) + "/" + all;
  const int64_t tenths =
      static_cast<int64_t>(static_cast<double>(done) * 10.0 / static_cast<double>(scale));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "/" + all;
}

// Parts in the order of the line; each says by `rank` how soon it goes when columns are short.
struct Part {
  std::string text;
  int rank = 0;
};

std::vector<Part> Parts(int64_t bytes_done, int64_t bytes_total, int64_t items_done,
                        int64_t items_total, Duration elapsed) {
  std::vector<Part> parts;
  if (bytes_total > 0) parts.push_back({BytesOf(bytes_done, bytes_total), 3});
  const double seconds = std::chrono::duration<double>(elapsed).count();
  if (seconds > 0 && bytes_done > 0) {
    const double rate = static_cast<double>(bytes_done) / seconds;
    parts.push_back({FormatBytes(static_cast<int64_t>(rate)) + "/s", 2});
    if (bytes_done < bytes_total) {
      const double left = static_cast<double>(bytes_total - bytes_done) / rate;
      // Whole seconds, rounded up: it never says 0 while work is left.
      const auto whole = std::chrono::seconds(static_cast<int64_t>(std::min(left, 1e9)) + 1);
      const std::string text = whole < std::chrono::minutes(1)
                                   ? std::to_string(whole.count()) + " s"
                                   : FormatDuration(whole);
      parts.push_back({text + " left", 1});
    }
  }
  if (items_total > 0) {
    parts.push_back({std::to_string(items_done) + "/" + std::to_string(items_total) +
                         (items_total == 1 ? " partition" : " partitions"),
                     0});
  }
  return parts;
}

std::string Join(const std::vector<Part>& parts, std::string_view separator) {
  std::string out;
  for (const Part& part : parts) {
    out += separator;
    out += part.text;
  }
  return out;
}

std::string Cells(int64_t done, int64_t total, int cells, bool unicode) {
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double share = total <= 0 ? 0.0
                                  : std::min(1.0, static_cast<double>(std::max<int64_t>(done, 0)) /
                                                      static_cast<double>(total));
  const int eighths = static_cast<int>(share * cells * 8);
  const int full = eighths / 8;
  std::string out(unicode ? "▕" : "[");
  for (int i = 0; i < full; ++i) out += unicode ? "█" : "#";
  int used = full;
  if (unicode && used < cells && eighths % 8 != 0) {
    out += kEighths[static_cast<size_t>(eighths % 8)];
    ++used;
  }
  out.append(static_cast<size_t>(cells - used), ' ');
  out += unicode ? "▏" : "]";
  return out;
}

bool UnicodeLocale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

class SilentProgress final : public Progress {
 public:
  void AddTotal(int64_t, int64_t) override {}
  void AddBytes(int64_t) override {}
  void AddItem() override {}
  void Line(std::string_view) override {}
  void Finish() override {}
};

class StreamProgress final : public Progress {
 public:
  StreamProgress(int fd, ProgressMode mode, const Clock& clock, std::string label)
      : fd_(fd),
        mode_(mode),
        clock_(clock),
        label_(std::move(label)),
        unicode_(UnicodeLocale()),
        start_(clock.Monotonic()),
        // The first plain line waits for its interval: short runs print none.
        drawn_at_(mode == ProgressMode::kBar ? start_ - kBarInterval : start_) {}

  ~StreamProgress() override { Finish(); }
  StreamProgress(const StreamProgress&) = delete;
  StreamProgress& operator=(const StreamProgress&) = delete;

  void AddTotal(int64_t bytes, int64_t items) override {
    bytes_total_.fetch_add(bytes, std::memory_order_relaxed);
    items_total_.fetch_add(items, std::memory_order_relaxed);
    MaybeDraw();
  }
  void AddBytes(int64_t bytes) override {
    bytes_done_.fetch_add(bytes, std::memory_order_relaxed);
    MaybeDraw();
  }
  void AddItem() override {
    items_done_.fetch_add(1, std::memory_order_relaxed);
    MaybeDraw();
  }

  void Line(std::string_view text) override {
    std::lock_guard lock(mutex_);
    std::string out;
    if (bar_shown_) out += kClear;
    out += text;
    out += '\n';
    if (bar_shown_) out += Bar();
    Write(out);
  }

  void Finish() override {
    std::lock_guard lock(mutex_);
    finished_.store(true, std::memory_order_relaxed);
    if (bar_shown_) Write(kClear);
    bar_shown_ = false;
  }

 private:
  // To the first column, and the line erased. The cursor is never hidden, so even a killed process
  // leaves the terminal as it was.
  static constexpr std::string_view kClear = "\r\x1b[K";

  // Whoever gets the lock draws; nobody waits for a slow terminal.
  void MaybeDraw() {
    if (mode_ == ProgressMode::kNone || finished_.load(std::memory_order_relaxed)) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || finished_.load(std::memory_order_relaxed)) return;
    const Duration now = clock_.Monotonic();
    if (now - drawn_at_ < (mode_ == ProgressMode::kBar ? kBarInterval : kLineInterval)) return;
    drawn_at_ = now;
    if (mode_ == ProgressMode::kBar) {
      bar_shown_ = true;
      Write(std::string(kClear) + Bar());
    } else {
      Write(PlainLine() + "\n");
    }
  }

  std::string Bar() const {
    winsize size{};
    // One column stays free: a full line would wrap on some terminals.
    const int width = ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col - 1 : 79;
    return DrawBar(label_, bytes_done_, bytes_total_, items_done_, items_total_,
                   clock_.Monotonic() - start_, width, unicode_);
  }

  std::string PlainLine() const {
    const std::vector<Part> parts =
        Parts(bytes_done_, bytes_total_, items_done_, items_total_, clock_.Monotonic() - start_);
    const int percent =
        bytes_total_ > 0 ? Percent(bytes_done_, bytes_total_) : Percent(items_done_, items_total_);
    return label_ + ": " + std::to_string(percent) + "%" + Join(parts, ", ");
  }

  void Write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t put = write(fd_, text.data(), text.size());
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return;  // A terminal that went away must not stop the work.
      text.remove_prefix(static_cast<size_t>(put));
    }
  }

  const int fd_;
  const ProgressMode mode_;
  const Clock& clock_;
  const std::string label_;
  const bool unicode_;
  const Duration start_;
  std::atomic<int64_t> bytes_done_{0};
  std::atomic<int64_t> bytes_total_{0};
  std::atomic<int64_t> items_done_{0};
  std::atomic<int64_t> items_total_{0};
  std::atomic<bool> finished_{false};
  std::mutex mutex_;  // Guards the stream and what follows.
  Duration drawn_at_;
  bool bar_shown_ = false;
};

}  // namespace

std::string DrawBar(std::string_view label, int64_t bytes_done, int64_t bytes_total,
                    int64_t items_done, int64_t items_total, Duration elapsed, int width,
                    bool unicode) {
  std::vector<Part> parts = Parts(bytes_done, bytes_total, items_done, items_total, elapsed);
  const bool by_bytes = bytes_total > 0;
  const int64_t done = by_bytes ? bytes_done : items_done;
  const int64_t total = by_bytes ? bytes_total : items_total;
  std::string percent = std::to_string(Percent(done, total)) + "%";
  percent.insert(0, 4 - std::min<size_t>(4, percent.size()), ' ');
  const std::string head = std::string(label) + " " + percent;
  const size_t columns = static_cast<size_t>(std::max(width, 0));
  if (head.size() >= columns) return head.substr(0, columns);

  std::string tail = Join(parts, "  ");
  const int room = static_cast<int>(columns - head.size()) - 3;  // A blank and two edges.
  if (room - static_cast<int>(tail.size()) >= kBarCellsMin) {
    const int cells = std::min(kBarCellsMax, room - static_cast<int>(tail.size()));
    return head + " " + Cells(done, total, cells, unicode) + tail;
  }
  for (int rank = 0; head.size() + tail.size() > columns; ++rank) {
    std::erase_if(parts, [&](const Part& part) { return part.rank == rank; });
    tail = Join(parts, "  ");
  }
  return head + tail;
}

std::unique_ptr<Progress> MakeProgress(int fd, ProgressMode mode, const Clock& clock,
                                       std::string label) {
  return std::make_unique<StreamProgress>(fd, mode, clock, std::move(label));
}

std::unique_ptr<Progress> MakeSilentProgress() { return std::make_unique<SilentProgress>(); }

ProgressMode DetectProgressMode(int fd) {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return isatty(fd) == 1 && !dumb ? ProgressMode::kBar : ProgressMode::kLines;
}

}  // namespace lithify::observe
