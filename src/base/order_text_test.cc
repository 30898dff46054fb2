#include "base/order_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"

namespace lithify {
namespace {

using testing::HasSubstr;

OrderField By(std::string column, std::string transform = "identity", bool ascending = true,
              bool nulls_first = true) {
  OrderField field;
  field.column = std::move(column);
  field.transform = std::move(transform);
  field.ascending = ascending;
  field.nulls_first = nulls_first;
  return field;
}

RowOrder Parsed(std::string_view text) {
  auto order = ParseRowOrder(text);
  EXPECT_TRUE(order) << text << ": " << order.error().ToString();
  return order.value_or(RowOrder());
}

TEST(OrderText, ColumnsDirectionsAndNulls) {
  EXPECT_EQ(Parsed("a"), (RowOrder{.fields = {By("a")}}));
  EXPECT_EQ(
      Parsed(" a ASC, b desc ,c NULLS LAST, d Desc nulls First"),
      (RowOrder{.fields = {By("a"), By("b", "identity", false, false),
                           By("c", "identity", true, false), By("d", "identity", false, true)}}));
}

TEST(OrderText, NestedAndQuotedNames) {
  EXPECT_EQ(Parsed("location.lat, `a-b`.\"c \"\"d\"\"\", zorder, día"),
            (RowOrder{.fields = {By("location.lat"), By("a-b.c \"d\""), By("zorder"), By("día")}}));
  // A quoted name is never a keyword.
  EXPECT_EQ(Parsed("\"desc\" desc"), (RowOrder{.fields = {By("desc", "identity", false, false)}}));
}

TEST(OrderText, Transforms) {
  EXPECT_EQ(
      Parsed("bucket(16, a), bucket(a, 8), truncate(b, 4), TRUNCATE(5, b), days(ts), day(t2),"
             "date(t3), hours(ts) DESC, date_hour(t2), years(ts), month(x.y), identity(q)"),
      (RowOrder{.fields = {By("a", "bucket[16]"), By("a", "bucket[8]"), By("b", "truncate[4]"),
                           By("b", "truncate[5]"), By("ts", "day"), By("t2", "day"),
                           By("t3", "day"), By("ts", "hour", false, false), By("t2", "hour"),
                           By("ts", "year"), By("x.y", "month"), By("q")}}));
}

TEST(OrderText, Curves) {
  EXPECT_EQ(Parsed("zorder(a, b.c)"),
            (RowOrder{.fields = {By("a"), By("b.c")}, .curve = Curve::kZOrder}));
  EXPECT_EQ(Parsed("ZORDER(a)"), (RowOrder{.fields = {By("a")}, .curve = Curve::kZOrder}));
  EXPECT_EQ(Parsed("Hilbert(\"x y\", b)"),
            (RowOrder{.fields = {By("x y"), By("b")}, .curve = Curve::kHilbert}));
}

// R103: each error says where, and what to write.
TEST(OrderText, ErrorsTellWhereAndWhatToDo) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"", "no column at character 1", "at least one"},
      {"  ", "no column", "at least one"},
      {"a,", "a column is missing before the end at character 3", "column"},
      {"a,,b", "a column is missing before \",\" at character 3", "column"},
      {"a up", "unexpected \"up\" at character 3", "ASC or DESC"},
      {"a b", "unexpected \"b\" at character 3", "commas"},
      {"día NULLS", "unexpected the end after NULLS at character 10", "NULLS FIRST"},
      {"a NULLS DESC", "unexpected \"DESC\" after NULLS at character 9", "NULLS FIRST"},
      {"a-b", "unexpected \"-\" at character 2", "quote"},
      {"a.", "a name is missing after \".\" at character 3", "a.b"},
      {"\"a", "has no end at character 1", "close it"},
      {"a, \"\"", "an empty name at character 4", "name"},
      {"bukket(16, a)", "unknown transform \"bukket\" at character 1", "did you mean bucket?"},
      {"frob(a)", "unknown transform \"frob\"", "There are bucket"},
      {"bucket(a)", "',' is missing before \")\" at character 9", "bucket(16, column)"},
      {"bucket(0, a)", "at least 1, not \"0\" at character 8", "bucket(16, column)"},
      {"bucket(99999999999, a)", "at least 1", "bucket(16, column)"},
      {"truncate(a, x)", "at least 1, not \"x\" at character 13", "truncate(16, column)"},
      {"day(4, ts)", "day takes no number at character 5", "day(column)"},
      {"day(ts, 4)", "')' is missing before \",\" at character 7", "day(column)"},
      {"zorder()", "a column is missing before \")\" at character 8", "1 to 8 columns"},
      {"zorder(a", "')' is missing before the end", "zorder(a, b)"},
      {"zorder(a, b), c", "a curve stands alone at character 15", "into the curve"},
      {"c, zorder(a, b)", "a curve stands alone at character 4", "either columns or one"},
      {"zorder(a) DESC", "unexpected \"DESC\" after a curve at character 11", "no direction"},
      {"zorder(day(a))", "no transforms of them at character 8", "zorder(a, b)"},
      {"hilbert(a, a)", "\"a\" is given twice at character 12", "leave the second"},
      {"a, b, a DESC", "\"a\" is given twice at character 7", "leave the second"},
      {"zorder(a,b,c,d,e,f,g,h,i)", "more than 8 columns in a curve at character 24", "filter by"},
  };
  for (const auto& [text, message, hint] : cases) {
    const auto order = ParseRowOrder(text);
    ASSERT_FALSE(order) << text;
    EXPECT_EQ(order.error().code, Code::kInvalid) << text;
    EXPECT_THAT(order.error().message, HasSubstr(message)) << text;
    EXPECT_THAT(order.error().hint, HasSubstr(hint)) << text;
  }
}

