#include "rewrite/file_footer.h"

#include <arrow/buffer.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <limits>
#include <span>

#include "rewrite/schema_tree.h"
#include "rewrite/thrift_compact.h"

namespace lithify::rewrite {
namespace {

using arrow::Compression;

// Roughly what Arrow's schema and ours take, by the stored one.
constexpr int64_t kSchemaGrowth = 32;

std::optional<Compression::type> CodecOf(int32_t number) {
  constexpr Compression::type kCodecs[] = {
      Compression::UNCOMPRESSED, Compression::SNAPPY,     Compression::GZIP, Compression::LZO,
      Compression::BROTLI,       Compression::LZ4_HADOOP, Compression::ZSTD, Compression::LZ4};
  if (number < 0 || number >= std::ssize(kCodecs)) return std::nullopt;
  return kCodecs[number];
}

std::unexpected<Error> Corrupt(const std::string& message) {
  return Fail(Code::kCorrupt, message, "footer", "restore the file from its source");
}

// A field of parquet.thrift's structures, by its number; see file_footer.h for those that are
// there twice.
bool ReadStatistics(CompactReader& in, uint8_t type, std::optional<StoredChunk::Statistics>& out) {
  if (type != kStruct) return false;
  if (!out) out.emplace();
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Binary(field, out->max);
      case 2: return in.Binary(field, out->min);
      case 3: return in.Int64(field, out->null_count);
      case 4: return in.Int64(field, out->distinct_count);
      case 5: return in.Binary(field, out->max_value);
      case 6: return in.Binary(field, out->min_value);
      case 7: return CompactReader::Bool(field, out->is_max_value_exact);
      case 8: return CompactReader::Bool(field, out->is_min_value_exact);
      default: return false;
    }
  });
}

bool ReadNumbers(CompactReader& in, uint8_t type, StoredNumbers& out) {
  const size_t from = in.position();
  std::optional<int64_t> number;
  uint32_t count = 0;
  const bool done = in.List(type, [&](uint8_t element) {
    ++count;
    return in.Int64(element, number);
  });
  if (!done) return false;
  out = {in.Since(from), count};
  return true;
}

bool ReadSizes(CompactReader& in, uint8_t type, std::optional<StoredChunk::Sizes>& out) {
  if (type != kStruct) return false;
  if (!out) out.emplace();
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int64(field, out->unencoded_byte_array_data_bytes);
      case 2: return ReadNumbers(in, field, out->repetition_level_histogram);
      case 3: return ReadNumbers(in, field, out->definition_level_histogram);
      default: return false;
    }
  });
}

bool ReadEncodings(CompactReader& in, uint8_t type, std::optional<EncodingSet>& out) {
  EncodingSet read;
  const bool done = in.List(type, [&](uint8_t element) {
    std::optional<int32_t> number;
    if (!in.Int32(element, number)) return false;
    read.Add(*number);
    return true;
  });
  if (done) out = read;
  return done;
}

bool ReadEncodingCounts(CompactReader& in, uint8_t type, EncodingSet& out) {
  EncodingSet read;
  const bool done = in.List(type, [&](uint8_t element) {
    std::optional<int32_t> page, encoding, count;
    const bool complete = element == kStruct && in.Struct([&](int32_t id, uint8_t field) {
      switch (id) {
        case 1: return in.Int32(field, page);
        case 2: return in.Int32(field, encoding);
        case 3: return in.Int32(field, count);
        default: return false;
      }
    });
    if (!complete) return false;
    if (!page || !encoding || !count) return in.Bad("a count of pages is incomplete");
    const bool data = *page == static_cast<int32_t>(PageType::kData) ||
                      *page == static_cast<int32_t>(PageType::kDataV2);
    if (data && *count > 0) read.Add(*encoding);
    return true;
  });
  if (done) out = read;
  return done;
}

// Lists that nobody asks for: their elements, too, must be of the right type, for Thrift's
// generated readers take them for that whatever they are.
bool PassTexts(CompactReader& in, uint8_t type) {
  return in.List(type, [&](uint8_t element) {
    std::optional<std::string_view> text;
    return in.Binary(element, text);
  });
}
bool PassStructs(CompactReader& in, uint8_t type) {
  return in.List(type, [&](uint8_t element) {
    std::string_view raw;
    return element == kStruct && in.Raw(element, raw);
  });
}
bool ReadStructs(CompactReader& in, uint8_t type, std::string_view& list) {
  const size_t from = in.position();
  if (!PassStructs(in, type)) return false;
  list = in.Since(from);
  return true;
}
bool PassGeospatial(CompactReader& in, uint8_t type) {
  return type == kStruct && in.Struct([&](int32_t id, uint8_t field) {
    std::optional<EncodingSet> numbers;
    return id == 2 && ReadEncodings(in, field, numbers);
  });
}

