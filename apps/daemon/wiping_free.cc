#include "daemon/wiping_free.h"

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

// glibc's own M_PERTURB does not do: what goes into a thread's cache of small blocks keeps its
// content, and that is most of what is freed. A replacement of these two functions is used by all
// of the process, libraries and glibc itself included [glibc manual, "Replacing malloc"]; a
// sanitizer has its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" {

// glibc's.
void __libc_free(void* block);                    // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* block, size_t bytes);  // NOLINT(bugprone-reserved-identifier)

void free(void* block) {  // NOLINT(readability-inconsistent-declaration-parameter-name)
  if (block == nullptr) return;
  explicit_bzero(block, malloc_usable_size(block));
  __libc_free(block);
}

void* realloc(void* block, size_t bytes) {
  if (block == nullptr) return malloc(bytes);
  const size_t had = malloc_usable_size(block);
  // No token is in blocks as large as this, which move without being copied.
  constexpr size_t kLarge = size_t{1} << 20;
  if (bytes == 0) {
    free(block);
    return nullptr;
  }
  if (bytes > PTRDIFF_MAX || had >= kLarge) return __libc_realloc(block, bytes);
  if (bytes <= had) {
    explicit_bzero(static_cast<char*>(block) + bytes, had - bytes);
    return __libc_realloc(block, bytes);
  }
  void* moved = malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, had);
  free(block);
  return moved;
}

}  // extern "C"

#endif

namespace lithify::daemon {

void UseWipingFree() {}

}  // namespace lithify::daemon
