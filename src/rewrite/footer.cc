#include "rewrite/footer.h"

#include <arrow/buffer.h>
#include <arrow/util/compression.h>
#include <parquet/schema.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "rewrite/arrow_io.h"

namespace lithify::rewrite {
namespace {

using nlohmann::json;

constexpr int64_t kTailBytes = 8;  // Footer length and magic.

Error Damaged(std::string why) {
  return Error{Code::kCorrupt, std::move(why), "",
               "restore the file from its source, or move it out of the partition"};
}

json DigestJson(const ContentDigest& digest) {
  json columns = json::object();
  for (const auto& [path, value] : digest.columns) columns[path] = value.ToHex();
  return json{{"rows", digest.rows}, {"row", digest.row.ToHex()}, {"columns", columns}};
}

std::optional<ContentDigest> DigestFromJson(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("rows") || !parsed["rows"].is_number_integer() ||
      !parsed.contains("row") || !parsed["row"].is_string() || !parsed.contains("columns") ||
      !parsed["columns"].is_object()) {
    return std::nullopt;
  }
  ContentDigest digest;
  digest.rows = parsed["rows"].get<int64_t>();
  auto row = Digest128::FromHex(parsed["row"].get<std::string>());
  if (!row) return std::nullopt;
  digest.row = *row;
  for (const auto& [path, value] : parsed["columns"].items()) {
    if (!value.is_string()) return std::nullopt;
    auto column = Digest128::FromHex(value.get<std::string>());
    if (!column) return std::nullopt;
    digest.columns[path] = *column;
  }
  return digest;
}

// Histograms may be left out.
bool FitsColumn(const StoredChunk::Sizes& sizes, const parquet::ColumnDescriptor& column) {
  const auto fits = [](const StoredNumbers& histogram, int16_t level_max) {
    return histogram.count == 0 || std::cmp_equal(histogram.count, level_max + 1);
  };
  return fits(sizes.definition_level_histogram, column.max_definition_level()) &&
         fits(sizes.repetition_level_histogram, column.max_repetition_level()) &&
         (!sizes.unencoded_byte_array_data_bytes ||
          column.physical_type() == parquet::Type::BYTE_ARRAY);
}

// What a column chunk says against being read, like UnsupportedReason(); `path` names its column.
Result<std::string> UnsupportedChunk(const StoredChunk& chunk,
                                     const parquet::ColumnDescriptor& column, int64_t rows,
                                     int64_t file_size) {
  // Made where it is needed only: there may be very many chunks.
  const auto path = [&] { return "column " + column.path()->ToDotString(); };
  if (chunk.encrypted) return path() + " is encrypted";
  if (!chunk.file_path.empty()) return path() + " lies in another file";
  if (!chunk.codec) return path() + " has a codec that is not known here";
  if (!arrow::util::Codec::IsAvailable(*chunk.codec)) {
    return path() + " has codec " + arrow::util::Codec::GetCodecAsString(*chunk.codec) +
           ", which is not supported here";
  }
  if (chunk.sizes && !FitsColumn(*chunk.sizes, column)) {
    return Fail(Damaged(path() + " has statistics of sizes that do not fit its type"));
  }
  // Writers leave offsets unset in row groups without rows; those are never read.
  if (rows == 0) return std::string();
  if (chunk.num_values < rows) return Fail(Damaged(path() + " claims fewer values than rows"));
  const int64_t start = chunk.dictionary_page_offset.value_or(0) > 0
                            ? std::min(*chunk.dictionary_page_offset, chunk.data_page_offset)
                            : chunk.data_page_offset;
  if (start < 4 || chunk.total_compressed_size < 0 ||
      start > file_size - chunk.total_compressed_size) {
    return Fail(Damaged(path() + " claims bytes outside of the file"));
  }
  return std::string();
}

}  // namespace

Result<std::shared_ptr<const Footer>> ReadFooter(arrow::io::RandomAccessFile& file, int64_t size,
                                                 FileKinds& kinds, int64_t read_bytes) {
  if (size == 0) return Fail(Damaged("the file is empty (0 bytes), which is no Parquet file"));
  if (size < 12) {
    return Fail(Damaged("the file has " + std::to_string(size) +
                        " bytes, fewer than the smallest Parquet file"));
  }
  const int64_t end_bytes = std::min(size, std::max(read_bytes, kTailBytes));
  auto end = file.ReadAt(size - end_bytes, end_bytes);
  if (!end.ok()) return Fail(FromArrow(end.status()));
  if ((*end)->size() != end_bytes) {
    return Fail(Damaged("the file is shorter than its listing says"));
  }
  const uint8_t* const tail = (*end)->data() + end_bytes - kTailBytes;
  if (std::memcmp(tail + 4, "PARE", 4) == 0) {
    return Fail(Code::kUnsupported, "the footer is encrypted", "",
                "lithify has no keys: it never writes encrypted columns in the clear");
  }
  if (std::memcmp(tail + 4, "PAR1", 4) != 0) {
    return Fail(Damaged("no PAR1 at the end: the file is cut off or is no Parquet file"));
  }
  uint32_t length = 0;
  std::memcpy(&length, tail, sizeof(length));
  if (static_cast<int64_t>(length) > size - 12 || length == 0) {
    return Fail(Damaged("the footer claims " + std::to_string(length) + " bytes in a file of " +
                        std::to_string(size)));
  }
  if (static_cast<int64_t>(length) > kFooterBytesMax) {
    return Fail(Code::kLimit, "the footer has " + std::to_string(length) + " bytes, over 256 MiB");
  }
  std::shared_ptr<arrow::Buffer> buffer;
  if (length <= end_bytes - kTailBytes) {
    buffer = arrow::SliceBuffer(*end, end_bytes - kTailBytes - length, length);
    // A part of the file in memory costs nothing; of what was read only the footer is kept.
    if (!file.supports_zero_copy()) buffer = arrow::Buffer::FromString(buffer->ToString());
  } else {
    auto got = file.ReadAt(size - kTailBytes - length, length);
    if (!got.ok()) return Fail(FromArrow(got.status()));
    buffer = std::move(*got);
  }
  if (buffer->size() != length) return Fail(Damaged("the file became shorter while read"));
  LITHIFY_TRY_ASSIGN(auto footer, Footer::Parse(std::move(buffer), kinds));
  if (footer->num_rows() < 0) return Fail(Damaged("the footer claims a negative number of rows"));
  return footer;
}