bool ReadColumn(CompactReader& in, uint8_t type, StoredChunk& out) {
  if (type != kStruct) return false;
  std::optional<int32_t> physical, codec;
  std::optional<int64_t> values, uncompressed, compressed, data;
  std::optional<EncodingSet> encodings;
  bool path = false;
  const bool done = in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int32(field, physical);
      case 2: return ReadEncodings(in, field, encodings);
      case 3: {
        const bool passed = PassTexts(in, field);
        path = path || passed;
        return passed;
      }
      case 4: return in.Int32(field, codec);
      case 5: return in.Int64(field, values);
      case 6: return in.Int64(field, uncompressed);
      case 7: return in.Int64(field, compressed);
      case 8: return PassStructs(in, field);
      case 9: return in.Int64(field, data);
      case 11: return in.Int64(field, out.dictionary_page_offset);
      case 12: return ReadStatistics(in, field, out.statistics);
      case 13: return ReadEncodingCounts(in, field, out.data_page_encodings);
      case 14: return in.Int64(field, out.bloom_filter_offset);
      case 15: return in.Int32(field, out.bloom_filter_length);
      case 16: return ReadSizes(in, field, out.sizes);
      case 17: return PassGeospatial(in, field);
      default: return false;
    }
  });
  if (!done) return false;
  if (!physical || !encodings || !path || !codec || !values || !uncompressed || !compressed ||
      !data) {
    return in.Bad("the description of a column chunk is incomplete");
  }
  out.physical_type = *physical;
  out.encodings = *encodings;
  out.codec = CodecOf(*codec);
  out.num_values = *values;
  out.total_uncompressed_size = *uncompressed;
  out.total_compressed_size = *compressed;
  out.data_page_offset = *data;
  return true;
}

bool ReadChunk(CompactReader& in, uint8_t type, StoredChunk& out) {
  if (type != kStruct) return false;
  std::optional<std::string_view> file_path;
  std::optional<int64_t> file_offset, offset_at, column_at;
  std::optional<int32_t> offset_length, column_length;
  const bool done = in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Binary(field, file_path);
      case 2: return in.Int64(field, file_offset);
      case 3: return ReadColumn(in, field, out);
      case 4: return in.Int64(field, offset_at);
      case 5: return in.Int32(field, offset_length);
      case 6: return in.Int64(field, column_at);
      case 7: return in.Int32(field, column_length);
      case 8: out.encrypted = out.encrypted || field == kStruct; return false;
      default: return false;
    }
  });
  if (!done) return false;
  if (!file_offset) return in.Bad("a column chunk has no file_offset");
  if (file_path) out.file_path = *file_path;
  if (offset_at && offset_length) out.offset_index = {*offset_at, *offset_length};
  if (column_at && column_length) out.column_index = {*column_at, *column_length};
  return true;
}

// Calls `pair(key, value)` for each.
template <typename Pair>
bool ReadPairs(CompactReader& in, uint8_t type, Pair&& pair) {
  return in.List(type, [&](uint8_t element) {
    std::optional<std::string_view> key, value;
    const bool done = element == kStruct && in.Struct([&](int32_t id, uint8_t field) {
      switch (id) {
        case 1: return in.Binary(field, key);
        case 2: return in.Binary(field, value);
        default: return false;
      }
    });
    if (!done) return false;
    if (!key) return in.Bad("a pair of metadata has no key");
    pair(*key, value.value_or(std::string_view()));
    return true;
  });
}

// One per leaf, in order; -1: none.
std::vector<int32_t> ConvertedTypesOf(std::string_view footer) {
  constexpr int kSchema = 2;
  std::vector<int32_t> types;
  CompactReader in(BytesOf(footer), footer.size());
  const auto element = [&](uint8_t type) {
    std::optional<int32_t> children, converted;
    const bool read = type == kStruct && in.Struct([&](int32_t id, uint8_t field) {
      switch (id) {
        case 5: return in.Int32(field, children);
        case 6: return in.Int32(field, converted);
        default: return false;
      }
    });
    if (read && !children) types.push_back(converted.value_or(-1));
    return read;
  };
  (void)in.Struct(
      [&](int32_t id, uint8_t field) { return id == kSchema && in.List(field, element); });
  return types;
}

void KeepConvertedTypes(const std::vector<int32_t>& types, SchemaNode& node) {
  for (const auto& child : node.children) KeepConvertedTypes(types, *child);
  if (node.kind != SchemaNode::Kind::kLeaf || !node.logical->is_timestamp()) return;
  constexpr int32_t kTimestampMillis = 9;
  constexpr int32_t kTimestampMicros = 10;
  const auto leaf = static_cast<size_t>(node.leaf_index);
  if (leaf >= types.size() || types[leaf] < kTimestampMillis || types[leaf] > kTimestampMicros) {
    return;
  }
  const auto& time = static_cast<const parquet::TimestampLogicalType&>(*node.logical);
  if (time.is_adjusted_to_utc()) return;
  node.logical = parquet::LogicalType::Timestamp(false, time.time_unit(), false, true);
}

