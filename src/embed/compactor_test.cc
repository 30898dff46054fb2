#include "lithify/compactor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "embed/hive_session.h"
#include "net/scripted_server.h"

namespace lithify {
namespace {

using testing::HasSubstr;

constexpr const char* kPartition = "data/tenant_id=a/year=2020/month=01/day=02/hour=03/";

class CompactorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "compactor_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::unique_ptr<Compactor> Open(std::string* error = nullptr) {
    return Compactor::Open({.root = root_, .use_environment = false}, error);
  }
  // Not Parquet: the partition fails, clearly, and stays as it is.
  void AddDamagedFile() {
    std::filesystem::create_directories(root_ + "/" + kPartition);
    for (const char* file : {"a.parquet", "b.parquet"}) {
      std::ofstream(root_ + "/" + kPartition + file) << "PAR1 this is not Parquet";
    }
  }

  std::string root_;
};

TEST_F(CompactorTest, AnEmptyTreeHasNothingToDo) {
  std::filesystem::create_directories(root_ + "/data");
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  const Compactor::SweepSummary summary = compactor->RunOnce();
  EXPECT_TRUE(summary.ok());
  EXPECT_EQ(summary.partitions, 0);
}

TEST_F(CompactorTest, AFailingPartitionIsReportedAndLeftAlone) {
  AddDamagedFile();
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  std::vector<Compactor::PartitionEvent> events;
  const Compactor::SweepSummary summary = compactor->RunOnce(
      {.on_partition = [&](const Compactor::PartitionEvent& event) { events.push_back(event); },
       .on_sweep = {},
       .on_error = {}});
  EXPECT_FALSE(summary.ok());
  EXPECT_EQ(summary.partitions, 1);
  EXPECT_EQ(summary.failed, 1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].partition, kPartition);
  EXPECT_EQ(events[0].outcome, "failed");
  EXPECT_THAT(events[0].error, HasSubstr("a.parquet"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/" + kPartition + "a.parquet"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/" + kPartition + "b.parquet"));
}

TEST_F(CompactorTest, TheLoopSweepsAgainAfterAFailureAndStops) {
  AddDamagedFile();
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  std::mutex mutex;
  std::condition_variable changed;
  int sweeps = 0;
  Compactor::Events events;
  events.on_sweep = [&](const Compactor::SweepSummary& summary) {
    // Stop() may end a sweep before it came to the partition.
    EXPECT_TRUE(summary.cancelled || summary.failed == 1);
    const std::lock_guard lock(mutex);
    ++sweeps;
    changed.notify_all();
  };
  ASSERT_TRUE(compactor->Start(std::chrono::milliseconds(1), events));
  EXPECT_FALSE(compactor->Start(std::chrono::milliseconds(1), events));
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return sweeps >= 3; });
  }
  EXPECT_EQ(compactor->RunOnce().failed, 1);
  compactor->Stop();
  const int stopped = sweeps;
  compactor->Stop();
  EXPECT_EQ(sweeps, stopped);
  EXPECT_TRUE(compactor->Start(std::chrono::hours(1), events));
  compactor->Stop();
}

TEST_F(CompactorTest, WhatACallbackThrowsEndsNeitherTheSweepNorTheLoop) {
  AddDamagedFile();
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  std::atomic<int> sweeps = 0;
  Compactor::Events events;
  events.on_partition = [](const Compactor::PartitionEvent&) {
    throw std::runtime_error("from the caller");
  };
  events.on_sweep = [&](const Compactor::SweepSummary& summary) {
    EXPECT_TRUE(summary.cancelled || summary.failed == 1);
    ++sweeps;
    throw 7;  // Not even a std::exception.
  };
  const Compactor::SweepSummary summary = compactor->RunOnce(events);
  ASSERT_EQ(summary.errors.size(), 3U);  // The damaged partition's, and these.
  EXPECT_THAT(summary.errors[1], HasSubstr("from the caller"));
  EXPECT_THAT(summary.errors[2], HasSubstr("callback"));
  ASSERT_TRUE(compactor->Start(std::chrono::milliseconds(1), events));
  while (sweeps < 3) std::this_thread::yield();
  compactor->Stop();
}

