// Values in PLAIN form on their way into a bloom filter (Parquet, "Bloom Filter": XXH64 of a
// value's plain bytes, without the length in front of a byte array).
#ifndef LITHIFY_REWRITE_FILTER_VALUES_H_
#define LITHIFY_REWRITE_FILTER_VALUES_H_

#include <parquet/bloom_filter.h>

#include <cstdint>
#include <span>

#include "base/result.h"
#include "rewrite/plain_values.h"

namespace lithify::rewrite {

// The `count` values that `plain` begins with. kCorrupt: it is cut off. kUnsupported: booleans,
// which have no filters.
Status InsertPlain(const PlainForm& form, std::span<const uint8_t> plain, int64_t count,
                   parquet::BloomFilter& filter);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_FILTER_VALUES_H_
