#include "sort/key_sort.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel.h"

namespace lithify::sort {
namespace {

constexpr size_t kPrefix = std::numeric_limits<size_t>::max();  // As a depth: no rest yet.
constexpr size_t kSmall = 24;               // Rows that are sorted by insertion.
constexpr size_t kOneDigit = 1024;          // Up to so many rows are cut by one digit of 8 bits;
constexpr size_t kTwoBytes = 200000;        // up to so many by two of them, more by two of 11.
constexpr size_t kLarge = size_t{1} << 17;  // Rows that are worth several threads.
constexpr int kBucketBits = 10;
constexpr int kLevels = 24;  // Of rests that go on being equal, before comparing them whole.

// Eight bytes as a number that compares like them; zeros after the end.
uint64_t Load(std::string_view bytes, size_t at) {
  uint64_t out = 0;
  if (at < bytes.size())
    std::memcpy(&out, bytes.data() + at, std::min(bytes.size() - at, size_t{8}));
  return __builtin_bswap64(out);
}

// A depth is where in the rests the keys at hand come from. They are in KeyRow's prefix, whose
// value is put back afterwards: it is the same for all rows whose rests are looked at.
class KeySorter {
 public:
  KeySorter(const KeyStore& store, int threads, const CancelFlag* cancel)
      : store_(store), rests_(store.has_rests()), threads_(std::max(threads, 1)), cancel_(cancel) {}

  bool stopped() const { return cancel_ != nullptr && cancel_->requested(); }

