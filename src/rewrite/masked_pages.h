// The pages of a column chunk without the rows that are deleted (R093): pages without such rows
// come as they are, pages of such rows alone do not come, and of the others the rows are left out
// of levels and values. Dictionary entries that only deleted rows used go with them: what is
// deleted must not live on in a dictionary.
#ifndef LITHIFY_REWRITE_MASKED_PAGES_H_
#define LITHIFY_REWRITE_MASKED_PAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/position_set.h"
#include "base/result.h"
#include "rewrite/page_values.h"
#include "rewrite/raw_pages.h"
#include "rewrite/row_mask.h"

namespace lithify::rewrite {

struct MaskedChunk {
  LevelShape shape;  // Of the column in the input.
  PlainForm form;
  const PositionSet* deleted = nullptr;  // Of the whole file.
  int64_t first_row = 0;                 // Of the row group, in the file.
  int64_t rows = 0;                      // Of the row group.
  int64_t page_bytes_max = 0;            // A larger page is not unpacked: kUnsupported.
};

// What is to be left out of each page of one chunk; found by a look at all of them.
class PageMask {
 public:
  // kUnsupported: pages that are not taken apart, for they begin within a row, or some of their
  // values, which have no plain form, are to go. kCorrupt: also if the pages have other rows than
  // the row group. The rows that are left out are counted page by page, and are all of those that
  // are deleted (R100).
  static Result<PageMask> Make(const MaskedChunk& chunk, PageSource& pages, PageCodec& codec);

  int64_t rows() const { return rows_; }  // That survive.
  int64_t rows_left() const { return chunk_.rows - rows_; }
  // Entries that survive, and how many of them are null. The latter for columns with repetition
  // levels only; else -1.
  int64_t entries() const { return entries_; }
  int64_t nulls() const { return nulls_; }
  int64_t data_pages() const { return std::ssize(pages_); }  // Of the input.
  // Whether pages with surviving rows use the dictionary. If none does, nobody is told of it.
  bool uses_dictionary() const { return uses_dictionary_; }
  // Whether the dictionary stays whole though entries are not used: it is of so many values, used
  // in any order, that it will hardly be of use in the output. Nobody may write it.
  bool keeps_unused() const { return keeps_unused_; }

 private:
  friend class MaskedPages;
  enum class Fate { kKept, kDropped, kCut };
  struct Page {
    Fate fate = Fate::kKept;
    int64_t first_row = 0;  // In the file.
    int64_t rows = 0;
  };
  class Maker;

  MaskedChunk chunk_;
  std::vector<Page> pages_;  // Data pages of the input, empty ones included.
  int64_t rows_ = 0;
  int64_t entries_ = 0;
  int64_t nulls_ = -1;
  // Of the dictionary, if pages that survive use one.
  bool uses_dictionary_ = false;
  int64_t dictionary_entries_ = 0;
  std::vector<EntryRange> used_;      // Entries that survive.
  std::vector<uint32_t> renumbered_;  // Where each goes; empty: all survive.
  int64_t used_entries_ = 0;
  bool keeps_unused_ = false;
};

// Told what becomes of the values, where somebody wants to know.
class MaskWitness {
 public:
  virtual ~MaskWitness() = default;
  // Bounds that the input states of a page and that are values of it; else nullopt.
  struct Stated {
    std::string min;
    std::string max;
  };
  virtual std::optional<Stated> StatedOf(const RawPage& page) = 0;
  // Bounds of values that survive, and of some that do not. Those of a dictionary stand for all
  // pages that use it.
  virtual void OnValues(const ValueBounds& kept, const ValueBounds& left) = 0;
  // Nulls that were left out with some of a page's rows.
  virtual void OnNullsLeft(int64_t nulls) = 0;
  // A page that comes as it is, or does not come; of one that uses a dictionary the values are
  // told by OnValues().
  virtual Status OnKept(const RawPage& page) = 0;
  virtual Status OnDropped(const RawPage& page) = 0;
};

// Of one page, what survives of its entries. The spans live until the next call of Find().
class KeptEntries {
 public:
  // `first_row`: of the page, in the file.
  Status Find(const MaskedChunk& chunk, int64_t first_row, const PageHeader& header,
              const PageParts& parts);

  std::span<const EntryRange> values() const { return values_; }  // Among those present.
  int64_t entries() const { return entry_count_; }
  int64_t present() const { return value_count_; }
  // Appends the hybrids of the levels that survive; nothing for a maximum of 0.
  void AppendRepetition(std::string* out) const { AppendLevels(repetition_, repetition_max_, out); }
  void AppendDefinition(std::string* out) const { AppendLevels(definition_, definition_max_, out); }

 private:
  void AppendLevels(const std::vector<uint32_t>& levels, int max, std::string* out) const;

  RowMask rows_;
  std::span<const EntryRange> ranges_;
  std::vector<EntryRange> values_;
  int64_t entry_count_ = 0;
  int64_t value_count_ = 0;
  int definition_max_ = 0;
  int repetition_max_ = 0;
  std::vector<uint32_t> definition_;  // Of all the page's entries; empty: all are the maximum.
  std::vector<uint32_t> repetition_;
  std::vector<int16_t> repetition_short_;
};

// One thread at a time. Pages that had to be changed come with RawPage::packed false; where a
// witness is given, their headers state bounds and nulls as they are now, also that of a
// dictionary. Without one, those of pages from which rows were left out state nothing, and larger
// ones of flat columns without a dictionary have no body, and a size that is about right: whoever
// only looks needs no more.
class MaskedPages final : public PageSource {
 public:
  // `pages`: from the first one on, those that the mask was made of; kCorrupt if they changed.
  // The mask, the codec and the witness, which may be null, outlive this.
  MaskedPages(const PageMask& mask, std::unique_ptr<PageSource> pages, PageCodec& codec,
              ValueOrder order, MaskWitness* witness);

  Result<bool> Next(RawPage* page) override;

 private:
  Result<bool> TakeDictionary(RawPage* page);
  Status Cut(const PageMask::Page& plan, RawPage* page);
  Status Renumber(RawPage* page);
  bool MaySketch(const PageHeader& header) const;
  void Sketch(const PageMask::Page& plan, RawPage* page) const;
  Status AppendValues(const RawPage& page, const UnpackedPage& unpacked);
  Status AppendIndicesOf(const RawPage& page, const UnpackedPage& unpacked);
  void TellIndices(const RawPage& page);
  bool TakeStated(const RawPage& page, const ValueBounds& left);
  std::string_view Entry(size_t i) const;
  void Made(RawPage* page, std::span<const uint8_t> body) const;
  void State(int64_t nulls, PageHeader& header) const;

  const PageMask& mask_;
  const std::unique_ptr<PageSource> pages_;
  PageCodec& codec_;
  const ValueOrder order_;
  MaskWitness* const witness_;
  size_t at_ = 0;  // Of the next data page.
  KeptEntries kept_;
  std::string dictionary_;             // The entries that survive, if the witness is told of them.
  std::vector<size_t> dictionary_at_;  // Where each begins; one more.
  ValueBounds bounds_;                 // Of the page at hand.
  // Used again and again.
  std::string unpacked_;
  std::string plain_;
  std::string kept_values_;
  std::string left_values_;
  std::string body_;
  std::vector<uint32_t> indices_;
  std::vector<char> seen_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_MASKED_PAGES_H_
