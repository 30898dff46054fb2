#include "rewrite/page_header.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace lithify::rewrite {
namespace {

// Types of the compact protocol (thrift, doc/specs/thrift-compact-protocol.md).
enum CompactType : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kI8 = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
  kUuid = 13,
};

constexpr int kDepthMax = 16;  // Of what is passed over; a page header has 2.

// Reads forward until something is missing or wrong; from then on every call returns false.
class CompactReader {
 public:
  enum class State { kGood, kMore, kLong, kBad };

  explicit CompactReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  State state() const { return state_; }
  const char* problem() const { return problem_; }
  size_t position() const { return at_; }

  bool Bad(const char* problem) {
    if (state_ == State::kGood) problem_ = problem;
    return Stop(State::kBad);
  }

  // Calls `field(id, type)` for every field, which reads it and returns true; or leaves it alone
  // and returns false, then it is passed over.
  template <typename Field>
  bool Struct(Field&& field) {
    int32_t id = 0;
    while (true) {
      uint8_t type = kStop;
      if (!FieldHeader(id, type)) return false;
      if (type == kStop) return true;
      if (field(id, type)) continue;
      if (state_ != State::kGood || !Skip(type, 0)) return false;
    }
  }

  bool Int32(uint8_t type, std::optional<int32_t>& out) {
    if (type != kI32) return false;
    int64_t value = 0;
    if (!ZigZag(value)) return false;
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      return Bad("a number is larger than its type");
    }
    out = static_cast<int32_t>(value);
    return true;
  }
  bool Int64(uint8_t type, std::optional<int64_t>& out) {
    int64_t value = 0;
    if (type != kI64 || !ZigZag(value)) return false;
    out = value;
    return true;
  }
  static bool Bool(uint8_t type, std::optional<bool>& out) {
    if (type != kTrue && type != kFalse) return false;
    out = type == kTrue;
    return true;
  }
  bool Binary(uint8_t type, std::optional<std::string>& out) {
    uint64_t size = 0;
    if (type != kBinary || !Size(size) || !Have(size)) return false;
    const auto from = bytes_.begin() + static_cast<ptrdiff_t>(at_);
    out.emplace(from, from + static_cast<ptrdiff_t>(size));
    at_ += size;
    return true;
  }

 private:
  bool Stop(State state) {
    if (state_ == State::kGood) state_ = state;
    return false;
  }
  bool Have(uint64_t size) {
    if (state_ != State::kGood) return false;
    if (size > kPageHeaderBytesMax - std::min(at_, kPageHeaderBytesMax)) return Stop(State::kLong);
    return size <= bytes_.size() - at_ || Stop(State::kMore);
  }
  bool Byte(uint8_t& out) {
    if (!Have(1)) return false;
    out = bytes_[at_++];
    return true;
  }
  bool Varint(uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = 0;
      if (!Byte(byte)) return false;
      if (shift == 63 && byte > 1) break;
      out |= uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) == 0) return true;
    }
    return Bad("a number has more than 64 bits");
  }
  bool ZigZag(int64_t& out) {
    uint64_t raw = 0;
    if (!Varint(raw)) return false;
    out = static_cast<int64_t>((raw >> 1) ^ (~(raw & 1) + 1));
    return true;
  }
  bool Size(uint64_t& out) {
    return Varint(out) && (out <= kPageHeaderBytesMax || Stop(State::kLong));
  }

  bool FieldHeader(int32_t& id, uint8_t& type) {
    uint8_t head = 0;
    if (!Byte(head)) return false;
    type = head & 0x0fU;
    if (type == kStop) return head == 0 || Bad("a field of no type");
    if (type > kUuid) return Bad("a field of an unknown type");
    if (const int delta = head >> 4; delta != 0) {
      id += delta;
    } else {
      int64_t absolute = 0;
      if (!ZigZag(absolute)) return false;
      if (absolute < std::numeric_limits<int16_t>::min())
        return Bad("a field's number is too small");
      id = static_cast<int32_t>(std::min<int64_t>(absolute, 1 << 16));
    }
    return id <= std::numeric_limits<int16_t>::max() || Bad("a field's number is too large");
  }

  bool SkipBytes(uint64_t size) {
    if (!Have(size)) return false;
    at_ += size;
    return true;
  }
  // An element of a list, unlike a field, has a byte for a boolean.
  bool SkipElements(uint64_t count, uint8_t type, int depth) {
    if (type == kTrue || type == kFalse || type == kI8) return SkipBytes(count);
    for (uint64_t i = 0; i < count; ++i) {
      if (!Skip(type, depth)) return false;
    }
    return true;
  }
  bool SkipList(int depth) {
    uint8_t head = 0;
    if (!Byte(head)) return false;
    uint64_t count = head >> 4;
    if (count == 15 && !Size(count)) return false;
    return SkipElements(count, head & 0x0fU, depth);
  }
  bool SkipMap(int depth) {
    uint64_t count = 0;
    uint8_t types = 0;
    if (!Size(count)) return false;
    if (count == 0) return true;
    if (!Byte(types)) return false;
    for (uint64_t i = 0; i < count; ++i) {
      if (!SkipElements(1, types >> 4, depth) || !SkipElements(1, types & 0x0fU, depth)) {
        return false;
      }
    }
    return true;
  }
  bool SkipStruct(int depth) {
    int32_t id = 0;
    while (true) {
      uint8_t type = kStop;
      if (!FieldHeader(id, type)) return false;
      if (type == kStop) return true;
      if (!Skip(type, depth)) return false;
    }
  }
  bool Skip(uint8_t type, int depth) {
    if (depth >= kDepthMax) return Bad("fields are nested too deeply");
    uint64_t number = 0;
    switch (type) {
      case kTrue:
      case kFalse: return true;
      case kI8: return SkipBytes(1);
      case kI16:
      case kI32:
      case kI64: return Varint(number);
      case kDouble: return SkipBytes(8);
      case kUuid: return SkipBytes(16);
      case kBinary: return Size(number) && SkipBytes(number);
      case kList:
      case kSet: return SkipList(depth + 1);
      case kMap: return SkipMap(depth + 1);
      case kStruct: return SkipStruct(depth + 1);
      default: return Bad("an element of an unknown type");
    }
  }

  const std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  State state_ = State::kGood;
  const char* problem_ = "";
};

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

class CompactWriter {
 public:
  explicit CompactWriter(std::string& out) : out_(out) {}

  void Int32(int id, int32_t value) { Int(id, kI32, value); }
  void Int64(int id, int64_t value) { Int(id, kI64, value); }
  void Bool(int id, bool value) { Field(id, value ? kTrue : kFalse); }
  void Binary(int id, std::string_view value) {
    Field(id, kBinary);
    Varint(value.size());
    out_ += value;
  }
  template <typename Body>
  void Struct(int id, Body&& body) {
    Field(id, kStruct);
    const int outer = std::exchange(last_, 0);
    body();
    End();
    last_ = outer;
  }
  void End() { out_ += '\0'; }

 private:
  // All our fields follow each other by less than 16.
  void Field(int id, CompactType type) {
    out_ += static_cast<char>((id - last_) << 4 | type);
    last_ = id;
  }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80U);
    out_ += static_cast<char>(value);
  }
  void Int(int id, CompactType type, int64_t value) {
    Field(id, type);
    Varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }

  std::string& out_;
  int last_ = 0;
};

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
  CompactReader in(bytes);
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
