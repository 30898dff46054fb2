#include "plan/maintenance_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace lithify::plan {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kSecondsPerDay = 86'400;

double NotNegative(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0.0; }
int64_t NotNegative(int64_t value) { return std::max<int64_t>(value, 0); }

std::string Number(double value) {
  char text[32];
  const char* form = value >= 100 || value == 0 ? "%.0f" : value >= 0.05 ? "%.1f" : "%.2g";
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string SecondsText(double seconds) {
  constexpr double kShownMax = 1e12;  // Microseconds fit an int64.
  return FormatDuration(std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(NotNegative(seconds), kShownMax))));
}

// --- one candidate -------------------------------------------------------------------------------

// The rates of a job's compute seconds: threads share the work, they do not make it less.
CostModel RatesOf(const MaintenancePriors& priors, CostModel model) {
  model.bytes_per_second_per_thread = 1.0 / priors.seconds_per_byte;
  model.time_per_partition = CostModel::Seconds(priors.seconds_per_partition);
  model.time_per_file = CostModel::Seconds(priors.seconds_per_file);
  return model;
}

CostModel OneAtATime(CostModel model) {
  model.partitions_at_once = 1;
  return model;
}

double SavedPerRead(const MaintenancePriors& priors, double files, double delete_rows,
                    double delete_files) {
  return files * priors.read_seconds_per_file + delete_rows * priors.read_seconds_per_delete_row +
         delete_files * priors.read_seconds_per_delete_file;
}

double ReadsPerDay(const MaintenanceCandidate& candidate, const MaintenancePriors& priors) {
  const double seen = NotNegative(candidate.reads);
  const double days = NotNegative(candidate.read_days);
  return priors.reads_factor * (seen + priors.reads_per_day * priors.prior_days) /
         (days + priors.prior_days);
}

struct WriteRates {
  double commits_per_hour = 0;
  double files_per_hour = 0;  // 0: nothing is known to come.
};

WriteRates WritesOf(const MaintenanceCandidate& candidate, const MaintenancePriors& priors) {
  WriteRates rates;
  rates.commits_per_hour =
      NotNegative(candidate.commits_per_hour.value_or(priors.commits_per_hour));
  if (candidate.files_per_hour) {
    rates.files_per_hour = NotNegative(*candidate.files_per_hour);
  } else if (candidate.seconds_since_compaction) {
    const double since = NotNegative(*candidate.seconds_since_compaction);
    if (since > 0) {
      rates.files_per_hour =
          static_cast<double>(NotNegative(candidate.files_in)) * kSecondsPerHour / since;
    }
  }
  if (!candidate.seconds_since_write) return rates;
  const double silent_hours = NotNegative(*candidate.seconds_since_write) / kSecondsPerHour;
  if (silent_hours <= 0) return rates;
  const double commits = std::min(rates.commits_per_hour, 1 / silent_hours);
  if (rates.commits_per_hour > 0) rates.files_per_hour *= commits / rates.commits_per_hour;
  rates.commits_per_hour = commits;
  return rates;
}

// How long the gain lasts. Until the rows expire or nobody reads them any more, at most. Where
// writers go on, the choice is not between now and never, but between now and the next time, when
// as much has come again: what now saves until then is all it gains for the part of its cost that
// is spent again at the next time. A rewrite of which nothing is spent again gains for ever; one
// that has to be done all over gains for one such period.
struct Life {
  double days = 0;
  LifeBound bound = LifeBound::kNone;

  void AtMost(double other, LifeBound by) {
    if (other < days) *this = {other, by};
  }
};

Life LifeOf(const MaintenanceCandidate& candidate, const WriteRates& writes, double again_share,
            const MaintenancePriors& priors) {
  Life life{.days = priors.life_days};
  if (candidate.seconds_to_expiry) {
    life.AtMost(NotNegative(*candidate.seconds_to_expiry) / kSecondsPerDay, LifeBound::kExpiry);
  }
  if (candidate.read_life_days) {
    life.AtMost(NotNegative(*candidate.read_life_days), LifeBound::kReads);
  }
  if (writes.files_per_hour <= 0) return life;
  double period = static_cast<double>(candidate.files_in) / (24 * writes.files_per_hour);
  if (candidate.seconds_since_compaction) {
    period = NotNegative(*candidate.seconds_since_compaction) / kSecondsPerDay;
  }
  life.AtMost(period / again_share, LifeBound::kRewrite);
  return life;
}

std::string_view LifeBoundText(LifeBound bound) {
  switch (bound) {
    case LifeBound::kNone: break;
    case LifeBound::kExpiry: return "then its rows expire";
    case LifeBound::kReads: return "then nobody reads it any more";
    case LifeBound::kRewrite: return "then as much is written anew";
  }
  return "";
}

// One that may run.
struct Item {
  size_t at = 0;       // Index of the candidate.
  size_t order = 0;    // Of its name: breaks ties.
  Work work;           // Of its partition alone.
  double seconds = 0;  // Compute, without the commit.
  double value = 0;    // Query seconds saved if the commit survives.
  double hazard = 0;   // Conflicts per second of the job.
  double waiting_days = 0;
  double alone_survival = 1;  // If it were its table's only one.
  double alone_score = 0;
};

bool DenserThan(const Item& a, const Item& b) {
  const double x = a.alone_survival * a.value / a.seconds;
  const double y = b.alone_survival * b.value / b.seconds;
  return x != y ? x > y : a.order < b.order;
}

// Items of one table that share a commit; all sums, so that one more costs O(1).
struct Sum {
  Work work{.partitions = 0, .files = 0, .bytes = 0};
  double seconds = 0;
  double value = 0;
  double hazard = 0;

