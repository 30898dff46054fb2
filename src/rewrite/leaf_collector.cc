#include "rewrite/leaf_collector.h"

#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/iceberg.h"
#include "rewrite/arrow_io.h"
#include "rewrite/decimal_bytes.h"
#include "rewrite/value_reader.h"

namespace lithify::rewrite {
namespace {

constexpr uint8_t kNoSlot = 0;
constexpr uint8_t kNullSlot = 2;
constexpr int64_t kDecimalBytes = 16;

// Fresh memory, zeroed: nulls have no values, and must not show those of others.
Result<std::shared_ptr<arrow::Buffer>> Zeros(int64_t bytes) {
  auto buffer = arrow::AllocateBuffer(bytes);
  if (!buffer.ok()) return Fail(FromArrow(buffer.status()));
  std::memset((*buffer)->mutable_data(), 0, static_cast<size_t>(bytes));
  return std::shared_ptr<arrow::Buffer>(*std::move(buffer));
}

template <typename T>
void PutDecimal(T value, uint8_t* out) {
  const auto wide = static_cast<iceberg::Int128>(value);
  std::memcpy(out, &wide, sizeof wide);
}

void PutDecimalBytes(const uint8_t* big_endian, int64_t length, uint8_t* out) {
  const uint8_t sign = length > 0 && (big_endian[0] & 0x80) != 0 ? 0xff : 0;
  for (int64_t i = 0; i < kDecimalBytes; ++i) {
    out[i] = i < length ? big_endian[length - 1 - i] : sign;
  }
}

template <typename DType>
class TypedCollector final : public LeafCollector, private TypedColumnEncoder<DType> {
  using T = typename DType::c_type;
  static constexpr bool kBytes = std::is_same_v<DType, parquet::ByteArrayType>;
  static constexpr bool kFixed = std::is_same_v<DType, parquet::FLBAType>;
  static constexpr bool kFlags = std::is_same_v<DType, parquet::BooleanType>;

 public:
  explicit TypedCollector(const OutputLeaf& leaf) : leaf_(leaf) {}

  ColumnEncoder* encoder() override { return this; }

  Result<std::shared_ptr<arrow::Array>> Take(const std::shared_ptr<arrow::DataType>& type,
                                             std::span<const uint8_t> slots) override {
    if (too_long_) {
      return Fail(Code::kLimit, "the values of one batch have more than 2 GiB", leaf_.path,
                  "select the column from fewer rows");
    }
    if (slots.empty()) slots = OwnSlots();
    const auto length = static_cast<int64_t>(slots.size()) - std::ranges::count(slots, kNoSlot);
    const int64_t nulls = std::ranges::count(slots, kNullSlot);
    if (length - nulls != present_) {
      return Fail(Code::kCorrupt, "has other values than its levels say", "column " + leaf_.path,
                  "restore the file from its source");
    }
    std::shared_ptr<arrow::Buffer> validity;
    if (nulls > 0) {
      LITHIFY_TRY_ASSIGN(validity, Zeros(arrow::bit_util::BytesForBits(length)));
      int64_t at = 0;
      for (const uint8_t slot : slots) {
        if (slot == kNoSlot) continue;
        arrow::bit_util::SetBitTo(validity->mutable_data(), at++, slot != kNullSlot);
      }
    }
    LITHIFY_TRY_ASSIGN(auto buffers, Values(*type, slots, length));
    buffers.insert(buffers.begin(), std::move(validity));
    auto array = arrow::MakeArray(arrow::ArrayData::Make(type, length, std::move(buffers), nulls));
    Clear();
    return array;
  }

 private:
  void Finish() override {}

  void Add(const EntrySpan& entries, const T* values) override {
    AddLevels(entries);
    if constexpr (kBytes) {
      for (int64_t i = 0; i < entries.present; ++i) AddBytes(values[i]);
    } else if constexpr (kFixed) {
      for (int64_t i = 0; i < entries.present; ++i) AddFixed(values[i]);
    } else {
      values_.insert(values_.end(), values, values + entries.present);
    }
  }

  void AddFolded(const EntrySpan& entries, const uint32_t* indices,
                 const ValueDictionary<T>& dictionary) override {
    AddLevels(entries);
    for (int64_t i = 0; i < entries.present; ++i) {
      const T& value = dictionary.values[indices[i]];
      if constexpr (kBytes) {
        AddBytes(value);
      } else if constexpr (kFixed) {
        AddFixed(value);
      } else {
        values_.push_back(value);
      }
    }
  }

  void AddLevels(const EntrySpan& entries) {
    if (leaf_.definition_max > 0) {
      definition_.insert(definition_.end(), entries.definition,
                         entries.definition + entries.levels);
    }
    if (entries.repetition != nullptr) {
      repetition_.insert(repetition_.end(), entries.repetition,
                         entries.repetition + entries.levels);
    }
    entries_ += entries.levels;
    present_ += entries.present;
  }

