// Arbitrary tables: nested schemas that evolved, deleted rows, row lineage, any row-group and page
// shapes (R093, R100, I22, I24, I29). What Arrow's reader sees in the inputs, projected and
// filtered by this test with Arrow arrays alone, is what it sees in the outputs.
#include <arrow/c/bridge.h>
#include <rapidcheck.h>

#include <random>

#include "base/text.h"
#include "rewrite/arbitrary_table.h"
#include "rewrite/table_batches.h"

namespace lithify::rewrite {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;
using iceberg::TypeKind;

// The array of a field of the table, from that of the file; null: the file lacks it.
class Projection {
 public:
  static ArrayPtr Field(const iceberg::Field& field, const arrow::Field* file, ArrayPtr array,
                        int64_t length) {
    const auto type = ArrowType(field, file);
    if (array == nullptr) return arrow::MakeArrayOfNull(type, length).ValueOrDie();
    auto data = array->data()->Copy();
    data->type = type;
    switch (field.type.kind) {
      case TypeKind::kStruct: {
        std::vector<std::shared_ptr<arrow::ArrayData>> children;
        for (const auto& child : field.type.fields) {
          const int at = IndexOf(*file->type(), child.id);
          if (at < 0 && LeftOut(*file->type(), field, child)) continue;
          const auto part = at < 0 ? nullptr : static_cast<arrow::StructArray&>(*array).field(at);
          children.push_back(
              Field(child, at < 0 ? nullptr : file->type()->field(at).get(), part, length)->data());
        }
        data->child_data = children;
        break;
      }
      case TypeKind::kList: {
        const auto& values = static_cast<arrow::ListArray&>(*array).values();
        data->child_data = {
            Field(field.type.fields[0], file->type()->field(0).get(), values, values->length())
                ->data()};
        break;
      }
      case TypeKind::kMap: {
        auto& map = static_cast<arrow::MapArray&>(*array);
        const auto& file_type = static_cast<const arrow::MapType&>(*file->type());
        const auto& map_type = static_cast<const arrow::MapType&>(*type);
        const auto keys = Field(field.type.fields[0], file_type.key_field().get(), map.keys(),
                                map.keys()->length());
        const auto items = Field(field.type.fields[1], file_type.item_field().get(), map.items(),
                                 map.items()->length());
        auto entries = arrow::ArrayData::Make(map_type.value_type(), keys->length(), {nullptr},
                                              {keys->data(), items->data()}, 0);
        data->child_data = {entries};
        break;
      }
      default: return Widened(array, type);
    }
    return arrow::MakeArray(data);
  }

  // Columns that no file has are left out, unless that leaves a struct without any.
  static bool LeftOut(const arrow::DataType& file, const iceberg::Field& parent,
                      const iceberg::Field&) {
    return std::ranges::any_of(parent.type.fields,
                               [&](const auto& other) { return IndexOf(file, other.id) >= 0; });
  }

  static int IndexOf(const arrow::DataType& type, int id) {
    for (int i = 0; i < type.num_fields(); ++i) {
      if (IdOf(*type.field(i)) == id) return i;
    }
    return -1;
  }

  static std::shared_ptr<arrow::DataType> ArrowType(const iceberg::Field& field,
                                                    const arrow::Field* file) {
    const auto part = [&](size_t i, const std::shared_ptr<arrow::Field>& in_file,
                          const std::string& name) {
      const auto& child = field.type.fields[i];
      return arrow::field(name, ArrowType(child, in_file.get()),
                          !(child.required && !in_file->nullable()));
    };
    switch (field.type.kind) {
      case TypeKind::kStruct: {
        arrow::FieldVector fields;
        for (const auto& child : field.type.fields) {
          const int at = IndexOf(*file->type(), child.id);
          if (at < 0 && LeftOut(*file->type(), field, child)) continue;
          const auto* in_file = at < 0 ? nullptr : file->type()->field(at).get();
          fields.push_back(arrow::field(child.name, ArrowType(child, in_file),
                                        !(child.required && in_file && !in_file->nullable())));
        }
        return arrow::struct_(fields);
      }
      case TypeKind::kList: return arrow::list(part(0, file->type()->field(0), "element"));
      case TypeKind::kMap: {
        const auto& map = static_cast<const arrow::MapType&>(*file->type());
        return std::make_shared<arrow::MapType>(part(0, map.key_field(), "key"),
                                                part(1, map.item_field(), "value"));
      }
      default: return ArrowOf(field.type);
    }
  }

