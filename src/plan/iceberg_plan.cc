#include "plan/iceberg_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "base/order_mark.h"
#include "base/order_text.h"
#include "base/text.h"
#include "plan/sort_plan.h"

namespace lithify::plan {
namespace {

using iceberg::DeleteIndex;
using iceberg::LiveDataFile;
using iceberg::LiveDeleteFile;
using iceberg::LiveSet;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kTargetMost = int64_t{1} << 50;  // 1 PiB: sums of a few sizes never overflow.
constexpr double kMinShare = 0.75;
constexpr double kMaxShare = 1.8;
constexpr size_t kOpenBins = 16;  // How far first-fit looks back.

// Sizes come from metadata that may be damaged: sums stop at the largest number.
int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}

std::string Files(int64_t n) { return FormatCount(n) + (n == 1 ? " file" : " files"); }

// What metadata tells of the deletes of one data file.
struct DeleteFacts {
  int64_t files = 0;
  int64_t known_rows = 0;  // Deleted by what reaches this file only.
  std::string_view unsupported;
};

struct Candidate {
  int32_t file = 0;
  int64_t size = 0;
  int64_t live_size = 0;  // Without the share of rows that are known to be deleted.
  int64_t records = 0;
  int64_t live_records = 0;
  bool small = false;
  bool delete_heavy = false;
  bool oversized = false;
};

// A group in the making.
struct Bin {
  std::vector<const Candidate*> files;
  int64_t size = 0;
  int64_t live_size = 0;
  int64_t records = 0;
  bool delete_heavy = false;

  void Take(const Candidate& candidate) {
    files.push_back(&candidate);
    size = Add(size, candidate.size);
    live_size = Add(live_size, candidate.live_size);
    records = Add(records, candidate.records);
    delete_heavy = delete_heavy || candidate.delete_heavy;
  }
  int64_t count() const { return static_cast<int64_t>(files.size()); }
};

// The candidates of one partition.
struct Sorted {
  std::vector<Candidate> core;       // What a group is made for.
  std::vector<Candidate> oversized;  // May join one.
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t matching = 0;
  int64_t rewritable = 0;  // Of the matching ones.
  std::string_view unsupported;
};

class Planner {
 public:
  Planner(const LiveSet& live, const DeleteIndex& deletes, const RewriteOptions& options)
      : live_(live), deletes_(deletes), options_(options), sizes_(SizesOf(options)) {
    group_bytes_max_ = options.max_file_group_size_bytes;
    if (options.sort) order_digits_ = OrderDigits(options.sort->order);
    // Groups that are cut for the budget fit it, so that one run after the other gets somewhere.
    if (options.budget_bytes > 0) {
      group_bytes_max_ = std::min(group_bytes_max_, std::max(options.budget_bytes, sizes_.target));
    }
  }

  RewritePlan Plan() {
    const std::vector<int32_t> by_partition = SortByPartition();
    for (size_t begin = 0; begin < by_partition.size();) {
      const int32_t partition = FileAt(by_partition[begin]).partition;
      size_t end = begin;
      while (end < by_partition.size() && FileAt(by_partition[end]).partition == partition) ++end;
      const auto files = std::span(by_partition).subspan(begin, end - begin);
      if (Moves(partition)) {
        CollectMoves(partition, files);
      } else if (options_.sort) {
        PlanSorted(partition, files);
      } else {
        PlanPartition(partition, files);
      }
      begin = end;
    }
    PlanMoves();
    OrderGroups();
    ApplyBudget();
    if (plan_.groups.empty()) plan_.skip_reason = SkipReason();
    TellWhyUnsorted();
    return std::move(plan_);
  }

  // Of all files that the plan looked at.
  int64_t delete_heavy_files() const { return delete_heavy_files_; }

 private:
  const LiveDataFile& FileAt(int32_t file) const {
    return live_.data_files[static_cast<size_t>(file)];
  }

  const iceberg::PartitionKey& KeyOf(int32_t partition) const {
    return live_.partitions[static_cast<size_t>(partition)];
  }

  bool Moves(int32_t partition) const {
    return options_.output_spec_id && KeyOf(partition).spec_id != *options_.output_spec_id;
  }

  bool IsHot(int32_t partition) const {
    return std::ranges::find(options_.skip_partitions, KeyOf(partition)) !=
           options_.skip_partitions.end();
  }

  bool IsAskedFor(int32_t partition) const {
    return !options_.only_partitions ||
           std::ranges::find(*options_.only_partitions, KeyOf(partition)) !=
               options_.only_partitions->end();
  }

  // What there is to gain in a partition is left, whatever it is.
  bool Skip(int32_t partition, PartitionVerdict& verdict) {
    if (!IsAskedFor(partition)) {
      verdict.reason = "not one of the partitions that were asked for";
    } else if (IsHot(partition)) {
      verdict.reason = "other writers change it all the time: left for a later run";
      ++skipped_;
    } else {
      return false;
    }
    verdict.state = PartitionState::kSkipped;
    return true;
  }

