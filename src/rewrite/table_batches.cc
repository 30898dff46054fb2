#include "rewrite/table_batches.h"

#include <arrow/array.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/abi.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/column_copy.h"
#include "rewrite/leaf_collector.h"
#include "rewrite/open_group.h"
#include "rewrite/table_types.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;
using iceberg::TypeKind;
using ArrowType = std::shared_ptr<arrow::DataType>;

constexpr size_t kOpenFilesMax = 4;

Result<std::shared_ptr<arrow::Field>> FieldOf(const Field& field, int depth = 0);

Result<ArrowType> NestedTypeOf(const iceberg::Type& type, int depth) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const Field& child : type.fields) {
    LITHIFY_TRY_ASSIGN(auto field, FieldOf(child, depth + 1));
    fields.push_back(std::move(field));
  }
  if (type.kind == TypeKind::kStruct) return arrow::struct_(fields);
  if (type.kind == TypeKind::kList && fields.size() == 1) {
    return arrow::list(fields[0]->WithName("element"));
  }
  if (type.kind == TypeKind::kMap && fields.size() == 2) {
    return std::make_shared<arrow::MapType>(fields[0]->WithName("key")->WithNullable(false),
                                            fields[1]->WithName("value"));
  }
  return Fail(Code::kInternal, "a list or map without its parts");
}

Result<ArrowType> TypeOf(const iceberg::Type& type, int depth) {
  if (depth > kSchemaDepthMax) return Fail(Code::kUnsupported, "nested deeper than 64 levels");
  switch (type.kind) {
    case TypeKind::kBoolean: return arrow::boolean();
    case TypeKind::kInt: return arrow::int32();
    case TypeKind::kLong: return arrow::int64();
    case TypeKind::kFloat: return arrow::float32();
    case TypeKind::kDouble: return arrow::float64();
    case TypeKind::kDecimal: {
      auto decimal = arrow::Decimal128Type::Make(type.precision, type.scale);
      if (!decimal.ok()) return Fail(FromArrow(decimal.status()));
      return *std::move(decimal);
    }
    case TypeKind::kDate: return arrow::date32();
    case TypeKind::kTime: return arrow::time64(arrow::TimeUnit::MICRO);
    case TypeKind::kTimestamp: return arrow::timestamp(arrow::TimeUnit::MICRO);
    case TypeKind::kTimestamptz: return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case TypeKind::kTimestampNs: return arrow::timestamp(arrow::TimeUnit::NANO);
    case TypeKind::kTimestamptzNs: return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
    case TypeKind::kString: return arrow::utf8();
    case TypeKind::kUuid: return arrow::fixed_size_binary(16);
    case TypeKind::kFixed: return arrow::fixed_size_binary(type.length);
    case TypeKind::kBinary:
    case TypeKind::kGeometry:
    case TypeKind::kGeography: return arrow::binary();
    case TypeKind::kUnknown: return arrow::null();
    case TypeKind::kStruct:
    case TypeKind::kList:
    case TypeKind::kMap: return NestedTypeOf(type, depth);
    default: break;
  }
  return Fail(Code::kUnsupported, "has type " + IcebergTypeText(type) + ", which is not read here");
}

Result<std::shared_ptr<arrow::Field>> FieldOf(const Field& field, int depth) {
  auto type = TypeOf(field.type, depth);
  if (!type) return Fail(std::move(type.error()).In("column " + field.name));
  std::shared_ptr<const arrow::KeyValueMetadata> metadata;
  if (field.type.kind == TypeKind::kUuid) {
    metadata = arrow::key_value_metadata({"ARROW:extension:name", "ARROW:extension:metadata"},
                                         {"arrow.uuid", ""});
  }
  // What is required now may be null in rows of other schemas: nobody here relies on it.
  return arrow::field(field.name, *type, true, std::move(metadata));
}