parquet::Type::type TypeOf(int32_t number) {
  return number < 0 || number > parquet::Type::UNDEFINED ? parquet::Type::UNDEFINED
                                                         : static_cast<parquet::Type::type>(number);
}

}  // namespace

std::vector<int64_t> StoredNumbers::Values() const {
  std::vector<int64_t> values;
  if (count == 0) return values;
  values.reserve(count);
  CompactReader in(BytesOf(list), list.size());
  const bool read = in.List(kList, [&](uint8_t element) {
    std::optional<int64_t> number;
    if (!in.Int64(element, number)) return false;
    values.push_back(*number);
    return true;
  });
  LITHIFY_CHECK(read, "numbers that were read before");
  return values;
}

// -------------------------------------------------------------------------------------- FileKind

FileKind::FileKind(std::string_view footer)
    : arrow_(parquet::FileMetaData::Make(footer.data(), std::ssize(footer))),
      schema_(arrow_->schema()),
      converted_types_(ConvertedTypesOf(footer)) {}

Result<std::shared_ptr<const SchemaNode>> FileKind::Tree() const {
  std::call_once(parsed_, [&] {
    auto tree = ParseSchema(*schema_);
    if (tree) {
      KeepConvertedTypes(converted_types_, **tree);
      tree_ = std::shared_ptr<const SchemaNode>(std::move(*tree));
    } else {
      tree_ = Fail(std::move(tree.error()));
    }
  });
  return tree_;
}

std::shared_ptr<const FileKind> FileKinds::Get(std::string footer, bool& made) {
  constexpr size_t kBytesMax = 1 << 20;  // As stored.
  std::lock_guard lock(mutex_);
  const auto known = kinds_.find(footer);
  made = known == kinds_.end();
  if (!made) return known->second;
  auto kind = std::make_shared<const FileKind>(footer);
  if (bytes_ + footer.size() > kBytesMax) {
    kinds_.clear();
    bytes_ = 0;
  }
  bytes_ += footer.size();
  kinds_.emplace(std::move(footer), kind);
  return kind;
}

// ---------------------------------------------------------------------------------------- Footer

struct Footer::Parts {
  std::optional<int32_t> version;
  std::optional<int64_t> num_rows;
  std::optional<std::string_view> created_by;
  std::string_view schema;  // Lists; empty: not there.
  std::string_view column_orders;
  bool row_groups = false;
};

bool Footer::ReadRowGroup(CompactReader& in, uint8_t type) {
  if (type != kStruct) return false;
  StoredRowGroup group;
  group.first_chunk = static_cast<uint32_t>(chunks_.size());
  std::optional<int64_t> rows, bytes, compressed;
  bool columns = false;
  const bool done = in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1:
        if (field != kList) return false;
        columns = true;
        chunks_.resize(group.first_chunk);
        return in.List(field, [&](uint8_t element) {
          chunks_.push_back(static_cast<uint32_t>(in.position()));
          StoredChunk passed;
          return ReadChunk(in, element, passed);
        });
      case 2: return in.Int64(field, bytes);
      case 3: return in.Int64(field, rows);
      case 4: return PassStructs(in, field);
      case 6: return in.Int64(field, compressed);
      default: return false;
    }
  });
  if (!done) return false;
  if (!columns || !bytes || !rows) return in.Bad("the description of a row group is incomplete");
  group.num_rows = *rows;
  group.total_byte_size = *bytes;
  group.total_compressed_size = compressed.value_or(0);
  group.num_columns = static_cast<int>(chunks_.size() - group.first_chunk);
  groups_.push_back(group);
  return true;
}

bool Footer::Read(CompactReader& in, Parts& parts) {
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int32(field, parts.version);
      case 2: return ReadStructs(in, field, parts.schema);
      case 3: return in.Int64(field, parts.num_rows);
      case 4:
        if (field != kList) return false;
        parts.row_groups = true;
        groups_.clear();
        chunks_.clear();
        return in.List(field, [&](uint8_t element) { return ReadRowGroup(in, element); });
      case 5: {
        const size_t from = in.position();
        if (!ReadPairs(in, field, [](std::string_view, std::string_view) {})) return false;
        pairs_ = in.Since(from);
        return true;
      }
      case 6: return in.Binary(field, parts.created_by);
      case 7: return ReadStructs(in, field, parts.column_orders);
      case 8: encrypted_ = encrypted_ || field == kStruct; return false;
      default: return false;
    }
  });
}

