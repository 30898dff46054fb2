// Default values of columns [Appendix D: JSON single-value serialization].
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "table/iceberg_json.h"

namespace lithify::table::iceberg_json {
namespace {

using iceberg::Decimal;
using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

__extension__ typedef unsigned __int128 UInt128;

constexpr int64_t kMicrosPerDay = int64_t{86400} * 1000 * 1000;
constexpr int64_t kNanosPerDay = kMicrosPerDay * 1000;

// Days from 1970-01-01 of a proleptic Gregorian date, by Howard Hinnant's public-domain algorithm.
int64_t DaysFromCivil(int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
         719468;
}

std::string DateText(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const int64_t day_of_era = days - era * 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * shifted + 2) / 5 + 1;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), year > 9999 ? "+%04lld-%02d-%02d" : "%04lld-%02d-%02d",
                static_cast<long long>(year), static_cast<int>(month), static_cast<int>(day));
  return text.data();
}

// Takes exactly `digits` digits off the front; -1 if they are not there.
int TakeDigits(std::string_view& text, size_t digits) {
  if (text.size() < digits) return -1;
  int value = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool Take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

// "2026-11-29"; a year beyond four digits has a sign.
std::optional<int64_t> TakeDate(std::string_view& text) {
  const bool minus = Take(text, '-');
  const bool sign = minus || Take(text, '+');
  size_t year_digits = 4;
  while (sign && year_digits < 6 && year_digits < text.size() && text[year_digits] != '-') {
    ++year_digits;
  }
  const int year = TakeDigits(text, year_digits);
  if (year < 0 || !Take(text, '-')) return std::nullopt;
  const int month = TakeDigits(text, 2);
  if (month < 1 || month > 12 || !Take(text, '-')) return std::nullopt;
  const int day = TakeDigits(text, 2);
  const int64_t signed_year = minus ? -year : year;
  const bool leap = signed_year % 4 == 0 && (signed_year % 100 != 0 || signed_year % 400 == 0);
  constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const int days = kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
  if (day < 1 || day > days) return std::nullopt;
  return DaysFromCivil(signed_year, month, day);
}

// "22:31:08.123456", in units of 10^-fraction_digits seconds; seconds and fraction may be absent.
std::optional<int64_t> TakeTime(std::string_view& text, size_t fraction_digits) {
  const int hour = TakeDigits(text, 2);
  if (hour < 0 || hour > 23 || !Take(text, ':')) return std::nullopt;
  const int minute = TakeDigits(text, 2);
  if (minute < 0 || minute > 59) return std::nullopt;
  int second = 0;
  int64_t fraction = 0;
  size_t digits = 0;
  if (Take(text, ':')) {
    second = TakeDigits(text, 2);
    if (second < 0 || second > 59) return std::nullopt;
    if (Take(text, '.')) {
      for (int digit = TakeDigits(text, 1); digit >= 0; digit = TakeDigits(text, 1)) {
        if (++digits > fraction_digits) return std::nullopt;
        fraction = fraction * 10 + digit;
      }
      if (digits == 0) return std::nullopt;
    }
  }
  int64_t unit = 1;
  for (size_t i = 0; i < fraction_digits; ++i) {
    unit *= 10;
    if (i >= digits) fraction *= 10;
  }
  return ((int64_t{hour} * 60 + minute) * 60 + second) * unit + fraction;
}

std::string TimeText(int64_t value, int fraction_digits) {
  int64_t unit = 1;
  for (int i = 0; i < fraction_digits; ++i) unit *= 10;
  const int64_t seconds = value / unit;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%0*lld", static_cast<int>(seconds / 3600),
                static_cast<int>(seconds / 60 % 60), static_cast<int>(seconds % 60),
                fraction_digits, static_cast<long long>(value % unit));
  return text.data();
}

bool Nanos(TypeKind kind) {
  return kind == TypeKind::kTimestampNs || kind == TypeKind::kTimestamptzNs;
}

bool WithZone(TypeKind kind) {
  return kind == TypeKind::kTimestamptz || kind == TypeKind::kTimestamptzNs;
}

