// What a rewrite of an Iceberg table would do, and how healthy the table is: pure functions of the
// live set. Health and rewriting use the same planner, so they cannot disagree (R079).
//
// docs/COMPACTION.md states the candidate set, the fixed point and the budget.
#ifndef LITHIFY_PLAN_ICEBERG_PLAN_H_
#define LITHIFY_PLAN_ICEBERG_PLAN_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/delete_index.h"
#include "base/file_sizes.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "base/row_order.h"
#include "plan/key_overlap.h"

namespace lithify::plan {

// How rows are put into files. kZorder is kSort along a z-order curve, for configurations that name
// it so.
enum class Strategy { kBinpack, kSort, kZorder };
std::string_view StrategyName(Strategy strategy);  // "binpack", ….
// "binpack", also as "bin-pack"; "sort"; "zorder", also as "z-order". nullopt: none of them.
std::optional<Strategy> ParseStrategy(std::string_view text);

// The order that a sort is to bring rows into, of a table at hand.
struct SortTarget {
  RowOrder order = {};
  std::optional<int> sort_order_id =
      {};  // Of the table's orders the one it is; unset: none of them.
  // LiveSet::key_ranges are of its first key, and tell where in the order a file lies.
  bool ranges = false;
  bool operator==(const SortTarget&) const = default;
};

enum class JobOrder { kNone, kBytesAsc, kBytesDesc, kFilesAsc, kFilesDesc };

// Spark's names and defaults, where it has them.
struct RewriteOptions {
  int64_t target_file_size_bytes = int64_t{512} << 20;
  // Files outside [min, max] are candidates. 0: 75 % and 180 % of the target.
  int64_t min_file_size_bytes = 0;
  int64_t max_file_size_bytes = 0;
  int min_input_files = 5;
  // A file with so many applicable delete files is a candidate, whatever its size. 0: off.
  int delete_file_threshold = 0;
  // A file whose known deleted rows (deletion vectors and position deletes that reference only it)
  // are at least this share is a candidate. 0: off.
  double delete_ratio_threshold = 0.3;
  bool rewrite_all = false;  // Every file, whether anything is gained or not (R088).
  int64_t max_file_group_size_bytes = int64_t{100} << 30;
  int max_file_group_files = 10000;  // Footers must fit the memory bound.
  // Rows cost memory, too, however few bytes they take on disk (I32).
  int64_t max_file_group_records = int64_t{1} << 30;
  JobOrder rewrite_job_order = JobOrder::kNone;
  // Groups are made to fit it, and added while their input bytes do (I33); always at least one,
  // which may be as large as the target or one file. 0: no bound.
  int64_t budget_bytes = 0;
  std::vector<iceberg::PartitionKey> skip_partitions;  // Hot ones, after conflicts (I33).
  // Set: no other partition is touched, whatever is to be gained there.
  std::optional<std::vector<iceberg::PartitionKey>> only_partitions;
  // Files of every other spec are candidates, whatever their size: their rows move to this one
  // (Q18). Groups of them mix partitions, and have at most so many rows, whose positions must fit
  // the memory.
  std::optional<int> output_spec_id;
  int64_t max_moved_group_records = int64_t{1} << 26;

