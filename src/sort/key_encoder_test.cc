#include "sort/key_encoder.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sort/column_fixture.h"
#include "sort/key_transform.h"
#include "table/iceberg_value.h"

namespace lithify::sort {
namespace {

using iceberg::Decimal;
using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

const std::vector<Type>& OrderedTypes() {
  static const std::vector<Type> types = [] {
    std::vector<Type> all;
    for (const TypeKind kind :
         {TypeKind::kBoolean, TypeKind::kInt, TypeKind::kLong, TypeKind::kFloat, TypeKind::kDouble,
          TypeKind::kDate, TypeKind::kTime, TypeKind::kTimestamp, TypeKind::kTimestamptz,
          TypeKind::kTimestampNs, TypeKind::kTimestamptzNs, TypeKind::kString, TypeKind::kUuid,
          TypeKind::kBinary}) {
      all.push_back(TypeOf(kind));
    }
    for (int precision = 1; precision <= 38; ++precision) {
      all.push_back(TypeOf(TypeKind::kDecimal, precision));
    }
    for (const int length : {1, 2, 7, 8, 9, 16, 40}) {
      all.push_back(TypeOf(TypeKind::kFixed, 0, length));
    }
    return all;
  }();
  return types;
}

std::string NameOf(const Type& type) {
  return std::string(table::TypeKindName(type.kind)) + "(" +
         std::to_string(type.precision + type.length) + ")";
}

std::unique_ptr<KeyEncoder> EncoderOf(const RowOrder& order, std::span<const Type> types) {
  auto encoder = MakeKeyEncoder(order, types);
  LITHIFY_CHECK(encoder.has_value(), encoder ? "" : encoder.error().ToString());
  return std::move(*encoder);
}

// What the keys must do, from Iceberg's own order of values.
class RightOrder {
 public:
  RightOrder(const RowOrder& order, std::span<const Type> types,
             const std::vector<ValueColumn>& columns)
      : order_(order) {
    for (size_t f = 0; f < columns.size(); ++f) {
      const table::Transform transform = table::ParseTransform(order.fields[f].transform);
      std::vector<Value>& to = values_.emplace_back();
      for (const Value& value : columns[f].values) {
        to.push_back(table::ApplyTransform(transform, types[f], value).value());
      }
    }
  }

  int Compare(size_t i, size_t j) const {
    for (size_t f = 0; f < values_.size(); ++f) {
      const OrderField& field = order_.fields[f];
      const Value& a = values_[f][i];
      const Value& b = values_[f][j];
      if (iceberg::IsNull(a) && iceberg::IsNull(b)) continue;
      if (iceberg::IsNull(a)) return field.nulls_first ? -1 : 1;
      if (iceberg::IsNull(b)) return field.nulls_first ? 1 : -1;
      const int compared = iceberg::CompareValues(a, b);
      if (compared != 0) return field.ascending ? compared : -compared;
    }
    return 0;
  }

