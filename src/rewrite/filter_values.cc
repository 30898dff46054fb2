#include "rewrite/filter_values.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lithify::rewrite {
namespace {

std::unexpected<Error> CutOff() {
  return Fail(Code::kCorrupt, "the values of a page are cut off", "page body",
              "restore the file from its source");
}

// Takes the bytes of the next value off `plain`; null: there are too few.
const uint8_t* Take(const PlainForm& form, std::span<const uint8_t>& plain, size_t* size) {
  *size = static_cast<size_t>(form.bytes);
  if (form.kind == PlainForm::Kind::kByteArray) {
    uint32_t length = 0;
    if (plain.size() < sizeof length) return nullptr;
    std::memcpy(&length, plain.data(), sizeof length);
    plain = plain.subspan(sizeof length);
    *size = length;
  }
  if (*size > plain.size()) return nullptr;
  const uint8_t* value = plain.data();
  plain = plain.subspan(*size);
  return value;
}

}  // namespace

Status InsertPlain(const PlainForm& form, std::span<const uint8_t> plain, int64_t count,
                   parquet::BloomFilter& filter) {
  if (form.kind == PlainForm::Kind::kBoolean) {
    return Fail(Code::kUnsupported, "a bloom filter of booleans");
  }
  // So many that one call of the filter is cheap beside them.
  std::array<uint64_t, 256> hashes;
  while (count > 0) {
    const auto some = static_cast<size_t>(std::min(count, std::ssize(hashes)));
    for (size_t i = 0; i < some; ++i) {
      size_t size = 0;
      const uint8_t* value = Take(form, plain, &size);
      if (value == nullptr) return CutOff();
      hashes[i] = XXH64(value, size, 0);
    }
    filter.InsertHashes(hashes.data(), static_cast<int>(some));
    count -= static_cast<int64_t>(some);
  }
  return {};
}

}  // namespace lithify::rewrite
