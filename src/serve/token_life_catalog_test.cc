#include "serve/token_life_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commit/iceberg_fixture.h"

namespace lithify::serve {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class TokenLifeCatalogTest : public commit::IcebergTable {
 protected:
  Status Touch(catalog::Catalog& catalog) {
    const std::vector<table::TableUpdate> updates = {
        table::SetProperties{{{"touched", std::to_string(++touches_)}}}};
    const auto done = catalog.CommitTable(ident_, {}, updates);
    if (!done) return Fail(done.error());
    return {};
  }
  std::string Touched() {
    const auto table = Load();
    const auto at = table.metadata.properties.find("touched");
    return at == table.metadata.properties.end() ? "" : at->second;
  }
  int touches_ = 0;
};

TEST_F(TokenLifeCatalogTest, Q14NoCommitThatTheTokenMightNotOutlive) {
  Create();
  Caller caller;
  caller.name = "alice";
  caller.token = Secret("t");
  caller.expires_at = clock_.Now() + seconds(60);
  TokenLifeCatalog catalog(catalog_, caller, clock_);
  EXPECT_TRUE(catalog.MayCommit());
  EXPECT_TRUE(Touch(catalog));
  EXPECT_EQ(Touched(), "1");
  clock_.Sleep(seconds(49));
  EXPECT_TRUE(catalog.MayCommit());
  clock_.Sleep(seconds(1));
  for (const Status& refused : {catalog.MayCommit(), Touch(catalog)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kDenied);
    EXPECT_THAT(refused.error().ToString(), HasSubstr("token expires before the commit"));
    EXPECT_THAT(refused.error().ToString(), HasSubstr("alice"));
  }
  EXPECT_EQ(Touched(), "1");
  // Reading is the catalog's to refuse.
  EXPECT_TRUE(catalog.LoadTable(ident_));
  EXPECT_EQ(catalog.ListTables(ident_.namespace_parts)->size(), 1u);
  EXPECT_TRUE(catalog.ListNamespaces({}));
  EXPECT_TRUE(catalog.MetadataLocation(ident_));
  EXPECT_EQ(catalog.Describe(), "memory:");
  EXPECT_FALSE(catalog.AnswersOnce());
}

TEST_F(TokenLifeCatalogTest, WithoutAnEndNothingIsRefused) {
  Create();
  TokenLifeCatalog catalog(catalog_, Caller{}, clock_);
  clock_.Sleep(std::chrono::hours(1000));
  EXPECT_TRUE(catalog.MayCommit());
  EXPECT_TRUE(Touch(catalog));
}

}  // namespace
}  // namespace lithify::serve
