#include "commit/hive_commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "table/hive_manifest.h"

namespace lithify::commit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kPrefix = "data/hour=07/";
const std::string kKey = kPrefix + "manifest.json";
const Time kNow = ParseTime("2026-11-29T12:00:00Z").value();

class HiveCommit : public testing::Test {
 protected:
  void Put(const std::string& name, std::string_view bytes = "rows") {
    ASSERT_TRUE(store_.PutNew(kPrefix + name, bytes)) << name;
  }

  // Publishes `text` as somebody else would.
  void Overwrite(const std::string& text) {
    ASSERT_TRUE(store_.PutIf(kKey, text, store_.Get(kKey, 1 << 20)->version));
  }
  void Overwrite(const HiveManifest& manifest) {
    Overwrite(table::SerializeManifest(manifest).value());
  }

  ManifestSnapshot Current() { return table::ReadManifest(store_, kPrefix).value().value(); }
  std::string Text() { return store_.Get(kKey, 1 << 20)->bytes; }

  static CommitScope Scope(std::string job = "job-1", std::vector<std::string> gone = {}) {
    return CommitScope{kPrefix, std::move(job), kNow, std::move(gone)};
  }

  // Three inputs, bootstrapped; and an output that is there.
  ManifestSnapshot Prepare() {
    for (const char* name : {"a.parquet", "b.parquet", "c.parquet"}) Put(name);
    Put("out.parquet", "four");
    return HiveCommitter(store_)
        .Bootstrap(Scope("job-0"), {"c.parquet", "a.parquet", "b.parquet"})
        .value();
  }

  static SwapRequest Request(ManifestSnapshot planned) {
    SwapRequest request;
    request.planned = std::move(planned);
    request.inputs = {"a.parquet", "b.parquet"};
    request.outputs = {{"out.parquet", 4, 10}};
    request.rows_in = 10;
    request.rows_out = 10;
    return request;
  }

  static RetiredFile Retired(std::string name, RetiredFile::Reason reason,
                             std::string job = "job-1") {
    return RetiredFile{std::move(name), kNow, reason, std::move(job)};
  }

  template <typename T>
  static void ExpectFails(const Result<T>& result, Code code, const std::string& message) {
    ASSERT_FALSE(result);
    EXPECT_EQ(CodeName(result.error().code), CodeName(code)) << result.error().ToString();
    EXPECT_THAT(result.error().ToString(), HasSubstr(message));
  }

  SystemClock clock_;
  storage::MemoryStore store_{clock_};
};

using enum RetiredFile::Reason;

TEST_F(HiveCommit, R215BootstrapCreatesGenerationOneOnce) {
  HiveCommitter committer(store_);
  const ManifestSnapshot first = committer.Bootstrap(Scope(), {"b.parquet", "a.parquet"}).value();
  EXPECT_EQ(first.manifest.generation, 1u);
  EXPECT_THAT(first.manifest.files, ElementsAre("a.parquet", "b.parquet"));
  EXPECT_TRUE(first.manifest.has_lineage);
  EXPECT_EQ(first.manifest.job_id, "job-1");
  EXPECT_EQ(Current().manifest, first.manifest);
  EXPECT_EQ(Current().version, first.version);
  const std::string text = Text();
  ExpectFails(committer.Bootstrap(Scope("job-2"), {"z.parquet"}), Code::kConflict, "generation 1");
  EXPECT_EQ(Text(), text);
}

TEST_F(HiveCommit, R214BootstrapRefusesInvalidNames) {
  HiveCommitter committer(store_);
  for (const char* name : {"../x.parquet", "x.orc", "_x.parquet", "d/x.parquet"}) {
    ExpectFails(committer.Bootstrap(Scope(), {"a.parquet", name}), Code::kInvalid, name);
  }
  ExpectFails(committer.Bootstrap(Scope(), {"a.parquet", "a.parquet"}), Code::kInternal, "twice");
  EXPECT_THAT(store_.Keys(), IsEmpty());
}

TEST_F(HiveCommit, R212SwapReplacesInputsAndRetiresThem) {
  const ManifestSnapshot base = Prepare();
  const ManifestSnapshot next = HiveCommitter(store_).Swap(Scope(), Request(base)).value();
  EXPECT_EQ(next.manifest.generation, 2u);
  EXPECT_THAT(next.manifest.files, ElementsAre("c.parquet", "out.parquet"));
  EXPECT_THAT(next.manifest.retired,
              ElementsAre(Retired("a.parquet", kSuperseded), Retired("b.parquet", kSuperseded)));
  EXPECT_EQ(next.manifest.job_id, "job-1");
  EXPECT_EQ(Current().manifest, next.manifest);
  EXPECT_EQ(Current().version, next.version);
  EXPECT_EQ(store_.Keys().size(), 5u);  // Nothing is removed by a commit (T24).
}

