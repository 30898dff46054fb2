#include "maintain/state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/manual_clock.h"
#include "base/text.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"

namespace lithify::maintain {
namespace {

const Time kNow = ParseTime("2026-11-30T12:00:00Z").value();
const ManualClock kClock;

MaintenanceState Full() {
  MaintenanceState state;
  plan::TableHistory& history = state.tables["lake.sales.\"odd.name\""];
  history.settled = {{kNow - std::chrono::hours(1), kNow}};
  history.failures_in_row = 2;
  history.last_code = Code::kTransient;
  history.last_reason = "no \"answer\"\n\xff";
  history.snapshot_id = 7;
  state.waiting_since["lake.sales.o\nday=1"] = kNow;
  state.priors.seconds_per_commit = 3.5;
  state.priors.outcomes = 12;
  state.running["lake.sales.o"] = kNow;
  state.tree_priors.seconds_per_commit = 0.25;
  state.tables["tree:/data/lake\ndata/hour=01/"].failures_in_row = 1;
  state.run = {.since = kNow,
               .all = {.bytes = 10, .seconds = 1.5, .commits = 2},
               .of_namespace = {{"sales", {.bytes = 9, .seconds = 1, .commits = 1}}}};
  return state;
}

TEST(MaintenanceStateFile, ResetsAreTakenOnce) {
  storage::MemoryStore store(kClock);
  StateFile file(store, "maintain/state.json");
  EXPECT_TRUE(file.TakeResets().value().empty());
  const ResetRequest a{.table = "lake.sales.a", .by = "me", .at = kNow};
  const ResetRequest b{.table = "lake.sales.\"b\"", .by = "you", .at = kNow};
  ASSERT_TRUE(file.AskForReset(a));
  ASSERT_TRUE(file.AskForReset(b));
  ASSERT_TRUE(file.AskForReset(a));
  StateFile running(store, "maintain/state.json");
  EXPECT_EQ(running.TakeResets().value(), (std::vector<ResetRequest>{b, a}));
  EXPECT_TRUE(running.TakeResets().value().empty());
  ASSERT_TRUE(file.AskForReset(a));
  EXPECT_EQ(running.TakeResets().value(), std::vector<ResetRequest>{a});
  // The state itself is another file.
  EXPECT_TRUE(file.Load().value().tables.empty());
  ASSERT_TRUE(ReplaceObject(store, "maintain/state.json.resets", "nonsense"));
  EXPECT_EQ(file.TakeResets().error().code, Code::kCorrupt);
  EXPECT_EQ(file.AskForReset(a).error().code, Code::kCorrupt);
}

TEST(MaintenanceStateFile, WhatIsSavedIsLoaded) {
  auto store = std::make_unique<storage::MemoryStore>(kClock);
  StateFile file(*store, "maintain/state.json");
  const auto none = file.Load();
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->tables.empty());
  MaintenanceState state = Full();
  state.tables.begin()->second.last_reason = "no \"answer\"\n";
  ASSERT_TRUE(file.Save(state));
  auto loaded = file.Load();
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_EQ(loaded->tables, state.tables);
  EXPECT_EQ(loaded->waiting_since, state.waiting_since);
  EXPECT_EQ(loaded->run, state.run);
  EXPECT_EQ(loaded->running, state.running);
  EXPECT_EQ(loaded->priors.seconds_per_commit, 3.5);
  EXPECT_EQ(loaded->priors.outcomes, 12);
  EXPECT_EQ(loaded->tree_priors.seconds_per_commit, 0.25);
  state.tables.clear();
  ASSERT_TRUE(file.Save(state));
  EXPECT_TRUE(file.Load()->tables.empty());
}

TEST(MaintenanceStateFile, OnADiskItIsReplacedTimeAndAgain) {
  const std::filesystem::path directory =
      std::filesystem::path(testing::TempDir()) / ("state." + std::to_string(getpid()));
  std::filesystem::create_directories(directory);
  {
    const auto store = storage::OpenLocalStore(directory.string());
    ASSERT_TRUE(store);
    StateFile file(**store, "state.json");
    MaintenanceState state;
    for (int i = 0; i < 5; ++i) {
      state.run.all.commits = i;
      const Status saved = file.Save(state);
      ASSERT_TRUE(saved) << saved.error().ToString();
      EXPECT_EQ(file.Load()->run.all.commits, i);
    }
  }
  std::filesystem::remove_all(directory);
}

TEST(MaintenanceStateFile, OneProcessRunsJobsByIt) {
  const std::string path = testing::TempDir() + "/state_lock." + std::to_string(getpid());
  {
    StateLock one(path);
    ASSERT_TRUE(one.Take());
    ASSERT_TRUE(one.Take());
    StateLock other(path);  // flock() is of the descriptor: as good as another process.
    EXPECT_EQ(other.Take().error().code, Code::kConflict);
  }
  StateLock next(path);
  EXPECT_TRUE(next.Take());
  std::filesystem::remove(path);
  EXPECT_EQ(StateLock("/none/at/all").Take().error().code, Code::kDenied);
}

TEST(MaintenanceStateFile, BrokenTextIsNoBrokenFile) {
  const auto state = ParseState(StateJson(Full()));
  ASSERT_TRUE(state) << state.error().ToString();
  EXPECT_EQ(state->tables.begin()->second.last_reason, "no \"answer\"\n\xef\xbf\xbd");
}

TEST(MaintenanceStateFile, WhatIsNoStateIsSaid) {
  for (const char* text : {"{", "[]", "{}", R"({"version":2})", R"({"version":"1"})",
                           R"({"version":1,"tables":{"a":{"attempts_in_row":"x"}},
                               "waiting_since":{},"priors":{},"running":{},"run":{}})"}) {
    const auto state = ParseState(text);
    ASSERT_FALSE(state) << text;
    EXPECT_EQ(state.error().code, Code::kCorrupt) << text;
  }
  auto store = std::make_unique<storage::MemoryStore>(kClock);
  ASSERT_TRUE(store->PutNew("s", "no"));
  StateFile file(*store, "s");
  EXPECT_EQ(file.Load().error().code, Code::kCorrupt);
  EXPECT_NE(file.Load().error().ToString().find("move the file away"), std::string::npos);
}

}  // namespace
}  // namespace lithify::maintain