 private:
  RowOrder order_;
  std::vector<std::vector<Value>> values_;
};

int Sign(int number) { return number < 0 ? -1 : number > 0 ? 1 : 0; }

std::vector<KeyColumn> ColumnsOf(const std::vector<ValueColumn>& columns, size_t begin) {
  std::vector<KeyColumn> all;
  for (const ValueColumn& column : columns) all.push_back(column.rows(begin));
  return all;
}

void ExpectOrder(const RowOrder& order, std::span<const Type> types,
                 const std::vector<ValueColumn>& columns, size_t rows, size_t at_a_time) {
  const auto encoder = EncoderOf(order, types);
  KeyRows keys;
  for (size_t begin = 0; begin < rows; begin += at_a_time) {
    encoder->Append(ColumnsOf(columns, begin), std::min(at_a_time, rows - begin), keys);
  }
  RC_ASSERT(keys.size() == rows);
  RC_ASSERT(!keys.has_rests() || keys.ends.size() == rows);
  const RightOrder right(order, types, columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < rows; ++j) {
      if (Sign(CompareKeys(keys, i, keys, j)) == Sign(right.Compare(i, j))) continue;
      RC_FAIL("rows " + std::to_string(i) + " and " + std::to_string(j) + ", first field " +
              NameOf(types[0]) + ": " + table::ValueToText(types[0], columns[0].values[i]) +
              " and " + table::ValueToText(types[0], columns[0].values[j]));
    }
  }
}

OrderField Directed(uint64_t which, std::string transform = "identity") {
  return {.field_id = 1,
          .column = "c",
          .transform = std::move(transform),
          .ascending = (which & 1) != 0,
          .nulls_first = (which & 2) != 0};
}

// --- order ---------------------------------------------------------------------------------------

TEST(KeyEncoder, EveryTypeInEveryDirectionIsOrderedAsIcebergDoes) {
  const bool holds = rc::check("one field", [](uint64_t seed) {
    ValueSource source(seed);
    for (const Type& type : OrderedTypes()) {
      for (uint64_t which = 0; which < 4; ++which) {
        std::vector<ValueColumn> columns;
        columns.push_back(source.Column(type, 24, source.Below(6)));
        ExpectOrder({.fields = {Directed(which)}}, {&type, 1}, columns, 24, 1 + source.Below(24));
      }
    }
  });
  ASSERT_TRUE(holds);
}

TEST(KeyEncoder, AnyFieldsTogetherAreOrderedOneAfterTheOther) {
  const bool holds = rc::check("many fields", [](uint64_t seed) {
    ValueSource source(seed);
    for (int draw = 0; draw < 30; ++draw) {
      const size_t n = 1 + source.Below(5);
      RowOrder order;
      std::vector<Type> types;
      std::vector<ValueColumn> columns;
      for (size_t f = 0; f < n; ++f) {
        types.push_back(OrderedTypes()[source.Below(OrderedTypes().size())]);
        order.fields.push_back(Directed(source.Below(4)));
        // Few different values, so that later fields decide.
        const ValueColumn few = source.Column(types.back(), 4, source.Below(4));
        std::vector<Value> values;
        for (int i = 0; i < 24; ++i) values.push_back(few.values[source.Below(4)]);
        columns.emplace_back(types.back(), std::move(values));
      }
      ExpectOrder(order, types, columns, 24, 1 + source.Below(24));
    }
  });
  ASSERT_TRUE(holds);
}

// Blocks of rows with null and extreme values, and without, follow each other.
TEST(KeyEncoder, ManyRowsAreSortedByTheirKeys) {
  ValueSource source(5);
  constexpr size_t kRows = 7000;
  const std::vector<Type> types = {TypeOf(TypeKind::kInt), TypeOf(TypeKind::kBoolean),
                                   TypeOf(TypeKind::kString), TypeOf(TypeKind::kTimestamp)};
  std::vector<std::vector<Value>> values;
  for (const Type& type : types) values.push_back(source.Column(type, kRows, 50).values);
  for (size_t i = 0; i < kRows; ++i) {
    if (i / 1500 % 2 == 0) values[0][i] = Value(static_cast<int64_t>(i * 7919 % 100));
  }
  for (size_t fields = 1; fields <= types.size(); ++fields) {
    RowOrder order;
    std::vector<ValueColumn> columns;
    for (size_t f = 0; f < fields; ++f) {
      order.fields.push_back(Directed(f + 1));
      columns.emplace_back(types[f], values[f]);
    }
    const std::span<const Type> of_types(types.data(), fields);
    KeyRows keys;
    EncoderOf(order, of_types)->Append(ColumnsOf(columns, 0), kRows, keys);
    const RightOrder right(order, of_types, columns);
    std::vector<size_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), size_t{0});
    std::ranges::sort(rows, [&](size_t a, size_t b) { return CompareKeys(keys, a, keys, b) < 0; });
    for (size_t i = 1; i < kRows; ++i) {
      ASSERT_EQ(Sign(CompareKeys(keys, rows[i - 1], keys, rows[i])),
                Sign(right.Compare(rows[i - 1], rows[i])));
    }
  }
}

TEST(KeyEncoder, AKeyIsTheSameWhateverRowsItIsEncodedWith) {
  const bool holds = rc::check("same key", [](uint64_t seed) {
    ValueSource source(seed);
    std::vector<Type> types;
    RowOrder order;
    std::vector<ValueColumn> columns;
    for (uint64_t f = 1 + source.Below(3); f > 0; --f) {
      types.push_back(OrderedTypes()[source.Below(OrderedTypes().size())]);
      order.fields.push_back(Directed(source.Below(4)));
      columns.push_back(source.Column(types.back(), 50, 3));
    }
    const auto encoder = EncoderOf(order, types);
    KeyRows together;
    encoder->Append(ColumnsOf(columns, 0), 50, together);
    for (size_t i = 0; i < 50; ++i) {
      KeyRows alone;
      encoder->Append(ColumnsOf(columns, i), 1, alone);
      RC_ASSERT(alone.prefixes[0] == together.prefixes[i]);
      RC_ASSERT(alone.rest(0) == together.rest(i));
    }
  });
  ASSERT_TRUE(holds);
}

