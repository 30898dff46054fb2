// Outcomes: refusals, lost replies, races, and what is left behind in each.
#include <utility>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_fixture.h"

namespace lithify::commit {
namespace {

using catalog::MemoryCatalog;
using testing::ElementsAre;
using testing::HasSubstr;
using Fault = MemoryCatalog::Fault;

// Answers commits with these codes without doing anything, unless told otherwise, and loads as
// told; then as the table is.
class ScriptedCatalog final : public catalog::Catalog {
 public:
  explicit ScriptedCatalog(catalog::Catalog& real) : real_(real) {}
  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    return real_.ListNamespaces(parent);
  }
  Result<std::vector<catalog::TableIdent>> ListTables(
      const std::vector<std::string>& namespace_parts) override {
    return real_.ListTables(namespace_parts);
  }
  Result<catalog::LoadedTable> LoadTable(const catalog::TableIdent& ident) override {
    ++loads;
    if (!load_codes.empty()) {
      const Code code = load_codes.front();
      load_codes.erase(load_codes.begin());
      return Fail(code, "told so");
    }
    auto loaded = real_.LoadTable(ident);
    if (loaded && replaced) loaded->metadata.table_uuid = "6e0f3a6c-8d6f-4d43-9c3c-a5c2c5d9a2f4";
    return loaded;
  }
  Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent& ident,
                                           std::span<const table::TableRequirement> requirements,
                                           std::span<const table::TableUpdate> updates) override {
    ++commits;
    last_requirements.assign(requirements.begin(), requirements.end());
    if (!commit_codes.empty()) {
      const Code code = commit_codes.front();
      commit_codes.erase(commit_codes.begin());
      // As where a gateway sends the request twice, and the second is refused.
      if (apply_first) {
        EXPECT_TRUE(real_.CommitTable(ident, requirements, updates));
      }
      if (on_refusal) on_refusal();
      return Fail(code, "told so");
    }
    return real_.CommitTable(ident, requirements, updates);
  }
  bool AnswersOnce() const override { return answers_once; }
  std::string Describe() const override { return "scripted:"; }

  bool replaced = false;  // Another table has the name.
  bool answers_once = false;
  int loads = 0;
  int commits = 0;
  std::vector<Code> load_codes;
  std::vector<Code> commit_codes;
  bool apply_first = false;
  std::function<void()> on_refusal;
  std::vector<table::TableRequirement> last_requirements;

 private:
  catalog::Catalog& real_;
};

class IcebergPublish : public IcebergTable {
 protected:
  void SetUp() override {
    Create();
    Append({Data("a"), Data("b")});
  }

  // The first commit of the code under test meets the fault; `then` runs before it is answered.
  void FaultOnce(Fault fault, std::function<void()> then = {}) {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this, fault, then](const catalog::TableIdent&) {
      if (std::exchange(faulted_, true)) return Fault::kNone;
      if (then && fault == Fault::kLostBeforeApply) then();
      return fault;
    };
    hooks.before_answer = [this, then, fault](const catalog::TableIdent&) {
      if (fault == Fault::kLostAfterApply && !std::exchange(answered_, true) && then) then();
    };
    catalog_.set_hooks(std::move(hooks));
  }

  ScriptedCatalog& Script() {
    scripted_ = std::make_unique<ScriptedCatalog>(catalog_);
    catalog_ref_ = scripted_.get();
    return *scripted_;
  }

  bool faulted_ = false;
  bool answered_ = false;
  std::unique_ptr<ScriptedCatalog> scripted_;
};

TEST_F(IcebergPublish, R115RequirementsAreSent) {
  ScriptedCatalog& script = Script();
  const RewriteCommit request = Plan({"a", "b"});
  ASSERT_TRUE(Run(request));
  ASSERT_EQ(script.last_requirements.size(), 5u);
  EXPECT_EQ(std::get<table::AssertTableUuid>(script.last_requirements[0]).uuid,
            "9c12d441-03fe-4693-9a96-a0705ddf69c1");
  const auto& ref = std::get<table::AssertRefSnapshotId>(script.last_requirements[1]);
  EXPECT_EQ(ref.ref, "main");
  EXPECT_EQ(ref.snapshot_id, request.planned_snapshot_id);
  EXPECT_EQ(std::get<table::AssertCurrentSchemaId>(script.last_requirements[2]).schema_id, 0);
  EXPECT_EQ(std::get<table::AssertDefaultSpecId>(script.last_requirements[3]).spec_id, 0);
  EXPECT_EQ(std::get<table::AssertDefaultSortOrderId>(script.last_requirements[4]).order_id, 0);
}

