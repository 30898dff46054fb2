// Verification is there for outputs that are wrong though nothing about them looks wrong. Here they
// are made so on their way to the store: full verification notices each fault, the sampled one
// those in the chunks that it reads.
#include <parquet/properties.h>

#include <map>
#include <set>

#include "rewrite/parquet_fixture.h"
#include "rewrite/tampering_store.h"

namespace lithify::rewrite {
namespace {

constexpr int kFiles = 4;
constexpr int kRows = 3000;

std::shared_ptr<parquet::WriterProperties> Plain() {
  // Pages of 500 rows, all of one length.
  return parquet::WriterProperties::Builder()
      .compression(arrow::Compression::UNCOMPRESSED)
      ->disable_dictionary()
      ->data_pagesize(4000)
      ->write_batch_size(500)
      ->build();
}

std::shared_ptr<parquet::WriterProperties> Folded() {
  return parquet::WriterProperties::Builder()
      .compression(arrow::Compression::UNCOMPRESSED)
      ->build();
}

std::shared_ptr<arrow::Array> Longs(int64_t first, int64_t modulo) {
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < kRows; ++i) {
    // Unless `modulo` is 0: neither in order nor all unique, and some oftener than others.
    const int64_t value = first + i;
    EXPECT_TRUE(builder.Append(modulo == 0 ? value : value * value % modulo * 1000003).ok());
  }
  return builder.Finish().ValueOrDie();
}

class VerifyFaultTest : public RunnerTest {
 protected:
  using Fault = std::function<bool(std::string& file)>;

  // Columns c0, c1, …, each of other numbers.
  void PutFiles(int columns, int64_t modulo,
                const std::shared_ptr<parquet::WriterProperties>& properties) {
    arrow::FieldVector fields;
    for (int c = 0; c < columns; ++c) {
      fields.push_back(arrow::field("c" + std::to_string(c), arrow::int64(), false));
    }
    for (int f = 0; f < kFiles; ++f) {
      arrow::ArrayVector arrays;
      for (int c = 0; c < columns; ++c) {
        const int64_t wanted = modulo == 0 ? 0 : modulo + f;
        arrays.push_back(Longs(int64_t{1000000} * c + kRows * f, wanted));
      }
      const auto table = arrow::Table::Make(arrow::schema(fields), arrays);
      Put("in" + std::to_string(inputs_++) + ".parquet", WriteParquet(*table, 1 << 20, properties));
    }
    Request().shape.codec = "none";
    request_.shape.splice_page_bytes_min = 0;
    request_.shape.splice_page_values_min = 0;
  }

  Result<GroupReport> RunWith(Verify verify, const Fault& fault, int threads = 1) {
    request_.verify = verify;
    request_.threads = threads;
    bool done = false;
    TamperingStore tampering(store_,
                             [&](const std::string&, std::string& file) { done = fault(file); });
    const auto runner = MakeParquetRunner(tampering);
    auto report = runner->Run(request_, cancel_);
    EXPECT_TRUE(done) << "the fault could not be made";
    if (report) {
      EXPECT_EQ(report->tiers.size(), 1U);
      EXPECT_TRUE(report->tiers.contains(tier_));
    }
    return report;
  }

  void ExpectNoticed(const Result<GroupReport>& report) {
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, Code::kCorrupt) << report.error().ToString();
    // It names the output, which stays as evidence.
    const std::string name = "out" + std::to_string(outputs_ - 1) + ".parquet";
    EXPECT_NE(report.error().ToString().find(name), std::string::npos) << report.error().ToString();
    EXPECT_TRUE(store_.Stat("p/" + name).has_value());
  }

  std::string tier_ = "splice";
};

// One spliced chunk: at least one per output is sampled, so both notice other values than before.
TEST_F(VerifyFaultTest, FaultsOfPlainPages) {
  PutFiles(1, 0, Plain());
  const std::vector<std::pair<std::string, Fault>> faults = {
      {"a bit of a value", [](std::string& f) { return FlipBit(f, PagesOf(f, 0, 0)[3]); }},
      {"a bit of the last value",
       [](std::string& f) { return FlipBit(f, PagesOf(f, 0, 0).back()); }},
      {"a page twice", [](std::string& f) { return RepeatPage(f, PagesOf(f, 0, 0)); }},
  };
  for (const auto& [name, fault] : faults) {
    for (const Verify verify : {Verify::kSample, Verify::kFull}) {
      SCOPED_TRACE(name + (verify == Verify::kFull ? ", full" : ", sample"));
      ExpectNoticed(RunWith(verify, fault));
    }
    // What nobody looks for nobody sees: the faults are such that only verification can.
    EXPECT_TRUE(RunWith(Verify::kCounts, fault).has_value()) << name;
  }
}