TEST_F(HiveCommit, P20SwapOfZeroRowsMayHaveNoOutput) {
  SwapRequest request = Request(Prepare());
  request.outputs.clear();
  request.rows_in = request.rows_out = 0;
  const ManifestSnapshot next = HiveCommitter(store_).Swap(Scope(), request).value();
  EXPECT_THAT(next.manifest.files, ElementsAre("c.parquet"));
}

TEST_F(HiveCommit, R220SwapRefusesWhatDoesNotConserveRows) {
  const ManifestSnapshot base = Prepare();
  const std::string before = Text();
  HiveCommitter committer(store_);
  const auto refused = [&](Code code, const std::string& message, auto change) {
    SwapRequest request = Request(base);
    change(request);
    ExpectFails(committer.Swap(Scope(), request), code, message);
    EXPECT_EQ(Text(), before);
  };
  refused(Code::kCorrupt, "10 in, 9 out", [](SwapRequest& r) { r.rows_out = 9; });
  refused(Code::kCorrupt, "9 in, 10 out", [](SwapRequest& r) { r.rows_in = 9; });
  refused(Code::kCorrupt, "not conserved", [](SwapRequest& r) { r.rows_in = r.rows_out = -1; });
  refused(Code::kCorrupt, "the outputs have 9 rows, not 10",
          [](SwapRequest& r) { r.outputs[0].rows = 9; });
  refused(Code::kCorrupt, "the outputs have 0 rows", [](SwapRequest& r) { r.outputs.clear(); });
  refused(Code::kCorrupt, "impossible row count -1", [](SwapRequest& r) {
    r.outputs[0].rows = 11;
    r.outputs.push_back({"out2.parquet", 4, -1});
  });
  refused(Code::kCorrupt, "impossible row count", [](SwapRequest& r) {
    r.outputs[0].rows = std::numeric_limits<int64_t>::max();
    r.outputs.push_back({"out2.parquet", 4, 11});
  });
  refused(Code::kInternal, "without inputs", [](SwapRequest& r) { r.inputs.clear(); });
  refused(Code::kInternal, "given twice", [](SwapRequest& r) { r.inputs[1] = r.inputs[0]; });
  refused(Code::kInternal, "input x.parquet is not live",
          [](SwapRequest& r) { r.inputs[1] = "x.parquet"; });
  refused(Code::kInternal, "output a.parquet is live",
          [](SwapRequest& r) { r.outputs[0].name = "a.parquet"; });
  refused(Code::kInternal, "not a valid file name",
          [](SwapRequest& r) { r.outputs[0].name = "../out.parquet"; });
  refused(Code::kInternal, "given twice",
          [](SwapRequest& r) { r.outputs.push_back({"out.parquet", 4, 0}); });
  refused(Code::kInternal, "output out.parquet is retired", [](SwapRequest& r) {
    r.planned.manifest.retired.push_back(Retired("out.parquet", kFenced));
  });
  refused(Code::kInternal, "another writer's",
          [](SwapRequest& r) { r.planned.manifest.has_lineage = false; });
  refused(Code::kLimit, "generation counter", [](SwapRequest& r) {
    r.planned.manifest.generation = std::numeric_limits<uint64_t>::max();
  });
  refused(Code::kCorrupt, "has 4 bytes, not the 5", [](SwapRequest& r) { r.outputs[0].size = 5; });
}

TEST_F(HiveCommit, R313VanishedFilesAreDamageUnlessTheManifestMoved) {
  const ManifestSnapshot base = Prepare();
  HiveCommitter committer(store_);
  for (const char* name : {"out.parquet", "b.parquet"}) {
    ASSERT_TRUE(store_.Remove(kPrefix + name));
    ExpectFails(committer.Swap(Scope(), Request(base)), Code::kCorrupt, "vanished");
    EXPECT_EQ(Current().manifest.generation, 1u);
    HiveManifest moved = base.manifest;
    moved.generation = 2;
    Overwrite(moved);
    ExpectFails(committer.Swap(Scope(), Request(base)), Code::kConflict, "the manifest moved on");
    Overwrite(base.manifest);
    Put(name, "four");
  }
  EXPECT_TRUE(committer.Swap(Scope(), Request(base)));
}

