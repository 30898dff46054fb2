#include "plan/maintenance_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/order_text.h"
#include "base/result.h"
#include "plan/shortened.h"

namespace lithify::plan {
namespace {

using Properties = std::map<std::string, std::string>;

constexpr std::string_view kEnabled = "enabled";
constexpr std::string_view kSchedule = "compaction.schedule";
constexpr std::string_view kTarget = "compaction.target-file-size-bytes";
constexpr std::string_view kMinInputFiles = "compaction.min-input-files";
constexpr std::string_view kDeleteFileThreshold = "compaction.delete-file-threshold";
constexpr std::string_view kStrategy = "compaction.strategy";
constexpr std::string_view kSortOrder = "compaction.sort-order";
constexpr std::string_view kReadLife = "compaction.read-life";
constexpr std::string_view kManifests = "rewrite-manifests.enabled";
constexpr std::string_view kExpire = "expire-snapshots.enabled";
constexpr std::string_view kExpireOlderThan = "expire-snapshots.older-than";
constexpr std::string_view kRetainLast = "expire-snapshots.retain-last";
constexpr std::string_view kOrphans = "remove-orphan-files.enabled";
constexpr std::string_view kOrphansOlderThan = "remove-orphan-files.older-than";
constexpr std::array<std::string_view, 14> kNames = {
    kReadLife, kEnabled,         kSchedule,  kTarget, kMinInputFiles,   kDeleteFileThreshold,
    kStrategy, kSortOrder,       kManifests, kExpire, kExpireOlderThan, kRetainLast,
    kOrphans,  kOrphansOlderThan};

constexpr std::string_view kConfiguration = "configuration";
constexpr const char* kWriteTarget = "write.target-file-size-bytes";
constexpr int64_t kTargetMax = int64_t{1} << 40;
constexpr int kCountMax = 1'000'000;
constexpr int kConcurrentMax = 1000;
constexpr Duration kAgeMax = std::chrono::days(36'525);
constexpr Duration kOrphanAgeMin = std::chrono::hours(24);  // OrphanOptions::age_min.
constexpr size_t kSortOrderBytesMax = 1000;
constexpr size_t kShownBytesMax = 200;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// How the values of one setting are read, written and compared.
template <typename T>
struct Kind {
  std::string_view name;
  std::function<Result<T>(std::string_view)> parse;
  std::function<std::string(const T&)> text;
  // Whether the first is the more restrictive one. Not set: neither is.
  std::function<bool(const T&, const T&)> stricter;
};

// What holds so far. No value: see `source`.
template <typename T>
struct Held {
  std::optional<T> value;
  std::string source;
};

bool IsSame(const Cron& a, const Cron& b) {
  Cron copy = a;
  copy.text = b.text;
  return copy == b;
}
template <typename T>
bool IsSame(const T& a, const T& b) {
  return a == b;
}

std::unexpected<Error> Unread(std::string why) { return Fail(Code::kInvalid, std::move(why)); }

Result<int> ParseCount(std::string_view text, int min, int max) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= min && value <= max) {
    return value;
  }
  return Unread("must be a whole number from " + FormatCount(min) + " to " + FormatCount(max));
}

Kind<int> CountKind(std::string_view name, int min, int max) {
  return {.name = name,
          .parse = [min, max](std::string_view text) { return ParseCount(text, min, max); },
          .text = [](int value) { return FormatCount(value); },
          .stricter = [](int a, int b) { return a > b; }};
}

Result<int64_t> CheckTarget(int64_t bytes) {
  if (bytes >= 1 && bytes <= kTargetMax) return bytes;
  return Unread("must be between 1 B and " + FormatBytes(kTargetMax));
}

Kind<int64_t> TargetKind() {
  return {.name = kTarget,
          .parse = [](std::string_view text) -> Result<int64_t> {
            const auto bytes = ParseBytes(text);
            if (!bytes) return Unread("must be a size, like 268435456 or 256MiB");
            return CheckTarget(*bytes);
          },
          .text = [](int64_t bytes) { return FormatBytes(bytes); },
          .stricter = [](int64_t a, int64_t b) { return a < b; }};
}

Kind<Cron> ScheduleKind() {
  return {.name = kSchedule,
          .parse = [](std::string_view text) -> Result<Cron> {
            auto cron = ParseCron(text);
            if (!cron) {
              const Error& error = cron.error();
              return Unread((error.context.empty() ? "" : error.context + ": ") + error.message);
            }
            return cron;
          },
          .text = [](const Cron& cron) { return JsonQuote(cron.text); },
          .stricter = [](const Cron& a,
                         const Cron& b) { return FiresPer400Years(a) < FiresPer400Years(b); }};
}

Kind<Strategy> StrategyKind() {
  return {.name = kStrategy,
          .parse = [](std::string_view text) -> Result<Strategy> {
            if (const auto strategy = ParseStrategy(text)) return *strategy;
            return Unread("must be binpack, sort or zorder");
          },
          .text = [](Strategy strategy) { return std::string(StrategyName(strategy)); },
          .stricter = [](Strategy a, Strategy b) { return a < b; }};
}

Kind<std::string> SortOrderKind() {
  return {.name = kSortOrder,
          .parse = [](std::string_view text) -> Result<std::string> {
            if (text.size() > kSortOrderBytesMax) {
              return Unread("must have at most " + FormatCount(kSortOrderBytesMax) + " bytes");
            }
            const auto order = ParseRowOrder(text);
            if (!order) return Unread(order.error().message);
            return std::string(text);
          },
          .text = [](const std::string& order) { return JsonQuote(order); },
          .stricter = nullptr};
}

Kind<int> ThresholdKind() {
  Kind<int> kind = CountKind(kDeleteFileThreshold, 0, kCountMax);
  kind.stricter = [](int a, int b) { return b != 0 && (a == 0 || a > b); };
  return kind;
}

// An age has a unit: a bare number could as well be meant in milliseconds, as Iceberg's are.
Kind<Duration> AgeKind(std::string_view name, Duration min) {
  return {
      .name = name,
      .parse = [min](std::string_view text) -> Result<Duration> {
        const auto age = ParseDuration(text);
        const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9');
        if (!age || !has_unit) return Unread("must be an age with its unit, like 5d or 36h");
        if (*age >= min && *age <= kAgeMax) return *age;
        return Unread("must be between " + FormatDuration(min) + " and " + FormatDuration(kAgeMax));
      },
      .text = [](Duration age) { return FormatDuration(age); },
      .stricter = [](Duration a, Duration b) { return a > b; }};
}

class Resolver {
 public:
  Resolver(const Properties& properties, const MaintenanceDefaults& defaults,
           const std::optional<CatalogPolicy>& catalog)
      : properties_(properties),
        defaults_(defaults),
        catalog_(catalog),
        prefixes_(defaults.prefixes.begin(), defaults.prefixes.end()) {}

