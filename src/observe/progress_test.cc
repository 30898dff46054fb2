#include "observe/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "base/text.h"

namespace lithify::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  Time Now() const override { return Time(now); }
  Duration Monotonic() const override { return now; }
  void Sleep(Duration d) override { now += d; }
  Duration now = seconds(100);
};

// Columns on the screen: all characters that a bar has are one column wide.
int Columns(std::string_view text) {
  int columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return columns;
}

TEST(DrawBar, ShowsShareRateAndTimeLeft) {
  EXPECT_EQ(DrawBar("compact", kGiB, 4 * kGiB, 3, 40, seconds(4), 100),
            "compact  25% ▕███████▌                      ▏  1.0/4.0 GiB  256.0 MiB/s  13 s left  "
            "3/40 partitions");
}

TEST(DrawBar, AsciiForOtherLocales) {
  EXPECT_EQ(DrawBar("compact", kGiB, 4 * kGiB, 3, 40, seconds(4), 80, false),
            "compact  25% [##         ]  1.0/4.0 GiB  256.0 MiB/s  13 s left  3/40 partitions");
}

TEST(DrawBar, NothingKnownYet) {
  EXPECT_EQ(DrawBar("gc", 0, 0, 0, 0, seconds(0), 20, false), "gc   0% [          ]");
}

TEST(DrawBar, WithoutBytesPartitionsAreTheMeasure) {
  EXPECT_EQ(DrawBar("gc", 0, 0, 1, 4, seconds(1), 32, false), "gc  25% [#     ]  1/4 partitions");
}

TEST(DrawBar, AllDoneHasNoTimeLeft) {
  EXPECT_EQ(DrawBar("gc", 10, 10, 1, 1, seconds(1), 60, false),
            "gc 100% [##################]  10/10 B  10 B/s  1/1 partition");
}

TEST(DrawBar, MoreDoneThanKnownStaysAt100) {
  EXPECT_TRUE(DrawBar("x", 30, 10, 0, 0, seconds(1), 40, false).starts_with("x 100% [#"));
}

TEST(DrawBar, NeverWiderThanTheTerminalAndCutsTheLeastImportantFirst) {
  for (int width = 0; width <= 120; ++width) {
    for (const int64_t done : {int64_t{0}, kMiB, kGiB, 3 * kGiB}) {
      EXPECT_LE(Columns(DrawBar("compact", done, 3 * kGiB, 1, 9, seconds(1), width)), width);
    }
  }
  EXPECT_EQ(DrawBar("c", kMiB, 4 * kMiB, 3, 40, seconds(4), 30), "c  25%  1.0/4.0 MiB");
  EXPECT_EQ(DrawBar("c", kMiB, 4 * kMiB, 3, 40, seconds(4), 10), "c  25%");
  EXPECT_EQ(DrawBar("compact", kMiB, 4 * kMiB, 3, 40, seconds(4), 4), "comp");
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(fds_.data(), O_NONBLOCK), 0); }
  ~Pipe() {
    close(fds_[0]);
    close(fds_[1]);
  }
  int in() const { return fds_[1]; }
  std::string Take() const {
    std::string out;
    std::array<char, 4096> buffer;
    ssize_t got = 0;
    while ((got = read(fds_[0], buffer.data(), buffer.size())) > 0) {
      out.append(buffer.data(), static_cast<size_t>(got));
    }
    return out;
  }

 private:
  std::array<int, 2> fds_{};
};

TEST(Progress, BarIsDrawnAtMostTenTimesASecond) {
  ManualClock clock;
  const Pipe pipe;
  const auto progress = MakeProgress(pipe.in(), ProgressMode::kBar, clock, "compact");
  progress->AddTotal(1000, 10);
  EXPECT_TRUE(pipe.Take().starts_with("\r\x1b[Kcompact   0%"));
  int drawn = 0;
  for (int i = 0; i < 1000; ++i) {  // One second.
    clock.now += milliseconds(1);
    progress->AddBytes(1);
    if (!pipe.Take().empty()) ++drawn;
  }
  EXPECT_EQ(drawn, 10);
  progress->Finish();
  EXPECT_EQ(pipe.Take(), "\r\x1b[K");
  progress->AddBytes(1);
  clock.now += seconds(10);
  progress->AddItem();
  EXPECT_EQ(pipe.Take(), "");
  progress->Line("done");
  EXPECT_EQ(pipe.Take(), "done\n");
}

TEST(Progress, LinesGoAboveTheBar) {
  ManualClock clock;
  const Pipe pipe;
  const auto progress = MakeProgress(pipe.in(), ProgressMode::kBar, clock, "compact");
  progress->AddTotal(1000, 10);
  pipe.Take();
  progress->Line("hello");
  EXPECT_TRUE(pipe.Take().starts_with("\r\x1b[Khello\ncompact   0%"));
}

TEST(Progress, PlainLinesEveryFiveSeconds) {
  ManualClock clock;
  const Pipe pipe;
  const auto progress = MakeProgress(pipe.in(), ProgressMode::kLines, clock, "compact");
  progress->AddTotal(4 * kMiB, 10);
  clock.now += milliseconds(4999);
  progress->AddBytes(kMiB);
  EXPECT_EQ(pipe.Take(), "");
  clock.now += milliseconds(1);
  progress->AddItem();
  EXPECT_EQ(pipe.Take(), "compact: 25%, 1.0/4.0 MiB, 204.8 KiB/s, 16 s left, 1/10 partitions\n");
  progress->AddItem();
  EXPECT_EQ(pipe.Take(), "");
  progress->Finish();
  EXPECT_EQ(pipe.Take(), "");
}

TEST(Progress, NoneIsSilentButForLines) {
  ManualClock clock;
  const Pipe pipe;
  const auto progress = MakeProgress(pipe.in(), ProgressMode::kNone, clock, "compact");
  progress->AddTotal(1, 1);
  clock.now += seconds(60);
  progress->AddBytes(1);
  EXPECT_EQ(pipe.Take(), "");
  progress->Line("x");
  EXPECT_EQ(pipe.Take(), "x\n");
}

TEST(Progress, APipeIsNoTerminal) {
  const Pipe pipe;
  EXPECT_EQ(DetectProgressMode(pipe.in()), ProgressMode::kLines);
}

}  // namespace
}  // namespace lithify::observe
