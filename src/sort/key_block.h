// Sorted keys with their rows as a block of few bytes: differences of prefixes and row numbers in
// as many bits as the largest of 128 needs, rests without what they share with the one before, by
// zstd.
//
// Thread safety: a codec serves one thread at a time.
#ifndef LITHIFY_SORT_KEY_BLOCK_H_
#define LITHIFY_SORT_KEY_BLOCK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace lithify::sort {

// `count` keys in ascending order.
struct KeyBlock {
  size_t count = 0;
  std::vector<uint64_t> prefixes;  // These have `count` entries or more.
  std::vector<uint32_t> rows;
  std::string bytes;           // The rests.
  std::vector<uint64_t> ends;  // In `bytes`; empty: no rests.

  void Clear() {
    count = 0;
    prefixes.clear();
    rows.clear();
    bytes.clear();
    ends.clear();
  }
  std::string_view rest(size_t i) const {
    if (ends.empty()) return {};
    const uint64_t begin = i == 0 ? 0 : ends[i - 1];
    return {bytes.data() + begin, ends[i] - begin};
  }
};

class KeyBlockCodec {
 public:
  KeyBlockCodec();
  ~KeyBlockCodec();
  KeyBlockCodec(KeyBlockCodec&&) noexcept;

  // Replaces `out`. kInternal: zstd failed.
  Status Encode(const KeyBlock& block, std::vector<uint8_t>& out);
  // kCorrupt: not what Encode() makes.
  Status Decode(std::span<const uint8_t> bytes, KeyBlock& out);
  // For bytes that are on the way from or to a file: whatever was in it is lost by the next use.
  std::vector<uint8_t>& scratch() { return scratch_; }
  // Of an encoded block.
  static uint64_t Checksum(std::span<const uint8_t> bytes);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
    void operator()(ZSTD_DCtx_s* context) const;
  };
  Status EncodeRests(const KeyBlock& block, std::vector<uint8_t>& out);
  Status DecodeRests(std::span<const uint8_t> bytes, size_t count, KeyBlock& out);

  std::unique_ptr<ZSTD_CCtx_s, Free> pack_;
  std::unique_ptr<ZSTD_DCtx_s, Free> unpack_;
  std::vector<uint64_t> numbers_;
  std::string bytes_;
  std::vector<uint8_t> scratch_;
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_BLOCK_H_
