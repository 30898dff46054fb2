// A GroupRunner that calls a hook before each run of another one.
#ifndef LITHIFY_TESTS_SIM_HOOKED_RUNNER_H_
#define LITHIFY_TESTS_SIM_HOOKED_RUNNER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "rewrite/group_runner.h"

namespace lithify::sim {

// As thread-safe as the other one and the hook, which may throw. `runner` outlives it.
class HookedRunner final : public rewrite::GroupRunner {
 public:
  using Hook = std::function<void(const rewrite::GroupRequest&)>;
  HookedRunner(rewrite::GroupRunner& runner, Hook before_run)
      : runner_(runner), before_run_(std::move(before_run)) {}

  Result<rewrite::FileFacts> Inspect(const storage::ObjectInfo& object,
                                     int64_t first_read) override {
    return runner_.Inspect(object, first_read);
  }
  Result<rewrite::TierPlan> Explain(const rewrite::GroupRequest& request,
                                    const CancelFlag& cancel) override {
    return runner_.Explain(request, cancel);
  }
  Result<rewrite::GroupReport> Run(const rewrite::GroupRequest& request,
                                   const CancelFlag& cancel) override {
    before_run_(request);
    return runner_.Run(request, cancel);
  }
  Result<rewrite::VerifyReport> VerifyFile(const std::string& key, const rewrite::RowRule& rows,
                                           const CancelFlag& cancel) override {
    return runner_.VerifyFile(key, rows, cancel);
  }

 private:
  rewrite::GroupRunner& runner_;
  const Hook before_run_;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_HOOKED_RUNNER_H_
