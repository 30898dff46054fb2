#include "table/iceberg_manifest.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "table/avro.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::ByField;
using iceberg::DataFile;
using iceberg::EntryStatus;
using iceberg::FileContent;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

// How the bytes of a field are laid out, beneath a union with null.
enum class Shape { kNumber, kBoolean, kText, kCounts, kBounds, kNumbers, kRecord, kRecords };

// A field that we read [Manifests], [Manifest Lists].
struct Known {
  int id;
  std::string_view name;
  Shape shape;
  bool required;  // The schema must have it; v1 may lack what later versions require.
};

constexpr Known kEntryFields[] = {
    {0, "status", Shape::kNumber, true},
    {1, "snapshot_id", Shape::kNumber, false},
    {2, "data_file", Shape::kRecord, true},
    {3, "sequence_number", Shape::kNumber, false},
    {4, "file_sequence_number", Shape::kNumber, false},
};

constexpr Known kFileFields[] = {
    {134, "content", Shape::kNumber, false},
    {100, "file_path", Shape::kText, true},
    {101, "file_format", Shape::kText, true},
    {102, "partition", Shape::kRecord, false},
    {103, "record_count", Shape::kNumber, true},
    {104, "file_size_in_bytes", Shape::kNumber, true},
    {108, "column_sizes", Shape::kCounts, false},
    {109, "value_counts", Shape::kCounts, false},
    {110, "null_value_counts", Shape::kCounts, false},
    {137, "nan_value_counts", Shape::kCounts, false},
    {125, "lower_bounds", Shape::kBounds, false},
    {128, "upper_bounds", Shape::kBounds, false},
    {131, "key_metadata", Shape::kText, false},
    {132, "split_offsets", Shape::kNumbers, false},
    {135, "equality_ids", Shape::kNumbers, false},
    {140, "sort_order_id", Shape::kNumber, false},
    {142, "first_row_id", Shape::kNumber, false},
    {143, "referenced_data_file", Shape::kText, false},
    {144, "content_offset", Shape::kNumber, false},
    {145, "content_size_in_bytes", Shape::kNumber, false},
};

constexpr Known kListFields[] = {
    {500, "manifest_path", Shape::kText, true},
    {501, "manifest_length", Shape::kNumber, true},
    {502, "partition_spec_id", Shape::kNumber, true},
    {517, "content", Shape::kNumber, false},
    {515, "sequence_number", Shape::kNumber, false},
    {516, "min_sequence_number", Shape::kNumber, false},
    {503, "added_snapshot_id", Shape::kNumber, false},
    {504, "added_files_count", Shape::kNumber, false},
    {505, "existing_files_count", Shape::kNumber, false},
    {506, "deleted_files_count", Shape::kNumber, false},
    {512, "added_rows_count", Shape::kNumber, false},
    {513, "existing_rows_count", Shape::kNumber, false},
    {514, "deleted_rows_count", Shape::kNumber, false},
    {507, "partitions", Shape::kRecords, false},
    {519, "key_metadata", Shape::kText, false},
    {520, "first_row_id", Shape::kNumber, false},
};

constexpr Known kSummaryFields[] = {
    {509, "contains_null", Shape::kBoolean, true},
    {518, "contains_nan", Shape::kBoolean, false},
    {510, "lower_bound", Shape::kText, false},
    {511, "upper_bound", Shape::kText, false},
};

constexpr int kSkip = -1;

// One field of an Avro record, in the order of the bytes.
struct Step {
  int id = kSkip;
  std::string_view name;  // For messages.
  // kSkip: of the field as it is; else of the value beneath a union with null.
  const AvroType* type = nullptr;
  int null_branch = -1;       // -1: never null.
  bool required = false;      // Null is an error.
  int item_null_branch = -1;  // kCounts, kBounds: of the values.
};

std::unexpected<Error> Bad(std::string message) { return Fail(Code::kCorrupt, std::move(message)); }

bool IsNumber(const AvroType& type) {
  return type.kind == AvroKind::kInt || type.kind == AvroKind::kLong;
}
bool IsText(const AvroType& type) {
  return type.kind == AvroKind::kString || type.kind == AvroKind::kBytes;
}

// The value beneath a union with null; the type itself if there is none.
const AvroType& Beneath(AvroType&& type, int* null_branch) = delete;
const AvroType& Beneath(const AvroType& type, int* null_branch) {
  *null_branch = type.null_branch;
  if (type.null_branch < 0) return type;
  return *type.children[static_cast<size_t>(type.value_branch)];
}

// Maps from column ids are arrays of pairs, with the key first [Avro, in Appendix A].
bool IsColumnMap(const AvroType& type, bool numbers, int* item_null_branch) {
  if (type.kind != AvroKind::kArray) return false;
  const AvroType& pair = *type.children[0];
  if (pair.kind != AvroKind::kRecord || pair.fields.size() != 2) return false;
  if (!IsNumber(*pair.fields[0].type)) return false;
  const AvroType& value = Beneath(*pair.fields[1].type, item_null_branch);
  return numbers ? IsNumber(value) : IsText(value);
}

