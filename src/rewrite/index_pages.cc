#include "rewrite/index_pages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

// Sanitizers instrument the resolver that picks a clone before they are ready; clang is for
// fuzzing.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define LITHIFY_CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define LITHIFY_CLONES
#endif

namespace lithify::rewrite {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kWidthMax = 32;
constexpr int64_t kGroup = 8;         // Values in the smallest packed unit; as many make a run.
constexpr int kBlock = 32;            // Values packed or unpacked by one unrolled step.
constexpr int64_t kBatch = 1024;      // Values taken through a buffer on the stack at a time.
constexpr int64_t kPackedMax = 8192;  // Values in one packed run that is written.
constexpr int64_t kRunMax = int64_t{1} << 30;

std::unexpected<Error> Corrupt(std::string message) {
  return Fail(Code::kCorrupt, std::move(message), "page body", "restore the file from its source");
}

constexpr uint64_t MaskOf(int width) { return (uint64_t{1} << width) - 1; }

int64_t PackedBytes(int64_t values, int width) { return (values * width + 7) / 8; }

// ------------------------------------------------------------------------------- bit packing

// One block of kBlock values; reads up to 7 bytes behind them.
template <int kWidth>
void UnpackBlock(const uint8_t* __restrict in, uint32_t* __restrict out) {
#pragma GCC unroll 32
  for (int i = 0; i < kBlock; ++i) {
    const int bit = i * kWidth;
    uint64_t word;
    std::memcpy(&word, in + bit / 8, sizeof(word));
    out[i] = static_cast<uint32_t>(word >> (bit % 8) & MaskOf(kWidth));
  }
}

template <int kWidth>
void UnpackBlocks(const uint8_t* in, int64_t blocks, uint32_t* out) {
  for (; blocks > 0; --blocks, in += kBlock * kWidth / 8, out += kBlock) {
    UnpackBlock<kWidth>(in, out);
  }
}

template <int kWidth>
void PackBlocks(const uint32_t* __restrict in, int64_t blocks, uint8_t* __restrict out) {
  for (; blocks > 0; --blocks, in += kBlock) {
    uint64_t pending = 0;
    int bits = 0;
#pragma GCC unroll 32
    for (int i = 0; i < kBlock; ++i) {
      pending |= uint64_t{in[i]} << bits;
      bits += kWidth;
      if (bits >= 32) {
        const auto word = static_cast<uint32_t>(pending);
        std::memcpy(out, &word, sizeof(word));
        out += sizeof(word);
        pending >>= 32;
        bits -= 32;
      }
    }
  }
}

using UnpackFunction = void (*)(const uint8_t*, int64_t, uint32_t*);
using PackFunction = void (*)(const uint32_t*, int64_t, uint8_t*);

template <int... kWidths>
constexpr auto UnpackTable(std::integer_sequence<int, kWidths...>) {
  return std::array<UnpackFunction, sizeof...(kWidths)>{&UnpackBlocks<kWidths>...};
}
template <int... kWidths>
constexpr auto PackTable(std::integer_sequence<int, kWidths...>) {
  return std::array<PackFunction, sizeof...(kWidths)>{&PackBlocks<kWidths>...};
}
constexpr auto kUnpack = UnpackTable(std::make_integer_sequence<int, kWidthMax + 1>());
constexpr auto kPack = PackTable(std::make_integer_sequence<int, kWidthMax + 1>());

// `count` values from `packed`, which holds at least their bytes and is read no further.
void Unpack(std::span<const uint8_t> packed, int width, int64_t count, uint32_t* out) {
  if (width == 0) {
    std::fill_n(out, count, 0U);
    return;
  }
  const auto bytes = static_cast<int64_t>(packed.size());
  const int64_t block_bytes = kBlock * width / 8;
  // Blocks that do not end within the last 7 bytes.
  const int64_t blocks = std::min(count / kBlock, std::max<int64_t>(bytes - 7, 0) / block_bytes);
  kUnpack[static_cast<size_t>(width)](packed.data(), blocks, out);
  // The rest by way of a copy that has bytes behind it.
  std::array<uint8_t, kBlock * kWidthMax / 8 + 8> copy;
  std::array<uint32_t, kBlock> block;
  for (int64_t done = blocks * kBlock; done < count; done += kBlock) {
    const int64_t values = std::min<int64_t>(count - done, kBlock);
    copy.fill(0);
    std::memcpy(copy.data(), packed.data() + done / kBlock * block_bytes,
                static_cast<size_t>(PackedBytes(values, width)));
    kUnpack[static_cast<size_t>(width)](copy.data(), 1, block.data());
    std::copy_n(block.data(), values, out + done);
  }
}

// Appends `count` values in whole groups of 8, the last one filled up with zeros.
void AppendPacked(const uint32_t* values, int64_t count, int width, std::string* out) {
  const int64_t groups = (count + 7) / 8;
  const size_t before = out->size();
  const size_t after = before + static_cast<size_t>(groups * width);
  out->resize_and_overwrite(after, [&](char* data, size_t) {
    auto* to = reinterpret_cast<uint8_t*>(data) + before;
    const int64_t blocks = count / kBlock;
    kPack[static_cast<size_t>(width)](values, blocks, to);
    if (const int64_t rest = count % kBlock; rest > 0) {
      std::array<uint32_t, kBlock> block{};
      std::array<uint8_t, kBlock * kWidthMax / 8> packed;
      std::copy_n(values + blocks * kBlock, rest, block.data());
      kPack[static_cast<size_t>(width)](block.data(), 1, packed.data());
      std::memcpy(to + blocks * (kBlock * width / 8), packed.data(),
                  static_cast<size_t>((rest + 7) / 8 * width));
    }
    return after;
  });
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80U));
  out->push_back(static_cast<char>(value));
}

