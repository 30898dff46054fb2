#include "table/avro.h"

#include <snappy.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace lithify::table {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic("Obj\1", 4);
constexpr size_t kSyncSize = 16;
constexpr size_t kSchemaBytesMax = size_t{16} << 20;
constexpr size_t kBlockBytes = size_t{256} << 10;  // Uncompressed, written.

// What a compressed block may grow to. Deflate cannot exceed 1032 times its input; zstandard can,
// but no honest manifest comes near.
constexpr size_t kGrowth = 2048;
constexpr size_t kGrowthFloor = size_t{1} << 16;
constexpr size_t kBlockBytesMax = size_t{1} << 30;

size_t OutputMax(size_t input) {
  return std::min(kBlockBytesMax, kGrowthFloor + std::min(input, kBlockBytesMax) * kGrowth);
}

std::unexpected<Error> Bad(std::string message) { return Fail(Code::kCorrupt, std::move(message)); }

std::string Quote(std::string_view text) { return JsonQuote(text.substr(0, 80)); }

}  // namespace

std::string_view AvroKindName(AvroKind kind) {
  constexpr std::string_view kNames[] = {"null",   "boolean", "int",    "long",  "float",
                                         "double", "bytes",   "string", "fixed", "enum",
                                         "record", "array",   "map",    "union"};
  return kNames[static_cast<size_t>(kind)];
}

// --- schema ------------------------------------------------------------------------------------

class AvroSchemaParser {
 public:
  explicit AvroSchemaParser(AvroSchema& schema) : schema_(schema) {}

  Result<const AvroType*> Parse(const json& node, const std::string& scope, int depth) {
    if (depth > kAvroDepthMax) return Bad("the schema nests too deeply");
    if (node.is_string()) return Named(node.get_ref<const std::string&>(), scope);
    if (node.is_array()) return Union(node, scope, depth);
    if (!node.is_object()) return Bad("a type in the schema is no name, object or list");
    const auto type = node.find("type");
    if (type == node.end()) return Bad("a type in the schema has no \"type\"");
    if (!type->is_string()) return Parse(*type, scope, depth + 1);
    const std::string& kind = type->get_ref<const std::string&>();
    if (kind == "record" || kind == "error") return Record(node, scope, depth);
    if (kind == "enum" || kind == "fixed") return Leaf(node, kind, scope);
    if (kind == "array" || kind == "map") return Container(node, kind, scope, depth);
    LITHIFY_TRY_ASSIGN(const AvroType* plain, Named(kind, scope));
    if (!node.contains("logicalType")) return plain;
    AvroType* annotated = New(plain->kind);
    *annotated = *plain;
    LITHIFY_TRY(Annotate(node, annotated));
    return annotated;
  }

 private:
  AvroType* New(AvroKind kind) {
    schema_.types_.push_back(std::make_unique<AvroType>());
    schema_.types_.back()->kind = kind;
    return schema_.types_.back().get();
  }

  static std::optional<int> IntOf(const json& node, const char* key) {
    const auto at = node.find(key);
    if (at == node.end() || !at->is_number_integer()) return std::nullopt;
    // What does not fit is no id of ours.
    if (at->is_number_unsigned() && at->get<uint64_t>() > INT32_MAX) return std::nullopt;
    const int64_t value = at->get<int64_t>();
    if (value < INT32_MIN || value > INT32_MAX) return std::nullopt;
    return static_cast<int>(value);
  }
  static std::string StringOf(const json& node, const char* key) {
    const auto at = node.find(key);
    return at != node.end() && at->is_string() ? at->get<std::string>() : std::string();
  }

  static Status Annotate(const json& node, AvroType* type) {
    type->logical_type = StringOf(node, "logicalType");
    type->precision = IntOf(node, "precision").value_or(0);
    type->scale = IntOf(node, "scale").value_or(0);
    const auto utc = node.find("adjust-to-utc");
    type->adjust_to_utc = utc != node.end() && utc->is_boolean() && utc->get<bool>();
    return {};
  }

