#include "catalog/rest_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "catalog/rest_answers.h"
#include "net/scripted_server.h"

namespace lithify::catalog {
namespace {

using net::Answer;
using net::ScriptedAnswer;
using net::ScriptedRequest;
using net::ScriptedServer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Then = ScriptedAnswer::Then;
using Headers = std::vector<std::pair<std::string, std::string>>;

// Time passes only in Sleep, which is noted.
class ManualClock final : public Clock {
 public:
  Time Now() const override { return Time{seconds(1'700'000'000)} + slept_; }
  Duration Monotonic() const override { return slept_; }
  void Sleep(Duration d) override {
    slept_ += d;
    sleeps.push_back(d);
  }
  std::vector<Duration> sleeps;

 private:
  Duration slept_{0};
};

// Gives "token-1", after a refusal "token-2", and so on.
class CountedTokens final : public net::TokenSource {
 public:
  Result<Secret> Token() override {
    if (fail) return Fail(*fail);
    return Secret("token-" + std::to_string(number));
  }
  Status Invalidate(const Secret& token) override {
    if (!renewable) return Fail(Code::kDenied, "no other");
    if (token.Reveal() == "token-" + std::to_string(number)) ++number;
    return {};
  }
  int number = 1;
  bool renewable = true;
  std::optional<Error> fail;
};

// As Polaris answers GET /v1/config.
constexpr char kPolarisConfig[] = R"({
  "defaults": {"default-base-location": "s3://lake/", "s3.region": "eu-west-1"},
  "overrides": {"prefix": "lake"},
  "endpoints": [
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"
  ]})";

constexpr char kMetadata[] =
    R"({"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1",)"
    R"("location":"s3://lake/sales/orders","last-sequence-number":34,)"
    R"("last-updated-ms":1602638573590,"last-column-id":1,"current-schema-id":0,)"
    R"("schemas":[{"type":"struct","schema-id":0,"fields":)"
    R"([{"id":1,"name":"x","required":true,"type":"long"}]}],)"
    R"("default-spec-id":0,"partition-specs":[{"spec-id":0,"fields":[]}],)"
    R"("last-partition-id":999,"default-sort-order-id":0,)"
    R"("sort-orders":[{"order-id":0,"fields":[]}],"properties":{"odd \"}{":"\\"},)"
    R"("current-snapshot-id":-1,"snapshots":[],"unknown-member":12345678901234567890})";

std::string TableBody(const std::string& more = {}) {
  return R"({"metadata-location":"s3://lake/sales/orders/metadata/00003-a.metadata.json",)"
         R"("metadata":)" +
         std::string(kMetadata) + more + "}";
}

std::string ErrorBody(const std::string& type, const std::string& message, int code) {
  return R"({"error":{"message":")" + message + R"(","type":")" + type + R"(","code":)" +
         std::to_string(code) + "}}";
}

const TableIdent kOrders{{"sales"}, "orders"};
constexpr char kOrdersPath[] = "/api/catalog/v1/lake/namespaces/sales/tables/orders";

// A catalog on a server that answers GET /v1/config with `config` and then plays `answers`.
struct World {
  explicit World(std::vector<ScriptedAnswer> script = {}, std::string config = kPolarisConfig)
      : answers(script.begin(), script.end()), server([this, config](const ScriptedRequest& r) {
          if (r.target.starts_with("/api/catalog/v1/config")) return Answer(200, config);
          std::lock_guard lock(mutex);
          if (answers.empty()) return Answer(599, "the script is at its end");
          ScriptedAnswer answer = answers.front();
          answers.pop_front();
          return answer;
        }) {
    net::HttpOptions http_options;
    http_options.proxy = "";
    http_options.stop = [this] { return stop.load(); };
    http_options.stop_grace = milliseconds(100);
    http_options.publish_stop_grace = milliseconds(500);
    http = std::move(net::OpenHttpClient(http_options).value());
    options.uri = server.Url("/api/catalog/");
    options.warehouse = "lake";
    options.headers = {{"Polaris-Realm", "test"}};
    options.read_timeout = seconds(5);
    options.commit_timeout = seconds(5);
  }
  // Limits by which a test would hang.
  void BePatient() {
    options.read_timeout = seconds(900);
    options.commit_timeout = seconds(900);
    options.stop = [this] { return stop.load(); };
  }
  Result<std::unique_ptr<Catalog>> Open() {
    return OpenRestCatalog(options, *http, &tokens, clock, random);
  }
  Catalog& catalog() {
    if (!catalog_) {
      auto opened = Open();
      if (!opened) throw std::runtime_error(opened.error().ToString());
      catalog_ = std::move(*opened);
    }
    return *catalog_;
  }
  // What came after the configuration was read.
  std::vector<ScriptedRequest> Requests() const {
    std::vector<ScriptedRequest> out;
    for (auto& request : server.Requests()) {
      if (!request.target.starts_with("/api/catalog/v1/config")) out.push_back(request);
    }
    return out;
  }
  Result<LoadedTable> Commit() {
    const std::vector<table::TableRequirement> requirements{
        table::AssertTableUuid{"9c12d441-03fe-4693-9a96-a0705ddf69c1"},
        table::AssertRefSnapshotId{"main", std::nullopt}};
    const std::vector<table::TableUpdate> updates{table::SetProperties{{{"a", "b"}}}};
    return catalog().CommitTable(kOrders, requirements, updates);
  }

  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::deque<ScriptedAnswer> answers;
  ScriptedServer server;
  std::unique_ptr<net::HttpClient> http;
  CountedTokens tokens;
  ManualClock clock;
  SeededRandom random{7};
  RestOptions options;

