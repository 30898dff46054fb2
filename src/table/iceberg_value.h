// Values of Iceberg types: binary and JSON single-value serialization, transforms, partition paths
// [Appendix D], [Partition Transforms].
//
// Errors: kCorrupt for bytes that are no value of the type. Thread safety: pure functions.
#ifndef LITHIFY_TABLE_ICEBERG_VALUE_H_
#define LITHIFY_TABLE_ICEBERG_VALUE_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::table {

std::string_view TypeKindName(iceberg::TypeKind kind);  // "timestamptz_ns".

// Bounds written before a promotion (int as 4 bytes where the column is long now) are understood.
Result<iceberg::Value> ValueFromBytes(const iceberg::Type& type, std::string_view bytes);
std::string ValueToBytes(const iceberg::Type& type, const iceberg::Value& value);

// Text as a person or a filter writes it ("2026-11-29", "12.50", "abc") to a value of the type.
Result<iceberg::Value> ParseValue(const iceberg::Type& type, std::string_view text);

struct Transform {
  enum class Kind { kIdentity, kBucket, kTruncate, kYear, kMonth, kDay, kHour, kVoid, kUnknown };
  Kind kind = Kind::kUnknown;
  int parameter = 0;  // Of kBucket and kTruncate.
};
// An unknown transform is no error: it can't be evaluated, only kept.
Transform ParseTransform(std::string_view text);
// The type of the partition value for a source of this type.
iceberg::Type TransformedType(const Transform& transform, const iceberg::Type& source);
// null stays null. kUnsupported for unknown transforms and sources that it does not take.
Result<iceberg::Value> ApplyTransform(const Transform& transform, const iceberg::Type& source,
                                      const iceberg::Value& value);

// "region=eu/day=2026-11-29", escaped as Iceberg's Java writer does; empty if unpartitioned.
std::string PartitionPath(const iceberg::PartitionSpec& spec, const iceberg::Schema& schema,
                          const std::vector<iceberg::Value>& values);
// For people: one value in the form that PartitionPath uses, not escaped; "null".
std::string ValueToText(const iceberg::Type& type, const iceberg::Value& value);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_VALUE_H_
