#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace lithify {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(FormatBytes, ShowsOneDecimalAndNever1024OfAUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1), "1 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1434), "1.4 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(128 * kMiB), "128.0 MiB");
  EXPECT_EQ(FormatBytes(kMiB - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(kGiB - 1), "1.0 GiB");
  EXPECT_EQ(FormatBytes(kMiB - 60), "1023.9 KiB");
  EXPECT_EQ(FormatBytes(5 * 1024 * kGiB), "5.0 TiB");
  EXPECT_EQ(FormatBytes(kMax), "8.0 EiB");
  EXPECT_EQ(FormatBytes(kMin), "-8.0 EiB");
  EXPECT_EQ(FormatBytes(-1536), "-1.5 KiB");
}

TEST(ParseBytes, AcceptsBinaryUnits) {
  const auto value = [](std::string_view text) { return ParseBytes(text).value_or(-1); };
  EXPECT_EQ(value("0"), 0);
  EXPECT_EQ(value("4096"), 4096);
  EXPECT_EQ(value("12 B"), 12);
  EXPECT_EQ(value("64KiB"), 65536);
  EXPECT_EQ(value("64K"), 65536);
  EXPECT_EQ(value("64k"), 65536);
  EXPECT_EQ(value("128 MiB"), 134217728);
  EXPECT_EQ(value("1GiB"), 1073741824);
  EXPECT_EQ(value("1.5GiB"), 1610612736);
  EXPECT_EQ(value("2T"), 2199023255552);
  EXPECT_EQ(value("0.000001K"), 0);  // Rounded down.
  EXPECT_EQ(value("9223372036854775807"), kMax);
  EXPECT_EQ(value("8388607.999999T"), 9223372036853676296);
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "-1",
                           "+1",
                           " 1",
                           "1 ",
                           "1.",
                           ".5",
                           "1.5",
                           "1.5B",
                           "1KB",
                           "1 kb",
                           "1Ki",
                           "1.1234567M",
                           "1,000",
                           "1e3",
                           "0x10",
                           "1GiB x",
                           "1PiB",
                           "9223372036854775808",
                           "8388608T",
                           "99999999999999999999"}) {
    const auto parsed = ParseBytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid) << text;
  }
  EXPECT_EQ(ParseBytes("1KB").error().ToString(),
            "invalid: '1KB' is no size: unknown unit 'KB' (next: write it like 4096, 64KiB or "
            "1.5GiB)");
}

