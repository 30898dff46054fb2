// Counters and gauges of this process, by name and attributes (R176, R177, R250-R264). What is
// counted here is what status pages show and exporters send: there is no other place.
//
// Names follow OpenTelemetry: "lithify.maintenance.jobs", attribute {"lithify.outcome", "success"}.
#ifndef LITHIFY_OBSERVE_METRICS_H_
#define LITHIFY_OBSERVE_METRICS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lithify::observe {

using Attributes = std::map<std::string, std::string>;

struct MetricPoint {
  std::string name;
  Attributes attributes;
  bool gauge = false;  // Else a sum that only grows.
  double value = 0;
};

// Thread-safe.
class Metrics {
 public:
  void Add(std::string_view name, double value, const Attributes& attributes = {});
  void Set(std::string_view name, double value, const Attributes& attributes = {});
  // Gauges of this name are forgotten: of what is not there any more nothing is told.
  void Forget(std::string_view name);
  // By name and attributes, in order.
  std::vector<MetricPoint> Points() const;

 private:
  struct Value {
    bool gauge = false;
    double value = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, Attributes>, Value> values_;
};

// [{"name":…,"attributes":{…},"kind":"sum"|"gauge","value":…}, …].
std::string MetricsJson(const Metrics& metrics);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_METRICS_H_
