#include "status_text.h"

#include <gtest/gtest.h>

namespace lithify::cli {
namespace {

using plan::Verdict;

job::PartitionStatus Status(std::string tenant, Verdict verdict, int64_t files, int64_t small) {
  job::PartitionStatus out;
  out.state.id.series = "data";
  out.state.id.tenant = tenant;
  out.state.id.key_prefix = "data/tenant_id=" + tenant + "/";
  out.plan.verdict = verdict;
  out.plan.reason = "because";
  out.plan.live_files = files;
  out.plan.live_bytes = files * kMiB;
  out.plan.small_files = small;
  for (int64_t i = 0; i < files; ++i) {
    out.state.files.push_back({.name = std::to_string(i) + ".parquet",
                               .size = kMiB,
                               .modified = {},
                               .state = FileState::kLive,
                               .rows = {},
                               .unsupported = {}});
  }
  out.state.files.push_back({.name = "old.parquet",
                             .size = kGiB,
                             .modified = {},
                             .state = FileState::kRetired,
                             .rows = {},
                             .unsupported = {}});
  return out;
}

job::StatusReport TwoTenants() {
  job::StatusReport report;
  report.partitions = {Status("a", Verdict::kCandidate, 8, 8),
                       Status("a", Verdict::kNothingToGain, 2, 0),
                       Status("b", Verdict::kIrreducible, 1, 1)};
  ManifestSnapshot& snapshot = report.partitions[1].state.manifest.emplace();
  snapshot.manifest.generation = 7;
  report.partitions[1].last_compaction = Time(std::chrono::seconds(1796000000));
  return report;
}

TEST(StatusTotals, IrreducibleSmallFilesAreCountedApart) {
  StatusTotals totals;
  for (const auto& status : TwoTenants().partitions) totals.Add(status);
  EXPECT_EQ(totals.partitions, 3);
  EXPECT_EQ(totals.files, 11);
  EXPECT_EQ(totals.small_files, 8);
  EXPECT_EQ(totals.irreducible_files, 1);
  EXPECT_EQ(totals.backlog, 1);
}

TEST(StatusText, PartitionsTenantsAndHistogram) {
  EXPECT_EQ(
      StatusText(TwoTenants(), false, false),
      "partition          files    bytes  small  generation  last compaction       state           "
      " reason\n"
      "data/tenant_id=a/      8  8.0 MiB      8           -  -                     candidate       "
      " because\n"
      "data/tenant_id=a/      2  2.0 MiB      0           7  2026-11-30T00:53:20Z  nothing to gain "
      " because\n"
      "data/tenant_id=b/      1  1.0 MiB      1           -  -                     irreducible     "
      " because\n"
      "\n"
      "series  tenant  partitions  files     bytes  small   share  irreducible  backlog\n"
      "data    a                2     10  10.0 MiB      8  80.0 %            0        1\n"
      "data    b                1      1   1.0 MiB      0   0.0 %            1        0\n"
      "all                      3     11  11.0 MiB      8  72.7 %            1        1\n"
      "\n"
      "file size      files\n"
      "1 MiB - 4 MiB     11  ########################################\n");
}

TEST(StatusText, ErrorsTakeThePlaceOfTheState) {
  job::StatusReport report = TwoTenants();
  report.partitions[0].error = Error{
      .code = Code::kCorrupt, .message = "manifest.json is no JSON", .context = {}, .hint = {}};
  const std::string text = StatusText(report, false, false);
  EXPECT_NE(text.find("error            manifest.json is no JSON\n"), std::string::npos);
  EXPECT_EQ(StatusText({}, false, false), "no partitions found\n");
}

TEST(StatusJson, HasTotalsPerTenant) {
  const Json json = StatusJson(TwoTenants(), "/lake");
  EXPECT_EQ(json["totals"]["live_files"], 11);
  EXPECT_EQ(json["totals"]["backlog"], 1);
  EXPECT_EQ(json["tenants"][0]["tenant"], "a");
  EXPECT_EQ(json["tenants"][0]["small_share"], 0.8);
  EXPECT_EQ(json["tenants"][1]["irreducible_small_files"], 1);
  EXPECT_EQ(json["partitions"][1]["generation"], 7);
  EXPECT_EQ(json["partitions"][1]["last_compaction"], "2026-11-30T00:53:20.000000Z");
  EXPECT_TRUE(json["partitions"][0]["last_compaction"].is_null());
  EXPECT_EQ(json["partitions"][1]["file_sizes"].size(), 2U);
}

}  // namespace
}  // namespace lithify::cli
