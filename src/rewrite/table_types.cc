#include "rewrite/table_types.h"

#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rewrite/decimal_bytes.h"

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;
using parquet::LogicalType;
using parquet::Type;

constexpr int kDecimalPrecisionMax = 38;
constexpr int kUuidBytes = 16;

// The fewest bytes that hold any number of so many digits.
int DecimalBytes(int precision) {
  iceberg::Int128 largest = 1;
  for (int i = 0; i < precision; ++i) largest *= 10;
  int bytes = 1;
  while (bytes < 16 && largest - 1 > (iceberg::Int128{1} << (8 * bytes - 1)) - 1) ++bytes;
  return bytes;
}

Status SetDecimal(const iceberg::Type& type, SchemaNode& leaf) {
  if (type.precision < 1 || type.precision > kDecimalPrecisionMax || type.scale < 0 ||
      type.scale > type.precision) {
    return Fail(Code::kUnsupported, "is " + IcebergTypeText(type) + ", which is no valid type");
  }
  leaf.logical = LogicalType::Decimal(type.precision, type.scale);
  if (type.precision <= 9) {
    leaf.physical = Type::INT32;
  } else if (type.precision <= 18) {
    leaf.physical = Type::INT64;
  } else {
    leaf.physical = Type::FIXED_LEN_BYTE_ARRAY;
    leaf.type_length = DecimalBytes(type.precision);
  }
  return {};
}

bool IsUnannotated(const SchemaNode& leaf, Type::type physical) {
  return leaf.physical == physical && leaf.logical->is_none();
}

bool IsSigned(const SchemaNode& leaf, int bits) {
  const auto type = AsInt(leaf);
  // Short unsigned integers lie in the same 32 bits, with the same value.
  return type && type->bits <= bits && (type->is_signed || type->bits < 32);
}

bool IsTimestamp(const SchemaNode& leaf, bool utc, int64_t nanos_at_least) {
  const auto unit = TimestampUnit(leaf);
  if (!unit || *unit < nanos_at_least) return false;
  const auto& type = static_cast<const parquet::TimestampLogicalType&>(*leaf.logical);
  // The annotation of old writers did not tell the two apart.
  return type.is_adjusted_to_utc() == utc || type.is_from_converted_type();
}

bool IsTime(const SchemaNode& leaf) {
  if (!leaf.logical->is_time()) return false;
  const auto unit = static_cast<const parquet::TimeLogicalType&>(*leaf.logical).time_unit();
  return unit == LogicalType::TimeUnit::MICROS || unit == LogicalType::TimeUnit::MILLIS;
}

bool IsDecimal(const SchemaNode& leaf, const iceberg::Type& type) {
  if (!leaf.logical->is_decimal()) return false;
  const auto& from = static_cast<const parquet::DecimalLogicalType&>(*leaf.logical);
  return from.scale() == type.scale && from.precision() <= type.precision;
}

bool IsBytes(const SchemaNode& leaf) {
  const LogicalType& logical = *leaf.logical;
  return leaf.physical == Type::BYTE_ARRAY &&
         (logical.is_none() || logical.is_string() || logical.is_enum() || logical.is_JSON() ||
          logical.is_BSON());
}

// Without blanks around it, and without the quotes that some writers put there.
std::string_view Parameter(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(' ') - begin + 1);
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::optional<LogicalType::EdgeInterpolationAlgorithm> ParseEdges(std::string_view name) {
  using Edges = LogicalType::EdgeInterpolationAlgorithm;
  static constexpr std::pair<std::string_view, Edges> kNames[] = {{"spherical", Edges::SPHERICAL},
                                                                  {"vincenty", Edges::VINCENTY},
                                                                  {"thomas", Edges::THOMAS},
                                                                  {"andoyer", Edges::ANDOYER},
                                                                  {"karney", Edges::KARNEY}};
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [known, edges] : kNames) {
    if (known == lower) return edges;
  }
  return std::nullopt;
}

// "(C)" or "(C, A)", also "('C', 'A')"; absent is the default of both formats, OGC:CRS84 and
// spherical.
Status SetGeo(const iceberg::Type& type, SchemaNode& leaf) {
  leaf.physical = Type::BYTE_ARRAY;
  leaf.type_length = -1;
  std::string_view inner = type.parameters;
  if (inner.size() >= 2) inner = inner.substr(1, inner.size() - 2);
  if (type.kind == TypeKind::kGeometry) {
    leaf.logical = LogicalType::Geometry(std::string(Parameter(inner)));
    return {};
  }
  auto edges = LogicalType::EdgeInterpolationAlgorithm::SPHERICAL;
  if (const size_t comma = inner.rfind(','); comma != std::string_view::npos) {
    const auto known = ParseEdges(Parameter(inner.substr(comma + 1)));
    if (!known) {
      return Fail(Code::kUnsupported, "has type geography" + type.parameters +
                                          ", whose edge interpolation is not known");
    }
    edges = *known;
    inner = inner.substr(0, comma);
  }
  leaf.logical = LogicalType::Geography(std::string(Parameter(inner)), edges);
  return {};
}

