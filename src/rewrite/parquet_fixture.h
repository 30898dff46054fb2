// Test-only: Parquet files made and read by Arrow's own record-assembling reader and writer, which
// share no code with the column copy under test.
#ifndef LITHIFY_REWRITE_PARQUET_FIXTURE_H_
#define LITHIFY_REWRITE_PARQUET_FIXTURE_H_

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rewrite/footer.h"
#include "rewrite/parquet_runner.h"
#include "storage/memory_store.h"

namespace lithify::rewrite {

inline std::shared_ptr<arrow::Array> FromJson(const std::shared_ptr<arrow::DataType>& type,
                                              const std::string& json) {
  auto array = arrow::json::ArrayFromJSONString(type, json);
  EXPECT_TRUE(array.ok()) << array.status().ToString() << "\n" << type->ToString() << "\n" << json;
  return array.ValueOrDie();
}

// One column per field; `json` has one array text per column.
inline std::shared_ptr<arrow::Table> MakeTable(const std::shared_ptr<arrow::Schema>& schema,
                                               const std::vector<std::string>& json) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int i = 0; i < schema->num_fields(); ++i) {
    columns.push_back(FromJson(schema->field(i)->type(), json[static_cast<size_t>(i)]));
  }
  return arrow::Table::Make(schema, columns);
}

inline std::string WriteParquet(
    const arrow::Table& table, int64_t row_group_rows = 1 << 20,
    std::shared_ptr<parquet::WriterProperties> properties = parquet::default_writer_properties()) {
  auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  const auto status = parquet::arrow::WriteTable(table, arrow::default_memory_pool(), sink,
                                                 row_group_rows, properties, arrow_properties);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return sink->Finish().ValueOrDie()->ToString();
}

// As it is read of inputs.
inline std::shared_ptr<const Footer> FooterOf(const std::string& file) {
  arrow::io::BufferReader reader(arrow::Buffer::FromString(file));
  FileKinds kinds;
  auto footer = ReadFooter(reader, std::ssize(file), kinds);
  EXPECT_TRUE(footer.has_value()) << footer.error().ToString();
  return footer.value();
}

inline arrow::Result<std::shared_ptr<arrow::Table>> TryReadParquet(const std::string& bytes) {
  const auto file = std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes));
  ARROW_ASSIGN_OR_RAISE(const auto reader,
                        parquet::arrow::OpenFile(file, arrow::default_memory_pool()));
  ARROW_ASSIGN_OR_RAISE(const auto table, reader->ReadTable());
  return table->CombineChunks();
}

inline std::shared_ptr<arrow::Table> ReadParquet(const std::string& bytes) {
  auto table = TryReadParquet(bytes);
  EXPECT_TRUE(table.ok()) << table.status().ToString();
  return *table;
}

// Null: once in a few thousand arbitrary nested files, Arrow cannot read what it wrote.
inline std::shared_ptr<arrow::Table> AsArrowReads(const std::string& bytes) {
  return TryReadParquet(bytes).ValueOr(nullptr);
}

// A store in memory with one partition "p/", and a runner on it.
class RunnerTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(store_.PutNew("p/" + name, bytes));
    request_.inputs.push_back(InputFile{"p/" + name, static_cast<int64_t>(bytes.size())});
  }
  std::string Bytes(const std::string& name) {
    return store_.Get("p/" + name, int64_t{1} << 40)->bytes;
  }
  GroupRequest& Request() {
    request_.job_id = "job";
    request_.partition = "p/";
    request_.shape.row_group_bytes = 128 << 20;
    request_.shape.row_group_rows = 1 << 20;
    request_.shape.page_bytes = 1 << 20;
    request_.shape.file_size_bytes_max = int64_t{2} << 30;
    request_.shape.growth_max = 0;
    request_.verify = Verify::kFull;
    request_.memory_bytes = int64_t{1} << 30;
    request_.new_name = [this] { return "out" + std::to_string(outputs_++) + ".parquet"; };
    return request_;
  }
  // Makes it a group of a table with these columns.
  TableTarget& Table(std::vector<iceberg::Field> fields) {
    auto table = std::make_shared<TableTarget>();
    table->schema.fields = std::move(fields);
    request_.table = table;
    return *table;
  }
  Result<GroupReport> Run() { return runner_->Run(Request(), cancel_); }
  // Outputs in order, as one table.
  std::shared_ptr<arrow::Table> Output(const GroupReport& report) {
    std::vector<std::shared_ptr<arrow::Table>> tables;
    for (const auto& output : report.outputs) tables.push_back(ReadParquet(Bytes(output.name)));
    return arrow::ConcatenateTables(tables).ValueOrDie()->CombineChunks().ValueOrDie();
  }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
  std::unique_ptr<GroupRunner> runner_ = MakeParquetRunner(store_);
  CancelFlag cancel_;
  GroupRequest request_;
  int outputs_ = 0;
  int inputs_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PARQUET_FIXTURE_H_
