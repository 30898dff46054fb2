// What a sort asks the engine for, what it stamps, and that it stops. The engine is a fake that
// writes no rows: it remembers what it was asked for, and tells the bounds that rows would have.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/order_mark.h"
#include "base/order_text.h"
#include "commit/iceberg_fixture.h"
#include "job/iceberg_job.h"
#include "job/maintenance_candidates.h"

namespace lithify::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string Bound(int64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

using Range = std::pair<int64_t, int64_t>;

struct Asked {
  std::vector<rewrite::GroupRequest> requests;
  std::map<std::string, Range> ranges;  // By key, of the ids in it.
};

// Outputs of equal parts of what the inputs reach over, of 100 bytes each.
class RecordingRunner final : public rewrite::GroupRunner {
 public:
  RecordingRunner(storage::Store& store, Asked& asked) : store_(store), asked_(asked) {}
  Result<rewrite::FileFacts> Inspect(const storage::ObjectInfo&, int64_t) override {
    return rewrite::FileFacts();
  }
  Result<rewrite::TierPlan> Explain(const rewrite::GroupRequest& request,
                                    const CancelFlag&) override {
    asked_.requests.push_back(request);
    return rewrite::TierPlan();
  }
  Result<rewrite::GroupReport> Run(const rewrite::GroupRequest& request,
                                   const CancelFlag&) override {
    asked_.requests.push_back(request);
    rewrite::GroupReport report;
    Range all{INT64_MAX, INT64_MIN};
    for (const rewrite::InputFile& input : request.inputs) {
      report.rows_per_input.push_back(input.records);
      report.rows_in += input.records;
      report.bytes_in += input.size;
      const Range& range = asked_.ranges.at(input.key);
      all = {std::min(all.first, range.first), std::max(all.second, range.second)};
    }
    const int64_t outputs = request.shape.outputs;
    for (int64_t i = 0; i < outputs; ++i) {
      rewrite::OutputFile output;
      output.name = request.new_name();
      output.size = 100;
      output.rows = report.rows_in * (i + 1) / outputs - report.rows_in * i / outputs;
      const int64_t width = all.second - all.first + 1;
      const Range part{all.first + width * i / outputs, all.first + width * (i + 1) / outputs - 1};
      output.metrics.lower_bounds = {{1, Bound(part.first)}};
      output.metrics.upper_bounds = {{1, Bound(part.second)}};
      LITHIFY_TRY(store_.PutNew(request.partition + output.name, std::string(100, 'x')));
      asked_.ranges[request.partition + output.name] = part;
      report.rows_out += output.rows;
      report.bytes_out += output.size;
      report.outputs.push_back(std::move(output));
    }
    return report;
  }
  Result<rewrite::VerifyReport> VerifyFile(const std::string&, const rewrite::RowRule&,
                                           const CancelFlag&) override {
    return rewrite::VerifyReport();
  }

 private:
  storage::Store& store_;
  Asked& asked_;
};

class SortJob : public commit::IcebergTable {
 protected:
  SortJob() {
    sort_order_ =
        R"({"source-id":1,"transform":"identity","direction":"asc","null-order":"nulls-first"})";
  }

  iceberg::DataFile File(const std::string& name, int64_t low, int64_t high) {
    iceberg::DataFile file = Data(name);
    file.lower_bounds = {{1, Bound(low)}};
    file.upper_bounds = {{1, Bound(high)}};
    asked_.ranges["t/data/" + name] = {low, high};
    return file;
  }

  IcebergJob Job() {
    IcebergSettings settings;
    settings.spill_directory = "/spill";
    settings.spill_bytes_max = 1234;
    return IcebergJob({.catalog = catalog_,
                       .locations = *locations_,
                       .make_runner =
                           [this](storage::Store& store) {
                             return std::make_unique<RecordingRunner>(store, asked_);
                           },
                       .clock = clock_,
                       .random = random_,
                       .audit = *audit_,
                       .progress = *progress_},
                      settings);
  }
  RewriteRequest Request(const std::string& sort_order = {},
                         plan::Strategy strategy = plan::Strategy::kSort) {
    RewriteRequest request;
    request.ident = ident_;
    request.options.target_file_size_bytes = 100;
    request.options.strategy = strategy;
    request.options.sort_order = sort_order;
    return request;
  }
  RewriteResult Rewrite(const RewriteRequest& request) {
    auto result = Job().RewriteDataFiles(request, cancel_);
    EXPECT_TRUE(result) << result.error().ToString();
    return result.value_or(RewriteResult());
  }

  Asked asked_;
  std::unique_ptr<observe::AuditLog> audit_ = observe::OpenMemoryAuditLog();
  std::unique_ptr<observe::Progress> progress_ = observe::MakeSilentProgress();
};

// R104: without a text it is the table's order, and what is stamped is true.
TEST_F(SortJob, R104TheTablesOrderIsAskedForAndStamped) {
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 40, 90), File("c.parquet", 100, 120)});
  const RewriteResult result = Rewrite(Request());
  EXPECT_EQ(result.status, RewriteStatus::kCommitted);
  // All three have no stamp: the first two share keys, the third is not known to be sorted.
  EXPECT_EQ(result.files_rewritten, 3);
  ASSERT_THAT(asked_.requests, SizeIs(2));
  for (const rewrite::GroupRequest& request : asked_.requests) {
    ASSERT_NE(request.ordering, nullptr);
    EXPECT_EQ(RowOrderText(request.ordering->order), "id");
    EXPECT_EQ(request.ordering->order.fields[0].field_id, 1);
    EXPECT_EQ(request.ordering->spill_directory, "/spill");
    EXPECT_EQ(request.ordering->spill_bytes_max, 1234);
  }
  for (const auto& [name, entry] : Live()) {
    EXPECT_EQ(entry.file.sort_order_id, 1) << name;
    const auto mark = ReadOrderMark(name);
    ASSERT_TRUE(mark) << name;
    EXPECT_EQ(mark->order, OrderDigits(asked_.requests[0].ordering->order));
  }
}

