// One column chunk of an input on its way into an output chunk: where its pages are, what looking
// at them found, and how they go on.
#ifndef LITHIFY_REWRITE_INPUT_CHUNK_H_
#define LITHIFY_REWRITE_INPUT_CHUNK_H_

#include <arrow/buffer.h>
#include <parquet/metadata.h>
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
#include "rewrite/index_pages.h"
#include "rewrite/masked_pages.h"
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
  bool has_dictionary = false;                        // As the footer says; the pages decide.
  LevelShape shape;                                   // Its own.
  bool widened = false;                               // Required here, optional in the output.
  bool trusted = false;                               // What its pages' headers say of values.
  std::optional<parquet::EncodedStatistics> stated;   // In the footer, where that is enough.
  std::optional<int64_t> nulls;                       // Likewise.
  std::optional<parquet::IndexLocation> index_place;  // Of its column index.
  std::shared_ptr<arrow::Buffer> held;                // Its bytes; null: to be read again.
  int64_t held_bytes = 0;                             // As they count against the bound.
  bool deletes = false;                               // Some of its rows are deleted.
  std::unique_ptr<const PageMask> mask;               // Of these; else null.

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
    return *in->footer->schema()->Column(column);
  }
};

// Bytes of one PLAIN value as DictionaryUnion has them; nullopt: of booleans.
std::optional<int> PlainBytesOf(const OutputLeaf& leaf);

// What the recode tier has to do, and why.
std::unexpected<Error> Leave(std::string why);

// Bytes of a file that changed while it was read.
Error Changed();

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_INPUT_CHUNK_H_
