// The recode tier is the judge of the splice tier: for arbitrary schemas, writers and damage, both
// give the same rows, and what the spliced output states of them is what the recoded one states.
#include <parquet/bloom_filter.h>
#include <parquet/bloom_filter_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/page_index.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>
#include <rapidcheck.h>

#include "base/text.h"
#include "rewrite/arbitrary_table.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_header.h"

namespace lithify::rewrite {
namespace {

using FieldPtr = std::shared_ptr<arrow::Field>;
using parquet::Encoding;

class SplicePropertyTest : public RunnerTest {
 protected:
  static std::string NameOf(arrow::Compression::type codec) {
    switch (codec) {
      case arrow::Compression::SNAPPY: return "snappy";
      case arrow::Compression::ZSTD: return "zstd";
      case arrow::Compression::GZIP: return "gzip";
      case arrow::Compression::LZ4: return "lz4_raw";
      default: return "none";
    }
  }

  static std::unique_ptr<parquet::ParquetFileReader> Open(const std::string& bytes) {
    return parquet::ParquetFileReader::Open(
        std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes)));
  }

  // Writers' options.
  static std::shared_ptr<parquet::WriterProperties> Properties(Arbitrary& any,
                                                               const arrow::Schema& schema,
                                                               arrow::Compression::type codec) {
    parquet::WriterProperties::Builder builder;
    builder.compression(codec)
        ->data_pagesize(64 << any.Pick(8))
        ->write_batch_size(1 + any.Pick(50));
    builder.dictionary_pagesize_limit(16 << any.Pick(10));
    if (any.Chance(50)) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
    if (any.Chance(50)) builder.enable_page_checksum();
    if (any.Chance(50)) builder.enable_write_page_index();
    if (any.Chance(20)) builder.disable_statistics();
    if (any.Chance(40)) {
      builder.disable_dictionary();
      for (const auto& field : schema.fields()) Encode(any, *field, builder);
    }
    return builder.build();
  }

  static void Encode(Arbitrary& any, const arrow::Field& field,
                     parquet::WriterProperties::Builder& builder) {
    if (any.Chance(40)) return;
    switch (field.type()->id()) {
      case arrow::Type::INT32:
      case arrow::Type::INT64:
        builder.encoding(field.name(), any.Chance(50) ? Encoding::DELTA_BINARY_PACKED
                                                      : Encoding::BYTE_STREAM_SPLIT);
        break;
      case arrow::Type::FLOAT:
      case arrow::Type::DOUBLE: builder.encoding(field.name(), Encoding::BYTE_STREAM_SPLIT); break;
      case arrow::Type::BOOL: builder.encoding(field.name(), Encoding::RLE); break;
      case arrow::Type::STRING:
      case arrow::Type::BINARY:
        builder.encoding(field.name(), any.Chance(50) ? Encoding::DELTA_BYTE_ARRAY
                                                      : Encoding::DELTA_LENGTH_BYTE_ARRAY);
        break;
      default: break;
    }
  }

