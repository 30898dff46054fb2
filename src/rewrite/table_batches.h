// Files of a table as Arrow batches, for queries: the rows that are not deleted, under the table's
// schema now, whatever the file's is. Columns are mapped, converted and filled as for a rewrite
// (rewrite/table_schema.h).
#ifndef LITHIFY_REWRITE_TABLE_BATCHES_H_
#define LITHIFY_REWRITE_TABLE_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"

// Arrow's C data interface (arrow/c/abi.h).
struct ArrowArray;
struct ArrowSchema;

namespace lithify::rewrite {

// Owns a batch, for those who do without Arrow's headers.
class ArrowBatch {
 public:
  ArrowBatch();  // None.
  ArrowBatch(ArrowBatch&&) noexcept;
  ArrowBatch& operator=(ArrowBatch&&) noexcept;
  ~ArrowBatch();

  explicit operator bool() const { return array_ != nullptr; }
  // The batch is the other's then, who releases it.
  void MoveTo(ArrowArray* out);
  // Where somebody exports to; released with this.
  static ArrowBatch Make();
  ArrowArray* get() { return array_.get(); }

 private:
  struct Release {
    void operator()(ArrowArray* array) const;
  };
  std::unique_ptr<ArrowArray, Release> array_;
};

// Whether columns of the type can be read; variants cannot.
bool HasBatches(const iceberg::Type& type);

// The columns as a struct in Arrow's C data interface, which the caller releases. Uuids are
// "arrow.uuid", geometries and geographies their bytes (WKB). kUnsupported for types without
// batches.
Status ExportTableSchema(const std::vector<iceberg::Field>& fields, ArrowSchema* out);

struct BatchOptions {
  int64_t memory_bytes = 0;  // Of the file's buffers; what batches hold comes on top.
  int64_t batch_bytes = 0;   // About, of a batch.
  int64_t batch_rows = 0;    // At most.
  const CancelFlag* cancel = nullptr;
};

// One file. One thread at a time.
class FileBatches {
 public:
  virtual ~FileBatches() = default;
  // The next rows, as ExportTableSchema() of the table's columns has them; none at the end, when
  // every row of the file is accounted for. Errors are those of GroupRunner::Run() about an input.
  virtual Result<ArrowBatch> Next() = 0;
};

// `table.schema` has the columns to read, at least one; of row lineage and metrics nothing is used.
// `file` is as for a rewrite. Store and cancel flag outlive the result.
Result<std::unique_ptr<FileBatches>> OpenFileBatches(storage::Store& store, const InputFile& file,
                                                     const TableTarget& table,
                                                     const BatchOptions& options);

// A batch of so many rows without columns.
ArrowBatch MakeRowCount(int64_t rows);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TABLE_BATCHES_H_
