#include "table/hive_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "storage/counting_store.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace lithify::table {
namespace {

using std::string_literals::operator""s;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Time At(const char* text) { return ParseTime(text).value(); }

const SeriesLayout kData = OuriosLayout()[0];

TEST(HiveValue, R197EncodesEveryByteButTheUnreserved) {
  EXPECT_EQ(EncodeHiveValue("AZaz09-_.~"), "AZaz09-_.~");
  EXPECT_EQ(EncodeHiveValue("a/b=c%d e+f"), "a%2Fb%3Dc%25d%20e%2Bf");
  EXPECT_EQ(EncodeHiveValue("z\xC3\xBC\0"s), "z%C3%BC%00");
  EXPECT_EQ(DecodeHiveValue("a%2Fb%3Dc%25d%20e%2Bf").value(), "a/b=c%d e+f");
}

TEST(HiveValue, R197MalformedAndNonCanonicalAreErrors) {
  for (const std::string& text :
       {"%"s, "%4"s, "a%"s, "%2f"s, "%GG"s, "% 1"s, "%41"s, "%7E"s, "%2D"s, "a b"s, "a/b"s, "a=b"s,
        "\xC3\xBC"s, "%FF"s, "%C3"s, "%ED%A0%80"s, "%C0%80"s, "\0"s, "%2\0"s}) {
    const auto decoded = DecodeHiveValue(text);
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error().code, Code::kInvalid);
  }
}

// Any well-formed UTF-8 from code points.
std::string Utf8(const std::vector<uint32_t>& points) {
  std::string out;
  for (uint32_t point : points) {
    point %= 0x110000;
    if (point >= 0xd800 && point < 0xe000) point -= 0x800;
    const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xc0 | point >> 6), put(0x80 | (point & 63));
    } else if (point < 0x10000) {
      put(0xe0 | point >> 12), put(0x80 | (point >> 6 & 63)), put(0x80 | (point & 63));
    } else {
      put(0xf0 | point >> 18), put(0x80 | (point >> 12 & 63)), put(0x80 | (point >> 6 & 63));
      put(0x80 | (point & 63));
    }
  }
  return out;
}

TEST(HiveValue, R197DecodeInvertsEncode) {
  EXPECT_TRUE(rc::check("any UTF-8", [](const std::vector<uint32_t>& wide,
                                        const std::vector<uint8_t>& ascii) {
    std::string value = Utf8(wide);
    for (const uint8_t c : ascii) value += static_cast<char>(c & 0x7f);
    const std::string text = EncodeHiveValue(value);
    RC_ASSERT(std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '/'; }));
    RC_ASSERT(DecodeHiveValue(text).value() == value);
  }));
}

// Every text of up to five characters over an alphabet that makes all kinds of escapes.
TEST(HiveValue, R197DecodeAcceptsOnlyWhatEncodeGives) {
  constexpr std::string_view kAlphabet = "%0247ACEa/~";
  int accepted = 0;
  const auto visit = [&](const auto& self, const std::string& text) -> void {
    if (const auto decoded = DecodeHiveValue(text)) {
      ++accepted;
      ASSERT_EQ(EncodeHiveValue(*decoded), text);
    }
    if (text.size() == 5) return;
    for (const char c : kAlphabet) self(self, text + c);
  };
  visit(visit, "");
  EXPECT_GT(accepted, 5000);
}

TEST(HivePartition, R195ParsesTheOuriosLayout) {
  const std::string key = "data/tenant_id=a%2Fb/year=2026/month=11/day=29/hour=07/";
  const PartitionId id = ParsePartition(kData, key).value();
  EXPECT_EQ(id.series, "data");
  EXPECT_EQ(id.key_prefix, key);
  EXPECT_EQ(id.tenant, "a/b");
  EXPECT_THAT(id.values, ElementsAre(std::pair("tenant_id"s, "a/b"s), std::pair("year"s, "2026"s),
                                     std::pair("month"s, "11"s), std::pair("day"s, "29"s),
                                     std::pair("hour"s, "07"s)));
  EXPECT_EQ(id.start, At("2026-11-29T07"));
  EXPECT_EQ(id.end, At("2026-11-29T08"));
  EXPECT_EQ(MakePartition(kData, {"a/b", "2026", "11", "29", "07"}).value(), id);
}

