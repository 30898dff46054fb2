// Data pages of one output column put together from pieces of input pages, as bytes: unpacked,
// taken apart, appended to the open page; no value is decoded and no array is built.
//
// A page that is made has version 1, levels as runs with their length in front, and either PLAIN
// values or indices into the output's dictionary.
#ifndef LITHIFY_REWRITE_PAGE_BUILDER_H_
#define LITHIFY_REWRITE_PAGE_BUILDER_H_

#include <parquet/statistics.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "rewrite/index_pages.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_header.h"
#include "rewrite/page_numbers.h"
#include "rewrite/raw_column.h"

namespace lithify::rewrite {

// One input data page, unpacked and taken apart by its own levels.
struct PagePiece {
  int64_t entries = 0;  // With nulls: num_values of its header.
  // Its levels are the output's; of a flat column that is required here and optional there, it has
  // none, and all entries are present.
  PageParts parts;
  // Bounds, as far as they are known: of the page, or of anything that has all its values.
  const parquet::EncodedStatistics* statistics = nullptr;
};

// The values of a dictionary page, to be gathered by index.
class PlainDictionary {
 public:
  // `value_bytes` as of PageBuilderOptions. kCorrupt: the page is cut off.
  static Result<PlainDictionary> Make(std::string plain, int64_t entries, int value_bytes);

  int64_t size() const { return entries_; }
  // Without what is behind the last entry.
  std::span<const uint8_t> plain() const;
  // Bytes of the PLAIN values that the indices stand for; each index is less than size().
  int64_t BytesOf(std::span<const uint32_t> indices) const;
  // Writes them; `out` has room for kOverrun bytes more.
  void Gather(std::span<const uint32_t> indices, uint8_t* out) const;
  static constexpr int64_t kOverrun = 32;

 private:
  int value_bytes_ = 0;
  int64_t entries_ = 0;
  size_t bytes_ = 0;
  std::string plain_;              // With kOverrun bytes behind it.
  std::vector<uint32_t> offsets_;  // Of byte arrays, their lengths in front included; one more.
};

struct PageBuilderOptions {
  static constexpr int kBoolean = -1;

  LevelShape shape;        // Of the output.
  int value_bytes = 0;     // Of one value; DictionaryUnion::kByteArray, or kBoolean.
  int64_t page_bytes = 0;  // An open page of so many bytes, or rows, is complete.
  int64_t page_rows = 20'000;
  int64_t page_bytes_max = 0;                    // kLimit if one row has more.
  const MergedStatistics* statistics = nullptr;  // How bounds are merged; null: they are unknown.
};

// Not thread-safe. After an error the builder is of no further use.
class PageBuilder {
 public:
  // What a complete page is given to: header without compressed size and checksum, body unpacked.
  using Sink = std::function<Status(const PageHeader& header, std::span<const uint8_t> body,
                                    const RawColumn::Facts& facts)>;

  PageBuilder(const PageBuilderOptions& options, Sink sink);

  // Add a page to the open one, which is given away where it is complete or of another kind.
  // kCorrupt: values are cut off, or an index is beyond its dictionary.
  //
  // Values that are PLAIN; booleans also RLE.
  Status AddPlain(const PagePiece& piece, PageEncoding encoding);
  // Indices, each to be replaced by mapping[index]; without a mapping they stay what they are.
  Status AddIndices(const PagePiece& piece, int64_t dictionary_size,
                    std::span<const uint32_t> mapping);
  // Indices that become the values they stand for.
  Status AddGathered(const PagePiece& piece, const PlainDictionary& dictionary);
  // Gives away what is open.
  Status Flush();

  bool empty() const { return entries_ == 0; }

 private:
  enum class Kind { kPlain, kBooleans, kIndices };
  class Values;
  class PlainFixed;
  class PlainBytes;
  class Small;
  class Gathered;
  Status Add(const PagePiece& piece, Kind kind, Values& values);
  Status LoadLevels(const PagePiece& piece);
  Status LoadIndices(const PagePiece& piece, int64_t dictionary_size);
  Status AddRows(int64_t rows, Values& values, int64_t& at);
  Status AddEntries(int64_t entries, int64_t rows, Values& values, int64_t& at);
  Result<bool> Fits(int64_t entries, Values& values, int64_t at) const;
  int64_t EntriesOf(int64_t rows, int64_t at) const;
  int64_t PresentIn(int64_t first, int64_t entries) const;
  int64_t OpenBytes() const;
  bool Full() const;

  const PageBuilderOptions options_;
  const Sink sink_;
  // The open page.
  Kind kind_ = Kind::kPlain;
  int64_t entries_ = 0;
  int64_t present_ = 0;
  int64_t rows_ = 0;
  bool begins_row_ = true;
  PageBounds bounds_;
  PageNumbers definition_;
  PageNumbers repetition_;
  std::string plain_;
  PageNumbers numbers_;  // Indices or booleans.
  // Of the piece that is being added.
  std::vector<uint32_t> piece_definition_;  // Empty: all are present.
  std::vector<uint32_t> piece_repetition_;
  std::vector<uint32_t> piece_numbers_;
  const parquet::EncodedStatistics* piece_statistics_ = nullptr;
  std::string body_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_BUILDER_H_
