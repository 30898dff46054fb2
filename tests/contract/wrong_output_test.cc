// What becomes of a partition whose rewrite went wrong unnoticed by who wrote it: verification
// fails, no manifest is published, and every input is still there, byte for byte.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "job_world.h"
#include "rewrite/parquet_fixture.h"
#include "rewrite/tampering_store.h"

namespace lithify::job {
namespace {

using rewrite::TamperingStore;
using sim::JobWorld;

constexpr int64_t kRows = 3000;

// Files f1 … f5 of one column of numbers, on plain pages of one length.
void WriteFiles(JobWorld& world, const std::string& prefix) {
  const auto properties = parquet::WriterProperties::Builder()
                              .compression(arrow::Compression::UNCOMPRESSED)
                              ->disable_dictionary()
                              ->data_pagesize(4000)
                              ->write_batch_size(500)
                              ->build();
  for (int64_t f = 1; f <= 5; ++f) {
    arrow::Int64Builder numbers;
    for (int64_t i = 0; i < kRows; ++i) ASSERT_TRUE(numbers.Append(f * kRows + i).ok());
    const auto table =
        arrow::Table::Make(arrow::schema({arrow::field("number", arrow::int64(), false)}),
                           {numbers.Finish().ValueOrDie()});
    ASSERT_TRUE(world.store
                    .PutNew(prefix + "f" + std::to_string(f) + ".parquet",
                            rewrite::WriteParquet(*table, 1 << 20, properties))
                    .has_value());
  }
}

std::map<std::string, std::string> Contents(JobWorld& world, const std::string& prefix) {
  std::map<std::string, std::string> contents;
  for (const std::string& name : world.Names(prefix)) {
    contents[name] = world.store.Get(prefix + name, int64_t{1} << 30)->bytes;
  }
  return contents;
}

class WrongOutputTest : public testing::TestWithParam<rewrite::Verify> {
 protected:
  WrongOutputTest() {
    world_.settings.options.small_file_bytes = 1 << 20;
    world_.settings.options.target_file_bytes = 4 << 20;
    world_.settings.options.file_bytes_min = 1 << 19;
    world_.settings.options.file_bytes_max = 8 << 20;
    world_.settings.shape.codec = "none";
    world_.settings.shape.row_group_bytes = 128 << 20;
    world_.settings.shape.row_group_rows = 1 << 20;
    world_.settings.shape.page_bytes = 1 << 20;
    world_.settings.shape.splice_page_bytes_min = 0;
    world_.settings.shape.splice_page_values_min = 0;
    world_.settings.verify = GetParam();
    WriteFiles(world_, prefix_);
  }

  // One sweep of a job that sees the tree through `store`.
  PartitionOutcome Sweep(storage::Store& store) {
    const auto runner = rewrite::MakeParquetRunner(store);
    HiveJob job({store, *runner, world_.clock, world_.random, *world_.audit, world_.progress,
                 rewrite::EncodeCompactionEvents, world_.memory},
                world_.settings);
    const auto report = job.Sweep({}, false, CancelFlag());
    EXPECT_TRUE(report.has_value());
    for (const PartitionOutcome& outcome : report->partitions) {
      if (outcome.id.key_prefix == prefix_) return outcome;
    }
    ADD_FAILURE() << "no outcome";
    return {};
  }

  JobWorld world_;
  const std::string prefix_ = JobWorld::Hour("10");
};

TEST_P(WrongOutputTest, IsNeverPublished) {
  const auto inputs = Contents(world_, prefix_);
  int outputs = 0;
  TamperingStore tampering(world_.store, [&](const std::string& key, std::string& file) {
    if (!key.ends_with(".parquet")) return;
    ++outputs;
    EXPECT_TRUE(rewrite::RepeatPage(file, rewrite::PagesOf(file, 0, 0)));
  });
  const PartitionOutcome outcome = Sweep(tampering);
  EXPECT_EQ(outputs, 1);
  ASSERT_EQ(outcome.outcome, Outcome::kFailed);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, Code::kCorrupt) << outcome.error->ToString();
  // At most the manifest of generation 1, which names the inputs (R215).
  const HiveManifest manifest = world_.Manifest(prefix_);
  EXPECT_LE(manifest.generation, 1U);
  const auto after = Contents(world_, prefix_);
  for (const auto& [name, bytes] : inputs) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name), bytes) << name;
    if (manifest.generation > 0) {
      EXPECT_EQ(std::ranges::count(manifest.files, name), 1) << name;
    }
  }
  EXPECT_EQ(manifest.files.size(), manifest.generation > 0 ? inputs.size() : 0);

  // Without the fault the same partition is compacted; the wrong output is in nobody's way.
  const PartitionOutcome again = Sweep(world_.store);
  ASSERT_EQ(again.outcome, Outcome::kCommitted) << (again.error ? again.error->ToString() : "");
  EXPECT_EQ(again.rows, 5 * kRows);
  ASSERT_EQ(again.outputs.size(), 1U);
  EXPECT_TRUE(again.tiers.contains("splice"));
  EXPECT_EQ(world_.Manifest(prefix_).files, again.outputs);
  const auto table =
      rewrite::ReadParquet(Contents(world_, prefix_).at(again.outputs.front()))->column(0);
  const auto& numbers = static_cast<const arrow::Int64Array&>(*table->chunk(0));
  ASSERT_EQ(numbers.length(), 5 * kRows);
  for (int64_t i = 0; i < numbers.length(); ++i) ASSERT_EQ(numbers.Value(i), kRows + i);
}

INSTANTIATE_TEST_SUITE_P(Verify, WrongOutputTest,
                         testing::Values(rewrite::Verify::kSample, rewrite::Verify::kFull),
                         [](const auto& way) {
                           return way.param == rewrite::Verify::kFull ? "full" : "sample";
                         });

}  // namespace
}  // namespace lithify::job