  TablePolicy Resolve() {
    ResolveEnabled();
    ResolveCompaction();
    ResolveAfterwards();
    WarnOfUnknown();
    std::ranges::stable_sort(policy_.warnings, {}, &PolicyWarning::property);
    return std::move(policy_);
  }

 private:
  // Names and values are their owners' and may be anything.
  void Warn(std::string_view property, std::string_view value, const std::string& what) {
    PolicyWarning warning{.property = Shortened(property, kShownBytesMax),
                          .value = Shortened(value, kShownBytesMax),
                          .message = ""};
    warning.message = warning.property + " is " + JsonQuote(warning.value) + ": " + what;
    policy_.warnings.push_back(std::move(warning));
  }

  const std::string* Find(const std::string& property) const {
    const auto found = properties_.find(property);
    return found == properties_.end() ? nullptr : &found->second;
  }

  static std::string Property(std::string_view prefix, std::string_view name) {
    return std::string(prefix) + "." + std::string(name);
  }

  std::string PolicyName() const { return "policy " + catalog_->name; }

  // ----- opt-ins

  bool ResolveOptIn(std::string_view name) {
    const bool opted_in = OptedInTo(properties_, name, prefixes_);
    bool any_true = false;
    for (const std::string_view prefix : prefixes_) {
      const std::string property = Property(prefix, name);
      const std::string* value = Find(property);
      if (value == nullptr) continue;
      any_true = any_true || *value == "true";
      if (*value != "true" && *value != "false") {
        Warn(property, *value, "only \"true\", in these letters, is a yes; taken as false");
      }
      if (!policy_.sources.contains(std::string(name)) || (!opted_in && *value != "true")) {
        policy_.sources[std::string(name)] = property;
      }
    }
    if (any_true && !opted_in) {
      const std::string& property = policy_.sources[std::string(name)];
      Warn(property, properties_.at(property),
           "the same property under the other prefix is \"true\"; false holds");
    }
    return opted_in;
  }

