#include "fleet/wire.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "fleet/wire_world.h"

namespace lithify::fleet {
namespace {

TEST(Wire, OrdersComeBackAsTheyWere) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    WireWorld world(seed);
    const GroupOrder order = world.Order();
    const auto body = EncodeOrder(order);
    ASSERT_TRUE(body) << seed << ": " << body.error().ToString();
    const auto back = DecodeOrder(body->Reveal());
    ASSERT_TRUE(back) << seed << ": " << back.error().ToString();
    EXPECT_EQ(back->task, order.task) << seed;
    EXPECT_EQ(back->attempt, order.attempt);
    EXPECT_EQ(back->loans, order.loans) << seed;
    EXPECT_EQ(back->memory_bytes, order.memory_bytes);
  }
}

TEST(Wire, MembersHaveTheNamesOfTheProtocol) {
  const auto json = nlohmann::json::parse(EncodeOrder(WireWorld(3).Order())->Reveal());
  for (const char* name : {"job_id", "group_id", "table_ident", "metadata_location", "snapshot_id",
                           "group_file_paths", "target_file_size_bytes", "s3", "attempt"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
}

TEST(Wire, WhatIsOfTheMachineStaysThere) {
  GroupOrder order = WireWorld(1).Order();
  order.loans = {{.prefix = "s3://lake", .settings = {}, .expires = {}}};
  order.loans[0].settings.ca_file = "/etc/roots.pem";
  order.loans[0].settings.proxy = Secret("http://user:hush@proxy");
  const auto body = EncodeOrder(order);
  EXPECT_EQ(body->Reveal().find("roots"), std::string::npos);
  EXPECT_EQ(body->Reveal().find("proxy"), std::string::npos);
}

TEST(Wire, LogsHaveNoKey) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    GroupOrder order = WireWorld(seed).Order();
    for (storage::Loan& loan : order.loans) {
      loan.settings.access_key_id = "visible-id";
      loan.settings.secret_access_key = Secret("hush-key");
      loan.settings.session_token = Secret("hush-token");
    }
    const std::string text = DescribeOrder(order);
    EXPECT_EQ(text.find("hush"), std::string::npos) << text;
    EXPECT_EQ(text.find("visible-id"), std::string::npos) << text;
    EXPECT_NE(text.find(order.attempt), std::string::npos) << text;
  }
}

TEST(Wire, ResultsComeBackAsTheyWere) {
  int outputs = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    WireWorld world(seed);
    const DoneFrame done{.group_id = world.Number(), .result = world.Result()};
    outputs += static_cast<int>(done.result.outputs.size());
    const auto body = EncodeFrame(done);
    ASSERT_TRUE(body) << seed << ": " << body.error().ToString();
    const auto back = DecodeFrame(*body);
    ASSERT_TRUE(back) << seed << ": " << back.error().ToString();
    const auto* frame = std::get_if<DoneFrame>(&*back);
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(frame->group_id, done.group_id);
    EXPECT_EQ(Difference(frame->result, done.result), "") << seed;
  }
  EXPECT_GT(outputs, 2000);
}

TEST(Wire, ADifferenceIsSeen) {
  group::GroupResult one = WireWorld(7).Result();
  ASSERT_FALSE(one.outputs.empty());
  group::GroupResult other = one;
  EXPECT_EQ(Difference(one, other), "");
  ++other.outputs[0].record_count;
  EXPECT_EQ(Difference(one, other), "outputs");
}

TEST(Wire, DecimalsOfEveryLength) {
  for (int shift = 0; shift < 126; ++shift) {
    for (const int sign : {1, -1}) {
      DoneFrame done;
      const iceberg::Decimal value{(iceberg::Int128{1} << shift) * sign};
      done.result.inputs.push_back({"x", 1, 0, {0, {value}}});
      const auto back = DecodeFrame(*EncodeFrame(done));
      ASSERT_TRUE(back);
      EXPECT_EQ(std::get<DoneFrame>(*back).result.inputs[0].partition.values[0],
                iceberg::Value(value));
    }
  }
}

TEST(Wire, OtherFrames) {
  const ProgressFrame progress{.group_id = 7, .bytes_read = 1 << 20, .moved = true};
  EXPECT_EQ(std::get<ProgressFrame>(*DecodeFrame(*EncodeFrame(progress))), progress);
  EXPECT_TRUE(std::holds_alternative<AcceptedFrame>(*DecodeFrame(*EncodeFrame(AcceptedFrame()))));
  WorkerStatus status;
  status.id = "w/1";
  status.version = "0.1.0";
  status.inflight = 1;
  status.max_inflight_groups = 3;
  status.memory_bytes = int64_t{1} << 40;
  status.draining = true;
  const auto told = std::get<WorkerStatus>(*DecodeFrame(*EncodeFrame(status)));
  EXPECT_EQ(told.id, status.id);
  EXPECT_EQ(told.version, status.version);
  EXPECT_EQ(told.inflight, 1);
  EXPECT_EQ(told.max_inflight_groups, 3);
  EXPECT_EQ(told.memory_bytes, status.memory_bytes);
  EXPECT_TRUE(told.draining);
}