TEST_F(VerifyFaultTest, FaultsOfUnitedDictionaries) {
  PutFiles(1, 50, Folded());
  const std::vector<std::pair<std::string, Fault>> faults = {
      {"values exchanged", [](std::string& f) { return SwapValues(f, PagesOf(f, 0, 0)[0], 8); }},
      {"a bit of a value", [](std::string& f) { return FlipBit(f, PagesOf(f, 0, 0)[0]); }},
      {"a bit of an index", [](std::string& f) { return FlipBit(f, PagesOf(f, 0, 0)[1]); }},
  };
  for (const auto& [name, fault] : faults) {
    for (const Verify verify : {Verify::kSample, Verify::kFull}) {
      SCOPED_TRACE(name + (verify == Verify::kFull ? ", full" : ", sample"));
      ExpectNoticed(RunWith(verify, fault, 2));
    }
  }
}

// Values that moved to other rows: a column's digest does not depend on their order, the sum over
// its values' places does.
TEST_F(VerifyFaultTest, ValuesOfOtherRows) {
  PutFiles(1, 0, Plain());
  const std::vector<std::pair<std::string, Fault>> faults = {
      {"pages exchanged", [](std::string& f) { return SwapPages(f, PagesOf(f, 0, 0)); }},
      {"values exchanged", [](std::string& f) { return SwapValues(f, PagesOf(f, 0, 0)[5], 8); }},
  };
  for (const auto& [name, fault] : faults) {
    SCOPED_TRACE(name);
    ExpectNoticed(RunWith(Verify::kFull, fault));
    ExpectNoticed(RunWith(Verify::kSample, fault));
    EXPECT_TRUE(RunWith(Verify::kCounts, fault).has_value());
  }
}

TEST_F(VerifyFaultTest, ValuesOfOtherRowsBesideAColumnThatIsRight) {
  PutFiles(2, 0, Plain());
  ExpectNoticed(
      RunWith(Verify::kFull, [](std::string& f) { return SwapPages(f, PagesOf(f, 0, 1)); }));
}

// Of row groups that are moved as they are, too, each chunk may be in the sample.
TEST_F(VerifyFaultTest, FaultsOfMovedRowGroups) {
  tier_ = "copy";
  PutFiles(1, 0, Plain());
  request_.shape.row_group_rows = kRows;
  for (int group = 0; group < kFiles; ++group) {
    SCOPED_TRACE(group);
    const auto flip = [&](std::string& f) { return FlipBit(f, PagesOf(f, group, 0)[1]); };
    const auto swap = [&](std::string& f) { return SwapPages(f, PagesOf(f, group, 0)); };
    ExpectNoticed(RunWith(Verify::kFull, flip));
    ExpectNoticed(RunWith(Verify::kFull, swap));
    EXPECT_TRUE(RunWith(Verify::kCounts, swap).has_value());
  }
  // One of the four at least is read by the sampled one.
  ExpectNoticed(RunWith(Verify::kSample, [](std::string& f) {
    bool all = true;
    for (int group = 0; group < kFiles; ++group) {
      all = RepeatPage(f, PagesOf(f, group, 0)) && all;
    }
    return all;
  }));
}

// A checksum is written to each page: rot shows whoever reads it next.
TEST_F(VerifyFaultTest, DamageWithoutItsChecksum) {
  PutFiles(1, 0, Plain());
  const auto rot = [](std::string& file) {
    const PlacedPage page = PagesOf(file, 0, 0)[2];
    file[page.body() + 17] ^= 4;
    return true;
  };
  ExpectNoticed(RunWith(Verify::kSample, rot));
  ExpectNoticed(RunWith(Verify::kFull, rot));
}

// The rule of the sample: one chunk of each output, and about one in sixteen of the others. What is
// chosen follows from what was to be written and not from the fault, so a fault in one chunk of
// many goes unseen more often than not, one in all of them never. Full verification sees each.
TEST_F(VerifyFaultTest, TheSampleSeesTheChunksThatItReads) {
  constexpr int kColumns = 48;
  PutFiles(kColumns, 0, Plain());
  std::set<int> noticed;
  for (int c = 0; c < kColumns; ++c) {
    const auto flip = [c](std::string& file) { return FlipBit(file, PagesOf(file, 0, c)[1]); };
    if (RunWith(Verify::kSample, flip)) continue;
    noticed.insert(c);
    ExpectNoticed(RunWith(Verify::kSample, flip));
  }
  // Of so many, all or none would be another rule.
  EXPECT_GE(noticed.size(), 1U);
  EXPECT_LE(noticed.size(), 12U);
  for (int c = 0; c < kColumns; ++c) {
    const auto twice = [c](std::string& file) { return RepeatPage(file, PagesOf(file, 0, c)); };
    EXPECT_EQ(!RunWith(Verify::kSample, twice).has_value(), noticed.contains(c)) << c;
    if (c % 8 == 0) ExpectNoticed(RunWith(Verify::kFull, twice));
  }
  ExpectNoticed(RunWith(Verify::kSample, [](std::string& file) {
    bool all = true;
    for (int c = 0; c < kColumns; ++c) all = RepeatPage(file, PagesOf(file, 0, c)) && all;
    return all;
  }));
}

}  // namespace
}  // namespace lithify::rewrite