  // Some files of one arbitrary schema. Returns them as Arrow reads them.
  std::vector<std::shared_ptr<arrow::Table>> PutFiles(Arbitrary& any) {
    request_.inputs.clear();
    arrow::FieldVector fields;
    for (int i = 0, n = 1 + any.Pick(5); i < n; ++i) {
      fields.push_back(arrow::field("c" + std::to_string(i), any.Type(2), any.Chance(60)));
    }
    const auto schema = arrow::schema(fields);
    const arrow::Compression::type codecs[] = {arrow::Compression::UNCOMPRESSED,
                                               arrow::Compression::SNAPPY, arrow::Compression::ZSTD,
                                               arrow::Compression::GZIP, arrow::Compression::LZ4};
    const auto codec = codecs[any.Pick(5)];
    const bool mixed = any.Chance(25);
    const auto codec_of_file = [&] { return mixed ? codecs[any.Pick(5)] : codec; };
    request_.shape.codec = NameOf(any.Chance(60) ? codec : codecs[any.Pick(5)]);
    const auto properties = Properties(any, *schema, codec);
    std::vector<std::shared_ptr<arrow::Table>> tables;
    arrow::FieldVector united(fields.size());
    for (int f = 0, n = 1 + any.Pick(any.Chance(20) ? 20 : 5); f < n; ++f) {
      const int rows = any.Chance(10) ? 0 : any.Pick(300);
      // Some files require what others do not.
      arrow::FieldVector own;
      for (size_t i = 0; i < fields.size(); ++i) {
        own.push_back(any.Chance(50) ? Required(any, fields[i], 30) : fields[i]);
        united[i] = united[i] == nullptr ? own.back() : Union(united[i], own.back());
      }
      std::string bytes;
      std::shared_ptr<arrow::Table> written;
      while (written == nullptr) {
        std::vector<std::string> json;
        for (const auto& field : own) {
          // Few values, one, or only nulls: what dictionaries and statistics are about.
          json.push_back(any.Column(*field, any.Chance(50) ? rows : std::min(rows, 1)));
        }
        const auto table = Repeated(arrow::schema(own), json, rows);
        bytes = WriteParquet(
            *table, 1 + any.Pick(400),
            !mixed && any.Chance(80) ? properties : Properties(any, *schema, codec_of_file()));
        written = AsArrowReads(bytes);
      }
      Put("in" + std::to_string(inputs_++) + ".parquet", bytes);
      tables.push_back(any.Chance(60) ? written : Delete(any, *written));
    }
    for (auto& table : tables) table = Under(united, *table);
    return tables;
  }

  // The field with some of its parts required, by chance; keys of maps are so already.
  static FieldPtr Required(Arbitrary& any, const FieldPtr& field, int percent) {
    FieldPtr own = any.Chance(percent) ? field->WithNullable(false) : field;
    const TypePtr& type = field->type();
    arrow::FieldVector parts;
    for (const auto& part : type->fields()) parts.push_back(Required(any, part, percent));
    return parts.empty() ? own : own->WithType(OfParts(*type, parts));
  }

  // Where either allows nulls, so does what is returned.
  static FieldPtr Union(const FieldPtr& a, const FieldPtr& b) {
    FieldPtr both = a->WithNullable(a->nullable() || b->nullable());
    arrow::FieldVector parts;
    for (int i = 0; i < a->type()->num_fields(); ++i) {
      parts.push_back(Union(a->type()->field(i), b->type()->field(i)));
    }
    return parts.empty() ? both : both->WithType(OfParts(*a->type(), parts));
  }

  static TypePtr OfParts(const arrow::DataType& like, const arrow::FieldVector& parts) {
    switch (like.id()) {
      case arrow::Type::LIST: return arrow::list(parts[0]);
      case arrow::Type::MAP:
        return std::make_shared<arrow::MapType>(parts[0]->type()->field(0),
                                                parts[0]->type()->field(1));
      default: return arrow::struct_(parts);
    }
  }

  static std::shared_ptr<arrow::ArrayData> OfType(const arrow::ArrayData& data,
                                                  const TypePtr& type) {
    auto own = data.Copy();
    own->type = type;
    for (size_t i = 0; i < own->child_data.size(); ++i) {
      own->child_data[i] = OfType(*own->child_data[i], type->field(static_cast<int>(i))->type());
    }
    return own;
  }

  static std::shared_ptr<arrow::Table> Under(const arrow::FieldVector& fields,
                                             const arrow::Table& table) {
    std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
    for (size_t i = 0; i < fields.size(); ++i) {
      arrow::ArrayVector chunks;
      for (const auto& chunk : table.column(static_cast<int>(i))->chunks()) {
        chunks.push_back(arrow::MakeArray(OfType(*chunk->data(), fields[i]->type())));
      }
      columns.push_back(std::make_shared<arrow::ChunkedArray>(chunks, fields[i]->type()));
    }
    return arrow::Table::Make(arrow::schema(fields), columns, table.num_rows());
  }

