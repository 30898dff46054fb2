// Filters on files: any text is parsed or refused, and any bounds are compared. An input is the
// filter up to the first NUL, then the partition values' and bounds' bytes.
#include <map>
#include <utility>

#include "fuzz_input.h"
#include "table/iceberg_filter.h"
#include "table/iceberg_value.h"

namespace lithify::fuzz {
namespace {

using iceberg::TypeKind;

const iceberg::Schema& Schema() {
  static const iceberg::Schema schema = [] {
    iceberg::Schema made;
    const std::pair<const char*, TypeKind> columns[] = {
        {"id", TypeKind::kLong},        {"region", TypeKind::kString}, {"day", TypeKind::kDate},
        {"ts", TypeKind::kTimestamptz}, {"price", TypeKind::kDecimal}, {"key", TypeKind::kUuid},
        {"score", TypeKind::kDouble},   {"ok", TypeKind::kBoolean},    {"ratio", TypeKind::kFloat},
        {"blob", TypeKind::kBinary},    {"code", TypeKind::kFixed},    {"at", TypeKind::kTime},
        {"n", TypeKind::kInt},          {"ns", TypeKind::kTimestampNs}};
    for (const auto& [name, kind] : columns) {
      iceberg::Field field;
      field.id = static_cast<int>(made.fields.size()) + 1;
      field.name = name;
      field.type.kind = kind;
      if (kind == TypeKind::kDecimal) field.type.precision = 9;
      if (kind == TypeKind::kDecimal) field.type.scale = 2;
      if (kind == TypeKind::kFixed) field.type.length = 3;
      made.fields.push_back(field);
    }
    return made;
  }();
  return schema;
}

iceberg::PartitionSpec Spec() {
  iceberg::PartitionSpec spec;
  spec.spec_id = 1;
  spec.fields = {{{2}, 1000, "region", "identity"},
                 {{4}, 1001, "ts_day", "day"},
                 {{1}, 1002, "id_bucket", "bucket[16]"},
                 {{2}, 1003, "region_cut", "truncate[2]"},
                 {{5}, 1004, "price_cut", "truncate[50]"}};
  return spec;
}

iceberg::Value PartitionValue(const iceberg::PartitionField& field, std::string_view bytes) {
  const iceberg::Field* source = iceberg::FindField(Schema(), field.source_ids[0]);
  const iceberg::Type type =
      table::TransformedType(table::ParseTransform(field.transform), source->type);
  auto value = table::ValueFromBytes(type, bytes);
  return Gave(value) ? *value : iceberg::Value();
}

iceberg::DataFile File(Taker& rest) {
  iceberg::DataFile file;
  file.file_path = "f.parquet";
  file.file_format = "PARQUET";
  file.spec_id = 1;
  file.record_count = rest.Byte();
  for (const auto& field : Spec().fields) {
    file.partition.push_back(PartitionValue(field, rest.Bytes(rest.Byte() % 20)));
  }
  for (const auto& field : Schema().fields) {
    const uint8_t has = rest.Byte();
    if (has & 1) file.lower_bounds.emplace_back(field.id, rest.Bytes(rest.Byte() % 20));
    if (has & 2) file.upper_bounds.emplace_back(field.id, rest.Bytes(rest.Byte() % 20));
    if (has & 4) file.null_value_counts.emplace_back(field.id, rest.Byte());
    if (has & 8) file.value_counts.emplace_back(field.id, rest.Byte());
    if (has & 16) file.nan_value_counts.emplace_back(field.id, rest.Byte());
  }
  return file;
}

iceberg::ManifestFile Manifest(Taker& rest) {
  iceberg::ManifestFile manifest;
  manifest.partition_spec_id = 1;
  for (size_t count = rest.Byte() % 8; count > 0; --count) {
    const uint8_t has = rest.Byte();
    iceberg::FieldSummary summary;
    summary.contains_null = (has & 1) != 0;
    if (has & 2) summary.contains_nan = (has & 4) != 0;
    if (has & 8) summary.lower_bound = std::string(rest.Bytes(rest.Byte() % 20));
    if (has & 16) summary.upper_bound = std::string(rest.Bytes(rest.Byte() % 20));
    manifest.partitions.push_back(std::move(summary));
  }
  return manifest;
}

iceberg::Value ValueOf(const iceberg::Type& type, std::string_view bytes) {
  auto value = table::ValueFromBytes(type, bytes);
  if (Gave(value)) return *value;
  for (const size_t size : {8, 4, 16, 3, 1}) {
    value = table::ValueFromBytes(type, std::string(size, '\0'));
    if (Gave(value)) return *value;
  }
  Require(false, "zeros are a value of every type");
  return {};
}

// A file of one row without nulls, whose metadata tells everything: it matches the filter, or else
// the opposite.
void OneRow(std::string_view text, const table::FileFilter& filter, Taker& rest) {
  iceberg::DataFile file;
  file.spec_id = 1;
  file.record_count = 1;
  std::map<int, iceberg::Value> row;
  for (const auto& field : Schema().fields) {
    row[field.id] = ValueOf(field.type, rest.Bytes(rest.Byte() % 20));
    const std::string bytes = table::ValueToBytes(field.type, row[field.id]);
    file.lower_bounds.emplace_back(field.id, bytes);
    file.upper_bounds.emplace_back(field.id, bytes);
    file.value_counts.emplace_back(field.id, 1);
    file.null_value_counts.emplace_back(field.id, 0);
  }
  const iceberg::PartitionSpec spec = Spec();
  for (const auto& field : spec.fields) {
    const int id = field.source_ids[0];
    const auto value = table::ApplyTransform(table::ParseTransform(field.transform),
                                             iceberg::FindField(Schema(), id)->type, row[id]);
    if (!Gave(value)) return;  // It would overflow.
    file.partition.push_back(*value);
  }
  const auto opposite = table::FileFilter::Parse("NOT (" + std::string(text) + ")", Schema());
  // An empty filter has none, and one of a hundred parentheses does not take another.
  if (!Gave(opposite)) return;
  Require(filter.MayMatch(file, spec) || opposite->MayMatch(file, spec),
          "a row matches a filter or its opposite");
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  fuzz::Taker rest(fuzz::Text(data, size));
  const std::string_view text = rest.Until('\0');
  const auto filter = lithify::table::FileFilter::Parse(text, fuzz::Schema());
  if (!fuzz::Gave(filter)) return 0;
  for (const int id : filter->field_ids()) {
    fuzz::Require(lithify::iceberg::FindField(fuzz::Schema(), id) != nullptr, "a known field");
  }
  const auto spec = fuzz::Spec();
  (void)filter->MayMatch(fuzz::File(rest), spec);
  (void)filter->MayMatch(fuzz::Manifest(rest), spec);
  fuzz::OneRow(text, *filter, rest);
  return 0;
}