// Under a sanitizer: a loop must not see the flag of another.
TEST_F(CompactorTest, StartAndStopFromSeveralThreads) {
  std::filesystem::create_directories(root_ + "/data");
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  std::atomic<int> started = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          if (compactor->Start(std::chrono::milliseconds(1))) ++started;
          compactor->Stop();
        }
      });
    }
  }
  EXPECT_GT(started, 0);
  EXPECT_TRUE(compactor->Start(std::chrono::hours(1)));  // None is left.
  compactor->Stop();
}

// A callback that asks for a loop while Stop() waits for that very callback.
TEST_F(CompactorTest, StartWhileStopWaitsIsRefused) {
  AddDamagedFile();
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false;
  bool release = false;
  Compactor::Events events;
  events.on_partition = [&](const Compactor::PartitionEvent&) {
    std::unique_lock lock(mutex);
    inside = true;
    changed.notify_all();
    changed.wait(lock, [&] { return release; });
  };
  ASSERT_TRUE(compactor->Start(std::chrono::hours(1), events));
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside; });
  }
  std::jthread stopper([&] { compactor->Stop(); });
  for (int i = 0; i < 50; ++i) {  // Before Stop() and while it waits alike.
    EXPECT_FALSE(compactor->Start(std::chrono::hours(1), events));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  {
    const std::lock_guard lock(mutex);
    release = true;
  }
  changed.notify_all();
  stopper.join();
  EXPECT_TRUE(compactor->Start(std::chrono::hours(1)));
  compactor->Stop();
}

TEST_F(CompactorTest, OnlyAPositiveInterval) {
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  EXPECT_FALSE(compactor->Start(std::chrono::milliseconds(0)));
  EXPECT_FALSE(compactor->Start(std::chrono::milliseconds(-1)));
}

