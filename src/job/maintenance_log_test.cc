#include "job/maintenance_log.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "commit/iceberg_commit.h"
#include "job/maintenance_log_fixture.h"
#include "table/iceberg_snapshot.h"

namespace lithify::job {
namespace {

using catalog::MemoryCatalog;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using Fault = MemoryCatalog::Fault;

class MaintenanceLogTest : public MaintenanceLogWorld {
 protected:
  MaintenanceLog Log() { return MaintenanceLog(Services(), DefaultLogIdent()); }
  LogRow Row(const std::string& table, std::string_view trigger = log_trigger::kScheduled) {
    LogRow row;
    row.job_id = MakeUuidV7(clock_, random_);
    row.table_name = table;
    row.trigger = trigger;
    row.principal = "sqe";
    row.started_at_ms = NowMs() - 1000;
    row.finished_at_ms = NowMs();
    row.status = log_status::kSuccess;
    return row;
  }
  void Put(const std::vector<LogRow>& rows) {
    const auto done = Log().Append(rows, cancel_);
    ASSERT_TRUE(done) << done.error().ToString();
  }
  std::vector<LogRow> Rows(const LogFilter& filter = {}) {
    const auto view = Log().Read(filter, cancel_);
    EXPECT_TRUE(view) << view.error().ToString();
    return view ? view->rows : std::vector<LogRow>();
  }
  std::vector<std::string> Tables(const LogFilter& filter) {
    std::vector<std::string> names;
    for (const LogRow& row : Rows(filter)) names.push_back(row.table_name);
    return names;
  }
  void FaultOnce(Fault fault) {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this, fault](const catalog::TableIdent&) {
      return std::exchange(faulted_, true) ? Fault::kNone : fault;
    };
    catalog_.set_hooks(std::move(hooks));
    faulted_ = false;
  }
  // Another table of the same name, of these columns.
  void CreateOther(std::vector<iceberg::Field> fields) {
    catalog::TableDraft draft;
    draft.schema.fields = std::move(fields);
    ASSERT_TRUE(catalog_.CreateNamespace({"sqe_system"}, {}));
    ASSERT_TRUE(catalog_.CreateTable(DefaultLogIdent(), draft));
  }
  static iceberg::Field Column(int id, const std::string& name, iceberg::TypeKind kind,
                               bool required) {
    iceberg::Field field;
    field.id = id;
    field.name = name;
    field.required = required;
    field.type.kind = kind;
    return field;
  }

  bool faulted_ = false;
};

// --- the table -----------------------------------------------------------------------------------

TEST_F(MaintenanceLogTest, R162R167InitMakesTheTableOnceAndLeavesItAlone) {
  const auto made = InitMaintenanceLog(catalog_, DefaultLogIdent(), "");
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_TRUE(made->namespace_created);
  EXPECT_TRUE(made->table_created);
  EXPECT_EQ(made->location, "s3://b/lake/sqe_system/maintenance_log");
  const auto table = catalog_.LoadTable(DefaultLogIdent()).value();
  std::vector<std::string> columns;
  for (const iceberg::Field& field : table.metadata.schema().fields) {
    columns.push_back(field.name + (field.type.kind == iceberg::TypeKind::kLong ? " BIGINT" : "") +
                      (field.required ? "" : " null"));
  }
  EXPECT_THAT(columns,
              ElementsAre("job_id", "table_name", "trigger", "principal", "started_at_ms BIGINT",
                          "finished_at_ms BIGINT", "status", "files_in BIGINT", "files_out BIGINT",
                          "bytes_in BIGINT", "bytes_out BIGINT", "rows_removed BIGINT",
                          "snapshot_id BIGINT null", "error null"));
  EXPECT_EQ(table.metadata.format_version, 2);

  const auto again = InitMaintenanceLog(catalog_, DefaultLogIdent(), "s3://b/elsewhere");
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_FALSE(again->namespace_created);
  EXPECT_FALSE(again->table_created);
  EXPECT_EQ(again->location, made->location);
  EXPECT_EQ(catalog_.LoadTable(DefaultLogIdent())->metadata_location, table.metadata_location);
}

TEST_F(MaintenanceLogTest, R167InitNamesTheColumnsOfAnotherTable) {
  using iceberg::TypeKind;
  CreateOther(
      {Column(1, "job_id", TypeKind::kString, true), Column(2, "files_in", TypeKind::kInt, true),
       Column(3, "snapshot_id", TypeKind::kLong, true), Column(4, "mine", TypeKind::kLong, true)});
  const auto made = InitMaintenanceLog(catalog_, DefaultLogIdent(), "");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kInvalid);
  EXPECT_EQ(made.error().message,
            "the table is no maintenance log: table_name is missing, trigger is missing, principal "
            "is missing, started_at_ms is missing, finished_at_ms is missing, status is missing, "
            "files_in is no long, files_out is missing, bytes_in is missing, bytes_out is missing, "
            "rows_removed is missing, snapshot_id must not be required, error is missing, mine is "
            "required and not a column of the log");
  const std::vector<LogRow> rows = {Row("a")};
  EXPECT_EQ(Log().Append(rows, cancel_).error().code, Code::kInvalid);
  EXPECT_EQ(Log().Read({}, cancel_).error().code, Code::kInvalid);
  EXPECT_THAT(DataFiles(), IsEmpty());
}