// --- transforms ----------------------------------------------------------------------------------

struct TransformCase {
  Type type;
  std::vector<std::string> transforms;
};

std::vector<TransformCase> TransformCases() {
  const std::vector<std::string> buckets = {"bucket[1]", "bucket[16]", "bucket[253]",
                                            "bucket[100000]", "bucket[2147483647]"};
  const std::vector<std::string> widths = {"truncate[1]", "truncate[3]", "truncate[10]",
                                           "truncate[2147483647]"};
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<std::string> days = {"year", "month", "day"};
  std::vector<TransformCase> cases = {{TypeOf(TypeKind::kInt), with(buckets, widths)},
                                      {TypeOf(TypeKind::kLong), with(buckets, widths)},
                                      {TypeOf(TypeKind::kString), with(buckets, widths)},
                                      {TypeOf(TypeKind::kBinary), with(buckets, widths)},
                                      {TypeOf(TypeKind::kUuid), buckets},
                                      {TypeOf(TypeKind::kFixed, 0, 5), buckets},
                                      {TypeOf(TypeKind::kTime), buckets},
                                      {TypeOf(TypeKind::kDate), with(buckets, days)},
                                      {TypeOf(TypeKind::kDecimal, 4), with(buckets, widths)},
                                      {TypeOf(TypeKind::kDecimal, 18), with(buckets, widths)},
                                      {TypeOf(TypeKind::kDecimal, 38), with(buckets, widths)}};
  for (const TypeKind kind : {TypeKind::kTimestamp, TypeKind::kTimestamptz, TypeKind::kTimestampNs,
                              TypeKind::kTimestamptzNs}) {
    cases.push_back({TypeOf(kind), with(with(buckets, days), {"hour"})});
  }
  return cases;
}

TEST(KeyEncoder, TransformsAreOrderedAsTheirValues) {
  const bool holds = rc::check("transforms", [](uint64_t seed) {
    ValueSource source(seed);
    for (const auto& [type, transforms] : TransformCases()) {
      for (const std::string& transform : transforms) {
        std::vector<ValueColumn> columns;
        columns.push_back(source.Column(type, 20, source.Below(6)));
        ExpectOrder({.fields = {Directed(source.Below(4), transform)}}, {&type, 1}, columns, 20,
                    1 + source.Below(20));
      }
    }
  });
  ASSERT_TRUE(holds);
}

TEST(KeyTransform, NumbersAreThoseOfTheTable) {
  const bool holds = rc::check("numbers", [](uint64_t seed) {
    ValueSource source(seed);
    for (const auto& [type, transforms] : TransformCases()) {
      const ValueColumn column = source.Column(type, 50, 0);
      const KeyColumn rows = column.rows();
      if (rows.words == nullptr) continue;
      for (const std::string& text : transforms) {
        const table::Transform transform = table::ParseTransform(text);
        std::array<int64_t, 50> values{};
        TransformWords(transform, type.kind, rows.words, 50, values.data());
        for (size_t i = 0; i < 50; ++i) {
          const Value right = table::ApplyTransform(transform, type, column.values[i]).value();
          RC_ASSERT(std::get<int64_t>(right) == values[i]);
        }
      }
    }
  });
  ASSERT_TRUE(holds);
}

// Every day of more than two eras, and those around 1970 in both units.
TEST(KeyTransform, YearsAndMonthsOfEveryDay) {
  const Type date = TypeOf(TypeKind::kDate);
  for (const std::string text : {"year", "month"}) {
    const table::Transform transform = table::ParseTransform(text);
    for (int64_t day = -200'000; day < 200'000; ++day) {
      int64_t value = 0;
      TransformWords(transform, TypeKind::kDate, &day, 1, &value);
      ASSERT_EQ(Value(value), table::ApplyTransform(transform, date, Value(day)).value()) << day;
    }
  }
}