// What the coordinates of a geometry or geography mean.
struct GeoMeaning {
  std::string crs;
  LogicalType::EdgeInterpolationAlgorithm edges = LogicalType::EdgeInterpolationAlgorithm::UNKNOWN;
  bool operator==(const GeoMeaning&) const = default;
};

GeoMeaning MeaningOf(const LogicalType& logical) {
  GeoMeaning meaning;
  if (logical.is_geometry()) {
    meaning.crs = static_cast<const parquet::GeometryLogicalType&>(logical).crs();
  } else if (logical.is_geography()) {
    const auto& type = static_cast<const parquet::GeographyLogicalType&>(logical);
    meaning.crs = type.crs();
    meaning.edges = type.algorithm();
  }
  if (meaning.crs.empty()) meaning.crs = "OGC:CRS84";
  return meaning;
}

// Annotated as such, or as nothing: a column with the field's id is one.
bool IsGeo(const SchemaNode& leaf, bool annotated) {
  return leaf.physical == Type::BYTE_ARRAY && (annotated || leaf.logical->is_none());
}

void SetPlain(SchemaNode& leaf, Type::type physical,
              std::shared_ptr<const LogicalType> logical = LogicalType::None(), int length = -1) {
  leaf.physical = physical;
  leaf.logical = std::move(logical);
  leaf.type_length = length;
}

template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A whole number in the leaf's physical type; empty if it does not fit.
std::string WholeNumber(iceberg::Int128 value, const SchemaNode& leaf) {
  const auto in = [value](auto limits) { return value >= limits.min() && value <= limits.max(); };
  switch (leaf.physical) {
    case Type::INT32:
      return in(std::numeric_limits<int32_t>()) ? BytesOf(static_cast<int32_t>(value)) : "";
    case Type::INT64:
      return in(std::numeric_limits<int64_t>()) ? BytesOf(static_cast<int64_t>(value)) : "";
    case Type::FIXED_LEN_BYTE_ARRAY: {
      uint8_t wide[16];
      for (int i = 0; i < 16; ++i) wide[15 - i] = static_cast<uint8_t>(value >> (8 * i));
      std::string bytes(static_cast<size_t>(leaf.type_length), '\0');
      return CopyDecimal(wide, reinterpret_cast<uint8_t*>(bytes.data()), leaf.type_length) ? bytes
                                                                                           : "";
    }
    default: return "";
  }
}

std::string Encode(const iceberg::Value& value, const SchemaNode& leaf) {
  if (const bool* flag = std::get_if<bool>(&value)) {
    return leaf.physical == Type::BOOLEAN ? BytesOf(*flag) : "";
  }
  if (const int64_t* number = std::get_if<int64_t>(&value)) {
    return leaf.logical->is_decimal() ? "" : WholeNumber(*number, leaf);
  }
  if (const auto* decimal = std::get_if<iceberg::Decimal>(&value)) {
    return leaf.logical->is_decimal() ? WholeNumber(decimal->unscaled, leaf) : "";
  }
  if (const float* single = std::get_if<float>(&value)) {
    if (leaf.physical == Type::FLOAT) return BytesOf(*single);
    return leaf.physical == Type::DOUBLE ? BytesOf(double{*single}) : "";
  }
  if (const double* wide = std::get_if<double>(&value)) {
    return leaf.physical == Type::DOUBLE ? BytesOf(*wide) : "";
  }
  return "";
}

}  // namespace

std::string IcebergTypeText(const iceberg::Type& type) {
  switch (type.kind) {
    case TypeKind::kBoolean: return "boolean";
    case TypeKind::kInt: return "int";
    case TypeKind::kLong: return "long";
    case TypeKind::kFloat: return "float";
    case TypeKind::kDouble: return "double";
    case TypeKind::kDecimal:
      return "decimal(" + std::to_string(type.precision) + ", " + std::to_string(type.scale) + ")";
    case TypeKind::kDate: return "date";
    case TypeKind::kTime: return "time";
    case TypeKind::kTimestamp: return "timestamp";
    case TypeKind::kTimestamptz: return "timestamptz";
    case TypeKind::kTimestampNs: return "timestamp_ns";
    case TypeKind::kTimestamptzNs: return "timestamptz_ns";
    case TypeKind::kString: return "string";
    case TypeKind::kUuid: return "uuid";
    case TypeKind::kFixed: return "fixed[" + std::to_string(type.length) + "]";
    case TypeKind::kBinary: return "binary";
    case TypeKind::kUnknown: return "unknown";
    case TypeKind::kVariant: return "variant";
    case TypeKind::kGeometry: return "geometry";
    case TypeKind::kGeography: return "geography";
    case TypeKind::kStruct: return "struct";
    case TypeKind::kList: return "list";
    case TypeKind::kMap: return "map";
  }
  return "type";
}

