#include <algorithm>
#include <set>

#include "base/text.h"
#include "table/avro.h"
#include "table/iceberg_manifest.h"
#include "table/iceberg_metadata.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::ByField;
using iceberg::DataFile;
using iceberg::EntryStatus;
using iceberg::FileContent;
using iceberg::Int128;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

constexpr int64_t kBlockSizeV1 = int64_t{64} << 20;  // What v1 wants to be told, of no meaning.

std::unexpected<Error> Wrong(std::string message) {
  return Fail(Code::kInvalid, std::move(message));
}

// --- Avro schemas as JSON ----------------------------------------------------------------------

std::string Field(int id, std::string_view name, const std::string& type, bool optional) {
  std::string json = "{\"name\":" + JsonQuote(name) + ",\"type\":";
  json += optional ? "[\"null\"," + type + "],\"default\":null" : type;
  return json + ",\"field-id\":" + std::to_string(id) + "}";
}
std::string Required(int id, std::string_view name, std::string_view type) {
  return Field(id, name, "\"" + std::string(type) + "\"", false);
}
std::string Optional(int id, std::string_view name, std::string_view type) {
  return Field(id, name, "\"" + std::string(type) + "\"", true);
}

std::string Record(std::string_view name, const std::vector<std::string>& fields) {
  std::string json = "{\"type\":\"record\",\"name\":\"" + std::string(name) + "\",\"fields\":[";
  for (size_t i = 0; i < fields.size(); ++i) json += (i > 0 ? "," : "") + fields[i];
  return json + "]}";
}

std::string ColumnMap(int id, std::string_view name, int key_id, std::string_view value) {
  const std::string pair = "k" + std::to_string(key_id) + "_v" + std::to_string(key_id + 1);
  return Field(
      id, name,
      "{\"type\":\"array\",\"logicalType\":\"map\",\"items\":" +
          Record(pair, {Required(key_id, "key", "int"), Required(key_id + 1, "value", value)}) +
          "}",
      true);
}

std::string List(int id, std::string_view name, int element_id, const std::string& item) {
  return Field(id, name,
               "{\"type\":\"array\",\"items\":" + item +
                   ",\"element-id\":" + std::to_string(element_id) + "}",
               true);
}

constexpr int kDecimalDigitsMax = 38;

// Bytes that every unscaled value of so many digits fits.
int DecimalSize(int precision) {
  Int128 least = 1;
  for (int i = 0; i < precision; ++i) least *= 10;
  int size = 16;
  while (size > 1 && (Int128{1} << (8 * size - 9)) >= least) --size;
  return size;
}

std::string Logical(std::string_view type, std::string_view logical, std::string_view more = {}) {
  return "{\"type\":\"" + std::string(type) + "\",\"logicalType\":\"" + std::string(logical) +
         "\"" + std::string(more) + "}";
}

// Named types get names of their own each time: not every reader understands a reference.
std::string FixedJson(const std::string& name, int size, std::string_view more = {}) {
  return "{\"type\":\"fixed\",\"name\":\"" + name + "\",\"size\":" + std::to_string(size) +
         std::string(more) + "}";
}

