// What third-party code throws, as an error.
#ifndef LITHIFY_BASE_FROM_EXCEPTION_H_
#define LITHIFY_BASE_FROM_EXCEPTION_H_

#include <exception>
#include <new>
#include <string>

#include "base/result.h"

namespace lithify {

inline Error FromException(const std::exception& e, const std::string& where) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return {Code::kLimit, "out of memory", where, "lower limits.memory or limits.jobs"};
  }
  return {Code::kInternal, std::string("unexpected exception: ") + e.what(), where,
          "please report this"};
}

}  // namespace lithify

#endif  // LITHIFY_BASE_FROM_EXCEPTION_H_