  // Values live until the next page is read.
  void AddBytes(const parquet::ByteArray& value) {
    if (bytes_.size() + value.len > std::numeric_limits<int32_t>::max()) {
      too_long_ = true;
      return;
    }
    bytes_.insert(bytes_.end(), value.ptr, value.ptr + value.len);
    ends_.push_back(static_cast<int32_t>(bytes_.size()));
  }
  void AddFixed(const parquet::FixedLenByteArray& value) {
    bytes_.insert(bytes_.end(), value.ptr, value.ptr + leaf_.type_length);
  }

  std::span<const uint8_t> OwnSlots() {
    own_.assign(static_cast<size_t>(entries_), 1);
    for (size_t i = 0; i < definition_.size(); ++i) {
      if (definition_[i] != leaf_.definition_max) own_[i] = kNullSlot;
    }
    return own_;
  }

  // All buffers but the validity, in Arrow's order.
  Result<std::vector<std::shared_ptr<arrow::Buffer>>> Values(const arrow::DataType& type,
                                                             std::span<const uint8_t> slots,
                                                             int64_t length) {
    const bool decimal = type.id() == arrow::Type::DECIMAL128;
    if constexpr (kBytes) {
      return Texts(slots, length);
    } else if constexpr (kFlags) {
      LITHIFY_TRY_ASSIGN(auto bits, Zeros(arrow::bit_util::BytesForBits(length)));
      Spread(slots, [&](int64_t slot, int64_t value) {
        arrow::bit_util::SetBitTo(bits->mutable_data(), slot, values_[At(value)]);
      });
      return std::vector{std::move(bits)};
    } else if constexpr (kFixed) {
      const int64_t from = leaf_.type_length;
      const int64_t width = decimal ? kDecimalBytes : from;
      LITHIFY_TRY_ASSIGN(auto out, Zeros(length * width));
      Spread(slots, [&](int64_t slot, int64_t value) {
        uint8_t* to = out->mutable_data() + slot * width;
        const uint8_t* bytes = bytes_.data() + value * from;
        if (decimal) {
          PutDecimalBytes(bytes, from, to);
        } else {
          std::memcpy(to, bytes, static_cast<size_t>(from));
        }
      });
      return std::vector{std::move(out)};
    } else if constexpr (std::is_same_v<T, parquet::Int96>) {
      return Fail(Code::kInternal, "a column of a type that no table has");
    } else {
      const int64_t width = decimal ? kDecimalBytes : static_cast<int64_t>(sizeof(T));
      LITHIFY_TRY_ASSIGN(auto out, Zeros(length * width));
      if (!decimal && length == present_) {
        if (length > 0)
          std::memcpy(out->mutable_data(), values_.data(), values_.size() * sizeof(T));
        return std::vector{std::move(out)};
      }
      Spread(slots, [&](int64_t slot, int64_t value) {
        uint8_t* to = out->mutable_data() + slot * width;
        if constexpr (std::is_integral_v<T>) {
          if (decimal) {
            PutDecimal(values_[At(value)], to);
            return;
          }
        }
        std::memcpy(to, &values_[At(value)], sizeof(T));
      });
      return std::vector{std::move(out)};
    }
  }

  Result<std::vector<std::shared_ptr<arrow::Buffer>>> Texts(std::span<const uint8_t> slots,
                                                            int64_t length) {
    LITHIFY_TRY_ASSIGN(auto offsets, Zeros((length + 1) * static_cast<int64_t>(sizeof(int32_t))));
    auto* out = reinterpret_cast<int32_t*>(offsets->mutable_data());
    int32_t end = 0;
    int64_t value = 0;
    for (const uint8_t slot : slots) {
      if (slot == kNoSlot) continue;
      if (slot != kNullSlot) end = ends_[At(value++)];
      *++out = end;
    }
    LITHIFY_TRY_ASSIGN(auto bytes, Zeros(static_cast<int64_t>(bytes_.size())));
    if (!bytes_.empty()) std::memcpy(bytes->mutable_data(), bytes_.data(), bytes_.size());
    return std::vector{std::move(offsets), std::move(bytes)};
  }

  // Calls `put` with the numbers of each slot that has a value and of this.
  template <typename Put>
  static void Spread(std::span<const uint8_t> slots, Put put) {
    int64_t slot = 0;
    int64_t value = 0;
    for (const uint8_t kind : slots) {
      if (kind == kNoSlot) continue;
      if (kind != kNullSlot) put(slot, value++);
      ++slot;
    }
  }
  static size_t At(int64_t i) { return static_cast<size_t>(i); }

  void Clear() {
    definition_.clear();
    repetition_.clear();
    entries_ = present_ = 0;
    values_.clear();
    bytes_.clear();
    ends_.clear();
  }

  using Stored = std::conditional_t<kFlags, uint8_t, T>;

  const OutputLeaf leaf_;
  int64_t present_ = 0;
  std::vector<Stored> values_;
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> ends_;
  std::vector<uint8_t> own_;
  bool too_long_ = false;
};

}  // namespace

std::unique_ptr<LeafCollector> MakeLeafCollector(const OutputLeaf& leaf) {
  return WithType(leaf.physical, [&](auto* type) -> std::unique_ptr<LeafCollector> {
    using DType = std::remove_pointer_t<decltype(type)>;
    return std::make_unique<TypedCollector<DType>>(leaf);
  });
}

}  // namespace lithify::rewrite