std::optional<int64_t> ParseTimestamp(TypeKind kind, std::string_view text) {
  const std::optional<int64_t> days = TakeDate(text);
  if (!days || !Take(text, 'T')) return std::nullopt;
  const std::optional<int64_t> time = TakeTime(text, Nanos(kind) ? 9 : 6);
  if (!time) return std::nullopt;
  // Only UTC: other offsets are not allowed here.
  if (WithZone(kind) ? text != "+00:00" && text != "Z" : !text.empty()) return std::nullopt;
  int64_t value = 0;
  if (__builtin_mul_overflow(*days, Nanos(kind) ? kNanosPerDay : kMicrosPerDay, &value) ||
      __builtin_add_overflow(value, *time, &value)) {
    return std::nullopt;
  }
  return value;
}

std::string TimestampText(TypeKind kind, int64_t value) {
  const int64_t day = Nanos(kind) ? kNanosPerDay : kMicrosPerDay;
  const int64_t days = value / day - (value % day < 0 ? 1 : 0);
  const int64_t rest = value % day + (value % day < 0 ? day : 0);
  return DateText(days) + "T" + TimeText(rest, Nanos(kind) ? 9 : 6) +
         (WithZone(kind) ? "+00:00" : "");
}

// "14.20" for scale 2: no more digits after the point than the scale, no exponent.
std::optional<Decimal> ParseDecimal(const Type& type, std::string_view text) {
  const bool minus = Take(text, '-');
  if (!minus) Take(text, '+');
  Int128 unscaled = 0;
  int digits = 0;  // All of them, and those that count: without leading zeros.
  int significant = 0;
  int fraction = -1;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c == '.' && fraction < 0) {
      fraction = 0;
      continue;
    }
    if (c < '0' || c > '9' || (fraction >= 0 && ++fraction > type.scale)) return std::nullopt;
    ++digits;
    if ((unscaled != 0 || c != '0') && ++significant > type.precision) return std::nullopt;
    unscaled = unscaled * 10 + (c - '0');
  }
  if (digits == 0) return std::nullopt;
  for (fraction = std::max(fraction, 0); fraction < type.scale; ++fraction) {
    if (unscaled != 0 && ++significant > type.precision) return std::nullopt;
    unscaled *= 10;
  }
  return Decimal{minus ? -unscaled : unscaled};
}

std::string DecimalText(Decimal decimal, int scale) {
  const bool minus = decimal.unscaled < 0;
  UInt128 rest = static_cast<UInt128>(decimal.unscaled);
  if (minus) rest = -rest;
  std::string digits;
  for (int i = 0; rest != 0 || i <= scale; ++i, rest /= 10) {
    if (i == scale && scale > 0) digits.insert(digits.begin(), '.');
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  }
  return minus ? "-" + digits : digits;
}

std::optional<std::string> ParseHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const auto read = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + i + 2) return std::nullopt;
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string HexText(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::optional<std::string> ParseUuid(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return std::nullopt;
    if (!dash) digits += text[i];
  }
  return ParseHex(digits);
}

Result<std::optional<Value>> ReadNumber(const Type& type, const Node& node) {
  if (type.kind == TypeKind::kInt) {
    LITHIFY_TRY_ASSIGN(const int value, node.Int32());
    return Value(int64_t{value});
  }
  if (type.kind == TypeKind::kLong) {
    LITHIFY_TRY_ASSIGN(const int64_t value, node.Int64());
    return Value(value);
  }
  double value = 0;
  if (node.json().is_string()) {  // Java writes what JSON has no number for as text.
    LITHIFY_TRY_ASSIGN(const std::string text, node.Text());
    if (text == "NaN") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (text == "Infinity" || text == "-Infinity") {
      value = std::numeric_limits<double>::infinity() * (text[0] == '-' ? -1 : 1);
    } else {
      return node.Bad("is not a number");
    }
  } else {
    LITHIFY_TRY_ASSIGN(value, node.Double());
  }
  if (type.kind == TypeKind::kDouble) return Value(value);
  const float narrow = static_cast<float>(value);
  if (std::isfinite(value) && !std::isfinite(narrow)) return node.Bad("is no float");
  return Value(narrow);
}

template <typename T>
Result<std::optional<Value>> OrBad(std::optional<T> value, const Node& node,
                                   std::string_view form) {
  if (!value) return node.Bad("is not of the form " + std::string(form));
  return Value(std::move(*value));
}