TEST_F(HiveCommit, R219T27StaleBaseConflicts) {
  const ManifestSnapshot base = Prepare();
  HiveCommitter committer(store_);
  Put("late.parquet");
  const ManifestSnapshot adopted =
      committer.Adopt(Scope("job-2"), base, {"late.parquet"}, {}).value();
  const std::string text = Text();
  ExpectFails(committer.Swap(Scope(), Request(base)), Code::kConflict, "published generation 2");
  ExpectFails(committer.Adopt(Scope(), base, {"out.parquet"}, {}), Code::kConflict, "generation 2");
  ExpectFails(committer.Fence(Scope(), base, {"out.parquet"}), Code::kConflict, "generation 2");
  EXPECT_EQ(Text(), text);
  EXPECT_TRUE(committer.Swap(Scope(), Request(adopted)));
  ASSERT_TRUE(store_.Remove(kKey));
  ExpectFails(committer.Swap(Scope(), Request(adopted)), Code::kConflict, "manifest.json is gone");
}

TEST_F(HiveCommit, Q4H1AdoptTakesLateFilesIn) {
  const ManifestSnapshot base = Prepare();
  HiveCommitter committer(store_);
  const ManifestSnapshot next =
      committer.Adopt(Scope(), base, {"z.parquet", "b2.parquet"}, {"old.parquet"}).value();
  EXPECT_EQ(next.manifest.generation, 2u);
  EXPECT_THAT(next.manifest.files,
              ElementsAre("a.parquet", "b.parquet", "b2.parquet", "c.parquet", "z.parquet"));
  EXPECT_THAT(next.manifest.retired, ElementsAre(Retired("old.parquet", kForeign)));
  ExpectFails(committer.Adopt(Scope(), next, {"old.parquet"}, {}), Code::kInternal,
              "retired already");
  ExpectFails(committer.Adopt(Scope(), next, {"a.parquet"}, {}), Code::kInternal, "live already");
  ExpectFails(committer.Adopt(Scope(), next, {}, {"a.parquet"}), Code::kInternal, "live already");
  ExpectFails(committer.Adopt(Scope(), next, {"n.parquet", "n.parquet"}, {}), Code::kInternal,
              "given twice");
  ExpectFails(committer.Adopt(Scope(), next, {"n.parquet"}, {"n.parquet"}), Code::kInternal,
              "given twice");
  ExpectFails(committer.Adopt(Scope(), next, {"../n.parquet"}, {}), Code::kInternal,
              "not a valid file name");
  EXPECT_EQ(Current().manifest, next.manifest);
}

TEST_F(HiveCommit, R218TakesOverForeignManifestsAndKeepsTheirMembers) {
  Prepare();
  Overwrite(std::string(R"({"x":1.50,"generation":41,"files":["a.parquet","b.parquet"]})"));
  HiveCommitter committer(store_);
  const ManifestSnapshot foreign = Current();
  ExpectFails(committer.Swap(Scope(), Request(foreign)), Code::kInternal,
              "adopt the partition first");
  ExpectFails(committer.Fence(Scope(), foreign, {}), Code::kInternal, "adopt the partition first");
  const ManifestSnapshot ours = committer.Adopt(Scope(), foreign, {}, {"c.parquet"}).value();
  EXPECT_EQ(Text(),
            R"({"generation":42,"files":["a.parquet","b.parquet"],"lithify":{"version":1,)"
            R"("job_id":"job-1","retired":[{"file":"c.parquet","at":"2026-11-29T12:00:00.000000Z",)"
            R"("reason":"foreign","job_id":"job-1"}]},"x":1.50})");
  EXPECT_EQ(committer.Swap(Scope(), Request(ours)).value().manifest.extra_json, R"({"x":1.50})");
}

TEST_F(HiveCommit, FenceBlocksWhoPlannedBeforeIt) {
  const ManifestSnapshot base = Prepare();
  HiveCommitter committer(store_);
  const ManifestSnapshot fenced = committer.Fence(Scope("gc"), base, {"out.parquet"}).value();
  EXPECT_EQ(fenced.manifest.generation, 2u);
  EXPECT_EQ(fenced.manifest.files, base.manifest.files);
  EXPECT_THAT(fenced.manifest.retired, ElementsAre(Retired("out.parquet", kFenced, "gc")));
  ExpectFails(committer.Swap(Scope(), Request(base)), Code::kConflict, "generation 2");
  ExpectFails(committer.Fence(Scope("gc"), fenced, {"a.parquet"}), Code::kInternal, "live already");
  ExpectFails(committer.Fence(Scope("gc"), fenced, {"out.parquet"}), Code::kInternal, "retired");
}