Result<std::string> UnsupportedReason(const Footer& footer, int64_t file_size) {
  // Set in a footer in the clear too, when some columns are encrypted (P21).
  if (footer.encryption_algorithm_set()) return std::string("the file has encrypted columns");
  int64_t rows = 0;
  for (int g = 0; g < footer.num_row_groups(); ++g) {
    const StoredRowGroup& group = footer.row_group(g);
    if (group.num_rows < 0 || group.num_columns != footer.num_columns()) {
      return Fail(Damaged("row group " + std::to_string(g) + " does not fit the schema"));
    }
    if (__builtin_add_overflow(rows, group.num_rows, &rows)) {
      return Fail(Damaged("the row groups claim more rows than can be counted"));
    }
    for (int c = 0; c < group.num_columns; ++c) {
      LITHIFY_TRY_ASSIGN(std::string reason,
                         UnsupportedChunk(footer.Chunk(g, c), *footer.schema().Column(c),
                                          group.num_rows, file_size));
      if (!reason.empty()) return reason;
    }
  }
  if (rows != footer.num_rows()) {
    return Fail(Damaged("the footer claims " + std::to_string(footer.num_rows()) +
                        " rows, its row groups " + std::to_string(rows)));
  }
  return std::string();
}

std::map<std::string, std::string> EncodeMark(const OutputMark& mark) {
  std::map<std::string, std::string> pairs = {{"lithify.format", "1"},
                                              {"lithify.job_id", mark.job_id},
                                              {"lithify.partition", mark.partition},
                                              {"lithify.inputs", json(mark.inputs).dump()}};
  if (mark.digest) pairs["lithify.digest"] = DigestJson(*mark.digest).dump();
  return pairs;
}

Result<std::optional<OutputMark>> DecodeMark(const Footer& footer) {
  if (!footer.Pair("lithify.format")) return std::optional<OutputMark>();
  // Key-value metadata travels: who reads one of our outputs with pyarrow and writes other rows
  // with its schema copies the mark along. Only a file that lithify wrote bears it rightly.
  if (!footer.created_by().starts_with(kCreatedByPrefix)) return std::optional<OutputMark>();
  const auto text = [&](const char* key) { return std::string(footer.Pair(key).value_or("")); };
  if (text("lithify.format") != "1") {
    return Fail(Code::kUnsupported,
                "the file was written by a newer lithify (format " + text("lithify.format") + ")");
  }
  OutputMark mark;
  mark.job_id = text("lithify.job_id");
  mark.partition = text("lithify.partition");
  const json inputs = json::parse(text("lithify.inputs"), nullptr, false);
  // The data of a table may lie at the root of its store.
  if (mark.job_id.empty() || !footer.Pair("lithify.partition") || !inputs.is_array()) {
    return Fail(Damaged("the lithify mark in the footer is incomplete"));
  }
  for (const auto& name : inputs) {
    if (!name.is_string()) return Fail(Damaged("the lithify mark in the footer is damaged"));
    mark.inputs.push_back(name.get<std::string>());
  }
  if (const std::string digest = text("lithify.digest"); !digest.empty()) {
    mark.digest = DigestFromJson(digest);
    if (!mark.digest) return Fail(Damaged("the digest recorded in the footer is damaged"));
    if (mark.digest->rows != footer.num_rows()) {
      return Fail(Damaged("the footer has another number of rows than the digest recorded in it"));
    }
  }
  return std::optional<OutputMark>(std::move(mark));
}

Result<FileFacts> FactsFrom(const Footer& footer, int64_t file_size) {
  FileFacts facts;
  facts.rows = footer.num_rows();
  facts.row_groups = footer.num_row_groups();
  facts.created_by = footer.created_by();
  LITHIFY_TRY_ASSIGN(facts.unsupported, UnsupportedReason(footer, file_size));
  if (!facts.unsupported.empty()) return facts;
  for (int g = 0; g < footer.num_row_groups(); ++g) {
    facts.uncompressed_bytes += std::max<int64_t>(0, footer.row_group(g).total_byte_size);
  }
  LITHIFY_TRY_ASSIGN(facts.mark, DecodeMark(footer));
  return facts;
}

}  // namespace lithify::rewrite
