// The scheduler by the clock: tables and catalog are in memory, and what grants and tokens there
// are is each test's to say. Rows are only counted. tests/services/test_maintain_grants.py has the
// same with real parts.
#include "maintain/scheduler.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commit/iceberg_fixture.h"
#include "maintain/refusal.h"
#include "plan/cron.h"
#include "storage/faulty_store.h"

namespace lithify::maintain {
namespace {

using catalog::MemoryCatalog;
using catalog::TableIdent;
using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Fault = MemoryCatalog::Fault;

// Writes one file of 100 bytes with the rows that the metadata tells of.
class CountingRunner final : public rewrite::GroupRunner {
 public:
  CountingRunner(storage::Store& store, const std::function<void()>& on_run)
      : store_(store), on_run_(on_run) {}
  Result<rewrite::FileFacts> Inspect(const storage::ObjectInfo& /*file*/,
                                     int64_t /*first_read*/) override {
    return rewrite::FileFacts();
  }
  Result<rewrite::TierPlan> Explain(const rewrite::GroupRequest& /*request*/,
                                    const CancelFlag& /*cancel*/) override {
    return rewrite::TierPlan();
  }
  Result<rewrite::GroupReport> Run(const rewrite::GroupRequest& request,
                                   const CancelFlag& /*cancel*/) override {
    if (on_run_) on_run_();
    rewrite::GroupReport report;
    for (const rewrite::InputFile& input : request.inputs) {
      report.rows_per_input.push_back(input.records);
      report.rows_in += input.records;
      report.bytes_in += input.size;
    }
    rewrite::OutputFile output;
    output.name = request.new_name();
    output.size = report.bytes_out = 100;
    output.rows = report.rows_out = report.rows_in;
    LITHIFY_TRY(store_.PutNew(request.partition + output.name, std::string(100, 'x')));
    report.outputs.push_back(std::move(output));
    return report;
  }
  Result<rewrite::VerifyReport> VerifyFile(const std::string& /*name*/,
                                           const rewrite::RowRule& /*rule*/,
                                           const CancelFlag& /*cancel*/) override {
    return rewrite::VerifyReport();
  }

 private:
  storage::Store& store_;
  const std::function<void()>& on_run_;
};

// What the world grants the principal.
struct Grants {
  std::set<TableIdent> unwritable;
  std::set<TableIdent> unreadable;
  std::set<TableIdent> gone;  // Of what is listed.
  std::set<std::vector<std::string>> unlisted;
  std::optional<Error> token;  // Instead of one.
  // What the storage says to an operation, with the words of FaultyStore.
  std::function<Status(std::string_view op, const std::string& key)> withheld;
  std::optional<Error> list;    // What the catalog says to every list of tables.
  std::optional<Error> commit;  // What the catalog says to every commit.
  int asked = 0;                // Whether it may write.
  int sessions = 0;             // Of jobs that change a table.
};

// The catalog as the principal sees it.
class Granted final : public catalog::Catalog {
 public:
  Granted(catalog::Catalog& real, Grants& grants) : real_(real), grants_(grants) {}
  Result<std::vector<std::vector<std::string>>> ListNamespaces(
      const std::vector<std::string>& parent) override {
    return real_.ListNamespaces(parent);
  }
  Result<std::vector<TableIdent>> ListTables(const std::vector<std::string>& parts) override {
    if (grants_.list) return Fail(Error(*grants_.list));
    if (grants_.unlisted.contains(parts)) return Fail(Code::kDenied, "no LIST");
    return real_.ListTables(parts);
  }
  Result<catalog::LoadedTable> LoadTable(const TableIdent& ident) override {
    if (grants_.unreadable.contains(ident)) return Fail(Code::kDenied, "no READ");
    if (grants_.gone.contains(ident)) return Fail(Code::kNotFound, "status 404");
    return real_.LoadTable(ident);
  }
  Status CheckMayWrite(const catalog::LoadedTable& table) override {
    ++grants_.asked;
    if (grants_.unwritable.contains(table.ident)) return Fail(Code::kDenied, "no WRITE");
    return {};
  }
  Result<catalog::LoadedTable> CommitTable(const TableIdent& ident,
                                           std::span<const table::TableRequirement> requirements,
                                           std::span<const table::TableUpdate> updates) override {
    if (grants_.unwritable.contains(ident)) return Fail(Code::kDenied, "no WRITE");
    if (grants_.commit) return Fail(Error(*grants_.commit));
    return real_.CommitTable(ident, requirements, updates);
  }
  std::string Describe() const override { return "granted:"; }

