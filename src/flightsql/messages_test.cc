#include "flightsql/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lithify::flightsql {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
T RoundTrip(const T& command) {
  const auto parsed = ParseCommand(PackCommand(command));
  EXPECT_TRUE(parsed) << parsed.error().ToString();
  return parsed ? std::get<T>(*parsed) : T();
}

// Field numbers and type URLs as another writer has them: pyarrow's and the drivers' are tested in
// tests/services; this one is written out by hand.
TEST(Messages, StatementQueryAsBytes) {
  const std::string url = "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery";
  std::string bytes = "\x0a";
  bytes += static_cast<char>(url.size());
  bytes += url + "\x12\x0a" + "\x0a\x08SELECT 1";
  EXPECT_EQ(PackCommand(StatementQuery{.query = "SELECT 1"}), bytes);
  const auto parsed = ParseCommand(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<StatementQuery>(*parsed).query, "SELECT 1");
}

TEST(Messages, CommandsComeBack) {
  EXPECT_EQ(RoundTrip(StatementUpdate{.query = "CALL x"}).query, "CALL x");
  EXPECT_EQ(RoundTrip(PreparedQuery{.handle = std::string("\0\xff", 2)}).handle,
            std::string("\0\xff", 2));
  EXPECT_EQ(RoundTrip(PreparedUpdate{.handle = "h"}).handle, "h");
  EXPECT_EQ(RoundTrip(StatementTicket{.handle = "t"}).handle, "t");
  EXPECT_THAT(RoundTrip(GetSqlInfo{.info = {0, 508, 10'000}}).info, ElementsAre(0, 508, 10'000));
  EXPECT_EQ(RoundTrip(GetXdbcTypeInfo{.data_type = -5}).data_type, -5);
  EXPECT_EQ(RoundTrip(GetXdbcTypeInfo()).data_type, std::nullopt);
  RoundTrip(GetCatalogs());
  RoundTrip(GetTableTypes());
  // An empty catalog is another question than no catalog.
  const auto schemas = RoundTrip(GetDbSchemas{.catalog = "", .schema_pattern = std::nullopt});
  EXPECT_EQ(schemas.catalog, "");
  EXPECT_EQ(schemas.schema_pattern, std::nullopt);
  const auto tables = RoundTrip(GetTables{.catalog = std::nullopt,
                                          .schema_pattern = "s%",
                                          .table_pattern = "o_ders",
                                          .table_types = {"TABLE", "VIEW"},
                                          .include_schema = true});
  EXPECT_EQ(tables.catalog, std::nullopt);
  EXPECT_EQ(tables.schema_pattern, "s%");
  EXPECT_EQ(tables.table_pattern, "o_ders");
  EXPECT_THAT(tables.table_types, ElementsAre("TABLE", "VIEW"));
  EXPECT_TRUE(tables.include_schema);
  for (const auto kind : {GetKeys::Kind::kPrimary, GetKeys::Kind::kExported,
                          GetKeys::Kind::kImported, GetKeys::Kind::kCross}) {
    const auto keys = RoundTrip(GetKeys{.kind = kind, .table = "t"});
    EXPECT_EQ(keys.kind, kind);
    EXPECT_EQ(keys.table, "t");
  }
}

TEST(Messages, ActionsComeBack) {
  EXPECT_EQ(ParseCreatePrepared(PackCreatePrepared("SELECT 1")).value(), "SELECT 1");
  EXPECT_EQ(ParseClosePrepared(PackClosePrepared("h")).value(), "h");
  const auto prepared =
      ParsePrepared(PackPrepared({.handle = "h", .dataset_schema = "d", .parameter_schema = "p"}));
  ASSERT_TRUE(prepared);
  EXPECT_EQ(prepared->handle + prepared->dataset_schema + prepared->parameter_schema, "hdp");
  EXPECT_EQ(ParseUpdateCount(PackUpdateCount(-1)).value(), -1);
  // One action's body is not another's.
  EXPECT_EQ(ParseClosePrepared(PackCreatePrepared("x")).error().code, Code::kInvalid);
}

TEST(Messages, WhatIsNotKnownIsNamed) {
  const std::string url = "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementIngest";
  std::string bytes = "\x0a";
  bytes += static_cast<char>(url.size());
  bytes += url;
  const auto parsed = ParseCommand(bytes);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::kUnsupported);
  EXPECT_THAT(parsed.error().message, HasSubstr("CommandStatementIngest"));
}

TEST(Messages, TransactionsAreRefused) {
  const std::string url = "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery";
  std::string bytes = "\x0a";
  bytes += static_cast<char>(url.size());
  bytes += url + "\x12\x06" + "\x0a\x01x" + "\x12\x01t";
  const auto parsed = ParseCommand(bytes);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::kUnsupported);
  EXPECT_THAT(parsed.error().message, HasSubstr("transactions"));
}

TEST(Messages, StrangeBytesAreErrors) {
  EXPECT_EQ(ParseCommand("").error().code, Code::kInvalid);
  EXPECT_EQ(ParseCommand("SELECT 1").error().code, Code::kInvalid);
  EXPECT_EQ(ParseCommand(std::string(kMessageBytesMax + 1, 'x')).error().code, Code::kInvalid);
  // Every cut and many single changes of a good one: an error or another command, nothing worse.
  const std::string good = PackCommand(GetTables{.catalog = "lake",
                                                 .schema_pattern = "s",
                                                 .table_pattern = "t",
                                                 .table_types = {"TABLE"},
                                                 .include_schema = true});
  size_t refused = 0;
  for (size_t cut = 0; cut < good.size(); ++cut)
    refused += ParseCommand(good.substr(0, cut)) ? 0 : 1;
  EXPECT_GT(refused, good.size() / 2);
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    static_cast<void>(ParseCommand(bad));
  }
}

}  // namespace
}  // namespace lithify::flightsql