 private:
  static ArrayPtr Widened(const ArrayPtr& array, const std::shared_ptr<arrow::DataType>& type) {
    if (array->type()->Equals(*type)) return array;
    if (array->type_id() == arrow::Type::INT32) {
      return WidenedTo<arrow::Int64Builder, arrow::Int32Array>(array);
    }
    if (array->type_id() == arrow::Type::FLOAT) {
      return WidenedTo<arrow::DoubleBuilder, arrow::FloatArray>(array);
    }
    auto data = array->data()->Copy();  // Decimals: the same 16 bytes.
    data->type = type;
    return arrow::MakeArray(data);
  }
  template <typename Builder, typename Array>
  static ArrayPtr WidenedTo(const ArrayPtr& array) {
    Builder builder;
    const auto& typed = static_cast<const Array&>(*array);
    for (int64_t i = 0; i < typed.length(); ++i) {
      EXPECT_TRUE((typed.IsNull(i) ? builder.AppendNull() : builder.Append(typed.Value(i))).ok());
    }
    return builder.Finish().ValueOrDie();
  }
};

class TablePropertyTest : public RunnerTest {
 protected:
  // Positions to delete: none, single rows, runs, or all.
  static std::shared_ptr<PositionSet> AnyDeleted(Arbitrary& any, int rows) {
    if (any.Chance(20)) return nullptr;
    auto set = std::make_shared<PositionSet>();
    if (any.Chance(10)) set->AddRange(0, rows);
    for (int at = 0; at < rows;) {
      const int run = 1 + any.Pick(any.Chance(20) ? 120 : 4);
      if (any.Chance(40)) set->AddRange(at, std::min(rows, at + run));
      at += run;
    }
    return set;
  }

  static std::shared_ptr<arrow::Table> Survivors(const std::shared_ptr<arrow::Table>& table,
                                                 const PositionSet* deleted) {
    if (deleted == nullptr) return table;
    std::vector<std::shared_ptr<arrow::Table>> kept = {table->Slice(0, 0)};
    int64_t at = 0;
    deleted->ForEachRange(0, table->num_rows(), [&](int64_t begin, int64_t end) {
      kept.push_back(table->Slice(at, begin - at));
      at = end;
    });
    kept.push_back(table->Slice(at));
    return arrow::ConcatenateTables(kept).ValueOrDie();
  }

  // What the outputs should show of one file.
  static std::shared_ptr<arrow::Table> Expected(const iceberg::Schema& schema,
                                                const arrow::Schema& file_schema,
                                                const arrow::Table& table, const InputFile& file,
                                                bool lineage) {
    arrow::FieldVector fields;
    std::vector<ArrayPtr> columns;
    iceberg::Field root;
    root.type.fields = schema.fields;
    const auto file_type = arrow::struct_(file_schema.fields());
    for (const auto& column : schema.fields) {
      const int at = Projection::IndexOf(*file_type, column.id);
      if (at < 0 && Projection::LeftOut(*file_type, root, column)) continue;
      const auto* in_file = at < 0 ? nullptr : file_type->field(at).get();
      const auto array =
          at < 0 ? nullptr : arrow::Concatenate(table.column(at)->chunks()).ValueOrDie();
      columns.push_back(Projection::Field(column, in_file, array, table.num_rows()));
      fields.push_back(arrow::field(column.name, columns.back()->type(),
                                    !(column.required && in_file && !in_file->nullable())));
    }
    if (lineage) {
      arrow::Int64Builder ids;
      arrow::Int64Builder sequences;
      for (int64_t i = 0; i < table.num_rows(); ++i) {
        EXPECT_TRUE(ids.Append(*file.first_row_id + i).ok());
        EXPECT_TRUE(sequences.Append(file.data_sequence_number).ok());
      }
      columns.push_back(ids.Finish().ValueOrDie());
      columns.push_back(sequences.Finish().ValueOrDie());
      fields.push_back(arrow::field("_row_id", arrow::int64()));
      fields.push_back(arrow::field("_last_updated_sequence_number", arrow::int64()));
    }
    const auto whole = arrow::Table::Make(arrow::schema(fields), columns, table.num_rows());
    return Survivors(whole, file.deleted.get());
  }

