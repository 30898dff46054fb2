// The REST client against a real server: Iceberg's own servlet (iceberg_rest.sh).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "catalog/rest_catalog.h"

namespace lithify::catalog {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class RestService : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ =
        std::filesystem::temp_directory_path() / ("lithify-rest-" + std::to_string(getpid()));
    uri_ = Run("start '" + directory_.string() + "'");
    ASSERT_TRUE(uri_.starts_with("http://127.0.0.1:")) << "the service did not start: " << uri_;
    net::HttpOptions options;
    options.proxy = "";
    http_ = std::move(net::OpenHttpClient(options).value());
    Post("/v1/namespaces", R"({"namespace":["sales"]})");
    Post("/v1/namespaces", R"({"namespace":["sales","e u"]})");
    for (const char* name : {"orders", "returns", "claims"}) {
      Post("/v1/namespaces/sales%1Fe%20u/tables",
           R"({"name":")" + std::string(name) +
               R"(","schema":{"type":"struct","fields":)"
               R"([{"id":1,"name":"x","required":true,"type":"long"}]},)"
               R"("properties":{"format-version":"2"}})");
    }
    RestOptions rest;
    rest.uri = uri_;
    rest.page_size = 2;
    auto opened = OpenRestCatalog(rest, *http_, nullptr, clock_, random_);
    ASSERT_TRUE(opened) << opened.error().ToString();
    catalog_ = std::move(*opened);
  }
  static void TearDownTestSuite() {
    catalog_.reset();
    http_.reset();
    Run("stop '" + directory_.string() + "'");
    std::filesystem::remove_all(directory_);
  }

  // The script's output without the line's end.
  static std::string Run(const std::string& arguments) {
    std::FILE* pipe = popen(("'" LITHIFY_REST_SERVICE "' " + arguments).c_str(), "r");
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    pclose(pipe);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }
  static void Post(const std::string& path, const std::string& body) {
    net::HttpRequest request;
    request.method = net::HttpMethod::kPost;
    request.url = uri_ + path;
    request.headers = {{"Content-Type", "application/json"}};
    request.body = body;
    const auto response = http_->Send(request, net::HttpLimits(seconds(10), seconds(60), 1 << 24));
    ASSERT_TRUE(response) << response.error().ToString();
    ASSERT_EQ(response->status, 200) << response->body;
  }

  static inline std::filesystem::path directory_;
  static inline std::string uri_;
  static inline std::unique_ptr<net::HttpClient> http_;
  static inline SystemClock clock_;
  static inline SystemRandom random_;
  static inline std::unique_ptr<Catalog> catalog_;
};

const TableIdent kOrders{{"sales", "e u"}, "orders"};

std::vector<table::TableRequirement> Uuid(const LoadedTable& loaded) {
  return {table::AssertTableUuid{loaded.metadata.table_uuid}};
}

TEST_F(RestService, ListsNamespacesAndTablesOverPages) {
  EXPECT_THAT(catalog_->ListNamespaces({}).value(), testing::Contains(ElementsAre("sales")));
  EXPECT_THAT(catalog_->ListNamespaces({"sales"}).value(),
              ElementsAre(ElementsAre("sales", "e u")));
  const auto tables = catalog_->ListTables({"sales", "e u"});
  ASSERT_TRUE(tables) << tables.error().ToString();
  ASSERT_EQ(tables->size(), 3u);
  EXPECT_EQ(tables->at(0).name, "claims");
  EXPECT_EQ(tables->at(1).name, "orders");
  EXPECT_EQ(tables->at(2).name, "returns");
}

TEST_F(RestService, LoadsATable) {
  const auto loaded = catalog_->LoadTable(kOrders);
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_THAT(loaded->metadata_location, HasSubstr("/metadata/0000"));
  EXPECT_EQ(loaded->metadata.schema().fields.at(0).name, "x");
  EXPECT_EQ(loaded->metadata.format_version, 2);
}

TEST_F(RestService, CommitsAndSeesIt) {
  const auto before = catalog_->LoadTable({{"sales", "e u"}, "returns"});
  ASSERT_TRUE(before) << before.error().ToString();
  const std::vector<table::TableUpdate> updates{table::SetProperties{{{"lithify.test", "1"}}}};
  const auto after = catalog_->CommitTable(before->ident, Uuid(*before), updates);
  ASSERT_TRUE(after) << after.error().ToString();
  EXPECT_NE(after->metadata_location, before->metadata_location);
  EXPECT_EQ(after->metadata.properties.at("lithify.test"), "1");
  const auto again = catalog_->LoadTable(before->ident);
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(again->metadata_location, after->metadata_location);
}

