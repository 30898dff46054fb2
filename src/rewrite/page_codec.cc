#include "rewrite/page_codec.h"

#include <arrow/util/compression.h>
#include <libdeflate.h>
#include <zstd.h>

#include <new>
#include <utility>

#include "rewrite/arrow_io.h"

namespace lithify::rewrite {
namespace {

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

ZSTD_DCtx* ThreadsDecompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  if (context == nullptr) throw std::bad_alloc();
  return context.get();
}

ZSTD_CCtx* ThreadsCompressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  if (context == nullptr) throw std::bad_alloc();
  return context.get();
}

Result<int64_t> FromZstd(size_t result) {
  if (ZSTD_isError(result)) return Fail(Code::kCorrupt, ZSTD_getErrorName(result));
  return static_cast<int64_t>(result);
}

}  // namespace

uint32_t Crc32(std::span<const uint8_t> bytes, uint32_t before) {
  // With the processor's carry-less multiplication; a null pointer would begin anew.
  return bytes.empty() ? before : libdeflate_crc32(before, bytes.data(), bytes.size());
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

Result<int64_t> PageCodec::Unpack(std::span<const uint8_t> stored, std::span<uint8_t> out) {
  if (codec_->compression_type() == arrow::Compression::ZSTD) {
    return FromZstd(ZSTD_decompressDCtx(ThreadsDecompressor(), out.data(), out.size(),
                                        stored.data(), stored.size()));
  }
  const auto got = codec_->Decompress(static_cast<int64_t>(stored.size()), stored.data(),
                                      static_cast<int64_t>(out.size()), out.data());
  if (!got.ok()) return Fail(Code::kCorrupt, got.status().message());
  return *got;
}

Result<int64_t> PageCodec::Pack(std::span<const uint8_t> plain, std::span<uint8_t> out) {
  if (codec_->compression_type() == arrow::Compression::ZSTD) {
    return FromZstd(ZSTD_compressCCtx(ThreadsCompressor(), out.data(), out.size(), plain.data(),
                                      plain.size(), codec_->compression_level()));
  }
  const auto got = codec_->Compress(static_cast<int64_t>(plain.size()), plain.data(),
                                    static_cast<int64_t>(out.size()), out.data());
  if (!got.ok()) return Fail(FromArrow(got.status()));
  return *got;
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
    const auto got =
        Unpack(stored, {reinterpret_cast<uint8_t*>(data) + before, static_cast<size_t>(size)});
    if (got && *got == size) return before + static_cast<size_t>(size);
    status = Fail(Code::kCorrupt,
                  got ? "unpacks to " + std::to_string(*got) + " bytes, its header says " +
                            std::to_string(size)
                      : got.error().message,
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
    packed = Pack(plain, {reinterpret_cast<uint8_t*>(data) + before, static_cast<size_t>(room)});
    if (packed) return before + static_cast<size_t>(*packed);
    packed = Fail(std::move(packed.error()).In("page body"));
    return before;
  });
  return packed;
}

}  // namespace lithify::rewrite
