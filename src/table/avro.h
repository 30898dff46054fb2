// Avro object container files and their binary encoding, as far as Iceberg's metadata needs them:
// schemas with field ids and logical types, header metadata, codecs null, deflate, zstandard and
// snappy (Avro specification, "Object Container Files"; Iceberg, Appendix A).
//
// There is no tree of values: whoever reads compiles the file's schema to steps of its own and runs
// them over the bytes of each block.
//
// Input is hostile until proven otherwise: every read is bounded by the bytes that are there, a
// block may grow by a bounded factor only, and schemas that refer to themselves, nest deeper than
// kAvroDepthMax or unfold to more than kAvroNodesMax types are refused.
//
// Errors: kCorrupt for what is no such file; kUnsupported for other codecs and recursive schemas.
// Thread safety: plain values.
#ifndef LITHIFY_TABLE_AVRO_H_
#define LITHIFY_TABLE_AVRO_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lithify::table {

inline constexpr int kAvroDepthMax = 32;
inline constexpr int64_t kAvroNodesMax = 20000;

enum class AvroKind {
  kNull,
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kDouble,
  kBytes,
  kString,
  kFixed,
  kEnum,
  kRecord,
  kArray,
  kMap,
  kUnion,
};
std::string_view AvroKindName(AvroKind kind);

struct AvroType;

struct AvroField {
  std::string name;           // "iceberg-field-name" where the writer gave it, else the Avro name.
  std::optional<int> id;      // "field-id".
  const AvroType* type = {};  // Owned by the AvroSchema.
};

struct AvroType {
  AvroKind kind = AvroKind::kNull;
  std::string name;               // kRecord, kFixed, kEnum.
  std::string logical_type;       // "date", "decimal", "map", …; empty: none.
  int precision = 0;              // Of the logical type "decimal".
  int scale = 0;                  // Of the logical type "decimal".
  bool adjust_to_utc = false;     // Of the logical types for timestamps.
  int64_t fixed_size = 0;         // kFixed, bytes.
  std::vector<AvroField> fields;  // kRecord.
  // kUnion: the branches. kArray, kMap: one, the items or values.
  std::vector<const AvroType*> children;
  std::optional<int> element_id;  // kArray.
  std::optional<int> key_id;      // kMap.
  std::optional<int> value_id;    // kMap.
  int64_t symbols = 0;            // kEnum.

  int64_t size_min = 0;   // Least bytes that a value takes. 0: no value ever takes any.
  int64_t size = -1;      // Bytes of every value; -1: it varies.
  int64_t nodes = 1;      // Types in it when every name is unfolded.
  int null_branch = -1;   // kUnion of null and one other type: which is null.
  int value_branch = -1;  // The other.
};

class AvroSchema {
 public:
  static Result<AvroSchema> Parse(std::string_view json);
  const AvroType& root() const { return *root_; }

 private:
  friend class AvroSchemaParser;
  std::vector<std::unique_ptr<AvroType>> types_;
  const AvroType* root_ = nullptr;
};

// Reads binary-encoded values from a range of bytes. The first problem sticks and every read after
// it gives zero or nothing, so that a caller may check once per record.
class AvroDecoder {
 public:
  explicit AvroDecoder(std::string_view bytes)
      : at_(reinterpret_cast<const uint8_t*>(bytes.data())), end_(at_ + bytes.size()) {}

  bool ok() const { return problem_ == nullptr; }
  const char* problem() const { return problem_ == nullptr ? "" : problem_; }  // A literal.
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  void SetProblem(const char* problem) {
    if (problem_ == nullptr) problem_ = problem;
    at_ = end_;
  }

