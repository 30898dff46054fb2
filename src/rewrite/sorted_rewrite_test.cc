#include "rewrite/sorted_rewrite.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "rewrite/row_hash.h"
#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using Cuts = std::vector<std::pair<int64_t, int64_t>>;

// Keys that begin at these ranks.
sort::RowBits Begins(size_t rows, const std::vector<size_t>& at) {
  sort::RowBits bits;
  for (size_t rank = 0; rank < rows; ++rank) bits.Push(std::ranges::find(at, rank) != at.end());
  return bits;
}
sort::RowBits AllBegin(size_t rows) {
  sort::RowBits bits;
  for (size_t rank = 0; rank < rows; ++rank) bits.Push(true);
  return bits;
}

TEST(CutRanksTest, EqualShares) {
  EXPECT_EQ(CutRanks(AllBegin(10), 5, 1), (Cuts{{0, 5}, {5, 10}}));
  EXPECT_EQ(CutRanks(AllBegin(10), 100, 1), (Cuts{{0, 10}}));
  EXPECT_EQ(CutRanks(AllBegin(9), 100, 3), (Cuts{{0, 3}, {3, 6}, {6, 9}}));
  EXPECT_EQ(CutRanks(AllBegin(3), 1, 5), (Cuts{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_TRUE(CutRanks({}, 5, 2).empty());
}

TEST(CutRanksTest, R107_KeysStayTogetherWhereOneEndsCloseBy) {
  EXPECT_EQ(CutRanks(Begins(100, {0, 47}), 50, 1), (Cuts{{0, 47}, {47, 100}}));
  EXPECT_EQ(CutRanks(Begins(100, {0, 53}), 50, 1), (Cuts{{0, 53}, {53, 100}}));
  // Too far: row groups are not to become that uneven.
  EXPECT_EQ(CutRanks(Begins(100, {0, 80}), 50, 1), (Cuts{{0, 50}, {50, 100}}));
}

TEST(ShareRowGroupsTest, SharesAreAboutEqualAndBounded) {
  using Counts = std::vector<size_t>;
  const auto share = [](const std::vector<int64_t>& bytes, int files, int64_t most) {
    return ShareRowGroups(bytes, files, most);
  };
  EXPECT_EQ(share({10, 10, 10, 10}, 2, 0), (Counts{2, 2}));
  EXPECT_EQ(share({10, 10, 10, 10}, 1, 0), (Counts{4}));
  EXPECT_EQ(share({10, 10, 10}, 2, 0), (Counts{2, 1}));
  EXPECT_EQ(share({40, 10, 10, 10}, 2, 0), (Counts{1, 3}));
  EXPECT_EQ(share({10, 10, 10, 10}, 1, 25), (Counts{2, 2}));
  EXPECT_EQ(share({100}, 3, 50), (Counts{1}));
  EXPECT_TRUE(share({}, 3, 50).empty());
}

// Rows of which all follows from their number.
class SortedRewriteTest : public RunnerTest {
 protected:
  static std::string Text(int64_t number, size_t bytes) {
    std::string text(bytes, ' ');
    auto state = static_cast<uint64_t>(number);
    for (char& c : text) c = static_cast<char>('!' + (state = HashMix(state)) % 90);
    return text;
  }

  // In 5,000 rows, a row group, are so many texts, which come in no other row group.
  void PutFiles(int64_t rows, int files, size_t text_bytes, int64_t distinct = 5000) {
    texts_.resize(static_cast<size_t>(rows));
    numbers_.resize(static_cast<size_t>(rows));
    std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
    std::mt19937_64 random(7);  // NOLINT: seeded, of a test
    std::ranges::shuffle(numbers_, random);
    const auto schema =
        arrow::schema({IdField(1, "key", arrow::int64()), IdField(2, "text", arrow::utf8()),
                       IdField(3, "some", arrow::list(IdField(4, "element", arrow::int32())))});
    for (int f = 0; f < files; ++f) {
      arrow::Int64Builder keys;
      arrow::StringBuilder texts;
      const auto items = std::make_shared<arrow::Int32Builder>();
      arrow::ListBuilder lists(arrow::default_memory_pool(), items, schema->field(2)->type());
      for (int64_t i = f * rows / files; i < (f + 1) * rows / files; ++i) {
        const int64_t number = numbers_[static_cast<size_t>(i)];
        const int64_t text = i / 5000 * 5000 + i % 5000 % distinct;
        texts_[static_cast<size_t>(number)] = text;
        ASSERT_TRUE(keys.Append(number / 3).ok());
        ASSERT_TRUE(texts.Append(Text(text, text_bytes)).ok());
        ASSERT_TRUE(lists.Append().ok());
        for (int64_t k = 0; k < number % 4; ++k) {
          ASSERT_TRUE(items->Append(static_cast<int32_t>(number + k)).ok());
        }
      }
      const auto table = arrow::Table::Make(
          schema,
          {keys.Finish().ValueOrDie(), texts.Finish().ValueOrDie(), lists.Finish().ValueOrDie()});
      Put("in" + std::to_string(f) + ".parquet",
          WriteParquet(*table, 5000, parquet::WriterProperties::Builder().build()));
    }
    Table({Column(1, "key", iceberg::TypeKind::kLong),
           Column(2, "text", iceberg::TypeKind::kString),
           Column(3, "some", ListType(Column(4, "element", iceberg::TypeKind::kInt)))});
    // Equal keys keep the order of the inputs.
    std::ranges::stable_sort(numbers_, {}, [](int64_t number) { return number / 3; });
  }

  Ordering& OrderByKey(const std::string& spill) {
    auto ordering = std::make_shared<Ordering>();
    ordering->order.fields = {OrderField{.field_id = 1, .column = "key"}};
    ordering->spill_directory = spill;
    Request().ordering = ordering;
    return *ordering;
  }

  void ExpectSorted(const GroupReport& report, size_t text_bytes) {
    const auto table = Output(report);
    ASSERT_EQ(table->num_rows(), std::ssize(numbers_));
    const auto keys = std::static_pointer_cast<arrow::Int64Array>(table->column(0)->chunk(0));
    const auto texts = std::static_pointer_cast<arrow::StringArray>(table->column(1)->chunk(0));
    const auto lists = std::static_pointer_cast<arrow::ListArray>(table->column(2)->chunk(0));
    const auto items = std::static_pointer_cast<arrow::Int32Array>(lists->values());
    for (int64_t i = 0; i < table->num_rows(); ++i) {
      const int64_t number = numbers_[static_cast<size_t>(i)];
      ASSERT_EQ(keys->Value(i), number / 3);
      ASSERT_EQ(texts->GetView(i), Text(texts_[static_cast<size_t>(number)], text_bytes)) << i;
      ASSERT_EQ(lists->value_length(i), number % 4);
      for (int32_t k = 0; k < lists->value_length(i); ++k) {
        ASSERT_EQ(items->Value(lists->value_offset(i) + k), number + k);
      }
    }
  }

  std::string Spill() { return testing::TempDir() + "lithify-spill-" + std::to_string(getpid()); }

  std::vector<int64_t> numbers_;
  std::vector<int64_t> texts_;  // By number.
};

TEST_F(SortedRewriteTest, SortsInMemory) {
  PutFiles(30'000, 4, 40);
  OrderByKey("");
  request_.threads = 3;
  request_.shape.outputs = 2;
  request_.shape.row_group_rows = 4000;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_FALSE(report->came_in_order);
  EXPECT_EQ(report->spilled_bytes, 0);
  EXPECT_EQ(report->outputs.size(), 2);
  EXPECT_TRUE(report->digest_complete);
  ExpectSorted(*report, 40);
  // R107: no key is in two files.
  const auto last = ReadParquet(Bytes(report->outputs[0].name))->column(0)->chunk(0);
  const auto first = ReadParquet(Bytes(report->outputs[1].name))->column(0)->chunk(0);
  EXPECT_LT(static_cast<const arrow::Int64Array&>(*last).Value(last->length() - 1),
            static_cast<const arrow::Int64Array&>(*first).Value(0));
}

TEST_F(SortedRewriteTest, SpillsWhatDoesNotFit) {
  PutFiles(40'000, 3, 400);  // 16 MB of texts alone.
  OrderByKey(Spill());
  request_.threads = 2;
  request_.memory_bytes = 16 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_GT(report->spilled_bytes, 8 << 20);
  ExpectSorted(*report, 400);
}

// Texts that a dictionary shortens look small until they are held.
TEST_F(SortedRewriteTest, SpillsWhatTurnsOutNotToFit) {
  PutFiles(60'000, 3, 300, 2000);
  OrderByKey(Spill());
  request_.threads = 1;
  request_.memory_bytes = 40 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_GT(report->spilled_bytes, 8 << 20);
  ExpectSorted(*report, 300);
}

TEST_F(SortedRewriteTest, WithoutADirectoryTheMemoryIsTheLimit) {
  PutFiles(40'000, 3, 400);
  OrderByKey("");
  request_.memory_bytes = 16 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kLimit) << report.error().ToString();
  EXPECT_EQ(store_.Keys().size(), 3) << "outputs were left";
}

TEST_F(SortedRewriteTest, TheBoundOfTheDirectoryIsALimit) {
  PutFiles(40'000, 3, 400);
  OrderByKey(Spill()).spill_bytes_max = 1 << 20;
  request_.memory_bytes = 16 << 20;
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kLimit) << report.error().ToString();
}

TEST_F(SortedRewriteTest, WhatIsInOrderGoesAsItIs) {
  PutFiles(20'000, 4, 40);
  OrderByKey("");
  request_.shape.row_group_rows = 5000;
  const auto sorted = runner_->Run(request_, cancel_);
  ASSERT_TRUE(sorted) << sorted.error().ToString();
  request_.inputs.clear();
  for (const OutputFile& output : sorted->outputs) {
    request_.inputs.push_back(InputFile{"p/" + output.name, output.size});
  }
  const auto again = runner_->Run(request_, cancel_);
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_TRUE(again->came_in_order);
  EXPECT_FALSE(again->tiers.contains("recode"));
  ExpectSorted(*again, 40);
}

TEST_F(SortedRewriteTest, DeletedRowsTakeNoPart) {
  PutFiles(9'000, 3, 20);
  auto deleted = std::make_shared<PositionSet>();
  deleted->AddRange(100, 2000);
  request_.inputs[1].deleted = deleted;
  OrderByKey("");
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report->rows_in, 9000);
  EXPECT_EQ(report->rows_deleted, 1900);
  EXPECT_EQ(report->rows_out, 7100);
}

TEST_F(SortedRewriteTest, AColumnThatHasNoOrder) {
  PutFiles(10, 1, 20);
  OrderByKey("").order.fields[0].field_id = 4;  // In a list.
  const auto report = runner_->Run(request_, cancel_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnsupported) << report.error().ToString();
}

}  // namespace
}  // namespace lithify::rewrite
