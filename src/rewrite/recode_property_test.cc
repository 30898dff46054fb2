// Row conservation over arbitrary schemas, nested types included (R220, R270; I29, P14, P23):
// what Arrow's reader sees in the inputs, in order, is what it sees in the outputs.
#include <rapidcheck.h>

#include <random>

#include "base/text.h"
#include "rewrite/parquet_fixture.h"

namespace lithify::rewrite {
namespace {

using TypePtr = std::shared_ptr<arrow::DataType>;

class Arbitrary {
 public:
  explicit Arbitrary(uint64_t seed) : random_(seed) {}

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int percent) { return Pick(100) < percent; }

  TypePtr Type(int depth) {
    const int kinds = depth > 0 ? 24 : 20;
    switch (Pick(kinds)) {
      case 0: return arrow::int8();
      case 1: return arrow::int16();
      case 2: return arrow::int32();
      case 3: return arrow::int64();
      case 4: return arrow::uint8();
      case 5: return arrow::uint16();
      case 6: return arrow::uint32();
      case 7: return arrow::uint64();
      case 8: return arrow::float32();
      case 9: return arrow::float64();
      case 10: return arrow::boolean();
      case 11: return arrow::binary();
      case 12: return arrow::date32();
      case 13: return arrow::timestamp(arrow::TimeUnit::MILLI);
      case 14: return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
      case 15: return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
      case 16: return arrow::decimal128(Pick(2) == 0 ? 7 : 30, 2);
      case 17: return arrow::fixed_size_binary(5);
      case 18:
      case 19: return arrow::utf8();
      case 20:
      case 21: return arrow::list(arrow::field("element", Type(depth - 1), Chance(70)));
      case 22: return arrow::map(arrow::utf8(), arrow::field("value", Type(depth - 1), Chance(70)));
      default: {
        arrow::FieldVector fields;
        const int n = 1 + Pick(3);
        for (int i = 0; i < n; ++i) {
          fields.push_back(arrow::field("f" + std::to_string(i), Type(depth - 1), Chance(70)));
        }
        return arrow::struct_(fields);
      }
    }
  }

  std::string Text(const arrow::DataType& type, bool nullable) {
    if (nullable && Chance(20)) return "null";
    switch (type.id()) {
      case arrow::Type::BOOL: return Chance(50) ? "true" : "false";
      case arrow::Type::INT8: return std::to_string(Pick(256) - 128);
      case arrow::Type::UINT8: return std::to_string(Pick(256));
      case arrow::Type::INT16: return std::to_string(Pick(65536) - 32768);
      case arrow::Type::UINT16: return std::to_string(Pick(65536));
      case arrow::Type::UINT32: return std::to_string(static_cast<uint32_t>(random_()));
      case arrow::Type::UINT64: return std::to_string(random_());
      case arrow::Type::INT64:
      case arrow::Type::TIMESTAMP: return std::to_string(static_cast<int64_t>(random_()));
      case arrow::Type::FLOAT:
      case arrow::Type::DOUBLE: return std::to_string((Pick(2000) - 1000) / 8.0);
      case arrow::Type::DECIMAL128: return "\"" + std::to_string(Pick(10000)) + ".25\"";
      case arrow::Type::FIXED_SIZE_BINARY: return "\"ab" + std::to_string(100 + Pick(900)) + "\"";
      case arrow::Type::STRING:
      case arrow::Type::BINARY: return "\"" + Letters() + "\"";
      case arrow::Type::LIST: return List(*static_cast<const arrow::ListType&>(type).value_field());
      case arrow::Type::MAP: return Map(static_cast<const arrow::MapType&>(type));
      case arrow::Type::STRUCT: return Struct(type);
      default: return std::to_string(Pick(100000) - 50000);
    }
  }

  std::string Column(const arrow::Field& field, int rows) {
    std::string out = "[";
    for (int i = 0; i < rows; ++i) {
      if (i > 0) out += ",";
      out += Text(*field.type(), field.nullable());
    }
    return out + "]";
  }

  std::shared_ptr<parquet::WriterProperties> Properties() {
    parquet::WriterProperties::Builder builder;
    builder.data_page_version(Chance(50) ? parquet::ParquetDataPageVersion::V1
                                         : parquet::ParquetDataPageVersion::V2);
    if (Chance(50)) builder.disable_dictionary();
    builder.data_pagesize(64 << Pick(8))->write_batch_size(1 + Pick(50));
    builder.dictionary_pagesize_limit(16 << Pick(8));
    const arrow::Compression::type codecs[] = {arrow::Compression::UNCOMPRESSED,
                                               arrow::Compression::SNAPPY, arrow::Compression::ZSTD,
                                               arrow::Compression::GZIP, arrow::Compression::LZ4};
    builder.compression(codecs[Pick(5)]);
    return builder.build();
  }

 private:
  std::string Letters() {
    std::string text(static_cast<size_t>(Chance(10) ? Pick(300) : Pick(6)), 'a');
    for (char& c : text) c = static_cast<char>('a' + Pick(Chance(50) ? 2 : 26));
    return text;
  }
  std::string List(const arrow::Field& element) {
    std::string out = "[";
    const int n = Chance(25) ? 0 : Pick(5);
    for (int i = 0; i < n; ++i) {
      out += (i > 0 ? "," : "") + Text(*element.type(), element.nullable());
    }
    return out + "]";
  }
  std::string Map(const arrow::MapType& type) {
    std::string out = "[";
    const int n = Pick(4);
    for (int i = 0; i < n; ++i) {
      out += (i > 0 ? ",[\"k" : "[\"k") + std::to_string(i) + "\"," +
             Text(*type.item_type(), type.item_field()->nullable()) + "]";
    }
    return out + "]";
  }
  std::string Struct(const arrow::DataType& type) {
    std::string out = "[";
    for (int i = 0; i < type.num_fields(); ++i) {
      out += (i > 0 ? "," : "") + Text(*type.field(i)->type(), type.field(i)->nullable());
    }
    return out + "]";
  }

  std::mt19937_64 random_;
};

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
      tables.push_back(ReadParquet(bytes));
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