TEST(KeyEncoder, AVoidFieldOrdersNothing) {
  const std::vector<Type> types = {TypeOf(TypeKind::kStruct), TypeOf(TypeKind::kLong)};
  const RowOrder order = {.fields = {Directed(3, "void"), Directed(3)}};
  const ValueColumn column(types[1], {Value(int64_t{2}), Value(int64_t{1})});
  const std::vector<KeyColumn> columns = {KeyColumn{}, column.rows()};
  KeyRows keys;
  EncoderOf(order, types)->Append(columns, 2, keys);
  EXPECT_GT(keys.prefixes[0], keys.prefixes[1]);
  KeyRows none;
  EncoderOf({.fields = {Directed(3, "void")}}, std::span(types).first(1))->Append(columns, 2, none);
  EXPECT_EQ(CompareKeys(none, 0, none, 1), 0);
}

// --- bytes ---------------------------------------------------------------------------------------

KeyRows Encoded(const std::vector<Type>& types, const std::vector<OrderField>& fields,
                const std::vector<std::vector<Value>>& values) {
  std::vector<ValueColumn> columns;
  for (size_t f = 0; f < types.size(); ++f) columns.emplace_back(types[f], values[f]);
  KeyRows keys;
  EncoderOf({.fields = fields}, types)->Append(ColumnsOf(columns, 0), values[0].size(), keys);
  return keys;
}