bool HasShape(const AvroType& type, Shape shape, int* item_null_branch) {
  switch (shape) {
    case Shape::kNumber: return IsNumber(type);
    case Shape::kBoolean: return type.kind == AvroKind::kBoolean;
    case Shape::kText: return IsText(type);
    case Shape::kCounts: return IsColumnMap(type, true, item_null_branch);
    case Shape::kBounds: return IsColumnMap(type, false, item_null_branch);
    case Shape::kNumbers: return type.kind == AvroKind::kArray && IsNumber(*type.children[0]);
    case Shape::kRecord: return type.kind == AvroKind::kRecord;
    case Shape::kRecords: {
      int null_branch = -1;
      return type.kind == AvroKind::kArray &&
             Beneath(*type.children[0], &null_branch).kind == AvroKind::kRecord && null_branch < 0;
    }
  }
  return false;
}

// By id; a field that its writer gave no id, by name [Column Projection].
template <typename Fields>
const AvroField* Match(const Fields& fields, int id, std::string_view name) {
  const AvroField* by_name = nullptr;
  for (const AvroField& field : fields) {
    if (field.id == id) return &field;
    if (by_name == nullptr && !field.id && field.name == name) by_name = &field;
  }
  return by_name;
}

// The record's fields as steps: those of `known` are read, all others are skipped.
Result<std::vector<Step>> Compile(const AvroType& record, std::span<const Known> known,
                                  const std::function<bool(const Known&)>& wanted) {
  std::vector<Step> steps;
  steps.reserve(record.fields.size());
  for (const AvroField& field : record.fields) {
    Step step;
    step.name = field.name;
    step.type = field.type;
    steps.push_back(step);
  }
  for (const Known& field : known) {
    const AvroField* found = Match(record.fields, field.id, field.name);
    if (found == nullptr) {
      if (!field.required) continue;
      return Bad("the Avro schema has no field " + std::string(field.name) + " (" +
                 std::to_string(field.id) + ")");
    }
    Step& step = steps[static_cast<size_t>(found - record.fields.data())];
    int null_branch = -1;
    const AvroType& type = Beneath(*found->type, &null_branch);
    if (type.kind == AvroKind::kNull && !field.required) continue;  // Always null.
    if (!HasShape(type, field.shape, &step.item_null_branch)) {
      return Bad("field " + std::string(field.name) + " (" + std::to_string(field.id) +
                 ") has an Avro type that does not fit: " + std::string(AvroKindName(type.kind)));
    }
    if (!wanted(field)) continue;
    step.id = field.id;
    step.name = field.name;
    step.type = &type;
    step.null_branch = null_branch;
    step.required = field.required;
  }
  return steps;
}

bool All(const Known&) { return true; }

const Step* FindStep(const std::vector<Step>& steps, int id) {
  for (const Step& step : steps) {
    if (step.id == id) return &step;
  }
  return nullptr;
}

// Whether there is a value to read; it is skipped if it is not wanted.
bool Enter(const Step& step, AvroDecoder& in) {
  if (step.id == kSkip) {
    in.Skip(*step.type);
    return false;
  }
  if (step.null_branch < 0) return true;
  const int64_t branch = in.Long();
  if (branch == 1 - step.null_branch) return true;
  if (branch != step.null_branch) {
    in.SetProblem("a union branch that the schema lacks");
  } else if (step.required) {
    in.SetProblem("it is null");
  }
  return false;
}

int64_t NotNegative(AvroDecoder& in) {
  const int64_t value = in.Long();
  if (value < 0) in.SetProblem("it is negative");
  return value;
}

template <typename T>
void SortByField(ByField<T>& map) {
  const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
  if (std::is_sorted(map.begin(), map.end(), less) &&
      std::adjacent_find(map.begin(), map.end(), [](const auto& a, const auto& b) {
        return a.first == b.first;
      }) == map.end()) {
    return;
  }
  // The last of equal keys counts, as when a map is filled in order.
  std::reverse(map.begin(), map.end());
  std::stable_sort(map.begin(), map.end(), less);
  map.erase(std::unique(map.begin(), map.end(),
                        [](const auto& a, const auto& b) { return a.first == b.first; }),
            map.end());
}

bool ItemPresent(const Step& step, AvroDecoder& in) {
  if (step.item_null_branch < 0) return true;
  const int64_t branch = in.Long();
  if (branch != 0 && branch != 1) in.SetProblem("a union branch that the schema lacks");
  return branch == 1 - step.item_null_branch;
}

bool IsWanted(const std::vector<int>* only, int32_t id) {
  return only == nullptr || std::find(only->begin(), only->end(), id) != only->end();
}

// Only those of `only`, or all if it is null.
void ReadCounts(const Step& step, AvroDecoder& in, const std::vector<int>* only,
                ByField<int64_t>& out) {
  while (int64_t count = in.BlockCount(*step.type->children[0])) {
    if (only == nullptr) out.reserve(out.size() + static_cast<size_t>(count));
    for (; count > 0 && in.ok(); --count) {
      const int32_t id = in.Int();
      if (!ItemPresent(step, in)) continue;
      const int64_t value = in.Long();
      if (IsWanted(only, id)) out.emplace_back(id, value);
    }
  }
  SortByField(out);
}