  void Add(const Item& item) {
    work.partitions += item.work.partitions;
    work.files += item.work.files;
    work.bytes += item.work.bytes;
    seconds += item.seconds;
    value += item.value;
    hazard += item.hazard;
  }
  void Remove(const Item& item) {
    work.partitions -= item.work.partitions;
    work.files -= item.work.files;
    work.bytes -= item.work.bytes;
    seconds -= item.seconds;
    value -= item.value;
    hazard -= item.hazard;
  }
};

struct TableKey {
  std::string_view name_space;
  std::string_view table;
  MaintenanceKind kind;
  auto operator<=>(const TableKey&) const = default;
};

// --- budgets -------------------------------------------------------------------------------------

struct Left {
  MaintenanceBudget budget;
  int64_t bytes = 0;  // Spent.
  double seconds = 0;
  int64_t commits = 0;

  bool BytesFit(int64_t more) const { return budget.bytes <= 0 || more <= budget.bytes - bytes; }
  bool SecondsFit(double more) const {
    return budget.seconds <= 0 || seconds + more <= budget.seconds;
  }
  bool CommitsFit(int64_t more) const {
    return budget.commits <= 0 || commits + more <= budget.commits;
  }
  void Spend(int64_t b, double s, int64_t c) {
    bytes += b;
    seconds += s;
    commits += c;
  }
};

// --- the planner ---------------------------------------------------------------------------------

class Ranking {
 public:
  Ranking(const std::vector<MaintenanceCandidate>& candidates, const MaintenanceOptions& options,
          const MaintenancePriors& priors)
      : candidates_(candidates),
        options_(options),
        priors_(priors),
        wall_(RatesOf(priors, OneAtATime(options.model))),
        compute_(RatesOf(priors, CostModel{})) {
    plan_.decisions.resize(candidates.size());
    run_.budget = options.per_run;
  }

  MaintenancePlan Plan() {
    MeasureAll();
    RankAll();
    for (Table& table : tables_) ChooseWorth(table);
    TakeOverdue();
    Fill();
    return std::move(plan_);
  }

 private:
  // A table (and kind) of this run: at most one job.
  struct Table {
    TableKey key;
    std::vector<Item> items;  // By name; then those that are worth it, in the order of choice.
    size_t next = 0;          // Of items: those before are chosen or refused.
    std::vector<Item> chosen;
    Sum sum;               // Of `chosen`.
    size_t job_order = 0;  // Among the jobs: when it got its first candidate.
  };
  // The next items of a table, from `next`, to be taken together.
  struct Chunk {
    double priority = 0;
    size_t table = 0;  // Tables are in the order of names, so this breaks ties.
    size_t count = 0;
    bool operator<(const Chunk& other) const {
      return std::tie(priority, other.table) < std::tie(other.priority, table);
    }
  };

  // One partition after the other, which is no less than it takes: one more then never makes a job
  // shorter, so what a partition adds to a commit is its own.
  double WallSeconds(const Work& work) const {
    return EstimateSeconds(work, wall_) + priors_.seconds_per_commit;
  }
  double Survival(const Sum& sum) const {
    return std::exp(-std::max(sum.hazard, 0.0) * WallSeconds(sum.work));
  }
  double Saved(const Sum& sum) const { return Survival(sum) * sum.value; }

  // With what else decided, where that is known of the candidate.
  std::string Against(double score, size_t at) const {
    std::string text = "saves " + Number(score) + " s of queries per s of work; threshold " +
                       Number(options_.threshold);
    if (const auto& files = candidates_[at].files_per_key) {
      text += "; a read by key opens " + Number(files->before) + " files, " + Number(files->after) +
              " afterwards";
    }
    const MaintenanceDecision& decision = plan_.decisions[at];
    if (decision.life_bound != LifeBound::kNone) {
      text += "; counted for " + Number(decision.life_days) + " days, " +
              std::string(LifeBoundText(decision.life_bound));
    }
    return text;
  }

  Left& NamespaceLeft(std::string_view name_space) {
    const auto found = namespaces_.find(name_space);
    if (found != namespaces_.end()) return found->second;
    Left left;
    const auto own = options_.of_namespace.find(std::string(name_space));
    left.budget = own == options_.of_namespace.end() ? options_.per_namespace : own->second;
    return namespaces_.emplace(name_space, left).first->second;
  }

  // False if it is not to be ranked.
  bool Screen(const MaintenanceCandidate& candidate, MaintenanceDecision& decision) const {
    if (!candidate.breaker.empty()) {
      decision.verdict = MaintenanceVerdict::kBreakerOpen;
      decision.reason = "the breaker of the table is open: " + candidate.breaker;
    } else if (NotNegative(candidate.backing_off_seconds) > 0) {
      decision.verdict = MaintenanceVerdict::kBackingOff;
      decision.reason = "not before " + SecondsText(candidate.backing_off_seconds);
    } else if (candidate.files_in <= 0) {
      decision.verdict = MaintenanceVerdict::kNothingPlanned;
      decision.reason =
          candidate.planner_reason.empty() ? "0 files to rewrite" : candidate.planner_reason;
    } else {
      return true;
    }
    return false;
  }

