// How often tables are read, from the audit log of the Flight SQL server: its successful SELECTs of
// the last days. The log's lines are taken once, as they are appended.
#ifndef LITHIFY_MAINTAIN_QUERY_LOG_H_
#define LITHIFY_MAINTAIN_QUERY_LOG_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "maintain/scheduler.h"

namespace lithify::maintain {

// Thread-safe.
class QueryLog final : public ReadCounts {
 public:
  explicit QueryLog(std::string path) : path_(std::move(path)) {}
  // Of the log's newest part; what was in older ones before the first call is not counted. A file
  // that is not there is no log. At most kBytesMax are read at once: the rest comes next time.
  Status Refresh(Time now) override;
  job::TableReads Of(const std::string& table) const override;

  static constexpr int kDays = 14;
  static constexpr int64_t kBytesMax = int64_t{64} << 20;

 private:
  void Take(std::string_view line);

  const std::string path_;
  mutable std::mutex mutex_;
  int64_t file_ = 0;  // Its inode: a log that became too large goes on in another file.
  int64_t offset_ = 0;
  std::optional<Time> first_;
  std::optional<Time> now_;
  std::map<std::string, std::map<int64_t, int64_t>> reads_;  // By table and day.
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_QUERY_LOG_H_
