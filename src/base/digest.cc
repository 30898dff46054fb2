#include "base/digest.h"

#include <array>
#include <cstdio>

namespace lithify {

std::string Digest128::ToHex() const {
  std::array<char, 33> text;
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(hi),
                static_cast<unsigned long long>(lo));
  return text.data();
}

Result<Digest128> Digest128::FromHex(std::string_view hex) {
  if (hex.size() != 32) return Fail(Code::kInvalid, "a digest has 32 hexadecimal digits");
  std::array<uint64_t, 2> halves{};
  for (size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) {
      return Fail(Code::kInvalid, "a digest has only the characters 0-9 and a-f");
    }
    halves[i / 16] = halves[i / 16] * 16 + static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return Digest128{.lo = halves[1], .hi = halves[0]};
}

void ContentDigest::Add(const ContentDigest& other) {
  rows += other.rows;
  row.Add(other.row);
  for (const auto& [path, digest] : other.columns) columns[path].Add(digest);
}

std::string ContentDigest::Difference(const ContentDigest& other) const {
  if (rows != other.rows) {
    return "rows: " + std::to_string(rows) + " != " + std::to_string(other.rows);
  }
  for (const auto& [path, digest] : columns) {
    const auto found = other.columns.find(path);
    if (found == other.columns.end()) return "column " + path + ": only on one side";
    if (found->second != digest) {
      return "column " + path + ": " + digest.ToHex() + " != " + found->second.ToHex();
    }
  }
  for (const auto& [path, digest] : other.columns) {
    if (!columns.contains(path)) return "column " + path + ": only on one side";
  }
  if (row != other.row) return "whole rows: " + row.ToHex() + " != " + other.row.ToHex();
  return {};
}

}  // namespace lithify