  // A primitive type or the name of one that was defined before.
  Result<const AvroType*> Named(const std::string& name, const std::string& scope) {
    constexpr struct {
      std::string_view name;
      AvroKind kind;
      int64_t size_min;
      int64_t size;
    } kPrimitives[] = {
        {"null", AvroKind::kNull, 0, 0},    {"boolean", AvroKind::kBoolean, 1, 1},
        {"int", AvroKind::kInt, 1, -1},     {"long", AvroKind::kLong, 1, -1},
        {"float", AvroKind::kFloat, 4, 4},  {"double", AvroKind::kDouble, 8, 8},
        {"bytes", AvroKind::kBytes, 1, -1}, {"string", AvroKind::kString, 1, -1},
    };
    for (const auto& primitive : kPrimitives) {
      if (primitive.name != name) continue;
      AvroType* type = New(primitive.kind);
      type->size_min = primitive.size_min;
      type->size = primitive.size;
      return type;
    }
    auto known = named_.find(FullName(name, scope));
    if (known == named_.end()) known = named_.find(name);
    if (known == named_.end()) return Bad("the schema has no type " + Quote(name));
    if (known->second == nullptr) {
      return Fail(Code::kUnsupported, "the schema's type " + Quote(name) + " contains itself");
    }
    return known->second;
  }

  static std::string FullName(const std::string& name, const std::string& scope) {
    if (scope.empty() || name.find('.') != std::string::npos) return name;
    return scope + "." + name;
  }

  // Enters the name; null until the type is complete, which is how recursion is seen.
  Result<std::string> Define(const json& node, const std::string& scope, std::string* inner) {
    const std::string name = StringOf(node, "name");
    if (name.empty()) return Bad("a record, enum or fixed in the schema has no name");
    const std::string space = node.contains("namespace") ? StringOf(node, "namespace") : scope;
    std::string full = FullName(name, space);
    const size_t dot = full.rfind('.');
    *inner = dot == std::string::npos ? std::string() : full.substr(0, dot);
    // Some writers define a fixed of one shape again wherever it occurs; the latest counts.
    const auto known = named_.find(full);
    if (known != named_.end() && known->second == nullptr) {
      return Bad("the schema defines " + Quote(full) + " within itself");
    }
    named_[full] = nullptr;
    return full;
  }

  Result<const AvroType*> Record(const json& node, const std::string& scope, int depth) {
    std::string inner;
    LITHIFY_TRY_ASSIGN(const std::string full, Define(node, scope, &inner));
    const auto fields = node.find("fields");
    if (fields == node.end() || !fields->is_array()) {
      return Bad("the record " + Quote(full) + " has no list of fields");
    }
    AvroType* type = New(AvroKind::kRecord);
    type->name = full;
    type->size = 0;
    LITHIFY_TRY(Annotate(node, type));
    for (const json& entry : *fields) {
      if (!entry.is_object() || !entry.contains("type") || StringOf(entry, "name").empty()) {
        return Bad("a field of the record " + Quote(full) + " has no name or type");
      }
      AvroField field;
      field.name = StringOf(entry, "iceberg-field-name");
      if (field.name.empty()) field.name = StringOf(entry, "name");
      field.id = IntOf(entry, "field-id");
      LITHIFY_TRY_ASSIGN(field.type, Parse(entry["type"], inner, depth + 1));
      LITHIFY_TRY(Count(field.type->nodes, type));
      type->size_min += field.type->size_min;
      if (type->size >= 0 && field.type->size >= 0) {
        type->size += field.type->size;
      } else {
        type->size = -1;
      }
      type->fields.push_back(std::move(field));
    }
    named_[full] = type;
    return type;
  }

  Result<const AvroType*> Leaf(const json& node, const std::string& kind,
                               const std::string& scope) {
    std::string inner;
    LITHIFY_TRY_ASSIGN(const std::string full, Define(node, scope, &inner));
    AvroType* type = New(kind == "fixed" ? AvroKind::kFixed : AvroKind::kEnum);
    type->name = full;
    LITHIFY_TRY(Annotate(node, type));
    if (type->kind == AvroKind::kFixed) {
      const std::optional<int> size = IntOf(node, "size");
      if (!size || *size < 0) return Bad("the fixed " + Quote(full) + " has no size");
      type->fixed_size = type->size_min = type->size = *size;
    } else {
      const auto symbols = node.find("symbols");
      if (symbols == node.end() || !symbols->is_array()) {
        return Bad("the enum " + Quote(full) + " has no symbols");
      }
      type->symbols = static_cast<int64_t>(symbols->size());
      type->size_min = 1;
    }
    named_[full] = type;
    return type;
  }