TEST_F(CompactorTest, TheCallersThreadKeepsItsPriority) {
  std::filesystem::create_directories(root_ + "/data");
  const int before = getpriority(PRIO_PROCESS, 0);
  const auto compactor = Open();
  ASSERT_TRUE(compactor);
  EXPECT_TRUE(compactor->RunOnce().ok());
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

TEST_F(CompactorTest, WrongOptionsAreClearErrors) {
  std::string error;
  EXPECT_FALSE(Compactor::Open({.root = root_ + "/absent"}, &error));
  EXPECT_THAT(error, HasSubstr("not_found: " + root_ + "/absent"));
  EXPECT_FALSE(Compactor::Open({.root = "gs://bucket/lake"}, &error));
  EXPECT_THAT(error, HasSubstr("unsupported: gs://bucket/lake"));
  EXPECT_FALSE(Compactor::Open({.root = "s3://bucket/lake"}, &error));
  EXPECT_THAT(error, HasSubstr("no credentials for S3 were found"));
  EXPECT_FALSE(Compactor::Open({.root = "s3://bucket//lake"}, &error));
  EXPECT_THAT(error, HasSubstr("invalid: s3://bucket//lake"));
  EXPECT_FALSE(Compactor::Open(
      {.root = "s3://bucket/lake", .overrides = {{"s3.access_key_id", "id"}}}, &error));
  EXPECT_THAT(error, HasSubstr("s3.secret_access_key: is missing"));
  EXPECT_FALSE(Compactor::Open({.root = root_, .overrides = {{"limits.job", "1"}}}, &error));
  EXPECT_THAT(error, HasSubstr("did you mean \"limits.jobs\"?"));
  EXPECT_FALSE(Compactor::Open({.root = root_, .config_file = "x", .config_text = "y"}, &error));
  EXPECT_THAT(error, HasSubstr("both config_file and config_text"));
  EXPECT_FALSE(Compactor::Open({.root = root_, .config_file = root_ + "/no.toml"}, &error));
  EXPECT_THAT(error, HasSubstr(root_ + "/no.toml: cannot open the configuration file"));
  std::ofstream(root_ + "/lithify.toml") << "[limits]\njobs = \"many\"\n";
  EXPECT_FALSE(Compactor::Open({.root = root_}, &error));
  EXPECT_THAT(error, HasSubstr("lithify.toml:2: limits.jobs"));
  EXPECT_FALSE(Compactor::Open({.root = root_}, nullptr));
}

TEST_F(CompactorTest, TheFileBesideTheDataIsTheConfiguration) {
  std::ofstream(root_ + "/lithify.toml") << "[limits]\njobs = 3\n";
  const auto config = embed::LoadConfig(root_, "", {}, {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->jobs, 3);
  const auto session = embed::HiveSession::Open("file://" + root_, *config, {});
  ASSERT_TRUE(session);
  EXPECT_EQ((*session)->threads(), 3);
  EXPECT_EQ((*session)->partitions_at_once(), 1);
  EXPECT_EQ((*session)->audit_path(),
            std::filesystem::canonical(root_).string() + "/_lithify/audit.jsonl");
}

// Two trees with one log, and the same keys in both.
TEST_F(CompactorTest, ASharedAuditLogTellsItsTreesApart) {
  std::filesystem::create_directories(root_ + "/one/data");
  std::filesystem::create_directories(root_ + "/two/data");
  const std::string log = root_ + "/audit.jsonl";
  {
    const auto audit = observe::OpenFileAuditLog(log);
    observe::AuditEvent intent;
    intent.time = *ParseTime("2020-01-02T05:00");
    intent.job_id = "dead";
    intent.tree = root_ + "/one";
    intent.series = "data";
    intent.tenant = "a";
    intent.partition = kPartition;
    intent.inputs = {"a.parquet", "b.parquet"};
    intent.outputs = {"c.parquet"};
    intent.generation = 1;
    ASSERT_TRUE(audit->Append(intent));
    // Committed, in tree one.
    std::filesystem::create_directories(root_ + "/one/" + kPartition);
    std::ofstream(root_ + "/one/" + kPartition + "manifest.json")
        << R"({"generation":1,"files":["c.parquet"],)"
        << R"("lithify":{"version":1,"job_id":"dead","retired":[]}})";
    std::ofstream(root_ + "/one/" + kPartition + "c.parquet") << "PAR1 this is not Parquet";
  }
  const auto records = [&] { return observe::OpenFileAuditLog(log)->ReadAll().value(); };
  const auto sweep = [&](const std::string& tree) {
    std::string error;
    const auto compactor = Compactor::Open(
        {.root = root_ + tree, .overrides = {{"audit_log.path", log}}, .use_environment = false},
        &error);
    ASSERT_TRUE(compactor) << error;
    compactor->RunOnce();
  };
  sweep("/two");  // Where that partition is not even there.
  EXPECT_EQ(records().size(), 1U);
  sweep("/one");
  ASSERT_EQ(records().size(), 2U);
  EXPECT_EQ(records()[1].event.phase, observe::AuditEvent::Phase::kCommitted);
  EXPECT_EQ(records()[1].event.tree, root_ + "/one");
}

// A loop that waits for a store that hangs ends, and may begin anew.
TEST(CompactorInABucket, StopDoesNotWaitForAStoreThatHangs) {
  net::ScriptedServer server([](const net::ScriptedRequest&) {
    return net::ScriptedAnswer{"", net::ScriptedAnswer::Then::kHang};
  });
  std::string error;
  const auto compactor =
      Compactor::Open({.root = "s3://lake/tree",
                       .config_text = "[s3]\nendpoint = \"" + server.Url("") +
                                      "\"\naccess_key_id = \"id\"\n"
                                      "secret_access_key = \"hush\"\nproxy = \"none\"\n",
                       .use_environment = false},
                      &error);
  ASSERT_TRUE(compactor) << error;
  for (const size_t asked : {1U, 2U}) {
    std::atomic<int> errors = 0;
    Compactor::Events events;
    events.on_error = [&](const std::string&) { ++errors; };
    ASSERT_TRUE(compactor->Start(std::chrono::hours(1), events));
    while (server.Requests().size() < asked) std::this_thread::yield();
    compactor->Stop();
    EXPECT_EQ(server.Requests().size(), asked);
    EXPECT_EQ(errors, 0);  // It was asked to stop: nothing is wrong.
  }
}

}  // namespace
}  // namespace lithify