  // By age: rows that were written together stay together, which keeps column bounds narrow.
  bool IsOlder(const Candidate& a, const Candidate& b) const {
    const LiveDataFile& x = FileAt(a.file);
    const LiveDataFile& y = FileAt(b.file);
    return std::tie(x.sequence_number, x.path, a.file) <
           std::tie(y.sequence_number, y.path, b.file);
  }

  // File numbers, those of a partition together and in the order of the live set.
  std::vector<int32_t> SortByPartition() const {
    std::vector<int32_t> next(live_.partitions.size() + 1, 0);
    for (const LiveDataFile& file : live_.data_files) {
      LITHIFY_CHECK(
          file.partition >= 0 && static_cast<size_t>(file.partition) < live_.partitions.size(),
          "a live file has a partition");
      ++next[static_cast<size_t>(file.partition) + 1];
    }
    for (size_t p = 1; p < next.size(); ++p) next[p] += next[p - 1];
    std::vector<int32_t> sorted(live_.data_files.size());
    for (size_t i = 0; i < live_.data_files.size(); ++i) {
      int32_t& at = next[static_cast<size_t>(live_.data_files[i].partition)];
      sorted[static_cast<size_t>(at++)] = static_cast<int32_t>(i);
    }
    return sorted;
  }

  DeleteFacts DeletesOf(int32_t file) const {
    DeleteFacts facts;
    if (live_.delete_files.empty()) return facts;
    for (const int32_t at : deletes_.AppliesTo(file)) {
      const LiveDeleteFile& deletes = live_.delete_files[static_cast<size_t>(at)];
      ++facts.files;
      if (!deletes.unsupported.empty()) facts.unsupported = deletes.unsupported;
      if (deletes.content == iceberg::FileContent::kPositionDeletes &&
          (deletes.deletion_vector || deletes.referenced_data_file == FileAt(file).path)) {
        facts.known_rows = Add(facts.known_rows, std::max<int64_t>(deletes.records, 0));
      }
    }
    return facts;
  }

  // Two delete files may name the same row (T13): what is known is an upper bound, so not more
  // than all rows.
  Candidate Measure(int32_t file, const DeleteFacts& deletes) const {
    const LiveDataFile& data = FileAt(file);
    Candidate candidate;
    candidate.file = file;
    candidate.size = std::max<int64_t>(data.size, 0);
    candidate.records = std::max<int64_t>(data.records, 0);
    const int64_t deleted = std::min(deletes.known_rows, candidate.records);
    candidate.live_records = candidate.records - deleted;
    candidate.live_size = candidate.size;
    if (deleted > 0) {
      const double share =
          static_cast<double>(candidate.live_records) / static_cast<double>(candidate.records);
      candidate.live_size = std::min(
          candidate.size, static_cast<int64_t>(static_cast<double>(candidate.size) * share));
      candidate.delete_heavy =
          options_.delete_ratio_threshold > 0 &&
          static_cast<double>(deleted) >=
              options_.delete_ratio_threshold * static_cast<double>(candidate.records);
    }
    if (options_.delete_file_threshold > 0 && deletes.files >= options_.delete_file_threshold) {
      candidate.delete_heavy = true;
    }
    candidate.small = candidate.size < sizes_.min;
    candidate.oversized = candidate.size > sizes_.max;
    return candidate;
  }

  // `all`: whatever their size.
  Sorted SortCandidates(std::span<const int32_t> files, bool all) {
    Sorted sorted;
    for (const int32_t file : files) {
      const LiveDataFile& data = FileAt(file);
      ++sorted.files;
      sorted.bytes = Add(sorted.bytes, std::max<int64_t>(data.size, 0));
      if (!data.may_match) continue;
      ++sorted.matching;
      const DeleteFacts deletes = DeletesOf(file);
      // A row that a delete removes which nobody here can read would come back (R094).
      const std::string_view unsupported =
          data.unsupported.empty() ? deletes.unsupported : data.unsupported;
      if (!unsupported.empty()) {
        ++plan_.unsupported[std::string(unsupported)];
        sorted.unsupported = unsupported;
        continue;
      }
      ++sorted.rewritable;
      const Candidate candidate = Measure(file, deletes);
      delete_heavy_files_ += candidate.delete_heavy;
      if (candidate.small || candidate.delete_heavy || all) {
        sorted.core.push_back(candidate);
      } else if (candidate.oversized) {
        sorted.oversized.push_back(candidate);
      }
    }
    std::ranges::sort(sorted.core,
                      [this](const Candidate& a, const Candidate& b) { return IsOlder(a, b); });
    return sorted;
  }

  bool Fits(const Bin& bin, const Candidate& candidate, int64_t records_max) const {
    return bin.count() < options_.max_file_group_files &&
           Add(bin.size, candidate.size) <= group_bytes_max_ &&
           Add(bin.records, candidate.records) <= records_max;
  }

  double Fullness(const Bin& bin, int64_t records_max) const {
    const auto share = [](int64_t part, int64_t whole) {
      return static_cast<double>(part) / static_cast<double>(whole);
    };
    return std::max({share(bin.size, group_bytes_max_), share(bin.records, records_max),
                     share(bin.count(), options_.max_file_group_files)});
  }

