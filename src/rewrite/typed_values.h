// Values of Parquet's types in memory, on their way to PLAIN bytes and back. Only where columns are
// encoded or held is this included: it is instantiated for every type.
#ifndef LITHIFY_REWRITE_TYPED_VALUES_H_
#define LITHIFY_REWRITE_TYPED_VALUES_H_

#include <parquet/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace lithify::rewrite {

inline constexpr size_t kLengthBytes = sizeof(uint32_t);  // In front of a byte array.

// Copies a few bytes without a call.
inline void CopyShort(const uint8_t* from, size_t bytes, uint8_t* to) {
  if (bytes >= 8 && bytes <= 16) {
    uint64_t first = 0;
    uint64_t last = 0;
    std::memcpy(&first, from, sizeof first);
    std::memcpy(&last, from + bytes - 8, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + bytes - 8, &last, sizeof last);
  } else if (bytes >= 4 && bytes < 8) {
    uint32_t first = 0;
    uint32_t last = 0;
    std::memcpy(&first, from, sizeof first);
    std::memcpy(&last, from + bytes - 4, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + bytes - 4, &last, sizeof last);
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

// How values of the type lie in memory, on their way to PLAIN bytes and back.
template <typename DType>
class Plain {
  using T = typename DType::c_type;
  static constexpr bool kArrays = std::is_same_v<DType, parquet::ByteArrayType>;
  static constexpr bool kFixed = std::is_same_v<DType, parquet::FLBAType>;

 public:
  explicit Plain(int width) : width_(static_cast<size_t>(width)) {}

  int64_t BytesOf(const T& value) const {
    if constexpr (kArrays) return static_cast<int64_t>(kLengthBytes) + value.len;
    return static_cast<int64_t>(width_);
  }

  // `bytes`: of all of them.
  void Append(const T* values, int64_t count, int64_t bytes, std::string* out) const {
    const size_t before = out->size();
    const size_t after = before + static_cast<size_t>(bytes);
    if constexpr (!kArrays && !kFixed) {
      out->append(reinterpret_cast<const char*>(values), static_cast<size_t>(bytes));
    } else {
      out->resize_and_overwrite(after, [&](char* data, size_t) {
        auto* to = reinterpret_cast<uint8_t*>(data) + before;
        for (int64_t i = 0; i < count; ++i) {
          if constexpr (kArrays) {
            std::memcpy(to, &values[i].len, kLengthBytes);
            CopyShort(values[i].ptr, values[i].len, to + kLengthBytes);
            to += kLengthBytes + values[i].len;
          } else {
            CopyShort(values[i].ptr, width_, to);
            to += width_;
          }
        }
        return after;
      });
    }
  }

  // Points into the bytes where the type does.
  T Value(std::span<const uint8_t> plain) const {
    if constexpr (kArrays) {
      return {static_cast<uint32_t>(plain.size() - kLengthBytes), plain.data() + kLengthBytes};
    } else if constexpr (kFixed) {
      return T(plain.data());
    } else {
      T value{};
      std::memcpy(&value, plain.data(), sizeof value);
      return value;
    }
  }

 private:
  const size_t width_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TYPED_VALUES_H_
