// Sets of deleted keys with the greatest sequence number that each was deleted at: open addressing,
// hashed with a seed of the process (keys come from files that may be hostile), within a budget.
//
// One thread at a time.
#ifndef LITHIFY_REWRITE_DELETE_KEYS_H_
#define LITHIFY_REWRITE_DELETE_KEYS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace lithify::rewrite {

// Bytes that several sets share.
class KeyBudget {
 public:
  explicit KeyBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}
  bool Take(int64_t bytes) {
    if (bytes > bytes_max_ - used_) return false;
    used_ += bytes;
    peak_ = used_ > peak_ ? used_ : peak_;
    return true;
  }
  void Give(int64_t bytes) { used_ -= bytes; }
  int64_t bytes_max() const { return bytes_max_; }
  int64_t used() const { return used_; }
  int64_t peak() const { return peak_; }

 private:
  const int64_t bytes_max_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// No sequence number: the key is not in the set.
inline constexpr int64_t kNotDeleted = std::numeric_limits<int64_t>::min();

// Keys of 64 bits.
class WordKeys {
 public:
  explicit WordKeys(KeyBudget& budget) : budget_(budget) {}
  ~WordKeys() { Clear(); }
  WordKeys(const WordKeys&) = delete;
  WordKeys& operator=(const WordKeys&) = delete;

  // Makes room for about so many keys, as far as the budget allows.
  void Reserve(int64_t keys);
  // False if the budget does not hold one more key; then nothing has changed.
  bool Insert(int64_t key, int64_t sequence_number);
  // sequence_numbers[i] = the greatest of keys[i], or kNotDeleted.
  void FindMany(std::span<const int64_t> keys, int64_t* sequence_numbers) const;
  void Clear();
  bool empty() const { return size_ == 0; }

 private:
  struct Slot {
    int64_t key;
    int64_t sequence_number;  // kNotDeleted: the slot is free.
  };
  bool Rehash(size_t slots);
  size_t Find(int64_t key) const;

  KeyBudget& budget_;
  std::vector<Slot> slots_;  // A power of two of them, or none.
  size_t size_ = 0;
};

// Keys of any length, kept in chunks of an arena.
class ByteKeys {
 public:
  explicit ByteKeys(KeyBudget& budget) : budget_(budget) {}
  ~ByteKeys() { Clear(); }
  ByteKeys(const ByteKeys&) = delete;
  ByteKeys& operator=(const ByteKeys&) = delete;

  void Reserve(int64_t keys);
  bool Insert(std::string_view key, int64_t sequence_number);
  // For the keys [offsets[i], offsets[i + 1]) of `buffer`; offsets has one more than there are.
  void FindMany(const char* buffer, std::span<const size_t> offsets,
                int64_t* sequence_numbers) const;
  void Clear();
  bool empty() const { return size_ == 0; }

 private:
  struct Slot {
    uint64_t hash;
    char* record;  // Sequence number, length, bytes. Null: the slot is free.
  };
  bool Rehash(size_t slots);
  size_t Find(uint64_t hash, std::string_view key) const;
  char* NewRecord(std::string_view key, int64_t sequence_number);

  KeyBudget& budget_;
  std::vector<Slot> slots_;
  size_t size_ = 0;
  std::vector<std::unique_ptr<char[]>> chunks_;
  int64_t arena_bytes_ = 0;
  char* free_ = nullptr;
  size_t free_bytes_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_DELETE_KEYS_H_
