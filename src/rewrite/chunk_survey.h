// The first look at the pages of an input chunk: what they are, how many rows they have, and what
// their dictionary is good for. Nothing is written.
#ifndef LITHIFY_REWRITE_CHUNK_SURVEY_H_
#define LITHIFY_REWRITE_CHUNK_SURVEY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "rewrite/column_splice.h"
#include "rewrite/input_chunk.h"
#include "rewrite/page_header.h"
#include "rewrite/page_values.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {

// Whether a page of this encoding can be cut and joined with others.
bool Joins(PageEncoding encoding, parquet::Type::type type);

// Whether so many pages are too small to be moved.
bool AreSmall(const ColumnSpliceOptions& options, const InputChunk::Amount& amount);

class ChunkSurvey {
 public:
  // A dictionary, and what its pages turned out to be.
  struct Dictionary {
    // Whether more is asked for than the header: its body, and what its pages make of it.
    bool judged = true;
    std::optional<PageHeader> header;
    std::string body;
    bool packed = true;
    int64_t used = 0;  // Entries, in order, so far.
    bool in_order = true;
    int64_t rows = 0;
    int64_t values = 0;
    bool begins_row = true;
    std::vector<uint32_t> definition;
    std::vector<uint32_t> repetition;
    std::optional<PageStatistics> statistics;  // Of its last page.
  };
  // The options outlive the survey.
  explicit ChunkSurvey(const ColumnSpliceOptions& options) : options_(options) {}

  // Fills in what `pages`, which are the chunk's, tell. Where they do not use the dictionary, it
  // has no header. kUnsupported: left to the recode tier.
  Status Look(PageSource& pages, InputChunk& chunk, Dictionary& dictionary);
  // Makes the one page that stands for all that use the dictionary, if its values are their own and
  // it is not small.
  bool Unfold(InputChunk& chunk, const Dictionary& dictionary) const;

 private:
  Status KeepDictionary(const RawPage& page, Dictionary& dictionary) const;
  Status LookAtPage(const RawPage& page, InputChunk& chunk, Dictionary& dictionary,
                    InputChunk::Page& seen);
  Status LookAtIndices(const RawPage& page, InputChunk& chunk, Dictionary& dictionary,
                       InputChunk::Page& seen);
  static bool LooksAtLevels(const PageHeader& header, const InputChunk& chunk);
  Status LookAtLevels(const RawPage& page, const InputChunk& chunk, InputChunk::Page& seen);
  Status CheckLevels(const PageHeader& header, const PageParts& parts, const InputChunk& chunk,
                     InputChunk::Page& seen) const;
  bool MayCountUp(const PageHeader& header, const InputChunk& chunk,
                  const Dictionary& dictionary) const;
  Status CountUp(const PageHeader& header, const UnpackedPage& unpacked, const InputChunk& chunk,
                 Dictionary& dictionary);

  const ColumnSpliceOptions& options_;
  std::string unpacked_;
  std::vector<uint32_t> indices_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_CHUNK_SURVEY_H_