void AppendRun(uint32_t value, int64_t count, int width, std::string* out) {
  while (count > 0) {
    const int64_t some = std::min(count, kRunMax);
    AppendVarint(static_cast<uint64_t>(some) << 1, out);
    for (int bits = 0; bits < width; bits += 8) out->push_back(static_cast<char>(value >> bits));
    count -= some;
  }
}

void AppendPackedRuns(const uint32_t* values, int64_t count, int width, std::string* out) {
  for (int64_t done = 0; done < count; done += kPackedMax) {
    const int64_t some = std::min(count - done, kPackedMax);
    AppendVarint(static_cast<uint64_t>((some + 7) / 8) << 1 | 1, out);
    AppendPacked(values + done, some, width, out);
  }
}

// ------------------------------------------------------------------------------------- loops

LITHIFY_CLONES uint32_t MaxOf(const uint32_t* values, int64_t count) {
  uint32_t max = 0;
  for (int64_t i = 0; i < count; ++i) max = std::max(max, values[i]);
  return max;
}

LITHIFY_CLONES int64_t CountEqual(const uint32_t* values, int64_t count, uint32_t wanted) {
  uint32_t equal = 0;
  for (int64_t i = 0; i < count; ++i) equal += values[i] == wanted ? 1 : 0;
  return equal;
}

LITHIFY_CLONES uint32_t Deviation(const uint32_t* values, int64_t count, uint32_t first) {
  uint32_t deviation = 0;
  for (int64_t i = 0; i < count; ++i) deviation |= values[i] ^ (first + static_cast<uint32_t>(i));
  return deviation;
}

bool GroupIsEqual(const uint32_t* values) {
  uint32_t differs = 0;
  for (int i = 1; i < kGroup; ++i) differs |= values[i] ^ values[0];
  return differs == 0;
}

LITHIFY_CLONES uint32_t Difference(const uint32_t* values, int64_t count, uint32_t wanted) {
  uint32_t difference = 0;
  for (int64_t i = 0; i < count; ++i) difference |= values[i] ^ wanted;
  return difference;
}

LITHIFY_CLONES void Replace(uint32_t* values, int64_t count, const uint32_t* mapping) {
  for (int64_t i = 0; i < count; ++i) values[i] = mapping[values[i]];
}

// -------------------------------------------------------------------------------------- runs

// One run of a hybrid, no longer than the values that are still wanted.
struct Run {
  bool packed = false;
  uint32_t value = 0;  // Of a run that is not packed.
  int64_t count = 0;
  std::span<const uint8_t> bytes;  // Of a packed run: what holds its values.
};

