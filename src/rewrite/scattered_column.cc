#include "rewrite/scattered_column.h"

#include <parquet/exception.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/physical_type.h"
#include "rewrite/row_hash.h"
#include "rewrite/typed_values.h"

namespace lithify::rewrite {
namespace {

constexpr int kSpillLevel = 1;  // Of zstd: the disk is not to be waited for, nor the packing.
constexpr int64_t kBlockBytesMin = 64 << 10;
constexpr int64_t kBlockBytesMax = 4 << 20;
constexpr size_t kPlaceEntries = 4096;
constexpr uint32_t kNoRow = std::numeric_limits<uint32_t>::max();

[[noreturn]] void Throw(const Error& error) {
  throw parquet::ParquetStatusException(ToArrow(error));
}

Error Damaged() {
  return Error{Code::kCorrupt, "what was spilled does not come back as it was", "",
               "check the disk of the spill directory"};
}

// Rows of one part that wait together, and how they lie on the disk: the arrays one after the
// other.
struct Block {
  std::vector<uint32_t> ranks;  // Of the rows, from the part's first on.
  std::string definition;       // Of the entries, a byte each.
  std::string repetition;       // Empty: the column is flat.
  std::string values;           // PLAIN.
  int64_t present = 0;

  int64_t bytes() const {
    return static_cast<int64_t>(ranks.size() * sizeof(uint32_t) + definition.size() +
                                repetition.size() + values.size());
  }
  void Clear() {
    ranks.clear();
    definition.clear();
    repetition.clear();
    values.clear();
    present = 0;
  }
};

// Where a block lies, packed.
struct StoredBlock {
  int64_t offset = 0;
  size_t packed = 0;
  uint64_t hash = 0;  // Of the packed bytes.
  size_t rows = 0;
  size_t levels = 0;
  size_t values = 0;  // Bytes.
  int64_t present = 0;
};

template <typename DType>
class Scattered final : public ScatteredColumn, private TypedColumnEncoder<DType> {
  using T = typename DType::c_type;
  static constexpr bool kArrays = std::is_same_v<DType, parquet::ByteArrayType>;
  static constexpr bool kFixed = std::is_same_v<DType, parquet::FLBAType>;

 public:
  Scattered(const parquet::ColumnDescriptor* column, std::span<const uint32_t> ranks,
            std::vector<int64_t> bounds, sort::SpillFile& file, arrow::MemoryPool* pool,
            int64_t buffer_bytes)
      : column_(column),
        ranks_(ranks),
        bounds_(std::move(bounds)),
        file_(file),
        pool_(pool),
        definition_max_(column->max_definition_level()),
        nested_(column->max_repetition_level() > 0),
        plain_form_(WidthOf(*column)),
        block_bytes_(std::clamp(buffer_bytes / std::max<int64_t>(1, std::ssize(bounds_) - 1),
                                kBlockBytesMin, kBlockBytesMax)),
        waiting_(bounds_.size() - 1),
        stored_(bounds_.size() - 1) {}

  ColumnEncoder& collector() override { return *this; }

  Result<HeldPart> Take(size_t part) override {
    const int64_t rows = bounds_[part + 1] - bounds_[part];
    HeldPart out;
    out.column = HoldColumn(column_, rows, pool_);
    out.rows.assign(static_cast<size_t>(rows), kNoRow);
    uint32_t number = 0;
    for (const StoredBlock& block : stored_[part]) {
      LITHIFY_TRY(Place(block, out, number));
    }
    if (number != out.rows.size()) return Fail(Damaged());
    out.column->collector().Finish();
    return out;
  }

 private:
  // ---------------------------------------------------------------------------------- collecting

  void Add(const EntrySpan& entries, const T* values) override {
    AddAll(entries, [&](int64_t i) { return values[i]; });
  }
  void AddFolded(const EntrySpan& entries, const uint32_t* indices,
                 const ValueDictionary<T>& dictionary) override {
    AddAll(entries, [&](int64_t i) { return dictionary.values[indices[i]]; });
  }
  void Finish() override {
    for (size_t part = 0; part < waiting_.size(); ++part) Store(part);
  }

  template <typename ValueAt>
  void AddAll(const EntrySpan& entries, const ValueAt& value_at) {
    int64_t value = 0;
    for (int64_t i = 0; i < entries.levels; ++i) {
      if (entries.repetition == nullptr || entries.repetition[i] == 0) BeginRow();
      Block& block = waiting_[part_];
      const int16_t level = definition_max_ == 0 ? int16_t{0} : entries.definition[i];
      block.definition.push_back(static_cast<char>(level));
      if (nested_) block.repetition.push_back(static_cast<char>(entries.repetition[i]));
      if (level != definition_max_) continue;
      const T one = value_at(value++);
      plain_form_.Append(&one, 1, plain_form_.BytesOf(one), &block.values);
      ++block.present;
    }
  }

  void BeginRow() {
    if (row_ > 0 && waiting_[part_].bytes() >= block_bytes_) Store(part_);
    const int64_t rank = ranks_[row_++];
    const auto above = std::upper_bound(bounds_.begin(), bounds_.end(), rank);
    part_ = static_cast<size_t>(above - bounds_.begin()) - 1;
    waiting_[part_].ranks.push_back(static_cast<uint32_t>(rank - bounds_[part_]));
  }

