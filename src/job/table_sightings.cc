#include "job/table_sightings.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lithify::job {
namespace {

bool IsBelow(std::string_view key, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& prefix) {
    return key.size() > prefix.size() && key.starts_with(prefix) && key[prefix.size()] == '.';
  });
}

template <typename Wanted>
std::map<std::string, std::string> Some(const std::map<std::string, std::string>& values,
                                        const Wanted& wanted) {
  std::map<std::string, std::string> some;
  for (const auto& [key, value] : values) {
    if (some.size() >= TableSightings::kValuesMax) break;
    if (!wanted(key)) continue;
    if (key.size() + value.size() > TableSightings::kValueBytesMax) continue;
    some.emplace(key, value);
  }
  return some;
}

}  // namespace

void TableSightings::Saw(const std::string& catalog, const catalog::LoadedTable& table, Time now) {
  const iceberg::TableMetadata& metadata = table.metadata;
  TableSighting sighting;
  sighting.seen = now;
  TableLook& look = sighting.look;
  look.ident = table.ident;
  look.table_uuid = metadata.table_uuid;
  if (const iceberg::Snapshot* head = metadata.RefSnapshot("main")) {
    look.snapshot_id = head->snapshot_id;
    look.snapshot_ms = head->timestamp_ms;
    look.summary =
        Some(head->summary, [](std::string_view key) { return key.starts_with("total-"); });
  }
  look.properties =
      Some(metadata.properties, [this](std::string_view key) { return IsBelow(key, prefixes_); });
  Key key{catalog, table.ident};
  const std::lock_guard lock(mutex_);
  Kept& kept = tables_[key];
  if (!kept.sighting.look.ident.name.empty()) by_order_.erase(kept.order);
  kept.sighting = std::move(sighting);
  kept.order = next_++;
  by_order_.emplace(kept.order, std::move(key));
  if (tables_.size() <= tables_max_) return;
  tables_.erase(by_order_.begin()->second);
  by_order_.erase(by_order_.begin());
}

std::vector<TableSighting> TableSightings::Of(const std::string& catalog) const {
  const std::lock_guard lock(mutex_);
  std::vector<TableSighting> found;
  for (auto at = tables_.lower_bound(Key{catalog, {}});
       at != tables_.end() && at->first.first == catalog; ++at) {
    found.push_back(at->second.sighting);
  }
  return found;
}

}  // namespace lithify::job
