#include "parquet_columns.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/column_reader.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <exception>
#include <memory>

namespace lithify::sim {
namespace {

using parquet::LogicalType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;

NodePtr NodeOf(const SimColumn& column) {
  const auto repetition = column.required ? Repetition::REQUIRED : Repetition::OPTIONAL;
  switch (column.kind) {
    case SimColumn::Kind::kText:
      return PrimitiveNode::Make(column.name, repetition, LogicalType::String(), Type::BYTE_ARRAY,
                                 -1, column.field_id);
    case SimColumn::Kind::kInt:
      return PrimitiveNode::Make(column.name, repetition, LogicalType::None(), Type::INT32, -1,
                                 column.field_id);
    case SimColumn::Kind::kLong: break;
  }
  return PrimitiveNode::Make(column.name, repetition, LogicalType::None(), Type::INT64, -1,
                             column.field_id);
}

template <typename Writer, typename T>
void PutNumbers(parquet::ColumnWriter* to, const SimColumn& column) {
  auto* writer = static_cast<Writer*>(to);
  std::vector<int16_t> definitions;
  std::vector<T> values;
  for (const std::optional<int64_t>& number : column.numbers) {
    definitions.push_back(number ? 1 : 0);
    if (number) values.push_back(static_cast<T>(*number));
  }
  writer->WriteBatch(static_cast<int64_t>(column.numbers.size()),
                     column.required ? nullptr : definitions.data(), nullptr, values.data());
}

void PutTexts(parquet::ColumnWriter* to, const SimColumn& column) {
  auto* writer = static_cast<parquet::ByteArrayWriter*>(to);
  std::vector<parquet::ByteArray> values;
  for (const std::string& text : column.texts) values.emplace_back(std::string_view(text));
  writer->WriteBatch(static_cast<int64_t>(values.size()), nullptr, nullptr, values.data());
}

// The values of one column chunk; `take` gets a value or null.
template <typename Reader, typename T, typename Take>
void ReadChunk(parquet::ColumnReader* from, int64_t rows, bool optional, Take take) {
  auto* reader = static_cast<Reader*>(from);
  std::vector<int16_t> definitions(static_cast<size_t>(rows));
  std::vector<T> values(static_cast<size_t>(rows));
  while (reader->HasNext()) {
    int64_t read = 0;
    const int64_t levels = reader->ReadBatch(rows, optional ? definitions.data() : nullptr, nullptr,
                                             values.data(), &read);
    if (levels == 0 && read == 0) return;
    size_t next = 0;
    for (int64_t i = 0; i < (optional ? levels : read); ++i) {
      const bool null = optional && definitions[static_cast<size_t>(i)] == 0;
      take(null ? nullptr : &values[next++]);
    }
  }
}

void ReadColumn(parquet::ColumnReader* from, int64_t rows, SimColumn& column) {
  const bool optional = !column.required;
  const auto number = [&](const auto* value) {
    column.numbers.push_back(value == nullptr ? std::nullopt : std::optional<int64_t>(*value));
  };
  switch (column.kind) {
    case SimColumn::Kind::kInt:
      return ReadChunk<parquet::Int32Reader, int32_t>(from, rows, optional, number);
    case SimColumn::Kind::kLong:
      return ReadChunk<parquet::Int64Reader, int64_t>(from, rows, optional, number);
    case SimColumn::Kind::kText:
      return ReadChunk<parquet::ByteArrayReader, parquet::ByteArray>(
          from, rows, optional, [&](const parquet::ByteArray* value) {
            column.texts.emplace_back(value == nullptr ? std::string()
                                                       : std::string(std::string_view(*value)));
          });
  }
}

Result<SimColumn> Describe(const parquet::ColumnDescriptor& descriptor) {
  SimColumn column;
  column.field_id = descriptor.schema_node()->field_id();
  column.name = descriptor.name();
  column.required = descriptor.max_definition_level() == 0;
  switch (descriptor.physical_type()) {
    case Type::INT32: column.kind = SimColumn::Kind::kInt; break;
    case Type::INT64: column.kind = SimColumn::Kind::kLong; break;
    case Type::BYTE_ARRAY: column.kind = SimColumn::Kind::kText; break;
    default: return Fail(Code::kCorrupt, "a column has an unexpected type", column.name);
  }
  if (descriptor.max_definition_level() > 1 || descriptor.max_repetition_level() > 0) {
    return Fail(Code::kCorrupt, "a column is nested", column.name);
  }
  return column;
}

}  // namespace

std::string EncodeColumns(const std::vector<SimColumn>& columns) {
  parquet::schema::NodeVector nodes;
  for (const SimColumn& column : columns) nodes.push_back(NodeOf(column));
  const auto schema =
      std::static_pointer_cast<GroupNode>(GroupNode::Make("table", Repetition::REQUIRED, nodes));
  const auto sink = arrow::io::BufferOutputStream::Create(1024).ValueOrDie();
  static const auto kProperties =
      parquet::WriterProperties::Builder().disable_dictionary()->created_by("sim")->build();
  const auto writer = parquet::ParquetFileWriter::Open(sink, schema, kProperties);
  parquet::RowGroupWriter* group = writer->AppendRowGroup();
  for (const SimColumn& column : columns) {
    parquet::ColumnWriter* to = group->NextColumn();
    switch (column.kind) {
      case SimColumn::Kind::kText: PutTexts(to, column); break;
      case SimColumn::Kind::kInt: PutNumbers<parquet::Int32Writer, int32_t>(to, column); break;
      case SimColumn::Kind::kLong: PutNumbers<parquet::Int64Writer, int64_t>(to, column); break;
    }
    to->Close();
  }
  writer->Close();
  return sink->Finish().ValueOrDie()->ToString();
}

Result<std::vector<SimColumn>> DecodeColumns(std::string_view bytes) {
  try {
    const auto buffer = std::make_shared<arrow::Buffer>(
        reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int64_t>(bytes.size()));
    const auto reader =
        parquet::ParquetFileReader::Open(std::make_shared<arrow::io::BufferReader>(buffer));
    const auto metadata = reader->metadata();
    std::vector<SimColumn> columns;
    for (int c = 0; c < metadata->num_columns(); ++c) {
      LITHIFY_TRY_ASSIGN(SimColumn column, Describe(*metadata->schema()->Column(c)));
      for (int g = 0; g < metadata->num_row_groups(); ++g) {
        const auto group = reader->RowGroup(g);
        ReadColumn(group->Column(c).get(), group->metadata()->num_rows(), column);
      }
      const size_t rows = std::max(column.numbers.size(), column.texts.size());
      if (static_cast<int64_t>(rows) != metadata->num_rows()) {
        return Fail(Code::kCorrupt, "a column has too few rows", column.name);
      }
      columns.push_back(std::move(column));
    }
    return columns;
  } catch (const std::exception& e) {
    return Fail(Code::kCorrupt, e.what());
  }
}

const SimColumn* FindColumn(const std::vector<SimColumn>& columns, int field_id) {
  const auto at = std::ranges::find(columns, field_id, &SimColumn::field_id);
  return at == columns.end() ? nullptr : &*at;
}

}  // namespace lithify::sim