TEST(HivePartition, R210BucketsAreAsFineAsTheFinestColumn) {
  const auto bucket = [](std::vector<PartitionColumn> columns, const std::string& key) {
    SeriesLayout layout;
    layout.name = "x";
    layout.columns = std::move(columns);
    const PartitionId id = ParsePartition(layout, key).value();
    return std::pair(id.start, id.end);
  };
  using enum ColumnRole;
  EXPECT_EQ(bucket({{"y", kYear}}, "y=9999/"),
            std::pair(std::optional(At("9999-01-01")),
                      std::optional(At("9999-12-31") + std::chrono::days(1))));
  EXPECT_EQ(bucket({{"y", kYear}, {"m", kMonth}}, "y=2026/m=12/"),
            std::pair(std::optional(At("2026-12-01")), std::optional(At("2027-01-01"))));
  EXPECT_EQ(bucket({{"y", kYear}, {"m", kMonth}, {"d", kDay}}, "y=2024/m=02/d=29/"),
            std::pair(std::optional(At("2024-02-29")), std::optional(At("2024-03-01"))));
  EXPECT_EQ(bucket({{"d", kDate}}, "d=2026-12-31/"),
            std::pair(std::optional(At("2026-12-31")), std::optional(At("2027-01-01"))));
  EXPECT_EQ(bucket({{"d", kDate}, {"r", kOther}, {"h", kHour}}, "d=0001-01-01/r=eu/h=23/"),
            std::pair(std::optional(At("0001-01-01T23")), std::optional(At("0001-01-02"))));
  EXPECT_EQ(bucket({{"region", kOther}}, "region=eu/"),
            std::pair(std::optional<Time>(), std::optional<Time>()));
}

TEST(HivePartition, R199R205NonCanonicalAndImpossiblePathsAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"year=2026/month=13/day=01/hour=00/", "month is 13, not from 1 to 12"},
      {"year=2026/month=00/day=01/hour=00/", "month is 00"},
      {"year=2026/month=1/day=01/hour=00/", "month is '1', not 2 digits"},
      {"year=2026/month=02/day=30/hour=00/", "there is no day 30 in that month"},
      {"year=2026/month=02/day=29/hour=00/", "there is no day 29"},
      {"year=2026/month=01/day=32/hour=00/", "day is 32"},
      {"year=2026/month=01/day=01/hour=24/", "hour is 24, not from 0 to 23"},
      {"year=2026/month=01/day=01/hour=7/", "not 2 digits"},
      {"year=2026/month=01/day=01/hour=-1/", "not 2 digits"},
      {"year=0000/month=01/day=01/hour=00/", "year is 0000"},
      {"year=02026/month=01/day=01/hour=00/", "not 4 digits"},
      {"Year=2026/month=01/day=01/hour=00/", "'Year=2026' is not year=…"},
      {"year=2026/day=01/month=01/hour=00/", "'day=01' is not month=…"},
      {"year=2026/month=01/day=01/", "ends before hour=…/"},
      {"year=2026/month=01/day=01/hour=00/x/", "too deep"},
      {"year=2026/month=01/day=01/hour=00", "ends before hour=…/"},
      {"year=/month=01/day=01/hour=00/", "year has an empty value"}};
  for (const auto& [rest, message] : cases) {
    const auto id = ParsePartition(kData, "data/tenant_id=a/" + rest);
    ASSERT_FALSE(id) << rest;
    EXPECT_EQ(id.error().code, Code::kInvalid) << rest;
    EXPECT_THAT(id.error().message, HasSubstr(message));
  }
  for (const char* key : {"data/tenant_id=a%2f/year=2026/month=01/day=01/hour=00/",
                          "data/tenant_id=/year=2026/month=01/day=01/hour=00/",
                          "audit/tenant_id=a/year=2026/month=01/day=01/hour=00/",
                          "tenant_id=a/year=2026/month=01/day=01/hour=00/", "", "data", "/"}) {
    EXPECT_FALSE(ParsePartition(kData, key)) << key;
  }
  for (const std::vector<std::string>& values :
       std::vector<std::vector<std::string>>{{"a"},
                                             {"", "2026", "01", "01", "00"},
                                             {"a\xff", "2026", "01", "01", "00"},
                                             {"a", "2026", "02", "30", "00"},
                                             {"a", "2026", "1", "01", "00"}}) {
    EXPECT_FALSE(MakePartition(kData, values));
  }
}