  void ResolveEnabled() {
    policy_.enabled = ResolveOptIn(kEnabled);
    const auto source = policy_.sources.find(std::string(kEnabled));
    if (source == policy_.sources.end()) {
      policy_.enabled_reason = "not set: ";
      for (const std::string_view prefix : prefixes_) {
        if (prefix != prefixes_.front()) policy_.enabled_reason += ", ";
        policy_.enabled_reason += Property(prefix, kEnabled);
      }
      return;
    }
    policy_.enabled_reason = source->second + " is " +
                             JsonQuote(Shortened(properties_.at(source->second), kShownBytesMax));
    if (!policy_.enabled) {
      policy_.enabled_reason += ", not \"true\"";
    } else if (catalog_ && !catalog_->enable) {
      policy_.enabled = false;
      policy_.enabled_reason += ", but the catalog's " + PolicyName() + " says \"enable\": false";
    }
  }

  // ----- values

  template <typename T>
  std::string HeldText(const Kind<T>& kind, const Held<T>& held) const {
    if (!held.value) return held.source + " holds";
    return "the value of " + held.source + " holds: " + kind.text(*held.value);
  }

  // The value of one property; nullopt, with a warning, if it cannot be taken.
  template <typename T>
  std::optional<T> Read(const Kind<T>& kind, const std::string& property, std::string_view raw,
                        const Held<T>& held) {
    const std::string_view text = Trimmed(raw);
    if (text.empty()) {
      Warn(property, raw, "it is blank; " + HeldText(kind, held));
      return std::nullopt;
    }
    auto value = kind.parse(text);
    if (!value) {
      Warn(property, raw, value.error().message + "; " + HeldText(kind, held));
      return std::nullopt;
    }
    return std::move(*value);
  }

  template <typename T>
  void TakeProperty(const Kind<T>& kind, const std::string& property, Held<T>& held) {
    const std::string* raw = Find(property);
    if (raw == nullptr) return;
    if (auto value = Read(kind, property, *raw, held)) held = {std::move(value), property};
  }

  template <typename T>
  void TakePolicy(const Kind<T>& kind, std::string_view key, Held<T>& held) {
    if (!catalog_) return;
    for (const auto& [written, raw] : catalog_->config) {
      std::string name = written;
      std::ranges::replace(name, '-', '_');
      if (name != key) continue;
      if (auto value = Read(kind, PolicyName() + ": " + written, raw, held)) {
        held = {std::move(value), PolicyName()};
        return;
      }
    }
  }