// --- lost replies ----------------------------------------------------------------------------

TEST_F(IcebergPublish, I8LostReplyAfterTheCommitIsASuccess) {
  const RewriteCommit request = Plan({"a", "b"});
  FaultOnce(Fault::kLostAfterApply);
  const CommittedSnapshot done = Run(request).value();
  EXPECT_TRUE(done.found_after_unknown);
  EXPECT_EQ(done.attempts, 1);
  EXPECT_EQ(done.manifests_written, 2);
  EXPECT_EQ(done.snapshot_id, Head().snapshot_id);
  EXPECT_EQ(done.sequence_number, 2);
  EXPECT_THAT(LiveNames(), ElementsAre("out"));
}

TEST_F(IcebergPublish, I8LostReplyAndAnotherCommitOnTop) {
  const RewriteCommit request = Plan({"a", "b"});
  FaultOnce(Fault::kLostAfterApply, [&] { Append({Data("later")}); });
  const CommittedSnapshot done = Run(request).value();
  EXPECT_TRUE(done.found_after_unknown);
  EXPECT_NE(done.snapshot_id, Head().snapshot_id);
  EXPECT_THAT(LiveNames(), ElementsAre("later", "out"));
}

TEST_F(IcebergPublish, I8LostReplyAndRolledBackStillOwnsItsFiles) {
  const RewriteCommit request = Plan({"a", "b"});
  FaultOnce(Fault::kLostAfterApply, [&] { SetRef("main", request.planned_snapshot_id); });
  const CommittedSnapshot done = Run(request).value();
  EXPECT_TRUE(done.found_after_unknown);
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b"));
}

TEST_F(IcebergPublish, I8LostRequestIsSentAgain) {
  const RewriteCommit request = Plan({"a", "b"});
  FaultOnce(Fault::kLostBeforeApply);
  const CommittedSnapshot done = Run(request).value();
  EXPECT_FALSE(done.found_after_unknown);
  EXPECT_EQ(done.attempts, 2);
  EXPECT_THAT(LiveNames(), ElementsAre("out"));
}

TEST_F(IcebergPublish, I8DelayedRequestLandsWhileWeRetry) {
  // The first request is on its way while the second is prepared: only one can be applied, and
  // either is ours.
  const RewriteCommit request = Plan({"a", "b"});
  class Delaying final : public catalog::Catalog {
   public:
    explicit Delaying(catalog::Catalog& real) : real_(real) {}
    Result<std::vector<std::vector<std::string>>> ListNamespaces(
        const std::vector<std::string>& parent) override {
      return real_.ListNamespaces(parent);
    }
    Result<std::vector<catalog::TableIdent>> ListTables(
        const std::vector<std::string>& parts) override {
      return real_.ListTables(parts);
    }
    Result<catalog::LoadedTable> LoadTable(const catalog::TableIdent& ident) override {
      return real_.LoadTable(ident);
    }
    Result<catalog::LoadedTable> CommitTable(const catalog::TableIdent& ident,
                                             std::span<const table::TableRequirement> requirements,
                                             std::span<const table::TableUpdate> updates) override {
      if (updates_.empty()) {
        requirements_.assign(requirements.begin(), requirements.end());
        updates_.assign(updates.begin(), updates.end());
        return Fail(Code::kUnknownOutcome, "timed out");
      }
      EXPECT_TRUE(real_.CommitTable(ident, requirements_, updates_));
      return real_.CommitTable(ident, requirements, updates);
    }
    std::string Describe() const override { return "delaying:"; }

   private:
    catalog::Catalog& real_;
    std::vector<table::TableRequirement> requirements_;
    std::vector<table::TableUpdate> updates_;
  } delaying(catalog_);
  catalog_ref_ = &delaying;
  const CommittedSnapshot done = Run(request).value();
  EXPECT_TRUE(done.found_after_unknown);
  EXPECT_EQ(done.snapshot_id, Head().snapshot_id);
  EXPECT_THAT(LiveNames(), ElementsAre("out"));
  EXPECT_EQ(Load().metadata.snapshots.size(), 2u);
}

