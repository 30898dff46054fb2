#include "plan/partition_time.h"

#include <chrono>
#include <string_view>

namespace lithify::plan {
namespace {

// Beyond, a value is a mistake, and the arithmetic would not fit.
constexpr int64_t kYearsMax = 8000;

std::optional<Time> EndOfMonths(int64_t months) {
  if (months <= -12 * kYearsMax || months >= 12 * kYearsMax) return std::nullopt;
  const std::chrono::year_month first = std::chrono::year(1970) / std::chrono::January;
  const auto next = first + std::chrono::months(months + 1);
  return Time(std::chrono::sys_days(next / 1));
}

std::optional<Time> EndOf(std::string_view transform, const iceberg::Type* source, int64_t value) {
  if (value <= -kYearsMax * 366 * 24 || value >= kYearsMax * 366 * 24) return std::nullopt;
  if (transform == "year") return EndOfMonths(value * 12 + 11);
  if (transform == "month") return EndOfMonths(value);
  if (transform == "hour") return Time(std::chrono::hours(value + 1));
  const bool date =
      transform == "identity" && source != nullptr && source->kind == iceberg::TypeKind::kDate;
  if (transform != "day" && !date) return std::nullopt;
  if (value <= -kYearsMax * 366 || value >= kYearsMax * 366) return std::nullopt;
  return Time(std::chrono::hours((value + 1) * 24));
}

}  // namespace

std::optional<Time> PartitionEnd(const iceberg::TableMetadata& table,
                                 const iceberg::PartitionKey& partition) {
  const iceberg::PartitionSpec* spec = table.FindSpec(partition.spec_id);
  if (spec == nullptr) return std::nullopt;
  std::optional<Time> end;
  for (size_t i = 0; i < spec->fields.size() && i < partition.values.size(); ++i) {
    const iceberg::PartitionField& field = spec->fields[i];
    const int64_t* value = std::get_if<int64_t>(&partition.values[i]);
    if (value == nullptr || field.source_ids.size() != 1) continue;
    const iceberg::Field* source = iceberg::FindField(table.schema(), field.source_ids[0]);
    const auto one = EndOf(field.transform, source != nullptr ? &source->type : nullptr, *value);
    if (one && (!end || *one < *end)) end = one;
  }
  return end;
}

}  // namespace lithify::plan
