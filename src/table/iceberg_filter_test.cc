// The filter of rewrite_data_files: it selects files, never rows (I3), and never leaves out a file
// of which a row could match.
#include "table/iceberg_filter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::DataFile;
using iceberg::Decimal;
using iceberg::Field;
using iceberg::ManifestFile;
using iceberg::PartitionSpec;
using iceberg::Schema;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

Field Make(int id, std::string name, TypeKind kind, std::vector<Field> fields = {}) {
  Field field;
  field.id = id;
  field.name = std::move(name);
  field.type.kind = kind;
  field.type.fields = std::move(fields);
  return field;
}

Schema TestSchema() {
  Schema schema;
  schema.fields = {
      Make(1, "id", TypeKind::kLong),
      Make(2, "name", TypeKind::kString),
      Make(3, "day", TypeKind::kDate),
      Make(4, "ts", TypeKind::kTimestamptz),
      Make(5, "price", TypeKind::kDecimal),
      Make(6, "f", TypeKind::kFloat),
      Make(7, "d", TypeKind::kDouble),
      Make(8, "flag", TypeKind::kBoolean),
      Make(9, "u", TypeKind::kUuid),
      Make(10, "b", TypeKind::kBinary),
      Make(11, "loc", TypeKind::kStruct, {Make(12, "lat", TypeKind::kDouble)}),
      Make(13, "tags", TypeKind::kList, {Make(14, "element", TypeKind::kString)}),
      Make(15, "n", TypeKind::kInt),
      Make(16, "or der", TypeKind::kInt),
      Make(17, "time", TypeKind::kTime),
      Make(18, "geo", TypeKind::kGeometry),
  };
  schema.fields[4].type.precision = 9;
  schema.fields[4].type.scale = 2;
  return schema;
}

const Type& TypeOf(int id) {
  static const Schema schema = TestSchema();
  return iceberg::FindField(schema, id)->type;
}

FileFilter Parse(std::string_view text) {
  auto filter = FileFilter::Parse(text, TestSchema());
  EXPECT_TRUE(filter.has_value()) << text << ": " << filter.error().ToString();
  return *std::move(filter);
}

PartitionSpec SpecOf(int source_id, std::string transform) {
  return {1, {{{source_id}, 1000, "p", std::move(transform)}}};
}

// A file whose column `id` has these bounds.
DataFile Bounded(int id, const Value& lower, const Value& upper) {
  DataFile file;
  file.lower_bounds = {{id, ValueToBytes(TypeOf(id), lower)}};
  file.upper_bounds = {{id, ValueToBytes(TypeOf(id), upper)}};
  return file;
}

bool Match(std::string_view text, const DataFile& file, const PartitionSpec& spec = {}) {
  return Parse(text).MayMatch(file, spec);
}

bool MatchPartition(std::string_view text, int source_id, std::string transform, Value value) {
  DataFile file;
  file.partition = {std::move(value)};
  return Match(text, file, SpecOf(source_id, std::move(transform)));
}

TEST(FileFilter, AnEmptyTextMatchesEverything) {
  EXPECT_TRUE(Match("", DataFile()));
  EXPECT_TRUE(Match(" \n\t", DataFile()));
  EXPECT_TRUE(Parse("").MayMatch(ManifestFile(), PartitionSpec()));
  EXPECT_TRUE(Parse("").field_ids().empty());
}

TEST(FileFilter, I3_AFileIsSelectedIfOneOfItsRowsCanMatch) {
  const DataFile file = Bounded(1, int64_t{1}, int64_t{200});
  EXPECT_TRUE(Match("id < 100", file));
  EXPECT_TRUE(Match("NOT id < 100", file));
  EXPECT_FALSE(Match("id < 1", file));
  EXPECT_FALSE(Match("id > 200", file));
}

