// The splice tier for one column: the pages of many input chunks become one output chunk, moved as
// they are where that is right, else rebuilt from their bytes (docs/ARCHITECTURE.md, "The rewrite
// engine"):
//   - pages whose values stand for themselves (plain, delta, byte stream split) are copied;
//   - small dictionaries are united, and only the indices of pages whose numbers change are mapped
//     and packed again; levels pass through;
//   - a dictionary that is used exactly once per entry, in order, is the values of a plain page in
//     packed form: it is moved as such;
//   - other dictionaries that are of no use in the output are left out: values are gathered by
//   index
//     into plain pages;
//   - small pages, plain or of united dictionaries, are joined into larger ones (PageBuilder);
//   - of chunks in another codec than the output's, each page is unpacked and packed again.
// Whatever does not fit, or looks odd in any way, is left to the recode tier and its messages.
#ifndef LITHIFY_REWRITE_COLUMN_SPLICE_H_
#define LITHIFY_REWRITE_COLUMN_SPLICE_H_

#include <arrow/util/type_fwd.h>
#include <parquet/schema.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/column_copy.h"
#include "rewrite/raw_column.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// A row group of an input.
struct GroupPlace {
  size_t input = 0;
  int group = 0;
  int64_t first_row = 0;  // Of the file, deleted rows counted.
};

struct ColumnSpliceOptions {
  int leaf = 0;  // Output leaf index.
  OutputLeaf output;
  const parquet::ColumnDescriptor* column = nullptr;  // Of the output.
  arrow::Compression::type codec = arrow::Compression::UNCOMPRESSED;
  std::optional<int> codec_level;
  size_t statistics_bytes_max = 0;
  bool plain_only = false;  // Whether a dictionary is unwanted.
  // Whether the recode tier would make one, as far as it goes.
  bool dictionary_wanted = true;
  // Whether every value has to be known, for a filter (P19).
  bool bloom_filter = false;
  // Pages of a chunk that are smaller on average, in both ways, are joined, or where their encoding
  // forbids it left to the recode tier.
  int64_t page_bytes_min = 0;
  int64_t page_values_min = 0;
  int64_t page_bytes = 0;      // Of pages that are made.
  int64_t page_bytes_max = 0;  // Larger ones are left to the recode tier.
  BoundedPool* pool = nullptr;
  // Bytes of chunks that may stay in memory between the two readings, shared by all columns.
  std::atomic<int64_t>* hold_bytes = nullptr;
};

// How many input chunks went which way; of several, the last one counts.
struct SpliceCounts {
  int64_t moved = 0;       // As they are, by the copy tier (column_move.h).
  int64_t copied = 0;      // Without a dictionary, or with one that all share.
  int64_t transcoded = 0;  // As copied or unfolded, but unpacked and packed in another codec.
  int64_t united = 0;      // Through a dictionary united with others.
  int64_t unfolded = 0;    // Dictionary to plain page.
  int64_t joined = 0;      // Small pages were joined.
  int64_t gathered = 0;    // Indices to the values of their dictionary.
};

class ColumnSplice {
 public:
  virtual ~ColumnSplice() = default;

  // Whether nothing has to be packed again.
  virtual bool moves_only() const = 0;
  virtual const SpliceCounts& counts() const = 0;
  // Deleted rows that are left out, counted page by page.
  virtual int64_t rows_dropped() const = 0;
  // All pages, and what the footer says of the chunk. kCorrupt if the inputs are no longer what
  // they were when they were looked at.
  virtual Status Write(RawColumn& to) = 0;
  // Key of the input that is being read, for messages.
  virtual std::string current_input() const = 0;
};

// Whether values and levels of this column of an input can go on as they are; kUnsupported with a
// few words why not. Of `options`, only the leaf and the output's form play a part.
Status CheckColumn(const InputSource& in, const ColumnSpliceOptions& options);

// Why the inputs' footers leave this column of these row groups to the recode tier; empty: its
// pages decide. None of them is read. Of `options`, those that bound or shape pages play no part.
Result<std::string> WhyFootersForbid(const std::vector<std::unique_ptr<InputSource>>& inputs,
                                     const std::vector<GroupPlace>& places,
                                     const ColumnSpliceOptions& options);

struct SurveyedColumn {
  std::unique_ptr<ColumnSplice> splice;  // Null: the recode tier has to do it.
  std::string why_not;                   // Then why: a few words, of a small set.
};

// Looks at the footers and then at every page of the chunks, in order, and counts their rows
// (R100); row groups without rows are passed over. Of one with deleted rows, only the pages that
// have some are made anew (masked_pages.h). `inputs` and `options.column` outlive the result.
// Errors are those of reading; what is wrong with the pages is no error here.
Result<SurveyedColumn> SurveyColumn(const std::vector<std::unique_ptr<InputSource>>& inputs,
                                    const std::vector<GroupPlace>& places,
                                    const ColumnSpliceOptions& options);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_COLUMN_SPLICE_H_
