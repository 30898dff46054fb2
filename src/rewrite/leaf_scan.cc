#include "rewrite/leaf_scan.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/column_reader.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "rewrite/footer.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;
using iceberg::Int128;
using iceberg::NameMapping;
using iceberg::Type;
using iceberg::TypeKind;
using parquet::schema::GroupNode;
using parquet::schema::Node;

constexpr int kEmptyPagesMax = 10'000;
constexpr const char* kRestoreHint = "restore the file from a backup or from its source";

// ------------------------------------------------------------------------------------- files

// The name of a format that is not read here, by its magic number.
std::string_view OtherFormat(arrow::io::RandomAccessFile& file, int64_t size) {
  std::array<char, 4> magic{};
  if (size < 4) return {};
  const auto got = file.ReadAt(0, 4, magic.data());
  if (!got.ok() || *got != 4) return {};
  const std::string_view text(magic.data(), magic.size());
  if (text == std::string_view("Obj\1", 4)) return "Avro";
  if (text.starts_with("ORC")) return "ORC";
  if (text == "PFA1") return "Puffin";
  return {};
}

// Chunks go through a small buffer of the bounded pool, so that the bound holds for chunks of any
// size.
int64_t ReadBytes(const BoundedPool& pool, bool cheap) {
  return std::clamp(pool.bytes_max() / 32, 16 * kKiB, cheap ? kMiB : 4 * kMiB);
}

// Of a file that is read whole where its parts would be requests of their own.
int64_t WholeBytes(const BoundedPool& pool, ScanReading reading) {
  // With few bytes to save, a second request costs as many.
  constexpr int64_t kSmallBytes = 16 * kKiB;
  return std::min(pool.bytes_max() / 8,
                  reading == ScanReading::kFewBytes ? kSmallBytes : kWholeBytes);
}

// A footer of few row groups and columns, as files of deletes have it.
constexpr int64_t kFewFooterBytes = 4 * kKiB;

int64_t FirstFooterBytes(const storage::Store& store, int64_t size, ScanReading reading) {
  const bool few = reading == ScanReading::kFewBytes && !store.small_reads_are_cheap();
  return few ? kFewFooterBytes : FooterReadBytes(store, size);
}

// By as few requests as there can be, where reads are requests. Sets the size if it is -1.
Result<std::shared_ptr<arrow::io::RandomAccessFile>> OpenToScan(ReaderCache& cache,
                                                                const std::string& key,
                                                                int64_t& size, BoundedPool& pool,
                                                                const CancelFlag* cancel,
                                                                ScanReading reading) {
  const bool cheap = cache.store().small_reads_are_cheap();
  const int64_t whole_bytes = WholeBytes(pool, reading);
  if (size < 0 && !cheap && reading == ScanReading::kFewRequests) {
    auto blob = cache.store().Get(key, whole_bytes);
    if (blob) {
      size = std::ssize(blob->bytes);
      auto bytes = arrow::AllocateBuffer(size, pool.hard());
      if (!bytes.ok()) return Fail(FromArrow(bytes.status()));
      std::ranges::copy(blob->bytes, (*bytes)->mutable_data());
      return std::make_shared<arrow::io::BufferReader>(std::move(*bytes));
    }
    if (blob.error().code != Code::kLimit) return Fail(std::move(blob.error()));
  }
  if (size < 0) {
    LITHIFY_TRY_ASSIGN(const auto opened, cache.Get(key));
    size = opened->size();
  }
  const storage::ObjectInfo object{.key = key, .size = size};
  if (!cheap && size <= whole_bytes) {
    return ReadArrowFile(cache.store(), object, pool.hard(), cancel);
  }
  return MakeArrowFile(cache, object, cancel);
}

// ------------------------------------------------------------------------------------ schema

bool Descend(const std::vector<Field>& fields, int field_id, std::vector<const Field*>& path,
             bool& repeated) {
  for (const Field& field : fields) {
    path.push_back(&field);
    if (field.id == field_id) return true;
    const bool nested = field.type.kind == TypeKind::kList || field.type.kind == TypeKind::kMap;
    if (Descend(field.type.fields, field_id, path, repeated)) {
      repeated = repeated || nested;
      return true;
    }
    path.pop_back();
  }
  return false;
}

bool HasFieldIds(const Node& node) {
  if (node.field_id() >= 0) return true;
  if (!node.is_group()) return false;
  const auto& group = static_cast<const GroupNode&>(node);
  for (int i = 0; i < group.field_count(); ++i) {
    if (HasFieldIds(*group.field(i))) return true;
  }
  return false;
}