 private:
  catalog::Catalog& real_;
  Grants& grants_;
};

class SchedulerTest : public commit::IcebergTable, public TableSessions {
 protected:
  class Session final : public TableSession {
   public:
    Session(SchedulerTest& world, const SessionRequest& request)
        : world_(world),
          granted_(world.catalog_, world.grants_),
          telling_(granted_),
          locations_(MakeRefusalLocations(
              storage::MakeStoreLocations(
                  std::make_shared<storage::FaultyStore>(
                      *world.store_,
                      [&world](std::string_view op, const std::string& key, bool before) -> Status {
                        if (!before || !world.grants_.withheld) return {};
                        return world.grants_.withheld(op, key);
                      }),
                  "s3", "b"),
              [](std::string_view) { return "the keys of [s3]"; })) {
      if (!request.opted_in) return;
      guard_ = std::make_unique<OptInCatalog>(
          telling_, OptInCatalog::Rules{.ident = request.ident,
                                        .is_opted_in = request.opted_in,
                                        .property = request.property,
                                        .renew = {},
                                        .may_commit = request.may_commit});
    }
    catalog::Catalog& catalog() override {
      if (guard_) return *guard_;
      return telling_;
    }
    Result<std::unique_ptr<TableSession>> ForReading(const TableIdent& /*ident*/) override {
      return std::make_unique<Session>(world_, SessionRequest());
    }
    storage::Locations& locations() override { return *locations_; }
    job::IcebergServices Services(observe::Progress& progress) override {
      return {.catalog = catalog(),
              .locations = locations(),
              .make_runner =
                  [this](storage::Store& store) {
                    return std::make_unique<CountingRunner>(store, world_.on_run_);
                  },
              .clock = world_.clock_,
              .random = world_.random_,
              .audit = *world_.audit_,
              .progress = progress};
    }
    job::IcebergJob MakeJob(observe::Progress& progress, job::IcebergSettings settings) override {
      return {Services(progress), std::move(settings)};
    }

   private:
    SchedulerTest& world_;
    Granted granted_;
    RefusalCatalog telling_;
    std::unique_ptr<OptInCatalog> guard_;
    const std::unique_ptr<storage::Locations> locations_;
  };

  Result<std::unique_ptr<TableSession>> Open(const SessionRequest& request) override {
    if (grants_.token) return Fail(Error(*grants_.token));
    grants_.sessions += request.opted_in ? 1 : 0;
    return std::make_unique<Session>(*this, request);
  }
  std::string actor() const override { return "maintenance"; }

  void SetUp() override {
    options_.catalog = "lake";
    options_.namespaces = {{"sales"}};
    options_.schedule.cron = plan::ParseCron("0 2 * * *").value();
    options_.schedule.jitter = Duration::zero();
    options_.schedule.quiet = Duration::zero();
    options_.defaults.schedule = options_.schedule.cron;
    options_.defaults.min_input_files = 2;
    options_.ranking.threshold = 1e-9;
    options_.lease = LeaseKind::kNone;
    options_.holder = "me";
    Restart();
  }
  // A process that starts.
  void Restart() {
    file_ = std::make_unique<StateFile>(*store_, "state.json");
    scheduler_ = std::make_unique<Scheduler>(SchedulerServices{.sessions = this,
                                                               .clock = clock_,
                                                               .random = random_,
                                                               .audit = *audit_,
                                                               .metrics = metrics_,
                                                               .state = *file_,
                                                               .progress = *progress_},
                                             options_);
  }
  void WithLog(LeaseKind lease = LeaseKind::kCatalog) {
    ASSERT_TRUE(job::InitMaintenanceLog(catalog_, job::DefaultLogIdent(), "s3://b/log"));
    options_.log = job::DefaultLogIdent();
    options_.lease = lease;
    Restart();
  }
  TickReport Tick(TickOptions tick = {}) { return scheduler_->Tick(tick, cancel_); }
  TickReport TickAt(const std::string& time) {
    clock_.now = ParseTime(time).value();
    return Tick();
  }

  // A table with two small files in one partition, which is worth a rewrite.
  void Make(const std::string& name, bool opted_in = true) {
    ident_ = {{"sales"}, name};
    Create();
    Append({Data(name + "1"), Data(name + "2")});
    if (opted_in) SetProperty("true");
  }
  void SetProperty(const std::string& value) {
    Update({table::SetProperties{{{"sqe.maintenance.enabled", value}}}});
  }
  void More(const std::string& name, int number) {
    ident_ = {{"sales"}, name};
    Append({Data(name + std::to_string(number)), Data(name + std::to_string(number + 1))});
  }

  static std::vector<std::string> Jobs(const TickReport& report) {
    std::vector<std::string> jobs;
    for (const JobLine& job : report.jobs) jobs.push_back(job.table + " " + job.status);
    return jobs;
  }
  static std::vector<std::string> Loud(const TickReport& report) {
    std::vector<std::string> lines;
    for (const LoudLine& line : report.loud) lines.push_back(line.what + " " + line.where);
    return lines;
  }
  static std::string DueOf(const TickReport& report, size_t table = 0) {
    return report.tables.at(table).due;
  }
  double Refusals() const {
    double sum = 0;
    for (const auto& point : metrics_.Points()) {
      if (point.name == "lithify.maintenance.refused") sum += point.value;
    }
    return sum;
  }
  std::vector<std::string> Failures() {
    std::vector<std::string> errors;
    const auto records = audit_->ReadAll().value();
    for (const auto& record : records) {
      if (record.event.failed) errors.push_back(record.event.error);
    }
    return errors;
  }