TEST(FileFilter, ComparesWithBounds) {
  const DataFile file = Bounded(1, int64_t{10}, int64_t{20});
  for (const char* yes : {"id < 11",
                          "id <= 10",
                          "id > 19",
                          "id >= 20",
                          "id = 10",
                          "id = 20",
                          "id == 15",
                          "id <> 10",
                          "id != 15",
                          "id IN (1, 15)",
                          "id NOT IN (10, 20)",
                          "id BETWEEN 0 AND 10",
                          "id BETWEEN 20 AND 30",
                          "id NOT BETWEEN 11 AND 30",
                          "11 > id",
                          "20 <= id",
                          "15 = id",
                          "id IS NULL",
                          "id IS NOT NULL",
                          "id > -5",
                          "id < +11"}) {
    EXPECT_TRUE(Match(yes, file)) << yes;
  }
  for (const char* no :
       {"id < 10", "id <= 9", "id > 20", "id >= 21", "id = 9", "id = 21", "id IN (1, 9, 21)",
        "id BETWEEN 0 AND 9", "id BETWEEN 21 AND 30", "id NOT BETWEEN 10 AND 20", "10 > id",
        "21 <= id", "9 = id", "id < -5", "NOT id >= 10", "NOT (id <= 20)", "NOT NOT id < 10"}) {
    EXPECT_FALSE(Match(no, file)) << no;
  }
  const DataFile one = Bounded(1, int64_t{7}, int64_t{7});
  EXPECT_FALSE(Match("id <> 7", one));
  EXPECT_FALSE(Match("id NOT IN (6, 7)", one));
  EXPECT_FALSE(Match("NOT id = 7", one));
  EXPECT_TRUE(Match("id <> 6", one));
}

TEST(FileFilter, NothingKnownMatchesEverything) {
  for (const char* text : {"id = 1", "id <> 1", "name LIKE 'a%'", "id IS NULL", "id IS NOT NULL",
                           "NOT name LIKE 'a%'", "loc.lat > 1"}) {
    EXPECT_TRUE(Match(text, DataFile())) << text;
    EXPECT_TRUE(Parse(text).MayMatch(ManifestFile(), SpecOf(1, "identity"))) << text;
  }
  DataFile damaged;  // Not eight bytes.
  damaged.lower_bounds = {{1, "abc"}};
  damaged.upper_bounds = {{1, ""}};
  EXPECT_TRUE(Match("id = 1", damaged));
}

TEST(FileFilter, CombinesWithPrecedence) {
  const DataFile file = Bounded(1, int64_t{10}, int64_t{20});
  EXPECT_TRUE(Match("id = 15 OR id = 1 AND id = 2", file));
  EXPECT_FALSE(Match("(id = 15 OR id = 1) AND id = 2", file));
  EXPECT_TRUE(Match("NOT id = 1 AND id = 15", file));
  EXPECT_FALSE(Match("NOT (id = 1 OR id < 30)", file));
  EXPECT_TRUE(Match("NOT (id = 1 AND id < 30)", file));
  EXPECT_TRUE(Match("not(id < 3)or id Between 1 aNd 2", file));
  EXPECT_FALSE(Match("id BETWEEN 1 AND 10 AND id = 99", file));
  EXPECT_TRUE(Match("id between 1 and 10 and id is not null", file));
}

TEST(FileFilter, NullsMatchIsNullOnly) {
  DataFile file = Bounded(1, int64_t{10}, int64_t{20});
  file.value_counts = {{1, 5}};
  file.null_value_counts = {{1, 0}};
  EXPECT_FALSE(Match("id IS NULL", file));
  EXPECT_FALSE(Match("NOT id IS NOT NULL", file));
  EXPECT_TRUE(Match("id IS NOT NULL", file));
  file.null_value_counts = {{1, 1}};
  EXPECT_TRUE(Match("id IS NULL", file));
  DataFile nulls;
  nulls.value_counts = {{1, 5}};
  nulls.null_value_counts = {{1, 5}};
  EXPECT_TRUE(Match("id IS NULL", nulls));
  for (const char* no : {"id IS NOT NULL", "id = 1", "id <> 1", "NOT id = 1", "id NOT IN (1)",
                         "id < 5 OR id >= 5"}) {
    EXPECT_FALSE(Match(no, nulls)) << no;
  }
}