const NameMapping* MappingOf(const std::vector<NameMapping>& mapping, int field_id) {
  const auto found =
      std::ranges::find_if(mapping, [&](const NameMapping& m) { return m.field_id == field_id; });
  return found == mapping.end() ? nullptr : &*found;
}

// The child of `group` that is `field`, or null.
Result<const Node*> Child(const GroupNode& group, const Field& field, bool by_id,
                          const NameMapping* mapping) {
  const Node* found = nullptr;
  for (int i = 0; i < group.field_count(); ++i) {
    const Node& node = *group.field(i);
    const bool same = by_id
                          ? node.field_id() == field.id
                          : mapping != nullptr && std::ranges::find(mapping->names, node.name()) !=
                                                      mapping->names.end();
    if (!same) continue;
    if (found != nullptr) {
      return Fail(Code::kCorrupt,
                  "two columns of the file are the field with id " + std::to_string(field.id),
                  "column " + field.name);
    }
    found = &node;
  }
  return found;
}

// ----------------------------------------------------------------------------------- cursors

// NaN equals NaN; zeros of different sign differ, as they do for Java readers.
template <typename T>
int64_t FloatWord(T value) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
  return static_cast<int64_t>(uint64_t{std::bit_cast<Bits>(value)});
}

template <typename DType>
class TypedCursor final : public LeafCursor {
  using T = typename DType::c_type;

 public:
  TypedCursor(const ScanFile& file, int column, const LeafReading& reading)
      : file_(file),
        column_(column),
        reading_(reading),
        descriptor_(*file.footer->schema().Column(column)),
        definition_(kRowsMax),
        values_(std::make_unique<T[]>(kRowsMax)) {
    Allocate(reading.form);
  }

  Status OpenGroup(int group) override {
    at_ = end_ = 0;
    reader_.reset();
    rows_left_ = file_.footer->row_group(group).num_rows;
    if (rows_left_ == 0) return {};
    const int64_t values = file_.footer->Chunk(group, column_).num_values;
    if (values != rows_left_) {
      return Fail(Damaged("has " + std::to_string(values) + " values in a row group " + "of " +
                          std::to_string(rows_left_) + " rows"));
    }
    reader_ = std::static_pointer_cast<parquet::TypedColumnReader<DType>>(
        ReadColumn(file_.Pages(), group, column_));
    return {};
  }

  Status Fill() override {
    if (available() > 0 || rows_left_ == 0) return {};
    at_ = end_ = 0;
    // Arrow reports an empty page as the end; writers do make them.
    for (int empty_pages = 0; empty_pages < kEmptyPagesMax; ++empty_pages) {
      const int64_t wanted = std::min<int64_t>(kRowsMax, rows_left_);
      int64_t values = 0;
      const int64_t rows =
          reader_->ReadBatch(wanted, definition_.data(), nullptr, values_.get(), &values);
      if (rows == 0) continue;
      return Take(rows, values);
    }
    return Fail(Damaged("ends before its row group does"));
  }

  Status CloseGroup() override {
    if (rows_left_ > 0 || available() > 0) return Fail(Damaged("was not read to its end"));
    if (reader_ != nullptr && reader_->HasNext()) {
      return Fail(Damaged("has more values than rows"));
    }
    reader_.reset();
    return {};
  }

 private:
  Error Damaged(const std::string& why) const {
    return Error{Code::kCorrupt, why, "column " + descriptor_.path()->ToDotString(), kRestoreHint};
  }

  // Spreads the values over the rows; null rows keep what they had.
  Status Take(int64_t rows, int64_t values) {
    const int16_t max = descriptor_.max_definition_level();
    const auto n = static_cast<size_t>(rows);
    if (max == 0) {
      std::fill_n(valid_.begin(), n, uint8_t{1});
    } else {
      for (size_t i = 0; i < n; ++i) valid_[i] = definition_[i] == max ? 1 : 0;
    }
    // A damaged page may decode fewer values than its levels announce, and Arrow does not say so.
    if (std::count(valid_.begin(), valid_.begin() + rows, 1) != values) {
      return Fail(Damaged("has a page with other values than its levels say"));
    }
    const T* next = values_.get();
    for (size_t i = 0; i < n; ++i) {
      if (valid_[i] != 0 && !Put(i, *next++)) {
        return Fail(Damaged("holds a value that its type in the table cannot hold"));
      }
    }
    end_ = n;
    rows_left_ -= rows;
    return {};
  }

