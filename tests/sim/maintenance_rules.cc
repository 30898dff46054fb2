#include "maintenance_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace lithify::sim {
namespace {

constexpr size_t kPartsPerJob = 20;  // Of the rules: one commit for so many partitions of a table.

std::string Text(const char* form, double number) {
  char text[96];
  std::snprintf(text, sizeof text, form, number);
  return text;
}

// Sights in an order, as jobs: those of one table that are near each other share a commit. Ends
// where far more bytes are in them than any day's budget could move.
std::vector<Job> AsJobs(const std::vector<Sight>& sights, const std::vector<size_t>& order,
                        double budget_seconds) {
  const double bytes_max =
      30 * budget_seconds * static_cast<double>(plan::kBytesPerSecondPerThread);
  std::vector<Job> jobs;
  std::unordered_map<int32_t, size_t> open;  // Table to job.
  double bytes = 0;
  for (const size_t at : order) {
    const Sight& sight = sights[at];
    bytes += sight.work.bytes;
    if (bytes > bytes_max) break;
    const auto found = open.find(sight.table);
    if (found != open.end() && jobs[found->second].parts.size() < kPartsPerJob) {
      jobs[found->second].parts.push_back(sight.part);
      continue;
    }
    open[sight.table] = jobs.size();
    jobs.push_back({{sight.part}});
  }
  return jobs;
}

// By a key, smallest first; ties by partition.
template <typename Key>
void SortBy(const std::vector<Sight>& sights, std::vector<size_t>& order, const Key& key) {
  std::vector<std::pair<double, size_t>> keyed;  // Sights are in the order of partitions.
  keyed.reserve(order.size());
  for (const size_t at : order) keyed.emplace_back(key(sights[at]), at);
  std::ranges::sort(keyed);
  for (size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].second;
}

template <typename Keep>
std::vector<size_t> Where(const std::vector<Sight>& sights, const Keep& keep) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < sights.size(); ++i) {
    if (keep(sights[i])) kept.push_back(i);
  }
  return kept;
}

class None final : public Rule {
 public:
  std::string Name() const override { return "none"; }
  std::vector<Job> Choose(const std::vector<Sight>& /*sights*/, const std::vector<Part>& /*parts*/,
                          int /*day*/, double /*budget*/) override {
    return {};
  }
};

class Ours final : public Rule {
 public:
  Ours(const Fleet& fleet, const OursOptions& options)
      : fleet_(fleet), options_(options), priors_(options.priors) {}

  std::string Name() const override {
    return std::string("ours") + (options_.learn ? "" : ", not learning") +
           (options_.log ? "" : ", without a query log") +
           (options_.overlap ? "" : ", not looking at keys") +
           (options_.overdue_share > 0 ? "" : ", nothing for the overdue");
  }

