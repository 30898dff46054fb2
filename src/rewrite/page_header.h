// Parquet page headers: parquet.thrift's PageHeader in Thrift's compact protocol, read from bytes
// that anybody may have written and written in one canonical form. No Arrow, no Thrift.
//
// Fields that are unknown here are passed over and not kept: a copy of a page that must lose
// nothing copies the header's bytes.
#ifndef LITHIFY_REWRITE_PAGE_HEADER_H_
#define LITHIFY_REWRITE_PAGE_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::rewrite {

inline std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A longer header is refused; Arrow's reader has the same bound.
inline constexpr size_t kPageHeaderBytesMax = size_t{16} << 20;

// Numbers of parquet.thrift. Other numbers are read, too: a page of an unknown type has sizes and a
// checksum only, and readers pass over it.
enum class PageType : int32_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

// Numbers of parquet.thrift; also those that are unknown here are kept.
enum class PageEncoding : int32_t {
  kPlain = 0,
  kPlainDictionary = 2,  // Old name: of dictionary pages kPlain, of data pages kRleDictionary.
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9,
};

// As stored: plain bytes of the column's type, whose order and truth nobody has checked.
struct PageStatistics {
  std::optional<std::string> max;  // The deprecated pair, in the order of signed bytes.
  std::optional<std::string> min;
  std::optional<int64_t> null_count;
  std::optional<int64_t> distinct_count;
  std::optional<std::string> max_value;
  std::optional<std::string> min_value;
  std::optional<bool> is_max_value_exact;
  std::optional<bool> is_min_value_exact;
  std::optional<int64_t> nan_count;
  bool operator==(const PageStatistics&) const = default;
};

struct PageHeader {
  PageType type = PageType::kData;
  int32_t uncompressed_page_size = 0;  // Of the body; the header is in neither size.
  int32_t compressed_page_size = 0;
  std::optional<uint32_t> crc;  // Of the body as stored, V2 levels included; see page_codec.h.

  // Data pages of both versions, and dictionaries.
  int32_t num_values = 0;  // With nulls; of a dictionary its entries.
  PageEncoding encoding = PageEncoding::kPlain;
  // Data pages of both versions.
  std::optional<PageStatistics> statistics;
  // Version 1.
  PageEncoding definition_level_encoding = PageEncoding::kRle;
  PageEncoding repetition_level_encoding = PageEncoding::kRle;
  // Version 2. Writers count nulls of nested columns differently: trust the levels, not num_nulls.
  int32_t num_nulls = 0;
  int32_t num_rows = 0;
  int32_t definition_levels_byte_length = 0;
  int32_t repetition_levels_byte_length = 0;
  bool is_compressed = true;  // The values; the levels never are.
  // Dictionaries.
  std::optional<bool> is_sorted;

  bool operator==(const PageHeader&) const = default;
  bool is_data() const { return type == PageType::kData || type == PageType::kDataV2; }
  // Whether the values of a data page are indices into the chunk's dictionary.
  bool uses_dictionary() const {
    return is_data() &&
           (encoding == PageEncoding::kRleDictionary || encoding == PageEncoding::kPlainDictionary);
  }
  // Bytes of a V2 page before its values: repetition levels, then definition levels.
  int32_t v2_level_bytes() const {
    return repetition_levels_byte_length + definition_levels_byte_length;
  }
};

// Reads the header that `bytes` begin with and returns its length; 0: `bytes` are a proper
// beginning of a header, which needs more bytes. `header` is only changed when a length is
// returned. kCorrupt: no header, whatever follows. kLimit: longer than kPageHeaderBytesMax.
//
// What is returned holds: sizes and counts are not negative; the parts that the type requires are
// there; of a V2 page the levels fit into both sizes, and nulls and rows are no more than values.
// Allocates no more than `bytes` hold.
Result<size_t> ParsePageHeader(std::span<const uint8_t> bytes, PageHeader* header);

// Appends the header in the form that every reader accepts. Fields of other types are left out.
void AppendPageHeader(const PageHeader& header, std::string* out);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_HEADER_H_
