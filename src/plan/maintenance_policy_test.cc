#include "plan/maintenance_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lithify::plan {
namespace {

using std::chrono::days;
using std::chrono::hours;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Properties = std::map<std::string, std::string>;

TablePolicy Resolved(const Properties& properties,
                     const std::optional<CatalogPolicy>& catalog = std::nullopt) {
  return ResolvePolicy(properties, {}, catalog);
}

std::vector<std::string> Warnings(const TablePolicy& policy) {
  std::vector<std::string> messages;
  for (const auto& warning : policy.warnings) messages.push_back(warning.message);
  return messages;
}

// The two properties of one setting, resolved; with the text of the only warning.
struct Both {
  TablePolicy policy;
  std::string warning;
};
Both Disagree(const std::string& name, const std::string& sqe, const std::string& own) {
  Both both{
      .policy = Resolved({{"sqe.maintenance." + name, sqe}, {"lithify.maintenance." + name, own}}),
      .warning = ""};
  if (both.policy.warnings.size() == 1) both.warning = both.policy.warnings[0].message;
  return both;
}

TEST(MaintenancePolicy, NothingSetIsNotEnabled) {
  const TablePolicy policy = Resolved({{"write.format.default", "parquet"}});
  EXPECT_FALSE(policy.enabled);
  EXPECT_EQ(policy.enabled_reason, "not set: sqe.maintenance.enabled, lithify.maintenance.enabled");
  EXPECT_EQ(policy.schedule.text, "0 2 * * *");
  EXPECT_EQ(policy.target_file_size_bytes, 512 * kMiB);
  EXPECT_EQ(policy.min_input_files, 5);
  EXPECT_EQ(policy.delete_file_threshold, 2);
  EXPECT_EQ(policy.strategy, Strategy::kBinpack);
  EXPECT_EQ(policy.sort_order, "");
  EXPECT_FALSE(policy.rewrite_manifests || policy.expire_snapshots || policy.remove_orphan_files);
  EXPECT_EQ(policy.expire_older_than, std::nullopt);
  EXPECT_EQ(policy.expire_retain_last, std::nullopt);
  EXPECT_EQ(policy.orphan_older_than, days(3));
  EXPECT_EQ(policy.sources.at("compaction.schedule"), "configuration");
  EXPECT_EQ(policy.sources.at("expire-snapshots.retain-last"),
            "history.expire.min-snapshots-to-keep");
  EXPECT_THAT(Warnings(policy), IsEmpty());
}

TEST(MaintenancePolicy, R028OnlyTheLettersTrueOptIn) {
  const TablePolicy yes = Resolved({{"sqe.maintenance.enabled", "true"}});
  EXPECT_TRUE(yes.enabled);
  EXPECT_EQ(yes.enabled_reason, "sqe.maintenance.enabled is \"true\"");
  EXPECT_TRUE(Resolved({{"lithify.maintenance.enabled", "true"}}).enabled);

  const TablePolicy no = Resolved({{"lithify.maintenance.enabled", "false"}});
  EXPECT_FALSE(no.enabled);
  EXPECT_EQ(no.enabled_reason, "lithify.maintenance.enabled is \"false\", not \"true\"");
  EXPECT_THAT(Warnings(no), IsEmpty());

  const TablePolicy almost = Resolved({{"sqe.maintenance.enabled", "True"}});
  EXPECT_FALSE(almost.enabled);
  EXPECT_THAT(
      Warnings(almost),
      ElementsAre("sqe.maintenance.enabled is \"True\": only \"true\", in these letters, is "
                  "a yes; taken as false"));
}

TEST(MaintenancePolicy, R054FalseWins) {
  for (const bool first : {true, false}) {
    const Both both = Disagree("enabled", first ? "true" : "false", first ? "false" : "true");
    EXPECT_FALSE(both.policy.enabled);
    const std::string property = first ? "lithify.maintenance.enabled" : "sqe.maintenance.enabled";
    EXPECT_EQ(both.policy.enabled_reason, property + " is \"false\", not \"true\"");
    EXPECT_EQ(both.warning, property +
                                " is \"false\": the same property under the other prefix is "
                                "\"true\"; false holds");
  }
  EXPECT_TRUE(Disagree("enabled", "true", "true").policy.enabled);
}

TEST(MaintenancePolicy, R050PropertiesOverrideTheConfiguration) {
  for (const std::string prefix : {"sqe.maintenance.", "lithify.maintenance."}) {
    const TablePolicy policy =
        Resolved({{prefix + "compaction.schedule", " */30 * * * * "},
                  {prefix + "compaction.target-file-size-bytes", "268435456"},
                  {prefix + "compaction.min-input-files", "2"},
                  {prefix + "compaction.delete-file-threshold", "0"},
                  {prefix + "compaction.strategy", "sort"},
                  {prefix + "compaction.sort-order", "day DESC, id"}});
    EXPECT_EQ(policy.schedule.text, "*/30 * * * *");
    EXPECT_EQ(policy.target_file_size_bytes, 256 * kMiB);
    EXPECT_EQ(policy.min_input_files, 2);
    EXPECT_EQ(policy.delete_file_threshold, 0);
    EXPECT_EQ(policy.strategy, Strategy::kSort);
    EXPECT_EQ(policy.sort_order, "day DESC, id");
    EXPECT_EQ(policy.sources.at("compaction.schedule"), prefix + "compaction.schedule");
    EXPECT_THAT(Warnings(policy), IsEmpty());
    const RewriteOptions options = RewriteOptionsOf(policy);
    EXPECT_EQ(options.strategy, Strategy::kSort);
    EXPECT_EQ(options.sort_order, "day DESC, id");
    EXPECT_FALSE(options.binpack_if_unsorted);
  }
}

// R103: as in a CALL.
TEST(MaintenancePolicy, R103OnlyAnOrderImpliesASort) {
  const TablePolicy policy = Resolved({{"sqe.maintenance.compaction.sort-order", "zorder(a, b)"}});
  EXPECT_EQ(policy.strategy, Strategy::kSort);
  EXPECT_EQ(policy.sources.at("compaction.strategy"), "sqe.maintenance.compaction.sort-order");
  const TablePolicy packed = Resolved({{"sqe.maintenance.compaction.sort-order", "a"},
                                       {"sqe.maintenance.compaction.strategy", "binpack"}});
  EXPECT_EQ(packed.strategy, Strategy::kBinpack);
  EXPECT_EQ(RewriteOptionsOf(packed).sort_order, "");
}

// T5: a strategy that is the default of all tables fails none that has no order; one that a table
// asks for itself is not passed over.
TEST(MaintenancePolicy, T5ADefaultStrategyBinpacksWhatHasNoOrder) {
  MaintenanceDefaults defaults;
  defaults.strategy = Strategy::kSort;
  const TablePolicy by_default = ResolvePolicy({}, defaults, std::nullopt);
  EXPECT_EQ(by_default.strategy, Strategy::kSort);
  EXPECT_TRUE(RewriteOptionsOf(by_default).binpack_if_unsorted);
  const TablePolicy asked =
      ResolvePolicy({{"sqe.maintenance.compaction.strategy", "sort"}}, defaults, std::nullopt);
  EXPECT_FALSE(RewriteOptionsOf(asked).binpack_if_unsorted);
}

TEST(MaintenancePolicy, AnOrderThatCannotBeReadIsWarnedOf) {
  const TablePolicy policy = Resolved({{"sqe.maintenance.compaction.sort-order", "zorder()"}});
  EXPECT_EQ(policy.sort_order, "");
  EXPECT_EQ(policy.strategy, Strategy::kBinpack);
  EXPECT_THAT(Warnings(policy), ElementsAre(HasSubstr("a column is missing before \")\"")));
}

TEST(MaintenancePolicy, R050WhatCannotBeTakenIsWarnedOf) {
  const auto refused = [](const std::string& name, const std::string& value) {
    const TablePolicy policy = Resolved({{"sqe.maintenance." + name, value}});
    EXPECT_EQ(policy.sources.at(name), Resolved({}).sources.at(name)) << name;
    if (policy.warnings.size() != 1) return std::to_string(policy.warnings.size()) + " warnings";
    EXPECT_EQ(policy.warnings[0].property, "sqe.maintenance." + name);
    EXPECT_EQ(policy.warnings[0].value, value);
    return policy.warnings[0].message;
  };
  EXPECT_EQ(
      refused("compaction.schedule", "60 2 * * *"),
      "sqe.maintenance.compaction.schedule is \"60 2 * * *\": minute: \"60\" is out of range; "
      "allowed is 0 to 59; the value of configuration holds: \"0 2 * * *\"");
  EXPECT_THAT(refused("compaction.schedule", "0 0 31 2 *"), HasSubstr("day-of-month"));
  EXPECT_THAT(refused("compaction.schedule", " "),
              HasSubstr("it is blank; the value of configuration holds: \"0 2 * * *\""));
  EXPECT_THAT(
      refused("compaction.target-file-size-bytes", "big"),
      HasSubstr("must be a size, like 268435456 or 256MiB; the value of configuration holds: "
                "512.0 MiB"));
  EXPECT_THAT(refused("compaction.target-file-size-bytes", "0"),
              HasSubstr("between 1 B and 1.0 TiB"));
  EXPECT_THAT(refused("compaction.target-file-size-bytes", "1025GiB"),
              HasSubstr("between 1 B and"));
  EXPECT_THAT(refused("compaction.min-input-files", "0"), HasSubstr("from 1 to 1,000,000"));
  EXPECT_THAT(refused("compaction.min-input-files", "5 files"), HasSubstr("whole number"));
  EXPECT_THAT(refused("compaction.min-input-files", "99999999999999999999"),
              HasSubstr("whole number"));
  EXPECT_THAT(refused("compaction.delete-file-threshold", "-1"), HasSubstr("from 0 to 1,000,000"));
  EXPECT_THAT(refused("compaction.strategy", "sorted"), HasSubstr("binpack, sort or zorder"));
  EXPECT_THAT(refused("expire-snapshots.older-than", "432000000"),
              HasSubstr("must be an age with its unit, like 5d or 36h; "
                        "history.expire.max-snapshot-age-ms holds"));
  EXPECT_THAT(refused("expire-snapshots.older-than", "-5d"), HasSubstr("must be an age"));
  EXPECT_THAT(refused("expire-snapshots.retain-last", "0"), HasSubstr("from 1 to 1,000,000"));
  EXPECT_THAT(refused("remove-orphan-files.older-than", "23h"),
              HasSubstr("must be between 24 h 00 min and"));
}

TEST(MaintenancePolicy, LongValuesAreCut) {
  const TablePolicy policy =
      Resolved({{"sqe.maintenance.compaction.sort-order", std::string(5000, 'x')}});
  ASSERT_EQ(policy.warnings.size(), 1U);
  EXPECT_EQ(policy.warnings[0].value, std::string(200, 'x') + " …");
  EXPECT_THAT(policy.warnings[0].message, AllOf(HasSubstr("x …\": must have at most 1,000 bytes"),
                                                testing::SizeIs(testing::Lt(400U))));
}

TEST(MaintenancePolicy, UnknownPropertiesAreTold) {
  const TablePolicy policy = Resolved({{"sqe.maintenance.compaction.target-file-size", "1"},
                                       {"lithify.maintenance.zzz", "1"},
                                       {"sqe.maintenancex", "1"},
                                       {"sqe.other", "1"}});
  EXPECT_THAT(Warnings(policy),
              ElementsAre("lithify.maintenance.zzz is \"1\": there is no such property",
                          "sqe.maintenance.compaction.target-file-size is \"1\": there is no such "
                          "property; sqe.maintenance.compaction.target-file-size-bytes is one"));
}

TEST(MaintenancePolicy, R054TheStricterOfTwoHolds) {
  const std::string c = "compaction.";
  Both both = Disagree(c + "schedule", "0 * * * *", "0 2 * * *");
  EXPECT_EQ(both.policy.schedule.text, "0 2 * * *");
  EXPECT_EQ(both.policy.sources.at("compaction.schedule"),
            "lithify.maintenance.compaction.schedule");
  EXPECT_EQ(both.warning,
            "lithify.maintenance.compaction.schedule is \"0 2 * * *\": "
            "sqe.maintenance.compaction.schedule is \"0 * * * *\", and the two disagree; the value "
            "of lithify.maintenance.compaction.schedule holds: \"0 2 * * *\"");
  EXPECT_EQ(Disagree(c + "schedule", "@weekly", "@daily").policy.schedule.text, "@weekly");
  // As often as each other: the first one.
  EXPECT_EQ(Disagree(c + "schedule", "0 3 * * *", "0 2 * * *").policy.schedule.text, "0 3 * * *");
  both = Disagree(c + "schedule", "@daily", "0 0 * * *");  // The same.
  EXPECT_THAT(Warnings(both.policy), IsEmpty());

  EXPECT_EQ(Disagree(c + "target-file-size-bytes", "1GiB", "256MiB").policy.target_file_size_bytes,
            256 * kMiB);
  EXPECT_EQ(Disagree(c + "target-file-size-bytes", "256MiB", "1GiB").policy.target_file_size_bytes,
            256 * kMiB);
  EXPECT_EQ(Disagree(c + "min-input-files", "3", "9").policy.min_input_files, 9);
  EXPECT_EQ(Disagree(c + "min-input-files", "9", "3").policy.min_input_files, 9);
  EXPECT_EQ(Disagree(c + "delete-file-threshold", "0", "9").policy.delete_file_threshold, 0);
  EXPECT_EQ(Disagree(c + "delete-file-threshold", "9", "0").policy.delete_file_threshold, 0);
  EXPECT_EQ(Disagree(c + "delete-file-threshold", "3", "9").policy.delete_file_threshold, 9);
  EXPECT_EQ(Disagree(c + "strategy", "zorder", "sort").policy.strategy, Strategy::kSort);
  EXPECT_EQ(Disagree(c + "strategy", "sort", "bin-pack").policy.strategy, Strategy::kBinpack);
  EXPECT_EQ(Disagree("expire-snapshots.older-than", "5d", "7d").policy.expire_older_than, days(7));
  EXPECT_EQ(Disagree("compaction.read-life", "5d", "7d").policy.read_life, days(5));
  EXPECT_EQ(Disagree("expire-snapshots.retain-last", "9", "3").policy.expire_retain_last, 9);
  EXPECT_EQ(Disagree("remove-orphan-files.older-than", "36h", "9d").policy.orphan_older_than,
            days(9));

  both = Disagree(c + "sort-order", "a", "b");
  EXPECT_EQ(both.policy.sort_order, "");
  EXPECT_THAT(both.warning, HasSubstr("the two disagree; the value of configuration holds: \"\""));
  // One of them cannot be read: the other one holds.
  both = Disagree(c + "min-input-files", "many", "7");
  EXPECT_EQ(both.policy.min_input_files, 7);
  EXPECT_THAT(both.warning, HasSubstr("sqe.maintenance.compaction.min-input-files is \"many\""));
  EXPECT_EQ(Disagree(c + "min-input-files", "7", "").policy.min_input_files, 7);
}

TEST(MaintenancePolicy, PrefixesAreConfigured) {
  MaintenanceDefaults defaults;
  defaults.prefixes = {"acme", "sqe.maintenance", "acme.two"};
  Properties properties = {{"acme.enabled", "true"},
                           {"acme.two.enabled", "true"},
                           {"lithify.maintenance.enabled", "false"},
                           {"acme.compaction.min-input-files", "3"},
                           {"sqe.maintenance.compaction.min-input-files", "5"},
                           {"acme.two.compaction.min-input-files", "4"}};
  TablePolicy policy = ResolvePolicy(properties, defaults, std::nullopt);
  EXPECT_TRUE(policy.enabled);
  EXPECT_EQ(policy.min_input_files, 5);
  properties["sqe.maintenance.enabled"] = "false";
  EXPECT_FALSE(ResolvePolicy(properties, defaults, std::nullopt).enabled);
  defaults.prefixes = {"x"};
  policy = ResolvePolicy(properties, defaults, std::nullopt);
  EXPECT_EQ(policy.enabled_reason, "not set: x.enabled");
  EXPECT_EQ(policy.sources.at("compaction.min-input-files"), "configuration");
}

TEST(MaintenancePolicy, WhatFollowsTheRewriteIsOptedInApart) {
  const std::string prefix = "lithify.maintenance.";
  Properties properties = {{prefix + "enabled", "true"},
                           {prefix + "rewrite-manifests.enabled", "true"},
                           {prefix + "expire-snapshots.enabled", "true"},
                           {prefix + "expire-snapshots.older-than", "36h"},
                           {prefix + "expire-snapshots.retain-last", "10"},
                           {prefix + "remove-orphan-files.enabled", "true"},
                           {prefix + "remove-orphan-files.older-than", "7d"}};
  TablePolicy policy = Resolved(properties);
  EXPECT_TRUE(policy.rewrite_manifests && policy.expire_snapshots && policy.remove_orphan_files);
  EXPECT_EQ(policy.expire_older_than, hours(36));
  EXPECT_EQ(policy.expire_retain_last, 10);
  EXPECT_EQ(policy.orphan_older_than, days(7));
  EXPECT_THAT(Warnings(policy), IsEmpty());

  properties[prefix + "expire-snapshots.enabled"] = "1";
  properties["sqe.maintenance.remove-orphan-files.enabled"] = "false";
  policy = Resolved(properties);
  EXPECT_TRUE(policy.rewrite_manifests);
  EXPECT_FALSE(policy.expire_snapshots);
  EXPECT_FALSE(policy.remove_orphan_files);
  EXPECT_EQ(policy.warnings.size(), 2U);

  properties.erase(prefix + "enabled");  // Without the first gate there is none of them.
  policy = Resolved(properties);
  EXPECT_FALSE(policy.rewrite_manifests || policy.expire_snapshots || policy.remove_orphan_files);
}

TEST(MaintenancePolicy, CatalogPolicyLiesBetween) {
  const CatalogPolicy catalog{.name = "nightly",
                              .enable = true,
                              .target_file_size_bytes = 134217728.0,
                              .config = {{"compaction_strategy", "bin-pack"},
                                         {"max-concurrent-file-group-rewrites", "5"},
                                         {"min-input-files", "3"},
                                         {"delete_file_threshold", "4"},
                                         {"target_file_size_bytes", "1"},
                                         {"my-key", "my-value"}}};
  MaintenanceDefaults defaults;
  defaults.strategy = Strategy::kSort;
  TablePolicy policy = ResolvePolicy({}, defaults, catalog);
  EXPECT_EQ(policy.target_file_size_bytes, 128 * kMiB);  // The member goes before the config.
  EXPECT_EQ(policy.strategy, Strategy::kBinpack);
  EXPECT_EQ(policy.max_concurrent_file_group_rewrites, 5);
  EXPECT_EQ(policy.min_input_files, 3);
  EXPECT_EQ(policy.delete_file_threshold, 4);
  EXPECT_EQ(policy.sources.at("compaction.min-input-files"), "policy nightly");
  EXPECT_THAT(Warnings(policy), IsEmpty());

  policy = ResolvePolicy({{"write.target-file-size-bytes", "67108864"},
                          {"lithify.maintenance.compaction.min-input-files", "x"}},
                         defaults, catalog);
  EXPECT_EQ(policy.target_file_size_bytes, 64 * kMiB);
  EXPECT_EQ(policy.sources.at("compaction.target-file-size-bytes"), "write.target-file-size-bytes");
  EXPECT_EQ(policy.min_input_files, 3);
  EXPECT_THAT(Warnings(policy), ElementsAre(HasSubstr("the value of policy nightly holds: 3")));
  policy = ResolvePolicy({{"write.target-file-size-bytes", "67108864"},
                          {"sqe.maintenance.compaction.target-file-size-bytes", "32MiB"}},
                         defaults, catalog);
  EXPECT_EQ(policy.target_file_size_bytes, 32 * kMiB);
}

TEST(MaintenancePolicy, CatalogPolicyCannotOptInButCanSayNo) {
  CatalogPolicy catalog{.name = "p", .enable = true, .target_file_size_bytes = {}, .config = {}};
  EXPECT_FALSE(Resolved({}, catalog).enabled);
  EXPECT_TRUE(Resolved({{"sqe.maintenance.enabled", "true"}}, catalog).enabled);
  catalog.enable = false;
  const TablePolicy policy = Resolved(
      {{"sqe.maintenance.enabled", "true"}, {"sqe.maintenance.rewrite-manifests.enabled", "true"}},
      catalog);
  EXPECT_FALSE(policy.enabled);
  EXPECT_FALSE(policy.rewrite_manifests);
  EXPECT_EQ(
      policy.enabled_reason,
      "sqe.maintenance.enabled is \"true\", but the catalog's policy p says \"enable\": false");
}

TEST(MaintenancePolicy, DamagedCatalogPolicyIsWarnedOf) {
  for (const double bytes : {0.0, -1.0, 0.5, 1e30, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    const TablePolicy policy = Resolved(
        {},
        CatalogPolicy{.name = "p", .enable = true, .target_file_size_bytes = bytes, .config = {}});
    EXPECT_EQ(policy.target_file_size_bytes, 512 * kMiB);
    ASSERT_EQ(policy.warnings.size(), 1U);
    EXPECT_EQ(policy.warnings[0].property, "policy p: target_file_size_bytes");
    EXPECT_THAT(policy.warnings[0].message, HasSubstr("must be between 1 B and 1.0 TiB"));
  }
  const TablePolicy policy = Resolved(
      {}, CatalogPolicy{
              .name = "p",
              .enable = true,
              .target_file_size_bytes = {},
              .config = {{"compaction_strategy", "magic"}, {"target-file-size-bytes", "64MiB"}}});
  EXPECT_EQ(policy.target_file_size_bytes, 64 * kMiB);
  EXPECT_THAT(Warnings(policy),
              ElementsAre("policy p: compaction_strategy is \"magic\": must be binpack, sort or "
                          "zorder; the value of configuration holds: binpack"));
}

TEST(MaintenancePolicy, R052TheSameValuesForThePlanner) {
  for (const char* target : {"1", "1TiB", "256MiB"}) {
    const TablePolicy policy =
        Resolved({{"sqe.maintenance.compaction.target-file-size-bytes", target},
                  {"sqe.maintenance.compaction.min-input-files", "1000000"},
                  {"sqe.maintenance.compaction.delete-file-threshold", "7"}});
    ASSERT_THAT(Warnings(policy), IsEmpty());
    const RewriteOptions options = RewriteOptionsOf(policy);
    EXPECT_EQ(options.target_file_size_bytes, policy.target_file_size_bytes);
    EXPECT_EQ(options.min_input_files, 1'000'000);
    EXPECT_EQ(options.delete_file_threshold, 7);
    const Status status = CheckOptions(options);
    EXPECT_TRUE(status) << target << ": " << status.error().ToString();
  }
}

}  // namespace
}  // namespace lithify::plan
