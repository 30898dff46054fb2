#include "rewrite/thrift_compact.h"

#include <limits>

namespace lithify::rewrite {
namespace {

constexpr int kDepthMax = 16;  // Of what is passed over; what Parquet nests has no more than 8.

}  // namespace

bool CompactReader::Int32(uint8_t type, std::optional<int32_t>& out) {
  if (type != kI32) return false;
  int64_t value = 0;
  if (!ZigZag(value)) return false;
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    return Bad("a number is larger than its type");
  }
  out = static_cast<int32_t>(value);
  return true;
}

bool CompactReader::RareFieldHeader(uint8_t head, int32_t& id) {
  if ((head & 0x0fU) == kStop) return head == 0 || Bad("a field of no type");
  if ((head & 0x0fU) > kUuid) return Bad("a field of an unknown type");
  int64_t absolute = 0;
  if (!ZigZag(absolute)) return false;
  if (absolute < std::numeric_limits<int16_t>::min()) return Bad("a field's number is too small");
  id = static_cast<int32_t>(std::min<int64_t>(absolute, kFieldMax + 1));
  return id <= kFieldMax || Bad("a field's number is too large");
}

bool CompactReader::ListHeader(uint64_t& count, uint8_t& type) {
  uint8_t head = 0;
  if (!Byte(head)) return false;
  count = head >> 4;
  type = head & 0x0fU;
  return count != 15 || Size(count);
}

bool CompactReader::SkipBytes(uint64_t size) {
  if (!Have(size)) return false;
  at_ += size;
  return true;
}

// An element of a list, unlike a field, has a byte for a boolean.
bool CompactReader::SkipElements(uint64_t count, uint8_t type, int depth) {
  if (type == kTrue || type == kFalse || type == kI8) return SkipBytes(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (!Skip(type, depth)) return false;
  }
  return true;
}

bool CompactReader::SkipList(int depth) {
  uint64_t count = 0;
  uint8_t type = kStop;
  return ListHeader(count, type) && SkipElements(count, type, depth);
}

bool CompactReader::SkipMap(int depth) {
  uint64_t count = 0;
  uint8_t types = 0;
  if (!Size(count)) return false;
  if (count == 0) return true;
  if (!Byte(types)) return false;
  for (uint64_t i = 0; i < count; ++i) {
    if (!SkipElements(1, types >> 4, depth) || !SkipElements(1, types & 0x0fU, depth)) return false;
  }
  return true;
}

bool CompactReader::SkipStruct(int depth) {
  int32_t id = 0;
  while (true) {
    uint8_t type = kStop;
    if (!FieldHeader(id, type)) return false;
    if (type == kStop) return true;
    if (!Skip(type, depth)) return false;
  }
}

bool CompactReader::Skip(uint8_t type, int depth) {
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

}  // namespace lithify::rewrite
