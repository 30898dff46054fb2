// Test-only: columns, the files that hold one of them, and what the splice tier made of these.
#ifndef LITHIFY_REWRITE_SPLICE_FIXTURE_H_
#define LITHIFY_REWRITE_SPLICE_FIXTURE_H_

#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rewrite/pages_fixture.h"
#include "rewrite/parquet_fixture.h"

namespace lithify::rewrite {

using Ways = std::map<std::string, int64_t>;

inline constexpr int kRows = 5000;

inline std::shared_ptr<arrow::Array> Longs(int64_t first, int64_t step = 1, int64_t modulo = 0,
                                           int rows = kRows) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t value = modulo == 0 ? i : i % modulo;
    EXPECT_TRUE(builder.Append(first + value * step).ok());
  }
  return builder.Finish().ValueOrDie();
}

// Every seventh is null, if asked for.
inline std::shared_ptr<arrow::Array> Texts(const std::string& prefix, int modulo, bool nulls,
                                           int rows = kRows) {
  arrow::StringBuilder builder;
  for (int i = 0; i < rows; ++i) {
    if (nulls && i % 7 == 3) {
      EXPECT_TRUE(builder.AppendNull().ok());
    } else {
      EXPECT_TRUE(builder.Append(prefix + std::to_string(i % modulo)).ok());
    }
  }
  return builder.Finish().ValueOrDie();
}

// Lists of the row numbers: 0, 1 or 2 of each.
inline std::shared_ptr<arrow::Array> Lists(int64_t first, int rows) {
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int64Builder>());
  auto& items = static_cast<arrow::Int64Builder&>(*lists.value_builder());
  for (int64_t i = first; i < first + rows; ++i) {
    EXPECT_TRUE(lists.Append().ok());
    for (int64_t k = 0; k < i % 3; ++k) EXPECT_TRUE(items.Append(i).ok());
  }
  return lists.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Table> OneColumn(const std::shared_ptr<arrow::Array>& column,
                                               bool nullable = true) {
  return arrow::Table::Make(arrow::schema({arrow::field("c", column->type(), nullable)}), {column});
}

inline std::shared_ptr<parquet::WriterProperties> Properties(
    const std::function<void(parquet::WriterProperties::Builder&)>& with = {}) {
  parquet::WriterProperties::Builder builder;
  builder.compression(arrow::Compression::ZSTD);
  if (with) with(builder);
  return builder.build();
}

inline std::shared_ptr<parquet::WriterProperties> Plain(
    const std::function<void(parquet::WriterProperties::Builder&)>& with = {}) {
  return Properties([&](auto& builder) {
    builder.disable_dictionary();
    if (with) with(builder);
  });
}

inline std::unique_ptr<parquet::ParquetFileReader> Open(const std::string& bytes) {
  return parquet::ParquetFileReader::Open(
      std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
}

class SpliceTest : public RunnerTest {
 protected:
  void PutColumn(const std::shared_ptr<arrow::Array>& column,
                 const std::shared_ptr<parquet::WriterProperties>& properties,
                 bool nullable = true) {
    const std::string bytes = WriteParquet(*OneColumn(column, nullable), 1 << 20, properties);
    expected_.push_back(ReadParquet(bytes));
    Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
  }

  // Runs, and expects these ways, and the rows of all that was put.
  void ExpectWays(const Ways& ways) {
    const auto report = Run();
    ASSERT_TRUE(report) << report.error().ToString();
    EXPECT_EQ(report->splices, ways);
    ASSERT_EQ(report->outputs.size(), 1U);
    output_ = Bytes(report->outputs[0].name);
    const auto actual = Output(*report);
    const auto all = arrow::ConcatenateTables(expected_).ValueOrDie()->CombineChunks().ValueOrDie();
    EXPECT_TRUE(actual->Equals(*all, false)) << actual->ToString() << all->ToString();
    report_ = *report;
  }

  // Runs with few and many threads and with little and much memory: the output's bytes are the
  // same.
  void ExpectOneOutput(const std::function<void(const GroupReport&)>& check) {
    std::vector<std::string> files;
    for (const int threads : {1, 3}) {
      for (const int64_t memory : {int64_t{1} << 30, int64_t{1} << 21}) {
        Request();
        request_.threads = threads;
        request_.memory_bytes = memory;
        const auto report = runner_->Run(request_, cancel_);
        ASSERT_TRUE(report) << report.error().ToString();
        check(*report);
        files.push_back(Bytes(report->outputs[0].name));
      }
    }
    EXPECT_EQ(files[0], files[1]);
    EXPECT_EQ(files[0], files[2]);
    EXPECT_EQ(files[0], files[3]);
  }

  std::vector<std::shared_ptr<arrow::Table>> expected_;
  std::string output_;
  GroupReport report_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_SPLICE_FIXTURE_H_
