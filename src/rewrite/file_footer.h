// The footer of a Parquet file that is read: parquet.thrift's FileMetaData, kept as it is stored,
// with the places of the column chunks in it. Arrow's parquet::FileMetaData takes ten times the
// memory, and making, asking and freeing it more time than the pages of a small file.
//
// Inputs' footers are read here only. Two things in them stay Arrow's, through a footer without row
// groups that files share: schemas, whose descriptors Parquet's readers and writers want, and the
// versions of writers. Footers that are written are Arrow's (FileWriter).
//
// What is read holds for bytes that anybody may have written. Of a field that comes twice the last
// one counts, and fields of another type are passed over, as in readers made by Thrift's compiler.
// Lists of elements of another type and numbers that do not fit are an error here. Nothing but its
// form is checked of what nobody asks for.
#ifndef LITHIFY_REWRITE_FILE_FOOTER_H_
#define LITHIFY_REWRITE_FILE_FOOTER_H_

#include <arrow/util/type_fwd.h>
#include <parquet/index_location.h>
#include <parquet/type_fwd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rewrite/page_header.h"

namespace parquet {
class ApplicationVersion;
}

namespace lithify::rewrite {

class CompactReader;
struct SchemaNode;

// Encodings by their numbers; those of numbers that are unknown here are one.
class EncodingSet {
 public:
  void Add(int32_t number) { bits_ |= Bit(number); }
  bool Has(PageEncoding encoding) const {
    return (bits_ & Bit(static_cast<int32_t>(encoding))) != 0;
  }
  bool empty() const { return bits_ == 0; }
  EncodingSet Without(const EncodingSet& other) const {
    EncodingSet rest;
    rest.bits_ = bits_ & ~other.bits_;
    return rest;
  }
  bool operator==(const EncodingSet&) const = default;

 private:
  static constexpr int kUnknown = 31;
  static uint32_t Bit(int32_t number) {
    return uint32_t{1} << (number >= 0 && number < kUnknown ? number : kUnknown);
  }
  uint32_t bits_ = 0;
};

// A list of numbers, as stored.
struct StoredNumbers {
  std::string_view list;
  uint32_t count = 0;
  std::vector<int64_t> Values() const;
};

// Of a column chunk, as stored. Texts and numbers are parts of the footer, which outlives them;
// nobody has checked any of it.
struct StoredChunk {
  std::string_view file_path;  // Of another file that has the pages; empty: none.
  bool encrypted = false;
  std::optional<parquet::IndexLocation> column_index;
  std::optional<parquet::IndexLocation> offset_index;

  // All zero where a chunk lacks its ColumnMetaData.
  int32_t physical_type = 0;  // parquet.thrift's number.
  std::optional<arrow::Compression::type> codec =
      arrow::Compression::UNCOMPRESSED;  // None: unknown.
  EncodingSet encodings;
  EncodingSet data_page_encodings;  // Of pages as they are counted by encoding, where they are.
  int64_t num_values = 0;
  int64_t total_uncompressed_size = 0;
  int64_t total_compressed_size = 0;
  int64_t data_page_offset = 0;
  std::optional<int64_t> dictionary_page_offset;
  std::optional<int64_t> bloom_filter_offset;
  std::optional<int32_t> bloom_filter_length;

  struct Statistics {
    std::optional<std::string_view> max;  // The deprecated pair, in the order of signed values.
    std::optional<std::string_view> min;
    std::optional<int64_t> null_count;
    std::optional<int64_t> distinct_count;
    std::optional<std::string_view> max_value;
    std::optional<std::string_view> min_value;
    std::optional<bool> is_max_value_exact;
    std::optional<bool> is_min_value_exact;
  };
  std::optional<Statistics> statistics;