TEST(HivePartition, ParseInvertsMake) {
  EXPECT_TRUE(rc::check("any tenant and hour", [](std::vector<uint32_t> points) {
    points.push_back(7);  // No empty value.
    const std::string tenant = Utf8(points);
    const auto two = [](int n) { return (n < 10 ? "0" : "") + std::to_string(n); };
    const PartitionId id =
        MakePartition(kData, {tenant, std::to_string(*rc::gen::inRange(1000, 10000)),
                              two(*rc::gen::inRange(1, 13)), two(*rc::gen::inRange(1, 29)),
                              two(*rc::gen::inRange(0, 24))})
            .value();
    RC_ASSERT(id.tenant == tenant);
    RC_ASSERT(*id.end - *id.start == Duration(std::chrono::hours(1)));
    RC_ASSERT(ParsePartition(kData, id.key_prefix).value() == id);
  }));
}

TEST(HiveLayout, PresetsAreValid) {
  for (const SeriesLayout& layout : OuriosLayout()) EXPECT_TRUE(CheckLayout(layout));
  const SeriesLayout audit = OuriosLayout()[1];
  EXPECT_EQ(audit.columns.back().role, ColumnRole::kDay);
  EXPECT_THAT(audit.time_row_columns, ElementsAre("timestamp"));
  EXPECT_EQ(audit.prefix, "audit");
}

TEST(HiveLayout, R201BadLayoutsAreNamed) {
  using enum ColumnRole;
  const std::vector<std::pair<std::vector<PartitionColumn>, const char*>> cases = {
      {{}, "a series needs a partition column"},
      {{{"a", kOther}, {"a", kOther}}, "two columns of this name"},
      {{{"a", kTenant}, {"b", kTenant}}, "another column has the same role"},
      {{{"y", kYear}, {"z", kYear}}, "another column has the same role"},
      {{{"h", kHour}}, "an hour without a day or date before it"},
      {{{"y", kYear}, {"h", kHour}}, "an hour without a day or date before it"},
      {{{"y", kYear}, {"d", kDay}}, "a day without a month before it"},
      {{{"m", kMonth}, {"y", kYear}}, "a month without a year before it"},
      {{{"d", kDate}, {"y", kYear}}, "a year beside a date"},
      {{{"y", kYear}, {"d", kDate}}, "a date beside a year"},
      {{{"", kOther}}, "a column name must be"},
      {{{"_a", kOther}}, "a column name must be"},
      {{{"a/b", kOther}}, "a column name must be"},
      {{{"a=b", kOther}}, "a column name must be"}};
  for (const auto& [columns, message] : cases) {
    SeriesLayout layout;
    layout.name = "x";
    layout.columns = columns;
    const Status status = CheckLayout(layout);
    ASSERT_FALSE(status) << message;
    EXPECT_EQ(status.error().code, Code::kInvalid);
    EXPECT_THAT(status.error().ToString(), HasSubstr(message));
    EXPECT_THAT(status.error().context, HasSubstr("series 'x'"));
  }
  for (const char* prefix : {"/data", "data/", "a//b", "..", "a/../b", "."}) {
    SeriesLayout layout = kData;
    layout.prefix = prefix;
    EXPECT_FALSE(CheckLayout(layout)) << prefix;
  }
}

class HiveWalk : public testing::Test {
 protected:
  void Put(const std::string& key) { ASSERT_TRUE(store_.PutNew(key, "x")) << key; }

  static std::string Key(const std::string& tenant, const std::string& day,
                         const std::string& hour) {
    return "data/tenant_id=" + tenant + "/year=2026/month=11/day=" + day + "/hour=" + hour + "/";
  }

  FoundPartitions Find(const PartitionFilter& filter = {}) {
    return FindPartitions(store_, OuriosLayout(), filter, cancel_).value();
  }

  std::vector<std::string> FoundKeys(const PartitionFilter& filter = {}) {
    std::vector<std::string> keys;
    for (const PartitionId& id : Find(filter).partitions) keys.push_back(id.key_prefix);
    return keys;
  }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
  CancelFlag cancel_;
};