// The same of bounds.
void ReadBounds(const Step& step, AvroDecoder& in, const std::vector<int>* only,
                ByField<std::string>& out) {
  while (int64_t count = in.BlockCount(*step.type->children[0])) {
    if (only == nullptr) out.reserve(out.size() + static_cast<size_t>(count));
    for (; count > 0 && in.ok(); --count) {
      const int32_t id = in.Int();
      if (!ItemPresent(step, in)) continue;
      const std::string_view bytes = in.Bytes();
      if (IsWanted(only, id)) out.emplace_back(id, bytes);
    }
  }
  SortByField(out);
}

template <typename T>
void ReadNumbers(const Step& step, AvroDecoder& in, std::vector<T>& out) {
  while (int64_t count = in.BlockCount(*step.type->children[0])) {
    out.reserve(out.size() + static_cast<size_t>(count));
    for (; count > 0 && in.ok(); --count) {
      if constexpr (sizeof(T) == 4) {
        out.push_back(in.Int());
      } else {
        out.push_back(in.Long());
      }
    }
  }
}

Result<AvroReader> OpenFile(std::string_view bytes) {
  if (bytes.starts_with("AGS1")) {
    return Fail(Code::kUnsupported, "the file is encrypted (AES GCM stream)");
  }
  return AvroReader::Open(bytes);
}

std::string EntryName(int64_t index, std::string_view field) {
  return "entry " + std::to_string(index) + ", field " + std::string(field);
}

// --- partition tuples --------------------------------------------------------------------------

std::string TypeText(const AvroType& type) {
  std::string text(AvroKindName(type.kind));
  if (!type.logical_type.empty()) text += " (" + type.logical_type.substr(0, 40) + ")";
  return text;
}

// How a value of the partition tuple becomes one of the model.
enum class Convert {
  kNone,  // The field is not of the spec, or void.
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kFloatToDouble,
  kDouble,
  kText,
  kFixed,
  kDecimal,      // Fixed.
  kDecimalText,  // With a length.
  kUuidText,
  kDateToMicros,
  kDateToNanos,
};

struct PartitionStep {
  Convert convert = Convert::kNone;
  size_t target = 0;  // Index into the tuple.
  const AvroType* type = nullptr;
  int null_branch = -1;
};

bool TypeFromAvro(const AvroType& avro, Type* type) {
  const std::string& logical = avro.logical_type;
  switch (avro.kind) {
    case AvroKind::kNull: type->kind = TypeKind::kUnknown; return true;
    case AvroKind::kBoolean: type->kind = TypeKind::kBoolean; return true;
    case AvroKind::kInt:
      type->kind = logical == "date" ? TypeKind::kDate : TypeKind::kInt;
      return true;
    case AvroKind::kLong:
      type->kind = TypeKind::kLong;
      if (logical == "time-micros") type->kind = TypeKind::kTime;
      if (logical == "local-timestamp-micros") type->kind = TypeKind::kTimestamp;
      if (logical == "local-timestamp-nanos") type->kind = TypeKind::kTimestampNs;
      if (logical == "timestamp-micros") {
        type->kind = avro.adjust_to_utc ? TypeKind::kTimestamptz : TypeKind::kTimestamp;
      }
      if (logical == "timestamp-nanos") {
        type->kind = avro.adjust_to_utc ? TypeKind::kTimestamptzNs : TypeKind::kTimestampNs;
      }
      return true;
    case AvroKind::kFloat: type->kind = TypeKind::kFloat; return true;
    case AvroKind::kDouble: type->kind = TypeKind::kDouble; return true;
    case AvroKind::kString:
      type->kind = logical == "uuid" ? TypeKind::kUuid : TypeKind::kString;
      return true;
    case AvroKind::kBytes:
    case AvroKind::kFixed:
      if (logical == "decimal" && avro.precision > 0 && avro.precision <= 38 && avro.scale >= 0 &&
          avro.scale <= avro.precision) {
        type->kind = TypeKind::kDecimal;
        type->precision = avro.precision;
        type->scale = avro.scale;
      } else if (avro.kind == AvroKind::kBytes) {
        type->kind = TypeKind::kBinary;
      } else if (logical == "uuid" && avro.fixed_size == 16) {
        type->kind = TypeKind::kUuid;
      } else {
        type->kind = TypeKind::kFixed;
        type->length = static_cast<int>(avro.fixed_size);
      }
      return true;
    default: return false;
  }
}

