#include "rewrite/dictionary_union.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/random.h"

namespace lithify::rewrite {
namespace {

constexpr size_t kLengthBytes = sizeof(uint32_t);
constexpr size_t kSlotsMin = 64;
constexpr size_t kNearSlots = 1 << 11;  // A table that is in the nearest cache in any case.

std::unexpected<Error> Corrupt(std::string message) {
  return Fail(Code::kCorrupt, std::move(message), "dictionary page",
              "restore the file from its source");
}

template <typename T>
T Load(const uint8_t* at) {
  T value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

__extension__ using Wide = unsigned __int128;

uint64_t Multiply(uint64_t a, uint64_t b) {
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Short values are hashed and compared without a call and without a loop: as their first and their
// last bytes, which may be the same.
template <size_t kWidth>
uint64_t Hash(const uint8_t* value, size_t bytes, const DictionaryUnion::Seed& seed) {
  if constexpr (kWidth == 4) return Multiply(Load<uint32_t>(value) ^ seed.a, seed.b);
  if constexpr (kWidth == 8) return Multiply(Load<uint64_t>(value) ^ seed.a, seed.b);
  const uint64_t salt = seed.b + bytes;
  if (bytes - 8 <= 8) {
    return Multiply(Load<uint64_t>(value) ^ seed.a, Load<uint64_t>(value + bytes - 8) ^ salt);
  }
  if (bytes - 16 <= 16) {
    const uint8_t* const end = value + bytes - 16;
    const uint64_t first =
        Multiply(Load<uint64_t>(value) ^ seed.a, Load<uint64_t>(value + 8) ^ salt);
    return first ^ Multiply(Load<uint64_t>(end) ^ seed.c, Load<uint64_t>(end + 8) ^ salt);
  }
  if (bytes - 4 < 4) {
    return Multiply(Load<uint32_t>(value) ^ seed.a, Load<uint32_t>(value + bytes - 4) ^ salt);
  }
  return XXH3_64bits_withSeed(value, bytes, seed.a);
}

template <size_t kWidth>
bool Same(const uint8_t* a, const uint8_t* b, size_t bytes) {
  const auto differ = [&](size_t at) { return Load<uint64_t>(a + at) ^ Load<uint64_t>(b + at); };
  if constexpr (kWidth == 4) return Load<uint32_t>(a) == Load<uint32_t>(b);
  if constexpr (kWidth == 8) return differ(0) == 0;
  if (bytes - 8 <= 8) return (differ(0) | differ(bytes - 8)) == 0;
  if (bytes - 16 <= 16) {
    return (differ(0) | differ(8) | differ(bytes - 16) | differ(bytes - 8)) == 0;
  }
  return std::memcmp(a, b, bytes) == 0;
}

// An entry in the table: the upper half of its hash, and its number plus 1, so that none is 0.
uint64_t MakeSlot(uint32_t index, uint64_t hash) {
  return hash >> 32 << 32 | (uint64_t{index} + 1);
}
DictionaryUnion::Seed MakeSeed() {
  SystemRandom random;
  return {random.Next(), random.Next() | 1, random.Next()};
}
uint32_t IndexOf(uint64_t slot) { return static_cast<uint32_t>(slot) - 1; }

}  // namespace

// The seed keeps makers of hostile files from choosing values that meet in one slot. Nothing that
// is given out depends on it.
DictionaryUnion::DictionaryUnion(int value_bytes, const DictionaryBounds& bounds)
    : value_bytes_(value_bytes),
      bytes_max_(static_cast<size_t>(
          std::clamp<int64_t>(bounds.bytes_max, 0, std::numeric_limits<uint32_t>::max()))),
      entries_max_(static_cast<size_t>(
          std::clamp<int64_t>(bounds.entries_max, 0, std::numeric_limits<int32_t>::max()))),
      seed_(MakeSeed()),
      slots_(kSlotsMin) {}

size_t DictionaryUnion::EntryBytes(uint32_t index) const {
  if (value_bytes_ != kByteArray) return static_cast<size_t>(value_bytes_);
  return (index + 1 < offsets_.size() ? offsets_[index + 1] : plain_.size()) - offsets_[index];
}

const char* DictionaryUnion::EntryAt(uint32_t index) const {
  const size_t at = value_bytes_ == kByteArray ? offsets_[index]
                                               : size_t{index} * static_cast<size_t>(value_bytes_);
  return plain_.data() + at;
}

// The slot of the entry that is the value, or the free one where it belongs.
template <size_t kWidth>
size_t DictionaryUnion::Find(const Value& value) const {
  const size_t mask = slots_.size() - 1;
  for (size_t slot = value.hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) return slot;
    if (slots_[slot] >> 32 != value.hash >> 32) continue;
    const uint32_t index = IndexOf(slots_[slot]);
    if (kWidth == 0 && EntryBytes(index) != value.bytes) continue;
    const auto* entry = reinterpret_cast<const uint8_t*>(EntryAt(index));
    if (Same<kWidth>(entry, value.data, value.bytes)) return slot;
  }
}

void DictionaryUnion::Grow() {
  std::vector<uint64_t> larger(slots_.size() * 2);
  const size_t mask = larger.size() - 1;
  for (size_t index = 0; index < hashes_.size(); ++index) {
    size_t slot = hashes_[index] & mask;
    while (larger[slot] != 0) slot = (slot + 1) & mask;
    larger[slot] = MakeSlot(static_cast<uint32_t>(index), hashes_[index]);
  }
  slots_.swap(larger);
}

// The entries that came last leave first: then no chain of slots is broken.
void DictionaryUnion::CutBack(size_t entries, size_t bytes) {
  const size_t mask = slots_.size() - 1;
  while (hashes_.size() > entries) {
    size_t slot = hashes_.back() & mask;
    const uint64_t last = MakeSlot(static_cast<uint32_t>(hashes_.size() - 1), hashes_.back());
    while (slots_[slot] != last) slot = (slot + 1) & mask;
    slots_[slot] = 0;
    hashes_.pop_back();
  }
  if (value_bytes_ == kByteArray) offsets_.resize(entries);
  plain_.resize(bytes);
}

// nullopt: there is no room for it.
template <size_t kWidth>
std::optional<uint32_t> DictionaryUnion::FindOrAdd(const Value& value) {
  size_t slot = Find<kWidth>(value);
  if (slots_[slot] != 0) return IndexOf(slots_[slot]);
  if (hashes_.size() >= entries_max_ || value.bytes > bytes_max_ - plain_.size()) {
    return std::nullopt;
  }
  if (hashes_.size() * 2 >= slots_.size()) {
    Grow();
    slot = Find<kWidth>(value);
  }
  if (value_bytes_ == kByteArray) offsets_.push_back(static_cast<uint32_t>(plain_.size()));
  plain_.append(reinterpret_cast<const char*>(value.data), value.bytes);
  const auto index = static_cast<uint32_t>(hashes_.size());
  hashes_.push_back(value.hash);
  slots_[slot] = MakeSlot(index, value.hash);
  return index;
}

// Takes the next values off `plain`; fewer than asked for where one is cut off.
template <size_t kWidth>
size_t DictionaryUnion::Take(std::span<const uint8_t>& plain, size_t count, Value* out) const {
  for (size_t i = 0; i < count; ++i) {
    size_t bytes = kWidth > 0 ? kWidth : static_cast<size_t>(value_bytes_);
    if (kWidth == 0 && value_bytes_ == kByteArray) {
      uint32_t length = 0;
      // The last values may lack their lengths where others are long.
      if (plain.size() >= kLengthBytes) std::memcpy(&length, plain.data(), kLengthBytes);
      bytes = kLengthBytes + length;
    }
    if (bytes > plain.size()) return i;
    out[i] = {plain.data(), bytes, Hash<kWidth>(plain.data(), bytes, seed_)};
    plain = plain.subspan(bytes);
  }
  return count;
}

// Block by block, so that what the table has to say of one value is on its way from memory while
// others are looked at.
template <size_t kWidth>
Result<bool> DictionaryUnion::AddValues(std::span<const uint8_t> plain,
                                        DictionaryMapping& mapping) {
  constexpr size_t kBlock = 32;
  Value values[kBlock];
  for (size_t first = 0; first < mapping.to.size(); first += kBlock) {
    const size_t wanted = std::min(kBlock, mapping.to.size() - first);
    const size_t count = Take<kWidth>(plain, wanted, values);
    if (slots_.size() > kNearSlots) {
      const size_t mask = slots_.size() - 1;
      for (size_t i = 0; i < count; ++i) __builtin_prefetch(&slots_[values[i].hash & mask]);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t slot = slots_[values[i].hash & mask];
        if (slot != 0) __builtin_prefetch(EntryAt(IndexOf(slot)));
      }
    }
    for (size_t i = 0; i < count; ++i) {
      const auto found = FindOrAdd<kWidth>(values[i]);
      if (!found) return false;
      mapping.to[first + i] = *found;
      mapping.max = std::max(mapping.max, *found);
      mapping.identity = mapping.identity && *found == first + i;
    }
    if (count < wanted) {
      return Corrupt("value " + std::to_string(first + count) + " of the dictionary is cut off");
    }
  }
  return true;
}

Result<std::optional<DictionaryMapping>> DictionaryUnion::Add(std::span<const uint8_t> plain,
                                                              int64_t num_values) {
  const size_t least =
      value_bytes_ == kByteArray ? kLengthBytes : static_cast<size_t>(value_bytes_);
  if (num_values < 0 || static_cast<uint64_t>(num_values) > plain.size() / least) {
    return Corrupt("a dictionary of " + std::to_string(num_values) + " values in " +
                   std::to_string(plain.size()) + " bytes");
  }
  const size_t entries_before = hashes_.size();
  const size_t bytes_before = plain_.size();
  DictionaryMapping mapping;
  mapping.to.resize(static_cast<size_t>(num_values));
  Result<bool> added = value_bytes_ == 4   ? AddValues<4>(plain, mapping)
                       : value_bytes_ == 8 ? AddValues<8>(plain, mapping)
                                           : AddValues<0>(plain, mapping);
  if (added && *added) return mapping;
  CutBack(entries_before, bytes_before);
  if (!added) return Fail(std::move(added.error()));
  return std::nullopt;
}

void DictionaryUnion::Clear() {
  plain_ = {};
  offsets_ = {};
  hashes_ = {};
  slots_ = std::vector<uint64_t>(kSlotsMin);
}

int64_t DictionaryUnion::memory_bytes() const {
  return static_cast<int64_t>(plain_.capacity() + offsets_.capacity() * sizeof(uint32_t) +
                              hashes_.capacity() * sizeof(uint64_t) +
                              slots_.capacity() * sizeof(uint64_t));
}

}  // namespace lithify::rewrite
