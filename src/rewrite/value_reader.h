// Decoding one stretch of one column chunk into values of the output's physical type, or into
// indices of a dictionary of such values. Only column_copy.cc includes this: it is instantiated for
// every type.
#ifndef LITHIFY_REWRITE_VALUE_READER_H_
#define LITHIFY_REWRITE_VALUE_READER_H_

#include <parquet/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "rewrite/column_encoder.h"
#include "rewrite/decimal_bytes.h"
#include "rewrite/entry_reader.h"
#include "rewrite/leaf_map.h"

namespace lithify::rewrite {

inline constexpr int64_t kBatchLevels = 8192;

// Decoded entries of one stretch of one chunk, in output terms, and room to make them.
template <typename T>
struct Batch {
  std::vector<int16_t> definition;
  std::vector<int16_t> repetition;
  std::unique_ptr<T[]> values;    // Dense: entries whose definition level is the maximum.
  std::vector<uint32_t> indices;  // Likewise and instead, where they are folded.
  bool folded = false;
  std::vector<uint64_t> scratch;  // Input values before conversion; aligned for every type.
  std::vector<uint8_t> fixed;     // Bytes of converted fixed-length values.
  std::vector<uint64_t> hashes;   // One more than entries.
  int64_t levels = 0;
  int64_t level_at = 0;  // Consumed so far.
  int64_t value_at = 0;

  bool drained() const { return level_at == levels; }
  void Allocate() {
    definition.resize(kBatchLevels);
    repetition.resize(kBatchLevels);
    values = std::make_unique<T[]>(kBatchLevels);
    indices.resize(kBatchLevels);
    hashes.resize(kBatchLevels + 1);
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

// Values of an input's physical type to those of the output's.
template <typename OutType>
class ValueConverter {
  using T = typename OutType::c_type;

 public:
  // Results go to `out`, their bytes, where they have a fixed length, to `fixed`; both have room.
  ValueConverter(int type_length, T* out, uint8_t* fixed)
      : length_(type_length), out_(out), fixed_(fixed) {}

  // `values` are of the type of `column`.
  Status Convert(const LeafSource& src, const parquet::ColumnDescriptor& column, const void* values,
                 int64_t count) {
    const int64_t factor = src.factor;
    switch (src.conversion) {
      case Conversion::kNone: break;
      case Conversion::kInt32ToInt64:
        return Map<parquet::Int64Type, int32_t>(values, count, [](int32_t in, int64_t& out) {
          out = in;
          return true;
        });
      case Conversion::kUint32ToUint64:
        return Map<parquet::Int64Type, int32_t>(values, count, [](int32_t in, int64_t& out) {
          out = static_cast<uint32_t>(in);
          return true;
        });
      case Conversion::kScaleInt32:
        return Map<parquet::Int64Type, int32_t>(values, count, [factor](int32_t in, int64_t& out) {
          return !__builtin_mul_overflow(int64_t{in}, factor, &out);
        });
      case Conversion::kScaleInt64:
        return Map<parquet::Int64Type, int64_t>(values, count, [factor](int64_t in, int64_t& out) {
          return !__builtin_mul_overflow(in, factor, &out);
        });
      case Conversion::kInt96ToInt64:
        return Map<parquet::Int64Type, parquet::Int96>(
            values, count, [factor](const parquet::Int96& in, int64_t& out) {
              return TimestampOfInt96(in.value, factor, out);
            });
      case Conversion::kInt64ToInt32:
        return Map<parquet::Int32Type, int64_t>(values, count, [](int64_t in, int32_t& out) {
          out = static_cast<int32_t>(in);
          return out == in;
        });
      case Conversion::kFloatToDouble:
        return Map<parquet::DoubleType, float>(values, count, [](float in, double& out) {
          out = in;
          return true;
        });
      case Conversion::kInt32ToFixed: return IntsToFixed<int32_t>(values, count);
      case Conversion::kInt64ToFixed: return IntsToFixed<int64_t>(values, count);
      case Conversion::kBytesToDecimal: return BytesToDecimal(column, values, count);
    }
    return Fail(Code::kInternal, "no such conversion");
  }

 private:
  // Through `convert`, which returns false for a value that does not fit.
  template <typename WantType, typename In, typename Convert>
  Status Map(const void* values, int64_t count, Convert convert) {
    if constexpr (std::is_same_v<OutType, WantType>) {
      const auto* in = static_cast<const In*>(values);
      for (int64_t i = 0; i < count; ++i) {
        if (!convert(in[i], out_[i])) {
          return Fail(ValueTooLarge("a value does not fit the finer unit or type of the output"));
        }
      }
      return {};
    } else {
      return Fail(Code::kInternal, "a conversion that does not fit the column");
    }
  }

  uint8_t* PlaceFixed(int64_t i) {
    uint8_t* at = fixed_ + i * length_;
    if constexpr (std::is_same_v<OutType, parquet::FLBAType>) {
      out_[i] = parquet::FixedLenByteArray(at);
    }
    return at;
  }

  template <typename In>
  Status IntsToFixed(const void* values, int64_t count) {
    if constexpr (std::is_same_v<OutType, parquet::FLBAType>) {
      const auto* in = static_cast<const In*>(values);
      for (int64_t i = 0; i < count; ++i) PutBigEndian(in[i], PlaceFixed(i), length_);
      return {};
    } else {
      return Fail(Code::kInternal, "a conversion that does not fit the column");
    }
  }

  Status BytesToDecimal(const parquet::ColumnDescriptor& column, const void* values,
                        int64_t count) {
    if (column.physical_type() == parquet::Type::BYTE_ARRAY) {
      const auto* in = static_cast<const parquet::ByteArray*>(values);
      return TakeDecimals(count, [in](int64_t i) { return std::span(in[i].ptr, in[i].len); });
    }
    const auto* in = static_cast<const parquet::FixedLenByteArray*>(values);
    const auto from = static_cast<size_t>(column.type_length());
    return TakeDecimals(count, [in, from](int64_t i) { return std::span(in[i].ptr, from); });
  }

  template <typename BytesOf>
  Status TakeDecimals(int64_t count, BytesOf bytes_of) {
    for (int64_t i = 0; i < count; ++i) {
      bool fits = false;
      if constexpr (std::is_same_v<OutType, parquet::FLBAType>) {
        fits = CopyDecimal(bytes_of(i), PlaceFixed(i), length_);
      } else if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
        fits = ReadDecimal(bytes_of(i), out_[i]);
      }
      if (!fits) {
        return Fail(Code::kCorrupt, "a decimal has more digits than its type, or none", "",
                    "restore the file from its source");
      }
    }
    return {};
  }

  const int length_;
  T* const out_;
  uint8_t* const fixed_;
};

// Reads levels into the batch's arrays, and values or indices; all return the number of levels, and
// in `values` that of the values read.
template <typename OutType>
class ValueReader {
  using T = typename OutType::c_type;

