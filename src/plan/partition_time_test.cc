#include "plan/partition_time.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/text.h"

namespace lithify::plan {
namespace {

using iceberg::TypeKind;
using iceberg::Value;

// A table with a column of each type, divided by these transforms of one.
std::string EndText(const std::vector<std::pair<TypeKind, std::string>>& fields,
                    const std::vector<Value>& values) {
  iceberg::TableMetadata table;
  iceberg::Schema schema;
  iceberg::PartitionSpec spec;
  for (size_t i = 0; i < fields.size(); ++i) {
    iceberg::Field field;
    field.id = static_cast<int>(i) + 1;
    field.type.kind = fields[i].first;
    schema.fields.push_back(field);
    spec.fields.push_back({{field.id}, 1000 + field.id, "f", fields[i].second});
  }
  table.schemas = {schema};
  table.partition_specs = {spec};
  const auto end = PartitionEnd(table, {.spec_id = 0, .values = values});
  return end ? FormatTime(*end).substr(0, 19) : "none";
}
std::string EndText(const std::string& transform, int64_t value,
                    TypeKind kind = TypeKind::kTimestamptz) {
  return EndText({{kind, transform}}, {Value(value)});
}

TEST(PartitionEnd, IsWhereTheNextPartitionBegins) {
  EXPECT_EQ(EndText("day", 0), "1970-01-02T00:00:00");
  EXPECT_EQ(EndText("day", 20'787), "2026-12-01T00:00:00");
  EXPECT_EQ(EndText("identity", 20'787, TypeKind::kDate), "2026-12-01T00:00:00");
  EXPECT_EQ(EndText("hour", 20'787 * 24 + 5), "2026-11-30T06:00:00");
  EXPECT_EQ(EndText("month", 56 * 12 + 10), "2026-12-01T00:00:00");
  EXPECT_EQ(EndText("month", 56 * 12 + 11), "2027-01-01T00:00:00");
  EXPECT_EQ(EndText("month", -1), "1970-01-01T00:00:00");
  EXPECT_EQ(EndText("year", 56), "2027-01-01T00:00:00");
  EXPECT_EQ(EndText("year", -1), "1970-01-01T00:00:00");
  EXPECT_EQ(EndText("day", -1), "1970-01-01T00:00:00");
}

TEST(PartitionEnd, OfSeveralTheEarliest) {
  EXPECT_EQ(EndText({{TypeKind::kDate, "month"}, {TypeKind::kTimestamp, "day"}},
                    {Value(int64_t{56 * 12 + 10}), Value(int64_t{20'780})}),
            "2026-11-24T00:00:00");
  EXPECT_EQ(EndText({{TypeKind::kString, "identity"}, {TypeKind::kTimestamp, "day"}},
                    {Value(std::string("eu")), Value(int64_t{20'787})}),
            "2026-12-01T00:00:00");
}

TEST(PartitionEnd, WhereNothingTellsThereIsNone) {
  EXPECT_EQ(EndText("identity", 5, TypeKind::kInt), "none");
  EXPECT_EQ(EndText("bucket[16]", 5), "none");
  EXPECT_EQ(EndText("void", 5), "none");
  EXPECT_EQ(EndText({{TypeKind::kDate, "day"}}, {Value()}), "none");
  EXPECT_EQ(EndText({}, {}), "none");
  EXPECT_EQ(EndText({{TypeKind::kDate, "day"}}, {}), "none");
  for (const char* transform : {"year", "month", "day", "hour"}) {
    EXPECT_EQ(EndText(transform, std::numeric_limits<int64_t>::max()), "none") << transform;
    EXPECT_EQ(EndText(transform, std::numeric_limits<int64_t>::min()), "none") << transform;
    EXPECT_EQ(EndText(transform, 2'000'000'000), "none") << transform;
  }
}

}  // namespace
}  // namespace lithify::plan