// [Avro, in Appendix A]; empty: values of the type cannot be partition values.
std::string AvroTypeJson(const Type& type, int field_id) {
  const std::string suffix = "_r" + std::to_string(field_id);
  switch (type.kind) {
    case TypeKind::kBoolean: return "\"boolean\"";
    case TypeKind::kInt: return "\"int\"";
    case TypeKind::kLong: return "\"long\"";
    case TypeKind::kFloat: return "\"float\"";
    case TypeKind::kDouble: return "\"double\"";
    case TypeKind::kString: return "\"string\"";
    case TypeKind::kBinary: return "\"bytes\"";
    case TypeKind::kDate: return Logical("int", "date");
    case TypeKind::kTime: return Logical("long", "time-micros");
    case TypeKind::kTimestamp:
      return Logical("long", "timestamp-micros", ",\"adjust-to-utc\":false");
    case TypeKind::kTimestamptz:
      return Logical("long", "timestamp-micros", ",\"adjust-to-utc\":true");
    case TypeKind::kTimestampNs:
      return Logical("long", "timestamp-nanos", ",\"adjust-to-utc\":false");
    case TypeKind::kTimestamptzNs:
      return Logical("long", "timestamp-nanos", ",\"adjust-to-utc\":true");
    case TypeKind::kUuid: return FixedJson("uuid_fixed" + suffix, 16, ",\"logicalType\":\"uuid\"");
    case TypeKind::kFixed:
      return FixedJson("fixed_" + std::to_string(type.length) + suffix, type.length);
    case TypeKind::kDecimal: {
      if (type.precision < 1 || type.precision > kDecimalDigitsMax) return {};
      const std::string precision = std::to_string(type.precision);
      const std::string scale = std::to_string(type.scale);
      return FixedJson(
          "decimal_" + precision + "_" + scale + suffix, DecimalSize(type.precision),
          ",\"logicalType\":\"decimal\",\"precision\":" + precision + ",\"scale\":" + scale);
    }
    default: return {};
  }
}

// Avro's names are narrower than Iceberg's: what does not fit is spelled as its code in
// hexadecimal, as Iceberg's Java library does, byte by byte beyond ASCII.
std::string AvroName(std::string_view name) {
  std::string safe;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (digit && !safe.empty())) {
      safe += c;
    } else if (digit) {
      safe += '_';
      safe += c;
    } else {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      const auto byte = static_cast<uint8_t>(c);
      safe += "_x";
      if (byte >= 16) safe += kHex[byte / 16];
      safe += kHex[byte % 16];
    }
  }
  return safe;
}

// The record r102. An unknown type is written as null, whatever the transform.
Result<std::string> PartitionRecord(const iceberg::PartitionSpec& spec,
                                    const std::vector<Type>& types) {
  std::vector<std::string> fields;
  std::set<std::string> taken;
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    const iceberg::PartitionField& field = spec.fields[i];
    std::string name = AvroName(field.name);
    if (name.empty() || !taken.insert(name).second) {
      name += "_" + std::to_string(field.field_id);
      taken.insert(name);
    }
    std::string json;
    if (types[i].kind == TypeKind::kUnknown) {
      json = Field(field.field_id, name, "\"null\"", false);
      json.insert(json.size() - 1, ",\"default\":null");
    } else {
      const std::string type = AvroTypeJson(types[i], field.field_id);
      if (type.empty()) {
        return Wrong("partition field " + JsonQuote(field.name) +
                     " has a type that cannot be partitioned by");
      }
      json = Field(field.field_id, name, type, true);
    }
    if (name != field.name) {
      json.insert(json.size() - 1, ",\"iceberg-field-name\":" + JsonQuote(field.name));
    }
    fields.push_back(std::move(json));
  }
  return Record("r102", fields);
}

std::string EntrySchema(int version, const std::string& partition) {
  std::vector<std::string> file;
  if (version >= 2) file.push_back(Required(134, "content", "int"));
  file.push_back(Required(100, "file_path", "string"));
  file.push_back(Required(101, "file_format", "string"));
  file.push_back(Field(102, "partition", partition, false));
  file.push_back(Required(103, "record_count", "long"));
  file.push_back(Required(104, "file_size_in_bytes", "long"));
  if (version == 1) file.push_back(Required(105, "block_size_in_bytes", "long"));
  file.push_back(ColumnMap(108, "column_sizes", 117, "long"));
  file.push_back(ColumnMap(109, "value_counts", 119, "long"));
  file.push_back(ColumnMap(110, "null_value_counts", 121, "long"));
  file.push_back(ColumnMap(137, "nan_value_counts", 138, "long"));
  file.push_back(ColumnMap(125, "lower_bounds", 126, "bytes"));
  file.push_back(ColumnMap(128, "upper_bounds", 129, "bytes"));
  file.push_back(Optional(131, "key_metadata", "bytes"));
  file.push_back(List(132, "split_offsets", 133, "\"long\""));
  if (version >= 2) file.push_back(List(135, "equality_ids", 136, "\"int\""));
  file.push_back(Optional(140, "sort_order_id", "int"));
  if (version >= 3) file.push_back(Optional(142, "first_row_id", "long"));
  if (version >= 2) file.push_back(Optional(143, "referenced_data_file", "string"));
  if (version >= 3) {
    file.push_back(Optional(144, "content_offset", "long"));
    file.push_back(Optional(145, "content_size_in_bytes", "long"));
  }
  std::vector<std::string> entry{Required(0, "status", "int")};
  entry.push_back(Field(1, "snapshot_id", "\"long\"", version >= 2));
  if (version >= 2) {
    entry.push_back(Optional(3, "sequence_number", "long"));
    entry.push_back(Optional(4, "file_sequence_number", "long"));
  }
  entry.push_back(Field(2, "data_file", Record("r2", file), false));
  return Record("manifest_entry", entry);
}