 public:
  ValueReader(EntryReader& column, Batch<T>& batch, int type_length)
      : column_(column), batch_(batch), length_(type_length) {}

  Result<int64_t> Read(const LeafSource& src, int64_t& values) {
    if (src.conversion == Conversion::kNone) {
      auto& reader = static_cast<TypedEntryReader<OutType>&>(column_);
      return reader.Read(kBatchLevels, batch_.definition.data(), batch_.repetition.data(),
                         batch_.values.get(), &values);
    }
    const int64_t levels = ReadScratch(values);
    constexpr bool kFixed = std::is_same_v<OutType, parquet::FLBAType>;
    if (kFixed) batch_.fixed.resize(static_cast<size_t>(kBatchLevels * length_));
    ValueConverter<OutType> converter(length_, batch_.values.get(), batch_.fixed.data());
    LITHIFY_TRY(converter.Convert(src, *column_.descr(), batch_.scratch.data(), values));
    return levels;
  }

  // Where the values are folded.
  int64_t ReadIndices(int64_t& values) {
    return WithReader([&](auto& reader) {
      return reader.ReadIndices(kBatchLevels, batch_.definition.data(), batch_.repetition.data(),
                                batch_.indices.data(), &values);
    });
  }

  // The dictionary that they are of, in output terms. False: one of its entries cannot be, and is
  // an error only if it is used.
  bool ReadDictionary(const LeafSource& src, ValueDictionary<T>& into) {
    if (src.conversion == Conversion::kNone) {
      into.values = static_cast<TypedEntryReader<OutType>&>(column_).dictionary();
      return true;
    }
    return WithReader([&](auto& reader) {
      const auto in = reader.dictionary();
      into.made = std::make_unique<T[]>(in.size());
      constexpr bool kFixed = std::is_same_v<OutType, parquet::FLBAType>;
      if (kFixed) into.fixed.resize(in.size() * static_cast<size_t>(length_));
      ValueConverter<OutType> converter(length_, into.made.get(), into.fixed.data());
      into.values = std::span<const T>(into.made.get(), in.size());
      return converter.Convert(src, *column_.descr(), in.data(), std::ssize(in)).has_value();
    });
  }

  int64_t ReadLevelsOnly(int64_t& values) { return ReadScratch(values); }

 private:
  template <typename Body>
  auto WithReader(Body&& body) {
    return WithType(column_.type(), [&](auto* type) {
      using In = std::remove_pointer_t<decltype(type)>;
      return body(static_cast<TypedEntryReader<In>&>(column_));
    });
  }

  // Values as they are in the input.
  int64_t ReadScratch(int64_t& values) {
    return WithType(column_.type(), [&](auto* type) {
      using In = std::remove_pointer_t<decltype(type)>;
      using Value = typename In::c_type;
      batch_.scratch.resize(kBatchLevels * sizeof(Value) / sizeof(uint64_t) + 1);
      return static_cast<TypedEntryReader<In>&>(column_).Read(
          kBatchLevels, batch_.definition.data(), batch_.repetition.data(),
          reinterpret_cast<Value*>(batch_.scratch.data()), &values);
    });
  }

  EntryReader& column_;
  Batch<T>& batch_;
  const int length_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_VALUE_READER_H_