  bool Put(size_t i, const T& value) {
    if constexpr (std::is_same_v<T, parquet::ByteArray> ||
                  std::is_same_v<T, parquet::FixedLenByteArray>) {
      return PutBytes(i, View(value));
    } else if constexpr (std::is_same_v<T, parquet::Int96>) {
      return PutWord(i, IntegerOf(reading_, value));
    } else if constexpr (std::is_floating_point_v<T>) {
      words_[i] = reading_.widen_float ? FloatWord(static_cast<double>(value)) : FloatWord(value);
      return true;
    } else if constexpr (std::is_same_v<T, bool>) {
      words_[i] = value ? 1 : 0;
      return true;
    } else {
      if (reading_.form == LeafForm::kDecimal) return PutDecimal(i, Int128{value});
      return PutWord(i, IntegerOf(reading_, value));
    }
  }

  std::string_view View(const parquet::ByteArray& value) const {
    return {reinterpret_cast<const char*>(value.ptr), value.len};
  }
  std::string_view View(const parquet::FixedLenByteArray& value) const {
    return {reinterpret_cast<const char*>(value.ptr),
            static_cast<size_t>(descriptor_.type_length())};
  }
  bool PutBytes(size_t i, std::string_view value) {
    if (reading_.form == LeafForm::kDecimal) return PutDecimal(i, DecimalFromBigEndian(value));
    bytes_[i] = value;
    return true;
  }
  bool PutDecimal(size_t i, std::optional<Int128> value) {
    if (value) value = DecimalOf(reading_, *value);
    if (value) decimals_[i] = *value;
    return value.has_value();
  }
  bool PutWord(size_t i, std::optional<int64_t> value) {
    if (value) words_[i] = *value;
    return value.has_value();
  }

  const ScanFile& file_;
  const int column_;
  const LeafReading reading_;
  const parquet::ColumnDescriptor& descriptor_;
  std::shared_ptr<parquet::TypedColumnReader<DType>> reader_;
  int64_t rows_left_ = 0;
  std::vector<int16_t> definition_;
  std::unique_ptr<T[]> values_;
};

class ConstantCursor final : public LeafCursor {
 public:
  ConstantCursor(const ScanFile& file, LeafForm form) : file_(file) {
    Allocate(form);
    std::ranges::fill(valid_, uint8_t{0});
  }
  void Set(int64_t word) {
    std::ranges::fill(valid_, uint8_t{1});
    std::ranges::fill(words_, word);
  }
  void Set(Int128 decimal) {
    std::ranges::fill(valid_, uint8_t{1});
    std::ranges::fill(decimals_, decimal);
  }
  void Set(const std::string& text) {
    std::ranges::fill(valid_, uint8_t{1});
    text_ = text;
    std::ranges::fill(bytes_, std::string_view(text_));
  }

  Status OpenGroup(int group) override {
    at_ = end_ = 0;
    rows_left_ = file_.footer->row_group(group).num_rows;
    return {};
  }
  Status Fill() override {
    if (available() > 0) return {};
    at_ = 0;
    end_ = static_cast<size_t>(std::min<int64_t>(kRowsMax, rows_left_));
    rows_left_ -= static_cast<int64_t>(end_);
    return {};
  }
  Status CloseGroup() override { return {}; }

 private:
  const ScanFile& file_;
  std::string text_;
  int64_t rows_left_ = 0;
};

template <typename DType>
std::unique_ptr<LeafCursor> Typed(const ScanFile& file, int column, const LeafReading& reading) {
  return std::make_unique<TypedCursor<DType>>(file, column, reading);
}

// False if the value is none of the type.
bool SetConstant(ConstantCursor& cursor, const Type& type, const iceberg::Value& value) {
  const LeafForm form = FormOf(type);
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (form == LeafForm::kBytes) cursor.Set(*text);
    return form == LeafForm::kBytes;
  }
  if (const auto* decimal = std::get_if<iceberg::Decimal>(&value)) {
    if (form == LeafForm::kDecimal) cursor.Set(decimal->unscaled);
    return form == LeafForm::kDecimal;
  }
  if (const auto* f = std::get_if<float>(&value)) {
    const bool wide = type.kind == TypeKind::kDouble;
    cursor.Set(wide ? FloatWord(static_cast<double>(*f)) : FloatWord(*f));
    return wide || type.kind == TypeKind::kFloat;
  }
  if (const auto* d = std::get_if<double>(&value)) {
    cursor.Set(FloatWord(*d));
    return type.kind == TypeKind::kDouble;
  }
  const bool whole =
      form == LeafForm::kWord && type.kind != TypeKind::kFloat && type.kind != TypeKind::kDouble;
  if (const auto* truth = std::get_if<bool>(&value)) {
    cursor.Set(int64_t{*truth ? 1 : 0});
    return type.kind == TypeKind::kBoolean;
  }
  const auto* integer = std::get_if<int64_t>(&value);
  if (integer != nullptr) cursor.Set(*integer);
  return integer != nullptr && whole && type.kind != TypeKind::kBoolean;
}