class Runs {
 public:
  Runs(std::span<const uint8_t> hybrid, int width, int64_t count)
      : rest_(hybrid), width_(width), wanted_(count) {}

  // False: all wanted values were given.
  Result<bool> Next(Run& run) {
    if (wanted_ <= 0) return false;
    if (width_ == 0 && rest_.empty()) {
      // Nothing is needed to say that all are 0, and some writers write nothing.
      run = Run{false, 0, std::exchange(wanted_, 0), {}};
      return true;
    }
    uint64_t head = 0;
    if (!TakeVarint(head)) return Corrupt("the length of a run is cut off or too large");
    const auto number = static_cast<int64_t>(head >> 1);
    if (number == 0) return Corrupt("a run of no values");
    return (head & 1) != 0 ? TakePacked(number, run) : TakeRun(number, run);
  }

 private:
  // 32 bits at most.
  bool TakeVarint(uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (rest_.empty()) return false;
      const uint8_t byte = rest_.front();
      rest_ = rest_.subspan(1);
      out |= uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) == 0) return out <= 0xffffffffU;
    }
    return false;
  }
  Result<bool> TakePacked(int64_t groups, Run& run) {
    const int64_t count = std::min(groups * 8, wanted_);
    const auto needed = static_cast<size_t>(PackedBytes(count, width_));
    if (needed > rest_.size()) return Corrupt("bit-packed values are cut off");
    const size_t stored = std::min(static_cast<size_t>(groups * width_), rest_.size());
    run = Run{true, 0, count, rest_.first(stored)};
    rest_ = rest_.subspan(stored);
    wanted_ -= count;
    return true;
  }
  Result<bool> TakeRun(int64_t count, Run& run) {
    const auto bytes = static_cast<size_t>((width_ + 7) / 8);
    if (bytes > rest_.size()) return Corrupt("a run is cut off");
    uint32_t value = 0;
    std::memcpy(&value, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    run = Run{false, value, std::min(count, wanted_), {}};
    wanted_ -= run.count;
    return true;
  }

  std::span<const uint8_t> rest_;
  const int width_;
  int64_t wanted_;
};

Status CheckBound(uint32_t value, uint64_t bound) {
  if (value < bound) return {};
  return Corrupt("a level or an index is " + std::to_string(value) + ", and must be less than " +
                 std::to_string(bound));
}

Status CheckBounds(const uint32_t* values, int64_t count, int width, uint64_t bound) {
  if (bound > MaskOf(width)) return {};
  return CheckBound(MaxOf(values, count), bound);
}

Status CheckWidth(int width) {
  if (width >= 0 && width <= kWidthMax) return {};
  return Corrupt("a bit width of " + std::to_string(width));
}

// Calls `each(values, n)` for batches of a packed run, which it may change.
template <typename Each>
Status UnpackEach(const Run& run, int width, uint64_t bound, Each&& each) {
  std::array<uint32_t, kBatch> values;
  for (int64_t done = 0; done < run.count; done += kBatch) {
    const int64_t some = std::min(run.count - done, kBatch);
    Unpack(run.bytes.subspan(static_cast<size_t>(done / 8 * width)), width, some, values.data());
    LITHIFY_TRY(CheckBounds(values.data(), some, width, bound));
    each(values.data(), some);
  }
  return {};
}

// How many of the first `count` bits are set.
LITHIFY_CLONES int64_t CountBits(const uint8_t* bytes, int64_t count) {
  int64_t set = 0;
  int64_t at = 0;
  for (; count - at >= 64; at += 64) {
    uint64_t word;
    std::memcpy(&word, bytes + at / 8, sizeof(word));
    set += std::popcount(word);
  }
  for (; at < count; at += 8) {
    const unsigned mask = count - at >= 8 ? 0xffU : (1U << (count - at)) - 1;
    set += std::popcount(bytes[at / 8] & mask);
  }
  return set;
}