  bool ReadsLog() const override { return options_.log; }

  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& parts, int day,
                          double budget) override {
    if (options_.learn) Hindsight(parts, day);
    day_ = day;
    candidates_.clear();
    candidates_.reserve(sights.size());
    by_part_.clear();
    for (const Sight& sight : sights) candidates_.push_back(CandidateOf(sight));
    plan::MaintenanceOptions options;
    options.per_run.seconds = budget;
    options.overdue_share = options_.overdue_share;
    options.model.threads = 8;
    options.model.partitions_at_once = 8;
    const plan::MaintenancePlan plan = plan::PlanMaintenance(candidates_, options, priors_);
    priors_.overdue_credit = plan.overdue_credit;
    LITHIFY_CHECK(plan.compute_seconds <= budget * (1 + 1e-9), "the budget is exceeded");
    std::vector<Job> jobs;
    for (const plan::MaintenanceJob& job : plan.jobs) {
      jobs.emplace_back();
      for (const size_t at : job.candidates) {
        jobs.back().parts.push_back(sights[at].part);
        by_part_[sights[at].part] = {at, plan.decisions[at].reads_per_day};
      }
    }
    return jobs;
  }

  void Learn(const Done& done) override {
    if (!options_.learn) return;
    using Outcome = plan::MaintenanceOutcome;
    Outcome outcome;
    outcome.result = done.conflict ? Outcome::Result::kConflict : Outcome::Result::kCommitted;
    outcome.partitions = std::ssize(done.job->parts);
    outcome.files = static_cast<int64_t>(done.files);
    outcome.bytes = static_cast<int64_t>(done.bytes);
    outcome.compute_seconds = done.compute_seconds;
    outcome.wall_seconds = done.wall_seconds;
    for (const int32_t part : done.job->parts) {
      const plan::MaintenanceCandidate& candidate = candidates_[by_part_.at(part).first];
      outcome.commits_per_hour += *candidate.commits_per_hour * (1 - candidate.append_share);
      if (!done.conflict && candidate.read_days > 0) {
        expected_.push_back({day_, part, by_part_.at(part).second});
      }
    }
    double saved = 0;
    double removed = 0;
    for (const int32_t part : done.job->parts) {
      const plan::MaintenanceCandidate& candidate = candidates_[by_part_.at(part).first];
      saved += plan::FilesSavedPerRead(candidate, priors_);
      removed += static_cast<double>(candidate.files_in - candidate.outputs);
    }
    // Those that the average read does not open any more.
    outcome.files_removed =
        static_cast<int64_t>(done.files_removed * (removed > 0 ? saved / removed : 1));
    outcome.delete_rows_removed = static_cast<int64_t>(done.delete_rows_removed);
    outcome.delete_files_removed = static_cast<int64_t>(done.delete_files_removed);
    if (done.saved_per_read >= 0) outcome.saved_per_read = done.saved_per_read;
    priors_ = plan::Calibrate(priors_, outcome);
  }

 private:
  struct Expected {
    int day = 0;
    int32_t part = 0;
    double reads_per_day = 0;
  };

  plan::MaintenanceCandidate CandidateOf(const Sight& sight) const {
    plan::MaintenanceCandidate candidate;
    candidate.name_space = "ns" + std::to_string(sight.table % 20);
    candidate.table = "t" + std::to_string(sight.table);
    candidate.partition = std::to_string(sight.number);
    candidate.files_in = static_cast<int64_t>(sight.work.files);
    candidate.bytes_in = static_cast<int64_t>(sight.work.bytes);
    candidate.again_bytes = static_cast<int64_t>(sight.work.again_bytes);
    candidate.rows = static_cast<int64_t>(sight.rows);
    candidate.outputs = static_cast<int64_t>(sight.work.outputs);
    candidate.delete_rows = static_cast<int64_t>(sight.work.delete_rows);
    candidate.delete_files = static_cast<int64_t>(sight.work.delete_files);
    if (options_.log) {
      candidate.reads = sight.reads;
      candidate.read_days = sight.read_days;
      if (sight.read_life_days >= 0) candidate.read_life_days = sight.read_life_days;
    }
    candidate.commits_per_hour = sight.commits_per_hour;
    candidate.append_share = sight.append_share;
    candidate.files_per_hour = sight.files_per_hour;
    candidate.seconds_since_write = sight.seconds_since_write;
    if (sight.seconds_since_compaction >= 0) {
      candidate.seconds_since_compaction = sight.seconds_since_compaction;
    }
    if (sight.seconds_to_expiry >= 0) candidate.seconds_to_expiry = sight.seconds_to_expiry;
    candidate.waiting_seconds = sight.waiting_seconds;
    if (sight.files_per_key > 0 && options_.overlap) {
      candidate.files_per_key =
          plan::FilesPerKey{.before = sight.files_per_key, .after = sight.files_per_key_after};
    }
    return candidate;
  }

  // A week after a rewrite: were there as many reads as it was done for?
  void Hindsight(const std::vector<Part>& parts, int day) {
    constexpr int kLater = 7;
    plan::MaintenanceOutcome outcome;
    double actual = 0;
    while (next_ < expected_.size() && expected_[next_].day + kLater <= day) {
      const Expected& expected = expected_[next_++];
      const Part& part = parts[static_cast<size_t>(expected.part)];
      if (part.gone) continue;
      actual += LoggedReads(fleet_, part, expected.day, expected.day + kLater);
      outcome.predicted_reads += expected.reads_per_day * kLater;
    }
    if (outcome.predicted_reads <= 0) return;
    outcome.actual_reads = actual;
    priors_ = plan::Calibrate(priors_, outcome);
  }

  const Fleet& fleet_;
  const OursOptions options_;
  plan::MaintenancePriors priors_;
  std::vector<plan::MaintenanceCandidate> candidates_;
  std::unordered_map<int32_t, std::pair<size_t, double>> by_part_;
  std::vector<Expected> expected_;
  size_t next_ = 0;
  int day_ = 0;
};