  Grants grants_;
  SchedulerOptions options_;
  std::function<void()> on_run_;
  std::unique_ptr<observe::AuditLog> audit_ = observe::OpenMemoryAuditLog();
  std::unique_ptr<observe::Progress> progress_ = observe::MakeSilentProgress();
  observe::Metrics metrics_;
  std::unique_ptr<StateFile> file_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, R023WithoutThePropertyNothingIsOpened) {
  Make("others", false);
  const TickReport report = Tick({.on_demand = true});
  EXPECT_EQ(report.tables.at(0).gate, TableGate::kNotOptedIn);
  EXPECT_FALSE(report.tables.at(0).small_files);
  EXPECT_THAT(report.jobs, IsEmpty());
  EXPECT_EQ(grants_.sessions, 0);
  EXPECT_EQ(grants_.asked, 0);
}

TEST_F(SchedulerTest, ATableIsRunAtItsFireAndOnce) {
  Make("a");
  EXPECT_EQ(DueOf(Tick()), "not_yet");  // First seen at noon.
  EXPECT_THAT(Jobs(TickAt("2026-11-30T01:59:59Z")), IsEmpty());
  EXPECT_THAT(Jobs(TickAt("2026-11-30T02:00:10Z")), ElementsAre("lake.sales.a success"));
  EXPECT_THAT(LiveNames(), SizeIs(1));
  EXPECT_EQ(Head().summary.at("sqe.maintenance.trigger"), "scheduled");
  EXPECT_THAT(Jobs(TickAt("2026-11-30T02:01:10Z")), IsEmpty());
}

TEST_F(SchedulerTest, R025ARefusalIsToldAtEveryTickUntilItIsGranted) {
  Make("a");
  Tick();
  grants_.unwritable = {ident_};
  const int64_t head = Head().snapshot_id;
  // The third is within the back-off of the second: the catalog is not asked again.
  int ticks = 0;
  for (const char* at : {"2026-11-30T02:00:10Z", "2026-11-30T02:02:00Z", "2026-11-30T02:02:10Z"}) {
    const TickReport report = TickAt(at);
    EXPECT_THAT(Loud(report), ElementsAre("no_grant lake.sales.a")) << at;
    EXPECT_THAT(report.loud.at(0).next, HasSubstr("TABLE_WRITE_DATA"));
    EXPECT_EQ(Refusals(), ++ticks);
  }
  EXPECT_EQ(grants_.asked, 2);
  int told = 0;
  for (const std::string& error : Failures()) told += error.starts_with("no_grant: ") ? 1 : 0;
  EXPECT_EQ(told, 3);
  EXPECT_EQ(Head().snapshot_id, head);
  // Also by a process that has just started.
  Restart();
  EXPECT_THAT(Loud(TickAt("2026-11-30T02:02:20Z")), ElementsAre("no_grant lake.sales.a"));
  EXPECT_THAT(Loud(Tick({.plan_only = true})), ElementsAre("no_grant lake.sales.a"));
  grants_.unwritable.clear();
  const TickReport report = TickAt("2026-11-30T03:00:00Z");
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.a success"));
  EXPECT_THAT(report.loud, IsEmpty());
  EXPECT_THAT(TickAt("2026-11-30T03:01:00Z").loud, IsEmpty());
}

// R025: the log has a row of each refused table at every tick, and gets one commit for all of them.
TEST_F(SchedulerTest, R025ARefusalIsARowOfTheLogAtEveryTick) {
  WithLog(LeaseKind::kNone);
  Make("a");
  Make("b");
  Tick();
  grants_.unwritable = {TableIdent{{"sales"}, "a"}, TableIdent{{"sales"}, "b"}};
  job::MaintenanceLog log({.catalog = catalog_,
                           .locations = *locations_,
                           .clock = clock_,
                           .random = random_,
                           .sleep = [](Duration) {}},
                          job::DefaultLogIdent());
  const auto head = [&] {
    const auto table = catalog_.LoadTable(job::DefaultLogIdent()).value();
    const iceberg::Snapshot* at = table.metadata.RefSnapshot("main");
    return at != nullptr ? at->sequence_number : 0;
  };
  const auto refusals = [&] {
    return log.Read({.trigger = std::string(job::log_trigger::kScheduler)}, cancel_).value().rows;
  };
  // At the first tick both are tried, and each attempt writes its row.
  TickAt("2026-11-30T02:00:10Z");
  EXPECT_THAT(refusals(), SizeIs(2));
  for (int tick = 2; tick <= 4; ++tick) {
    const int64_t before = head();
    clock_.now += std::chrono::seconds(2);  // Within the back-off.
    EXPECT_THAT(Tick().jobs, IsEmpty());
    EXPECT_THAT(refusals(), SizeIs(2 * tick));
    EXPECT_EQ(head(), before + 1);
  }
  std::multiset<std::string> tables;
  for (const job::LogRow& row : refusals()) {
    tables.insert(row.table_name);
    EXPECT_EQ(row.status, "failed");
    EXPECT_THAT(row.error.value(), testing::StartsWith("no_grant: "));
    EXPECT_THAT(row.error.value(), HasSubstr("TABLE_WRITE_DATA"));
  }
  EXPECT_EQ(tables.count("lake.sales.a"), 4);
  EXPECT_EQ(tables.count("lake.sales.b"), 4);
  // Nobody takes them for runs.
  EXPECT_EQ(DueOf(Tick()), "backing_off");
  // Nothing is written while somebody only asks.
  const int64_t before = head();
  Tick({.plan_only = true});
  EXPECT_EQ(head(), before);
  grants_.unwritable.clear();
  TickAt("2026-11-30T03:00:00Z");
  TickAt("2026-11-30T03:01:00Z");
  EXPECT_THAT(refusals(), SizeIs(10));
}

TEST_F(SchedulerTest, WhereTheLogCannotBeWrittenTheStatusSaysSo) {
  WithLog(LeaseKind::kNone);
  Make("a");
  Tick();
  grants_.unwritable = {ident_, job::DefaultLogIdent()};
  TickAt("2026-11-30T02:00:10Z");
  const TickReport report = TickAt("2026-11-30T02:00:20Z");
  EXPECT_THAT(Loud(report), ElementsAre("no_grant lake.sales.a"));
  EXPECT_THAT(report.warnings,
              ElementsAre(testing::AllOf(HasSubstr("not written: 1, of refusals 1: "),
                                         HasSubstr("grant TABLE_WRITE_DATA"))));
  // Nor where there is no log at all; that there is none is told once.
  options_.log = TableIdent{{"sqe_system"}, "another"};
  Restart();
  EXPECT_THAT(TickAt("2026-11-30T02:00:30Z").warnings, SizeIs(2));
  EXPECT_THAT(TickAt("2026-11-30T02:00:40Z").warnings,
              ElementsAre(HasSubstr("there is none to write to")));
}

// The fire that was refused is let go after a while; the property is there, and the grant is not.
TEST_F(SchedulerTest, ARefusalIsToldAlsoWhileNoFireIsDue) {
  options_.schedule.cron = plan::ParseCron("0 2 * * mon").value();  // 2026-11-30 is one.
  options_.defaults.schedule = options_.schedule.cron;
  Restart();
  Make("a");
  Tick();
  grants_.unwritable = {ident_};
  TickAt("2026-11-30T02:00:10Z");
  const TickReport report = TickAt("2026-12-03T12:00:00Z");
  EXPECT_EQ(DueOf(report), "let_go");
  EXPECT_THAT(Loud(report), ElementsAre("no_grant lake.sales.a"));
}

TEST_F(SchedulerTest, WhatTheProviderRefusesIsNoGrantOfTheCatalog) {
  Make("a");
  Tick();
  grants_.token = Error{Code::kDenied, "invalid_client", std::string(kPrincipalToken), {}};
  const TickReport report = TickAt("2026-11-30T02:00:10Z");
  EXPECT_THAT(Loud(report), ElementsAre("no_credential lake"));
  EXPECT_THAT(report.loud.at(0).next, HasSubstr("--check-principal"));
  EXPECT_TRUE(report.error);
  grants_.token.reset();
  EXPECT_THAT(Jobs(TickAt("2026-11-30T02:01:10Z")), ElementsAre("lake.sales.a success"));
}

// A bucket's 403: what helps is not the catalog's to grant.
TEST_F(SchedulerTest, WhatTheStorageRefusesIsNoGrantOfTheCatalog) {
  const auto denies = [](std::string_view verb, std::string_view of) {
    return [=](std::string_view op, const std::string& key) -> Status {
      if (op != verb || key.find(of) == std::string::npos) return {};
      return Fail(Code::kDenied, "the store answers 403 AccessDenied", "s3://b/" + key,
                  "check the credentials and what they may do");
    };
  };
  Make("a");
  Tick();
  const int64_t head = Head().snapshot_id;
  struct Case {
    const char* at;
    const char* verb;
    const char* of;
    const char* action;
  };
  for (const Case& one :
       {Case{"2026-11-30T02:00:10Z", "Get", ".avro", "the storage refuses to read"},
        Case{"2026-11-30T02:10:00Z", "PutNew", ".parquet", "the storage refuses to write"}}) {
    grants_.withheld = denies(one.verb, one.of);
    for (const TickReport& report :
         {TickAt(one.at), Tick(), Tick({.plan_only = true})}) {  // The last two: backing off.
      EXPECT_THAT(Loud(report), ElementsAre("no_storage_access lake.sales.a"));
      EXPECT_THAT(report.loud.at(0).why, HasSubstr(one.action));
      EXPECT_THAT(report.loud.at(0).why, HasSubstr("s3://b/"));
      EXPECT_THAT(report.loud.at(0).next, HasSubstr("let the keys of [s3]"));
      EXPECT_THAT(report.loud.at(0).next, testing::Not(HasSubstr("TABLE_")));
    }
    scheduler_.reset();
    Restart();
  }
  std::map<std::string, double> told;
  for (const auto& point : metrics_.Points()) {
    if (point.name == "lithify.maintenance.refused") {
      told[point.attributes.at("lithify.reason")] += point.value;
    }
  }
  EXPECT_EQ(told, (std::map<std::string, double>{{"no_storage_access", 6}}));
  EXPECT_EQ(Head().snapshot_id, head);
  grants_.withheld = {};
  const TickReport report = TickAt("2026-11-30T04:00:00Z");
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.a success"));
  EXPECT_THAT(report.loud, IsEmpty());
}

// It finds the change itself wrong: who may not commit is somebody else.
TEST_F(SchedulerTest, WhatTheCatalogFindsWrongIsNoMissingGrant) {
  Make("a");
  Tick();
  grants_.commit = Error{Code::kInvalid, "status 400: BadRequestException: no", "POST", "its log"};
  const TickReport report = TickAt("2026-11-30T02:00:10Z");
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.a failed"));
  EXPECT_THAT(Loud(report), ElementsAre("refused lake.sales.a"));
  EXPECT_EQ(report.loud.at(0).next, "its log");
  grants_.commit = Error{Code::kDenied, "status 401: no", "POST", "check the token"};
  const TickReport token = TickAt("2026-11-30T03:00:00Z");
  EXPECT_THAT(Loud(token), ElementsAre("token_refused lake.sales.a"));
}

// Two properties of its owner's that disagree.
TEST_F(SchedulerTest, WhatATableForbidsIsNoMissingGrant) {
  Make("a");
  Update({table::SetProperties{
      {{"sqe.maintenance.expire-snapshots.enabled", "true"}, {"gc.enabled", "false"}}}});
  const TickReport report = Tick({.on_demand = true});
  EXPECT_THAT(Loud(report), ElementsAre("refused lake.sales.a"));
  EXPECT_THAT(report.loud.at(0).next, HasSubstr("set gc.enabled to true"));
}

TEST_F(SchedulerTest, WhatIsListedAndNotThereIsALineOfTheStatus) {
  Make("a");
  grants_.gone = {ident_};
  const TickReport report = Tick();
  ASSERT_THAT(report.tables, SizeIs(1));
  EXPECT_EQ(report.tables.at(0).gate, TableGate::kGone);
  EXPECT_THAT(report.tables.at(0).gate_reason, HasSubstr("listed, and not there"));
  EXPECT_THAT(report.loud, IsEmpty());
  const auto parsed = ParseReport(ReportJson(report, nullptr));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->tables.at(0).gate, TableGate::kGone);
}

TEST_F(SchedulerTest, ANamespaceThatCannotBeReadIsNotAlwaysAGrant) {
  options_.namespaces = {{"hidden"}};
  Restart();
  grants_.unlisted = {{"hidden"}};
  EXPECT_THAT(Tick().loud.at(0).next, HasSubstr("TABLE_LIST"));
  grants_.list = Error{Code::kCorrupt, "the answer makes no sense", {}, "look at it"};
  const TickReport report = Tick();
  EXPECT_THAT(Loud(report), ElementsAre("unreadable_namespace lake.hidden"));
  EXPECT_EQ(report.loud.at(0).next, "look at it");
}

TEST_F(SchedulerTest, T3WhatMayNotBeSeenIsToldAndStopsNothing) {
  Make("a");
  Make("b");
  options_.namespaces = {{"sales"}, {"hidden"}};
  grants_.unlisted = {{"hidden"}};
  grants_.unreadable = {TableIdent{{"sales"}, "a"}};
  Restart();
  Tick();
  const TickReport report = TickAt("2026-11-30T02:00:10Z");
  EXPECT_THAT(Loud(report), testing::UnorderedElementsAre("unreadable_namespace lake.hidden",
                                                          "unreadable_table lake.sales.a"));
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.b success"));
}

TEST_F(SchedulerTest, APropertyThatGoesWhileTheJobWorksStopsItsCommit) {
  Make("a");
  const int64_t head = Head().snapshot_id;
  on_run_ = [this] { SetProperty("false"); };
  const TickReport report = Tick({.on_demand = true});
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.a skipped"));
  EXPECT_THAT(report.jobs.at(0).reason, HasSubstr("not opted in"));
  EXPECT_EQ(Head().snapshot_id, head);
  for (const std::string& key : store_->Keys()) {
    EXPECT_FALSE(key.ends_with(".parquet")) << key << " is left";
  }
}

TEST_F(SchedulerTest, ABudgetIsOfAllTicksBetweenTwoFires) {
  options_.ranking.per_run.commits = 1;
  Restart();
  Make("a");
  Make("b");
  Tick();
  const auto done = [](const TickReport& report) {
    int64_t count = 0;
    for (const JobLine& job : report.jobs) count += job.status == "success" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(done(TickAt("2026-11-30T02:00:10Z")), 1);
  Restart();
  clock_.now += hours(1);
  EXPECT_EQ(done(Tick({.on_demand = true})), 0);
  clock_.now += hours(24);
  EXPECT_EQ(done(Tick()), 1);
}

// Manifests, expiry and orphans use the same commits and seconds as rewrites do.
TEST_F(SchedulerTest, WhatFollowsARewriteIsTakenFromTheBudget) {
  options_.ranking.per_run.commits = 3;
  options_.ranking.per_run.seconds = 1000;
  Restart();
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const std::string& name : names) {
    Make(name);
    Update({table::SetProperties{{{"sqe.maintenance.expire-snapshots.enabled", "true"},
                                  {"sqe.maintenance.expire-snapshots.older-than", "1s"},
                                  {"sqe.maintenance.expire-snapshots.retain-last", "1"}}}});
  }
  const auto count = [](const TickReport& report, const std::string& procedure) {
    return std::ranges::count_if(report.jobs, [&](const JobLine& job) {
      return job.procedure == procedure && job.status == "success";
    });
  };
  Tick();
  // Two commits each: the second table has begun when one is left, and the third has to wait.
  const TickReport first = TickAt("2026-11-30T02:00:10Z");
  EXPECT_EQ(count(first, "rewrite_data_files"), 2);
  EXPECT_EQ(count(first, "expire_snapshots"), 2);
  EXPECT_EQ(file_->Load().value().run.all.commits, 4);
  EXPECT_EQ(file_->Load().value().run.of_namespace.at("sales").commits, 4);
  const auto& waits = first.tables.at(2);
  EXPECT_EQ(waits.reason, "the run's budget is spent: left for a later tick");
  // With the next fire there is a new one.
  const TickReport second = TickAt("2026-12-01T02:00:10Z");
  EXPECT_EQ(count(second, "rewrite_data_files"), 1);
  EXPECT_EQ(file_->Load().value().run.all.commits, 2);
}

TEST_F(SchedulerTest, AJobThatTakesMuchLongerThanPredictedIsStoppedBeforeItsCommit) {
  options_.ranking.per_run.seconds = 1e6;
  Restart();
  Make("a");
  Tick();
  const int64_t head = Head().snapshot_id;
  const double believed = file_->Load().value().priors.seconds_per_commit;
  bool slow = true;
  on_run_ = [&] {
    if (slow) clock_.now += minutes(11);
  };
  const TickReport report = TickAt("2026-11-30T02:00:10Z");
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.a failed"));
  EXPECT_THAT(report.jobs.at(0).reason,
              testing::AllOf(HasSubstr("stopped before its commit"), HasSubstr("more than 10 min"),
                             HasSubstr("expected to take 2.")));
  EXPECT_EQ(Head().snapshot_id, head);
  for (const std::string& key : store_->Keys()) {
    EXPECT_FALSE(key.ends_with(".parquet")) << key << " is left";
  }
  const MaintenanceState state = file_->Load().value();
  EXPECT_EQ(state.tables.at("lake.sales.a").last_code, Code::kLimit);
  EXPECT_EQ(state.tables.at("lake.sales.a").failures_in_row, 1);
  EXPECT_GT(state.priors.seconds_per_commit, believed);  // The next prediction is longer.
  EXPECT_GE(state.run.all.seconds, 660);                 // It was spent all the same.
  EXPECT_EQ(state.run.all.commits, 1);
  // Nine minutes are more than four times as long, and still allowed.
  slow = false;
  on_run_ = [&] { clock_.now += minutes(9); };
  EXPECT_THAT(Jobs(TickAt("2026-11-30T03:00:10Z")), ElementsAre("lake.sales.a success"));
  // Nor is anything stopped where nobody wants it.
  options_.overrun.factor = 0;
  Restart();
  More("a", 3);
  on_run_ = [&] { clock_.now += hours(9); };
  EXPECT_THAT(Jobs(TickAt("2026-12-01T02:00:10Z")), ElementsAre("lake.sales.a success"));
}

TEST_F(SchedulerTest, WhatIsRefusedAtTheGateCostsNoBudget) {
  options_.ranking.per_run.commits = 1;
  Restart();
  Make("a");
  Make("b");
  Tick();
  // It asks first, also the first time, and takes no place from others: they would wait for a day.
  grants_.unwritable = {TableIdent{{"sales"}, "a"}};
  for (const char* day : {"2026-11-30T02:00:10Z", "2026-12-01T02:00:10Z"}) {
    const TickReport report = TickAt(day);
    EXPECT_THAT(Jobs(report),
                testing::UnorderedElementsAre("lake.sales.a failed", "lake.sales.b success"));
    EXPECT_THAT(Loud(report), ElementsAre("no_grant lake.sales.a"));
    EXPECT_THAT(report.loud.at(0).next, HasSubstr("TABLE_WRITE_DATA"));
    More("b", day[9] == '0' ? 3 : 5);
  }
}

TEST_F(SchedulerTest, R157ARestartForgetsNothing) {
  Make("a");
  Tick();
  TickAt("2026-11-30T02:00:10Z");
  More("a", 3);
  Restart();
  EXPECT_EQ(DueOf(TickAt("2026-11-30T02:05:00Z")), "not_yet");
  // Down for two days: one run, not two.
  Restart();
  EXPECT_THAT(Jobs(TickAt("2026-12-02T03:00:00Z")), ElementsAre("lake.sales.a success"));
  EXPECT_EQ(DueOf(TickAt("2026-12-02T03:01:00Z")), "not_yet");
}

TEST_F(SchedulerTest, WhereTheStateIsLostTheLogKnows) {
  WithLog(LeaseKind::kNone);
  Make("a");
  Tick();
  EXPECT_THAT(Jobs(TickAt("2026-11-30T02:00:10Z")), ElementsAre("lake.sales.a success"));
  More("a", 3);
  ASSERT_TRUE(store_->Remove("state.json"));
  Restart();
  EXPECT_EQ(DueOf(TickAt("2026-11-30T02:05:00Z")), "not_yet");
  EXPECT_THAT(Jobs(TickAt("2026-12-01T02:00:10Z")), ElementsAre("lake.sales.a success"));
}

TEST_F(SchedulerTest, R299WithoutItsLogItWorksOn) {
  options_.log = job::DefaultLogIdent();
  options_.lease = LeaseKind::kCatalog;
  Restart();
  Make("a");
  const TickReport report = Tick({.on_demand = true});
  EXPECT_THAT(Jobs(report), ElementsAre("lake.sales.a success"));
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("there is no maintenance log")));
}

