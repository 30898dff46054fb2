#include "base/hive.h"

#include <gtest/gtest.h>

#include <string>

#include "base/guard.h"

namespace lithify {
namespace {

using std::string_literals::operator""s;

TEST(HiveNames, R214AcceptsBareParquetNames) {
  for (const std::string& name : {"0193a1b2-0000-7000-8000-000000000000.parquet"s, "a.parquet"s,
                                  "part-0.c000.parquet"s, "x..parquet"s, "a b.parquet"s,
                                  "z\xC3\xBCrich.parquet"s, std::string(247, 'x') + ".parquet"}) {
    EXPECT_TRUE(IsLiveFileName(name)) << name;
  }
}

TEST(HiveNames, R214RefusesEverythingElse) {
  for (const std::string& name : {""s,
                                  ".parquet"s,
                                  "a.PARQUET"s,
                                  "a.parquet.tmp"s,
                                  "a.parquet "s,
                                  "a"s,
                                  "manifest.json"s,
                                  "_a.parquet"s,
                                  ".a.parquet"s,
                                  "../a.parquet"s,
                                  "..parquet"s,
                                  "x/a.parquet"s,
                                  "/etc/a.parquet"s,
                                  "..\\a.parquet"s,
                                  "a\0.parquet"s,
                                  "a.parquet\0"s,
                                  "a\n.parquet"s,
                                  "a\x7f.parquet"s,
                                  "a\xff.parquet"s,
                                  "a\xed\xa0\x80.parquet"s,
                                  std::string(248, 'x') + ".parquet",
                                  std::string(1 << 20, 'x') + ".parquet"}) {
    EXPECT_FALSE(IsLiveFileName(name)) << name.substr(0, 80);
  }
}

TEST(HiveNames, Utf8IsWellFormed) {
  for (const std::string& text :
       {""s, "plain"s, "\0"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s, "\xED\x9F\xBF"s,
        "\xEE\x80\x80"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const std::string& text :
       {"\x80"s, "\xC0\x80"s, "\xC1\xBF"s, "\xC3"s, "\xC3("s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s,
        "\xE2\x82"s, "\xE2\x82("s, "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s,
        "\xF0\x9F\x98"s, "ok\xFF"s}) {
    EXPECT_FALSE(IsUtf8(text));
  }
}

TEST(Guards, AreAllWholeUnlessABuildBreaksOne) {
  int broken = 0;
  for (const bool whole : {guard::kBootstrap, guard::kReread, guard::kGrace, guard::kFence,
                           guard::kMarkCheck, guard::kCompareAndSwap}) {
    broken += whole ? 0 : 1;
  }
  EXPECT_EQ(broken, 0);
}

}  // namespace
}  // namespace lithify