Result<int64_t> CountInPacked(const Run& run, int max, uint32_t wanted) {
  if (max == 1) {
    const int64_t ones = CountBits(run.bytes.data(), run.count);
    return wanted == 1 ? ones : run.count - ones;
  }
  int64_t found = 0;
  LITHIFY_TRY(
      UnpackEach(run, BitWidth(static_cast<uint32_t>(max)), static_cast<uint64_t>(max) + 1,
                 [&](uint32_t* values, int64_t n) { found += CountEqual(values, n, wanted); }));
  return found;
}

// -------------------------------------------------------------------------------- page parts

// Takes a level part with its length in front off `rest`.
Result<std::span<const uint8_t>> TakeWithLength(std::span<const uint8_t>& rest) {
  uint32_t length = 0;
  if (rest.size() < sizeof(length)) return Corrupt("the levels are cut off");
  std::memcpy(&length, rest.data(), sizeof(length));
  rest = rest.subspan(sizeof(length));
  if (length > rest.size()) {
    return Corrupt("levels of " + std::to_string(length) + " bytes in a page that has " +
                   std::to_string(rest.size()) + " left");
  }
  const auto taken = rest.first(length);
  rest = rest.subspan(length);
  return taken;
}

Status CheckLevelEncoding(PageEncoding encoding) {
  if (encoding == PageEncoding::kRle) return {};
  return Fail(Code::kUnsupported,
              "levels in encoding " + std::to_string(static_cast<int>(encoding)), "page body",
              "only run-length coded levels are read");
}

Status SplitV1(const PageHeader& header, std::span<const uint8_t> body, const LevelShape& shape,
               PageParts& parts) {
  parts.values = body;
  // Without entries some writers leave out even the lengths.
  if (header.num_values == 0 && body.empty()) return {};
  if (shape.repetition_max > 0) {
    LITHIFY_TRY(CheckLevelEncoding(header.repetition_level_encoding));
    LITHIFY_TRY_ASSIGN(parts.repetition, TakeWithLength(parts.values));
  }
  if (shape.definition_max > 0) {
    LITHIFY_TRY(CheckLevelEncoding(header.definition_level_encoding));
    LITHIFY_TRY_ASSIGN(parts.definition, TakeWithLength(parts.values));
  }
  parts.levels = body.first(body.size() - parts.values.size());
  return {};
}

Status SplitV2(const PageHeader& header, std::span<const uint8_t> body, const LevelShape& shape,
               PageParts& parts) {
  const auto repetition = static_cast<size_t>(header.repetition_levels_byte_length);
  const auto definition = static_cast<size_t>(header.definition_levels_byte_length);
  if (repetition > body.size() || definition > body.size() - repetition) {
    return Corrupt("the levels are cut off");
  }
  parts.levels = body.first(repetition + definition);
  parts.values = body.subspan(repetition + definition);
  if (shape.repetition_max > 0) parts.repetition = parts.levels.first(repetition);
  if (shape.definition_max > 0) parts.definition = parts.levels.subspan(repetition);
  return {};
}

Status CountParts(const PageHeader& header, const LevelShape& shape, PageParts& parts) {
  parts.present = header.num_values;
  parts.rows = header.num_values;
  if (header.num_values == 0) return {};
  if (shape.definition_max > 0) {
    LITHIFY_TRY_ASSIGN(parts.present, CountLevel(parts.definition, shape.definition_max,
                                                 header.num_values, shape.definition_max));
  }
  if (shape.repetition_max > 0) {
    LITHIFY_TRY_ASSIGN(parts.rows,
                       CountLevel(parts.repetition, shape.repetition_max, header.num_values, 0));
    LITHIFY_TRY_ASSIGN(const int64_t first,
                       CountLevel(parts.repetition, shape.repetition_max, 1, 0));
    parts.begins_row = first == 1;
  }
  return {};
}

}  // namespace

int BitWidth(uint32_t max) { return std::bit_width(max); }

// --------------------------------------------------------------------------------------- levels

Result<PageParts> TakeApart(const PageHeader& header, std::span<const uint8_t> body,
                            const LevelShape& shape) {
  if (!header.is_data()) return Fail(Code::kInternal, "only data pages have levels");
  PageParts parts;
  if (header.type == PageType::kData) {
    LITHIFY_TRY(SplitV1(header, body, shape, parts));
  } else {
    LITHIFY_TRY(SplitV2(header, body, shape, parts));
  }
  LITHIFY_TRY(CountParts(header, shape, parts));
  return parts;
}