// T18: no fire that lies behind the clock is run twice, and no table is stuck until a wrong year
// comes.
TEST_F(SchedulerTest, AClockThatJumps) {
  Make("a");
  Tick();
  EXPECT_THAT(Jobs(TickAt("2026-11-30T06:00:00Z")), ElementsAre("lake.sales.a success"));
  More("a", 3);
  EXPECT_THAT(Jobs(TickAt("2026-11-30T03:00:00Z")), IsEmpty());  // Back.
  EXPECT_THAT(Jobs(TickAt("2026-11-30T12:00:00Z")), IsEmpty());
  EXPECT_THAT(Jobs(TickAt("2031-01-01T03:00:00Z")), ElementsAre("lake.sales.a success"));  // Ahead.
  More("a", 5);
  const TickReport back = TickAt("2026-12-01T02:00:10Z");
  EXPECT_THAT(back.warnings, SizeIs(1));
  EXPECT_THAT(Jobs(back), ElementsAre("lake.sales.a success"));
  More("a", 7);
  const TickReport after = TickAt("2026-12-01T02:01:10Z");
  EXPECT_THAT(after.jobs, IsEmpty());
  EXPECT_THAT(after.warnings, IsEmpty());
  EXPECT_THAT(Jobs(TickAt("2026-12-02T02:00:10Z")), ElementsAre("lake.sales.a success"));
}

