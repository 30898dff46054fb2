// A set of row positions in one data file: what position deletes and deletion vectors say.
// Compressed (roaring), so that millions of positions are small.
#ifndef LITHIFY_BASE_POSITION_SET_H_
#define LITHIFY_BASE_POSITION_SET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify {

// Positions are 0 to 2^63 - 1; adding a negative one, which names no row, changes nothing, so who
// must tell it as an error looks first. Thread-safe for reading only. Copies share nothing.
class PositionSet {
 public:
  PositionSet();
  ~PositionSet();
  PositionSet(const PositionSet& other);
  PositionSet(PositionSet&& other) noexcept;
  PositionSet& operator=(PositionSet other) noexcept;

  void Add(int64_t position);
  void AddMany(std::span<const int64_t> positions);  // Any order, duplicates allowed (T13).
  // [begin, end). Takes time and memory for each 65,536 of them.
  void AddRange(int64_t begin, int64_t end);
  void Unite(const PositionSet& other);
  // The positions in [0, end) that are no members.
  PositionSet Complement(int64_t end) const;

  bool empty() const { return size() == 0; }
  int64_t size() const;  // Distinct positions.
  bool Contains(int64_t position) const;
  int64_t CountBelow(int64_t end) const;   // Members in [0, end).
  int64_t MaxOr(int64_t otherwise) const;  // The greatest member.
  // Calls `range(begin, end)` for each maximal run of members in [first, last), in order.
  void ForEachRange(int64_t first, int64_t last,
                    const std::function<void(int64_t, int64_t)>& range) const;
  int64_t memory_bytes() const;  // About.

  // The portable 64-bit roaring format [Deletion vector blob type], without magic and checksum.
  // Equal sets give equal bytes.
  std::string Serialize() const;
  // kCorrupt for bytes that are no bitmap, as strict as the format: order, counts and lengths must
  // hold, and nothing may follow. Never allocates more than a multiple of their number.
  static Result<PositionSet> Deserialize(std::string_view bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_POSITION_SET_H_