  Item Measure(size_t at) {
    const MaintenanceCandidate& candidate = candidates_[at];
    MaintenanceDecision& decision = plan_.decisions[at];
    Item item;
    item.at = at;
    item.work = {
        .partitions = 1, .files = candidate.files_in, .bytes = NotNegative(candidate.bytes_in)};
    item.seconds = EstimateSeconds(item.work, compute_);
    const WriteRates writes = WritesOf(candidate, priors_);
    decision.compute_seconds = item.seconds;
    decision.reads_per_day = ReadsPerDay(candidate, priors_);
    const int64_t again = std::min(NotNegative(candidate.again_bytes), item.work.bytes);
    const Work again_work{.partitions = 1, .files = 0, .bytes = again};
    const double again_share =
        (EstimateSeconds(again_work, compute_) + priors_.seconds_per_commit) /
        (item.seconds + priors_.seconds_per_commit);
    const Life life = LifeOf(candidate, writes, again_share, priors_);
    decision.life_days = life.days;
    decision.life_bound = life.bound;
    decision.saved_per_read =
        SavedPerRead(priors_, FilesSavedPerRead(candidate, priors_),
                     static_cast<double>(NotNegative(candidate.delete_rows)),
                     static_cast<double>(NotNegative(candidate.delete_files)));
    item.value = decision.saved_per_read * decision.reads_per_day * decision.life_days;
    const double conflicting = 1 - std::min(NotNegative(candidate.append_share), 1.0);
    item.hazard = writes.commits_per_hour * conflicting * priors_.conflict_share / kSecondsPerHour;
    item.waiting_days = NotNegative(candidate.waiting_seconds) / kSecondsPerDay;
    Sum sum;
    sum.Add(item);
    item.alone_survival = Survival(sum);
    item.alone_score =
        item.alone_survival * item.value / (item.seconds + priors_.seconds_per_commit);
    decision.survival = item.alone_survival;
    decision.score = item.alone_score;
    decision.expected_saved_seconds = item.alone_survival * item.value;
    return item;
  }

