#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "observe/audit_log.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"

namespace lithify::observe {
namespace {

constexpr const char* kPrefix = "_lithify/audit/";

AuditEvent Event(const std::string& job_id, size_t inputs = 1) {
  AuditEvent event;
  event.phase = AuditEvent::Phase::kIntent;
  event.time = Time(std::chrono::microseconds(1796000000123456));
  event.job_id = job_id;
  event.series = "data";
  event.tenant = "a";
  event.partition = "data/tenant_id=a/";
  for (size_t i = 0; i < inputs; ++i) event.inputs.push_back("file-" + std::to_string(i));
  event.actor = "me";
  return event;
}

class AuditObjects : public testing::Test {
 protected:
  std::vector<std::string> Jobs() {
    const auto records = log_->ReadAll();
    if (!records) return {records.error().ToString()};
    std::vector<std::string> jobs;
    for (const AuditRecord& record : *records) {
      EXPECT_EQ(record.seq, jobs.size());
      jobs.push_back(record.event.job_id);
    }
    return jobs;
  }
  std::vector<std::string> Objects() {
    std::vector<std::string> keys;
    const auto listed = store_.List(kPrefix);
    for (const auto& object : listed.value()) keys.push_back(object.key);
    return keys;
  }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
  std::unique_ptr<AuditLog> log_ = OpenStoreAuditLog(store_, kPrefix);
};

TEST_F(AuditObjects, RecordsComeBackInOrder) {
  EXPECT_TRUE(Jobs().empty());
  ASSERT_TRUE(log_->Append(Event("one")));
  ASSERT_TRUE(OpenStoreAuditLog(store_, kPrefix)->Append(Event("two")));
  EXPECT_EQ(Jobs(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(Objects(), (std::vector<std::string>{"_lithify/audit/00000000000000000000.jsonl"}));
  EXPECT_EQ(log_->ReadAll()->front().event.actor, "me");
}

TEST_F(AuditObjects, AnObjectThatIsFullIsFollowedByTheNext) {
  // Each of about 130,000 bytes: two of them are more than one object takes.
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(log_->Append(Event(std::to_string(i), 9000)));
  EXPECT_EQ(Objects(), (std::vector<std::string>{"_lithify/audit/00000000000000000000.jsonl",
                                                 "_lithify/audit/00000000000000000002.jsonl"}));
  EXPECT_EQ(Jobs(), (std::vector<std::string>{"0", "1", "2", "3"}));
  // One line may be longer.
  ASSERT_TRUE(log_->Append(Event("long", 30000)));
  ASSERT_TRUE(log_->Append(Event("after")));
  EXPECT_EQ(Objects().size(), 4U);
  EXPECT_EQ(Jobs().size(), 6U);
}

TEST_F(AuditObjects, ManyWritersMakeOneChain) {
  {
    std::vector<std::jthread> writers;
    for (int w = 0; w < 4; ++w) {
      writers.emplace_back([this, w] {
        const auto log = OpenStoreAuditLog(store_, kPrefix);
        for (int i = 0; i < 25; ++i) {
          ASSERT_TRUE(log->Append(Event(std::to_string(w) + "/" + std::to_string(i), 400)));
        }
      });
    }
  }
  const std::vector<std::string> jobs = Jobs();
  EXPECT_EQ(jobs.size(), 100U);
  EXPECT_EQ(std::set<std::string>(jobs.begin(), jobs.end()).size(), 100U);
}

// H5: a line is written once, whether the answer was lost before or after it was.
TEST_F(AuditObjects, ALostAnswerNeitherLosesNorRepeatsALine) {
  int writes = 0;
  storage::FaultyStore faulty(store_, [&](std::string_view op, const std::string&, bool before) {
    if (!op.starts_with("Put")) return Status();
    // Every third is lost before it happens, every fifth after.
    if (before) ++writes;
    if (before ? writes % 3 == 0 : writes % 5 == 0) {
      return Status(Fail(Code::kUnknownOutcome, "no answer"));
    }
    return Status();
  });
  const auto log = OpenStoreAuditLog(faulty, kPrefix);
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    expected.push_back(std::to_string(i));
    ASSERT_TRUE(log->Append(Event(expected.back(), 1000)));
  }
  EXPECT_EQ(Jobs(), expected);
  EXPECT_GT(writes, 50);
}

TEST_F(AuditObjects, OtherErrorsAreTold) {
  storage::FaultyStore faulty(store_, [](std::string_view op, const std::string&, bool before) {
    return op == "PutNew" && before ? Status(Fail(Code::kDenied, "no")) : Status();
  });
  const Status denied = OpenStoreAuditLog(faulty, kPrefix)->Append(Event("x"));
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kDenied);
  storage::FaultyStore busy(store_, [](std::string_view op, const std::string&, bool before) {
    return op == "PutNew" && before ? Status(Fail(Code::kConflict, "no")) : Status();
  });
  const Status given_up = OpenStoreAuditLog(busy, kPrefix)->Append(Event("x"));
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, Code::kTransient);
  EXPECT_TRUE(Jobs().empty());
}

TEST_F(AuditObjects, WhatWasAlteredIsFound) {
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(log_->Append(Event(std::to_string(i), 9000)));
  const std::vector<std::string> keys = Objects();
  ASSERT_EQ(keys.size(), 3U);
  const auto code = [&] {
    const auto records = log_->ReadAll();
    return records ? "none" : std::string(CodeName(records.error().code));
  };
  const auto middle = store_.Get(keys[1], 1 << 20).value();
  // A line is gone.
  ASSERT_TRUE(
      store_.PutIf(keys[1], middle.bytes.substr(0, middle.bytes.find('\n') + 1), middle.version));
  EXPECT_EQ(code(), "corrupt");
  // A letter is another one.
  std::string altered = middle.bytes;
  altered[altered.find("file-17")] = 'F';
  ASSERT_TRUE(store_.PutIf(keys[1], altered, store_.Get(keys[1], 1 << 20)->version));
  EXPECT_EQ(code(), "corrupt");
  // An object is gone.
  ASSERT_TRUE(store_.Remove(keys[1]));
  EXPECT_EQ(code(), "corrupt");
  ASSERT_TRUE(store_.PutNew(keys[1], middle.bytes));
  EXPECT_EQ(code(), "none");
  // What has no end is no line to go on from.
  ASSERT_TRUE(store_.Remove(keys[2]));
  ASSERT_TRUE(store_.PutNew(keys[2], "torn"));
  const Status appended = log_->Append(Event("x"));
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace lithify::observe