TEST_F(SchedulerTest, AHotTableIsTriedAgainAndItsBreakerStaysShut) {
  Make("a");
  Tick();
  MemoryCatalog::Hooks hooks;
  hooks.fault = [](const TableIdent&) { return Fault::kConflict; };
  catalog_.set_hooks(hooks);
  clock_.now = ParseTime("2026-11-30T02:00:10Z").value();
  for (int i = 0; i < 8; ++i) {
    const TickReport report = Tick();
    EXPECT_NE(DueOf(report), "breaker_open");
    for (const std::string& job : Jobs(report)) EXPECT_EQ(job, "lake.sales.a failed");
    clock_.now += hours(1);
  }
  catalog_.set_hooks({});
  clock_.now += hours(7);
  EXPECT_THAT(Jobs(Tick()), ElementsAre("lake.sales.a success"));
}

TEST_F(SchedulerTest, ABreakerSaysUntilWhenAndWhyAndIsClosedByHand) {
  options_.schedule.breaker_failures = 1;
  options_.schedule.breaker_cooldown = hours(48);
  Restart();
  Make("a");
  Tick();
  on_run_ = [] { throw std::runtime_error("the disk is gone"); };
  EXPECT_THAT(Jobs(TickAt("2026-11-30T02:00:10Z")), ElementsAre("lake.sales.a failed"));
  on_run_ = {};
  const TickReport open = TickAt("2026-11-30T12:00:00Z");
  EXPECT_EQ(DueOf(open), "breaker_open");
  EXPECT_EQ(open.tables.at(0).next, ParseTime("2026-12-02T02:00:10Z").value());
  EXPECT_THAT(open.tables.at(0).reason,
              testing::AllOf(HasSubstr("the disk is gone"), HasSubstr("2026-12-02T02:00:10Z")));
  // By another process, while this one goes on; a mere look does not take it.
  StateFile other(*store_, "state.json");
  ASSERT_TRUE(other.AskForReset({.table = "lake.sales.a", .by = "me", .at = clock_.now}));
  ASSERT_TRUE(other.AskForReset({.table = "lake.sales.b", .by = "me", .at = clock_.now}));
  EXPECT_EQ(DueOf(Tick({.plan_only = true})), "breaker_open");
  const TickReport closed = Tick();
  EXPECT_THAT(Jobs(closed), ElementsAre("lake.sales.a success"));
  EXPECT_THAT(closed.warnings, ElementsAre(HasSubstr("reset of lake.sales.b: there is no such")));
  EXPECT_THAT(Tick().warnings, IsEmpty());
  int recorded = 0;
  const auto records = audit_->ReadAll().value();
  for (const auto& record : records) {
    if (record.event.procedure != "maintenance_reset") continue;
    ++recorded;
    EXPECT_EQ(record.event.actor, "me");
  }
  EXPECT_EQ(recorded, 2);
}

