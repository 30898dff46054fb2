#include "text/text_table.h"

#include <gtest/gtest.h>

namespace lithify::cli {
namespace {

TEST(TextTable, AlignsAndLeavesOutEmptyColumns) {
  TextTable table({{"name"}, {"files", Align::kRight}, {"none"}, {"why"}});
  table.AddRow({{"a"}, {"1,234"}, {""}, {"x"}});
  table.AddRow({{"longer"}, {"5"}, {""}, {""}});
  EXPECT_EQ(table.Render(false),
            "name    files  why\n"
            "a       1,234  x\n"
            "longer      5\n");
}

TEST(TextTable, ColoursDoNotDisturbTheColumns) {
  TextTable table({{"a"}, {"b"}});
  table.AddRow({{"x", Tone::kBad}, {"y"}});
  table.AddRow({{"xx"}, {"y", Tone::kGood}});
  EXPECT_EQ(table.Render(true),
            "\x1b[2ma\x1b[0m   \x1b[2mb\x1b[0m\n"
            "\x1b[31mx\x1b[0m   y\n"
            "xx  \x1b[32my\x1b[0m\n");
}

TEST(TextTable, WidthCountsCharactersNotBytes) {
  TextTable table({{"t"}, {"n", Align::kRight}});
  table.AddRow({{"é"}, {"1"}});
  table.AddRow({{"ab"}, {"1"}});
  EXPECT_EQ(table.Render(false), "t   n\né   1\nab  1\n");
}

TEST(TextTable, ControlCharactersCannotSteerTheTerminal) {
  TextTable table({{"t"}});
  table.AddRow({{"a\x1b[2Jb\n"}});
  EXPECT_EQ(table.Render(false), "t\na?[2Jb?\n");
  EXPECT_EQ(Printable("a\tb\x7f"), "a?b?");
}

TEST(SizeHistogram, ShowsClassesFromFirstToLast) {
  SizeHistogram histogram;
  EXPECT_EQ(histogram.Render(false), "");
  for (int i = 0; i < 40; ++i) histogram.Add(0);
  histogram.Add(kMiB - 1);
  histogram.Add(kMiB);
  histogram.Add(16 * kMiB);
  EXPECT_EQ(histogram.Render(false),
            "file size        files\n"
            "below 1 MiB         41  ########################################\n"
            "1 MiB - 4 MiB        1  #\n"
            "4 MiB - 16 MiB       0\n"
            "16 MiB - 64 MiB      1  #\n");
}

TEST(SizeHistogram, TheLastClassIsOpen) {
  SizeHistogram histogram;
  histogram.Add(2 * kGiB);
  histogram.Add(5000 * kGiB);
  EXPECT_EQ(histogram.Render(true),
            "file size       files\n"
            "2 GiB and more      2  ████████████████████████████████████████\n");
}

TEST(FormatShare, RoundsToTenths) {
  EXPECT_EQ(FormatShare(1, 8), "12.5 %");
  EXPECT_EQ(FormatShare(1, 3), "33.3 %");
  EXPECT_EQ(FormatShare(2, 3), "66.7 %");
  EXPECT_EQ(FormatShare(3, 3), "100.0 %");
  EXPECT_EQ(FormatShare(0, 0), "-");
}

}  // namespace
}  // namespace lithify::cli
