#include "plan/write_rates.h"

#include <algorithm>
#include <map>
#include <set>

namespace lithify::plan {
namespace {

struct Written {
  int64_t at_ms = 0;
  bool append = false;
};

struct Seen {
  std::set<int64_t> commits;  // Sequence numbers, within the window.
  int64_t appends = 0;        // Of them.
  int64_t files = 0;          // Likewise.
  int64_t newest_ms = 0;
};

int64_t Millis(Time t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

double Seconds(int64_t millis) {
  return static_cast<double>(std::max<int64_t>(0, millis)) / 1000.0;
}

}  // namespace

std::vector<WriteRates> WriteRatesOf(const iceberg::TableMetadata& table,
                                     const iceberg::LiveSet& live, Time now) {
  std::vector<WriteRates> rates(live.partitions.size());
  if (table.format_version < 2 || table.snapshots.empty()) return rates;
  const int64_t now_ms = Millis(now);
  const int64_t ahead_ms = Millis(now + kWriteRatesSkewMax);
  std::map<int64_t, Written> written;  // By sequence number: snapshots that change rows.
  int64_t oldest_ms = now_ms;
  std::optional<int64_t> compacted_ms;
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    oldest_ms = std::min(oldest_ms, snapshot.timestamp_ms);
    const auto operation = snapshot.summary.find("operation");
    if (operation != snapshot.summary.end() && operation->second == "replace") {
      if (snapshot.timestamp_ms > ahead_ms) continue;
      compacted_ms = std::max(compacted_ms.value_or(0), snapshot.timestamp_ms);
    } else {
      written[snapshot.sequence_number] = {
          .at_ms = snapshot.timestamp_ms,
          .append = operation != snapshot.summary.end() && operation->second == "append"};
    }
  }
  const auto window_ms = std::chrono::duration_cast<std::chrono::milliseconds>(kWriteRatesWindow);
  const int64_t since_ms =
      std::max({now_ms - window_ms.count(), oldest_ms, compacted_ms.value_or(0)});
  std::vector<Seen> seen(live.partitions.size());
  const auto see = [&](int32_t partition, int64_t sequence_number, bool data) {
    const auto at = written.find(sequence_number);
    if (at == written.end()) return;
    Seen& one = seen[static_cast<size_t>(partition)];
    one.newest_ms = std::max(one.newest_ms, at->second.at_ms);
    if (at->second.at_ms < since_ms) return;
    if (one.commits.insert(sequence_number).second && at->second.append) ++one.appends;
    if (data) ++one.files;
  };
  for (const auto& file : live.data_files) see(file.partition, file.sequence_number, true);
  for (const auto& file : live.delete_files) see(file.partition, file.sequence_number, false);

  const auto least = std::chrono::duration_cast<std::chrono::milliseconds>(kWriteRatesWindowMin);
  const double hours = Seconds(std::max(now_ms - since_ms, least.count())) / 3600.0;
  for (size_t i = 0; i < rates.size(); ++i) {
    rates[i].commits_per_hour = static_cast<double>(seen[i].commits.size()) / hours;
    if (!seen[i].commits.empty()) {
      rates[i].append_share =
          static_cast<double>(seen[i].appends) / static_cast<double>(seen[i].commits.size());
    }
    rates[i].files_per_hour = static_cast<double>(seen[i].files) / hours;
    if (seen[i].newest_ms > 0) rates[i].seconds_since_write = Seconds(now_ms - seen[i].newest_ms);
    if (compacted_ms) rates[i].seconds_since_compaction = Seconds(now_ms - *compacted_ms);
  }
  return rates;
}

}  // namespace lithify::plan