std::string ListSchema(int version) {
  const bool v1 = version == 1;
  std::vector<std::string> fields{Required(500, "manifest_path", "string"),
                                  Required(501, "manifest_length", "long"),
                                  Required(502, "partition_spec_id", "int")};
  if (!v1) {
    fields.push_back(Required(517, "content", "int"));
    fields.push_back(Required(515, "sequence_number", "long"));
    fields.push_back(Required(516, "min_sequence_number", "long"));
  }
  fields.push_back(Required(503, "added_snapshot_id", "long"));
  fields.push_back(Field(504, "added_files_count", "\"int\"", v1));
  fields.push_back(Field(505, "existing_files_count", "\"int\"", v1));
  fields.push_back(Field(506, "deleted_files_count", "\"int\"", v1));
  fields.push_back(Field(512, "added_rows_count", "\"long\"", v1));
  fields.push_back(Field(513, "existing_rows_count", "\"long\"", v1));
  fields.push_back(Field(514, "deleted_rows_count", "\"long\"", v1));
  fields.push_back(List(
      507, "partitions", 508,
      Record("r508",
             {Required(509, "contains_null", "boolean"), Optional(518, "contains_nan", "boolean"),
              Optional(510, "lower_bound", "bytes"), Optional(511, "upper_bound", "bytes")})));
  fields.push_back(Optional(519, "key_metadata", "bytes"));
  if (version >= 3) fields.push_back(Optional(520, "first_row_id", "long"));
  return Record("manifest_file", fields);
}

// --- values ------------------------------------------------------------------------------------

template <typename T>
void PutNumber(const std::optional<T>& value, AvroEncoder& out) {
  out.Present(value.has_value());
  if (value) out.Long(*value);
}

void PutBytes(const std::optional<std::string>& value, AvroEncoder& out) {
  out.Present(value.has_value());
  if (value) out.Bytes(*value);
}

// An empty map or list is written as null: nothing is known.
template <typename T>
void PutMap(const ByField<T>& map, AvroEncoder& out) {
  out.Present(!map.empty());
  if (map.empty()) return;
  out.Long(static_cast<int64_t>(map.size()));
  for (const auto& [id, value] : map) {
    out.Int(id);
    if constexpr (std::is_same_v<T, std::string>) {
      out.Bytes(value);
    } else {
      out.Long(value);
    }
  }
  out.Long(0);
}

template <typename T>
void PutList(const std::vector<T>& list, AvroEncoder& out) {
  out.Present(!list.empty());
  if (list.empty()) return;
  out.Long(static_cast<int64_t>(list.size()));
  for (const T item : list) out.Long(item);
  out.Long(0);
}

// False: the value is not of the type.
bool PutText(const Type& type, const std::string& text, AvroEncoder& out) {
  switch (type.kind) {
    case TypeKind::kString:
    case TypeKind::kBinary: out.Bytes(text); return true;
    case TypeKind::kUuid:
    case TypeKind::kFixed:
      if (text.size() != (type.kind == TypeKind::kUuid ? 16 : static_cast<size_t>(type.length))) {
        return false;
      }
      out.Fixed(text);
      return true;
    default: return false;
  }
}