  int64_t Long() {
    const uint64_t raw = Varint();
    return static_cast<int64_t>(raw >> 1) ^ -static_cast<int64_t>(raw & 1);
  }
  int32_t Int() {
    const int64_t value = Long();
    if (value < INT32_MIN || value > INT32_MAX) {
      SetProblem("an int beyond 32 bits");
      return 0;
    }
    return static_cast<int32_t>(value);
  }
  bool Boolean() {
    if (at_ == end_) return Short(), false;
    if (*at_ > 1) SetProblem("a boolean that is neither 0 nor 1");
    return ok() && *at_++ == 1;
  }
  float Float() {
    float value = 0;
    const std::string_view bytes = Fixed(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  double Double() {
    double value = 0;
    const std::string_view bytes = Fixed(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  // A string or bytes, with their length before them.
  std::string_view Bytes() {
    const int64_t length = Long();
    if (length < 0) return SetProblem("a negative length"), std::string_view();
    return Fixed(static_cast<uint64_t>(length));
  }
  std::string_view Fixed(uint64_t length) {
    if (length > remaining()) return Short(), std::string_view();
    const std::string_view bytes(reinterpret_cast<const char*>(at_), length);
    at_ += length;
    return bytes;
  }
  // The items in the next block of an array or map; 0: no more blocks. Items that take bytes are
  // never more than the bytes that are left allow.
  int64_t BlockCount(const AvroType& item);
  void Skip(const AvroType& type);

 private:
  uint64_t Varint() {
    if (at_ != end_ && *at_ < 0x80) return *at_++;
    return VarintSlow();
  }
  uint64_t VarintSlow();
  void SkipVarints(int64_t count);
  void SkipItems(const AvroType& array);
  void SkipUnion(const AvroType& type);
  void Short() { SetProblem("it ends in the middle of a value"); }

  const uint8_t* at_;
  const uint8_t* end_;
  const char* problem_ = nullptr;
};

// The writing side of AvroDecoder.
class AvroEncoder {
 public:
  void Long(int64_t value);
  void Int(int32_t value) { Long(value); }
  void Boolean(bool value) { out_ += value ? '\1' : '\0'; }
  void Float(float value) { Raw(&value, sizeof value); }
  void Double(double value) { Raw(&value, sizeof value); }
  void Bytes(std::string_view bytes) {
    Long(static_cast<int64_t>(bytes.size()));
    out_ += bytes;
  }
  void Fixed(std::string_view bytes) { out_ += bytes; }
  // Which branch of a union of null and something, in this order.
  void Present(bool present) { Long(present ? 1 : 0); }

  std::string& out() { return out_; }

 private:
  void Raw(const void* value, size_t size) { out_.append(static_cast<const char*>(value), size); }
  std::string out_;
};

class AvroReader {
 public:
  // `bytes` must outlive the reader.
  static Result<AvroReader> Open(std::string_view bytes);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::string_view Metadata(const std::string& key) const;  // Empty: absent.
  const AvroSchema& schema() const { return schema_; }

  struct Block {
    int64_t records = 0;
    std::string_view bytes;  // Uncompressed; until the next call.
  };
  // nullopt at the end of the file. The records are never more than the bytes allow.
  Result<std::optional<Block>> NextBlock();

 private:
  struct Unpacker;  // The codec's state, kept from block to block: some writers make tiny ones.

  AvroReader() : rest_(std::string_view()) {}

  std::map<std::string, std::string> metadata_;
  AvroSchema schema_;
  std::shared_ptr<Unpacker> unpacker_;  // Null: not compressed.
  std::string sync_;
  AvroDecoder rest_;
  int64_t block_ = 0;
  std::string scratch_;
};

// One container file in memory. The same records give the same bytes: the sync marker is a hash of
// the content.
class AvroWriter {
 public:
  // kInvalid for an unknown codec.
  static Result<AvroWriter> Open(std::string_view schema_json,
                                 std::map<std::string, std::string> metadata, std::string codec);

  // Encode one record here, then call EndRecord.
  AvroEncoder& record() { return record_; }
  Status EndRecord();
  Result<std::string> Finish();

 private:
  AvroWriter() = default;
  Status EndBlock();

  std::map<std::string, std::string> metadata_;
  std::string codec_;
  AvroEncoder record_;
  int64_t records_ = 0;
  struct Compressed {
    int64_t records = 0;
    std::string bytes;
  };
  std::vector<Compressed> blocks_;
};

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_AVRO_H_
