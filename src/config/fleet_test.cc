#include "config/fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.h"

namespace lithify::config {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Problem(const std::string& fleet) {
  const auto config = LoadHiveConfig("[fleet]\n" + fleet, "lithify.toml", {}, {});
  if (config) return "none";
  EXPECT_EQ(config.error().code, Code::kInvalid);
  return config.error().message;
}

FleetConfig Good(const std::string& fleet) {
  const auto config = LoadHiveConfig("[fleet]\n" + fleet, "lithify.toml", {}, {});
  EXPECT_TRUE(config) << config.error().ToString();
  return config ? config->fleet : FleetConfig{};
}

TEST(FleetConfig, ByDefaultThereIsNone) {
  const FleetConfig fleet = Good("");
  EXPECT_FALSE(fleet.configured());
  EXPECT_EQ(fleet.distribution, "auto");
  EXPECT_EQ(fleet.min_workers, 1);
  EXPECT_EQ(fleet.group_attempts, 3);
  EXPECT_EQ(fleet.silence, seconds(120));
  EXPECT_EQ(fleet.attempt, hours(1));
  EXPECT_TRUE(fleet.hedge);
}

constexpr const char* kAll = R"(distribution = "require"
discovery = "list"
workers = ["10.0.0.3:9140", "10.0.0.4:9140"]
secret = "not to be told"
tls_ca = "/etc/lithify/ca.pem"
tls_cert = "/etc/lithify/cert.pem"
tls_key = "/etc/lithify/key.pem"
min_workers = 2
max_inflight_groups_per_worker = 3
group_attempts = 4
silence = "1min"
attempt = "2h"
hedge = false
queue_file = "/run/lithify/queue.json"
)";

TEST(FleetConfig, EveryKeyIsReadAndDumped) {
  const FleetConfig fleet = Good(kAll);
  EXPECT_TRUE(fleet.configured());
  EXPECT_EQ(fleet.distribution, "require");
  EXPECT_THAT(fleet.workers, ElementsAre("10.0.0.3:9140", "10.0.0.4:9140"));
  EXPECT_EQ(fleet.secret.Reveal(), "not to be told");
  EXPECT_EQ(fleet.tls_ca, "/etc/lithify/ca.pem");
  EXPECT_EQ(fleet.tls_cert, "/etc/lithify/cert.pem");
  EXPECT_EQ(fleet.tls_key, "/etc/lithify/key.pem");
  EXPECT_EQ(fleet.min_workers, 2);
  EXPECT_EQ(fleet.max_inflight_groups_per_worker, 3);
  EXPECT_EQ(fleet.group_attempts, 4);
  EXPECT_EQ(fleet.silence, minutes(1));
  EXPECT_EQ(fleet.attempt, hours(2));
  EXPECT_FALSE(fleet.hedge);
  EXPECT_EQ(fleet.queue_file, "/run/lithify/queue.json");

  const auto config = LoadHiveConfig(std::string("[fleet]\n") + kAll, "lithify.toml", {}, {});
  const std::string dump = DumpHiveConfig(*config);
  EXPECT_THAT(dump, Not(HasSubstr("not to be told")));
  auto again = LoadHiveConfig(dump, "dump", {}, {});
  ASSERT_TRUE(again) << again.error().ToString();
  again->fleet.secret = fleet.secret;
  EXPECT_EQ(again->fleet, fleet);
}

TEST(FleetConfig, OtherWaysOfDiscovery) {
  EXPECT_EQ(Good("discovery = \"dns\"\ndns = \"workers.lake:9140\"\nsecret_file = \"f\"").dns,
            "workers.lake:9140");
  EXPECT_EQ(Good("discovery = \"file\"\nworkers_file = \"/run/w.json\"\nsecret_file = \"f\"\n"
                 "insecure_loopback = true")
                .workers_file,
            "/run/w.json");
  EXPECT_THAT(Problem("discovery = \"dns\"\nsecret = \"s\""), HasSubstr("fleet.dns: is needed"));
  EXPECT_THAT(Problem("discovery = \"file\"\nsecret = \"s\""),
              HasSubstr("fleet.workers_file: is needed"));
  EXPECT_THAT(Problem("discovery = \"file\"\nworkers_file = \"f\"\nworkers = [\"a:1\"]\n"
                      "secret = \"s\""),
              HasSubstr("fleet.workers: goes with fleet.discovery = \"list\""));
  EXPECT_THAT(Problem("discovery = \"ray\""), HasSubstr("\"list\", \"dns\", \"file\""));
}

TEST(FleetConfig, WhatDoesNotGoTogether) {
  const std::string workers = "workers = [\"a:1\"]\n";
  EXPECT_THAT(Problem(workers), HasSubstr("fleet.secret: or fleet.secret_file is needed"));
  EXPECT_THAT(Problem(workers + "secret = \"s\"\nsecret_file = \"f\""),
              HasSubstr("exclude each other"));
  EXPECT_THAT(Problem(workers + "secret = \"s\"\ntls_cert = \"c\""),
              HasSubstr("fleet.tls_key: is missing"));
  EXPECT_THAT(Problem(workers + "secret = \"s\"\ntls_ca = \"c\"\ninsecure_loopback = true"),
              HasSubstr("leaves TLS out"));
  EXPECT_THAT(Problem("distribution = \"require\""), HasSubstr("names nobody"));
  EXPECT_THAT(Problem(workers + "secret = \"s\"\nsilence = \"10min\"\nattempt = \"5min\""),
              HasSubstr("fleet.silence: is 10 min 00 s"));
  EXPECT_THAT(Problem("min_workers = 0"), HasSubstr("1 to 10,000"));
}

}  // namespace
}  // namespace lithify::config