TEST_F(HiveWalk, R205OldestFirstThenByKey) {
  for (const std::string& key :
       {Key("b", "29", "07"), Key("a", "29", "08"), Key("a", "29", "07"), Key("z", "28", "23"),
        "audit/tenant_id=a/year=2026/month=11/day=29/"s}) {
    Put(key + "x.parquet");
  }
  EXPECT_THAT(FoundKeys(),
              ElementsAre(Key("z", "28", "23"), "audit/tenant_id=a/year=2026/month=11/day=29/",
                          Key("a", "29", "07"), Key("b", "29", "07"), Key("a", "29", "08")));
  EXPECT_EQ(Find().series_found, 2);
  EXPECT_THAT(Find().skipped, IsEmpty());
}

TEST_F(HiveWalk, NothingThereIsNoError) {
  const FoundPartitions found = Find();
  EXPECT_THAT(found.partitions, IsEmpty());
  EXPECT_EQ(found.series_found, 0);
}

TEST_F(HiveWalk, R199SkipsAndNamesWhatIsNotCanonical) {
  Put(Key("a", "29", "07") + "x.parquet");
  // R200: below a partition nothing counts.
  Put(Key("a", "29", "07") + "nested/hour=08/x.parquet");
  Put("data/readme.txt");
  Put("data/_delta_log/0.json");
  Put("data/.lithify/x");
  Put("other/tenant_id=a/x.parquet");
  Put("data/tenant=a/year=2026/month=11/day=29/hour=07/x.parquet");
  Put("data/tenant_id=%61/year=2026/x.parquet");
  Put("data/tenant_id=a/year=2026/month=13/day=01/hour=00/x.parquet");
  Put("data/tenant_id=a/year=2026/month=02/day=30/hour=00/x.parquet");
  Put("data/tenant_id=a/year=2026/month=11/day=29/hour=7/x.parquet");
  Put("data/tenant_id=a/year=2026/month=11/_temporary/x.parquet");
  const FoundPartitions found = Find();
  EXPECT_THAT(FoundKeys(), ElementsAre(Key("a", "29", "07")));
  std::vector<std::string> skipped;
  for (const SkippedPath& path : found.skipped) skipped.push_back(path.key + ": " + path.reason);
  EXPECT_THAT(skipped,
              UnorderedElementsAre(
                  "data/tenant=a/: 'tenant=a' is not tenant_id=…",
                  "data/tenant_id=%61/: tenant_id: needless escape at byte 0 of '%61'",
                  "data/tenant_id=a/year=2026/month=13/: month is 13, not from 1 to 12",
                  "data/tenant_id=a/year=2026/month=02/day=30/: there is no day 30 in that month",
                  "data/tenant_id=a/year=2026/month=11/day=29/hour=7/: hour is '7', not 2 digits",
                  "data/tenant_id=a/year=2026/month=11/_temporary/: '_temporary' is not day=…"));
}

TEST_F(HiveWalk, FiltersPrune) {
  for (const std::string& tenant : {"a"s, "ab"s, "a%2Fb"s}) {
    for (const std::string& day : {"28"s, "29"s}) {
      Put(Key(tenant, day, "07") + "x.parquet");
      Put(Key(tenant, day, "08") + "x.parquet");
    }
  }
  Put("data/tenant_id=a/year=bad/x.parquet");
  Put("audit/tenant_id=a/year=2026/month=11/day=29/x.parquet");
  PartitionFilter filter;
  filter.tenant = "a/b";
  filter.series = "data";
  EXPECT_EQ(FoundKeys(filter).size(), 4u);
  EXPECT_THAT(Find(filter).skipped, IsEmpty());
  EXPECT_EQ(Find(filter).series_found, 1);

  filter = {};
  for (const char* partition : {"data/tenant_id=a/year=2026/month=11/day=28",
                                "data/tenant_id=a/year=2026/month=11/day=28/"}) {
    filter.partition = partition;
    EXPECT_THAT(FoundKeys(filter), ElementsAre(Key("a", "28", "07"), Key("a", "28", "08")));
  }
  filter.partition = Key("a", "28", "07");
  EXPECT_THAT(FoundKeys(filter), ElementsAre(Key("a", "28", "07")));
  filter.partition = "data/tenant_id=a";  // Not tenant ab.
  EXPECT_EQ(FoundKeys(filter).size(), 4u);
  filter.partition = "data/ten";
  EXPECT_THAT(FoundKeys(filter), IsEmpty());

  filter = {};
  filter.series = "data";
  filter.tenant = "a";
  filter.since = At("2026-11-29T08");
  EXPECT_THAT(FoundKeys(filter), ElementsAre(Key("a", "29", "08")));
  filter.since = At("2026-11-29T07:59:59.999999Z");
  EXPECT_THAT(FoundKeys(filter), ElementsAre(Key("a", "29", "07"), Key("a", "29", "08")));
}