TEST(KeyBytes, LongsAndNullsAreNothingButAPrefix) {
  for (uint64_t which = 0; which < 4; ++which) {
    const KeyRows keys = Encoded({TypeOf(TypeKind::kTimestamp)}, {Directed(which)},
                                 {{Value(), Value(int64_t{0}), Value(INT64_MIN + 2),
                                   Value(INT64_MAX - 2), Value(int64_t{1'700'000'000'000'000})}});
    EXPECT_FALSE(keys.has_rests());
  }
  const KeyRows keys = Encoded({TypeOf(TypeKind::kLong)}, {Directed(3)},
                               {{Value(), Value(int64_t{5}), Value(INT64_MIN), Value(INT64_MAX)}});
  EXPECT_EQ(keys.prefixes,
            (std::vector<uint64_t>{0, 0x8000'0000'0000'0005, 1, 0xFFFF'FFFF'FFFF'FFFE}));
  EXPECT_EQ(keys.rest(0), "");
  EXPECT_EQ(keys.rest(1), "");
  EXPECT_EQ(keys.rest(2), std::string(8, '\0'));
  EXPECT_EQ(keys.rest(3), std::string(8, '\xFF'));
}

TEST(KeyBytes, NumbersTakeNoByteForNull) {
  const struct {
    Type type;
    std::string transform;
    size_t bytes;
  } kCases[] = {{TypeOf(TypeKind::kBoolean), "identity", 1},
                {TypeOf(TypeKind::kInt), "identity", 4},
                {TypeOf(TypeKind::kDate), "identity", 4},
                {TypeOf(TypeKind::kFloat), "identity", 4},
                {TypeOf(TypeKind::kDouble), "identity", 8},
                {TypeOf(TypeKind::kTime), "identity", 8},
                {TypeOf(TypeKind::kUuid), "identity", 16},
                {TypeOf(TypeKind::kFixed, 0, 3), "identity", 3},
                {TypeOf(TypeKind::kDecimal, 4), "identity", 2},
                {TypeOf(TypeKind::kDecimal, 9), "identity", 4},
                {TypeOf(TypeKind::kDecimal, 18), "identity", 8},
                {TypeOf(TypeKind::kDecimal, 20), "identity", 9},
                {TypeOf(TypeKind::kDecimal, 38), "identity", 16},
                {TypeOf(TypeKind::kLong), "bucket[252]", 1},
                {TypeOf(TypeKind::kLong), "bucket[253]", 2},
                {TypeOf(TypeKind::kString), "bucket[16]", 1},
                {TypeOf(TypeKind::kTimestampNs), "year", 3},
                {TypeOf(TypeKind::kTimestampNs), "hour", 4},
                {TypeOf(TypeKind::kBinary), "identity", 0},
                {TypeOf(TypeKind::kString), "truncate[2]", 0}};
  for (const auto& test : kCases) {
    const auto encoder = EncoderOf({.fields = {Directed(3, test.transform)}}, {&test.type, 1});
    EXPECT_EQ(encoder->key_bytes(), test.bytes) << NameOf(test.type) << " " << test.transform;
  }
  const std::vector<Type> types = {TypeOf(TypeKind::kDate), TypeOf(TypeKind::kInt)};
  EXPECT_EQ(EncoderOf({.fields = {Directed(3), Directed(3)}}, types)->key_bytes(), 8U);
  EXPECT_FALSE(Encoded(types, {Directed(0), Directed(3)},
                       {{Value(), Value(int64_t{20'000})}, {Value(int64_t{7}), Value()}})
                   .has_rests());
}

TEST(KeyBytes, DaysAndNumbersShareThePrefix) {
  const KeyRows keys =
      Encoded({TypeOf(TypeKind::kDate), TypeOf(TypeKind::kInt)}, {Directed(3), Directed(2)},
              {{Value(int64_t{1})}, {Value(int64_t{2})}});
  EXPECT_EQ(keys.prefixes[0], 0x8000'0001'7FFF'FFFD);
}

TEST(KeyBytes, TextsAreThemselves) {
  const auto one = [](std::string text, uint64_t which) {
    const KeyRows keys =
        Encoded({TypeOf(TypeKind::kString)}, {Directed(which)}, {{Value(std::move(text))}});
    std::string whole;
    for (int shift = 56; shift >= 0; shift -= 8) {
      whole += static_cast<char>(keys.prefixes[0] >> shift);
    }
    return whole.append(keys.rest(0));
  };
  EXPECT_EQ(one("abcdefgh", 3), "abcdefgh");
  EXPECT_EQ(one("abcdefghij", 3), "abcdefghij");
  EXPECT_EQ(one("ab", 3), std::string("ab\0\0\0\0\0\0", 8));
  EXPECT_EQ(one("", 3), std::string("\x01\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(one("", 1), std::string(8, '\0'));
  EXPECT_EQ(one(std::string("a\0b\x01", 4), 1), std::string("a\x01\x01"
                                                            "b\x01\x02\0\0",
                                                            8));
  // Descending: turned, with the end.
  EXPECT_EQ(one("abcdefgh", 0), "\x9E\x9D\x9C\x9B\x9A\x99\x98\x97\xFF");
}

TEST(KeyBytes, RestsBeginWhereTheyAreNeeded) {
  const auto encoder =
      EncoderOf({.fields = {Directed(3)}}, std::vector<Type>{TypeOf(TypeKind::kString)});
  KeyRows keys;
  for (const std::string text : {"short", "longer than eight", "short"}) {
    const ValueColumn column(TypeOf(TypeKind::kString), {Value(text)});
    const KeyColumn rows = column.rows();
    encoder->Append({&rows, 1}, 1, keys);
    EXPECT_EQ(keys.has_rests(), keys.size() > 1);
  }
  EXPECT_EQ(keys.ends, (std::vector<uint64_t>{0, 9, 9}));
  EXPECT_EQ(keys.rest(1), "han eight");
}

// --- refusals ------------------------------------------------------------------------------------

TEST(KeyEncoder, RefusesWhatHasNoOrder) {
  const struct {
    Type type;
    std::string transform;
    std::string says;
  } kCases[] = {
      {TypeOf(TypeKind::kGeometry), "identity", "values of type geometry have no order"},
      {TypeOf(TypeKind::kVariant), "bucket[4]", "values of type variant have no order"},
      {TypeOf(TypeKind::kStruct), "identity", "values of type struct have no order"},
      {TypeOf(TypeKind::kUnknown), "identity", "values of type unknown have no order"},
      {TypeOf(TypeKind::kLong), "zorder[4]", "\"zorder[4]\""},
      {TypeOf(TypeKind::kLong), "bucket[0]", "\"bucket[0]\""},
      {TypeOf(TypeKind::kDouble), "bucket[4]", "does not take type double"},
      {TypeOf(TypeKind::kUuid), "truncate[4]", "does not take type uuid"},
      {TypeOf(TypeKind::kDate), "hour", "do"},
      {TypeOf(TypeKind::kString), "day", "do"},
  };
  for (const auto& test : kCases) {
    const auto encoder = MakeKeyEncoder({.fields = {Directed(3, test.transform)}}, {&test.type, 1});
    ASSERT_FALSE(encoder) << test.says;
    EXPECT_EQ(encoder.error().code, Code::kUnsupported);
    EXPECT_NE(encoder.error().message.find(test.says), std::string::npos)
        << encoder.error().ToString();
    EXPECT_EQ(encoder.error().context, "column c");
  }
  const auto none = MakeKeyEncoder({}, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalid);
}

}  // namespace
}  // namespace lithify::sort
