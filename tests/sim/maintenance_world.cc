#include "maintenance_world.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/text.h"
#include "plan/estimate.h"
#include "plan/iceberg_plan.h"

namespace lithify::sim {
namespace {

constexpr double kRowBytes = 100;
constexpr int kForEver = 1 << 28;
constexpr int kThreads = 8;
constexpr int kLogDays = 3;
constexpr double kDeleteFileThreshold = 10;  // Of the planner.
const plan::RewriteOptions kOptions;
const double kMinBytes = 0.75 * static_cast<double>(kOptions.target_file_size_bytes);

uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t Hash(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t z = Mix(seed + 0x9e3779b97f4a7c15ULL);
  z = Mix(z ^ (a + 0x632be59bd9b4e019ULL));
  z = Mix(z ^ (b * 0x9e3779b97f4a7c15ULL + 1));
  return Mix(z ^ (c * 0xd6e8feb86659fd93ULL + 7));
}

// What a draw is for, in the last argument of Hash.
enum Purpose : uint64_t {
  kSizeRank = 1,
  kReadRank,
  kWriter,
  kLogged,
  kPeriod,
  kBucketCount,
  kRetention,
  kCommits,
  kParallel,
  kFileNoise,
  kConflicts,
  kDeletes,
  kLate,
  kCompute,
  kOpen,
  kRecency,
  kFullScans,
  kRegime,
  kRegimeSize,
  kQueryNoise,
  kBacklog,
  kDayFiles,
  kIsLate,
  kLateAge,
  kChance,
  kLogNoise,
  kLogLife,
  kMeasure,
  kCosts,
  kSorted,
  kSelective,
  kSpread,
};

double Lognormal(double sigma, uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  return std::exp(sigma * Normal(seed, a, b, c));
}

template <typename T, size_t N>
T OneOf(const T (&choices)[N], double uniform) {
  return choices[std::min(N - 1, static_cast<size_t>(uniform * N))];
}

std::vector<size_t> Ranks(const std::vector<double>& keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  std::vector<size_t> ranks(keys.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = i + 1;
  return ranks;
}

// Not the priors: by up to a factor of about three either way, each for itself.
TrueCosts DrawCosts(uint64_t seed) {
  const auto factor = [&](uint64_t which) {
    return std::exp(std::log(3.0) * (2 * Uniform(seed, which, 0, kCosts) - 1));
  };
  TrueCosts costs;
  costs.seconds_per_byte = factor(1) / static_cast<double>(plan::kBytesPerSecondPerThread);
  costs.seconds_per_file = 0.002 * factor(2);
  costs.seconds_per_partition = 0.1 * factor(3);
  costs.seconds_per_commit = 2.0 * factor(4);
  costs.read_seconds_per_file = 0.02 * factor(5);
  costs.read_seconds_per_delete_row = 2e-7 * factor(6);
  costs.read_seconds_per_delete_file = 0.03 * factor(7);
  costs.read_seconds_per_byte = 1.0 / (500.0 * 1024 * 1024);
  return costs;
}

class FleetMaker {
 public:
  explicit FleetMaker(const FleetShape& shape) : shape_(shape), seed_(shape.seed) {}

  Fleet Make() {
    Fleet fleet;
    fleet.shape = shape_;
    fleet.costs = DrawCosts(seed_);
    const auto tables = static_cast<size_t>(shape_.tables);
    std::vector<double> size_keys(tables);
    for (size_t t = 0; t < tables; ++t) size_keys[t] = Uniform(seed_, t, 0, kSizeRank);
    const std::vector<size_t> size_ranks = Ranks(size_keys);
    // Large tables are somewhat more read than small ones.
    std::vector<double> read_keys(tables);
    for (size_t t = 0; t < tables; ++t) {
      read_keys[t] =
          0.4 * std::log(static_cast<double>(size_ranks[t])) + 1.5 * Normal(seed_, t, 0, kReadRank);
    }
    const std::vector<size_t> read_ranks = Ranks(read_keys);
    for (size_t t = 0; t < tables; ++t) {
      fleet.tables.push_back(Draw(t, size_ranks[t], read_ranks[t]));
    }
    double demand = 0;
    for (const TableTruth& table : fleet.tables) {
      demand += table.bytes_per_day * fleet.costs.seconds_per_byte * table.compute_factor +
                table.files_per_day * fleet.costs.seconds_per_file;
    }
    fleet.budget_per_day = shape_.budget_share * demand;
    fleet.work_bytes_max =
        0.25 * fleet.budget_per_day * static_cast<double>(plan::kBytesPerSecondPerThread);
    return fleet;
  }

 private:
  double U(size_t table, Purpose purpose) const { return Uniform(seed_, table, 0, purpose); }

  TableTruth Draw(size_t t, size_t size_rank, size_t read_rank) const {
    TableTruth table;
    const double writer = U(t, kWriter);
    table.writer = writer < 0.3    ? Writer::kStreaming
                   : writer < 0.65 ? Writer::kBatch
                   : writer < 0.85 ? Writer::kDormant
                                   : Writer::kUpsert;
    table.logged = U(t, kLogged) < shape_.log_share;
    // Zipf: the smallest table gets 100 MB a day.
    table.bytes_per_day = 1e8 * shape_.tables / static_cast<double>(size_rank);
    DrawWrites(t, table);
    DrawReads(t, read_rank, table);
    table.compute_factor = Lognormal(0.3, seed_, t, 0, kCompute);
    table.open_factor = Lognormal(0.3, seed_, t, 0, kOpen);
    table.sorted = U(t, kSorted) < shape_.sorted_share;
    if (table.sorted) {
      // Some writers sort what they write, so that their files lie side by side; most do not.
      constexpr double kSpreads[] = {0, 0.1, 1, 1};
      table.selective_share = 0.1 + 0.8 * U(t, kSelective);
      table.key_spread = OneOf(kSpreads, U(t, kSpread));
    }
    return table;
  }

  void DrawWrites(size_t t, TableTruth& table) const {
    constexpr int kPeriods[] = {1, 1, 1, 1, 7, 7, 30, 0, 0, 0};
    constexpr int kBuckets[] = {1, 2, 4, 8};
    constexpr int kRetentions[] = {0, 0, 0, 14, 30, 60};
    constexpr double kStreams[] = {24, 96, 288};
    constexpr double kLoads[] = {1, 1, 2, 4};
    constexpr double kParallels[] = {1, 2, 4};
    constexpr double kBatchFiles[] = {1, 4, 16, 64};
    table.period_days = OneOf(kPeriods, U(t, kPeriod));
    table.retention_days = table.period_days == 0 ? 0 : OneOf(kRetentions, U(t, kRetention));
    table.file_noise = 0.2 + 0.5 * U(t, kFileNoise);
    table.late_share = table.period_days == 1 ? 0.1 * U(t, kLate) : 0;
    double commits = 0;
    double files_each = OneOf(kParallels, U(t, kParallel));
    double file_bytes_max = 128.0 * kMiB;
    switch (table.writer) {
      case Writer::kUpsert:
        table.period_days = 0;
        table.retention_days = 0;
        table.buckets = OneOf(kBuckets, U(t, kBucketCount));
        commits = OneOf(kStreams, U(t, kCommits));
        break;
      case Writer::kStreaming: commits = OneOf(kStreams, U(t, kCommits)); break;
      default:
        commits = OneOf(kLoads, U(t, kCommits));
        files_each = OneOf(kBatchFiles, U(t, kParallel));
        file_bytes_max = 256.0 * kMiB;
    }
    table.commits_per_hour = commits / 24;
    table.files_per_day = std::max(commits * files_each, table.bytes_per_day / file_bytes_max);
    if (table.writer == Writer::kUpsert) {
      // Deletes come with each commit; a part of all commits reaches the files of a rewrite.
      table.delete_files_per_day = commits;
      table.delete_rows_per_day = table.bytes_per_day / kRowBytes * (0.05 + 0.4 * U(t, kDeletes));
      table.conflicts_per_hour = table.commits_per_hour * 0.6 * Uniform(seed_, t, 1, kConflicts) *
                                 Uniform(seed_, 0, 0, kConflicts);
    } else {
      table.conflicts_per_hour = 0.002;
    }
  }

  void DrawReads(size_t t, size_t read_rank, TableTruth& table) const {
    const int days = shape_.days + shape_.tail_days;
    double rate = 0.2 * shape_.tables / static_cast<double>(read_rank);
    for (int day = 0; day < days; ++day) {
      const auto d = static_cast<uint64_t>(day);
      // Now and then a table becomes popular, or forgotten.
      if (Uniform(seed_, t, d, kRegime) < 1.0 / 60) {
        rate *= Lognormal(1.0, seed_, t, d, kRegimeSize);
      }
      const double weekend = day % 7 >= 5 ? 0.5 : 1;
      table.queries.push_back(rate * weekend * Lognormal(0.3, seed_, t, d, kQueryNoise));
    }
    // Most queries read what is new; of a table that is divided into buckets, half of them one.
    constexpr double kRecencies[] = {1, 3, 7, 14, 30, 90};
    table.recency_days = OneOf(kRecencies, U(t, kRecency));
    table.full_share = table.period_days > 0 ? 0.01 + 0.2 * U(t, kFullScans) * U(t, kFullScans)
                                             : 0.5 + 0.5 / table.buckets;
    table.queries_from.resize(table.queries.size() + 1);
    table.decayed_from.resize(table.queries.size() + 1);
    for (size_t d = table.queries.size(); d-- > 0;) {
      table.queries_from[d] = table.queries_from[d + 1] + table.queries[d];
      table.decayed_from[d] =
          table.queries[d] + std::exp(-1 / table.recency_days) * table.decayed_from[d + 1];
    }
  }

  const FleetShape shape_;
  const uint64_t seed_;
};

// Of the queries of a day, those that read the partition.
double ShareOf(const TableTruth& table, const Part& part, int day) {
  if (table.period_days == 0) return table.full_share;
  const int age = std::max(day - part.last_day, 0);
  return table.full_share + (1 - table.full_share) * std::exp(-age / table.recency_days);
}

bool Expires(const TableTruth& table, const Part& part, int day) {
  return table.retention_days > 0 && day - part.last_day > table.retention_days;
}

double SavedPerRead(const Fleet& fleet, const TableTruth& table, const Work& work) {
  return table.open_factor * table.opened_share() * fleet.costs.read_seconds_per_file *
             (work.files - work.outputs) +
         fleet.costs.read_seconds_per_delete_row * work.delete_rows +
         fleet.costs.read_seconds_per_delete_file * work.delete_files;
}

double WorkSeconds(const Fleet& fleet, const TableTruth& table, const Work& work) {
  return work.bytes * fleet.costs.seconds_per_byte * table.compute_factor +
         work.files * fleet.costs.seconds_per_file + fleet.costs.seconds_per_partition;
}

double QuerySeconds(const Fleet& fleet, const TableTruth& table, const Part& part) {
  const double bytes = part.small_bytes + part.good_bytes;
  return table.open_factor * table.opened_share() * fleet.costs.read_seconds_per_file *
             (part.small_files + part.good_files) +
         fleet.costs.read_seconds_per_delete_row * part.delete_rows +
         fleet.costs.read_seconds_per_delete_file * part.delete_files +
         fleet.costs.read_seconds_per_byte * bytes;
}

class Run {
 public:
  Run(const Fleet& fleet, Rule& rule) : fleet_(fleet), rule_(rule) {
    report_.rule = rule.Name();
    current_.resize(fleet.tables.size());
    for (size_t t = 0; t < fleet.tables.size(); ++t) Begin(t);
  }

  FleetReport Go() {
    for (day_ = 0; day_ < fleet_.shape.days + fleet_.shape.tail_days; ++day_) {
      const bool active = day_ < fleet_.shape.days;
      if (active) Maintain();
      if (active) Write();
      Query();
    }
    for (Part& part : parts_) Close(part);
    std::ranges::sort(waits_);
    if (!waits_.empty()) {
      report_.longest_wait = waits_.back();
      report_.wait_p99 = waits_[waits_.size() * 99 / 100];
    }
    return std::move(report_);
  }

 private:
  uint64_t seed() const { return fleet_.shape.seed; }

  // What was there before the first day: a month that nobody compacted, or half of it.
  void Begin(size_t t) {
    const TableTruth& table = fleet_.tables[t];
    if (table.period_days == 0) {
      for (int bucket = 0; bucket < table.buckets; ++bucket) {
        Part part;
        part.table = static_cast<int32_t>(t);
        part.number = bucket;
        part.first_day = -60;
        part.last_day = kForEver;
        part.good_bytes = 60 * table.bytes_per_day / table.buckets;
        part.good_files = std::max(1.0, std::ceil(part.good_bytes / 5e8));
        part.rows = part.good_bytes / kRowBytes;
        parts_.push_back(part);
        AddFiles(parts_.back(), Uniform(seed(), t, static_cast<uint64_t>(bucket), kBacklog) * 10,
                 -1);
      }
      current_[t] = static_cast<int32_t>(parts_.size()) - table.buckets;
      return;
    }
    const int first = -30 / table.period_days * table.period_days;
    for (int day = first; day < 0; day += table.period_days) {
      NewPart(t, day);
      if (Uniform(seed(), t, static_cast<uint64_t>(day + 1000), kBacklog) < 0.7) {
        AddFiles(parts_.back(), table.period_days, parts_.back().last_day);
      } else {
        Part& part = parts_.back();
        part.good_bytes = table.bytes_per_day * table.period_days;
        part.good_files = std::max(1.0, std::ceil(part.good_bytes / 5e8));
        part.rows = part.good_bytes / kRowBytes;
      }
    }
  }

  void NewPart(size_t t, int first_day) {
    Part part;
    part.table = static_cast<int32_t>(t);
    part.first_day = first_day;
    part.last_day = first_day + fleet_.tables[t].period_days - 1;
    part.number = (first_day + 1000) / fleet_.tables[t].period_days;
    current_[t] = static_cast<int32_t>(parts_.size());
    parts_.push_back(part);
  }

  // As many as the table gets in `days`, divided among its buckets.
  void AddFiles(Part& part, double days, int day) {
    const TableTruth& table = fleet_.tables[static_cast<size_t>(part.table)];
    const double share = days / table.buckets;
    const double files = std::max(1.0, std::round(share * table.files_per_day));
    const double bytes = share * table.bytes_per_day;
    const bool small = bytes / files < kMinBytes;
    (small ? part.small_files : part.good_files) += files;
    (small ? part.small_bytes : part.good_bytes) += bytes;
    part.rows += bytes / kRowBytes;
    part.delete_rows += share * table.delete_rows_per_day;
    part.delete_files += share * table.delete_files_per_day;
    part.last_write = std::max(part.last_write, day);
  }

  void Write() {
    for (size_t t = 0; t < fleet_.tables.size(); ++t) {
      const TableTruth& table = fleet_.tables[t];
      if (table.writer == Writer::kDormant) continue;
      const auto d = static_cast<uint64_t>(day_);
      const double amount = Lognormal(table.file_noise, seed(), t, d, kDayFiles);
      if (table.period_days == 0) {
        for (int bucket = 0; bucket < table.buckets; ++bucket) {
          AddFiles(parts_[static_cast<size_t>(current_[t] + bucket)], amount, day_);
        }
        continue;
      }
      if (day_ % table.period_days == 0) NewPart(t, day_);
      AddFiles(parts_[static_cast<size_t>(current_[t])], amount, day_);
      if (Uniform(seed(), t, d, kIsLate) < table.late_share) Late(t, d, amount);
    }
  }

  void Late(size_t t, uint64_t d, double amount) {
    const auto back = 1 + static_cast<int32_t>(3 * Uniform(seed(), t, d, kLateAge));
    const int wanted = day_ - back;
    // Yesterday's partitions are near the end.
    for (size_t i = parts_.size(); i-- > 0 && parts_[i].last_day >= wanted;) {
      if (parts_[i].table != static_cast<int32_t>(t) || parts_[i].first_day != wanted) continue;
      if (!parts_[i].gone) AddFiles(parts_[i], 0.1 * amount, day_);
      return;
    }
  }

  void Query() {
    for (Part& part : parts_) {
      if (part.gone) continue;
      const TableTruth& table = fleet_.tables[static_cast<size_t>(part.table)];
      if (Expires(table, part, day_)) {
        Close(part);
        part.gone = true;
        continue;
      }
      const double reads = TrueReads(fleet_, part, day_);
      report_.query_seconds += reads * QuerySeconds(fleet_, table, part);
      part.paid_back += reads * part.saves_per_read;
    }
  }

  void Close(Part& part) {
    if (part.spent > part.paid_back) report_.not_paid_back += part.spent - part.paid_back;
    part.spent = part.paid_back = part.saves_per_read = 0;
    if (part.worth_since >= 0) waits_.push_back(day_ - part.worth_since);
    part.worth_since = -1;
  }

  void Maintain() {
    std::vector<Sight> sights;
    for (size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.gone) continue;
      const Work work = PlannedWork(part, fleet_.work_bytes_max);
      if (work.files <= 0) {
        part.candidate_since = -1;
        continue;
      }
      if (part.candidate_since < 0) part.candidate_since = day_;
      Watch(part, work);
      sights.push_back(See(static_cast<int32_t>(i), part, work));
    }
    tokens_ = std::min(tokens_, fleet_.budget_per_day) + fleet_.budget_per_day;
    if (tokens_ <= 0) return;
    for (const Job& job : rule_.Choose(sights, parts_, day_, tokens_)) {
      if (tokens_ <= 0) break;
      Do(job);
    }
  }

  void Watch(Part& part, const Work& work) {
    const Truth truth = TruthOf(fleet_, part, work, day_);
    const double gain = truth.saved_per_read * truth.reads;
    if (gain < 10 * (truth.seconds + fleet_.costs.seconds_per_commit)) return;
    if (part.worth_since < 0) part.worth_since = day_;
  }

  Sight See(int32_t at, const Part& part, const Work& work) const {
    constexpr double kDay = 86'400;
    const TableTruth& table = fleet_.tables[static_cast<size_t>(part.table)];
    Sight sight;
    sight.part = at;
    sight.table = part.table;
    sight.number = part.number;
    sight.work = work;
    sight.rows = part.rows;
    if (table.logged && rule_.ReadsLog()) {
      const int days = std::min({kLogDays, day_, day_ - part.first_day});
      sight.reads = LoggedReads(fleet_, part, day_ - days, day_);
      sight.read_days = days;
      if (table.period_days > 0 && sight.reads >= 3) {
        sight.read_life_days = ReadLife(part, sight, days);
      }
    }
    // Of the last day, whether or not more will come; that the period of a partition by time is
    // over can be told from its name.
    const bool written = part.last_day >= day_ - 1 && table.writer != Writer::kDormant;
    const bool open = written && part.last_day >= day_;
    sight.seconds_since_write =
        open ? 0 : std::max(0.25, 1.0 * (day_ - part.last_write - 1)) * kDay;
    sight.commits_per_hour = written ? table.commits_per_hour : 0.001;
    sight.append_share = table.writer == Writer::kUpsert ? 0 : 1;
    sight.files_per_hour = open ? table.files_per_day / table.buckets / 24 : 0;
    if (part.last_compaction > -1000) {
      sight.seconds_since_compaction = (day_ - part.last_compaction) * kDay;
    }
    if (table.retention_days > 0) {
      sight.seconds_to_expiry = std::max(0, part.last_day + table.retention_days - day_ + 1) * kDay;
    }
    if (table.sorted) {
      const double files = part.small_files + part.good_files;
      const auto opened = [&](double n) { return 1 + table.key_spread * std::max(0.0, n - 1); };
      sight.files_per_key = opened(files);
      sight.files_per_key_after = opened(files - work.files + work.outputs);
    }
    sight.waiting_seconds = (day_ - part.candidate_since) * kDay;
    sight.partition_age_days = part.last_day == kForEver ? 0 : std::max(0, day_ - part.last_day);
    return sight;
  }

  // From the log of the same days: reads of all older partitions of the table / of one like this.
  // The expected value, with an error that is the larger the fewer reads there were.
  double ReadLife(const Part& part, const Sight& sight, int days) const {
    constexpr int kOldest = 30;
    const TableTruth& table = fleet_.tables[static_cast<size_t>(part.table)];
    double later = 0;
    for (int d = 0; d < kOldest; ++d) later += ShareOf(table, part, day_ + d);
    double seen = 0;
    for (int d = 1; d <= days; ++d) seen += ShareOf(table, part, day_ - d) / days;
    const auto id = static_cast<uint64_t>(sight.part);
    return later / seen *
           Lognormal(1 / std::sqrt(sight.reads), seed(), id, static_cast<uint64_t>(day_), kLogLife);
  }

  void Do(const Job& job) {
    Done done;
    done.job = &job;
    double partitions_seconds = 0;
    double conflicts_per_hour = 0;
    double saved_per_read = 0;
    const TableTruth& table =
        fleet_.tables[static_cast<size_t>(parts_[static_cast<size_t>(job.parts.at(0))].table)];
    for (const int32_t at : job.parts) {
      const Part& part = parts_[static_cast<size_t>(at)];
      const Work work = PlannedWork(part, fleet_.work_bytes_max);
      const Truth truth = TruthOf(fleet_, part, work, day_);
      partitions_seconds += truth.seconds;
      conflicts_per_hour += truth.conflicts_per_hour;
      saved_per_read += truth.saved_per_read;
      done.files += work.files;
      done.bytes += work.bytes;
      done.files_removed += work.files - work.outputs;
      done.delete_rows_removed += work.delete_rows;
      done.delete_files_removed += work.delete_files;
    }
    const auto id = static_cast<uint64_t>(job.parts[0]);
    const auto d = static_cast<uint64_t>(day_);
    done.compute_seconds = (partitions_seconds + fleet_.costs.seconds_per_commit) *
                           Lognormal(0.2, seed(), id, d, kMeasure);
    done.wall_seconds = partitions_seconds / kThreads + fleet_.costs.seconds_per_commit;
    done.conflict =
        Uniform(seed(), id, d, kChance) > std::exp(-conflicts_per_hour * done.wall_seconds / 3600);
    if (!done.conflict && table.logged) {
      done.saved_per_read = saved_per_read * Lognormal(0.5, seed(), id, d + 10'000, kMeasure);
    }
    tokens_ -= done.compute_seconds;
    report_.compute += done.compute_seconds;
    ++report_.jobs;
    report_.conflicts += done.conflict;
    if (done.conflict) report_.lost_to_conflicts += done.compute_seconds;
    for (const int32_t at : job.parts) {
      if (!done.conflict) {
        Rewrite(parts_[static_cast<size_t>(at)],
                done.compute_seconds / static_cast<double>(job.parts.size()));
      }
    }
    rule_.Learn(done);
  }

  void Rewrite(Part& part, double seconds) {
    const TableTruth& table = fleet_.tables[static_cast<size_t>(part.table)];
    const Work work = PlannedWork(part, fleet_.work_bytes_max);
    Close(part);
    part.spent = seconds;
    part.saves_per_read = SavedPerRead(fleet_, table, work);
    const double stays = 1 - work.share;
    double bytes = work.bytes;
    if (work.all) {
      const double dead = std::min(0.9, part.delete_rows / std::max(part.rows, 1.0));
      bytes *= 1 - dead;
      part.rows *= 1 - dead * work.share;
      part.delete_rows *= stays;
      part.delete_files *= stays;
      part.good_files *= stays;
      part.good_bytes *= stays;
    }
    part.small_files *= stays;
    part.small_bytes *= stays;
    const bool small = bytes / work.outputs < kMinBytes;
    (small ? part.small_files : part.good_files) += work.outputs;
    (small ? part.small_bytes : part.good_bytes) += bytes;
    if (work.share >= 1) part.last_compaction = day_;
    part.candidate_since = -1;
    ++report_.rewrites;
  }

  const Fleet& fleet_;
  Rule& rule_;
  FleetReport report_;
  std::vector<Part> parts_;
  std::vector<int32_t> current_;  // By table: the newest partition, or the first bucket.
  std::vector<double> waits_;
  double tokens_ = 0;
  int day_ = 0;
};

}  // namespace

double Uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<double>(Hash(seed, a, b, c) >> 11) * 0x1.0p-53;
}

double Normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t hash = Hash(seed, a, b, c);
  const double u = (static_cast<double>(hash >> 11) + 0.5) * 0x1.0p-53;
  const double v = static_cast<double>(Mix(hash + 0x9e3779b97f4a7c15ULL) >> 11) * 0x1.0p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

Fleet MakeFleet(const FleetShape& shape) { return FleetMaker(shape).Make(); }

Work PlannedWork(const Part& part, double bytes_max) {
  Work work;
  work.all = part.delete_files >= kDeleteFileThreshold;
  if (!work.all && part.small_files < kOptions.min_input_files) return {};
  const double files = part.small_files + (work.all ? part.good_files : 0);
  const double bytes = part.small_bytes + (work.all ? part.good_bytes : 0);
  work.share = bytes > bytes_max ? bytes_max / bytes : 1;
  work.files = work.share * files;
  work.bytes = work.share * bytes;
  work.outputs =
      static_cast<double>(plan::SizesOf(kOptions).Outputs(static_cast<int64_t>(work.bytes)));
  if (work.all) {
    work.outputs = std::min(work.outputs, work.files);
    work.delete_rows = work.share * part.delete_rows;
    work.delete_files = work.share * part.delete_files;
    work.again_bytes = work.bytes;
  } else if (work.outputs >= work.files) {
    return {};
  } else if (work.bytes / work.outputs < kMinBytes) {
    work.again_bytes = work.bytes;
  }
  return work;
}

double TrueReads(const Fleet& fleet, const Part& part, int day) {
  const TableTruth& table = fleet.tables[static_cast<size_t>(part.table)];
  return table.queries[static_cast<size_t>(day)] * ShareOf(table, part, day);
}

double LoggedReads(const Fleet& fleet, const Part& part, int from, int to) {
  double mean = 0;
  for (int day = from; day < to; ++day) mean += TrueReads(fleet, part, day);
  const auto id = static_cast<uint64_t>(part.table) * 4096 + static_cast<uint64_t>(part.number);
  const auto d = static_cast<uint64_t>(to);
  if (mean > 20) {
    const double seen = mean + std::sqrt(mean) * Normal(fleet.shape.seed, id, d, kLogNoise);
    return std::max(0.0, std::round(seen));
  }
  double left = Uniform(fleet.shape.seed, id, d, kLogNoise);
  double chance = std::exp(-mean);
  int count = 0;
  while (left >= chance && count < 100) {
    left -= chance;
    chance *= mean / ++count;
  }
  return count;
}

// From that day on, until the rows expire or all ends; in closed form, since it is asked for often.
double FutureReads(const Fleet& fleet, const Part& part, int day) {
  const TableTruth& table = fleet.tables[static_cast<size_t>(part.table)];
  int end = fleet.shape.days + fleet.shape.tail_days;
  if (table.retention_days > 0) end = std::min(end, part.last_day + table.retention_days + 1);
  if (end <= day) return 0;
  const auto from = [](const std::vector<double>& sums, int d) {
    return sums[static_cast<size_t>(d)];
  };
  const double all = from(table.queries_from, day) - from(table.queries_from, end);
  if (table.period_days == 0) return table.full_share * all;
  // Until the last of its days it is new.
  const int aging = std::clamp(part.last_day, day, end);
  const double fresh = from(table.queries_from, day) - from(table.queries_from, aging);
  const auto weight = [&](int days) { return std::exp(-days / table.recency_days); };
  const double decayed =
      weight(std::max(aging - part.last_day, 0)) *
      (from(table.decayed_from, aging) - weight(end - aging) * from(table.decayed_from, end));
  return table.full_share * all + (1 - table.full_share) * (fresh + decayed);
}

Truth TruthOf(const Fleet& fleet, const Part& part, const Work& work, int day) {
  const TableTruth& table = fleet.tables[static_cast<size_t>(part.table)];
  Truth truth;
  truth.seconds = WorkSeconds(fleet, table, work);
  truth.saved_per_read = SavedPerRead(fleet, table, work);
  const bool open = part.last_day >= day;
  truth.conflicts_per_hour = table.writer == Writer::kDormant ? 0
                             : open                           ? table.conflicts_per_hour
                                                              : 0.0001;
  truth.reads = FutureReads(fleet, part, day);
  return truth;
}

FleetReport RunFleet(const Fleet& fleet, Rule& rule, const FleetReport* none) {
  FleetReport report = Run(fleet, rule).Go();
  if (none != nullptr) report.saved = none->query_seconds - report.query_seconds;
  return report;
}

}  // namespace lithify::sim