  // In the order of names, so that nothing depends on the order of the input.
  void MeasureAll() {
    std::vector<size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) {
      const MaintenanceCandidate& x = candidates_[a];
      const MaintenanceCandidate& y = candidates_[b];
      return std::tie(x.name_space, x.table, x.kind, x.partition) <
             std::tie(y.name_space, y.table, y.kind, y.partition);
    });
    for (const size_t at : order) {
      const MaintenanceCandidate& candidate = candidates_[at];
      if (!Screen(candidate, plan_.decisions[at])) continue;
      const TableKey key{candidate.name_space, candidate.table, candidate.kind};
      if (tables_.empty() || tables_.back().key != key) {
        tables_.emplace_back();
        tables_.back().key = key;
      }
      tables_.back().items.push_back(Measure(at));
      tables_.back().items.back().order = tables_.back().items.size();
    }
  }

  void RankAll() {
    std::vector<const Item*> ranked;
    for (const Table& table : tables_) {
      for (const Item& item : table.items) {
        if (item.alone_score > 0) ranked.push_back(&item);
      }
    }
    std::ranges::stable_sort(
        ranked, [](const Item* a, const Item* b) { return a->alone_score > b->alone_score; });
    for (size_t i = 0; i < ranked.size(); ++i) {
      plan_.decisions[ranked[i]->at].rank = static_cast<int64_t>(i) + 1;
    }
  }

  // What would be done without budgets: all that raise what is saved beyond what is spent. Those
  // whose partitions are written to endanger the commit of all, so each has to make up for that.
  void ChooseWorth(Table& table) {
    const double threshold = options_.threshold;
    std::vector<Item> items = std::move(table.items);
    std::ranges::sort(items, DenserThan);
    Sum sum;
    std::vector<Item> worth;
    std::vector<Item> refused;
    for (const Item& item : items) {
      Sum with = sum;
      with.Add(item);
      if (item.value > 0 && Saved(with) - Saved(sum) >= threshold * item.seconds) {
        sum = with;
        worth.push_back(item);
      } else {
        refused.push_back(item);
      }
    }
    // Those that came first did not know of the others.
    std::vector<Item> stay;
    for (const Item& item : std::views::reverse(worth)) {
      Sum without = sum;
      without.Remove(item);
      if (sum.hazard <= 0 || Saved(sum) - Saved(without) >= threshold * item.seconds) {
        stay.push_back(item);
      } else {
        sum = without;
        refused.push_back(item);
      }
    }
    worth.assign(stay.rbegin(), stay.rend());
    if (!Pays(sum)) {
      refused.insert(refused.end(), worth.begin(), worth.end());
      worth.clear();
    }
    Refuse(items, refused);
    table.items = std::move(worth);
  }

  static void SortByDensity(Table& table) {
    std::sort(table.items.begin() + static_cast<std::ptrdiff_t>(table.next), table.items.end(),
              DenserThan);
  }

  void TooLittle(const Item& item) {
    plan_.decisions[item.at].verdict = MaintenanceVerdict::kTooLittleGain;
    plan_.decisions[item.at].reason = Against(item.alone_score, item.at);
  }

  // Hot: if no writer came between, it would be done.
  void Refuse(const std::vector<Item>& all, const std::vector<Item>& refused) {
    double surplus = -options_.threshold * priors_.seconds_per_commit;
    for (const Item& item : all) {
      surplus += std::max(item.value - options_.threshold * item.seconds, 0.0);
    }
    for (const Item& item : refused) {
      MaintenanceDecision& decision = plan_.decisions[item.at];
      const bool hot = item.hazard > 0 && surplus >= 0 && item.value > 0 &&
                       item.value >= options_.threshold * item.seconds;
      if (!hot) {
        TooLittle(item);
        continue;
      }
      decision.verdict = MaintenanceVerdict::kHot;
      decision.reason = "conflicts cost more than it saves: its commit survives with " +
                        Number(100 * item.alone_survival) + " %, at " +
                        Number(item.hazard * kSecondsPerHour / priors_.conflict_share) +
                        " commits/h that change it and " + SecondsText(WallSeconds(item.work)) +
                        " of work; undisturbed it " +
                        Against(item.value / (item.seconds + priors_.seconds_per_commit), item.at);
    }
  }

  // The best beginning of a table that has no commit yet, or the next one of one that has.
  Chunk NextChunk(size_t at) const {
    const Table& table = tables_[at];
    Sum sum = table.sum;
    if (!table.chosen.empty()) {
      const double before = Survival(sum) * sum.value;
      sum.Add(table.items[table.next]);
      const double gained = Survival(sum) * sum.value - before;
      return {gained / table.items[table.next].seconds, at, 1};
    }
    Chunk best{-1, at, 0};
    for (size_t i = table.next; i < table.items.size(); ++i) {
      sum.Add(table.items[i]);
      const double density = Survival(sum) * sum.value / (sum.seconds + priors_.seconds_per_commit);
      if (density > best.priority && Pays(sum)) best = {density, at, i + 1 - table.next};
    }
    if (best.count == 0) best.count = table.items.size() - table.next;
    return best;
  }

  // nullopt: it fits beside what the chunk has already.
  std::optional<MaintenanceVerdict> Exceeds(const Left& run, const Left& name_space, int64_t bytes,
                                            double seconds, int64_t commits) const {
    if (!run.CommitsFit(commits)) return MaintenanceVerdict::kOverRunCommits;
    if (!name_space.CommitsFit(commits)) return MaintenanceVerdict::kOverNamespaceCommits;
    if (!run.BytesFit(bytes)) return MaintenanceVerdict::kOverRunBytes;
    if (!name_space.BytesFit(bytes)) return MaintenanceVerdict::kOverNamespaceBytes;
    if (!run.SecondsFit(seconds)) return MaintenanceVerdict::kOverRunSeconds;
    if (!name_space.SecondsFit(seconds)) return MaintenanceVerdict::kOverNamespaceSeconds;
    return std::nullopt;
  }

  void OverBudget(const Item& item, MaintenanceVerdict verdict, const Left& name_space,
                  double seconds) {
    MaintenanceDecision& decision = plan_.decisions[item.at];
    decision.verdict = verdict;
    const bool of_run = verdict == MaintenanceVerdict::kOverRunBytes ||
                        verdict == MaintenanceVerdict::kOverRunSeconds ||
                        verdict == MaintenanceVerdict::kOverRunCommits;
    const Left& left = of_run ? run_ : name_space;
    const std::string whose = of_run ? "the run's " : "the namespace's ";
    std::string needs;
    if (verdict == MaintenanceVerdict::kOverRunBytes ||
        verdict == MaintenanceVerdict::kOverNamespaceBytes) {
      needs = FormatBytes(item.work.bytes) + ", and of " + whose + FormatBytes(left.budget.bytes) +
              " are left " + FormatBytes(left.budget.bytes - left.bytes);
    } else if (verdict == MaintenanceVerdict::kOverRunSeconds ||
               verdict == MaintenanceVerdict::kOverNamespaceSeconds) {
      needs = Number(seconds) + " s of work, and of " + whose + Number(left.budget.seconds) +
              " s are left " + Number(left.budget.seconds - left.seconds) + " s";
    } else {
      needs = "a commit, and " + whose + FormatCount(left.budget.commits) + " are taken";
    }
    decision.reason =
        "saves " + Number(item.alone_score) + " s of queries per s of work, but needs " + needs;
  }

  // Takes as much of the chunk as fits, and looks at the table again. What would not fit alone is
  // refused for good, since what is left only shrinks.
  void Take(const Chunk& chunk) {
    Table& table = tables_[chunk.table];
    Left& name_space = NamespaceLeft(table.key.name_space);
    const bool opens = table.chosen.empty();
    const double fixed = opens ? priors_.seconds_per_commit : 0;
    const int64_t commits = opens ? 1 : 0;
    if (RefuseTooLarge(table, chunk.count, name_space, fixed, commits)) return;
    if (opens && chunk.priority < 0) {  // Those that would pay for the commit were refused.
      for (size_t i = 0; i < chunk.count; ++i) TooLittle(table.items[table.next++]);
      return;
    }
    Sum taken;
    std::optional<MaintenanceVerdict> cut;
    size_t fits = 0;
    for (; fits < chunk.count; ++fits) {
      Sum with = taken;
      with.Add(table.items[table.next + fits]);
      cut = Exceeds(run_, name_space, with.work.bytes, with.seconds + fixed, commits);
      if (cut) break;
      taken = with;
    }
    if (cut && !Pays(taken)) {  // Only with this one would they pay for the commit.
      const auto at = table.items.begin() + static_cast<std::ptrdiff_t>(table.next + fits);
      OverBudget(*at, *cut, name_space, at->seconds + fixed);
      table.items.erase(at);
      return;
    }
    TakeNext(table, fits);
  }

  void TakeNext(Table& table, size_t count) {
    const bool opens = table.chosen.empty();
    if (opens) table.job_order = jobs_++;
    Sum taken;
    for (size_t i = 0; i < count; ++i) {
      taken.Add(table.items[table.next]);
      table.sum.Add(table.items[table.next]);
      table.chosen.push_back(table.items[table.next++]);
    }
    const double seconds = taken.seconds + (opens ? priors_.seconds_per_commit : 0);
    run_.Spend(taken.work.bytes, seconds, opens ? 1 : 0);
    NamespaceLeft(table.key.name_space).Spend(taken.work.bytes, seconds, opens ? 1 : 0);
  }

  // Those that wait for too long, the longest first, as far as the credit goes. The first that has
  // to save up for its turn holds up the others: else smaller ones would take it for ever.
  void TakeOverdue() {
    double credit =
        std::min(std::min(NotNegative(priors_.overdue_credit), 1.0) + options_.overdue_share, 1.0);
    struct Overdue {
      double days;
      size_t table;
      size_t at;  // Of the candidate.
    };
    std::vector<Overdue> queue;
    for (size_t t = 0; t < tables_.size() && options_.overdue_share > 0; ++t) {
      for (const Item& item : tables_[t].items) {
        if (item.waiting_days > options_.overdue_days) {
          queue.push_back({item.waiting_days, t, item.at});
        }
      }
    }
    std::ranges::stable_sort(queue, std::greater(), &Overdue::days);
    for (const Overdue& overdue : queue) {
      Table& table = tables_[overdue.table];
      const auto next = table.items.begin() + static_cast<std::ptrdiff_t>(table.next);
      const auto found = std::ranges::find(next, table.items.end(), overdue.at, &Item::at);
      if (found == table.items.end()) continue;  // Taken with an older one.
      std::rotate(next, found, found + 1);
      // With as many others as it takes to pay for the commit, if it is not paid for.
      Sum sum;
      size_t count = 0;
      do {
        sum.Add(table.items[table.next + count++]);
      } while (table.chosen.empty() && !Pays(sum) && table.next + count < table.items.size());
      if (table.chosen.empty() && !Pays(sum)) continue;
      const double share = ShareOfBudgets(table, sum);
      if (share > 1) continue;  // Never fits; Fill says so.
      if (share > credit || !Fits(table, sum)) break;
      credit -= share;
      TakeNext(table, count);
    }
    plan_.overdue_credit = credit;
    for (Table& table : tables_) SortByDensity(table);
  }

  double Fixed(const Table& table) const {
    return table.chosen.empty() ? priors_.seconds_per_commit : 0;
  }
  bool Fits(const Table& table, const Sum& sum) {
    return !Exceeds(run_, NamespaceLeft(table.key.name_space), sum.work.bytes,
                    sum.seconds + Fixed(table), table.chosen.empty() ? 1 : 0);
  }
  // Of the budget of which it takes most.
  double ShareOfBudgets(const Table& table, const Sum& sum) {
    double share = 0;
    for (const Left* left : {&run_, &NamespaceLeft(table.key.name_space)}) {
      const MaintenanceBudget& budget = left->budget;
      if (budget.bytes > 0) {
        share = std::max(share,
                         static_cast<double>(sum.work.bytes) / static_cast<double>(budget.bytes));
      }
      if (budget.seconds > 0) {
        share = std::max(share, (sum.seconds + Fixed(table)) / budget.seconds);
      }
      if (budget.commits > 0 && table.chosen.empty()) {
        share = std::max(share, 1 / static_cast<double>(budget.commits));
      }
    }
    return share;
  }

  // Whether these are worth a commit of their own.
  bool Pays(const Sum& sum) const {
    return Saved(sum) >= options_.threshold * (sum.seconds + priors_.seconds_per_commit);
  }

  // If one of the next `count` would not fit alone: all of the table that would not. True: some
  // were refused, and what is left has another density.
  bool RefuseTooLarge(Table& table, size_t count, const Left& name_space, double fixed,
                      int64_t commits) {
    const auto exceeds = [&](const Item& item) {
      return Exceeds(run_, name_space, item.work.bytes, item.seconds + fixed, commits);
    };
    const auto next = table.items.begin() + static_cast<std::ptrdiff_t>(table.next);
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    if (std::none_of(next, end, [&](const Item& item) { return exceeds(item).has_value(); })) {
      return false;
    }
    const auto gone = std::stable_partition(next, table.items.end(),
                                            [&](const Item& item) { return !exceeds(item); });
    for (auto item = gone; item != table.items.end(); ++item) {
      OverBudget(*item, *exceeds(*item), name_space, item->seconds + fixed);
    }
    table.items.erase(gone, table.items.end());
    return true;
  }

  void Fill() {
    std::priority_queue<Chunk> queue;
    const auto push = [&](size_t at) {
      if (tables_[at].next < tables_[at].items.size()) queue.push(NextChunk(at));
    };
    for (size_t at = 0; at < tables_.size(); ++at) push(at);
    while (!queue.empty()) {
      const Chunk chunk = queue.top();
      queue.pop();
      Take(chunk);
      push(chunk.table);
    }
    std::vector<const Table*> open;
    for (const Table& table : tables_) {
      if (!table.chosen.empty()) open.push_back(&table);
    }
    // A look in which nothing runs is no run: nothing is saved up in it.
    if (open.empty()) plan_.overdue_credit = std::min(NotNegative(priors_.overdue_credit), 1.0);
    std::ranges::sort(open, {}, &Table::job_order);
    for (const Table* table : open) AddJob(*table);
  }

  void AddJob(const Table& table) {
    MaintenanceJob job;
    job.name_space = table.key.name_space;
    job.table = table.key.table;
    job.kind = table.key.kind;
    job.files = table.sum.work.files;
    job.bytes = table.sum.work.bytes;
    job.compute_seconds = priors_.seconds_per_commit;
    job.wall_seconds = WallSeconds(table.sum.work);
    job.survival = Survival(table.sum);
    double surplus = 0;
    for (const Item& item : table.chosen) {
      job.candidates.push_back(item.at);
      job.compute_seconds += item.seconds;
      job.expected_saved_seconds += job.survival * item.value;
      surplus += Surplus(item, job.survival);
    }
    job.score = job.expected_saved_seconds / job.compute_seconds;
    for (const Item& item : table.chosen) Decide(item, job, surplus);
    plan_.bytes += job.bytes;
    plan_.compute_seconds += job.compute_seconds;
    plan_.expected_saved_seconds += job.expected_saved_seconds;
    plan_.jobs.push_back(std::move(job));
  }

  double Surplus(const Item& item, double survival) const {
    return std::max(survival * item.value - options_.threshold * item.seconds, 0.0);
  }

  // The commit is paid by those that gain, in proportion: then nobody's score is below the
  // threshold because of it.
  void Decide(const Item& item, const MaintenanceJob& job, double surplus) {
    MaintenanceDecision& decision = plan_.decisions[item.at];
    const double share = surplus > 0 ? Surplus(item, job.survival) / surplus
                                     : 1.0 / static_cast<double>(job.candidates.size());
    decision.verdict = MaintenanceVerdict::kRun;
    decision.survival = job.survival;
    decision.expected_saved_seconds = job.survival * item.value;
    decision.score =
        decision.expected_saved_seconds / (item.seconds + share * priors_.seconds_per_commit);
    decision.reason = Against(decision.score, item.at);
  }

  const std::vector<MaintenanceCandidate>& candidates_;
  const MaintenanceOptions& options_;
  const MaintenancePriors& priors_;
  const CostModel wall_;
  const CostModel compute_;
  MaintenancePlan plan_;
  std::vector<Table> tables_;
  Left run_;
  std::map<std::string, Left, std::less<>> namespaces_;
  size_t jobs_ = 0;
};

