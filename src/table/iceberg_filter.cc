#include "table/iceberg_filter.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "table/iceberg_filter_tree.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::Decimal;
using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;
using Test = FilterNode::Test;

// CompareValues, but for SQL the zeros are equal.
int Compare(const Value& a, const Value& b) {
  const auto equal = [&](auto zero) {
    const auto* left = std::get_if<decltype(zero)>(&a);
    const auto* right = std::get_if<decltype(zero)>(&b);
    return left != nullptr && right != nullptr && *left == *right;
  };
  return equal(0.0F) || equal(0.0) ? 0 : iceberg::CompareValues(a, b);
}

template <typename T>
bool IsNan(const Value& value) {
  const T* number = std::get_if<T>(&value);
  return number != nullptr && std::isnan(*number);
}
bool IsNan(const Value& value) { return IsNan<float>(value) || IsNan<double>(value); }

bool IsFloating(const Type& type) {
  return type.kind == TypeKind::kFloat || type.kind == TypeKind::kDouble;
}

bool IsTimestamp(const Type& type) {
  return type.kind >= TypeKind::kTimestamp && type.kind <= TypeKind::kTimestamptzNs;
}

// The least text above all that begin with `prefix`; none if there is no such text.
std::optional<std::string> AfterPrefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

// The alternative of Value that goes with a type.
size_t AlternativeOf(TypeKind kind) {
  switch (kind) {
    case TypeKind::kBoolean: return Value(false).index();
    case TypeKind::kFloat: return Value(0.0F).index();
    case TypeKind::kDouble: return Value(0.0).index();
    case TypeKind::kDecimal: return Value(Decimal{}).index();
    case TypeKind::kString:
    case TypeKind::kUuid:
    case TypeKind::kFixed:
    case TypeKind::kBinary: return Value(std::string()).index();
    default: return Value(int64_t{0}).index();
  }
}

// What is known of a column's values in a file. Each piece of knowledge narrows it; bounds that are
// no values of the column's type are none.
struct Knowledge {
  explicit Knowledge(const Type& type) : alternative(AlternativeOf(type.kind)) {}

  size_t alternative;
  bool nulls = true;   // There may be nulls,
  bool values = true;  // and other values: those between the bounds.
  std::optional<Value> lower;
  std::optional<Value> upper;
  bool upper_open = false;  // `upper` itself is not among them.

  // All bucket[n] of the values are between least and greatest.
  struct Bucket {
    Transform transform;
    Value least;
    Value greatest;
  };
  std::vector<Bucket> buckets;

  void AtLeast(Value value) {
    if (value.index() != alternative) return;
    // Engines compare a float with the literal's double, or with the float next to it.
    if (float* narrow = std::get_if<float>(&value)) {
      *narrow = std::nextafterf(*narrow, -std::numeric_limits<float>::infinity());
    }
    if (!lower || Compare(*lower, value) < 0) lower = std::move(value);
  }

  void AtMost(Value value, bool open = false) {
    if (value.index() != alternative) return;
    if (float* narrow = std::get_if<float>(&value)) {
      *narrow = std::nextafterf(*narrow, std::numeric_limits<float>::infinity());
    }
    const int order = upper ? Compare(*upper, value) : 1;
    if (order < 0) return;
    upper_open = order == 0 ? upper_open || open : open;
    upper = std::move(value);
  }

  bool BelowUpper(const Value& value) const {
    if (!upper) return true;
    const int order = Compare(value, *upper);
    return order < 0 || (order == 0 && !upper_open);
  }

  bool MayHold(const Type& type, const Value& value) const {
    if ((lower && Compare(value, *lower) < 0) || !BelowUpper(value)) return false;
    return std::all_of(buckets.begin(), buckets.end(), [&](const Bucket& bucket) {
      const Result<Value> number = ApplyTransform(bucket.transform, type, value);
      return !number || (iceberg::CompareValues(*number, bucket.least) >= 0 &&
                         iceberg::CompareValues(*number, bucket.greatest) <= 0);
    });
  }
};

// --- partition values back to source values ----------------------------------------------------

// Days from 1970 to the first day of a month, counted from January 1970.
int64_t DaysToMonth(int64_t months) {
  constexpr int64_t kMonthsPerEra = 4800;  // Every 400 years have 146,097 days.
  constexpr int64_t kDaysPerEra = 146'097;
  int64_t era = months / kMonthsPerEra;
  if (months % kMonthsPerEra < 0) --era;
  const auto month = static_cast<int>(months - era * kMonthsPerEra);
  const std::chrono::year_month_day first{std::chrono::year(1970 + month / 12),
                                          std::chrono::month(static_cast<unsigned>(month % 12 + 1)),
                                          std::chrono::day(1)};
  return era * kDaysPerEra + std::chrono::sys_days(first).time_since_epoch().count();
}