// R115: a requirement that does not hold is a conflict, and nothing changes.
TEST_F(RestService, RequirementsThatDoNotHoldAreConflicts) {
  const auto before = catalog_->LoadTable(kOrders);
  ASSERT_TRUE(before) << before.error().ToString();
  const std::vector<table::TableUpdate> updates{table::SetProperties{{{"never", "1"}}}};
  const std::vector<table::TableRequirement> wrong[] = {
      {table::AssertTableUuid{"11111111-2222-3333-4444-555555555555"}},
      {table::AssertRefSnapshotId{"main", 7}},
      {table::AssertCurrentSchemaId{99}},
      {table::AssertDefaultSpecId{99}},
      {table::AssertDefaultSortOrderId{99}},
  };
  for (const auto& requirements : wrong) {
    const auto after = catalog_->CommitTable(kOrders, requirements, updates);
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, Code::kConflict) << after.error().ToString();
  }
  EXPECT_EQ(catalog_->LoadTable(kOrders)->metadata_location, before->metadata_location);
}

// I35: the server's own words for a snapshot that lost a race, which have no requirement to blame.
TEST_F(RestService, SnapshotThatLostARaceIsAConflict) {
  const auto snapshot = [](int64_t id, int64_t sequence_number) {
    iceberg::Snapshot s;
    s.snapshot_id = id;
    s.sequence_number = sequence_number;
    s.timestamp_ms = 4'000'000'000'000;
    s.manifest_list = "file:///nowhere/snap-" + std::to_string(id) + ".avro";
    s.summary = {{"operation", "replace"}};
    s.schema_id = 0;
    return s;
  };
  const TableIdent claims{{"sales", "e u"}, "claims"};
  const auto loaded = catalog_->LoadTable(claims);
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  const auto add = [&](iceberg::Snapshot s) {
    iceberg::SnapshotRef ref;
    ref.snapshot_id = s.snapshot_id;
    return std::vector<table::TableUpdate>{table::AddSnapshot{std::move(s)},
                                           table::SetSnapshotRef{"main", ref}};
  };
  const auto first = catalog_->CommitTable(claims, Uuid(*loaded), add(snapshot(11, 1)));
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ(first->metadata.current_snapshot_id, 11);
  iceberg::Snapshot late = snapshot(12, 1);
  late.parent_snapshot_id = 11;
  const auto second = catalog_->CommitTable(claims, Uuid(*loaded), add(late));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict) << second.error().ToString();
}

TEST_F(RestService, MakesNamespacesAndTables) {
  const std::vector<std::string> made = {"made by", "us"};
  TableDraft draft;
  iceberg::Field key;
  key.id = 1;
  key.name = "key";
  key.required = true;
  key.type.kind = iceberg::TypeKind::kString;
  iceberg::Field at = key;
  at.id = 2;
  at.name = "at";
  at.type.kind = iceberg::TypeKind::kLong;
  draft.schema.fields = {key, at};
  draft.spec.fields = {{{2}, 1000, "at_trunc", "truncate[100]"}};
  draft.properties = {{"format-version", "2"}, {"owner", "me"}};
  const TableIdent ident{made, "log"};
  const auto first = catalog_->CreateNamespace(made, {{"a", "b"}});
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_TRUE(*first);
  EXPECT_EQ(catalog_->CreateNamespace(made, {}).value(), false);
  const auto table = catalog_->CreateTable(ident, draft);
  ASSERT_TRUE(table) << table.error().ToString();
  const LoadedTable loaded = catalog_->LoadTable(ident).value();
  EXPECT_EQ(loaded.metadata_location, table->metadata_location);
  EXPECT_EQ(loaded.metadata.schema(), draft.schema);
  EXPECT_EQ(loaded.metadata.FindSpec(loaded.metadata.default_spec_id)->fields, draft.spec.fields);
  EXPECT_EQ(loaded.metadata.Property("owner", ""), "me");
  EXPECT_EQ(loaded.metadata.current_snapshot_id, std::nullopt);
  const auto second = catalog_->CreateTable(ident, draft);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kConflict) << second.error().ToString();
}

TEST_F(RestService, AbsentTablesAndNamespaces) {
  EXPECT_EQ(catalog_->LoadTable({{"sales", "e u"}, "none"}).error().code, Code::kNotFound);
  EXPECT_EQ(catalog_->LoadTable({{"none"}, "none"}).error().code, Code::kNotFound);
  EXPECT_EQ(catalog_->ListTables({"none"}).error().code, Code::kNotFound);
  const std::vector<table::TableUpdate> updates{table::SetProperties{{{"a", "b"}}}};
  EXPECT_EQ(catalog_->CommitTable({{"sales"}, "none"}, {}, updates).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace lithify::catalog
