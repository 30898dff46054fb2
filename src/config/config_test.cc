#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/order_text.h"
#include "config/spill.h"
#include "table/hive_layout.h"

namespace lithify::config {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Environment = std::vector<std::pair<std::string, std::string>>;

Result<HiveConfig> Load(std::string_view toml, const Environment& environment = {},
                        const std::vector<Override>& flags = {}) {
  return LoadHiveConfig(toml, "lithify.toml", environment, flags);
}

HiveConfig Good(std::string_view toml, const Environment& environment = {},
                const std::vector<Override>& flags = {}) {
  auto config = Load(toml, environment, flags);
  EXPECT_TRUE(config) << config.error().ToString();
  return config ? *config : HiveConfig{};
}

std::string Problem(std::string_view toml, const Environment& environment = {},
                    const std::vector<Override>& flags = {}) {
  const auto config = Load(toml, environment, flags);
  EXPECT_FALSE(config);
  if (config) return {};
  EXPECT_EQ(config.error().code, Code::kInvalid);
  return config.error().message;
}

constexpr std::string_view kFlights = R"([layout]
preset = "none"
[[series]]
name = "flights"
partition_columns = ["carrier", "year", "month", "day", "hour"]
tenant = "carrier"
check_tenant_column = "carrier_code"
check_time_columns = ["time_hour"]
)";

