// Row conservation over arbitrary schemas, nested types included (R220, R270; I29, P14, P23):
// what Arrow's reader sees in the inputs, in order, is what it sees in the outputs.
#include <rapidcheck.h>

#include "base/text.h"
#include "rewrite/arbitrary_table.h"

namespace lithify::rewrite {
namespace {

class RecodePropertyTest : public RunnerTest {};

TEST_F(RecodePropertyTest, EveryRowSurvivesForArbitrarySchemasAndShapes) {
  const bool ok = rc::check("conservation", [this](uint64_t seed) {
    Arbitrary any(seed);
    request_.inputs.clear();
    arrow::FieldVector fields;
    const int columns = 1 + any.Pick(5);
    for (int i = 0; i < columns; ++i) {
      fields.push_back(arrow::field("c" + std::to_string(i), any.Type(3), any.Chance(70)));
    }
    const auto schema = arrow::schema(fields);
    std::vector<std::shared_ptr<arrow::Table>> tables;
    const int files = 1 + any.Pick(4);
    for (int f = 0; f < files; ++f) {
      const int rows = any.Chance(15) ? 0 : any.Pick(200);
      std::vector<std::string> json;
      for (const auto& field : fields) json.push_back(any.Column(*field, rows));
      const auto table = MakeTable(schema, json);
      const std::string bytes = WriteParquet(*table, 1 + any.Pick(150), any.Properties());
      tables.push_back(AsArrowReads(bytes));
      if (tables.back() == nullptr) RC_DISCARD("Arrow cannot read what it wrote");
      Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
    }
    Request();
    request_.threads = 1 + any.Pick(3);
    request_.shape.outputs = 1 + any.Pick(3);
    request_.shape.row_group_rows = 1 + any.Pick(300);
    request_.shape.row_group_bytes = 1 + any.Pick(20000);
    request_.shape.page_bytes = 1 + any.Pick(4000);
    // Little memory makes columns let go of half-read chunks and find their place again.
    const bool scarce = any.Chance(50);
    request_.memory_bytes = scarce ? (16 << any.Pick(6)) * kKiB : kGiB;
    const auto report = runner_->Run(request_, cancel_);
    RC_TAG(scarce ? "scarce" : "plenty");
    if (!report && scarce && report.error().code == Code::kLimit) {
      RC_TAG("over the bound");
      return;
    }
    if (!report) RC_FAIL(report.error().ToString());
    const auto expected =
        arrow::ConcatenateTables(tables).ValueOrDie()->CombineChunks().ValueOrDie();
    RC_ASSERT(report->rows_out == expected->num_rows());
    if (expected->num_rows() == 0) {
      RC_ASSERT(report->outputs.empty());
      return;
    }
    const auto actual = Output(*report);
    if (!actual->Equals(*expected, false)) {
      RC_FAIL("expected " + expected->ToString() + "\nactual " + actual->ToString());
    }
    RC_ASSERT(actual->schema()->Equals(*expected->schema(), false));
  });
  EXPECT_TRUE(ok);
}

// The digest does not depend on how rows are split over files and row groups, and does depend on
// every value.
TEST_F(RecodePropertyTest, DigestSeesRowsNotTheirLayout) {
  const bool ok = rc::check("digest", [this](uint64_t seed) {
    Arbitrary any(seed);
    const auto schema =
        arrow::schema({arrow::field("a", any.Type(2)), arrow::field("b", any.Type(2))});
    const int rows = 2 + any.Pick(60);
    const auto table = MakeTable(
        schema, {any.Column(*schema->field(0), rows), any.Column(*schema->field(1), rows)});
    const auto digest = [&](const arrow::Table& t, int64_t row_group_rows) {
      const std::string key = "p/d" + std::to_string(outputs_++) + ".parquet";
      EXPECT_TRUE(store_.PutNew(key, WriteParquet(t, row_group_rows, any.Properties())));
      const auto report = runner_->VerifyFile(key, RowRule{}, cancel_);
      if (!report) RC_FAIL(report.error().ToString());
      return report->digest;
    };
    const ContentDigest whole = digest(*table, rows);
    RC_ASSERT(whole == digest(*table, 1 + any.Pick(rows)));
    const int cut = any.Pick(rows);
    ContentDigest pieces = digest(*table->Slice(cut), rows);
    pieces.Add(digest(*table->Slice(0, cut), rows));
    RC_ASSERT(whole == pieces);
    RC_ASSERT(!(whole == digest(*table->Slice(1), rows)));
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace lithify::rewrite