 private:
  std::unique_ptr<Catalog> catalog_;
};

// --- what is new ---------------------------------------------------------------------------------

constexpr char kCreatingConfig[] = R"({"overrides":{"prefix":"lake"}})";

TableDraft Draft() {
  TableDraft draft;
  iceberg::Field field;
  field.id = 1;
  field.name = "x";
  field.required = true;
  field.type.kind = iceberg::TypeKind::kLong;
  draft.schema.fields = {field};
  draft.spec.fields = {{{1}, 1000, "x_trunc", "truncate[10]"}};
  draft.properties = {{"format-version", "2"}};
  return draft;
}

TEST(RestCreate, ANamespaceThatIsThereIsToldApart) {
  World world(
      {Answer(200, R"({"namespace":["ops","log"],"properties":{}})"),
       Answer(409, ErrorBody("AlreadyExistsException", "exists", 409)),
       Answer(403, ErrorBody("ForbiddenException", "CREATE_NAMESPACE", 403)), Answer(503, "{}")},
      kCreatingConfig);
  EXPECT_EQ(world.catalog().CreateNamespace({"ops", "log"}, {{"a", "b"}}).value(), true);
  EXPECT_EQ(world.catalog().CreateNamespace({"ops", "log"}, {}).value(), false);
  EXPECT_EQ(world.catalog().CreateNamespace({"ops"}, {}).error().code, Code::kDenied);
  EXPECT_EQ(world.catalog().CreateNamespace({"ops"}, {}).error().code, Code::kUnknownOutcome);
  EXPECT_EQ(world.catalog().CreateNamespace({""}, {}).error().code, Code::kInvalid);
  const auto requests = world.Requests();
  ASSERT_EQ(requests.size(), 4);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].target, "/api/catalog/v1/lake/namespaces");
  EXPECT_EQ(requests[0].body, R"({"namespace":["ops","log"],"properties":{"a":"b"}})");
}

TEST(RestCreate, ATableIsMadeNotStaged) {
  World world({Answer(200, TableBody())}, kCreatingConfig);
  const auto made = world.catalog().CreateTable(kOrders, Draft());
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_EQ(made->metadata.location, "s3://lake/sales/orders");
  const auto requests = world.Requests();
  ASSERT_EQ(requests.size(), 1);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].target, "/api/catalog/v1/lake/namespaces/sales/tables");
  EXPECT_EQ(
      requests[0].body,
      R"({"name":"orders","schema":{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"x",)"
      R"("required":true,"type":"long"}]},"partition-spec":{"spec-id":0,"fields":[{"name":)"
      R"("x_trunc","transform":"truncate[10]","source-id":1,"field-id":1000}]},"write-order":)"
      R"({"order-id":0,"fields":[]},"stage-create":false,"properties":{"format-version":"2"}})");
}

TEST(RestCreate, OutcomesOfATable) {
  const std::vector<std::pair<ScriptedAnswer, Code>> cases = {
      {Answer(409, ErrorBody("AlreadyExistsException", "exists", 409)), Code::kConflict},
      {Answer(404, ErrorBody("NoSuchNamespaceException", "none", 404)), Code::kNotFound},
      {Answer(403, ErrorBody("ForbiddenException", "no", 403)), Code::kDenied},
      {Answer(400, ErrorBody("BadRequestException", "no", 400)), Code::kInvalid},
      {Answer(502, "{}"), Code::kUnknownOutcome},
      {Answer(200, "{}"), Code::kUnknownOutcome}};
  for (const auto& [answer, code] : cases) {
    World world({answer}, kCreatingConfig);
    const auto made = world.catalog().CreateTable(kOrders, Draft());
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, code) << made.error().ToString();
    EXPECT_EQ(world.Requests().size(), 1);
  }
  World closed({}, kPolarisConfig);
  EXPECT_EQ(closed.catalog().CreateTable(kOrders, Draft()).error().code, Code::kUnsupported);
  EXPECT_EQ(closed.catalog().CreateNamespace({"a"}, {}).error().code, Code::kUnsupported);
}

// --- configuration -------------------------------------------------------------------------------

TEST(RestConfig, IsReadFirstWithWarehouseTokenAndHeaders) {
  World world;
  world.options.warehouse = "my lake";
  EXPECT_EQ(world.catalog().Describe(), world.server.Url("/api/catalog"));
  const auto request = world.server.Requests().at(0);
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.target, "/api/catalog/v1/config?warehouse=my%20lake");
  EXPECT_EQ(request.headers.at("authorization"), "Bearer token-1");
  EXPECT_EQ(request.headers.at("polaris-realm"), "test");
}

TEST(RestConfig, DefaultsThenClientThenOverrides) {
  const auto config = rest::ParseConfig(
      R"({"defaults":{"a":"1","b":"1","c":"1","token":"t"},"overrides":{"c":"3","n":7,"z":null}})",
      "https://host/x", {{"b", "2"}, {"c", "2"}, {"credential", "id:secret"}});
  ASSERT_TRUE(config);
  EXPECT_THAT(config->properties, ElementsAre(std::pair("a", "1"), std::pair("b", "2"),
                                              std::pair("c", "3"), std::pair("n", "7")));
  EXPECT_EQ(config->prefix, "");
  EXPECT_FALSE(config->idempotency);
  EXPECT_TRUE(config->Supports("POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"));
}

