// A GroupRunner over files of a toy format, to run the loop without Parquet: one line of header,
// then one row per line.
#ifndef LITHIFY_TESTS_SIM_SIM_RUNNER_H_
#define LITHIFY_TESTS_SIM_SIM_RUNNER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::sim {

struct SimFile {
  std::optional<rewrite::OutputMark> mark;
  std::vector<std::string> rows;
};

std::string EncodeSimFile(const SimFile& file);
// kCorrupt if it is none.
Result<SimFile> DecodeSimFile(std::string_view bytes);
ContentDigest DigestRows(const std::vector<std::string>& rows);

// The contract of GroupRunner, over `store`.
class SimRunner final : public rewrite::GroupRunner {
 public:
  explicit SimRunner(storage::Store& store) : store_(store) {}

  Result<rewrite::FileFacts> Inspect(const storage::ObjectInfo& object,
                                     int64_t first_read) override;
  Result<rewrite::TierPlan> Explain(const rewrite::GroupRequest& request,
                                    const CancelFlag& cancel) override;
  Result<rewrite::GroupReport> Run(const rewrite::GroupRequest& request,
                                   const CancelFlag& cancel) override;
  Result<rewrite::VerifyReport> VerifyFile(const std::string& key, const rewrite::RowRule& rows,
                                           const CancelFlag& cancel) override;

 private:
  Result<SimFile> Read(const std::string& key);

  storage::Store& store_;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_SIM_RUNNER_H_
