#include "sort/key_block.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace lithify::sort {
namespace {

constexpr size_t kGroup = 128;     // Numbers of one width.
constexpr int kWidestPacked = 56;  // Bits: one read of eight bytes gets them from any bit on.
constexpr size_t kPadding = 8;     // Bytes that such a read may go over the end.
constexpr int kLevel = 1;
constexpr uint64_t kRestBytesMax = uint64_t{1} << 31;  // So many of them never add up to 2^64.
constexpr uint8_t kConsecutive = 1;                    // Rows follow each other.
constexpr uint8_t kRests = 2;
constexpr uint8_t kFromBefore = 0x80;  // With a width: differences of neighbours.

template <typename T>
void Put(T value, std::vector<uint8_t>& out) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

std::unexpected<Error> Corrupt() {
  return Fail(Code::kCorrupt, "a spilled block of sort keys is not as it was written", {},
              "look for disk errors in the kernel log, then run it again");
}

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  template <typename T>
  bool Get(T& value) {
    if (bytes_.size() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return true;
  }
  // Null: there are not so many.
  const uint8_t* Take(size_t size) {
    if (bytes_.size() < size) return nullptr;
    return std::exchange(bytes_, bytes_.subspan(size)).data();
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::span<const uint8_t> bytes_;
};

int Width(const uint64_t* numbers, size_t count) {
  uint64_t all = 0;
  for (size_t i = 0; i < count; ++i) all |= numbers[i];
  const int width = 64 - std::countl_zero(all);
  return width > kWidestPacked ? 64 : width;
}

size_t PackedBytes(size_t count, int width) { return (count * static_cast<size_t>(width) + 7) / 8; }

void PackGroup(const uint64_t* numbers, size_t count, int width, std::vector<uint8_t>& out) {
  const size_t begin = out.size();
  out.resize(begin + PackedBytes(count, width) + kPadding);
  uint8_t* at = out.data() + begin;
  if (width == 64) {
    std::memcpy(at, numbers, count * sizeof(uint64_t));
  } else if (width > 0) {
    uint64_t bits = 0;
    int filled = 0;
    for (size_t i = 0; i < count; ++i) {
      bits |= numbers[i] << filled;
      filled += width;
      if (filled < 64) continue;
      std::memcpy(at, &bits, sizeof(bits));
      at += sizeof(bits);
      filled -= 64;
      bits = filled == 0 ? 0 : numbers[i] >> (width - filled);
    }
    std::memcpy(at, &bits, static_cast<size_t>(filled + 7) / 8);
  }
  out.resize(out.size() - kPadding);
}

// Of bytes that have kPadding more after them.
template <typename F>
void UnpackGroup(const uint8_t* from, size_t count, int width, const F& f) {
  if (width == 0) {
    for (size_t i = 0; i < count; ++i) f(i, uint64_t{0});
    return;
  }
  if (width == 64) {
    for (size_t i = 0; i < count; ++i) {
      uint64_t number;
      std::memcpy(&number, from + i * sizeof(number), sizeof(number));
      f(i, number);
    }
    return;
  }
  const uint64_t mask = (uint64_t{1} << width) - 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t bit = i * static_cast<size_t>(width);
    uint64_t number;
    std::memcpy(&number, from + bit / 8, sizeof(number));
    f(i, (number >> (bit % 8)) & mask);
  }
}

void Pack(std::span<const uint64_t> numbers, std::vector<uint8_t>& out) {
  for (size_t i = 0; i < numbers.size(); i += kGroup) {
    const size_t count = std::min(kGroup, numbers.size() - i);
    const int width = Width(numbers.data() + i, count);
    out.push_back(static_cast<uint8_t>(width));
    PackGroup(numbers.data() + i, count, width, out);
  }
}

// f(i, number) for each of them. False: there is something else.
template <typename F>
bool Unpack(ByteReader& in, size_t numbers, const F& f) {
  for (size_t i = 0; i < numbers; i += kGroup) {
    const size_t count = std::min(kGroup, numbers - i);
    uint8_t width = 0;
    if (!in.Get(width) || (width > kWidestPacked && width != 64)) return false;
    const uint8_t* from = in.Take(PackedBytes(count, width));
    if (from == nullptr || in.left() < kPadding) return false;
    UnpackGroup(from, count, width, [&](size_t j, uint64_t number) { f(i + j, number); });
  }
  return true;
}

uint64_t ZigZag(int64_t number) {
  return (static_cast<uint64_t>(number) << 1) ^ static_cast<uint64_t>(number >> 63);
}

int64_t UnZigZag(uint64_t number) {
  return static_cast<int64_t>(number >> 1) ^ -static_cast<int64_t>(number & 1);
}

// Groups from their least row, or from row to row, whatever takes fewer bits.
void PackRows(std::span<const uint32_t> rows, std::vector<uint8_t>& out) {
  std::array<uint64_t, kGroup> above;
  std::array<uint64_t, kGroup> steps;
  uint32_t before = 0;
  for (size_t i = 0; i < rows.size(); i += kGroup) {
    const std::span<const uint32_t> group = rows.subspan(i, std::min(kGroup, rows.size() - i));
    const uint32_t least = *std::ranges::min_element(group);
    for (size_t j = 0; j < group.size(); ++j) {
      above[j] = group[j] - least;
      steps[j] = ZigZag(int64_t{group[j]} - int64_t{before});
      before = group[j];
    }
    const int width = Width(above.data(), group.size());
    const int step_width = Width(steps.data(), group.size());
    if (step_width < width) {
      out.push_back(static_cast<uint8_t>(step_width | kFromBefore));
      PackGroup(steps.data(), group.size(), step_width, out);
    } else {
      out.push_back(static_cast<uint8_t>(width));
      Put(least, out);
      PackGroup(above.data(), group.size(), width, out);
    }
  }
}

bool UnpackRows(ByteReader& in, std::span<uint32_t> rows) {
  int64_t before = 0;
  for (size_t i = 0; i < rows.size(); i += kGroup) {
    const std::span<uint32_t> group = rows.subspan(i, std::min(kGroup, rows.size() - i));
    uint8_t kind = 0;
    if (!in.Get(kind)) return false;
    const int width = kind & ~kFromBefore;
    uint32_t least = 0;
    if (width > kWidestPacked || ((kind & kFromBefore) == 0 && !in.Get(least))) return false;
    const uint8_t* from = in.Take(PackedBytes(group.size(), width));
    if (from == nullptr || in.left() < kPadding) return false;
    if ((kind & kFromBefore) != 0) {
      UnpackGroup(from, group.size(), width, [&](size_t j, uint64_t step) {
        before += UnZigZag(step);
        group[j] = static_cast<uint32_t>(before);
      });
    } else {
      UnpackGroup(from, group.size(), width, [&](size_t j, uint64_t above) {
        group[j] = least + static_cast<uint32_t>(above);
      });
      before = group.back();
    }
  }
  return true;
}

// How many bytes both begin with.
size_t SameBytes(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t same = 0;
  while (most - same >= 8) {
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a.data() + same, 8);
    std::memcpy(&y, b.data() + same, 8);
    if (x != y) return same + static_cast<size_t>(std::countr_zero(x ^ y)) / 8;
    same += 8;
  }
  while (same < most && a[same] == b[same]) ++same;
  return same;
}