TEST_F(IcebergPublish, I8LostRequestOvertakenByAnAppendIsTriedAnew) {
  const RewriteCommit request = Plan({"a", "b"});
  FaultOnce(Fault::kLostBeforeApply, [&] { Append({Data("c")}); });
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.attempts, 2);
  EXPECT_THAT(LiveNames(), ElementsAre("c", "out"));
  // The first attempt is dead for certain: its files are gone.
  const std::set<std::string> keys = MetadataKeys();
  size_t ours = 0;
  for (const std::string& key : keys) ours += key.find("snap-") != std::string::npos ? 1 : 0;
  EXPECT_EQ(ours, 1u);
}

TEST_F(IcebergPublish, I8LostRequestThenARealConflictIsAConflict) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  FaultOnce(Fault::kLostBeforeApply, [&] { Remove({"a"}); });
  ExpectFails(Run(request), Code::kConflict, "not live any more");
  for (const std::string& key : MetadataKeys()) {
    EXPECT_EQ(key.find("snap-"), std::string::npos) << key;
  }
}

TEST_F(IcebergPublish, R302NothingIsRemovedWhileTheOutcomeIsOpen) {
  const RewriteCommit request = Plan({"a", "b"});
  ScriptedCatalog& script = Script();
  script.commit_codes = std::vector<Code>(4, Code::kUnknownOutcome);
  const std::set<std::string> keys = MetadataKeys();
  ExpectFails(Run(request), Code::kUnknownOutcome, request.job_id);
  EXPECT_EQ(script.commits, 4);
  EXPECT_EQ(MetadataKeys().size(), keys.size() + 4 * 3);  // Two manifests and a list each.
  EXPECT_TRUE(store_->Stat("t/data/out"));
  EXPECT_FALSE(slept_.empty());
}

TEST_F(IcebergPublish, R302UnreachableCatalogAfterALostReply) {
  const RewriteCommit request = Plan({"a", "b"});
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kUnknownOutcome};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kTransient); };
  const std::set<std::string> keys = MetadataKeys();
  ExpectFails(Run(request), Code::kUnknownOutcome, "may or may not be applied");
  EXPECT_EQ(MetadataKeys().size(), keys.size() + 3);
  EXPECT_LT(script.loads, 20);  // Bounded.
}

TEST_F(IcebergPublish, R302CatalogThatComesBackIsAsked) {
  const RewriteCommit request = Plan({"a", "b"});
  ScriptedCatalog& script = Script();
  FaultOnce(Fault::kLostAfterApply, [&] { script.load_codes = {Code::kDenied, Code::kTransient}; });
  EXPECT_TRUE(Run(request).value().found_after_unknown);
}

TEST_F(IcebergPublish, R302HistoryThatIsGoneCannotTell) {
  const RewriteCommit request = Plan({"a", "b"});
  FaultOnce(Fault::kLostBeforeApply, [&] {
    const int64_t middle = Append({Data("c")});
    Append({Data("d")});
    Expire(middle);
  });
  ExpectFails(Run(request), Code::kUnknownOutcome, "the snapshots in between are gone");
}

TEST_F(IcebergPublish, I8SameRequestAgainIsTheSameSuccess) {
  const RewriteCommit request = Plan({"a", "b"});
  const CommittedSnapshot first = Run(request).value();
  Append({Data("later")});
  const CommittedSnapshot again = Run(request).value();
  EXPECT_EQ(again.snapshot_id, first.snapshot_id);
  EXPECT_TRUE(again.found_after_unknown);
  EXPECT_EQ(again.manifests_written, first.manifests_written);
  EXPECT_THAT(LiveNames(), ElementsAre("later", "out"));
}

// --- refusals ----------------------------------------------------------------------------------

