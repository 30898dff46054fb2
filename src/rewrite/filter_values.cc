#include "rewrite/filter_values.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>

namespace lithify::rewrite {
Status InsertPlain(const PlainForm& form, std::span<const uint8_t> plain, int64_t count,
                   parquet::BloomFilter& filter) {
  if (form.kind == PlainForm::Kind::kBoolean) {
    return Fail(Code::kUnsupported, "a bloom filter of booleans");
  }
  const bool arrays = form.kind == PlainForm::Kind::kByteArray;
  const size_t front = arrays ? sizeof(uint32_t) : 0;  // Of a value, its length.
  // So many that one call of the filter is cheap beside them.
  std::array<uint64_t, 256> hashes;
  size_t at = 0;
  while (count > 0) {
    const auto some = static_cast<size_t>(std::min(count, std::ssize(hashes)));
    for (size_t i = 0; i < some; ++i) {
      const size_t next = arrays ? NextByteArray(plain, at) : at + static_cast<size_t>(form.bytes);
      if (next == 0 || next > plain.size()) return ValuesCutOff();
      hashes[i] = XXH64(plain.data() + at + front, next - at - front, 0);
      at = next;
    }
    filter.InsertHashes(hashes.data(), static_cast<int>(some));
    count -= static_cast<int64_t>(some);
  }
  return {};
}

}  // namespace lithify::rewrite
