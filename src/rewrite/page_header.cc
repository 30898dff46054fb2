#include "rewrite/page_header.h"

#include <algorithm>
#include <utility>

#include "rewrite/thrift_compact.h"

namespace lithify::rewrite {
namespace {

// The fields of the structures that a header may contain.
struct DataPart {
  std::optional<int32_t> num_values, num_nulls, num_rows;
  std::optional<int32_t> encoding, definition, repetition;  // Level encodings, or V2's lengths.
  std::optional<bool> flag;                                 // is_compressed, is_sorted.
  std::optional<PageStatistics> statistics;
};

bool ReadStatistics(CompactReader& in, uint8_t type, std::optional<PageStatistics>& out) {
  if (type != kStruct) return false;
  PageStatistics read;
  const bool done = in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Binary(field, read.max);
      case 2: return in.Binary(field, read.min);
      case 3: return in.Int64(field, read.null_count);
      case 4: return in.Int64(field, read.distinct_count);
      case 5: return in.Binary(field, read.max_value);
      case 6: return in.Binary(field, read.min_value);
      case 7: return CompactReader::Bool(field, read.is_max_value_exact);
      case 8: return CompactReader::Bool(field, read.is_min_value_exact);
      case 9: return in.Int64(field, read.nan_count);
      default: return false;
    }
  });
  if (done) out = std::move(read);
  return done;
}

// A field that is there twice counts as its last, as in readers made by Thrift's compiler.
bool ReadDataV1(CompactReader& in, uint8_t type, std::optional<DataPart>& out) {
  if (type != kStruct) return false;
  DataPart& part = out.emplace();
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int32(field, part.num_values);
      case 2: return in.Int32(field, part.encoding);
      case 3: return in.Int32(field, part.definition);
      case 4: return in.Int32(field, part.repetition);
      case 5: return ReadStatistics(in, field, part.statistics);
      default: return false;
    }
  });
}

bool ReadDataV2(CompactReader& in, uint8_t type, std::optional<DataPart>& out) {
  if (type != kStruct) return false;
  DataPart& part = out.emplace();
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int32(field, part.num_values);
      case 2: return in.Int32(field, part.num_nulls);
      case 3: return in.Int32(field, part.num_rows);
      case 4: return in.Int32(field, part.encoding);
      case 5: return in.Int32(field, part.definition);
      case 6: return in.Int32(field, part.repetition);
      case 7: return CompactReader::Bool(field, part.flag);
      case 8: return ReadStatistics(in, field, part.statistics);
      default: return false;
    }
  });
}

bool ReadDictionary(CompactReader& in, uint8_t type, std::optional<DataPart>& out) {
  if (type != kStruct) return false;
  DataPart& part = out.emplace();
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int32(field, part.num_values);
      case 2: return in.Int32(field, part.encoding);
      case 3: return CompactReader::Bool(field, part.flag);
      default: return false;
    }
  });
}

struct HeaderParts {
  std::optional<int32_t> type, uncompressed, compressed, crc;
  std::optional<DataPart> v1, dictionary, v2;
};

bool ReadHeader(CompactReader& in, HeaderParts& parts) {
  return in.Struct([&](int32_t id, uint8_t field) {
    switch (id) {
      case 1: return in.Int32(field, parts.type);
      case 2: return in.Int32(field, parts.uncompressed);
      case 3: return in.Int32(field, parts.compressed);
      case 4: return in.Int32(field, parts.crc);
      case 5: return ReadDataV1(in, field, parts.v1);
      case 7: return ReadDictionary(in, field, parts.dictionary);
      case 8: return ReadDataV2(in, field, parts.v2);
      default: return false;
    }
  });
}

std::unexpected<Error> Corrupt(const std::string& message) {
  return Fail(Code::kCorrupt, message, "page header", "restore the file from its source");
}

Result<int32_t> Required(const std::optional<int32_t>& value, const char* name) {
  if (!value) return Corrupt(std::string(name) + " is missing");
  if (*value < 0) return Corrupt(std::string(name) + " is " + std::to_string(*value));
  return *value;
}

Result<PageEncoding> RequiredEncoding(const std::optional<int32_t>& value, const char* name) {
  LITHIFY_TRY_ASSIGN(const int32_t number, Required(value, name));
  return PageEncoding{number};
}

Status TakeV2(const DataPart& part, PageHeader& header) {
  LITHIFY_TRY_ASSIGN(header.num_nulls, Required(part.num_nulls, "num_nulls"));
  LITHIFY_TRY_ASSIGN(header.num_rows, Required(part.num_rows, "num_rows"));
  LITHIFY_TRY_ASSIGN(header.definition_levels_byte_length,
                     Required(part.definition, "definition_levels_byte_length"));
  LITHIFY_TRY_ASSIGN(header.repetition_levels_byte_length,
                     Required(part.repetition, "repetition_levels_byte_length"));
  header.is_compressed = part.flag.value_or(true);
  if (header.num_nulls > header.num_values) return Corrupt("more nulls than values");
  if (header.num_rows > header.num_values) return Corrupt("more rows than values");
  const int64_t levels =
      int64_t{header.definition_levels_byte_length} + int64_t{header.repetition_levels_byte_length};
  if (levels > std::min(header.compressed_page_size, header.uncompressed_page_size)) {
    return Corrupt("levels of " + std::to_string(levels) + " bytes in a page of " +
                   std::to_string(header.compressed_page_size) + " bytes, " +
                   std::to_string(header.uncompressed_page_size) + " unpacked");
  }
  return {};
}

