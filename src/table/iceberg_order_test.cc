#include "table/iceberg_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/order_text.h"

namespace lithify::table {
namespace {

using iceberg::SortField;
using iceberg::TypeKind;
using testing::HasSubstr;

iceberg::Field FieldOf(int id, std::string name, TypeKind kind,
                       std::vector<iceberg::Field> fields = {}) {
  iceberg::Field field;
  field.id = id;
  field.name = std::move(name);
  field.type.kind = kind;
  field.type.fields = std::move(fields);
  return field;
}

class TableOrderTest : public testing::Test {
 protected:
  TableOrderTest() {
    iceberg::Schema schema;
    schema.fields = {
        FieldOf(1, "id", TypeKind::kLong),
        FieldOf(2, "ts", TypeKind::kTimestamptz),
        FieldOf(3, "region", TypeKind::kString),
        FieldOf(4, "location", TypeKind::kStruct, {FieldOf(5, "lat", TypeKind::kDouble)}),
        FieldOf(6, "tags", TypeKind::kList, {FieldOf(7, "element", TypeKind::kString)}),
        FieldOf(8, "shape", TypeKind::kGeometry),
        FieldOf(9, "extra", TypeKind::kVariant),
    };
    table_.schemas = {schema};
    table_.sort_orders = {{},
                          {.order_id = 1, .fields = {By(3), By(2, "day", false, false)}},
                          {.order_id = 2, .fields = {By(1)}},
                          {.order_id = 4, .fields = {By(1)}}};
  }

  static SortField By(int id, std::string transform = "identity", bool ascending = true,
                      bool nulls_first = true) {
    return {.source_ids = {id},
            .transform = std::move(transform),
            .ascending = ascending,
            .nulls_first = nulls_first};
  }

  Result<TableOrder> Bound(std::string_view text) const {
    const auto order = ParseRowOrder(text);
    EXPECT_TRUE(order) << text;
    return BindOrder(*order, table_);
  }

  iceberg::TableMetadata table_;
};

TEST_F(TableOrderTest, NamesBecomeFields) {
  const auto bound = Bound("location.lat DESC, bucket(16, id)");
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->order.fields[0].field_id, 5);
  EXPECT_EQ(bound->order.fields[1].field_id, 1);
  EXPECT_EQ(RowOrderText(bound->order), "location.lat DESC, bucket(16, id)");
  EXPECT_EQ(bound->sort_order_id, std::nullopt);
}

// What is stamped is true: the same fields, transforms, directions and places of nulls (R104).
TEST_F(TableOrderTest, R104OnlyTheSameOrderHasItsId) {
  EXPECT_EQ(Bound("region, days(ts) DESC")->sort_order_id, 1);
  EXPECT_EQ(Bound("region, day(ts) DESC NULLS LAST")->sort_order_id, 1);
  for (const char* other :
       {"region", "region, day(ts)", "region, ts DESC", "region, day(ts) DESC NULLS FIRST",
        "region DESC, day(ts) DESC", "region, day(ts) DESC, id", "zorder(id)"}) {
    EXPECT_EQ(Bound(other)->sort_order_id, std::nullopt) << other;
  }
  // Of two that are the same, the default one.
  EXPECT_EQ(Bound("id")->sort_order_id, 2);
  table_.default_sort_order_id = 4;
  EXPECT_EQ(Bound("id")->sort_order_id, 4);
}

TEST_F(TableOrderTest, R103UnknownColumnsSuggestTheNearest) {
  const auto slip = Bound("regoin");
  ASSERT_FALSE(slip);
  EXPECT_EQ(slip.error().code, Code::kInvalid);
  EXPECT_EQ(slip.error().message, "no column \"regoin\"");
  EXPECT_EQ(slip.error().hint, "did you mean \"region\"?");
  EXPECT_EQ(Bound("location.lot").error().hint, "did you mean \"location.lat\"?");
  EXPECT_EQ(Bound("completely_else").error().hint, "names are case-sensitive");
}

TEST_F(TableOrderTest, ColumnsThatHaveNoOrderAreRefused) {
  for (const auto& [text, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"location", "\"location\": its type has no order"},
           {"shape", "\"shape\": its type has no order"},
           {"extra", "\"extra\": its type has no order"},
           {"tags", "\"tags\": its type has no order"},
           {"tags.element", "\"tags.element\": it has many values per row"},
           {"hours(region)", "\"hour\" does not take \"region\""},
           {"bucket(4, location.lat)", "\"bucket[4]\" does not take \"location.lat\""},
           {"truncate(4, ts)", "\"truncate[4]\" does not take \"ts\""},
       }) {
    const auto bound = Bound(text);
    ASSERT_FALSE(bound) << text;
    EXPECT_EQ(bound.error().code, Code::kUnsupported) << text;
    EXPECT_THAT(bound.error().message, HasSubstr(message));
    EXPECT_NE(bound.error().hint, "") << text;
  }
  EXPECT_THAT(Bound("location").error().hint, HasSubstr("\"location\".\"lat\""));
}

