#include "rewrite/column_move.h"

#include <parquet/bloom_filter.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <limits>
#include <string>
#include <utility>

#include "rewrite/chunk_survey.h"
#include "rewrite/input_chunk.h"
#include "rewrite/merged_statistics.h"
#include "rewrite/page_codec.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {
namespace {

// Filters stay in memory until the file is complete.
constexpr int64_t kFilterBytesMax = 4 << 20;

const LeafSource& SourceOf(const InputSource& in, const ColumnSpliceOptions& options) {
  return in.leaves[static_cast<size_t>(options.leaf)];
}

class ColumnMove final : public ColumnSplice {
 public:
  ColumnMove(const ColumnSpliceOptions& options, PageCodec codec)
      : options_(options),
        codec_(std::move(codec)),
        merged_(options.column),
        survey_(options_),
        bytes_(options_) {
    // It is taken along: no page has to be unpacked for it.
    options_.bloom_filter = false;
    counts_.moved = 1;
  }

  // An error of code kUnsupported, kCorrupt or kLimit: it is for the next tier.
  Status Survey(const InputSource& in, const GroupPlace& place, bool with_filter) {
    const StoredChunk stated = in.footer->Chunk(place.group, SourceOf(in, options_).input_leaf);
    LITHIFY_TRY_ASSIGN(chunk_, DescribeChunk(in, place, options_.leaf, stated, merged_));
    chunk_.codec = &codec_;
    merged_.Add(stated, chunk_.stated, chunk_.nulls, SourceOf(in, options_).definition_map);
    if (with_filter) LITHIFY_TRY(TakeFilter(stated));
    const bool by_headers = ChunkBytes::MayGoByHeaders(chunk_);
    if (!by_headers) LITHIFY_TRY(bytes_.Hold(chunk_));
    const auto look = by_headers ? bytes_.OpenHeaders(chunk_) : bytes_.Open(chunk_, true);
    ChunkSurvey::Dictionary dictionary;
    dictionary.judged = false;
    LITHIFY_TRY(survey_.Look(*look, chunk_, dictionary));
    if (options_.plain_only && chunk_.folded.pages > 0) return Leave("a dictionary is unwanted");
    if (chunk_.after_others) return Leave("its dictionary comes after other values");
    InputChunk::Amount pages = chunk_.plain;
    pages.Add(chunk_.rigid);
    pages.Add(chunk_.folded);
    return AreSmall(options_, pages) ? Leave("its pages are small") : Status();
  }

  bool moves_only() const override { return true; }
  const SpliceCounts& counts() const override { return counts_; }
  int64_t rows_dropped() const override { return 0; }
  std::string current_input() const override {
    return chunk_.in == nullptr ? std::string() : chunk_.in->key;
  }

  Status Write(RawColumn& to) override {
    if (filter_) PutFilter(to);
    // What was kept has been verified.
    const auto pages = bytes_.Open(chunk_, chunk_.held == nullptr);
    const StatedBounds stated(chunk_, merged_);
    const std::vector<parquet::SizeStatistics> sizes =
        StatedSizes(chunk_, stated.index(), merged_.sizes());
    size_t at = 0;
    RawPage page;
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool more, pages->Next(&page));
      if (!more) break;
      if (!page.header.is_data()) {
        if (chunk_.folded.pages > 0) to.WriteDictionary(page.header, page.body);
        continue;
      }
      // Some readers take an empty page for the end of the chunk.
      if (page.header.num_values == 0) continue;
      if (at == chunk_.pages.size()) return Fail(Changed());
      const InputChunk::Page& seen = chunk_.pages[at];
      const auto bounds = stated.Of(page);
      if (!chunk_.trusted) page.header.statistics.reset();
      to.WriteData(page.header, page.body, {},
                   {seen.rows, seen.begins_row, bounds ? &*bounds : nullptr,
                    sizes.empty() ? nullptr : &sizes[at]});
      ++at;
    }
    if (at != chunk_.pages.size()) return Fail(Changed());
    bytes_.Release(chunk_);
    to.SetStatistics(merged_.statistics(options_.statistics_bytes_max), merged_.sizes());
    return {};
  }

 private:
  // The input's filter holds for the chunk wherever its values go (P19).
  Status TakeFilter(const StoredChunk& stated) {
    const InputSource& in = *chunk_.in;
    const int64_t offset = stated.bloom_filter_offset.value_or(-1);
    if (offset < 0 || offset >= in.size) return Leave("its filter is not in the file");
    constexpr int64_t kHeaderBytesMax = 1024;
    const int64_t bytes = std::min(in.size - offset, kFilterBytesMax + kHeaderBytesMax);
    const auto stream = arrow::io::RandomAccessFile::GetStream(in.file, offset, bytes);
    if (!stream.ok()) return Fail(FromArrow(stream.status()));
    const parquet::ReaderProperties properties(options_.pool->hard());
    filter_ = parquet::BlockSplitBloomFilter::Deserialize(properties, stream->get());
    return {};
  }

  void PutFilter(RawColumn& to) {
    auto* filter = dynamic_cast<parquet::BlockSplitBloomFilter*>(to.bloom_filter());
    if (filter == nullptr) throw parquet::ParquetException("a filter of an unknown kind");
    *filter = std::move(*filter_);
    filter_.reset();
  }

  ColumnSpliceOptions options_;
  PageCodec codec_;
  MergedStatistics merged_;
  ChunkSurvey survey_;
  ChunkBytes bytes_;
  InputChunk chunk_;
  SpliceCounts counts_;
  std::optional<parquet::BlockSplitBloomFilter> filter_;
};

}  // namespace

bool MayBeMoved(const InputSource& in, const GroupPlace& place,
                const ColumnSpliceOptions& options) {
  if (!CheckColumn(in, options)) return false;
  const LeafSource& source = SourceOf(in, options);
  // Where more becomes optional, pages get other levels.
  if (std::ssize(source.definition_map) != options.output.definition_max + 1) return false;
  const StoredChunk chunk = in.footer->Chunk(place.group, source.input_leaf);
  if (chunk.codec != options.codec) return false;
  if (options.plain_only && chunk.dictionary_page_offset) return false;
  return !options.bloom_filter || chunk.bloom_filter_offset;
}

Result<std::unique_ptr<ColumnSplice>> SurveyMove(const InputSource& in, const GroupPlace& place,
                                                 const ColumnSpliceOptions& options) {
  LITHIFY_TRY_ASSIGN(PageCodec codec, PageCodec::Make(options.codec, options.codec_level));
  auto move = std::make_unique<ColumnMove>(options, std::move(codec));
  auto looked = GuardParquet("column " + options.output.path,
                             [&] { return move->Survey(in, place, options.bloom_filter); });
  if (looked) return std::unique_ptr<ColumnSplice>(std::move(move));
  if (IsForNextTier(looked.error().code)) return std::unique_ptr<ColumnSplice>();
  return Fail(std::move(looked.error()).In(in.key));
}

}  // namespace lithify::rewrite