class Threshold final : public Rule {
 public:
  Threshold(int files, int delete_files) : files_(files), delete_files_(delete_files) {}
  std::string Name() const override {
    return "threshold, " + std::to_string(files_) + " files or " + std::to_string(delete_files_) +
           " delete files";
  }
  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& parts,
                          int /*day*/, double budget) override {
    std::vector<size_t> order = Where(sights, [&](const Sight& sight) {
      const Part& part = parts[static_cast<size_t>(sight.part)];
      return part.small_files >= files_ || part.delete_files >= delete_files_;
    });
    SortBy(sights, order, [](const Sight& sight) { return -sight.waiting_seconds; });
    return AsJobs(sights, order, budget);
  }

 private:
  const int files_;
  const int delete_files_;
};

class Weighted final : public Rule {
 public:
  Weighted(double weight, bool by_table) : weight_(weight), by_table_(by_table) {}
  std::string Name() const override {
    return Text("weighted, %.1f of file reduction", weight_) +
           (by_table_ ? ", by table" : ", by partition");
  }
  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& /*parts*/,
                          int /*day*/, double budget) override {
    std::unordered_map<int32_t, std::pair<double, double>> traits;
    const auto key = [&](const Sight& sight) { return by_table_ ? sight.table : sight.part; };
    for (const Sight& sight : sights) {
      auto& [reduction, cost] = traits[key(sight)];
      reduction += sight.work.files - sight.work.outputs;
      cost += sight.work.bytes;
    }
    double reduction_max = 0;
    double reduction_min = 1e300;
    double cost_max = 0;
    double cost_min = 1e300;
    for (const auto& [id, trait] : traits) {
      reduction_max = std::max(reduction_max, trait.first);
      reduction_min = std::min(reduction_min, trait.first);
      cost_max = std::max(cost_max, trait.second);
      cost_min = std::min(cost_min, trait.second);
    }
    const auto scaled = [](double value, double low, double high) {
      return high > low ? (value - low) / (high - low) : 0;
    };
    std::vector<size_t> order = Where(sights, [](const Sight& /*sight*/) { return true; });
    SortBy(sights, order, [&](const Sight& sight) {
      const auto& [reduction, cost] = traits[key(sight)];
      return (1 - weight_) * scaled(cost, cost_min, cost_max) -
             weight_ * scaled(reduction, reduction_min, reduction_max);
    });
    return AsJobs(sights, order, budget);
  }

 private:
  const double weight_;
  const bool by_table_;
};

class ReductionPerCost final : public Rule {
 public:
  std::string Name() const override { return "file reduction / bytes"; }
  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& /*parts*/,
                          int /*day*/, double budget) override {
    std::vector<size_t> order = Where(sights, [](const Sight& /*sight*/) { return true; });
    SortBy(sights, order, [](const Sight& sight) {
      return -(sight.work.files - sight.work.outputs) / (sight.work.bytes + 1);
    });
    return AsJobs(sights, order, budget);
  }
};

