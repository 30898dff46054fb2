// Test-only: arbitrary Arrow schemas, values and file shapes, and tables whose schema evolved away
// from that of their files.
#ifndef LITHIFY_REWRITE_ARBITRARY_TABLE_H_
#define LITHIFY_REWRITE_ARBITRARY_TABLE_H_

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/table_fixture.h"

namespace lithify::rewrite {

using TypePtr = std::shared_ptr<arrow::DataType>;

class Arbitrary {
 public:
  explicit Arbitrary(uint64_t seed) : random_(seed) {}

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Pick(100) < percent; }

  TypePtr Type(int depth) {
    const int kinds = depth > 0 ? 24 : 20;
    switch (Pick(kinds)) {
      case 0: return arrow::int8();
      case 1: return arrow::int16();
      case 2: return arrow::int32();
      case 3: return arrow::int64();
      case 4: return arrow::uint8();
      case 5: return arrow::uint16();
      case 6: return arrow::uint32();
      case 7: return arrow::uint64();
      case 8: return arrow::float32();
      case 9: return arrow::float64();
      case 10: return arrow::boolean();
      case 11: return arrow::binary();
      case 12: return arrow::date32();
      case 13: return arrow::timestamp(arrow::TimeUnit::MILLI);
      case 14: return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
      case 15: return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
      case 16: return arrow::decimal128(Pick(2) == 0 ? 7 : 30, 2);
      case 17: return arrow::fixed_size_binary(5);
      case 18:
      case 19: return arrow::utf8();
      case 20:
      case 21: return arrow::list(arrow::field("element", Type(depth - 1), Chance(70)));
      case 22: return arrow::map(arrow::utf8(), arrow::field("value", Type(depth - 1), Chance(70)));
      default: {
        arrow::FieldVector fields;
        const int n = 1 + Pick(3);
        for (int i = 0; i < n; ++i) {
          fields.push_back(arrow::field("f" + std::to_string(i), Type(depth - 1), Chance(70)));
        }
        return arrow::struct_(fields);
      }
    }
  }

  std::string Text(const arrow::DataType& type, bool nullable) {
    if (nullable && Chance(20)) return "null";
    switch (type.id()) {
      case arrow::Type::BOOL: return Chance(50) ? "true" : "false";
      case arrow::Type::INT8: return std::to_string(Pick(256) - 128);
      case arrow::Type::UINT8: return std::to_string(Pick(256));
      case arrow::Type::INT16: return std::to_string(Pick(65536) - 32768);
      case arrow::Type::UINT16: return std::to_string(Pick(65536));
      case arrow::Type::UINT32: return std::to_string(static_cast<uint32_t>(random_()));
      case arrow::Type::UINT64: return std::to_string(random_());
      case arrow::Type::INT64:
      case arrow::Type::TIMESTAMP: return std::to_string(static_cast<int64_t>(random_()));
      case arrow::Type::FLOAT:
      case arrow::Type::DOUBLE: return std::to_string((Pick(2000) - 1000) / 8.0);
      case arrow::Type::DECIMAL128: return "\"" + std::to_string(Pick(10000)) + ".25\"";
      case arrow::Type::FIXED_SIZE_BINARY: return "\"ab" + std::to_string(100 + Pick(900)) + "\"";
      case arrow::Type::STRING:
      case arrow::Type::BINARY: return "\"" + Letters() + "\"";
      case arrow::Type::LIST: return List(*static_cast<const arrow::ListType&>(type).value_field());
      case arrow::Type::MAP: return Map(static_cast<const arrow::MapType&>(type));
      case arrow::Type::STRUCT: return Struct(type);
      default: return std::to_string(Pick(100000) - 50000);
    }
  }

  std::string Column(const arrow::Field& field, int rows) {
    std::string out = "[";
    for (int i = 0; i < rows; ++i) {
      if (i > 0) out += ",";
      out += Text(*field.type(), field.nullable());
    }
    return out + "]";
  }