  // First-fit: no two groups would fit into one, so at most one of them can be left small. Of many
  // open ones the fullest is closed.
  std::vector<Bin> Pack(const std::vector<Candidate>& core, int64_t records_max) const {
    std::vector<Bin> bins;
    std::vector<size_t> open;
    for (const Candidate& candidate : core) {
      const auto fit = std::ranges::find_if(
          open, [&](size_t bin) { return Fits(bins[bin], candidate, records_max); });
      if (fit != open.end()) {
        bins[*fit].Take(candidate);
        continue;
      }
      if (open.size() == kOpenBins) {
        open.erase(std::ranges::max_element(
            open, {}, [&](size_t bin) { return Fullness(bins[bin], records_max); }));
      }
      open.push_back(bins.size());
      bins.emplace_back().Take(candidate);
    }
    return bins;
  }

  // nullopt: the group is worth its rewrite.
  std::optional<PartitionState> Refuse(const Bin& bin) const {
    if (options_.rewrite_all || bin.delete_heavy) return std::nullopt;
    const bool enough = bin.count() >= options_.min_input_files || bin.live_size > sizes_.target;
    if (bin.count() > 1 && !enough) return PartitionState::kTooFewFiles;
    if (bin.count() == 1) {
      return options_.min_input_files > 1 ? PartitionState::kTooFewFiles
                                          : PartitionState::kNothingToGain;
    }
    if (sizes_.Outputs(WithReserve(bin.live_size)) >= bin.count()) {
      return PartitionState::kNothingToGain;
    }
    return std::nullopt;
  }

  // An oversized file alone could only become more files. Together with small ones it may be split,
  // as long as there are fewer files afterwards.
  void JoinOversized(std::vector<Candidate>& oversized, std::vector<Bin>& kept) const {
    std::ranges::sort(oversized, {}, [](const Candidate& c) { return std::pair(c.size, c.file); });
    for (const Candidate& candidate : oversized) {
      const auto bin = std::ranges::find_if(kept, [&](const Bin& b) {
        return Fits(b, candidate, options_.max_file_group_records) &&
               sizes_.Outputs(Add(b.live_size, candidate.live_size)) < b.count() + 1;
      });
      if (bin == kept.end()) return;  // Larger ones need even more outputs.
      bin->Take(candidate);
    }
  }

  FileGroup MakeGroup(int32_t partition, const Bin& bin) const {
    FileGroup group;
    group.partition = partition;
    int64_t small = 0;
    int64_t heavy = 0;
    int64_t oversized = 0;
    for (const Candidate* candidate : bin.files) {
      group.data_files.push_back(candidate->file);
      group.live_records = Add(group.live_records, candidate->live_records);
      heavy += candidate->delete_heavy;
      small += !candidate->delete_heavy && candidate->small;
      oversized += !candidate->delete_heavy && candidate->oversized;
    }
    group.bytes = bin.size;
    group.records = bin.records;
    group.outputs = static_cast<int>(std::min(sizes_.Outputs(bin.live_size), bin.count()));
    std::string why;
    const auto tell = [&why](int64_t n, const std::string& what) {
      if (n > 0) why += (why.empty() ? "" : ", ") + Files(n) + " " + what;
    };
    tell(small, "below " + FormatBytes(sizes_.min));
    tell(heavy, "with many deletes");
    tell(oversized, "above " + FormatBytes(sizes_.max));
    tell(bin.count() - small - heavy - oversized, "of good size (rewrite_all)");
    group.reason = why + ": " + FormatBytes(group.bytes) + " become " + Files(group.outputs);
    return group;
  }

  void PlanPartition(int32_t partition, std::span<const int32_t> files) {
    Sorted sorted = SortCandidates(files, options_.rewrite_all);
    PartitionVerdict verdict = MakeVerdict(partition, sorted);
    std::vector<Bin> kept;
    bool too_few = false;
    for (Bin& bin : Pack(sorted.core, options_.max_file_group_records)) {
      const std::optional<PartitionState> refused = Refuse(bin);
      too_few = too_few || refused == PartitionState::kTooFewFiles;
      if (!refused) kept.push_back(std::move(bin));
    }
    JoinOversized(sorted.oversized, kept);
    for (Bin& bin : kept) {
      std::ranges::sort(bin.files,
                        [this](const Candidate* a, const Candidate* b) { return IsOlder(*a, *b); });
    }
    if (!kept.empty()) {
      Keep(partition, kept, verdict);
    } else {
      Explain(sorted, too_few, verdict);
    }
    plan_.partitions.push_back(std::move(verdict));
  }

  // --- sorting ---

  SortRules MakeSortRules() const {
    SortRules rules{.sizes = sizes_,
                    .min_input_files = options_.min_input_files,
                    .min_overlap_depth = options_.min_overlap_depth,
                    .rewrite_all = options_.rewrite_all,
                    .ranges = options_.sort->ranges,
                    .group_bytes_max = group_bytes_max_,
                    .group_files_max = options_.max_file_group_files,
                    .group_records_max = std::min(options_.max_file_group_records,
                                                  options_.max_sorted_group_records)};
    const OrderField& first = FirstField();
    rules.nulls_low = first.nulls_first == first.ascending;
    return rules;
  }

