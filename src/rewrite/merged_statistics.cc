#include "rewrite/merged_statistics.h"

#include <parquet/metadata.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lithify::rewrite {
namespace {

using parquet::EncodedStatistics;
using parquet::Type;

// The value of a statistic as Arrow compares it. The bytes outlive it.
template <typename DType>
typename DType::c_type ValueOf(const std::string& bytes) {
  using T = typename DType::c_type;
  if constexpr (std::is_same_v<DType, parquet::ByteArrayType>) {
    return parquet::ByteArray(std::string_view(bytes));
  } else if constexpr (std::is_same_v<DType, parquet::FLBAType>) {
    return parquet::FixedLenByteArray(reinterpret_cast<const uint8_t*>(bytes.data()));
  } else {
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
}

template <typename DType>
bool LessThan(const parquet::Comparator& comparator, const std::string& a, const std::string& b) {
  return static_cast<const parquet::TypedComparator<DType>&>(comparator)
      .Compare(ValueOf<DType>(a), ValueOf<DType>(b));
}

template <typename T>
bool IsNan(const std::string& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return std::isnan(value);
}

bool IsFloat16(const parquet::ColumnDescriptor& column) {
  return column.logical_type() != nullptr && column.logical_type()->is_float16();
}

uint16_t Half(const std::string& bytes) {
  return static_cast<uint16_t>(static_cast<uint8_t>(bytes[0]) | static_cast<uint8_t>(bytes[1])
                                                                    << 8);
}

// Zero has two forms, and a bound of zero stands for both (Parquet, "ColumnOrder").
std::string WidenZero(const parquet::ColumnDescriptor& column, std::string value, bool upper) {
  const char sign = upper ? '\0' : '\x80';
  const bool real = column.physical_type() == Type::FLOAT ||
                    column.physical_type() == Type::DOUBLE || IsFloat16(column);
  if (!real) return value;
  const bool zero = std::all_of(value.begin(), value.end() - 1, [](char c) { return c == 0; }) &&
                    (value.back() & '\x7f') == 0;
  if (zero) value.back() = sign;
  return value;
}

// Writers of unsigned and binary columns that have long stated bounds in that order, in the fields
// made for it. Of others nobody can tell from the footer as Arrow shows it.
bool KnowsUnsignedOrder(std::string application) {
  std::ranges::transform(application, application.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  constexpr std::string_view kKnown[] = {
      "parquet-cpp-arrow", "parquet-mr", "parquet-rs", "duckdb", "polars", "lithify"};
  return std::ranges::any_of(kKnown,
                             [&](std::string_view name) { return application.starts_with(name); });
}

}  // namespace

MergedStatistics::MergedStatistics(const parquet::ColumnDescriptor* column)
    : column_(column),
      comparator_(column->sort_order() == parquet::SortOrder::UNKNOWN
                      ? nullptr
                      : parquet::Comparator::Make(column)) {}

bool MergedStatistics::KnowsOrder(const Footer& footer,
                                  const parquet::ColumnDescriptor& input) const {
  if (comparator_ == nullptr || input.sort_order() != column_->sort_order()) return false;
  if (input.physical_type() != column_->physical_type()) return false;
  if (input.physical_type() == Type::FIXED_LEN_BYTE_ARRAY &&
      input.type_length() != column_->type_length()) {
    return false;
  }
  return column_->sort_order() != parquet::SortOrder::UNSIGNED ||
         KnowsUnsignedOrder(footer.writer_version().application_);
}

MergedStatistics::Stated MergedStatistics::OfChunk(const Footer& footer, const StoredChunk& chunk,
                                                   const parquet::ColumnDescriptor& input) const {
  Stated told;
  if (!KnowsOrder(footer, input)) return told;
  auto stated = footer.TrustedStatistics(chunk, input);
  if (!stated) return told;
  told.trusted = true;
  const bool bounded = Clean(*stated, chunk.num_values, input.max_definition_level() == 0);
  if (stated->has_null_count) told.nulls = stated->null_count;
  if (bounded) told.bounds = std::move(stated);
  return told;
}

bool MergedStatistics::IsBound(const std::string& value) const {
  switch (column_->physical_type()) {
    case Type::BOOLEAN: return value.size() == 1 && (value[0] & ~1) == 0;
    case Type::INT32: return value.size() == sizeof(int32_t);
    case Type::INT64: return value.size() == sizeof(int64_t);
    case Type::FLOAT: return value.size() == sizeof(float) && !IsNan<float>(value);
    case Type::DOUBLE: return value.size() == sizeof(double) && !IsNan<double>(value);
    case Type::BYTE_ARRAY: return true;
    case Type::FIXED_LEN_BYTE_ARRAY:
      if (value.empty() || value.size() != static_cast<size_t>(column_->type_length())) {
        return false;
      }
      return !IsFloat16(*column_) || (Half(value) & 0x7c00) != 0x7c00 || (Half(value) & 0x3ff) == 0;
    default: return false;
  }
}

bool MergedStatistics::Less(const std::string& a, const std::string& b) const {
  const parquet::Comparator& by = *comparator_;
  switch (column_->physical_type()) {
    case Type::BOOLEAN: return LessThan<parquet::BooleanType>(by, a, b);
    case Type::INT32: return LessThan<parquet::Int32Type>(by, a, b);
    case Type::INT64: return LessThan<parquet::Int64Type>(by, a, b);
    case Type::FLOAT: return LessThan<parquet::FloatType>(by, a, b);
    case Type::DOUBLE: return LessThan<parquet::DoubleType>(by, a, b);
    case Type::BYTE_ARRAY: return LessThan<parquet::ByteArrayType>(by, a, b);
    default: return LessThan<parquet::FLBAType>(by, a, b);
  }
}

bool MergedStatistics::Clean(EncodedStatistics& stated, int64_t values, bool required) const {
  if (stated.has_null_count && (stated.null_count < 0 || stated.null_count > values)) {
    stated.has_null_count = false;
    stated.null_count = 0;
  }
  if (required || column_->max_definition_level() == 0) stated.set_null_count(0);
  stated.has_distinct_count = false;
  stated.distinct_count = 0;
  stated.all_null_value = stated.has_null_count && stated.null_count == values;
  stated.set_is_signed(column_->sort_order() == parquet::SortOrder::SIGNED);
  if (stated.all_null_value) {
    stated.ClearMinMax();
    return true;
  }
  if (!stated.has_min || !stated.has_max || !IsBound(stated.min()) || !IsBound(stated.max()) ||
      Less(stated.max(), stated.min())) {
    stated.ClearMinMax();
    stated.is_min_value_exact = stated.is_max_value_exact = std::nullopt;
    return false;
  }
  stated.set_min(WidenZero(*column_, stated.min(), false));
  stated.set_max(WidenZero(*column_, stated.max(), true));
  return true;
}

void MergedStatistics::Add(const StoredChunk& chunk, const std::optional<EncodedStatistics>& bounds,
                           const std::optional<int64_t>& nulls,
                           std::span<const int16_t> definition_map) {
  if (chunk.num_values == 0) return;
  AddSizes(chunk, definition_map);
  EncodedStatistics stated;
  if (bounds) stated = *bounds;
  if (nulls) stated.set_null_count(*nulls);
  AddStated(std::move(stated), chunk.num_values, definition_map.size() == 1);
}

void MergedStatistics::AddPart(EncodedStatistics stated, int64_t values, bool required) {
  if (values == 0) return;
  sizes_known_[0] = sizes_known_[1] = sizes_known_[2] = false;
  sizes_ = {};
  AddStated(std::move(stated), values, required);
}

void MergedStatistics::AddStated(EncodedStatistics stated, int64_t values, bool required) {
  const bool bounded = Clean(stated, values, required);
  nulls_known_ = nulls_known_ && stated.has_null_count;
  nulls_ += stated.null_count;
  if (stated.all_null_value) return;
  bounds_known_ = bounds_known_ && bounded;
  if (!bounds_known_) return;
  // Of two equal bounds, the one that is known to be a value tells more.
  const auto take = [](std::optional<Bound>& into, const std::string& value,
                       const std::optional<bool>& exact, bool better, bool equal) {
    if (better || (equal && exact == true)) into = Bound{value, exact};
  };
  const bool less = !min_ || Less(stated.min(), min_->value);
  take(min_, stated.min(), stated.is_min_value_exact, less,
       !less && !Less(min_->value, stated.min()));
  const bool more = !max_ || Less(max_->value, stated.max());
  take(max_, stated.max(), stated.is_max_value_exact, more,
       !more && !Less(stated.max(), max_->value));
}

EncodedStatistics MergedStatistics::statistics(size_t bytes_max) const {
  EncodedStatistics merged;
  merged.set_is_signed(column_->sort_order() == parquet::SortOrder::SIGNED);
  if (nulls_known_) merged.set_null_count(nulls_);
  if (bounds_known_ && min_ && max_) {
    merged.set_min(min_->value);
    merged.set_max(max_->value);
    merged.is_min_value_exact = min_->exact;
    merged.is_max_value_exact = max_->exact;
    merged.ApplyStatSizeLimits(bytes_max);
  }
  return merged;
}

void MergedStatistics::Widen(EncodedStatistics& into, const EncodedStatistics& other) const {
  if (Less(other.min(), into.min())) into.set_min(other.min());
  if (Less(into.max(), other.max())) into.set_max(other.max());
}

std::optional<EncodedStatistics> MergedStatistics::OfPage(const PageHeader& header, bool trusted,
                                                          bool required) const {
  if (!trusted || !header.statistics) return std::nullopt;
  const PageStatistics& in = *header.statistics;
  EncodedStatistics stated;
  if (in.min_value) stated.set_min(*in.min_value);
  if (in.max_value) stated.set_max(*in.max_value);
  if (in.null_count) stated.set_null_count(*in.null_count);
  stated.is_min_value_exact = in.is_min_value_exact;
  stated.is_max_value_exact = in.is_max_value_exact;
  if (!Clean(stated, header.num_values, required)) return std::nullopt;
  return stated;
}

std::optional<EncodedStatistics> MergedStatistics::OfIndexed(const parquet::ColumnIndex& index,
                                                             size_t page, int64_t values,
                                                             bool required) const {
  EncodedStatistics stated;
  if (index.has_null_counts()) stated.set_null_count(index.null_counts()[page]);
  if (!index.null_pages()[page]) {
    stated.set_min(index.encoded_min_values()[page]);
    stated.set_max(index.encoded_max_values()[page]);
  }
  if (!Clean(stated, values, required) || stated.all_null_value != index.null_pages()[page]) {
    return std::nullopt;
  }
  return stated;
}

void MergedStatistics::AddSizes(const StoredChunk& chunk, std::span<const int16_t> definition_map) {
  // `levels`: how many there are in the input, and `to` where each goes.
  const auto add = [&](bool& known, const std::vector<int64_t>& from, std::vector<int64_t>& into,
                       int16_t max, size_t levels, const auto& to) {
    known = known && from.size() == levels &&
            std::ranges::all_of(from, [](int64_t n) { return n >= 0; }) &&
            std::accumulate(from.begin(), from.end(), uint64_t{0}, [](uint64_t sum, int64_t n) {
              return sum + static_cast<uint64_t>(n);
            }) == static_cast<uint64_t>(chunk.num_values);
    if (!known) return into.clear();
    into.resize(static_cast<size_t>(max) + 1, 0);
    for (size_t i = 0; i < levels; ++i) into[to(i)] += from[i];
  };
  static const StoredChunk::Sizes kNone;
  const StoredChunk::Sizes& stated = chunk.sizes ? *chunk.sizes : kNone;
  // Of levels that are all 0, nothing is stated and nothing is missed.
  if (const int16_t max = column_->max_definition_level(); max > 0) {
    // Of a column without definition levels nothing is stated: all its entries are values.
    add(sizes_known_[0],
        definition_map.size() == 1 ? std::vector<int64_t>{chunk.num_values}
                                   : stated.definition_level_histogram.Values(),
        sizes_.definition_level_histogram, max, definition_map.size(),
        [&](size_t level) { return static_cast<size_t>(definition_map[level]); });
  }
  if (const int16_t max = column_->max_repetition_level(); max > 0) {
    add(sizes_known_[1], stated.repetition_level_histogram.Values(),
        sizes_.repetition_level_histogram, max, static_cast<size_t>(max) + 1,
        [](size_t level) { return level; });
  }
  const auto& bytes = stated.unencoded_byte_array_data_bytes;
  int64_t sum = sizes_.unencoded_byte_array_data_bytes.value_or(0);
  sizes_known_[2] = sizes_known_[2] && column_->physical_type() == Type::BYTE_ARRAY && bytes &&
                    *bytes >= 0 && !__builtin_add_overflow(sum, *bytes, &sum);
  sizes_.unencoded_byte_array_data_bytes =
      sizes_known_[2] ? std::optional<int64_t>(sum) : std::nullopt;
}

parquet::SizeStatistics MergedStatistics::sizes() const { return sizes_; }

// ---------------------------------------------------------------------------------- PageBounds

void PageBounds::Add(const EncodedStatistics* piece) {
  // A piece that has values and is said to have none says nothing.
  known_ = known_ && order_ != nullptr && piece != nullptr && piece->has_min && piece->has_max;
  if (!known_) return;
  if (!bounds_) {
    bounds_ = *piece;
  } else {
    order_->Widen(*bounds_, *piece);
  }
}

std::optional<EncodedStatistics> PageBounds::Take(int64_t entries, int64_t values) {
  std::optional<EncodedStatistics> taken = std::exchange(bounds_, std::nullopt);
  const bool known = std::exchange(known_, true) && order_ != nullptr;
  if (!known) return std::nullopt;
  if (!taken) taken.emplace();
  taken->set_null_count(entries - values);
  taken->all_null_value = values == 0;
  taken->has_distinct_count = false;
  taken->is_min_value_exact = taken->is_max_value_exact = std::nullopt;
  return taken;
}

}  // namespace lithify::rewrite