  std::shared_ptr<parquet::WriterProperties> Properties() {
    parquet::WriterProperties::Builder builder;
    builder.data_page_version(Chance(50) ? parquet::ParquetDataPageVersion::V1
                                         : parquet::ParquetDataPageVersion::V2);
    if (Chance(50)) builder.disable_dictionary();
    builder.data_pagesize(64 << Pick(8))->write_batch_size(1 + Pick(50));
    builder.dictionary_pagesize_limit(16 << Pick(8));
    const arrow::Compression::type codecs[] = {arrow::Compression::UNCOMPRESSED,
                                               arrow::Compression::SNAPPY, arrow::Compression::ZSTD,
                                               arrow::Compression::GZIP, arrow::Compression::LZ4};
    builder.compression(codecs[Pick(5)]);
    return builder.build();
  }

 private:
  std::string Letters() {
    std::string text(static_cast<size_t>(Chance(10) ? Pick(300) : Pick(6)), 'a');
    for (char& c : text) c = static_cast<char>('a' + Pick(Chance(50) ? 2 : 26));
    return text;
  }
  std::string List(const arrow::Field& element) {
    std::string out = "[";
    const int n = Chance(25) ? 0 : Pick(5);
    for (int i = 0; i < n; ++i) {
      out += (i > 0 ? "," : "") + Text(*element.type(), element.nullable());
    }
    return out + "]";
  }
  std::string Map(const arrow::MapType& type) {
    std::string out = "[";
    const int n = Pick(4);
    for (int i = 0; i < n; ++i) {
      out += (i > 0 ? ",[\"k" : "[\"k") + std::to_string(i) + "\"," +
             Text(*type.item_type(), type.item_field()->nullable()) + "]";
    }
    return out + "]";
  }
  std::string Struct(const arrow::DataType& type) {
    std::string out = "[";
    for (int i = 0; i < type.num_fields(); ++i) {
      out += (i > 0 ? "," : "") + Text(*type.field(i)->type(), type.field(i)->nullable());
    }
    return out + "]";
  }

  std::mt19937_64 random_;  // NOLINT: seeded, of a test
};

inline int IdOf(const arrow::Field& field) {
  return std::stoi(field.metadata()->Get("PARQUET:field_id").ValueOrDie());
}

// How Arrow reads a primitive type of a table.
inline TypePtr ArrowOf(const iceberg::Type& type) {
  using iceberg::TypeKind;
  switch (type.kind) {
    case TypeKind::kBoolean: return arrow::boolean();
    case TypeKind::kInt: return arrow::int32();
    case TypeKind::kLong: return arrow::int64();
    case TypeKind::kFloat: return arrow::float32();
    case TypeKind::kDouble: return arrow::float64();
    case TypeKind::kDecimal: return arrow::decimal128(type.precision, type.scale);
    case TypeKind::kDate: return arrow::date32();
    case TypeKind::kTimestamp: return arrow::timestamp(arrow::TimeUnit::MICRO);
    case TypeKind::kTimestamptz: return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case TypeKind::kTimestamptzNs: return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
    case TypeKind::kString: return arrow::utf8();
    case TypeKind::kFixed: return arrow::fixed_size_binary(type.length);
    default: return arrow::binary();
  }
}

// Files of one schema with field ids, and the table's schema some changes later: columns of any
// depth renamed, dropped, added, put in another order, made optional, promoted.
class ArbitraryTable {
 public:
  explicit ArbitraryTable(Arbitrary& any) : any_(any) {
    for (int i = 0, n = 1 + any_.Pick(5); i < n; ++i) Add(fields_, 3);
    for (const auto& field : fields_) file_fields_.push_back(InFile(field));
  }
  const arrow::FieldVector& file_fields() const { return file_fields_; }
  std::vector<iceberg::Field> Evolved() { return Evolve(fields_); }

 private:
  void Add(std::vector<iceberg::Field>& into, int depth) {
    const int id = ++last_id_;
    into.push_back(Column(id, "c" + std::to_string(id), Type(depth), any_.Chance(30)));
  }