// kNone: the Avro type does not fit.
Convert ConvertTo(const Type& type, const AvroType& avro) {
  const AvroKind kind = avro.kind;
  const bool fixed = kind == AvroKind::kFixed;
  switch (type.kind) {
    case TypeKind::kBoolean: return kind == AvroKind::kBoolean ? Convert::kBoolean : Convert::kNone;
    case TypeKind::kInt:
    case TypeKind::kDate: return IsNumber(avro) ? Convert::kInt : Convert::kNone;
    case TypeKind::kTimestamp:
      if (kind == AvroKind::kInt) return Convert::kDateToMicros;
      return kind == AvroKind::kLong ? Convert::kLong : Convert::kNone;
    case TypeKind::kTimestampNs:
      if (kind == AvroKind::kInt) return Convert::kDateToNanos;
      return kind == AvroKind::kLong ? Convert::kLong : Convert::kNone;
    case TypeKind::kLong: return IsNumber(avro) ? Convert::kLong : Convert::kNone;
    case TypeKind::kTime:
    case TypeKind::kTimestamptz:
    case TypeKind::kTimestamptzNs: return kind == AvroKind::kLong ? Convert::kLong : Convert::kNone;
    case TypeKind::kFloat: return kind == AvroKind::kFloat ? Convert::kFloat : Convert::kNone;
    case TypeKind::kDouble:
      if (kind == AvroKind::kFloat) return Convert::kFloatToDouble;
      return kind == AvroKind::kDouble ? Convert::kDouble : Convert::kNone;
    case TypeKind::kDecimal:
      if (kind == AvroKind::kBytes) return Convert::kDecimalText;
      return fixed ? Convert::kDecimal : Convert::kNone;
    case TypeKind::kUuid:
      if (kind == AvroKind::kString) return Convert::kUuidText;
      return fixed && avro.fixed_size == 16 ? Convert::kFixed : Convert::kNone;
    case TypeKind::kFixed:
      return fixed && avro.fixed_size == type.length ? Convert::kFixed : Convert::kNone;
    case TypeKind::kString:
    case TypeKind::kBinary: return IsText(avro) ? Convert::kText : Convert::kNone;
    default: return Convert::kNone;
  }
}

struct PartitionPlan {
  std::vector<Type> types;           // One per field of the spec.
  std::vector<PartitionStep> steps;  // One per field of the Avro record.
};

// The type of one partition field; `avro` is null if the manifest does not have the field.
Result<Type> PartitionType(const iceberg::PartitionField& field, const Transform& transform,
                           const iceberg::Schema& schema, const AvroType* avro) {
  Type type;
  if (field.source_ids.size() == 1 && transform.kind != Transform::Kind::kUnknown) {
    if (const iceberg::Field* source = iceberg::FindField(schema, field.source_ids[0])) {
      return TransformedType(transform, source->type);
    }
  }
  if (avro != nullptr && !TypeFromAvro(*avro, &type)) {
    return Bad("partition field " + JsonQuote(field.name) + " has the Avro type " +
               TypeText(*avro));
  }
  return type;
}

Result<PartitionPlan> CompilePartition(const AvroType* record, const iceberg::PartitionSpec& spec,
                                       const iceberg::Schema& schema) {
  PartitionPlan plan;
  static const std::vector<AvroField> kNone;
  const std::vector<AvroField>& fields = record == nullptr ? kNone : record->fields;
  for (const AvroField& field : fields) {
    plan.steps.push_back({Convert::kNone, 0, field.type, -1});
  }
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    const iceberg::PartitionField& field = spec.fields[i];
    const Transform transform = ParseTransform(field.transform);
    const bool is_void = transform.kind == Transform::Kind::kVoid;
    const AvroField* found = Match(fields, field.field_id, field.name);
    if (found == nullptr && !is_void && transform.kind != Transform::Kind::kUnknown) {
      return Bad("the Avro schema has no partition field " + JsonQuote(field.name) + " (" +
                 std::to_string(field.field_id) + ")");
    }
    int null_branch = -1;
    const AvroType* avro = found == nullptr ? nullptr : &Beneath(*found->type, &null_branch);
    LITHIFY_TRY_ASSIGN(Type type, PartitionType(field, transform, schema, avro));
    plan.types.push_back(type);
    if (avro == nullptr || is_void || avro->kind == AvroKind::kNull) continue;
    PartitionStep& step = plan.steps[static_cast<size_t>(found - fields.data())];
    step = {ConvertTo(type, *avro), i, avro, null_branch};
    if (step.convert == Convert::kNone) {
      return Bad("partition field " + JsonQuote(field.name) + " has the Avro type " +
                 TypeText(*avro) + ", which does not fit the table's schema");
    }
  }
  return plan;
}

Value ReadDecimal(std::string_view bytes, AvroDecoder& in) {
  Type type;
  type.kind = TypeKind::kDecimal;
  Result<Value> value = ValueFromBytes(type, bytes);
  if (!value) return in.SetProblem("a decimal of no or too many bytes"), Value();
  return std::move(*value);
}

Value DateTo(int64_t per_day, AvroDecoder& in) {
  int64_t units = 0;
  if (__builtin_mul_overflow(int64_t{in.Int()}, per_day, &units)) {
    in.SetProblem("a date beyond the range of timestamps");
  }
  return units;
}

Value ReadUuidText(AvroDecoder& in) {
  Type type;
  type.kind = TypeKind::kUuid;
  Result<Value> value = ParseValue(type, in.Bytes());
  if (!value) return in.SetProblem("it is no UUID"), Value();
  return std::move(*value);
}

