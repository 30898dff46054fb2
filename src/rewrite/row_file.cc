#include "rewrite/row_file.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/c/abi.h>
#include <arrow/c/bridge.h>
#include <arrow/io/memory.h>
#include <arrow/record_batch.h>
#include <parquet/column_writer.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/file_metrics.h"
#include "rewrite/footer.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;
using iceberg::TypeKind;
using iceberg::Value;
using parquet::Repetition;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;

Result<std::vector<const Field*>> FieldsOf(const TableTarget& table, std::span<const int> columns) {
  std::vector<const Field*> fields;
  for (const int id : columns) {
    const auto at = std::ranges::find(table.schema.fields, id, &Field::id);
    if (at == table.schema.fields.end()) {
      return Fail(Code::kInternal, "the schema has no column " + std::to_string(id));
    }
    if (at->type.kind != TypeKind::kLong && at->type.kind != TypeKind::kString) {
      return Fail(Code::kInternal, "only longs and strings are written", at->name);
    }
    fields.push_back(&*at);
  }
  for (const Field& field : table.schema.fields) {
    if (field.required && std::ranges::find(columns, field.id) == columns.end()) {
      return Fail(Code::kInternal, "a required column is left out", field.name);
    }
  }
  return fields;
}

Status CheckRows(const std::vector<const Field*>& fields, std::span<const Row> rows) {
  if (rows.empty()) return Fail(Code::kInternal, "a file without rows");
  for (const Row& row : rows) {
    if (row.size() != fields.size()) return Fail(Code::kInternal, "a row of another length");
    for (size_t i = 0; i < row.size(); ++i) {
      const bool fits = iceberg::IsNull(row[i]) ? !fields[i]->required
                        : fields[i]->type.kind == TypeKind::kLong
                            ? std::holds_alternative<int64_t>(row[i])
                            : std::holds_alternative<std::string>(row[i]);
      if (!fits) return Fail(Code::kInternal, "a value does not fit its column", fields[i]->name);
    }
  }
  return {};
}

std::shared_ptr<GroupNode> SchemaOf(const std::vector<const Field*>& fields) {
  parquet::schema::NodeVector nodes;
  for (const Field* field : fields) {
    const auto repetition = field->required ? Repetition::REQUIRED : Repetition::OPTIONAL;
    nodes.push_back(field->type.kind == TypeKind::kLong
                        ? PrimitiveNode::Make(field->name, repetition, parquet::LogicalType::None(),
                                              parquet::Type::INT64, -1, field->id)
                        : PrimitiveNode::Make(field->name, repetition,
                                              parquet::LogicalType::String(),
                                              parquet::Type::BYTE_ARRAY, -1, field->id));
  }
  return std::static_pointer_cast<GroupNode>(GroupNode::Make("table", Repetition::REQUIRED, nodes));
}

// `get` makes the Parquet value of one that is not null.
template <typename Writer, typename Get>
void PutColumn(parquet::ColumnWriter* untyped, bool required, std::span<const Row> rows, size_t i,
               Get get) {
  auto* writer = static_cast<Writer*>(untyped);
  for (const Row& row : rows) {
    const int16_t definition = iceberg::IsNull(row[i]) ? 0 : 1;
    typename Writer::T value{};
    if (definition == 1) value = get(row[i]);
    writer->WriteBatch(1, required ? nullptr : &definition, nullptr, &value);
  }
  writer->Close();
}

void PutRows(parquet::RowGroupWriter& group, const std::vector<const Field*>& fields,
             std::span<const Row> rows) {
  for (size_t i = 0; i < fields.size(); ++i) {
    parquet::ColumnWriter* column = group.NextColumn();
    if (fields[i]->type.kind == TypeKind::kLong) {
      PutColumn<parquet::Int64Writer>(column, fields[i]->required, rows, i,
                                      [](const Value& value) { return std::get<int64_t>(value); });
    } else {
      PutColumn<parquet::ByteArrayWriter>(
          column, fields[i]->required, rows, i,
          [](const Value& value) { return parquet::ByteArray(std::get<std::string>(value)); });
    }
  }
  group.Close();
}

std::vector<int64_t> SplitOffsets(const parquet::FileMetaData& footer) {
  std::vector<int64_t> offsets;
  for (int g = 0; g < footer.num_row_groups(); ++g) {
    const auto chunk = footer.RowGroup(g)->ColumnChunk(0);
    const int64_t data = chunk->data_page_offset();
    offsets.push_back(chunk->has_dictionary_page() ? std::min(data, chunk->dictionary_page_offset())
                                                   : data);
  }
  return offsets;
}

Result<Value> ValueAt(const arrow::Array& array, int64_t row) {
  if (array.IsNull(row)) return Value();
  switch (array.type_id()) {
    case arrow::Type::INT64: return Value(static_cast<const arrow::Int64Array&>(array).Value(row));
    case arrow::Type::STRING:
      return Value(static_cast<const arrow::StringArray&>(array).GetString(row));
    case arrow::Type::LARGE_STRING:
      return Value(static_cast<const arrow::LargeStringArray&>(array).GetString(row));
    default: return Fail(Code::kCorrupt, "neither long nor string: " + array.type()->ToString());
  }
}

}  // namespace

Result<EncodedRows> EncodeRows(const TableTarget& table, std::span<const int> columns,
                               std::span<const Row> rows) {
  return GuardParquet("rows", [&]() -> Result<EncodedRows> {
    LITHIFY_TRY_ASSIGN(const auto fields, FieldsOf(table, columns));
    LITHIFY_TRY(CheckRows(fields, rows));
    auto sink = arrow::io::BufferOutputStream::Create();
    if (!sink.ok()) return Fail(FromArrow(sink.status()));
    const auto properties = parquet::WriterProperties::Builder()
                                .compression(arrow::Compression::ZSTD)
                                ->created_by(std::string(kCreatedBy))
                                ->build();
    auto writer = parquet::ParquetFileWriter::Open(*sink, SchemaOf(fields), properties);
    PutRows(*writer->AppendRowGroup(), fields, rows);
    writer->Close();
    const std::shared_ptr<parquet::FileMetaData> footer = writer->metadata();
    auto buffer = (*sink)->Finish();
    if (!buffer.ok()) return Fail(FromArrow(buffer.status()));
    EncodedRows out;
    out.bytes = (*buffer)->ToString();
    LITHIFY_TRY_ASSIGN(out.metrics, MetricsOf(*footer, table));
    out.split_offsets = SplitOffsets(*footer);
    return out;
  });
}

Result<std::vector<Row>> DecodeRows(ArrowBatch batch, const std::vector<Field>& fields) {
  return GuardParquet("rows", [&]() -> Result<std::vector<Row>> {
    ArrowSchema schema{};
    LITHIFY_TRY(ExportTableSchema(fields, &schema));
    // Takes over both, also where it fails.
    const auto imported = arrow::ImportRecordBatch(batch.get(), &schema);
    if (!imported.ok()) return Fail(FromArrow(imported.status()));
    const arrow::RecordBatch& columns = **imported;
    std::vector<Row> rows(static_cast<size_t>(columns.num_rows()));
    for (int i = 0; i < columns.num_columns(); ++i) {
      const auto array = columns.column(i);
      for (size_t row = 0; row < rows.size(); ++row) {
        auto value = ValueAt(*array, static_cast<int64_t>(row));
        const Field& field = fields[static_cast<size_t>(i)];
        if (!value) return Fail(std::move(value.error()).In(field.name));
        rows[row].push_back(std::move(*value));
      }
    }
    return rows;
  });
}

}  // namespace lithify::rewrite