bool PutDecimal(const Type& type, Int128 unscaled, AvroEncoder& out) {
  if (type.kind != TypeKind::kDecimal) return false;
  const auto size = static_cast<size_t>(DecimalSize(type.precision));
  std::string bytes = ValueToBytes(type, iceberg::Decimal{unscaled});
  if (bytes.size() > size) return false;
  bytes.insert(0, size - bytes.size(), unscaled < 0 ? '\xFF' : '\0');
  out.Fixed(bytes);
  return true;
}

bool PutWhole(const Type& type, int64_t value, AvroEncoder& out) {
  switch (type.kind) {
    case TypeKind::kInt:
    case TypeKind::kDate:
      if (value < INT32_MIN || value > INT32_MAX) return false;
      break;
    case TypeKind::kLong:
    case TypeKind::kTime:
    case TypeKind::kTimestamp:
    case TypeKind::kTimestamptz:
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestamptzNs: break;
    default: return false;
  }
  out.Long(value);
  return true;
}

bool PutValue(const Type& type, const Value& value, AvroEncoder& out) {
  if (type.kind == TypeKind::kUnknown) return iceberg::IsNull(value);  // Avro's null: no bytes.
  out.Present(!iceberg::IsNull(value));
  if (iceberg::IsNull(value)) return true;
  if (const bool* flag = std::get_if<bool>(&value)) {
    out.Boolean(*flag);
    return type.kind == TypeKind::kBoolean;
  }
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return PutWhole(type, *whole, out);
  if (const float* single = std::get_if<float>(&value)) {
    out.Float(*single);
    return type.kind == TypeKind::kFloat;
  }
  if (const double* number = std::get_if<double>(&value)) {
    out.Double(*number);
    return type.kind == TypeKind::kDouble;
  }
  if (const iceberg::Decimal* decimal = std::get_if<iceberg::Decimal>(&value)) {
    return PutDecimal(type, decimal->unscaled, out);
  }
  return PutText(type, std::get<std::string>(value), out);
}

bool IsNan(const Value& value) {
  if (const float* single = std::get_if<float>(&value)) return *single != *single;
  if (const double* number = std::get_if<double>(&value)) return *number != *number;
  return false;
}

// --- manifests ---------------------------------------------------------------------------------

class ManifestWriter {
 public:
  ManifestWriter(const ManifestWriteOptions& options, std::vector<Type> types, AvroWriter writer)
      : options_(options), types_(std::move(types)), writer_(std::move(writer)) {
    summaries_.resize(types_.size());
    least_.resize(types_.size());
    greatest_.resize(types_.size());
  }

  Status Add(const ManifestEntry& entry);
  Result<WrittenManifest> Finish();

 private:
  Status Check(const ManifestEntry& entry) const;
  Status CheckFile(const DataFile& file) const;
  Status PutEntry(const ManifestEntry& entry);
  Status PutPartition(const DataFile& file, AvroEncoder& out);
  Status PutFile(const DataFile& file, AvroEncoder& out);
  Status Summarize(const ManifestEntry& entry);

  const ManifestWriteOptions& options_;
  std::vector<Type> types_;
  AvroWriter writer_;
  std::vector<iceberg::FieldSummary> summaries_;
  std::vector<Value> least_;
  std::vector<Value> greatest_;
  int64_t files_[3] = {};  // By status.
  int64_t rows_[3] = {};
  int64_t min_sequence_number_ = kInheritSequenceNumber;
};