  Result<const AvroType*> Container(const json& node, const std::string& kind,
                                    const std::string& scope, int depth) {
    const bool array = kind == "array";
    const auto child = node.find(array ? "items" : "values");
    if (child == node.end()) return Bad("an array or map in the schema has no item type");
    AvroType* type = New(array ? AvroKind::kArray : AvroKind::kMap);
    LITHIFY_TRY(Annotate(node, type));
    type->element_id = IntOf(node, "element-id");
    type->key_id = IntOf(node, "key-id");
    type->value_id = IntOf(node, "value-id");
    type->size_min = 1;
    LITHIFY_TRY_ASSIGN(const AvroType* item, Parse(*child, scope, depth + 1));
    LITHIFY_TRY(Count(item->nodes, type));
    type->children.push_back(item);
    return type;
  }

  Result<const AvroType*> Union(const json& node, const std::string& scope, int depth) {
    AvroType* type = New(AvroKind::kUnion);
    type->size_min = 1;
    if (node.empty()) return Bad("a union in the schema has no branch");
    for (const json& branch : node) {
      LITHIFY_TRY_ASSIGN(const AvroType* child, Parse(branch, scope, depth + 1));
      LITHIFY_TRY(Count(child->nodes, type));
      type->children.push_back(child);
    }
    if (type->children.size() == 2) {
      for (int i = 0; i < 2; ++i) {
        if (type->children[i]->kind != AvroKind::kNull) continue;
        type->null_branch = i;
        type->value_branch = 1 - i;
        break;
      }
    }
    return type;
  }

  // Types that are used by name count every time: they are worked through every time.
  static Status Count(int64_t nodes, AvroType* type) {
    type->nodes += nodes;
    if (type->nodes > kAvroNodesMax) return Bad("the schema has too many types");
    return {};
  }

  AvroSchema& schema_;
  std::map<std::string, const AvroType*> named_;
};

Result<AvroSchema> AvroSchema::Parse(std::string_view text) {
  if (text.size() > kSchemaBytesMax) {
    return Bad("the schema has " + std::to_string(text.size()) + " bytes");
  }
  const json node = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (node.is_discarded()) return Bad("the schema is not JSON");
  AvroSchema schema;
  AvroSchemaParser parser(schema);
  LITHIFY_TRY_ASSIGN(schema.root_, parser.Parse(node, "", 0));
  return schema;
}

// --- values ------------------------------------------------------------------------------------

uint64_t AvroDecoder::VarintSlow() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == end_) return Short(), 0;
    const uint64_t byte = *at_++;
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  SetProblem("an integer beyond 64 bits");
  return 0;
}

// Whether they fit 64 bits does not matter to who skips them.
void AvroDecoder::SkipVarints(int64_t count) {
  constexpr uint64_t kMore = 0x8080808080808080;  // Set in every byte but the last of a number.
  while (count >= 8 && end_ - at_ >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at_, sizeof word);
    count -= std::popcount(~word & kMore);
    at_ += sizeof word;
  }
  for (; count > 0 && at_ != end_; ++at_) count -= *at_ < 0x80 ? 1 : 0;
  if (count > 0) Short();
}

int64_t AvroDecoder::BlockCount(const AvroType& item) {
  int64_t count = Long();
  if (count < 0) {
    if (count == INT64_MIN) return SetProblem("a block of too many items"), 0;
    count = -count;
    if (const int64_t bytes = Long(); bytes < 0 || static_cast<uint64_t>(bytes) > remaining()) {
      return SetProblem("a block of items longer than what is left"), 0;
    }
  }
  if (item.size_min > 0 &&
      static_cast<uint64_t>(count) > remaining() / static_cast<uint64_t>(item.size_min)) {
    return SetProblem("more items than bytes"), 0;
  }
  return ok() ? count : 0;
}

void AvroDecoder::SkipUnion(const AvroType& type) {
  const int64_t branch = Long();
  if (branch < 0 || static_cast<uint64_t>(branch) >= type.children.size()) {
    return SetProblem("a union branch that the schema lacks");
  }
  Skip(*type.children[static_cast<size_t>(branch)]);
}