TEST(FileFilter, TextBoundsAreBytesAndMayBeCut) {
  // The lower bound of "abcde…" cut after 3, the upper one of "abz…" counted up.
  const DataFile file = Bounded(2, std::string("abc"), std::string("ac"));
  for (const char* yes :
       {"name = 'abcd'", "name LIKE 'ab%'", "name LIKE 'abz%'", "name LIKE '%'", "name LIKE 'a%z'",
        "name LIKE 'ac%'", "NOT name LIKE 'abc%'", "name NOT LIKE 'a_%'", "name >= 'ac'"}) {
    EXPECT_TRUE(Match(yes, file)) << yes;
  }
  for (const char* no :
       {"name = 'abb'", "name = 'ad'", "name LIKE 'abb%'", "name LIKE 'b%'", "name LIKE 'aca%'",
        "name LIKE 'abb'", "name NOT LIKE 'a%'", "name LIKE 'b_d%'", "NOT name LIKE '%'",
        "name < 'abc'", "name > '\xc3\xa9'"}) {
    EXPECT_FALSE(Match(no, file)) << no;
  }
  EXPECT_TRUE(Match("name = 'it''s'", Bounded(2, std::string("it's"), std::string("it's"))));
  EXPECT_FALSE(Match("name <> 'it''s'", Bounded(2, std::string("it's"), std::string("it's"))));
}

TEST(FileFilter, FloatsKnowZerosAndNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  DataFile file = Bounded(7, -0.0, -0.0);
  EXPECT_TRUE(Match("d = 0.0", file));
  EXPECT_TRUE(Match("d > 5", file));  // NaN, of which nothing is known.
  EXPECT_TRUE(Match("d <> 0", file));
  file.nan_value_counts = {{7, 0}};
  EXPECT_FALSE(Match("d > 5", file));
  EXPECT_FALSE(Match("d <> 0", file));
  EXPECT_FALSE(Match("d > 0.0", file));
  EXPECT_FALSE(Match("d < 0.0", file));
  file.nan_value_counts = {{7, 1}};
  EXPECT_TRUE(Match("d > 5", file));
  EXPECT_FALSE(Match("d < -1e-3", file));
  EXPECT_TRUE(Match("d < 5", Bounded(7, nan, nan)));  // Old writers: no bound at all.
  // 0.1 as a float is above 0.1 as a double: engines may see it either way.
  DataFile narrow = Bounded(6, 0.1F, 0.1F);
  narrow.nan_value_counts = {{6, 0}};
  EXPECT_TRUE(Match("f = 0.1", narrow));
  EXPECT_TRUE(Match("f > 0.1", narrow));
  EXPECT_TRUE(Match("f <> 0.1", narrow));
  EXPECT_FALSE(Match("f > 0.1001", narrow));
  EXPECT_FALSE(Match("f < 0.0999", narrow));
}

