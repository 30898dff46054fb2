// Entries of one output column into pages. Values that come as indices of a dictionary stay what
// they are as long as the output has one: each entry is looked up in the output's dictionary once,
// and numbers are translated by a table. Bytes follow from the entries and options alone (R232).
//
// What is said of a page and of the chunk (bounds, nulls, sizes, level histograms, the bloom
// filter) is of the values that are written, exactly.
#ifndef LITHIFY_REWRITE_COLUMN_ENCODER_H_
#define LITHIFY_REWRITE_COLUMN_ENCODER_H_

#include <arrow/memory_pool.h>
#include <arrow/util/type_fwd.h>
#include <parquet/properties.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/page_threads.h"
#include "rewrite/raw_column.h"

namespace lithify::rewrite {

// What indices stand for.
template <typename T>
struct ValueDictionary {
  std::span<const T> values;
  uint64_t serial = 0;  // Another number for each dictionary that an encoder gets; not 0.
  // Of each value, where they are hashed.
  std::vector<uint64_t> hashes;
  // What `values` lies in, where it was made.
  std::unique_ptr<T[]> made;
  std::vector<uint8_t> fixed;
};

// Some entries in order.
struct EntrySpan {
  const int16_t* definition = nullptr;  // Not looked at where the column is required.
  const int16_t* repetition = nullptr;  // Null: the column is flat.
  int64_t levels = 0;
  int64_t present = 0;  // Those that have a value.
};

struct ColumnEncoderOptions {
  const parquet::ColumnDescriptor* column = nullptr;  // Outlives the encoder.
  arrow::Compression::type codec = arrow::Compression::UNCOMPRESSED;
  std::optional<int> codec_level;
  // Begin with a dictionary. It is given up where it grows over its bytes, or many values show that
  // it is of no use; what is written by then stays.
  bool dictionary = false;
  int64_t dictionary_bytes_max = 0;
  // Of values without a dictionary: PLAIN, or one that parquet::MakeEncoder() knows for the type.
  parquet::Encoding::type encoding = parquet::Encoding::PLAIN;
  int64_t page_bytes = 0;  // A page of so many bytes or rows is complete; it ends with a row.
  int64_t page_rows = 0;
  int64_t row_bytes_max = 0;  // kLimit if a row has about so many and more; 0: any.
  bool statistics = true;
  size_t statistics_bytes_max = 0;  // Longer bounds are left out.
  arrow::MemoryPool* pool = nullptr;
};

// As the properties have it for the column.
ColumnEncoderOptions EncoderOptions(const parquet::WriterProperties& properties,
                                    const parquet::ColumnDescriptor* column);

// Throws Parquet's exceptions. One thread at a time.
class ColumnEncoder {
 public:
  virtual ~ColumnEncoder() = default;
  // Every entry was added: writes what is left, and what the footer says of the chunk. Nothing is
  // held any more.
  virtual void Finish() = 0;
};

// The first entry of all begins a row. Values are dense.
template <typename DType>
class TypedColumnEncoder : public ColumnEncoder {
 public:
  using T = typename DType::c_type;
  virtual void Add(const EntrySpan& entries, const T* values) = 0;
  // Each index is one of the dictionary's.
  virtual void AddFolded(const EntrySpan& entries, const uint32_t* indices,
                         const ValueDictionary<T>& dictionary) = 0;
};

// A TypedColumnEncoder of the column's physical type. With `threads`, they pack pages, where no
// dictionary has to be waited for; they and `to` outlive the encoder. kUnsupported: an unknown
// codec.
Result<std::unique_ptr<ColumnEncoder>> MakeColumnEncoder(const ColumnEncoderOptions& options,
                                                         RawColumn& to, PageThreads* threads);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_COLUMN_ENCODER_H_
