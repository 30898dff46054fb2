// The model of the plain-Parquet job: layouts, partitions, files, manifests, plans. Plain values:
// no I/O, no clock. Everything that decides (src/plan) works on these structs alone.
#ifndef LITHIFY_BASE_HIVE_H_
#define LITHIFY_BASE_HIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace lithify {

// What a partition column stands for. kDate is "YYYY-MM-DD" in one column.
enum class ColumnRole { kTenant, kYear, kMonth, kDay, kHour, kDate, kOther };

struct PartitionColumn {
  std::string name;
  ColumnRole role = ColumnRole::kOther;
  bool operator==(const PartitionColumn&) const = default;
};

// One family of partitions under a root, e.g. `data/tenant_id=/year=/month=/day=/hour=/` (R195).
struct SeriesLayout {
  std::string name;    // "data"; used in reports and filters.
  std::string prefix;  // Key prefix below the root, without slashes at the ends; may be empty.
  std::vector<PartitionColumn> columns;
  // Columns *inside* the files that every row must agree with its path on (R222). Empty: not
  // checked. The time columns are tried in order: the first non-zero, non-null value of a row
  // decides; if there is none the row belongs to 1970-01-01T00 (R198).
  std::string tenant_row_column;
  std::vector<std::string> time_row_columns;
  bool operator==(const SeriesLayout&) const = default;
};

// One partition directory. `values` are decoded, in the order of the layout's columns.
struct PartitionId {
  std::string series;
  std::string key_prefix;  // "data/tenant_id=a/year=2026/…/hour=07/", with the trailing slash.
  std::string tenant;      // Decoded; empty where the layout has no tenant column.
  std::vector<std::pair<std::string, std::string>> values;
  // The time bucket [start, end) in UTC; unset where the layout has no time columns.
  std::optional<Time> start;
  std::optional<Time> end;
  bool operator==(const PartitionId&) const = default;
};

// A file that a commit took out of the live set; it is deleted once the grace has passed
// (R238, H3). kForeign marks files that were there, unlisted, when lithify first took over a
// manifest of another writer: nobody can tell a late file from a dead one, so they are never
// adopted and never deleted, and every sweep says so.
struct RetiredFile {
  enum class Reason { kSuperseded, kFenced, kForeign };
  std::string name;
  Time at;  // Time of the commit that retired it.
  Reason reason = Reason::kSuperseded;
  std::string job_id;
  bool operator==(const RetiredFile&) const = default;
};

// manifest.json (docs/FORMATS.md). `generation` and `files` are the whole contract with readers
// (R214); the rest lives under one extra key, "lithify", that readers ignore.
struct HiveManifest {
  uint64_t generation = 0;
  std::vector<std::string> files;  // Bare names; empty is legal: no live rows (Q7).
  bool has_lineage = false;        // The "lithify" key is there: `retired` is complete.
  std::string job_id;              // The job that wrote this generation.
  std::vector<RetiredFile> retired;
  // Any other top-level members, as JSON text of one object ("{}" if none): kept (R218).
  std::string extra_json = "{}";
  bool operator==(const HiveManifest&) const = default;
};

// A manifest as read, with the store's version of it for the compare-and-swap.
struct ManifestSnapshot {
  HiveManifest manifest;
  std::string version;
};

// The soft claim on a partition (docs/FORMATS.md). Hidden from readers by its underscore.
inline constexpr std::string_view kClaimName = "_compaction.lock";

enum class FileState {
  kLive,        // Named by the manifest, or any committed file where there is none.
  kLate,        // Committed, unlisted and not retired: acknowledged data to adopt (Q4, H1).
  kRetired,     // In the manifest's retired list.
  kOwnOrphan,   // Carries our mark, never published: an attempt that did not commit.
  kAmbiguous,   // Unlisted in a foreign manifest and older than it: never touched.
  kTemporary,   // "*.tmp".
  kClaim,       // kClaimName: somebody compacts this partition (Q3).
  kUnreadable,  // Unlisted, and its footer cannot be read (yet): never touched while young.
  kOther,       // Not ours: other suffixes, nested keys.
};

// True if a manifest may name `name` as a live file: one path component of at most 255 bytes, not
// hidden (no leading '.' or '_'), ending in ".parquet" (lower case), valid UTF-8, and without '/',
// '\\', NUL or other control bytes (R214). Anything else could reach outside the partition, or
// would not survive the trip through JSON.
bool IsLiveFileName(std::string_view name);

// Well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
bool IsUtf8(std::string_view text);

struct HiveFile {
  std::string name;  // Bare name within the partition.
  int64_t size = 0;  // Bytes.
  Time modified;
  std::string version = {};  // Of the store, where it tells one.
  FileState state = FileState::kOther;
  std::optional<int64_t> rows;  // From the footer, where it was read.
  std::string unsupported;      // Why it cannot be rewritten; empty if it can or is not known.
};

// Everything known of one partition at one moment, as the planner sees it.
struct HivePartitionState {
  PartitionId id;
  std::optional<ManifestSnapshot> manifest;
  std::vector<HiveFile> files;  // Sorted by name.
};

}  // namespace lithify

#endif  // LITHIFY_BASE_HIVE_H_