  void Store(size_t part) {
    Block& block = waiting_[part];
    if (block.ranks.empty()) return;
    plain_.clear();
    plain_.append(reinterpret_cast<const char*>(block.ranks.data()),
                  block.ranks.size() * sizeof(uint32_t));
    plain_ += block.definition;
    plain_ += block.repetition;
    plain_ += block.values;
    packed_.resize(ZSTD_compressBound(plain_.size()));
    const size_t size =
        ZSTD_compress(packed_.data(), packed_.size(), plain_.data(), plain_.size(), kSpillLevel);
    if (ZSTD_isError(size) != 0) Throw(Error{Code::kInternal, ZSTD_getErrorName(size), "", ""});
    auto offset = file_.Append(std::span(packed_.data(), size));
    if (!offset) Throw(offset.error());
    stored_[part].push_back(StoredBlock{*offset, size, HashBytes(packed_.data(), size),
                                        block.ranks.size(), block.definition.size(),
                                        block.values.size(), block.present});
    block.Clear();
  }

  // ------------------------------------------------------------------------------------- placing

  Status Unpack(const StoredBlock& block) {
    packed_.resize(block.packed);
    LITHIFY_TRY(file_.Read(block.offset, packed_));
    if (HashBytes(packed_.data(), packed_.size()) != block.hash) return Fail(Damaged());
    const size_t bytes =
        block.rows * sizeof(uint32_t) + (nested_ ? 2 : 1) * block.levels + block.values;
    plain_.resize(bytes);
    const size_t size =
        ZSTD_decompress(plain_.data(), plain_.size(), packed_.data(), packed_.size());
    if (ZSTD_isError(size) != 0 || size != bytes) return Fail(Damaged());
    return {};
  }

  Status Place(const StoredBlock& block, HeldPart& out, uint32_t& number) {
    LITHIFY_TRY(Unpack(block));
    const char* at = plain_.data();
    for (size_t i = 0; i < block.rows; ++i, at += sizeof(uint32_t)) {
      uint32_t rank = 0;
      std::memcpy(&rank, at, sizeof rank);
      if (rank >= out.rows.size() || out.rows[rank] != kNoRow) return Fail(Damaged());
      out.rows[rank] = number++;
    }
    const char* const definition = at;
    const char* const repetition = definition + block.levels;
    const char* const values = nested_ ? repetition + block.levels : repetition;
    std::span<const uint8_t> plain(reinterpret_cast<const uint8_t*>(values), block.values);
    auto& to = static_cast<TypedColumnEncoder<DType>&>(out.column->collector());
    definition_.resize(kPlaceEntries);
    repetition_.resize(kPlaceEntries);
    if (values_ == nullptr) values_ = std::make_unique<T[]>(kPlaceEntries);
    for (size_t first = 0; first < block.levels; first += kPlaceEntries) {
      const size_t count = std::min(kPlaceEntries, block.levels - first);
      EntrySpan entries{definition_.data(), nested_ ? repetition_.data() : nullptr,
                        static_cast<int64_t>(count), 0};
      for (size_t i = 0; i < count; ++i) {
        definition_[i] = static_cast<uint8_t>(definition[first + i]);
        if (nested_) repetition_[i] = static_cast<uint8_t>(repetition[first + i]);
        if (definition_[i] != definition_max_) continue;
        const size_t bytes = BytesOfNext(plain);
        values_[static_cast<size_t>(entries.present++)] = plain_form_.Value(plain.first(bytes));
        plain = plain.subspan(bytes);
      }
      to.Add(entries, values_.get());
    }
    return {};
  }

  // They were put there by Store(), and are the same bytes.
  size_t BytesOfNext(std::span<const uint8_t> plain) const {
    if constexpr (kArrays) {
      uint32_t length = 0;
      std::memcpy(&length, plain.data(), sizeof length);
      return kLengthBytes + length;
    } else {
      return static_cast<size_t>(plain_form_.BytesOf(T{}));
    }
  }

  static int WidthOf(const parquet::ColumnDescriptor& column) {
    if constexpr (kArrays) return 0;
    if constexpr (kFixed) return column.type_length();
    return static_cast<int>(sizeof(T));
  }

  const parquet::ColumnDescriptor* const column_;
  const std::span<const uint32_t> ranks_;
  const std::vector<int64_t> bounds_;
  sort::SpillFile& file_;
  arrow::MemoryPool* const pool_;
  const int16_t definition_max_;
  const bool nested_;
  const Plain<DType> plain_form_;
  const int64_t block_bytes_;
  size_t row_ = 0;   // That comes next.
  size_t part_ = 0;  // Of the row that came last.
  std::vector<Block> waiting_;
  std::vector<std::vector<StoredBlock>> stored_;
  std::string plain_;
  std::vector<uint8_t> packed_;
  std::vector<int16_t> definition_;
  std::vector<int16_t> repetition_;
  std::unique_ptr<T[]> values_;
};

}  // namespace

std::unique_ptr<ScatteredColumn> ScatterColumn(const parquet::ColumnDescriptor* column,
                                               std::span<const uint32_t> ranks,
                                               std::vector<int64_t> bounds, sort::SpillFile& file,
                                               arrow::MemoryPool* pool, int64_t buffer_bytes) {
  return OfPhysicalType(column->physical_type(),
                        [&]<typename DType>(DType*) -> std::unique_ptr<ScatteredColumn> {
                          return std::make_unique<Scattered<DType>>(
                              column, ranks, std::move(bounds), file, pool, buffer_bytes);
                        });
}

}  // namespace lithify::rewrite
