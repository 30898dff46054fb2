#include "embed/iceberg_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lithify::embed {
namespace {

using config::CatalogConfig;
using testing::HasSubstr;
using testing::Not;

config::HiveConfig With(CatalogConfig catalog) {
  config::HiveConfig config;
  config.catalogs.push_back(std::move(catalog));
  return config;
}

CatalogConfig Configured() {
  CatalogConfig catalog;
  catalog.name = "lake";
  catalog.uri = "https://catalog.example:8181/api";
  catalog.warehouse = "w";
  return catalog;
}

// Every setting that could tell another host a secret, alone.
std::vector<CatalogConfig> WithCredentials() {
  std::vector<CatalogConfig> out(6, Configured());
  out[0].token = Secret("s3cret");
  out[1].client_id = "job";
  out[1].client_secret = Secret("s3cret");
  out[2].client_secret = Secret("s3cret");
  out[3].oauth2_server_uri = "https://login.example/token?key=s3cret";
  out[4].scope = "s3cret";
  out[5].headers = {{"X-Api-Key", "s3cret"}};
  return out;
}

TEST(ChooseCatalog, CredentialsGoOnlyToTheHostTheyWereConfiguredFor) {
  for (const CatalogConfig& catalog : WithCredentials()) {
    for (const std::string other :
         {"https://other.example:8181/api", "http://catalog.example:8181/api",
          "https://catalog.example/api", "https://catalog.example:8182/api",
          "https://catalog.example:8181.other.example/api",
          "https://catalog.example:8181@other.example/api", "sqlite:///lake/catalog.db",
          "nonsense"}) {
      const auto chosen = ChooseCatalog(With(catalog), "lake", other, "");
      ASSERT_FALSE(chosen) << other;
      const std::string text = chosen.error().ToString();
      EXPECT_EQ(chosen.error().code, Code::kInvalid) << text;
      EXPECT_THAT(text, HasSubstr("https://catalog.example:8181/api"));
      EXPECT_THAT(text, HasSubstr("--catalog-uri"));
      EXPECT_THAT(text, HasSubstr("[catalogs.lake]"));
      EXPECT_THAT(text, Not(HasSubstr("s3cret")));
    }
    const auto chosen = ChooseCatalog(With(catalog), "lake", "https://other.example/x", "");
    EXPECT_THAT(chosen.error().ToString(), HasSubstr("https://other.example/x"));
  }
}

TEST(ChooseCatalog, AnotherPathOnTheSameHostKeepsTheCredentials) {
  for (const CatalogConfig& catalog : WithCredentials()) {
    for (const std::string same :
         {"https://catalog.example:8181/api", "https://catalog.example:8181",
          "HTTPS://Catalog.Example:8181/other"}) {
      const auto chosen = ChooseCatalog(With(catalog), "lake", same, "v");
      ASSERT_TRUE(chosen) << chosen.error().ToString();
      EXPECT_EQ(chosen->uri, same);
      EXPECT_EQ(chosen->warehouse, "v");
      EXPECT_EQ(chosen->token, catalog.token);
      EXPECT_EQ(chosen->client_secret, catalog.client_secret);
    }
    EXPECT_EQ(ChooseCatalog(With(catalog), "lake", "", "")->uri, catalog.uri);
  }
}

TEST(ChooseCatalog, WithoutCredentialsAnyUriMayBeGiven) {
  const auto chosen = ChooseCatalog(With(Configured()), "lake", "http://other.example", "");
  ASSERT_TRUE(chosen) << chosen.error().ToString();
  EXPECT_EQ(chosen->uri, "http://other.example");
  // Another name is another catalog: it has nothing of this one.
  for (const CatalogConfig& catalog : WithCredentials()) {
    const auto fresh = ChooseCatalog(With(catalog), "other", "http://other.example", "");
    ASSERT_TRUE(fresh);
    EXPECT_TRUE(fresh->token.empty());
    EXPECT_TRUE(fresh->client_secret.empty());
    EXPECT_TRUE(fresh->headers.empty());
    EXPECT_TRUE(fresh->warehouse.empty());
  }
  EXPECT_EQ(ChooseCatalog(With(Configured()), "other", "", "").error().code, Code::kInvalid);
}

}  // namespace
}  // namespace lithify::embed
