// Decoding one stretch of one column chunk into values of the output's physical type. Only
// column_copy.cc includes this: it is instantiated for every type.
#ifndef LITHIFY_REWRITE_VALUE_READER_H_
#define LITHIFY_REWRITE_VALUE_READER_H_

#include <parquet/column_reader.h>
#include <parquet/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "rewrite/decimal_bytes.h"
#include "rewrite/leaf_map.h"

namespace lithify::rewrite {

inline constexpr int64_t kBatchLevels = 8192;

// Decoded entries of one stretch of one chunk, in output terms, and room to make them.
template <typename T>
struct Batch {
  std::vector<int16_t> definition;
  std::vector<int16_t> repetition;
  std::unique_ptr<T[]> values;    // Dense: entries whose definition level is the maximum.
  std::vector<uint64_t> scratch;  // Input values before conversion; aligned for every type.
  std::vector<uint8_t> fixed;     // Bytes of converted fixed-length values.
  std::vector<uint64_t> hashes;
  int64_t levels = 0;
  int64_t level_at = 0;  // Consumed so far.
  int64_t value_at = 0;

  bool drained() const { return level_at == levels; }
  void Allocate() {
    definition.resize(kBatchLevels);
    repetition.resize(kBatchLevels);
    values = std::make_unique<T[]>(kBatchLevels);
    hashes.resize(kBatchLevels);
  }
  // One spare batch per thread and type: tables of thousands of columns hold no more.
  static Batch& Spare() {
    static thread_local Batch spare;
    return spare;
  }
};

// Calls `body` with a null pointer to the column type's Parquet type.
template <typename Body>
auto WithType(parquet::Type::type type, Body&& body) {
  switch (type) {
    case parquet::Type::BOOLEAN: return body(static_cast<parquet::BooleanType*>(nullptr));
    case parquet::Type::INT32: return body(static_cast<parquet::Int32Type*>(nullptr));
    case parquet::Type::INT64: return body(static_cast<parquet::Int64Type*>(nullptr));
    case parquet::Type::INT96: return body(static_cast<parquet::Int96Type*>(nullptr));
    case parquet::Type::FLOAT: return body(static_cast<parquet::FloatType*>(nullptr));
    case parquet::Type::DOUBLE: return body(static_cast<parquet::DoubleType*>(nullptr));
    case parquet::Type::BYTE_ARRAY: return body(static_cast<parquet::ByteArrayType*>(nullptr));
    default: return body(static_cast<parquet::FLBAType*>(nullptr));
  }
}

inline Error ValueTooLarge(const char* what) {
  return Error{Code::kUnsupported, what, "", "rewrite the files with one type"};
}

// Reads levels into the batch's arrays and values into `batch.values`; all return the number of
// levels, and in `values` that of the values read.
template <typename OutType>
class ValueReader {
  using T = typename OutType::c_type;

 public:
  ValueReader(parquet::ColumnReader& column, Batch<T>& batch, int type_length)
      : column_(column), batch_(batch), length_(type_length) {}

  Result<int64_t> Read(const LeafSource& src, int64_t& values) {
    const int64_t factor = src.factor;
    switch (src.conversion) {
      case Conversion::kNone: return ReadTyped<OutType>(batch_.values.get(), values);
      case Conversion::kInt32ToInt64:
        return Map<parquet::Int64Type, parquet::Int32Type>(values, [](int32_t in, int64_t& out) {
          out = in;
          return true;
        });
      case Conversion::kUint32ToUint64:
        return Map<parquet::Int64Type, parquet::Int32Type>(values, [](int32_t in, int64_t& out) {
          out = static_cast<uint32_t>(in);
          return true;
        });
      case Conversion::kScaleInt32:
        return Map<parquet::Int64Type, parquet::Int32Type>(
            values, [factor](int32_t in, int64_t& out) {
              return !__builtin_mul_overflow(int64_t{in}, factor, &out);
            });
      case Conversion::kScaleInt64:
        return Map<parquet::Int64Type, parquet::Int64Type>(
            values, [factor](int64_t in, int64_t& out) {
              return !__builtin_mul_overflow(in, factor, &out);
            });
      case Conversion::kInt96ToInt64:
        return Map<parquet::Int64Type, parquet::Int96Type>(
            values, [factor](const parquet::Int96& in, int64_t& out) {
              return TimestampOfInt96(in.value, factor, out);
            });
      case Conversion::kInt64ToInt32:
        return Map<parquet::Int32Type, parquet::Int64Type>(values, [](int64_t in, int32_t& out) {
          out = static_cast<int32_t>(in);
          return out == in;
        });
      case Conversion::kFloatToDouble:
        return Map<parquet::DoubleType, parquet::FloatType>(values, [](float in, double& out) {
          out = in;
          return true;
        });
      case Conversion::kInt32ToFixed: return IntsToFixed<parquet::Int32Type>(values);
      case Conversion::kInt64ToFixed: return IntsToFixed<parquet::Int64Type>(values);
      case Conversion::kBytesToDecimal: return BytesToDecimal(values);
    }
    return Fail(Code::kInternal, "no such conversion");
  }