void ReadPartitionValue(const PartitionStep& step, AvroDecoder& in, Value& out) {
  constexpr int64_t kMicrosPerDay = 86'400'000'000;
  switch (step.convert) {
    case Convert::kNone: return;
    case Convert::kBoolean: out = in.Boolean(); return;
    case Convert::kInt: out = int64_t{in.Int()}; return;
    case Convert::kLong: out = in.Long(); return;
    case Convert::kFloat: out = in.Float(); return;
    case Convert::kFloatToDouble: out = static_cast<double>(in.Float()); return;
    case Convert::kDouble: out = in.Double(); return;
    case Convert::kText: out = std::string(in.Bytes()); return;
    case Convert::kFixed:
      out = std::string(in.Fixed(static_cast<uint64_t>(step.type->fixed_size)));
      return;
    case Convert::kDecimal:
      out = ReadDecimal(in.Fixed(static_cast<uint64_t>(step.type->fixed_size)), in);
      return;
    case Convert::kDecimalText: out = ReadDecimal(in.Bytes(), in); return;
    case Convert::kUuidText: out = ReadUuidText(in); return;
    case Convert::kDateToMicros: out = DateTo(kMicrosPerDay, in); return;
    case Convert::kDateToNanos: out = DateTo(kMicrosPerDay * 1000, in); return;
  }
}

void ReadPartition(const PartitionPlan& plan, AvroDecoder& in, std::vector<Value>& out) {
  for (const PartitionStep& step : plan.steps) {
    if (step.convert == Convert::kNone) {
      in.Skip(*step.type);
      continue;
    }
    if (step.null_branch >= 0) {
      const int64_t branch = in.Long();
      if (branch == step.null_branch) continue;
      if (branch != 1 - step.null_branch) {
        return in.SetProblem("a union branch that the schema lacks");
      }
    }
    ReadPartitionValue(step, in, out[step.target]);
  }
}

// --- manifests ---------------------------------------------------------------------------------

struct ManifestPlan {
  std::vector<Step> entry;
  std::vector<Step> file;
  PartitionPlan partition;
  bool no_sequence_numbers = false;  // Written as v1: all are 0.
};

Result<ManifestPlan> CompileManifest(const AvroType& root, const ManifestReadOptions& options,
                                     const iceberg::PartitionSpec& spec,
                                     const iceberg::Schema& schema) {
  if (root.kind != AvroKind::kRecord) return Bad("the Avro schema is no record");
  ManifestPlan plan;
  LITHIFY_TRY_ASSIGN(plan.entry, Compile(root, kEntryFields, All));
  const auto wanted = [&](const Known& field) {
    if (options.metrics) return true;
    if (field.shape == Shape::kBounds) return !options.bounds_of.empty();
    if (field.id == 110 || field.id == 137) return options.null_counts;
    return field.shape != Shape::kCounts;
  };
  const AvroType& file = *FindStep(plan.entry, 2)->type;
  LITHIFY_TRY_ASSIGN(plan.file, Compile(file, kFileFields, wanted));
  const Step* partition = FindStep(plan.file, 102);
  LITHIFY_TRY_ASSIGN(
      plan.partition,
      CompilePartition(partition == nullptr ? nullptr : partition->type, spec, schema));
  return plan;
}

// What an entry may leave to inheritance.
struct Stated {
  bool snapshot_id = false;
  bool sequence_number = false;
  bool file_sequence_number = false;
};

class EntryReader {
 public:
  EntryReader(const ManifestPlan& plan, const ManifestFile& manifest,
              const ManifestReadOptions& options)
      : plan_(plan), manifest_(manifest), only_(options.metrics ? nullptr : &options.bounds_of) {}

  // Reads the next entry into entry(); false: the decoder tells the problem, field() where.
  bool Read(AvroDecoder& in) {
    Reset();
    for (const Step& step : plan_.entry) {
      field_ = step.name;
      if (Enter(step, in)) ReadEntryField(step.id, in);
      if (!in.ok()) return false;
    }
    return CheckVector(in) && Inherit(in);
  }

  ManifestEntry& entry() { return entry_; }
  std::string_view field() const { return field_; }

 private:
  void Reset();
  void ReadEntryField(int id, AvroDecoder& in);
  void ReadFile(AvroDecoder& in);
  void ReadFileNumber(const Step& step, AvroDecoder& in);
  bool CheckVector(AvroDecoder& in);
  bool Inherit(AvroDecoder& in);
  bool InheritRowId(AvroDecoder& in);

  const ManifestPlan& plan_;
  const ManifestFile& manifest_;
  const std::vector<int>* only_;
  ManifestEntry entry_;
  Stated stated_;
  std::string_view field_;
  int64_t row_ids_ = 0;  // Given out.
};

// Keeps the memory of strings and vectors that the visitor left.
void EntryReader::Reset() {
  stated_ = {};
  DataFile& file = entry_.file;
  file.content = FileContent::kData;
  file.spec_id = manifest_.partition_spec_id;
  file.partition.assign(plan_.partition.types.size(), Value());
  file.column_sizes.clear();
  file.value_counts.clear();
  file.null_value_counts.clear();
  file.nan_value_counts.clear();
  file.lower_bounds.clear();
  file.upper_bounds.clear();
  file.key_metadata.reset();
  file.split_offsets.clear();
  file.equality_ids.clear();
  file.sort_order_id.reset();
  file.first_row_id.reset();
  file.referenced_data_file.reset();
  file.content_offset.reset();
  file.content_size_in_bytes.reset();
}