  // Rows a[0, count) by one thread, with as much space at b.
  void Sort(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const;
  // Likewise by all threads.
  void SortLarge(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const;
  // Sorts what is in buckets by the order of their bounds in a, with as much space at b.
  void SortBuckets(KeyRow* a, KeyRow* b, const std::vector<size_t>& bounds, size_t depth,
                   int level) const;
  // Likewise of prefixes, if no bucket is large: with space for one bucket per thread.
  Status SortSmallBuckets(KeyRow* a, size_t largest, const std::vector<size_t>& bounds) const;
  size_t LargeRows(size_t all) const {
    return std::max(kLarge, all / (2 * static_cast<size_t>(threads_)));
  }

  // `each(piece, f)` calls f(prefix, row) for the rows of a piece, pieces and rows in order, once
  // for each of three passes. Puts them to `to` by bucket, and returns the bounds of buckets; one
  // bucket if all prefixes are equal.
  template <typename Each>
  std::vector<size_t> Partition(size_t pieces, size_t count, const Each& each, KeyRow* to) const;

 private:
  void Insertion(KeyRow* a, size_t count, size_t depth) const;
  // a[0, count) have equal keys.
  void Ties(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const;
  void SortRests(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const;
  void TiesLarge(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const;
  // The bytes from `depth` that all have in common.
  size_t CommonBytes(const KeyRow* a, size_t count, size_t depth) const;
  void LoadRests(KeyRow* a, size_t count, size_t depth) const {
    for (size_t i = 0; i < count; ++i) a[i].set_prefix(Load(store_.rest(a[i].row()), depth));
  }
  bool RestLess(const KeyRow& a, const KeyRow& b, size_t depth) const {
    const std::string_view x = store_.rest(a.row());
    const std::string_view y = store_.rest(b.row());
    return x.substr(std::min(depth, x.size())) < y.substr(std::min(depth, y.size()));
  }
  // One thread's share of a[0, count).
  template <typename F>
  void Pieces(size_t count, const F& work) const {
    const size_t pieces = static_cast<size_t>(threads_) * 4;
    ForEach(pieces, threads_, [&](size_t i) {
      const size_t begin = count * i / pieces;
      work(i, begin, count * (i + 1) / pieces - begin);
    });
  }

  const KeyStore& store_;
  const bool rests_;
  const int threads_;
  const CancelFlag* cancel_;
};

void KeySorter::Insertion(KeyRow* a, size_t count, size_t depth) const {
  const size_t from = depth == kPrefix ? 0 : depth;
  for (size_t i = 1; i < count; ++i) {
    const KeyRow row = a[i];
    const uint64_t key = row.prefix();
    size_t at = i;
    while (at > 0) {
      const uint64_t before = a[at - 1].prefix();
      if (before < key) break;
      if (before == key && (!rests_ || !RestLess(row, a[at - 1], from))) break;
      a[at] = a[at - 1];
      --at;
    }
    a[at] = row;
  }
}

// Moves by `bits` bits from `shift`.
template <size_t kDigits>
void Scatter(const KeyRow* from, KeyRow* to, size_t count, int shift,
             std::array<uint32_t, kDigits>& offsets) {
  uint32_t sum = 0;
  for (uint32_t& offset : offsets) sum += std::exchange(offset, sum);
  for (size_t i = 0; i < count; ++i) {
    to[offsets[(from[i].prefix() >> shift) & (kDigits - 1)]++] = from[i];
  }
}

// By the 2 * log2(kDigits) bits from `shift`.
template <size_t kDigits>
void TwoDigits(KeyRow* a, KeyRow* b, size_t count, int shift) {
  constexpr int kBits = std::countr_zero(kDigits);
  std::array<uint32_t, kDigits> low{};
  std::array<uint32_t, kDigits> high{};
  for (size_t i = 0; i < count; ++i) {
    const uint64_t key = a[i].prefix() >> shift;
    ++low[key & (kDigits - 1)];
    ++high[(key >> kBits) & (kDigits - 1)];
  }
  Scatter(a, b, count, shift, low);
  Scatter(b, a, count, shift + kBits, high);
}

void KeySorter::Sort(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const {
  if (count <= kSmall) return Insertion(a, count, depth);
  const uint64_t first = a[0].prefix();
  uint64_t differing = 0;
  bool descends = false;
  uint64_t before = first;
  for (size_t i = 1; i < count; ++i) {
    const uint64_t key = a[i].prefix();
    differing |= key ^ first;
    descends |= key < before;
    before = key;
  }
  if (differing == 0) return Ties(a, b, count, depth, level);
  if (stopped()) return;
  int shift = 0;
  if (descends) {
    const int high = 64 - std::countl_zero(differing);
    if (count <= kOneDigit) {
      shift = std::max(high - 8, 0);
      std::array<uint32_t, 256> digits{};
      for (size_t i = 0; i < count; ++i) ++digits[(a[i].prefix() >> shift) & 255];
      Scatter(a, b, count, shift, digits);
      std::copy_n(b, count, a);
    } else if (count <= kTwoBytes) {
      shift = std::max(high - 16, 0);
      TwoDigits<256>(a, b, count, shift);
    } else {
      shift = std::max(high - 22, 0);
      TwoDigits<2048>(a, b, count, shift);
    }
  }
  if (shift == 0 && !rests_) return;
  for (size_t begin = 0; begin < count;) {
    const uint64_t group = a[begin].prefix() >> shift;
    size_t end = begin + 1;
    while (end < count && a[end].prefix() >> shift == group) ++end;
    if (end - begin > 1) Sort(a + begin, b + begin, end - begin, depth, level);
    begin = end;
  }
}

size_t KeySorter::CommonBytes(const KeyRow* a, size_t count, size_t depth) const {
  std::string_view common = store_.rest(a[0].row());
  common.remove_prefix(std::min(depth, common.size()));
  for (size_t i = 1; i < count && !common.empty(); ++i) {
    std::string_view rest = store_.rest(a[i].row());
    rest.remove_prefix(std::min(depth, rest.size()));
    common = common.substr(
        0, static_cast<size_t>(std::ranges::mismatch(common, rest).in1 - common.begin()));
  }
  return common.size();
}

void KeySorter::SortRests(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const {
  if (count <= kSmall || level > kLevels) {
    std::stable_sort(a, a + count,
                     [&](const KeyRow& x, const KeyRow& y) { return RestLess(x, y, depth); });
    return;
  }
  depth += CommonBytes(a, count, depth);
  LoadRests(a, count, depth);
  Sort(a, b, count, depth, level);
}

void KeySorter::Ties(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const {
  if (!rests_ || stopped()) return;
  if (depth == kPrefix) {
    const uint64_t prefix = a[0].prefix();
    SortRests(a, b, count, 0, level + 1);
    for (size_t i = 0; i < count; ++i) a[i].set_prefix(prefix);
    return;
  }
  // Eight equal bytes, or fewer and zeros: a rest that ends in them comes before one that goes on,
  // and of those that end the shorter ones first.
  const auto kind = [&](const KeyRow& row) {
    const size_t size = store_.rest(row.row()).size();
    return size <= depth ? 0 : std::min(size - depth, size_t{9});
  };
  std::array<size_t, 10> counts{};
  for (size_t i = 0; i < count; ++i) ++counts[kind(a[i])];
  if (std::ranges::max(counts) < count) {
    std::array<size_t, 10> offsets{};
    for (size_t i = 1; i < offsets.size(); ++i) offsets[i] = offsets[i - 1] + counts[i - 1];
    for (size_t i = 0; i < count; ++i) b[offsets[kind(a[i])]++] = a[i];
    std::copy_n(b, count, a);
  }
  const size_t longer = count - counts[9];
  if (counts[9] > 1) SortRests(a + longer, b + longer, counts[9], depth + 8, level + 1);
}

template <typename Each>
std::vector<size_t> KeySorter::Partition(size_t pieces, size_t count, const Each& each,
                                         KeyRow* to) const {
  std::vector<std::pair<uint64_t, uint64_t>> spans(
      pieces, {std::numeric_limits<uint64_t>::max(), uint64_t{0}});
  ForEach(pieces, threads_, [&](size_t piece) {
    auto [least, most] = spans[piece];
    each(piece, [&](uint64_t prefix, uint32_t) {
      least = std::min(least, prefix);
      most = std::max(most, prefix);
    });
    spans[piece] = {least, most};
  });
  auto [least, most] = spans[0];
  for (const auto& span : spans) {
    least = std::min(least, span.first);
    most = std::max(most, span.second);
  }
  const int bits = count == 0 || least == most ? 0 : 64 - std::countl_zero(most - least);
  // About 2,000 rows to a bucket: fewer buckets are fewer places to write to at a time.
  const int wanted = std::clamp(static_cast<int>(std::bit_width(count >> 11)), 1, kBucketBits);
  const int shift = std::max(bits - wanted, 0);
  const size_t buckets = bits == 0 ? 1 : ((most - least) >> shift) + 1;
  std::vector<std::vector<size_t>> offsets(pieces, std::vector<size_t>(buckets));
  ForEach(pieces, threads_, [&](size_t piece) {
    if (stopped()) return;
    size_t* const counts = offsets[piece].data();
    each(piece, [&](uint64_t prefix, uint32_t) { ++counts[(prefix - least) >> shift]; });
  });
  std::vector<size_t> bounds = {0};
  size_t sum = 0;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    for (auto& counts : offsets) sum += std::exchange(counts[bucket], sum);
    bounds.push_back(sum);
  }
  if (sum < count) return bounds;  // Stopped.
  ForEach(pieces, threads_, [&](size_t piece) {
    size_t* const at = offsets[piece].data();
    each(piece, [&](uint64_t prefix, uint32_t row) {
      KeyRow& out = to[at[(prefix - least) >> shift]++];
      out.set_prefix(prefix);
      out.set_row(row);
    });
  });
  return bounds;
}

void KeySorter::SortBuckets(KeyRow* a, KeyRow* b, const std::vector<size_t>& bounds, size_t depth,
                            int level) const {
  const size_t large = LargeRows(bounds.back());
  const auto is_large = [&](size_t bucket) {
    return threads_ > 1 && bounds[bucket + 1] - bounds[bucket] > large;
  };
  const size_t buckets = bounds.size() - 1;
  ForEach(buckets, threads_, [&](size_t i) {
    if (stopped() || is_large(i)) return;
    Sort(a + bounds[i], b + bounds[i], bounds[i + 1] - bounds[i], depth, level);
  });
  for (size_t i = 0; i < buckets && !stopped(); ++i) {
    if (is_large(i))
      SortLarge(a + bounds[i], b + bounds[i], bounds[i + 1] - bounds[i], depth, level);
  }
}

Status KeySorter::SortSmallBuckets(KeyRow* a, size_t largest,
                                   const std::vector<size_t>& bounds) const {
  const auto lanes = static_cast<size_t>(threads_);
  LITHIFY_TRY_ASSIGN(const Pages space, Pages::Make(lanes * largest * sizeof(KeyRow)));
  std::atomic<size_t> next{0};
  ForEach(lanes, threads_, [&](size_t lane) {
    KeyRow* const b = space.as<KeyRow>() + lane * largest;
    for (size_t i = next.fetch_add(1); i + 1 < bounds.size() && !stopped(); i = next.fetch_add(1)) {
      Sort(a + bounds[i], b, bounds[i + 1] - bounds[i], kPrefix, 0);
    }
  });
  return {};
}

void KeySorter::TiesLarge(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const {
  if (!rests_) return;
  const size_t from = depth == kPrefix ? 0 : depth + 8;
  std::atomic<bool> ended = false;  // A rest ends in the eight bytes.
  std::atomic<size_t> common = std::numeric_limits<size_t>::max();
  Pieces(count, [&](size_t, size_t begin, size_t size) {
    // All are compared with the first one, so that the least of the pieces counts.
    if (size == 0) return;
    size_t least = std::min(CommonBytes(a + begin, size, from), common.load());
    KeyRow pair[2] = {a[0], a[begin]};
    least = std::min(least, CommonBytes(pair, 2, from));
    for (size_t most = common; least < most && !common.compare_exchange_weak(most, least);) {
    }
    if (depth == kPrefix) return;
    for (size_t i = begin; i < begin + size; ++i) {
      if (store_.rest(a[i].row()).size() <= from) ended = true;
    }
  });
  if (ended || level > kLevels) return Ties(a, b, count, depth, level);
  const uint64_t prefix = a[0].prefix();
  Pieces(count,
         [&](size_t, size_t begin, size_t size) { LoadRests(a + begin, size, from + common); });
  SortLarge(a, b, count, from + common, level + 1);
  if (depth != kPrefix) return;
  Pieces(count, [&](size_t, size_t begin, size_t size) {
    for (size_t i = begin; i < begin + size; ++i) a[i].set_prefix(prefix);
  });
}

void KeySorter::SortLarge(KeyRow* a, KeyRow* b, size_t count, size_t depth, int level) const {
  const size_t pieces = static_cast<size_t>(threads_) * 4;
  const auto bounds = Partition(
      pieces, count,
      [&](size_t piece, const auto& f) {
        for (size_t i = count * piece / pieces; i < count * (piece + 1) / pieces; ++i) {
          f(a[i].prefix(), a[i].row());
        }
      },
      b);
  if (stopped()) return;
  if (bounds.size() == 2) return TiesLarge(a, b, count, depth, level);
  Pieces(count,
         [&](size_t, size_t begin, size_t size) { std::copy_n(b + begin, size, a + begin); });
  SortBuckets(a, b, bounds, depth, level);
}

}  // namespace

Result<Pages> SortKeys(KeyStore& store, std::span<const RowRange> ranges, int threads,
                       const CancelFlag* cancel) {
  // Pieces of about as many rows, each within a chunk at a time.
  std::vector<RowRange> parts;
  size_t count = 0;
  for (RowRange left : ranges) {
    count += left.count;
    while (left.count > 0) {
      const uint32_t rows = std::min(left.count, store.ChunkEnd(left.first) - left.first);
      parts.push_back({left.first, rows});
      left = {left.first + rows, left.count - rows};
    }
  }
  const KeySorter sorter(store, threads, cancel);
  LITHIFY_TRY_ASSIGN(Pages sorted, Pages::Make(count * sizeof(KeyRow)));
  const size_t pieces = std::clamp(static_cast<size_t>(std::max(threads, 1)) * 4, size_t{1},
                                   std::max(parts.size(), size_t{1}));
  const auto bounds = sorter.Partition(
      pieces, count,
      [&](size_t piece, const auto& f) {
        const size_t end = parts.size() * (piece + 1) / pieces;
        for (size_t part = parts.size() * piece / pieces; part < end; ++part) {
          const uint64_t* prefixes = store.prefixes(parts[part].first);
          for (uint32_t i = 0; i < parts[part].count; ++i) f(prefixes[i], parts[part].first + i);
        }
      },
      sorted.as<KeyRow>());
  if (cancel != nullptr) LITHIFY_TRY(cancel->Check());
  for (const RowRange& range : ranges) store.DropPrefixes(range.first, range.count);
  size_t largest = 0;
  for (size_t i = 1; i < bounds.size(); ++i) largest = std::max(largest, bounds[i] - bounds[i - 1]);
  if (largest <= sorter.LargeRows(count) &&
      largest * static_cast<size_t>(std::max(threads, 1)) <= count) {
    LITHIFY_TRY(sorter.SortSmallBuckets(sorted.as<KeyRow>(), largest, bounds));
  } else {
    LITHIFY_TRY_ASSIGN(const Pages space, Pages::Make(count * sizeof(KeyRow)));
    sorter.SortBuckets(sorted.as<KeyRow>(), space.as<KeyRow>(), bounds, kPrefix, 0);
  }
  if (cancel != nullptr) LITHIFY_TRY(cancel->Check());
  return sorted;
}

}  // namespace lithify::sort