TEST(FormatDuration, PicksTheUnitAfterRounding) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  using std::chrono::minutes;
  using std::chrono::seconds;
  EXPECT_EQ(FormatDuration(Duration(0)), "0 ms");
  EXPECT_EQ(FormatDuration(Duration(499)), "0 ms");
  EXPECT_EQ(FormatDuration(milliseconds(850)), "850 ms");
  EXPECT_EQ(FormatDuration(Duration(999'499)), "999 ms");
  EXPECT_EQ(FormatDuration(Duration(999'500)), "1.0 s");
  EXPECT_EQ(FormatDuration(milliseconds(12'300)), "12.3 s");
  EXPECT_EQ(FormatDuration(milliseconds(59'949)), "59.9 s");
  EXPECT_EQ(FormatDuration(milliseconds(59'950)), "1 min 00 s");
  EXPECT_EQ(FormatDuration(minutes(4) + seconds(5)), "4 min 05 s");
  EXPECT_EQ(FormatDuration(minutes(59) + milliseconds(59'500)), "1 h 00 min");
  EXPECT_EQ(FormatDuration(hours(3) + minutes(10)), "3 h 10 min");
  EXPECT_EQ(FormatDuration(-milliseconds(12'300)), "-12.3 s");
  EXPECT_EQ(FormatDuration(Duration(kMin)), "-2562047788 h 01 min");
}

TEST(ParseDuration, AcceptsEveryUnit) {
  const auto micros = [](std::string_view text) {
    const auto parsed = ParseDuration(text);
    return parsed ? parsed->count() : -1;
  };
  EXPECT_EQ(micros("90s"), 90'000'000);
  EXPECT_EQ(micros("90"), 90'000'000);
  EXPECT_EQ(micros("0.5"), 500'000);
  EXPECT_EQ(micros("15min"), 900'000'000);
  EXPECT_EQ(micros("15m"), 900'000'000);
  EXPECT_EQ(micros("15 min"), 900'000'000);
  EXPECT_EQ(micros("1h"), 3'600'000'000);
  EXPECT_EQ(micros("1.5h"), 5'400'000'000);
  EXPECT_EQ(micros("2d"), 172'800'000'000);
  EXPECT_EQ(micros("500ms"), 500'000);
  for (const char* text : {"", "s", "-1s", "1y", "1w", "1h30m", "106751992d", "1us"}) {
    const auto parsed = ParseDuration(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid) << text;
  }
}

TEST(FormatTime, ShowsMicroseconds) {
  EXPECT_EQ(FormatTime(Time{}), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(FormatTime(Time(Duration(1'795'969'200'123'456))), "2026-11-29T16:20:00.123456Z");
  EXPECT_EQ(FormatTime(Time(Duration(-1))), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(FormatTime(Time(Duration(951'782'400'000'000))), "2000-02-29T00:00:00.000000Z");
  EXPECT_EQ(FormatTime(Time(Duration(kMax))), "294247-01-10T04:00:54.775807Z");
  EXPECT_EQ(FormatTime(Time(Duration(kMin))), "-290308-12-21T19:59:05.224192Z");
}

TEST(ParseTime, AcceptsUtcFromDaysToMicroseconds) {
  const auto shown = [](std::string_view text) {
    const auto parsed = ParseTime(text);
    return parsed ? FormatTime(*parsed) : parsed.error().ToString();
  };
  EXPECT_EQ(shown("2026-11-29"), "2026-11-29T00:00:00.000000Z");
  EXPECT_EQ(shown("2026-11-29T16"), "2026-11-29T16:00:00.000000Z");
  EXPECT_EQ(shown("2026-11-29T16:20"), "2026-11-29T16:20:00.000000Z");
  EXPECT_EQ(shown("2026-11-29T16:20:07Z"), "2026-11-29T16:20:07.000000Z");
  EXPECT_EQ(shown("2026-11-29T16:20:07.5Z"), "2026-11-29T16:20:07.500000Z");
  EXPECT_EQ(shown("2026-11-29T16:20:07.123456Z"), "2026-11-29T16:20:07.123456Z");
  EXPECT_EQ(shown("2024-02-29"), "2024-02-29T00:00:00.000000Z");
  EXPECT_EQ(shown("0001-01-01"), "0001-01-01T00:00:00.000000Z");
}

TEST(ParseTime, RefusesImpossibleOrOtherText) {
  for (const char* text :
       {"", "2026", "2026-11", "2026-13-01", "2026-00-01", "2026-02-29", "2026-04-31", "2026-1-1",
        "2026-11-29Z", "2026-11-29T", "2026-11-29T24", "2026-11-29T16:60", "2026-11-29T16:20:60Z",
        "2026-11-29T16:20:07.Z", "2026-11-29T16:20:07.1234567Z", "2026-11-29 16:20",
        "2026-11-29T16:20:07+01:00", "2026-11-29T16:20:07Zx", "-026-11-29"}) {
    const auto parsed = ParseTime(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid) << text;
  }
}

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
  EXPECT_EQ(FormatCount(-123'456), "-123,456");
  EXPECT_EQ(FormatCount(kMin), "-9,223,372,036,854,775,808");
}

TEST(JsonQuote, EscapesAndRepairs) {
  EXPECT_EQ(JsonQuote(""), "\"\"");
  EXPECT_EQ(JsonQuote("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
  EXPECT_EQ(JsonQuote("\n\t\r\b"), "\"\\n\\t\\r\\u0008\"");
  EXPECT_EQ(JsonQuote(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
  EXPECT_EQ(JsonQuote("é€😀"), "\"é€😀\"");
  EXPECT_EQ(JsonQuote("\xff"
                      "a"),
            "\"\uFFFDa\"");
  EXPECT_EQ(JsonQuote("\xc0\xaf"), "\"\uFFFD\uFFFD\"");            // Overlong '/'.
  EXPECT_EQ(JsonQuote("\xed\xa0\x80"), "\"\uFFFD\uFFFD\uFFFD\"");  // A surrogate.
  EXPECT_EQ(JsonQuote("\xf4\x90\x80\x80"), "\"\uFFFD\uFFFD\uFFFD\uFFFD\"");
  EXPECT_EQ(JsonQuote("\xe2\x82"), "\"\uFFFD\uFFFD\"");  // Cut short.
}

TEST(Nearest, FindsASlipAndNothingFar) {
  const std::vector<std::string_view> names = {"table", "older_than", "retain_last"};
  EXPECT_EQ(Nearest("tabel", names), "table");
  EXPECT_EQ(Nearest("olderthan", names), "older_than");
  EXPECT_EQ(Nearest("retain_lost", names), "retain_last");
  EXPECT_EQ(Nearest("snapshot", names), "");
  EXPECT_EQ(Nearest("", {}), "");
  const std::vector<std::string> long_names = {std::string(256, 'x'), std::string(257, 'x')};
  const std::vector<std::string_view> views(long_names.begin(), long_names.end());
  EXPECT_EQ(Nearest(long_names[0], views), long_names[0]);
  EXPECT_EQ(Nearest(long_names[1], views), "") << "the cost is bounded";
}

TEST(Utf8Length, IsZeroForWhatIsNone) {
  EXPECT_EQ(Utf8Length("a"), 1U);
  EXPECT_EQ(Utf8Length("\u00e9"), 2U);
  EXPECT_EQ(Utf8Length("\u20acx"), 3U);
  EXPECT_EQ(Utf8Length("\U0001F600"), 4U);
  EXPECT_EQ(Utf8Length("\x80"), 0U);
  EXPECT_EQ(Utf8Length("\xed\xa0\x80"), 0U);
  EXPECT_EQ(Utf8Length("\xe2\x82"), 0U);
}

}  // namespace
}  // namespace lithify