// T8: what is in order is left alone, whoever looks, and a new file takes only what it touches.
TEST_F(SortJob, T8TheSecondRunHasNothingToDo) {
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 40, 90), File("c.parquet", 100, 120)});
  Rewrite(Request());
  const auto before = LiveNames();
  const RewriteResult again = Rewrite(Request());
  EXPECT_EQ(again.status, RewriteStatus::kSkipped);
  EXPECT_EQ(again.reason, "no eligible groups");
  EXPECT_EQ(again.plan.partitions.at(0).reason, "in order: no two files share a id");
  iceberg::DataFile late = File("late.parquet", 105, 110);
  late.sort_order_id = 1;
  Append({late});
  EXPECT_EQ(Rewrite(Request()).files_rewritten, 2);
  size_t kept = 0;
  for (const std::string& name : LiveNames()) kept += std::ranges::count(before, name);
  EXPECT_EQ(kept, before.size() - 1);
}

TEST_F(SortJob, AnOrderThatIsNoneOfTheTablesIsNotStamped) {
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 40, 90)});
  EXPECT_EQ(Rewrite(Request("id DESC")).files_rewritten, 2);
  EXPECT_EQ(RowOrderText(asked_.requests.at(0).ordering->order), "id DESC");
  for (const auto& [name, entry] : Live()) EXPECT_EQ(entry.file.sort_order_id, std::nullopt);
  EXPECT_EQ(Rewrite(Request("id DESC")).status, RewriteStatus::kSkipped);
}

TEST_F(SortJob, ACurveIsFollowedOnceAndItsCubeFoundAgain) {
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 60, 90)});
  EXPECT_EQ(Rewrite(Request("zorder(id, day)")).files_rewritten, 2);
  EXPECT_EQ(asked_.requests.at(0).ordering->order.curve, Curve::kZOrder);
  const RewriteResult again = Rewrite(Request("zorder(id, day)"));
  EXPECT_EQ(again.status, RewriteStatus::kSkipped);
  EXPECT_EQ(again.plan.partitions.at(0).reason, "in order: all of one sort");
  EXPECT_EQ(Rewrite(Request("hilbert(id, day)")).files_rewritten, 2);
}

