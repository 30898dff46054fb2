#include "sort/row_sorter.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace lithify::sort {
namespace {

class MemorySorter final : public RowSorter {
 public:
  explicit MemorySorter(const RowSorterOptions& options) : options_(options) {}

  Status Add(KeyRows& keys, bool) override {
    if (options_.cancel != nullptr) LITHIFY_TRY(options_.cancel->Check());
    if (keys.size() > std::numeric_limits<uint32_t>::max() - all_.size()) {
      return Fail(Code::kLimit, "more than 4,294,967,295 rows to sort at a time");
    }
    if (keys.has_rests() && !all_.has_rests()) all_.ends.assign(all_.size(), 0);
    for (size_t i = 0; i < keys.size(); ++i) {
      all_.prefixes.push_back(keys.prefixes[i]);
      if (keys.has_rests() || all_.has_rests()) {
        all_.bytes += keys.rest(i);
        all_.ends.push_back(all_.bytes.size());
      }
    }
    keys.Clear();
    if (options_.spill == nullptr && all_.memory_bytes() > options_.memory_bytes) {
      return Fail(Code::kLimit, "sort keys need more memory than there is", {},
                  "raise the memory, or give a directory to spill to");
    }
    return {};
  }

  Result<SortedRows> Finish() override {
    SortedRows out;
    out.rows.resize(all_.size());
    std::iota(out.rows.begin(), out.rows.end(), 0U);
    const auto less = [&](uint32_t a, uint32_t b) { return CompareKeys(all_, a, all_, b) < 0; };
    out.in_order = std::is_sorted(out.rows.begin(), out.rows.end(), less);
    std::stable_sort(out.rows.begin(), out.rows.end(), less);
    for (size_t i = 0; i < out.rows.size(); ++i) {
      out.key_begins.Push(i == 0 || less(out.rows[i - 1], out.rows[i]));
    }
    out.runs = out.rows.empty() ? 0 : 1;
    return out;
  }

 private:
  const RowSorterOptions options_;
  KeyRows all_;
};

}  // namespace

std::unique_ptr<RowSorter> MakeRowSorter(const RowSorterOptions& options) {
  return std::make_unique<MemorySorter>(options);
}

}  // namespace lithify::sort
