// Page bodies: checksum and compression.
#ifndef LITHIFY_REWRITE_PAGE_CODEC_H_
#define LITHIFY_REWRITE_PAGE_CODEC_H_

#include <arrow/util/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace lithify::rewrite {

// CRC-32 with gzip's polynomial, as page headers have it: of a page's body as stored. `before` is
// the checksum of the bytes that precede these.
uint32_t Crc32(std::span<const uint8_t> bytes, uint32_t before = 0);

// One codec of page bodies. One thread at a time. What zstd needs besides, each thread makes once
// and keeps: making it anew costs more than a small page.
class PageCodec {
 public:
  // `level` is the codec's own scale; nullopt: its default. kUnsupported: not built in.
  static Result<PageCodec> Make(arrow::Compression::type codec, std::optional<int> level = {});
  PageCodec(PageCodec&&) noexcept;
  PageCodec& operator=(PageCodec&&) noexcept;
  ~PageCodec();

  // Appends what `stored` unpacks to, which must be exactly `size` bytes: kCorrupt otherwise, and
  // `out` is as before. The caller has bounded `size`.
  Status Decompress(std::span<const uint8_t> stored, int64_t size, std::string* out);
  // The same into `out`, all of it, whose content is undefined after an error.
  Status DecompressTo(std::span<const uint8_t> stored, std::span<uint8_t> out);
  // Appends `plain` packed; returns how many bytes that were.
  Result<int64_t> Compress(std::span<const uint8_t> plain, std::string* out);

 private:
  PageCodec(arrow::Compression::type type, int level, std::unique_ptr<arrow::util::Codec> codec);
  Result<int64_t> Unpack(std::span<const uint8_t> stored, std::span<uint8_t> out);
  Result<int64_t> Pack(std::span<const uint8_t> plain, std::span<uint8_t> out);
  int64_t PackedBytesMax(std::span<const uint8_t> plain) const;

  arrow::Compression::type type_;
  int level_;                                  // Of zstd.
  std::unique_ptr<arrow::util::Codec> codec_;  // Null for zstd, and where bodies are not packed.
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PAGE_CODEC_H_