  const iceberg::KeyRange* KeysOf(int32_t file) const {
    return live_.key_ranges.size() == live_.data_files.size()
               ? &live_.key_ranges[static_cast<size_t>(file)]
               : nullptr;
  }

  SortFile MakeSortFile(const Candidate& candidate, bool touchable) const {
    const LiveDataFile& data = FileAt(candidate.file);
    SortFile file{.size = candidate.size,
                  .live_size = candidate.live_size,
                  .records = candidate.records,
                  .touchable = touchable,
                  .small = candidate.small,
                  .delete_heavy = candidate.delete_heavy,
                  .keys = KeysOf(candidate.file)};
    const std::optional<OrderMark> mark = ReadOrderMark(data.path);
    const bool marked = mark && mark->order == order_digits_;
    if (marked) file.run = mark->run;
    // Of an order of the table the stamp tells, whoever wrote it. Of others nothing does but our
    // own mark; where bounds tell which files share keys, that is all that counts then.
    const std::optional<int>& id = options_.sort->sort_order_id;
    if (id) {
      file.stale = data.sort_order_id != id;
    } else {
      file.stale = !options_.sort->ranges && !marked;
    }
    return file;
  }

  // The partition's files, oldest first, with those that stay.
  std::vector<SortFile> MeasureAll(std::span<const int32_t> files, Sorted& sorted,
                                   std::vector<Candidate>& all) {
    for (const int32_t file : files) all.push_back(Measure(file, DeletesOf(file)));
    std::ranges::sort(all,
                      [this](const Candidate& a, const Candidate& b) { return IsOlder(a, b); });
    std::vector<SortFile> out;
    for (const Candidate& candidate : all) {
      const LiveDataFile& data = FileAt(candidate.file);
      ++sorted.files;
      sorted.bytes = Add(sorted.bytes, candidate.size);
      bool stays = !data.may_match;
      if (!stays) {
        ++sorted.matching;
        const std::string_view unsupported =
            data.unsupported.empty() ? DeletesOf(candidate.file).unsupported : data.unsupported;
        if (!unsupported.empty()) {
          ++plan_.unsupported[std::string(unsupported)];
          sorted.unsupported = unsupported;
          stays = true;
        }
      }
      if (!stays) {
        ++sorted.rewritable;
        delete_heavy_files_ += candidate.delete_heavy;
      }
      out.push_back(MakeSortFile(candidate, !stays));
    }
    return out;
  }

  void PlanSorted(int32_t partition, std::span<const int32_t> files) {
    Sorted sorted;
    std::vector<Candidate> all;
    const std::vector<SortFile> sort_files = MeasureAll(files, sorted, all);
    PartitionVerdict verdict = MakeVerdict(partition, sorted);
    const SortedPartition plan = PlanSortedPartition(sort_files, MakeSortRules());
    if (plan.groups.empty()) {
      ExplainSorted(sorted, plan, verdict);
    } else if (!Skip(partition, verdict)) {
      verdict.state = PartitionState::kCandidate;
      bool cut = false;
      for (const SortGroup& group : plan.groups) {
        plan_.groups.push_back(MakeSortedGroup(partition, group, sort_files, all));
        cut = cut || group.cut;
      }
      verdict.reason = std::ssize(plan.groups) == 1
                           ? "1 group"
                           : FormatCount(std::ssize(plan.groups)) + " groups";
      verdict.reason += ", " + DepthText(plan);
      if (cut) verdict.reason += "; cut where a group is full: the next run goes on";
    }
    verdict.files_per_key = plan.by_runs ? FilesPerKeyByRuns(sort_files, plan, verdict.state)
                                         : FilesPerKeyIn(all, plan, verdict.state);
    plan_.partitions.push_back(std::move(verdict));
  }

  // Void ones order nothing.
  const OrderField& FirstField() const {
    const std::vector<OrderField>& fields = options_.sort->order.fields;
    const auto first = std::ranges::find_if(
        fields, [](const OrderField& field) { return field.transform != "void"; });
    return first == fields.end() ? fields.front() : *first;
  }
  const std::string& KeyName() const { return FirstField().column; }

  std::string DepthText(const SortedPartition& plan) const {
    if (plan.by_runs) {
      return plan.depth == 1 ? "all of one sort" : "of " + FormatCount(plan.depth) + " sorts";
    }
    return plan.depth == 1 ? "no two files share a " + KeyName()
                           : "up to " + Files(plan.depth) + " share a " + KeyName();
  }

  std::optional<FilesPerKey> FilesPerKeyIn(const std::vector<Candidate>& all,
                                           const SortedPartition& plan,
                                           PartitionState state) const {
    if (!options_.sort->ranges || all.empty() || KeysOf(all.front().file) == nullptr) {
      return std::nullopt;
    }
    std::vector<KeyedFile> files;
    for (const Candidate& candidate : all) {
      files.push_back({KeysOf(candidate.file), candidate.records, candidate.size});
    }
    std::vector<KeyedMerge> merges;
    if (state == PartitionState::kCandidate) {
      for (const SortGroup& group : plan.groups) {
        merges.push_back({.files = group.files, .outputs = 1, .sorted = true});
      }
    }
    return FilesPerKeyOf(files, merges);
  }