  int64_t ReadLevelsOnly(int64_t& values) {
    return WithType(column_.type(), [&](auto* type) {
      return ReadScratch<std::remove_pointer_t<decltype(type)>>(values);
    });
  }

  // Passes over entries without looking at them; returns how many.
  int64_t Skip(int64_t levels) {
    return WithType(column_.type(), [&](auto* type) {
      using In = std::remove_pointer_t<decltype(type)>;
      return static_cast<parquet::TypedColumnReader<In>&>(column_).Skip(levels);
    });
  }

 private:
  template <typename InType>
  int64_t ReadTyped(typename InType::c_type* out, int64_t& values) {
    auto& reader = static_cast<parquet::TypedColumnReader<InType>&>(column_);
    return reader.ReadBatch(kBatchLevels, batch_.definition.data(), batch_.repetition.data(), out,
                            &values);
  }

  template <typename InType>
  int64_t ReadScratch(int64_t& values) {
    using In = typename InType::c_type;
    batch_.scratch.resize(kBatchLevels * sizeof(In) / sizeof(uint64_t) + 1);
    return ReadTyped<InType>(reinterpret_cast<In*>(batch_.scratch.data()), values);
  }

  // Values of `InType` through `convert`, which returns false for one that does not fit.
  template <typename WantType, typename InType, typename Convert>
  Result<int64_t> Map(int64_t& values, Convert convert) {
    if constexpr (std::is_same_v<OutType, WantType>) {
      const int64_t levels = ReadScratch<InType>(values);
      const auto* in = reinterpret_cast<const typename InType::c_type*>(batch_.scratch.data());
      for (int64_t i = 0; i < values; ++i) {
        if (!convert(in[i], batch_.values[static_cast<size_t>(i)])) {
          return Fail(ValueTooLarge("a value does not fit the finer unit or type of the output"));
        }
      }
      return levels;
    } else {
      return Fail(Code::kInternal, "a conversion that does not fit the column");
    }
  }

  uint8_t* PlaceFixed(int64_t i) {
    uint8_t* at = batch_.fixed.data() + i * length_;
    if constexpr (std::is_same_v<OutType, parquet::FLBAType>) {
      batch_.values[static_cast<size_t>(i)] = parquet::FixedLenByteArray(at);
    }
    return at;
  }

  template <typename InType>
  Result<int64_t> IntsToFixed(int64_t& values) {
    if constexpr (std::is_same_v<OutType, parquet::FLBAType>) {
      batch_.fixed.resize(static_cast<size_t>(kBatchLevels * length_));
      const int64_t levels = ReadScratch<InType>(values);
      const auto* in = reinterpret_cast<const typename InType::c_type*>(batch_.scratch.data());
      for (int64_t i = 0; i < values; ++i) PutBigEndian(in[i], PlaceFixed(i), length_);
      return levels;
    } else {
      return Fail(Code::kInternal, "a conversion that does not fit the column");
    }
  }

  Result<int64_t> BytesToDecimal(int64_t& values) {
    int64_t levels = 0;
    if (column_.type() == parquet::Type::BYTE_ARRAY) {
      levels = ReadScratch<parquet::ByteArrayType>(values);
      const auto* in = reinterpret_cast<const parquet::ByteArray*>(batch_.scratch.data());
      LITHIFY_TRY(
          TakeDecimals(values, [in](int64_t i) { return std::span(in[i].ptr, in[i].len); }));
    } else {
      levels = ReadScratch<parquet::FLBAType>(values);
      const auto* in = reinterpret_cast<const parquet::FixedLenByteArray*>(batch_.scratch.data());
      const auto from = static_cast<size_t>(column_.descr()->type_length());
      LITHIFY_TRY(
          TakeDecimals(values, [in, from](int64_t i) { return std::span(in[i].ptr, from); }));
    }
    return levels;
  }

  template <typename BytesOf>
  Status TakeDecimals(int64_t values, BytesOf bytes_of) {
    constexpr bool kFixed = std::is_same_v<OutType, parquet::FLBAType>;
    if (kFixed) batch_.fixed.resize(static_cast<size_t>(kBatchLevels * length_));
    for (int64_t i = 0; i < values; ++i) {
      bool fits = false;
      if constexpr (kFixed) {
        fits = CopyDecimal(bytes_of(i), PlaceFixed(i), length_);
      } else if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
        fits = ReadDecimal(bytes_of(i), batch_.values[static_cast<size_t>(i)]);
      }
      if (!fits) {
        return Fail(Code::kCorrupt, "a decimal has more digits than its type, or none", "",
                    "restore the file from its source");
      }
    }
    return {};
  }

  parquet::ColumnReader& column_;
  Batch<T>& batch_;
  const int length_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_VALUE_READER_H_
