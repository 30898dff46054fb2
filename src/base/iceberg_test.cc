#include "base/iceberg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lithify::iceberg {
namespace {

TEST(CompareValues, OrdersEachKind) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<Value>> ascending = {
      {false, true},
      {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0},
       std::numeric_limits<int64_t>::max()},
      {-1.5F, -0.0F, 0.0F, 1.5F, std::numeric_limits<float>::infinity(), nan},
      {-infinity, -0.0, 0.0, 1e300, infinity, std::nan("")},
      {Decimal{-(Int128{1} << 100)}, Decimal{-1}, Decimal{0}, Decimal{Int128{1} << 100}},
      {std::string(), std::string("\0", 1), std::string("a"), std::string("aa"), std::string("b"),
       std::string("\x7f"), std::string("\x80"), std::string("\xff")},
  };
  for (const auto& values : ascending) {
    for (size_t a = 0; a < values.size(); ++a) {
      for (size_t b = 0; b < values.size(); ++b) {
        const int order = CompareValues(values[a], values[b]);
        EXPECT_EQ(order < 0, a < b) << a << " " << b;
        EXPECT_EQ(order > 0, a > b) << a << " " << b;
      }
    }
  }
}

Field Make(int id, std::string name, TypeKind kind, std::vector<Field> fields = {}) {
  Field field;
  field.id = id;
  field.name = std::move(name);
  field.type.kind = kind;
  field.type.fields = std::move(fields);
  return field;
}

Schema Nested() {
  Schema schema;
  schema.fields = {
      Make(1, "id", TypeKind::kLong),
      Make(2, "a.b", TypeKind::kString),
      Make(3, "a", TypeKind::kStruct,
           {Make(4, "b", TypeKind::kInt), Make(5, "c.d", TypeKind::kInt)}),
      Make(6, "tags", TypeKind::kList, {Make(7, "element", TypeKind::kString)}),
      Make(8, "m", TypeKind::kMap,
           {Make(9, "key", TypeKind::kString),
            Make(10, "value", TypeKind::kStruct, {Make(11, "x", TypeKind::kDouble)})}),
  };
  return schema;
}

TEST(FindField, ByIdAtEveryDepth) {
  const Schema schema = Nested();
  const std::vector<std::string> names = {"id",      "a.b", "a",   "b",     "c.d", "tags",
                                          "element", "m",   "key", "value", "x"};
  for (size_t i = 0; i < names.size(); ++i) {
    const Field* field = FindField(schema, static_cast<int>(i) + 1);
    ASSERT_NE(field, nullptr) << names[i];
    EXPECT_EQ(field->name, names[i]);
  }
  EXPECT_EQ(FindField(schema, 12), nullptr);
  EXPECT_EQ(FindField(schema, 0), nullptr);
}

TEST(FindField, ByDottedNameAlsoWhereNamesHoldDots) {
  const Schema schema = Nested();
  const auto id = [&](std::string_view name) {
    const Field* field = FindField(schema, name);
    return field == nullptr ? -1 : field->id;
  };
  EXPECT_EQ(id("id"), 1);
  EXPECT_EQ(id("a.b"), 2);  // The first match.
  EXPECT_EQ(id("a.c.d"), 5);
  EXPECT_EQ(id("tags.element"), 7);
  EXPECT_EQ(id("m.key"), 9);
  EXPECT_EQ(id("m.value.x"), 11);
  for (const char* absent : {"", "i", "idx", "id.", "a.", "a.c", ".id", "tags.key", "ID", "m.x"}) {
    EXPECT_EQ(id(absent), -1) << absent;
  }
}

TEST(Type, EqualityLooksAtEveryMember) {
  Type decimal{TypeKind::kDecimal, 9, 2, 0, "", {}};
  EXPECT_EQ(decimal, (Type{TypeKind::kDecimal, 9, 2, 0, "", {}}));
  EXPECT_NE(decimal, (Type{TypeKind::kDecimal, 18, 2, 0, "", {}}));
  EXPECT_NE(decimal, (Type{TypeKind::kDecimal, 9, 3, 0, "", {}}));
  EXPECT_NE((Type{TypeKind::kFixed, 0, 0, 4, "", {}}), (Type{TypeKind::kFixed, 0, 0, 5, "", {}}));
  EXPECT_NE((Type{TypeKind::kGeometry, 0, 0, 0, "(srid:1)", {}}),
            (Type{TypeKind::kGeometry, 0, 0, 0, "", {}}));
  EXPECT_EQ(Nested(), Nested());
  Schema other = Nested();
  other.fields[4].type.fields[1].type.fields[0].required = true;
  EXPECT_NE(Nested(), other);
}

TEST(PartitionKey, OrderIsTotalWithNullFirst) {
  const std::vector<PartitionKey> ascending = {
      {0, {}},
      {0, {Value()}},
      {0, {Value(), Value()}},
      {0, {int64_t{-1}}},
      {0, {int64_t{7}, std::string("a")}},
      {0, {int64_t{7}, std::string("b")}},
      {1, {Value(std::nan(""))}},
      {2, {}},
  };
  for (size_t a = 0; a < ascending.size(); ++a) {
    for (size_t b = 0; b < ascending.size(); ++b) {
      EXPECT_EQ(ascending[a] < ascending[b], a < b) << a << " " << b;
    }
  }
}

TEST(TableMetadata, FindsWhatItHolds) {
  TableMetadata table;
  table.schemas = {{1, {}, {}}, {5, {}, {}}};
  table.current_schema_id = 5;
  table.partition_specs = {{0, {}}, {3, {}}};
  table.sort_orders = {{0, {}}, {2, {}}};
  table.snapshots.resize(2);
  table.snapshots[0].snapshot_id = 11;
  table.snapshots[1].snapshot_id = 22;
  table.refs["main"].snapshot_id = 22;
  table.refs["audit"].snapshot_id = 33;
  table.properties.emplace("k", "v");

  EXPECT_EQ(table.schema().schema_id, 5);
  EXPECT_EQ(table.FindSchema(1), &table.schemas[0]);
  EXPECT_EQ(table.FindSchema(2), nullptr);
  EXPECT_EQ(table.FindSpec(3), &table.partition_specs[1]);
  EXPECT_EQ(table.FindSpec(1), nullptr);
  EXPECT_EQ(table.FindSortOrder(2), &table.sort_orders[1]);
  EXPECT_EQ(table.FindSortOrder(1), nullptr);
  EXPECT_EQ(table.FindSnapshot(11), &table.snapshots[0]);
  EXPECT_EQ(table.FindSnapshot(12), nullptr);
  EXPECT_EQ(table.RefSnapshot("main"), &table.snapshots[1]);
  EXPECT_EQ(table.RefSnapshot("audit"), nullptr);  // Points to a snapshot that is gone.
  EXPECT_EQ(table.RefSnapshot("other"), nullptr);
  EXPECT_EQ(table.Property("k", "x"), "v");
  EXPECT_EQ(table.Property("l", "x"), "x");
}

}  // namespace
}  // namespace lithify::iceberg