TEST_F(TableOrderTest, R104DeclaredOrder) {
  table_.default_sort_order_id = 1;
  const auto declared = DeclaredOrder(table_);
  ASSERT_TRUE(declared);
  EXPECT_EQ(RowOrderText(declared->order), "region, day(ts) DESC");
  EXPECT_EQ(declared->sort_order_id, 1);
  EXPECT_EQ(*declared, *Bound("region, day(ts) DESC"));
}

TEST_F(TableOrderTest, R104UnsortedTablesAreToldBothWaysOut) {
  const auto none = DeclaredOrder(table_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalid);
  EXPECT_THAT(none.error().message, HasSubstr("declares no sort order"));
  EXPECT_THAT(none.error().hint, HasSubstr("sort_order =>"));
  EXPECT_THAT(none.error().hint, HasSubstr("WRITE ORDERED BY"));
  table_.sort_orders.push_back({.order_id = 7, .fields = {By(1, "void")}});
  table_.default_sort_order_id = 7;
  EXPECT_THAT(DeclaredOrder(table_).error().message, HasSubstr("orders nothing"));
}

TEST_F(TableOrderTest, DeclaredOrdersThatCannotBeFollowed) {
  table_.default_sort_order_id = 7;
  for (const SortField& field : {By(99), By(1, "geohash"), By(8),
                                 SortField{.source_ids = {1, 2}, .transform = "bucket[4]"}}) {
    table_.sort_orders.push_back({.order_id = 7, .fields = {field}});
    const auto declared = DeclaredOrder(table_);
    ASSERT_FALSE(declared);
    EXPECT_EQ(declared.error().code, Code::kUnsupported);
    EXPECT_EQ(declared.error().context, "sort order 7");
    table_.sort_orders.pop_back();
  }
}

TEST_F(TableOrderTest, AlongACurveOnlyColumnsCount) {
  const auto curve = AlongCurve(*Bound("region DESC, day(ts), ts"), Curve::kHilbert);
  ASSERT_TRUE(curve);
  EXPECT_EQ(RowOrderText(curve->order), "hilbert(region, ts)");
  EXPECT_EQ(curve->order, Bound("hilbert(region, ts)")->order);
}

TEST_F(TableOrderTest, BoundsTellOfOrdersThatKeepValuesInOrder) {
  EXPECT_EQ(RangeField(Bound("region, id")->order)->column, "region");
  EXPECT_EQ(RangeField(Bound("days(ts) DESC")->order)->transform, "day");
  EXPECT_EQ(RangeField(Bound("truncate(2, region)")->order)->column, "region");
  EXPECT_EQ(RangeField(Bound("bucket(4, id), region")->order), nullptr);
  EXPECT_EQ(RangeField(Bound("zorder(id)")->order), nullptr);
  RowOrder order = Bound("id, region")->order;
  order.fields[0].transform = "void";
  EXPECT_EQ(RangeField(order)->column, "region");
}

}  // namespace
}  // namespace lithify::table
