// What the fuzz targets share. A target is one function, called with one input after the other; a
// broken promise aborts, so that the fuzzer and the replay both see it.
#ifndef LITHIFY_FUZZ_FUZZ_INPUT_H_
#define LITHIFY_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lithify::fuzz {

inline void Require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// Whether `result` has a value. Any error will do but "a bug in lithify", and one without words.
template <typename T>
bool Gave(const Result<T>& result) {
  if (result) return true;
  Require(result.error().code != Code::kInternal, result.error().ToString());
  Require(!result.error().message.empty(), "an error says what happened");
  return false;
}

// The value, where there must be one.
template <typename T>
T Must(Result<T> result, std::string_view what) {
  if (!result) Require(false, std::string(what) + ": " + result.error().ToString());
  return std::move(*result);
}

inline std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Takes an input apart from its front; gives zeros and nothing once it is used up.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : bytes_(bytes) {}
  uint8_t Byte() {
    const std::string_view one = Bytes(1);
    return one.empty() ? uint8_t{0} : static_cast<uint8_t>(one[0]);
  }
  std::string_view Bytes(size_t count) {
    const std::string_view taken = bytes_.substr(0, std::min(count, bytes_.size()));
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view Until(char end) {
    const size_t length = std::min(bytes_.find(end), bytes_.size());
    const std::string_view taken = Bytes(length);
    (void)Bytes(1);
    return taken;
  }

 private:
  std::string_view bytes_;
};

}  // namespace lithify::fuzz

#endif  // LITHIFY_FUZZ_FUZZ_INPUT_H_