// Arrays of one batch, from the entries that were collected.
class Assembler {
 public:
  explicit Assembler(std::vector<std::unique_ptr<LeafCollector>>& leaves) : leaves_(leaves) {}

  // Null: the file lacks the column, and nothing stands in.
  Result<std::shared_ptr<arrow::Array>> Column(const SchemaNode* node, const Field& field,
                                               const ArrowType& type, int64_t rows) {
    if (node == nullptr) return Nulls(type, rows);
    if (node->kind == SchemaNode::Kind::kLeaf) return Leaf(*node).Take(type, {});
    return Node(node, field, type, Levels{});
  }

 private:
  // Where a node's slots are among the entries of a leaf below it.
  struct Levels {
    int16_t repetition = 0;  // Entries with a greater one are no slots of it,
    int16_t slot = 0;        // nor those with a smaller definition level than this.
    int16_t definition = 0;  // Of the parent, where it is not null.
  };

  LeafCollector& Leaf(const SchemaNode& node) {
    const SchemaNode* at = &node;
    while (at->kind != SchemaNode::Kind::kLeaf) at = at->children.front().get();
    return *leaves_[static_cast<size_t>(at->leaf_index)];
  }

  static Result<std::shared_ptr<arrow::Array>> Nulls(const ArrowType& type, int64_t length) {
    auto array = arrow::MakeArrayOfNull(type, length);
    if (!array.ok()) return Fail(FromArrow(array.status()));
    return *std::move(array);
  }

  // Of each entry of the leaf: 0 no slot, 1 a value, 2 null.
  std::vector<uint8_t> Slots(const LeafCollector& leaf, const Levels& levels, int16_t valid) const {
    std::vector<uint8_t> slots(static_cast<size_t>(leaf.entries()), 1);
    const auto definition = leaf.definition();
    const auto repetition = leaf.repetition();
    for (size_t i = 0; i < slots.size(); ++i) {
      const int16_t level = definition.empty() ? int16_t{0} : definition[i];
      if ((!repetition.empty() && repetition[i] > levels.repetition) || level < levels.slot) {
        slots[i] = 0;
      } else if (level < valid) {
        slots[i] = 2;
      }
    }
    return slots;
  }

  Result<std::shared_ptr<arrow::Array>> Node(const SchemaNode* node, const Field& field,
                                             const ArrowType& type, const Levels& levels) {
    Levels inner = levels;
    if (!node->required) ++inner.definition;
    LeafCollector& leaf = Leaf(*node);
    const std::vector<uint8_t> slots = Slots(leaf, levels, inner.definition);
    if (node->kind == SchemaNode::Kind::kLeaf) return leaf.Take(type, slots);
    LITHIFY_TRY_ASSIGN(auto validity, Validity(slots));
    if (node->kind == SchemaNode::Kind::kStruct) {
      return Struct(*node, field, type, inner, validity);
    }
    return List(*node, field, type, inner, leaf, slots, validity);
  }

  struct Bits {
    std::shared_ptr<arrow::Buffer> buffer;  // Null: none is null.
    int64_t length = 0;
    int64_t nulls = 0;
  };
  static Result<Bits> Validity(const std::vector<uint8_t>& slots) {
    Bits bits;
    bits.length = std::ranges::count_if(slots, [](uint8_t slot) { return slot != 0; });
    bits.nulls = std::ranges::count(slots, uint8_t{2});
    if (bits.nulls == 0) return bits;
    auto buffer = arrow::AllocateBitmap(bits.length);
    if (!buffer.ok()) return Fail(FromArrow(buffer.status()));
    bits.buffer = *std::move(buffer);
    int64_t at = 0;
    for (const uint8_t slot : slots) {
      if (slot != 0) arrow::bit_util::SetBitTo(bits.buffer->mutable_data(), at++, slot == 1);
    }
    return bits;
  }

