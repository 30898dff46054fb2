#include "job_world.h"

#include <span>
#include <utility>

namespace lithify::sim {

JobWorld::JobWorld()
    : clock(*ParseTime("2026-11-29T12:00")),
      random(1),
      store(clock),
      audit(observe::OpenMemoryAuditLog()) {
  SeriesLayout data;
  data.name = data.prefix = "data";
  data.columns = {
      {"tenant_id", ColumnRole::kTenant}, {"date", ColumnRole::kDate}, {"hour", ColumnRole::kHour}};
  SeriesLayout audit_series = data;
  audit_series.name = audit_series.prefix = "audit";
  audit_series.columns.pop_back();
  settings.series = {data, audit_series};
  settings.claim_ttl = Duration::zero();
  settings.options.small_file_bytes = 1000;
  settings.options.target_file_bytes = 4000;
  settings.options.file_bytes_min = 2000;
  settings.options.file_bytes_max = 8000;
}

std::string JobWorld::Hour(std::string_view hour) {
  return "data/tenant_id=a/date=2026-11-29/hour=" + std::string(hour) + "/";
}

void JobWorld::Write(const std::string& prefix, const std::string& name,
                     std::vector<std::string> rows) {
  SimFile file;
  file.rows = std::move(rows);
  const Status put = store.PutNew(prefix + name + ".parquet", EncodeSimFile(file));
  LITHIFY_CHECK(put.has_value(), "the name is new");
}

void JobWorld::WriteFive(const std::string& prefix) {
  for (const char* n : {"1", "2", "3", "4", "5"}) {
    Write(prefix, std::string("f") + n, {std::string("r") + n});
  }
}

job::HiveJob JobWorld::Job(storage::Store& seen) {
  runners_.push_back(std::make_unique<SimRunner>(seen));
  const auto encode = [](std::span<const rewrite::CompactionEvent> events) -> Result<std::string> {
    SimFile file;
    for (const rewrite::CompactionEvent& event : events) {
      file.rows.push_back(event.tenant_id + "|" + event.partition + "|" +
                          std::to_string(event.generation) + "|" + FormatTime(event.timestamp));
    }
    return EncodeSimFile(file);
  };
  return job::HiveJob(
      {seen, *runners_.back(), clock, random, *audit, progress, encode, memory, metrics}, settings);
}

HiveManifest JobWorld::Manifest(const std::string& prefix) {
  const auto snapshot = table::ReadManifest(store, prefix);
  LITHIFY_CHECK(snapshot.has_value(), "the manifest is valid");
  return *snapshot ? (*snapshot)->manifest : HiveManifest();
}

std::multiset<std::string> JobWorld::LiveRows(const std::string& prefix) {
  std::multiset<std::string> rows;
  SimRunner runner(store);
  for (const std::string& name : Manifest(prefix).files) {
    const auto blob = store.Get(prefix + name, 1 << 20);
    if (!blob) {
      rows.insert("missing " + name);
      continue;
    }
    const auto file = DecodeSimFile(blob->bytes);
    rows.insert(file->rows.begin(), file->rows.end());
  }
  return rows;
}

std::set<std::string> JobWorld::Names(const std::string& prefix) {
  std::set<std::string> names;
  const auto listing = store.List(prefix);
  for (const storage::ObjectInfo& object : *listing) {
    names.insert(object.key.substr(prefix.size()));
  }
  return names;
}

std::vector<observe::AuditEvent> JobWorld::Events() {
  std::vector<observe::AuditEvent> events;
  const auto records = audit->ReadAll();
  for (const observe::AuditRecord& record : *records) events.push_back(record.event);
  return events;
}

std::vector<std::string> JobWorld::Phases() {
  std::vector<std::string> phases;
  for (const observe::AuditEvent& event : Events()) {
    phases.push_back(std::string(observe::PhaseName(event.phase)) + " " +
                     std::to_string(event.generation));
  }
  return phases;
}

}  // namespace lithify::sim
