#include <algorithm>
#include <iterator>
#include <utility>

#include "job/hive_job.h"
#include "job/hive_load.h"
#include "table/hive_manifest.h"

namespace lithify::job {
namespace {

constexpr int kPassesMax = 3;  // Over one partition that is compacted meanwhile.

// The files of one generation. kConflict: a file vanished, and the manifest moved on.
Status VerifyGeneration(const HiveServices& services, const HiveSettings& settings,
                        const PartitionId& id, const CancelFlag& cancel, VerifyTreeReport& report) {
  LITHIFY_TRY_ASSIGN(const LoadedPartition loaded,
                     LoadPartition(services, settings.options, id, settings.threads));
  const rewrite::RowRule rule = MakeRowRule(LayoutOf(settings, id), id);
  if (loaded.trouble) report.errors.push_back(*loaded.trouble);
  for (const HiveFile& file : loaded.state.files) {
    if (file.state != FileState::kLive) continue;
    LITHIFY_TRY(cancel.Check());
    VerifyItem item;
    item.key = id.key_prefix + file.name;
    auto verified = services.runner.VerifyFile(item.key, rule, cancel);
    if (verified) {
      item.rows = verified->rows;
      item.digest_recorded = verified->recorded.has_value();
      report.rows += verified->rows;
      report.bytes += file.size;
      if (verified->recorded && *verified->recorded != verified->digest) {
        item.error = Error{Code::kCorrupt,
                           "the rows are not those that were written: " +
                               verified->recorded->Difference(verified->digest),
                           item.key, "restore this file from a backup"};
      }
    } else if (verified.error().code == Code::kCancelled) {
      return Fail(std::move(verified.error()));
    } else {
      if (verified.error().code == Code::kNotFound) {
        LITHIFY_TRY_ASSIGN(const auto now, table::ReadManifest(services.store, id.key_prefix));
        const std::string before = loaded.state.manifest ? loaded.state.manifest->version : "";
        if ((now ? now->version : "") != before) {
          return Fail(Code::kConflict, "it was compacted during every pass", id.key_prefix,
                      "verify this partition again");
        }
      }
      item.error = std::move(verified.error()).In(item.key);
    }
    report.files.push_back(std::move(item));
  }
  return {};
}

// Several passes, if need be; the report counts the last one only.
Status VerifyPartition(const HiveServices& services, const HiveSettings& settings,
                       const PartitionId& id, const CancelFlag& cancel, VerifyTreeReport& report) {
  for (int pass = 1;; ++pass) {
    VerifyTreeReport part;
    Status verified = VerifyGeneration(services, settings, id, cancel, part);
    if (!verified && verified.error().code == Code::kConflict && pass < kPassesMax) continue;
    std::ranges::move(part.files, std::back_inserter(report.files));
    std::ranges::move(part.errors, std::back_inserter(report.errors));
    report.rows += part.rows;
    report.bytes += part.bytes;
    return verified;
  }
}

}  // namespace

bool VerifyTreeReport::ok() const {
  if (!errors.empty()) return false;
  for (const VerifyItem& item : files) {
    if (item.error) return false;
  }
  return true;
}

Result<VerifyTreeReport> HiveJob::Verify(const table::PartitionFilter& filter,
                                         const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(auto found,
                     table::FindPartitions(services_.store, settings_.series, filter, cancel));
  VerifyTreeReport report;
  report.errors = std::move(found.errors);
  for (const PartitionId& id : found.partitions) {
    Status verified = VerifyPartition(services_, settings_, id, cancel, report);
    if (!verified && verified.error().code == Code::kCancelled) {
      return Fail(std::move(verified.error()));
    }
    if (!verified) report.errors.push_back(std::move(verified.error()));
    ++report.partitions;
    services_.progress.AddItem();
  }
  if (auto records = services_.audit.ReadAll(); !records) {
    report.errors.push_back(std::move(records.error()).In("audit log"));
  }
  return report;
}

}  // namespace lithify::job
