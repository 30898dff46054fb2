#include "table/iceberg_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "table/iceberg_transform.h"

namespace lithify::table {
namespace {

using iceberg::Decimal;
using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kSecondsPerDay = 86'400;
constexpr int kDecimalDigitsMax = 38;

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t FloorMod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

bool IsNanos(TypeKind kind) {
  return kind == TypeKind::kTimestampNs || kind == TypeKind::kTimestamptzNs;
}
bool IsZoned(TypeKind kind) {
  return kind == TypeKind::kTimestamptz || kind == TypeKind::kTimestamptzNs;
}
bool IsTimestamp(TypeKind kind) {
  return kind == TypeKind::kTimestamp || kind == TypeKind::kTimestamptz || IsNanos(kind);
}
int64_t UnitsPerSecond(TypeKind kind) { return IsNanos(kind) ? kNanosPerSecond : kMicrosPerSecond; }

}  // namespace

std::string_view TypeKindName(TypeKind kind) {
  constexpr std::string_view kNames[] = {
      "boolean",  "int",       "long",      "float",       "double",       "decimal",
      "date",     "time",      "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns",
      "string",   "uuid",      "fixed",     "binary",      "unknown",      "variant",
      "geometry", "geography", "struct",    "list",        "map"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

// --- binary ------------------------------------------------------------------------------------

template <typename T>
T LittleEndian(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <typename T>
std::string ToLittleEndian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

std::unexpected<Error> WrongSize(const Type& type, std::string_view bytes) {
  return Fail(Code::kCorrupt, std::to_string(bytes.size()) + " bytes are no value of type " +
                                  std::string(TypeKindName(type.kind)));
}

Result<Value> DecimalFromBytes(const Type& type, std::string_view bytes) {
  if (bytes.empty()) return WrongSize(type, bytes);
  const char sign = static_cast<signed char>(bytes[0]) < 0 ? '\xFF' : '\0';
  while (bytes.size() > sizeof(Int128) && bytes[0] == sign) bytes.remove_prefix(1);
  if (bytes.size() > sizeof(Int128)) return WrongSize(type, bytes);
  auto unscaled = static_cast<UInt128>(static_cast<Int128>(sign == 0 ? 0 : -1));
  for (const char byte : bytes) unscaled = (unscaled << 8) | static_cast<uint8_t>(byte);
  if ((static_cast<Int128>(unscaled) < 0) != (sign != 0)) return WrongSize(type, bytes);
  return Value(Decimal{static_cast<Int128>(unscaled)});
}

Result<Value> WholeFromBytes(const Type& type, std::string_view bytes) {
  if (type.kind == TypeKind::kInt || type.kind == TypeKind::kDate) {
    if (bytes.size() != 4) return WrongSize(type, bytes);
    return Value(int64_t{LittleEndian<int32_t>(bytes)});
  }
  if (bytes.size() == 8) return Value(LittleEndian<int64_t>(bytes));
  if (bytes.size() != 4) return WrongSize(type, bytes);
  const int64_t narrow = LittleEndian<int32_t>(bytes);
  if (type.kind == TypeKind::kLong) return Value(narrow);
  // A date that was promoted to a timestamp (v3).
  if (type.kind != TypeKind::kTimestamp && type.kind != TypeKind::kTimestampNs) {
    return WrongSize(type, bytes);
  }
  int64_t units = 0;
  if (__builtin_mul_overflow(narrow, kSecondsPerDay * UnitsPerSecond(type.kind), &units)) {
    return Fail(Code::kCorrupt, "a date beyond the range of timestamps");
  }
  return Value(units);
}

}  // namespace

Result<Value> ValueFromBytes(const Type& type, std::string_view bytes) {
  switch (type.kind) {
    case TypeKind::kBoolean:
      if (bytes.size() != 1) return WrongSize(type, bytes);
      return Value(bytes[0] != 0);
    case TypeKind::kInt:
    case TypeKind::kDate:
    case TypeKind::kLong:
    case TypeKind::kTime:
    case TypeKind::kTimestamp:
    case TypeKind::kTimestamptz:
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestamptzNs: return WholeFromBytes(type, bytes);
    case TypeKind::kFloat:
      if (bytes.size() != 4) return WrongSize(type, bytes);
      return Value(LittleEndian<float>(bytes));
    case TypeKind::kDouble:
      if (bytes.size() == 4) return Value(static_cast<double>(LittleEndian<float>(bytes)));
      if (bytes.size() != 8) return WrongSize(type, bytes);
      return Value(LittleEndian<double>(bytes));
    case TypeKind::kDecimal: return DecimalFromBytes(type, bytes);
    case TypeKind::kUuid:
      if (bytes.size() != 16) return WrongSize(type, bytes);
      return Value(std::string(bytes));
    case TypeKind::kFixed:  // A bound may be cut.
      if (bytes.size() > static_cast<size_t>(type.length)) return WrongSize(type, bytes);
      return Value(std::string(bytes));
    case TypeKind::kString:
    case TypeKind::kBinary:
    case TypeKind::kGeometry:
    case TypeKind::kGeography: return Value(std::string(bytes));
    default:
      return Fail(Code::kUnsupported,
                  "type " + std::string(TypeKindName(type.kind)) + " has no single values");
  }
}

std::string ValueToBytes(const Type& type, const Value& value) {
  if (iceberg::IsNull(value)) return {};
  if (const bool* flag = std::get_if<bool>(&value)) return std::string(1, *flag ? '\1' : '\0');
  if (const int64_t* whole = std::get_if<int64_t>(&value)) {
    if (type.kind == TypeKind::kInt || type.kind == TypeKind::kDate) {
      return ToLittleEndian(static_cast<int32_t>(*whole));
    }
    return ToLittleEndian(*whole);
  }
  if (const float* single = std::get_if<float>(&value)) {
    if (type.kind == TypeKind::kDouble) return ToLittleEndian(static_cast<double>(*single));
    return ToLittleEndian(*single);
  }
  if (const double* number = std::get_if<double>(&value)) return ToLittleEndian(*number);
  if (const Decimal* decimal = std::get_if<Decimal>(&value)) {
    return std::string(DecimalBytes(decimal->unscaled).view());
  }
  return std::get<std::string>(value);
}

// --- text to value -----------------------------------------------------------------------------

namespace {

std::unexpected<Error> NoValue(const Type& type, std::string_view text, std::string_view expected) {
  return Fail(Code::kInvalid, JsonQuote(text.substr(0, 80)) + " is no " +
                                  std::string(TypeKindName(type.kind)) + ": expected " +
                                  std::string(expected));
}

// Takes exactly `digits` digits from the front.
bool TakeDigits(std::string_view& text, size_t digits, int64_t* value) {
  if (text.size() < digits) return false;
  *value = 0;
  for (size_t i = 0; i < digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    *value = *value * 10 + (text[i] - '0');
  }
  text.remove_prefix(digits);
  return true;
}

bool TakeChar(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// yyyy-MM-dd.
bool TakeDate(std::string_view& text, int64_t* days) {
  int64_t year = 0;
  int64_t month = 0;
  int64_t day = 0;
  if (!TakeDigits(text, 4, &year) || !TakeChar(text, '-') || !TakeDigits(text, 2, &month) ||
      !TakeChar(text, '-') || !TakeDigits(text, 2, &day)) {
    return false;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return false;
  *days = std::chrono::sys_days(date).time_since_epoch().count();
  return true;
}

// HH:mm[:ss[.f…]] in units of 1/`per_second` s; digits beyond the unit must be zeros.
bool TakeTime(std::string_view& text, int64_t per_second, int64_t* units) {
  int64_t hour = 0;
  int64_t minute = 0;
  int64_t second = 0;
  if (!TakeDigits(text, 2, &hour) || !TakeChar(text, ':') || !TakeDigits(text, 2, &minute)) {
    return false;
  }
  if (TakeChar(text, ':') && !TakeDigits(text, 2, &second)) return false;
  if (hour > 23 || minute > 59 || second > 59) return false;
  *units = (hour * 3600 + minute * 60 + second) * per_second;
  if (!TakeChar(text, '.')) return true;
  int64_t unit = per_second;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    unit /= 10;
    if (unit == 0 && text[digits] != '0') return false;
    *units += unit * (text[digits] - '0');
  }
  text.remove_prefix(digits);
  return digits > 0;
}

// Z or ±HH:mm, in seconds; nothing is UTC.
bool TakeOffset(std::string_view& text, int64_t* seconds) {
  *seconds = 0;
  if (text.empty() || TakeChar(text, 'Z')) return true;
  const bool west = text.starts_with('-');
  if (!west && !text.starts_with('+')) return false;
  text.remove_prefix(1);
  int64_t hours = 0;
  int64_t minutes = 0;
  if (!TakeDigits(text, 2, &hours) || !TakeChar(text, ':') || !TakeDigits(text, 2, &minutes)) {
    return false;
  }
  if (hours > 18 || minutes > 59) return false;
  *seconds = (hours * 3600 + minutes * 60) * (west ? -1 : 1);
  return true;
}

Result<Value> ParseTimestamp(const Type& type, std::string_view text) {
  const auto wrong = [&] {
    return NoValue(type, text,
                   IsZoned(type.kind) ? "yyyy-MM-ddTHH:mm:ss.ffffff+00:00 (or a part of it)"
                                      : "yyyy-MM-ddTHH:mm:ss.ffffff (or a part of it)");
  };
  std::string_view rest = text;
  int64_t days = 0;
  int64_t time = 0;
  int64_t offset = 0;
  const int64_t per_second = UnitsPerSecond(type.kind);
  if (!TakeDate(rest, &days)) return wrong();
  if (TakeChar(rest, 'T') || TakeChar(rest, ' ')) {
    if (!TakeTime(rest, per_second, &time)) return wrong();
    if (IsZoned(type.kind) && !TakeOffset(rest, &offset)) return wrong();
  }
  if (!rest.empty()) return wrong();
  int64_t units = 0;
  if (__builtin_mul_overflow(days * kSecondsPerDay - offset, per_second, &units) ||
      __builtin_add_overflow(units, time, &units)) {
    return NoValue(type, text, "a time that nanoseconds in 64 bits can hold");
  }
  return Value(units);
}

Result<Value> ParseDecimal(const Type& type, std::string_view text) {
  const auto wrong = [&] {
    return NoValue(type, text,
                   "at most " + std::to_string(type.precision - type.scale) + " digits and " +
                       std::to_string(type.scale) + " after the point");
  };
  std::string_view rest = text;
  const bool negative = TakeChar(rest, '-');
  if (!negative) TakeChar(rest, '+');
  Int128 unscaled = 0;
  int digits = 0;
  int fraction = -1;
  int significant = 0;
  for (const char c : rest) {
    if (c == '.' && fraction < 0) {
      fraction = 0;
      continue;
    }
    if (c < '0' || c > '9') return wrong();
    ++digits;
    if (fraction >= 0 && ++fraction > type.scale) {
      if (c != '0') return wrong();
      continue;
    }
    if (significant > 0 || c != '0') ++significant;
    if (significant > kDecimalDigitsMax) return wrong();
    unscaled = unscaled * 10 + (c - '0');
  }
  if (digits == 0) return wrong();
  for (int i = std::max(fraction, 0); i < type.scale; ++i) {
    if (significant > 0 && ++significant > kDecimalDigitsMax) return wrong();
    unscaled *= 10;
  }
  if (significant > type.precision) return wrong();
  return Value(Decimal{negative ? -unscaled : unscaled});
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool ParseHex(std::string_view text, std::string* bytes) {
  if (text.size() % 2 != 0) return false;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]);
    const int low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    *bytes += static_cast<char>(high * 16 + low);
  }
  return true;
}

Result<Value> ParseUuid(const Type& type, std::string_view text) {
  std::string digits;
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return NoValue(type, text, "8-4-4-4-12 hexadecimal digits");
    if (!dash) digits += text[i];
  }
  if (digits.size() != 32 || !ParseHex(digits, &bytes)) {
    return NoValue(type, text, "8-4-4-4-12 hexadecimal digits");
  }
  return Value(std::move(bytes));
}

template <typename T>
Result<Value> ParseNumber(const Type& type, std::string_view text, std::string_view expected) {
  T number{};
  std::string_view digits = text;
  if (digits.starts_with('+') && digits.size() > 1 && digits[1] != '-') digits.remove_prefix(1);
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size()) {
    return NoValue(type, text, expected);
  }
  if constexpr (std::is_integral_v<T>) return Value(int64_t{number});
  return Value(number);
}

}  // namespace

