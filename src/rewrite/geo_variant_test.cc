// Geometry, geography and variant columns of a table [Iceberg, Appendix A; Parquet, LogicalTypes]:
// their bytes and what annotates them go through a rewrite as they are (P26).
#include <parquet/column_reader.h>
#include <parquet/column_writer.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>

#include <optional>

#include "rewrite/table_fixture.h"

namespace lithify::rewrite {
namespace {

using iceberg::TypeKind;
using parquet::LogicalType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::GroupNode;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;
using Edges = LogicalType::EdgeInterpolationAlgorithm;

// One entry of a leaf: its definition level, and the value where that is the greatest.
using Entry = std::pair<int16_t, std::string>;
using Entries = std::vector<Entry>;

// A point in well-known binary, little-endian.
std::string Point(double x, double y) {
  std::string wkb("\1\1\0\0\0", 5);
  for (const double value : {x, y}) {
    wkb.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return wkb;
}

NodePtr BytesNode(const std::string& name, bool required, int field_id = -1,
                  const std::shared_ptr<const LogicalType>& logical = LogicalType::None()) {
  return PrimitiveNode::Make(name, required ? Repetition::REQUIRED : Repetition::OPTIONAL, logical,
                             Type::BYTE_ARRAY, -1, field_id);
}

NodePtr VariantNode(bool shredded, bool value_required = false) {
  parquet::schema::NodeVector parts = {BytesNode("metadata", true),
                                       BytesNode("value", value_required)};
  if (shredded) parts.push_back(BytesNode("typed_value", false, -1, LogicalType::String()));
  return GroupNode::Make("v", Repetition::OPTIONAL, parts, LogicalType::Variant(), 2);
}

class GeoVariantTest : public RunnerTest {
 protected:
  // A file whose leaves are all BYTE_ARRAY, none in a list.
  void PutLeaves(const parquet::schema::NodeVector& fields, const std::vector<Entries>& leaves) {
    auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
    const auto root = std::static_pointer_cast<GroupNode>(
        GroupNode::Make("schema", Repetition::REQUIRED, fields));
    auto writer = parquet::ParquetFileWriter::Open(sink, root);
    auto* group = writer->AppendRowGroup();
    for (const Entries& leaf : leaves) {
      auto* column = static_cast<parquet::ByteArrayWriter*>(group->NextColumn());
      std::vector<int16_t> levels;
      std::vector<parquet::ByteArray> values;
      for (const auto& [level, text] : leaf) {
        levels.push_back(level);
        if (level == column->descr()->max_definition_level()) {
          values.emplace_back(static_cast<uint32_t>(text.size()),
                              reinterpret_cast<const uint8_t*>(text.data()));
        }
      }
      column->WriteBatch(static_cast<int64_t>(leaf.size()), levels.data(), nullptr, values.data());
      column->Close();
    }
    writer->Close();
    Put("in" + std::to_string(inputs_++) + ".parquet", sink->Finish().ValueOrDie()->ToString());
  }

  void SetTable(std::vector<iceberg::Field> fields) {
    auto table = std::make_shared<TableTarget>();
    table->schema.fields = std::move(fields);
    request_.table = std::move(table);
  }
  void SetGeo(TypeKind kind, const std::string& parameters = "") {
    iceberg::Type type = Primitive(kind);
    type.parameters = parameters;
    SetTable({Column(1, "g", type)});
  }
  void PutGeo(const std::shared_ptr<const LogicalType>& logical, const Entries& entries) {
    PutLeaves({BytesNode("old_name", false, 1, logical)}, {entries});
  }
  void SetVariant() { SetTable({Column(2, "v", TypeKind::kVariant)}); }

  std::unique_ptr<parquet::ParquetFileReader> Open(const std::string& name) {
    return parquet::ParquetFileReader::Open(
        std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(Bytes(name))));
  }

  // The output's leaves, entry by entry.
  std::vector<Entries> ReadLeaves(const std::string& name) {
    const auto reader = Open(name);
    std::vector<Entries> leaves(static_cast<size_t>(reader->metadata()->num_columns()));
    for (int g = 0; g < reader->metadata()->num_row_groups(); ++g) {
      for (size_t c = 0; c < leaves.size(); ++c) {
        const auto column = std::static_pointer_cast<parquet::ByteArrayReader>(
            reader->RowGroup(g)->Column(static_cast<int>(c)));
        while (column->HasNext()) {
          int16_t level = 0;
          parquet::ByteArray value;
          int64_t values = 0;
          if (column->ReadBatch(1, &level, nullptr, &value, &values) != 1) break;
          if (column->descr()->max_definition_level() == 0) level = 0;
          leaves[c].emplace_back(
              level,
              values == 0 ? "" : std::string(reinterpret_cast<const char*>(value.ptr), value.len));
        }
      }
    }
    return leaves;
  }

  // Runs; the one output's first field and its leaves.
  void ExpectOutput(const std::shared_ptr<const LogicalType>& logical,
                    const std::vector<Entries>& leaves) {
    const auto report = Run();
    ASSERT_TRUE(report) << report.error().ToString();
    ASSERT_EQ(report->outputs.size(), 1U);
    const std::string& name = report->outputs[0].name;
    const auto field = Open(name)->metadata()->schema()->group_node()->field(0);
    EXPECT_TRUE(field->logical_type()->Equals(*logical)) << field->logical_type()->ToString();
    EXPECT_EQ(field->field_id(), request_.table->schema.fields[0].id);
    EXPECT_EQ(field->name(), request_.table->schema.fields[0].name);
    EXPECT_EQ(ReadLeaves(name), leaves);
    EXPECT_TRUE(report->outputs[0].metrics.lower_bounds.empty());
    EXPECT_TRUE(report->outputs[0].metrics.upper_bounds.empty());
    const auto verified = runner_->VerifyFile("p/" + name, RowRule{}, cancel_);
    ASSERT_TRUE(verified) << verified.error().ToString();
    EXPECT_EQ(verified->digest, report->outputs[0].digest);
  }
  void ExpectRefused(const std::string& part) {
    const auto report = Run();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kUnsupported) << report.error().ToString();
    EXPECT_NE(report.error().ToString().find(part), std::string::npos) << report.error().ToString();
  }
};

TEST_F(GeoVariantTest, GeometryKeepsItsCoordinateSystem) {
  SetGeo(TypeKind::kGeometry, "(srid:3857)");
  // What a file says is more than what the table says: a name of a property there.
  const auto logical = LogicalType::Geometry("{\"type\": \"ProjectedCRS\"}");
  PutGeo(logical, {{1, Point(1, 2)}, {0, ""}});
  PutGeo(logical, {{1, Point(3, 4)}});
  ExpectOutput(logical, {{{1, Point(1, 2)}, {0, ""}, {1, Point(3, 4)}}});
}

TEST_F(GeoVariantTest, GeometryWithoutAnnotationTakesThatOfTheTable) {
  SetGeo(TypeKind::kGeometry, "( srid:3857 )");
  PutGeo(LogicalType::None(), {{1, Point(1, 2)}});
  ExpectOutput(LogicalType::Geometry("srid:3857"), {{{1, Point(1, 2)}}});
}

TEST_F(GeoVariantTest, GeographyHasEdges) {
  SetGeo(TypeKind::kGeography, "(srid:4326, Karney)");
  PutGeo(LogicalType::None(), {{1, Point(1, 2)}});
  ExpectOutput(LogicalType::Geography("srid:4326", Edges::KARNEY), {{{1, Point(1, 2)}}});
  request_.inputs.clear();
  PutGeo(LogicalType::Geography("srid:4326", Edges::THOMAS), {{1, Point(1, 2)}});
  ExpectOutput(LogicalType::Geography("srid:4326", Edges::THOMAS), {{{1, Point(1, 2)}}});
  SetGeo(TypeKind::kGeography, "('srid:4326', \"andoyer\")");
  request_.inputs.clear();
  PutGeo(LogicalType::None(), {{1, Point(1, 2)}});
  ExpectOutput(LogicalType::Geography("srid:4326", Edges::ANDOYER), {{{1, Point(1, 2)}}});
  SetGeo(TypeKind::kGeography, "(srid:4326, straight)");
  ExpectRefused("edge interpolation is not known");
}

TEST_F(GeoVariantTest, TheDefaultsMayBeSpelledOut) {
  SetGeo(TypeKind::kGeography);
  PutGeo(LogicalType::Geography(), {{1, Point(1, 2)}});
  PutGeo(LogicalType::Geography("OGC:CRS84", Edges::SPHERICAL), {{1, Point(3, 4)}});
  ExpectOutput(LogicalType::Geography(), {{{1, Point(1, 2)}, {1, Point(3, 4)}}});
}

TEST_F(GeoVariantTest, OtherCoordinatesAreNotMixed) {
  SetGeo(TypeKind::kGeometry);
  PutGeo(LogicalType::Geometry("srid:1"), {{1, Point(1, 2)}});
  PutGeo(LogicalType::Geometry("srid:2"), {{1, Point(1, 2)}});
  ExpectRefused("column g: has other coordinates or edges in one file than in another");
  request_.inputs.clear();
  PutGeo(LogicalType::Geography(), {{1, Point(1, 2)}});
  ExpectRefused("does not read");
  SetGeo(TypeKind::kGeography);
  PutGeo(LogicalType::Geography("", Edges::VINCENTY), {{1, Point(1, 2)}});
  ExpectRefused("has other coordinates or edges in one file than in another");
}

TEST_F(GeoVariantTest, BytesThatAreNoGeometryGoThroughAsWell) {
  SetGeo(TypeKind::kGeometry);
  PutGeo(LogicalType::None(), {{1, "no well-known binary"}, {1, ""}, {1, Point(1, 2)}});
  ExpectOutput(LogicalType::Geometry(), {{{1, "no well-known binary"}, {1, ""}, {1, Point(1, 2)}}});
}

TEST_F(GeoVariantTest, MissingGeometriesAreNull) {
  SetTable({Column(1, "g", TypeKind::kGeometry), Column(3, "b", TypeKind::kBinary)});
  PutLeaves({BytesNode("b", false, 3)}, {{{1, "x"}}});
  PutLeaves({BytesNode("g", false, 1, LogicalType::Geometry())}, {{{1, Point(1, 2)}}});
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(ReadLeaves(report->outputs[0].name),
            (std::vector<Entries>{{{0, ""}, {1, Point(1, 2)}}, {{1, "x"}, {0, ""}}}));
}

TEST_F(GeoVariantTest, P26_VariantsGoThroughAsTheyAre) {
  SetVariant();
  PutLeaves({VariantNode(false)}, {{{1, "m"}, {0, ""}, {1, "n"}}, {{2, "1"}, {0, ""}, {1, ""}}});
  PutLeaves({VariantNode(false)}, {{{1, "o"}}, {{2, "2"}}});
  request_.inputs[0].deleted = [] {
    auto set = std::make_shared<PositionSet>();
    set->Add(2);
    return set;
  }();
  ExpectOutput(LogicalType::Variant(),
               {{{1, "m"}, {0, ""}, {1, "o"}}, {{2, "1"}, {0, ""}, {2, "2"}}});
}

TEST_F(GeoVariantTest, P26_ShreddedVariantsOfOneShape) {
  SetVariant();
  const std::vector<Entries> leaves = {
      {{1, "m"}, {1, "n"}}, {{1, ""}, {2, "v"}}, {{2, "text"}, {1, ""}}};
  PutLeaves({VariantNode(true)}, leaves);
  PutLeaves({VariantNode(true)}, leaves);
  std::vector<Entries> twice = leaves;
  for (size_t i = 0; i < twice.size(); ++i) {
    twice[i].insert(twice[i].end(), leaves[i].begin(), leaves[i].end());
  }
  ExpectOutput(LogicalType::Variant(), twice);
  PutLeaves({VariantNode(false)}, {{{1, "o"}}, {{2, "2"}}});
  ExpectRefused("p/in2.parquet: column v: is a variant that is shredded differently in the files");
}

TEST_F(GeoVariantTest, VariantsThatAFileLacksAreNull) {
  SetTable({Column(2, "v", TypeKind::kVariant), Column(3, "b", TypeKind::kBinary)});
  PutLeaves({BytesNode("b", false, 3)}, {{{1, "x"}}});
  PutLeaves({VariantNode(false, true)}, {{{1, "m"}}, {{1, "1"}}});
  const auto report = Run();
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(ReadLeaves(report->outputs[0].name),
            (std::vector<Entries>{{{0, ""}, {1, "m"}}, {{0, ""}, {1, "1"}}, {{1, "x"}, {0, ""}}}));
}

TEST_F(GeoVariantTest, GroupsThatAreNoVariantsAreRefused) {
  SetVariant();
  PutLeaves(
      {GroupNode::Make("v", Repetition::OPTIONAL,
                       {BytesNode("metadata", true, 7), BytesNode("value", false, 8)}, nullptr, 2)},
      {{{1, "m"}}, {{2, "1"}}});
  ExpectRefused("p/in0.parquet: column v: is not annotated as a variant in the file");
  // And a variant is no struct.
  request_.inputs.clear();
  SetTable({Column(2, "v", StructType({Column(7, "metadata", TypeKind::kBinary)}))});
  PutLeaves({VariantNode(false)}, {{{1, "m"}}, {{2, "1"}}});
  ExpectRefused("column v");
}

}  // namespace
}  // namespace lithify::rewrite