namespace {

bool IsVarint(const AvroType& type) {
  return type.kind == AvroKind::kInt || type.kind == AvroKind::kLong;
}

// What most of a manifest is.
bool IsBoundsPair(const AvroType& item) {
  return item.kind == AvroKind::kRecord && item.fields.size() == 2 &&
         IsVarint(*item.fields[0].type) &&
         (item.fields[1].type->kind == AvroKind::kBytes ||
          item.fields[1].type->kind == AvroKind::kString);
}

}  // namespace

void AvroDecoder::SkipItems(const AvroType& container) {
  const AvroType& item = *container.children.front();
  const bool map = container.kind == AvroKind::kMap;
  int64_t numbers = 0;  // Of an item, if it is nothing else.
  if (!map && IsVarint(item)) numbers = 1;
  if (!map && item.kind == AvroKind::kRecord && !item.fields.empty() &&
      std::all_of(item.fields.begin(), item.fields.end(),
                  [](const AvroField& field) { return IsVarint(*field.type); })) {
    numbers = static_cast<int64_t>(item.fields.size());
  }
  while (ok()) {
    int64_t count = Long();
    if (count == 0) return;
    if (count < 0) {  // With its size in bytes, for readers like this.
      if (const int64_t bytes = Long(); bytes >= 0) {
        Fixed(static_cast<uint64_t>(bytes));
      } else {
        SetProblem("a negative length");
      }
      continue;
    }
    if (!map && item.size_min == 0) continue;
    if (static_cast<uint64_t>(count) > remaining()) return SetProblem("more items than bytes");
    if (numbers > 0) {
      SkipVarints(count * numbers);
      continue;
    }
    if (!map && IsBoundsPair(item)) {
      for (; count > 0 && ok(); --count) {
        Varint();
        Bytes();
      }
      continue;
    }
    for (; count > 0 && ok(); --count) {
      if (map) Bytes();
      Skip(item);
    }
  }
}

void AvroDecoder::Skip(const AvroType& type) {
  if (type.size >= 0) {
    Fixed(static_cast<uint64_t>(type.size));
    return;
  }
  switch (type.kind) {
    case AvroKind::kInt:
    case AvroKind::kLong:
    case AvroKind::kEnum: SkipVarints(1); return;
    case AvroKind::kBytes:
    case AvroKind::kString: Bytes(); return;
    case AvroKind::kRecord:
      for (const AvroField& field : type.fields) {
        if (!ok()) return;
        Skip(*field.type);
      }
      return;
    case AvroKind::kArray:
    case AvroKind::kMap: return SkipItems(type);
    case AvroKind::kUnion: return SkipUnion(type);
    default: return;  // Of fixed size.
  }
}

void AvroEncoder::Long(int64_t value) {
  uint64_t raw = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  while (raw >= 0x80) {
    out_ += static_cast<char>(raw | 0x80);
    raw >>= 7;
  }
  out_ += static_cast<char>(raw);
}

// --- codecs ------------------------------------------------------------------------------------

namespace {

// Room for more output, or false at the bound.
bool Grow(size_t used, size_t bound, std::string& out) {
  if (used < out.size()) return true;
  if (out.size() >= bound) return false;
  out.resize(std::min(bound, std::max(out.size() * 2, size_t{4096})));
  return true;
}

class Inflater {
 public:
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Status Run(std::string_view in, std::string& out);

 private:
  z_stream stream_{};
  bool ready_ = false;
};

Status Inflater::Run(std::string_view in, std::string& out) {
  const int begun = ready_ ? inflateReset(&stream_) : inflateInit2(&stream_, -MAX_WBITS);
  if (begun != Z_OK) return Fail(Code::kInternal, "zlib has no memory");
  ready_ = true;
  const size_t bound = OutputMax(in.size());
  out.resize(std::min(bound, in.size() * 4));
  stream_.next_in = reinterpret_cast<const Bytef*>(in.data());
  stream_.avail_in = static_cast<uInt>(in.size());
  size_t used = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    if (!Grow(used, bound, out)) break;
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    stream_.avail_out = static_cast<uInt>(out.size() - used);
    state = inflate(&stream_, Z_NO_FLUSH);
    used = out.size() - stream_.avail_out;
    if (state == Z_OK && stream_.avail_in == 0 && stream_.avail_out > 0) break;
  }
  // What follows the end is ignored: pyiceberg leaves part of a checksum there.
  if (state != Z_STREAM_END) return Bad("a deflate block is damaged, cut or too large");
  out.resize(used);
  return {};
}