TEST(RestConfig, PrefixesAndSeparators) {
  const auto config = [](const std::string& overrides) {
    return rest::ParseConfig("{\"overrides\":{" + overrides + "}}", "https://host/x", {});
  };
  EXPECT_EQ(config(R"("prefix":"/ws/a%2Fb/")")->prefix, "ws/a%2Fb/");
  EXPECT_EQ(config(R"("prefix":"my lake")")->prefix, "my%20lake/");
  for (const char* bad : {R"("prefix":"a/../b")", R"("prefix":"a//b")", R"("prefix":["a"])"}) {
    EXPECT_EQ(config(bad).error().code, Code::kCorrupt) << bad;
  }
  EXPECT_EQ(rest::EncodeNamespace(*config(""), {"a", "b c"}).value(), "a%1Fb%20c");
  EXPECT_EQ(rest::EncodeNamespace(*config(R"("namespace-separator":"%2E")"), {"a", "b"}).value(),
            "a%2Eb");
  EXPECT_EQ(rest::EncodeNamespace(*config(R"("namespace-separator":"/")"), {"a", "b"}).value(),
            "a%2Fb");
  EXPECT_EQ(rest::EncodeNamespace(*config(R"("namespace-separator":"%2E")"), {"a.b"}).error().code,
            Code::kInvalid);
  for (const std::vector<std::string>& bad : {std::vector<std::string>{},
                                              {""},
                                              {"a", ""},
                                              {"a\x1f"
                                               "b"}}) {
    EXPECT_EQ(rest::EncodeNamespace(*config(""), bad).error().code, Code::kInvalid);
  }
  EXPECT_EQ(rest::EncodeSegment(".."), "%2E%2E");
  EXPECT_EQ(rest::EncodeSegment("a/b"), "a%2Fb");
}

TEST(RestConfig, NeverLeadsToAnotherHost) {
  World world({}, R"({"defaults":{},"overrides":{"uri":"http://evil.example/api?x=1"}})");
  const auto opened = world.Open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kInvalid);
  EXPECT_THAT(opened.error().message, HasSubstr("http://evil.example/api"));
}

TEST(RestConfig, ErrorsOfOpening) {
  const auto code = [](std::string config) { return World({}, config).Open().error().code; };
  EXPECT_EQ(code("<html>"), Code::kCorrupt);
  EXPECT_EQ(code("[]"), Code::kCorrupt);
  EXPECT_EQ(code(R"({"defaults":[]})"), Code::kCorrupt);
  EXPECT_EQ(code(R"({"overrides":{"a":{}}})"), Code::kCorrupt);
  EXPECT_EQ(code(R"({"endpoints":[1]})"), Code::kCorrupt);
  World world;
  for (const char* uri : {"", "catalog", "ftp://x/", "http://u:p@x/", "http://x/?a=b"}) {
    world.options.uri = uri;
    EXPECT_EQ(world.Open().error().code, Code::kInvalid) << uri;
  }
}

// --- listings ------------------------------------------------------------------------------------

TEST(RestList, NamespacesOverPages) {
  World world({Answer(200, R"({"namespaces":[["b"],["a"]],"next-page-token":"p 2"})"),
               Answer(200, R"({"namespaces":[["c"],["a"]],"next-page-token":null})")});
  const auto namespaces = world.catalog().ListNamespaces({});
  ASSERT_TRUE(namespaces) << namespaces.error().ToString();
  EXPECT_THAT(*namespaces, ElementsAre(ElementsAre("a"), ElementsAre("b"), ElementsAre("c")));
  const auto requests = world.Requests();
  EXPECT_EQ(requests.at(0).target, "/api/catalog/v1/lake/namespaces?pageToken=&pageSize=1000");
  EXPECT_EQ(requests.at(1).target, "/api/catalog/v1/lake/namespaces?pageToken=p%202&pageSize=1000");
}

TEST(RestList, NamespacesBelowAParentOfAnyDepth) {
  World world({Answer(200, R"({"namespaces":[["a","b","c"]]})")});
  EXPECT_THAT(world.catalog().ListNamespaces({"a", "b"}).value(),
              ElementsAre(ElementsAre("a", "b", "c")));
  EXPECT_EQ(world.Requests().at(0).target,
            "/api/catalog/v1/lake/namespaces?parent=a%1Fb&pageToken=&pageSize=1000");
}

TEST(RestList, TablesOfANestedNamespace) {
  World world({Answer(200, R"({"identifiers":[{"namespace":["a","b"],"name":"y"},)"
                           R"({"namespace":["a","b"],"name":"x z"}],"next-page-token":""})")});
  const auto tables = world.catalog().ListTables({"a", "b"});
  ASSERT_TRUE(tables) << tables.error().ToString();
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ(tables->at(0).name, "x z");
  EXPECT_EQ(tables->at(1).name, "y");
  EXPECT_EQ(world.Requests().at(0).target,
            "/api/catalog/v1/lake/namespaces/a%1Fb/tables?pageToken=&pageSize=1000");
}

TEST(RestList, HostileListings) {
  const auto list = [](const std::string& body) {
    World world({Answer(200, body), Answer(200, body), Answer(200, body)});
    world.options.max_entries = 3;
    return world.catalog().ListNamespaces({"a"}).error().code;
  };
  EXPECT_EQ(list(R"({"namespaces":[["b"]]})"), Code::kCorrupt);          // Not below the parent.
  EXPECT_EQ(list(R"({"namespaces":[["a","b","c"]]})"), Code::kCorrupt);  // Not a child.
  EXPECT_EQ(list(R"({"namespaces":[["x","b"]]})"), Code::kCorrupt);
  EXPECT_EQ(list(R"({"namespaces":[["a",1]]})"), Code::kCorrupt);
  EXPECT_EQ(list(R"({"namespaces":{}})"), Code::kCorrupt);
  EXPECT_EQ(list(R"({"namespaces":[],"next-page-token":5})"), Code::kCorrupt);
  EXPECT_EQ(list(R"({"namespaces":[],"next-page-token":"x"})"), Code::kCorrupt);  // For ever.
  EXPECT_EQ(list(R"({"namespaces":[["a","1"],["a","2"],["a","3"],["a","4"]]})"), Code::kLimit);
  EXPECT_EQ(list("nonsense"), Code::kCorrupt);
  World world({Answer(200, R"({"identifiers":[{"namespace":["other"],"name":"t"}]})")});
  EXPECT_EQ(world.catalog().ListTables({"a"}).error().code, Code::kCorrupt);
}

// T4: Polaris does not let a principal with data privileges list namespaces.
TEST(RestList, DeniedKeepsThePrivilegesName) {
  World world({Answer(403, ErrorBody("ForbiddenException",
                                     "Principal 'lithify' with activated PrincipalRoles '[]' and "
                                     "activated grants via '[]' is not authorized for op "
                                     "LIST_NAMESPACES",
                                     403))});
  const auto result = world.catalog().ListNamespaces({});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kDenied);
  EXPECT_THAT(result.error().message, HasSubstr("is not authorized for op LIST_NAMESPACES"));
  EXPECT_EQ(world.Requests().size(), 1u);
}

