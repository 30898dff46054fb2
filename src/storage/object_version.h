// Versions of small objects, from their bytes alone: a 128-bit hash and the size. Pure.
#ifndef LITHIFY_STORAGE_OBJECT_VERSION_H_
#define LITHIFY_STORAGE_OBJECT_VERSION_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lithify::storage {

// "<32 hexadecimal digits>-<size>". Two contents of one version are a hash collision; the hash is
// no defence against somebody who makes them on purpose and may write to the tree anyway.
std::string VersionOf(std::string_view bytes);

// False only if no object of `size` bytes can have this version: saves reading it.
bool VersionMayHaveSize(std::string_view version, int64_t size);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_OBJECT_VERSION_H_