Result<Value> ParseValue(const Type& type, std::string_view text) {
  std::string bytes;
  std::string_view rest = text;
  int64_t units = 0;
  switch (type.kind) {
    case TypeKind::kBoolean:
      if (text == "true") return Value(true);
      if (text == "false") return Value(false);
      return NoValue(type, text, "true or false");
    case TypeKind::kInt: return ParseNumber<int32_t>(type, text, "a whole number of 32 bits");
    case TypeKind::kLong: return ParseNumber<int64_t>(type, text, "a whole number of 64 bits");
    case TypeKind::kFloat: return ParseNumber<float>(type, text, "a number");
    case TypeKind::kDouble: return ParseNumber<double>(type, text, "a number");
    case TypeKind::kDecimal: return ParseDecimal(type, text);
    case TypeKind::kDate:
      if (!TakeDate(rest, &units) || !rest.empty()) return NoValue(type, text, "yyyy-MM-dd");
      return Value(units);
    case TypeKind::kTime:
      if (!TakeTime(rest, kMicrosPerSecond, &units) || !rest.empty()) {
        return NoValue(type, text, "HH:mm:ss.ffffff");
      }
      return Value(units);
    case TypeKind::kTimestamp:
    case TypeKind::kTimestamptz:
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestamptzNs: return ParseTimestamp(type, text);
    case TypeKind::kString: return Value(std::string(text));
    case TypeKind::kUuid: return ParseUuid(type, text);
    case TypeKind::kFixed:
    case TypeKind::kBinary:
      if (!ParseHex(text, &bytes)) return NoValue(type, text, "pairs of hexadecimal digits");
      if (type.kind == TypeKind::kFixed && bytes.size() != static_cast<size_t>(type.length)) {
        return NoValue(type, text, std::to_string(type.length) + " bytes in hexadecimal");
      }
      return Value(std::move(bytes));
    default:
      return Fail(Code::kInvalid,
                  "values of type " + std::string(TypeKindName(type.kind)) + " cannot be written");
  }
}

