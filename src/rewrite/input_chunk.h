// One column chunk of an input on its way into an output chunk: where its pages are, what looking
// at them found, and how they go on.
#ifndef LITHIFY_REWRITE_INPUT_CHUNK_H_
#define LITHIFY_REWRITE_INPUT_CHUNK_H_

#include <arrow/buffer.h>
#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "rewrite/column_splice.h"
#include "rewrite/dictionary_union.h"
#include "rewrite/file_footer.h"
#include "rewrite/index_pages.h"
#include "rewrite/masked_pages.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_codec.h"
#include "rewrite/page_header.h"
#include "rewrite/raw_column.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {

struct InputChunk {
  const InputSource* in = nullptr;
  int group = 0;
  int column = 0;  // Of the input.
  int64_t rows_in_group = 0;
  int64_t rows = 0;       // That survive, once that is known.
  int64_t first_row = 0;  // Of its row group, in the file.
  ChunkRange range;
  PageCodec* codec = nullptr;   // Unpacks its pages.
  bool transcoded = false;      // That is another codec than the output's.
  bool has_dictionary = false;  // As the footer says; the pages decide.
  LevelShape shape;             // Its own.
  // Where more is optional in the output: it has no definition levels here but does there,
  bool widened = false;
  // or what each of them becomes; empty: it stays what it is.
  std::vector<uint32_t> level_map;
  bool trusted = false;                                 // What its pages' headers say of values.
  std::optional<parquet::EncodedStatistics> stated;     // In the footer, where that is enough.
  std::optional<int64_t> nulls;                         // Likewise.
  std::optional<parquet::IndexLocation> index_place;    // Of its column index,
  std::optional<parquet::IndexLocation> offsets_place;  // and of its offset index.
  std::shared_ptr<arrow::Buffer> held;                  // Its bytes; null: to be read again.
  int64_t held_bytes = 0;                               // As they count against the bound.
  bool deletes = false;                                 // Some of its rows are deleted.
  std::unique_ptr<const PageMask> mask;                 // Of these; else null.

  struct Page {
    int64_t rows = 0;
    bool begins_row = true;
    bool has_values = true;  // False: known to have none but nulls.
  };
  std::vector<Page> pages;    // Data pages of the input that have entries.
  bool other_values = false;  // Some values are in no dictionary.
  bool joined = false;        // Its small pages go into larger ones.

  struct Amount {
    int64_t pages = 0;
    int64_t bytes = 0;  // Unpacked.
    int64_t values = 0;
    void Add(const PageHeader& header) {
      ++pages;
      bytes += header.uncompressed_page_size;
      values += header.num_values;
    }
    void Add(const Amount& other) {
      pages += other.pages;
      bytes += other.bytes;
      values += other.values;
    }
  };
  Amount plain;                   // Pages that can be joined or cut as they are.
  Amount rigid;                   // Those that cannot.
  Amount folded;                  // Those that use the dictionary,
  int32_t folded_values_max = 0;  // and the most values of one of these.

  enum class Dictionary { kNone, kUnited, kGathered, kUnfolded };
  Dictionary dictionary = Dictionary::kNone;
  int64_t entries = 0;  // Of the dictionary.
  bool mapped = false;  // They are in the union.
  DictionaryMapping mapping;
  bool after_others = false;     // A page that uses it comes after one with values that does not.
  int64_t dictionary_bytes = 0;  // Unpacked.
  int64_t gathered_bytes = 0;    // About, of the values that the dictionary stands for.
  // The one page that stands for all that use the dictionary.
  struct Unfolded {
    PageHeader header;
    std::string levels;
    RawColumn::Facts facts;
  };
  std::unique_ptr<Unfolded> unfolded;  // Of kUnfolded; else null.

  const parquet::ColumnDescriptor& descriptor() const {
    return *in->footer->schema().Column(column);
  }
};

// Bytes of one PLAIN value as DictionaryUnion has them; nullopt: of booleans.
std::optional<int> PlainBytesOf(const OutputLeaf& leaf);

// What the next tier has to do, the recode tier in the end, and why.
std::unexpected<Error> Leave(std::string why);
// Whether an error of looking at a chunk says no more than that.
bool IsForNextTier(Code code);

// Bytes of a file that changed while it was read.
Error Changed();

// What the footer says of the chunk of `place`, which is `stated`. kUnsupported if its pages are
// not in the file.
Result<InputChunk> DescribeChunk(const InputSource& in, const GroupPlace& place, int leaf,
                                 const StoredChunk& stated, const MergedStatistics& merged);

// The bytes of chunks between the first look at them and the way to the output: in memory where
// there is room, else read again. One thread at a time; the room is shared by all columns.
class ChunkBytes {
 public:
  // The options outlive this.
  explicit ChunkBytes(const ColumnSpliceOptions& options) : options_(options) {}
  ~ChunkBytes() { *options_.hold_bytes += held_bytes_; }
  ChunkBytes(const ChunkBytes&) = delete;
  ChunkBytes& operator=(const ChunkBytes&) = delete;

  // Keeps them, if there is room: to read them once.
  Status Hold(InputChunk& chunk);
  void Release(InputChunk& chunk);
  std::unique_ptr<PageSource> Open(const InputChunk& chunk, bool verify_crc) const;

  // Whether a look at the headers costs less than keeping the bytes, if it takes no more.
  static bool MayGoByHeaders(const InputChunk& chunk);
  // Pages whose bodies are read where they are asked for, and verified when they are written.
  std::unique_ptr<PageSource> OpenHeaders(const InputChunk& chunk) const;

 private:
  const ColumnSpliceOptions& options_;
  int64_t held_bytes_ = 0;
};

// What the input states of the values of a chunk's data pages: in their headers, in its column
// index, or in the footer, of a chunk of one page.
class StatedBounds {
 public:
  // Both outlive this. The chunk has been looked at.
  StatedBounds(const InputChunk& chunk, const MergedStatistics& merged);
  // Nullopt: nothing, or nothing to rely on.
  std::optional<parquet::EncodedStatistics> Of(const RawPage& page) const;
  // The column index, where it is relied on; may be null.
  const parquet::ColumnIndex* index() const { return index_.get(); }

 private:
  const InputChunk& chunk_;
  const MergedStatistics& merged_;
  const bool alone_;                             // What the footer states: it has one page.
  std::unique_ptr<parquet::ColumnIndex> index_;  // May be null.
};

// How many levels and bytes the input states for each data page of a chunk that has been looked at;
// empty: nothing, or what cannot be. `of_chunk` is what is known of the chunk.
std::vector<parquet::SizeStatistics> StatedSizes(const InputChunk& chunk,
                                                 const parquet::ColumnIndex* index,
                                                 const parquet::SizeStatistics& of_chunk);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_INPUT_CHUNK_H_