TEST(Config, EmptyFileGivesTheDefaultsOfTheOuriosPreset) {
  const HiveConfig c = Good("");
  EXPECT_EQ(c.preset, "ourios");
  EXPECT_EQ(c.series, table::OuriosLayout());
  EXPECT_EQ(c.audit_series, "audit");
  EXPECT_EQ(c.interval, seconds(300));
  EXPECT_EQ(c.options.grace, minutes(15));
  EXPECT_EQ(c.options.min_files, 4);
  EXPECT_EQ(c.options.max_input_files, 10'000);
  EXPECT_EQ(c.options.max_input_bytes, 100 * kGiB);
  EXPECT_EQ(c.claim_ttl, minutes(15));
  EXPECT_EQ(c.options.small_file_bytes, 128 * kMiB);
  EXPECT_EQ(c.options.target_file_bytes, 512 * kMiB);
  EXPECT_EQ(c.options.file_bytes_min, 256 * kMiB);
  EXPECT_EQ(c.options.file_bytes_max, 2 * kGiB);
  EXPECT_EQ(c.options.gc_grace, hours(1));
  EXPECT_EQ(c.options.retention, Duration::zero());
  EXPECT_EQ(c.verify, rewrite::Verify::kSample);
  EXPECT_EQ(c.shape.codec, "zstd");
  EXPECT_EQ(c.shape.codec_level, 3);
  EXPECT_EQ(c.shape.row_group_bytes, 128 * kMiB);
  EXPECT_EQ(c.shape.row_group_rows, 327'680);
  EXPECT_EQ(c.shape.page_bytes, kMiB);
  EXPECT_EQ(c.shape.file_size_bytes_max, 2 * kGiB);
  EXPECT_EQ(c.shape.growth_max, 1.25);
  EXPECT_TRUE(c.shape.splice);
  EXPECT_THAT(c.shape.plain_columns, ElementsAre("body"));
  EXPECT_THAT(c.shape.bloom_columns, ElementsAre("template_id", "trace_id", "span_id"));
  EXPECT_EQ(c.jobs, 0);
  EXPECT_EQ(c.partitions_at_once, 0);
  EXPECT_EQ(c.memory_bytes, kGiB);
  EXPECT_EQ(c.io_limit_bytes_per_second, 0);
  EXPECT_TRUE(c.direct_io);
  EXPECT_TRUE(c.low_priority);
  EXPECT_EQ(c.audit_log.path, "");
}

TEST(Config, R201AnyLayoutIsConfiguration) {
  const HiveConfig c = Good(kFlights);
  EXPECT_EQ(c.audit_series, "");
  EXPECT_TRUE(c.shape.plain_columns.empty());
  EXPECT_TRUE(c.shape.bloom_columns.empty());
  ASSERT_EQ(c.series.size(), 1U);
  const SeriesLayout& s = c.series[0];
  EXPECT_EQ(s.name, "flights");
  EXPECT_EQ(s.prefix, "flights");
  EXPECT_THAT(s.columns, ElementsAre(PartitionColumn{"carrier", ColumnRole::kTenant},
                                     PartitionColumn{"year", ColumnRole::kYear},
                                     PartitionColumn{"month", ColumnRole::kMonth},
                                     PartitionColumn{"day", ColumnRole::kDay},
                                     PartitionColumn{"hour", ColumnRole::kHour}));
  EXPECT_EQ(s.tenant_row_column, "carrier_code");
  EXPECT_THAT(s.time_row_columns, ElementsAre("time_hour"));
}

TEST(Config, RolesByNameByMappingAndNotAtAll) {
  const HiveConfig c = Good(R"([layout]
preset = "none"
[[series]]
name = "a"
prefix = ""
partition_columns = ["tenant_id", "y", "month", "region"]
year = "y"
tenant = ""
[[series]]
name = "b"
prefix = "x/y"
partition_columns = ["dt"]
date = "dt"
)");
  ASSERT_EQ(c.series.size(), 2U);
  EXPECT_EQ(c.series[0].prefix, "");
  EXPECT_THAT(c.series[0].columns, ElementsAre(PartitionColumn{"tenant_id", ColumnRole::kOther},
                                               PartitionColumn{"y", ColumnRole::kYear},
                                               PartitionColumn{"month", ColumnRole::kMonth},
                                               PartitionColumn{"region", ColumnRole::kOther}));
  EXPECT_EQ(c.series[1].prefix, "x/y");
  EXPECT_THAT(c.series[1].columns, ElementsAre(PartitionColumn{"dt", ColumnRole::kDate}));
}

TEST(Config, SeriesOfThePresetAreReplacedByNameAndOthersAdded) {
  const HiveConfig c = Good(R"([[series]]
name = "data"
prefix = "logs"
partition_columns = ["tenant_id", "year"]
[[series]]
name = "extra"
partition_columns = ["year"]
)");
  ASSERT_EQ(c.series.size(), 3U);
  EXPECT_EQ(c.series[0].prefix, "logs");
  EXPECT_EQ(c.series[1].name, "audit");
  EXPECT_EQ(c.series[2].name, "extra");
}

TEST(Config, SizesAndDurationsAsNumbersOrText) {
  const HiveConfig c = Good(R"([compaction]
interval = 60
grace = "2h"
gc_grace = "90min"
retention = "30d"
small_file_bytes = 1048576
target_file_bytes = "1GiB"
verify = "full"
[output]
growth_max = 2
[limits]
memory = "256 MiB"
direct_io = false
low_priority = false
)");
  EXPECT_EQ(c.interval, seconds(60));
  EXPECT_EQ(c.options.grace, hours(2));
  EXPECT_EQ(c.options.gc_grace, minutes(90));
  EXPECT_EQ(c.options.retention, hours(720));
  EXPECT_EQ(c.options.small_file_bytes, kMiB);
  EXPECT_EQ(c.options.target_file_bytes, kGiB);
  EXPECT_EQ(c.verify, rewrite::Verify::kFull);
  EXPECT_EQ(c.shape.growth_max, 2.0);
  EXPECT_EQ(c.memory_bytes, 256 * kMiB);
  EXPECT_FALSE(c.direct_io);
  EXPECT_FALSE(c.low_priority);
}

TEST(Config, R044FlagsAboveEnvironmentAboveFileAboveDefaults) {
  const std::string_view file = "[limits]\njobs = 2\nmemory = \"512MiB\"\nlow_priority = true\n";
  EXPECT_EQ(Good(file).jobs, 2);
  const Environment environment = {{"LITHIFY_LIMITS__JOBS", "3"},
                                   {"LITHIFY_LIMITS__LOW_PRIORITY", "no"},
                                   {"LITHIFY_AUDIT_LOG__PATH", "/var/log/l.jsonl"},
                                   {"LITHIFY_OUTPUT__PLAIN_COLUMNS", "a,b"},
                                   {"LITHIFY_CACHE", "/tmp"},
                                   {"HOME", "/root"}};
  const HiveConfig c = Good(file, environment, {{"limits.jobs", "4", "--jobs"}});
  EXPECT_EQ(Good(file, environment).jobs, 3);
  EXPECT_EQ(c.jobs, 4);
  EXPECT_EQ(c.memory_bytes, 512 * kMiB);
  EXPECT_FALSE(c.low_priority);
  EXPECT_EQ(c.audit_log.path, "/var/log/l.jsonl");
  EXPECT_THAT(c.shape.plain_columns, ElementsAre("a", "b"));
}

TEST(Config, AnExplicitEmptyListOverridesThePreset) {
  EXPECT_TRUE(Good("[output]\nbloom_columns = []\n").shape.bloom_columns.empty());
  EXPECT_TRUE(Good("", {{"LITHIFY_OUTPUT__BLOOM_COLUMNS", ""}}).shape.bloom_columns.empty());
}

TEST(Config, R034VariablesInTheFileAreReplaced) {
  const Environment environment = {{"WHERE", "/data"}};
  EXPECT_EQ(Good("[audit_log]\npath = \"${WHERE}/a.jsonl\"\n", environment).audit_log.path,
            "/data/a.jsonl");
  EXPECT_EQ(Good("[audit_log]\npath = \"$${WHERE}\"\n", environment).audit_log.path, "${WHERE}");
  EXPECT_THAT(Problem("[audit_log]\npath = \"${NOWHERE}\"\n", environment),
              HasSubstr("lithify.toml:2: audit_log.path: the environment variable NOWHERE is not "
                        "set"));
}

TEST(Config, R048UnknownKeysNameTheNearest) {
  EXPECT_THAT(Problem("[compaction]\nmin_filez = 3\n"),
              HasSubstr("lithify.toml:2: compaction.min_filez: unknown key; did you mean "
                        "\"compaction.min_files\"?"));
  EXPECT_THAT(Problem("[compactoin]\nmin_files = 3\n"),
              HasSubstr("lithify.toml:1: compactoin: unknown section; did you mean "
                        "\"compaction\"?"));
  EXPECT_THAT(Problem("[compaction]\nqqqqqqqqq = 3\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(Problem("[zzzzzzz]\n"), HasSubstr("zzzzzzz: unknown section"));
  EXPECT_THAT(Problem("[compaction]\njobs = 3\n"), HasSubstr("did you mean \"limits.jobs\"?"));
  EXPECT_THAT(Problem("", {{"LITHIFY_LIMITS__JOB", "3"}}),
              HasSubstr("LITHIFY_LIMITS__JOB: limits.job: unknown key; did you mean "
                        "\"limits.jobs\"?"));
  EXPECT_THAT(Problem("", {}, {{"limits.mem", "3", "--set"}}),
              HasSubstr("--set: limits.mem: unknown key"));
  EXPECT_THAT(Problem(std::string(kFlights) + "tenat = \"x\"\n"),
              HasSubstr("lithify.toml:9: series.tenat: unknown key; did you mean \"tenant\"?"));
}

TEST(Config, R048ValuesOutOfRangeNameTheRange) {
  EXPECT_THAT(Problem("[compaction]\nmin_files = 0\n"),
              HasSubstr("lithify.toml:2: compaction.min_files: 0 is not allowed; it must be a "
                        "whole number from 1 to 1,000,000"));
  EXPECT_THAT(Problem("[compaction]\nmin_files = \"8\"\n"), HasSubstr("\"8\" is not allowed"));
  EXPECT_THAT(Problem("[compaction]\ngc_grace = 0\n"),
              HasSubstr("compaction.gc_grace: 0 is not allowed; it must be a duration from 1min "
                        "to 365d"));
  EXPECT_THAT(Problem("[compaction]\nmax_input_files = 1\n"), HasSubstr("from 2 to 1,000,000"));
  EXPECT_THAT(Problem("[compaction]\nclaim_ttl = \"25h\"\n"),
              HasSubstr("a duration from 1s to 1d, or 0 for none"));
  EXPECT_EQ(Good("[compaction]\nclaim_ttl = 0\n").claim_ttl, seconds(0));
  EXPECT_THAT(Problem("[compaction]\ngc_grace = -5\n"), HasSubstr("-5 is not allowed"));
  EXPECT_THAT(Problem("[limits]\nmemory = \"255MiB\"\n"),
              HasSubstr("it must be a size from 256MiB to 16TiB"));
  EXPECT_THAT(Problem("[limits]\nio_limit = 1\n"), HasSubstr("or 0 for none"));
  EXPECT_THAT(Problem("[output]\ncodec = \"lzo\"\n"),
              HasSubstr("one of \"zstd\", \"snappy\", \"lz4_raw\", \"gzip\", \"none\""));
  EXPECT_THAT(Problem("[output]\ngrowth_max = 0.5\n"), HasSubstr("from 1.0 to 100.0"));
  EXPECT_THAT(Problem("[output]\ngrowth_max = nan\n"), HasSubstr("from 1.0 to 100.0"));
  EXPECT_THAT(Problem("[output]\nplain_columns = [\"a\", \"a\"]\n"), HasSubstr("repeated"));
  EXPECT_THAT(Problem("[output]\nplain_columns = [1]\n"), HasSubstr("only texts"));
  EXPECT_THAT(Problem("[output]\nplain_columns = \"a,b\"\n"), HasSubstr("a list of texts"));
  EXPECT_THAT(Problem("[limits]\nlow_priority = 1\n"), HasSubstr("true or false"));
  EXPECT_THAT(Problem("[output]\nsplice = \"no\"\n"), HasSubstr("output.splice"));
  EXPECT_FALSE(Good("[output]\nsplice = false\n").shape.splice);
  EXPECT_THAT(Problem("[layout]\npreset = \"x\"\n"), HasSubstr("\"ourios\", \"none\""));
  EXPECT_THAT(Problem("[compaction]\nverify = 3\n"), HasSubstr("\"counts\", \"sample\", \"full\""));
  EXPECT_THAT(Problem("[compaction]\ngrace = 1979-05-27\n"), HasSubstr("not allowed here"));
  EXPECT_THAT(Problem("limits = 3\n"), HasSubstr("must be a table: [limits]"));
}

TEST(Config, ValuesThatDoNotFitTogether) {
  EXPECT_THAT(Problem("[compaction]\ntarget_file_bytes = \"64MiB\"\n"),
              HasSubstr("lithify.toml: compaction.file_bytes_min: is 256.0 MiB, but must be at "
                        "most compaction.target_file_bytes, which is 64.0 MiB"));
  EXPECT_THAT(Problem("[compaction]\nsmall_file_bytes = \"300MiB\"\n"),
              HasSubstr("at most compaction.file_bytes_min"));
  EXPECT_THAT(Problem("[compaction]\ntarget_file_bytes = \"3GiB\"\n"),
              HasSubstr("at most compaction.file_bytes_max"));
  EXPECT_THAT(Problem("[compaction]\nmax_input_bytes = \"1GiB\"\n"),
              HasSubstr("compaction.file_bytes_max: is 2.0 GiB, but must be at most "
                        "compaction.max_input_bytes, which is 1.0 GiB"));
  EXPECT_THAT(Problem("[output]\nrow_group_bytes = \"64KiB\"\n"),
              HasSubstr("output.page_bytes: is 1.0 MiB"));
  EXPECT_THAT(Problem("[limits]\njobs = 2\npartitions_at_once = 3\n"),
              HasSubstr("at most limits.jobs, which is 2"));
  EXPECT_THAT(Problem("[output]\ncodec = \"gzip\"\ncodec_level = 12\n"), HasSubstr("1 to 9"));
  EXPECT_THAT(Problem("[layout]\npreset = \"none\"\n"), HasSubstr("at least one [[series]]"));
  EXPECT_THAT(Problem("[compaction]\naudit_series = \"x\"\n"),
              HasSubstr("\"x\" is not the name of a series"));
  EXPECT_THAT(Problem(std::string(kFlights) +
                      "[[series]]\nname=\"b\"\nprefix=\"flights\"\npartition_columns=[\"y\"]\n"),
              HasSubstr("\"flights\" is the prefix of both \"flights\" and \"b\""));
  EXPECT_THAT(Problem("[compaction]\naudit_series = \"s\"\n[[series]]\nname=\"s\"\n"
                      "partition_columns=[\"year\"]\n"),
              HasSubstr("must have a tenant and a day"));
}

// R232.
TEST(Config, OrderOfRows) {
  EXPECT_EQ(SortOrderOf(Good("")), std::nullopt);
  const HiveConfig c = Good("[output]\nsort = [\"service\", \"time_unix_nano DESC\"]\n");
  EXPECT_EQ(RowOrderText(*SortOrderOf(c)), "service, time_unix_nano DESC");
  EXPECT_EQ(RowOrderText(*SortOrderOf(Good("[output]\nsort = [\"zorder(a, b)\"]\n"))),
            "zorder(a, b)");
  EXPECT_THAT(Problem("[output]\nsort = [\"service\", \"time up\"]\n"),
              HasSubstr("output.sort: \"time up\": unexpected \"up\" at character 6"));
  EXPECT_THAT(Problem("[output]\nsort = [\"a DESC\", \"a ASC\"]\n"), HasSubstr("given twice"));
  EXPECT_THAT(Problem("[output]\nsort = [\"zorder(a)\", \"b\"]\n"),
              HasSubstr("a curve stands alone"));
}

TEST(Config, WhereToSpill) {
  const HiveConfig c = Good("[limits]\nspill_directory = \"/fast/spill\"\nspill = \"100GiB\"\n");
  EXPECT_EQ(SpillDirectoryOf(c.spill_directory), "/fast/spill");
  EXPECT_EQ(c.spill_bytes_max, 100 * kGiB);
  EXPECT_EQ(Good("").spill_bytes_max, 0);
  // Of this user alone, below the system's directory for such files.
  EXPECT_THAT(SpillDirectoryOf(""), testing::EndsWith("/lithify-" + std::to_string(geteuid())));
  EXPECT_THAT(Problem("[limits]\nspill = \"1KiB\"\n"), HasSubstr("limits.spill"));
}

TEST(Config, SeriesProblems) {
  const auto series = [](std::string_view body) {
    return Problem("[layout]\npreset = \"none\"\n[[series]]\n" + std::string(body));
  };
  EXPECT_THAT(series("partition_columns = [\"a\"]\n"), HasSubstr("series.name: \"\""));
  EXPECT_THAT(series("name = \"a b\"\npartition_columns = [\"a\"]\n"), HasSubstr("series.name"));
  EXPECT_THAT(series("name = \"a\"\n"), HasSubstr("series.partition_columns: is required"));
  for (const std::string prefix : {"/a", "a/", "a//b", "../a", "a/./b", "_lithify"}) {
    EXPECT_THAT(series("name = \"a\"\npartition_columns = [\"a\"]\nprefix = \"" + prefix + "\"\n"),
                HasSubstr("series.prefix"));
  }
  EXPECT_THAT(series("name = \"a\"\npartition_columns = [\"a\"]\ntenant = \"b\"\n"),
              HasSubstr("\"b\" is not one of the partition_columns"));
  EXPECT_THAT(series("name = \"a\"\npartition_columns = [\"a\"]\ntenant = \"a\"\nyear = \"a\"\n"),
              HasSubstr("\"a\" stands for something else already"));
  // An hour without a day: table::CheckLayout says so.
  EXPECT_THAT(series("name = \"a\"\npartition_columns = [\"hour\"]\n"),
              HasSubstr("lithify.toml:3: series \"a\": "));
  EXPECT_THAT(Problem("series = 3\n"), HasSubstr("[[series]]"));
  EXPECT_THAT(Problem(std::string(kFlights) + std::string(kFlights).substr(25)),
              HasSubstr("is used by another [[series]] already"));
}

TEST(Config, R043AllProblemsAreReportedTogether) {
  const std::string message =
      Problem("[compaction]\nmin_filez = 3\nmin_files = 0\n[limits]\nx=1\n",
              {{"LITHIFY_LIMITS__MEMORY", "lots"}}, {{"limits.jobs", "-1", "--jobs"}});
  EXPECT_THAT(message, HasSubstr("the configuration has 5 problems:\n  lithify.toml:"));
  EXPECT_THAT(message, HasSubstr("compaction.min_filez"));
  EXPECT_THAT(message, HasSubstr("compaction.min_files"));
  EXPECT_THAT(message, HasSubstr("limits.x"));
  EXPECT_THAT(message, HasSubstr("LITHIFY_LIMITS__MEMORY: limits.memory: \"lots\""));
  EXPECT_THAT(message, HasSubstr("--jobs: limits.jobs: \"-1\""));
}

TEST(Config, BrokenTomlNamesTheLine) {
  EXPECT_THAT(Problem("[limits]\njobs = = 3\n"), HasSubstr("lithify.toml:2: not valid TOML: "));
}

TEST(Config, AuditLog) {
  const HiveConfig none = Good("");
  EXPECT_EQ(none.audit_log.max_bytes, 0);
  EXPECT_EQ(none.audit_log.signing_key, "");
  EXPECT_EQ(none.audit_log.on_error, "fail");
  const HiveConfig all = Good(
      "[audit_log]\nmax_bytes = \"64MiB\"\nsigning_key = \"/k.pem\"\n"
      "on_error = \"continue\"\n");
  EXPECT_EQ(all.audit_log.max_bytes, 64 * kMiB);
  EXPECT_EQ(all.audit_log.signing_key, "/k.pem");
  EXPECT_EQ(all.audit_log.on_error, "continue");
  EXPECT_THAT(DumpHiveConfig(all),
              HasSubstr("[audit_log]\npath = \"\"\nmax_bytes = \"64MiB\"\nsigning_key = "
                        "\"/k.pem\"\non_error = \"continue\"\n"));
  EXPECT_THAT(Problem("[audit_log]\nmax_bytes = 100\n"),
              HasSubstr("audit_log.max_bytes: 100 is not allowed; it must be a size from 64KiB to "
                        "1TiB, or 0 for none"));
  EXPECT_THAT(Problem("[audit_log]\non_error = \"ignore\"\n"),
              HasSubstr("audit_log.on_error: \"ignore\" is not allowed; it must be one of"));
}

TEST(Config, DumpLoadsBackToTheSame) {
  for (const std::string& toml :
       {std::string(), std::string(kFlights),
        std::string("[compaction]\ninterval = \"1500ms\"\nsmall_file_bytes = 12345\n"
                    "[output]\ngrowth_max = 1.1\nplain_columns = [\"a\\\"b\", \"é\"]\n"
                    "[audit_log]\npath = \"a b\\\\c\"\n[limits]\nio_limit = \"10MiB\"\n"
                    "[[series]]\nname = \"n\"\npartition_columns = [\"tenant_id\", \"year\"]\n"
                    "tenant = \"\"\n")}) {
    const HiveConfig config = Good(toml);
    const std::string dump = DumpHiveConfig(config);
    const HiveConfig back = Good(dump);
    EXPECT_EQ(DumpHiveConfig(back), dump);
    EXPECT_EQ(back.series, config.series);
    EXPECT_EQ(back.interval, config.interval);
    EXPECT_EQ(back.options.small_file_bytes, config.options.small_file_bytes);
    EXPECT_EQ(back.shape.growth_max, config.shape.growth_max);
    EXPECT_EQ(back.shape.plain_columns, config.shape.plain_columns);
    EXPECT_EQ(back.audit_log.path, config.audit_log.path);
    EXPECT_EQ(back.io_limit_bytes_per_second, config.io_limit_bytes_per_second);
  }
}

TEST(Config, DumpShowsEveryKey) {
  const std::string dump = DumpHiveConfig(Good(""));
  EXPECT_THAT(dump, testing::StartsWith("[layout]\npreset = \"ourios\"\n\n[compaction]\n"
                                        "interval = \"5min\"\ngrace = \"15min\"\nmin_files = 4\n"
                                        "small_file_bytes = \"128MiB\"\n"));
  EXPECT_THAT(dump, HasSubstr("retention = \"0s\"\nverify = \"sample\"\naudit_series = \"audit\""));
  EXPECT_THAT(dump, HasSubstr("[limits]\njobs = 0\npartitions_at_once = 0\nmemory = \"1GiB\"\n"
                              "spill_directory = \"\"\nspill = 0\nio_limit = 0\ndirect_io = "
                              "true\nlow_priority = true\n"));
  EXPECT_THAT(dump, Not(HasSubstr("tenant = \"year\"")));
}

}  // namespace
}  // namespace lithify::config
