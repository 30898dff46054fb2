#include "plan/iceberg_retention.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "plan/unknown_time.h"

namespace lithify::plan {
namespace {

using iceberg::Snapshot;
using iceberg::SnapshotRef;
using iceberg::TableMetadata;

constexpr std::string_view kMain = "main";
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kDefaultSnapshotAgeMs = int64_t{5} * 24 * 60 * 60 * 1000;
constexpr Duration kDefaultOrphanAge = std::chrono::days(3);

bool IsTrue(std::string_view text) {
  constexpr std::string_view kTrue = "true";
  return std::ranges::equal(text, kTrue, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// A whole number that is not negative; `otherwise` if the property is not set.
Result<int64_t> WholeProperty(const TableMetadata& table, const std::string& name,
                              int64_t otherwise) {
  const auto found = table.properties.find(name);
  if (found == table.properties.end()) return otherwise;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    return Fail(Code::kInvalid,
                "must be a whole number that is not negative, not " + JsonQuote(text),
                "table property " + name, "correct the property, or give the bound explicitly");
  }
  return value;
}

// now - age, never wrapping around.
int64_t Before(int64_t now_ms, int64_t age_ms) {
  int64_t result = 0;
  if (__builtin_sub_overflow(now_ms, age_ms, &result)) return std::numeric_limits<int64_t>::min();
  return result;
}

// The first whole millisecond at or after `t`: timestamp_ms >= it, if and only if not before `t`.
int64_t CeilMs(Time t) {
  return std::chrono::ceil<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

std::string TimeOf(int64_t ms) {
  // What lies outside of a calendar (hostile metadata) is told as the number that it is.
  constexpr int64_t kYear9999Ms = 253'402'300'799'999;
  if (ms < 0 || ms > kYear9999Ms) return std::to_string(ms) + " ms";
  return FormatTime(Time{std::chrono::milliseconds(ms)});
}

std::string Describe(const std::string& name, const SnapshotRef& ref) {
  return (ref.is_branch ? "branch " : "tag ") + JsonQuote(name);
}

class ExpiryPlanner {
 public:
  ExpiryPlanner(const TableMetadata& table, const ExpireOptions& options, Time now)
      : table_(table), options_(options), now_ms_(CeilMs(now)) {}

  Result<ExpirePlan> Plan() {
    LITHIFY_TRY(Index());
    if (!options_.snapshot_ids.empty()) return PlanListed();
    LITHIFY_TRY(ReadBounds());
    ChooseRefs();
    for (const auto& [name, ref] : kept_refs_) KeepOf(name, *ref);
    if (table_.current_snapshot_id) kept_.insert(*table_.current_snapshot_id);
    for (const Snapshot& snapshot : table_.snapshots) {
      const int64_t id = snapshot.snapshot_id;
      // Nobody can tell what a snapshot outside of every branch is for: a staged write (WAP), what
      // a rollback left, what a tag was made of. Its age alone decides (I15).
      if (!on_branch_.contains(id) && snapshot.timestamp_ms >= older_than_ms_) kept_.insert(id);
    }
    for (const Snapshot& snapshot : table_.snapshots) {
      if (!kept_.contains(snapshot.snapshot_id)) plan_.snapshot_ids.push_back(snapshot.snapshot_id);
    }
    SortOldestFirst();
    return std::move(plan_);
  }

 private:
  Status Index() {
    for (const Snapshot& snapshot : table_.snapshots) by_id_[snapshot.snapshot_id] = &snapshot;
    if (table_.current_snapshot_id && !by_id_.contains(*table_.current_snapshot_id)) {
      return Fail(Code::kCorrupt,
                  "current-snapshot-id is " + std::to_string(*table_.current_snapshot_id) +
                      ", which is not among the snapshots",
                  "table metadata", "repair the table before anything is removed from it");
    }
    const auto main = table_.refs.find(std::string(kMain));
    if (main != table_.refs.end() && !by_id_.contains(main->second.snapshot_id)) {
      return Fail(Code::kCorrupt,
                  "branch \"main\" points to snapshot " + std::to_string(main->second.snapshot_id) +
                      ", which is not among the snapshots",
                  "table metadata", "repair the table before anything is removed from it");
    }
    return {};
  }

  Status ReadBounds() {
    if (options_.retain_last && *options_.retain_last < 1) {
      return Fail(Code::kInvalid,
                  "must be at least 1, not " + std::to_string(*options_.retain_last),
                  "retain_last");
    }
    LITHIFY_TRY_ASSIGN(
        const int64_t age_ms,
        WholeProperty(table_, "history.expire.max-snapshot-age-ms", kDefaultSnapshotAgeMs));
    LITHIFY_TRY_ASSIGN(const int64_t keep,
                       WholeProperty(table_, "history.expire.min-snapshots-to-keep", 1));
    LITHIFY_TRY_ASSIGN(max_ref_age_ms_,
                       WholeProperty(table_, "history.expire.max-ref-age-ms", kNever));
    older_than_ms_ = options_.older_than ? CeilMs(*options_.older_than) : Before(now_ms_, age_ms);
    retain_last_ = options_.retain_last ? *options_.retain_last : keep;
    return {};
  }

  // "Snapshot Retention Policy", step 2.
  void ChooseRefs() {
    for (const auto& [name, ref] : table_.refs) {
      const auto head = by_id_.find(ref.snapshot_id);
      if (head == by_id_.end()) {
        plan_.notes.push_back(Describe(name, ref) + " points to snapshot " +
                              std::to_string(ref.snapshot_id) +
                              ", which the table does not have: left alone");
        continue;
      }
      const int64_t age_max = ref.max_ref_age_ms.value_or(max_ref_age_ms_);
      const bool old = head->second->timestamp_ms < Before(now_ms_, age_max);
      if (name != kMain && age_max != kNever && old) {
        plan_.refs.push_back(name);
      } else {
        kept_refs_.emplace_back(name, &ref);
      }
    }
  }

  // Steps 3 and 4. Walks the whole chain: an ancestor that is younger than the bound stays even
  // behind one that is older, as clocks of writers differ (R060).
  void KeepOf(const std::string& name, const SnapshotRef& ref) {
    kept_.insert(ref.snapshot_id);
    const Snapshot* head = by_id_.at(ref.snapshot_id);
    const int64_t bound =
        ref.max_snapshot_age_ms ? Before(now_ms_, *ref.max_snapshot_age_ms) : older_than_ms_;
    if (head->timestamp_ms < bound) {
      plan_.notes.push_back("snapshot " + std::to_string(ref.snapshot_id) + " of " +
                            TimeOf(head->timestamp_ms) + " stays: " + Describe(name, ref) +
                            " points to it");
    }
    if (!ref.is_branch) return;
    const int64_t keep = ref.min_snapshots_to_keep ? *ref.min_snapshots_to_keep : retain_last_;
    if (ref.max_snapshot_age_ms || ref.min_snapshots_to_keep) {
      plan_.notes.push_back(Describe(name, ref) + " has a retention of its own: snapshots since " +
                            TimeOf(bound) + " and its newest " +
                            std::to_string(std::max<int64_t>(keep, 1)) + " stay");
    }
    std::unordered_set<int64_t> seen;  // Damaged metadata may go in circles.
    int64_t rank = 0;
    for (const Snapshot* at = head; at != nullptr && seen.insert(at->snapshot_id).second; ++rank) {
      on_branch_.insert(at->snapshot_id);
      if (rank < keep || at->timestamp_ms >= bound) kept_.insert(at->snapshot_id);
      const auto parent =
          at->parent_snapshot_id ? by_id_.find(*at->parent_snapshot_id) : by_id_.end();
      at = parent == by_id_.end() ? nullptr : parent->second;
    }
  }

  Result<ExpirePlan> PlanListed() {
    if (options_.older_than || options_.retain_last) {
      return Fail(Code::kInvalid, "cannot be given together with older_than or retain_last",
                  "snapshot_ids", "snapshot_ids names exactly what goes");
    }
    std::map<int64_t, std::string> heads;
    for (const auto& [name, ref] : table_.refs) heads.emplace(ref.snapshot_id, Describe(name, ref));
    if (table_.current_snapshot_id) {
      heads.emplace(*table_.current_snapshot_id, "the table, as its current snapshot,");
    }
    std::set<int64_t> chosen;
    for (const int64_t id : options_.snapshot_ids) {
      if (const auto head = heads.find(id); head != heads.end()) {
        return Fail(
            Code::kInvalid,
            "snapshot " + std::to_string(id) + " cannot go: " + head->second + " points to it",
            "snapshot_ids", "move or drop that reference first");
      }
      if (!chosen.insert(id).second) continue;
      if (by_id_.contains(id)) {
        plan_.snapshot_ids.push_back(id);
      } else {
        plan_.notes.push_back("snapshot " + std::to_string(id) + " is not in the table");
      }
    }
    SortOldestFirst();
    return std::move(plan_);
  }

  void SortOldestFirst() {
    std::ranges::sort(plan_.snapshot_ids, {}, [this](int64_t id) {
      const Snapshot* snapshot = by_id_.at(id);
      return std::tuple(snapshot->timestamp_ms, snapshot->sequence_number, id);
    });
    // A snapshot that is listed twice is one.
    const auto twice = std::ranges::unique(plan_.snapshot_ids);
    plan_.snapshot_ids.erase(twice.begin(), twice.end());
  }

  const TableMetadata& table_;
  const ExpireOptions& options_;
  const int64_t now_ms_;
  int64_t older_than_ms_ = 0;
  int64_t retain_last_ = 1;
  int64_t max_ref_age_ms_ = kNever;
  std::unordered_map<int64_t, const Snapshot*> by_id_;
  std::vector<std::pair<std::string, const SnapshotRef*>> kept_refs_;
  std::unordered_set<int64_t> on_branch_;
  std::unordered_set<int64_t> kept_;
  ExpirePlan plan_;
};

Result<Time> OrphanBound(const OrphanOptions& options, Time now) {
  if (options.age_min < Duration::zero()) {
    return Fail(Code::kInvalid, "must not be negative", "age_min");
  }
  const Time floor = now - options.age_min;
  if (!options.older_than) return std::min(now - kDefaultOrphanAge, floor);
  if (*options.older_than > now) {
    return Fail(Code::kInvalid, FormatTime(*options.older_than) + " is in the future", "older_than",
                "files of writers that did not commit yet would count as orphans");
  }
  if (*options.older_than > floor) {
    return Fail(Code::kInvalid,
                FormatTime(*options.older_than) + " is less than " +
                    FormatDuration(options.age_min) + " ago",
                "older_than", "files of writers that did not commit yet would count as orphans");
  }
  return *options.older_than;
}

std::string Percent(double share) {
  return std::to_string(static_cast<int64_t>(std::lround(share * 100))) + " %";
}

Status CheckShare(int64_t orphans, int64_t listed, const OrphanOptions& options) {
  const double share =
      static_cast<double>(orphans) / static_cast<double>(std::max<int64_t>(listed, 1));
  if (options.force || share <= options.share_max) return {};
  return Fail(Code::kDenied,
              FormatCount(orphans) + " of " + FormatCount(listed) + " files (" + Percent(share) +
                  ") look like orphans, more than the allowed " + Percent(options.share_max),
              "remove_orphan_files",
              "look at them with dry_run: if they are nobody's, allow it with force");
}

}  // namespace

Status CheckGcAllowed(const TableMetadata& table) {
  const auto found = table.properties.find("gc.enabled");
  if (found == table.properties.end() || IsTrue(found->second)) return {};
  return Fail(
      Code::kDenied,
      "gc.enabled is " + JsonQuote(found->second) + ": other tables may use the files of this one",
      "table properties", "set gc.enabled to true if its files are its own");
}

Result<ExpirePlan> PlanExpiry(const TableMetadata& table, const ExpireOptions& options, Time now) {
  LITHIFY_TRY(CheckGcAllowed(table));
  return ExpiryPlanner(table, options, now).Plan();
}

Result<OrphanPlan> PlanOrphans(const std::vector<ListedFile>& listed,
                               const std::unordered_set<std::string>& referenced,
                               const OrphanOptions& options, Time now) {
  LITHIFY_TRY_ASSIGN(const Time bound, OrphanBound(options, now));
  if (!(options.share_max >= 0 && options.share_max <= 1)) {
    return Fail(Code::kInvalid, "must be between 0 and 1", "share_max");
  }
  if (options.deletes_max < 0) return Fail(Code::kInvalid, "must not be negative", "deletes_max");
  // Every table refers to its metadata file at least.
  if (referenced.empty()) {
    return Fail(Code::kDenied, "no file is referenced at all, so every file would be an orphan",
                "remove_orphan_files", "check that the table's metadata was read");
  }
  std::vector<const ListedFile*> files;
  files.reserve(listed.size());
  for (const ListedFile& file : listed) files.push_back(&file);
  std::ranges::stable_sort(
      files, {}, [](const ListedFile* file) -> const std::string& { return file->location; });
  OrphanPlan plan;
  for (size_t i = 0; i < files.size();) {
    // Overlapping prefixes list a file twice: it is one, as old as its youngest listing.
    const ListedFile* file = files[i];
    bool known = true;
    Time modified = Time::min();
    for (; i < files.size() && files[i]->location == file->location; ++i) {
      known = known && files[i]->modified && *files[i]->modified > kUnknownTime;
      modified = std::max(modified, files[i]->modified.value_or(Time::max()));
    }
    ++plan.listed;
    if (referenced.contains(file->location)) {
      ++plan.referenced;
    } else if (!known) {
      ++plan.unknown_age;
    } else if (modified >= bound) {
      ++plan.young;
    } else {
      plan.orphans.push_back(*file);
    }
  }
  const int64_t orphans = static_cast<int64_t>(plan.orphans.size());
  LITHIFY_TRY(CheckShare(orphans, plan.listed, options));
  if (options.deletes_max > 0 && orphans > options.deletes_max) {
    plan.over_limit = orphans - options.deletes_max;
    plan.orphans.resize(static_cast<size_t>(options.deletes_max));
  }
  return plan;
}

}  // namespace lithify::plan
