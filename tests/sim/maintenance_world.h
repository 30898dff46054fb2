// A fleet of tables that are written, read and compacted for some months, to see what a rule of
// "what first" is worth. Everything that does not depend on the rule (writes, reads, their true
// costs, conflicts) is a function of the seed, the table and the day, so all rules live in the same
// world, and the difference between two runs is theirs alone.
//
// A day: maintenance with a fixed budget of compute seconds, writes, queries. A rule sees what a
// planner could see (Sight); only the oracle looks at the Fleet itself.
#ifndef LITHIFY_TESTS_SIM_MAINTENANCE_WORLD_H_
#define LITHIFY_TESTS_SIM_MAINTENANCE_WORLD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lithify::sim {

struct FleetShape {
  uint64_t seed = 1;
  int tables = 10'000;
  int days = 90;       // With maintenance.
  int tail_days = 30;  // Queries alone, after it: what the last runs did pays back, too.
  // Compute seconds of a day, as a share of what it takes to rewrite all that a day writes.
  double budget_share = 0.25;
  double log_share = 0.85;  // Of tables whose queries a log sees.
  double sorted_share = 0;  // Of tables by whose sort key some of the queries look.
};

enum class Writer { kStreaming, kBatch, kDormant, kUpsert };

// What nobody sees whole.
struct TableTruth {
  Writer writer = Writer::kBatch;
  bool logged = true;
  int period_days = 1;     // Of a partition; 0: not by time.
  int buckets = 1;         // Partitions that are not by time.
  int retention_days = 0;  // 0: none.
  double files_per_day = 0;
  double bytes_per_day = 0;
  double file_noise = 0;  // Standard deviations of logarithms.
  double commits_per_hour = 0;
  double conflicts_per_hour = 0;  // That would break a rewrite of a partition that is written to.
  double delete_rows_per_day = 0;
  double delete_files_per_day = 0;
  double late_share = 0;      // Of days on which files arrive late.
  double compute_factor = 1;  // Of its bytes: codecs, widths.
  double open_factor = 1;     // Of its readers.
  // By the sort key: so many of its queries look by it, and so much of all keys each file reaches
  // over. A query by key opens 1 + key_spread * (files - 1) of them.
  bool sorted = false;
  double selective_share = 0;
  double key_spread = 1;
  // Of the files of a partition, those that the average query opens.
  double opened_share() const { return 1 - selective_share * (1 - key_spread); }
  // Of all queries this share reads everything, the others what is new: exp(-age / recency_days) of
  // them a partition of that age.
  double full_share = 1;
  double recency_days = 1;
  // By day, with one more: how many, how many from then on, and the same with exp(-days to come /
  // recency_days) as the weight.
  std::vector<double> queries;
  std::vector<double> queries_from;
  std::vector<double> decayed_from;
};

struct TrueCosts {
  double seconds_per_byte = 0;
  double seconds_per_file = 0;
  double seconds_per_partition = 0;
  double seconds_per_commit = 0;
  double read_seconds_per_file = 0;
  double read_seconds_per_delete_row = 0;
  double read_seconds_per_delete_file = 0;
  double read_seconds_per_byte = 0;
};

struct Fleet {
  FleetShape shape;
  TrueCosts costs;
  std::vector<TableTruth> tables;
  double budget_per_day = 0;
  double work_bytes_max = 0;  // Of one partition in a run.
};
Fleet MakeFleet(const FleetShape& shape);

// A partition as one rule has made it.
struct Part {
  int32_t table = 0;
  int32_t number = 0;
  int32_t first_day = 0;  // May be before day 0.
  int32_t last_day = 0;   // Writers come until then, but for late files; huge: for ever.
  double small_files = 0;
  double small_bytes = 0;
  double good_files = 0;
  double good_bytes = 0;
  double rows = 0;
  double delete_rows = 0;
  double delete_files = 0;
  int32_t last_write = -1000;
  int32_t last_compaction = -1000;
  int32_t candidate_since = -1;
  // The last rewrite: what it cost, and what it saved so far.
  double spent = 0;
  double paid_back = 0;
  double saves_per_read = 0;
  int32_t worth_since = -1;  // By the truth.
  bool gone = false;
};

