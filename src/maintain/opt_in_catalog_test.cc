#include "maintain/opt_in_catalog.h"

#include <gmock/gmock.h>

#include "commit/iceberg_fixture.h"
#include "plan/iceberg_plan.h"

namespace lithify::maintain {
namespace {

class OptIn : public commit::IcebergTable {
 protected:
  OptIn() {
    Create();
    Append({Data("a")});
  }
  void Set(const std::string& value) {
    Update({table::SetProperties{{{"sqe.maintenance.enabled", value}}}});
  }
  Result<catalog::LoadedTable> Commit() {
    const std::vector<table::TableUpdate> updates{table::SetProperties{{{"by", "us"}}}};
    return guarded_.CommitTable(ident_, {}, updates);
  }
  bool Committed() { return Load().metadata.properties.contains("by"); }

  int renewed_ = 0;
  std::optional<Error> renew_error_;
  OptInCatalog guarded_{
      catalog_,
      {.ident = ident_,
       .is_opted_in = [](const auto& properties) { return plan::OptedIn(properties); },
       .property = "sqe.maintenance.enabled",
       .renew = [this]() -> Status {
         ++renewed_;
         if (renew_error_) return Fail(*renew_error_);
         return {};
       }}};
};

TEST_F(OptIn, R026WithoutThePropertyTheTableIsOutOfReach) {
  EXPECT_EQ(guarded_.LoadTable(ident_).error().code, Code::kUnsupported);
  EXPECT_EQ(guarded_.MayCommit().error().code, Code::kUnsupported);
  EXPECT_EQ(Commit().error().code, Code::kUnsupported);
  EXPECT_FALSE(Committed());
  EXPECT_EQ(renewed_, 0);
  for (const char* value : {"True", "TRUE", "yes", "1", "false", ""}) {  // R028.
    Set(value);
    EXPECT_FALSE(guarded_.LoadTable(ident_)) << value;
    EXPECT_FALSE(Commit()) << value;
  }
}

TEST_F(OptIn, WithItAJobGoesThrough) {
  Set("true");
  ASSERT_TRUE(guarded_.LoadTable(ident_));
  ASSERT_TRUE(guarded_.MayCommit());
  EXPECT_EQ(renewed_, 1);  // T9: right before the commit.
  ASSERT_TRUE(Commit());
  EXPECT_TRUE(Committed());
}

TEST_F(OptIn, ACommitNeedsALookFirst) {
  Set("true");
  EXPECT_EQ(Commit().error().code, Code::kUnsupported);
  EXPECT_FALSE(Committed());
}

TEST_F(OptIn, WhoTakesThePropertyAwayInTheMiddleStopsTheCommit) {
  Set("true");
  ASSERT_TRUE(guarded_.LoadTable(ident_));
  Set("false");
  const Status may = guarded_.MayCommit();
  ASSERT_FALSE(may);
  EXPECT_EQ(may.error().code, Code::kUnsupported);
  EXPECT_THAT(may.error().ToString(), testing::HasSubstr("sqe.maintenance.enabled"));
  EXPECT_EQ(renewed_, 0);
  EXPECT_FALSE(Commit());
  EXPECT_FALSE(Committed());
}

TEST_F(OptIn, R054TheAliasSaysNoToo) {
  Set("true");
  Update({table::SetProperties{{{"lithify.maintenance.enabled", "false"}}}});
  EXPECT_FALSE(guarded_.LoadTable(ident_));
}

TEST_F(OptIn, WithoutAFreshTokenNothingIsSent) {
  Set("true");
  ASSERT_TRUE(guarded_.LoadTable(ident_));
  renew_error_ = Error{Code::kDenied, "the client is refused", {}, {}};
  EXPECT_EQ(guarded_.MayCommit().error().code, Code::kDenied);
}

// A commit that was sent may be in the table: whatever the owner does then, it must be found.
TEST_F(OptIn, R302TheOutcomeIsLookedForWhateverThePropertySaysThen) {
  Set("true");
  ASSERT_TRUE(guarded_.LoadTable(ident_));
  catalog::MemoryCatalog::Hooks hooks;
  hooks.fault = [](const catalog::TableIdent&) {
    return catalog::MemoryCatalog::Fault::kLostAfterApply;
  };
  catalog_.set_hooks(hooks);
  EXPECT_EQ(Commit().error().code, Code::kUnknownOutcome);
  catalog_.set_hooks({});
  Set("false");
  const auto look = guarded_.LoadTable(ident_);
  ASSERT_TRUE(look);
  EXPECT_TRUE(look->metadata.properties.contains("by"));
  EXPECT_EQ(Commit().error().code, Code::kUnsupported);  // But nothing more is sent.
}

TEST_F(OptIn, OtherTablesAreOutOfReach) {
  Set("true");
  const catalog::TableIdent other{ident_.namespace_parts, "other"};
  ASSERT_TRUE(catalog_.CreateTable(other, Load().metadata_text));
  ASSERT_TRUE(guarded_.LoadTable(ident_));
  EXPECT_FALSE(guarded_.CommitTable(other, {}, {}));
  EXPECT_FALSE(guarded_.CheckMayWrite(catalog_.LoadTable(other).value()));
  // Looking at a neighbour, as the removal of orphans must, takes nothing away and gives nothing.
  ASSERT_TRUE(guarded_.LoadTable(other));
  EXPECT_FALSE(guarded_.CommitTable(other, {}, {}));
  EXPECT_TRUE(Commit());
}

}  // namespace
}  // namespace lithify::maintain