  // Of n files that one sort wrote along a curve through d columns, a read by one of them opens
  // about n^((d-1)/d): the curve gives each column the same share. Others are all opened.
  double OpenedOf(double files) const {
    const double columns = options_.sort->order.curve == Curve::kNone
                               ? 1.0
                               : static_cast<double>(options_.sort->order.fields.size());
    return files > 0 ? std::pow(files, (columns - 1) / columns) : 0;
  }

  std::optional<FilesPerKey> FilesPerKeyByRuns(const std::vector<SortFile>& files,
                                               const SortedPartition& plan,
                                               PartitionState state) const {
    if (files.empty()) return std::nullopt;
    std::vector<bool> moves(files.size(), false);
    FilesPerKey out;
    if (state == PartitionState::kCandidate) {
      for (const SortGroup& group : plan.groups) {
        int64_t bytes = 0;
        for (const size_t at : group.files) {
          moves[at] = true;
          bytes = Add(bytes, files[at].live_size);
        }
        out.after += OpenedOf(static_cast<double>(
            std::min(sizes_.Outputs(bytes), static_cast<int64_t>(group.files.size()))));
      }
    }
    std::map<std::string_view, std::pair<double, double>> runs;  // Files before, and of them after.
    for (size_t i = 0; i < files.size(); ++i) {
      const double stays = moves[i] ? 0 : 1;
      if (files[i].run.empty()) {
        out.before += 1;
        out.after += stays;
      } else {
        runs[files[i].run].first += 1;
        runs[files[i].run].second += stays;
      }
    }
    for (const auto& [run, count] : runs) {
      out.before += OpenedOf(count.first);
      out.after += OpenedOf(count.second);
    }
    return out;
  }

  FileGroup MakeSortedGroup(int32_t partition, const SortGroup& group,
                            const std::vector<SortFile>& files,
                            const std::vector<Candidate>& all) const {
    FileGroup out;
    out.partition = partition;
    out.sorted = true;
    int64_t live_bytes = 0;
    int64_t small = 0;
    int64_t heavy = 0;
    int64_t stale = 0;
    for (const size_t at : group.files) {
      const Candidate& candidate = all[at];
      out.data_files.push_back(candidate.file);
      out.bytes = Add(out.bytes, candidate.size);
      out.records = Add(out.records, candidate.records);
      out.live_records = Add(out.live_records, candidate.live_records);
      live_bytes = Add(live_bytes, candidate.live_size);
      small += candidate.small;
      heavy += candidate.delete_heavy;
      stale += files[at].stale;
    }
    const int64_t count = std::ssize(out.data_files);
    out.outputs = static_cast<int>(std::min(sizes_.Outputs(live_bytes), count));
    std::string why;
    const auto tell = [&why](int64_t n, const std::string& what) {
      if (n > 0) why += (why.empty() ? "" : ", ") + Files(n) + " " + what;
    };
    if (options_.sort->ranges && group.depth > 1) {
      tell(group.overlapping, "that share a " + KeyName() + " with others (up to " +
                                  FormatCount(group.depth) + " at a time)");
    } else if (group.depth > 1) {
      why = "of " + FormatCount(group.depth) + " sorts";
    }
    tell(stale, "not known to be in the order " + RowOrderText(options_.sort->order));
    tell(small, "below " + FormatBytes(sizes_.min));
    tell(heavy, "with many deletes");
    if (why.empty()) tell(count, "in order (rewrite_all)");
    out.reason =
        Files(count) + ": " + why + ": " + FormatBytes(out.bytes) + " become " + Files(out.outputs);
    return out;
  }

  void ExplainSorted(const Sorted& sorted, const SortedPartition& plan,
                     PartitionVerdict& verdict) const {
    if (sorted.matching == 0) {
      verdict.state = PartitionState::kFiltered;
      verdict.reason = "no file may match the filter";
    } else if (sorted.rewritable == 0) {
      verdict.state = PartitionState::kUnsupported;
      verdict.reason = "no file can be rewritten: " + std::string(sorted.unsupported);
    } else if (plan.does_not_fit) {
      verdict.state = PartitionState::kNothingToGain;
      verdict.reason = DepthText(plan) + ", but no two of them fit into one group";
    } else if (plan.too_few) {
      verdict.state = PartitionState::kTooFewFiles;
      verdict.reason = DepthText(plan) + ", and fewer than " +
                       std::to_string(options_.min_input_files) +
                       " small files lie side by side (min_input_files)";
    } else {
      verdict.state = PartitionState::kNothingToGain;
      verdict.reason = "in order: " + DepthText(plan);
      if (options_.min_overlap_depth > 2 && plan.depth > 1) {
        verdict.reason +=
            ", fewer than " + std::to_string(options_.min_overlap_depth) + " (min_overlap_depth)";
      }
    }
  }

