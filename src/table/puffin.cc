#include "table/puffin.h"

#include <zlib.h>

#include <exception>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

namespace lithify::table {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "PFA1";
constexpr std::string_view kVectorMagic("\xd1\xd3\x39\x64", 4);
constexpr size_t kVectorOverhead = 12;  // Length, magic and checksum.
constexpr size_t kFooterTail = 12;      // Payload size, flags and magic.
constexpr uint32_t kCompressedFooter = 1;

uint32_t BigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

uint32_t LittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

void AppendBigEndian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void AppendLittleEndian(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint32_t Checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::unexpected<Error> Bad(std::string message, std::string_view where) {
  return Fail(Code::kCorrupt, std::move(message), std::string(where));
}

// Members of a JSON object of the footer; `path` names it in errors.
class Members {
 public:
  Members(const json& object, std::string path, std::string_view where)
      : object_(object), path_(std::move(path)), where_(where) {}

  Result<const json*> Required(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) return Problem(name, "is missing");
    return &*found;
  }

  Result<int64_t> Integer(const char* name) const {
    LITHIFY_TRY_ASSIGN(const json* value, Required(name));
    const std::optional<int64_t> integer = ToInteger(*value);
    if (!integer) return Problem(name, "is no 64-bit integer");
    return *integer;
  }

  Result<std::map<std::string, std::string>> Properties() const {
    std::map<std::string, std::string> properties;
    const auto found = object_.find("properties");
    if (found == object_.end() || found->is_null()) return properties;
    if (!found->is_object()) return Problem("properties", "is no object");
    for (const auto& [key, value] : found->items()) {
      if (!value.is_string()) return Problem("properties", "has a value that is no text");
      properties.emplace(key, value.get<std::string>());
    }
    return properties;
  }

  std::unexpected<Error> Problem(const char* name, const char* what) const {
    return Bad("Puffin footer: " + path_ + name + " " + what, where_);
  }

  static std::optional<int64_t> ToInteger(const json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return std::nullopt;
    }
    return value.get<int64_t>();
  }

 private:
  const json& object_;
  std::string path_;
  std::string_view where_;
};

// `blobs_end`: where the footer begins.
Result<PuffinBlob> ReadBlob(const json& value, size_t index, int64_t blobs_end,
                            std::string_view where) {
  const Members members(value, "blobs[" + std::to_string(index) + "].", where);
  if (!value.is_object()) return members.Problem("", "is no object");
  PuffinBlob blob;
  LITHIFY_TRY_ASSIGN(const json* type, members.Required("type"));
  if (!type->is_string()) return members.Problem("type", "is no text");
  blob.type = type->get<std::string>();
  LITHIFY_TRY_ASSIGN(const json* fields, members.Required("fields"));
  if (!fields->is_array()) return members.Problem("fields", "is no list");
  for (const json& field : *fields) {
    const std::optional<int64_t> id = Members::ToInteger(field);
    if (!id || *id < std::numeric_limits<int>::min() || *id > std::numeric_limits<int>::max()) {
      return members.Problem("fields", "has a value that is no field id");
    }
    blob.fields.push_back(static_cast<int>(*id));
  }
  LITHIFY_TRY_ASSIGN(blob.snapshot_id, members.Integer("snapshot-id"));
  LITHIFY_TRY_ASSIGN(blob.sequence_number, members.Integer("sequence-number"));
  LITHIFY_TRY_ASSIGN(blob.offset, members.Integer("offset"));
  LITHIFY_TRY_ASSIGN(blob.length, members.Integer("length"));
  if (blob.offset < static_cast<int64_t>(kMagic.size()) || blob.offset > blobs_end) {
    return members.Problem("offset", "is outside of the file's blobs");
  }
  if (blob.length < 0 || blob.length > blobs_end - blob.offset) {
    return members.Problem("length", "leads outside of the file's blobs");
  }
  const auto codec = value.find("compression-codec");
  if (codec != value.end() && !codec->is_null()) {
    if (!codec->is_string()) return members.Problem("compression-codec", "is no text");
    blob.compression_codec = codec->get<std::string>();
  }
  LITHIFY_TRY_ASSIGN(blob.properties, members.Properties());
  return blob;
}

}  // namespace

Result<PositionSet> DecodeDeletionVector(std::string_view blob, std::string_view where) {
  if (blob.size() < kVectorOverhead) {
    return Bad("a deletion vector of " + std::to_string(blob.size()) + " bytes", where);
  }
  const std::string_view covered = blob.substr(4, blob.size() - 8);  // By the checksum.
  if (BigEndian(blob) != covered.size()) {
    return Bad("the deletion vector's length is " + std::to_string(BigEndian(blob)) +
                   ", its blob holds " + std::to_string(covered.size()),
               where);
  }
  if (!covered.starts_with(kVectorMagic)) {
    return Bad("a deletion vector without its magic bytes", where);
  }
  if (Checksum(covered) != BigEndian(blob.substr(blob.size() - 4))) {
    return Bad("the deletion vector's checksum does not hold", where);
  }
  Result<PositionSet> positions = PositionSet::Deserialize(covered.substr(kVectorMagic.size()));
  if (!positions) return Fail(std::move(positions.error()).In(where));
  return positions;
}

