// IcebergCommitter::CommitRemoval: what leaves the table and what stays, in each outcome.
#include <utility>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_fixture.h"

namespace lithify::commit {
namespace {

using catalog::MemoryCatalog;
using testing::ElementsAre;
using Fault = MemoryCatalog::Fault;

class IcebergRemoval : public IcebergTable {
 protected:
  // Of files whose upper bound of `id` is at most this.
  RemovalCommit Request(int64_t id_max) {
    RemovalCommit request;
    request.ident = ident_;
    request.job_id = "0193a1b2-0000-7000-8000-00000000000" + std::to_string(++jobs_);
    request.trigger = "scheduled";
    request.principal = "sqe";
    request.table_uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1";
    request.bounds_of = {1};
    request.leaves = [this, id_max](const iceberg::DataFile& file) {
      ++asked_;
      return !file.upper_bounds.empty() && file.upper_bounds.at(0).second.at(0) <= id_max;
    };
    return request;
  }
  static iceberg::DataFile UpTo(const std::string& name, int id, int64_t rows = 10,
                                int64_t day = 1) {
    iceberg::DataFile file = Data(name, rows, day);
    file.upper_bounds = {{1, std::string(1, static_cast<char>(id)) + std::string(7, '\0')}};
    return file;
  }
  Result<CommittedSnapshot> RunRemoval(const RemovalCommit& request) {
    return Committer().CommitRemoval(request, cancel_);
  }

  int jobs_ = 0;
  int asked_ = 0;
};

TEST_F(IcebergRemoval, WhatTheRuleNamesLeavesAndNothingElseChanges) {
  for (const int version : {1, 2, 3}) {
    SCOPED_TRACE(version);
    ident_.name = "v" + std::to_string(version);
    Create(version);
    const std::string v = std::to_string(version);
    Append({UpTo("old" + v, 3, 7), UpTo("new" + v, 9), Data("unknown" + v)});
    Append({UpTo("older" + v, 1, 5)});
    Append({UpTo("newer" + v, 12, 10, 2)});
    if (version == 2) Delete({Positions("d" + v, "new" + v)});
    const Entries before = Live();
    const iceberg::Snapshot parent = Head();
    const auto done = RunRemoval(Request(3));
    ASSERT_TRUE(done) << done.error().ToString();
    EXPECT_EQ(done->records_removed, 12);
    EXPECT_EQ(done->manifests_replaced, 2);
    const iceberg::Snapshot head = Head();
    EXPECT_EQ(head.snapshot_id, done->snapshot_id);
    EXPECT_EQ(head.parent_snapshot_id, parent.snapshot_id);
    EXPECT_EQ(head.summary.at("operation"), "delete");
    EXPECT_EQ(head.summary.at("deleted-data-files"), "2");
    EXPECT_EQ(head.summary.at("deleted-records"), "12");
    EXPECT_EQ(head.summary.at("total-data-files"), "3");
    Entries after = Live();
    for (const auto& [name, entry] : before) {
      if (name == "old" + v || name == "older" + v) {
        EXPECT_FALSE(after.contains(name)) << name;
        continue;
      }
      ASSERT_TRUE(after.contains(name)) << name;
      EXPECT_EQ(after.at(name).file, entry.file) << name;
      EXPECT_EQ(after.at(name).sequence_number, entry.sequence_number) << name;
      EXPECT_EQ(after.at(name).snapshot_id, entry.snapshot_id) << name;
    }
    EXPECT_EQ(after.size(), before.size() - 2);
    // The reader of the snapshot before still finds them.
    EXPECT_EQ(Live(parent).size(), before.size());
    const int64_t at = Head().snapshot_id;
    const auto again = RunRemoval(Request(3));
    ASSERT_TRUE(again) << again.error().ToString();
    EXPECT_EQ(again->snapshot_id, 0);
    EXPECT_EQ(Head().snapshot_id, at);
  }
}

// Who was first is kept: the rule is asked again of what there is then.
TEST_F(IcebergRemoval, WhatOthersAppendMeanwhileStays) {
  Create();
  Append({UpTo("old", 3)});
  MemoryCatalog::Hooks hooks;
  bool done = false;
  hooks.fault = [&](const catalog::TableIdent&) {
    if (std::exchange(done, true)) return Fault::kNone;
    Append({UpTo("meanwhile", 9)});
    return Fault::kNone;
  };
  catalog_.set_hooks(hooks);
  const auto removed = RunRemoval(Request(3));
  ASSERT_TRUE(removed) << removed.error().ToString();
  EXPECT_EQ(removed->attempts, 2);
  EXPECT_THAT(LiveNames(), ElementsAre("meanwhile"));
}

TEST_F(IcebergRemoval, ALostReplyIsLookedInto) {
  Create();
  Append({UpTo("old", 3, 7), UpTo("new", 9)});
  MemoryCatalog::Hooks hooks;
  bool done = false;
  hooks.fault = [&](const catalog::TableIdent&) {
    return std::exchange(done, true) ? Fault::kNone : Fault::kLostAfterApply;
  };
  catalog_.set_hooks(hooks);
  const auto removed = RunRemoval(Request(3));
  ASSERT_TRUE(removed) << removed.error().ToString();
  EXPECT_TRUE(removed->found_after_unknown);
  EXPECT_EQ(removed->records_removed, 7);
  EXPECT_THAT(LiveNames(), ElementsAre("new"));
}

TEST_F(IcebergRemoval, OfAnotherTableOrSchemaNothingLeaves) {
  Create();
  Append({UpTo("old", 3)});
  RemovalCommit other = Request(3);
  other.table_uuid = "9c12d441-0000-4693-9a96-a0705ddf69c1";
  ExpectFails(RunRemoval(other), Code::kConflict, "another table");
  RemovalCommit changed = Request(3);
  changed.schema_id = 1;
  ExpectFails(RunRemoval(changed), Code::kConflict, "the schema changed");
  EXPECT_EQ(asked_, 0);
  EXPECT_THAT(LiveNames(), ElementsAre("old"));
}

}  // namespace
}  // namespace lithify::commit
