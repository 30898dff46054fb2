#include "rewrite/leaf_value.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace lithify::rewrite {
namespace {

using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using parquet::LogicalType;

constexpr int64_t kNanosecondsPerDay = parquet::kNanosecondsPerDay;

std::string_view KindName(TypeKind kind) {
  switch (kind) {
    case TypeKind::kBoolean: return "boolean";
    case TypeKind::kInt: return "int";
    case TypeKind::kLong: return "long";
    case TypeKind::kFloat: return "float";
    case TypeKind::kDouble: return "double";
    case TypeKind::kDecimal: return "decimal";
    case TypeKind::kDate: return "date";
    case TypeKind::kTime: return "time";
    case TypeKind::kTimestamp: return "timestamp";
    case TypeKind::kTimestamptz: return "timestamptz";
    case TypeKind::kTimestampNs: return "timestamp_ns";
    case TypeKind::kTimestamptzNs: return "timestamptz_ns";
    case TypeKind::kString: return "string";
    case TypeKind::kUuid: return "uuid";
    case TypeKind::kFixed: return "fixed";
    case TypeKind::kBinary: return "binary";
    case TypeKind::kUnknown: return "unknown";
    case TypeKind::kVariant: return "variant";
    case TypeKind::kGeometry: return "geometry";
    case TypeKind::kGeography: return "geography";
    case TypeKind::kStruct: return "struct";
    case TypeKind::kList: return "list";
    case TypeKind::kMap: return "map";
  }
  return "?";
}

std::optional<int64_t> UnitNanoseconds(LogicalType::TimeUnit::unit unit) {
  switch (unit) {
    case LogicalType::TimeUnit::MILLIS: return 1'000'000;
    case LogicalType::TimeUnit::MICROS: return 1'000;
    case LogicalType::TimeUnit::NANOS: return 1;
    default: return std::nullopt;
  }
}

LeafReading BetweenUnits(int64_t from_ns, int64_t to_ns) {
  LeafReading reading;
  reading.nanoseconds_per_unit = to_ns;
  if (from_ns >= to_ns) reading.multiply = from_ns / to_ns;
  if (from_ns < to_ns) reading.divide = to_ns / from_ns;
  return reading;
}

bool SignedInt(const LogicalType& logical, int bits_max) {
  if (logical.is_none()) return true;
  if (!logical.is_int()) return false;
  const auto& type = static_cast<const parquet::IntLogicalType&>(logical);
  // Small unsigned integers are never negative where they are stored in 32 bits.
  return type.bit_width() <= (type.is_signed() ? bits_max : 16);
}

std::optional<LeafReading> Integer(const parquet::ColumnDescriptor& column, TypeKind kind) {
  const LogicalType& logical = *column.logical_type();
  if (column.physical_type() == parquet::Type::INT32) {
    if (SignedInt(logical, 32)) return LeafReading{};
  } else if (column.physical_type() == parquet::Type::INT64 && kind == TypeKind::kLong) {
    if (SignedInt(logical, 64)) return LeafReading{};
  }
  return std::nullopt;
}

std::optional<LeafReading> Time(const parquet::ColumnDescriptor& column) {
  const LogicalType& logical = *column.logical_type();
  if (!logical.is_time()) return std::nullopt;
  const auto unit =
      UnitNanoseconds(static_cast<const parquet::TimeLogicalType&>(logical).time_unit());
  if (!unit) return std::nullopt;
  return BetweenUnits(*unit, 1'000);
}

std::optional<LeafReading> Timestamp(const parquet::ColumnDescriptor& column, bool nanoseconds,
                                     bool zoned) {
  const int64_t to_ns = nanoseconds ? 1 : 1'000;
  if (column.physical_type() == parquet::Type::INT96) return BetweenUnits(to_ns, to_ns);
  const LogicalType& logical = *column.logical_type();
  if (logical.is_date() && !zoned) return BetweenUnits(kNanosecondsPerDay, to_ns);
  if (column.physical_type() != parquet::Type::INT64 || !logical.is_timestamp()) {
    return std::nullopt;
  }
  const auto unit =
      UnitNanoseconds(static_cast<const parquet::TimestampLogicalType&>(logical).time_unit());
  if (!unit) return std::nullopt;
  return BetweenUnits(*unit, to_ns);
}

std::optional<LeafReading> DecimalColumn(const parquet::ColumnDescriptor& column,
                                         const Type& type) {
  const LogicalType& logical = *column.logical_type();
  if (!logical.is_decimal()) return std::nullopt;
  const int scale = static_cast<const parquet::DecimalLogicalType&>(logical).scale();
  if (scale > type.scale || type.scale - scale > 38) return std::nullopt;
  LeafReading reading;
  reading.form = LeafForm::kDecimal;
  for (int i = scale; i < type.scale; ++i) reading.rescale *= 10;
  return reading;
}

std::optional<LeafReading> Bytes(const parquet::ColumnDescriptor& column, const Type& type) {
  const bool variable = column.physical_type() == parquet::Type::BYTE_ARRAY;
  const bool fixed = column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY;
  const LogicalType& logical = *column.logical_type();
  const int length = type.kind == TypeKind::kUuid ? 16 : type.length;
  bool fits = false;
  switch (type.kind) {
    case TypeKind::kString: fits = variable; break;
    case TypeKind::kBinary: fits = variable || fixed; break;
    default: fits = fixed && column.type_length() == length; break;
  }
  if (!fits || logical.is_decimal()) return std::nullopt;
  LeafReading reading;
  reading.form = LeafForm::kBytes;
  return reading;
}

std::optional<LeafReading> Reading(const parquet::ColumnDescriptor& column, const Type& type) {
  const parquet::Type::type physical = column.physical_type();
  switch (type.kind) {
    case TypeKind::kBoolean:
      if (physical == parquet::Type::BOOLEAN) return LeafReading{};
      return std::nullopt;
    case TypeKind::kInt:
    case TypeKind::kLong: return Integer(column, type.kind);
    case TypeKind::kFloat:
      if (physical == parquet::Type::FLOAT) return LeafReading{};
      return std::nullopt;
    case TypeKind::kDouble:
      if (physical == parquet::Type::FLOAT) return LeafReading{.widen_float = true};
      if (physical == parquet::Type::DOUBLE) return LeafReading{};
      return std::nullopt;
    case TypeKind::kDecimal: return DecimalColumn(column, type);
    case TypeKind::kDate:
      if (physical == parquet::Type::INT32 &&
          (column.logical_type()->is_date() || column.logical_type()->is_none())) {
        return LeafReading{};
      }
      return std::nullopt;
    case TypeKind::kTime: return Time(column);
    case TypeKind::kTimestamp: return Timestamp(column, false, false);
    case TypeKind::kTimestamptz: return Timestamp(column, false, true);
    case TypeKind::kTimestampNs: return Timestamp(column, true, false);
    case TypeKind::kTimestamptzNs: return Timestamp(column, true, true);
    case TypeKind::kString:
    case TypeKind::kUuid:
    case TypeKind::kFixed:
    case TypeKind::kBinary: return Bytes(column, type);
    default: return std::nullopt;
  }
}

template <typename T>
std::string LittleEndian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Two's complement in as few bytes as hold it, most significant first.
std::string ShortestBigEndian(Int128 value) {
  std::string bytes(sizeof(value), '\0');
  for (size_t i = 0; i < sizeof(value); ++i) {
    bytes[sizeof(value) - 1 - i] = static_cast<char>(static_cast<uint8_t>(value >> (8 * i)));
  }
  const char fill = value < 0 ? '\xff' : '\0';
  size_t skip = 0;
  while (skip + 1 < bytes.size() && bytes[skip] == fill &&
         ((bytes[skip + 1] & '\x80') != 0) == (value < 0)) {
    ++skip;
  }
  return bytes.substr(skip);
}

std::optional<int64_t> Narrow(Int128 value) {
  if (value < std::numeric_limits<int64_t>::min() || value > std::numeric_limits<int64_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

}  // namespace

Result<LeafReading> ReadLeafAs(const parquet::ColumnDescriptor& column, const Type& type) {
  if (column.max_repetition_level() == 0) {
    if (const auto reading = Reading(column, type)) return *reading;
  }
  return Fail(Code::kUnsupported,
              "values stored as " +
                  parquet::TypeToString(column.physical_type(), column.type_length()) + " (" +
                  column.logical_type()->ToString() + ") cannot be read as " +
                  std::string(KindName(type.kind)),
              "column " + column.path()->ToDotString());
}

std::optional<int64_t> IntegerOf(const LeafReading& reading, int64_t stored) {
  if (reading.divide != 1) {
    const int64_t quotient = stored / reading.divide;
    return stored % reading.divide < 0 ? quotient - 1 : quotient;
  }
  int64_t value = 0;
  if (__builtin_mul_overflow(stored, reading.multiply, &value)) return std::nullopt;
  return value;
}

std::optional<int64_t> IntegerOf(const LeafReading& reading, const parquet::Int96& stored) {
  int64_t nanoseconds = 0;
  std::memcpy(&nanoseconds, stored.value.data(), sizeof(nanoseconds));
  const Int128 days = static_cast<int64_t>(stored.value[2]) - parquet::kJulianToUnixEpochDays;
  const Int128 all = days * kNanosecondsPerDay + nanoseconds;
  const Int128 unit = reading.nanoseconds_per_unit;
  return Narrow(all % unit < 0 ? all / unit - 1 : all / unit);
}

std::optional<Int128> DecimalOf(const LeafReading& reading, Int128 stored) {
  Int128 value = 0;
  if (__builtin_mul_overflow(stored, reading.rescale, &value)) return std::nullopt;
  return value;
}

std::optional<Int128> DecimalFromBigEndian(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const bool negative = (bytes.front() & '\x80') != 0;
  const char fill = negative ? '\xff' : '\0';
  while (bytes.size() > sizeof(Int128)) {
    if (bytes.front() != fill) return std::nullopt;
    bytes.remove_prefix(1);
    if (((bytes.front() & '\x80') != 0) != negative && bytes.size() == sizeof(Int128)) {
      return std::nullopt;
    }
  }
  __extension__ typedef unsigned __int128 Unsigned;
  Unsigned value = negative ? ~Unsigned{0} : Unsigned{0};
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return static_cast<Int128>(value);
}

std::string SingleValueBytes(const Type& type, const iceberg::Value& value) {
  if (const auto* v = std::get_if<bool>(&value)) return std::string(1, *v ? '\1' : '\0');
  if (const auto* v = std::get_if<int64_t>(&value)) {
    if (type.kind == TypeKind::kInt || type.kind == TypeKind::kDate) {
      return LittleEndian(static_cast<int32_t>(*v));
    }
    return LittleEndian(*v);
  }
  if (const auto* v = std::get_if<float>(&value)) return LittleEndian(*v);
  if (const auto* v = std::get_if<double>(&value)) return LittleEndian(*v);
  if (const auto* v = std::get_if<iceberg::Decimal>(&value)) return ShortestBigEndian(v->unscaled);
  if (const auto* v = std::get_if<std::string>(&value)) return *v;
  return {};
}

}  // namespace lithify::rewrite
