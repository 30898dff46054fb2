#include "rewrite/held_column.h"

#include <arrow/buffer.h>
#include <arrow/stl_allocator.h>
#include <parquet/exception.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rewrite/arrow_io.h"
#include "rewrite/dictionary_union.h"
#include "rewrite/physical_type.h"
#include "rewrite/typed_values.h"

namespace lithify::rewrite {
namespace {

constexpr int64_t kEncodeEntries = 4096;  // Given to the encoder at a time.
constexpr size_t kAhead = 16;             // Rows that are fetched ahead from memory.
constexpr int64_t kBlockBytes = 1 << 20;
constexpr int64_t kDictionaryBytes = 64 << 20;  // More than that is not folded.

template <typename T>
using PoolVector = std::vector<T, arrow::stl::allocator<T>>;

// Bytes of values that come one after the other and stay where they are put.
class Arena {
 public:
  explicit Arena(arrow::MemoryPool* pool) : pool_(pool) {}

  int64_t bytes() const { return bytes_; }

  const uint8_t* Put(const uint8_t* bytes, size_t size) {
    if (size > room_) Grow(size);
    uint8_t* const to = at_;
    CopyShort(bytes, size, to);
    at_ += size;
    room_ -= size;
    return to;
  }

 private:
  void Grow(size_t least) {
    const int64_t bytes = std::max(kBlockBytes, static_cast<int64_t>(least));
    PARQUET_ASSIGN_OR_THROW(auto block, arrow::AllocateBuffer(bytes, pool_));
    at_ = block->mutable_data();
    room_ = static_cast<size_t>(bytes);
    bytes_ += bytes;
    blocks_.push_back(std::move(block));
  }

  arrow::MemoryPool* const pool_;
  std::vector<std::unique_ptr<arrow::Buffer>> blocks_;
  uint8_t* at_ = nullptr;
  size_t room_ = 0;
  int64_t bytes_ = 0;
};

template <typename DType>
class Held final : public HeldColumn, private TypedColumnEncoder<DType> {
  using T = typename DType::c_type;
  static constexpr bool kArrays = std::is_same_v<DType, parquet::ByteArrayType>;
  static constexpr bool kFixed = std::is_same_v<DType, parquet::FLBAType>;
  static constexpr bool kBooleans = std::is_same_v<DType, parquet::BooleanType>;
  // As they are held: a vector of bool is none.
  using Stored = std::conditional_t<kBooleans || kFixed, uint8_t, T>;

 public:
  Held(const parquet::ColumnDescriptor* column, int64_t rows, arrow::MemoryPool* pool)
      : definition_max_(column->max_definition_level()),
        nested_(column->max_repetition_level() > 0),
        width_(WidthOf(*column)),
        rows_expected_(static_cast<size_t>(rows)),
        plain_form_(width_),
        pool_(pool),
        definition_(pool),
        repetition_(pool),
        entry_begins_(pool),
        value_begins_(pool),
        values_(pool),
        indices_(pool),
        arena_(pool) {
    if (definition_max_ > 0) definition_.reserve(rows_expected_);
    if (nested_) {
      entry_begins_.reserve(rows_expected_ + 1);
      value_begins_.reserve(rows_expected_ + 1);
    }
    if (!kBooleans) {
      // A dictionary that most rows have an entry of their own in is none.
      const int64_t entries = std::max<int64_t>(rows / 4, 1024);
      union_.emplace(kArrays ? DictionaryUnion::kByteArray : width_,
                     DictionaryBounds{kDictionaryBytes, entries});
    }
  }

  ColumnEncoder& collector() override { return *this; }
  int64_t rows() const override { return rows_; }
  int64_t memory_bytes() const override {
    const auto bytes = [](const auto& vector) {
      return static_cast<int64_t>(vector.capacity() * sizeof(vector[0]));
    };
    return bytes(definition_) + bytes(repetition_) + bytes(entry_begins_) + bytes(value_begins_) +
           bytes(values_) + bytes(indices_) + arena_.bytes() +
           (union_ ? union_->memory_bytes() : 0);
  }

  void Encode(std::span<const uint32_t> rows, ColumnEncoder& encoder) const override {
    auto& to = static_cast<TypedColumnEncoder<DType>&>(encoder);
    if (nested_) return EncodeNested(rows, to);
    return EncodeFlat(rows, to);
  }

 private:
  // ---------------------------------------------------------------------------------- collecting

  void Add(const EntrySpan& entries, const T* values) override {
    if (folded()) Unfold();
    AddLevels(entries);
    ForEachSlot(entries, [&](int64_t value) { Keep(value < 0 ? T{} : values[value]); });
  }

  void AddFolded(const EntrySpan& entries, const uint32_t* indices,
                 const ValueDictionary<T>& dictionary) override {
    if (folded() && !Translate(dictionary)) Unfold();
    AddLevels(entries);
    if (folded()) {
      if (indices_.capacity() == 0) indices_.reserve(rows_expected_);
      ForEachSlot(entries, [&](int64_t value) {
        indices_.push_back(value < 0 ? 0 : mapping_.to[indices[value]]);
      });
      return;
    }
    ForEachSlot(entries,
                [&](int64_t value) { Keep(value < 0 ? T{} : dictionary.values[indices[value]]); });
  }