Status ManifestWriter::CheckFile(const DataFile& file) const {
  const int version = options_.format_version;
  if ((file.content == FileContent::kData) != (options_.content == ManifestContent::kData)) {
    return Wrong("data and delete files do not go into one manifest");
  }
  if (file.file_path.empty() || file.file_format.empty()) return Wrong("no file path or format");
  if (file.spec_id != options_.spec.spec_id || file.partition.size() != types_.size()) {
    return Wrong("its partition is not of spec " + std::to_string(options_.spec.spec_id));
  }
  if (version < 2 && (file.content != FileContent::kData || !file.equality_ids.empty())) {
    return Wrong("format version 1 has no delete files");
  }
  if (version < 2 && file.referenced_data_file) {
    return Wrong("format version 1 has no referenced_data_file");
  }
  if (version < 3 && (file.first_row_id || file.content_offset || file.content_size_in_bytes)) {
    return Wrong("row ids and deletion vectors need format version 3");
  }
  if ((file.content == FileContent::kEqualityDeletes) == file.equality_ids.empty()) {
    return Wrong("equality_ids are for equality deletes, which need them");
  }
  if (file.content != FileContent::kData && file.first_row_id) {
    return Wrong("a delete file has no first_row_id");
  }
  if (file.deletion_vector() &&
      (!file.referenced_data_file || !file.content_offset || !file.content_size_in_bytes)) {
    return Wrong("a deletion vector without its data file, offset or size");
  }
  return {};
}

Status ManifestWriter::Check(const ManifestEntry& entry) const {
  LITHIFY_TRY(CheckFile(entry.file));
  if (options_.format_version < 2) return {};
  if (entry.sequence_number != kInheritSequenceNumber) {
    if (entry.sequence_number < 0) return Wrong("a negative sequence number");
    if (entry.status != EntryStatus::kAdded && entry.file_sequence_number < 0) {
      return Wrong("only added files inherit their sequence numbers");
    }
    return {};
  }
  if (entry.status != EntryStatus::kAdded) {
    return Wrong("only added files inherit their sequence numbers");
  }
  if (entry.snapshot_id != 0 && entry.snapshot_id != options_.snapshot_id) {
    return Wrong("a file of snapshot " + std::to_string(entry.snapshot_id) +
                 " cannot inherit the sequence number of another");
  }
  return {};
}

Status ManifestWriter::PutPartition(const DataFile& file, AvroEncoder& out) {
  for (size_t i = 0; i < types_.size(); ++i) {
    if (PutValue(types_[i], file.partition[i], out)) continue;
    return Wrong("the value of partition field " + JsonQuote(options_.spec.fields[i].name) +
                 " is not of its type");
  }
  return {};
}

Status ManifestWriter::PutFile(const DataFile& file, AvroEncoder& out) {
  const int version = options_.format_version;
  if (version >= 2) out.Int(static_cast<int>(file.content));
  out.Bytes(file.file_path);
  out.Bytes(file.file_format);
  LITHIFY_TRY(PutPartition(file, out));
  out.Long(file.record_count);
  out.Long(file.file_size_in_bytes);
  if (version == 1) out.Long(kBlockSizeV1);
  PutMap(file.column_sizes, out);
  PutMap(file.value_counts, out);
  PutMap(file.null_value_counts, out);
  PutMap(file.nan_value_counts, out);
  PutMap(file.lower_bounds, out);
  PutMap(file.upper_bounds, out);
  PutBytes(file.key_metadata, out);
  PutList(file.split_offsets, out);
  if (version >= 2) PutList(file.equality_ids, out);
  PutNumber(file.sort_order_id, out);
  if (version >= 3) PutNumber(file.first_row_id, out);
  if (version >= 2) PutBytes(file.referenced_data_file, out);
  if (version >= 3) {
    PutNumber(file.content_offset, out);
    PutNumber(file.content_size_in_bytes, out);
  }
  return {};
}

Status ManifestWriter::PutEntry(const ManifestEntry& entry) {
  AvroEncoder& out = writer_.record();
  const int64_t snapshot_id = entry.snapshot_id == 0 ? options_.snapshot_id : entry.snapshot_id;
  out.Int(static_cast<int>(entry.status));
  if (options_.format_version >= 2) {
    const bool added = entry.status == EntryStatus::kAdded;
    const bool inherited = entry.sequence_number == kInheritSequenceNumber;
    PutNumber(std::optional<int64_t>(snapshot_id), out);
    PutNumber(inherited ? std::nullopt : std::optional<int64_t>(entry.sequence_number), out);
    PutNumber(added ? std::nullopt : std::optional<int64_t>(entry.file_sequence_number), out);
  } else {
    out.Long(snapshot_id);
  }
  LITHIFY_TRY(PutFile(entry.file, out));
  return writer_.EndRecord();
}