// --- transforms --------------------------------------------------------------------------------

namespace {

std::unexpected<Error> NotTaken(std::string_view transform, const Type& source) {
  return Fail(Code::kUnsupported, "transform " + std::string(transform) + " does not take type " +
                                      std::string(TypeKindName(source.kind)));
}

Result<Value> Bucket(const Type& source, const Value& value, int buckets) {
  uint32_t hash = 0;
  if (const int64_t* whole = std::get_if<int64_t>(&value)) {
    hash = BucketHash(IsNanos(source.kind) ? FloorDiv(*whole, 1000) : *whole);
  } else if (const Decimal* decimal = std::get_if<Decimal>(&value)) {
    hash = BucketHash(decimal->unscaled);
  } else if (const std::string* text = std::get_if<std::string>(&value);
             text != nullptr && source.kind != TypeKind::kGeometry &&
             source.kind != TypeKind::kGeography) {
    hash = BucketHash(std::string_view(*text));
  } else {
    return NotTaken("bucket", source);
  }
  return Value(BucketOf(hash, buckets));
}

Result<Value> Truncate(const Type& source, const Value& value, int width) {
  switch (source.kind) {
    case TypeKind::kInt: {  // Wraps as Java's int does.
      const int64_t whole = std::get<int64_t>(value);
      return Value(int64_t{static_cast<int32_t>(static_cast<uint64_t>(whole) -
                                                static_cast<uint64_t>(FloorMod(whole, width)))});
    }
    case TypeKind::kLong: {
      const int64_t whole = std::get<int64_t>(value);
      return Value(static_cast<int64_t>(static_cast<uint64_t>(whole) -
                                        static_cast<uint64_t>(FloorMod(whole, width))));
    }
    case TypeKind::kDecimal:
      return Value(Decimal{TruncateDecimal(std::get<Decimal>(value).unscaled, width)});
    case TypeKind::kString:
      return Value(std::string(TruncateUtf8(std::get<std::string>(value), width)));
    case TypeKind::kBinary:
      return Value(std::get<std::string>(value).substr(0, static_cast<size_t>(width)));
    default: return NotTaken("truncate", source);
  }
}

std::chrono::year_month_day DateOf(int64_t days) {
  return std::chrono::year_month_day(std::chrono::sys_days(std::chrono::days(days)));
}

Result<Value> PartOfTime(Transform::Kind kind, const Type& source, int64_t value) {
  int64_t days = value;
  if (IsTimestamp(source.kind)) {
    const int64_t per_second = UnitsPerSecond(source.kind);
    if (kind == Transform::Kind::kHour) return Value(FloorDiv(value, 3600 * per_second));
    days = FloorDiv(value, kSecondsPerDay * per_second);
  } else if (source.kind != TypeKind::kDate || kind == Transform::Kind::kHour) {
    return NotTaken("of dates and times", source);
  }
  if (kind == Transform::Kind::kDay) return Value(days);
  // The calendar below holds the years ±32767; dates and microseconds go beyond. Every 400 years
  // have 146,097 days.
  const int64_t eras = FloorDiv(days, 146'097);
  const auto date = DateOf(FloorMod(days, 146'097));
  const int64_t years = int64_t{static_cast<int>(date.year())} - 1970 + eras * 400;
  if (kind == Transform::Kind::kYear) return Value(years);
  return Value(years * 12 + int64_t{static_cast<unsigned>(date.month())} - 1);
}

// Whether the value is of the alternative that goes with the type.
bool Fits(const Type& type, const Value& value) {
  switch (type.kind) {
    case TypeKind::kBoolean: return std::holds_alternative<bool>(value);
    case TypeKind::kFloat: return std::holds_alternative<float>(value);
    case TypeKind::kDouble: return std::holds_alternative<double>(value);
    case TypeKind::kDecimal: return std::holds_alternative<Decimal>(value);
    case TypeKind::kString:
    case TypeKind::kUuid:
    case TypeKind::kFixed:
    case TypeKind::kBinary:
    case TypeKind::kGeometry:
    case TypeKind::kGeography: return std::holds_alternative<std::string>(value);
    case TypeKind::kUnknown:
    case TypeKind::kVariant:
    case TypeKind::kStruct:
    case TypeKind::kList:
    case TypeKind::kMap: return false;
    default: return std::holds_alternative<int64_t>(value);
  }
}

}  // namespace

Transform ParseTransform(std::string_view text) {
  constexpr struct {
    std::string_view name;
    Transform::Kind kind;
  } kPlain[] = {
      {"identity", Transform::Kind::kIdentity}, {"year", Transform::Kind::kYear},
      {"month", Transform::Kind::kMonth},       {"day", Transform::Kind::kDay},
      {"hour", Transform::Kind::kHour},         {"void", Transform::Kind::kVoid},
  };
  for (const auto& plain : kPlain) {
    if (plain.name == text) return {plain.kind, 0};
  }
  Transform transform;
  if (text.starts_with("bucket[")) {
    transform.kind = Transform::Kind::kBucket;
  } else if (text.starts_with("truncate[")) {
    transform.kind = Transform::Kind::kTruncate;
  } else {
    return {};
  }
  const std::string_view number = text.substr(text.find('[') + 1);
  const auto [end, problem] =
      std::from_chars(number.data(), number.data() + number.size(), transform.parameter);
  const std::string_view after(end, static_cast<size_t>(number.data() + number.size() - end));
  if (problem != std::errc() || after != "]" || transform.parameter <= 0) return {};
  return transform;
}

Type TransformedType(const Transform& transform, const Type& source) {
  Type type;
  switch (transform.kind) {
    case Transform::Kind::kIdentity:
    case Transform::Kind::kTruncate:
    case Transform::Kind::kVoid: return source;
    case Transform::Kind::kBucket:
    case Transform::Kind::kYear:
    case Transform::Kind::kMonth:
    case Transform::Kind::kHour: type.kind = TypeKind::kInt; return type;
    case Transform::Kind::kDay:     // A date for the reference implementation, an int in the table
      type.kind = TypeKind::kDate;  // of [Partition Transforms]: the same number in Avro.
      return type;
    case Transform::Kind::kUnknown: break;
  }
  return type;
}

Result<Value> ApplyTransform(const Transform& transform, const Type& source, const Value& value) {
  if (transform.kind == Transform::Kind::kUnknown) {
    return Fail(Code::kUnsupported, "an unknown partition transform cannot be evaluated");
  }
  if (transform.kind == Transform::Kind::kVoid || iceberg::IsNull(value)) return Value();
  if (!Fits(source, value)) {
    return Fail(Code::kUnsupported, "a partition transform got no value of type " +
                                        std::string(TypeKindName(source.kind)));
  }
  switch (transform.kind) {
    case Transform::Kind::kIdentity:
      if (source.kind == TypeKind::kGeometry || source.kind == TypeKind::kGeography) {
        return NotTaken("identity", source);
      }
      return value;
    case Transform::Kind::kBucket: return Bucket(source, value, transform.parameter);
    case Transform::Kind::kTruncate: return Truncate(source, value, transform.parameter);
    default:
      if (!std::holds_alternative<int64_t>(value)) return NotTaken("of dates and times", source);
      return PartOfTime(transform.kind, source, std::get<int64_t>(value));
  }
}

// --- value to text -----------------------------------------------------------------------------

namespace {

std::string Format(const char* format, long long a, long long b = 0, long long c = 0,
                   long long d = 0) {
  std::array<char, 96> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, a, b, c, d);
  return std::string(buffer.data(), static_cast<size_t>(length));
}

struct CivilDate {
  long long year = 0;
  long long month = 0;
  long long day = 0;
};

CivilDate Civil(int64_t days) {
  const auto date = DateOf(FloorMod(days, 146'097));
  return {int64_t{static_cast<int>(date.year())} + FloorDiv(days, 146'097) * 400,
          int64_t{static_cast<unsigned>(date.month())}, int64_t{static_cast<unsigned>(date.day())}};
}

std::string DayText(int64_t days) {
  const CivilDate date = Civil(days);
  return Format("%04lld-%02lld-%02lld", date.year, date.month, date.day);
}

// As Java's LocalTime prints it: seconds only if they are not zero, then 3, 6 or 9 digits.
std::string TimeText(int64_t nanos) {
  const int64_t seconds = nanos / kNanosPerSecond;
  const int64_t fraction = nanos % kNanosPerSecond;
  std::string text = Format("%02lld:%02lld", seconds / 3600, seconds / 60 % 60);
  if (seconds % 60 == 0 && fraction == 0) return text;
  text += Format(":%02lld", seconds % 60);
  if (fraction == 0) return text;
  if (fraction % 1'000'000 == 0) return text + Format(".%03lld", fraction / 1'000'000);
  if (fraction % 1'000 == 0) return text + Format(".%06lld", fraction / 1'000);
  return text + Format(".%09lld", fraction);
}

std::string TimestampText(TypeKind kind, int64_t value) {
  const int64_t per_day = kSecondsPerDay * UnitsPerSecond(kind);
  const int64_t days = FloorDiv(value, per_day);
  const int64_t nanos = FloorMod(value, per_day) * (IsNanos(kind) ? 1 : 1000);
  // Java signs the years that need more than four digits.
  const std::string sign = Civil(days).year > 9999 ? "+" : "";
  return sign + DayText(days) + "T" + TimeText(nanos) + (IsZoned(kind) ? "Z" : "");
}

// As Java's BigDecimal prints it.
std::string DecimalText(Int128 unscaled, int scale) {
  std::string digits;
  auto rest = static_cast<UInt128>(unscaled);
  if (unscaled < 0) rest = -rest;
  do {
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  std::reverse(digits.begin(), digits.end());
  const std::string sign = unscaled < 0 ? "-" : "";
  const int exponent = static_cast<int>(digits.size()) - 1 - scale;
  if (scale < 0 || exponent < -6) {
    std::string text = digits.substr(0, 1);
    if (digits.size() > 1) text += "." + digits.substr(1);
    return sign + text + Format("E%+lld", exponent);
  }
  if (scale == 0) return sign + digits;
  if (digits.size() <= static_cast<size_t>(scale)) {
    digits.insert(0, static_cast<size_t>(scale) + 1 - digits.size(), '0');
  }
  digits.insert(digits.size() - static_cast<size_t>(scale), 1, '.');
  return sign + digits;
}

// As Java's Float and Double print it: the shortest digits, plain from 10^-3 up to 10^7.
template <typename T>
std::string NumberText(T number) {
  if (std::isnan(number)) return "NaN";
  const std::string sign = std::signbit(number) ? "-" : "";
  if (std::isinf(number)) return sign + "Infinity";
  if (number == 0) return sign + "0.0";
  std::array<char, 64> buffer{};
  const auto done = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(number),
                                  std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(done.ptr - buffer.data()));
  const size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  const size_t power = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + power, text.data() + text.size(), exponent);
  if (exponent < -3 || exponent >= 7) {
    if (digits.size() == 1) digits += '0';
    return sign + digits.substr(0, 1) + "." + digits.substr(1) + Format("E%lld", exponent);
  }
  if (exponent < 0) {
    digits.insert(0, static_cast<size_t>(-exponent), '0');
    exponent = 0;
  }
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  return sign + digits.insert(whole, 1, '.');
}

std::string UuidText(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += Format("%02llx", static_cast<uint8_t>(bytes[i]));
  }
  return text;
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kDigits[(group >> (18 - 6 * j)) & 63];
    }
  }
  return text;
}

// As Java's URLEncoder does.
std::string UrlEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '*' || c == '_';
    if (plain) {
      encoded += c;
    } else if (c == ' ') {
      encoded += '+';
    } else {
      encoded += Format("%%%02llX", static_cast<uint8_t>(c));
    }
  }
  return encoded;
}

