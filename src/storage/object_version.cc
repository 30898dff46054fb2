#include "storage/object_version.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>

namespace lithify::storage {

std::string VersionOf(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%016llx%016llx-%zu",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64), bytes.size());
  return text.data();
}

bool VersionMayHaveSize(std::string_view version, int64_t size) {
  return version.ends_with("-" + std::to_string(size));
}

}  // namespace lithify::storage
