#include "rewrite/page_codec.h"

#include <arrow/util/compression.h>
#include <arrow/util/crc32.h>

#include <utility>

#include "rewrite/arrow_io.h"

namespace lithify::rewrite {

uint32_t Crc32(std::span<const uint8_t> bytes, uint32_t before) {
  return arrow::internal::crc32(before, bytes.data(), bytes.size());
}

PageCodec::PageCodec(std::unique_ptr<arrow::util::Codec> codec) : codec_(std::move(codec)) {}
PageCodec::PageCodec(PageCodec&&) noexcept = default;
PageCodec& PageCodec::operator=(PageCodec&&) noexcept = default;
PageCodec::~PageCodec() = default;

Result<PageCodec> PageCodec::Make(arrow::Compression::type codec, std::optional<int> level) {
  if (codec == arrow::Compression::UNCOMPRESSED) return PageCodec(nullptr);
  const int chosen = level.value_or(arrow::util::kUseDefaultCompressionLevel);
  auto made = arrow::util::Codec::Create(codec, chosen);
  if (!made.ok()) {
    return Fail(Code::kUnsupported, made.status().message(), "page codec",
                "choose another codec or level");
  }
  return PageCodec(std::move(*made));
}

Status PageCodec::Decompress(std::span<const uint8_t> stored, int64_t size, std::string* out) {
  if (size < 0) return Fail(Code::kCorrupt, "a page of negative size", "page body");
  if (codec_ == nullptr) {
    if (stored.size() != static_cast<size_t>(size)) {
      return Fail(Code::kCorrupt,
                  "an uncompressed page of " + std::to_string(stored.size()) +
                      " bytes, its header says " + std::to_string(size),
                  "page body", "restore the file from its source");
    }
    out->append(reinterpret_cast<const char*>(stored.data()), stored.size());
    return {};
  }
  // Some writers store nothing for a V2 page of nulls, others an empty frame.
  if (size == 0) return {};
  Status status;
  const size_t before = out->size();
  out->resize_and_overwrite(before + static_cast<size_t>(size), [&](char* data, size_t) {
    const auto got = codec_->Decompress(static_cast<int64_t>(stored.size()), stored.data(), size,
                                        reinterpret_cast<uint8_t*>(data) + before);
    if (got.ok() && *got == size) return before + static_cast<size_t>(size);
    status = Fail(Code::kCorrupt,
                  got.ok() ? "unpacks to " + std::to_string(*got) + " bytes, its header says " +
                                 std::to_string(size)
                           : got.status().message(),
                  "page body", "restore the file from its source");
    return before;
  });
  return status;
}

Result<int64_t> PageCodec::Compress(std::span<const uint8_t> plain, std::string* out) {
  const auto size = static_cast<int64_t>(plain.size());
  if (codec_ == nullptr) {
    out->append(reinterpret_cast<const char*>(plain.data()), plain.size());
    return size;
  }
  const int64_t room = codec_->MaxCompressedLen(size, plain.data());
  Result<int64_t> packed{0};
  const size_t before = out->size();
  out->resize_and_overwrite(before + static_cast<size_t>(room), [&](char* data, size_t) {
    const auto got =
        codec_->Compress(size, plain.data(), room, reinterpret_cast<uint8_t*>(data) + before);
    if (!got.ok()) {
      packed = Fail(FromArrow(got.status()).In("page body"));
      return before;
    }
    packed = *got;
    return before + static_cast<size_t>(*got);
  });
  return packed;
}

}  // namespace lithify::rewrite