  struct Sizes {
    std::optional<int64_t> unencoded_byte_array_data_bytes;
    StoredNumbers repetition_level_histogram;
    StoredNumbers definition_level_histogram;
  };
  std::optional<Sizes> sizes;
};

struct StoredRowGroup {
  int64_t num_rows = 0;
  int64_t total_byte_size = 0;
  int64_t total_compressed_size = 0;  // 0: not stated.
  int num_columns = 0;
  uint32_t first_chunk = 0;  // Among those of all row groups.
};

// What files of one schema and one writer have in common.
class FileKind {
 public:
  // A Thrift footer without row groups. Throws Parquet's exceptions.
  explicit FileKind(std::string_view footer);

  const parquet::SchemaDescriptor& schema() const { return *schema_; }
  const parquet::FileMetaData& arrow() const { return *arrow_; }
  // As ParseSchema() has it, and with what Arrow's schema does not show: local times keep the
  // annotation of old that says the same, for readers that know no other.
  Result<std::shared_ptr<const SchemaNode>> Tree() const;

 private:
  std::shared_ptr<const parquet::FileMetaData> arrow_;
  const parquet::SchemaDescriptor* schema_;
  std::vector<int32_t> converted_types_;  // Of leaves, parquet.thrift's numbers; -1: none.
  mutable std::once_flag parsed_;
  mutable Result<std::shared_ptr<const SchemaNode>> tree_;
};

// Kinds that were met, to share them between footers; forgotten when they are many. Thread-safe.
class FileKinds {
 public:
  // By the footer that FileKind is made of. `made`: it was not known. Throws as FileKind does.
  std::shared_ptr<const FileKind> Get(std::string footer, bool& made);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const FileKind>> kinds_;
  size_t bytes_ = 0;
};

// Thread safety: const.
class Footer {
 public:
  // kCorrupt: the bytes begin with no FileMetaData. Throws Parquet's exceptions if the schema is
  // none.
  static Result<std::shared_ptr<const Footer>> Parse(std::shared_ptr<arrow::Buffer> bytes,
                                                     FileKinds& kinds);

  int64_t num_rows() const { return num_rows_; }
  int num_columns() const;  // Of the schema.
  int num_row_groups() const { return static_cast<int>(groups_.size()); }
  const StoredRowGroup& row_group(int g) const { return groups_[static_cast<size_t>(g)]; }
  // `c` is one of the row group's.
  StoredChunk Chunk(int g, int c) const;

  const parquet::SchemaDescriptor& schema() const { return kind_->schema(); }
  const FileKind& kind() const { return *kind_; }
  const std::string& created_by() const;
  const parquet::ApplicationVersion& writer_version() const;
  bool encryption_algorithm_set() const { return encrypted_; }

  // Key-value metadata, in order.
  std::vector<std::pair<std::string_view, std::string_view>> Pairs() const;
  // The first value of that key.
  std::optional<std::string_view> Pair(std::string_view key) const;

  // What the chunk states of its values, if it can be relied on by the rules of Parquet's readers:
  // by writer, type and order of `column`, which is the chunk's.
  std::optional<parquet::EncodedStatistics> TrustedStatistics(
      const StoredChunk& chunk, const parquet::ColumnDescriptor& column) const;

  // About what it takes, and what it was the first to need of what is shared.
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  struct Parts;
  explicit Footer(std::shared_ptr<arrow::Buffer> bytes) : bytes_(std::move(bytes)) {}
  bool Read(CompactReader& in, Parts& parts);
  bool ReadRowGroup(CompactReader& in, uint8_t type);

  std::shared_ptr<arrow::Buffer> bytes_;
  std::shared_ptr<const FileKind> kind_;
  std::vector<StoredRowGroup> groups_;
  std::vector<uint32_t> chunks_;  // Where each chunk's ColumnChunk begins.
  std::string_view pairs_;        // The list; empty: none.
  int64_t num_rows_ = 0;
  int64_t memory_bytes_ = 0;
  bool encrypted_ = false;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_FILE_FOOTER_H_