Result<std::shared_ptr<const Footer>> Footer::Parse(std::shared_ptr<arrow::Buffer> bytes,
                                                    FileKinds& kinds) {
  std::shared_ptr<Footer> footer(new Footer(std::move(bytes)));
  const std::span<const uint8_t> all(footer->bytes_->data(),
                                     static_cast<size_t>(footer->bytes_->size()));
  LITHIFY_CHECK(all.size() <= std::numeric_limits<uint32_t>::max(), "a footer of 4 GiB");
  CompactReader in(all, all.size());
  Parts parts;
  if (!footer->Read(in, parts)) {
    return Corrupt(in.state() == CompactReader::State::kBad ? in.problem() : "it is cut off");
  }
  if (!parts.version || parts.schema.empty() || !parts.num_rows || !parts.row_groups) {
    return Corrupt("it is incomplete");
  }
  footer->num_rows_ = *parts.num_rows;
  footer->groups_.shrink_to_fit();
  footer->chunks_.shrink_to_fit();

  std::string shared;
  CompactWriter out(shared);
  out.Int32(1, *parts.version);
  out.RawList(2, parts.schema);
  out.Int64(3, 0);
  constexpr char kNoStructs[] = {kStruct};
  out.RawList(4, {kNoStructs, 1});
  if (parts.created_by) out.Binary(6, *parts.created_by);
  if (!parts.column_orders.empty()) out.RawList(7, parts.column_orders);
  out.End();
  bool made = false;
  const int64_t kind_bytes = std::ssize(shared) * kSchemaGrowth;
  footer->kind_ = kinds.Get(std::move(shared), made);
  footer->memory_bytes_ = (made ? kind_bytes : 0) + static_cast<int64_t>(sizeof(Footer)) +
                          footer->bytes_->size() +
                          std::ssize(footer->groups_) * int64_t{sizeof(StoredRowGroup)} +
                          std::ssize(footer->chunks_) * int64_t{sizeof(uint32_t)};
  return footer;
}

int Footer::num_columns() const { return schema().num_columns(); }

StoredChunk Footer::Chunk(int g, int c) const {
  const StoredRowGroup& group = row_group(g);
  LITHIFY_CHECK(c >= 0 && c < group.num_columns, "no column of the row group");
  const size_t at = chunks_[group.first_chunk + static_cast<size_t>(c)];
  const std::span<const uint8_t> all(bytes_->data(), static_cast<size_t>(bytes_->size()));
  CompactReader in(all.subspan(at), all.size());
  StoredChunk chunk;
  LITHIFY_CHECK(ReadChunk(in, kStruct, chunk), "a column chunk that was read before");
  return chunk;
}

const std::string& Footer::created_by() const { return kind_->arrow().created_by(); }

const parquet::ApplicationVersion& Footer::writer_version() const {
  return kind_->arrow().writer_version();
}

std::vector<std::pair<std::string_view, std::string_view>> Footer::Pairs() const {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  if (pairs_.empty()) return pairs;
  CompactReader in(BytesOf(pairs_), pairs_.size());
  const bool read = ReadPairs(in, kList, [&](std::string_view key, std::string_view value) {
    pairs.emplace_back(key, value);
  });
  LITHIFY_CHECK(read, "pairs that were read before");
  return pairs;
}

std::optional<std::string_view> Footer::Pair(std::string_view key) const {
  for (const auto& [name, value] : Pairs()) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<parquet::EncodedStatistics> Footer::TrustedStatistics(
    const StoredChunk& chunk, const parquet::ColumnDescriptor& column) const {
  if (!chunk.statistics) return std::nullopt;
  const StoredChunk::Statistics& in = *chunk.statistics;
  parquet::EncodedStatistics stated;
  using parquet::ColumnOrder;
  using parquet::SortOrder;
  const ColumnOrder::type order = column.column_order().get_order();
  if (order == ColumnOrder::TYPE_DEFINED_ORDER && column.sort_order() != SortOrder::UNKNOWN) {
    if (in.min_value) stated.set_min(std::string(*in.min_value));
    if (in.max_value) stated.set_max(std::string(*in.max_value));
    if (in.min_value) stated.is_min_value_exact = in.is_min_value_exact;
    if (in.max_value) stated.is_max_value_exact = in.is_max_value_exact;
  } else if (order == ColumnOrder::UNDEFINED && column.sort_order() == SortOrder::SIGNED) {
    // The deprecated pair counts only where the file has no orders of columns.
    if (in.min) stated.set_min(std::string(*in.min));
    if (in.max) stated.set_max(std::string(*in.max));
  }
  if (in.null_count) stated.set_null_count(*in.null_count);
  if (in.distinct_count) stated.set_distinct_count(*in.distinct_count);
  if (!writer_version().HasCorrectStatistics(TypeOf(chunk.physical_type), stated,
                                             column.sort_order())) {
    return std::nullopt;
  }
  return stated;
}

}  // namespace lithify::rewrite
