// Memory by whole pages, straight from the system and back to it at once: arrays so large that a
// heap would keep holes of their size. In huge pages where the system has them, which the scattered
// writes of a sort need.
//
// Thread safety: plain values.
#ifndef LITHIFY_SORT_PAGES_H_
#define LITHIFY_SORT_PAGES_H_

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace lithify::sort {

class Pages {
 public:
  Pages() = default;
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  // All zero. kLimit: the system has no more.
  static Result<Pages> Make(size_t bytes) {
    Pages out;
    if (bytes == 0) return out;
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return Fail(Code::kLimit,
                  "out of memory: no " + FormatBytes(static_cast<int64_t>(bytes)) + " to sort in",
                  {}, "lower the memory of sorting: more is spilled then");
    }
    constexpr size_t kHuge = size_t{4} << 20;
    if (bytes >= kHuge) madvise(data, bytes, MADV_HUGEPAGE);
    out.data_ = data;
    out.bytes_ = bytes;
    return out;
  }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_PAGES_H_
