#include "observe/telemetry_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

namespace lithify::observe {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr ==
                            text.data() + i + 3;
    if (escape) i += 2;
    out += escape ? static_cast<char>(value) : text[i];
  }
  return out;
}

class Reader {
 public:
  Reader(const std::vector<std::pair<std::string, std::string>>& environment,
         std::vector<std::string>& warnings)
      : warnings_(warnings) {
    for (const auto& [name, value] : environment) {
      // Set to nothing is not set.
      if (name.starts_with("OTEL_") && !Trim(value).empty()) values_[name] = Trim(value);
    }
  }

  std::optional<std::string> Text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  // OTEL_EXPORTER_OTLP_TRACES_<name>, or OTEL_EXPORTER_OTLP_<name>.
  std::optional<std::string> Exporter(const std::string& signal, const std::string& name) const {
    if (auto own = Text("OTEL_EXPORTER_OTLP_" + signal + "_" + name)) return own;
    return Text("OTEL_EXPORTER_OTLP_" + name);
  }

  void Number(const std::string& name, int64_t low, auto set) {
    const auto text = Text(name);
    if (!text) return;
    int64_t value = 0;
    const char* const end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, value);
    constexpr int64_t kMost = 1'000'000'000;
    if (parsed.ec != std::errc() || parsed.ptr != end || value < low || value > kMost) {
      return Warn(name,
                  "is no number from " + std::to_string(low) + " to " + std::to_string(kMost));
    }
    set(value);
  }
  void Millis(const std::string& name, Duration& into) {
    Number(name, 1, [&](int64_t value) { into = std::chrono::milliseconds(value); });
  }

  // "a=1,b=2", percent-decoded.
  std::vector<std::pair<std::string, std::string>> Pairs(const std::string& name,
                                                         const std::string& text) {
    std::vector<std::pair<std::string, std::string>> out;
    for (size_t at = 0; at < text.size();) {
      const size_t comma = std::min(text.find(',', at), text.size());
      const std::string_view item = Trim(std::string_view(text).substr(at, comma - at));
      at = comma + 1;
      if (item.empty()) continue;
      const size_t equals = item.find('=');
      const std::string key(Trim(item.substr(0, equals)));
      if (equals == std::string_view::npos || key.empty()) {
        // Not with what is there: it may be a credential.
        Warn(name, "has an item that is not KEY=VALUE");
        continue;
      }
      out.emplace_back(key, PercentDecode(Trim(item.substr(equals + 1))));
    }
    return out;
  }

  void Warn(const std::string& name, const std::string& what) {
    warnings_.push_back(name + " " + what + ", and is ignored");
  }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string>& warnings_;
};

std::string UrlOf(Reader& reader, const std::string& signal) {
  const std::string chosen = "OTEL_" + signal + "_EXPORTER";
  const std::string exporter = Lower(reader.Text(chosen).value_or("otlp"));
  if (exporter == "none") return {};
  if (exporter != "otlp") {
    reader.Warn(chosen, "is neither otlp nor none");
    return {};
  }
  const std::string protocol = Lower(reader.Exporter(signal, "PROTOCOL").value_or("http/protobuf"));
  std::string url;
  if (const auto own = reader.Text("OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT")) {
    url = *own;
  } else if (auto all = reader.Text("OTEL_EXPORTER_OTLP_ENDPOINT")) {
    while (all->ends_with('/')) all->pop_back();
    url = *all + "/v1/" + Lower(signal);
  }
  if (!url.empty() && protocol != "http/protobuf") {
    reader.Warn("OTEL_EXPORTER_OTLP_PROTOCOL",
                "is not http/protobuf: " + Lower(signal) + " are not sent; it");
    return {};
  }
  if (!url.empty() && !url.starts_with("http://") && !url.starts_with("https://")) {
    reader.Warn("the endpoint of " + Lower(signal), "is no http or https URL");
    return {};
  }
  return url;
}

