#include "sort/curve_cells.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

namespace lithify::sort {
namespace {

constexpr size_t kPrefixBytes = sizeof(uint64_t);

std::string Whole(const KeyRows& keys, size_t row) {
  const uint64_t prefix = std::byteswap(keys.prefixes[row]);
  std::string whole(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  return whole += keys.rest(row);
}

// Up to eight bytes as a number, zeros behind them.
uint64_t BigEndian(std::string_view bytes) {
  uint64_t number = 0;
  if (!bytes.empty()) std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return std::byteswap(number);
}

std::string_view After(std::string_view bytes, size_t size) {
  return bytes.substr(std::min(size, bytes.size()));
}

constexpr size_t kSearchedTogether = 16;

// How many numbers of a sorted array are not greater, for many numbers at a time, a multiple of
// kSearchedTogether: the loads of one search wait for each other, those of several do not.
void CountNotGreater(const std::vector<uint64_t>& sorted, const uint64_t* numbers, size_t n,
                     uint32_t* counts) {
  const uint64_t* const of = sorted.data();
  for (size_t begin = 0; begin < n; begin += kSearchedTogether) {
    std::array<uint32_t, kSearchedTogether> base{};
    for (auto left = static_cast<uint32_t>(sorted.size()); left > 0;) {
      const uint32_t half = (left + 1) / 2;
      for (size_t i = 0; i < kSearchedTogether; ++i) {
        const bool beyond = of[base[i] + half - 1] <= numbers[begin + i];
        base[i] += half & (0U - static_cast<uint32_t>(beyond));  // Never a branch.
      }
      left -= half;
    }
    std::ranges::copy(base, counts + begin);
  }
}

}  // namespace

CurveCells::CurveCells(const KeyRows& samples) {
  const size_t n = samples.size();
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(
      order, [&](uint32_t a, uint32_t b) { return CompareKeys(samples, a, samples, b) < 0; });
  cells_.push_back(kCellOfNulls + 1);
  ends_.push_back(0);
  if (n == 0) return;

  const std::string least = Whole(samples, order.front());
  const std::string most = Whole(samples, order.back());
  const auto differs = std::ranges::mismatch(least, most);
  shared_ = std::string(least.begin(), differs.in1);
  for (size_t rank = 0; rank < n; ++rank) {
    if (rank > 0 && CompareKeys(samples, order[rank - 1], samples, order[rank]) == 0) continue;
    const auto cell = static_cast<uint32_t>(kCellOfNulls + 1 + rank * kCellMax / n);
    if (rank > 0 && cell == cells_.back()) continue;
    const Word word = WordOf(samples, order[rank]);
    words_.push_back(word.bytes);
    rests_ += word.rest;
    ends_.push_back(rests_.size());
    cells_.push_back(cell);
  }
}

// Negative: the key is below all that begin as the samples do; positive: above.
int CurveCells::BeginsAs(const KeyRows& keys, size_t row) const {
  const size_t in_prefix = std::min(shared_.size(), kPrefixBytes);
  const uint64_t prefix = std::byteswap(keys.prefixes[row]);
  const int order = std::memcmp(&prefix, shared_.data(), in_prefix);
  if (order != 0 || shared_.size() <= kPrefixBytes) return order;
  const std::string_view shared = std::string_view(shared_).substr(kPrefixBytes);
  return keys.rest(row).substr(0, shared.size()).compare(shared);
}

CurveCells::Word CurveCells::WordOf(const KeyRows& keys, size_t row) const {
  const std::string_view rest = keys.rest(row);
  const size_t shared = shared_.size();
  if (shared == 0) return {keys.prefixes[row], rest};
  if (shared >= kPrefixBytes) {
    const std::string_view from = After(rest, shared - kPrefixBytes);
    return {BigEndian(from), After(from, kPrefixBytes)};
  }
  const uint64_t high = keys.prefixes[row] << (8 * shared);
  const uint64_t low = BigEndian(rest) >> (64 - 8 * shared);
  return {high | low, After(rest, shared)};
}

// `until`: the number of cuts whose words are not greater, the last of which is equal.
size_t CurveCells::AmongEqual(size_t until, std::string_view of) const {
  const auto first = std::lower_bound(
      words_.begin(), words_.begin() + static_cast<ptrdiff_t>(until), words_[until - 1]);
  auto begin = static_cast<size_t>(first - words_.begin());
  size_t end = until;
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    if (rest(middle).compare(of) <= 0) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

void CurveCells::Look(const KeyRows& keys, size_t rows, uint32_t* cells) const {
  constexpr size_t kTogether = 16 * kSearchedTogether;
  std::array<uint64_t, kTogether> words{};
  std::array<uint32_t, kTogether> counts{};
  std::array<std::string_view, kTogether> rests;
  for (size_t begin = 0; begin < rows; begin += kTogether) {
    const size_t n = std::min(kTogether, rows - begin);
    for (size_t i = 0; i < n; ++i) {
      const Word word = WordOf(keys, begin + i);
      words[i] = word.bytes;
      rests[i] = word.rest;
    }
    const size_t whole = (n + kSearchedTogether - 1) / kSearchedTogether * kSearchedTogether;
    CountNotGreater(words_, words.data(), whole, counts.data());
    if (!rests_.empty()) {
      for (size_t i = 0; i < n; ++i) {
        if (counts[i] > 0 && words_[counts[i] - 1] == words[i]) {
          counts[i] = static_cast<uint32_t>(AmongEqual(counts[i], rests[i]));
        }
      }
    }
    if (!shared_.empty()) {
      for (size_t i = 0; i < n; ++i) {
        const int order = BeginsAs(keys, begin + i);
        if (order != 0) counts[i] = order < 0 ? 0 : static_cast<uint32_t>(words_.size());
      }
    }
    for (size_t i = 0; i < n; ++i) cells[begin + i] = cells_[counts[i]];
  }
}

}  // namespace lithify::sort