Status ManifestWriter::Summarize(const ManifestEntry& entry) {
  const auto status = static_cast<size_t>(entry.status);
  ++files_[status];
  if (__builtin_add_overflow(rows_[status], std::max(entry.file.record_count, int64_t{0}),
                             &rows_[status])) {
    return Fail(Code::kCorrupt, "the rows of one manifest are more than 64 bits can count");
  }
  if (entry.status != EntryStatus::kDeleted && entry.sequence_number != kInheritSequenceNumber) {
    if (min_sequence_number_ == kInheritSequenceNumber ||
        entry.sequence_number < min_sequence_number_) {
      min_sequence_number_ = entry.sequence_number;
    }
  }
  for (size_t i = 0; i < types_.size(); ++i) {
    const Value& value = entry.file.partition[i];
    if (iceberg::IsNull(value)) {
      summaries_[i].contains_null = true;
    } else if (IsNan(value)) {
      summaries_[i].contains_nan = true;
    } else {
      if (iceberg::IsNull(least_[i]) || iceberg::CompareValues(value, least_[i]) < 0) {
        least_[i] = value;
      }
      if (iceberg::IsNull(greatest_[i]) || iceberg::CompareValues(value, greatest_[i]) > 0) {
        greatest_[i] = value;
      }
    }
  }
  return {};
}

Status ManifestWriter::Add(const ManifestEntry& entry) {
  Status status = Check(entry);
  if (status) status = Summarize(entry);
  if (status) status = PutEntry(entry);
  if (!status) return Fail(std::move(status.error()).In(entry.file.file_path));
  return {};
}

Result<WrittenManifest> ManifestWriter::Finish() {
  WrittenManifest written;
  LITHIFY_TRY_ASSIGN(written.bytes, writer_.Finish());
  ManifestFile& file = written.file;
  file.manifest_length = static_cast<int64_t>(written.bytes.size());
  file.partition_spec_id = options_.spec.spec_id;
  file.content = options_.content;
  file.added_snapshot_id = options_.snapshot_id;
  file.min_sequence_number = options_.format_version < 2 ? 0 : min_sequence_number_;
  file.existing_files_count = files_[0];
  file.added_files_count = files_[1];
  file.deleted_files_count = files_[2];
  file.existing_rows_count = rows_[0];
  file.added_rows_count = rows_[1];
  file.deleted_rows_count = rows_[2];
  for (size_t i = 0; i < types_.size(); ++i) {
    iceberg::FieldSummary& summary = summaries_[i];
    if (!summary.contains_nan) summary.contains_nan = false;
    if (!iceberg::IsNull(least_[i])) {
      summary.lower_bound = ValueToBytes(types_[i], least_[i]);
      summary.upper_bound = ValueToBytes(types_[i], greatest_[i]);
    }
  }
  file.partitions = std::move(summaries_);
  return written;
}

Result<std::vector<Type>> PartitionTypes(const ManifestWriteOptions& options) {
  if (!options.partition_types.empty()) {
    if (options.partition_types.size() != options.spec.fields.size()) {
      return Wrong("there is not one partition type per field of the spec");
    }
    return options.partition_types;
  }
  std::vector<Type> types;
  for (const iceberg::PartitionField& field : options.spec.fields) {
    const Transform transform = ParseTransform(field.transform);
    const iceberg::Field* source = field.source_ids.size() == 1
                                       ? iceberg::FindField(options.schema, field.source_ids[0])
                                       : nullptr;
    // Without a source the type is unknown, which only takes nulls.
    Type type;
    if (source != nullptr) {
      type = TransformedType(transform, source->type);
    } else if (transform.kind == Transform::Kind::kVoid) {
      type.kind = TypeKind::kInt;
    }
    types.push_back(std::move(type));
  }
  return types;
}