// --- learning ------------------------------------------------------------------------------------

struct Field {
  const char* name;
  double MaintenancePriors::* value;
  bool learned;
};
constexpr Field kFields[] = {
    {"seconds_per_byte", &MaintenancePriors::seconds_per_byte, true},
    {"seconds_per_file", &MaintenancePriors::seconds_per_file, true},
    {"seconds_per_partition", &MaintenancePriors::seconds_per_partition, true},
    {"seconds_per_commit", &MaintenancePriors::seconds_per_commit, true},
    {"read_seconds_per_file", &MaintenancePriors::read_seconds_per_file, true},
    {"read_seconds_per_delete_row", &MaintenancePriors::read_seconds_per_delete_row, true},
    {"read_seconds_per_delete_file", &MaintenancePriors::read_seconds_per_delete_file, true},
    {"conflict_share", &MaintenancePriors::conflict_share, true},
    {"reads_factor", &MaintenancePriors::reads_factor, true},
    {"reads_per_day", &MaintenancePriors::reads_per_day, false},
    {"prior_days", &MaintenancePriors::prior_days, false},
    {"commits_per_hour", &MaintenancePriors::commits_per_hour, false},
    {"life_days", &MaintenancePriors::life_days, false},
    {"selective_share", &MaintenancePriors::selective_share, false},
    {"outcomes", &MaintenancePriors::outcomes, false},
    {"overdue_credit", &MaintenancePriors::overdue_credit, false},
};