Status TakeV1(const DataPart& part, PageHeader& header) {
  LITHIFY_TRY_ASSIGN(header.definition_level_encoding,
                     RequiredEncoding(part.definition, "definition_level_encoding"));
  LITHIFY_TRY_ASSIGN(header.repetition_level_encoding,
                     RequiredEncoding(part.repetition, "repetition_level_encoding"));
  return {};
}

Result<PageHeader> Assemble(HeaderParts& parts) {
  PageHeader header;
  LITHIFY_TRY_ASSIGN(const int32_t type, Required(parts.type, "type"));
  header.type = PageType{type};
  LITHIFY_TRY_ASSIGN(header.uncompressed_page_size,
                     Required(parts.uncompressed, "uncompressed_page_size"));
  LITHIFY_TRY_ASSIGN(header.compressed_page_size,
                     Required(parts.compressed, "compressed_page_size"));
  if (parts.crc) header.crc = static_cast<uint32_t>(*parts.crc);
  std::optional<DataPart>* part = nullptr;
  switch (header.type) {
    case PageType::kData: part = &parts.v1; break;
    case PageType::kDictionary: part = &parts.dictionary; break;
    case PageType::kDataV2: part = &parts.v2; break;
    case PageType::kIndex: break;
  }
  if (part == nullptr) return header;
  if (!*part) return Corrupt("the part for page type " + std::to_string(type) + " is missing");
  DataPart& taken = **part;
  LITHIFY_TRY_ASSIGN(header.num_values, Required(taken.num_values, "num_values"));
  LITHIFY_TRY_ASSIGN(header.encoding, RequiredEncoding(taken.encoding, "encoding"));
  header.statistics = std::move(taken.statistics);
  if (header.type == PageType::kDictionary) header.is_sorted = taken.flag;
  if (header.type == PageType::kData) LITHIFY_TRY(TakeV1(taken, header));
  if (header.type == PageType::kDataV2) LITHIFY_TRY(TakeV2(taken, header));
  return header;
}

void WriteStatistics(CompactWriter& out, int id, const std::optional<PageStatistics>& statistics) {
  if (!statistics) return;
  out.Struct(id, [&] {
    if (statistics->max) out.Binary(1, *statistics->max);
    if (statistics->min) out.Binary(2, *statistics->min);
    if (statistics->null_count) out.Int64(3, *statistics->null_count);
    if (statistics->distinct_count) out.Int64(4, *statistics->distinct_count);
    if (statistics->max_value) out.Binary(5, *statistics->max_value);
    if (statistics->min_value) out.Binary(6, *statistics->min_value);
    if (statistics->is_max_value_exact) out.Bool(7, *statistics->is_max_value_exact);
    if (statistics->is_min_value_exact) out.Bool(8, *statistics->is_min_value_exact);
    if (statistics->nan_count) out.Int64(9, *statistics->nan_count);
  });
}

void WriteDataV1(CompactWriter& out, const PageHeader& header) {
  out.Struct(5, [&] {
    out.Int32(1, header.num_values);
    out.Int32(2, static_cast<int32_t>(header.encoding));
    out.Int32(3, static_cast<int32_t>(header.definition_level_encoding));
    out.Int32(4, static_cast<int32_t>(header.repetition_level_encoding));
    WriteStatistics(out, 5, header.statistics);
  });
}

void WriteDictionary(CompactWriter& out, const PageHeader& header) {
  out.Struct(7, [&] {
    out.Int32(1, header.num_values);
    out.Int32(2, static_cast<int32_t>(header.encoding));
    if (header.is_sorted) out.Bool(3, *header.is_sorted);
  });
}

void WriteDataV2(CompactWriter& out, const PageHeader& header) {
  out.Struct(8, [&] {
    out.Int32(1, header.num_values);
    out.Int32(2, header.num_nulls);
    out.Int32(3, header.num_rows);
    out.Int32(4, static_cast<int32_t>(header.encoding));
    out.Int32(5, header.definition_levels_byte_length);
    out.Int32(6, header.repetition_levels_byte_length);
    out.Bool(7, header.is_compressed);
    WriteStatistics(out, 8, header.statistics);
  });
}

}  // namespace

Result<size_t> ParsePageHeader(std::span<const uint8_t> bytes, PageHeader* header) {
  CompactReader in(bytes, kPageHeaderBytesMax);
  HeaderParts parts;
  if (!ReadHeader(in, parts)) {
    switch (in.state()) {
      case CompactReader::State::kMore: return size_t{0};
      case CompactReader::State::kLong:
        return Fail(Code::kLimit, "longer than " + std::to_string(kPageHeaderBytesMax) + " bytes",
                    "page header", "the file may be damaged");
      default: return Corrupt(in.problem());
    }
  }
  LITHIFY_TRY_ASSIGN(*header, Assemble(parts));
  return in.position();
}

void AppendPageHeader(const PageHeader& header, std::string* out) {
  CompactWriter writer(*out);
  writer.Int32(1, static_cast<int32_t>(header.type));
  writer.Int32(2, header.uncompressed_page_size);
  writer.Int32(3, header.compressed_page_size);
  if (header.crc) writer.Int32(4, static_cast<int32_t>(*header.crc));
  switch (header.type) {
    case PageType::kData: WriteDataV1(writer, header); break;
    case PageType::kIndex: writer.Struct(6, [] {}); break;
    case PageType::kDictionary: WriteDictionary(writer, header); break;
    case PageType::kDataV2: WriteDataV2(writer, header); break;
  }
  writer.End();
}

}  // namespace lithify::rewrite
