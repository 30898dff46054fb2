#include "fleet/data_files.h"

#include <bit>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "net/http.h"
#include "table/iceberg_manifest.h"

namespace lithify::fleet {
namespace {

using iceberg::DataFile;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

constexpr size_t kFieldsMax = 1000;
constexpr int64_t kIntMax = std::numeric_limits<int>::max();
constexpr size_t kManifestBytesMax = size_t{128} << 20;
constexpr int kDecimalDigits = 38;

// --- values --------------------------------------------------------------------------------------

// The alternative's letter, and its text.
struct ValueText {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool value) const { return value ? "t" : "f"; }
  Json operator()(int64_t value) const { return "i" + std::to_string(value); }
  Json operator()(float value) const {
    return "F" + std::to_string(std::bit_cast<uint32_t>(value));
  }
  Json operator()(double value) const {
    return "D" + std::to_string(std::bit_cast<uint64_t>(value));
  }
  Json operator()(const iceberg::Decimal& value) const {
    __extension__ typedef unsigned __int128 Unsigned;
    const auto bits = static_cast<Unsigned>(value.unscaled);
    return "n" + std::to_string(static_cast<uint64_t>(bits >> 64)) + "," +
           std::to_string(static_cast<uint64_t>(bits));
  }
  Json operator()(const std::string& value) const { return "s" + net::EncodeBase64(value); }
};

template <typename T>
std::optional<T> NumberOf(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::optional<Value> ValueIf(const std::optional<T>& value) {
  return value ? std::optional<Value>(Value(*value)) : std::nullopt;
}

std::optional<Value> DecimalOf(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto high = NumberOf<uint64_t>(text.substr(0, comma));
  const auto low = NumberOf<uint64_t>(text.substr(comma + 1));
  if (!high || !low) return std::nullopt;
  __extension__ typedef unsigned __int128 Unsigned;
  return iceberg::Decimal{static_cast<iceberg::Int128>(static_cast<Unsigned>(*high) << 64 | *low)};
}

std::optional<Value> ValueOf(const Json& json) {
  if (json.is_null()) return Value();
  const auto* text = json.get_ptr<const std::string*>();
  if (text == nullptr || text->empty()) return std::nullopt;
  const std::string_view rest = std::string_view(*text).substr(1);
  switch (text->front()) {
    case 't':
    case 'f': return rest.empty() ? std::optional<Value>(text->front() == 't') : std::nullopt;
    case 'i': return ValueIf(NumberOf<int64_t>(rest));
    case 'F': {
      const auto bits = NumberOf<uint32_t>(rest);
      return bits ? std::optional<Value>(std::bit_cast<float>(*bits)) : std::nullopt;
    }
    case 'D': {
      const auto bits = NumberOf<uint64_t>(rest);
      return bits ? std::optional<Value>(std::bit_cast<double>(*bits)) : std::nullopt;
    }
    case 'n': return DecimalOf(rest);
    case 's': return ValueIf(net::DecodeBase64(rest));
    default: return std::nullopt;
  }
}

// --- manifests -----------------------------------------------------------------------------------

Type Plain(TypeKind kind) {
  Type type;
  type.kind = kind;
  if (kind == TypeKind::kDecimal) type.precision = kDecimalDigits;
  return type;
}

struct TypeOfValue {
  Type operator()(std::monostate) const { return Plain(TypeKind::kBoolean); }
  Type operator()(bool) const { return Plain(TypeKind::kBoolean); }
  Type operator()(int64_t) const { return Plain(TypeKind::kLong); }
  Type operator()(float) const { return Plain(TypeKind::kFloat); }
  Type operator()(double) const { return Plain(TypeKind::kDouble); }
  Type operator()(const iceberg::Decimal&) const { return Plain(TypeKind::kDecimal); }
  Type operator()(const std::string&) const { return Plain(TypeKind::kBinary); }
};

// A spec of that many fields of columns that no schema has: then the manifest tells the types.
iceberg::PartitionSpec SpecOf(int spec_id, size_t fields) {
  iceberg::PartitionSpec spec{.spec_id = spec_id, .fields = {}};
  for (size_t i = 0; i < fields; ++i) {
    const int number = static_cast<int>(i);
    spec.fields.push_back({.source_ids = {number + 1},
                           .field_id = 1000 + number,
                           .name = "p" + std::to_string(i),
                           .transform = "identity"});
  }
  return spec;
}

std::vector<Type> TypesOf(const std::vector<const DataFile*>& files, size_t fields) {
  std::vector<Type> types(fields, Plain(TypeKind::kBoolean));
  for (size_t i = 0; i < fields; ++i) {
    for (const DataFile* file : files) {
      if (i >= file->partition.size() || iceberg::IsNull(file->partition[i])) continue;
      types[i] = std::visit(TypeOfValue(), file->partition[i]);
      break;
    }
  }
  return types;
}

Result<std::string> ManifestOf(int spec_id, const std::vector<const DataFile*>& files) {
  const size_t fields = files.front()->partition.size();
  table::ManifestWriteOptions options;
  options.format_version = 3;
  options.spec = SpecOf(spec_id, fields);
  options.partition_types = TypesOf(files, fields);
  options.snapshot_id = 1;  // Of nothing: whoever commits knows which.
  std::vector<iceberg::ManifestEntry> entries;
  for (const DataFile* file : files) {
    if (file->first_row_id) {
      return Fail(Code::kUnsupported, "a new file has row ids before its commit", file->file_path);
    }
    entries.push_back({.status = iceberg::EntryStatus::kAdded,
                       .snapshot_id = 0,
                       .sequence_number = table::kInheritSequenceNumber,
                       .file_sequence_number = 0,
                       .file = *file});
  }
  auto written = table::WriteManifest(entries, options);
  if (!written) {
    return Fail(Code::kUnsupported, "an output cannot be described: " + written.error().message);
  }
  return std::move(written->bytes);
}

Status ReadFiles(Members& in, std::vector<std::pair<int64_t, DataFile>>& out) {
  const int spec_id = static_cast<int>(in.Integer("spec_id", 0, kIntMax));
  const auto fields = static_cast<size_t>(in.Integer("fields", 0, int64_t{kFieldsMax}));
  const std::vector<int64_t> places = in.Integers("places", size_t{1'000'000}, 0);
  const std::string bytes = in.Bytes("manifest", kManifestBytesMax);
  LITHIFY_TRY(in.Finish());
  iceberg::TableMetadata table;
  table.format_version = 3;
  table.schemas.emplace_back();
  table.partition_specs.push_back(SpecOf(spec_id, fields));
  table.default_spec_id = spec_id;
  iceberg::ManifestFile manifest;
  manifest.manifest_path = "the worker's answer";
  manifest.partition_spec_id = spec_id;
  manifest.added_files_count = static_cast<int64_t>(places.size());
  manifest.existing_files_count = 0;
  manifest.deleted_files_count = 0;
  size_t next = 0;
  const auto take = [&](iceberg::ManifestEntry&& entry) -> Status {
    if (next == places.size() || entry.status != iceberg::EntryStatus::kAdded ||
        entry.file.content != iceberg::FileContent::kData) {
      return Fail(Code::kCorrupt, "not the data files that it should have");
    }
    out.emplace_back(places[next++], std::move(entry.file));
    return {};
  };
  return table::ReadManifest(bytes, manifest, table, {}, take);
}

}  // namespace

Result<Json> DataFilesJson(const std::vector<DataFile>& files) {
  struct OfSpec {
    std::vector<const DataFile*> files;
    std::vector<size_t> places;
  };
  std::map<int, OfSpec> specs;
  for (size_t i = 0; i < files.size(); ++i) {
    OfSpec& spec = specs[files[i].spec_id];
    spec.files.push_back(&files[i]);
    spec.places.push_back(i);
  }
  Json list = Json::array();
  for (const auto& [spec_id, spec] : specs) {
    LITHIFY_TRY_ASSIGN(const std::string manifest, ManifestOf(spec_id, spec.files));
    list.push_back({{"spec_id", spec_id},
                    {"fields", spec.files.front()->partition.size()},
                    {"places", spec.places},
                    {"manifest", net::EncodeBase64(manifest)}});
  }
  return list;
}

Result<std::vector<DataFile>> DataFilesOf(const Json& list, Code code) {
  std::vector<std::pair<int64_t, DataFile>> placed;
  for (const Json& item : list) {
    Members in(item, "new_data_files_avro", code);
    if (const Status read = ReadFiles(in, placed); !read) return Fail(code, read.error().message);
  }
  std::vector<DataFile> files(placed.size());
  std::vector<bool> taken(placed.size(), false);
  for (auto& [place, file] : placed) {
    const auto at = static_cast<size_t>(place);
    if (at >= files.size() || taken[at]) return Fail(code, "has files in no order");
    taken[at] = true;
    files[at] = std::move(file);
  }
  return files;
}

Json PartitionJson(const iceberg::PartitionKey& partition) {
  Json values = Json::array();
  for (const Value& value : partition.values) values.push_back(std::visit(ValueText(), value));
  return {{"spec_id", partition.spec_id}, {"values", std::move(values)}};
}

iceberg::PartitionKey PartitionOf(const Json& json, Members& parent) {
  Members in(json, "partition", parent.code());
  iceberg::PartitionKey partition;
  partition.spec_id = static_cast<int>(in.Integer("spec_id", 0, kIntMax));
  for (const Json& item : in.List("values", kFieldsMax)) {
    auto value = ValueOf(item);
    if (!value) in.Problem("values", "has one of no kind that is known");
    partition.values.push_back(value.value_or(Value()));
  }
  if (const Status good = in.Finish(); !good) parent.Problem("partition", good.error().message);
  return partition;
}

}  // namespace lithify::fleet