TEST_F(HiveCommit, GoneRecordsAreDroppedOnlyIfTheFileIsGone) {
  const ManifestSnapshot base = Prepare();
  HiveCommitter committer(store_);
  const ManifestSnapshot swapped = committer.Swap(Scope(), Request(base)).value();
  ASSERT_TRUE(store_.Remove(kPrefix + "a.parquet"));
  // b.parquet is still there, whatever the listing said; c.parquet is live.
  const ManifestSnapshot next =
      committer
          .Adopt(Scope("job-2", {"a.parquet", "b.parquet", "c.parquet", "never.parquet"}), swapped,
                 {}, {})
          .value();
  EXPECT_THAT(next.manifest.retired, ElementsAre(Retired("b.parquet", kSuperseded)));
  EXPECT_THAT(next.manifest.files, ElementsAre("c.parquet", "out.parquet"));

  storage::FaultyStore blind(store_, [](std::string_view op, const std::string&, bool) -> Status {
    if (op == "Stat") return Fail(Code::kTransient, "time-out");
    return {};
  });
  ASSERT_TRUE(store_.Remove(kPrefix + "b.parquet"));
  EXPECT_THAT(HiveCommitter(blind)
                  .Adopt(Scope("job-3", {"b.parquet"}), next, {}, {})
                  .value()
                  .manifest.retired,
              ElementsAre(Retired("b.parquet", kSuperseded)));
}

// T22: between our listing and our look at the manifest, another writer brings a file of a name
// that had been used before, adopts it and supersedes it. Its record must outlive our publication:
// without it the file, still there for its grace, would be taken for late data and its rows come
// back.
TEST_F(HiveCommit, T22AStaleListingDropsNoRecordOfAFileThatCameBack) {
  const ManifestSnapshot base = Prepare();
  HiveCommitter committer(store_);
  const ManifestSnapshot first = committer.Swap(Scope(), Request(base)).value();
  ASSERT_TRUE(store_.Remove(kPrefix + "a.parquet"));
  ASSERT_TRUE(store_.Remove(kPrefix + "b.parquet"));
  const std::vector<std::string> gone = {"a.parquet", "b.parquet"};  // Our listing, taken now.

  const ManifestSnapshot dropped = committer.Adopt(Scope("job-2", gone), first, {}, {}).value();
  ASSERT_THAT(dropped.manifest.retired, IsEmpty());
  Put("a.parquet", "late");
  Put("out2.parquet", "four");
  SwapRequest again = Request(committer.Adopt(Scope("job-2"), dropped, {"a.parquet"}, {}).value());
  again.inputs = {"a.parquet", "out.parquet"};
  again.outputs[0].name = "out2.parquet";
  const ManifestSnapshot theirs = committer.Swap(Scope("job-2"), again).value();
  ASSERT_THAT(theirs.manifest.retired, ElementsAre(Retired("a.parquet", kSuperseded, "job-2"),
                                                   Retired("out.parquet", kSuperseded, "job-2")));

  const auto publish = [&](std::string_view how) -> ManifestSnapshot {
    const CommitScope scope = Scope("job-3", gone);
    if (how == "adopt") return committer.Adopt(scope, Current(), {}, {}).value();
    if (how == "fence") return committer.Fence(scope, Current(), {}).value();
    Put("out3.parquet", "four");
    SwapRequest swap = Request(Current());
    swap.inputs = {"c.parquet"};
    swap.outputs[0].name = "out3.parquet";
    return committer.Swap(scope, swap).value();
  };
  for (const std::string_view how : {"adopt", "fence", "swap"}) {
    const ManifestSnapshot ours = publish(how);
    EXPECT_THAT(ours.manifest.retired,
                testing::Contains(Retired("a.parquet", kSuperseded, "job-2")))
        << how;
    ExpectFails(committer.Adopt(Scope("job-3"), ours, {"a.parquet"}, {}), Code::kInternal,
                "retired already");
  }
}

// --- Outcomes that are not plain (R302, H5, P30) ---

