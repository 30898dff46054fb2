#include "rewrite/page_numbers.h"

#include <algorithm>

#include "rewrite/index_pages.h"

namespace lithify::rewrite {

void PageNumbers::Spread() {
  if (list_.empty()) list_.assign(static_cast<size_t>(count_), same_);
}

void PageNumbers::Append(std::span<const uint32_t> numbers) {
  if (numbers.empty()) return;
  if (count_ == 0) same_ = numbers.front();
  if (list_.empty() && AllAre(numbers, same_)) {
    count_ += std::ssize(numbers);
    return;
  }
  Spread();
  list_.insert(list_.end(), numbers.begin(), numbers.end());
  count_ += std::ssize(numbers);
}

void PageNumbers::Append(std::span<const int16_t> levels) {
  if (levels.empty()) return;
  const int16_t first = levels.front();
  // Without leaving early, so that many are compared at once.
  int16_t differ = 0;
  for (const int16_t level : levels) differ |= static_cast<int16_t>(level ^ first);
  if (differ == 0) return AppendRun(static_cast<uint32_t>(first), std::ssize(levels));
  if (count_ == 0) same_ = static_cast<uint32_t>(first);
  Spread();
  list_.insert(list_.end(), levels.begin(), levels.end());
  count_ += std::ssize(levels);
}

void PageNumbers::AppendRun(uint32_t number, int64_t times) {
  if (times == 0) return;
  if (count_ == 0) same_ = number;
  if (!list_.empty() || number != same_) {
    Spread();
    list_.resize(list_.size() + static_cast<size_t>(times), number);
  }
  count_ += times;
}

void PageNumbers::Clear() {
  list_.clear();
  count_ = 0;
}

void PageNumbers::Release() {
  list_ = {};
  count_ = 0;
}

void PageNumbers::WriteLevels(int max, std::string* out) const {
  if (max == 0) return;
  if (list_.empty()) {
    AppendLevelRunV1(static_cast<int>(same_), count_, max, out);
    return;
  }
  std::string hybrid;
  AppendHybrid(list_, BitWidth(static_cast<uint32_t>(max)), &hybrid);
  AppendWithLength(hybrid, out);
}

void PageNumbers::WriteIndices(std::string* out) const {
  const uint32_t max = list_.empty() ? same_ : MaxOf(list_);
  // A width of no bits is right for one entry, but some readers stumble over it.
  const int width = std::max(1, BitWidth(count_ > 0 ? max : 0));
  if (!list_.empty()) return AppendIndices(list_, width, out);
  out->push_back(static_cast<char>(width));
  // Of so many bits, any number may be the run's.
  if (count_ > 0) {
    AppendLevelRun(static_cast<int>(same_), count_, (1 << width) - 1, out);
  }
}

void PageNumbers::WriteBooleans(std::string* out) {
  Spread();
  AppendBooleans(list_, out);
}

}  // namespace lithify::rewrite