class Quota final : public Rule {
 public:
  explicit Quota(int fragments) : fragments_(fragments) {}
  std::string Name() const override {
    return "quota, " + std::to_string(fragments_) + " fragments";
  }
  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& parts,
                          int /*day*/, double /*budget*/) override {
    constexpr double kFragmentBytes = 64.0 * kMiB;
    constexpr double kJobBytes = 50.0 * kGiB;
    table_of_.clear();
    std::vector<size_t> order = Where(sights, [&](const Sight& sight) {
      const Part& part = parts[static_cast<size_t>(sight.part)];
      const bool fragments =
          part.small_files >= fragments_ && part.small_bytes / part.small_files < kFragmentBytes;
      return fragments || part.delete_rows > 0.1 * part.rows ||
             part.small_files + part.delete_files >= 8.0 * fragments_;
    });
    std::map<int32_t, std::vector<size_t>> tables;
    for (const size_t at : order) tables[sights[at].table].push_back(at);
    std::vector<std::pair<double, int32_t>> by_use;
    for (const auto& [table, parts_of] : tables) by_use.emplace_back(used_[table], table);
    std::ranges::sort(by_use);
    std::vector<Job> jobs;
    for (const auto& [use, table] : by_use) {
      std::vector<size_t>& of = tables[table];
      SortBy(sights, of,
             [](const Sight& sight) { return -(sight.work.files + sight.work.delete_files); });
      Job job;
      double bytes = 0;
      for (const size_t at : of) {
        if (job.parts.size() == kPartsPerJob ||
            (!job.parts.empty() && bytes + sights[at].work.bytes > kJobBytes)) {
          break;
        }
        bytes += sights[at].work.bytes;
        job.parts.push_back(sights[at].part);
      }
      table_of_[job.parts.front()] = table;
      jobs.push_back(std::move(job));
    }
    return jobs;
  }
  void Learn(const Done& done) override {
    used_[table_of_.at(done.job->parts.front())] += done.compute_seconds;
  }

 private:
  const int fragments_;
  std::unordered_map<int32_t, double> used_;
  std::unordered_map<int32_t, int32_t> table_of_;
};

class RandomRule final : public Rule {
 public:
  explicit RandomRule(uint64_t seed) : seed_(seed) {}
  std::string Name() const override { return "random"; }
  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& /*parts*/,
                          int day, double budget) override {
    std::vector<size_t> order = Where(sights, [](const Sight& /*sight*/) { return true; });
    SortBy(sights, order, [&](const Sight& sight) {
      return Uniform(seed_, static_cast<uint64_t>(sight.part), static_cast<uint64_t>(day), 99);
    });
    return AsJobs(sights, order, budget);
  }

 private:
  const uint64_t seed_;
};

class Oracle final : public Rule {
 public:
  Oracle(const Fleet& fleet, bool patient) : fleet_(fleet), patient_(patient) {}
  std::string Name() const override { return patient_ ? "oracle, patient" : "oracle"; }