TEST(RestList, EndpointsThatTheCatalogDoesNotOffer) {
  World world({}, R"({"endpoints":["GET /v1/{prefix}/namespaces"]})");
  EXPECT_EQ(world.catalog().LoadTable(kOrders).error().code, Code::kUnsupported);
  EXPECT_EQ(world.Commit().error().code, Code::kUnsupported);
  EXPECT_EQ(world.catalog().ListTables({"a"}).error().code, Code::kUnsupported);
  EXPECT_EQ(world.Requests().size(), 0u);
}

// --- loading -------------------------------------------------------------------------------------

TEST(RestLoad, TakesEverythingAsItIs) {
  World world(
      {Answer(200, TableBody(R"(,"config":{"s3.endpoint":"http://s3","token":"hush"},)"
                             R"("storage-credentials":[{"prefix":"s3://lake/","config":)"
                             R"({"s3.access-key-id":"AK","s3.secret-access-key":"SK"}}])"))});
  world.options.vended_credentials = true;
  const auto table = world.catalog().LoadTable(kOrders);
  ASSERT_TRUE(table) << table.error().ToString();
  EXPECT_EQ(table->metadata_location, "s3://lake/sales/orders/metadata/00003-a.metadata.json");
  EXPECT_EQ(table->metadata_text, kMetadata);  // Byte by byte.
  EXPECT_EQ(table->metadata.table_uuid, "9c12d441-03fe-4693-9a96-a0705ddf69c1");
  EXPECT_EQ(table->config.at("s3.endpoint"), "http://s3");
  EXPECT_EQ(table->config.at("s3.region"), "eu-west-1");  // The catalog's default.
  EXPECT_EQ(table->config.count("token"), 0u);
  ASSERT_EQ(table->credentials.size(), 1u);
  EXPECT_EQ(table->credentials[0].prefix, "s3://lake/");
  EXPECT_EQ(table->credentials[0].config.at("s3.secret-access-key"), "SK");
  const auto request = world.Requests().at(0);
  EXPECT_EQ(request.target, std::string(kOrdersPath) + "?snapshots=all");
  EXPECT_EQ(request.headers.at("x-iceberg-access-delegation"), "vended-credentials");
  EXPECT_EQ(request.headers.count("if-none-match"), 0u);
}

TEST(RestLoad, UnchangedTableIsNotSentAgain) {
  World world({Answer(200, TableBody(), {{"ETag", "W/\"e1\""}}), Answer(304, ""),
               Answer(200, TableBody(R"(,"config":{"new":"1"})"), {{"ETag", "W/\"e2\""}})});
  ASSERT_TRUE(world.catalog().LoadTable(kOrders));
  EXPECT_EQ(world.catalog().LoadTable(kOrders)->metadata_text, kMetadata);
  EXPECT_EQ(world.catalog().LoadTable(kOrders)->config.at("new"), "1");
  const auto requests = world.Requests();
  EXPECT_EQ(requests.at(0).headers.count("if-none-match"), 0u);
  EXPECT_EQ(requests.at(0).headers.count("x-iceberg-access-delegation"), 0u);
  EXPECT_EQ(requests.at(1).headers.at("if-none-match"), "W/\"e1\"");
  EXPECT_EQ(requests.at(2).headers.at("if-none-match"), "W/\"e1\"");
}