TEST_F(HiveWalk, PrunedTreesAreNotListed) {
  Put(Key("a", "28", "07") + "x.parquet");
  Put(Key("b", "29", "07") + "x.parquet");
  std::vector<std::string> listed;
  storage::FaultyStore watched(
      store_, [&](std::string_view op, const std::string& key, bool before) -> Status {
        if (op == "List" && before) listed.push_back(key);
        return {};
      });
  PartitionFilter filter;
  filter.series = "data";
  filter.since = At("2026-11-29");
  ASSERT_TRUE(FindPartitions(watched, OuriosLayout(), filter, cancel_));
  EXPECT_EQ(
      std::ranges::count_if(
          listed, [](const std::string& key) { return key.find("day=28") != std::string::npos; }),
      0);
  EXPECT_THAT(listed, testing::Contains("data/tenant_id=b/year=2026/month=11/day=29/"));
}

TEST_F(HiveWalk, R240R312OnlyTheTopListingIsFatal) {
  Put(Key("a", "28", "07") + "x.parquet");
  Put(Key("b", "29", "07") + "x.parquet");
  const auto failing = [&](const std::string& where) {
    return [where](std::string_view op, const std::string& key, bool before) -> Status {
      if (op == "List" && before && key == where) return Fail(Code::kDenied, "no permission");
      return {};
    };
  };
  storage::FaultyStore one_tenant(store_, failing("data/tenant_id=a/"));
  const auto found = FindPartitions(one_tenant, OuriosLayout(), {}, cancel_).value();
  ASSERT_EQ(found.errors.size(), 1u);
  EXPECT_EQ(found.errors[0].code, Code::kDenied);
  EXPECT_EQ(found.errors[0].context, "data/tenant_id=a/");
  ASSERT_EQ(found.partitions.size(), 1u);
  EXPECT_EQ(found.partitions[0].key_prefix, Key("b", "29", "07"));

  storage::FaultyStore top(store_, failing("audit/"));
  const auto failed = FindPartitions(top, OuriosLayout(), {}, cancel_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kDenied);
}

TEST_F(HiveWalk, StopsOnRequest) {
  Put(Key("a", "28", "07") + "x.parquet");
  cancel_.Request();
  const auto found = FindPartitions(store_, OuriosLayout(), {}, cancel_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kCancelled);
}

TEST_F(HiveWalk, SeriesAtTheRootLeavesOtherSeriesAlone) {
  SeriesLayout root;
  root.name = "root";
  root.columns = {{"region", ColumnRole::kOther}};
  SeriesLayout nested = root;
  nested.name = "nested";
  nested.prefix = "deep/er";
  Put("region=eu/x.parquet");
  Put("deep/er/region=us/x.parquet");
  const auto found = FindPartitions(store_, {root, nested}, {}, cancel_).value();
  ASSERT_EQ(found.partitions.size(), 2u);
  EXPECT_EQ(found.partitions[0].key_prefix, "deep/er/region=us/");
  EXPECT_EQ(found.partitions[1].key_prefix, "region=eu/");
  EXPECT_THAT(found.skipped, IsEmpty());

  nested.prefix = "";
  const auto twice = FindPartitions(store_, {root, nested}, {}, cancel_);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Code::kInvalid);
  nested.prefix = "x";
  nested.name = "root";
  EXPECT_FALSE(FindPartitions(store_, {root, nested}, {}, cancel_));
}

// Where each request is a round trip.
class HiveWalkFar : public HiveWalk {
 protected:
  // The prefixes that were listed, once per page.
  std::vector<std::string> Listed(const std::vector<SeriesLayout>& series,
                                  const PartitionFilter& filter) {
    far_.Forget();
    from_far_ = FindPartitions(far_, series, filter, cancel_).value();
    std::vector<std::string> listed;
    for (const auto& request : far_.requests()) {
      EXPECT_EQ(request.verb, "List");
      listed.push_back(request.key);
    }
    return listed;
  }

