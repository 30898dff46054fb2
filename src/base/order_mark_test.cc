#include "base/order_mark.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lithify {
namespace {

RowOrder Order(int field_id, Curve curve = Curve::kNone) {
  OrderField field;
  field.field_id = field_id;
  field.column = "a";
  return {.fields = {field}, .curve = curve};
}

TEST(OrderMark, ComesBackFromTheName) {
  const std::string suffix = OrderSuffix(Order(1), "job", 3);
  const std::string path =
      "s3://lake/t/data/0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee" + suffix + ".parquet";
  const auto mark = ReadOrderMark(path);
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->order, OrderDigits(Order(1)));
  EXPECT_EQ("-s" + std::string(mark->run), suffix);
}

// Names outlive versions.
TEST(OrderMark, StaysTheSame) {
  EXPECT_EQ(OrderDigits(Order(1)), "55aad840");
  EXPECT_EQ(OrderSuffix(Order(1), "job", 3), "-s55aad840-eddc7463");
}

TEST(OrderMark, WhateverDiffersHasAnother) {
  std::set<std::string> marks = {OrderDigits(Order(1)), OrderDigits(Order(2)),
                                 OrderDigits(Order(1, Curve::kZOrder)),
                                 OrderDigits(Order(1, Curve::kHilbert)), OrderDigits(Order(0))};
  RowOrder order = Order(1);
  order.fields[0].ascending = false;
  marks.insert(OrderDigits(order));
  order.fields[0].nulls_first = false;
  marks.insert(OrderDigits(order));
  order.fields[0].transform = "bucket[16]";
  marks.insert(OrderDigits(order));
  order.fields.push_back(order.fields[0]);
  marks.insert(OrderDigits(order));
  EXPECT_EQ(marks.size(), 9);
  EXPECT_NE(OrderSuffix(Order(1), "job", 3), OrderSuffix(Order(1), "job", 4));
  EXPECT_NE(OrderSuffix(Order(1), "job", 3), OrderSuffix(Order(1), "jobs", 3));
}

TEST(OrderMark, AColumnMayBeRenamedButNotOneWithoutAnId) {
  RowOrder order = Order(1);
  order.fields[0].column = "b";
  EXPECT_EQ(OrderDigits(order), OrderDigits(Order(1)));
  order.fields[0].field_id = 0;
  EXPECT_NE(OrderDigits(order), OrderDigits(Order(0)));
}

TEST(OrderMark, OtherNamesHaveNone) {
  for (const char* name : {"", "a.parquet", "0190aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee.parquet",
                           "x-s12345678-1234567.parquet", "x-s12345678-1234567G.parquet",
                           "x-s1234567-012345678.parquet", "x-s12345678-12345678.orc",
                           "x-z12345678-12345678.parquet", "xs12345678-12345678.parquet"}) {
    EXPECT_FALSE(ReadOrderMark(name)) << name;
  }
  EXPECT_TRUE(ReadOrderMark("x-s12345678-12345678.parquet"));
}

}  // namespace
}  // namespace lithify