// I34: a kept answer would give out credentials that have run out.
// What one session of a principal has learned the next one need not be sent.
TEST(RestLoad, ACacheMayBeShared) {
  World world({Answer(200, TableBody(), {{"ETag", "\"v1\""}}), Answer(304, "")});
  world.options.cache = std::make_shared<TableCache>(TableCache::Bounds());
  const auto first = world.Open().value()->LoadTable(kOrders);
  ASSERT_TRUE(first) << first.error().ToString();
  const auto second = world.Open().value()->LoadTable(kOrders);
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ(second->metadata_text, first->metadata_text);
  EXPECT_EQ(world.Requests().at(0).headers.count("if-none-match"), 0u);
  EXPECT_EQ(world.Requests().at(1).headers.at("if-none-match"), "\"v1\"");
}

TEST(TableCache, TheLastUsedStay) {
  TableCache cache({.tables = 3, .bytes = 10});
  const auto put = [&](const std::string& name, size_t bytes) {
    LoadedTable table;
    table.ident = {{"sales"}, name};
    table.metadata_text = std::string(bytes, 'x');
    cache.Put({name, std::make_shared<const LoadedTable>(std::move(table))});
  };
  const auto has = [&](const std::string& name) {
    return cache.Find({{"sales"}, name}).has_value();
  };
  put("a", 1);
  put("b", 1);
  put("c", 1);
  EXPECT_TRUE(has("a"));
  put("d", 1);  // One too many: b was used least.
  EXPECT_FALSE(has("b"));
  EXPECT_TRUE(has("a") && has("c") && has("d"));
  put("a", 5);
  put("e", 5);
  EXPECT_TRUE(has("a") && has("e"));
  EXPECT_FALSE(has("c") || has("d"));
  put("f", 11);  // Larger than all of it.
  EXPECT_FALSE(has("f") || has("a") || has("e"));
}

TEST(RestLoad, NothingIsKeptWhenCredentialsAreVended) {
  World world({Answer(200, TableBody(), {{"ETag", "e1"}}), Answer(200, TableBody())});
  world.options.vended_credentials = true;
  ASSERT_TRUE(world.catalog().LoadTable(kOrders));
  ASSERT_TRUE(world.catalog().LoadTable(kOrders));
  EXPECT_EQ(world.Requests().at(1).headers.count("if-none-match"), 0u);
}

TEST(RestLoad, ReadRestrictionsAreRefused) {
  const auto load = [](const std::string& restrictions) {
    World world({Answer(200, TableBody(",\"read-restrictions\":" + restrictions))});
    return world.catalog().LoadTable(kOrders);
  };
  EXPECT_TRUE(load("null"));
  EXPECT_TRUE(load("{}"));
  EXPECT_TRUE(load(R"({"required-row-filter":{"type":"true"}})"));
  for (const char* some :
       {R"({"required-row-filter":{"type":"eq","term":"x","value":1}})",
        R"({"required-column-projections":[{"field-id":1}]})", R"([])", R"({"new-kind":1})"}) {
    const auto table = load(some);
    ASSERT_FALSE(table) << some;
    EXPECT_EQ(table.error().code, Code::kUnsupported) << some;
  }
}

TEST(RestLoad, BrokenAnswers) {
  const std::string location = R"("metadata-location":"s3://l/m.json")";
  for (const std::string& body :
       {std::string(), std::string("null"), std::string("{}"), "{" + location + "}",
        R"({"metadata":)" + std::string(kMetadata) + "}",
        R"({"metadata-location":null,"metadata":)" + std::string(kMetadata) + "}",
        "{" + location + R"(,"metadata":[]})", "{" + location + R"(,"metadata":{"a":1})",
        "{" + location + "," + location + R"(,"metadata":{}})", TableBody() + "x",
        TableBody(R"(,"config":[])"), TableBody(R"(,"config":{"a":[]})"),
        TableBody(R"(,"config":{"a")"), TableBody(R"(,"storage-credentials":{})"),
        TableBody(R"(,"storage-credentials":[{"config":{}}])")}) {
    World world({Answer(200, body)});
    const auto table = world.catalog().LoadTable(kOrders);
    ASSERT_FALSE(table) << body;
    EXPECT_EQ(table.error().code, Code::kCorrupt) << body << table.error().ToString();
    EXPECT_TRUE(table.error().context.starts_with("sales.orders")) << table.error().context;
  }
}

TEST(RestLoad, MetadataIsBounded) {
  World world({Answer(200, TableBody())});
  world.options.max_metadata_bytes = 100;
  EXPECT_EQ(world.catalog().LoadTable(kOrders).error().code, Code::kLimit);
}

TEST(RestLoad, NamesAreNotCutOpen) {
  World world({Answer(404, ErrorBody("NoSuchTableException", "Table does not exist", 404))});
  const Error error = world.catalog().LoadTable({{"a", "b/c"}, ".."}).error();
  EXPECT_EQ(error.code, Code::kNotFound);
  // Some catalogs answer so, too, for what the principal may not read.
  EXPECT_THAT(error.hint, HasSubstr("may not see"));
  EXPECT_EQ(world.Requests().at(0).target,
            "/api/catalog/v1/lake/namespaces/a%1Fb%2Fc/tables/%2E%2E?snapshots=all");
}

// --- retries and tokens --------------------------------------------------------------------------

