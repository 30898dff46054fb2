#include "base/position_set.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <roaring/roaring.hh>
#include <utility>

namespace lithify {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// 32-bit Roaring format.
constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr uint32_t kCookieWithRuns = 12347;  // In the low half.
constexpr size_t kContainersMax = 65536;
constexpr uint32_t kArrayValuesMax = 4096;  // Above, a container is a bit set.
constexpr size_t kBitsetBytes = 8192;
constexpr size_t kOffsetsFrom = 4;  // With runs, offsets are written from this many containers on.

uint32_t KeyOf(int64_t position) {
  return static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32);
}
uint32_t LowOf(int64_t position) { return static_cast<uint32_t>(position); }
int64_t Position(uint32_t key, uint64_t low) {
  return static_cast<int64_t>((static_cast<uint64_t>(key) << 32) + low);
}

std::unexpected<Error> Bad(std::string message) {
  return Fail(Code::kCorrupt, "not a 64-bit roaring bitmap: " + std::move(message));
}

// Checks every invariant of the format before the bytes reach the library, whose own reading checks
// lengths only: values out of order or counts that do not hold would break its operations later.
class BitmapCheck {
 public:
  explicit BitmapCheck(std::string_view bytes) : bytes_(bytes) {}

  size_t position() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  template <typename T>
  bool Read(T& value) {
    if (left() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // Moves past one 32-bit bitmap and returns how many members it has.
  Result<uint64_t> SkipBitmap() {
    uint32_t cookie = 0;
    if (!Read(cookie)) return Bad("cut off before a cookie");
    const bool runs = (cookie & 0xffff) == kCookieWithRuns;
    uint32_t containers = (cookie >> 16) + 1;
    if (!runs) {
      if (cookie != kCookieWithoutRuns) return Bad("unknown cookie " + std::to_string(cookie));
      if (!Read(containers)) return Bad("cut off in a header");
      if (containers > kContainersMax) {
        return Bad(std::to_string(containers) + " containers, at most 65536 are possible");
      }
    }
    std::string_view run_flags;
    std::string_view header;
    if (runs && !Take((containers + 7) / 8, run_flags)) return Bad("cut off in the run flags");
    if (!Take(size_t{containers} * 4, header)) return Bad("cut off in a header");
    // Offsets tell nothing new; the reference implementation does not look at them either.
    std::string_view offsets;
    if ((!runs || containers >= kOffsetsFrom) && !Take(size_t{containers} * 4, offsets)) {
      return Bad("cut off in the offsets");
    }
    return SkipContainers(containers, run_flags, header);
  }

 private:
  static uint16_t Half(std::string_view bytes, size_t index) {
    uint16_t value = 0;
    std::memcpy(&value, bytes.data() + index * 2, 2);
    return value;
  }

  bool Take(size_t size, std::string_view& part) {
    if (left() < size) return false;
    part = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }

  Result<uint64_t> SkipContainers(size_t containers, std::string_view run_flags,
                                  std::string_view header) {
    uint64_t members = 0;
    for (size_t i = 0; i < containers; ++i) {
      if (i > 0 && Half(header, 2 * i) <= Half(header, 2 * i - 2)) {
        return Bad("container keys are not in order");
      }
      const uint32_t cardinality = uint32_t{Half(header, 2 * i + 1)} + 1;
      const bool run =
          !run_flags.empty() && ((static_cast<uint8_t>(run_flags[i / 8]) >> (i % 8)) & 1) != 0;
      LITHIFY_TRY(run                              ? SkipRuns(cardinality)
                  : cardinality <= kArrayValuesMax ? SkipArray(cardinality)
                                                   : SkipBitset(cardinality));
      members += cardinality;
    }
    return members;
  }

  Status SkipArray(uint32_t cardinality) {
    std::string_view values;
    if (!Take(size_t{cardinality} * 2, values)) return Bad("cut off in an array");
    for (size_t i = 1; i < cardinality; ++i) {
      if (Half(values, i) <= Half(values, i - 1)) return Bad("array values are not in order");
    }
    return {};
  }

  Status SkipBitset(uint32_t cardinality) {
    std::string_view words;
    if (!Take(kBitsetBytes, words)) return Bad("cut off in a bit set");
    uint32_t set = 0;
    for (size_t i = 0; i < kBitsetBytes; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, words.data() + i, 8);
      set += static_cast<uint32_t>(std::popcount(word));
    }
    if (set == cardinality) return {};
    return Bad("a bit set has " + std::to_string(set) + " bits, its header says " +
               std::to_string(cardinality));
  }

  // Neighbouring runs are written as one, and the library relies on it.
  Status SkipRuns(uint32_t cardinality) {
    uint16_t count = 0;
    std::string_view runs;
    if (!Read(count) || !Take(size_t{count} * 4, runs)) return Bad("cut off in runs");
    uint32_t members = 0;
    uint32_t end = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t begin = Half(runs, 2 * i);
      if (i > 0 && begin <= end) return Bad("runs are not in order");
      end = begin + Half(runs, 2 * i + 1) + 1;
      if (end > 65536) return Bad("a run leaves its container");
      members += end - begin;
    }
    if (members == cardinality) return {};
    return Bad("runs hold " + std::to_string(members) + " values, their header says " +
               std::to_string(cardinality));
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

// [begin, end).
Roaring Range(uint32_t begin, uint64_t end) {
  Roaring range;
  if (begin < end) {
    roaring_bitmap_add_range_closed(&range.roaring, begin, static_cast<uint32_t>(end - 1));
  }
  return range;
}

}  // namespace

struct PositionSet::Impl {
  std::map<uint32_t, Roaring> bitmaps;  // By the high half of positions; none is empty.
};

PositionSet::PositionSet() : impl_(std::make_unique<Impl>()) {}
PositionSet::~PositionSet() = default;
PositionSet::PositionSet(const PositionSet& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
PositionSet::PositionSet(PositionSet&& other) noexcept : PositionSet() {
  std::swap(impl_, other.impl_);
}
PositionSet& PositionSet::operator=(PositionSet other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void PositionSet::Add(int64_t position) {
  if (position < 0) return;
  impl_->bitmaps[KeyOf(position)].add(LowOf(position));
}

void PositionSet::AddMany(std::span<const int64_t> positions) {
  std::array<uint32_t, 1024> low;
  size_t count = 0;
  uint32_t key = 0;
  const auto flush = [&] {
    if (count > 0) impl_->bitmaps[key].addMany(count, low.data());
    count = 0;
  };
  for (const int64_t position : positions) {
    if (position < 0) continue;
    if (KeyOf(position) != key || count == low.size()) {
      flush();
      key = KeyOf(position);
    }
    low[count++] = LowOf(position);
  }
  flush();
}

void PositionSet::AddRange(int64_t begin, int64_t end) {
  begin = std::max<int64_t>(begin, 0);
  while (begin < end) {
    const int64_t last = std::min(end - 1, Position(KeyOf(begin), 0xffffffff));
    Roaring& bitmap = impl_->bitmaps[KeyOf(begin)];
    roaring_bitmap_add_range_closed(&bitmap.roaring, LowOf(begin), LowOf(last));
    if (last == std::numeric_limits<int64_t>::max()) return;
    begin = last + 1;
  }
}

void PositionSet::Unite(const PositionSet& other) {
  if (this == &other) return;
  for (const auto& [key, bitmap] : other.impl_->bitmaps) impl_->bitmaps[key] |= bitmap;
}

PositionSet PositionSet::Complement(int64_t end) const {
  PositionSet others;
  for (int64_t begin = 0; begin < end;) {
    const uint32_t key = KeyOf(begin);
    const int64_t last = std::min(end - 1, Position(key, 0xffffffff));
    Roaring bitmap;
    if (const auto at = impl_->bitmaps.find(key); at != impl_->bitmaps.end()) bitmap = at->second;
    const uint64_t count = uint64_t{LowOf(last)} + 1;
    bitmap.flip(0, count);
    // Members from `end` on are none of the answer.
    if (count <= 0xffffffff) bitmap &= Range(0, count);
    if (!bitmap.isEmpty()) others.impl_->bitmaps.emplace(key, std::move(bitmap));
    if (last == std::numeric_limits<int64_t>::max()) break;
    begin = last + 1;
  }
  return others;
}

int64_t PositionSet::size() const {
  uint64_t members = 0;
  for (const auto& [key, bitmap] : impl_->bitmaps) members += bitmap.cardinality();
  return static_cast<int64_t>(members);
}

bool PositionSet::Contains(int64_t position) const {
  if (position < 0) return false;
  const auto found = impl_->bitmaps.find(KeyOf(position));
  return found != impl_->bitmaps.end() && found->second.contains(LowOf(position));
}

int64_t PositionSet::CountBelow(int64_t end) const {
  if (end <= 0) return 0;
  uint64_t members = 0;
  for (const auto& [key, bitmap] : impl_->bitmaps) {
    if (key > KeyOf(end)) break;
    if (key < KeyOf(end)) {
      members += bitmap.cardinality();
    } else if (LowOf(end) > 0) {
      members += bitmap.rank(LowOf(end) - 1);
    }
  }
  return static_cast<int64_t>(members);
}

int64_t PositionSet::MaxOr(int64_t otherwise) const {
  if (impl_->bitmaps.empty()) return otherwise;
  const auto& [key, bitmap] = *impl_->bitmaps.rbegin();
  return Position(key, bitmap.maximum());
}

void PositionSet::ForEachRange(int64_t first, int64_t last,
                               const std::function<void(int64_t, int64_t)>& range) const {
  first = std::max<int64_t>(first, 0);
  if (first >= last) return;
  // The run that is being collected: its first and last member so far.
  int64_t begin = -1;
  int64_t tail = -1;
  std::array<uint32_t, 1024> low;
  const auto& bitmaps = impl_->bitmaps;
  for (auto at = bitmaps.lower_bound(KeyOf(first)); at != bitmaps.end(); ++at) {
    const uint32_t key = at->first;
    if (Position(key, 0) >= last) break;
    roaring_uint32_iterator_t members;
    roaring_init_iterator(&at->second.roaring, &members);
    if (key == KeyOf(first)) roaring_move_uint32_iterator_equalorlarger(&members, LowOf(first));
    for (bool more = true; more;) {
      const uint32_t count =
          roaring_read_uint32_iterator(&members, low.data(), static_cast<uint32_t>(low.size()));
      more = count == low.size();
      for (uint32_t i = 0; i < count; ++i) {
        const int64_t position = Position(key, low[i]);
        if (position >= last) {
          more = false;
          break;
        }
        if (begin >= 0 && position == tail + 1) {
          tail = position;
          continue;
        }
        if (begin >= 0) range(begin, tail + 1);
        begin = tail = position;
      }
    }
  }
  if (begin >= 0) range(begin, tail + 1);
}

int64_t PositionSet::memory_bytes() const {
  constexpr size_t kPerKey = 96;        // A node of the map and the heads of its arrays.
  constexpr size_t kPerContainer = 48;  // Key, type, pointer, and the allocation behind it.
  size_t bytes = sizeof(Impl);
  for (const auto& [key, bitmap] : impl_->bitmaps) {
    const auto containers = static_cast<size_t>(bitmap.roaring.high_low_container.size);
    bytes += kPerKey + containers * kPerContainer + bitmap.getSizeInBytes();
  }
  return static_cast<int64_t>(bytes);
}

std::string PositionSet::Serialize() const {
  std::string bytes(8, '\0');
  const uint64_t count = impl_->bitmaps.size();
  std::memcpy(bytes.data(), &count, 8);
  for (const auto& [key, bitmap] : impl_->bitmaps) {
    Roaring compact = bitmap;
    compact.runOptimize();
    const size_t at = bytes.size();
    bytes.resize(at + 4 + compact.getSizeInBytes());
    std::memcpy(bytes.data() + at, &key, 4);
    compact.write(bytes.data() + at + 4);
  }
  return bytes;
}

Result<PositionSet> PositionSet::Deserialize(std::string_view bytes) {
  BitmapCheck check(bytes);
  uint64_t count = 0;
  if (!check.Read(count)) return Bad("shorter than 8 bytes");
  PositionSet set;
  int64_t last_key = -1;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t key = 0;
    if (!check.Read(key)) return Bad("cut off before bitmap " + std::to_string(i));
    if (key > std::numeric_limits<int32_t>::max()) return Bad("a position is above 2^63 - 1");
    if (key <= last_key) return Bad("bitmaps are not in order of their keys");
    last_key = key;
    const size_t begin = check.position();
    LITHIFY_TRY_ASSIGN(const uint64_t members, check.SkipBitmap());
    if (members == 0) continue;  // Some writers fill gaps between keys with empty bitmaps.
    try {
      Roaring bitmap = Roaring::readSafe(bytes.data() + begin, check.position() - begin);
      if (bitmap.cardinality() != members) return Bad("its counts do not hold");
      set.impl_->bitmaps.emplace_hint(set.impl_->bitmaps.end(), key, std::move(bitmap));
    } catch (const std::exception& e) {
      return Bad(e.what());
    }
  }
  if (check.left() > 0) return Bad(std::to_string(check.left()) + " bytes too many");
  return set;
}

}  // namespace lithify