TEST_F(IcebergPublish, I35DeniedIsAKnownFailure) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  FaultOnce(Fault::kDenied);
  ExpectFails(Run(request), Code::kDenied, "deny");
  EXPECT_EQ(MetadataKeys(), keys);
  EXPECT_THAT(LiveNames(), ElementsAre("a", "b"));
}

TEST_F(IcebergPublish, I35EachCodeHasItsOutcome) {
  const std::set<std::string> keys = MetadataKeys();
  ScriptedCatalog& script = Script();
  int n = 0;
  for (const Code code : {Code::kInvalid, Code::kNotFound, Code::kDenied}) {
    const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
    script.commits = 0;
    script.commit_codes = {code};
    // What the catalog finds wrong is no wrong call of ours' caller.
    ExpectFails(Run(request), code == Code::kInvalid ? Code::kDenied : code, "told so");
    EXPECT_EQ(script.commits, 1);
    EXPECT_EQ(MetadataKeys(), keys);
  }
  for (const Code code : {Code::kConflict, Code::kTransient}) {
    const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
    script.commits = 0;
    script.commit_codes = std::vector<Code>(4, code);
    ExpectFails(Run(request), code, "told so");
    EXPECT_EQ(script.commits, 4);
    EXPECT_EQ(MetadataKeys(), keys);
  }
  // A code that no catalog promises means nothing: the outcome is open.
  const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
  script.commit_codes = std::vector<Code>(4, Code::kInternal);
  ExpectFails(Run(request), Code::kUnknownOutcome, "told so");
  EXPECT_GT(MetadataKeys().size(), keys.size());
}

TEST_F(IcebergPublish, I8RefusalOfARepeatedRequestIsASuccess) {
  int n = 0;
  for (const Code code :
       {Code::kConflict, Code::kDenied, Code::kNotFound, Code::kUnsupported, Code::kInvalid}) {
    const std::string name = std::to_string(++n);
    Append({Data("a" + name), Data("b" + name)});
    ScriptedCatalog& script = Script();
    script.apply_first = true;
    script.commit_codes = {code};
    const auto done = Run(Plan({"a" + name, "b" + name}, "out" + name));
    ASSERT_TRUE(done) << CodeName(code) << ": " << done.error().ToString();
    EXPECT_TRUE(done->found_after_unknown);
    EXPECT_EQ(done->attempts, 1);
    EXPECT_EQ(done->snapshot_id, Head().snapshot_id);
    EXPECT_EQ(script.commits, 1);
    EXPECT_TRUE(Live().contains("out" + name));
  }
}

TEST_F(IcebergPublish, I8RefusalOfARepeatedRequestIsUnknownWhereTheLookFails) {
  int n = 0;
  for (const Code code :
       {Code::kConflict, Code::kDenied, Code::kNotFound, Code::kUnsupported, Code::kInvalid}) {
    for (const Code look : {Code::kTransient, Code::kDenied}) {
      const std::string name = std::to_string(++n);
      Append({Data("a" + name), Data("b" + name)});
      ScriptedCatalog& script = Script();
      script.apply_first = true;
      script.commit_codes = {code};
      script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, look); };
      const RewriteCommit request = Plan({"a" + name, "b" + name}, "out" + name);
      ExpectFails(Run(request), Code::kUnknownOutcome, "may or may not be applied");
      EXPECT_EQ(script.commits, 1);
      EXPECT_LT(script.loads, 20);  // Bounded.
      script.load_codes.clear();
      // Every file of the snapshot is still there.
      EXPECT_TRUE(Live().contains("out" + name)) << CodeName(code);
    }
  }
}

TEST_F(IcebergPublish, R302RefusalIsUnknownWhereTheLookFails) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kConflict};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kDenied); };
  ExpectFails(Run(request), Code::kUnknownOutcome, request.job_id);
  EXPECT_EQ(MetadataKeys().size(), keys.size() + 3);
}

TEST_F(IcebergPublish, I35TransientIsKnownWithoutALook) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kTransient};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kDenied); };
  ExpectFails(Run(request), Code::kDenied, "told so");
  EXPECT_EQ(MetadataKeys(), keys);
}

