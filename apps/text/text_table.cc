#include "text/text_table.h"

#include <algorithm>

#include "base/result.h"

namespace lithify::cli {
namespace {

std::string Padded(const std::string& text, size_t width, Align align) {
  const std::string blanks(width - std::min(width, DisplayWidth(text)), ' ');
  return align == Align::kRight ? blanks + text : text + blanks;
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = '?';
  }
  return out;
}

std::string Paint(std::string_view text, Tone tone, bool colour) {
  std::string_view code;
  switch (tone) {
    case Tone::kPlain: break;
    case Tone::kGood: code = "\x1b[32m"; break;
    case Tone::kWarn: code = "\x1b[33m"; break;
    case Tone::kBad: code = "\x1b[31m"; break;
    case Tone::kDim: code = "\x1b[2m"; break;
  }
  if (!colour || code.empty()) return std::string(text);
  return std::string(code) + std::string(text) + "\x1b[0m";
}

void TextTable::AddRow(std::vector<Cell> cells) {
  LITHIFY_CHECK(cells.size() == columns_.size(), "a row has as many cells as the table columns");
  for (Cell& cell : cells) cell.text = Printable(cell.text);
  rows_.push_back(std::move(cells));
}

std::string TextTable::Render(bool colour) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t i = 0; i < columns_.size(); ++i) {
    for (const auto& row : rows_) widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    if (widths[i] > 0) widths[i] = std::max(widths[i], DisplayWidth(columns_[i].title));
  }
  std::string out;
  const auto line = [&](auto&& cell_of) {
    std::string text;
    std::string pending;  // Blanks that are written only if something follows.
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (widths[i] == 0) continue;
      const Cell cell = cell_of(i);
      const std::string padded = Padded(cell.text, widths[i], columns_[i].align);
      const size_t head = std::min(padded.find_first_not_of(' '), padded.size());
      const size_t tail = padded.size() - std::min(padded.size(), padded.find_last_not_of(' ') + 1);
      pending.append(head == padded.size() ? 0 : head, ' ');
      if (head < padded.size()) {
        text += pending;
        text += Paint(cell.text, cell.tone, colour);
        pending.clear();
        pending.append(tail, ' ');
      } else {
        pending.append(padded.size(), ' ');
      }
      pending += "  ";
    }
    out += text + "\n";
  };
  line([&](size_t i) { return Cell{columns_[i].title, Tone::kDim}; });
  for (const auto& row : rows_) line([&](size_t i) { return row[i]; });
  return out;
}

void SizeHistogram::Add(int64_t bytes) {
  const auto bound = std::ranges::upper_bound(kBounds, bytes);
  counts_[static_cast<size_t>(bound - kBounds.begin())] += 1;
}

std::string SizeHistogram::Render(bool unicode) const {
  constexpr int64_t kBarWidth = 40;
  const int64_t most = *std::ranges::max_element(counts_);
  if (most == 0) return {};
  const auto text = [](int64_t bytes) {
    const std::string all = FormatBytes(bytes);
    const size_t point = all.find(".0");
    return point == all.npos ? all : all.substr(0, point) + all.substr(point + 2);
  };
  TextTable table({{"file size"}, {"files", Align::kRight}, {" "}});
  size_t first = 0;
  while (counts_[first] == 0) ++first;
  size_t last = counts_.size() - 1;
  while (counts_[last] == 0) --last;
  for (size_t i = first; i <= last; ++i) {
    std::string range = i == 0                ? "below " + text(kBounds[0])
                        : i == kBounds.size() ? text(kBounds.back()) + " and more"
                                              : text(kBounds[i - 1]) + " - " + text(kBounds[i]);
    std::string bar;
    const int64_t cells = (counts_[i] * kBarWidth + most - 1) / most;
    for (int64_t c = 0; c < cells; ++c) bar += unicode ? "█" : "#";
    table.AddRow({{std::move(range)}, {FormatCount(counts_[i])}, {std::move(bar)}});
  }
  return table.Render(false);
}

std::string FormatShare(int64_t part, int64_t whole) {
  if (whole <= 0) return "-";
  const int64_t per_mille = (part * 1000 + whole / 2) / whole;
  return std::to_string(per_mille / 10) + "." + std::to_string(per_mille % 10) + " %";
}

}  // namespace lithify::cli