  static std::string Show(const FoundPartitions& found) {
    std::string text = "series " + std::to_string(found.series_found) + "\n";
    for (const PartitionId& id : found.partitions) {
      text += id.series + " " + id.key_prefix + " of '" + id.tenant + "'";
      for (const auto& [name, value] : id.values) text += " " + name + ":" + value;
      if (id.start) text += " " + FormatTime(*id.start) + " to " + FormatTime(*id.end);
      text += "\n";
    }
    for (const SkippedPath& path : found.skipped) text += path.key + " " + path.reason + "\n";
    for (const Error& error : found.errors) text += error.ToString() + "\n";
    return text;
  }

  storage::CountingStore far_{store_, std::chrono::microseconds(0)};
  FoundPartitions from_far_;
};

TEST_F(HiveWalkFar, OneRequestPerThousandObjects) {
  for (const std::string& tenant : {"a"s, "b"s}) {
    for (int hour = 10; hour < 20; ++hour) {
      for (int file = 0; file < 60; ++file) {
        Put(Key(tenant, "28", std::to_string(hour)) + std::to_string(file) + ".parquet");
      }
    }
  }
  EXPECT_THAT(Listed(OuriosLayout(), {}), ElementsAre("data/", "data/", "audit/"));
  EXPECT_EQ(from_far_.partitions.size(), 20u);
  EXPECT_EQ(Show(from_far_), Show(Find()));

  PartitionFilter filter;
  filter.series = "data";
  filter.tenant = "b";
  EXPECT_THAT(Listed(OuriosLayout(), filter), ElementsAre("data/tenant_id=b/"));
  EXPECT_EQ(Show(from_far_), Show(Find(filter)));
  filter.partition = Key("b", "28", "10");
  EXPECT_THAT(Listed(OuriosLayout(), filter), ElementsAre(filter.partition));
  EXPECT_EQ(Show(from_far_), Show(Find(filter)));
  // What lies in a partition stands for it.
  filter.partition += "1.parquet";
  EXPECT_THAT(Listed(OuriosLayout(), filter), ElementsAre(Key("b", "28", "10")));
  EXPECT_EQ(from_far_.partitions.size(), 1u);
  // The series is there, if not this partition of it.
  filter.partition = Key("b", "29", "10");
  EXPECT_THAT(Listed(OuriosLayout(), filter), ElementsAre(filter.partition, "data/"));
  EXPECT_EQ(from_far_.series_found, 1);
  EXPECT_THAT(from_far_.partitions, IsEmpty());
  // A series that the filter leaves out is not listed for its partitions.
  filter = {};
  filter.partition = Key("a", "28", "10");
  EXPECT_THAT(Listed(OuriosLayout(), filter), ElementsAre(filter.partition, "audit/"));
}

