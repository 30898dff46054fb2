#include "base/hive.h"

namespace lithify {
namespace {

constexpr size_t kNameBytesMax = 255;  // What file systems take.

// Length of the well-formed sequence that `text` starts with (Unicode table 3-7); 0 if none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;   // Overlong.
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;  // Surrogates, end.
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool IsLiveFileName(std::string_view name) {
  constexpr std::string_view kSuffix = ".parquet";
  if (name.size() <= kSuffix.size() || name.size() > kNameBytesMax) return false;
  if (!name.ends_with(kSuffix) || name.front() == '.' || name.front() == '_') return false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '/' || c == '\\') return false;
  }
  return IsUtf8(name);
}

}  // namespace lithify