TEST(FileFilter, EveryTypeTakesItsLiterals) {
  EXPECT_FALSE(Match("day < DATE '2026-11-29'", Bounded(3, int64_t{20786}, int64_t{20786})));
  EXPECT_TRUE(Match("day = '2026-11-29'", Bounded(3, int64_t{20786}, int64_t{20786})));
  const Value ts = int64_t{20786} * 86'400'000'000;
  EXPECT_TRUE(Match("ts = TIMESTAMP '2026-11-29T00:00:00Z'", Bounded(4, ts, ts)));
  EXPECT_FALSE(Match("ts <> DATE '2026-11-29'", Bounded(4, ts, ts)));
  EXPECT_TRUE(Match("ts > '2026-11-28 23:59:59.999999+00:00'", Bounded(4, ts, ts)));
  EXPECT_FALSE(Match("price > 12.50", Bounded(5, Decimal{-5}, Decimal{1250})));
  EXPECT_TRUE(Match("price >= 12.5", Bounded(5, Decimal{-5}, Decimal{1250})));
  EXPECT_TRUE(Match("price = -.05", Bounded(5, Decimal{-5}, Decimal{1250})));
  EXPECT_FALSE(Match("flag = TRUE", Bounded(8, false, false)));
  EXPECT_TRUE(Match("flag <> true", Bounded(8, false, false)));
  EXPECT_TRUE(Match("b = X'00ff'", Bounded(10, std::string("\0", 1), std::string("\x01"))));
  EXPECT_FALSE(Match("b > '01'", Bounded(10, std::string("\0", 1), std::string("\x01"))));
  EXPECT_FALSE(Match("time > TIME '10:00:00'", Bounded(17, int64_t{0}, int64_t{36'000'000'000})));
  EXPECT_FALSE(Match("\"or der\" = 3", Bounded(16, int64_t{4}, int64_t{4})));
  EXPECT_FALSE(Match("`or der` = 3", Bounded(16, int64_t{4}, int64_t{4})));
  DataFile lat = Bounded(12, 1.0, 2.0);
  lat.nan_value_counts = {{12, 0}};
  EXPECT_FALSE(Match("loc.lat > 2e0", lat));
  EXPECT_FALSE(Match("\"loc\".`lat` > 2e0", lat));
}

TEST(FileFilter, UuidBoundsHaveNoAgreedOrder) {
  const std::string low(16, '\x10');
  const std::string high(16, '\xf0');
  const std::string text = "u = '00000000-0000-0000-0000-000000000000'";
  EXPECT_TRUE(Match(text, Bounded(9, low, high)));
  EXPECT_FALSE(Match(text, Bounded(9, low, low)));
  EXPECT_TRUE(Match("u = '10101010-1010-1010-1010-101010101010'", Bounded(9, low, low)));
}

TEST(FileFilter, IdentityPartitions) {
  EXPECT_TRUE(MatchPartition("id = 5", 1, "identity", int64_t{5}));
  EXPECT_FALSE(MatchPartition("id = 6", 1, "identity", int64_t{5}));
  EXPECT_FALSE(MatchPartition("id <> 5", 1, "identity", int64_t{5}));
  EXPECT_FALSE(MatchPartition("id IS NULL", 1, "identity", int64_t{5}));
  EXPECT_TRUE(MatchPartition("id IS NULL", 1, "identity", Value()));
  EXPECT_FALSE(MatchPartition("id = 5", 1, "identity", Value()));
  EXPECT_FALSE(MatchPartition("id IS NOT NULL", 1, "identity", Value()));
  EXPECT_FALSE(MatchPartition("name NOT LIKE 'ab%'", 2, "identity", std::string("abc")));
  EXPECT_FALSE(MatchPartition("d > 2.5", 7, "identity", 2.5F));  // A float when it was written.
  EXPECT_TRUE(MatchPartition("d > 2.5", 7, "identity", std::nan("")));
  EXPECT_FALSE(MatchPartition("d <= 2.5", 7, "identity", std::nan("")));
  // A value of another type tells nothing.
  EXPECT_TRUE(MatchPartition("name LIKE 'a%'", 2, "identity", int64_t{5}));
  EXPECT_TRUE(MatchPartition("name LIKE 'a%'", 2, "truncate[4]", int64_t{5}));
  // Another column's partition neither.
  EXPECT_TRUE(MatchPartition("n = 6", 1, "identity", int64_t{5}));
  EXPECT_TRUE(Match("id = 6", DataFile(), SpecOf(1, "identity")));  // Without its tuple.
}

TEST(FileFilter, VoidAndUnknownTransformsTellNothing) {
  for (const char* transform : {"void", "zorder[3]"}) {
    EXPECT_TRUE(MatchPartition("id = 5", 1, transform, Value())) << transform;
    EXPECT_TRUE(MatchPartition("id = 5", 1, transform, int64_t{4})) << transform;
    EXPECT_TRUE(MatchPartition("id IS NULL", 1, transform, int64_t{4})) << transform;
  }
  DataFile file;
  file.partition = {int64_t{4}};
  const PartitionSpec two = {1, {{{1, 15}, 1000, "p", "identity"}}};  // Of two columns.
  EXPECT_TRUE(Match("id = 5", file, two));
}

TEST(FileFilter, BucketsDecideEqualityOnly) {
  const Transform bucket{Transform::Kind::kBucket, 16};
  const Value of_34 = *ApplyTransform(bucket, TypeOf(1), int64_t{34});
  EXPECT_EQ(std::get<int64_t>(of_34), 2017239379 % 16);  // [Appendix B].
  const Value other = (std::get<int64_t>(of_34) + 1) % 16;
  EXPECT_TRUE(MatchPartition("id = 34", 1, "bucket[16]", of_34));
  EXPECT_FALSE(MatchPartition("id = 34", 1, "bucket[16]", other));
  EXPECT_TRUE(MatchPartition("id <> 34", 1, "bucket[16]", of_34));
  EXPECT_TRUE(MatchPartition("id > 34", 1, "bucket[16]", other));
  EXPECT_FALSE(MatchPartition("id IS NULL", 1, "bucket[16]", other));
  EXPECT_FALSE(MatchPartition("id > 34", 1, "bucket[16]", Value()));
}

TEST(FileFilter, TruncatedPartitions) {
  EXPECT_TRUE(MatchPartition("id = 19", 1, "truncate[10]", int64_t{10}));
  EXPECT_FALSE(MatchPartition("id = 20", 1, "truncate[10]", int64_t{10}));
  EXPECT_TRUE(MatchPartition("id > 18", 1, "truncate[10]", int64_t{10}));
  EXPECT_FALSE(MatchPartition("id > 19", 1, "truncate[10]", int64_t{10}));
  EXPECT_TRUE(MatchPartition("id = -1", 1, "truncate[10]", int64_t{-10}));
  // Truncating next to the least integer wraps around.
  const Value wrapped = *ApplyTransform({Transform::Kind::kTruncate, 10}, TypeOf(15),
                                        int64_t{std::numeric_limits<int32_t>::min()});
  EXPECT_TRUE(MatchPartition("n = -2147483648", 15, "truncate[10]", wrapped));
  EXPECT_TRUE(MatchPartition("price = 10.69", 5, "truncate[50]", Decimal{1050}));
  EXPECT_FALSE(MatchPartition("price = 11.00", 5, "truncate[50]", Decimal{1050}));
  EXPECT_TRUE(MatchPartition("name = 'abcd'", 2, "truncate[3]", std::string("abc")));
  EXPECT_TRUE(MatchPartition("name = 'abc\xff'", 2, "truncate[3]", std::string("abc")));
  EXPECT_FALSE(MatchPartition("name = 'abd'", 2, "truncate[3]", std::string("abc")));
  EXPECT_FALSE(MatchPartition("name >= 'abd'", 2, "truncate[3]", std::string("abc")));
  EXPECT_FALSE(MatchPartition("name NOT LIKE 'abc%'", 2, "truncate[3]", std::string("abc")));
  EXPECT_TRUE(MatchPartition("name NOT LIKE 'abcd%'", 2, "truncate[3]", std::string("abc")));
  // Shorter than the width: the whole value. Two characters, four bytes.
  EXPECT_FALSE(MatchPartition("name = '\xc3\xa9\xc3\xa9z'", 2, "truncate[3]",
                              std::string("\xc3\xa9\xc3\xa9")));
  EXPECT_TRUE(MatchPartition("name = '\xc3\xa9\xc3\xa9z'", 2, "truncate[2]",
                             std::string("\xc3\xa9\xc3\xa9")));
  EXPECT_FALSE(MatchPartition("b = X'6162'", 10, "truncate[2]", std::string("a")));
  EXPECT_TRUE(MatchPartition("b = X'616200'", 10, "truncate[2]", std::string("ab")));
}

TEST(FileFilter, PeriodsOfTime) {
  // 2026-11-29 is day 20786, month 682, year 56; its last hour is 498887.
  EXPECT_TRUE(MatchPartition("ts = '2026-11-29T23:59:59.999999Z'", 4, "day", int64_t{20786}));
  EXPECT_FALSE(MatchPartition("ts >= '2026-11-30T00:00:00Z'", 4, "day", int64_t{20786}));
  EXPECT_FALSE(MatchPartition("ts < '2026-11-29T00:00:00Z'", 4, "day", int64_t{20786}));
  EXPECT_TRUE(MatchPartition("ts >= '2026-11-30T00:00:00+01:00'", 4, "day", int64_t{20786}));
  EXPECT_TRUE(MatchPartition("ts = '2026-11-29T23:00:00Z'", 4, "hour", int64_t{498887}));
  EXPECT_FALSE(MatchPartition("ts < '2026-11-29T23:00:00Z'", 4, "hour", int64_t{498887}));
  EXPECT_TRUE(MatchPartition("day = '2026-11-30'", 3, "month", int64_t{682}));
  EXPECT_FALSE(MatchPartition("day = '2026-12-01'", 3, "month", int64_t{682}));
  EXPECT_FALSE(MatchPartition("day = '2026-10-31'", 3, "month", int64_t{682}));
  EXPECT_TRUE(MatchPartition("day = '2026-01-01'", 3, "year", int64_t{56}));
  EXPECT_FALSE(MatchPartition("day > '2026-12-31'", 3, "year", int64_t{56}));
  EXPECT_FALSE(MatchPartition("day < '2026-01-01'", 3, "year", int64_t{56}));
  EXPECT_FALSE(MatchPartition("day <> '2026-11-29'", 3, "identity", int64_t{20786}));
  // Leap days, and a century that has none.
  EXPECT_TRUE(MatchPartition("day = '2024-02-29'", 3, "month", int64_t{649}));
  EXPECT_FALSE(MatchPartition("day > '2100-02-28'", 3, "month", int64_t{1561}));
  // Before 1970, where old writers gave a period too late.
  EXPECT_TRUE(MatchPartition("ts = '1969-12-31T12:00:00Z'", 4, "day", int64_t{-1}));
  EXPECT_TRUE(MatchPartition("ts = '1969-12-31T12:00:00Z'", 4, "day", int64_t{0}));
  EXPECT_FALSE(MatchPartition("ts = '1969-12-31T12:00:00Z'", 4, "day", int64_t{1}));
  EXPECT_FALSE(MatchPartition("ts < '1969-12-31T00:00:00Z'", 4, "day", int64_t{0}));
  // Out of range: nothing is known.
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const char* transform : {"year", "month", "day", "hour"}) {
    for (const int64_t far : {kMax, -kMax - 1, kMax / 2}) {
      EXPECT_TRUE(MatchPartition("ts = '2026-11-29T00:00:00Z'", 4, transform, far)) << transform;
    }
  }
}

TEST(FileFilter, ManifestsAreChosenBySummaries) {
  ManifestFile manifest;
  const auto match = [&](std::string_view text, int source_id, std::string transform) {
    return Parse(text).MayMatch(manifest, SpecOf(source_id, std::move(transform)));
  };
  const Type day = TransformedType({Transform::Kind::kDay, 0}, TypeOf(4));
  manifest.partitions = {
      {false, false, ValueToBytes(day, int64_t{20780}), ValueToBytes(day, int64_t{20786})}};
  EXPECT_TRUE(match("ts > '2026-11-29T00:00:00Z'", 4, "day"));
  EXPECT_FALSE(match("ts >= '2026-11-30T00:00:00Z'", 4, "day"));
  EXPECT_FALSE(match("ts < '2026-11-23T00:00:00Z'", 4, "day"));
  EXPECT_FALSE(match("ts IS NULL", 4, "day"));
  EXPECT_TRUE(match("ts IS NULL", 4, "void"));
  EXPECT_TRUE(match("ts >= '2026-11-30T00:00:00Z'", 3, "day"));  // Of another column.
  manifest.partitions[0].contains_null = true;
  EXPECT_TRUE(match("ts IS NULL", 4, "day"));
  EXPECT_FALSE(match("ts >= '2026-11-30T00:00:00Z'", 4, "day"));
  manifest.partitions[0].lower_bound.reset();
  EXPECT_TRUE(match("ts < '2026-11-23T00:00:00Z'", 4, "day"));

  const Type& text = TypeOf(2);
  manifest.partitions = {
      {false, false, ValueToBytes(text, std::string("b")), ValueToBytes(text, std::string("d"))}};
  EXPECT_TRUE(match("name = 'c'", 2, "identity"));
  EXPECT_FALSE(match("name = 'e'", 2, "identity"));
  EXPECT_FALSE(match("name = 'dd'", 2, "identity"));
  EXPECT_TRUE(match("name = 'dd'", 2, "truncate[1]"));
  EXPECT_FALSE(match("name = 'dd'", 2, "truncate[2]"));

  Type ordinal;
  ordinal.kind = TypeKind::kInt;
  manifest.partitions = {
      {false, false, ValueToBytes(ordinal, int64_t{3}), ValueToBytes(ordinal, int64_t{3})}};
  EXPECT_TRUE(match("id = 34", 1, "bucket[16]"));
  EXPECT_TRUE(match("id IN (34, 35)", 1, "bucket[16]"));
  manifest.partitions = {
      {false, false, ValueToBytes(ordinal, int64_t{4}), ValueToBytes(ordinal, int64_t{15})}};
  EXPECT_FALSE(match("id = 34", 1, "bucket[16]"));

  const Type& number = TypeOf(7);
  manifest.partitions = {
      {false, std::nullopt, ValueToBytes(number, 1.0), ValueToBytes(number, 2.0)}};
  EXPECT_TRUE(match("d > 5", 7, "identity"));
  EXPECT_FALSE(match("d < 1", 7, "identity"));
  manifest.partitions[0].contains_nan = false;
  EXPECT_FALSE(match("d > 5", 7, "identity"));
}

TEST(FileFilter, PartitionsAndBoundsNarrowTogether) {
  DataFile file = Bounded(1, int64_t{12}, int64_t{30});
  file.partition = {int64_t{10}};
  const PartitionSpec spec = SpecOf(1, "truncate[10]");
  EXPECT_TRUE(Match("id = 12", file, spec));
  EXPECT_FALSE(Match("id = 11", file, spec));
  EXPECT_FALSE(Match("id = 20", file, spec));
}

TEST(FileFilter, TellsWhichFieldsItLooksAt) {
  EXPECT_EQ(Parse("n = 1 OR id IS NULL AND NOT (loc.lat > 1 OR n < 4)").field_ids(),
            (std::vector<int>{1, 12, 15}));
}

TEST(FileFilter, RefusesBadTextWithThePosition) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"id", "the text ends where a comparison should be (at character 3)"},
      {"id =", "the text ends where a literal should be (at character 5)"},
      {"= 5", "\"=\" where a column should be (at character 1)"},
      {"id = 5 id = 6", "\"id\" where the end, AND or OR should be (at character 8)"},
      {"(id = 5", "where \")\" should be"},
      {"id = 5)", "where the end, AND or OR should be"},
      {"id IN ()", "where a literal should be"},
      {"id IN (1", "where \")\" should be"},
      {"id IN 1", "where \"(\" should be"},
      {"id BETWEEN 1", "where AND should be"},
      {"id NOT = 1", "where IN, BETWEEN or LIKE should be"},
      {"id IS 5", "where NULL should be"},
      {"id = NULL", "use IS NULL (at character 6)"},
      {"id IN (1, NULL)", "use IS NULL"},
      {"nope = 1", "no column \"nope\" (at character 1)"},
      {"ID = 1", "no column \"ID\""},
      {"loc.x = 1", "no column \"loc.x\""},
      {"loc. = 1", "where a column should be"},
      {"tags.element = 'a'", "inside a list or map"},
      {"loc = 1", "can only be tested for NULL"},
      {"geo = 'a'", "can only be tested for NULL"},
      {"id = 'a'", "no value of the type of column \"id\" (at character 6)"},
      {"id = '5'", "no value of the type"},
      {"id = 1.5", "column \"id\": \"1.5\" is no long"},
      {"id = 1e3", "is no long"},
      {"id = 9223372036854775808", "is no long"},
      {"n = 2147483648", "is no int"},
      {"id = TRUE", "no value of the type"},
      {"name = 5", "no value of the type"},
      {"name = DATE '2026-11-29'", "no value of the type"},
      {"flag = 1", "no value of the type"},
      {"day = '2026-02-30'", "is no date"},
      {"day = TIMESTAMP '2026-11-29'", "no value of the type"},
      {"day = DATE 5", "where a text in '…' should be"},
      {"price = 1.234", "is no decimal"},
      {"u < '00000000-0000-0000-0000-000000000000'", "engines do not agree on their order"},
      {"id LIKE 'a%'", "LIKE takes a string column and a text"},
      {"name LIKE 5", "LIKE takes a string column and a text"},
      {"name = 'abc", "a ' without its partner (at character 8)"},
      {"\"id = 5", "a \" without its partner"},
      {"id = 5; DROP", "unexpected character \";\" (at character 7)"},
      {"id = - x", "where a number should be"},
      {"5 id", "where a comparison should be"},
      {"5 = 5", "where a column should be"},
      {"id = n", "where a literal should be"},
      {std::string(200, '(') + "id = 5", "more than 100 parentheses"},
      {std::string((1 << 20) + 1, ' '), "longer than 1 MiB"},
  };
  for (const auto& [text, says] : wrong) {
    const auto filter = FileFilter::Parse(text, TestSchema());
    ASSERT_FALSE(filter.has_value()) << text;
    EXPECT_EQ(filter.error().code, Code::kInvalid);
    EXPECT_EQ(filter.error().context, "where");
    EXPECT_NE(filter.error().message.find(says), std::string::npos)
        << text << ": " << filter.error().ToString();
  }
}