  PartitionVerdict MakeVerdict(int32_t partition, const Sorted& sorted) {
    matching_ += sorted.matching;
    rewritable_ += sorted.rewritable;
    PartitionVerdict verdict;
    verdict.partition = partition;
    verdict.files = sorted.files;
    verdict.bytes = sorted.bytes;
    return verdict;
  }

  // The files of a partition of another spec than the outputs'.
  void CollectMoves(int32_t partition, std::span<const int32_t> files) {
    Sorted sorted = SortCandidates(files, true);
    PartitionVerdict verdict = MakeVerdict(partition, sorted);
    if (sorted.core.empty()) {
      Explain(sorted, false, verdict);
    } else if (!Skip(partition, verdict)) {
      verdict.state = PartitionState::kCandidate;
      verdict.reason =
          Files(std::ssize(sorted.core)) + " to spec " + std::to_string(*options_.output_spec_id);
      moving_.emplace_back(partition, std::move(sorted.core));
    }
    plan_.partitions.push_back(std::move(verdict));
  }

  // Files of many old partitions together, since their rows may meet in one new partition; in the
  // order of the old ones, so that rows of a new one are in few groups.
  void PlanMoves() {
    std::ranges::sort(
        moving_, [this](const auto& a, const auto& b) { return KeyOf(a.first) < KeyOf(b.first); });
    std::vector<Candidate> files;
    for (const auto& [partition, core] : moving_) {
      files.insert(files.end(), core.begin(), core.end());
    }
    for (const Bin& bin : Pack(files, options_.max_moved_group_records)) {
      FileGroup group = MakeGroup(FileAt(bin.files.front()->file).partition, bin);
      group.moves = true;
      group.outputs = static_cast<int>(
          std::min<int64_t>(sizes_.Outputs(bin.live_size), std::numeric_limits<int>::max()));
      group.reason = Files(bin.count()) + " of other partition specs: " + FormatBytes(group.bytes) +
                     " move to spec " + std::to_string(*options_.output_spec_id);
      plan_.groups.push_back(std::move(group));
    }
  }

  void Keep(int32_t partition, const std::vector<Bin>& kept, PartitionVerdict& verdict) {
    if (Skip(partition, verdict)) return;
    verdict.state = PartitionState::kCandidate;
    verdict.reason = kept.size() == 1 ? "1 group" : FormatCount(std::ssize(kept)) + " groups";
    for (const Bin& bin : kept) plan_.groups.push_back(MakeGroup(partition, bin));
  }

  void Explain(const Sorted& sorted, bool too_few, PartitionVerdict& verdict) const {
    const auto candidates = std::ssize(sorted.core);
    if (sorted.matching == 0) {
      verdict.state = PartitionState::kFiltered;
      verdict.reason = "no file may match the filter";
    } else if (sorted.rewritable == 0) {
      verdict.state = PartitionState::kUnsupported;
      verdict.reason = "no file can be rewritten: " + std::string(sorted.unsupported);
    } else if (too_few) {
      verdict.state = PartitionState::kTooFewFiles;
      const std::string need = std::to_string(options_.min_input_files) + " (min_input_files)";
      verdict.reason = Files(candidates) + " below " + FormatBytes(sizes_.min);
      verdict.reason += candidates < options_.min_input_files
                            ? " < " + need
                            : ", but no " + need + " of them fit into one group";
    } else {
      verdict.state = PartitionState::kNothingToGain;
      if (candidates > 0) {
        verdict.reason =
            Files(candidates) + " below " + FormatBytes(sizes_.min) + " would not become fewer";
      } else if (!sorted.oversized.empty()) {
        verdict.reason = Files(std::ssize(sorted.oversized)) + " above " + FormatBytes(sizes_.max) +
                         " could only become more";
      } else {
        verdict.reason = "no file is too small or has too many deletes";
      }
    }
  }

  void OrderGroups() {
    const auto sort = [this](auto key, bool descending) {
      std::ranges::stable_sort(plan_.groups, [&](const FileGroup& a, const FileGroup& b) {
        return descending ? key(b) < key(a) : key(a) < key(b);
      });
    };
    const auto bytes = [](const FileGroup& group) { return group.bytes; };
    const auto files = [](const FileGroup& group) { return group.data_files.size(); };
    switch (options_.rewrite_job_order) {
      case JobOrder::kNone: return;
      case JobOrder::kBytesAsc: return sort(bytes, false);
      case JobOrder::kBytesDesc: return sort(bytes, true);
      case JobOrder::kFilesAsc: return sort(files, false);
      case JobOrder::kFilesDesc: return sort(files, true);
    }
  }

  void TellWhyUnsorted() {
    if (options_.unsorted_because.empty()) return;
    const std::string why = "; not sorted: " + options_.unsorted_because;
    for (FileGroup& group : plan_.groups) group.reason += why;
    for (PartitionVerdict& verdict : plan_.partitions) verdict.reason += why;
    if (plan_.groups.empty()) plan_.skip_reason += why;
  }