  Result<std::shared_ptr<arrow::Array>> Struct(const SchemaNode& node, const Field& field,
                                               const ArrowType& type, const Levels& levels,
                                               const Bits& bits) {
    std::vector<std::shared_ptr<arrow::ArrayData>> children;
    for (size_t i = 0; i < field.type.fields.size(); ++i) {
      const Field& child = field.type.fields[i];
      const auto found = std::ranges::find(node.children, child.id,
                                           [](const auto& other) { return other->field_id; });
      const ArrowType& child_type = type->field(static_cast<int>(i))->type();
      std::shared_ptr<arrow::Array> array;
      if (found == node.children.end()) {
        LITHIFY_TRY_ASSIGN(array, Nulls(child_type, bits.length));
      } else {
        LITHIFY_TRY_ASSIGN(array, Node(found->get(), child, child_type, levels));
      }
      LITHIFY_TRY(SameLength(*array, bits.length, child));
      children.push_back(array->data());
    }
    return arrow::MakeArray(
        arrow::ArrayData::Make(type, bits.length, {bits.buffer}, std::move(children), bits.nulls));
  }

  // Lists, and maps as lists of entries.
  Result<std::shared_ptr<arrow::Array>> List(const SchemaNode& node, const Field& field,
                                             const ArrowType& type, const Levels& levels,
                                             const LeafCollector& leaf,
                                             const std::vector<uint8_t>& slots, const Bits& bits) {
    Levels inner;
    inner.repetition = static_cast<int16_t>(levels.repetition + 1);
    inner.slot = inner.definition = static_cast<int16_t>(levels.definition + 1);
    auto offsets = arrow::AllocateBuffer((bits.length + 1) * static_cast<int64_t>(sizeof(int32_t)));
    if (!offsets.ok()) return Fail(FromArrow(offsets.status()));
    auto* out = reinterpret_cast<int32_t*>((*offsets)->mutable_data());
    int32_t elements = 0;
    int64_t list = 0;
    const auto definition = leaf.definition();
    const auto repetition = leaf.repetition();
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != 0) out[list++] = elements;
      if (repetition[i] <= inner.repetition && definition[i] >= inner.slot) ++elements;
    }
    out[list] = elements;
    std::shared_ptr<arrow::ArrayData> child;
    if (node.kind == SchemaNode::Kind::kList) {
      LITHIFY_TRY_ASSIGN(auto array, Node(node.children[0].get(), field.type.fields[0],
                                          type->field(0)->type(), inner));
      LITHIFY_TRY(SameLength(*array, elements, field));
      child = array->data();
    } else {
      LITHIFY_TRY_ASSIGN(child, Entries(node, field, type, inner, elements));
    }
    return arrow::MakeArray(arrow::ArrayData::Make(
        type, bits.length, {bits.buffer, std::shared_ptr<arrow::Buffer>(*std::move(offsets))},
        {std::move(child)}, bits.nulls));
  }

  Result<std::shared_ptr<arrow::ArrayData>> Entries(const SchemaNode& node, const Field& field,
                                                    const ArrowType& type, const Levels& levels,
                                                    int64_t elements) {
    const ArrowType& entries = type->field(0)->type();
    std::vector<std::shared_ptr<arrow::ArrayData>> parts;
    for (size_t i = 0; i < 2; ++i) {
      LITHIFY_TRY_ASSIGN(auto array, Node(node.children[i].get(), field.type.fields[i],
                                          entries->field(static_cast<int>(i))->type(), levels));
      LITHIFY_TRY(SameLength(*array, elements, field));
      parts.push_back(array->data());
    }
    return arrow::ArrayData::Make(entries, elements, {nullptr}, std::move(parts), 0);
  }

  static Status SameLength(const arrow::Array& array, int64_t length, const Field& field) {
    if (array.length() == length) return {};
    return Fail(Code::kCorrupt, "its parts have different numbers of values",
                "column " + field.name, "restore the file from its source");
  }

  std::vector<std::unique_ptr<LeafCollector>>& leaves_;
};