  // -------------------------------------------------------------------------------------- orders

  // Negative, 0 or positive: values of one column as Iceberg orders them, nulls apart.
  static int Compare(const arrow::Array& array, int64_t a, int64_t b) {
    const auto of = [&](const auto* typed) {
      const auto x = typed->GetView(a);
      const auto y = typed->GetView(b);
      return x < y ? -1 : (y < x ? 1 : 0);
    };
    switch (array.type_id()) {
      case arrow::Type::INT8: return of(static_cast<const arrow::Int8Array*>(&array));
      case arrow::Type::INT16: return of(static_cast<const arrow::Int16Array*>(&array));
      case arrow::Type::INT32: return of(static_cast<const arrow::Int32Array*>(&array));
      case arrow::Type::INT64: return of(static_cast<const arrow::Int64Array*>(&array));
      case arrow::Type::DATE32: return of(static_cast<const arrow::Date32Array*>(&array));
      case arrow::Type::TIMESTAMP: return of(static_cast<const arrow::TimestampArray*>(&array));
      case arrow::Type::FLOAT: return of(static_cast<const arrow::FloatArray*>(&array));
      case arrow::Type::DOUBLE: return of(static_cast<const arrow::DoubleArray*>(&array));
      case arrow::Type::BOOL: return of(static_cast<const arrow::BooleanArray*>(&array));
      case arrow::Type::STRING: return of(static_cast<const arrow::StringArray*>(&array));
      case arrow::Type::BINARY: return of(static_cast<const arrow::BinaryArray*>(&array));
      default: break;
    }
    const auto& decimals = static_cast<const arrow::Decimal128Array&>(array);
    const arrow::Decimal128 x(decimals.GetValue(a));
    const arrow::Decimal128 y(decimals.GetValue(b));
    return x < y ? -1 : (y < x ? 1 : 0);
  }

  static bool IsOrdered(const arrow::DataType& type) {
    static constexpr arrow::Type::type kTypes[] = {
        arrow::Type::INT8,   arrow::Type::INT16,     arrow::Type::INT32,  arrow::Type::INT64,
        arrow::Type::DATE32, arrow::Type::TIMESTAMP, arrow::Type::FLOAT,  arrow::Type::DOUBLE,
        arrow::Type::BOOL,   arrow::Type::STRING,    arrow::Type::BINARY, arrow::Type::DECIMAL128};
    return std::ranges::find(kTypes, type.id()) != std::end(kTypes);
  }

  // Now and then the request gets an order, by some columns of `tables`.
  void AnyOrder(Arbitrary& any, const std::vector<std::shared_ptr<arrow::Table>>& tables) {
    if (any.Chance(50)) return;
    auto ordering = std::make_shared<Ordering>();
    for (int i = 0, n = 1 + any.Pick(3); i < n; ++i) {
      const auto& columns = tables.front()->schema()->fields();
      const auto& field = columns[static_cast<size_t>(any.Pick(static_cast<int>(columns.size())))];
      if (!IsOrdered(*field->type()) || field->name().starts_with("_")) continue;
      OrderField by;
      by.column = field->name();
      if (request_.table != nullptr) {
        by.field_id = iceberg::FindField(request_.table->schema, field->name())->id;
      }
      by.ascending = any.Chance(50);
      by.nulls_first = any.Chance(50);
      ordering->order.fields.push_back(by);
    }
    if (ordering->order.fields.empty()) return;
    if (any.Chance(70)) ordering->spill_directory = testing::TempDir() + "lithify-spill";
    request_.ordering = ordering;
  }