void EntryReader::ReadEntryField(int id, AvroDecoder& in) {
  switch (id) {
    case 0: {
      const int64_t status = in.Long();
      if (status < 0 || status > 2) return in.SetProblem("it is not 0, 1 or 2");
      entry_.status = static_cast<EntryStatus>(status);
      return;
    }
    case 1:
      stated_.snapshot_id = true;
      entry_.snapshot_id = in.Long();
      return;
    case 2: return ReadFile(in);
    case 3:
      stated_.sequence_number = true;
      entry_.sequence_number = NotNegative(in);
      return;
    default:
      stated_.file_sequence_number = true;
      entry_.file_sequence_number = NotNegative(in);
      return;
  }
}

void EntryReader::ReadFile(AvroDecoder& in) {
  DataFile& file = entry_.file;
  for (const Step& step : plan_.file) {
    if (!in.ok()) return;  // With the name of the field before.
    field_ = step.name;
    if (!Enter(step, in)) continue;
    switch (step.id) {
      case 100:
        file.file_path = in.Bytes();
        if (file.file_path.empty()) in.SetProblem("it is empty");
        break;
      case 101:
        file.file_format = in.Bytes();
        for (char& c : file.file_format) {
          if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        }
        break;
      case 102: ReadPartition(plan_.partition, in, file.partition); break;
      case 108: ReadCounts(step, in, only_, file.column_sizes); break;
      case 109: ReadCounts(step, in, only_, file.value_counts); break;
      case 110: ReadCounts(step, in, only_, file.null_value_counts); break;
      case 137: ReadCounts(step, in, only_, file.nan_value_counts); break;
      case 125: ReadBounds(step, in, only_, file.lower_bounds); break;
      case 128: ReadBounds(step, in, only_, file.upper_bounds); break;
      case 131: file.key_metadata = in.Bytes(); break;
      case 132: ReadNumbers(step, in, file.split_offsets); break;
      case 135: ReadNumbers(step, in, file.equality_ids); break;
      case 143: file.referenced_data_file = in.Bytes(); break;
      default: ReadFileNumber(step, in);
    }
  }
}

void EntryReader::ReadFileNumber(const Step& step, AvroDecoder& in) {
  DataFile& file = entry_.file;
  switch (step.id) {
    case 134: {
      const int64_t content = in.Long();
      if (content < 0 || content > 2) return in.SetProblem("it is not 0, 1 or 2");
      file.content = static_cast<FileContent>(content);
      return;
    }
    case 103:
      file.record_count = in.Long();
      if (file.record_count < -1) in.SetProblem("it is negative");
      return;
    case 104: file.file_size_in_bytes = NotNegative(in); return;
    case 140: file.sort_order_id = in.Int(); return;
    case 142: file.first_row_id = NotNegative(in); return;
    case 144: file.content_offset = NotNegative(in); return;
    default: file.content_size_in_bytes = NotNegative(in); return;
  }
}

// Without any one of these nobody can tell which rows of which file a deletion vector deletes
// [Deletion Vectors]: taken for a delete of offset 0, or of no file, it would bring rows back.
bool EntryReader::CheckVector(AvroDecoder& in) {
  const DataFile& file = entry_.file;
  if (!file.deletion_vector()) return true;
  if (file.referenced_data_file.value_or("").empty()) {
    field_ = "referenced_data_file";
  } else if (!file.content_offset) {
    field_ = "content_offset";
  } else if (!file.content_size_in_bytes) {
    field_ = "content_size_in_bytes";
  } else {
    return true;
  }
  in.SetProblem("a deletion vector without it");
  return false;
}

// [Sequence Number Inheritance]
bool EntryReader::Inherit(AvroDecoder& in) {
  if ((entry_.file.content == FileContent::kData) !=
      (manifest_.content == ManifestContent::kData)) {
    field_ = "content";
    in.SetProblem("data and delete files in one manifest");
    return false;
  }
  if (!stated_.snapshot_id) entry_.snapshot_id = manifest_.added_snapshot_id;
  if (plan_.no_sequence_numbers) {
    entry_.sequence_number = entry_.file_sequence_number = 0;
    return InheritRowId(in);
  }
  if (!stated_.sequence_number) {
    if (entry_.status == EntryStatus::kExisting && manifest_.sequence_number != 0) {
      field_ = "sequence_number";
      in.SetProblem("it is null for an existing file");
      return false;
    }
    entry_.sequence_number = manifest_.sequence_number;
  }
  if (!stated_.file_sequence_number) {
    // Early writers of v2 did not have the field: a file is at least as new as its data.
    entry_.file_sequence_number =
        entry_.status == EntryStatus::kAdded ? manifest_.sequence_number : entry_.sequence_number;
  }
  return InheritRowId(in);
}