const iceberg::Value* ConstantOf(const InputFile& file, int field_id) {
  const auto found =
      std::ranges::find(file.constants, field_id, &std::pair<int, iceberg::Value>::first);
  return found == file.constants.end() ? nullptr : &found->second;
}

// What rows have in a column that their file lacks.
Result<iceberg::Value> ValueWithout(const InputFile& file, std::span<const Field* const> path,
                                    const LeafPlace& place) {
  const Field& leaf = *path.back();
  if (const iceberg::Value* constant = ConstantOf(file, leaf.id)) return *constant;
  const Field& lacking = *path[place.lacking];
  if (lacking.unsupported_default) {
    return Fail(Code::kUnsupported, "its default value is of a kind that is not understood",
                "column " + lacking.name);
  }
  // A struct that is lacking altogether is null, and so is what it holds.
  const bool struct_lacking = place.lacking + 1 < path.size();
  if (struct_lacking || !leaf.initial_default || iceberg::IsNull(*leaf.initial_default)) {
    return iceberg::Value();
  }
  if (place.below_optional) {
    return Fail(Code::kUnsupported, "it has a default value and lies in a struct that may be null",
                "column " + leaf.name);
  }
  return *leaf.initial_default;
}

}  // namespace

void LeafCursor::Allocate(LeafForm form) {
  valid_.resize(kRowsMax);
  switch (form) {
    case LeafForm::kWord: words_.resize(kRowsMax); break;
    case LeafForm::kDecimal: decimals_.resize(kRowsMax); break;
    case LeafForm::kBytes: bytes_.resize(kRowsMax); break;
  }
}

LeafForm FormOf(const Type& type) {
  switch (type.kind) {
    case TypeKind::kDecimal: return LeafForm::kDecimal;
    case TypeKind::kString:
    case TypeKind::kUuid:
    case TypeKind::kFixed:
    case TypeKind::kBinary: return LeafForm::kBytes;
    default: return LeafForm::kWord;
  }
}

Result<ScanFile> OpenScanFile(ReaderCache& cache, const std::string& key, int64_t size,
                              int64_t records, BoundedPool& pool, const CancelFlag* cancel,
                              ScanReading reading) {
  return GuardParquet(key, [&]() -> Result<ScanFile> {
    ScanFile scan;
    scan.key = key;
    LITHIFY_TRY_ASSIGN(auto file, OpenToScan(cache, key, size, pool, cancel, reading));
    FileKinds kinds;
    auto footer = ReadFooter(*file, size, kinds, FirstFooterBytes(cache.store(), size, reading));
    if (!footer) {
      const std::string_view other = OtherFormat(*file, size);
      if (footer.error().code != Code::kCorrupt || other.empty()) {
        return Fail(std::move(footer.error()));
      }
      return Fail(Code::kUnsupported, "the file is in the " + std::string(other) +
                                          " format; only Parquet is read here");
    }
    scan.footer = *footer;
    LITHIFY_TRY_ASSIGN(const std::string reason, UnsupportedReason(*scan.footer, size));
    if (!reason.empty()) return Fail(Code::kUnsupported, reason);
    if (records >= 0 && scan.footer->num_rows() != records) {
      return Fail(Code::kCorrupt,
                  "the file has " + std::to_string(scan.footer->num_rows()) +
                      " rows, the table's metadata says " + std::to_string(records),
                  "record_count", kRestoreHint);
    }
    scan.file = std::move(file);
    scan.size = size;
    scan.pool = pool.hard();
    scan.read_bytes = ReadBytes(pool, cache.store().small_reads_are_cheap());
    return scan;
  });
}

Result<std::vector<const Field*>> PathToField(const iceberg::Schema& schema, int field_id) {
  const std::string where = "field id " + std::to_string(field_id);
  std::vector<const Field*> path;
  bool repeated = false;
  if (!Descend(schema.fields, field_id, path, repeated)) {
    return Fail(Code::kUnsupported, "the table's schema has no column with this id", where);
  }
  const Type& type = path.back()->type;
  if (repeated) return Fail(Code::kUnsupported, "the column lies in a list or map", where);
  if (!type.primitive() || type.kind == TypeKind::kUnknown || type.kind == TypeKind::kGeometry ||
      type.kind == TypeKind::kGeography) {
    return Fail(Code::kUnsupported, "values of the column's type are not compared", where);
  }
  return path;
}

