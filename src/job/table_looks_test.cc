#include "job/table_looks.h"

#include <gmock/gmock.h>

#include <set>

#include "commit/iceberg_fixture.h"

namespace lithify::job {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// Refuses or loses what it is told to.
class Moody final : public catalog::Catalog {
 public:
  explicit Moody(catalog::Catalog& real) : real_(real) {}
  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    if (parent.empty() && no_namespaces) return Fail(Code::kDenied, "NAMESPACE_LIST is missing");
    return real_.ListNamespaces(parent);
  }
  Result<std::vector<catalog::TableIdent>> ListTables(
      const std::vector<std::string>& parts) override {
    if (parts == unlisted) return Fail(Code::kDenied, "TABLE_LIST is missing");
    return real_.ListTables(parts);
  }
  Result<catalog::LoadedTable> LoadTable(const catalog::TableIdent& ident) override {
    if (const auto told = errors.find(ident.name); told != errors.end()) {
      return Fail(told->second, "told so");
    }
    return real_.LoadTable(ident);
  }
  Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent&,
                                           std::span<const table::TableRequirement>,
                                           std::span<const table::TableUpdate>) override {
    return Fail(Code::kInternal, "nobody commits here");
  }
  std::string Describe() const override { return "moody:"; }

  bool no_namespaces = false;
  std::vector<std::string> unlisted;
  std::map<std::string, Code> errors;

 private:
  catalog::Catalog& real_;
};

class TableLooks : public commit::IcebergTable {
 protected:
  // The fixture's table, and others of its metadata.
  void Also(const std::vector<std::string>& parts, const std::string& name) {
    const catalog::TableIdent ident{parts, name};
    ASSERT_TRUE(catalog_.CreateTable(ident, Load().metadata_text));
  }
  Result<std::vector<NamespaceLook>> Look() { return LookAtTables(moody_, request_, cancel_); }

  Moody moody_{catalog_};
  LookRequest request_;
  CancelFlag cancel_;
};

TEST_F(TableLooks, WhatTheCatalogShows) {
  Create();
  const int64_t snapshot = Append({Data("a")});
  Also({"other", "deep"}, "t2");
  const auto looks = Look();
  ASSERT_TRUE(looks) << looks.error().ToString();
  std::vector<std::string> names;
  for (const NamespaceLook& look : *looks) {
    EXPECT_FALSE(look.error);
    for (const TableLook& table : look.tables) names.push_back(table.ident.ToString());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(ident_.ToString(), "other.deep.t2"));
  request_.namespaces = {{ident_.namespace_parts}};
  const auto one = Look();
  ASSERT_TRUE(one);
  ASSERT_THAT(*one, SizeIs(1));
  ASSERT_THAT((*one)[0].tables, SizeIs(1));
  const TableLook& table = (*one)[0].tables[0];
  EXPECT_EQ(table.snapshot_id, snapshot);
  EXPECT_EQ(table.properties.at("owner"), "me");
  EXPECT_EQ(table.summary.at("operation"), "append");
  EXPECT_GT(table.snapshot_ms, 0);
}

TEST_F(TableLooks, ARefusalIsOfOneAndLeavesTheOthers) {
  Create();
  Also(ident_.namespace_parts, "secret");
  Also(ident_.namespace_parts, "gone");
  Also(ident_.namespace_parts, "slow");
  Also({"hidden"}, "t2");
  moody_.unlisted = {"hidden"};
  moody_.errors = {
      {"secret", Code::kDenied}, {"gone", Code::kNotFound}, {"slow", Code::kTransient}};
  request_.namespaces = {{ident_.namespace_parts, {"hidden"}}};
  const auto looks = Look();
  ASSERT_TRUE(looks) << looks.error().ToString();
  ASSERT_THAT(*looks, SizeIs(2));
  std::map<std::string, std::optional<Code>> seen;
  for (const TableLook& table : (*looks)[0].tables) {
    seen[table.ident.name] = table.error ? std::optional(table.error->code) : std::nullopt;
  }
  EXPECT_EQ(seen, (std::map<std::string, std::optional<Code>>{{ident_.name, std::nullopt},
                                                              {"gone", Code::kNotFound},
                                                              {"secret", Code::kDenied},
                                                              {"slow", Code::kTransient}}));
  ASSERT_TRUE((*looks)[1].error);
  EXPECT_EQ((*looks)[1].error->code, Code::kDenied);
}

TEST_F(TableLooks, ACatalogThatIsDownIsNotAskedForEveryTable) {
  Create();
  for (int i = 0; i < 30; ++i) {
    Also(ident_.namespace_parts, "t" + std::to_string(100 + i));
    moody_.errors["t" + std::to_string(100 + i)] = Code::kTransient;
  }
  const auto looks = Look();
  ASSERT_FALSE(looks);
  EXPECT_EQ(looks.error().code, Code::kTransient);
}

TEST_F(TableLooks, BoundsAndStops) {
  Create();
  Also(ident_.namespace_parts, "t2");
  request_.tables_max = 1;
  EXPECT_EQ(Look().error().code, Code::kLimit);
  request_.tables_max = 10;
  moody_.no_namespaces = true;
  EXPECT_EQ(Look().error().code, Code::kDenied);
  moody_.no_namespaces = false;
  cancel_.Request();
  EXPECT_EQ(Look().error().code, Code::kCancelled);
}

}  // namespace
}  // namespace lithify::job