  iceberg::Type Type(int depth) {
    using iceberg::TypeKind;
    constexpr TypeKind kSimple[] = {
        TypeKind::kBoolean, TypeKind::kInt,    TypeKind::kLong,         TypeKind::kFloat,
        TypeKind::kDouble,  TypeKind::kDate,   TypeKind::kTimestamp,    TypeKind::kTimestamptz,
        TypeKind::kString,  TypeKind::kBinary, TypeKind::kTimestamptzNs};
    const int pick = any_.Pick(depth > 0 ? 18 : 13);
    if (pick < 11) return Primitive(kSimple[pick]);
    if (pick == 11) return DecimalType(any_.Chance(50) ? 7 : any_.Chance(50) ? 17 : 30, 2);
    if (pick == 12) return Primitive(TypeKind::kFixed, 5);
    iceberg::Type type;
    if (pick <= 14) {
      type.kind = TypeKind::kList;
      Add(type.fields, depth - 1);
      type.fields[0].name = "element";
    } else if (pick == 15) {
      type.kind = TypeKind::kMap;
      type.fields.push_back(Column(++last_id_, "key", TypeKind::kString, true));
      Add(type.fields, depth - 1);
      type.fields[1].name = "value";
    } else {
      type.kind = TypeKind::kStruct;
      for (int i = 0, n = 1 + any_.Pick(3); i < n; ++i) Add(type.fields, depth - 1);
    }
    return type;
  }

  static std::shared_ptr<arrow::Field> InFile(const iceberg::Field& field) {
    using iceberg::TypeKind;
    arrow::FieldVector parts;
    for (const auto& part : field.type.fields) parts.push_back(InFile(part));
    TypePtr type;
    switch (field.type.kind) {
      case TypeKind::kStruct: type = arrow::struct_(parts); break;
      case TypeKind::kList: type = arrow::list(parts[0]); break;
      case TypeKind::kMap: type = std::make_shared<arrow::MapType>(parts[0], parts[1]); break;
      default: type = ArrowOf(field.type);
    }
    return IdField(field.id, field.name, type, !field.required);
  }

  std::vector<iceberg::Field> Evolve(const std::vector<iceberg::Field>& from) {
    std::vector<iceberg::Field> to;
    std::string dropped;
    for (const auto& field : from) {
      if (any_.Chance(15)) {
        dropped = field.name;
        continue;
      }
      to.push_back(EvolveField(field));
      if (any_.Chance(25)) to.back().name = "renamed" + std::to_string(field.id);
      if (any_.Chance(20) && to.size() > 1) std::swap(to.front(), to.back());
    }
    if (to.empty() || any_.Chance(20)) {
      Add(to, 1);
      if (!dropped.empty() && any_.Chance(50)) to.back().name = dropped;
      MakeOptional(to.back());
    }
    return to;
  }

  iceberg::Field EvolveField(iceberg::Field field) {
    using iceberg::TypeKind;
    if (any_.Chance(20)) field.required = false;
    switch (field.type.kind) {
      case TypeKind::kStruct: field.type.fields = Evolve(field.type.fields); break;
      case TypeKind::kList: field.type.fields[0] = EvolveField(field.type.fields[0]); break;
      case TypeKind::kMap: field.type.fields[1] = EvolveField(field.type.fields[1]); break;
      case TypeKind::kInt:
        if (any_.Chance(50)) field.type.kind = TypeKind::kLong;
        break;
      case TypeKind::kFloat:
        if (any_.Chance(50)) field.type.kind = TypeKind::kDouble;
        break;
      case TypeKind::kDecimal: field.type.precision += any_.Pick(39 - field.type.precision); break;
      default: break;
    }
    return field;
  }

  // Of a column that no file has.
  static void MakeOptional(iceberg::Field& field) {
    field.required = false;
    field.type = Primitive(iceberg::TypeKind::kLong);
  }

  Arbitrary& any_;
  int last_id_ = 0;
  std::vector<iceberg::Field> fields_;
  arrow::FieldVector file_fields_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_ARBITRARY_TABLE_H_
