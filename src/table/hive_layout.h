// Hive-style keys: encoding of values, parsing and finding of partitions (R195-R201).
//
// Pure, thread-safe.
#ifndef LITHIFY_TABLE_HIVE_LAYOUT_H_
#define LITHIFY_TABLE_HIVE_LAYOUT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/hive.h"
#include "base/result.h"
#include "storage/store.h"

namespace lithify::table {

// Percent-encodes as R197: A-Za-z0-9 - _ . ~ pass, every other byte becomes %XX, upper case.
std::string EncodeHiveValue(std::string_view value);
// The inverse; kInvalid on a malformed escape, on a lower-case or needless one (then the text is
// not canonical: encode(decode(x)) != x), and on invalid UTF-8.
Result<std::string> DecodeHiveValue(std::string_view text);

// The layout of part B: series "data" (hourly) and "audit" (daily), tenant_id as tenant, row
// checks on tenant_id, time_unix_nano and observed_time_unix_nano (audit: timestamp).
std::vector<SeriesLayout> OuriosLayout();

// kInvalid, naming the problem, for duplicate columns or roles, an hour without a day, time columns
// that do not go from coarse to fine, a column name that is no plain word, ….
Status CheckLayout(const SeriesLayout& layout);

// "data/tenant_id=a/year=2026/…/", a key prefix below the root with its trailing slash ->
// partition. kInvalid with the reason for a non-canonical or impossible path (R199, R205); such
// paths are reported and left alone.
Result<PartitionId> ParsePartition(const SeriesLayout& layout, std::string_view key_prefix);
// The inverse of ParsePartition from decoded values, in column order. No value may be empty.
Result<PartitionId> MakePartition(const SeriesLayout& layout,
                                  const std::vector<std::string>& values);

struct PartitionFilter {
  std::string series;  // Empty: all.
  // Leading segments of the key below the root ("data/tenant_id=a/year=2026"); empty: all.
  std::string partition;
  std::string tenant;         // Decoded; empty: all.
  std::optional<Time> since;  // Buckets that end after this, and partitions without a bucket.
  bool operator==(const PartitionFilter&) const = default;
};

struct SkippedPath {
  std::string key;
  std::string reason;
};

struct FoundPartitions {
  std::vector<PartitionId> partitions;  // Oldest bucket first, then by key.
  std::vector<SkippedPath> skipped;     // Non-canonical directories: named, never touched.
  std::vector<Error> errors;            // Subtrees that could not be listed.
  int series_found = 0;                 // Series whose prefix exists.
};

// Walks the tree of every series. Only a failing top-level listing is an error of the whole call
// (R240, R312), and so are layouts that CheckLayout refuses or that share a name or prefix
// (kInvalid). A filter prunes the walk: what it leaves out is not listed, nor named in `skipped`.
// Where each listing is a round trip, all objects are listed instead of one directory after the
// other, as long as that takes fewer requests; a directory that holds only an object for itself is
// not found then.
Result<FoundPartitions> FindPartitions(storage::Store& store,
                                       const std::vector<SeriesLayout>& series,
                                       const PartitionFilter& filter, const CancelFlag& cancel);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_HIVE_LAYOUT_H_
