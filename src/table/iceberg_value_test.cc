#include "table/iceberg_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lithify::table {
namespace {

using iceberg::Decimal;
using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

Type Of(TypeKind kind) {
  Type type;
  type.kind = kind;
  return type;
}
Type DecimalType(int precision, int scale) {
  Type type = Of(TypeKind::kDecimal);
  type.precision = precision;
  type.scale = scale;
  return type;
}
Type Fixed(int length) {
  Type type = Of(TypeKind::kFixed);
  type.length = length;
  return type;
}

Value Parsed(const Type& type, std::string_view text) {
  Result<Value> value = ParseValue(type, text);
  EXPECT_TRUE(value) << text << ": " << value.error().ToString();
  return value ? *value : Value();
}

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

Value FromBytes(const Type& type, std::string_view bytes) {
  Result<Value> value = ValueFromBytes(type, bytes);
  EXPECT_TRUE(value) << value.error().ToString();
  return value ? *value : Value();
}

TEST(ValueBytes, FormsOfAppendixD) {
  const struct {
    Type type;
    Value value;
    std::string bytes;
  } kCases[] = {
      {Of(TypeKind::kBoolean), true, Bytes({1})},
      {Of(TypeKind::kBoolean), false, Bytes({0})},
      {Of(TypeKind::kInt), int64_t{-2}, Bytes({0xFE, 0xFF, 0xFF, 0xFF})},
      {Of(TypeKind::kLong), int64_t{1}, Bytes({1, 0, 0, 0, 0, 0, 0, 0})},
      {Of(TypeKind::kDate), int64_t{17486}, Bytes({0x4E, 0x44, 0, 0})},
      {Of(TypeKind::kTimestamptz), int64_t{-1}, std::string(8, '\xFF')},
      {Of(TypeKind::kFloat), 1.0F, Bytes({0, 0, 0x80, 0x3F})},
      {Of(TypeKind::kDouble), 1.0, Bytes({0, 0, 0, 0, 0, 0, 0xF0, 0x3F})},
      {DecimalType(9, 2), Decimal{1420}, Bytes({0x05, 0x8C})},
      {DecimalType(9, 2), Decimal{-1420}, Bytes({0xFA, 0x74})},
      {DecimalType(9, 2), Decimal{0}, Bytes({0})},
      {DecimalType(9, 2), Decimal{127}, Bytes({0x7F})},
      {DecimalType(9, 2), Decimal{128}, Bytes({0, 0x80})},
      {DecimalType(9, 2), Decimal{-128}, Bytes({0x80})},
      {Of(TypeKind::kString), std::string("a\xC3\xA9"), "a\xC3\xA9"},
      {Of(TypeKind::kUuid), std::string(16, 'u'), std::string(16, 'u')},
      {Fixed(3), std::string("abc"), "abc"},
      {Of(TypeKind::kBinary), std::string(), ""},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(ValueToBytes(test.type, test.value), test.bytes);
    EXPECT_EQ(FromBytes(test.type, test.bytes), test.value);
  }
}

TEST(ValueBytes, DecimalOf38DigitsAndPadding) {
  Int128 nines = 0;
  for (int i = 0; i < 38; ++i) nines = nines * 10 + 9;
  for (const Int128 unscaled : {nines, -nines}) {
    const std::string bytes = ValueToBytes(DecimalType(38, 0), Decimal{unscaled});
    EXPECT_EQ(bytes.size(), 16U);
    EXPECT_EQ(FromBytes(DecimalType(38, 0), bytes), Value(Decimal{unscaled}));
    const std::string padded = std::string(4, unscaled < 0 ? '\xFF' : '\0') + bytes;
    EXPECT_EQ(FromBytes(DecimalType(38, 0), padded), Value(Decimal{unscaled}));
  }
  EXPECT_FALSE(ValueFromBytes(DecimalType(38, 0), ""));
  EXPECT_FALSE(ValueFromBytes(DecimalType(38, 0), std::string(17, '\x11')));
  EXPECT_FALSE(ValueFromBytes(DecimalType(38, 0), '\0' + std::string(16, '\xF1')));
}

TEST(ValueBytes, BoundsWrittenBeforeAPromotion) {
  EXPECT_EQ(FromBytes(Of(TypeKind::kLong), Bytes({0xFE, 0xFF, 0xFF, 0xFF})), Value(int64_t{-2}));
  EXPECT_EQ(FromBytes(Of(TypeKind::kDouble), Bytes({0, 0, 0x80, 0x3F})), Value(1.0));
  EXPECT_EQ(FromBytes(Of(TypeKind::kTimestamp), Bytes({1, 0, 0, 0})),
            Value(int64_t{86'400'000'000}));
  EXPECT_EQ(FromBytes(Of(TypeKind::kTimestampNs), Bytes({1, 0, 0, 0})),
            Value(int64_t{86'400'000'000'000}));
  EXPECT_FALSE(ValueFromBytes(Of(TypeKind::kTimestampNs), Bytes({0xFF, 0xFF, 0xFF, 0x7F})));
  EXPECT_FALSE(ValueFromBytes(Of(TypeKind::kTimestamptz), Bytes({1, 0, 0, 0})));
}

TEST(ValueBytes, WrongSizesAreCorrupt) {
  for (const TypeKind kind :
       {TypeKind::kBoolean, TypeKind::kInt, TypeKind::kLong, TypeKind::kFloat, TypeKind::kDouble,
        TypeKind::kDate, TypeKind::kTime, TypeKind::kTimestamp, TypeKind::kUuid}) {
    for (const size_t size : {0, 3, 17}) {
      const auto value = ValueFromBytes(Of(kind), std::string(size, 'x'));
      ASSERT_FALSE(value);
      EXPECT_EQ(value.error().code, Code::kCorrupt);
    }
  }
  EXPECT_FALSE(ValueFromBytes(Fixed(2), "abc"));
  EXPECT_EQ(FromBytes(Fixed(4), "abc"), Value(std::string("abc")));  // A bound may be cut.
}

TEST(ParseValue, Texts) {
  EXPECT_EQ(Parsed(Of(TypeKind::kBoolean), "true"), Value(true));
  EXPECT_EQ(Parsed(Of(TypeKind::kInt), "-2147483648"), Value(int64_t{INT32_MIN}));
  EXPECT_EQ(Parsed(Of(TypeKind::kLong), "+9"), Value(int64_t{9}));
  EXPECT_EQ(Parsed(Of(TypeKind::kDouble), "1e3"), Value(1000.0));
  EXPECT_EQ(Parsed(DecimalType(9, 2), "12.5"), Value(Decimal{1250}));
  EXPECT_EQ(Parsed(DecimalType(9, 2), "-12.500"), Value(Decimal{-1250}));
  EXPECT_EQ(Parsed(DecimalType(4, 2), "99.99"), Value(Decimal{9999}));
  EXPECT_EQ(Parsed(Of(TypeKind::kDate), "2017-11-16"), Value(int64_t{17486}));
  EXPECT_EQ(Parsed(Of(TypeKind::kDate), "1969-12-31"), Value(int64_t{-1}));
  EXPECT_EQ(Parsed(Of(TypeKind::kTime), "22:31:08"), Value(int64_t{81'068'000'000}));
  EXPECT_EQ(Parsed(Of(TypeKind::kTimestamp), "2017-11-16T22:31:08.000001"),
            Value(int64_t{1'510'871'468'000'001}));
  EXPECT_EQ(Parsed(Of(TypeKind::kTimestamp), "2017-11-16"), Value(int64_t{17486 * 86'400'000'000}));
  EXPECT_EQ(Parsed(Of(TypeKind::kTimestamptz), "2017-11-16T14:31:08-08:00"),
            Parsed(Of(TypeKind::kTimestamptz), "2017-11-16 22:31:08Z"));
  EXPECT_EQ(Parsed(Of(TypeKind::kTimestampNs), "1970-01-01T00:00:00.000000001"), Value(int64_t{1}));
  EXPECT_EQ(Parsed(Of(TypeKind::kUuid), "F79C3E09-677c-4bbd-a479-3f349cb785e7"),
            Value(Bytes({0xF7, 0x9C, 0x3E, 0x09, 0x67, 0x7C, 0x4B, 0xBD, 0xA4, 0x79, 0x3F, 0x34,
                         0x9C, 0xB7, 0x85, 0xE7})));
  EXPECT_EQ(Parsed(Fixed(2), "00ff"), Value(Bytes({0, 0xFF})));
}

TEST(ParseValue, Refused) {
  const std::pair<Type, std::string_view> kCases[] = {
      {Of(TypeKind::kBoolean), "yes"},
      {Of(TypeKind::kInt), "2147483648"},
      {Of(TypeKind::kInt), "1.0"},
      {Of(TypeKind::kInt), ""},
      {Of(TypeKind::kInt), "+-1"},
      {Of(TypeKind::kDouble), "one"},
      {DecimalType(9, 2), "1.234"},
      {DecimalType(4, 2), "100.00"},
      {DecimalType(9, 2), "."},
      {DecimalType(9, 2), "1.2.3"},
      {DecimalType(38, 0), "1000000000000000000000000000000000000000000000000"},
      {Of(TypeKind::kDate), "2017-02-29"},
      {Of(TypeKind::kDate), "2017-11-16x"},
      {Of(TypeKind::kTime), "24:00:00"},
      {Of(TypeKind::kTime), "10:00:00."},
      {Of(TypeKind::kTime), "10:00:00.0000001"},
      {Of(TypeKind::kTimestamp), "2017-11-16T22:31:08Z"},
      {Of(TypeKind::kTimestampNs), "2300-01-01"},
      {Of(TypeKind::kUuid), "f79c3e09677c4bbda4793f349cb785e7"},
      {Fixed(2), "00"},
      {Of(TypeKind::kBinary), "0g"},
      {Of(TypeKind::kStruct), "x"},
  };
  for (const auto& [type, text] : kCases) {
    const auto value = ParseValue(type, text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, Code::kInvalid) << text;
  }
}

// Three counts of buckets tell almost all bits of a hash.
int64_t BucketOf(int buckets, const Type& type, std::string_view text) {
  const Transform transform{Transform::Kind::kBucket, buckets};
  const auto value = ApplyTransform(transform, type, Parsed(type, text));
  EXPECT_TRUE(value);
  return value ? std::get<int64_t>(*value) : -1;
}

TEST(Transforms, BucketHashesOfAppendixB) {
  const struct {
    Type type;
    std::string_view text;
    int32_t hash;
  } kCases[] = {
      {Of(TypeKind::kInt), "34", 2017239379},
      {Of(TypeKind::kLong), "34", 2017239379},
      {DecimalType(9, 2), "14.20", -500754589},
      {Of(TypeKind::kDate), "2017-11-16", -653330422},
      {Of(TypeKind::kTime), "22:31:08", -662762989},
      {Of(TypeKind::kTimestamp), "2017-11-16T22:31:08", -2047944441},
      {Of(TypeKind::kTimestamp), "2017-11-16T22:31:08.000001", -1207196810},
      {Of(TypeKind::kTimestamptz), "2017-11-16T14:31:08-08:00", -2047944441},
      {Of(TypeKind::kTimestampNs), "2017-11-16T22:31:08", -2047944441},
      {Of(TypeKind::kTimestampNs), "2017-11-16T22:31:08.000001001", -1207196810},
      {Of(TypeKind::kTimestamptzNs), "2017-11-16T14:31:08.000001001-08:00", -1207196810},
      {Of(TypeKind::kString), "iceberg", 1210000089},
      {Of(TypeKind::kUuid), "f79c3e09-677c-4bbd-a479-3f349cb785e7", 1488055340},
      {Fixed(4), "00010203", -188683207},
      {Of(TypeKind::kBinary), "00010203", -188683207},
  };
  for (const auto& test : kCases) {
    for (const int buckets : {16, 1000003, 1 << 30}) {
      EXPECT_EQ(BucketOf(buckets, test.type, test.text),
                (test.hash & std::numeric_limits<int32_t>::max()) % buckets)
          << test.text;
    }
  }
}

TEST(Transforms, BucketRefusesOtherTypes) {
  const Transform bucket = ParseTransform("bucket[4]");
  for (const auto& [type, value] : {std::pair<Type, Value>{Of(TypeKind::kBoolean), true},
                                    {Of(TypeKind::kDouble), 1.0},
                                    {Of(TypeKind::kFloat), 1.0F},
                                    {Of(TypeKind::kGeometry), std::string("g")}}) {
    const auto result = ApplyTransform(bucket, type, value);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kUnsupported);
  }
}

Value Applied(std::string_view transform, const Type& type, const Value& value) {
  const auto result = ApplyTransform(ParseTransform(transform), type, value);
  EXPECT_TRUE(result) << result.error().ToString();
  return result ? *result : Value();
}

TEST(Transforms, TruncateOfTheSpecification) {
  EXPECT_EQ(Applied("truncate[10]", Of(TypeKind::kInt), int64_t{1}), Value(int64_t{0}));
  EXPECT_EQ(Applied("truncate[10]", Of(TypeKind::kInt), int64_t{-1}), Value(int64_t{-10}));
  EXPECT_EQ(Applied("truncate[10]", Of(TypeKind::kLong), int64_t{-1}), Value(int64_t{-10}));
  EXPECT_EQ(Applied("truncate[50]", DecimalType(9, 2), Decimal{1065}), Value(Decimal{1050}));
  EXPECT_EQ(Applied("truncate[10]", DecimalType(9, 2), Decimal{-5}), Value(Decimal{-10}));
  EXPECT_EQ(Applied("truncate[3]", Of(TypeKind::kString), std::string("iceberg")),
            Value(std::string("ice")));
  // By characters, not bytes.
  EXPECT_EQ(Applied("truncate[2]", Of(TypeKind::kString), std::string("\xC3\xA9\xF0\x9F\x98\x80z")),
            Value(std::string("\xC3\xA9\xF0\x9F\x98\x80")));
  EXPECT_EQ(Applied("truncate[9]", Of(TypeKind::kString), std::string("ice")),
            Value(std::string("ice")));
  EXPECT_EQ(Applied("truncate[3]", Of(TypeKind::kBinary), Bytes({1, 2, 3, 4, 5})),
            Value(Bytes({1, 2, 3})));
  // The extremes wrap and do not trap.
  Applied("truncate[10]", Of(TypeKind::kInt), int64_t{INT32_MIN});
  Applied("truncate[10]", Of(TypeKind::kLong), int64_t{INT64_MIN});
  EXPECT_FALSE(
      ApplyTransform(ParseTransform("truncate[3]"), Of(TypeKind::kUuid), std::string(16, 'x')));
}

TEST(Transforms, PartsOfTime) {
  const Type date = Of(TypeKind::kDate);
  const Type micros = Of(TypeKind::kTimestamp);
  const Type nanos = Of(TypeKind::kTimestamptzNs);
  const Value ts = Parsed(micros, "2017-11-16T22:31:08.000001");
  EXPECT_EQ(Applied("year", micros, ts), Value(int64_t{47}));
  EXPECT_EQ(Applied("month", micros, ts), Value(int64_t{47 * 12 + 10}));
  EXPECT_EQ(Applied("day", micros, ts), Value(int64_t{17486}));
  EXPECT_EQ(Applied("hour", micros, ts), Value(int64_t{17486 * 24 + 22}));
  EXPECT_EQ(Applied("hour", nanos, Parsed(nanos, "2017-11-16T22:31:08Z")),
            Value(int64_t{17486 * 24 + 22}));
  EXPECT_EQ(Applied("day", date, int64_t{17486}), Value(int64_t{17486}));
  // Before 1970 the part is the lower one.
  const Value before = Parsed(micros, "1969-12-31T23:59:59.999999");
  EXPECT_EQ(Applied("year", micros, before), Value(int64_t{-1}));
  EXPECT_EQ(Applied("month", micros, before), Value(int64_t{-1}));
  EXPECT_EQ(Applied("day", micros, before), Value(int64_t{-1}));
  EXPECT_EQ(Applied("hour", micros, before), Value(int64_t{-1}));
  EXPECT_EQ(Applied("year", date, int64_t{-719528}), Value(int64_t{-1970}));  // 0000-01-01.
  EXPECT_EQ(Applied("year", date, int64_t{INT32_MAX}), Value(int64_t{5'879'610}));
  EXPECT_FALSE(ApplyTransform(ParseTransform("hour"), date, int64_t{1}));
  EXPECT_FALSE(ApplyTransform(ParseTransform("day"), Of(TypeKind::kInt), int64_t{1}));
}

TEST(Transforms, NullVoidIdentityAndUnknown) {
  for (const std::string_view name : {"identity", "bucket[4]", "truncate[4]", "day", "void"}) {
    EXPECT_EQ(Applied(name, Of(TypeKind::kDate), Value()), Value()) << name;
  }
  EXPECT_EQ(Applied("void", Of(TypeKind::kInt), int64_t{5}), Value());
  EXPECT_EQ(Applied("identity", Of(TypeKind::kInt), int64_t{5}), Value(int64_t{5}));
  for (const std::string_view name : {"zorder", "bucket[0]", "bucket[-1]", "bucket[]", "bucket[4",
                                      "bucket[4]x", "truncate[x]", "bucket[99999999999]", ""}) {
    EXPECT_EQ(ParseTransform(name).kind, Transform::Kind::kUnknown) << name;
    EXPECT_FALSE(ApplyTransform(ParseTransform(name), Of(TypeKind::kInt), int64_t{5})) << name;
  }
  // A value that is not of the source's type is an error, no crash.
  EXPECT_FALSE(ApplyTransform(ParseTransform("truncate[4]"), Of(TypeKind::kString), int64_t{5}));
}

TEST(Transforms, ResultTypes) {
  const Type source = Of(TypeKind::kTimestamp);
  EXPECT_EQ(TransformedType(ParseTransform("identity"), source), source);
  EXPECT_EQ(TransformedType(ParseTransform("void"), source), source);
  EXPECT_EQ(TransformedType(ParseTransform("bucket[4]"), source).kind, TypeKind::kInt);
  EXPECT_EQ(TransformedType(ParseTransform("hour"), source).kind, TypeKind::kInt);
  EXPECT_EQ(TransformedType(ParseTransform("day"), source).kind, TypeKind::kDate);
  EXPECT_EQ(TransformedType(ParseTransform("new"), source).kind, TypeKind::kUnknown);
}

TEST(ValueToText, AsJavaPrints) {
  const auto text = [](TypeKind kind, const Value& value) { return ValueToText(Of(kind), value); };
  EXPECT_EQ(text(TypeKind::kInt, Value()), "null");
  EXPECT_EQ(text(TypeKind::kBoolean, true), "true");
  EXPECT_EQ(text(TypeKind::kDate, int64_t{17486}), "2017-11-16");
  EXPECT_EQ(text(TypeKind::kDate, int64_t{-719529}), "-001-12-31");
  EXPECT_EQ(text(TypeKind::kTime, int64_t{81'060'000'000}), "22:31");
  EXPECT_EQ(text(TypeKind::kTime, int64_t{81'068'000'000}), "22:31:08");
  EXPECT_EQ(text(TypeKind::kTime, int64_t{81'068'100'000}), "22:31:08.100");
  EXPECT_EQ(text(TypeKind::kTime, int64_t{81'068'000'001}), "22:31:08.000001");
  EXPECT_EQ(text(TypeKind::kTimestamp, int64_t{1'510'871'468'000'001}),
            "2017-11-16T22:31:08.000001");
  EXPECT_EQ(text(TypeKind::kTimestamptz, int64_t{1'510'871'468'000'000}), "2017-11-16T22:31:08Z");
  EXPECT_EQ(text(TypeKind::kTimestampNs, int64_t{1}), "1970-01-01T00:00:00.000000001");
  EXPECT_EQ(text(TypeKind::kTimestamp, int64_t{-1}), "1969-12-31T23:59:59.999999");
  EXPECT_EQ(text(TypeKind::kBinary, Bytes({1, 2})), "AQI=");
  EXPECT_EQ(text(TypeKind::kBinary, Bytes({1, 2, 3})), "AQID");
  EXPECT_EQ(text(TypeKind::kBinary, std::string()), "");
  const std::string_view uuid = "f79c3e09-677c-4bbd-a479-3f349cb785e7";
  EXPECT_EQ(text(TypeKind::kUuid, Parsed(Of(TypeKind::kUuid), uuid)), uuid);
}

TEST(ValueToText, Decimals) {
  EXPECT_EQ(ValueToText(DecimalType(9, 2), Decimal{1420}), "14.20");
  EXPECT_EQ(ValueToText(DecimalType(9, 2), Decimal{-5}), "-0.05");
  EXPECT_EQ(ValueToText(DecimalType(9, 0), Decimal{7}), "7");
  EXPECT_EQ(ValueToText(DecimalType(9, 2), Decimal{0}), "0.00");
  EXPECT_EQ(ValueToText(DecimalType(20, 8), Decimal{1}), "1E-8");
  EXPECT_EQ(ValueToText(DecimalType(20, 8), Decimal{-12}), "-1.2E-7");
  EXPECT_EQ(ValueToText(DecimalType(20, 8), Decimal{100}), "0.00000100");
}

TEST(ValueToText, FloatingNumbers) {
  const Type type = Of(TypeKind::kDouble);
  EXPECT_EQ(ValueToText(type, 1.0), "1.0");
  EXPECT_EQ(ValueToText(type, -0.0), "-0.0");
  EXPECT_EQ(ValueToText(type, 0.001), "0.001");
  EXPECT_EQ(ValueToText(type, 0.00012), "1.2E-4");
  EXPECT_EQ(ValueToText(type, 9999999.0), "9999999.0");
  EXPECT_EQ(ValueToText(type, 1e7), "1.0E7");
  EXPECT_EQ(ValueToText(type, 123.456), "123.456");
  EXPECT_EQ(ValueToText(type, std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(ValueToText(type, std::nan("")), "NaN");
  EXPECT_EQ(ValueToText(Of(TypeKind::kFloat), 0.1F), "0.1");
}

TEST(PartitionPath, NamesAndValuesAreUrlEncoded) {
  iceberg::Schema schema;
  const auto column = [&](int id, TypeKind kind) {
    iceberg::Field field;
    field.id = id;
    field.name = "c" + std::to_string(id);
    field.type = Of(kind);
    schema.fields.push_back(std::move(field));
  };
  column(1, TypeKind::kString);
  column(2, TypeKind::kTimestamptz);
  column(3, TypeKind::kDate);
  iceberg::PartitionSpec spec;
  spec.fields = {{{1}, 1000, "r e/gion", "identity"},
                 {{2}, 1001, "ts_hour", "hour"},
                 {{2}, 1002, "ts_month", "month"},
                 {{3}, 1003, "d_year", "year"},
                 {{3}, 1004, "d", "day"},
                 {{1}, 1005, "b", "bucket[16]"},
                 {{1}, 1006, "none", "void"},
                 {{2}, 1007, "ts", "identity"},
                 {{9}, 1008, "gone", "day"},
                 {{9}, 1009, "gone_too", "identity"}};
  const std::vector<Value> values{std::string("a b/c=\xC3\xA9*~"),
                                  int64_t{17486 * 24 + 22},
                                  int64_t{-1},
                                  int64_t{47},
                                  int64_t{17486},
                                  int64_t{7},
                                  Value(),
                                  int64_t{1'510'871'468'000'000},
                                  int64_t{17486},
                                  int64_t{3}};
  EXPECT_EQ(PartitionPath(spec, schema, values),
            "r+e%2Fgion=a+b%2Fc%3D%C3%A9*%7E/ts_hour=2017-11-16-22/ts_month=1969-12/d_year=2017/"
            "d=2017-11-16/b=7/none=null/ts=2017-11-16T22%3A31%3A08Z/gone=2017-11-16/gone_too=3");
  EXPECT_EQ(PartitionPath(iceberg::PartitionSpec(), schema, {}), "");
}

}  // namespace
}  // namespace lithify::table
