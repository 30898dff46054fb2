#include "maintain/hive_tree.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "embed/hive_session.h"

namespace lithify::maintain {
namespace {

class HiveTree final : public Tree {
 public:
  HiveTree(std::unique_ptr<embed::HiveSession> session, observe::Progress& progress)
      : session_(std::move(session)), progress_(progress) {}

  Result<job::StatusReport> Look(const CancelFlag& cancel) override {
    return session_->Begin(progress_, cancel)->job().GetStatus({}, cancel);
  }

  Result<job::SweepReport> Sweep(std::vector<job::ChosenPartition> chosen,
                                 const CancelFlag& cancel) override {
    LITHIFY_TRY(session_->CheckWrites());
    return session_->Begin(progress_, cancel, std::move(chosen))->job().Sweep({}, false, cancel);
  }

  int threads() const override { return session_->threads(); }
  int threads_per_partition() const override {
    return std::max(1, session_->threads() / session_->partitions_at_once());
  }
  const plan::HiveOptions& options() const override { return session_->config().options; }

 private:
  const std::unique_ptr<embed::HiveSession> session_;
  observe::Progress& progress_;
};

}  // namespace

OpenTree OpenHiveTrees(config::HiveConfig config, embed::Environment environment,
                       observe::Progress& progress, const CancelFlag& cancel,
                       std::function<void(const Error&)> told, observe::Metrics& metrics,
                       observe::Telemetry* telemetry) {
  return [config = std::move(config), environment = std::move(environment), &progress, &cancel,
          told = std::move(told), &metrics,
          telemetry](const std::string& root) -> Result<std::unique_ptr<Tree>> {
    LITHIFY_TRY_ASSIGN(auto session, embed::HiveSession::Open(root, config, environment));
    session->StopWhen([&cancel] { return cancel.requested(); });
    session->OnAuditError(told);
    session->Observe(&metrics, telemetry);
    return std::make_unique<HiveTree>(std::move(session), progress);
  };
}

}  // namespace lithify::maintain