  void Finish() override {
    if (nested_) {
      entry_begins_.push_back(static_cast<uint32_t>(definition_.size()));
      value_begins_.push_back(static_cast<uint32_t>(slots_));
    }
    if (!folded()) return;
    dictionary_.serial = 1;
    dictionary_.made = std::make_unique<T[]>(static_cast<size_t>(union_->size()));
    for (int64_t i = 0; i < union_->size(); ++i) {
      dictionary_.made[static_cast<size_t>(i)] =
          plain_form_.Value(union_->Entry(static_cast<uint32_t>(i)));
    }
    dictionary_.values =
        std::span<const T>(dictionary_.made.get(), static_cast<size_t>(union_->size()));
  }

  // As long as all that came was folded.
  bool folded() const { return union_.has_value(); }

  // Calls `slot` for each place that is kept for a value, with the number of the value that belongs
  // there: flat columns keep one for nulls (-1), too, so that rows are found by their number.
  template <typename Slot>
  void ForEachSlot(const EntrySpan& entries, const Slot& slot) {
    if (nested_ || definition_max_ == 0) {
      for (int64_t i = 0; i < entries.present; ++i) slot(i);
      slots_ += entries.present;
    } else {
      int64_t value = 0;
      for (int64_t i = 0; i < entries.levels; ++i) {
        slot(entries.definition[i] == definition_max_ ? value++ : -1);
      }
      slots_ += entries.levels;
    }
  }

  void AddLevels(const EntrySpan& entries) {
    if (!nested_) {
      rows_ += entries.levels;
      if (definition_max_ == 0) return;
      for (int64_t i = 0; i < entries.levels; ++i) {
        definition_.push_back(static_cast<uint8_t>(entries.definition[i]));
      }
      return;
    }
    constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
    if (definition_.size() + static_cast<size_t>(entries.levels) >= kMost) {
      throw parquet::ParquetStatusException(ToArrow(Error{
          Code::kLimit, "a group with more than 4,294,967,294 entries of one column is not sorted",
          "", "lower max_file_group_size_bytes"}));
    }
    int64_t value = slots_;
    for (int64_t i = 0; i < entries.levels; ++i) {
      if (entries.repetition[i] == 0) {
        entry_begins_.push_back(static_cast<uint32_t>(definition_.size()));
        value_begins_.push_back(static_cast<uint32_t>(value));
        ++rows_;
      }
      definition_.push_back(static_cast<uint8_t>(entries.definition[i]));
      repetition_.push_back(static_cast<uint8_t>(entries.repetition[i]));
      value += entries.definition[i] == definition_max_ ? 1 : 0;
    }
  }

  void Keep(const T& value) {
    if constexpr (kArrays) {
      values_.push_back(T(value.len, arena_.Put(value.ptr, value.len)));
    } else if constexpr (kFixed) {
      const size_t at = values_.size();
      values_.resize(at + static_cast<size_t>(width_));
      if (value.ptr != nullptr) CopyShort(value.ptr, static_cast<size_t>(width_), &values_[at]);
    } else {
      values_.push_back(static_cast<Stored>(value));
    }
  }

  // Where the entries of the dictionary are in the union. False: the union would grow too large.
  bool Translate(const ValueDictionary<T>& dictionary) {
    if (mapping_of_ == dictionary.serial) return true;
    int64_t bytes = 0;
    for (const T& value : dictionary.values) bytes += plain_form_.BytesOf(value);
    std::string plain;
    plain_form_.Append(dictionary.values.data(), std::ssize(dictionary.values), bytes, &plain);
    auto added =
        union_->Add(std::span(reinterpret_cast<const uint8_t*>(plain.data()), plain.size()),
                    std::ssize(dictionary.values));
    if (!added) throw parquet::ParquetStatusException(ToArrow(added.error()));
    if (!*added) return false;
    mapping_ = std::move(**added);
    mapping_of_ = dictionary.serial;
    return true;
  }

  // From now on values are held themselves.
  void Unfold() {
    const PoolVector<uint32_t> indices = std::exchange(indices_, PoolVector<uint32_t>(pool_));
    const auto dictionary = std::exchange(union_, std::nullopt);
    mapping_ = {};
    values_.reserve((nested_ ? indices.size() : rows_expected_) *
                    static_cast<size_t>(kFixed ? width_ : 1));
    for (size_t i = 0; i < indices.size(); ++i) {
      const bool null = !nested_ && definition_max_ > 0 && definition_[i] != definition_max_;
      Keep(null ? T{} : plain_form_.Value(dictionary->Entry(indices[i])));
    }
  }

  // ------------------------------------------------------------------------------------ encoding

  T At(uint32_t slot) const {
    if constexpr (kFixed) {
      return T(values_.data() + static_cast<size_t>(slot) * static_cast<size_t>(width_));
    } else {
      return static_cast<T>(values_[slot]);
    }
  }
  const void* Address(uint32_t slot) const {
    if (folded()) return indices_.data() + slot;
    return values_.data() + static_cast<size_t>(slot) * static_cast<size_t>(kFixed ? width_ : 1);
  }

