// Statistics of a column chunk from which rows were left out: bounds are those of the rows that
// survive, or absent. Loose ones would do for skipping, but engines answer MIN and MAX from the
// bounds that a table's metadata has of its files, and a deleted value must not live on in them.
#ifndef LITHIFY_REWRITE_MASKED_STATISTICS_H_
#define LITHIFY_REWRITE_MASKED_STATISTICS_H_

#include <parquet/schema.h>
#include <parquet/statistics.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rewrite/masked_pages.h"

namespace lithify::rewrite {

// How the column's values lie in PLAIN pages.
PlainForm FormOf(const parquet::ColumnDescriptor& column);
ValueOrder OrderOf(const parquet::ColumnDescriptor& column);

// Sees all pages of one chunk through MaskedPages, then says what the rest holds.
class MaskedStatistics final : public MaskWitness {
 public:
  // What the input states of one of its data pages, where it can be relied on.
  using OfPage = std::function<std::optional<parquet::EncodedStatistics>(const RawPage&)>;
  using Reopen = std::function<std::unique_ptr<PageSource>()>;

  // `stated`: of the whole chunk as it was, likewise, with the bounds in the output's order; what
  // it has not is unknown. The codec outlives this.
  MaskedStatistics(const MaskedChunk& chunk, ValueOrder order, parquet::EncodedStatistics stated,
                   OfPage of_page, PageCodec& codec);

  std::optional<Stated> StatedOf(const RawPage& page) override;
  void OnValues(const ValueBounds& kept, const ValueBounds& left) override;
  void OnNullsLeft(int64_t nulls) override { nulls_left_ += nulls; }
  Status OnKept(const RawPage& page) override;
  Status OnDropped(const RawPage& page) override;

  // Pages that are whole are only read again, by `reopen`, where the bound of the chunk may have
  // been the value of a deleted row.
  Result<parquet::EncodedStatistics> Finish(const PageMask& mask, const Reopen& reopen);

 private:
  struct Bound {
    std::string value;
    std::optional<bool> exact;
  };
  std::optional<Bound> Resolve(bool lower) const;
  Status ReadAgain(PageSource& pages);

  const MaskedChunk chunk_;
  const parquet::EncodedStatistics stated_;
  const OfPage of_page_;
  PageCodec& codec_;
  ValueBounds kept_;
  ValueBounds left_;
  bool left_known_ = true;
  bool dropped_indices_ = false;  // Pages that use the dictionary are among those dropped.
  int64_t nulls_left_ = 0;
  bool nulls_known_ = true;
  std::vector<int64_t>
      unknown_;  // Ordinals of pages that are whole and whose bounds are not known.
  std::string unpacked_;
  std::string plain_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_MASKED_STATISTICS_H_