// What the planner of the rewrite would do to a partition: no more than `bytes_max` in one run, the
// rest in the next ones (RewriteOptions::budget_bytes). The deletes of a file go with it.
struct Work {
  double share = 0;  // Of the partition's files that are candidates.
  double files = 0;
  double bytes = 0;
  double outputs = 0;
  double delete_rows = 0;
  double delete_files = 0;
  double again_bytes = 0;  // As plan::MaintenanceCandidate has it.
  bool all = false;        // With the good files: deletes are applied.
};
Work PlannedWork(const Part& part, double bytes_max);

// A candidate as anybody can see it.
struct Sight {
  int32_t part = 0;  // Index of the partition, for Job.
  int32_t table = 0;
  int32_t number = 0;
  Work work;
  double rows = 0;
  double reads = 0;
  double read_days = 0;        // 0: no log.
  double read_life_days = -1;  // As plan::MaintenanceCandidate has it; < 0: unknown.
  double commits_per_hour = 0;
  double append_share = 0;
  double files_per_hour = 0;
  double seconds_since_write = 0;
  double seconds_since_compaction = -1;  // < 0: never.
  double seconds_to_expiry = -1;         // < 0: never.
  double waiting_seconds = 0;
  double partition_age_days = 0;
  double files_per_key = 0;  // 0: there is no sort order.
  double files_per_key_after = 0;
};

// One commit; all of one table.
struct Job {
  std::vector<int32_t> parts;  // Indices as in Sight::part.
};

struct Done {
  const Job* job = nullptr;
  bool conflict = false;
  double files = 0;
  double bytes = 0;
  double compute_seconds = 0;
  double wall_seconds = 0;
  double files_removed = 0;
  double delete_rows_removed = 0;
  double delete_files_removed = 0;
  double saved_per_read = -1;  // As measured; < 0: nobody measures this table.
};

class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string Name() const = 0;
  virtual bool ReadsLog() const { return false; }  // Else Sight::reads is left out.
  // Jobs in the order to run them. They run while there is budget left; the last one may overdraw
  // it, at the cost of the next day.
  virtual std::vector<Job> Choose(const std::vector<Sight>& sights, const std::vector<Part>& parts,
                                  int day, double budget_seconds) = 0;
  virtual void Learn(const Done& /*done*/) {}
};

struct FleetReport {
  std::string rule;
  double query_seconds = 0;
  double saved = 0;    // Against no maintenance at all.
  double compute = 0;  // Seconds spent.
  double lost_to_conflicts = 0;
  double not_paid_back = 0;  // Spent on rewrites that saved less than they cost.
  int64_t jobs = 0;
  int64_t conflicts = 0;
  int64_t rewrites = 0;  // Of partitions.
  // Days that a partition was worth ten times its cost by the truth, and not rewritten.
  double longest_wait = 0;
  double wait_p99 = 0;
  double seconds_saved_per_second() const { return compute > 0 ? saved / compute : 0; }
  double wasted_share() const {
    return compute > 0 ? (lost_to_conflicts + not_paid_back) / compute : 0;
  }
};

// `none` is the report of no maintenance, or nullptr for that one itself.
FleetReport RunFleet(const Fleet& fleet, Rule& rule, const FleetReport* none);

// The truth of one candidate, for the oracle and for the waits.
struct Truth {
  double seconds = 0;  // Of work, without the commit.
  double saved_per_read = 0;
  double reads = 0;  // From this day to expiry or the end.
  double conflicts_per_hour = 0;
};
Truth TruthOf(const Fleet& fleet, const Part& part, const Work& work, int day);
double TrueReads(const Fleet& fleet, const Part& part, int day);
double FutureReads(const Fleet& fleet, const Part& part, int day);
// What a query log saw of it in [from, to): a count with the noise of chance.
double LoggedReads(const Fleet& fleet, const Part& part, int from, int to);

// Uniform in [0, 1), and standard normal, of anything that identifies a draw.
double Uniform(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
double Normal(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_MAINTENANCE_WORLD_H_