void ReadSignal(Reader& reader, Signal which, SignalOptions& options) {
  std::string signal(SignalName(which));
  for (char& c : signal) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  options.url = UrlOf(reader, signal);
  if (options.url.empty()) return;
  if (const auto headers = reader.Exporter(signal, "HEADERS")) {
    for (auto& [name, value] : reader.Pairs("OTEL_EXPORTER_OTLP_HEADERS", *headers)) {
      if (Lower(name) == "authorization") {
        options.authorization = Secret(value);
      } else {
        options.headers.emplace_back(name, value);
      }
    }
  }
  if (const auto compression = reader.Exporter(signal, "COMPRESSION")) {
    options.gzip = Lower(*compression) == "gzip";
    if (!options.gzip && Lower(*compression) != "none") {
      reader.Warn("OTEL_EXPORTER_OTLP_COMPRESSION", "is neither gzip nor none");
    }
  }
  options.ca_file = reader.Exporter(signal, "CERTIFICATE").value_or("");
  reader.Millis("OTEL_EXPORTER_OTLP_TIMEOUT", options.timeout);
  reader.Millis("OTEL_EXPORTER_OTLP_" + signal + "_TIMEOUT", options.timeout);
  if (which == Signal::kMetrics) {
    options.delay = std::chrono::seconds(60);
    reader.Millis("OTEL_METRIC_EXPORT_INTERVAL", options.delay);
    reader.Millis("OTEL_METRIC_EXPORT_TIMEOUT", options.export_timeout);
    return;
  }
  const std::string batch = which == Signal::kTraces ? "OTEL_BSP_" : "OTEL_BLRP_";
  if (which == Signal::kLogs) options.delay = std::chrono::seconds(1);
  reader.Millis(batch + "SCHEDULE_DELAY", options.delay);
  reader.Millis(batch + "EXPORT_TIMEOUT", options.export_timeout);
  const auto size = [](size_t& into) {
    return [&into](int64_t value) { into = std::min<size_t>(static_cast<size_t>(value), 1 << 16); };
  };
  reader.Number(batch + "MAX_QUEUE_SIZE", 1, size(options.queue_max));
  reader.Number(batch + "MAX_EXPORT_BATCH_SIZE", 1, size(options.batch_max));
  options.batch_max = std::min(options.batch_max, options.queue_max);
}

void ReadSampler(Reader& reader, TelemetryOptions& options) {
  std::string sampler = Lower(reader.Text("OTEL_TRACES_SAMPLER").value_or("parentbased_always_on"));
  options.parent_based = sampler.starts_with("parentbased_");
  if (options.parent_based) sampler = sampler.substr(sampler.find('_') + 1);
  if (sampler == "always_off") {
    options.sampled_share = 0;
  } else if (sampler == "traceidratio") {
    const std::string text = reader.Text("OTEL_TRACES_SAMPLER_ARG").value_or("1");
    double share = 1;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), share);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && share >= 0 &&
        share <= 1) {
      options.sampled_share = share;
    } else {
      reader.Warn("OTEL_TRACES_SAMPLER_ARG", "is no number from 0 to 1");
    }
  } else if (sampler != "always_on") {
    reader.Warn("OTEL_TRACES_SAMPLER", "names no sampler that is known here");
    options.parent_based = true;
  }
}

}  // namespace

std::string_view SignalName(Signal signal) {
  switch (signal) {
    case Signal::kMetrics: return "metrics";
    case Signal::kTraces: return "traces";
    case Signal::kLogs: return "logs";
  }
  return "metrics";
}

bool TelemetryOptions::on() const {
  return std::ranges::any_of(signals, [](const SignalOptions& one) { return !one.url.empty(); });
}

TelemetryOptions ReadTelemetryOptions(
    const std::vector<std::pair<std::string, std::string>>& environment, std::string_view program,
    std::vector<std::string>& warnings) {
  Reader reader(environment, warnings);
  TelemetryOptions options;
  if (Lower(reader.Text("OTEL_SDK_DISABLED").value_or("")) == "true") return options;
  for (const Signal signal : kSignals) ReadSignal(reader, signal, options.Of(signal));
  if (!options.on()) return options;
  std::map<std::string, std::string> resource{{"service.name", std::string(program)}};
  if (const auto text = reader.Text("OTEL_RESOURCE_ATTRIBUTES")) {
    for (auto& [key, value] : reader.Pairs("OTEL_RESOURCE_ATTRIBUTES", *text)) {
      resource[key] = value;
    }
  }
  if (const auto name = reader.Text("OTEL_SERVICE_NAME")) resource["service.name"] = *name;
  for (auto& [key, value] : resource) options.resource.emplace_back(key, std::move(value));
  if (const auto text = reader.Text("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")) {
    const std::string preference = Lower(*text);
    if (preference == "delta" || preference == "lowmemory") {
      options.temporality = Temporality::kDelta;
    } else if (preference != "cumulative") {
      reader.Warn("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
                  "is none of cumulative, delta, lowmemory");
    }
  }
  ReadSampler(reader, options);
  return options;
}

}  // namespace lithify::observe
