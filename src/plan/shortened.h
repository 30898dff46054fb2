// Texts of others (errors, values of properties) that are kept or shown: no longer than so, and
// never cut within a character. Private to this module.
#ifndef LITHIFY_PLAN_SHORTENED_H_
#define LITHIFY_PLAN_SHORTENED_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lithify::plan {

inline std::string Shortened(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + " …";
}

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_SHORTENED_H_
