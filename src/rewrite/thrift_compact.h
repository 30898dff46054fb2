// Thrift's compact protocol (thrift, doc/specs/thrift-compact-protocol.md), as far as Parquet uses
// it: read from bytes that anybody may have written, and written in one canonical form.
#ifndef LITHIFY_REWRITE_THRIFT_COMPACT_H_
#define LITHIFY_REWRITE_THRIFT_COMPACT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lithify::rewrite {

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

// Reads forward until something is missing or wrong; from then on every call returns false. No
// call allocates more than the bytes that it reads, or takes longer than reading them.
//
// A call that reads a field of another type than `type` says returns false too, and reads nothing:
// to Struct() and List() that is a field that is passed over, and a wrong element.
class CompactReader {
 public:
  enum class State { kGood, kMore, kLong, kBad };

  // kLong instead of kMore from `bytes_max` on.
  CompactReader(std::span<const uint8_t> bytes, size_t bytes_max)
      : bytes_(bytes), bytes_max_(bytes_max) {}
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

  // Calls `element(type)` for every element, which reads it.
  template <typename Element>
  bool List(uint8_t type, Element&& element) {
    uint64_t count = 0;
    uint8_t of = kStop;
    if (type != kList || !ListHeader(count, of)) return false;
    for (uint64_t i = 0; i < count; ++i) {
      if (!element(of)) return Bad("an element of another type");
    }
    return true;
  }

  bool Int32(uint8_t type, std::optional<int32_t>& out);
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
  // A part of the bytes that are read.
  bool Binary(uint8_t type, std::optional<std::string_view>& out) {
    uint64_t size = 0;
    if (type != kBinary || !Size(size) || !Have(size)) return false;
    at_ += size;
    out = Since(at_ - size);
    return true;
  }
  bool Binary(uint8_t type, std::optional<std::string>& out) {
    std::optional<std::string_view> view;
    if (!Binary(type, view)) return false;
    out.emplace(*view);
    return true;
  }
  // A field of any type as it is stored.
  bool Raw(uint8_t type, std::string_view& out) {
    const size_t from = at_;
    if (!Skip(type, 0)) return false;
    out = Since(from);
    return true;
  }
  // What was read from position `from` on.
  std::string_view Since(size_t from) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + from, at_ - from};
  }

 private:
  static constexpr int32_t kFieldMax = std::numeric_limits<int16_t>::max();

  bool Stop(State state) {
    if (state_ == State::kGood) state_ = state;
    return false;
  }
  bool Have(uint64_t size) {
    if (state_ != State::kGood) return false;
    if (size <= bytes_.size() - at_ && at_ + size <= bytes_max_) return true;
    return Stop(size > bytes_max_ - std::min(at_, bytes_max_) ? State::kLong : State::kMore);
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
  bool Size(uint64_t& out) { return Varint(out) && (out <= bytes_max_ || Stop(State::kLong)); }

  bool FieldHeader(int32_t& id, uint8_t& type) {
    uint8_t head = 0;
    if (!Byte(head)) return false;
    type = head & 0x0fU;
    const int delta = head >> 4;
    if (delta == 0 || type == kStop || type > kUuid) return RareFieldHeader(head, id);
    id += delta;
    return id <= kFieldMax || Bad("a field's number is too large");
  }
  // The end of a struct, a number that is not the last one's and a little, or no field.
  bool RareFieldHeader(uint8_t head, int32_t& id);
  bool ListHeader(uint64_t& count, uint8_t& type);
  bool SkipBytes(uint64_t size);
  bool SkipElements(uint64_t count, uint8_t type, int depth);
  bool SkipList(int depth);
  bool SkipMap(int depth);
  bool SkipStruct(int depth);
  bool Skip(uint8_t type, int depth);

  const std::span<const uint8_t> bytes_;
  const size_t bytes_max_;
  size_t at_ = 0;
  State state_ = State::kGood;
  const char* problem_ = "";
};

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
  // A list as CompactReader::Raw() gives it.
  void RawList(int id, std::string_view bytes) {
    Field(id, kList);
    out_ += bytes;
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

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_THRIFT_COMPACT_H_
