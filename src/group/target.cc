#include "group/target.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include "base/text.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_value.h"

namespace lithify::group {
namespace {

// Whichever of bytes and rows comes first closes a row group (P16).
constexpr int kInferredColumnsMax = 100;  // write.metadata.metrics.max-inferred-column-defaults.

std::optional<int64_t> Number(const iceberg::TableMetadata& table, const std::string& key) {
  const auto found = table.properties.find(key);
  if (found == table.properties.end()) return std::nullopt;
  int64_t value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

std::string Lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool KnownMode(const std::string& mode) {
  if (mode == "none" || mode == "counts" || mode == "full") return true;
  return mode.starts_with("truncate(") && mode.ends_with(")");
}

// Leaves in the order of the schema, as Iceberg counts them for the default mode.
void CollectLeaves(const std::vector<iceberg::Field>& fields, std::vector<int>& ids) {
  for (const iceberg::Field& field : fields) {
    if (field.type.fields.empty())
      ids.push_back(field.id);
    else
      CollectLeaves(field.type.fields, ids);
  }
}

const iceberg::Field* UnsupportedDefault(const std::vector<iceberg::Field>& fields) {
  for (const iceberg::Field& field : fields) {
    if (field.unsupported_default) return &field;
    if (const iceberg::Field* inner = UnsupportedDefault(field.type.fields)) return inner;
  }
  return nullptr;
}

void SetMetricsModes(const iceberg::TableMetadata& table, rewrite::TableTarget& target) {
  constexpr std::string_view kColumn = "write.metadata.metrics.column.";
  const std::string mode = Lower(table.Property("write.metadata.metrics.default", ""));
  if (KnownMode(mode)) {
    target.metrics_mode = mode;
  } else {
    std::vector<int> leaves;
    CollectLeaves(target.schema.fields, leaves);
    const auto most =
        static_cast<size_t>(Number(table, "write.metadata.metrics.max-inferred-column-defaults")
                                .value_or(kInferredColumnsMax));
    for (size_t i = most; i < leaves.size(); ++i) target.metrics_modes[leaves[i]] = "none";
  }
  for (const auto& [key, value] : table.properties) {
    if (!key.starts_with(kColumn)) continue;
    const auto* field =
        iceberg::FindField(target.schema, std::string_view(key).substr(kColumn.size()));
    if (field != nullptr && KnownMode(Lower(value))) target.metrics_modes[field->id] = Lower(value);
  }
}

void SetCodec(const iceberg::TableMetadata& table, rewrite::OutputShape& shape,
              std::vector<std::string>& notes) {
  static const std::map<std::string, std::string> kCodecs = {{"zstd", "zstd"},
                                                             {"gzip", "gzip"},
                                                             {"snappy", "snappy"},
                                                             {"lz4", "lz4_raw"},
                                                             {"uncompressed", "none"}};
  const std::string wanted = Lower(table.Property("write.parquet.compression-codec", "zstd"));
  const auto found = kCodecs.find(wanted);
  if (found == kCodecs.end()) {
    notes.push_back("write.parquet.compression-codec = " + wanted + " is not written; zstd is");
  } else {
    shape.codec = found->second;
  }
  if (shape.codec == "gzip") shape.codec_level = 6;
  const auto level = Number(table, "write.parquet.compression-level");
  if (level && *level <= 22) shape.codec_level = static_cast<int>(*level);
}

std::string TrimSlashes(std::string location) {
  while (location.size() > 1 && location.ends_with('/')) location.pop_back();
  return location;
}

}  // namespace

Result<std::shared_ptr<const rewrite::TableTarget>> MakeTarget(
    const iceberg::TableMetadata& table) {
  if (const iceberg::Field* field = UnsupportedDefault(table.schema().fields)) {
    return Fail(Code::kUnsupported,
                "column " + field->name + " has a default of a kind that is not understood");
  }
  auto target = std::make_shared<rewrite::TableTarget>();
  target->schema = table.schema();
  target->row_lineage = table.format_version >= 3;
  const std::string mapping = table.Property("schema.name-mapping.default", "");
  if (!mapping.empty()) {
    auto parsed = table::ParseNameMapping(mapping);
    if (!parsed) return Fail(std::move(parsed.error()).In("schema.name-mapping.default"));
    target->name_mapping = std::move(*parsed);
  }
  SetMetricsModes(table, *target);
  return target;
}

rewrite::TableTarget WithDroppedColumns(const rewrite::TableTarget& target,
                                        const iceberg::TableMetadata& table) {
  rewrite::TableTarget out = target;
  // Newest first: a column may have been promoted before it was dropped.
  std::vector<const iceberg::Schema*> schemas;
  for (const iceberg::Schema& schema : table.schemas) schemas.push_back(&schema);
  std::ranges::sort(schemas, std::greater<>(), &iceberg::Schema::schema_id);
  for (const iceberg::Schema* schema : schemas) {
    for (const iceberg::Field& field : schema->fields) {
      if (iceberg::FindField(out.schema, field.id) == nullptr) out.schema.fields.push_back(field);
    }
  }
  return out;
}

rewrite::OutputShape MakeShape(const iceberg::TableMetadata& table, const FileSizes& sizes,
                               std::vector<std::string>& notes) {
  constexpr std::string_view kBloom = "write.parquet.bloom-filter-enabled.column.";
  rewrite::OutputShape shape;
  shape.file_size_bytes_target = sizes.target;
  // The plan fills outputs up to the maximum; a rewrite that grows a little must not leave a tail.
  shape.file_size_bytes_max = sizes.max / 8 * 9;
  shape.row_group_bytes = Number(table, "write.parquet.row-group-size-bytes").value_or(128 * kMiB);
  shape.row_group_rows = rewrite::kRowGroupRows;
  shape.page_bytes = Number(table, "write.parquet.page-size-bytes").value_or(kMiB);
  // Codec and schema are the table's, so an output may rightly be larger than its inputs.
  shape.growth_max = 0;
  SetCodec(table, shape, notes);
  for (const auto& [key, value] : table.properties) {
    if (key.starts_with(kBloom) && Lower(value) == "true") {
      shape.bloom_columns.push_back(key.substr(kBloom.size()));
    }
  }
  return shape;
}

std::string DataLocation(const iceberg::TableMetadata& table, const iceberg::PartitionKey& key) {
  std::string location = table.Property("write.data.path", "");
  if (location.empty()) location = table.Property("write.folder-storage.path", "");
  if (location.empty()) location = table.location + "/data";
  location = TrimSlashes(std::move(location)) + "/";
  const iceberg::PartitionSpec* spec = table.FindSpec(key.spec_id);
  if (spec == nullptr) return location;
  const std::string path = table::PartitionPath(*spec, table.schema(), key.values);
  return path.empty() ? location : location + path + "/";
}

std::string PartitionName(const iceberg::TableMetadata& table, const iceberg::PartitionKey& key) {
  const iceberg::PartitionSpec* spec = table.FindSpec(key.spec_id);
  const std::string path =
      spec == nullptr ? "" : table::PartitionPath(*spec, table.schema(), key.values);
  return path.empty() ? "(unpartitioned)" : path;
}

std::vector<std::pair<int, iceberg::Value>> IdentityValues(const iceberg::TableMetadata& table,
                                                           const iceberg::PartitionKey& key) {
  std::vector<std::pair<int, iceberg::Value>> values;
  const iceberg::PartitionSpec* spec = table.FindSpec(key.spec_id);
  if (spec == nullptr) return values;
  for (size_t i = 0; i < spec->fields.size() && i < key.values.size(); ++i) {
    const iceberg::PartitionField& field = spec->fields[i];
    if (field.source_ids.size() != 1) continue;
    if (table::ParseTransform(field.transform).kind != table::Transform::Kind::kIdentity) continue;
    values.emplace_back(field.source_ids.front(), key.values[i]);
  }
  return values;
}

FileSizes WithTableDefaults(FileSizes asked, const iceberg::TableMetadata& table) {
  if (asked.target == 0) {
    asked.target = Number(table, "write.target-file-size-bytes").value_or(512 * kMiB);
  }
  if (asked.min == 0) asked.min = asked.target / 4 * 3;
  if (asked.max == 0) asked.max = asked.target / 5 * 9;
  return asked;
}

}  // namespace lithify::group