TEST(RestRetry, ReadsWaitAsAsked) {
  // Two resets: libcurl itself repeats a GET whose kept connection has died.
  World world({Answer(429, "", {{"Retry-After", "7"}}),
               Answer(503, ""),
               {"", Then::kReset},
               {"", Then::kReset},
               Answer(200, TableBody())});
  ASSERT_TRUE(world.catalog().LoadTable(kOrders));
  ASSERT_EQ(world.clock.sleeps.size(), 3u);
  EXPECT_EQ(world.clock.sleeps[0], Duration(seconds(7)));
  // 200 ms doubled once, then twice; between half and all of it.
  EXPECT_GE(world.clock.sleeps[1], Duration(milliseconds(200)));
  EXPECT_LE(world.clock.sleeps[1], Duration(milliseconds(400)));
  EXPECT_GE(world.clock.sleeps[2], Duration(milliseconds(400)));
  EXPECT_LE(world.clock.sleeps[2], Duration(milliseconds(800)));
}

TEST(RestRetry, AttemptsAreBounded) {
  World world({Answer(503, ""), Answer(504, ""), Answer(502, ""), Answer(200, TableBody())});
  world.options.max_attempts = 3;
  const auto table = world.catalog().LoadTable(kOrders);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Code::kTransient);
  EXPECT_EQ(world.Requests().size(), 3u);
}

TEST(RestRetry, ALongRetryAfterEndsTheAttempts) {
  World world({Answer(503, "", {{"Retry-After", "3600"}}), Answer(200, TableBody())});
  const auto table = world.catalog().LoadTable(kOrders);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Code::kTransient);
  EXPECT_THAT(table.error().message, HasSubstr("retry after 3600"));
  EXPECT_TRUE(world.clock.sleeps.empty());
}

TEST(RestRetry, ReadErrorsByStatus) {
  const std::vector<std::pair<int, Code>> cases{
      {400, Code::kInvalid},  {401, Code::kDenied},      {403, Code::kDenied},
      {404, Code::kNotFound}, {406, Code::kUnsupported}, {419, Code::kDenied},
      {422, Code::kInvalid},  {500, Code::kTransient},   {501, Code::kUnsupported},
      {302, Code::kInvalid},  {204, Code::kCorrupt},     {599, Code::kTransient},
  };
  for (const auto& [status, code] : cases) {
    World world({Answer(status, ErrorBody("SomeException", "words", status))});
    world.tokens.renewable = false;
    const auto table = world.catalog().LoadTable(kOrders);
    ASSERT_FALSE(table) << status;
    EXPECT_EQ(table.error().code, code) << status;
    if (status != 204) {  // Which has no body.
      EXPECT_THAT(table.error().message, HasSubstr("SomeException: words")) << status;
    }
    EXPECT_EQ(world.Requests().size(), 1u) << status;
  }
}

TEST(RestToken, RefusedOnceThenRenewed) {
  for (const int status : {401, 419}) {
    World world({Answer(status, ErrorBody("NotAuthorizedException", "expired", status)),
                 Answer(200, TableBody())});
    ASSERT_TRUE(world.catalog().LoadTable(kOrders)) << status;
    EXPECT_EQ(world.Requests().at(0).headers.at("authorization"), "Bearer token-1");
    EXPECT_EQ(world.Requests().at(1).headers.at("authorization"), "Bearer token-2");
  }
}

TEST(RestToken, RefusedTwiceIsDeniedAndHidden) {
  World world({Answer(401, "{}"),
               Answer(401, ErrorBody("NotAuthorizedException", "bad token token-2!", 401))});
  const auto table = world.catalog().LoadTable(kOrders);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, Code::kDenied);
  EXPECT_THAT(table.error().message, HasSubstr("bad token ***!"));
  EXPECT_EQ(world.Requests().size(), 2u);
}

TEST(RestToken, NoTokenMeansNotSent) {
  World world;
  world.catalog();
  world.tokens.fail = Error{Code::kUnknownOutcome, "lost", {}, {}};
  const auto committed = world.Commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, Code::kTransient);  // The commit itself did not go out.
  world.tokens.fail = Error{Code::kDenied, "no", {}, {}};
  EXPECT_EQ(world.Commit().error().code, Code::kDenied);
  EXPECT_EQ(world.Requests().size(), 0u);
}

// --- commits -------------------------------------------------------------------------------------

TEST(RestCommit, SendsRequirementsAndUpdates) {
  World world({Answer(200, TableBody())});
  const auto table = world.Commit();
  ASSERT_TRUE(table) << table.error().ToString();
  EXPECT_EQ(table->metadata_location, "s3://lake/sales/orders/metadata/00003-a.metadata.json");
  EXPECT_EQ(table->metadata_text, kMetadata);
  const auto request = world.Requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, kOrdersPath);
  EXPECT_EQ(request.headers.at("content-type"), "application/json");
  EXPECT_EQ(request.headers.count("idempotency-key"), 0u);
  EXPECT_THAT(request.body, HasSubstr("assert-ref-snapshot-id"));
  EXPECT_THAT(request.body, HasSubstr("set-properties"));
}

TEST(RestCommit, IdempotencyKeyWhereTheCatalogKnowsIt) {
  World world({Answer(200, TableBody()), Answer(200, TableBody())},
              R"({"overrides":{"prefix":"lake"},"idempotency-key-lifetime":"PT30M"})");
  ASSERT_TRUE(world.Commit());
  ASSERT_TRUE(world.Commit());
  const std::string first = world.Requests().at(0).headers.at("idempotency-key");
  EXPECT_TRUE(UuidV7Time(first)) << first;
  EXPECT_NE(first, world.Requests().at(1).headers.at("idempotency-key"));
}

struct CommitCase {
  int status;
  const char* type;
  const char* message;
  Code code;
};