std::string HourText(int64_t hours) {
  return DayText(FloorDiv(hours, 24)) + Format("-%02lld", FloorMod(hours, 24));
}

std::string PartitionText(const Transform& transform, const Type& type, const Value& value) {
  const int64_t* whole = std::get_if<int64_t>(&value);
  if (whole == nullptr || *whole < INT32_MIN || *whole > INT32_MAX) {
    return ValueToText(type, value);  // Ordinals have 32 bits.
  }
  switch (transform.kind) {
    case Transform::Kind::kYear: return Format("%04lld", 1970 + *whole);
    case Transform::Kind::kMonth:
      return Format("%04lld-%02lld", 1970 + FloorDiv(*whole, 12), FloorMod(*whole, 12) + 1);
    case Transform::Kind::kDay: return DayText(*whole);
    case Transform::Kind::kHour: return HourText(*whole);
    default: return ValueToText(type, value);
  }
}

}  // namespace

std::string ValueToText(const Type& type, const Value& value) {
  if (iceberg::IsNull(value)) return "null";
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const int64_t* whole = std::get_if<int64_t>(&value)) {
    if (type.kind == TypeKind::kDate) return DayText(*whole);
    if (type.kind == TypeKind::kTime && *whole >= 0 && *whole < kSecondsPerDay * kMicrosPerSecond) {
      return TimeText(*whole * 1000);
    }
    if (IsTimestamp(type.kind)) return TimestampText(type.kind, *whole);
    return std::to_string(*whole);
  }
  if (const float* single = std::get_if<float>(&value)) return NumberText(*single);
  if (const double* number = std::get_if<double>(&value)) return NumberText(*number);
  if (const Decimal* decimal = std::get_if<Decimal>(&value)) {
    return DecimalText(decimal->unscaled, type.scale);
  }
  const std::string& bytes = std::get<std::string>(value);
  if (type.kind == TypeKind::kString) return bytes;
  if (type.kind == TypeKind::kUuid) return UuidText(bytes);
  return Base64(bytes);
}

std::string PartitionPath(const iceberg::PartitionSpec& spec, const iceberg::Schema& schema,
                          const std::vector<Value>& values) {
  std::string path;
  for (size_t i = 0; i < spec.fields.size() && i < values.size(); ++i) {
    const iceberg::PartitionField& field = spec.fields[i];
    const Transform transform = ParseTransform(field.transform);
    Type source;
    if (!field.source_ids.empty()) {
      if (const iceberg::Field* column = iceberg::FindField(schema, field.source_ids[0])) {
        source = column->type;
      }
    }
    if (i > 0) path += '/';
    path += UrlEncode(field.name) + "=" +
            UrlEncode(PartitionText(transform, TransformedType(transform, source), values[i]));
  }
  return path;
}

}  // namespace lithify::table