TEST_F(SchedulerTest, R293WhatAnotherHoldsIsLeftAndLookedAtAgain) {
  WithLog();
  Make("a");
  Tick();
  clock_.now = ParseTime("2026-11-30T02:00:10Z").value();
  job::MaintenanceLog log({.catalog = catalog_,
                           .locations = *locations_,
                           .clock = clock_,
                           .random = random_,
                           .sleep = [](Duration) {}},
                          job::DefaultLogIdent());
  const auto other = MakeCatalogLease(log, {.holder = "another"}, clock_, random_);
  const auto claim = other->Claim("lake.sales.a", minutes(5), cancel_);
  ASSERT_TRUE(claim) << claim.error().ToString();
  const TickReport held = Tick();
  EXPECT_THAT(Jobs(held), IsEmpty());
  EXPECT_THAT(held.tables.at(0).reason, HasSubstr("another coordinator works on it: another"));
  EXPECT_EQ(grants_.sessions, 0);
  clock_.now += minutes(6);  // It has died.
  EXPECT_THAT(Jobs(Tick()), ElementsAre("lake.sales.a success"));
}

// Keys overlap, and a sort order says that somebody looks for keys.
TEST_F(SchedulerTest, APlanTellsHowManyFilesAReadByKeyOpens) {
  const auto why = [&](const std::string& name, const std::string& transform) {
    sort_order_ = transform.empty() ? ""
                                    : R"({"source-id":1,"transform":")" + transform +
                                          R"(","direction":"asc","null-order":"nulls-first"})";
    ident_ = {{"sales"}, name};
    Create();
    std::vector<iceberg::DataFile> files;
    for (int i = 0; i < 4; ++i) {
      files.push_back(Data(name + std::to_string(i)));
      files.back().upper_bounds = {{1, std::string("\x63\0\0\0\0\0\0\0", 8)}};
    }
    Append(files);
    SetProperty("true");
    const TickReport report = Tick({.plan_only = true});
    for (const PlanLine& line : report.plan) {
      if (line.table == "lake.sales." + name) return line.reason;
    }
    return std::string("no line of it");
  };
  EXPECT_THAT(why("sorted", "identity"),
              HasSubstr("a read by key opens 4.0 files, 1.0 afterwards"));
  EXPECT_THAT(why("days", "truncate[10]"), HasSubstr("a read by key opens 4.0 files"));
  // Of a hash bounds say nothing.
  EXPECT_THAT(why("hashed", "bucket[4]"), testing::Not(HasSubstr("by key")));
  EXPECT_THAT(why("unsorted", ""),
              testing::AllOf(HasSubstr("saves"), testing::Not(HasSubstr("by key"))));
}

