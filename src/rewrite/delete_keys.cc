#include "rewrite/delete_keys.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "rewrite/row_hash.h"

namespace lithify::rewrite {
namespace {

constexpr size_t kSlotsMin = 64;
constexpr size_t kLookahead = 16;  // Probes whose slots are fetched before the first is looked at.
constexpr size_t kChunkBytesMax = size_t{256} << 10;
constexpr size_t kRecordHead = sizeof(int64_t) + sizeof(uint32_t);

uint64_t Seed() {
  static const uint64_t seed = SystemRandom().Next();
  return seed;
}

// The fullest that probing stays short: beyond it a set grows, or is full.
size_t RoomIn(size_t slots) { return slots / 8 * 5; }

size_t SlotsFor(int64_t keys) {
  const auto wanted = static_cast<size_t>(std::clamp<int64_t>(keys, 1, int64_t{1} << 40));
  return std::bit_ceil(std::max(kSlotsMin, wanted / 5 * 8 + 8));
}

int64_t SequenceOf(const char* record) {
  int64_t sequence_number = 0;
  std::memcpy(&sequence_number, record, sizeof(sequence_number));
  return sequence_number;
}

bool SameKey(const char* record, std::string_view key) {
  uint32_t length = 0;
  std::memcpy(&length, record + sizeof(int64_t), sizeof(length));
  return length == key.size() && std::memcmp(record + kRecordHead, key.data(), length) == 0;
}

uint64_t HashKey(std::string_view key) {
  return XXH3_64bits_withSeed(key.data(), key.size(), Seed());
}

}  // namespace

// ---------------------------------------------------------------------------------- WordKeys

void WordKeys::Reserve(int64_t keys) {
  for (size_t slots = SlotsFor(keys); slots > slots_.size(); slots /= 2) {
    if (Rehash(slots)) return;
  }
}

bool WordKeys::Rehash(size_t slots) {
  const auto bytes = static_cast<int64_t>(slots * sizeof(Slot));
  if (!budget_.Take(bytes)) return false;
  std::vector<Slot> old(slots, Slot{0, kNotDeleted});
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.sequence_number != kNotDeleted) slots_[Find(slot.key)] = slot;
  }
  budget_.Give(static_cast<int64_t>(old.size() * sizeof(Slot)));
  return true;
}

size_t WordKeys::Find(int64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t i = HashMix(static_cast<uint64_t>(key) ^ Seed()) & mask;
  while (slots_[i].sequence_number != kNotDeleted && slots_[i].key != key) i = (i + 1) & mask;
  return i;
}

bool WordKeys::Insert(int64_t key, int64_t sequence_number) {
  if (slots_.empty() && !Rehash(kSlotsMin)) return false;
  Slot* slot = &slots_[Find(key)];
  if (slot->sequence_number == kNotDeleted) {
    if (size_ >= RoomIn(slots_.size())) {
      if (!Rehash(slots_.size() * 2)) return false;
      slot = &slots_[Find(key)];
    }
    ++size_;
  }
  *slot = Slot{key, std::max(slot->sequence_number, sequence_number)};
  return true;
}

void WordKeys::FindMany(std::span<const int64_t> keys, int64_t* sequence_numbers) const {
  if (size_ == 0) {
    std::fill_n(sequence_numbers, keys.size(), kNotDeleted);
    return;
  }
  const size_t mask = slots_.size() - 1;
  const uint64_t seed = Seed();
  size_t first[kLookahead];
  for (size_t begin = 0; begin < keys.size(); begin += kLookahead) {
    const size_t n = std::min(kLookahead, keys.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      first[i] = HashMix(static_cast<uint64_t>(keys[begin + i]) ^ seed) & mask;
      __builtin_prefetch(&slots_[first[i]]);
    }
    for (size_t i = 0; i < n; ++i) {
      size_t at = first[i];
      const int64_t key = keys[begin + i];
      while (slots_[at].sequence_number != kNotDeleted && slots_[at].key != key) {
        at = (at + 1) & mask;
      }
      sequence_numbers[begin + i] = slots_[at].sequence_number;
    }
  }
}

void WordKeys::Clear() {
  budget_.Give(static_cast<int64_t>(slots_.size() * sizeof(Slot)));
  slots_ = {};
  size_ = 0;
}

// ---------------------------------------------------------------------------------- ByteKeys

