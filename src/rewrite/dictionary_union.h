// Several dictionaries of one column united into one. Values are bytes, and equal only if all bytes
// are: -0.0 and 0.0, and NaNs of different payload, stay apart. No Arrow.
#ifndef LITHIFY_REWRITE_DICTIONARY_UNION_H_
#define LITHIFY_REWRITE_DICTIONARY_UNION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lithify::rewrite {

// Where the entries of one dictionary are in the union.
struct DictionaryMapping {
  std::vector<uint32_t> to;
  uint32_t max = 0;      // The largest of them; 0 if there is none.
  bool identity = true;  // to[i] == i: pages need no change.
};

struct DictionaryBounds {
  int64_t bytes_max = 0;    // Of plain(); at most 2^32 - 1, whatever is asked for.
  int64_t entries_max = 0;  // At most 2^31 - 1, whatever is asked for.
};

class DictionaryUnion {
 public:
  static constexpr int kByteArray = 0;

  // `value_bytes`: of one value of the column's physical type, or kByteArray for values with a
  // 4-byte length in front. A column of booleans has no dictionary.
  DictionaryUnion(int value_bytes, const DictionaryBounds& bounds);

  // Adds the first `num_values` values of a PLAIN dictionary page, decompressed. nullopt: the union
  // would be over its bounds; then it is as it was before. kCorrupt: the page is cut off.
  Result<std::optional<DictionaryMapping>> Add(std::span<const uint8_t> plain, int64_t num_values);

  // Gives up what it holds.
  void Clear();

  int64_t size() const { return static_cast<int64_t>(hashes_.size()); }
  // All entries, PLAIN, in the order in which they came.
  const std::string& plain() const { return plain_; }
  // One of them, with its length in front if it is a byte array.
  std::span<const uint8_t> Entry(uint32_t index) const {
    return {reinterpret_cast<const uint8_t*>(EntryAt(index)), EntryBytes(index)};
  }
  // What it holds in memory, about.
  int64_t memory_bytes() const;

  // Of the hashes; at random.
  struct Seed {
    uint64_t a = 0;
    uint64_t b = 1;
    uint64_t c = 0;
  };

 private:
  struct Value {
    const uint8_t* data = nullptr;
    size_t bytes = 0;
    uint64_t hash = 0;
  };
  // `kWidth`: of every value, or 0 for any.
  template <size_t kWidth>
  size_t Take(std::span<const uint8_t>& plain, size_t count, Value* out) const;
  template <size_t kWidth>
  Result<bool> AddValues(std::span<const uint8_t> plain, DictionaryMapping& mapping);
  template <size_t kWidth>
  size_t Find(const Value& value) const;
  template <size_t kWidth>
  std::optional<uint32_t> FindOrAdd(const Value& value);
  size_t EntryBytes(uint32_t index) const;
  const char* EntryAt(uint32_t index) const;
  void Grow();
  void CutBack(size_t entries, size_t bytes);

  const int value_bytes_;
  const size_t bytes_max_;
  const size_t entries_max_;
  const Seed seed_;
  std::string plain_;
  std::vector<uint32_t> offsets_;  // Of each entry in plain_, only of byte arrays.
  std::vector<uint64_t> hashes_;   // Of each entry.
  std::vector<uint64_t> slots_;    // Open addressing; 0 where free.
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_DICTIONARY_UNION_H_
