// commit::IcebergTable with real Parquet files and deletion vectors in it. For tests.
#ifndef LITHIFY_JOB_PARQUET_TABLE_FIXTURE_H_
#define LITHIFY_JOB_PARQUET_TABLE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/position_set.h"
#include "commit/iceberg_fixture.h"
#include "rewrite/parquet_fixture.h"
#include "rewrite/table_fixture.h"
#include "table/puffin.h"

namespace lithify::job {

class ParquetTable : public commit::IcebergTable {
 protected:
  // A data file with ids from `first` on, all of one day.
  iceberg::DataFile Rows(const std::string& name, int64_t first, int64_t rows, int64_t day = 1) {
    std::string ids = "[";
    std::string days = "[";
    for (int64_t i = 0; i < rows; ++i) {
      ids += (i > 0 ? "," : "") + std::to_string(first + i);
      days += (i > 0 ? "," : "") + std::to_string(day);
    }
    const auto table =
        rewrite::MakeTable(arrow::schema({rewrite::IdField(1, "id", arrow::int64()),
                                          rewrite::IdField(2, "day", arrow::int32())}),
                           {ids + "]", days + "]"});
    const std::string bytes = rewrite::WriteParquet(*table);
    EXPECT_TRUE(store_->PutNew("t/data/" + name, bytes));
    iceberg::DataFile file = Data(name, rows, day);
    file.file_size_in_bytes = std::ssize(bytes);
    file.lower_bounds = {{1, Bound(first)}};
    file.upper_bounds = {{1, Bound(first + rows - 1)}};
    return file;
  }
  static std::string Bound(int64_t value) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  // A deletion vector of these rows.
  iceberg::DataFile DeletedRows(const std::string& puffin, const std::string& of,
                                const std::vector<int64_t>& rows) {
    PositionSet set;
    for (const int64_t row : rows) set.Add(row);
    std::vector<table::PuffinBlob> blobs(1);
    blobs[0].type = "deletion-vector-v1";
    const std::string bytes = table::WritePuffin(blobs, {table::EncodeDeletionVector(set)}, {});
    EXPECT_TRUE(store_->PutNew("t/data/" + puffin, bytes));
    iceberg::DataFile file = Vector(puffin, of, blobs[0].offset, std::ssize(rows));
    file.content_size_in_bytes = blobs[0].length;
    file.file_size_in_bytes = std::ssize(bytes);
    return file;
  }
  // A position delete file that names these rows of one data file, and does not say so in the
  // metadata.
  iceberg::DataFile DeletedPositions(const std::string& name, const std::string& of,
                                     const std::vector<int64_t>& rows) {
    std::string paths;
    std::string positions;
    for (const int64_t row : rows) {
      paths += (paths.empty() ? "[\"" : ",\"") + commit::Path(of) + "\"";
      positions += (positions.empty() ? "[" : ",") + std::to_string(row);
    }
    constexpr int kPath = 2147483546;
    constexpr int kPosition = 2147483545;
    const auto table = rewrite::MakeTable(
        arrow::schema({rewrite::IdField(kPath, "file_path", arrow::utf8(), false),
                       rewrite::IdField(kPosition, "pos", arrow::int64(), false)}),
        {paths + "]", positions + "]"});
    const std::string bytes = rewrite::WriteParquet(*table);
    EXPECT_TRUE(store_->PutNew("t/data/" + name, bytes));
    iceberg::DataFile file = Positions(name);
    file.record_count = std::ssize(rows);
    file.file_size_in_bytes = std::ssize(bytes);
    return file;
  }
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_PARQUET_TABLE_FIXTURE_H_
