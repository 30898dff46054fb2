// Knows what was acknowledged and published, and judges the tree after every change.
#ifndef LITHIFY_TESTS_SIM_HIVE_ORACLE_H_
#define LITHIFY_TESTS_SIM_HIVE_ORACLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/hive.h"
#include "observe/audit_log.h"
#include "storage/memory_store.h"

namespace lithify::sim {

class HiveOracle {
 public:
  HiveOracle(storage::MemoryStore& store, const Clock& clock, Duration gc_grace)
      : store_(store), clock_(clock), gc_grace_(gc_grace) {}

  // Nothing, or what is wrong with the partition that holds `key`, right now.
  std::optional<std::string> Check(const std::string& key);
  void Acknowledge(const std::string& prefix, const std::vector<std::string>& rows);
  const std::set<std::string>& acknowledged(const std::string& prefix) {
    return partitions_[prefix].acknowledged;
  }

  // After all has come to rest.
  std::optional<std::string> CheckRest();
  // `records` against what was really published; `events`: each swap must have one.
  std::optional<std::string> CheckHistory(const std::vector<observe::AuditRecord>& records,
                                          bool events);

  uint64_t generations() const { return generations_; }
  uint64_t swaps() const { return swaps_; }
  uint64_t fences() const { return fences_; }

 private:
  struct Partition {
    std::string manifest_bytes;  // Empty: none yet.
    HiveManifest manifest;
    std::set<std::string> visible;
    std::set<std::string> acknowledged;
    std::map<uint64_t, std::string> swaps;  // Generation -> job.
    std::map<uint64_t, std::string> adoptions;
    std::map<std::string, Time> superseded;  // File -> when the swap was applied.
  };

  struct Parsed {
    bool marked = false;
    std::vector<std::string> rows;
  };
  const Parsed& FileOf(const std::string& key);
  // Rows of `files`, or what is wrong with them.
  std::optional<std::string> Collect(const std::string& prefix,
                                     const std::vector<std::string>& files,
                                     std::set<std::string>& rows);
  std::optional<std::string> CheckGeneration(const std::string& prefix, Partition& partition,
                                             const std::string& bytes);
  void Record(Partition& partition, const HiveManifest& next);
  // Each adoption was announced, and what is on record of it is true. Whose it was may stay
  // unknown, if that is what the record says.
  std::optional<std::string> CheckAdoptions(const std::vector<observe::AuditRecord>& records);
  // H3: a superseded file stays for the grace, counted from the swap.
  std::optional<std::string> CheckGrace(Partition& partition, const std::set<std::string>& names);

  storage::MemoryStore& store_;
  const Clock& clock_;
  const Duration gc_grace_;
  std::map<std::string, Partition> partitions_;
  std::map<std::string, Parsed> files_;  // By key: names are never used again.
  uint64_t generations_ = 0;
  uint64_t swaps_ = 0;
  uint64_t fences_ = 0;
};

// The row that stands for the event of one commit.
std::string EventRow(const std::string& tenant, const std::string& time_path, uint64_t generation);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_HIVE_ORACLE_H_