double Clamped(double MaintenancePriors::* field, double value) {
  const double prior = MaintenancePriors{}.*field;
  return std::clamp(value, prior / kPriorRange, prior * kPriorRange);
}

// One addend of a prediction.
struct Part {
  double MaintenancePriors::* rate;
  double amount;
};

// A great error counts like this one: 8 times as much, or as little.
const double kErrorMax = std::log(8.0);

// Moves the prediction by `step` of its error, in logarithms, each rate by its share in it.
void Learn(MaintenancePriors& priors, const std::vector<Part>& parts, double actual, double step) {
  double predicted = 0;
  for (const Part& part : parts) predicted += priors.*part.rate * part.amount;
  if (!(predicted > 0) || !std::isfinite(actual) || actual <= 0) return;
  double norm = 0;
  for (const Part& part : parts) {
    const double share = priors.*part.rate * part.amount / predicted;
    norm += share * share;
  }
  const double error = std::clamp(std::log(actual / predicted), -kErrorMax, kErrorMax);
  std::vector<double> moved;
  for (const Part& part : parts) {
    const double share = priors.*part.rate * part.amount / predicted;
    moved.push_back(priors.*part.rate * std::exp(step * error * share / norm));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    priors.*parts[i].rate = Clamped(parts[i].rate, moved[i]);
  }
}

std::vector<Part> ComputeParts(const MaintenanceOutcome& outcome) {
  return {{&MaintenancePriors::seconds_per_byte, static_cast<double>(NotNegative(outcome.bytes))},
          {&MaintenancePriors::seconds_per_file, static_cast<double>(NotNegative(outcome.files))},
          {&MaintenancePriors::seconds_per_partition,
           static_cast<double>(NotNegative(outcome.partitions))},
          {&MaintenancePriors::seconds_per_commit, 1.0}};
}

std::vector<Part> ReadParts(const MaintenanceOutcome& outcome) {
  return {{&MaintenancePriors::read_seconds_per_file,
           static_cast<double>(NotNegative(outcome.files_removed))},
          {&MaintenancePriors::read_seconds_per_delete_row,
           static_cast<double>(NotNegative(outcome.delete_rows_removed))},
          {&MaintenancePriors::read_seconds_per_delete_file,
           static_cast<double>(NotNegative(outcome.delete_files_removed))}};
}

// Along the slope of the log-likelihood: with x conflicts expected, one happens with 1 - exp(-x).
void LearnConflicts(MaintenancePriors& priors, const MaintenanceOutcome& outcome, double step) {
  const double commits =
      NotNegative(outcome.commits_per_hour) * NotNegative(outcome.wall_seconds) / kSecondsPerHour;
  const double x = priors.conflict_share * commits;
  if (!(x > 0)) return;
  const bool conflict = outcome.result == MaintenanceOutcome::Result::kConflict;
  const double slope = conflict ? x / std::expm1(x) : -x;
  priors.conflict_share =
      Clamped(&MaintenancePriors::conflict_share,
              priors.conflict_share * std::exp(step * std::clamp(slope, -1.0, 1.0)));
}

