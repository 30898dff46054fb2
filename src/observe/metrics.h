// What this process counts and measures, by the instruments of the registry and by attributes
// (R176, R177, R250-R264). What is counted here is what status pages show and exporters send: there
// is no other place.
#ifndef LITHIFY_OBSERVE_METRICS_H_
#define LITHIFY_OBSERVE_METRICS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/metric_names.h"

namespace lithify::observe {

using Attributes = std::map<std::string, std::string>;

struct MetricPoint {
  const metric::Instrument* instrument = nullptr;
  std::string name;
  Attributes attributes;
  double value = 0;  // Of a histogram: the sum of what was recorded.
  // Of a histogram alone: how many were recorded, and how many in each bucket; one bucket more than
  // the instrument has bounds.
  uint64_t count = 0;
  std::vector<uint64_t> bucket_counts;
  double min = 0;
  double max = 0;
};

// Thread-safe. Instruments must live as long, as those of base/metric_names.h do. An instrument has
// at most kSeriesMax sets of attributes: what comes in addition is counted under
// {otel.metric.overflow: true}, or not set.
class Metrics {
 public:
  static constexpr size_t kSeriesMax = 10'000;

  // Counters.
  void Add(const metric::Instrument& instrument, double value, const Attributes& attributes = {});
  // Gauges, and what is observable: the value replaces the one before.
  void Set(const metric::Instrument& instrument, double value, const Attributes& attributes = {});
  // Histograms.
  void Record(const metric::Instrument& instrument, double value,
              const Attributes& attributes = {});
  // Values that were set are forgotten: of what is not there any more nothing is told.
  void Forget(const metric::Instrument& instrument);
  // By name and attributes, in order.
  std::vector<MetricPoint> Points() const;

 private:
  struct Series {
    const metric::Instrument* instrument = nullptr;
    std::map<Attributes, MetricPoint> points;
  };

  // Null where there is no room.
  MetricPoint* At(const metric::Instrument& instrument, const Attributes& attributes,
                  bool overflow);

  mutable std::mutex mutex_;
  std::map<std::string_view, Series> series_;
};

// [{"name":…,"attributes":{…},"kind":"sum"|"gauge"|"histogram","value":…}, …]; a histogram has its
// "count", too.
std::string MetricsJson(const Metrics& metrics);

}  // namespace lithify::observe

#endif  // LITHIFY_OBSERVE_METRICS_H_
