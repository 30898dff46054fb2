#include "observe/metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lithify::observe {
namespace {

const Attributes& Overflow() {
  static const Attributes overflow{{"otel.metric.overflow", "true"}};
  return overflow;
}

bool IsSet(const metric::Instrument& instrument) {
  return instrument.observable || instrument.kind == metric::Kind::kGauge;
}

const char* KindName(metric::Kind kind) {
  switch (kind) {
    case metric::Kind::kCounter:
    case metric::Kind::kUpDownCounter: return "sum";
    case metric::Kind::kGauge: return "gauge";
    case metric::Kind::kHistogram: return "histogram";
  }
  return "sum";
}

}  // namespace

MetricPoint* Metrics::At(const metric::Instrument& instrument, const Attributes& attributes,
                         bool overflow) {
  Series& series = series_[instrument.name];
  series.instrument = &instrument;
  const auto found = series.points.find(attributes);
  if (found != series.points.end()) return &found->second;
  const bool full = series.points.size() >= kSeriesMax;
  if (full && !overflow) return nullptr;
  const Attributes& kept = full ? Overflow() : attributes;
  const auto [at, added] = series.points.try_emplace(kept);
  if (added) {
    at->second.instrument = &instrument;
    at->second.name = std::string(instrument.name);
    at->second.attributes = kept;
    if (instrument.kind == metric::Kind::kHistogram) {
      at->second.bucket_counts.resize(instrument.buckets.size() + 1);
    }
  }
  return &at->second;
}

void Metrics::Add(const metric::Instrument& instrument, double value,
                  const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  At(instrument, attributes, true)->value += value;
}

void Metrics::Set(const metric::Instrument& instrument, double value,
                  const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  if (MetricPoint* point = At(instrument, attributes, false)) point->value = value;
}

void Metrics::Record(const metric::Instrument& instrument, double value,
                     const Attributes& attributes) {
  const std::lock_guard lock(mutex_);
  MetricPoint& point = *At(instrument, attributes, true);
  const auto bucket = std::ranges::lower_bound(instrument.buckets, value);
  ++point.bucket_counts[static_cast<size_t>(bucket - instrument.buckets.begin())];
  point.min = point.count == 0 ? value : std::min(point.min, value);
  point.max = point.count == 0 ? value : std::max(point.max, value);
  ++point.count;
  point.value += value;
}

void Metrics::Forget(const metric::Instrument& instrument) {
  if (!IsSet(instrument)) return;
  const std::lock_guard lock(mutex_);
  series_.erase(instrument.name);
}

std::vector<MetricPoint> Metrics::Points() const {
  const std::lock_guard lock(mutex_);
  std::vector<MetricPoint> points;
  for (const auto& [name, series] : series_) {
    for (const auto& [attributes, point] : series.points) points.push_back(point);
  }
  return points;
}

std::string MetricsJson(const Metrics& metrics) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const MetricPoint& point : metrics.Points()) {
    nlohmann::ordered_json one;
    one["name"] = point.name;
    one["attributes"] = point.attributes;
    one["kind"] = KindName(point.instrument->kind);
    one["value"] = point.value;
    if (point.instrument->kind == metric::Kind::kHistogram) one["count"] = point.count;
    list.push_back(std::move(one));
  }
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lithify::observe