// The files of each partition, with their bounds, and what the plan makes of them.
class KeyedPartitions {
 public:
  KeyedPartitions(const RewritePlan& plan, const iceberg::LiveSet& live) {
    if (live.key_ranges.size() != live.data_files.size()) return;
    std::vector<size_t> places(live.data_files.size());
    for (size_t i = 0; i < live.data_files.size(); ++i) {
      const iceberg::LiveDataFile& file = live.data_files[i];
      std::vector<KeyedFile>& files = partitions_[file.partition].files;
      places[i] = files.size();
      files.push_back({&live.key_ranges[i], file.records, file.size});
    }
    for (const FileGroup& group : plan.groups) {
      if (group.moves) continue;  // Its files are of several partitions.
      KeyedMerge merge;
      merge.outputs = group.live_records > 0 ? group.outputs : 0;
      merge.sorted = group.sorted;
      for (const int32_t file : group.data_files) {
        merge.files.push_back(places[static_cast<size_t>(file)]);
      }
      partitions_[group.partition].merges.push_back(std::move(merge));
    }
  }

  std::optional<FilesPerKey> Of(int32_t partition) const {
    const auto found = partitions_.find(partition);
    if (found == partitions_.end()) return std::nullopt;
    return FilesPerKeyOf(found->second.files, found->second.merges);
  }

 private:
  struct Partition {
    std::vector<KeyedFile> files;
    std::vector<KeyedMerge> merges;
  };
  std::map<int32_t, Partition> partitions_;
};

std::string_view NameOf(const std::vector<std::string>& names, size_t at) {
  return at < names.size() ? std::string_view(names[at]) : std::string_view();
}

}  // namespace

std::string_view MaintenanceKindName(MaintenanceKind kind) {
  switch (kind) {
    case MaintenanceKind::kRewriteDataFiles: return "rewrite_data_files";
    case MaintenanceKind::kRewriteManifests: return "rewrite_manifests";
  }
  return "unknown";
}

std::string_view MaintenanceVerdictName(MaintenanceVerdict verdict) {
  switch (verdict) {
    case MaintenanceVerdict::kRun: return "run";
    case MaintenanceVerdict::kNothingPlanned: return "nothing_planned";
    case MaintenanceVerdict::kTooLittleGain: return "too_little_gain";
    case MaintenanceVerdict::kHot: return "hot";
    case MaintenanceVerdict::kOverRunBytes: return "over_run_bytes";
    case MaintenanceVerdict::kOverRunSeconds: return "over_run_seconds";
    case MaintenanceVerdict::kOverRunCommits: return "over_run_commits";
    case MaintenanceVerdict::kOverNamespaceBytes: return "over_namespace_bytes";
    case MaintenanceVerdict::kOverNamespaceSeconds: return "over_namespace_seconds";
    case MaintenanceVerdict::kOverNamespaceCommits: return "over_namespace_commits";
    case MaintenanceVerdict::kBackingOff: return "backing_off";
    case MaintenanceVerdict::kBreakerOpen: return "breaker_open";
  }
  return "unknown";
}

std::map<std::string, double> PriorsToNumbers(const MaintenancePriors& priors) {
  std::map<std::string, double> numbers;
  for (const Field& field : kFields) numbers[field.name] = priors.*field.value;
  return numbers;
}

MaintenancePriors PriorsFromNumbers(const std::map<std::string, double>& numbers) {
  MaintenancePriors priors;
  for (const Field& field : kFields) {
    const auto found = numbers.find(field.name);
    if (found == numbers.end() || !std::isfinite(found->second) || found->second <= 0) continue;
    priors.*field.value = field.learned ? Clamped(field.value, found->second) : found->second;
  }
  return priors;
}

Status CheckMaintenanceOptions(const MaintenanceOptions& options) {
  const auto check = [](const MaintenanceBudget& budget, const std::string& name) -> Status {
    if (budget.bytes < 0 || budget.commits < 0 || !std::isfinite(budget.seconds) ||
        budget.seconds < 0) {
      return Fail(Code::kInvalid, "a budget must be at least 0 (0: no bound)", name);
    }
    return {};
  };
  LITHIFY_TRY(check(options.per_run, "per_run"));
  LITHIFY_TRY(check(options.per_namespace, "per_namespace"));
  for (const auto& [name, budget] : options.of_namespace) {
    LITHIFY_TRY(check(budget, "budget of namespace " + name));
  }
  if (!std::isfinite(options.threshold) || options.threshold <= 0) {
    return Fail(Code::kInvalid, "must be above 0: seconds saved per second spent", "threshold");
  }
  if (!std::isfinite(options.overdue_days) || options.overdue_days < 0) {
    return Fail(Code::kInvalid, "must be at least 0", "overdue_days");
  }
  if (!(options.overdue_share >= 0 && options.overdue_share <= 1)) {
    return Fail(Code::kInvalid, "must be between 0 and 1", "overdue_share");
  }
  if (options.model.threads < 1 || options.model.partitions_at_once < 1) {
    return Fail(Code::kInvalid, "threads and partitions at once must be at least 1", "model");
  }
  return {};
}

MaintenancePlan PlanMaintenance(const std::vector<MaintenanceCandidate>& candidates,
                                const MaintenanceOptions& options,
                                const MaintenancePriors& priors) {
  return Ranking(candidates, options, priors).Plan();
}

// A read that looks for few keys opened those files alone that may have them, and may even open
// more afterwards: an output reaches from the least key of its inputs to the greatest.
double FilesSavedPerRead(const MaintenanceCandidate& candidate, const MaintenancePriors& priors) {
  const auto all =
      static_cast<double>(NotNegative(candidate.files_in - NotNegative(candidate.outputs)));
  if (!candidate.files_per_key) return all;
  const double few =
      NotNegative(candidate.files_per_key->before) - NotNegative(candidate.files_per_key->after);
  const double share = std::min(NotNegative(priors.selective_share), 1.0);
  return NotNegative((1 - share) * all + share * few);
}