// I35, R115, R302, with the words of Iceberg's server and of Polaris.
TEST(RestCommit, AnswersByMeaning) {
  const std::vector<CommitCase> cases{
      {409, "CommitFailedException",
       "Requirement failed: branch main has changed: expected id 1 != 2", Code::kConflict},
      {409, "CommitConflictException", "Cannot commit: base changed", Code::kConflict},
      {412, "", "", Code::kConflict},
      {400, "ValidationException",
       "Cannot add snapshot with sequence number 5 older than last sequence number 5",
       Code::kConflict},
      {400, "RetryableValidationException", "anything", Code::kConflict},
      {400, "ValidationException",
       "Cannot add a snapshot, first-row-id is behind table next-row-id: 1 < 2", Code::kConflict},
      {400, "BadRequestException", "Cannot parse update", Code::kInvalid},
      {422, "UnprocessableEntityException", "no", Code::kInvalid},
      {405, "", "", Code::kInvalid},
      {401, "NotAuthorizedException", "no", Code::kDenied},
      {419, "AuthenticationTimeoutException", "late", Code::kDenied},
      {403, "ForbiddenException", "Principal 'lithify' is not authorized for op UPDATE_TABLE",
       Code::kDenied},
      {404, "NoSuchTableException", "Table does not exist: sales.orders", Code::kNotFound},
      {406, "UnsupportedOperationException", "no", Code::kUnsupported},
      {501, "", "", Code::kUnsupported},
      {408, "TimeoutException", "late", Code::kUnknownOutcome},
      {429, "", "", Code::kUnknownOutcome},
      {500, "CommitStateUnknownException", "Internal Server Error", Code::kUnknownOutcome},
      {500, "", "", Code::kUnknownOutcome},
      {502, "", "", Code::kUnknownOutcome},
      {503, "ServiceUnavailableException", "", Code::kUnknownOutcome},
      {504, "", "", Code::kUnknownOutcome},
      {599, "", "", Code::kUnknownOutcome},
      {303, "", "", Code::kUnknownOutcome},
      {400, "CommitStateUnknownException", "odd", Code::kUnknownOutcome},
  };
  for (const CommitCase& c : cases) {
    const bool words = *c.type != 0;
    World world({Answer(c.status, words ? ErrorBody(c.type, c.message, c.status) : "<html>")});
    world.tokens.renewable = false;
    const auto table = world.Commit();
    ASSERT_FALSE(table) << c.status << c.type;
    EXPECT_EQ(table.error().code, c.code) << c.status << " " << c.type << " " << c.message;
    EXPECT_THAT(table.error().message, HasSubstr(c.message)) << c.status;
    EXPECT_THAT(table.error().message, Not(HasSubstr("<html>"))) << c.status;
    EXPECT_THAT(table.error().context, HasSubstr(kOrdersPath)) << c.status;
    // Whatever it was, it is not sent again.
    EXPECT_EQ(world.Requests().size(), 1u) << c.status;
    EXPECT_TRUE(world.clock.sleeps.empty()) << c.status;
  }
}

// R023: whether we may is asked with a commit of nothing.
TEST(RestCommit, AskingWhetherWeMayChangesNothing) {
  const std::vector<std::pair<int, std::optional<Code>>> cases{
      {200, std::nullopt},     {409, std::nullopt},     {400, std::nullopt},
      {406, std::nullopt},     {403, Code::kDenied},    {401, Code::kDenied},
      {404, Code::kNotFound},  {500, Code::kTransient}, {503, Code::kTransient},
      {429, Code::kTransient},
  };
  for (const auto& [status, code] : cases) {
    World world({Answer(200, TableBody()),
                 Answer(status, status == 200 ? TableBody() : ErrorBody("X", "Why", status))});
    world.tokens.renewable = false;
    const auto table = world.catalog().LoadTable(kOrders);
    ASSERT_TRUE(table) << table.error().ToString();
    const Status may = world.catalog().CheckMayWrite(*table);
    EXPECT_EQ(may ? std::nullopt : std::optional(may.error().code), code) << status;
    const auto request = world.Requests().at(1);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, kOrdersPath);
    EXPECT_THAT(request.body, HasSubstr(R"("updates":[])"));
    EXPECT_THAT(request.body, HasSubstr("9c12d441-03fe-4693-9a96-a0705ddf69c1"));
    EXPECT_EQ(world.Requests().size(), 2u) << status;
  }
}

