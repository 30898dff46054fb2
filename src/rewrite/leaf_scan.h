// Reading a few flat columns of a Parquet file by Iceberg field id, batch by batch, in the forms of
// leaf_value.h. Columns lie at the top or in structs, never in lists or maps.
//
// Nothing is copied: bytes of a batch lie in the page that they were read from. One thread per
// file.
#ifndef LITHIFY_REWRITE_LEAF_SCAN_H_
#define LITHIFY_REWRITE_LEAF_SCAN_H_

#include <parquet/schema.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/result.h"
#include "rewrite/arrow_io.h"
#include "rewrite/group_runner.h"
#include "rewrite/leaf_value.h"
#include "rewrite/page_reader.h"

namespace lithify::rewrite {

struct ScanFile {
  std::string key;
  std::shared_ptr<const Footer> footer;
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  int64_t size = 0;
  arrow::MemoryPool* pool = nullptr;
  int64_t read_bytes = 0;

  PagesFile Pages() const { return {file, size, footer.get(), pool, read_bytes}; }
};

// Where reads are requests: as few of them as there can be, a file of moderate size whole; or few
// bytes, of all but the smallest files no others than those of the footer and of what is asked for.
enum class ScanReading { kFewRequests, kFewBytes };

// `size` and `records` as the table's metadata says, -1: unknown. kCorrupt: damaged, or with
// another number of rows (R100). kUnsupported: encrypted, or another format.
Result<ScanFile> OpenScanFile(ReaderCache& cache, const std::string& key, int64_t size,
                              int64_t records, BoundedPool& pool, const CancelFlag* cancel,
                              ScanReading reading = ScanReading::kFewRequests);

// The fields from the top of the schema down to a primitive one. kUnsupported: the schema does not
// have it, it lies in a list or map, or values of its type are not compared.
Result<std::vector<const iceberg::Field*>> PathToField(const iceberg::Schema& schema, int field_id);

// Where a field is in one file.
struct LeafPlace {
  int column = -1;     // Parquet column; -1: the file lacks it.
  size_t lacking = 0;  // Then the depth of the first field on its path that the file lacks,
  bool below_optional = false;  // and whether a struct above that may be null.
  bool by_mapping = false;      // The file has no field ids.
};
// By field ids; by `mapping` in a file that has none.
Result<LeafPlace> FindLeaf(const parquet::SchemaDescriptor& schema,
                           std::span<const iceberg::Field* const> path,
                           const std::vector<iceberg::NameMapping>& mapping);

// What comparing values of a type needs.
LeafForm FormOf(const iceberg::Type& type);

// One column, row group by row group: OpenGroup(), then Fill() and Advance() until all rows of the
// group are used up, then CloseGroup(). Row i of the rows at hand is at index at() + i.
class LeafCursor {
 public:
  virtual ~LeafCursor() = default;
  virtual Status OpenGroup(int group) = 0;
  // Makes at least one row available, if the row group has any left. What was available before
  // must be used up; bytes of earlier rows become invalid.
  virtual Status Fill() = 0;
  // kCorrupt if the column has more rows than its row group.
  virtual Status CloseGroup() = 0;

  size_t available() const { return end_ - at_; }
  size_t at() const { return at_; }
  void Advance(size_t rows) { at_ += rows; }
  bool valid(size_t i) const { return valid_[i] != 0; }
  const uint8_t* valids() const { return valid_.data(); }
  const int64_t* words() const { return words_.data(); }
  const iceberg::Int128* decimals() const { return decimals_.data(); }
  const std::string_view* bytes() const { return bytes_.data(); }

 protected:
  static constexpr size_t kRowsMax = 4096;
  void Allocate(LeafForm form);

  size_t at_ = 0;
  size_t end_ = 0;
  // By row; only the vector of the column's form is used.
  std::vector<uint8_t> valid_;
  std::vector<int64_t> words_;
  std::vector<iceberg::Int128> decimals_;
  std::vector<std::string_view> bytes_;
};

// `file` outlives the cursor.
Result<std::unique_ptr<LeafCursor>> MakeLeafCursor(const ScanFile& file, int column,
                                                   const iceberg::Type& type);
// Likewise, of a flat column that is read in such a way, which fits its type.
Result<std::unique_ptr<LeafCursor>> MakeLeafCursor(const ScanFile& file, int column,
                                                   const LeafReading& reading);
// The same value in every row. kInvalid if it is none of the type.
Result<std::unique_ptr<LeafCursor>> MakeConstantCursor(const ScanFile& file,
                                                       const iceberg::Field& field,
                                                       const iceberg::Value& value);
// What rows of the data file `input` have in a column of the table: those of the file, or what
// stands in for them [Column Projection].
Result<std::unique_ptr<LeafCursor>> MakeTableCursor(
    const ScanFile& file, const InputFile& input, std::span<const iceberg::Field* const> path,
    const std::vector<iceberg::NameMapping>& mapping);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_LEAF_SCAN_H_