// Bounds go through the transform: [0, 4] and [3, 9] are one value of truncate(10, id).
TEST_F(SortJob, BoundsGoThroughTheTransform) {
  Create();
  Append({File("a.parquet", 0, 4), File("b.parquet", 3, 9)});
  EXPECT_EQ(Rewrite(Request("truncate(10, id)")).status, RewriteStatus::kSkipped);
  EXPECT_EQ(Rewrite(Request("truncate(2, id)")).files_rewritten, 2);
}

// Counts of nulls tell where files lie that have no values.
TEST_F(SortJob, FilesOfNullsHaveTheirPlace) {
  Create();
  iceberg::DataFile nulls = File("nulls.parquet", 0, 0);
  nulls.lower_bounds.clear();
  nulls.upper_bounds.clear();
  nulls.null_value_counts = {{1, nulls.record_count}};
  Append({File("a.parquet", 0, 50), nulls});
  EXPECT_EQ(Rewrite(Request("id")).files_rewritten, 2);  // Once, for their stamps.
  EXPECT_EQ(Rewrite(Request("id NULLS LAST")).status, RewriteStatus::kSkipped);
  nulls.null_value_counts = {{1, nulls.record_count - 1}};
  nulls.file_path = commit::Path("more.parquet");
  asked_.ranges["t/data/more.parquet"] = {0, 0};
  Append({nulls});  // Some value, nobody knows which.
  EXPECT_EQ(Rewrite(Request("id NULLS LAST")).files_rewritten, 3);
}

// T5, R104.
TEST_F(SortJob, T5AnUnsortedTableIsAnErrorWithBothWaysOut) {
  sort_order_.clear();
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 40, 90)});
  const auto result = Job().RewriteDataFiles(Request(), cancel_);
  ExpectFails(result, Code::kInvalid, "declares no sort order");
  EXPECT_THAT(result.error().hint, HasSubstr("WRITE ORDERED BY"));
  EXPECT_THAT(asked_.requests, IsEmpty());
  ExpectFails(Job().RewriteDataFiles(Request("idd"), cancel_), Code::kInvalid,
              "did you mean \"id\"?");
  ExpectFails(Job().RewriteDataFiles(Request("id up"), cancel_), Code::kInvalid, "character 4");
}

// T5: to the scheduler that is what is so about the table, told for each of its partitions.
TEST_F(SortJob, T5AnUnsortedTableIsAVerdictToTheScheduler) {
  sort_order_.clear();
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 40, 90)});
  IcebergJob job = Job();
  plan::RewriteOptions options = Request().options;
  const auto debt = LoadTableDebt(job, ident_, options, clock_);
  ASSERT_TRUE(debt) << debt.error().ToString();
  ASSERT_THAT(debt->candidates, SizeIs(1));
  EXPECT_EQ(debt->candidates[0].files_in, 0);
  EXPECT_THAT(debt->candidates[0].planner_reason, HasSubstr("declares no sort order"));
  EXPECT_EQ(debt->rewrite_bytes, 0);
  // As the default of many tables it is packed instead, and that is told.
  options.binpack_if_unsorted = true;
  options.min_input_files = 2;
  options.target_file_size_bytes = 1000;
  const auto packed = LoadTableDebt(job, ident_, options, clock_);
  ASSERT_TRUE(packed) << packed.error().ToString();
  EXPECT_EQ(packed->candidates.at(0).files_in, 2);
  EXPECT_THAT(packed->candidates[0].planner_reason,
              HasSubstr("not sorted: the table declares no sort order"));
  RewriteRequest request = Request();
  request.options = options;
  EXPECT_EQ(Rewrite(request).files_rewritten, 2);
  EXPECT_EQ(asked_.requests.at(0).ordering, nullptr);
}