// [First Row ID Inheritance]
bool EntryReader::InheritRowId(AvroDecoder& in) {
  DataFile& file = entry_.file;
  if (!manifest_.first_row_id || file.content != FileContent::kData) {
    file.first_row_id.reset();
    return true;
  }
  if (file.first_row_id || entry_.status == EntryStatus::kDeleted) return true;
  int64_t first = 0;
  if (__builtin_add_overflow(*manifest_.first_row_id, row_ids_, &first) ||
      __builtin_add_overflow(row_ids_, std::max(file.record_count, int64_t{0}), &row_ids_)) {
    field_ = "first_row_id";
    in.SetProblem("row ids beyond 64 bits");
    return false;
  }
  file.first_row_id = first;
  return true;
}

// The header must not contradict what the manifest list says.
Status CheckHeader(const AvroReader& reader, const ManifestFile& manifest) {
  const std::string_view content = reader.Metadata("content");
  const std::string_view expected = manifest.content == ManifestContent::kData ? "data" : "deletes";
  if (!content.empty() && content != expected) {
    return Bad("its header says content " + JsonQuote(content.substr(0, 40)) +
               ", the manifest list says " + std::string(expected));
  }
  const auto number = [&](const std::string& key) -> std::optional<int> {
    const std::string_view text = reader.Metadata(key);
    int value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  };
  if (const std::optional<int> version = number("format-version"); version && *version > 3) {
    return Fail(Code::kUnsupported, "format version " + std::to_string(*version));
  }
  const std::optional<int> spec_id = number("partition-spec-id");
  if (spec_id && *spec_id != manifest.partition_spec_id) {
    return Bad("its header says partition spec " + std::to_string(*spec_id) +
               ", the manifest list says " + std::to_string(manifest.partition_spec_id));
  }
  return {};
}

struct OpenManifest {
  AvroReader reader;
  ManifestPlan plan;
};

Result<OpenManifest> Open(std::string_view bytes, const ManifestFile& manifest,
                          const iceberg::TableMetadata& table, const ManifestReadOptions& options) {
  if (manifest.key_metadata) {
    return Fail(Code::kUnsupported, "the manifest is encrypted");
  }
  const iceberg::PartitionSpec* spec = table.FindSpec(manifest.partition_spec_id);
  if (spec == nullptr) {
    return Bad("the table has no partition spec " + std::to_string(manifest.partition_spec_id));
  }
  if (static_cast<int64_t>(bytes.size()) < manifest.manifest_length) {
    return Bad("it has " + std::to_string(bytes.size()) + " bytes, the manifest list says " +
               std::to_string(manifest.manifest_length) + ": it was cut short");
  }
  LITHIFY_TRY_ASSIGN(AvroReader reader, OpenFile(bytes));
  LITHIFY_TRY(CheckHeader(reader, manifest));
  LITHIFY_TRY_ASSIGN(ManifestPlan plan,
                     CompileManifest(reader.schema().root(), options, *spec, table.schema()));
  const std::string_view version = reader.Metadata("format-version");
  plan.no_sequence_numbers =
      (version.empty() || version == "1") && FindStep(plan.entry, 3) == nullptr;
  return OpenManifest{std::move(reader), std::move(plan)};
}

Status CheckCount(const ManifestFile& manifest, int64_t entries) {
  if (!manifest.added_files_count || !manifest.existing_files_count ||
      !manifest.deleted_files_count) {
    return {};
  }
  int64_t claimed = 0;
  if (__builtin_add_overflow(*manifest.added_files_count, *manifest.existing_files_count,
                             &claimed) ||
      __builtin_add_overflow(claimed, *manifest.deleted_files_count, &claimed) ||
      entries < claimed) {
    return Bad("it has " + std::to_string(entries) +
               " entries, fewer than the manifest list claims: it may have been cut short");
  }
  return {};
}

Status Visit(OpenManifest& open, const ManifestFile& manifest, const ManifestReadOptions& options,
             const std::function<Status(ManifestEntry&&)>& visit) {
  EntryReader entries(open.plan, manifest, options);
  int64_t index = 0;
  while (true) {
    LITHIFY_TRY_ASSIGN(const std::optional<AvroReader::Block> block, open.reader.NextBlock());
    if (!block) break;
    AvroDecoder in(block->bytes);
    for (int64_t i = 0; i < block->records; ++i, ++index) {
      if (!entries.Read(in)) return Bad(EntryName(index, entries.field()) + ": " + in.problem());
      if (options.live_only && entries.entry().status == EntryStatus::kDeleted) continue;
      LITHIFY_TRY(visit(std::move(entries.entry())));
    }
    if (in.remaining() > 0) return Bad("bytes are left after entry " + std::to_string(index - 1));
  }
  return CheckCount(manifest, index);
}

// --- manifest lists ----------------------------------------------------------------------------

struct ListPlan {
  std::vector<Step> manifest;
  std::vector<Step> summary;
};