TEST(FileFilter, LongListsAndDeepNestingAreFine) {
  std::string list = "id IN (0";
  std::string chain = "id = 0";
  std::string nots;
  for (int i = 1; i < 20'000; ++i) {
    list += ", " + std::to_string(i);
    chain += " OR id = " + std::to_string(i);
    nots += "NOT ";
  }
  const DataFile file = Bounded(1, int64_t{20'000}, int64_t{20'001});
  EXPECT_FALSE(Match(list + ")", file));
  EXPECT_TRUE(Match(list + ", 20000)", file));
  EXPECT_FALSE(Match(chain, file));
  EXPECT_FALSE(Match(nots + "id <> 20000 AND id < 20000", file));
  EXPECT_TRUE(Match(std::string(100, '(') + "id = 20000" + std::string(100, ')'), file));
}

// Whatever the rows, the partition and the filter: if a row matches, its file does.
TEST(FileFilter, NeverLeavesOutAFileWithAMatchingRow) {
  SeededRandom random(3);
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(random.Next() % n); };
  const std::vector<std::string> transforms = {"identity",    "bucket[4]", "truncate[7]",
                                               "truncate[1]", "void",      "truncate[100]"};
  const std::vector<std::string> operators = {"<", "<=", ">", ">=", "=", "<>"};
  int left_out = 0;
  int matching = 0;
  for (int round = 0; round < 20'000; ++round) {
    const bool text = pick(2) == 0;
    const int id = text ? 2 : 1;
    const auto value = [&] {
      if (!text) return Value(pick(40) - 20);
      std::string word;
      for (int64_t i = pick(4); i > 0; --i)
        word += std::string_view("ab\xc3\xa9").substr(pick(2), 1);
      return Value(word);
    };
    const auto literal = [&](const Value& one) {
      return text ? "'" + std::get<std::string>(one) + "'" : std::to_string(std::get<int64_t>(one));
    };
    const std::string transform_text = transforms[static_cast<size_t>(pick(6))];
    const Transform transform = ParseTransform(transform_text);
    // Rows of one partition.
    std::vector<Value> rows;
    const Value partition = *ApplyTransform(transform, TypeOf(id), value());
    for (int i = 0; i < 6; ++i) {
      const Value row = value();
      if (*ApplyTransform(transform, TypeOf(id), row) == partition) rows.push_back(row);
    }
    if (rows.empty()) continue;
    const auto [low, high] = std::minmax_element(
        rows.begin(), rows.end(),
        [](const Value& a, const Value& b) { return iceberg::CompareValues(a, b) < 0; });
    DataFile file = pick(2) == 0 ? Bounded(id, *low, *high) : DataFile();
    file.partition = {partition};
    // Two tests, joined; on each row by the plain meaning.
    const std::string column = text ? "name" : "id";
    const auto op = static_cast<size_t>(pick(6));
    const Value a = value();
    const Value b = value();
    const bool negate = pick(2) == 0;
    const bool both = pick(2) == 0;
    const std::string filter = std::string(negate ? "NOT (" : "(") + column + " " + operators[op] +
                               " " + literal(a) + (both ? " AND " : " OR ") + column + " <> " +
                               literal(b) + ")";
    const auto matches = [&](const Value& row) {
      const int order = iceberg::CompareValues(row, a);
      const bool first[] = {order < 0, order <= 0, order > 0, order >= 0, order == 0, order != 0};
      const bool second = iceberg::CompareValues(row, b) != 0;
      return (both ? first[op] && second : first[op] || second) != negate;
    };
    const bool any = std::any_of(rows.begin(), rows.end(), matches);
    const bool may = Match(filter, file, SpecOf(id, transform_text));
    EXPECT_TRUE(may || !any) << filter << " " << transform_text;
    left_out += may ? 0 : 1;
    matching += any ? 1 : 0;
  }
  EXPECT_GT(left_out, 1000);
  EXPECT_GT(matching, 1000);
}

}  // namespace
}  // namespace lithify::table