TEST_F(SortJob, ZorderAsAStrategyTakesTheColumnsOfTheOrder) {
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 60, 90)});
  Rewrite(Request({}, plan::Strategy::kZorder));
  EXPECT_EQ(RowOrderText(asked_.requests.at(0).ordering->order), "zorder(id)");
  Rewrite(Request("id DESC, day", plan::Strategy::kZorder));
  EXPECT_EQ(RowOrderText(asked_.requests.at(1).ordering->order), "zorder(id, day)");
}

// R103: it is ignored, and that is told.
TEST_F(SortJob, R103BinpackIgnoresAnOrderAndSaysSo) {
  Create();
  iceberg::DataFile sorted = File("a.parquet", 0, 50);
  sorted.sort_order_id = 1;
  Append({sorted, File("b.parquet", 40, 90)});
  RewriteRequest request = Request("id", plan::Strategy::kBinpack);
  request.options.min_input_files = 2;
  request.options.target_file_size_bytes = 1000;
  const RewriteResult result = Rewrite(request);
  EXPECT_EQ(result.status, RewriteStatus::kCommitted);
  EXPECT_THAT(result.notes, ElementsAre(HasSubstr("sort_order is ignored")));
  EXPECT_EQ(asked_.requests.at(0).ordering, nullptr);
  for (const auto& [name, entry] : Live()) {
    EXPECT_EQ(entry.file.sort_order_id, std::nullopt);
    EXPECT_FALSE(ReadOrderMark(name)) << name;
  }
}

TEST_F(SortJob, RowsThatMoveAreNotSorted) {
  Create();
  Append({File("a.parquet", 0, 50)});
  RewriteRequest request = Request();
  request.output_spec_id = 1;
  ExpectFails(Job().RewriteDataFiles(request, cancel_), Code::kInvalid, "cannot be sorted while");
}

TEST_F(SortJob, ADryRunTellsHowManyFilesAReadOpens) {
  Create();
  Append({File("a.parquet", 0, 50), File("b.parquet", 0, 50), File("c.parquet", 0, 50)});
  RewriteRequest request = Request();
  request.dry_run = true;
  const RewriteResult result = Rewrite(request);
  EXPECT_EQ(result.status, RewriteStatus::kPlanned);
  const plan::PartitionVerdict& verdict = result.plan.partitions.at(0);
  EXPECT_EQ(verdict.reason, "1 group, up to 3 files share a id");
  ASSERT_TRUE(verdict.files_per_key);
  EXPECT_EQ(verdict.files_per_key->before, 3);
  EXPECT_EQ(verdict.files_per_key->after, 1);
  EXPECT_NE(asked_.requests.at(0).ordering, nullptr);  // Of Explain().
}

// A group that a coordinator wants stamped falsely is refused by whoever rewrites it.
TEST_F(SortJob, AFalseStampIsRefused) {
  Create();
  Append({File("a.parquet", 0, 50)});
  const catalog::LoadedTable table = Load();
  const auto opened = group::OpenedTable::Open(*locations_, table.metadata_location,
                                               Head().snapshot_id, 1, cancel_);
  ASSERT_TRUE(opened);
  group::GroupTask task;
  task.job_id = "job";
  task.table = "t";
  task.data_files = {commit::Path("a.parquet")};
  task.sizes = {.target = 100, .min = 75, .max = 180};
  task.sort_order_id = 1;
  const group::GroupServices services{
      *locations_,
      [this](storage::Store& store) { return std::make_unique<RecordingRunner>(store, asked_); },
      clock_, random_};
  const auto run = [&] {
    return group::RewriteGroup(services, (*opened)->view(), task, {0}, {.memory_bytes = 1 << 20},
                               cancel_);
  };
  ExpectFails(run(), Code::kInvalid, "is not sort order 1");
  task.order = ParseRowOrder("id DESC").value();
  task.order->fields[0].field_id = 1;
  ExpectFails(run(), Code::kInvalid, "is not sort order 1");
  task.order->fields[0].ascending = task.order->fields[0].nulls_first = true;
  EXPECT_TRUE(run());
  task.sort_order_id = 9;
  ExpectFails(run(), Code::kInvalid, "is not sort order 9");
}

}  // namespace
}  // namespace lithify::job
