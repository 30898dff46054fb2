// A data page unpacked, and its values in PLAIN form and back.
#ifndef LITHIFY_REWRITE_PAGE_VALUES_H_
#define LITHIFY_REWRITE_PAGE_VALUES_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "rewrite/index_pages.h"
#include "rewrite/page_codec.h"
#include "rewrite/plain_values.h"
#include "rewrite/raw_pages.h"

namespace lithify::rewrite {

// Spans point into the page or into the buffer.
struct UnpackedPage {
  PageParts parts;                  // But for its values, which may be packed.
  std::span<const uint8_t> values;  // Unpacked.
};

// Unpacks a data page into `buffer`, whose content is replaced.
Result<UnpackedPage> UnpackPage(const RawPage& page, const LevelShape& shape, PageCodec& codec,
                                std::string* buffer);

// Whether ToPlain() and AppendEncoded() know the encoding; not those of a dictionary.
bool HasPlainForm(PageEncoding encoding, const PlainForm& form);
// The `count` values of a page in PLAIN form: themselves, or in `buffer`. kCorrupt: cut off.
Result<std::span<const uint8_t>> ToPlain(PageEncoding encoding, const PlainForm& form,
                                         std::span<const uint8_t> values, int64_t count,
                                         std::string* buffer);
// Appends the `count` values in PLAIN form as a page of this encoding has them.
void AppendEncoded(PageEncoding encoding, const PlainForm& form, std::span<const uint8_t> plain,
                   int64_t count, std::string* out);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_VALUES_H_
