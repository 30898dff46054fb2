// For tests: a catalog and a store in memory, with a maintenance log that reads are counted of.
#ifndef LITHIFY_JOB_MAINTENANCE_LOG_FIXTURE_H_
#define LITHIFY_JOB_MAINTENANCE_LOG_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/manual_clock.h"
#include "base/random.h"
#include "catalog/memory_catalog.h"
#include "job/maintenance_log.h"
#include "observe/audit_log.h"
#include "observe/progress.h"
#include "rewrite/parquet_runner.h"
#include "storage/counting_store.h"
#include "storage/locations.h"
#include "storage/memory_store.h"

namespace lithify::job {

class MaintenanceLogWorld : public testing::Test {
 protected:
  MaintenanceLogServices Services() {
    return {.catalog = catalog_,
            .locations = *locations_,
            .clock = clock_,
            .random = random_,
            .sleep = [](Duration) {}};
  }
  void Init() {
    const auto made = InitMaintenanceLog(catalog_, DefaultLogIdent(), "");
    ASSERT_TRUE(made) << made.error().ToString();
  }
  IcebergServices JobServices() {
    return {.catalog = catalog_,
            .locations = *locations_,
            .make_runner =
                [](storage::Store& store) {
                  return rewrite::MakeParquetRunner(store, int64_t{256} << 20);
                },
            .clock = clock_,
            .random = random_,
            .audit = *audit_,
            .progress = *progress_};
  }
  LogCompaction Compact(const LogCompactionOptions& options = {}) {
    const auto done = CompactMaintenanceLog(JobServices(), {}, DefaultLogIdent(), options, cancel_);
    EXPECT_TRUE(done) << done.error().ToString();
    return done ? *done : LogCompaction{};
  }
  int64_t NowMs() const {
    return std::chrono::floor<std::chrono::milliseconds>(clock_.Now().time_since_epoch()).count();
  }
  std::vector<std::string> DataFiles() const {
    std::vector<std::string> keys;
    for (const std::string& key : store_->Keys()) {
      if (key.ends_with(".parquet")) keys.push_back(key);
    }
    return keys;
  }

  // What was read since the last Forget().
  struct Cost {
    int64_t requests = 0;
    int64_t bytes = 0;
  };
  Cost Reads() const {
    Cost cost;
    for (const auto& request : counting_->requests()) {
      if (request.verb != "Get" && request.verb != "ReadAt") continue;
      ++cost.requests;
      const auto info = store_->Stat(request.key);
      cost.bytes += request.verb == "Get" && info ? info->size : request.bytes;
    }
    return cost;
  }

  ManualClock clock_;
  SeededRandom random_{7};
  CancelFlag cancel_;
  std::shared_ptr<storage::MemoryStore> store_ = std::make_shared<storage::MemoryStore>(clock_);
  std::shared_ptr<storage::CountingStore> counting_ =
      std::make_shared<storage::CountingStore>(*store_, std::chrono::microseconds(0));
  std::unique_ptr<storage::Locations> locations_ =
      storage::MakeStoreLocations(counting_, "s3", "b");
  catalog::MemoryCatalog catalog_{*locations_, clock_, random_, "s3://b/lake"};
  std::unique_ptr<observe::AuditLog> audit_ = observe::OpenMemoryAuditLog();
  std::unique_ptr<observe::Progress> progress_ =
      observe::MakeProgress(2, observe::ProgressMode::kNone, clock_, "test");
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_MAINTENANCE_LOG_FIXTURE_H_