void ReadSummaries(const Step& step, const std::vector<Step>& plan, AvroDecoder& in,
                   std::string_view* field, std::vector<iceberg::FieldSummary>& out) {
  while (int64_t count = in.BlockCount(*step.type->children[0])) {
    for (; count > 0 && in.ok(); --count) {
      iceberg::FieldSummary& summary = out.emplace_back();
      for (const Step& inner : plan) {
        if (!in.ok()) return;
        *field = inner.name;
        if (!Enter(inner, in)) continue;
        if (inner.id == 509) summary.contains_null = in.Boolean();
        if (inner.id == 518) summary.contains_nan = in.Boolean();
        if (inner.id == 510) summary.lower_bound = in.Bytes();
        if (inner.id == 511) summary.upper_bound = in.Bytes();
      }
    }
  }
}

void ReadListNumber(int id, AvroDecoder& in, ManifestFile& out) {
  switch (id) {
    case 501: out.manifest_length = NotNegative(in); return;
    case 502: out.partition_spec_id = in.Int(); return;
    case 517: {
      const int64_t content = in.Long();
      if (content != 0 && content != 1) return in.SetProblem("it is not 0 or 1");
      out.content = static_cast<ManifestContent>(content);
      return;
    }
    case 515: out.sequence_number = NotNegative(in); return;
    case 516: out.min_sequence_number = NotNegative(in); return;
    case 503: out.added_snapshot_id = in.Long(); return;
    case 504: out.added_files_count = NotNegative(in); return;
    case 505: out.existing_files_count = NotNegative(in); return;
    case 506: out.deleted_files_count = NotNegative(in); return;
    case 512: out.added_rows_count = in.Long(); return;
    case 513: out.existing_rows_count = in.Long(); return;
    case 514: out.deleted_rows_count = in.Long(); return;
    default: out.first_row_id = NotNegative(in); return;
  }
}

// The name of the field that was read last goes to `field`.
void ReadManifestFile(const ListPlan& plan, AvroDecoder& in, std::string_view* field,
                      ManifestFile& out) {
  for (const Step& step : plan.manifest) {
    if (!in.ok()) return;
    *field = step.name;
    if (!Enter(step, in)) continue;
    if (step.id == 500) {
      out.manifest_path = in.Bytes();
      if (out.manifest_path.empty()) in.SetProblem("it is empty");
    } else if (step.id == 507) {
      ReadSummaries(step, plan.summary, in, field, out.partitions);
    } else if (step.id == 519) {
      out.key_metadata = in.Bytes();
    } else {
      ReadListNumber(step.id, in, out);
    }
  }
}

Result<ListPlan> CompileList(const AvroType& root) {
  if (root.kind != AvroKind::kRecord) return Bad("the Avro schema is no record");
  ListPlan plan;
  LITHIFY_TRY_ASSIGN(plan.manifest, Compile(root, kListFields, All));
  if (const Step* partitions = FindStep(plan.manifest, 507)) {
    LITHIFY_TRY_ASSIGN(plan.summary, Compile(*partitions->type->children[0], kSummaryFields, All));
  }
  return plan;
}

Result<std::vector<ManifestFile>> ReadList(std::string_view bytes) {
  LITHIFY_TRY_ASSIGN(AvroReader reader, OpenFile(bytes));
  LITHIFY_TRY_ASSIGN(const ListPlan plan, CompileList(reader.schema().root()));
  std::vector<ManifestFile> manifests;
  while (true) {
    LITHIFY_TRY_ASSIGN(const std::optional<AvroReader::Block> block, reader.NextBlock());
    if (!block) break;
    AvroDecoder in(block->bytes);
    for (int64_t i = 0; i < block->records; ++i) {
      std::string_view field;
      ReadManifestFile(plan, in, &field, manifests.emplace_back());
      if (!in.ok()) {
        return Bad(EntryName(static_cast<int64_t>(manifests.size()) - 1, field) + ": " +
                   in.problem());
      }
    }
    if (in.remaining() > 0) return Bad("bytes are left after the last manifest of a block");
  }
  return manifests;
}

}  // namespace

Result<std::vector<ManifestFile>> ReadManifestList(std::string_view bytes, std::string_view where) {
  Result<std::vector<ManifestFile>> manifests = ReadList(bytes);
  if (!manifests) return Fail(std::move(manifests.error()).In(where));
  return manifests;
}

Status ReadManifest(std::string_view bytes, const ManifestFile& manifest,
                    const iceberg::TableMetadata& table, const ManifestReadOptions& options,
                    const std::function<Status(ManifestEntry&&)>& visit) {
  Result<OpenManifest> open = Open(bytes, manifest, table, options);
  if (!open) return Fail(std::move(open.error()).In(manifest.manifest_path));
  Status status = Visit(*open, manifest, options, visit);
  if (!status) return Fail(std::move(status.error()).In(manifest.manifest_path));
  return {};
}

Result<std::vector<Type>> ManifestPartitionTypes(std::string_view bytes,
                                                 const ManifestFile& manifest,
                                                 const iceberg::TableMetadata& table) {
  Result<OpenManifest> open = Open(bytes, manifest, table, {});
  if (!open) return Fail(std::move(open.error()).In(manifest.manifest_path));
  return std::move(open->plan.partition.types);
}

}  // namespace lithify::table
