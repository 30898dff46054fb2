#include "job/hive_events.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

namespace lithify::job {
namespace {

constexpr std::string_view kNoTenant = "default";

const SeriesLayout* FindAuditSeries(const HiveSettings& settings) {
  const auto found = std::ranges::find(settings.series, settings.audit_series, &SeriesLayout::name);
  return found == settings.series.end() ? nullptr : &*found;
}

std::string Padded(int width, unsigned value) {
  std::array<char, 16> text;
  const int n = std::snprintf(text.data(), text.size(), "%0*u", width, value);
  return {text.data(), static_cast<size_t>(n)};
}

// Decoded value of one path column for an event of that tenant and time.
std::string PathValue(ColumnRole role, const std::string& tenant, Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  std::string year = Padded(4, static_cast<unsigned>(static_cast<int>(date.year())));
  std::string month = Padded(2, static_cast<unsigned>(date.month()));
  std::string of_month = Padded(2, static_cast<unsigned>(date.day()));
  switch (role) {
    case ColumnRole::kTenant: return tenant.empty() ? std::string(kNoTenant) : tenant;
    case ColumnRole::kYear: return year;
    case ColumnRole::kMonth: return month;
    case ColumnRole::kDay: return of_month;
    case ColumnRole::kHour:
      return Padded(2, static_cast<unsigned>(
                           std::chrono::duration_cast<std::chrono::hours>(time - day).count()));
    case ColumnRole::kDate: return year + "-" + month + "-" + of_month;
    case ColumnRole::kOther: return {};  // CheckAuditSeries refuses those.
  }
  return {};
}

// "data/tenant_id=a/year=2026/month=11/" -> "year=2026/month=11": neither prefix nor tenant.
std::string TimePath(const observe::AuditEvent& event) {
  std::string path;
  size_t begin = 0;
  bool tenant_seen = event.tenant.empty();
  while (begin < event.partition.size()) {
    const size_t end = std::min(event.partition.find('/', begin), event.partition.size());
    const std::string part = event.partition.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    if (!tenant_seen) {
      const auto decoded = table::DecodeHiveValue(part.substr(equals + 1));
      if (decoded && *decoded == event.tenant) {
        tenant_seen = true;
        continue;
      }
    }
    path += (path.empty() ? "" : "/") + part;
  }
  return path;
}

}  // namespace

Status CheckAuditSeries(const HiveServices& services, const HiveSettings& settings) {
  if (settings.audit_series.empty()) return {};
  const SeriesLayout* layout = FindAuditSeries(settings);
  if (layout == nullptr) {
    return Fail(Code::kInvalid, "there is no series of that name", settings.audit_series,
                "name one of the configured series as audit_series, or none");
  }
  bool tenant = false;
  bool day = false;
  for (const PartitionColumn& column : layout->columns) {
    if (column.role == ColumnRole::kTenant) tenant = true;
    if (column.role == ColumnRole::kDay || column.role == ColumnRole::kDate) day = true;
    if (column.role == ColumnRole::kOther) {
      return Fail(Code::kInvalid, "an event has no value for column " + column.name, layout->name,
                  "the audit series may only be partitioned by tenant and time");
    }
  }
  if (!tenant || !day) {
    return Fail(Code::kInvalid, "the audit series needs a tenant column and a day", layout->name);
  }
  if (!services.encode_events) {
    return Fail(Code::kInvalid, "an audit series is set but no event encoder", layout->name);
  }
  return {};
}

Result<std::string> MakeEventKey(const HiveServices& services, const HiveSettings& settings,
                                 const std::string& tenant, Time time) {
  if (settings.audit_series.empty()) return std::string();
  const SeriesLayout* layout = FindAuditSeries(settings);
  LITHIFY_CHECK(layout != nullptr, "the settings were checked");
  std::vector<std::string> values;
  for (const PartitionColumn& column : layout->columns) {
    values.push_back(PathValue(column.role, tenant, time));
  }
  LITHIFY_TRY_ASSIGN(const PartitionId id, table::MakePartition(*layout, values));
  return id.key_prefix + MakeUuidV7(services.clock, services.random) + ".parquet";
}

Status EmitEvent(const HiveServices& services, const observe::AuditEvent& committed, Time time) {
  rewrite::CompactionEvent event;
  event.tenant_id = committed.tenant.empty() ? std::string(kNoTenant) : committed.tenant;
  event.timestamp = time;
  event.partition = TimePath(committed);
  event.input_files = committed.inputs;
  event.output_files = committed.outputs;
  event.generation = committed.generation;
  event.rows = static_cast<uint64_t>(committed.rows);
  LITHIFY_TRY_ASSIGN(const std::string bytes, services.encode_events(std::span(&event, 1)));
  Status put = services.store.PutNew(committed.emitted_file, bytes);
  // It exists: somebody wrote this very event before.
  if (!put && put.error().code != Code::kConflict) {
    return Fail(std::move(put.error()).In(committed.emitted_file));
  }
  observe::AuditEvent emitted = committed;
  emitted.phase = observe::AuditEvent::Phase::kEmitted;
  emitted.time = services.clock.Now();
  emitted.inputs.clear();
  emitted.outputs.clear();
  return services.audit.Append(emitted);
}

}  // namespace lithify::job