class FileReader final : public FileBatches {
 public:
  FileReader(storage::Store& store, const InputFile& file, const TableTarget& table,
             const BatchOptions& options)
      : file_(file),
        table_(table),
        options_(options),
        pool_(options.memory_bytes),
        cache_(store, kOpenFilesMax, ReadAheadBytes(store, options.memory_bytes), options.cancel) {}

  Status Open() {
    LITHIFY_TRY_ASSIGN(
        group_, OpenGroup(cache_, {file_}, &table_, Reading::kPages, 1, pool_, options_.cancel));
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const Field& field : table_.schema.fields) {
      LITHIFY_TRY_ASSIGN(auto arrow_field, FieldOf(field));
      fields.push_back(std::move(arrow_field));
      const auto found = std::ranges::find(group_.output_schema->children, field.id,
                                           [](const auto& child) { return child->field_id; });
      nodes_.push_back(found == group_.output_schema->children.end() ? nullptr : found->get());
    }
    schema_ = arrow::schema(std::move(fields));
    const InputSource& input = *group_.inputs.front();
    left_ = input.footer->num_rows() - (input.deleted == nullptr ? 0 : input.deleted->size());
    const bool release = OpenPagesBytes() > options_.memory_bytes / 2;
    for (size_t leaf = 0; leaf < group_.leaves.size(); ++leaf) {
      ColumnCopyOptions copy;
      copy.release = release;
      copy.leaf = static_cast<int>(leaf);
      copy.output = group_.leaves[leaf];
      copy.pool = &pool_;
      copies_.push_back(MakeColumnCopy(group_.inputs, copy));
      collectors_.push_back(MakeLeafCollector(group_.leaves[leaf]));
    }
    rows_ = BatchRows();
    return {};
  }

  Result<ArrowBatch> Next() override {
    return GuardParquet(file_.key, [&]() -> Result<ArrowBatch> {
      if (left_ == 0) {
        if (!std::exchange(finished_, true)) {
          for (const auto& copy : copies_) LITHIFY_TRY(copy->Finish());
        }
        return ArrowBatch();
      }
      if (options_.cancel != nullptr) LITHIFY_TRY(options_.cancel->Check());
      const int64_t rows = std::min(rows_, left_);
      RowGroupRows shared(rows, 0, false);
      for (size_t leaf = 0; leaf < copies_.size(); ++leaf) {
        auto copied = copies_[leaf]->Copy(rows, collectors_[leaf]->encoder(), shared);
        if (!copied) {
          return Fail(std::move(copied.error()).In("column " + group_.leaves[leaf].path));
        }
      }
      Assembler assembler(collectors_);
      std::vector<std::shared_ptr<arrow::Array>> arrays;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        LITHIFY_TRY_ASSIGN(auto array,
                           assembler.Column(nodes_[i], table_.schema.fields[i],
                                            schema_->field(static_cast<int>(i))->type(), rows));
        if (array->length() != rows) {
          return Fail(Code::kCorrupt, "has another number of rows than the file",
                      "column " + table_.schema.fields[i].name, "restore the file from its source");
        }
        arrays.push_back(std::move(array));
      }
      left_ -= rows;
      const auto batch = arrow::RecordBatch::Make(schema_, rows, std::move(arrays));
      ArrowBatch out = ArrowBatch::Make();
      const auto status = arrow::ExportRecordBatch(*batch, out.get());
      if (!status.ok()) return Fail(FromArrow(status));
      return out;
    });
  }

 private:
  // What half-read chunks would hold if every column kept its page open between two batches: of
  // hundreds of columns too much.
  int64_t OpenPagesBytes() const {
    constexpr int64_t kPageBytes = 2 * kMiB;
    const InputSource& input = *group_.inputs.front();
    int64_t most = 0;
    for (int g = 0; g < input.footer->num_row_groups(); ++g) {
      int64_t bytes = 0;
      for (const LeafSource& source : input.leaves) {
        if (source.input_leaf < 0) continue;
        // A damaged footer may claim any number.
        const int64_t chunk = input.footer->Chunk(g, source.input_leaf).total_uncompressed_size;
        bytes += 2 * std::clamp<int64_t>(chunk, 0, kPageBytes / 2);
      }
      most = std::max(most, bytes);
    }
    return most;
  }

  // By what the footer says of the columns' bytes.
  int64_t BatchRows() const {
    const InputSource& input = *group_.inputs.front();
    const int64_t rows = std::max<int64_t>(input.footer->num_rows(), 1);
    double bytes = 0;
    for (int g = 0; g < input.footer->num_row_groups(); ++g) {
      for (const LeafSource& source : input.leaves) {
        if (source.input_leaf < 0 || source.levels_only) continue;
        const int64_t chunk = input.footer->Chunk(g, source.input_leaf).total_uncompressed_size;
        bytes += static_cast<double>(std::max<int64_t>(chunk, 0));
      }
    }
    // Values of dictionaries are longer than what is stored of them.
    const double row_bytes = std::max(4 * bytes / static_cast<double>(rows), 1.0);
    const double fitting = static_cast<double>(options_.batch_bytes) / row_bytes;
    return std::clamp<int64_t>(static_cast<int64_t>(fitting), 64, options_.batch_rows);
  }

  const InputFile file_;
  const TableTarget table_;
  const BatchOptions options_;
  BoundedPool pool_;
  ReaderCache cache_;
  OpenedGroup group_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<const SchemaNode*> nodes_;  // By column of the table; null: the file has none.
  std::vector<std::unique_ptr<ColumnCopy>> copies_;
  std::vector<std::unique_ptr<LeafCollector>> collectors_;
  int64_t rows_ = 0;
  int64_t left_ = 0;
  bool finished_ = false;
};

}  // namespace