class HiveCommitOutcome : public HiveCommit {
 protected:
  struct Fault {
    bool applied = false;  // The write happens all the same.
    Code code = Code::kUnknownOutcome;
    std::function<void()> meanwhile = {};  // What happens before the caller looks.
    bool blind = false;                    // Looking fails too.
  };

  Result<ManifestSnapshot> SwapWith(const SwapRequest& request, Fault fault) {
    return With(std::move(fault), [&](HiveCommitter& c) { return c.Swap(Scope(), request); });
  }

  // The first write meets the fault.
  template <typename F>
  Result<ManifestSnapshot> With(Fault fault, F call) {
    bool met = false;
    storage::FaultyStore faulty(
        store_, [&](std::string_view op, const std::string&, bool before) -> Status {
          if (op == "Get" && met && fault.blind) return Fail(Code::kTransient, "network down");
          if ((op != "PutIf" && op != "PutNew") || met || before == fault.applied) return {};
          met = true;
          if (fault.meanwhile) fault.meanwhile();
          return Fail(fault.code, "time-out");
        });
    HiveCommitter committer(faulty);
    auto result = call(committer);
    EXPECT_TRUE(met);
    return result;
  }
};

TEST_F(HiveCommitOutcome, H5AppliedAndSeenIsSuccess) {
  for (const Code code : {Code::kUnknownOutcome, Code::kTransient, Code::kConflict}) {
    const ManifestSnapshot base = store_.Stat(kKey) ? Current() : Prepare();
    const auto next = With({.applied = true, .code = code},
                           [&](HiveCommitter& c) { return c.Adopt(Scope(), base, {}, {}); });
    ASSERT_TRUE(next) << next.error().ToString();
    EXPECT_EQ(next->manifest.generation, base.manifest.generation + 1);
    EXPECT_EQ(next->version, Current().version);
  }
}

TEST_F(HiveCommitOutcome, R302NotAppliedIsTransientAndRetrySucceeds) {
  const SwapRequest request = Request(Prepare());
  for (const Code code : {Code::kUnknownOutcome, Code::kTransient}) {
    const auto result = SwapWith(request, {.applied = false, .code = code});
    ExpectFails(result, Code::kTransient, "not committed: time-out");
    EXPECT_EQ(Current().manifest.generation, 1u);
  }
  EXPECT_TRUE(HiveCommitter(store_).Swap(Scope(), request));
}

TEST_F(HiveCommitOutcome, R302BlindIsUnknown) {
  const SwapRequest request = Request(Prepare());
  for (const bool applied : {false, true}) {
    ExpectFails(SwapWith(request, {.applied = applied, .blind = true}), Code::kUnknownOutcome,
                "may or may not be published");
  }
}

TEST_F(HiveCommitOutcome, AManifestThatCannotBeReadIsUnknown) {
  const SwapRequest request = Request(Prepare());
  ExpectFails(SwapWith(request, {.meanwhile = [&] { Overwrite(std::string("{}")); }}),
              Code::kUnknownOutcome, "there is no \"generation\"");
}

TEST_F(HiveCommitOutcome, BootstrapOutcomes) {
  const auto bootstrap = [](HiveCommitter& c) { return c.Bootstrap(Scope(), {"a.parquet"}); };
  ExpectFails(With({.applied = false}, bootstrap), Code::kTransient, "not committed");
  EXPECT_THAT(store_.Keys(), IsEmpty());
  EXPECT_EQ(With({.applied = true}, bootstrap).value().manifest.generation, 1u);
  EXPECT_EQ(Current().manifest.job_id, "job-1");
  const auto other = [](HiveCommitter& c) { return c.Bootstrap(Scope("job-2"), {"a.parquet"}); };
  ExpectFails(With({.applied = false}, other), Code::kConflict, "somebody else published");
}

TEST_F(HiveCommitOutcome, SomebodyElseFirstIsAConflict) {
  const ManifestSnapshot base = Prepare();
  const auto other = [&] {
    ASSERT_TRUE(HiveCommitter(store_).Fence(Scope("gc"), base, {"out.parquet"}));
  };
  // A fenced output is proof that the swap did not happen.
  ExpectFails(SwapWith(Request(base), {.meanwhile = other}), Code::kConflict, "generation 2");
}

