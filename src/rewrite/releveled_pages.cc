#include "rewrite/releveled_pages.h"

#include "base/text.h"
#include "rewrite/page_values.h"

namespace lithify::rewrite {
namespace {

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<bool> ReleveledPages::Next(RawPage* page) {
  LITHIFY_TRY_ASSIGN(const bool more, pages_->Next(page));
  if (more && page->header.is_data() && page->header.num_values > 0) LITHIFY_TRY(Relevel(page));
  return more;
}

Status ReleveledPages::Relevel(RawPage* page) {
  PageHeader& header = page->header;
  const bool v2 = header.type == PageType::kDataV2;
  PageParts parts;
  int64_t unpacked_bytes = header.uncompressed_page_size;
  if (v2) {
    LITHIFY_TRY_ASSIGN(parts, TakeApart(header, page->body, shape_));
  } else {
    LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked, UnpackPage(*page, shape_, codec_, &unpacked_));
    parts = unpacked.parts;
    parts.values = unpacked.values;
    unpacked_bytes = std::ssize(parts.levels) + std::ssize(parts.values);
  }
  levels_.clear();
  LITHIFY_TRY(AppendMappedHybrid(parts.definition, BitWidth(static_cast<uint32_t>(map_.size()) - 1),
                                 header.num_values, map_,
                                 BitWidth(static_cast<uint32_t>(definition_max_)), &levels_));
  body_.clear();
  if (v2) {
    body_ += TextOf(parts.repetition);
  } else if (shape_.repetition_max > 0) {
    AppendWithLength(TextOf(parts.repetition), &body_);
  }
  if (v2) {
    body_ += levels_;
    header.repetition_levels_byte_length = static_cast<int32_t>(parts.repetition.size());
    header.definition_levels_byte_length = static_cast<int32_t>(levels_.size());
  } else {
    AppendWithLength(levels_, &body_);
  }
  unpacked_bytes += std::ssize(body_) - std::ssize(parts.levels);
  body_ += TextOf(parts.values);
  header.uncompressed_page_size = static_cast<int32_t>(unpacked_bytes);
  header.crc.reset();
  page->body = BytesOf(body_);
  page->whole = {};
  page->packed = page->packed && v2;
  return {};
}

}  // namespace lithify::rewrite
