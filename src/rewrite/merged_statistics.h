// Statistics of column chunks that become one chunk without being decoded: what the inputs state,
// merged, where all of them state it and it can be relied on. Absent rather than wrong (P3, P17).
#ifndef LITHIFY_REWRITE_MERGED_STATISTICS_H_
#define LITHIFY_REWRITE_MERGED_STATISTICS_H_

#include <parquet/page_index.h>
#include <parquet/schema.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rewrite/file_footer.h"
#include "rewrite/page_header.h"

namespace lithify::rewrite {

// Bounds, order and counts of one output column.
class MergedStatistics {
 public:
  // `column` outlives this; it is the output's, in whose order the bounds are.
  explicit MergedStatistics(const parquet::ColumnDescriptor* column);

  // What a chunk of a file with this footer states of its values.
  struct Stated {
    bool trusted = false;  // Bounds that the writer of this file stated are in the output's order.
    std::optional<parquet::EncodedStatistics> bounds;  // Or that all is null; else it says neither.
    std::optional<int64_t> nulls;                      // Nullopt: not stated, or they cannot be.
  };
  Stated OfChunk(const Footer& footer, const StoredChunk& chunk,
                 const parquet::ColumnDescriptor& input) const;

  // One more chunk, with what OfChunk() told of it. A chunk without values changes nothing.
  // `definition_map`: what each of its definition levels becomes, the last one the output's last.
  void Add(const StoredChunk& chunk, const std::optional<parquet::EncodedStatistics>& bounds,
           const std::optional<int64_t>& nulls, std::span<const int16_t> definition_map);
  // Likewise, of a chunk of which only some rows go on: what is known of those, and how many
  // entries they have.
  void AddPart(parquet::EncodedStatistics stated, int64_t values, bool required);

  // Of all chunks added; a bound longer than `bytes_max` is left out, as Arrow's writer does.
  parquet::EncodedStatistics statistics(size_t bytes_max) const;
  // Nothing set where not all chunks have them.
  parquet::SizeStatistics sizes() const;

  // What a page with this header states; nullopt where `trusted` is false or it says too little for
  // a column index: bounds, or that all is null. `required`: the input's column is.
  std::optional<parquet::EncodedStatistics> OfPage(const PageHeader& header, bool trusted,
                                                   bool required = false) const;
  // What a column index states of one of its pages, likewise; the index is one that is trusted.
  std::optional<parquet::EncodedStatistics> OfIndexed(const parquet::ColumnIndex& index,
                                                      size_t page, int64_t values,
                                                      bool required = false) const;

  // Makes the bounds of `into` those of both.
  void Widen(parquet::EncodedStatistics& into, const parquet::EncodedStatistics& other) const;

 private:
  struct Bound {
    std::string value;
    std::optional<bool> exact;
  };
  // Whether bounds of this column of such a file are in the output's order.
  bool KnowsOrder(const Footer& footer, const parquet::ColumnDescriptor& input) const;
  bool IsBound(const std::string& value) const;
  bool Less(const std::string& a, const std::string& b) const;
  // Takes out of `stated` what cannot be; true if it has bounds, or says that all is null.
  bool Clean(parquet::EncodedStatistics& stated, int64_t values, bool required) const;
  void AddStated(parquet::EncodedStatistics stated, int64_t values, bool required);
  void AddSizes(const StoredChunk& chunk, std::span<const int16_t> definition_map);

  const parquet::ColumnDescriptor* const column_;
  const std::shared_ptr<parquet::Comparator> comparator_;  // Null: values have no order.
  bool nulls_known_ = true;
  int64_t nulls_ = 0;
  bool bounds_known_ = true;
  std::optional<Bound> min_;
  std::optional<Bound> max_;
  bool sizes_known_[3] = {true, true, true};  // Definition and repetition levels, bytes.
  parquet::SizeStatistics sizes_;
};

// Of one page that is made of several pieces.
class PageBounds {
 public:
  // Null: bounds are unknown.
  explicit PageBounds(const MergedStatistics* order) : order_(order) {}

  // A piece that has values. Null: its bounds are unknown.
  void Add(const parquet::EncodedStatistics* piece);
  // What a column index says of the page, which has so many entries and values; nullopt: nothing.
  // From then on it is another page.
  std::optional<parquet::EncodedStatistics> Take(int64_t entries, int64_t values);

 private:
  const MergedStatistics* order_;
  bool known_ = true;
  std::optional<parquet::EncodedStatistics> bounds_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_MERGED_STATISTICS_H_