  // What the encoder gets at a time.
  struct Piece {
    explicit Piece(bool folded) {
      definition.resize(kEncodeEntries);
      repetition.resize(kEncodeEntries);
      if (folded) {
        indices.resize(kEncodeEntries);
      } else {
        values = std::make_unique<T[]>(kEncodeEntries);
      }
    }
    std::vector<int16_t> definition;
    std::vector<int16_t> repetition;
    std::vector<uint32_t> indices;
    std::unique_ptr<T[]> values;
    int64_t levels = 0;
    int64_t present = 0;
  };

  void Put(uint32_t slot, Piece& piece) const {
    const auto to = static_cast<size_t>(piece.present++);
    if (folded()) {
      piece.indices[to] = indices_[slot];
    } else {
      piece.values[to] = At(slot);
    }
  }

  void Send(Piece& piece, TypedColumnEncoder<DType>& encoder) const {
    const EntrySpan entries{piece.definition.data(), nested_ ? piece.repetition.data() : nullptr,
                            piece.levels, piece.present};
    if (folded()) {
      encoder.AddFolded(entries, piece.indices.data(), dictionary_);
    } else {
      encoder.Add(entries, piece.values.get());
    }
    piece.levels = piece.present = 0;
  }

  void EncodeFlat(std::span<const uint32_t> rows, TypedColumnEncoder<DType>& encoder) const {
    Piece piece(folded());
    for (size_t at = 0; at < rows.size(); at += kEncodeEntries) {
      const auto some = rows.subspan(at, std::min<size_t>(kEncodeEntries, rows.size() - at));
      for (size_t i = 0; i < some.size(); ++i) {
        const uint32_t row = some[i];
        if (i + kAhead < some.size()) __builtin_prefetch(Address(some[i + kAhead]));
        if (definition_max_ > 0) {
          piece.definition[i] = definition_[row];
          if (piece.definition[i] != definition_max_) continue;
        }
        Put(row, piece);
      }
      piece.levels = std::ssize(some);
      Send(piece, encoder);
    }
  }

  void EncodeNested(std::span<const uint32_t> rows, TypedColumnEncoder<DType>& encoder) const {
    Piece piece(folded());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + kAhead < rows.size()) __builtin_prefetch(&entry_begins_[rows[i + kAhead]]);
      const size_t row = rows[i];
      uint32_t slot = value_begins_[row];
      for (uint32_t entry = entry_begins_[row]; entry < entry_begins_[row + 1]; ++entry) {
        if (piece.levels == kEncodeEntries) Send(piece, encoder);
        const auto to = static_cast<size_t>(piece.levels++);
        piece.definition[to] = definition_[entry];
        piece.repetition[to] = repetition_[entry];
        if (piece.definition[to] == definition_max_) Put(slot++, piece);
      }
    }
    if (piece.levels > 0) Send(piece, encoder);
  }

  static int WidthOf(const parquet::ColumnDescriptor& column) {
    if constexpr (kArrays) return 0;
    if constexpr (kFixed) return column.type_length();
    return static_cast<int>(sizeof(T));
  }

  const int16_t definition_max_;
  const bool nested_;
  const int width_;
  const size_t rows_expected_;
  const Plain<DType> plain_form_;
  arrow::MemoryPool* const pool_;
  int64_t rows_ = 0;
  int64_t slots_ = 0;
  // Of each entry; levels fit a byte, since schemas are not that deep (kSchemaDepthMax).
  PoolVector<uint8_t> definition_;
  PoolVector<uint8_t> repetition_;
  // Of nested columns, by row, and one more: the first of its entries, and of its slots.
  PoolVector<uint32_t> entry_begins_;
  PoolVector<uint32_t> value_begins_;
  // By slot: one of the two.
  PoolVector<Stored> values_;
  PoolVector<uint32_t> indices_;
  Arena arena_;
  std::optional<DictionaryUnion> union_;
  DictionaryMapping mapping_;  // Of the dictionary that came last.
  uint64_t mapping_of_ = 0;
  ValueDictionary<T> dictionary_;
};

}  // namespace

std::unique_ptr<HeldColumn> HoldColumn(const parquet::ColumnDescriptor* column, int64_t rows,
                                       arrow::MemoryPool* pool) {
  return OfPhysicalType(column->physical_type(),
                        [&]<typename DType>(DType*) -> std::unique_ptr<HeldColumn> {
                          return std::make_unique<Held<DType>>(column, rows, pool);
                        });
}

int64_t HeldRowBytes(const parquet::ColumnDescriptor& column) {
  int64_t bytes = column.max_definition_level() > 0 ? 1 : 0;
  if (column.max_repetition_level() > 0) bytes += 1 + 2 * static_cast<int64_t>(sizeof(uint32_t));
  if (column.physical_type() == parquet::Type::BYTE_ARRAY) {
    bytes += static_cast<int64_t>(sizeof(parquet::ByteArray));
  }
  return bytes;
}

}  // namespace lithify::rewrite