std::string EncodeDeletionVector(const PositionSet& positions) {
  const std::string bitmap = positions.Serialize();
  LITHIFY_CHECK(bitmap.size() <= std::numeric_limits<int32_t>::max() - kVectorOverhead,
                "a deletion vector of 2 GiB or more");
  std::string blob;
  blob.reserve(bitmap.size() + kVectorOverhead);
  AppendBigEndian(blob, static_cast<uint32_t>(bitmap.size() + kVectorMagic.size()));
  blob += kVectorMagic;
  blob += bitmap;
  AppendBigEndian(blob, Checksum(std::string_view(blob).substr(4)));
  return blob;
}

Result<PositionSet> ReadDeletionVector(storage::Store& store, const std::string& key,
                                       int64_t content_offset, int64_t content_size,
                                       int64_t records) {
  LITHIFY_TRY_ASSIGN(const std::unique_ptr<storage::Reader> reader, store.Open(key));
  // Before any memory is taken for it.
  if (content_offset < 0 || content_size < 0 || content_offset > reader->size() ||
      content_size > reader->size() - content_offset) {
    return Bad("content_offset " + std::to_string(content_offset) + " and content_size_in_bytes " +
                   std::to_string(content_size) + " lead outside of the file's " +
                   std::to_string(reader->size()) + " bytes",
               key);
  }
  std::string blob(static_cast<size_t>(content_size), '\0');
  const auto bytes = std::as_writable_bytes(std::span(blob.data(), blob.size()));
  LITHIFY_TRY_ASSIGN(const int64_t read, reader->ReadAt(content_offset, bytes));
  if (read != content_size) return Bad("cut short while it was read", key);
  LITHIFY_TRY_ASSIGN(PositionSet positions, DecodeDeletionVector(blob, key));
  if (positions.size() != records) {
    return Bad("the deletion vector at " + std::to_string(content_offset) + " has " +
                   std::to_string(positions.size()) + " positions, record_count says " +
                   std::to_string(records),
               key);
  }
  return positions;
}

Result<std::vector<PuffinBlob>> ReadPuffinFooter(std::string_view file, std::string_view where) {
  if (file.size() < 2 * kMagic.size() + kFooterTail || !file.starts_with(kMagic) ||
      !file.ends_with(kMagic)) {
    return Bad("no Puffin file", where);
  }
  const std::string_view tail = file.substr(file.size() - kFooterTail);
  const uint32_t size = LittleEndian(tail);
  const uint32_t flags = LittleEndian(tail.substr(4));
  const size_t room = file.size() - 2 * kMagic.size() - kFooterTail;
  if (size > room) {
    return Bad("the Puffin footer's payload size is " + std::to_string(static_cast<int32_t>(size)) +
                   ", there is room for " + std::to_string(room),
               where);
  }
  const size_t payload_at = file.size() - kFooterTail - size;
  const size_t blobs_end = payload_at - kMagic.size();
  if (file.substr(blobs_end, kMagic.size()) != kMagic) {
    return Bad("the Puffin footer does not begin with its magic bytes", where);
  }
  if (flags != 0) {
    return Fail(Code::kUnsupported,
                flags == kCompressedFooter ? "an LZ4-compressed Puffin footer"
                                           : "unknown Puffin flags " + std::to_string(flags),
                std::string(where));
  }
  try {
    const json footer = json::parse(file.substr(payload_at, size), nullptr, false);
    if (!footer.is_object()) return Bad("the Puffin footer is no JSON object", where);
    const Members members(footer, "", where);
    LITHIFY_TRY_ASSIGN(const json* list, members.Required("blobs"));
    if (!list->is_array()) return members.Problem("blobs", "is no list");
    std::vector<PuffinBlob> blobs;
    for (const json& value : *list) {
      LITHIFY_TRY_ASSIGN(PuffinBlob blob,
                         ReadBlob(value, blobs.size(), static_cast<int64_t>(blobs_end), where));
      blobs.push_back(std::move(blob));
    }
    LITHIFY_TRY(members.Properties());
    return blobs;
  } catch (const std::exception& e) {
    return Bad(std::string("Puffin footer: ") + e.what(), where);
  }
}

std::string WritePuffin(std::vector<PuffinBlob>& blobs, const std::vector<std::string>& payloads,
                        const std::map<std::string, std::string>& properties) {
  LITHIFY_CHECK(blobs.size() == payloads.size(), "a Puffin file needs one payload per blob");
  std::string file(kMagic);
  json list = json::array();
  for (size_t i = 0; i < blobs.size(); ++i) {
    PuffinBlob& blob = blobs[i];
    blob.offset = static_cast<int64_t>(file.size());
    blob.length = static_cast<int64_t>(payloads[i].size());
    file += payloads[i];
    json entry = {{"type", blob.type},
                  {"fields", blob.fields},
                  {"snapshot-id", blob.snapshot_id},
                  {"sequence-number", blob.sequence_number},
                  {"offset", blob.offset},
                  {"length", blob.length}};
    if (!blob.compression_codec.empty()) entry["compression-codec"] = blob.compression_codec;
    if (!blob.properties.empty()) entry["properties"] = blob.properties;
    list.push_back(std::move(entry));
  }
  json footer = {{"blobs", std::move(list)}};
  if (!properties.empty()) footer["properties"] = properties;
  const std::string payload =
      footer.dump(-1, ' ', false, json::error_handler_t::replace);  // Never throws.
  LITHIFY_CHECK(payload.size() <= std::numeric_limits<int32_t>::max(), "a Puffin footer of 2 GiB");
  file += kMagic;
  file += payload;
  AppendLittleEndian(file, static_cast<uint32_t>(payload.size()));
  AppendLittleEndian(file, 0);
  file += kMagic;
  return file;
}

}  // namespace lithify::table