  // The rows in the order that the request asks for, those that are equal as they were.
  std::shared_ptr<arrow::Table> Ordered(const std::shared_ptr<arrow::Table>& table) const {
    if (request_.ordering == nullptr) return table;
    std::vector<int64_t> rows(static_cast<size_t>(table->num_rows()));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    const auto less = [&](int64_t a, int64_t b) {
      for (const OrderField& by : request_.ordering->order.fields) {
        const auto array = table->GetColumnByName(by.column)->chunk(0);
        const bool no_a = array->IsNull(a);
        const bool no_b = array->IsNull(b);
        if (no_a && no_b) continue;
        if (no_a || no_b) return no_a == by.nulls_first;
        const int compared = Compare(*array, a, b);
        if (compared != 0) return (compared < 0) == by.ascending;
      }
      return false;
    };
    if (table->num_rows() > 0) std::ranges::stable_sort(rows, less);
    std::vector<std::shared_ptr<arrow::Table>> sorted = {table->Slice(0, 0)};
    for (const int64_t row : rows) sorted.push_back(table->Slice(row, 1));
    return arrow::ConcatenateTables(sorted).ValueOrDie()->CombineChunks().ValueOrDie();
  }

  void Shape(Arbitrary& any) {
    Request();
    request_.threads = 1 + any.Pick(3);
    request_.shape.outputs = 1 + any.Pick(3);
    request_.shape.row_group_rows = 1 + any.Pick(300);
    request_.shape.row_group_bytes = 1 + any.Pick(20000);
    request_.shape.page_bytes = 1 + any.Pick(4000);
  }

  // Runs with plenty or little memory; nullopt where little was too little.
  std::optional<GroupReport> RunShaped(Arbitrary& any) {
    Shape(any);
    const bool scarce = any.Chance(40);
    request_.memory_bytes = scarce ? (16 << any.Pick(6)) * kKiB : kGiB;
    auto report = runner_->Run(request_, cancel_);
    if (!report && scarce && report.error().code == Code::kLimit) return std::nullopt;
    if (!report) RC_FAIL(report.error().ToString());
    return std::move(*report);
  }