TEST_F(IcebergPublish, I8RefusedExpiryIsLookedInto) {
  const int64_t first = Head().snapshot_id;
  Append({Data("c")});
  const auto request = [&](int64_t id) {
    return IcebergCommitter::Expiry{ident_, Load().metadata_location, {id}, {}};
  };
  ScriptedCatalog& script = Script();
  script.apply_first = true;
  script.commit_codes = {Code::kConflict};
  const auto done = Committer().CommitExpiry(request(first));
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_EQ(done->metadata.FindSnapshot(first), nullptr);
  const int64_t second = Head().snapshot_id;
  Append({Data("d")});
  script.commit_codes = {Code::kDenied};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kDenied); };
  ExpectFails(Committer().CommitExpiry(request(second)), Code::kUnknownOutcome,
              "may or may not be applied");
}

TEST_F(IcebergPublish, R118HarmlessConflictsAreRetriedWithGrowingPauses) {
  const RewriteCommit request = Plan({"a", "b"});
  int appends = 0;
  bool within = false;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (appends == 2 || std::exchange(within, true)) return;
    Append({Data("c" + std::to_string(++appends))});
    within = false;
  };
  catalog_.set_hooks(std::move(hooks));
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.attempts, 3);
  EXPECT_THAT(LiveNames(), ElementsAre("c1", "c2", "out"));
  EXPECT_EQ(Live().at("out").sequence_number, 1);
  EXPECT_EQ(Live().at("out").file_sequence_number, 4);
  EXPECT_EQ(Head().summary.at("total-data-files"), "3");
  EXPECT_THAT(slept_, ElementsAre(std::chrono::milliseconds(50), std::chrono::milliseconds(100)));
}

TEST_F(IcebergPublish, R119ExhaustedAttemptsSayWhy) {
  RewriteCommit request = Plan({"a", "b"});
  request.commit_attempts = 2;
  ScriptedCatalog& script = Script();
  script.commit_codes = std::vector<Code>(2, Code::kConflict);
  int appends = 0;
  script.on_refusal = [&] { Append({Data("c" + std::to_string(++appends))}); };
  ExpectFails(Run(request), Code::kConflict, "lost 2 attempts against concurrent writers");
}

TEST_F(IcebergPublish, R118ATableThatMovesIsTriedAsOftenAsAsked) {
  RewriteCommit request = Plan({"a", "b"});
  request.commit_attempts = 20;
  ScriptedCatalog& script = Script();
  script.commit_codes = std::vector<Code>(19, Code::kConflict);
  int appends = 0;
  script.on_refusal = [&] { Append({Data("c" + std::to_string(++appends))}); };
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.attempts, 20);
  EXPECT_EQ(script.commits, 20);
  EXPECT_EQ(Live().size(), 20u);
}

TEST_F(IcebergPublish, R118ACatalogThatRefusesOnAnUnchangedTableIsAskedFourTimes) {
  RewriteCommit request = Plan({"a", "b"});
  request.commit_attempts = 20;
  const std::set<std::string> keys = MetadataKeys();
  ScriptedCatalog& script = Script();
  // Once the table moves, so that the count begins again.
  script.commit_codes = std::vector<Code>(50, Code::kConflict);
  script.on_refusal = [&] {
    if (script.commits == 2) Append({Data("c")});
  };
  ExpectFails(Run(request), Code::kConflict,
              "the catalog refused 4 attempts although the table did not change");
  EXPECT_EQ(script.commits, 6);
  Duration slept = Duration::zero();
  for (const Duration pause : slept_) slept += pause;
  EXPECT_LT(slept, std::chrono::seconds(30));
  EXPECT_EQ(MetadataKeys().size(), keys.size() + 2);  // Of the append.
}

TEST_F(IcebergPublish, SequenceNumberTakenOnAnotherBranchIsRetried) {
  SetRef("audit", Head().snapshot_id);
  const RewriteCommit request = Plan({"a", "b"});
  bool once = true;
  MemoryCatalog::Hooks hooks;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (std::exchange(once, false)) Commit({"append", {Data("c")}, {}, "audit"});
  };
  catalog_.set_hooks(std::move(hooks));
  const CommittedSnapshot done = Run(request).value();
  EXPECT_EQ(done.attempts, 2);
  EXPECT_EQ(done.sequence_number, 3);
  EXPECT_THAT(LiveNames(), ElementsAre("out"));
}

