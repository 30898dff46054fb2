#include "base/trace_context.h"

#include <algorithm>

namespace lithify {
namespace {

constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanDigits = 16;
constexpr size_t kLength = 2 + 1 + kTraceDigits + 1 + kSpanDigits + 1 + 2;

bool IsHex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::string TraceContext::ToTraceparent() const {
  if (!valid()) return {};
  return "00-" + trace_id + "-" + span_id + (sampled ? "-01" : "-00");
}

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kLength) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(3, kTraceDigits);
  const std::string_view span = text.substr(3 + kTraceDigits + 1, kSpanDigits);
  const std::string_view flags = text.substr(kLength - 2, 2);
  const bool dashes = text[2] == '-' && text[3 + kTraceDigits] == '-' && text[kLength - 3] == '-';
  if (!dashes || !IsHex(version) || version == "ff" || !IsId(trace) || !IsId(span) ||
      !IsHex(flags)) {
    return std::nullopt;
  }
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return std::nullopt;
  const char low = flags[1];
  const int bits = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceContext{
      .trace_id = std::string(trace), .span_id = std::string(span), .sampled = (bits & 1) != 0};
}

}  // namespace lithify