  // All prefixes above what holds; then the setting is done.
  template <typename T>
  std::optional<T> TakeTable(const Kind<T>& kind, const Held<T>& next) {
    std::vector<Held<T>> set;
    for (const std::string_view prefix : prefixes_) {
      Held<T> one = next;
      TakeProperty(kind, Property(prefix, kind.name), one);
      if (one.source != next.source) set.push_back(std::move(one));
    }
    const Held<T>& held = set.empty() ? next : Strictest(kind, set, next);
    policy_.sources[std::string(kind.name)] = held.source;
    return held.value;
  }

  template <typename T>
  const Held<T>& Strictest(const Kind<T>& kind, const std::vector<Held<T>>& set,
                           const Held<T>& next) {
    const Held<T>* held = &set.front();
    const Held<T>* other = nullptr;  // Says something else than the first.
    for (const Held<T>& one : set) {
      if (IsSame(*one.value, *set.front().value)) continue;
      if (other == nullptr) other = &one;
      if (kind.stricter && kind.stricter(*one.value, *held->value)) held = &one;
    }
    if (other == nullptr) return *held;
    if (!kind.stricter) held = &next;
    Warn(other->source, *Find(other->source),
         set.front().source + " is " + kind.text(*set.front().value) + ", and the two disagree; " +
             HeldText(kind, *held));
    return *held;
  }

  template <typename T>
  Held<T> FromConfiguration(T value) const {
    return {std::move(value), std::string(kConfiguration)};
  }

  // ----- settings

  int64_t ResolveTarget() {
    const Kind<int64_t> kind = TargetKind();
    Held<int64_t> held = FromConfiguration(defaults_.target_file_size_bytes);
    TakePolicy(kind, "target_file_size_bytes", held);
    if (catalog_ && catalog_->target_file_size_bytes) {
      const double bytes = *catalog_->target_file_size_bytes;
      // Also false for what is no number.
      if (bytes >= 1 && bytes <= static_cast<double>(kTargetMax)) {
        held = {static_cast<int64_t>(bytes), PolicyName()};
      } else {
        Warn(PolicyName() + ": target_file_size_bytes", std::to_string(bytes),
             CheckTarget(0).error().message + "; " + HeldText(kind, held));
      }
    }
    TakeProperty(kind, kWriteTarget, held);
    return *TakeTable(kind, held);
  }

  void ResolveCompaction() {
    policy_.schedule = *TakeTable(ScheduleKind(), FromConfiguration(defaults_.schedule));
    policy_.target_file_size_bytes = ResolveTarget();

    const Kind<int> files = CountKind(kMinInputFiles, 1, kCountMax);
    Held<int> held_files = FromConfiguration(defaults_.min_input_files);
    TakePolicy(files, "min_input_files", held_files);
    policy_.min_input_files = *TakeTable(files, held_files);

    const Kind<int> threshold = ThresholdKind();
    Held<int> held_threshold = FromConfiguration(defaults_.delete_file_threshold);
    TakePolicy(threshold, "delete_file_threshold", held_threshold);
    policy_.delete_file_threshold = *TakeTable(threshold, held_threshold);

    const Kind<Strategy> strategy = StrategyKind();
    Held<Strategy> held_strategy = FromConfiguration(defaults_.strategy);
    TakePolicy(strategy, "compaction_strategy", held_strategy);
    policy_.strategy = *TakeTable(strategy, held_strategy);

    const Kind<std::string> order = SortOrderKind();
    Held<std::string> held_order = FromConfiguration(defaults_.sort_order);
    TakePolicy(order, "sort_order", held_order);
    policy_.sort_order = *TakeTable(order, held_order);
    ImplySort();

    const Kind<int> groups =
        CountKind("compaction.max-concurrent-file-group-rewrites", 1, kConcurrentMax);
    Held<int> held_groups = {defaults_.max_concurrent_file_group_rewrites,
                             std::string(kConfiguration)};
    TakePolicy(groups, "max_concurrent_file_group_rewrites", held_groups);
    policy_.max_concurrent_file_group_rewrites = held_groups.value;

    Kind<Duration> life = AgeKind(kReadLife, Duration::zero());
    life.stricter = [](Duration a, Duration b) { return a < b; };
    policy_.read_life =
        TakeTable(life, Held<Duration>{defaults_.read_life, std::string(kConfiguration)});
  }

