// What the server says of itself: GetSqlInfo and GetXdbcTypeInfo [format/FlightSql.proto]. Private
// to this module.
#ifndef LITHIFY_SERVE_SQL_INFO_H_
#define LITHIFY_SERVE_SQL_INFO_H_

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace lithify::serve {

std::shared_ptr<arrow::Schema> SqlInfoSchema();
// Those of `wanted` that there are; empty: all.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> SqlInfo(const std::vector<uint32_t>& wanted,
                                                           const std::string& version);

std::shared_ptr<arrow::Schema> TypeInfoSchema();
// Of one type by its number in ODBC, or of all.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> TypeInfo(std::optional<int32_t> data_type);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SQL_INFO_H_