  // Takes groups in job order while they fit; the first always, or a run could do nothing for ever.
  void ApplyBudget() {
    if (options_.budget_bytes == 0) return;
    int64_t bytes = 0;
    std::vector<FileGroup> taken;
    std::vector<bool> planned(live_.partitions.size(), false);
    for (FileGroup& group : plan_.groups) {
      if (!taken.empty() && Add(bytes, group.bytes) > options_.budget_bytes) continue;
      bytes = Add(bytes, group.bytes);
      for (const int32_t file : group.data_files) {
        planned[static_cast<size_t>(FileAt(file).partition)] = true;
      }
      taken.push_back(std::move(group));
    }
    plan_.groups = std::move(taken);
    for (PartitionVerdict& verdict : plan_.partitions) {
      if (verdict.state != PartitionState::kCandidate ||
          planned[static_cast<size_t>(verdict.partition)]) {
        continue;
      }
      verdict.state = PartitionState::kSkipped;
      verdict.reason =
          "beyond the budget of " + FormatBytes(options_.budget_bytes) + ": left for the next run";
      ++skipped_;
    }
  }

  // R085.
  std::string SkipReason() const {
    if (live_.data_files.empty()) return "empty table";
    if (matching_ == 0) return "no file may match the filter";
    if (rewritable_ == 0) {
      return "no file can be rewritten: " + plan_.unsupported.begin()->first;
    }
    if (skipped_ > 0) return "all eligible partitions are hot";
    if (!options_.sort && matching_ < options_.min_input_files) return "below min_input_files";
    return "no eligible groups";
  }

  const LiveSet& live_;
  const DeleteIndex& deletes_;
  const RewriteOptions& options_;
  const FileSizes sizes_;
  int64_t group_bytes_max_ = 0;
  std::string order_digits_;
  int64_t matching_ = 0;
  int64_t rewritable_ = 0;
  int64_t skipped_ = 0;
  int64_t delete_heavy_files_ = 0;
  std::vector<std::pair<int32_t, std::vector<Candidate>>> moving_;  // By partition.
  RewritePlan plan_;
};

Status Require(bool ok, std::string_view option, std::string range) {
  if (ok) return {};
  return Fail(Code::kInvalid, "must be " + std::move(range), std::string(option));
}

// The newest snapshot that a compaction stamped (R078, R112), and that did more than merge
// manifests.
std::optional<int64_t> LastCompaction(const iceberg::TableMetadata& table) {
  std::optional<int64_t> last;
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    const bool stamped = std::ranges::any_of(snapshot.summary, [](const auto& entry) {
      return entry.first == "lithify.job-id" || entry.first.starts_with("sqe.maintenance.") ||
             entry.first.starts_with("lithify.maintenance.");
    });
    const bool replaced = snapshot.summary.contains("deleted-data-files") ||
                          snapshot.summary.contains("removed-delete-files");
    if (!stamped || (snapshot.summary.contains("manifests-replaced") && !replaced)) continue;
    last = std::max(last.value_or(snapshot.timestamp_ms), snapshot.timestamp_ms);
  }
  return last;
}

}  // namespace

std::string_view StrategyName(Strategy strategy) {
  switch (strategy) {
    case Strategy::kBinpack: return "binpack";
    case Strategy::kSort: return "sort";
    case Strategy::kZorder: return "zorder";
  }
  return "binpack";
}

std::optional<Strategy> ParseStrategy(std::string_view text) {
  if (text == "binpack" || text == "bin-pack") return Strategy::kBinpack;
  if (text == "sort") return Strategy::kSort;
  if (text == "zorder" || text == "z-order") return Strategy::kZorder;
  return std::nullopt;
}

std::string_view PartitionStateName(PartitionState state) {
  switch (state) {
    case PartitionState::kCandidate: return "candidate";
    case PartitionState::kTooFewFiles: return "too few files";
    case PartitionState::kNothingToGain: return "nothing to gain";
    case PartitionState::kUnsupported: return "unsupported";
    case PartitionState::kFiltered: return "filtered";
    case PartitionState::kSkipped: return "skipped";
  }
  return "skipped";
}