// T5: the original failed at every tick.
TEST_F(SchedulerTest, T5ATableWithoutAnOrderIsAVerdictAndNoFailure) {
  options_.defaults.strategy = plan::Strategy::kSort;
  Restart();
  Make("packed");
  Make("asks");
  Update({table::SetProperties{{{"sqe.maintenance.compaction.strategy", "sort"}}}});
  const TickReport planned = Tick({.plan_only = true});
  const auto line_of = [&](const std::string& table) {
    for (const PlanLine& line : planned.plan) {
      if (line.table == table) return line;
    }
    return PlanLine();
  };
  EXPECT_EQ(line_of("lake.sales.packed").verdict, "run");
  EXPECT_NE(line_of("lake.sales.asks").verdict, "run");
  EXPECT_THAT(line_of("lake.sales.asks").reason, HasSubstr("declares no sort order"));
  const TickReport report = TickAt("2026-11-30T02:00:10Z");
  EXPECT_THAT(Jobs(report), testing::Contains("lake.sales.packed success"));
  for (const std::string& job : Jobs(report)) EXPECT_THAT(job, testing::Not(HasSubstr("fail")));
}

TEST_F(SchedulerTest, WhatNobodyWillReadIsLeftAlone) {
  day_type_ = "date";
  Make("old");  // Of 1970-01-02.
  const auto day = std::chrono::floor<std::chrono::days>(clock_.now).time_since_epoch().count();
  ident_ = {{"sales"}, "new"};
  Create();
  Append({Data("new1", 10, day), Data("new2", 10, day)});
  SetProperty("true");
  const auto line_of = [&](const std::string& table) {
    const TickReport report = Tick({.plan_only = true});
    for (const PlanLine& line : report.plan) {
      if (line.table == table) return line;
    }
    return PlanLine();
  };
  // Nobody says how long anything is read.
  EXPECT_EQ(line_of("lake.sales.old").verdict, "run");
  EXPECT_GT(line_of("lake.sales.old").life_days, 0);
  options_.defaults.read_life = hours(48);
  options_.life_days = 60;
  Restart();
  EXPECT_EQ(line_of("lake.sales.old").verdict, "too_little_gain");
  EXPECT_THAT(line_of("lake.sales.old").reason,
              HasSubstr("counted for 0 days, then nobody reads it any more"));
  // Its day ends in twelve hours.
  EXPECT_LE(line_of("lake.sales.new").life_days, 2.5);
  EXPECT_EQ(line_of("lake.sales.new").verdict, "run");
  // The owner knows better.
  ident_ = {{"sales"}, "old"};
  Update({table::SetProperties{{{"sqe.maintenance.compaction.read-life", "30000d"}}}});
  EXPECT_EQ(line_of("lake.sales.old").verdict, "run");
}

TEST_F(SchedulerTest, AdvisoryRunsNothingAndRecordsNothing) {
  options_.mode = Mode::kAdvisory;
  Restart();
  Make("a");
  Make("others", false);
  const TickReport report = Tick({.on_demand = true});
  EXPECT_THAT(report.jobs, IsEmpty());
  EXPECT_THAT(report.tables, SizeIs(2));
  for (const TableReport& table : report.tables) EXPECT_EQ(table.small_files, 2) << table.table;
  EXPECT_EQ(grants_.sessions, 0);
  EXPECT_THAT(audit_->ReadAll().value(), IsEmpty());
}

}  // namespace
}  // namespace lithify::maintain
