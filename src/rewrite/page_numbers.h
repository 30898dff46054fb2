// Levels, indices or booleans of a page that is being made, and how they lie in it. No Arrow.
#ifndef LITHIFY_REWRITE_PAGE_NUMBERS_H_
#define LITHIFY_REWRITE_PAGE_NUMBERS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lithify::rewrite {

// Numbers that are often all the same: then they take no memory and are written as one run.
class PageNumbers {
 public:
  int64_t count() const { return count_; }
  void Append(std::span<const uint32_t> numbers);
  // Levels, which are not negative.
  void Append(std::span<const int16_t> levels);
  void AppendRun(uint32_t number, int64_t times);
  void Clear();
  // Besides, gives up the memory.
  void Release();

  // Append what they are in a page of version 1: levels of up to `max` with their length in front
  // (nothing for `max` 0), indices with their width in front, or PLAIN booleans.
  void WriteLevels(int max, std::string* out) const;
  void WriteIndices(std::string* out) const;
  void WriteBooleans(std::string* out);

 private:
  void Spread();

  std::vector<uint32_t> list_;  // Empty while all are `same_`.
  uint32_t same_ = 0;
  int64_t count_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_NUMBERS_H_