TEST(RestCommit, LostAnswersAreUnknown) {
  const std::vector<std::pair<const char*, ScriptedAnswer>> cases{
      {"reset", {"", Then::kReset}},
      {"closed", {"", Then::kClose}},
      {"half", {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"metadata", Then::kClose}},
      {"silence", {"", Then::kHang}},
      {"no JSON", Answer(200, "done")},
      {"no metadata", Answer(200, "{}")},
      {"nothing", Answer(204, "")},
      {"broken metadata", Answer(200, R"({"metadata-location":"s3://x","metadata":{}})")},
  };
  for (const auto& [name, answer] : cases) {
    World world({answer, Answer(200, TableBody())});
    world.options.commit_timeout = milliseconds(300);
    const auto table = world.Commit();
    ASSERT_FALSE(table) << name;
    EXPECT_EQ(table.error().code, Code::kUnknownOutcome) << name << table.error().ToString();
    EXPECT_EQ(world.Requests().size(), 1u) << name;
  }
}

TEST(RestCommit, AnswerThatIsTooLargeIsUnknown) {
  World world({Answer(200, TableBody())});
  world.options.max_metadata_bytes = 100;
  EXPECT_EQ(world.Commit().error().code, Code::kUnknownOutcome);
}

// Lets requests through but for the next `refusals`, which fail before anything is sent.
class RefusingHttp final : public net::HttpClient {
 public:
  explicit RefusingHttp(net::HttpClient& http) : http_(http) {}
  Result<net::HttpResponse> Send(const net::HttpRequest& request,
                                 const net::HttpLimits& limits) override {
    if (refusals > 0) {
      --refusals;
      return Fail(Code::kTransient, "not sent");
    }
    return http_.Send(request, limits);
  }
  int refusals = 0;

 private:
  net::HttpClient& http_;
};

// --- a stop --------------------------------------------------------------------------------------

TEST(RestStop, ReadsThatHangAreGivenUp) {
  World world({{"", Then::kHang}});
  world.BePatient();
  world.catalog();
  std::jthread stopping([&] {
    while (world.Requests().empty()) std::this_thread::yield();
    world.stop = true;
  });
  EXPECT_EQ(world.catalog().LoadTable(kOrders).error().code, Code::kCancelled);
  // Nor is it asked again.
  EXPECT_EQ(world.Commit().error().code, Code::kCancelled);
  EXPECT_EQ(world.Requests().size(), 1u);
}

TEST(RestStop, R115ACommitHasItsGraceAndIsInDoubtAfterThat) {
  ScriptedAnswer late = Answer(200, TableBody());
  late.before = milliseconds(200);
  World world({late, {"", Then::kHang}});
  world.BePatient();
  world.catalog();
  std::jthread stopping([&] {
    while (world.Requests().empty()) std::this_thread::yield();
    world.stop = true;
  });
  const auto committed = world.Commit();
  ASSERT_TRUE(committed) << committed.error().ToString();
  EXPECT_EQ(world.Commit().error().code, Code::kUnknownOutcome);
  EXPECT_EQ(world.Requests().size(), 2u);
  EXPECT_EQ(world.Commit().error().code, Code::kCancelled);
  EXPECT_EQ(world.Requests().size(), 2u);
}

TEST(RestStop, PausesEnd) {
  World world(
      {Answer(503, "", {{"Retry-After", "20"}}), Answer(503, ""), Answer(200, TableBody())});
  world.BePatient();
  world.catalog();
  world.stop = true;
  EXPECT_TRUE(world.catalog().LoadTable(kOrders));
  EXPECT_TRUE(world.clock.sleeps.empty());
}

TEST(RestCommit, NeverSentIsTriedAgainThenTransient) {
  World world({Answer(200, TableBody()), {"", Then::kReset}});
  RefusingHttp http(*world.http);
  auto catalog =
      OpenRestCatalog(world.options, http, &world.tokens, world.clock, world.random).value();
  const std::vector<table::TableUpdate> updates{table::SetProperties{{{"a", "b"}}}};
  http.refusals = 2;
  EXPECT_TRUE(catalog->CommitTable(kOrders, {}, updates));
  EXPECT_EQ(world.clock.sleeps.size(), 2u);
  EXPECT_EQ(world.Requests().size(), 1u);
  http.refusals = 1;  // Then it is sent, and its answer is lost.
  EXPECT_EQ(catalog->CommitTable(kOrders, {}, updates).error().code, Code::kUnknownOutcome);
  EXPECT_EQ(world.Requests().size(), 2u);
  http.refusals = 5;
  EXPECT_EQ(catalog->CommitTable(kOrders, {}, updates).error().code, Code::kTransient);
  EXPECT_EQ(http.refusals, 0);
  EXPECT_EQ(world.Requests().size(), 2u);
}

TEST(RestCommit, TokenIsRenewedOnce) {
  World world({Answer(401, "{}"), Answer(200, TableBody())});
  ASSERT_TRUE(world.Commit());
  const auto requests = world.Requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].body, requests[1].body);
  EXPECT_EQ(requests[1].headers.at("authorization"), "Bearer token-2");
}

// --- SplitObject ---------------------------------------------------------------------------------

TEST(SplitObject, CutsMembersAsTheyAreWritten) {
  const auto members = rest::SplitObject(
      " { \"a\" : { \"x\":\"}\\\"{\" } ,\"b\\n\":[1,[2]], \"c\":-1.50e+3 ,\"d\":\"q\\\\\" } \n");
  ASSERT_TRUE(members) << members.error().ToString();
  EXPECT_THAT(*members,
              ElementsAre(std::pair("a", "{ \"x\":\"}\\\"{\" }"), std::pair("b\n", "[1,[2]]"),
                          std::pair("c", "-1.50e+3"), std::pair("d", "\"q\\\\\"")));
  EXPECT_TRUE(rest::SplitObject("{}")->empty());
}

TEST(SplitObject, RefusesWhatIsNoObject) {
  for (const char* text :
       {"", "{", "[", "null", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":}", "{\"a\":,}",
        "{\"a\":1,}", "{\"a\":\"x}", "{\"a\":[1}", "{a:1}", "{\"a\":1}}", "{\"a\":1 2}",
        "{\"a\\u12\":1}", "{\"a\":1,\"a\":2}", "{,}", "{\"a\":\"\\"}) {
    EXPECT_FALSE(rest::SplitObject(text)) << text;
  }
  EXPECT_FALSE(rest::SplitObject("{\"a\":" + std::string(1'000'000, '[') + "}"));
}

}  // namespace
}  // namespace lithify::catalog