Result<int64_t> CountLevel(std::span<const uint8_t> hybrid, int max, int64_t count, int wanted) {
  const int width = BitWidth(static_cast<uint32_t>(max));
  Runs runs(hybrid, width, count);
  Run run;
  int64_t found = 0;
  while (true) {
    LITHIFY_TRY_ASSIGN(const bool more, runs.Next(run));
    if (!more) return found;
    if (run.packed) {
      LITHIFY_TRY_ASSIGN(const int64_t some,
                         CountInPacked(run, max, static_cast<uint32_t>(wanted)));
      found += some;
    } else {
      LITHIFY_TRY(CheckBound(run.value, static_cast<uint64_t>(max) + 1));
      if (run.value == static_cast<uint32_t>(wanted)) found += run.count;
    }
  }
}

void AppendLevelRun(int level, int64_t count, int max, std::string* out) {
  if (max == 0) return;
  AppendRun(static_cast<uint32_t>(level), count, BitWidth(static_cast<uint32_t>(max)), out);
}

void AppendLevelRunV1(int level, int64_t count, int max, std::string* out) {
  if (max == 0) return;
  std::string hybrid;
  AppendLevelRun(level, count, max, &hybrid);
  AppendWithLength(hybrid, out);
}

void AppendWithLength(std::string_view hybrid, std::string* out) {
  const auto length = static_cast<uint32_t>(hybrid.size());
  std::array<char, sizeof(length)> bytes;
  std::memcpy(bytes.data(), &length, sizeof(length));
  out->append(bytes.data(), bytes.size());
  out->append(hybrid);
}

// -------------------------------------------------------------------------------------- hybrids

Status DecodeHybrid(std::span<const uint8_t> hybrid, int bit_width, int64_t count, uint64_t bound,
                    uint32_t* out) {
  LITHIFY_TRY(CheckWidth(bit_width));
  Runs runs(hybrid, bit_width, count);
  Run run;
  while (true) {
    LITHIFY_TRY_ASSIGN(const bool more, runs.Next(run));
    if (!more) return {};
    if (run.packed) {
      Unpack(run.bytes, bit_width, run.count, out);
      LITHIFY_TRY(CheckBounds(out, run.count, bit_width, bound));
    } else {
      LITHIFY_TRY(CheckBound(run.value, bound));
      std::fill_n(out, run.count, run.value);
    }
    out += run.count;
  }
}

void AppendHybrid(std::span<const uint32_t> values, int bit_width, std::string* out) {
  const auto count = static_cast<int64_t>(values.size());
  const uint32_t* in = values.data();
  int64_t packed_from = 0;  // What is not written yet.
  int64_t at = 0;           // Packed values come in groups of 8, so a run begins behind a group.
  while (count - at >= kGroup) {
    if (!GroupIsEqual(in + at)) {
      at += kGroup;
      continue;
    }
    int64_t end = at + kGroup;
    while (end < count && in[end] == in[at]) ++end;
    AppendPackedRuns(in + packed_from, at - packed_from, bit_width, out);
    AppendRun(in[at], end - at, bit_width, out);
    at = packed_from = end;
  }
  AppendPackedRuns(in + packed_from, count - packed_from, bit_width, out);
}

Status AppendMappedHybrid(std::span<const uint8_t> hybrid, int bit_width, int64_t count,
                          std::span<const uint32_t> mapping, int new_bit_width, std::string* out) {
  LITHIFY_TRY(CheckWidth(bit_width));
  Runs runs(hybrid, bit_width, count);
  Run run;
  while (true) {
    LITHIFY_TRY_ASSIGN(const bool more, runs.Next(run));
    if (!more) return {};
    if (!run.packed) {
      LITHIFY_TRY(CheckBound(run.value, mapping.size()));
      AppendRun(mapping[run.value], run.count, new_bit_width, out);
      continue;
    }
    AppendVarint(static_cast<uint64_t>((run.count + 7) / 8) << 1 | 1, out);
    LITHIFY_TRY(UnpackEach(run, bit_width, mapping.size(), [&](uint32_t* values, int64_t n) {
      Replace(values, n, mapping.data());
      AppendPacked(values, n, new_bit_width, out);
    }));
  }
}