Status CheckVersion(int version) {
  if (version >= 1 && version <= 3) return {};
  return Wrong("format version " + std::to_string(version) + " cannot be written");
}

}  // namespace

Result<WrittenManifest> WriteManifest(std::span<const ManifestEntry> entries,
                                      const ManifestWriteOptions& options) {
  LITHIFY_TRY(CheckVersion(options.format_version));
  if (entries.empty()) return Wrong("a manifest needs an entry");
  if (options.format_version < 2 && options.content != ManifestContent::kData) {
    return Wrong("format version 1 has no delete manifests");
  }
  LITHIFY_TRY_ASSIGN(std::vector<Type> types, PartitionTypes(options));
  LITHIFY_TRY_ASSIGN(const std::string partition, PartitionRecord(options.spec, types));
  std::map<std::string, std::string> metadata{
      {"schema", SchemaToJson(options.schema)},
      {"schema-id", std::to_string(options.schema.schema_id)},
      {"partition-spec", PartitionFieldsToJson(options.spec)},
      {"partition-spec-id", std::to_string(options.spec.spec_id)},
      {"format-version", std::to_string(options.format_version)},
  };
  if (options.format_version >= 2) {
    metadata["content"] = options.content == ManifestContent::kData ? "data" : "deletes";
  }
  LITHIFY_TRY_ASSIGN(AvroWriter avro,
                     AvroWriter::Open(EntrySchema(options.format_version, partition),
                                      std::move(metadata), options.codec));
  ManifestWriter writer(options, std::move(types), std::move(avro));
  for (const ManifestEntry& entry : entries) LITHIFY_TRY(writer.Add(entry));
  return writer.Finish();
}

// --- manifest lists ----------------------------------------------------------------------------

