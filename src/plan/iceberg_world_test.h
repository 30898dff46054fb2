// Live sets for the tests of planning, and what a rewrite makes of them.
#ifndef LITHIFY_PLAN_ICEBERG_WORLD_TEST_H_
#define LITHIFY_PLAN_ICEBERG_WORLD_TEST_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/delete_index.h"
#include "base/iceberg.h"
#include "plan/iceberg_plan.h"

namespace lithify::plan {

struct World {
  iceberg::LiveSet live = [] {
    iceberg::LiveSet set;
    set.snapshot_id = 1;
    set.sequence_number = 1;
    return set;
  }();
  int64_t names = 0;

  void AddPartition(iceberg::PartitionKey key) {
    live.unpartitioned.push_back(key.values.empty());
    live.partitions.push_back(std::move(key));
  }
  void AddPartition() {
    AddPartition({.spec_id = 0, .values = {int64_t{std::ssize(live.partitions)}}});
  }

  iceberg::LiveDataFile& AddFile(int32_t partition, int64_t size, int64_t records = 100,
                                 int64_t sequence = 1) {
    iceberg::LiveDataFile file;
    // Of equal length, so that they sort as they were made.
    file.path = "data/" + std::to_string(1'000'000'000 + names++) + ".parquet";
    file.size = size;
    file.records = records;
    file.sequence_number = sequence;
    file.partition = partition;
    return live.data_files.emplace_back(std::move(file));
  }
  void AddFiles(int32_t partition, int n, int64_t size, int64_t records = 100) {
    for (int i = 0; i < n; ++i) AddFile(partition, size, records);
  }

  iceberg::LiveDeleteFile& AddDeletes(iceberg::FileContent content, int32_t partition,
                                      int64_t records, int64_t sequence) {
    iceberg::LiveDeleteFile file;
    file.content = content;
    file.path = "data/" + std::to_string(1'000'000'000 + names++) + "-deletes.parquet";
    file.records = records;
    file.sequence_number = sequence;
    file.partition = partition;
    return live.delete_files.emplace_back(std::move(file));
  }
  // Of one data file only.
  iceberg::LiveDeleteFile& AddPositionDeletes(int32_t data_file, int64_t records,
                                              int64_t sequence = 1) {
    const iceberg::LiveDataFile& data = live.data_files[static_cast<size_t>(data_file)];
    iceberg::LiveDeleteFile& file =
        AddDeletes(iceberg::FileContent::kPositionDeletes, data.partition, records, sequence);
    file.referenced_data_file = data.path;
    return file;
  }
  // That may name any file of the partition.
  iceberg::LiveDeleteFile& AddPartitionDeletes(int32_t partition, int64_t records,
                                               int64_t sequence) {
    return AddDeletes(iceberg::FileContent::kPositionDeletes, partition, records, sequence);
  }
  iceberg::LiveDeleteFile& AddEqualityDeletes(int32_t partition, int64_t records,
                                              int64_t sequence) {
    iceberg::LiveDeleteFile& file =
        AddDeletes(iceberg::FileContent::kEqualityDeletes, partition, records, sequence);
    file.equality_ids = {1};
    return file;
  }
};

// The live set after the plan: outputs of equal size, `factor` times what the rows that are left
// had taken, with the planned snapshot's sequence number; deletes of the inputs are gone.
inline World AfterRewrite(const World& before, const RewritePlan& plan, double factor) {
  const iceberg::LiveSet& old = before.live;
  const iceberg::DeleteIndex deletes(old);
  World after;
  after.names = before.names;
  after.live.partitions = old.partitions;
  after.live.unpartitioned = old.unpartitioned;
  after.live.sequence_number = old.sequence_number + 1;
  std::vector<bool> rewritten(old.data_files.size(), false);
  for (const FileGroup& group : plan.groups) {
    for (const int32_t file : group.data_files) rewritten[static_cast<size_t>(file)] = true;
  }
  std::unordered_set<std::string> gone;
  for (size_t i = 0; i < old.data_files.size(); ++i) {
    if (rewritten[i]) {
      gone.insert(old.data_files[i].path);
    } else {
      after.live.data_files.push_back(old.data_files[i]);
    }
  }
  for (const FileGroup& group : plan.groups) {
    double bytes = 0;
    for (const int32_t at : group.data_files) {
      const iceberg::LiveDataFile& data = old.data_files[static_cast<size_t>(at)];
      int64_t known = 0;
      for (const int32_t d : deletes.AppliesTo(at)) {
        const iceberg::LiveDeleteFile& file = old.delete_files[static_cast<size_t>(d)];
        if (file.referenced_data_file == data.path) known += file.records;
      }
      const double left = data.records == 0 || known == 0
                              ? 1.0
                              : static_cast<double>(std::max<int64_t>(0, data.records - known)) /
                                    static_cast<double>(data.records);
      bytes += static_cast<double>(data.size) * left;
    }
    if (group.records > 0 && group.live_records == 0) continue;
    for (int i = 0; i < group.outputs; ++i) {
      after.AddFile(group.partition, std::llround(bytes * factor / group.outputs),
                    group.live_records / group.outputs, old.sequence_number);
    }
  }
  for (const iceberg::LiveDeleteFile& file : old.delete_files) {
    if (!gone.contains(file.referenced_data_file)) after.live.delete_files.push_back(file);
  }
  const std::vector<int32_t> dangling = iceberg::DeleteIndex(after.live).Dangling();
  for (auto at = dangling.rbegin(); at != dangling.rend(); ++at) {
    after.live.delete_files.erase(after.live.delete_files.begin() + *at);
  }
  return after;
}

}  // namespace lithify::plan

#endif  // LITHIFY_PLAN_ICEBERG_WORLD_TEST_H_