TEST(OrderText, TooManyColumns) {
  std::string text = "c0";
  for (int i = 1; i < 100; ++i) text += ", c" + std::to_string(i);
  EXPECT_EQ(Parsed(text).fields.size(), 100);
  EXPECT_THAT(ParseRowOrder(text + ", d").error().message, HasSubstr("more than 100 columns"));
}

TEST(OrderText, TextComesBackAsTheSameOrder) {
  for (const char* text :
       {"a", "a DESC", "a NULLS LAST, b DESC NULLS FIRST", "bucket(16, \"a b\"), day(ts) DESC",
        "truncate(4, x.\"y-z\")", "zorder(a, b.c)", "hilbert(\"desc\", \"1st\")",
        "\"say \"\"so\"\"\", identity2"}) {
    const RowOrder order = Parsed(text);
    EXPECT_EQ(RowOrderText(order), text);
    EXPECT_EQ(Parsed(RowOrderText(order)), order) << text;
  }
  // Defaults are left out, and names of transforms are Iceberg's.
  EXPECT_EQ(RowOrderText(Parsed("a ASC NULLS FIRST, days(b)")), "a, day(b)");
}

// Whatever is read comes back from its text; whatever is not says where.
TEST(OrderText, AnyWords) {
  const std::vector<std::string> words = {
      "a",     "b", ".",      ",",   "(",       ")",   " ",      "desc",   "ASC",     "nulls",
      "first", "4", "bucket", "day", "\"",      "`",   "\"x\"",  "zorder", "hilbert", "last",
      "ä",     "-", "c",      ",",   " nulls ", "(a)", "(4, a)", "\xff",   "identity"};
  SeededRandom random(1);
  int64_t read = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (uint64_t n = random.Next() % 9; n > 0; --n) text += words[random.Next() % words.size()];
    const auto order = ParseRowOrder(text);
    if (!order) {
      ASSERT_THAT(order.error().message, HasSubstr(" at character ")) << text;
      ASSERT_NE(order.error().hint, "") << text;
      continue;
    }
    ++read;
    const auto again = ParseRowOrder(RowOrderText(*order));
    ASSERT_TRUE(again) << text << " -> " << RowOrderText(*order) << ": "
                       << again.error().ToString();
    ASSERT_EQ(*again, *order) << text;
  }
  EXPECT_GT(read, 5000);
}

}  // namespace
}  // namespace lithify
