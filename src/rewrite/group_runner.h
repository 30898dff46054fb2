// The seam between the loop (job) and whoever rewrites a group: this process, a simulation, or a
// fleet of workers. No Arrow or Parquet type appears here.
#ifndef LITHIFY_REWRITE_GROUP_RUNNER_H_
#define LITHIFY_REWRITE_GROUP_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/iceberg.h"
#include "base/position_set.h"
#include "base/result.h"
#include "base/row_order.h"
#include "base/turns.h"
#include "storage/store.h"

namespace lithify::rewrite {

// What lithify writes into the footer of each output (key-value metadata "lithify.*"), so that an
// output is known as such wherever it is found (docs/FORMATS.md).
struct OutputMark {
  std::string job_id;
  std::string partition;                // Key prefix of the partition it was made for.
  std::vector<std::string> inputs;      // Bare names of the group's inputs, if they are few.
  std::optional<ContentDigest> digest;  // Of this file's rows, if all of it was read.
};

// What one footer tells.
struct FileFacts {
  int64_t rows = 0;
  int64_t row_groups = 0;
  int64_t uncompressed_bytes = 0;  // Sum over column chunks, as the footer claims.
  std::string created_by;
  std::optional<OutputMark> mark;
  std::string unsupported;  // Encrypted, unknown codec, …: why it cannot be rewritten; or empty.
};

// Rows must agree with their path (R222); a row that does not aborts the group with kCorrupt.
struct RowRule {
  std::string tenant_column;  // Empty: not checked.
  std::string tenant;
  std::vector<std::string> time_columns;  // Empty: not checked. Tried in order per row (R198).
  std::optional<Time> start;              // Bucket [start, end).
  std::optional<Time> end;
  // The path's other key=value pairs: a column of that name, where a file has it, must hold exactly
  // this text or number, or null, in every row.
  std::vector<std::pair<std::string, std::string>> path_values;
};

// Rows per row group where nobody says otherwise. Readers take a row group per thread and pass over
// those that a filter rules out, so fewer rows read faster and more pack better: with so many,
// outputs are read as fast as those of writers that cut at 122,880, and are smaller (bench/).
inline constexpr int64_t kRowGroupRows = 327'680;

struct OutputShape {
  int outputs = 1;      // Planned number of files, of about equal size.
  int outputs_max = 0;  // More than these are refused (kUnsupported). 0: no bound.
  int64_t file_size_bytes_target =
      0;                            // Fewer files are made where the bytes shrink. 0: as planned.
  int64_t file_size_bytes_max = 0;  // Hard upper bound to roll at, compressed bytes.
  int64_t row_group_bytes = 0;      // Uncompressed bytes per row group.
  int64_t row_group_rows = 0;       // Row cap per row group.
  int64_t page_bytes = 0;           // Uncompressed bytes per data page.
  std::string codec = "zstd";       // zstd | snappy | lz4_raw | gzip | none.
  int codec_level = 3;
  std::vector<std::string> plain_columns;  // Never dictionary-encoded (dotted path).
  std::vector<std::string> bloom_columns;  // Besides those that an input has a filter on (P19).
  // Refuse outputs larger than inputs times this (P29). 0: no bound.
  double growth_max = 1.25;
  bool splice = true;  // Move pages as they are where that is right.
  // Pages are moved if they have so many bytes, unpacked, or so many values, on average per column
  // of a row group: many small inputs must not leave thousands of tiny pages.
  int64_t splice_page_bytes_min = 8 * 1024;
  int64_t splice_page_values_min = 4096;
};

struct InputFile {
  std::string key;
  int64_t size = 0;
  // Rows that are left out; null: none. kCorrupt if one is not below the file's row count.
  std::shared_ptr<const PositionSet> deleted = {};
  // What the table's metadata says, for tables: checked against the file (R100). -1: unknown.
  int64_t records = -1;
  // Row lineage (TableTarget::row_lineage): the _row_id of the file's first row, and what rows that
  // carry no _last_updated_sequence_number of their own inherit.
  std::optional<int64_t> first_row_id = {};
  int64_t data_sequence_number = 0;
  // Values, by field id, of columns that this file lacks: of identity partition fields (Iceberg,
  // "Column Projection").
  std::vector<std::pair<int, iceberg::Value>> constants = {};
  // As it was listed; empty and unset: not known (storage::Store::OpenKnown).
  std::string version = {};
  Time modified = {};
  storage::ObjectInfo object() const {
    return {.key = key, .size = size, .modified = modified, .version = version};
  }
};

// What the outputs of a table look like; without it they get the union of the inputs' schemas.
// Columns go by field id (I24, P22): those of `schema`, in its order; columns of the inputs that it
// does not have are left out, and columns that no input has and no constant or default is needed
// for are left out too. A file without field ids gets them from `name_mapping`; kUnsupported if
// that is empty.
struct TableTarget {
  iceberg::Schema schema;
  std::vector<iceberg::NameMapping> name_mapping;
  // Format version 3: outputs carry _row_id and _last_updated_sequence_number (I22).
  bool row_lineage = false;
  // Which numbers each column's metadata holds, by field id: none | counts | truncate(n) | full
  // (write.metadata.metrics.*). The default is truncate(16).
  std::map<int, std::string> metrics_modes;
  std::string metrics_mode = "truncate(16)";
};

// Rows of the outputs in an order of their own instead of that of the inputs.
struct Ordering {
  RowOrder order;
  // Where what does not fit the memory waits; empty: kLimit then.
  std::string spill_directory;
  int64_t spill_bytes_max = 0;  // 0: no bound but the disk's.
};

enum class Verify { kCounts, kSample, kFull };

// Waits until a group may load its inputs; what it gives is held until they are there. kCancelled.
using TurnToLoad = std::function<Result<Turns::Turn>(const CancelFlag& cancel)>;

// Of so many groups at a time, how many may load at the same time. Groups that begin together and
// share a link would go on in step: all read, and then all write, while the other direction of the
// link has nothing to do.
inline int LoadsAtOnce(int groups_at_once) { return (groups_at_once + 1) / 2; }

// What is rewritten, where to, under which bounds.
struct GroupRequest {
  std::string job_id;
  std::string partition;          // Key prefix; outputs go right below it.
  std::vector<InputFile> inputs;  // In output order.
  RowRule rows;
  std::shared_ptr<const TableTarget> table = {};  // Null: plain Parquet.
  // Null: as they come. Set: all columns are recoded, and outputs have disjoint ranges of keys, but
  // for keys that more rows have than fit one.
  std::shared_ptr<const Ordering> ordering = {};
  OutputShape shape;
  Verify verify = Verify::kSample;
  int threads = 1;                        // Upper bound for this group.
  int64_t memory_bytes = 0;               // Upper bound for this group's buffers.
  std::function<std::string()> new_name;  // A fresh bare name per output, "<uuidv7>.parquet".
  // Where reads of the store are no cheap ones. Null: it need not wait.
  TurnToLoad turn_to_load;
  // Called once, after every row was accounted for and before the first output becomes visible.
  // An error from it discards the outputs.
  std::function<Status()> before_publish;
  std::function<void(int64_t input_bytes)>
      on_progress;  // Bytes of input done since the last call; any thread.
};

// What the table's metadata holds of an output (Iceberg, "Data File Fields"), by field id.
struct ColumnMetrics {
  iceberg::ByField<int64_t> column_sizes;
  iceberg::ByField<int64_t> value_counts;
  iceberg::ByField<int64_t> null_value_counts;
  iceberg::ByField<int64_t> nan_value_counts;
  iceberg::ByField<std::string> lower_bounds;  // Binary single-value serialization.
  iceberg::ByField<std::string> upper_bounds;
};

struct OutputFile {
  std::string name;
  int64_t size = 0;  // Bytes.
  int64_t rows = 0;
  int64_t row_groups = 0;
  ContentDigest digest;                // As GroupReport::digest_in.
  ColumnMetrics metrics;               // Empty without a TableTarget.
  std::vector<int64_t> split_offsets;  // Of the row groups; likewise.
  int64_t footer_bytes = 0;            // Without its length and the magic number; 0: not known.
};

struct GroupReport {
  std::vector<OutputFile> outputs;      // Empty if no row is left.
  std::vector<int64_t> rows_per_input;  // As read, deleted ones included.
  int64_t rows_in = 0;                  // Counted while reading, never taken from a footer.
  int64_t rows_deleted = 0;  // Of InputFile::deleted; rows_out == rows_in - rows_deleted.
  int64_t rows_out = 0;      // Counted while writing.
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  // Of every row and column; of the number of rows only where digest_complete is false: where
  // nothing was to be verified, or columns were moved without a look at their values.
  ContentDigest digest_in;
  bool digest_complete = true;
  // Column chunks of the inputs by tier: {"copy": 24, "recode": 96, "splice": 32}. There is one for
  // each of their row groups of which rows survive, and each column of the outputs.
  std::map<std::string, int64_t> tiers;
  // Those spliced, by way: copied, united, unfolded, joined, gathered.
  std::map<std::string, int64_t> splices;
  std::map<std::string, int64_t> recoded;  // Those of tier recode, by reason.
  bool came_in_order = false;              // With an Ordering: the inputs' rows were in it already.
  int64_t spilled_bytes = 0;               // The most that waited on disk at a time.
  std::vector<std::string> notes;  // Decisions worth telling: dropped metadata keys, widened types.
};

struct VerifyReport {
  int64_t rows = 0;
  ContentDigest digest;                   // Of what was read now.
  std::optional<ContentDigest> recorded;  // What the footer's mark claims.
};

// Column chunks as in GroupReport.
struct ColumnTiers {
  std::string path;  // Dotted, of the outputs.
  std::map<std::string, int64_t> tiers;
  std::map<std::string, int64_t> recoded;
};

// What footers tell of the tiers that a rewrite will choose. Those of tier splice are those that
// may be spliced: what their pages hold can still send them to tier recode. All others are settled.
struct TierPlan {
  int64_t row_groups = 0;                  // To be written, in all outputs.
  std::map<std::string, int64_t> tiers;    // Of all columns.
  std::map<std::string, int64_t> recoded;  // Likewise.
  std::vector<ColumnTiers> columns;        // In the outputs' order.
};

// Thread-safe: groups may run at the same time.
class GroupRunner {
 public:
  virtual ~GroupRunner() = default;