TEST_F(IcebergPublish, CancelledBeforeTheCommitLeavesNothing) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  cancel_.Request();
  ExpectFails(Run(request), Code::kCancelled, "stopped");
  EXPECT_EQ(MetadataKeys(), keys);
}

// Not sent, and nobody is asked any more: it is known that nothing happened.
TEST_F(IcebergPublish, ACommitThatWasNotSentForAStopLeavesNothing) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kCancelled};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kCancelled); };
  ExpectFails(Run(request), Code::kCancelled, "told so");
  EXPECT_EQ(script.commits, 1);
  EXPECT_EQ(MetadataKeys(), keys);
}

// R115: cut off, it may have been applied. Nothing goes, and nobody waits for who does not answer.
TEST_F(IcebergPublish, R115ACommitThatIsCutOffByAStopIsInDoubt) {
  for (const bool applied : {false, true}) {
    SCOPED_TRACE(applied);
    const RewriteCommit request = Plan({"a", "b"}, applied ? "out" : "other");
    const std::set<std::string> keys = MetadataKeys();
    ScriptedCatalog& script = Script();
    script.apply_first = applied;
    script.commit_codes = {Code::kUnknownOutcome};
    script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kCancelled); };
    slept_.clear();
    ExpectFails(Run(request), Code::kUnknownOutcome, "may or may not be applied");
    EXPECT_EQ(script.commits, 1);
    EXPECT_EQ(script.load_codes.size(), 49u);
    EXPECT_EQ(slept_.size(), 1u);
    EXPECT_GT(MetadataKeys().size(), keys.size());
  }
}

TEST_F(IcebergPublish, R115AnExpiryToo) {
  const int64_t first = Head().snapshot_id;
  Append({Data("c")});
  ScriptedCatalog& script = Script();
  const IcebergCommitter::Expiry request{ident_, Load().metadata_location, {first}, {}};
  script.commit_codes = {Code::kCancelled};
  ExpectFails(Committer().CommitExpiry(request), Code::kCancelled, "told so");
  EXPECT_EQ(script.commits, 1);
  script.commit_codes = {Code::kUnknownOutcome};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kCancelled); };
  ExpectFails(Committer().CommitExpiry(request), Code::kUnknownOutcome,
              "may or may not be applied");
  EXPECT_EQ(script.commits, 2);
}

TEST_F(IcebergPublish, DroppedTableIsNotFound) {
  RewriteCommit request = Plan({"a", "b"});
  request.ident.name = "gone";
  ExpectFails(Run(request), Code::kNotFound, "gone");
}

// --- the table is gone, or another one has its name -------------------------------------------

TEST_F(IcebergPublish, R115ATableThatTheCatalogDoesNotFindTwiceIsGone) {
  const RewriteCommit request = Plan({"a", "b"});
  const std::set<std::string> keys = MetadataKeys();
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kNotFound};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kNotFound); };
  ExpectFails(Run(request), Code::kNotFound, "told so");
  EXPECT_EQ(script.commits, 1);
  EXPECT_EQ(MetadataKeys(), keys);
}

TEST_F(IcebergPublish, R302ATableThatIsGoneDoesNotSettleWhatWasSentBefore) {
  // A conflict, or no answer at all, was not about a table that is gone: it may have been renamed
  // with our commit in it.
  for (const Code code : {Code::kConflict, Code::kUnknownOutcome}) {
    const RewriteCommit request = Plan({"a", "b"}, std::string(CodeName(code)));
    const size_t keys = MetadataKeys().size();
    ScriptedCatalog& script = Script();
    script.commit_codes = {code};
    script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kNotFound); };
    ExpectFails(Run(request), Code::kUnknownOutcome, request.job_id);
    EXPECT_EQ(MetadataKeys().size(), keys + 3) << CodeName(code);
  }
  // And so it is with the second answer, if there was none to the first.
  const RewriteCommit request = Plan({"a", "b"}, "both");
  const size_t keys = MetadataKeys().size();
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kUnknownOutcome, Code::kNotFound};
  script.on_refusal = [&] {
    if (script.commits == 2) script.load_codes = std::vector<Code>(50, Code::kNotFound);
  };
  ExpectFails(Run(request), Code::kUnknownOutcome, request.job_id);
  EXPECT_EQ(MetadataKeys().size(), keys + 6);
}

