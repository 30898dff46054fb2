#include "rewrite/page_codec.h"

#include <arrow/util/compression.h>
#include <libdeflate.h>
#include <zstd.h>

#include <cstring>
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

std::unexpected<Error> Wrong(std::string message) {
  return Fail(Code::kCorrupt, std::move(message), "page body", "restore the file from its source");
}

// A body that is not packed has the size that its header states.
Status CheckStored(std::span<const uint8_t> stored, int64_t size) {
  if (std::ssize(stored) == size) return {};
  return Wrong("an uncompressed page of " + std::to_string(stored.size()) +
               " bytes, its header says " + std::to_string(size));
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

PageCodec::PageCodec(arrow::Compression::type type, int level,
                     std::unique_ptr<arrow::util::Codec> codec)
    : type_(type), level_(level), codec_(std::move(codec)) {}
PageCodec::PageCodec(PageCodec&&) noexcept = default;
PageCodec& PageCodec::operator=(PageCodec&&) noexcept = default;
PageCodec::~PageCodec() = default;

Result<PageCodec> PageCodec::Make(arrow::Compression::type codec, std::optional<int> level) {
  if (codec == arrow::Compression::UNCOMPRESSED) return PageCodec(codec, 0, nullptr);
  // Arrow's would make contexts of its own.
  if (codec == arrow::Compression::ZSTD) {
    return PageCodec(codec, level.value_or(ZSTD_defaultCLevel()), nullptr);
  }
  const int chosen = level.value_or(arrow::util::kUseDefaultCompressionLevel);
  auto made = arrow::util::Codec::Create(codec, chosen);
  if (!made.ok()) {
    return Fail(Code::kUnsupported, made.status().message(), "page codec",
                "choose another codec or level");
  }
  return PageCodec(codec, chosen, std::move(*made));
}

Result<int64_t> PageCodec::Unpack(std::span<const uint8_t> stored, std::span<uint8_t> out) {
  if (type_ == arrow::Compression::ZSTD) {
    return FromZstd(ZSTD_decompressDCtx(ThreadsDecompressor(), out.data(), out.size(),
                                        stored.data(), stored.size()));
  }
  const auto got = codec_->Decompress(static_cast<int64_t>(stored.size()), stored.data(),
                                      static_cast<int64_t>(out.size()), out.data());
  if (!got.ok()) return Fail(Code::kCorrupt, got.status().message());
  return *got;
}

Result<int64_t> PageCodec::Pack(std::span<const uint8_t> plain, std::span<uint8_t> out) {
  if (type_ == arrow::Compression::ZSTD) {
    return FromZstd(ZSTD_compressCCtx(ThreadsCompressor(), out.data(), out.size(), plain.data(),
                                      plain.size(), level_));
  }
  const auto got = codec_->Compress(static_cast<int64_t>(plain.size()), plain.data(),
                                    static_cast<int64_t>(out.size()), out.data());
  if (!got.ok()) return Fail(FromArrow(got.status()));
  return *got;
}

int64_t PageCodec::PackedBytesMax(std::span<const uint8_t> plain) const {
  if (type_ == arrow::Compression::ZSTD) {
    return static_cast<int64_t>(ZSTD_compressBound(plain.size()));
  }
  return codec_->MaxCompressedLen(static_cast<int64_t>(plain.size()), plain.data());
}

Status PageCodec::DecompressTo(std::span<const uint8_t> stored, std::span<uint8_t> out) {
  if (type_ == arrow::Compression::UNCOMPRESSED) {
    LITHIFY_TRY(CheckStored(stored, std::ssize(out)));
    if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
    return {};
  }
  // Some writers store nothing for a V2 page of nulls, others an empty frame.
  if (out.empty()) return {};
  const auto got = Unpack(stored, out);
  if (!got) return Wrong(got.error().message);
  if (std::cmp_equal(*got, out.size())) return {};
  return Wrong("unpacks to " + std::to_string(*got) + " bytes, its header says " +
               std::to_string(out.size()));
}

Status PageCodec::Decompress(std::span<const uint8_t> stored, int64_t size, std::string* out) {
  if (size < 0) return Fail(Code::kCorrupt, "a page of negative size", "page body");
  // No memory on the word of a header alone.
  if (type_ == arrow::Compression::UNCOMPRESSED) LITHIFY_TRY(CheckStored(stored, size));
  Status status;
  const size_t before = out->size();
  const auto bytes = static_cast<size_t>(size);
  out->resize_and_overwrite(before + bytes, [&](char* data, size_t) {
    status = DecompressTo(stored, {reinterpret_cast<uint8_t*>(data) + before, bytes});
    return status ? before + bytes : before;
  });
  return status;
}

Result<int64_t> PageCodec::Compress(std::span<const uint8_t> plain, std::string* out) {
  if (type_ == arrow::Compression::UNCOMPRESSED) {
    out->append(reinterpret_cast<const char*>(plain.data()), plain.size());
    return std::ssize(plain);
  }
  const auto room = static_cast<size_t>(PackedBytesMax(plain));
  Result<int64_t> packed{0};
  const size_t before = out->size();
  out->resize_and_overwrite(before + room, [&](char* data, size_t) {
    packed = Pack(plain, {reinterpret_cast<uint8_t*>(data) + before, room});
    if (packed) return before + static_cast<size_t>(*packed);
    packed = Fail(std::move(packed.error()).In("page body"));
    return before;
  });
  return packed;
}

}  // namespace lithify::rewrite