  // Reads the footer only, unless the facts of this version are known. `object`: as it was listed,
  // or its key alone. kCorrupt for a file that is no readable Parquet (0 bytes, truncated);
  // kConflict if it is another version by now. `first_read`: so many bytes from the end are asked
  // for at first, where somebody says how large the footer is; 0: as many as are worth a request.
  // With it and with the object's size nothing else is asked for, and nothing is remembered.
  virtual Result<FileFacts> Inspect(const storage::ObjectInfo& object, int64_t first_read = 0) = 0;

  // What Run() would do, as far as the inputs' footers tell: their pages are not read, and nothing
  // is written. Errors are those of opening and planning, as from Run(). Of the request's functions
  // none is called.
  virtual Result<TierPlan> Explain(const GroupRequest& request, const CancelFlag& cancel) = 0;

  // Rewrites, accounts, publishes and verifies as asked. On any error no output is left visible,
  // except kCorrupt from verification after publishing and kUnknownOutcome: those name what stays.
  // kCorrupt: an input is damaged, a row does not belong here, or a count or digest does not match.
  // kUnsupported: schemas or encodings that are not merged, with the reason. kLimit: memory_bytes
  // cannot hold even one column's pages, or no space. kNotFound: an input vanished.
  virtual Result<GroupReport> Run(const GroupRequest& request, const CancelFlag& cancel) = 0;

  // Reads every value of one file; checks it against its mark and `rows`.
  virtual Result<VerifyReport> VerifyFile(const std::string& key, const RowRule& rows,
                                          const CancelFlag& cancel) = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_GROUP_RUNNER_H_
