#include "observe/metrics.h"

#include <nlohmann/json.hpp>

namespace lithify::observe {

void Metrics::Add(std::string_view name, double value, const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  values_[{std::string(name), attributes}].value += value;
}

void Metrics::Set(std::string_view name, double value, const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  values_[{std::string(name), attributes}] = {.gauge = true, .value = value};
}

void Metrics::Forget(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::erase_if(values_,
                [&](const auto& entry) { return entry.second.gauge && entry.first.first == name; });
}

std::vector<MetricPoint> Metrics::Points() const {
  const std::lock_guard lock(mutex_);
  std::vector<MetricPoint> points;
  points.reserve(values_.size());
  for (const auto& [key, value] : values_) {
    points.push_back({key.first, key.second, value.gauge, value.value});
  }
  return points;
}

std::string MetricsJson(const Metrics& metrics) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MetricPoint& point : metrics.Points()) {
    nlohmann::ordered_json one;
    one["name"] = point.name;
    one["attributes"] = point.attributes;
    one["kind"] = point.gauge ? "gauge" : "sum";
    one["value"] = point.value;
    list.push_back(std::move(one));
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lithify::observe
