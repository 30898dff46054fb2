#include "fleet/packed.h"

#include <arrow/result.h>
#include <arrow/util/compression.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "fleet/wire.h"

namespace lithify::fleet {
namespace {

constexpr size_t kPackedFrom = 512;  // Below it there is little to gain.
constexpr size_t kHeadBytes = 5;
constexpr int kLevel = 9;

const uint8_t* BytesOf(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

}  // namespace

std::string Packed(std::string text) {
  if (text.size() < kPackedFrom || text.size() > kAnswerBytesMax) return text;
  const auto codec = arrow::util::Codec::Create(arrow::Compression::ZSTD, kLevel);
  if (!codec.ok()) return text;
  const auto size = static_cast<int64_t>(text.size());
  const int64_t room = (*codec)->MaxCompressedLen(size, BytesOf(text));
  std::string packed(kHeadBytes + static_cast<size_t>(room), 'Z');
  for (size_t i = 1; i < kHeadBytes; ++i) {
    packed[i] = static_cast<char>(static_cast<uint64_t>(size) >> (8 * (kHeadBytes - 1 - i)));
  }
  const auto bytes = (*codec)->Compress(size, BytesOf(text), room,
                                        reinterpret_cast<uint8_t*>(packed.data() + kHeadBytes));
  if (!bytes.ok()) return text;
  packed.resize(kHeadBytes + static_cast<size_t>(*bytes));
  return packed.size() < text.size() ? packed : text;
}

Result<std::string> Unpacked(std::string_view bytes) {
  if (!bytes.starts_with('Z')) return std::string(bytes);
  const auto fail = [](Code code, std::string why) {
    return Fail(code, "the worker's answer " + std::move(why), {},
                "run the same version on both sides");
  };
  if (bytes.size() <= kHeadBytes) return fail(Code::kCorrupt, "is cut off");
  uint64_t size = 0;
  for (size_t i = 1; i < kHeadBytes; ++i) size = size << 8 | static_cast<uint8_t>(bytes[i]);
  if (size > kAnswerBytesMax) return fail(Code::kLimit, "is larger than any");
  const auto codec = arrow::util::Codec::Create(arrow::Compression::ZSTD);
  if (!codec.ok()) return fail(Code::kUnsupported, "is packed: " + codec.status().message());
  const std::string_view frame = bytes.substr(kHeadBytes);
  std::string text(static_cast<size_t>(size), '\0');
  const auto unpacked =
      (*codec)->Decompress(static_cast<int64_t>(frame.size()), BytesOf(frame),
                           static_cast<int64_t>(size), reinterpret_cast<uint8_t*>(text.data()));
  if (!unpacked.ok()) return fail(Code::kCorrupt, "cannot be unpacked");
  if (std::cmp_not_equal(*unpacked, size)) return fail(Code::kCorrupt, "has another size");
  return text;
}

}  // namespace lithify::fleet
