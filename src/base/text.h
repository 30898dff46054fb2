// Numbers, sizes, durations and times as text, and back.
#ifndef LITHIFY_BASE_TEXT_H_
#define LITHIFY_BASE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lithify {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;

// "0 B", "512 B", "1.4 KiB", "128.0 MiB".
std::string FormatBytes(int64_t bytes);
// Accepts "4096", "64KiB", "128 MiB", "1GiB", "1.5GiB" (binary units; "K", "M", "G", "T" are the
// same). kInvalid otherwise, for negative values and for those beyond int64.
Result<int64_t> ParseBytes(std::string_view text);
// "850 ms", "12.3 s", "4 min 05 s", "3 h 10 min".
std::string FormatDuration(Duration d);
// Accepts "90s", "15min", "15m", "1h", "2d", "500ms"; a bare number is seconds.
Result<Duration> ParseDuration(std::string_view text);
// "2026-11-29T16:20:00.123456Z" (microseconds always shown).
std::string FormatTime(Time t);
// RFC 3339 in UTC ("2026-11-29", "2026-11-29T16", "…T16:20", "…T16:20:00[.ffffff]Z"); kInvalid
// for impossible dates.
Result<Time> ParseTime(std::string_view text);
// "1,234,567".
std::string FormatCount(int64_t n);
// The text as a JSON string literal with quotes; invalid UTF-8 bytes become U+FFFD.
std::string JsonQuote(std::string_view text);
// Length of the well-formed UTF-8 sequence at the start of `text`, which is not empty; 0 if none.
size_t Utf8Length(std::string_view text);
// The one of `candidates` that `name` is most likely a slip of, by edit distance; empty if all are
// far from it. Of names beyond 256 bytes there is none.
std::string_view Nearest(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace lithify

#endif  // LITHIFY_BASE_TEXT_H_