TEST_F(HiveWalkFar, WalksWhereMostObjectsAreOfNoUse) {
  for (int i = 0; i < 30'000; ++i) Put("data/_backup/" + std::to_string(i));
  Put(Key("a", "28", "07") + "x.parquet");
  PartitionFilter filter;
  filter.series = "data";
  // 17 pages of nothing, then a listing per directory: data, tenant, year, month, day.
  EXPECT_EQ(Listed(OuriosLayout(), filter).size(), 17u + 5u);
  EXPECT_EQ(from_far_.series_found, 1);
  EXPECT_EQ(from_far_.partitions.size(), 1u);
  EXPECT_EQ(Show(from_far_), Show(Find(filter)));
}

TEST_F(HiveWalkFar, OldBucketsAreNoReasonToGoOn) {
  // 31,000 objects of one month in 31 directories of days, of which the filter wants one.
  for (int day = 1; day <= 31; ++day) {
    const std::string date = (day < 10 ? "0" : "") + std::to_string(day);
    for (int file = 0; file < 1000; ++file) {
      Put("data/tenant_id=a/year=2026/month=10/day=" + date + "/hour=07/" + std::to_string(file));
    }
  }
  PartitionFilter filter;
  filter.series = "data";
  EXPECT_EQ(Listed(OuriosLayout(), filter).size(), 31u);
  filter.since = At("2026-10-31");
  // 16 pages, and one for each directory that was to be entered: tenant, year, month; one more
  // shows that they are too many. Then data, tenant, year, month, day.
  EXPECT_EQ(Listed(OuriosLayout(), filter).size(), 16u + 3u + 1u + 5u);
  EXPECT_EQ(Show(from_far_), Show(Find(filter)));
  EXPECT_EQ(from_far_.partitions.size(), 1u);
}

TEST_F(HiveWalkFar, R240AListingOfAllThatFailsIsNotTheEnd) {
  Put(Key("a", "28", "07") + "x.parquet");
  Put(Key("b", "29", "07") + "x.parquet");
  Put("audit/tenant_id=a/year=2026/month=11/day=29/x.parquet");
  int times = 1;
  std::vector<std::string> listed;
  storage::FaultyStore faulty(
      far_, [&](std::string_view op, const std::string& key, bool before) -> Status {
        if (op != "List" || !before) return {};
        listed.push_back(key);
        if (key == "data/" && times-- > 0) return Fail(Code::kDenied, "no permission");
        return {};
      });
  const auto found = FindPartitions(faulty, OuriosLayout(), {}, cancel_).value();
  EXPECT_EQ(Show(found), Show(Find()));
  EXPECT_EQ(std::ranges::count(listed, "data/"), 2);
  EXPECT_EQ(listed.back(), "audit/");
  // The top, and nothing below it.
  times = 2;
  const auto failed = FindPartitions(faulty, OuriosLayout(), {}, cancel_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kDenied);
  EXPECT_THAT(failed.error().context, HasSubstr("series data"));

  cancel_.Request();
  const auto stopped = FindPartitions(far_, OuriosLayout(), {}, cancel_);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
}

// Any tree, good and bad, and any filter: a listing of all gives what the walk gives.
TEST_F(HiveWalkFar, BothWaysGiveTheSame) {
  SeriesLayout top;
  top.name = "top";
  top.columns = {{"region", ColumnRole::kOther}, {"tenant_id", ColumnRole::kTenant}};
  SeriesLayout deep = top;
  deep.name = "deep";
  deep.prefix = "data/er";
  std::vector<std::vector<SeriesLayout>> layouts = {OuriosLayout(), {top, deep}};
  const std::vector<std::vector<std::string>> segments = {
      {"data", "data", "data", "audit", "region=eu", "other", "data/er", "_x"},
      {"tenant_id=a", "tenant_id=a", "tenant_id=ab", "tenant_id=a%2Fb", "tenant_id=%61", "tenant=a",
       "region=us", ".x", "tenant_id=", "er"},
      {"year=2026", "year=2026", "year=2025", "year=26", "tenant_id=a", "tenant_id=a%2Fb"},
      {"month=11", "month=11", "month=02", "month=13", "_temporary"},
      {"day=28", "day=29", "day=30", "day=1"},
      {"hour=07", "hour=08", "hour=7", "nested"},
      {"hour=07", "more"}};
  std::mt19937_64 random(20261130);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto any_path = [&](size_t levels) {
    std::string path;
    for (size_t level = 0; level < levels; ++level) {
      path += segments[level][below(segments[level].size())] + "/";
    }
    return path;
  };
  size_t partitions = 0;
  size_t skipped = 0;
  for (int tree = 0; tree < 60; ++tree) {
    storage::MemoryStore store(clock_);
    for (size_t i = below(150); i > 0; --i) {
      // May fail: where a directory is a file of that name cannot be.
      (void)store.PutNew(any_path(below(2) == 0 ? 6 : below(8)) + "x" + std::to_string(below(3)),
                         "x");
    }
    storage::CountingStore far(store, std::chrono::microseconds(0));
    for (int i = 0; i < 40; ++i) {
      const auto& series = layouts[below(layouts.size())];
      PartitionFilter filter;
      if (below(4) == 0) filter.series = series[below(series.size())].name;
      if (below(2) == 0) filter.partition = any_path(below(8));
      if (below(8) == 0) filter.partition = "data/ten";
      if (below(16) == 0) filter.partition = "data//x";
      if (below(3) == 0) filter.tenant = below(2) == 0 ? "a" : "a/b";
      if (below(3) == 0) filter.since = At(below(2) == 0 ? "2026-11-29" : "2026-02-28T08");
      if (below(2) == 0 && filter.partition.ends_with('/')) filter.partition.pop_back();
      const auto near = FindPartitions(store, series, filter, cancel_).value();
      const auto all = FindPartitions(far, series, filter, cancel_).value();
      ASSERT_EQ(Show(all), Show(near)) << tree << " " << filter.partition << " " << filter.tenant;
      partitions += near.partitions.size();
      skipped += near.skipped.size();
    }
  }
  EXPECT_GT(partitions, 1000u);
  EXPECT_GT(skipped, 1000u);
}

}  // namespace
}  // namespace lithify::table