// The first source value of period `ordinal`; none if it is beyond what the source type holds.
std::optional<Value> PeriodStart(Transform::Kind kind, const Type& source, int64_t ordinal) {
  constexpr int64_t kOrdinalMax = int64_t{1} << 40;
  if (ordinal < -kOrdinalMax || ordinal > kOrdinalMax) return std::nullopt;
  const bool nanos =
      source.kind == TypeKind::kTimestampNs || source.kind == TypeKind::kTimestamptzNs;
  const Int128 hour = Int128{3600} * (nanos ? 1'000'000'000 : 1'000'000);
  Int128 start = 0;
  if (kind == Transform::Kind::kHour) {
    start = ordinal * hour;
  } else {
    const int64_t days = kind == Transform::Kind::kYear    ? DaysToMonth(ordinal * 12)
                         : kind == Transform::Kind::kMonth ? DaysToMonth(ordinal)
                                                           : ordinal;
    start = source.kind == TypeKind::kDate ? Int128{days} : days * 24 * hour;
  }
  if (start < std::numeric_limits<int64_t>::min() || start > std::numeric_limits<int64_t>::max()) {
    return std::nullopt;
  }
  return Value(static_cast<int64_t>(start));
}

void LearnPeriods(Knowledge& known, Transform::Kind kind, const Type& source, const Value& least,
                  const Value& greatest) {
  const int64_t* first = std::get_if<int64_t>(&least);
  const int64_t* last = std::get_if<int64_t>(&greatest);
  if (first == nullptr || last == nullptr || *last == std::numeric_limits<int64_t>::max()) return;
  if (source.kind != TypeKind::kDate && !IsTimestamp(source)) return;
  if (source.kind == TypeKind::kDate && kind == Transform::Kind::kHour) return;
  // Old writers rounded times before 1970 towards it: the period may be one too late.
  if (*first != std::numeric_limits<int64_t>::min()) {
    if (auto start = PeriodStart(kind, source, *first <= 0 ? *first - 1 : *first)) {
      known.AtLeast(*std::move(start));
    }
  }
  if (const auto end = PeriodStart(kind, source, *last + 1)) {
    known.AtMost(Value(std::get<int64_t>(*end) - 1));
  }
}

void LearnTruncated(Knowledge& known, const Transform& transform, const Type& source,
                    const Value& least, const Value& greatest) {
  const int64_t width = transform.parameter;
  if (const auto* last = std::get_if<std::string>(&greatest)) {
    if (!std::holds_alternative<std::string>(least)) return;
    known.AtLeast(least);
    const auto characters = std::count_if(last->begin(), last->end(), [&](char c) {
      return source.kind != TypeKind::kString || (static_cast<uint8_t>(c) & 0xc0) != 0x80;
    });
    if (characters < width) {
      known.AtMost(greatest);  // Shorter than the width: nothing was cut off.
    } else if (auto after = AfterPrefix(*last)) {
      known.AtMost(Value(*std::move(after)), true);
    }
    return;
  }
  if (const auto* last = std::get_if<int64_t>(&greatest)) {
    // Next to the type's ends truncating wraps around, so that nothing is known.
    const int64_t limit = source.kind == TypeKind::kInt ? std::numeric_limits<int32_t>::max()
                                                        : std::numeric_limits<int64_t>::max();
    if (!std::holds_alternative<int64_t>(least) || *last > limit - (width - 1)) return;
    known.AtLeast(least);
    known.AtMost(Value(*last + width - 1));
    return;
  }
  const auto* last = std::get_if<Decimal>(&greatest);
  if (last == nullptr || !std::holds_alternative<Decimal>(least)) return;
  const Int128 limit = Int128{1} << 126;  // Above 38 digits.
  if (last->unscaled > limit || last->unscaled < -limit) return;
  known.AtLeast(least);
  known.AtMost(Value(Decimal{last->unscaled + (width - 1)}));
}

// A value of a column that was float when it was written and is double now.
Value Promoted(const Type& type, const Value& value) {
  const float* narrow = std::get_if<float>(&value);
  if (type.kind == TypeKind::kDouble && narrow != nullptr) return Value(double{*narrow});
  return value;
}

void LearnRange(Knowledge& known, const Type& type, Value least, Value greatest) {
  // The order of uuids differs between writers; equal bounds need none.
  if (type.kind == TypeKind::kUuid && least != greatest) return;
  known.AtLeast(std::move(least));
  known.AtMost(std::move(greatest));
}

// The partition values of a file, or of all files of a manifest, are not null and in this range.
void LearnPartition(Knowledge& known, const Transform& transform, const Type& source,
                    const Value& least, const Value& greatest) {
  switch (transform.kind) {
    case Transform::Kind::kIdentity:
      LearnRange(known, source, Promoted(source, least), Promoted(source, greatest));
      return;
    case Transform::Kind::kBucket: known.buckets.push_back({transform, least, greatest}); return;
    case Transform::Kind::kTruncate:
      LearnTruncated(known, transform, source, least, greatest);
      return;
    case Transform::Kind::kYear:
    case Transform::Kind::kMonth:
    case Transform::Kind::kDay:
    case Transform::Kind::kHour:
      LearnPeriods(known, transform.kind, source, least, greatest);
      return;
    case Transform::Kind::kVoid:
    case Transform::Kind::kUnknown: return;
  }
}

// --- files and manifests -----------------------------------------------------------------------

template <typename T>
const T* FindByField(const iceberg::ByField<T>& numbers, int field_id) {
  const auto found =
      std::lower_bound(numbers.begin(), numbers.end(), field_id,
                       [](const std::pair<int, T>& one, int id) { return one.first < id; });
  return found == numbers.end() || found->first != field_id ? nullptr : &found->second;
}

// Calls `learn(index, transform)` for the spec's fields that are made from this column, and whose
// null is the column's null.
template <typename Learn>
void ForPartitionsOf(const FilterNode& test, const iceberg::PartitionSpec& spec, Learn learn) {
  for (size_t i = 0; i < spec.fields.size(); ++i) {
    const iceberg::PartitionField& field = spec.fields[i];
    if (field.source_ids.size() != 1 || field.source_ids[0] != test.field_id) continue;
    const Transform transform = ParseTransform(field.transform);
    if (transform.kind == Transform::Kind::kVoid || transform.kind == Transform::Kind::kUnknown) {
      continue;
    }
    learn(i, transform);
  }
}

void LearnMetrics(Knowledge& known, const FilterNode& test, const iceberg::DataFile& file) {
  const int64_t* nulls = FindByField(file.null_value_counts, test.field_id);
  const int64_t* values = FindByField(file.value_counts, test.field_id);
  if (nulls != nullptr && *nulls == 0) known.nulls = false;
  if (nulls != nullptr && values != nullptr && *values > 0 && *nulls == *values) {
    known.values = false;
  }
  const auto bound = [&](const std::string* bytes) -> std::optional<Value> {
    if (bytes == nullptr) return std::nullopt;
    Result<Value> value = ValueFromBytes(test.type, *bytes);
    if (!value || IsNan(*value)) return std::nullopt;
    return std::move(*value);
  };
  auto lower = bound(FindByField(file.lower_bounds, test.field_id));
  auto upper = bound(FindByField(file.upper_bounds, test.field_id));
  if (IsFloating(test.type)) {  // Bounds leave NaN out, which is above every number.
    const int64_t* nans = FindByField(file.nan_value_counts, test.field_id);
    if (nans == nullptr || *nans != 0) upper.reset();
  }
  if (test.type.kind == TypeKind::kUuid) {
    if (lower && upper) LearnRange(known, test.type, *std::move(lower), *std::move(upper));
    return;
  }
  if (lower) known.AtLeast(*std::move(lower));
  if (upper) known.AtMost(*std::move(upper));
}

Knowledge KnowledgeOf(const FilterNode& test, const iceberg::DataFile& file,
                      const iceberg::PartitionSpec& spec) {
  Knowledge known(test.type);
  LearnMetrics(known, test, file);
  ForPartitionsOf(test, spec, [&](size_t i, const Transform& transform) {
    if (i >= file.partition.size()) return;
    if (iceberg::IsNull(file.partition[i])) {
      known.values = false;
      return;
    }
    known.nulls = false;
    LearnPartition(known, transform, test.type, file.partition[i], file.partition[i]);
  });
  return known;
}

Knowledge KnowledgeOf(const FilterNode& test, const iceberg::ManifestFile& manifest,
                      const iceberg::PartitionSpec& spec) {
  Knowledge known(test.type);
  ForPartitionsOf(test, spec, [&](size_t i, const Transform& transform) {
    if (i >= manifest.partitions.size()) return;
    const iceberg::FieldSummary& summary = manifest.partitions[i];
    if (!summary.contains_null) known.nulls = false;
    if (!summary.lower_bound || !summary.upper_bound) return;
    const Type type = TransformedType(transform, test.type);
    const Result<Value> least = ValueFromBytes(type, *summary.lower_bound);
    Result<Value> greatest = ValueFromBytes(type, *summary.upper_bound);
    if (!least || !greatest || IsNan(*least) || IsNan(*greatest)) return;
    if (IsFloating(type) && summary.contains_nan.value_or(true)) {
      *greatest = type.kind == TypeKind::kFloat ? Value(std::numeric_limits<float>::quiet_NaN())
                                                : Value(std::numeric_limits<double>::quiet_NaN());
    }
    LearnPartition(known, transform, test.type, *least, *greatest);
  });
  return known;
}

// --- tests -------------------------------------------------------------------------------------

bool MayStartWith(const Knowledge& known, const std::string& prefix) {
  if (known.lower) {
    const std::string& lower = std::get<std::string>(*known.lower);
    if (lower.compare(0, prefix.size(), prefix) > 0) return false;
  }
  return known.BelowUpper(Value(prefix));
}

// All values start with the prefix: both ends do, and with them what lies between.
bool AllStartWith(const Knowledge& known, const std::string& prefix) {
  if (!known.lower || !known.upper) return false;
  if (!std::get<std::string>(*known.lower).starts_with(prefix)) return false;
  if (std::get<std::string>(*known.upper).starts_with(prefix)) return true;
  const std::optional<std::string> after = AfterPrefix(prefix);
  return known.upper_open && after && std::get<std::string>(*known.upper) == *after;
}

// There is one value only, and it is this.
bool IsOnly(const Knowledge& known, const Value& value) {
  return known.lower && known.upper && !known.upper_open && Compare(*known.lower, value) == 0 &&
         Compare(*known.upper, value) == 0;
}

bool MayPass(const FilterNode& test, const Knowledge& known) {
  if (test.test == Test::kIsNull) return known.nulls;
  if (!known.values) return false;
  const auto& values = test.values;
  switch (test.test) {
    case Test::kLess: return !known.lower || Compare(*known.lower, values[0]) < 0;
    case Test::kLessOrEqual: return !known.lower || Compare(*known.lower, values[0]) <= 0;
    case Test::kGreater: return !known.upper || Compare(*known.upper, values[0]) > 0;
    case Test::kGreaterOrEqual: return known.BelowUpper(values[0]);
    case Test::kIn:
      return std::any_of(values.begin(), values.end(),
                         [&](const Value& value) { return known.MayHold(test.type, value); });
    case Test::kNotIn:
      return std::none_of(values.begin(), values.end(),
                          [&](const Value& value) { return IsOnly(known, value); });
    case Test::kStartsWith: return MayStartWith(known, std::get<std::string>(values[0]));
    case Test::kNotStartsWith: return !AllStartWith(known, std::get<std::string>(values[0]));
    case Test::kIsNull:
    case Test::kNotNull: return true;
  }
  return true;
}

template <typename Item>
bool MayMatchNode(const FilterNode& node, const Item& item, const iceberg::PartitionSpec& spec) {
  const auto child = [&](const std::unique_ptr<FilterNode>& one) {
    return MayMatchNode(*one, item, spec);
  };
  switch (node.kind) {
    case FilterNode::Kind::kAll: return true;
    case FilterNode::Kind::kAnd:
      return std::all_of(node.children.begin(), node.children.end(), child);
    case FilterNode::Kind::kOr:
      return std::any_of(node.children.begin(), node.children.end(), child);
    case FilterNode::Kind::kTest: return MayPass(node, KnowledgeOf(node, item, spec));
  }
  return true;
}

void CollectFields(const FilterNode& node, std::vector<int>& ids) {
  if (node.kind == FilterNode::Kind::kTest) ids.push_back(node.field_id);
  for (const auto& child : node.children) CollectFields(*child, ids);
}

}  // namespace

FileFilter::FileFilter(std::unique_ptr<FilterNode> root) : root_(std::move(root)) {
  CollectFields(*root_, field_ids_);
  std::sort(field_ids_.begin(), field_ids_.end());
  field_ids_.erase(std::unique(field_ids_.begin(), field_ids_.end()), field_ids_.end());
}
FileFilter::FileFilter(FileFilter&&) noexcept = default;
FileFilter& FileFilter::operator=(FileFilter&&) noexcept = default;
FileFilter::~FileFilter() = default;

Result<FileFilter> FileFilter::Parse(std::string_view text, const iceberg::Schema& schema) {
  LITHIFY_TRY_ASSIGN(std::unique_ptr<FilterNode> root, ParseFilter(text, schema));
  return FileFilter(std::move(root));
}

bool FileFilter::MayMatch(const iceberg::DataFile& file, const iceberg::PartitionSpec& spec) const {
  return MayMatchNode(*root_, file, spec);
}

bool FileFilter::MayMatch(const iceberg::ManifestFile& manifest,
                          const iceberg::PartitionSpec& spec) const {
  return MayMatchNode(*root_, manifest, spec);
}

}  // namespace lithify::table