  Strategy strategy = Strategy::kBinpack;
  // The order that was asked for, as text (base/order_text.h); empty: the table's own.
  std::string sort_order;
  // Sorting: files are rewritten where so many share a key. Files that one sort wrote count once.
  int min_overlap_depth = 2;
  // Sorting: rows are numbered by 32 bits, and their numbers must fit the memory.
  int64_t max_sorted_group_records = (int64_t{1} << 32) - 1;
  // A table that has no order is bin-packed instead; else it is an error. For strategies that are
  // a default for many tables (T5).
  bool binpack_if_unsorted = false;
  // What all that comes to for the table; set unless the strategy is kBinpack.
  std::optional<SortTarget> sort;
  std::string unsorted_because;  // Of a table that is bin-packed instead; told with each verdict.
};

// kInvalid, naming the option and the allowed range.
Status CheckOptions(const RewriteOptions& options);

struct FileGroup {
  int32_t partition = 0;  // Index into LiveSet::partitions; with `moves`, of its first file.
  // To another spec: the files may be of several partitions and specs, and how many outputs there
  // will be is known only when the rows are read; `outputs` is the fewest.
  bool moves = false;
  bool sorted = false;              // Rows are brought into the order of RewriteOptions::sort.
  std::vector<int32_t> data_files;  // Indices into LiveSet::data_files.
  int64_t bytes = 0;
  int64_t records = 0;  // Before deletes, as the metadata claims.
  // After the deletes that are known from metadata. 0: there will be no output (I26).
  int64_t live_records = 0;
  int outputs = 0;     // Planned, at least 1; never more than there are inputs.
  std::string reason;  // The number that decided: "12 files below 384 MiB".
};

enum class PartitionState {
  kCandidate,
  kTooFewFiles,    // Candidates, but fewer than min_input_files.
  kNothingToGain,  // No file is a candidate, or a rewrite would give as many files as it takes.
  kUnsupported,
  kFiltered,  // No file of it may match the filter.
  kSkipped,   // Hot, beyond the budget, or none of those that were asked for.
};

std::string_view PartitionStateName(PartitionState state);  // "too few files".

struct PartitionVerdict {
  int32_t partition = 0;
  PartitionState state = PartitionState::kNothingToGain;
  int64_t files = 0;
  int64_t bytes = 0;
  std::string reason;
  // Sorting: files that a read of one key opens, before and after; along a curve, a read by one of
  // its columns, as far as that can be told.
  std::optional<FilesPerKey> files_per_key;
};

struct RewritePlan {
  std::vector<FileGroup> groups;  // In job order.
  std::vector<PartitionVerdict> partitions;
  // Live files that cannot be rewritten, by reason.
  std::map<std::string, int64_t> unsupported;
  std::string
      skip_reason;  // "below min_input_files" | "no eligible groups" | … if groups is empty.
};

// A group never mixes partitions or specs (R083, Q18) unless its rows move to another spec, and a
// file is never divided between groups (I2). Files that are not needed to gain anything stay. A
// group is kept only if its outputs are fewer than its inputs, or deletes are applied, or rows
// move, or with rewrite_all, or, sorting, if its files share keys or their rows are not known to be
// in the order. Requires CheckOptions, and `sort` unless the strategy is kBinpack.
RewritePlan PlanRewrite(const iceberg::LiveSet& live, const iceberg::DeleteIndex& deletes,
                        const RewriteOptions& options);

// What the options say of sizes, with their defaults filled in.
FileSizes SizesOf(const RewriteOptions& options);

// R073 first, then R074; definitions in docs/COMPACTION.md and R081.
struct TableHealth {
  int64_t small_files = 0;  // Below the target (R075).
  double avg_file_mb = 0;
  double delete_ratio = 0;  // Position and equality delete records / records.
  int64_t eligible_groups = 0;
  bool opted_in = false;

  int64_t live_data_files = 0;
  int64_t avg_file_bytes = 0;
  int64_t p50_file_bytes = 0;
  int64_t total_bytes = 0;
  int64_t total_records = 0;
  int64_t delete_files = 0;
  int64_t delete_heavy_files = 0;  // Candidates for one of the delete thresholds (R076).
  int64_t dangling_delete_files = 0;
  int64_t est_rewrite_bytes = 0;
  std::optional<int64_t> last_compaction_snapshot_ms;
};
// Requires CheckOptions.
TableHealth AssessHealth(const iceberg::TableMetadata& table, const iceberg::LiveSet& live,
                         const iceberg::DeleteIndex& deletes, const RewriteOptions& options);

// Properties of maintenance are read under all of the prefixes, of which these are the default ones
// (R054).
inline constexpr std::array<std::string_view, 2> kMaintenancePrefixes = {"sqe.maintenance",
                                                                         "lithify.maintenance"};
// The only place that decides on an opt-in: at least one of the properties "PREFIX.NAME" is set,
// and each that is set is literally "true", letter by letter (R028): anything else is a no.
bool OptedInTo(const std::map<std::string, std::string>& properties, std::string_view name,
               std::span<const std::string_view> prefixes);
// To maintenance at all: "enabled", under the default prefixes.
bool OptedIn(const std::map<std::string, std::string>& properties);

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_ICEBERG_PLAN_H_
