// SELECT by an embedded DuckDB over tables that the caller hands over as Arrow streams.
//
// A statement reads what a TableProvider gives it and nothing else: there is one in-memory DuckDB
// per statement, without access to files, the network, extensions or its own configuration
// (docs/SERVER.md, "Reading tables with SELECT"). Only the columns that a statement uses are asked
// of a table, and what its WHERE clause says of them is handed down for the pruning of files.
#ifndef LITHIFY_SERVE_SELECT_H_
#define LITHIFY_SERVE_SELECT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"

// Arrow's C data interface.
struct ArrowArray;
struct ArrowSchema;

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace lithify::serve {

// What a statement needs of a table.
struct TableRead {
  std::vector<int> columns;  // Indices into the schema, in the order wanted; none: rows alone.
  // A condition in the language of table/iceberg_filter.h that every row which counts fulfils;
  // empty: none is known. Rows that do not fulfil it may come all the same.
  std::string filter;
  int threads = 1;
  const CancelFlag* cancel = nullptr;  // Outlives the stream.
};

// Batches of rows. Any thread, one call at a time or several at once.
class TableStream {
 public:
  virtual ~TableStream() = default;
  // The next batch, a struct of exactly the columns that were asked for, which the caller releases;
  // false at the end. Without columns, batches of lengths alone.
  virtual Result<bool> Next(ArrowArray* out) = 0;
};

// What reading a table would take.
struct TablePlan {
  std::optional<int64_t> snapshot_id;  // Unset: the table has none.
  int64_t files_live = 0;
  int64_t files = 0;  // Of which so many are read.
  int64_t bytes = 0;  // Sizes of these, whole.
  int64_t records = 0;
  int64_t delete_files = 0;
};

// One table, as one statement sees it. Any thread; several streams may be open at once.
class TableSource {
 public:
  virtual ~TableSource() = default;
  // The table's columns, as a struct, which the caller releases.
  virtual Status GetSchema(ArrowSchema* out) = 0;
  // The stream does not outlive the source.
  virtual Result<std::unique_ptr<TableStream>> Open(const TableRead& read) = 0;
  // Unset: it is not made of files.
  virtual Result<std::optional<TablePlan>> Plan(const TableRead&) { return std::nullopt; }
  // About how many rows there are, for the optimizer; unset: unknown.
  virtual std::optional<int64_t> rows() const { return {}; }
};

struct TableName {
  std::vector<std::string> parts;  // As written, without quotes: one to three.
  // AT (VERSION => …): a snapshot's number, or the name of a branch or tag; empty: the table as it
  // is now.
  std::string version;
};

// The tables that one caller may read.
class TableProvider {
 public:
  virtual ~TableProvider() = default;
  // Null: there is none of that name. Errors end the statement as they are. Called one at a time,
  // once for each distinct name in a statement.
  virtual Result<std::shared_ptr<TableSource>> Find(const TableName& name) = 0;
};

struct SelectLimits {
  int64_t memory_bytes = int64_t{1} << 30;  // Of DuckDB; nothing is written to disk beyond it.
  int threads = 1;
  int64_t result_rows_max = 0;  // 0: no bound.
  int64_t result_bytes_max = 0;
  Duration time_max = Duration::zero();  // From Run() to the last batch; zero: no bound.
};

// What is known of a statement before it is run.
struct SelectDescription {
  std::shared_ptr<arrow::Schema> result;      // Null where it depends on the parameters.
  std::shared_ptr<arrow::Schema> parameters;  // "1", "2", …; of type null where any will do.
};

// How a statement would be run.
struct SelectPlan {
  // Each use of a table, in the order in which the statement names them.
  struct Read {
    TableName name;
    // Those that are read; none: rows are only counted, or the plan does without the table.
    std::vector<std::string> columns;
    std::string filter;  // As TableRead has it.
    std::optional<TablePlan> table;
  };
  std::vector<Read> reads;
  std::string text;  // DuckDB's plan: an operator per line, those that it reads from below it.
};

// The rows of a statement, of other kinds too, made as they are asked for. One thread at a time. To
// destroy it ends the statement.
class SelectResult {
 public:
  virtual ~SelectResult() = default;
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  // The next batch, of up to some thousand rows; null at the end. After an error, no more calls.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
};

// Errors: kInvalid for what is no SELECT or does not fit the tables, with the position; kNotFound
// for a table that the provider does not have; kDenied for statements and functions that are not
// to be had here; kLimit for limits; kCancelled; and what the provider and its streams give.
//
// Thread safety: any number of statements at once.
class DuckPool;

class SelectEngine {
 public:
  SelectEngine();

  // `parameters` is one row with a column for each; null: there are none. `provider` is used during
  // the call only, the sources that it gives as long as the result, which `cancel` outlives.
  Result<std::unique_ptr<SelectResult>> Run(std::string_view sql,
                                            const std::shared_ptr<arrow::RecordBatch>& parameters,
                                            TableProvider& provider, const SelectLimits& limits,
                                            const CancelFlag& cancel);

  // Reads no rows.
  Result<SelectDescription> Describe(std::string_view sql, TableProvider& provider,
                                     const SelectLimits& limits, const CancelFlag& cancel);

  // Reads no rows either, but what the tables need to know their files. Errors, and `parameters`,
  // as of Run().
  Result<SelectPlan> Explain(std::string_view sql,
                             const std::shared_ptr<arrow::RecordBatch>& parameters,
                             TableProvider& provider, const SelectLimits& limits,
                             const CancelFlag& cancel);

 private:
  std::shared_ptr<DuckPool> pool_;  // Shared with the results, which may outlive the engine.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_SELECT_H_