  // Deletes some rows of the input that was put last, or all; returns the others.
  std::shared_ptr<arrow::Table> Delete(Arbitrary& any, const arrow::Table& rows) {
    auto deleted = std::make_shared<PositionSet>();
    // All, a stretch, one row, or some here and there.
    const auto last = rows.num_rows() - 1;
    const int way = any.Pick(4);
    int64_t first = way == 0 || any.Chance(50) ? 0 : any.Pick(200);
    int64_t end = way == 1 ? first + 1 + any.Pick(200) : last + 1;
    if (way == 2) {
      first = any.Chance(30) ? last : std::min<int64_t>(first, last);
      end = first + 1;
    }
    const int percent = way == 3 ? any.Pick(30) : 100;
    std::vector<std::shared_ptr<arrow::Table>> kept = {rows.Slice(0, 0)};
    for (int64_t row = 0; row < rows.num_rows(); ++row) {
      if (row >= first && row < end && any.Chance(percent)) {
        deleted->Add(row);
      } else {
        kept.push_back(rows.Slice(row, 1));
      }
    }
    request_.inputs.back().deleted = deleted;
    return arrow::ConcatenateTables(kept).ValueOrDie()->CombineChunks().ValueOrDie();
  }

  // The columns, each repeated up to `rows` values.
  static std::shared_ptr<arrow::Table> Repeated(const std::shared_ptr<arrow::Schema>& schema,
                                                const std::vector<std::string>& json, int rows) {
    std::vector<std::shared_ptr<arrow::Array>> columns;
    for (size_t i = 0; i < json.size(); ++i) {
      auto array = FromJson(schema->field(static_cast<int>(i))->type(), json[i]);
      if (array->length() < rows) {
        const std::vector<std::shared_ptr<arrow::Array>> copies(static_cast<size_t>(rows), array);
        array = arrow::Concatenate(copies).ValueOrDie();
      }
      columns.push_back(array);
    }
    return arrow::Table::Make(schema, columns, rows);
  }

