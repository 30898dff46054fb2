#include "maintain/sighted_tables.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "plan/maintenance_policy.h"

namespace lithify::maintain {
namespace {

constexpr const char* kTouchedOnly =
    "no principal is set, so the catalog is not asked: only tables that callers of this process "
    "have touched since it started are known, as they were then; set [maintenance.principal] to "
    "see all of them";
constexpr const char* kNothing =
    "no principal is set, so the catalog is not asked, and no callers are in this process: nothing "
    "is known; set [maintenance.principal], or run lithifyd, which also knows the tables that its "
    "callers touch";

// A total of a summary, which is somebody else's text.
std::optional<int64_t> Total(const std::map<std::string, std::string>& summary, const char* key) {
  const auto found = summary.find(key);
  if (found == summary.end()) return std::nullopt;
  int64_t value = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto parsed = std::from_chars(found->second.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return std::nullopt;
  return value;
}

bool Counts(const catalog::TableIdent& ident, const SchedulerOptions& options) {
  if (options.log && ident == *options.log) return false;
  return !options.namespaces ||
         std::ranges::find(*options.namespaces, ident.namespace_parts) != options.namespaces->end();
}

TableReport Describe(const job::TableSighting& sighting, const SchedulerOptions& options) {
  const job::TableLook& look = sighting.look;
  const plan::TablePolicy policy =
      plan::ResolvePolicy(look.properties, options.defaults, std::nullopt);
  TableReport report{.table = options.catalog + "." + look.ident.ToString(),
                     .gate = policy.enabled ? TableGate::kOptedIn : TableGate::kNotOptedIn,
                     .gate_reason = policy.enabled_reason};
  for (const plan::PolicyWarning& warning : policy.warnings) {
    report.warnings.push_back(warning.message);
  }
  report.seen = sighting.seen;
  if (look.snapshot_id == 0) {
    report.data_files = 0;
    report.delete_files = 0;
  } else {
    report.data_files = Total(look.summary, "total-data-files");
    report.delete_files = Total(look.summary, "total-delete-files");
    const auto bytes = Total(look.summary, "total-files-size");
    if (bytes && report.data_files.value_or(0) > 0) {
      report.file_bytes_average = *bytes / *report.data_files;
    }
  }
  return report;
}

}  // namespace

TickReport ReportSighted(const job::TableSightings* sightings, const SchedulerOptions& options,
                         Clock& clock, observe::Metrics& metrics) {
  TickReport report;
  report.mode = ModeName(options.mode);
  report.catalog = options.catalog;
  report.limits = sightings != nullptr ? kTouchedOnly : kNothing;
  report.began = clock.Now();
  metrics.Add(metric::kLithifyMaintenanceTicks, 1);
  if (sightings != nullptr) {
    for (const job::TableSighting& sighting : sightings->Of(options.catalog)) {
      if (Counts(sighting.look.ident, options))
        report.tables.push_back(Describe(sighting, options));
    }
  }
  for (const metric::Instrument* gauge :
       {&metric::kLithifyTableDataFiles, &metric::kLithifyTableDeleteFiles,
        &metric::kLithifyTableFileSize}) {
    metrics.Forget(*gauge);
  }
  for (const TableReport& table : report.tables) {
    const observe::Attributes of{{attribute::kLithifyTable, table.table}};
    const auto set = [&](const metric::Instrument& gauge, const std::optional<int64_t>& value) {
      if (value) metrics.Set(gauge, static_cast<double>(*value), of);
    };
    set(metric::kLithifyTableDataFiles, table.data_files);
    set(metric::kLithifyTableDeleteFiles, table.delete_files);
    set(metric::kLithifyTableFileSize, table.file_bytes_average);
  }
  report.ended = clock.Now();
  return report;
}

}  // namespace lithify::maintain