TEST_F(HiveCommitOutcome, CommittedAndBuiltOnIsSuccess) {
  const ManifestSnapshot base = Prepare();
  const auto adopted_after = [&] {
    ASSERT_TRUE(HiveCommitter(store_).Adopt(Scope("job-2"), Current(), {"late.parquet"}, {}));
  };
  const auto next = SwapWith(Request(base), {.applied = true, .meanwhile = adopted_after});
  ASSERT_TRUE(next) << next.error().ToString();
  EXPECT_EQ(next->manifest.generation, 2u);
  EXPECT_THAT(next->manifest.files, ElementsAre("c.parquet", "out.parquet"));
  EXPECT_EQ(Current().manifest.generation, 3u);
  // It is not the current one: building on it conflicts, without touching anything.
  ExpectFails(HiveCommitter(store_).Adopt(Scope(), *next, {}, {}), Code::kConflict,
              "generation 2 is not the current one");
}

TEST_F(HiveCommitOutcome, CommittedAndCompactedAgainIsSuccess) {
  const ManifestSnapshot base = Prepare();
  Put("out2.parquet", "four");
  const auto swapped_after = [&] {
    SwapRequest again = Request(Current());
    again.inputs = {"c.parquet", "out.parquet"};
    again.outputs[0].name = "out2.parquet";
    ASSERT_TRUE(HiveCommitter(store_).Swap(Scope("job-2"), again));
  };
  EXPECT_TRUE(SwapWith(Request(base), {.applied = true, .meanwhile = swapped_after}));
}

TEST_F(HiveCommitOutcome, WithoutOutputsOurRetiredInputsAreTheProof) {
  const ManifestSnapshot base = Prepare();
  SwapRequest request = Request(base);
  request.outputs.clear();
  request.rows_in = request.rows_out = 0;
  const auto adopt_after = [&] {
    ASSERT_TRUE(HiveCommitter(store_).Adopt(Scope("job-2"), Current(), {}, {}));
  };
  EXPECT_TRUE(SwapWith(request, {.applied = true, .meanwhile = adopt_after}));
  EXPECT_EQ(Current().manifest.generation, 3u);

  // The same inputs, retired by another job.
  HiveManifest manifest = base.manifest;
  manifest.generation = 9;
  Overwrite(manifest);
  request.planned = Current();
  const auto other = [&] { ASSERT_TRUE(HiveCommitter(store_).Swap(Scope("job-9"), request)); };
  ExpectFails(SwapWith(request, {.meanwhile = other}), Code::kConflict, "generation 10");
}

TEST_F(HiveCommitOutcome, PlainFailuresPassThrough) {
  const SwapRequest request = Request(Prepare());
  for (const Code code : {Code::kDenied, Code::kLimit, Code::kInvalid}) {
    ExpectFails(SwapWith(request, {.applied = false, .code = code}), code, "time-out");
  }
  EXPECT_EQ(Current().manifest.generation, 1u);
}

TEST_F(HiveCommitOutcome, PublishedIsSuccessEvenIfTheVersionCannotBeRead) {
  const ManifestSnapshot base = Prepare();
  bool published = false;
  storage::FaultyStore blind(store_, [&](std::string_view op, const std::string&, bool) -> Status {
    if (op == "PutIf") published = true;
    if (op == "Get" && published) return Fail(Code::kTransient, "network down");
    return {};
  });
  const auto next = HiveCommitter(blind).Swap(Scope(), Request(base));
  ASSERT_TRUE(next) << next.error().ToString();
  EXPECT_EQ(next->manifest.generation, 2u);
  EXPECT_EQ(next->version, "");
  EXPECT_EQ(Current().manifest, next->manifest);
}

// R218, R276: ten committers on one base: one commit per generation, nobody's rows lost.
TEST_F(HiveCommit, R276ExactlyOneOfManyWins) {
  Prepare();
  constexpr int kThreads = 10;
  constexpr int kEach = 20;
  std::vector<int> won(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      HiveCommitter committer(store_);
      for (int i = 0; i < kEach;) {
        const auto base = table::ReadManifest(store_, kPrefix).value().value();
        const std::string name = "t" + std::to_string(t) + "-" + std::to_string(i) + ".parquet";
        const auto next = committer.Adopt(Scope("job-" + std::to_string(t)), base, {name}, {});
        if (!next) {
          ASSERT_EQ(next.error().code, Code::kConflict) << next.error().ToString();
          continue;
        }
        ++won[static_cast<size_t>(t)];
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(won, testing::Each(kEach));
  EXPECT_EQ(Current().manifest.generation, 1u + kThreads * kEach);
  EXPECT_EQ(Current().manifest.files.size(), 3u + kThreads * kEach);
}

}  // namespace
}  // namespace lithify::commit
