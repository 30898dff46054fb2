// Levels and dictionary indices of data pages: Parquet's hybrid of runs and bit-packed groups
// (parquet-format, Encodings.md, "RLE / Bit-Packing Hybrid") taken apart, counted, mapped and
// written, run by run where there are runs. No Arrow.
//
// "Hybrid" below are the runs only: without the bit width in front of indices and without the
// length in front of V1 levels. Bytes behind the last value that is asked for are not looked at,
// and the last bit-packed group may be cut off behind it, as some writers do.
#ifndef LITHIFY_REWRITE_INDEX_PAGES_H_
#define LITHIFY_REWRITE_INDEX_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rewrite/page_header.h"

namespace lithify::rewrite {

// Bits that hold every number up to `max`; 0 for 0.
int BitWidth(uint32_t max);

// --------------------------------------------------------------------------------------- levels

struct LevelShape {
  int definition_max = 0;
  int repetition_max = 0;
};

// A data page's body taken apart. Spans point into the body.
struct PageParts {
  std::span<const uint8_t> levels;      // The level part as stored, lengths included.
  std::span<const uint8_t> repetition;  // Hybrid; empty if there are no such levels.
  std::span<const uint8_t> definition;  // Hybrid; empty if there are no such levels.
  std::span<const uint8_t> values;      // What follows the levels.
  int64_t present = 0;                  // Entries whose definition level is the maximum.
  int64_t rows = 0;                     // Entries whose repetition level is 0.
  bool begins_row = true;               // Whether the first entry has repetition level 0.
};

// `body`: of a V1 page decompressed; of a V2 page as stored or decompressed behind its levels, only
// the levels are looked at. kCorrupt: levels that are cut off or above their maximum. kUnsupported:
// the old BIT_PACKED levels. V2's num_nulls and num_rows are not compared with what was counted.
Result<PageParts> TakeApart(const PageHeader& header, std::span<const uint8_t> body,
                            const LevelShape& shape);

// How often `wanted` is among the `count` levels of up to `max` in `hybrid`.
Result<int64_t> CountLevel(std::span<const uint8_t> hybrid, int max, int64_t count, int wanted);

// Appends the hybrid of `count` times `level`, of levels up to `max`; nothing for `max` 0.
void AppendLevelRun(int level, int64_t count, int max, std::string* out);
// The same with the length in front, as V1 pages have it.
void AppendLevelRunV1(int level, int64_t count, int max, std::string* out);
// Appends any hybrid with its length in front.
void AppendWithLength(std::string_view hybrid, std::string* out);

// -------------------------------------------------------------------------------------- hybrids

// The first `count` values of `hybrid` at `bit_width` (0 to 32) into `out`. kCorrupt: cut off, or a
// value that is not less than `bound`.
Status DecodeHybrid(std::span<const uint8_t> hybrid, int bit_width, int64_t count, uint64_t bound,
                    uint32_t* out);

// Appends the values as a hybrid: 8 and more equal ones that begin a group of 8 as a run, all else
// bit-packed. Every value fits `bit_width` bits.
void AppendHybrid(std::span<const uint32_t> values, int bit_width, std::string* out);

// Appends the first `count` values of `hybrid`, each replaced by mapping[value], at another width
// and run by run: a run costs no more than its bytes. kCorrupt as DecodeHybrid with the mapping's
// size as bound (`out` may then have a part). Every number of the mapping fits `new_bit_width`.
Status AppendMappedHybrid(std::span<const uint8_t> hybrid, int bit_width, int64_t count,
                          std::span<const uint32_t> mapping, int new_bit_width, std::string* out);

// -------------------------------------------------------------------------------------- indices

// Indices have their bit width in a byte in front of the hybrid. `values`: PageParts::values of a
// page that uses a dictionary, decompressed. `count`: PageParts::present.
Status DecodeIndices(std::span<const uint8_t> values, int64_t count, uint64_t dictionary_size,
                     uint32_t* out);

// Likewise, but only looks whether they are right.
Status CheckIndices(std::span<const uint8_t> values, int64_t count, uint64_t dictionary_size);

// Appends bit width and hybrid.
void AppendIndices(std::span<const uint32_t> indices, int bit_width, std::string* out);

// Appends bit width and mapped hybrid, as AppendMappedHybrid.
Status AppendMappedIndices(std::span<const uint8_t> values, int64_t count,
                           std::span<const uint32_t> mapping, int new_bit_width, std::string* out);

// The greatest of them; 0 if there is none.
uint32_t MaxOf(std::span<const uint32_t> numbers);
// Whether all are `wanted`.
bool AllAre(std::span<const uint32_t> numbers, uint32_t wanted);
// How many are `wanted`.
int64_t CountOf(std::span<const uint32_t> numbers, uint32_t wanted);
// Replaces each by mapping[number]; all are less than the mapping's size.
void Replace(std::span<uint32_t> numbers, std::span<const uint32_t> mapping);

// Whether the indices are exactly first, first + 1, first + 2, …
bool CountsUp(std::span<const uint32_t> indices, uint32_t first);

// ------------------------------------------------------------------------------------- booleans

// The first `count` booleans of a page's values, PLAIN or RLE, as 0 and 1. kCorrupt: cut off.
Status DecodeBooleans(PageEncoding encoding, std::span<const uint8_t> values, int64_t count,
                      uint32_t* out);
// Appends 0s and 1s as PLAIN booleans.
void AppendBooleans(std::span<const uint32_t> booleans, std::string* out);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_INDEX_PAGES_H_