ArrowBatch::ArrowBatch() = default;
ArrowBatch::ArrowBatch(ArrowBatch&&) noexcept = default;
ArrowBatch& ArrowBatch::operator=(ArrowBatch&&) noexcept = default;
ArrowBatch::~ArrowBatch() = default;

void ArrowBatch::Release::operator()(ArrowArray* array) const {
  if (array->release != nullptr) array->release(array);
  delete array;
}

void ArrowBatch::MoveTo(ArrowArray* out) {
  *out = *array_;
  array_->release = nullptr;
  array_.reset();
}

ArrowBatch ArrowBatch::Make() {
  ArrowBatch batch;
  batch.array_.reset(new ArrowArray{});
  return batch;
}

bool HasBatches(const iceberg::Type& type) { return TypeOf(type, 0).has_value(); }

Status ExportTableSchema(const std::vector<Field>& fields, ArrowSchema* out) {
  std::vector<std::shared_ptr<arrow::Field>> columns;
  for (const Field& field : fields) {
    LITHIFY_TRY_ASSIGN(auto column, FieldOf(field));
    columns.push_back(std::move(column));
  }
  const auto status = arrow::ExportSchema(*arrow::schema(std::move(columns)), out);
  if (!status.ok()) return Fail(FromArrow(status));
  return {};
}

Result<std::unique_ptr<FileBatches>> OpenFileBatches(storage::Store& store, const InputFile& file,
                                                     const TableTarget& table,
                                                     const BatchOptions& options) {
  auto reader = std::make_unique<FileReader>(store, file, table, options);
  LITHIFY_TRY(GuardParquet(file.key, [&] { return reader->Open(); }));
  return reader;
}

ArrowBatch MakeRowCount(int64_t rows) {
  const auto batch = arrow::RecordBatch::Make(arrow::schema({}), rows,
                                              std::vector<std::shared_ptr<arrow::Array>>{});
  ArrowBatch out = ArrowBatch::Make();
  const auto status = arrow::ExportRecordBatch(*batch, out.get());
  LITHIFY_CHECK(status.ok(), "a batch without columns");
  return out;
}

}  // namespace lithify::rewrite