void ByteKeys::Reserve(int64_t keys) {
  for (size_t slots = SlotsFor(keys); slots > slots_.size(); slots /= 2) {
    // The bytes of the keys need room too.
    if (static_cast<int64_t>(slots * sizeof(Slot)) > budget_.bytes_max() / 2) continue;
    if (Rehash(slots)) return;
  }
}

bool ByteKeys::Rehash(size_t slots) {
  const auto bytes = static_cast<int64_t>(slots * sizeof(Slot));
  if (!budget_.Take(bytes)) return false;
  std::vector<Slot> old(slots, Slot{0, nullptr});
  old.swap(slots_);
  const size_t mask = slots - 1;
  for (const Slot& slot : old) {
    if (slot.record == nullptr) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].record != nullptr) i = (i + 1) & mask;
    slots_[i] = slot;
  }
  budget_.Give(static_cast<int64_t>(old.size() * sizeof(Slot)));
  return true;
}

size_t ByteKeys::Find(uint64_t hash, std::string_view key) const {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].record != nullptr &&
         (slots_[i].hash != hash || !SameKey(slots_[i].record, key))) {
    i = (i + 1) & mask;
  }
  return i;
}

char* ByteKeys::NewRecord(std::string_view key, int64_t sequence_number) {
  const size_t bytes = kRecordHead + key.size();
  if (bytes > free_bytes_) {
    // Small where the whole budget is, and a chunk of its own for a key that is large.
    const auto share = static_cast<size_t>(budget_.bytes_max() / 16);
    const size_t chunk = std::max(bytes, std::min(kChunkBytesMax, share));
    if (!budget_.Take(static_cast<int64_t>(chunk))) return nullptr;
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(chunk));
    arena_bytes_ += static_cast<int64_t>(chunk);
    free_ = chunks_.back().get();
    free_bytes_ = chunk;
  }
  char* record = free_;
  free_ += bytes;
  free_bytes_ -= bytes;
  const auto length = static_cast<uint32_t>(key.size());
  std::memcpy(record, &sequence_number, sizeof(sequence_number));
  std::memcpy(record + sizeof(sequence_number), &length, sizeof(length));
  std::memcpy(record + kRecordHead, key.data(), key.size());
  return record;
}

bool ByteKeys::Insert(std::string_view key, int64_t sequence_number) {
  if (key.size() > std::numeric_limits<uint32_t>::max()) return false;
  if (slots_.empty() && !Rehash(kSlotsMin)) return false;
  const uint64_t hash = HashKey(key);
  size_t i = Find(hash, key);
  if (char* record = slots_[i].record; record != nullptr) {
    const int64_t greatest = std::max(SequenceOf(record), sequence_number);
    std::memcpy(record, &greatest, sizeof(greatest));
    return true;
  }
  if (size_ >= RoomIn(slots_.size())) {
    if (!Rehash(slots_.size() * 2)) return false;
    i = Find(hash, key);
  }
  char* record = NewRecord(key, sequence_number);
  if (record == nullptr) return false;
  slots_[i] = Slot{hash, record};
  ++size_;
  return true;
}

void ByteKeys::FindMany(const char* buffer, std::span<const size_t> offsets,
                        int64_t* sequence_numbers) const {
  const size_t keys = offsets.size() - 1;
  if (size_ == 0) {
    std::fill_n(sequence_numbers, keys, kNotDeleted);
    return;
  }
  const size_t mask = slots_.size() - 1;
  uint64_t hashes[kLookahead];
  for (size_t begin = 0; begin < keys; begin += kLookahead) {
    const size_t n = std::min(kLookahead, keys - begin);
    const auto key = [&](size_t i) {
      const size_t start = offsets[begin + i];
      return std::string_view(buffer + start, offsets[begin + i + 1] - start);
    };
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = HashKey(key(i));
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (size_t i = 0; i < n; ++i) {
      const char* record = slots_[Find(hashes[i], key(i))].record;
      sequence_numbers[begin + i] = record == nullptr ? kNotDeleted : SequenceOf(record);
    }
  }
}

void ByteKeys::Clear() {
  budget_.Give(static_cast<int64_t>(slots_.size() * sizeof(Slot)) + arena_bytes_);
  slots_ = {};
  size_ = 0;
  chunks_.clear();
  arena_bytes_ = 0;
  free_ = nullptr;
  free_bytes_ = 0;
}

}  // namespace lithify::rewrite