  std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& parts, int day,
                          double budget) override {
    std::map<int32_t, std::vector<Item>> tables = Worthwhile(sights, parts, day);
    std::priority_queue<Best> queue;
    for (auto& [table, items] : tables) {
      std::ranges::sort(items, [](const Item& a, const Item& b) {
        return a.gain / a.seconds > b.gain / b.seconds;
      });
      const Best best = BestBeginning(table, items);
      if (best.count > 0) queue.push(best);
    }
    std::map<int32_t, size_t> job_of;
    std::map<int32_t, size_t> taken;
    std::vector<Job> jobs;
    double spent = 0;
    while (!queue.empty() && spent < budget) {
      const Best best = queue.top();
      queue.pop();
      const std::vector<Item>& items = tables[best.table];
      const auto [job, opened] = job_of.try_emplace(best.table, jobs.size());
      if (opened) {
        jobs.emplace_back();
        spent += Commit();
      }
      size_t& next = taken[best.table];
      for (size_t i = 0; i < best.count; ++i) {
        jobs[job->second].parts.push_back(items[next].part);
        spent += items[next++].seconds;
      }
      if (next < items.size()) queue.push({MarginalDensity(items, next), best.table, 1});
    }
    return jobs;
  }

 private:
  struct Item {
    int32_t part = 0;
    double gain = 0;
    double seconds = 0;
    double hazard = 0;
  };
  struct Sum {
    double gain = 0;
    double seconds = 0;
    double hazard = 0;
    void Add(const Item& item) {
      gain += item.gain;
      seconds += item.seconds;
      hazard += item.hazard;
    }
  };
  struct Best {
    double density = 0;
    int32_t table = 0;
    size_t count = 0;
    bool operator<(const Best& other) const { return density < other.density; }
  };

  double Commit() const { return fleet_.costs.seconds_per_commit; }
  double Saved(const Sum& sum) const {
    return sum.gain * std::exp(-sum.hazard * (sum.seconds / 8 + Commit()));
  }

  // Reads until the end; of what has to be done again, only until then.
  double Reads(const Sight& sight, const Part& part, const Truth& truth, int day) const {
    if (!patient_ || sight.files_per_hour <= 0) return truth.reads;
    const double again = (sight.work.again_bytes * fleet_.costs.seconds_per_byte +
                          fleet_.costs.seconds_per_partition + Commit()) /
                         (truth.seconds + Commit());
    const double period = sight.seconds_since_compaction >= 0
                              ? sight.seconds_since_compaction / 86'400
                              : sight.work.files / (24 * sight.files_per_hour);
    const int until = day + static_cast<int>(std::min(period / std::min(again, 1.0), 1e4));
    if (until >= fleet_.shape.days + fleet_.shape.tail_days) return truth.reads;
    return truth.reads - FutureReads(fleet_, part, until);
  }

  std::map<int32_t, std::vector<Item>> Worthwhile(const std::vector<Sight>& sights,
                                                  const std::vector<Part>& parts, int day) const {
    std::map<int32_t, std::vector<Item>> tables;
    for (const Sight& sight : sights) {
      const Part& part = parts[static_cast<size_t>(sight.part)];
      const Truth truth = TruthOf(fleet_, part, sight.work, day);
      const double gain = Reads(sight, part, truth, day) * truth.saved_per_read;
      if (gain <= truth.seconds) continue;
      tables[sight.table].push_back(
          {sight.part, gain, truth.seconds, truth.conflicts_per_hour / 3600});
    }
    return tables;
  }

  // Together with the commit; count 0: no beginning pays for it.
  Best BestBeginning(int32_t table, const std::vector<Item>& items) const {
    Best best{1, table, 0};
    Sum sum;
    for (size_t i = 0; i < items.size(); ++i) {
      sum.Add(items[i]);
      const double density = Saved(sum) / (sum.seconds + Commit());
      if (density > best.density) best = {density, table, i + 1};
    }
    return best;
  }

  // Of one more beside those before it.
  double MarginalDensity(const std::vector<Item>& items, size_t next) const {
    Sum sum;
    for (size_t i = 0; i < next; ++i) sum.Add(items[i]);
    const double before = Saved(sum);
    sum.Add(items[next]);
    return (Saved(sum) - before) / items[next].seconds;
  }

  const Fleet& fleet_;
  const bool patient_;
};

}  // namespace

std::unique_ptr<Rule> MakeNone() { return std::make_unique<None>(); }
std::unique_ptr<Rule> MakeOurs(const Fleet& fleet, const OursOptions& options) {
  return std::make_unique<Ours>(fleet, options);
}
std::unique_ptr<Rule> MakeThreshold(int files, int delete_files) {
  return std::make_unique<Threshold>(files, delete_files);
}
std::unique_ptr<Rule> MakeWeighted(double weight, bool by_table) {
  return std::make_unique<Weighted>(weight, by_table);
}
std::unique_ptr<Rule> MakeReductionPerCost() { return std::make_unique<ReductionPerCost>(); }
std::unique_ptr<Rule> MakeQuota(int fragments) { return std::make_unique<Quota>(fragments); }
std::unique_ptr<Rule> MakeRandom(uint64_t seed) { return std::make_unique<RandomRule>(seed); }
std::unique_ptr<Rule> MakeOracle(const Fleet& fleet, bool patient) {
  return std::make_unique<Oracle>(fleet, patient);
}

}  // namespace lithify::sim