TEST(Wire, ErrorsOfEveryCodeAndWithWordsOfAnyKind) {
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    const FailedFrame failed{
        {.transport = i % 2 == 0, .error = {static_cast<Code>(i), "no \xff here", "x", "next"}}};
    const auto back = DecodeFrame(*EncodeFrame(failed));
    ASSERT_TRUE(back) << back.error().ToString();
    const LinkError& error = std::get<FailedFrame>(*back).error;
    EXPECT_EQ(error.transport, i % 2 == 0);
    EXPECT_EQ(error.error.code, static_cast<Code>(i));
    EXPECT_EQ(error.error.message, "no \xef\xbf\xbd here");
    EXPECT_EQ(error.error.hint, "next");
  }
}

TEST(Wire, WhatCannotBeWrittenIsRefused) {
  GroupOrder order = WireWorld(1).Order();
  order.task.data_files = {"s3://lake/\xff"};
  EXPECT_EQ(EncodeOrder(order).error().code, Code::kUnsupported);
  order.task.data_files.assign(20'000, std::string(2000, 'x'));
  EXPECT_EQ(EncodeOrder(order).error().code, Code::kUnsupported);
  DoneFrame done;
  done.result.outputs.emplace_back().file_path = "x";
  EXPECT_EQ(EncodeFrame(done).error().code, Code::kUnsupported);  // No format.
  done.result.outputs[0].file_format = "PARQUET";
  EXPECT_TRUE(EncodeFrame(done));
  done.result.outputs[0].first_row_id = 5;
  EXPECT_EQ(EncodeFrame(done).error().code, Code::kUnsupported);
}

// What is wrong in an order is told by the member's name.
class HostileOrder : public testing::Test {
 protected:
  HostileOrder() : json_(nlohmann::json::parse(EncodeOrder(WireWorld(3).Order())->Reveal())) {
    json_["s3"] = nlohmann::json::array({{{"prefix", ""},
                                          {"endpoint", ""},
                                          {"region", ""},
                                          {"addressing", "auto"},
                                          {"access_key", "id"},
                                          {"secret_key", "hush"},
                                          {"session_token", ""}}});
  }
  std::string Refusal() const {
    const auto order = DecodeOrder(json_.dump());
    if (order) return "";
    EXPECT_EQ(order.error().code, Code::kInvalid);
    const std::string text = order.error().ToString();
    EXPECT_EQ(text.find("hush"), std::string::npos) << text;
    return text;
  }
  nlohmann::json json_;
};

TEST_F(HostileOrder, IsTakenAsItIs) { EXPECT_EQ(Refusal(), ""); }

TEST_F(HostileOrder, EveryMemberMissingOrOfAnotherType) {
  const nlohmann::json good = json_;
  for (const auto& [name, value] : good.items()) {
    if (name == "output_spec_id" || name == "order" || name == "sort_order_id") continue;
    json_ = good;
    json_.erase(name);
    EXPECT_NE(Refusal().find(name), std::string::npos) << name;
    json_ = good;
    json_[name] = value.is_object() ? nlohmann::json(1) : nlohmann::json({{"hush", "hush"}});
    EXPECT_NE(Refusal().find(name), std::string::npos) << name;
  }
  for (const auto& [name, value] : good["s3"][0].items()) {
    json_ = good;
    json_["s3"][0].erase(name);
    EXPECT_NE(Refusal().find(name), std::string::npos) << name;
  }
}

TEST_F(HostileOrder, WhatIsNotKnownIsNotLeftOut) {
  json_["sort"] = {"x"};
  EXPECT_NE(Refusal().find("not known"), std::string::npos);
  json_.erase("sort");
  json_["s3"][0]["role"] = "x";
  EXPECT_NE(Refusal(), "");
  json_["s3"][0].erase("role");
  json_["protocol"] = 2;
  EXPECT_NE(Refusal().find("protocol"), std::string::npos);
}

TEST_F(HostileOrder, Ranges) {
  const nlohmann::json good = json_;
  const auto refused = [&](const char* name, const nlohmann::json& value) {
    json_ = good;
    json_[name] = value;
    EXPECT_NE(Refusal().find(name), std::string::npos)
        << name << " = " << value.dump().substr(0, 50);
  };
  refused("group_id", -1);
  refused("group_id", 1.5);
  refused("group_id", std::numeric_limits<uint64_t>::max());
  refused("outputs", 0);
  refused("outputs", 2'000'000);
  refused("target_file_size_bytes", 0);
  refused("min_file_size_bytes", good["target_file_size_bytes"].get<int64_t>() + 1);
  refused("max_file_size_bytes", good["target_file_size_bytes"].get<int64_t>() - 1);
  refused("max_output_partitions", 0);
  refused("output_spec_id", int64_t{1} << 31);
  refused("verify", "none");
  refused("attempt", "../x");
  refused("attempt", "");
  refused("attempt", std::string(65, 'a'));
  refused("job_id", "a\nb");
  refused("group_file_paths", nlohmann::json::array());
  refused("group_file_paths", nlohmann::json::array({std::string(5000, 'x')}));
  refused("group_file_paths", nlohmann::json::array({1}));
  refused("group_file_paths", std::vector<std::string>(kFilesMax + 1, "x"));
  refused("s3", std::vector<nlohmann::json>(kLoansMax + 1, good["s3"][0]));
}

// A worker that would not sort as it is told must not take the order.
TEST_F(HostileOrder, OrdersOfRows) {
  json_.erase("output_spec_id");
  const nlohmann::json field = {{"field_id", 3},
                                {"column", "ts"},
                                {"transform", "day"},
                                {"ascending", true},
                                {"nulls_first", false}};
  json_["order"] = {{"curve", "none"}, {"fields", nlohmann::json::array({field})}};
  json_["sort_order_id"] = 2;
  EXPECT_EQ(Refusal(), "");
  const nlohmann::json good = json_;
  const auto refused = [&](const char* what) {
    EXPECT_NE(Refusal().find("order"), std::string::npos) << what;
    json_ = good;
  };
  for (const auto& [name, value] : field.items()) {
    json_["order"]["fields"][0].erase(name);
    refused(name.c_str());
    json_["order"]["fields"][0][name] = nlohmann::json::array();
    refused(name.c_str());
  }
  json_["order"]["fields"][0]["field_id"] = 0;
  refused("no field");
  json_["order"]["fields"][0]["collation"] = "de";
  refused("not known");
  json_["order"]["fields"] = nlohmann::json::array();
  refused("no fields");
  json_["order"]["fields"] = std::vector<nlohmann::json>(101, field);
  refused("too many fields");
  json_["order"]["curve"] = "peano";
  refused("unknown curve");
  json_["order"]["curve"] = "zorder";
  EXPECT_EQ(Refusal(), "");
  json_["order"]["fields"] = std::vector<nlohmann::json>(9, field);
  refused("too many of a curve");
  json_["order"].erase("curve");
  refused("no curve");
  json_["sort_order_id"] = 0;
  refused("unsorted is no order");
  json_.erase("order");
  refused("an id without an order");
  json_["output_spec_id"] = 1;
  refused("rows that move");
}

TEST(Wire, HostileText) {
  EXPECT_EQ(DecodeOrder("").error().code, Code::kInvalid);
  EXPECT_EQ(DecodeOrder("[]").error().code, Code::kInvalid);
  EXPECT_EQ(DecodeOrder(R"({"protocol":1,"protocol":1})").error().message,
            "a member stands in it twice");
  EXPECT_EQ(DecodeOrder(std::string(100'000, '[')).error().code, Code::kInvalid);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  EXPECT_EQ(DecodeOrder(deep).error().code, Code::kInvalid);
  EXPECT_EQ(DecodeOrder(std::string(kRequestBytesMax + 1, ' ')).error().code, Code::kLimit);
  std::string many = "[";
  for (int i = 0; i < 5'000'000; ++i) many += "1,";
  EXPECT_EQ(DecodeOrder(many + "1]").error().message, "it has too many values");
  EXPECT_EQ(DecodeFrame("{}").error().code, Code::kCorrupt);
  EXPECT_EQ(DecodeFrame(R"({"frame":"new"})").error().code, Code::kCorrupt);
}

TEST(Wire, CutAnywhereItIsRefused) {
  const std::string body = EncodeOrder(WireWorld(5).Order())->Reveal();
  for (size_t i = 0; i < body.size(); ++i) EXPECT_FALSE(DecodeOrder(body.substr(0, i))) << i;
  const std::string frame = *EncodeFrame(DoneFrame{.group_id = 1, .result = WireWorld(7).Result()});
  for (size_t i = 0; i < frame.size(); ++i) EXPECT_FALSE(DecodeFrame(frame.substr(0, i))) << i;
}

// With one byte changed it is refused, or says something else; it never crashes.
TEST(Wire, OneByteChanged) {
  const group::GroupResult result = WireWorld(7).Result();
  const std::string frame = *EncodeFrame(DoneFrame{.group_id = 1, .result = result});
  WireWorld world(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string changed = frame;
    changed[world.Below(changed.size())] ^= static_cast<char>(1 << world.Below(8));
    const auto back = DecodeFrame(changed);
    refused += back ? 0 : 1;
    if (!back) {
      EXPECT_NE(back.error().code, Code::kInternal);
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace lithify::fleet