class ZstdUnpacker {
 public:
  Status Run(std::string_view in, std::string& out);

 private:
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_{ZSTD_createDCtx(), &ZSTD_freeDCtx};
};

Status ZstdUnpacker::Run(std::string_view in, std::string& out) {
  if (context_ == nullptr) return Fail(Code::kInternal, "zstd has no memory");
  // The window is 128 MiB at most, the library's own default for streams.
  ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);
  const size_t bound = OutputMax(in.size());
  out.resize(std::min(bound, in.size() * 4));
  ZSTD_inBuffer input{in.data(), in.size(), 0};
  size_t used = 0;
  size_t state = 1;
  while (input.pos < input.size || state != 0) {
    if (!Grow(used, bound, out)) return Bad("a zstandard block is too large");
    ZSTD_outBuffer output{out.data(), out.size(), used};
    const size_t before = input.pos;
    state = ZSTD_decompressStream(context_.get(), &output, &input);
    if (ZSTD_isError(state)) {
      return Bad(std::string("a zstandard block is damaged: ") + ZSTD_getErrorName(state));
    }
    if (input.pos == before && output.pos == used && output.pos < output.size) {
      return Bad("a zstandard block is cut");
    }
    used = output.pos;
  }
  out.resize(used);
  return {};
}

uint32_t Crc(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

Status UnSnappy(std::string_view in, std::string& out) {
  size_t length = 0;
  if (in.size() < 4 || !snappy::GetUncompressedLength(in.data(), in.size() - 4, &length) ||
      length > OutputMax(in.size())) {
    return Bad("a snappy block is damaged");
  }
  out.resize(length);
  if (!snappy::RawUncompress(in.data(), in.size() - 4, out.data())) {
    return Bad("a snappy block is damaged");
  }
  uint32_t expected = 0;
  for (const char byte : in.substr(in.size() - 4)) {
    expected = (expected << 8) | static_cast<uint8_t>(byte);
  }
  if (Crc(out) != expected) return Bad("a snappy block's checksum is wrong");
  return {};
}

bool KnownCodec(std::string_view codec) {
  return codec == "null" || codec == "deflate" || codec == "zstandard" || codec == "snappy";
}

Result<std::string> Deflate(std::string_view in) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return Fail(Code::kInternal, "zlib has no memory");
  }
  std::string out(deflateBound(&stream, in.size()), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int state = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  if (state != Z_STREAM_END) return Fail(Code::kInternal, "deflate did not finish");
  return out;
}

Result<std::string> Compress(const std::string& codec, std::string_view in) {
  if (codec == "null") return std::string(in);
  if (codec == "deflate") return Deflate(in);
  std::string out;
  if (codec == "zstandard") {
    out.resize(ZSTD_compressBound(in.size()));
    const size_t size = ZSTD_compress(out.data(), out.size(), in.data(), in.size(), 3);
    if (ZSTD_isError(size)) return Fail(Code::kInternal, ZSTD_getErrorName(size));
    out.resize(size);
    return out;
  }
  snappy::Compress(in.data(), in.size(), &out);
  const uint32_t crc = Crc(in);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(crc >> shift);
  return out;
}

}  // namespace

struct AvroReader::Unpacker {
  std::string codec;
  Inflater deflate;
  std::optional<ZstdUnpacker> zstandard;

  Status Run(std::string_view in, std::string& out) {
    if (codec == "deflate") return deflate.Run(in, out);
    if (codec == "snappy") return UnSnappy(in, out);
    if (!zstandard) zstandard.emplace();
    return zstandard->Run(in, out);
  }
};

// --- container files ---------------------------------------------------------------------------