  void Compare(const GroupReport& report,
               const std::vector<std::shared_ptr<arrow::Table>>& tables) {
    const auto expected =
        Ordered(arrow::ConcatenateTables(tables).ValueOrDie()->CombineChunks().ValueOrDie());
    RC_ASSERT(report.rows_out == expected->num_rows());
    RC_ASSERT(report.rows_out == report.rows_in - report.rows_deleted);
    if (expected->num_rows() == 0) {
      RC_ASSERT(report.outputs.empty());
      return;
    }
    const auto actual = Output(report);
    if (!actual->schema()->Equals(*expected->schema(), false)) {
      RC_FAIL("expected " + expected->schema()->ToString() + "\nactual " +
              actual->schema()->ToString());
    }
    if (!actual->Equals(*expected, false)) {
      for (int i = 0; i < actual->num_columns(); ++i) {
        for (int64_t row = 0; row < actual->num_rows(); ++row) {
          const auto a = actual->column(i)->Slice(row, 1);
          const auto b = expected->column(i)->Slice(row, 1);
          if (a->Equals(b)) continue;
          std::string order = " order:";
          if (request_.ordering) {
            for (const auto& by : request_.ordering->order.fields) {
              order += " " + by.column + (by.ascending ? " asc" : " desc") +
                       (by.nulls_first ? " first" : " last");
            }
          }
          RC_FAIL("column " + actual->field(i)->ToString() + " row " + std::to_string(row) +
                  " expected " + b->ToString() + " actual " + a->ToString() + order +
                  (report.came_in_order ? " came in order" : ""));
        }
      }
      RC_FAIL("expected " + expected->ToString() + "\nactual " + actual->ToString());
    }
  }
};

TEST_F(TablePropertyTest, R093_ExactlyTheDeletedRowsAreMissing) {
  const bool ok = rc::check("deletes", [this](uint64_t seed) {
    Arbitrary any(seed);
    request_ = GroupRequest{};
    arrow::FieldVector fields;
    for (int i = 0, n = 1 + any.Pick(5); i < n; ++i) {
      fields.push_back(arrow::field("c" + std::to_string(i), any.Type(3), any.Chance(70)));
    }
    const auto schema = arrow::schema(fields);
    std::vector<std::shared_ptr<arrow::Table>> tables;
    for (int f = 0, files = 1 + any.Pick(4); f < files; ++f) {
      const int rows = any.Chance(15) ? 0 : any.Pick(250);
      std::vector<std::string> json;
      for (const auto& field : fields) json.push_back(any.Column(*field, rows));
      const std::string bytes =
          WriteParquet(*MakeTable(schema, json), 1 + any.Pick(150), any.Properties());
      Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
      request_.inputs.back().deleted = AnyDeleted(any, rows);
      request_.inputs.back().records = rows;
      const auto read = AsArrowReads(bytes);
      if (read == nullptr) RC_DISCARD("Arrow cannot read what it wrote");
      tables.push_back(Survivors(read, request_.inputs.back().deleted.get()));
    }
    AnyOrder(any, tables);
    const auto report = RunShaped(any);
    if (report) Compare(*report, tables);
  });
  EXPECT_TRUE(ok);
}

TEST_F(TablePropertyTest, I24_I22_TablesThatEvolvedKeepEveryRowByFieldId) {
  const bool ok = rc::check("evolution", [this](uint64_t seed) {
    Arbitrary any(seed);
    request_ = GroupRequest{};
    ArbitraryTable made(any);
    auto table = std::make_shared<TableTarget>();
    table->schema.fields = made.Evolved();
    table->row_lineage = any.Chance(50);
    request_.table = table;
    const auto file_schema = arrow::schema(made.file_fields());
    std::vector<std::shared_ptr<arrow::Table>> tables;
    for (int f = 0, files = 1 + any.Pick(3); f < files; ++f) {
      const int rows = any.Chance(15) ? 0 : any.Pick(200);
      std::vector<std::string> json;
      for (const auto& field : made.file_fields()) json.push_back(any.Column(*field, rows));
      const std::string bytes =
          WriteParquet(*MakeTable(file_schema, json), 1 + any.Pick(150), any.Properties());
      Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
      InputFile& file = request_.inputs.back();
      file.deleted = AnyDeleted(any, rows);
      file.records = rows;
      file.first_row_id = any.Pick(1'000'000);
      file.data_sequence_number = any.Pick(100);
      const auto read = AsArrowReads(bytes);
      if (read == nullptr) RC_DISCARD("Arrow cannot read what it wrote");
      tables.push_back(Expected(table->schema, *file_schema, *read, file, table->row_lineage));
    }
    AnyOrder(any, tables);
    const auto report = RunShaped(any);
    if (report) Compare(*report, tables);
  });
  EXPECT_TRUE(ok);
}

// An array of a scan under the type that Arrow reads of a rewrite, which leaves out what no file
// has: that must be null here.
std::shared_ptr<arrow::ArrayData> Narrowed(const std::shared_ptr<arrow::ArrayData>& data,
                                           const std::shared_ptr<arrow::DataType>& type) {
  auto out = data->Copy();
  out->type = type;
  if (type->id() == arrow::Type::STRUCT) {
    out->child_data.clear();
    for (int i = 0, next = 0; i < data->type->num_fields(); ++i) {
      const auto& child = data->child_data[static_cast<size_t>(i)];
      if (next < type->num_fields() && type->field(next)->name() == data->type->field(i)->name()) {
        out->child_data.push_back(Narrowed(child, type->field(next++)->type()));
      } else {
        RC_ASSERT(child->GetNullCount() == child->length);
      }
    }
    RC_ASSERT(std::ssize(out->child_data) == type->num_fields());
  } else if (type->id() == arrow::Type::LIST || type->id() == arrow::Type::MAP) {
    out->child_data = {Narrowed(data->child_data[0], type->field(0)->type())};
  }
  return out;
}

// A scan for queries shows the same rows as a rewrite, in batches, whichever columns it reads.
TEST_F(TablePropertyTest, ScansShowWhatRewritesWrite) {
  const bool ok = rc::check("scan", [this](uint64_t seed) {
    Arbitrary any(seed);
    request_ = GroupRequest{};
    ArbitraryTable made(any);
    TableTarget table;
    for (auto& field : made.Evolved()) {
      if (any.Chance(70)) table.schema.fields.push_back(std::move(field));
    }
    if (table.schema.fields.empty()) RC_DISCARD("no columns");
    const auto file_schema = arrow::schema(made.file_fields());
    const int rows = any.Chance(15) ? 0 : any.Pick(200);
    std::vector<std::string> json;
    for (const auto& field : made.file_fields()) json.push_back(any.Column(*field, rows));
    const std::string bytes =
        WriteParquet(*MakeTable(file_schema, json), 1 + any.Pick(150), any.Properties());
    Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
    InputFile& file = request_.inputs.back();
    file.deleted = AnyDeleted(any, rows);
    file.records = rows;
    const auto read = AsArrowReads(bytes);
    if (read == nullptr) RC_DISCARD("Arrow cannot read what it wrote");
    const auto expected = Expected(table.schema, *file_schema, *read, file, false);

    ArrowSchema exported;
    RC_ASSERT(ExportTableSchema(table.schema.fields, &exported).has_value());
    const auto schema = arrow::ImportSchema(&exported).ValueOrDie();
    // With little memory pages do not stay open between batches.
    const bool scarce = any.Chance(40);
    const int64_t memory = scarce ? (16 << any.Pick(7)) * kKiB : kGiB;
    const auto batches = OpenFileBatches(store_, file, table,
                                         {.memory_bytes = memory,
                                          .batch_bytes = 1 + any.Pick(20'000),
                                          .batch_rows = 64 + any.Pick(99)});
    if (!batches && scarce && batches.error().code == Code::kLimit) return;
    if (!batches) RC_FAIL(batches.error().ToString());
    std::vector<std::shared_ptr<arrow::RecordBatch>> parts;
    while (true) {
      auto batch = (*batches)->Next();
      if (!batch && scarce && batch.error().code == Code::kLimit) return;
      if (!batch) RC_FAIL(batch.error().ToString());
      if (!*batch) break;
      parts.push_back(arrow::ImportRecordBatch(batch->get(), schema).ValueOrDie());
      RC_ASSERT(parts.back()->ValidateFull().ok());
    }
    const auto actual = arrow::Table::FromRecordBatches(schema, parts).ValueOrDie();
    RC_ASSERT(actual->num_rows() == expected->num_rows());
    for (int i = 0, next = 0; i < schema->num_fields(); ++i) {
      const auto& column = *actual->column(i);
      if (next == expected->num_columns() ||
          expected->field(next)->name() != schema->field(i)->name()) {
        RC_ASSERT(column.null_count() == column.length());
        continue;
      }
      const auto& wanted = *expected->column(next++);
      if (wanted.length() == 0) continue;
      const auto whole = arrow::Concatenate(column.chunks()).ValueOrDie();
      const auto array = arrow::MakeArray(Narrowed(whole->data(), wanted.type()));
      const auto other = arrow::Concatenate(wanted.chunks()).ValueOrDie();
      if (!array->Equals(*other, arrow::EqualOptions::Defaults().nans_equal(true))) {
        RC_FAIL(schema->field(i)->name() + ": expected " + other->ToString() + "\nactual " +
                array->ToString());
      }
    }
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace lithify::rewrite
