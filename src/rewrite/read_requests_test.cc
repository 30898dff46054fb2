// How many requests a rewrite makes of a store where each is a round trip (R183, R216).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "base/text.h"
#include "rewrite/splice_fixture.h"
#include "storage/counting_store.h"

namespace lithify::rewrite {
namespace {

using storage::CountingStore;

// Columns of numbers that do not pack, and one of texts that do.
std::shared_ptr<arrow::Table> Mixed(int columns, int rows, uint64_t seed) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (int c = 0; c < columns; ++c) {
    arrow::Int64Builder builder;
    EXPECT_TRUE(builder.Reserve(rows).ok());
    for (int r = 0; r < rows; ++r) {
      state = state * 6364136223846793005 + 1442695040888963407;
      builder.UnsafeAppend(static_cast<int64_t>(state >> 2));
    }
    arrays.push_back(builder.Finish().ValueOrDie());
    fields.push_back(arrow::field("n" + std::to_string(c), arrow::int64(), false));
  }
  arrays.push_back(Texts("t", 40, true, rows));
  fields.push_back(arrow::field("text", arrow::utf8()));
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

class ReadRequestsTest : public SpliceTest {
 protected:
  void PutFiles(int files, int columns, int rows, int64_t row_group_rows,
                const std::shared_ptr<parquet::WriterProperties>& properties) {
    for (int i = 0; i < files; ++i) {
      const std::string bytes = WriteParquet(*Mixed(columns, rows, static_cast<uint64_t>(i)),
                                             row_group_rows, properties);
      bytes_in_ += std::ssize(bytes);
      Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
    }
  }

  Result<GroupReport> RunFar(const char* shape) {
    far_.Forget();
    const auto begin = std::chrono::steady_clock::now();
    auto report = MakeParquetRunner(far_)->Run(request_, cancel_);
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_TRUE(report) << report.error().ToString();
    const auto in = far_.Count("/in");
    const auto out = far_.Count("/out");
    std::printf(
        "%s: %zu files, %.1f MiB: inputs %lld requests (%.2f per file), %.1f MiB, repeated %.1f; "
        "outputs %lld requests, %.1f MiB; at once %lld; %.0f ms\n",
        shape, request_.inputs.size(), static_cast<double>(bytes_in_) / kMiB,
        static_cast<long long>(in.requests),
        static_cast<double>(in.requests) / static_cast<double>(request_.inputs.size()),
        static_cast<double>(in.bytes) / kMiB, static_cast<double>(in.repeated_bytes) / kMiB,
        static_cast<long long>(out.requests), static_cast<double>(out.bytes) / kMiB,
        static_cast<long long>(in.at_once), ms);
    return report;
  }

  CountingStore far_{store_, std::chrono::microseconds(1000)};
  int64_t bytes_in_ = 0;
};

TEST_F(ReadRequestsTest, ManySmallFiles) {
  Request().threads = 4;
  PutFiles(96, 10, 9'000, 1 << 20, Properties());
  request_.memory_bytes = 128 * kMiB;
  request_.verify = Verify::kSample;
  RunFar("small, sample, little memory");
  request_.memory_bytes = kGiB;
  RunFar("small, sample, much memory");
  request_.shape.splice = false;
  RunFar("small, recode, much memory");
}

TEST_F(ReadRequestsTest, ManyTinyFiles) {
  Request().threads = 4;
  PutFiles(1000, 4, 600, 1 << 20, Properties());
  request_.verify = Verify::kSample;
  RunFar("tiny, much memory");
  request_.memory_bytes = 64 * kMiB;
  RunFar("tiny, little memory");
}

TEST_F(ReadRequestsTest, FewLargeFiles) {
  Request().threads = 4;
  PutFiles(3, 32, 40'000, 10'000, Plain([](auto& b) {
             b.enable_write_page_index();
             b.data_pagesize(16 << 10);
           }));
  request_.verify = Verify::kSample;
  RunFar("large, sample, much memory");
  request_.shape.row_group_bytes = 4 * kMiB;
  RunFar("large, moved");
  request_.verify = Verify::kFull;
  RunFar("large, moved, full");
  request_.memory_bytes = 48 * kMiB;
  RunFar("large, little memory");
}

}  // namespace
}  // namespace lithify::rewrite