bool AreConsecutive(std::span<const uint32_t> rows) {
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[0] + i) return false;
  }
  return true;
}

}  // namespace

void KeyBlockCodec::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void KeyBlockCodec::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }
KeyBlockCodec::KeyBlockCodec() = default;
KeyBlockCodec::~KeyBlockCodec() = default;
KeyBlockCodec::KeyBlockCodec(KeyBlockCodec&&) noexcept = default;

uint64_t KeyBlockCodec::Checksum(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// How long each is, how many bytes of it are those of the rest before it, and the others.
Status KeyBlockCodec::EncodeRests(const KeyBlock& block, std::vector<uint8_t>& out) {
  for (size_t i = 0; i < block.count; ++i) numbers_[i] = block.rest(i).size();
  Pack(numbers_, out);
  bytes_.clear();
  std::string_view before;
  for (size_t i = 0; i < block.count; ++i) {
    const std::string_view rest = block.rest(i);
    const size_t same = SameBytes(before, rest);
    numbers_[i] = same;
    bytes_.append(rest.substr(same));
    before = rest;
  }
  Pack(numbers_, out);
  const size_t begin = out.size();
  out.resize(begin + ZSTD_compressBound(bytes_.size()));
  if (pack_ == nullptr) pack_.reset(ZSTD_createCCtx());
  if (pack_ == nullptr) return Fail(Code::kLimit, "out of memory: no zstd context");
  const size_t packed = ZSTD_compressCCtx(pack_.get(), out.data() + begin, out.size() - begin,
                                          bytes_.data(), bytes_.size(), kLevel);
  if (ZSTD_isError(packed) != 0U) {
    return Fail(Code::kInternal, std::string("zstd: ") + ZSTD_getErrorName(packed));
  }
  out.resize(begin + packed);
  return {};
}

Status KeyBlockCodec::Encode(const KeyBlock& block, std::vector<uint8_t>& out) {
  out.clear();
  const std::span<const uint32_t> rows(block.rows.data(), block.count);
  const bool consecutive = AreConsecutive(rows);
  const bool rests = !block.ends.empty();
  Put(static_cast<uint32_t>(block.count), out);
  Put(static_cast<uint8_t>((consecutive ? kConsecutive : 0) | (rests ? kRests : 0)), out);
  if (block.count == 0) return {};
  numbers_.resize(block.count);
  for (size_t i = 0; i < block.count; ++i) {
    numbers_[i] = i == 0 ? 0 : block.prefixes[i] - block.prefixes[i - 1];
  }
  Put(block.prefixes[0], out);
  Pack(numbers_, out);
  if (consecutive) {
    Put(rows[0], out);
  } else {
    PackRows(rows, out);
  }
  if (rests) LITHIFY_TRY(EncodeRests(block, out));
  out.resize(out.size() + kPadding);
  return {};
}

Status KeyBlockCodec::Decode(std::span<const uint8_t> bytes, KeyBlock& out) {
  out.Clear();
  ByteReader in(bytes);
  uint32_t count = 0;
  uint8_t flags = 0;
  if (!in.Get(count) || !in.Get(flags) || (flags & ~(kConsecutive | kRests)) != 0) return Corrupt();
  if (count == 0) return {};
  // A group takes a byte at least: a count that is made up does not make up memory.
  if (count / kGroup > in.left()) return Corrupt();
  out.prefixes.resize(count);
  out.rows.resize(count);
  uint64_t prefix = 0;
  if (!in.Get(prefix)) return Corrupt();
  uint64_t* const prefixes = out.prefixes.data();
  if (!Unpack(in, count, [&](size_t i, uint64_t step) { prefixes[i] = prefix += step; })) {
    return Corrupt();
  }
  if ((flags & kConsecutive) != 0) {
    uint32_t first = 0;
    if (!in.Get(first)) return Corrupt();
    for (uint32_t i = 0; i < count; ++i) out.rows[i] = first + i;
  } else if (!UnpackRows(in, out.rows)) {
    return Corrupt();
  }
  if ((flags & kRests) != 0) {
    LITHIFY_TRY(DecodeRests(bytes.last(in.left()), count, out));
  } else if (in.left() != kPadding) {
    return Corrupt();
  }
  out.count = count;
  return {};
}

Status KeyBlockCodec::DecodeRests(std::span<const uint8_t> bytes, size_t count, KeyBlock& out) {
  ByteReader in(bytes);
  out.ends.resize(count);
  uint64_t* const ends = out.ends.data();
  uint64_t end = 0;
  uint64_t longest = 0;
  const auto add = [&](size_t i, uint64_t rest) {
    longest = std::max(longest, rest);
    ends[i] = end += rest;
  };
  if (!Unpack(in, count, add) || longest > kRestBytesMax) return Corrupt();
  numbers_.resize(count);
  uint64_t* const same = numbers_.data();
  uint64_t all_same = 0;
  bool sound = true;
  const auto check = [&](size_t i, uint64_t number) {
    const uint64_t begin = i == 0 ? 0 : ends[i - 1];
    const uint64_t before = i == 0 ? 0 : begin - (i == 1 ? 0 : ends[i - 2]);
    sound &= number <= before && number <= ends[i] - begin;
    same[i] = number;
    all_same += number;
  };
  if (!Unpack(in, count, check) || !sound || in.left() < kPadding) return Corrupt();
  const size_t packed = in.left() - kPadding;
  const uint8_t* from = in.Take(packed);
  const uint64_t size = end - all_same;
  // By what zstd itself wrote, before so much memory is taken.
  if (ZSTD_getFrameContentSize(from, packed) != size) return Corrupt();
  if (unpack_ == nullptr) unpack_.reset(ZSTD_createDCtx());
  if (unpack_ == nullptr) return Fail(Code::kLimit, "out of memory: no zstd context");
  bool whole = false;
  // (g++ 12 tells the capacity, not the size.)
  bytes_.resize_and_overwrite(size, [&](char* to, size_t) {
    whole = ZSTD_decompressDCtx(unpack_.get(), to, size, from, packed) == size;
    return size;
  });
  if (!whole) return Corrupt();
  out.bytes.resize_and_overwrite(end, [&](char* to, size_t) {
    const char* rest = bytes_.data();
    const char* before = to;
    for (size_t i = 0; i < count; ++i) {
      char* const begin = to + (i == 0 ? 0 : ends[i - 1]);
      const size_t more = static_cast<size_t>(to + ends[i] - begin) - same[i];
      std::memcpy(begin, before, same[i]);
      std::memcpy(begin + same[i], rest, more);
      rest += more;
      before = begin;
    }
    return end;
  });
  return {};
}

}  // namespace lithify::sort
