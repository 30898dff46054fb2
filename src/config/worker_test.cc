#include "config/worker.h"

#include <gtest/gtest.h>

namespace lithify::config {
namespace {

constexpr std::string_view kGood = R"([worker]
listen = "0.0.0.0:50061"
secret = "${FLEET}"
tls_cert = "/c"
tls_key = "/k"
memory = "2GiB"
spill_directory = "/fast"
spill = "10GiB"
endpoints = ["https://store:9000"]
[worker.s3]
ca_file = "/roots"
)";

Result<WorkerConfig> Load(std::string_view toml, const std::vector<Override>& flags = {}) {
  static const Environment environment = {{"FLEET", "hush-hush"}};
  return LoadWorkerConfig({toml, "worker.toml", environment, flags});
}
std::string Refusal(std::string_view toml, const std::vector<Override>& flags = {}) {
  const auto config = Load(toml, flags);
  EXPECT_FALSE(config);
  return config ? std::string() : config.error().ToString();
}

TEST(WorkerConfig, WhatIsGivenAndWhatIsNot) {
  const auto config = Load(kGood, {{"worker.max_inflight_groups", "5", "--set"}});
  ASSERT_TRUE(config) << config.error().ToString();
  EXPECT_EQ(config->listen, "0.0.0.0:50061");
  EXPECT_EQ(config->secret.Reveal(), "hush-hush");
  EXPECT_EQ(config->max_inflight_groups, 5);
  EXPECT_EQ(config->memory_bytes, 2 * kGiB);
  EXPECT_EQ(config->spill_directory, "/fast");
  EXPECT_EQ(config->spill_bytes_max, 10 * kGiB);
  EXPECT_EQ(config->unadopted, std::chrono::minutes(10));
  EXPECT_EQ(config->endpoints, std::vector<std::string>{"https://store:9000"});
  EXPECT_EQ(config->s3.ca_file, "/roots");
  EXPECT_FALSE(config->local_files);
  const std::string dump = DumpWorkerConfig(*config);
  EXPECT_EQ(dump.find("hush"), std::string::npos);
  EXPECT_NE(dump.find("[worker.s3]"), std::string::npos);
}

TEST(WorkerConfig, OtherSectionsAreNotItsBusiness) {
  EXPECT_TRUE(Load(std::string(kGood) + "[maintenance.principal]\nclient_secret = \"${UNSET}\"\n"));
}

TEST(WorkerConfig, NoSecretAndNoTls) {
  EXPECT_NE(Refusal("").find("worker.secret"), std::string::npos);
  EXPECT_NE(Refusal("").find("worker.tls_cert"), std::string::npos);
  EXPECT_TRUE(Load("[worker]\ninsecure_loopback = true\n"));
  EXPECT_NE(Refusal("[worker]\ninsecure_loopback = true\ntls_cert = \"c\"\ntls_key = \"k\"\n")
                .find("insecure_loopback"),
            std::string::npos);
  EXPECT_NE(Refusal("[worker]\nsecret = \"s\"\ntls_cert = \"c\"\n").find("worker.tls_key"),
            std::string::npos);
  EXPECT_NE(Refusal("[worker]\nsecret = \"s\"\nsecret_file = \"f\"\ninsecure_loopback = true\n")
                .find("exclude"),
            std::string::npos);
  EXPECT_NE(Refusal("[worker]\ninsecure_loopback = true\n[worker.s3]\naccess_key_id = \"i\"\n")
                .find("secret_access_key"),
            std::string::npos);
}

TEST(WorkerConfig, UnknownKeys) {
  EXPECT_NE(Refusal("[worker]\nmax_inflight = 1\n").find("unknown key"), std::string::npos);
  EXPECT_NE(Refusal(kGood, {{"server.listen", "x", "--set"}}).find("worker. alone"),
            std::string::npos);
  EXPECT_NE(Refusal("[worker]\nmemory = \"1KiB\"\n").find("worker.memory"), std::string::npos);
}

}  // namespace
}  // namespace lithify::config
