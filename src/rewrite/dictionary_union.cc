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

std::unexpected<Error> Corrupt(std::string message) {
  return Fail(Code::kCorrupt, std::move(message), "dictionary page",
              "restore the file from its source");
}

uint64_t Hash(std::span<const uint8_t> value, uint64_t seed) {
  return XXH3_64bits_withSeed(value.data(), value.size(), seed);
}

// An entry in the table: the upper half of its hash, and its number plus 1, so that none is 0.
uint64_t MakeSlot(uint32_t index, uint64_t hash) {
  return hash >> 32 << 32 | (uint64_t{index} + 1);
}
uint32_t IndexOf(uint64_t slot) { return static_cast<uint32_t>(slot) - 1; }

}  // namespace

// The seed keeps makers of hostile files from choosing values that meet in one slot. Nothing that
// is given out depends on it.
DictionaryUnion::DictionaryUnion(int value_bytes, const DictionaryBounds& bounds)
    : value_bytes_(value_bytes),
      bytes_max_(static_cast<size_t>(std::max<int64_t>(bounds.bytes_max, 0))),
      entries_max_(static_cast<size_t>(
          std::clamp<int64_t>(bounds.entries_max, 0, std::numeric_limits<int32_t>::max()))),
      seed_(SystemRandom().Next()),
      slots_(kSlotsMin) {}

std::span<const uint8_t> DictionaryUnion::Entry(uint32_t index) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(plain_.data());
  if (value_bytes_ != kByteArray) {
    const auto width = static_cast<size_t>(value_bytes_);
    return {bytes + index * width, width};
  }
  const size_t end = index + 1 < offsets_.size() ? offsets_[index + 1] : plain_.size();
  return {bytes + offsets_[index], end - offsets_[index]};
}

// The slot of the entry that is `value`, or the free one where it belongs.
size_t DictionaryUnion::Find(std::span<const uint8_t> value, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) return slot;
    if (slots_[slot] >> 32 != hash >> 32) continue;
    const auto entry = Entry(IndexOf(slots_[slot]));
    if (entry.size() == value.size() &&
        std::memcmp(entry.data(), value.data(), value.size()) == 0) {
      return slot;
    }
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
  for (uint32_t i = 0; i < num_values; ++i) {
    size_t bytes = least;
    if (value_bytes_ == kByteArray) {
      uint32_t length = 0;
      // The last values may lack their lengths where others are long.
      if (plain.size() >= kLengthBytes) std::memcpy(&length, plain.data(), kLengthBytes);
      bytes = kLengthBytes + length;
    }
    if (bytes > plain.size()) {
      CutBack(entries_before, bytes_before);
      return Corrupt("value " + std::to_string(i) + " of the dictionary is cut off");
    }
    const auto value = plain.first(bytes);
    plain = plain.subspan(bytes);
    const auto found = FindOrAdd(value);
    if (!found) {
      CutBack(entries_before, bytes_before);
      return std::nullopt;
    }
    mapping.to[i] = *found;
    mapping.max = std::max(mapping.max, *found);
    mapping.identity = mapping.identity && *found == i;
  }
  return mapping;
}

void DictionaryUnion::Clear() {
  plain_ = {};
  offsets_ = {};
  hashes_ = {};
  slots_ = std::vector<uint64_t>(kSlotsMin);
}

// nullopt: there is no room for it.
std::optional<uint32_t> DictionaryUnion::FindOrAdd(std::span<const uint8_t> value) {
  const uint64_t hash = Hash(value, seed_);
  size_t slot = Find(value, hash);
  if (slots_[slot] != 0) return IndexOf(slots_[slot]);
  if (hashes_.size() >= entries_max_ || value.size() > bytes_max_ - plain_.size()) {
    return std::nullopt;
  }
  if (hashes_.size() * 2 >= slots_.size()) {
    Grow();
    slot = Find(value, hash);
  }
  if (value_bytes_ == kByteArray) offsets_.push_back(plain_.size());
  plain_.append(reinterpret_cast<const char*>(value.data()), value.size());
  const auto index = static_cast<uint32_t>(hashes_.size());
  hashes_.push_back(hash);
  slots_[slot] = MakeSlot(index, hash);
  return index;
}

int64_t DictionaryUnion::memory_bytes() const {
  return static_cast<int64_t>(plain_.capacity() + offsets_.capacity() * sizeof(uint64_t) +
                              hashes_.capacity() * sizeof(uint64_t) +
                              slots_.capacity() * sizeof(uint64_t));
}

}  // namespace lithify::rewrite
