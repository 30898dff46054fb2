// The pages of a column chunk with the definition levels of a schema in which more is optional
// (Parquet, "Nested Encoding"): values and repetition levels are what they were.
#ifndef LITHIFY_REWRITE_RELEVELED_PAGES_H_
#define LITHIFY_REWRITE_RELEVELED_PAGES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "rewrite/index_pages.h"
#include "rewrite/page_codec.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {

// One thread at a time. Of a page of version 1 levels and values are packed together: it comes with
// RawPage::packed false. Of one of version 2 the values come as they are stored.
class ReleveledPages final : public PageSource {
 public:
  // `pages` have levels of `shape`; each definition level becomes map[level]. The map rises with
  // every level and ends at `definition_max`, so that what is a value stays one. It and the codec
  // outlive this.
  ReleveledPages(std::unique_ptr<PageSource> pages, const LevelShape& shape,
                 std::span<const uint32_t> map, int definition_max, PageCodec& codec)
      : pages_(std::move(pages)),
        shape_(shape),
        map_(map),
        definition_max_(definition_max),
        codec_(codec) {}

  Result<bool> Next(RawPage* page) override;

 private:
  Status Relevel(RawPage* page);

  const std::unique_ptr<PageSource> pages_;
  const LevelShape shape_;
  const std::span<const uint32_t> map_;
  const int definition_max_;
  PageCodec& codec_;
  // Used again and again.
  std::string unpacked_;
  std::string levels_;
  std::string body_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_RELEVELED_PAGES_H_