Status SetLeafType(const iceberg::Type& type, SchemaNode& leaf) {
  using Unit = LogicalType::TimeUnit;
  leaf.kind = SchemaNode::Kind::kLeaf;
  switch (type.kind) {
    case TypeKind::kBoolean: SetPlain(leaf, Type::BOOLEAN); return {};
    case TypeKind::kInt: SetPlain(leaf, Type::INT32); return {};
    case TypeKind::kLong: SetPlain(leaf, Type::INT64); return {};
    case TypeKind::kFloat: SetPlain(leaf, Type::FLOAT); return {};
    case TypeKind::kDouble: SetPlain(leaf, Type::DOUBLE); return {};
    case TypeKind::kDecimal: return SetDecimal(type, leaf);
    case TypeKind::kDate: SetPlain(leaf, Type::INT32, LogicalType::Date()); return {};
    case TypeKind::kTime:
      SetPlain(leaf, Type::INT64, LogicalType::Time(false, Unit::MICROS));
      return {};
    case TypeKind::kTimestamp:
    case TypeKind::kTimestamptz:
      SetPlain(leaf, Type::INT64,
               LogicalType::Timestamp(type.kind == TypeKind::kTimestamptz, Unit::MICROS));
      return {};
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestamptzNs:
      SetPlain(leaf, Type::INT64,
               LogicalType::Timestamp(type.kind == TypeKind::kTimestamptzNs, Unit::NANOS));
      return {};
    case TypeKind::kString: SetPlain(leaf, Type::BYTE_ARRAY, LogicalType::String()); return {};
    case TypeKind::kBinary: SetPlain(leaf, Type::BYTE_ARRAY); return {};
    case TypeKind::kUuid:
      SetPlain(leaf, Type::FIXED_LEN_BYTE_ARRAY, LogicalType::UUID(), kUuidBytes);
      return {};
    case TypeKind::kFixed:
      if (type.length <= 0) break;
      SetPlain(leaf, Type::FIXED_LEN_BYTE_ARRAY, LogicalType::None(), type.length);
      return {};
    case TypeKind::kGeometry:
    case TypeKind::kGeography: return SetGeo(type, leaf);
    default: break;
  }
  return Fail(Code::kUnsupported,
              "has type " + IcebergTypeText(type) + ", which is not rewritten here", "",
              "leave these files to the engine that wrote them");
}

bool LeafIsReadAs(const SchemaNode& leaf, const iceberg::Type& type) {
  switch (type.kind) {
    case TypeKind::kBoolean: return IsUnannotated(leaf, Type::BOOLEAN);
    case TypeKind::kInt: return leaf.physical == Type::INT32 && IsSigned(leaf, 32);
    case TypeKind::kLong:
      return IsSigned(leaf, 64) || (leaf.physical == Type::INT32 && AsInt(leaf).has_value());
    case TypeKind::kFloat: return IsUnannotated(leaf, Type::FLOAT);
    case TypeKind::kDouble:
      return IsUnannotated(leaf, Type::DOUBLE) || IsUnannotated(leaf, Type::FLOAT);
    case TypeKind::kDecimal: return IsDecimal(leaf, type);
    case TypeKind::kDate: return leaf.physical == Type::INT32 && leaf.logical->is_date();
    case TypeKind::kTime: return IsTime(leaf);
    case TypeKind::kTimestamp: return IsTimestamp(leaf, false, 1'000) || leaf.logical->is_date();
    // INT96 has no annotation; engines take it for an instant.
    case TypeKind::kTimestamptz:
      return IsTimestamp(leaf, true, 1'000) || leaf.physical == Type::INT96;
    case TypeKind::kTimestampNs: return IsTimestamp(leaf, false, 1) || leaf.logical->is_date();
    case TypeKind::kTimestamptzNs:
      return IsTimestamp(leaf, true, 1) || leaf.physical == Type::INT96;
    case TypeKind::kString:
    case TypeKind::kBinary: return IsBytes(leaf);
    case TypeKind::kUuid:
      return leaf.type_length == kUuidBytes && (leaf.logical->is_none() || leaf.logical->is_UUID());
    case TypeKind::kFixed:
      return IsUnannotated(leaf, Type::FIXED_LEN_BYTE_ARRAY) && leaf.type_length == type.length;
    case TypeKind::kGeometry: return IsGeo(leaf, leaf.logical->is_geometry());
    case TypeKind::kGeography: return IsGeo(leaf, leaf.logical->is_geography());
    default: return false;
  }
}

bool TakeGeoAnnotation(const SchemaNode& file_leaf, bool first, SchemaNode& leaf) {
  if (first) {
    leaf.logical = file_leaf.logical;
    return true;
  }
  return MeaningOf(*file_leaf.logical) == MeaningOf(*leaf.logical);
}

Result<std::string> EncodeConstant(const iceberg::Value& value, const SchemaNode& leaf) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const bool fixed = leaf.physical == Type::FIXED_LEN_BYTE_ARRAY && !leaf.logical->is_decimal() &&
                       std::cmp_equal(text->size(), leaf.type_length);
    if (fixed || leaf.physical == Type::BYTE_ARRAY) return *text;
  } else if (std::string encoded = Encode(value, leaf); !encoded.empty()) {
    return encoded;
  }
  return Fail(Code::kCorrupt, "a partition value or default does not fit the column's type", "",
              "the table's metadata is damaged");
}

}  // namespace lithify::rewrite