Status CheckOptions(const RewriteOptions& options) {
  const int64_t target = options.target_file_size_bytes;
  LITHIFY_TRY(Require(target > 0 && target <= kTargetMost, "target_file_size_bytes",
                      "between 1 B and " + FormatBytes(kTargetMost)));
  const FileSizes sizes = SizesOf(options);
  LITHIFY_TRY(Require(options.min_file_size_bytes >= 0 && sizes.min < target, "min_file_size_bytes",
                      "0 (75 % of the target) or less than the target (" + FormatBytes(target) +
                          "), or every output would be too small"));
  LITHIFY_TRY(Require(options.max_file_size_bytes >= 0 && sizes.max > target, "max_file_size_bytes",
                      "0 (180 % of the target) or more than the target (" + FormatBytes(target) +
                          "), or every output would be too large"));
  LITHIFY_TRY(Require(options.min_input_files >= 1, "min_input_files", "at least 1"));
  LITHIFY_TRY(
      Require(options.delete_file_threshold >= 0, "delete_file_threshold", "0 (off) or more"));
  LITHIFY_TRY(Require(options.delete_ratio_threshold >= 0 && options.delete_ratio_threshold <= 1,
                      "delete_ratio_threshold", "between 0 (off) and 1"));
  LITHIFY_TRY(
      Require(options.max_file_group_size_bytes >= target, "max_file_group_size_bytes",
              "at least the target (" + FormatBytes(target) + "), or no output could reach it"));
  LITHIFY_TRY(Require(options.max_file_group_files >= 2, "max_file_group_files", "at least 2"));
  LITHIFY_TRY(Require(options.max_file_group_records >= 1, "max_file_group_records", "at least 1"));
  LITHIFY_TRY(
      Require(options.max_moved_group_records >= 1, "max_moved_group_records", "at least 1"));
  LITHIFY_TRY(Require(options.min_overlap_depth >= 2, "min_overlap_depth", "at least 2"));
  LITHIFY_TRY(Require(
      options.max_sorted_group_records >= 1 && options.max_sorted_group_records < int64_t{1} << 32,
      "max_sorted_group_records", "between 1 and 4,294,967,295"));
  if (options.strategy != Strategy::kBinpack && options.output_spec_id) {
    return Fail(Code::kInvalid, "rows cannot be sorted while they move to another partition spec",
                "output_spec_id", "move them first, and sort them by a second call");
  }
  return Require(options.budget_bytes >= 0, "budget_bytes", "0 (no bound) or more");
}

RewritePlan PlanRewrite(const LiveSet& live, const DeleteIndex& deletes,
                        const RewriteOptions& options) {
  LITHIFY_CHECK(CheckOptions(options).has_value(), "options are checked by the caller");
  LITHIFY_CHECK((options.strategy == Strategy::kBinpack) == !options.sort,
                "the order of a sort is found by the caller");
  return Planner(live, deletes, options).Plan();
}

FileSizes SizesOf(const RewriteOptions& options) {
  const int64_t target = options.target_file_size_bytes;
  const auto share = [&](double of) {
    return static_cast<int64_t>(static_cast<double>(target) * of);
  };
  return {.target = target,
          .min = options.min_file_size_bytes > 0 ? options.min_file_size_bytes : share(kMinShare),
          .max = options.max_file_size_bytes > 0 ? options.max_file_size_bytes
                                                 : std::max(target + 1, share(kMaxShare))};
}

TableHealth AssessHealth(const iceberg::TableMetadata& table, const LiveSet& live,
                         const DeleteIndex& deletes, const RewriteOptions& options) {
  LITHIFY_CHECK(CheckOptions(options).has_value(), "options are checked by the caller");
  TableHealth health;
  std::vector<int64_t> sizes;
  sizes.reserve(live.data_files.size());
  for (const LiveDataFile& file : live.data_files) {
    sizes.push_back(std::max<int64_t>(file.size, 0));
    health.small_files += file.size < options.target_file_size_bytes;
    health.total_bytes = Add(health.total_bytes, sizes.back());
    health.total_records = Add(health.total_records, std::max<int64_t>(file.records, 0));
  }
  health.live_data_files = std::ssize(sizes);
  if (!sizes.empty()) {
    health.avg_file_bytes = health.total_bytes / health.live_data_files;
    const double mib = static_cast<double>(health.total_bytes) /
                       static_cast<double>(health.live_data_files) / static_cast<double>(kMiB);
    health.avg_file_mb = std::round(mib * 10) / 10;
    const auto median = sizes.begin() + health.live_data_files / 2;
    std::ranges::nth_element(sizes, median);
    health.p50_file_bytes = *median;
  }
  int64_t deleted = 0;
  for (const LiveDeleteFile& file : live.delete_files) {
    deleted = Add(deleted, std::max<int64_t>(file.records, 0));
  }
  health.delete_files = std::ssize(live.delete_files);
  if (health.total_records > 0) {
    health.delete_ratio = static_cast<double>(deleted) / static_cast<double>(health.total_records);
  }
  Planner planner(live, deletes, options);
  const RewritePlan plan = planner.Plan();
  health.eligible_groups = std::ssize(plan.groups);
  for (const FileGroup& group : plan.groups) {
    health.est_rewrite_bytes = Add(health.est_rewrite_bytes, group.bytes);
  }
  health.delete_heavy_files = planner.delete_heavy_files();
  if (!live.delete_files.empty()) {
    health.dangling_delete_files = std::ssize(deletes.Dangling());
  }
  health.last_compaction_snapshot_ms = LastCompaction(table);
  health.opted_in = OptedIn(table.properties);
  return health;
}

bool OptedInTo(const std::map<std::string, std::string>& properties, std::string_view name,
               std::span<const std::string_view> prefixes) {
  bool opted_in = false;
  for (const std::string_view prefix : prefixes) {
    const auto found = properties.find(std::string(prefix) + "." + std::string(name));
    if (found == properties.end()) continue;
    if (found->second != "true") return false;
    opted_in = true;
  }
  return opted_in;
}

bool OptedIn(const std::map<std::string, std::string>& properties) {
  return OptedInTo(properties, "enabled", kMaintenancePrefixes);
}

}  // namespace lithify::plan