Result<AvroReader> AvroReader::Open(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return Bad("not an Avro file: it does not begin with \"Obj\"");
  AvroReader reader;
  AvroDecoder decoder(bytes.substr(kMagic.size()));
  AvroType value;
  value.kind = AvroKind::kBytes;
  value.size_min = 1;
  while (true) {
    int64_t count = decoder.BlockCount(value);
    if (count == 0) break;
    for (; count > 0 && decoder.ok(); --count) {
      std::string key(decoder.Bytes());
      reader.metadata_.insert_or_assign(std::move(key), std::string(decoder.Bytes()));
    }
  }
  reader.sync_ = decoder.Fixed(kSyncSize);
  if (!decoder.ok()) return Bad(std::string("the Avro header is damaged: ") + decoder.problem());
  reader.rest_ = decoder;
  const std::string_view codec = reader.Metadata("avro.codec");
  if (!codec.empty() && !KnownCodec(codec)) {
    return Fail(Code::kUnsupported, "Avro codec " + Quote(codec));
  }
  if (!codec.empty() && codec != "null") {
    reader.unpacker_ = std::make_shared<Unpacker>();
    reader.unpacker_->codec = codec;
  }
  LITHIFY_TRY_ASSIGN(reader.schema_, AvroSchema::Parse(reader.Metadata("avro.schema")));
  if (reader.schema_.root().size_min == 0) return Bad("the schema's records take no bytes");
  return reader;
}

std::string_view AvroReader::Metadata(const std::string& key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? std::string_view() : std::string_view(at->second);
}

Result<std::optional<AvroReader::Block>> AvroReader::NextBlock() {
  if (rest_.remaining() == 0) return std::optional<Block>();
  const std::string at = "Avro block " + std::to_string(block_++);
  Block block;
  block.records = rest_.Long();
  std::string_view bytes = rest_.Bytes();
  const std::string_view sync = rest_.Fixed(kSyncSize);
  if (!rest_.ok()) return Bad(at + " is damaged: " + rest_.problem());
  if (sync != sync_) return Bad(at + " is damaged: no sync marker after it");
  if (unpacker_ != nullptr) {
    if (Status status = unpacker_->Run(bytes, scratch_); !status) {
      return Fail(std::move(status.error()).In(at));
    }
    bytes = scratch_;
  }
  block.bytes = bytes;
  if (block.records < 0 || static_cast<uint64_t>(block.records) >
                               bytes.size() / static_cast<uint64_t>(schema_.root().size_min)) {
    return Bad(at + " is damaged: more records than bytes");
  }
  return std::optional<Block>(block);
}

Result<AvroWriter> AvroWriter::Open(std::string_view schema_json,
                                    std::map<std::string, std::string> metadata,
                                    std::string codec) {
  if (!KnownCodec(codec)) {
    return Fail(Code::kInvalid, "unknown Avro codec " + Quote(codec), {},
                "use null, deflate, zstandard or snappy");
  }
  AvroWriter writer;
  writer.metadata_ = std::move(metadata);
  writer.metadata_["avro.schema"] = schema_json;
  writer.metadata_["avro.codec"] = codec;
  writer.codec_ = std::move(codec);
  return writer;
}

Status AvroWriter::EndRecord() {
  ++records_;
  if (record_.out().size() >= kBlockBytes) return EndBlock();
  return {};
}

Status AvroWriter::EndBlock() {
  if (records_ == 0) return {};
  LITHIFY_TRY_ASSIGN(std::string bytes, Compress(codec_, record_.out()));
  blocks_.push_back({records_, std::move(bytes)});
  record_.out().clear();
  records_ = 0;
  return {};
}

namespace {

// Two rounds of FNV-1a with a final mix: unlike enough for a marker, which guards nothing but the
// framing.
void Mix(std::string_view bytes, uint64_t& state) {
  for (const char byte : bytes) {
    state = (state ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  }
}

void AppendMixed(uint64_t state, std::string& out) {
  state ^= state >> 33;
  state *= 0xFF51AFD7ED558CCD;
  state ^= state >> 33;
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(state >> shift);
}

}  // namespace

Result<std::string> AvroWriter::Finish() {
  LITHIFY_TRY(EndBlock());
  AvroEncoder out;
  out.Fixed(kMagic);
  out.Long(static_cast<int64_t>(metadata_.size()));
  for (const auto& [key, value] : metadata_) {
    out.Bytes(key);
    out.Bytes(value);
  }
  out.Long(0);
  uint64_t low = 0xCBF29CE484222325;
  Mix(out.out(), low);
  for (const Compressed& block : blocks_) Mix(block.bytes, low);
  uint64_t high = low;
  Mix("sync", high);
  std::string sync;
  AppendMixed(low, sync);
  AppendMixed(high, sync);
  out.Fixed(sync);
  for (Compressed& block : blocks_) {
    out.Long(block.records);
    out.Bytes(block.bytes);
    out.Fixed(sync);
    block.bytes = {};
  }
  return std::move(out.out());
}

}  // namespace lithify::table