Result<std::optional<Value>> ReadText(const Type& type, const Node& node) {
  LITHIFY_TRY_ASSIGN(std::string text, node.Text());
  std::string_view rest = text;
  switch (type.kind) {
    case TypeKind::kDecimal:
      return OrBad(ParseDecimal(type, text), node,
                   "12.34 with precision " + std::to_string(type.precision) + " and scale " +
                       std::to_string(type.scale));
    case TypeKind::kDate: {
      std::optional<int64_t> days = TakeDate(rest);
      if (!rest.empty()) days.reset();
      return OrBad(days, node, "2026-11-29");
    }
    case TypeKind::kTime: {
      std::optional<int64_t> time = TakeTime(rest, 6);
      if (!rest.empty()) time.reset();
      return OrBad(time, node, "22:31:08.123456");
    }
    case TypeKind::kTimestamp:
    case TypeKind::kTimestampNs:
      return OrBad(ParseTimestamp(type.kind, text), node, "2026-11-29T22:31:08.123456");
    case TypeKind::kTimestamptz:
    case TypeKind::kTimestamptzNs:
      return OrBad(ParseTimestamp(type.kind, text), node, "2026-11-29T22:31:08.123456+00:00");
    case TypeKind::kUuid:
      return OrBad(ParseUuid(text), node, "f79c3e09-677c-4bbd-a479-3f349cb785e7");
    case TypeKind::kFixed: {
      std::optional<std::string> bytes = ParseHex(text);
      if (bytes && bytes->size() != static_cast<size_t>(type.length)) bytes.reset();
      return OrBad(std::move(bytes), node, std::to_string(type.length) + " bytes in hexadecimal");
    }
    case TypeKind::kBinary: return OrBad(ParseHex(text), node, "hexadecimal digits, two a byte");
    default: return Value(std::move(text));
  }
}

Json FloatingJson(double value, bool single) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  std::array<char, 64> digits{};
  const auto end = single ? std::to_chars(digits.begin(), digits.end(), static_cast<float>(value))
                          : std::to_chars(digits.begin(), digits.end(), value);
  std::string text(digits.begin(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return RawNumber(text);
}

}  // namespace

Result<std::optional<Value>> ReadSingleValue(const Type& type, const Node& node) {
  switch (type.kind) {
    case TypeKind::kBoolean: {
      LITHIFY_TRY_ASSIGN(const bool value, node.Bool());
      return Value(value);
    }
    case TypeKind::kInt:
    case TypeKind::kLong:
    case TypeKind::kFloat:
    case TypeKind::kDouble: return ReadNumber(type, node);
    case TypeKind::kUnknown:
    case TypeKind::kVariant:
    case TypeKind::kGeometry:
    case TypeKind::kGeography:
    case TypeKind::kStruct:
    case TypeKind::kList:
    case TypeKind::kMap: return std::nullopt;
    default: return ReadText(type, node);
  }
}

Json SingleValueJson(const Type& type, const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag;
  if (const float* number = std::get_if<float>(&value)) return FloatingJson(*number, true);
  if (const double* number = std::get_if<double>(&value)) return FloatingJson(*number, false);
  if (const Decimal* decimal = std::get_if<Decimal>(&value)) {
    return DecimalText(*decimal, type.scale);
  }
  if (const int64_t* number = std::get_if<int64_t>(&value)) {
    switch (type.kind) {
      case TypeKind::kDate: return DateText(*number);
      case TypeKind::kTime: return TimeText(*number, 6);
      case TypeKind::kTimestamp:
      case TypeKind::kTimestamptz:
      case TypeKind::kTimestampNs:
      case TypeKind::kTimestamptzNs: return TimestampText(type.kind, *number);
      default: return *number;
    }
  }
  if (const std::string* bytes = std::get_if<std::string>(&value)) {
    if (type.kind == TypeKind::kString) return *bytes;
    std::string text = HexText(*bytes);
    if (type.kind == TypeKind::kUuid) {
      for (const size_t at : {8, 13, 18, 23}) {
        if (at <= text.size()) text.insert(at, 1, '-');
      }
    }
    return text;
  }
  return nullptr;
}

}  // namespace lithify::table::iceberg_json