TEST_F(MaintenanceLogTest, R299WithoutATable) {
  const std::vector<LogRow> rows = {Row("a")};
  EXPECT_EQ(Log().Append(rows, cancel_).error().code, Code::kNotFound);
  EXPECT_EQ(Log().Read({}, cancel_).error().code, Code::kNotFound);
}

// --- rows ----------------------------------------------------------------------------------------

TEST_F(MaintenanceLogTest, RowsComeBackAsTheyWere) {
  Init();
  EXPECT_THAT(Rows(), IsEmpty());
  LogRow full = Row("lake.sales.orders");
  full.files_in = 10;
  full.files_out = 2;
  full.bytes_in = int64_t{1} << 40;
  full.bytes_out = 5;
  full.rows_removed = 7;
  full.snapshot_id = 9223372036854775807;
  full.error = "it's \"odd\"\nand ü";
  LogRow empty;
  Put({full, empty});
  EXPECT_THAT(Rows(), UnorderedElementsAre(full, empty));
  const LogRow third = Row("c");
  Put({third});
  EXPECT_THAT(Rows(), UnorderedElementsAre(full, empty, third));
}

TEST_F(MaintenanceLogTest, R148FiltersAreExactAndFilesThatCannotMatchAreNotRead) {
  Init();
  LogRow lease = Row("it's", log_trigger::kLease);
  lease.finished_at_ms += 300'000;
  LogRow late = Row("b");
  late.finished_at_ms += 1000;
  Put({Row("a"), lease, late});
  EXPECT_THAT(Tables({}), UnorderedElementsAre("a", "b", "it's"));
  EXPECT_THAT(Tables({.leases = false}), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(Tables({.trigger = "lease"}), ElementsAre("it's"));
  EXPECT_THAT(Tables({.trigger = "scheduled", .table_name = "a"}), ElementsAre("a"));
  EXPECT_THAT(Tables({.table_name = "it's"}), ElementsAre("it's"));
  EXPECT_THAT(Tables({.finished_after_ms = NowMs()}), UnorderedElementsAre("b", "it's"));
  EXPECT_THAT(Tables({.leases = false, .finished_after_ms = NowMs()}), ElementsAre("b"));
  // Two files: of leases and of jobs.
  EXPECT_THAT(DataFiles(), SizeIs(2));
  EXPECT_EQ(Log().Read({.trigger = "lease"}, cancel_)->files_read, 1);
  EXPECT_EQ(Log().Read({.leases = false}, cancel_)->files_read, 1);
  EXPECT_EQ(Log().Read({.finished_after_ms = NowMs() + 1000}, cancel_)->files_read, 1);
  EXPECT_EQ(Log().Read({.trigger = "none"}, cancel_)->files_read, 0);
  EXPECT_TRUE(Log().Read({.rows_max = 3}, cancel_));
  EXPECT_EQ(Log().Read({.rows_max = 2}, cancel_).error().code, Code::kLimit);
}

// A table as another program made it: another order, other ids, columns of its own, nothing
// required, no partitions.
TEST_F(MaintenanceLogTest, T35ColumnsGoByNameWhateverTheirOrderAndIds) {
  using iceberg::TypeKind;
  std::vector<iceberg::Field> fields;
  int id = 50;
  for (const char* name : {"error", "status", "principal", "trigger", "table_name", "job_id"}) {
    fields.push_back(Column(--id, name, TypeKind::kString, false));
  }
  fields.push_back(Column(7, "cluster", TypeKind::kString, false));
  for (const char* name : {"snapshot_id", "rows_removed", "bytes_out", "bytes_in", "files_out",
                           "files_in", "finished_at_ms", "started_at_ms"}) {
    fields.push_back(Column(--id, name, TypeKind::kLong, false));
  }
  fields.push_back(Column(3, "ratio", TypeKind::kDouble, false));
  CreateOther(fields);
  EXPECT_TRUE(InitMaintenanceLog(catalog_, DefaultLogIdent(), ""));
  LogRow row = Row("lake.a.b");
  row.files_in = 1;
  row.files_out = 2;
  row.bytes_in = 3;
  row.bytes_out = 4;
  row.rows_removed = 5;
  row.snapshot_id = 6;
  row.error = "seven";
  Put({row});
  EXPECT_THAT(Rows(), ElementsAre(row));
  EXPECT_THAT(Rows({.trigger = "scheduled", .table_name = "lake.a.b"}), ElementsAre(row));
  EXPECT_THAT(Rows({.trigger = "lease"}), IsEmpty());
}

// --- outcomes ------------------------------------------------------------------------------------

TEST_F(MaintenanceLogTest, R152AppendOnWhatWasSeenOrNotAtAll) {
  Init();
  const LogView seen = Log().Read({}, cancel_).value();
  EXPECT_EQ(seen.snapshot_id, std::nullopt);
  const std::vector<LogRow> first = {Row("first")};
  const std::vector<LogRow> late = {Row("late")};
  const auto done = Log().AppendOn(seen, first, cancel_);
  ASSERT_TRUE(done) << done.error().ToString();
  EXPECT_EQ(Log().AppendOn(seen, late, cancel_).error().code, Code::kConflict);
  EXPECT_THAT(DataFiles(), SizeIs(1));  // The loser's went again.
  EXPECT_THAT(Tables({}), ElementsAre("first"));
  const LogView now = Log().Read({}, cancel_).value();
  EXPECT_EQ(now.snapshot_id, *done);
  EXPECT_TRUE(Log().AppendOn(now, late, cancel_));
}

TEST_F(MaintenanceLogTest, R164AppendsOfManyWritersAllArrive) {
  Init();
  MemoryCatalog::Hooks hooks;
  int depth = 0;
  hooks.before_apply = [&](const catalog::TableIdent&) {
    if (depth == 3) return;
    ++depth;
    const std::vector<LogRow> other = {Row("other " + std::to_string(depth))};
    EXPECT_TRUE(Log().Append(other, cancel_));
  };
  catalog_.set_hooks(std::move(hooks));
  Put({Row("ours")});
  EXPECT_THAT(Tables({}), UnorderedElementsAre("ours", "other 1", "other 2", "other 3"));
}

TEST_F(MaintenanceLogTest, R302FilesStayWhileTheOutcomeIsUnknownAndGoWhenItIsKnown) {
  Init();
  const std::vector<LogRow> rows = {Row("a")};
  FaultOnce(Fault::kDenied);
  EXPECT_EQ(Log().Append(rows, cancel_).error().code, Code::kDenied);
  EXPECT_THAT(DataFiles(), IsEmpty());
  // A lost reply is looked into.
  FaultOnce(Fault::kLostAfterApply);
  EXPECT_TRUE(Log().Append(rows, cancel_));
  EXPECT_THAT(Rows(), SizeIs(1));
  FaultOnce(Fault::kLostBeforeApply);
  EXPECT_TRUE(Log().Append(rows, cancel_));
  EXPECT_THAT(Rows(), SizeIs(2));
  // And where nobody can tell, the file is kept.
  MemoryCatalog::Hooks hooks;
  hooks.fault = [](const catalog::TableIdent&) { return Fault::kLostBeforeApply; };
  catalog_.set_hooks(hooks);
  EXPECT_EQ(Log().Append(rows, cancel_).error().code, Code::kUnknownOutcome);
  EXPECT_THAT(DataFiles(), SizeIs(3));
  EXPECT_THAT(Rows(), SizeIs(2));
}

// --- size ----------------------------------------------------------------------------------------

// Whoever asks for the claims of now reads as much after ten thousand rows as after a hundred.
TEST_F(MaintenanceLogTest, T17Q17ReadingWhatIsNewCostsTheSameHoweverMuchThereIs) {
  Init();
  std::vector<Cost> costs;
  int64_t rows_written = 0;
  int64_t compactions = 0;
  for (int step = 1; step <= 250; ++step) {
    clock_.Sleep(std::chrono::minutes(30));
    std::vector<LogRow> rows;
    for (int i = 0; i < 40; ++i) {
      const bool lease = i % 4 != 0;
      rows.push_back(Row("lake.sales.table" + std::to_string(i),
                         lease ? log_trigger::kLease : log_trigger::kScheduled));
      if (lease) rows.back().finished_at_ms += 300'000;
    }
    Put(rows);
    rows_written += std::ssize(rows);
    compactions += Compact().ran ? 1 : 0;
    if (step % 50 != 0) continue;
    counting_->Forget();
    const LogFilter filter{.trigger = "lease",
                           .table_name = "lake.sales.table7",
                           .finished_after_ms = NowMs() - 3'600'000};
    const auto view = Log().Read(filter, cancel_);
    ASSERT_TRUE(view) << view.error().ToString();
    EXPECT_EQ(view->rows.size(), 3);  // Of the last 65 minutes.
    costs.push_back(Reads());
  }
  EXPECT_EQ(rows_written, 10'000);
  EXPECT_EQ(compactions, 3);
  for (const Cost& cost : costs) {
    SCOPED_TRACE(std::to_string(cost.requests) + " requests, " + std::to_string(cost.bytes));
    EXPECT_LE(cost.requests, 64 + 10);
    EXPECT_LE(cost.bytes, 400'000);
  }
  // Right after a compaction.
  EXPECT_TRUE(Compact({.appends_min = 1}).ran);
  counting_->Forget();
  EXPECT_THAT(Rows({.trigger = "lease", .finished_after_ms = NowMs()}), SizeIs(30));
  const Cost cost = Reads();
  EXPECT_LE(cost.requests, 8);
  EXPECT_LE(cost.bytes, 40'000);
  RecordProperty("requests", std::to_string(cost.requests));
  RecordProperty("bytes", std::to_string(cost.bytes));
  EXPECT_THAT(Rows(), SizeIs(10'000));
  // What the table is made of.
  const auto table = catalog_.LoadTable(DefaultLogIdent()).value();
  EXPECT_LE(table.metadata.snapshots.size(), 10u);
  EXPECT_LE(
      table::SnapshotManifests(*locations_, table.metadata, *table.metadata.RefSnapshot("main"))
          ->size(),
      2u);
}

TEST_F(MaintenanceLogTest, Q17CompactionWaitsForEnoughAppendsAndLosesRacesQuietly) {
  Init();
  EXPECT_FALSE(Compact({.appends_min = 2}).ran);
  Put({Row("a")});
  EXPECT_FALSE(Compact({.appends_min = 2}).ran);
  Put({Row("b")});
  const LogCompaction done = Compact({.appends_min = 2});
  EXPECT_TRUE(done.ran);
  EXPECT_EQ(done.files_rewritten, 2);
  EXPECT_EQ(done.files_added, 1);
  EXPECT_FALSE(Compact({.appends_min = 2}).ran);
  EXPECT_THAT(Tables({}), UnorderedElementsAre("a", "b"));

  // Where others expire snapshots nobody can tell how many appends there were.
  Put({Row("c")});
  Put({Row("d")});
  const auto table = catalog_.LoadTable(DefaultLogIdent()).value();
  std::vector<int64_t> old;
  for (const iceberg::Snapshot& snapshot : table.metadata.snapshots) {
    if (snapshot.snapshot_id != table.metadata.current_snapshot_id) {
      old.push_back(snapshot.snapshot_id);
    }
  }
  const std::vector<table::TableUpdate> expire = {table::RemoveSnapshots{old}};
  ASSERT_TRUE(catalog_.CommitTable(DefaultLogIdent(), {}, expire));
  EXPECT_TRUE(Compact({.appends_min = 100}).ran);
  EXPECT_FALSE(Compact({.appends_min = 100}).ran);

  Put({Row("e")});
  Put({Row("f")});
  MemoryCatalog::Hooks hooks;
  hooks.fault = [](const catalog::TableIdent&) { return Fault::kConflict; };
  catalog_.set_hooks(hooks);
  EXPECT_TRUE(Compact({.appends_min = 2}).ran);
  catalog_.set_hooks({});
  EXPECT_THAT(Tables({}), UnorderedElementsAre("a", "b", "c", "d", "e", "f"));
}

// A scheduler that has something to tell commits at every tick, for months.
TEST_F(MaintenanceLogTest, Q17ACommitPerTickStaysSmallAndOldRowsGo) {
  Init();
  const LogCompactionOptions options{.keep_rows = std::chrono::hours(48)};
  size_t files = 0;
  size_t snapshots = 0;
  int64_t removed = 0;
  int64_t written = 0;
  for (int minute = 0; minute < 4 * 24 * 60; minute += 15) {
    clock_.Sleep(std::chrono::minutes(15));
    Put({Row("a", log_trigger::kScheduler), Row("b", log_trigger::kScheduler)});
    written += 2;
    const LogCompaction done = Compact(options);
    removed += done.rows_removed;
    if (!done.ran) continue;
    files = std::max(files, DataFiles().size());
    snapshots = std::max(snapshots,
                         catalog_.LoadTable(DefaultLogIdent()).value().metadata.snapshots.size());
  }
  // 384 commits; files of expired snapshots are gone from the store, too.
  EXPECT_LE(files, 100u);
  EXPECT_LE(snapshots, 80u);
  const std::vector<LogRow> rows = Rows();
  EXPECT_EQ(removed + std::ssize(rows), written);
  EXPECT_GT(removed, 0);
  const int64_t hour_ms = 3'600'000;
  int64_t oldest = NowMs();
  for (const LogRow& row : rows) oldest = std::min(oldest, row.finished_at_ms);
  // By whole days, and once in 64 commits.
  EXPECT_GE(oldest, NowMs() - (48 + 24 + 17) * hour_ms);
  EXPECT_LE(oldest, NowMs() - 48 * hour_ms);
  // Nobody asked for it.
  EXPECT_EQ(Compact({.appends_min = 1}).rows_removed, 0);
  EXPECT_THAT(Rows(), SizeIs(rows.size()));
}

TEST(MaintenanceLogDdl, IsWhatInitMakes) {
  EXPECT_EQ(MaintenanceLogDdl("lake.sqe_system.maintenance_log"),
            R"(CREATE TABLE IF NOT EXISTS lake.sqe_system.maintenance_log (
  `job_id`         STRING NOT NULL,
  `table_name`     STRING NOT NULL,
  `trigger`        STRING NOT NULL,
  `principal`      STRING NOT NULL,
  `started_at_ms`  BIGINT NOT NULL,
  `finished_at_ms` BIGINT NOT NULL,
  `status`         STRING NOT NULL,
  `files_in`       BIGINT NOT NULL,
  `files_out`      BIGINT NOT NULL,
  `bytes_in`       BIGINT NOT NULL,
  `bytes_out`      BIGINT NOT NULL,
  `rows_removed`   BIGINT NOT NULL,
  `snapshot_id`    BIGINT,
  `error`          STRING
)
USING iceberg
PARTITIONED BY (`trigger`, truncate(86400000, finished_at_ms))
TBLPROPERTIES (
  'history.expire.max-snapshot-age-ms' = '1800000',
  'history.expire.min-snapshots-to-keep' = '5',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '10',
  'write.parquet.compression-codec' = 'zstd',
  'write.target-file-size-bytes' = '524288',
  'format-version' = '2'
);
)");
}

}  // namespace
}  // namespace lithify::job
