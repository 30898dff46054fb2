#include "base/order_mark.h"

#include <algorithm>
#include <cstdio>

namespace lithify {
namespace {

constexpr std::string_view kBegin = "-s";
constexpr std::string_view kEnd = ".parquet";
constexpr size_t kDigits = 8;
constexpr size_t kMarkBytes = kBegin.size() + kDigits + 1 + kDigits;

// FNV-1a, folded: names must mean the same in every version.
std::string Digits(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof(digits), "%08x", static_cast<unsigned>(hash ^ (hash >> 32)));
  return digits;
}

bool AreDigits(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string OrderDigits(const RowOrder& order) {
  std::string text = std::to_string(static_cast<int>(order.curve));
  for (const OrderField& field : order.fields) {
    text += '\n';
    text += field.field_id != 0 ? std::to_string(field.field_id) : '"' + field.column;
    text +=
        '\n' + field.transform + (field.ascending ? "+" : "-") + (field.nulls_first ? "f" : "l");
  }
  return Digits(text);
}

std::string OrderSuffix(const RowOrder& order, std::string_view job_id, int64_t group) {
  return std::string(kBegin) + OrderDigits(order) + "-" +
         Digits(std::string(job_id) + "\n" + std::to_string(group));
}

std::optional<OrderMark> ReadOrderMark(std::string_view path) {
  if (!path.ends_with(kEnd)) return std::nullopt;
  path.remove_suffix(kEnd.size());
  if (path.size() < kMarkBytes) return std::nullopt;
  std::string_view mark = path.substr(path.size() - kMarkBytes);
  if (!mark.starts_with(kBegin)) return std::nullopt;
  mark.remove_prefix(kBegin.size());
  const std::string_view order = mark.substr(0, kDigits);
  if (mark[kDigits] != '-' || !AreDigits(order) || !AreDigits(mark.substr(kDigits + 1))) {
    return std::nullopt;
  }
  return OrderMark{.order = order, .run = mark};
}

}  // namespace lithify
