// The columns of the maintenance log. Private to this module.
#ifndef LITHIFY_JOB_MAINTENANCE_LOG_COLUMNS_H_
#define LITHIFY_JOB_MAINTENANCE_LOG_COLUMNS_H_

#include <array>
#include <string_view>

#include "base/iceberg.h"

namespace lithify::job {

struct LogColumn {
  std::string_view name;
  iceberg::TypeKind kind;
  bool required;
};

// R162, in its order.
inline constexpr std::array<LogColumn, 14> kLogColumns = {{
    {"job_id", iceberg::TypeKind::kString, true},
    {"table_name", iceberg::TypeKind::kString, true},
    {"trigger", iceberg::TypeKind::kString, true},
    {"principal", iceberg::TypeKind::kString, true},
    {"started_at_ms", iceberg::TypeKind::kLong, true},
    {"finished_at_ms", iceberg::TypeKind::kLong, true},
    {"status", iceberg::TypeKind::kString, true},
    {"files_in", iceberg::TypeKind::kLong, true},
    {"files_out", iceberg::TypeKind::kLong, true},
    {"bytes_in", iceberg::TypeKind::kLong, true},
    {"bytes_out", iceberg::TypeKind::kLong, true},
    {"rows_removed", iceberg::TypeKind::kLong, true},
    {"snapshot_id", iceberg::TypeKind::kLong, false},
    {"error", iceberg::TypeKind::kString, false},
}};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_MAINTENANCE_LOG_COLUMNS_H_