Result<LeafPlace> FindLeaf(const parquet::SchemaDescriptor& schema,
                           std::span<const Field* const> path,
                           const std::vector<NameMapping>& mapping) {
  const GroupNode* group = schema.group_node();
  bool by_id = false;
  for (int i = 0; i < group->field_count(); ++i) by_id = by_id || HasFieldIds(*group->field(i));
  const std::string where = "column " + path.back()->name;
  if (!by_id && mapping.empty()) {
    return Fail(Code::kUnsupported, "the file has no field ids and the table no name mapping",
                where, "set the table property schema.name-mapping.default");
  }
  LeafPlace place;
  place.by_mapping = !by_id;
  const std::vector<NameMapping>* names = &mapping;
  for (size_t depth = 0; depth < path.size(); ++depth) {
    const NameMapping* named =
        by_id || names == nullptr ? nullptr : MappingOf(*names, path[depth]->id);
    LITHIFY_TRY_ASSIGN(const Node* node, Child(*group, *path[depth], by_id, named));
    place.lacking = depth;
    if (node == nullptr) return place;
    const bool last = depth + 1 == path.size();
    if (node->is_repeated() || node->is_group() == last) {
      return Fail(Code::kUnsupported, "the file has the field in another shape than the table",
                  where);
    }
    if (last) {
      place.column = schema.ColumnIndex(*node);
      return place;
    }
    place.below_optional = place.below_optional || node->is_optional();
    group = static_cast<const GroupNode*>(node);
    names = named == nullptr ? nullptr : &named->fields;
  }
  return place;
}

Result<std::unique_ptr<LeafCursor>> MakeLeafCursor(const ScanFile& file, int column,
                                                   const Type& type) {
  LITHIFY_TRY_ASSIGN(const LeafReading reading,
                     ReadLeafAs(*file.footer->schema().Column(column), type));
  return MakeLeafCursor(file, column, reading);
}

Result<std::unique_ptr<LeafCursor>> MakeLeafCursor(const ScanFile& file, int column,
                                                   const LeafReading& reading) {
  const parquet::ColumnDescriptor& descriptor = *file.footer->schema().Column(column);
  switch (descriptor.physical_type()) {
    case parquet::Type::BOOLEAN: return Typed<parquet::BooleanType>(file, column, reading);
    case parquet::Type::INT32: return Typed<parquet::Int32Type>(file, column, reading);
    case parquet::Type::INT64: return Typed<parquet::Int64Type>(file, column, reading);
    case parquet::Type::INT96: return Typed<parquet::Int96Type>(file, column, reading);
    case parquet::Type::FLOAT: return Typed<parquet::FloatType>(file, column, reading);
    case parquet::Type::DOUBLE: return Typed<parquet::DoubleType>(file, column, reading);
    case parquet::Type::BYTE_ARRAY: return Typed<parquet::ByteArrayType>(file, column, reading);
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return Typed<parquet::FLBAType>(file, column, reading);
    default: break;
  }
  return Fail(Code::kUnsupported, "an unknown physical type",
              "column " + descriptor.path()->ToDotString());
}

Result<std::unique_ptr<LeafCursor>> MakeConstantCursor(const ScanFile& file, const Field& field,
                                                       const iceberg::Value& value) {
  auto cursor = std::make_unique<ConstantCursor>(file, FormOf(field.type));
  if (!iceberg::IsNull(value) && !SetConstant(*cursor, field.type, value)) {
    return Fail(Code::kInvalid, "the value for rows without the column is none of its type",
                "column " + field.name);
  }
  return std::unique_ptr<LeafCursor>(std::move(cursor));
}

Result<std::unique_ptr<LeafCursor>> MakeTableCursor(const ScanFile& file, const InputFile& input,
                                                    std::span<const Field* const> path,
                                                    const std::vector<NameMapping>& mapping) {
  const Field& field = *path.back();
  LITHIFY_TRY_ASSIGN(const LeafPlace place, FindLeaf(file.footer->schema(), path, mapping));
  // A partition's value goes before a column that is known by its name only.
  const bool hidden = place.by_mapping && ConstantOf(input, field.id) != nullptr;
  if (place.column >= 0 && !hidden) return MakeLeafCursor(file, place.column, field.type);
  LITHIFY_TRY_ASSIGN(const iceberg::Value value, ValueWithout(input, path, place));
  return MakeConstantCursor(file, field, value);
}

}  // namespace lithify::rewrite