double PredictedComputeSeconds(const MaintenancePriors& priors, const MaintenanceOutcome& outcome) {
  return EstimateSeconds({.partitions = NotNegative(outcome.partitions),
                          .files = NotNegative(outcome.files),
                          .bytes = NotNegative(outcome.bytes)},
                         RatesOf(priors, CostModel{})) +
         priors.seconds_per_commit;
}

double PredictedSavedPerRead(const MaintenancePriors& priors, const MaintenanceOutcome& outcome) {
  return SavedPerRead(priors, static_cast<double>(NotNegative(outcome.files_removed)),
                      static_cast<double>(NotNegative(outcome.delete_rows_removed)),
                      static_cast<double>(NotNegative(outcome.delete_files_removed)));
}

MaintenancePriors Calibrate(const MaintenancePriors& priors, const MaintenanceOutcome& outcome) {
  if (outcome.result == MaintenanceOutcome::Result::kFailed) return priors;
  MaintenancePriors learned = priors;
  // The first outcomes weigh more; later ones still move a rate that changes.
  const double step = std::clamp(2 / (NotNegative(priors.outcomes) + 4), 0.05, 0.5);
  if (outcome.result == MaintenanceOutcome::Result::kOverran) {
    if (outcome.compute_seconds > PredictedComputeSeconds(priors, outcome)) {
      Learn(learned, ComputeParts(outcome), outcome.compute_seconds, step);
      learned.outcomes = NotNegative(priors.outcomes) + 1;
    }
    return learned;
  }
  Learn(learned, ComputeParts(outcome), outcome.compute_seconds, step);
  LearnConflicts(learned, outcome, step);
  if (outcome.saved_per_read) {
    Learn(learned, ReadParts(outcome), *outcome.saved_per_read, step);
  }
  const double predicted = NotNegative(outcome.predicted_reads);
  if (outcome.actual_reads && predicted > 0) {
    // One read more on both sides: no reads at all is no infinite error.
    const double ratio = (NotNegative(*outcome.actual_reads) + 1) / (predicted + 1);
    Learn(learned, {{&MaintenancePriors::reads_factor, 1.0}}, learned.reads_factor * ratio, step);
  }
  learned.outcomes = NotNegative(priors.outcomes) + 1;
  return learned;
}

std::vector<MaintenanceCandidate> CandidatesOf(const std::string& name_space,
                                               const std::string& table, const RewritePlan& plan,
                                               const iceberg::LiveSet& live,
                                               const iceberg::DeleteIndex& deletes,
                                               const RewriteOptions& options,
                                               const std::vector<std::string>& names) {
  std::map<int32_t, MaintenanceCandidate> by_partition;
  const auto at = [&](int32_t partition) -> MaintenanceCandidate& {
    MaintenanceCandidate& candidate = by_partition[partition];
    candidate.name_space = name_space;
    candidate.table = table;
    candidate.partition = NameOf(names, static_cast<size_t>(partition));
    return candidate;
  };
  std::map<int32_t, std::optional<FilesPerKey>> told;  // By the planner of a sort.
  for (const PartitionVerdict& verdict : plan.partitions) {
    at(verdict.partition).planner_reason =
        verdict.reason.empty() ? std::string(PartitionStateName(verdict.state)) : verdict.reason;
    told[verdict.partition] = verdict.files_per_key;
  }
  std::map<int32_t, std::set<int32_t>> delete_files;
  for (const FileGroup& group : plan.groups) {
    MaintenanceCandidate& candidate = at(group.partition);
    candidate.files_in += std::ssize(group.data_files);
    candidate.bytes_in += group.bytes;
    candidate.rows += group.records;
    candidate.outputs += group.live_records > 0 || group.moves ? group.outputs : 0;
    candidate.planner_reason = group.reason;
    const int64_t deletes_before = candidate.delete_rows;
    for (const int32_t file : group.data_files) {
      for (const int32_t found : deletes.AppliesTo(file)) {
        candidate.delete_rows += NotNegative(live.delete_files[static_cast<size_t>(found)].records);
        delete_files[group.partition].insert(found);
      }
    }
    // The size from which a file is good: files between it and the target stay as they are.
    const int64_t good = options.min_file_size_bytes > 0 ? options.min_file_size_bytes
                                                         : options.target_file_size_bytes / 4 * 3;
    if (candidate.delete_rows > deletes_before || group.bytes / std::max(group.outputs, 1) < good) {
      candidate.again_bytes += group.bytes;
    }
  }
  const KeyedPartitions keyed(plan, live);
  std::vector<MaintenanceCandidate> candidates;
  for (auto& [partition, candidate] : by_partition) {
    const auto found = delete_files.find(partition);
    if (found != delete_files.end()) candidate.delete_files = std::ssize(found->second);
    if (told[partition]) {
      candidate.files_per_key = told[partition];
    } else if (candidate.files_in > 0 && live.key_ranges.size() == live.data_files.size()) {
      candidate.files_per_key = keyed.Of(partition);
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

MaintenanceCandidate CandidateOf(const std::string& name_space, const std::string& table,
                                 const std::string& partition, const PartitionPlan& plan,
                                 const HiveOptions& options) {
  MaintenanceCandidate candidate;
  candidate.name_space = name_space;
  candidate.table = table;
  candidate.partition = partition;
  candidate.planner_reason = plan.reason;
  if (plan.verdict != Verdict::kCandidate) return candidate;
  candidate.files_in = std::ssize(plan.inputs);
  candidate.bytes_in = plan.bytes_in;
  candidate.outputs = plan.outputs;
  if (plan.bytes_in / std::max(plan.outputs, 1) < options.file_bytes_min) {
    candidate.again_bytes = plan.bytes_in;
  }
  return candidate;
}

}  // namespace lithify::plan