namespace {

// A count that v2 requires and that v1 may leave out; the number of files is an Avro int.
Status PutCount(const std::optional<int64_t>& count, bool files, bool v1, AvroEncoder& out) {
  if (count && files && (*count < 0 || *count > INT32_MAX)) {
    return Wrong("a count of " + std::to_string(*count) + " files");
  }
  if (v1) {
    PutNumber(count, out);
    return {};
  }
  if (!count) {
    return Wrong("its counts of files and rows are unknown (format version 1 may leave them out)");
  }
  out.Long(*count);
  return {};
}

Result<int64_t> SequenceNumber(int64_t number, const ManifestFile& manifest,
                               const ManifestListHeader& header) {
  if (number != kInheritSequenceNumber) {
    if (number < 0) return Wrong("a negative sequence number");
    return number;
  }
  if (manifest.added_snapshot_id != header.snapshot_id) {
    return Wrong("a manifest of snapshot " + std::to_string(manifest.added_snapshot_id) +
                 " cannot get the sequence number of another");
  }
  return header.sequence_number;
}

void PutSummaries(const std::vector<iceberg::FieldSummary>& summaries, AvroEncoder& out) {
  out.Present(!summaries.empty());
  if (summaries.empty()) return;
  out.Long(static_cast<int64_t>(summaries.size()));
  for (const iceberg::FieldSummary& summary : summaries) {
    out.Boolean(summary.contains_null);
    out.Present(summary.contains_nan.has_value());
    if (summary.contains_nan) out.Boolean(*summary.contains_nan);
    PutBytes(summary.lower_bound, out);
    PutBytes(summary.upper_bound, out);
  }
  out.Long(0);
}

// [First Row ID Assignment]: room for every row that may get an id when the manifest is read.
Result<std::optional<int64_t>> FirstRowId(const ManifestFile& manifest, int64_t* next_row_id) {
  if (manifest.content != ManifestContent::kData) return std::optional<int64_t>();
  if (manifest.first_row_id) return manifest.first_row_id;
  if (!manifest.added_rows_count || !manifest.existing_rows_count ||
      *manifest.added_rows_count < 0 || *manifest.existing_rows_count < 0) {
    return Wrong("its count of rows is unknown: no row ids can be given out");
  }
  const int64_t first = *next_row_id;
  if (__builtin_add_overflow(*next_row_id, *manifest.added_rows_count, next_row_id) ||
      __builtin_add_overflow(*next_row_id, *manifest.existing_rows_count, next_row_id)) {
    return Wrong("row ids beyond 64 bits");
  }
  return std::optional<int64_t>(first);
}

Status PutManifest(const ManifestFile& manifest, const ManifestListHeader& header,
                   int64_t* next_row_id, AvroEncoder& out) {
  const bool v1 = header.format_version == 1;
  if (manifest.manifest_path.empty()) return Wrong("a manifest without a path");
  if (v1 && manifest.content != ManifestContent::kData) {
    return Wrong("format version 1 has no delete manifests");
  }
  if (header.format_version < 3 && manifest.first_row_id) {
    return Wrong("row ids need format version 3");
  }
  out.Bytes(manifest.manifest_path);
  out.Long(manifest.manifest_length);
  out.Int(manifest.partition_spec_id);
  if (!v1) {
    out.Int(static_cast<int>(manifest.content));
    LITHIFY_TRY_ASSIGN(const int64_t own,
                       SequenceNumber(manifest.sequence_number, manifest, header));
    LITHIFY_TRY_ASSIGN(const int64_t least,
                       SequenceNumber(manifest.min_sequence_number, manifest, header));
    out.Long(own);
    out.Long(least);
  }
  out.Long(manifest.added_snapshot_id);
  LITHIFY_TRY(PutCount(manifest.added_files_count, true, v1, out));
  LITHIFY_TRY(PutCount(manifest.existing_files_count, true, v1, out));
  LITHIFY_TRY(PutCount(manifest.deleted_files_count, true, v1, out));
  LITHIFY_TRY(PutCount(manifest.added_rows_count, false, v1, out));
  LITHIFY_TRY(PutCount(manifest.existing_rows_count, false, v1, out));
  LITHIFY_TRY(PutCount(manifest.deleted_rows_count, false, v1, out));
  PutSummaries(manifest.partitions, out);
  PutBytes(manifest.key_metadata, out);
  if (header.format_version >= 3) {
    LITHIFY_TRY_ASSIGN(const std::optional<int64_t> first, FirstRowId(manifest, next_row_id));
    PutNumber(first, out);
  }
  return {};
}

}  // namespace

Result<WrittenManifestList> WriteManifestList(std::span<const ManifestFile> manifests,
                                              const ManifestListHeader& header) {
  LITHIFY_TRY(CheckVersion(header.format_version));
  std::map<std::string, std::string> metadata{
      {"snapshot-id", std::to_string(header.snapshot_id)},
      {"parent-snapshot-id",
       header.parent_snapshot_id ? std::to_string(*header.parent_snapshot_id) : "null"},
      {"format-version", std::to_string(header.format_version)},
  };
  WrittenManifestList written;
  if (header.format_version >= 2) {
    metadata["sequence-number"] = std::to_string(header.sequence_number);
  }
  if (header.format_version >= 3) {
    if (!header.first_row_id || *header.first_row_id < 0) {
      return Wrong("format version 3 needs the table's next-row-id");
    }
    metadata["first-row-id"] = std::to_string(*header.first_row_id);
    written.next_row_id = *header.first_row_id;
  }
  LITHIFY_TRY_ASSIGN(AvroWriter writer, AvroWriter::Open(ListSchema(header.format_version),
                                                         std::move(metadata), header.codec));
  for (const ManifestFile& manifest : manifests) {
    Status status = PutManifest(manifest, header, &written.next_row_id, writer.record());
    if (status) status = writer.EndRecord();
    if (!status) return Fail(std::move(status.error()).In(manifest.manifest_path));
  }
  LITHIFY_TRY_ASSIGN(written.bytes, writer.Finish());
  return written;
}

}  // namespace lithify::table