  void Shape(Arbitrary& any) {
    Request();
    request_.threads = 1 + any.Pick(3);
    request_.shape.outputs = 1 + any.Pick(2);
    // Some row groups are well sized.
    request_.shape.row_group_rows = any.Chance(50) ? 1 << 20 : 1 + any.Pick(600);
    if (any.Chance(20)) request_.shape.row_group_bytes = 1 + any.Pick(20'000);
    request_.shape.page_bytes = 1 + any.Pick(4000);
    request_.shape.splice_page_bytes_min = any.Chance(30) ? 0 : 64 << any.Pick(8);
    request_.shape.splice_page_values_min = any.Chance(30) ? 0 : 32 << any.Pick(8);
    request_.shape.plain_columns.clear();
    request_.shape.bloom_columns.clear();
    if (any.Chance(10)) request_.shape.plain_columns = {"c0"};
    if (any.Chance(20)) request_.shape.bloom_columns = {"c0", "c1"};
    const Verify ways[] = {Verify::kCounts, Verify::kSample, Verify::kFull};
    request_.verify = ways[any.Pick(3)];
    if (any.Chance(30)) request_.memory_bytes = (256 << any.Pick(6)) * kKiB;
  }

  Result<GroupReport> RunWith(bool splice) {
    request_.shape.splice = splice;
    return runner_->Run(request_, cancel_);
  }

  // Of the rows of all outputs, read again.
  ContentDigest DigestOf(const GroupReport& report) {
    ContentDigest digest;
    for (const auto& output : report.outputs) {
      const auto verified = runner_->VerifyFile("p/" + output.name, RowRule{}, cancel_);
      if (!verified) RC_FAIL(verified.error().ToString());
      digest.Add(verified->digest);
    }
    return digest;
  }

  // Offsets, sizes and first rows of the index are those of the pages.
  static void CheckIndexes(const std::string& bytes) {
    const auto reader = Open(bytes);
    const auto indexes = reader->GetPageIndexReader();
    const auto footer = reader->metadata();
    for (int g = 0; g < footer->num_row_groups(); ++g) {
      const auto of_group = indexes == nullptr ? nullptr : indexes->RowGroup(g);
      if (of_group == nullptr) continue;
      for (int c = 0; c < footer->num_columns(); ++c) {
        const auto offsets = of_group->GetOffsetIndex(c);
        const auto bounds = of_group->GetColumnIndex(c);
        if (offsets == nullptr) RC_ASSERT(bounds == nullptr);
        if (offsets == nullptr) continue;
        if (bounds) RC_ASSERT(bounds->null_pages().size() == offsets->page_locations().size());
        const bool flat = footer->schema()->Column(c)->max_repetition_level() == 0;
        int64_t row = 0;
        for (const auto& location : offsets->page_locations()) {
          PageHeader header;
          const auto length = ParsePageHeader(
              std::span(reinterpret_cast<const uint8_t*>(bytes.data()) + location.offset,
                        static_cast<size_t>(location.compressed_page_size)),
              &header);
          RC_ASSERT(length.has_value());
          RC_ASSERT(header.is_data());
          RC_ASSERT(header.crc.has_value());
          RC_ASSERT(std::cmp_equal(*length + static_cast<size_t>(header.compressed_page_size),
                                   location.compressed_page_size));
          if (flat) RC_ASSERT(location.first_row_index == row);
          row += header.num_values;
        }
      }
    }
  }

  // Bounds of pages hold for the values of their rows, and nulls are counted.
  static void CheckBounds(const std::string& bytes) {
    const auto reader = Open(bytes);
    const auto indexes = reader->GetPageIndexReader();
    if (indexes == nullptr) return;
    const auto footer = reader->metadata();
    const auto table = ReadParquet(bytes);
    int64_t group_row = 0;
    for (int g = 0; g < footer->num_row_groups(); ++g) {
      const auto of_group = indexes->RowGroup(g);
      const int64_t rows = footer->RowGroup(g)->num_rows();
      for (int c = 0; of_group != nullptr && c < footer->num_columns(); ++c) {
        const auto bounds = of_group->GetColumnIndex(c);
        if (bounds == nullptr) continue;
        const auto pages = of_group->GetOffsetIndex(c)->page_locations();
        for (size_t page = 0; page < pages.size(); ++page) {
          const int64_t first = pages[page].first_row_index;
          const int64_t end = page + 1 < pages.size() ? pages[page + 1].first_row_index : rows;
          const auto part = table->Slice(group_row + first, end - first);
          CheckBoundsOf(*bounds, page, *footer->schema()->Column(c), c, *part);
        }
      }
      group_row += rows;
    }
  }

  static void CheckBoundsOf(const parquet::ColumnIndex& bounds, size_t page,
                            const parquet::ColumnDescriptor& column, int c,
                            const arrow::Table& rows) {
    const auto judge = Open(WriteParquet(rows, 1 << 20, parquet::default_writer_properties()));
    const auto judged = judge->metadata();
    const auto group = judged->RowGroup(0);
    const auto right = group->ColumnChunk(c)->encoded_statistics();
    if (right == nullptr || column.sort_order() == parquet::SortOrder::UNKNOWN) return;
    RC_ASSERT(judged->schema()->Column(c)->physical_type() == column.physical_type());
    if (bounds.has_null_counts()) {
      RC_ASSERT(bounds.null_counts()[page] == right->null_count);
    }
    if (bounds.null_pages()[page]) {
      RC_ASSERT(!right->has_min);
      return;
    }
    if (!right->has_min) return;
    parquet::EncodedStatistics stated;
    stated.set_min(bounds.encoded_min_values()[page]);
    stated.set_max(bounds.encoded_max_values()[page]);
    parquet::EncodedStatistics both = stated;
    MergedStatistics(&column).Widen(both, *right);
    RC_ASSERT(both.min() == stated.min());
    RC_ASSERT(both.max() == stated.max());
  }

  // A filter has all the values that the recoded file's has: their bits, at least.
  static void CompareFilters(const std::string& bytes, const std::string& recoded) {
    const auto reader = Open(bytes);
    const auto judge = Open(recoded);
    for (int g = 0; g < judge->metadata()->num_row_groups(); ++g) {
      const auto filters = reader->GetBloomFilterReader().RowGroup(g);
      const auto judged = judge->GetBloomFilterReader().RowGroup(g);
      for (int c = 0; c < judge->metadata()->num_columns(); ++c) {
        const auto right = judged == nullptr ? nullptr : judged->GetColumnBloomFilter(c);
        const auto filter = filters == nullptr ? nullptr : filters->GetColumnBloomFilter(c);
        RC_ASSERT((right == nullptr) == (filter == nullptr));
        if (right == nullptr) continue;
        const std::string bits = BitsOf(*filter);
        const std::string right_bits = BitsOf(*right);
        // Filters of few bits are folded; of other entries of dictionaries, another number of
        // times.
        if (bits.size() != right_bits.size()) continue;
        for (size_t i = 0; i < bits.size(); ++i) RC_ASSERT((right_bits[i] & ~bits[i]) == 0);
        RC_TAG("filter");
      }
    }
  }

  static std::string BitsOf(const parquet::BloomFilter& filter) {
    const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
    filter.WriteTo(out.get());
    const std::string all = out->Finish().ValueOrDie()->ToString();
    return all.substr(all.size() - filter.GetBitsetSize());
  }

  // What the footers told of the tiers came true.
  void CheckPlan(const GroupReport& report) {
    const auto plan = runner_->Explain(request_, cancel_);
    if (!plan) RC_FAIL(plan.error().ToString());
    int64_t row_groups = 0;
    for (const OutputFile& output : report.outputs) row_groups += output.row_groups;
    RC_ASSERT(plan->row_groups == row_groups);
    for (const auto& [why, chunks] : plan->recoded) {
      RC_ASSERT(report.recoded.contains(why));
      RC_ASSERT(report.recoded.at(why) == chunks);
    }
    int64_t open = 0;
    for (const auto& [tier, chunks] : plan->tiers) open += chunks;
    for (const auto& [tier, chunks] : report.tiers) open -= chunks;
    RC_ASSERT(open == 0);
  }

  // Rows of each.
  static std::vector<int64_t> RowGroups(const std::string& bytes) {
    const auto footer = Open(bytes)->metadata();
    std::vector<int64_t> rows;
    for (int g = 0; g < footer->num_row_groups(); ++g) {
      rows.push_back(footer->RowGroup(g)->num_rows());
    }
    return rows;
  }

  // What `bytes` state is true: the recoded file, of the same rows, states it too.
  static void CompareStatistics(const std::string& bytes, const std::string& recoded) {
    const auto reader = Open(bytes);
    const auto judge = Open(recoded);
    for (int g = 0; g < reader->metadata()->num_row_groups(); ++g) {
      const auto group = reader->metadata()->RowGroup(g);
      const auto judged = judge->metadata()->RowGroup(g);
      for (int c = 0; c < group->num_columns(); ++c) {
        const auto chunk = group->ColumnChunk(c);
        const auto other = judged->ColumnChunk(c);
        RC_ASSERT(chunk->num_values() == other->num_values());
        const auto stated = chunk->encoded_statistics();
        const auto right = other->encoded_statistics();
        if (stated != nullptr) {
          RC_ASSERT(right != nullptr);
          if (stated->has_null_count) RC_ASSERT(stated->null_count == right->null_count);
          RC_ASSERT(!stated->has_min || stated->min() == right->min());
          RC_ASSERT(!stated->has_max || stated->max() == right->max());
          RC_ASSERT(!stated->has_distinct_count);
        }
        const auto sizes = chunk->size_statistics();
        const auto right_sizes = other->size_statistics();
        if (sizes == nullptr) continue;
        const auto& definition = sizes->definition_level_histogram;
        const auto& repetition = sizes->repetition_level_histogram;
        RC_ASSERT(definition.empty() || definition == right_sizes->definition_level_histogram);
        RC_ASSERT(repetition.empty() || repetition == right_sizes->repetition_level_histogram);
      }
    }
  }
};

TEST_F(SplicePropertyTest, SplicedAndRecodedOutputsAreTheSameRows) {
  const bool ok = rc::check("splice", [this](uint64_t seed) {
    Arbitrary any(seed);
    const auto tables = PutFiles(any);
    Shape(any);
    const auto report = RunWith(true);
    // Little memory is refused, not overdrawn.
    if (!report && report.error().code == Code::kLimit && request_.memory_bytes < kGiB) return;
    if (!report) RC_FAIL(report.error().ToString());
    for (const auto& [way, count] : report->splices) RC_TAG(way);
    for (const auto& [tier, count] : report->tiers) RC_TAG(tier);
    // With little memory, a second attempt has another plan.
    if (request_.memory_bytes >= kGiB) CheckPlan(*report);
    const auto expected =
        arrow::ConcatenateTables(tables).ValueOrDie()->CombineChunks().ValueOrDie();
    RC_ASSERT(report->rows_out == expected->num_rows());
    if (expected->num_rows() == 0) return;
    const auto actual = Output(*report);
    if (!actual->Equals(*expected, false)) {
      RC_FAIL("expected " + expected->ToString() + "\nactual " + actual->ToString());
    }
    const auto recoded = RunWith(false);
    if (!recoded) RC_FAIL(recoded.error().ToString());
    RC_ASSERT(recoded->splices.empty());
    RC_ASSERT(!recoded->tiers.contains("copy"));
    if (report->digest_complete && recoded->digest_complete) {
      RC_ASSERT(report->digest_in == recoded->digest_in);
    }
    for (const auto& output : report->outputs) CheckIndexes(Bytes(output.name));
    if (any.Chance(30)) CheckBounds(Bytes(report->outputs[0].name));
    RC_ASSERT(DigestOf(*report) == DigestOf(*recoded));
    if (report->outputs.size() != 1 || recoded->outputs.size() != 1) return;
    const std::string bytes = Bytes(report->outputs[0].name);
    const std::string judge = Bytes(recoded->outputs[0].name);
    // Where well-sized row groups are moved, the others end elsewhere, too.
    if (RowGroups(bytes) != RowGroups(judge)) return;
    CompareStatistics(bytes, judge);
    CompareFilters(bytes, judge);
  });
  EXPECT_TRUE(ok);
}

// A damaged input is refused by both tiers or read alike by both: never a crash, never other rows.
// Splicing may refuse what decoding passes over (a body that a page of nulls should not have, say).
TEST_F(SplicePropertyTest, P17_DamagedPagesNeverBecomeOtherRows) {
  const bool ok = rc::check("damage", [this](uint64_t seed) {
    Arbitrary any(seed);
    PutFiles(any);
    Shape(any);
    request_.verify = Verify::kFull;
    const auto victim = static_cast<size_t>(any.Pick(static_cast<int>(request_.inputs.size())));
    InputFile& input = request_.inputs[victim];
    std::string bytes = store_.Get(input.key, int64_t{1} << 40)->bytes;
    uint32_t footer = 0;
    std::memcpy(&footer, bytes.data() + bytes.size() - 8, sizeof footer);
    const int pages = static_cast<int>(bytes.size()) - static_cast<int>(footer) - 12;
    if (pages <= 0) return;
    for (int i = 0, n = 1 + any.Pick(3); i < n; ++i) {
      bytes[static_cast<size_t>(4 + any.Pick(pages))] ^= static_cast<char>(1 << any.Pick(8));
    }
    input.deleted.reset();
    input.key = "p/bad" + std::to_string(inputs_++) + ".parquet";
    RC_ASSERT(store_.PutNew(input.key, bytes).has_value());
    const auto report = RunWith(true);
    const auto recoded = RunWith(false);
    RC_TAG(report ? "read" : "refused");
    if (report && !recoded) RC_FAIL("spliced, but not recoded: " + recoded.error().ToString());
    if (!report && recoded && report.error().code != Code::kCorrupt) {
      RC_FAIL("recoded, but not spliced: " + report.error().ToString());
    }
    if (!report || report->outputs.empty()) return;
    RC_ASSERT(report->digest_in == recoded->digest_in);
    // Damage may leave columns that no longer fit each other, so no rows are assembled here.
    RC_ASSERT(DigestOf(*report) == DigestOf(*recoded));
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace lithify::rewrite