// -------------------------------------------------------------------------------------- indices

Status DecodeIndices(std::span<const uint8_t> values, int64_t count, uint64_t dictionary_size,
                     uint32_t* out) {
  if (count == 0) return {};
  if (values.empty()) return Corrupt("the indices are missing");
  return DecodeHybrid(values.subspan(1), values[0], count, dictionary_size, out);
}

Status CheckIndices(std::span<const uint8_t> values, int64_t count, uint64_t dictionary_size) {
  if (count == 0) return {};
  if (values.empty()) return Corrupt("the indices are missing");
  const int width = values[0];
  LITHIFY_TRY(CheckWidth(width));
  Runs runs(values.subspan(1), width, count);
  Run run;
  while (true) {
    LITHIFY_TRY_ASSIGN(const bool more, runs.Next(run));
    if (!more) return {};
    if (run.packed) {
      LITHIFY_TRY(UnpackEach(run, width, dictionary_size, [](const uint32_t*, int64_t) {}));
    } else {
      LITHIFY_TRY(CheckBound(run.value, dictionary_size));
    }
  }
}

void AppendIndices(std::span<const uint32_t> indices, int bit_width, std::string* out) {
  out->push_back(static_cast<char>(bit_width));
  AppendHybrid(indices, bit_width, out);
}

Status AppendMappedIndices(std::span<const uint8_t> values, int64_t count,
                           std::span<const uint32_t> mapping, int new_bit_width, std::string* out) {
  out->push_back(static_cast<char>(new_bit_width));
  if (count == 0) return {};
  if (values.empty()) return Corrupt("the indices are missing");
  return AppendMappedHybrid(values.subspan(1), values[0], count, mapping, new_bit_width, out);
}

uint32_t MaxOf(std::span<const uint32_t> numbers) {
  return MaxOf(numbers.data(), std::ssize(numbers));
}

bool AllAre(std::span<const uint32_t> numbers, uint32_t wanted) {
  return Difference(numbers.data(), std::ssize(numbers), wanted) == 0;
}

int64_t CountOf(std::span<const uint32_t> numbers, uint32_t wanted) {
  int64_t count = 0;
  while (!numbers.empty()) {
    const auto some = std::min<size_t>(numbers.size(), size_t{1} << 30);
    count += CountEqual(numbers.data(), static_cast<int64_t>(some), wanted);
    numbers = numbers.subspan(some);
  }
  return count;
}

void Replace(std::span<uint32_t> numbers, std::span<const uint32_t> mapping) {
  Replace(numbers.data(), std::ssize(numbers), mapping.data());
}

bool CountsUp(std::span<const uint32_t> indices, uint32_t first) {
  if (indices.size() > (uint64_t{1} << 32) - first) return false;
  while (!indices.empty()) {
    const auto some = std::min<size_t>(indices.size(), kBatch);
    if (Deviation(indices.data(), static_cast<int64_t>(some), first) != 0) return false;
    indices = indices.subspan(some);
    first += static_cast<uint32_t>(some);
  }
  return true;
}

// ------------------------------------------------------------------------------------- booleans

Status DecodeBooleans(PageEncoding encoding, std::span<const uint8_t> values, int64_t count,
                      uint32_t* out) {
  if (count == 0) return {};
  if (encoding == PageEncoding::kRle) {
    LITHIFY_TRY_ASSIGN(const auto hybrid, TakeWithLength(values));
    return DecodeHybrid(hybrid, 1, count, 2, out);
  }
  if (std::cmp_greater(PackedBytes(count, 1), values.size())) {
    return Corrupt("booleans are cut off");
  }
  Unpack(values, 1, count, out);
  return {};
}

void AppendBooleans(std::span<const uint32_t> booleans, std::string* out) {
  AppendPacked(booleans.data(), std::ssize(booleans), 1, out);
}

}  // namespace lithify::rewrite
