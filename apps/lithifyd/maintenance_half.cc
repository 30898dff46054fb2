#include "maintenance_half.h"

#include <exception>
#include <utility>

#include "embed/environment.h"
#include "report_text.h"

namespace lithify {

Result<std::unique_ptr<MaintenanceHalf>> MaintenanceHalf::Make(
    const maintain::Configuration& config, std::function<void(const std::string&)> tell,
    const job::TableSightings* sightings) {
  std::unique_ptr<MaintenanceHalf> half(new MaintenanceHalf(std::move(tell)));
  half->observed_ = std::make_unique<apps::OpenedTelemetry>("lithifyd", half->tell_);
  LITHIFY_TRY_ASSIGN(
      half->workers_,
      apps::OpenFleet(config.shared.fleet, [&told = half->tell_](const std::string& line) {
        told("workers: " + line);
      }));
  LITHIFY_TRY_ASSIGN(
      half->service_,
      maintain::Service::Make(
          config, embed::ProcessEnvironment(), *half->progress_,
          [&told = half->tell_](const Error& error) { told("audit: " + error.ToString()); },
          sightings, half->workers_ ? &half->workers_->fleet() : nullptr,
          &half->observed_->metrics(), half->observed_->telemetry()));
  return half;
}

MaintenanceHalf::~MaintenanceHalf() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void MaintenanceHalf::Start(std::function<void()> died) {
  thread_ = std::thread([this, died = std::move(died)] {
    try {
      service_->Run([this](const maintain::TickReport& report) {
        if (const std::string line = TickLine(report); !line.empty()) tell_(line);
      });
    } catch (const std::exception& error) {
      tell_(std::string("maintenance ends, internal: ") + error.what());
      died_ = true;
      died();
    }
  });
}

void MaintenanceHalf::Stop() { service_->Stop(); }

}  // namespace lithify