TEST_F(IcebergPublish, R115AnotherTableOfTheSameNameIsAConflict) {
  int n = 0;
  for (const Code code : {Code::kConflict, Code::kNotFound}) {
    const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
    const std::set<std::string> keys = MetadataKeys();
    ScriptedCatalog& script = Script();
    script.commit_codes = {code};
    script.on_refusal = [&] { script.replaced = true; };
    ExpectFails(Run(request), Code::kConflict, "another table has this name now");
    EXPECT_EQ(script.commits, 1);
    EXPECT_EQ(MetadataKeys(), keys);
  }
}

TEST_F(IcebergPublish, R302AnotherTableOfTheSameNameDoesNotSettleALostReply) {
  int n = 0;
  for (const Code code : {Code::kUnknownOutcome, Code::kDenied}) {
    const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
    const size_t keys = MetadataKeys().size();
    ScriptedCatalog& script = Script();
    script.commit_codes = {code};
    script.on_refusal = [&] { script.replaced = true; };
    ExpectFails(Run(request), Code::kUnknownOutcome, "another table has this name now");
    EXPECT_EQ(script.commits, 1);
    EXPECT_EQ(MetadataKeys().size(), keys + 3);
  }
}

TEST_F(IcebergPublish, R302AnExpiryIsNotFoundInAnotherTable) {
  const int64_t first = Head().snapshot_id;
  Append({Data("c")});
  const IcebergCommitter::Expiry request{ident_, Load().metadata_location, {first}, {}};
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kUnknownOutcome};
  // The other table has no such snapshot, and that means nothing.
  script.on_refusal = [&] {
    Expire(first);
    script.replaced = true;
  };
  ExpectFails(Committer().CommitExpiry(request), Code::kUnknownOutcome,
              "another table has this name now");
}

TEST_F(IcebergPublish, R302ARefusedExpiryOfATableThatIsGoneOrReplaced) {
  const int64_t first = Head().snapshot_id;
  Append({Data("c")});
  const IcebergCommitter::Expiry request{ident_, Load().metadata_location, {first}, {}};
  for (const Code code : {Code::kConflict, Code::kNotFound}) {
    ScriptedCatalog& script = Script();
    script.commit_codes = {code};
    script.on_refusal = [&] { script.replaced = true; };
    ExpectFails(Committer().CommitExpiry(request), Code::kConflict, "another table");
  }
  ScriptedCatalog& script = Script();
  script.commit_codes = {Code::kNotFound};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kNotFound); };
  ExpectFails(Committer().CommitExpiry(request), Code::kNotFound, "told so");
  ScriptedCatalog& wrong = Script();
  wrong.commit_codes = {Code::kInvalid};
  ExpectFails(Committer().CommitExpiry(request), Code::kDenied, "told so");
}

TEST_F(IcebergPublish, I35ACatalogThatAnswersOnceIsBelievedWithoutALook) {
  int n = 0;
  for (const Code code : {Code::kConflict, Code::kNotFound, Code::kDenied}) {
    const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
    const std::set<std::string> keys = MetadataKeys();
    ScriptedCatalog& script = Script();
    script.answers_once = true;
    script.commit_codes = {code};
    script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kNotFound); };
    ExpectFails(Run(request), Code::kNotFound, "told so");
    EXPECT_EQ(MetadataKeys(), keys);
  }
  // But no answer is no answer.
  const RewriteCommit request = Plan({"a", "b"}, "x" + std::to_string(++n));
  const size_t keys = MetadataKeys().size();
  ScriptedCatalog& script = Script();
  script.answers_once = true;
  script.commit_codes = {Code::kUnknownOutcome};
  script.on_refusal = [&] { script.load_codes = std::vector<Code>(50, Code::kNotFound); };
  ExpectFails(Run(request), Code::kUnknownOutcome, request.job_id);
  EXPECT_EQ(MetadataKeys().size(), keys + 3);
}

}  // namespace
}  // namespace lithify::commit
