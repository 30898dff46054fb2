// Which rows of the inputs make up each row group of the outputs.
#include "rewrite/row_group_plan.h"

#include <gmock/gmock.h>

#include "rewrite/parquet_fixture.h"

namespace lithify::rewrite {
namespace {

using testing::ElementsAre;

// "100" is a row group that is made of one hundred rows, "100m" one that is moved.
class RowGroupPlanTest : public testing::Test {
 protected:
  RowGroupPlanTest() {
    request_.shape.row_group_rows = 1000;
    request_.shape.row_group_bytes = int64_t{1} << 40;
  }

  // A file of row groups of so many rows; `deleted` are rows of it.
  void File(const std::vector<int>& row_groups, const std::vector<int64_t>& deleted = {}) {
    auto in = std::make_unique<InputSource>();
    const auto schema = arrow::schema({arrow::field("c", arrow::int64(), false)});
    auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
    auto writer = parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), sink,
                                                   parquet::WriterProperties::Builder()
                                                       .disable_dictionary()
                                                       ->compression(arrow::Compression::ZSTD)
                                                       ->build())
                      .ValueOrDie();
    for (const int rows : row_groups) {
      arrow::Int64Builder values;
      EXPECT_TRUE(values.AppendEmptyValues(rows).ok());
      const auto table = arrow::Table::Make(schema, {values.Finish().ValueOrDie()});
      EXPECT_TRUE(writer->WriteTable(*table, rows).ok());
    }
    EXPECT_TRUE(writer->Close().ok());
    in->footer = FooterOf(sink->Finish().ValueOrDie()->ToString());
    if (!deleted.empty()) {
      auto positions = std::make_shared<PositionSet>();
      for (const int64_t row : deleted) positions->Add(row);
      in->deleted = positions;
    }
    group_.inputs.push_back(std::move(in));
  }

  std::vector<std::string> Plan() {
    const auto plan = PlanRowGroups(group_, request_);
    EXPECT_TRUE(plan) << plan.error().ToString();
    std::vector<std::string> groups;
    for (const RowGroupPlan& group : *plan) {
      groups.push_back(std::to_string(group.rows) + (group.moved ? "m" : ""));
      if (group.moved) {
        EXPECT_TRUE(group.whole);
        EXPECT_EQ(group.places.size(), 1U);
      }
    }
    return groups;
  }

  GroupRequest request_;
  OpenedGroup group_;
};

TEST_F(RowGroupPlanTest, MoreThanHalfOfTheBoundsIsMoved) {
  File({1000, 501, 500, 300});
  File({100, 100});
  EXPECT_THAT(Plan(), ElementsAre("1000m", "501m", "1000"));
  // By bytes as well as by rows: eight for each, and headers.
  group_.inputs.clear();
  File({1000, 560, 440, 300});
  File({100, 100});
  request_.shape.row_group_rows = 1'000'000;
  request_.shape.row_group_bytes = 8400;
  EXPECT_THAT(Plan(), ElementsAre("1000m", "560m", "940"));
}

TEST_F(RowGroupPlanTest, P16_UpToTwiceTheBytesAndFourTimesTheRowsAreMovedAndMoreIsCut) {
  File({4000, 4001, 10});
  EXPECT_THAT(Plan(), ElementsAre("4000m", "801", "800", "800", "800", "800", "10"));
  group_.inputs.clear();
  File({1000});
  const int64_t bytes = group_.inputs[0]->footer->row_group(0).total_byte_size;
  request_.shape.row_group_bytes = (bytes + 1) / 2;
  EXPECT_THAT(Plan(), ElementsAre("1000m"));
  request_.shape.row_group_bytes = (bytes - 1) / 2;
  EXPECT_THAT(Plan(), ElementsAre("334", "333", "333"));
}

TEST_F(RowGroupPlanTest, AFewRowsInFrontAreUnitedIfBothFit) {
  File({126, 600, 125, 600, 125, 900, 125, 900});
  EXPECT_THAT(Plan(), ElementsAre("126", "600m", "850", "900m", "125", "900m"));
}

TEST_F(RowGroupPlanTest, RowsStayInOrderAndSmallOnesBetweenAreUnited) {
  File({200, 200});
  File({800, 300});
  for (int i = 0; i < 10; ++i) File({60});
  EXPECT_THAT(Plan(), ElementsAre("400", "800m", "900"));
}

TEST_F(RowGroupPlanTest, WithDeletedRowsItIsMade) {
  File({800, 800}, {799});
  File({1600, 10}, {0});
  EXPECT_THAT(Plan(), ElementsAre("799", "800m", "1599", "10"));
}

// To be cut it would have to be decoded.
TEST_F(RowGroupPlanTest, WithDeletedRowsItStaysWholeUpToFourTimesTheRows) {
  File({100, 4001, 4002, 100}, {100, 4101});
  EXPECT_THAT(Plan(), ElementsAre("100", "4000", "801", "800", "800", "800", "800", "100"));
  group_.inputs.clear();
  File({1600}, {0});
  const int64_t bytes = group_.inputs[0]->footer->row_group(0).total_byte_size;
  request_.shape.row_group_bytes = bytes;
  EXPECT_THAT(Plan(), ElementsAre("1599"));
  // Not of more bytes than others that are made: they are in memory.
  request_.shape.row_group_bytes = bytes - bytes / 100;
  EXPECT_THAT(Plan(), ElementsAre("800", "799"));
  request_.shape.row_group_bytes = bytes;
  request_.shape.splice = false;
  EXPECT_THAT(Plan(), ElementsAre("800", "799"));
}

TEST_F(RowGroupPlanTest, NothingIsMovedWherePagesAreNot) {
  File({900, 1600});
  request_.shape.splice = false;
  EXPECT_THAT(Plan(), ElementsAre("900", "800", "800"));
}

// With several files of equal size, a row group that is moved is no more than a quarter of one
// (I27), or what would be made.
TEST_F(RowGroupPlanTest, I27_SeveralFilesStayEven) {
  File({1600, 1600, 1600, 1600});
  request_.shape.outputs = 2;
  request_.table = std::make_shared<TableTarget>();
  EXPECT_THAT(Plan(), ElementsAre("800", "800", "800", "800", "800", "800", "800", "800"));
  File({1600, 1600, 1600, 1600});
  EXPECT_THAT(Plan(),
              ElementsAre("1600m", "1600m", "1600m", "1600m", "1600m", "1600m", "1600m", "1600m"));
}

TEST_F(RowGroupPlanTest, TheHardBoundOfAFileBoundsWhatIsMoved) {
  File({1600});
  const int64_t bytes = group_.inputs[0]->footer->row_group(0).total_byte_size;
  request_.shape.file_size_bytes_max = 4 * bytes;
  EXPECT_THAT(Plan(), ElementsAre("1600m"));
  request_.shape.row_group_bytes = bytes - 1;
  EXPECT_THAT(Plan(), ElementsAre("1600m"));
  request_.shape.file_size_bytes_max = 4 * bytes - 1;
  EXPECT_THAT(Plan(), ElementsAre("800", "800"));
}

TEST_F(RowGroupPlanTest, ManySmallOnesAreUnitedAsEver) {
  for (int i = 0; i < 30; ++i) File({90});
  EXPECT_THAT(Plan(), ElementsAre("990", "990", "720"));
}

}  // namespace
}  // namespace lithify::rewrite