  // Only an order implies a sort.
  void ImplySort() {
    const auto from_default = [&](std::string_view name) {
      return policy_.sources[std::string(name)] == kConfiguration;
    };
    if (!from_default(kStrategy) || from_default(kSortOrder) || policy_.sort_order.empty() ||
        policy_.strategy != Strategy::kBinpack) {
      return;
    }
    policy_.strategy = Strategy::kSort;
    policy_.sources[std::string(kStrategy)] = policy_.sources[std::string(kSortOrder)];
  }

  void ResolveAfterwards() {
    // All of them are looked at, for their warnings, whatever the first one says.
    const bool manifests = ResolveOptIn(kManifests);
    const bool expire = ResolveOptIn(kExpire);
    const bool orphans = ResolveOptIn(kOrphans);
    policy_.rewrite_manifests = policy_.enabled && manifests;
    policy_.expire_snapshots = policy_.enabled && expire;
    policy_.remove_orphan_files = policy_.enabled && orphans;
    const auto or_of_table = [&](auto value, std::string_view property) {
      return Held<typename decltype(value)::value_type>{
          value, std::string(value ? kConfiguration : property)};
    };
    policy_.expire_older_than =
        TakeTable(AgeKind(kExpireOlderThan, Duration::zero()),
                  or_of_table(defaults_.expire_older_than, "history.expire.max-snapshot-age-ms"));
    policy_.expire_retain_last = TakeTable(
        CountKind(kRetainLast, 1, kCountMax),
        or_of_table(defaults_.expire_retain_last, "history.expire.min-snapshots-to-keep"));
    policy_.orphan_older_than = *TakeTable(AgeKind(kOrphansOlderThan, kOrphanAgeMin),
                                           FromConfiguration(defaults_.orphan_older_than));
  }

  void WarnOfUnknown() {
    for (const std::string_view bare : prefixes_) {
      const std::string prefix = std::string(bare) + ".";
      for (auto at = properties_.lower_bound(prefix);
           at != properties_.end() && at->first.starts_with(prefix); ++at) {
        const std::string_view name = std::string_view(at->first).substr(prefix.size());
        if (std::ranges::find(kNames, name) != kNames.end()) continue;
        const std::string_view near = Nearest(name, kNames);
        Warn(at->first, at->second,
             "there is no such property" +
                 (near.empty() ? "" : "; " + prefix + std::string(near) + " is one"));
      }
    }
  }

  const Properties& properties_;
  const MaintenanceDefaults& defaults_;
  const std::optional<CatalogPolicy>& catalog_;
  const std::vector<std::string_view> prefixes_;
  TablePolicy policy_;
};

}  // namespace

TablePolicy ResolvePolicy(const Properties& properties, const MaintenanceDefaults& defaults,
                          const std::optional<CatalogPolicy>& catalog_policy) {
  return Resolver(properties, defaults, catalog_policy).Resolve();
}

RewriteOptions RewriteOptionsOf(const TablePolicy& policy) {
  RewriteOptions options;
  options.target_file_size_bytes = policy.target_file_size_bytes;
  options.max_file_group_size_bytes =
      std::max(options.max_file_group_size_bytes, policy.target_file_size_bytes);
  options.min_input_files = policy.min_input_files;
  options.delete_file_threshold = policy.delete_file_threshold;
  options.strategy = policy.strategy;
  options.sort_order = policy.strategy == Strategy::kBinpack ? "" : policy.sort_order;
  const auto source = policy.sources.find(std::string(kStrategy));
  options.binpack_if_unsorted = source != policy.sources.end() && source->second == kConfiguration;
  return options;
}

}  // namespace lithify::plan
