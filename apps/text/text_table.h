// Text for a terminal: aligned tables, colours, histograms. Pure.
#ifndef LITHIFY_APPS_TEXT_TEXT_TABLE_H_
#define LITHIFY_APPS_TEXT_TEXT_TABLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace lithify::cli {

enum class Align { kLeft, kRight };
enum class Tone { kPlain, kGood, kWarn, kBad, kDim };

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;
};

// Columns on a terminal: UTF-8 continuation bytes take none.
size_t DisplayWidth(std::string_view text);

// Control characters, which could steer the terminal, become '?'.
std::string Printable(std::string_view text);

std::string Paint(std::string_view text, Tone tone, bool colour);

class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as columns.
  void AddRow(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  // Title line and rows, two blanks between columns, no blanks at line ends. Columns that are empty
  // in all rows are left out.
  std::string Render(bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Sizes of files in classes that double from 1 MiB; the last one is open.
class SizeHistogram {
 public:
  void Add(int64_t bytes);
  // One line per class from the first to the last that is not empty: range, count, bar.
  std::string Render(bool unicode) const;

 private:
  static constexpr std::array<int64_t, 9> kBounds = {
      kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB, 128 * kMiB, 256 * kMiB, 512 * kMiB, kGiB, 2 * kGiB};
  std::array<int64_t, kBounds.size() + 1> counts_{};
};

// "12.5 %"; "-" where `whole` is 0.
std::string FormatShare(int64_t part, int64_t whole);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_TEXT_TEXT_TABLE_H_
