#include "rewrite/parquet_runner.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "rewrite/footer.h"
#include "rewrite/recode.h"
#include "rewrite/row_hash.h"
#include "rewrite/sorted_rewrite.h"
#include "rewrite/tier_plan.h"
#include "rewrite/verify.h"

namespace lithify::rewrite {
namespace {

constexpr size_t kOpenFilesMax = 256;

// Of a bound on the process's memory, what the buffers may take. The rest is for what no pool
// counts: footers, codecs' own state, and memory that the allocator keeps (measured: up to a
// quarter).
int64_t PoolBytes(int64_t memory_bytes) {
  return std::max(memory_bytes / 2, memory_bytes * 7 / 10 - 16 * kMiB);
}

// What is read again of one output: per row group which columns, and what they should give.
struct Expected {
  std::vector<bool> columns;
  ContentDigest digest;
  bool whole_rows = false;  // Whether the digest has one of whole rows,
  bool rows_only = false;   // and of nothing else.
  uint64_t places = 0;      // Of the values in their rows, over those columns.
};

// Another number for other rows, so that what is chosen by it follows from the content, and a
// writer's fault cannot avoid it.
uint64_t Fold(const ContentDigest& digest) {
  uint64_t folded = digest.row.lo;
  for (const auto& [path, column] : digest.columns) folded = HashMix(folded ^ column.lo);
  return folded;
}

// Row groups whose decoded columns the sampled verification reads again: about one in eight, at
// least one per output.
std::vector<bool> Sample(const std::vector<const RowGroupDigest*>& groups) {
  std::vector<bool> sample(groups.size(), false);
  std::vector<size_t> decoded;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i]->digest.columns.empty()) continue;
    sample[i] = Fold(groups[i]->digest) % 8 == 0;
    decoded.push_back(i);
  }
  if (!decoded.empty()) {
    sample[decoded[HashMix(Fold(groups[decoded[0]]->digest)) % decoded.size()]] = true;
  }
  return sample;
}

// Of files that were inspected: a sweep asks twice, before the plan and before the first manifest,
// and the next sweep asks again. Only where the store tells an object's version, or when it was
// last put or altered, so that one that was replaced is another one. Thread-safe.
class KnownFacts {
 public:
  std::optional<FileFacts> Find(const storage::ObjectInfo& info) {
    std::lock_guard lock(mutex_);
    const auto found = facts_.find(info.key);
    if (found == facts_.end() || found->second.first != info) return std::nullopt;
    return found->second.second;
  }

  void Add(const storage::ObjectInfo& info, const FileFacts& facts) {
    constexpr size_t kFactsMax = 1 << 16;
    if (info.changed == Time{} && info.version.empty()) return;
    std::lock_guard lock(mutex_);
    if (facts_.size() >= kFactsMax) facts_.clear();
    facts_.insert_or_assign(info.key, std::pair(info, facts));
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::pair<storage::ObjectInfo, FileFacts>> facts_;
};

class ParquetRunner final : public GroupRunner {
 public:
  ParquetRunner(storage::Store& store, int64_t memory_bytes)
      : store_(store), memory_bytes_(memory_bytes) {}

  Result<FileFacts> Inspect(const storage::ObjectInfo& object, int64_t first_read) override {
    const std::string& key = object.key;
    storage::ObjectInfo info = object;
    // A disk tells more than its listings do. Elsewhere that is a request.
    const bool told = first_read > 0 && info.size > 0;
    if (store_.small_reads_are_cheap() || (info.version.empty() && !told)) {
      LITHIFY_TRY_ASSIGN(info, store_.Stat(key));
    }
    if (auto known = known_.Find(info)) return std::move(*known);
    ReaderCache cache(store_, 1);
    auto file = MakeArrowFile(cache, info, nullptr);
    auto facts = GuardParquet(key, [&]() -> Result<FileFacts> {
      LITHIFY_TRY_ASSIGN(
          const auto footer,
          ReadFooter(*file, info.size, kinds_,
                     first_read > 0 ? first_read : FooterReadBytes(store_, info.size)));
      return FactsFrom(*footer, info.size);
    });
    if (!facts && facts.error().code == Code::kUnsupported) {
      FileFacts unsupported;
      unsupported.unsupported = facts.error().message;
      return unsupported;
    }
    if (facts) known_.Add(info, *facts);
    return facts;
  }

  Result<TierPlan> Explain(const GroupRequest& request, const CancelFlag& cancel) override {
    LITHIFY_TRY(cancel.Check());
    GroupRequest bounded = request;
    ChargeWriter(bounded);
    BoundShape(bounded);
    BoundedPool pool(PoolBytes(request.memory_bytes > 0 ? request.memory_bytes : memory_bytes_));
    ReaderCache cache(store_, kOpenFilesMax);
    LITHIFY_TRY_ASSIGN(const auto group,
                       OpenGroup(cache, bounded.inputs, bounded.table.get(), Reading::kFooters,
                                 request.threads, pool, &cancel));
    return GuardParquet(request.partition, [&] { return ExplainTiers(group, bounded, pool); });
  }

  Result<GroupReport> Run(const GroupRequest& request, const CancelFlag& cancel) override {
    GroupRequest bounded = request;
    ChargeWriter(bounded);
    BoundShape(bounded);
    Attempt attempt;
    auto done = RunOnce(bounded, cancel, attempt);
    if (!done && attempt.out_of_memory && !attempt.publishing) {
      // Shrink: one column at a time, small row groups and pages.
      bounded.threads = 1;
      bounded.shape.row_group_bytes = std::max<int64_t>(kMiB, bounded.shape.row_group_bytes / 8);
      bounded.shape.page_bytes = std::max<int64_t>(64 * kKiB, bounded.shape.page_bytes / 8);
      done = RunOnce(bounded, cancel, attempt);
    }
    return done;
  }

  Result<VerifyReport> VerifyFile(const std::string& key, const RowRule& rows,
                                  const CancelFlag& cancel) override {
    LITHIFY_TRY_ASSIGN(const auto info, store_.Stat(key));
    const int64_t ahead_bytes = ReadAheadBytes(store_, memory_bytes_);
    BoundedPool pool(PoolBytes(memory_bytes_) - ahead_bytes);
    ReaderCache cache(store_, 1, ahead_bytes, &cancel);
    LITHIFY_TRY_ASSIGN(auto file, OpenFile(cache,
                                           InputFile{.key = key,
                                                     .size = info.size,
                                                     .version = info.version,
                                                     .modified = info.modified},
                                           pool, &cancel));
    VerifyReport report;
    LITHIFY_TRY_ASSIGN(const auto mark,
                       GuardParquet(key, [&] { return DecodeMark(*file.inputs.front()->footer); }));
    if (mark) report.recorded = mark->digest;
    LITHIFY_TRY_ASSIGN(const auto groups, DigestRowGroups(
                                              file, rows, [](int) { return std::vector<bool>(); },
                                              memory_bytes_ / 4, 1, pool, cancel));
    for (const RowGroupRead& group : groups) report.digest.Add(group.digest);
    report.rows = report.digest.rows;
    if (report.recorded) {
      const std::string difference = report.recorded->Difference(report.digest);
      if (!difference.empty()) {
        return Fail(Code::kCorrupt,
                    "its content is not what was recorded when it was written: " + difference, key,
                    "restore it from a backup; its inputs may still be in the grace period");
      }
    }
    return report;
  }

 private:
  // How far one attempt came.
  struct Attempt {
    bool out_of_memory = false;
    bool publishing = false;
  };

  // Takes what the writer of an output holds out of the memory; one at a time holds any. What all
  // others need goes down with it. Where that would leave little, most of it goes uncharged: too
  // much memory is better than no rewrite.
  void ChargeWriter(GroupRequest& request) const {
    if (request.memory_bytes <= 0) return;
    request.memory_bytes -= std::min(store_.writer_buffer_bytes(), request.memory_bytes / 4);
  }

  // Bounds the shape by the memory: a row group is held encoded, its pages and dictionaries too.
  static void BoundShape(GroupRequest& request) {
    OutputShape& shape = request.shape;
    shape.row_group_rows = std::max<int64_t>(1, shape.row_group_rows);
    if (request.memory_bytes <= 0) return;
    shape.row_group_bytes =
        std::clamp<int64_t>(shape.row_group_bytes, 1, std::max(kMiB, request.memory_bytes / 6));
    shape.page_bytes = std::clamp<int64_t>(shape.page_bytes, 4 * kKiB,
                                           std::max(64 * kKiB, request.memory_bytes / 64));
  }

  Result<GroupReport> RunOnce(const GroupRequest& request, const CancelFlag& cancel,
                              Attempt& attempt) {
    LITHIFY_TRY(cancel.Check());
    const int64_t memory = request.memory_bytes > 0 ? request.memory_bytes : memory_bytes_;
    const int64_t ahead_bytes = ReadAheadBytes(store_, memory);
    BoundedPool pool(PoolBytes(memory) - ahead_bytes);
    ReaderCache cache(store_, kOpenFilesMax, ahead_bytes, &cancel);
    const auto rewrite = [&]() -> Result<RecodeResult> {
      LITHIFY_TRY_ASSIGN(auto group, Load(cache, request, pool, cancel));
      if (request.ordering != nullptr) return RewriteSorted(store_, group, request, pool, cancel);
      return Recode(store_, group, request, pool, cancel);
    };
    auto recoded = rewrite();
    attempt.out_of_memory = pool.exhausted();
    if (!recoded) return Fail(std::move(recoded.error()));
    LITHIFY_TRY(cancel.Check());
    attempt.publishing = true;
    if (request.before_publish) LITHIFY_TRY(request.before_publish());
    LITHIFY_TRY(PublishAll(request, *recoded));
    auto verified = VerifyOutputs(request, *recoded, pool, cancel);
    if (!verified) {
      // A mismatch is kept as evidence; after anything else (a stop, a read error) nothing is
      // known against the outputs, and no manifest names them yet.
      if (verified.error().code != Code::kCorrupt) Unpublish(request, *recoded);
      return Fail(std::move(verified.error()));
    }
    return std::move(recoded->report);
  }

  // Footers, and what is small and fits: the group does nothing else meanwhile.
  Result<OpenedGroup> Load(ReaderCache& cache, const GroupRequest& request, BoundedPool& pool,
                           const CancelFlag& cancel) {
    Turns::Turn turn;
    int threads = request.threads;
    if (request.turn_to_load && !store_.small_reads_are_cheap()) {
      LITHIFY_TRY_ASSIGN(turn, request.turn_to_load(cancel));
      // Where round trips are the limit, and not the link, nothing is lost by taking turns: these
      // are the requests of two.
      threads = std::max(threads, 2 * storage::ReadAhead::kRequestsAtOnce);
    }
    // The last of them may be late: nobody waits for those.
    return OpenGroup(cache, request.inputs, request.table.get(), Reading::kPages, threads, pool,
                     &cancel, [&turn] { turn.reset(); });
  }

  Status PublishAll(const GroupRequest& request, RecodeResult& recoded) {
    for (auto& writer : recoded.writers) {
      auto published = writer->Publish();
      if (published) continue;
      if (published.error().code != Code::kUnknownOutcome) Unpublish(request, recoded);
      return Fail(std::move(published.error()).In(request.partition));
    }
    return {};
  }

  // Only before any manifest may name the outputs. What cannot be removed carries our mark and is
  // collected later.
  void Unpublish(const GroupRequest& request, const RecodeResult& recoded) {
    for (const OutputFile& output : recoded.report.outputs) {
      (void)store_.Remove(request.partition + output.name);
    }
  }

  Status VerifyOutputs(const GroupRequest& request, const RecodeResult& recoded, BoundedPool& pool,
                       const CancelFlag& cancel) {
    // By now nothing of the inputs is held any more.
    const int64_t ahead_bytes =
        ReadAheadBytes(store_, request.memory_bytes > 0 ? request.memory_bytes : memory_bytes_);
    for (size_t i = 0; i < recoded.report.outputs.size(); ++i) {
      const OutputFile& output = recoded.report.outputs[i];
      const std::string key = request.partition + output.name;
      ReaderCache cache(store_, 1, ahead_bytes, &cancel);
      LITHIFY_TRY_ASSIGN(auto file, OpenFile(cache, InputFile{key, output.size}, pool, &cancel));
      if (file.inputs.front()->footer->num_rows() != output.rows) {
        return Fail(Code::kCorrupt, "the output's footer has another number of rows than written",
                    key, "the output is kept as evidence and is not published");
      }
      if (request.verify == Verify::kCounts) continue;
      if (!std::cmp_equal(file.inputs.front()->footer->num_row_groups(), output.row_groups)) {
        return Fail(Code::kCorrupt, "the output has another number of row groups than written",
                    key);
      }
      const auto expected = Expect(request, recoded, i, file);
      LITHIFY_TRY_ASSIGN(auto groups,
                         DigestRowGroups(
                             file, request.table ? RowRule{} : request.rows,
                             [&](int g) { return expected[static_cast<size_t>(g)].columns; },
                             std::numeric_limits<int64_t>::max(), request.threads, pool, cancel));
      for (size_t g = 0; g < expected.size(); ++g) {
        ContentDigest& digest = groups[g].digest;
        if (digest.rows < 0) continue;
        if (!expected[g].whole_rows) digest.row = {};
        if (expected[g].rows_only) digest.columns.clear();
        std::string difference = expected[g].digest.Difference(digest);
        if (difference.empty() && groups[g].places != expected[g].places) {
          difference = "row group " + std::to_string(g) + " has values in other rows";
        }
        if (!difference.empty()) {
          return Fail(Code::kCorrupt, "the output does not read back as written: " + difference,
                      key, "the output is kept as evidence and is not published");
        }
      }
    }
    return {};
  }

  // One per row group of output number `output`.
  static std::vector<Expected> Expect(const GroupRequest& request, const RecodeResult& recoded,
                                      size_t output, const OpenedGroup& file) {
    std::vector<const RowGroupDigest*> groups;
    for (const RowGroupDigest& group : recoded.row_groups) {
      if (std::cmp_equal(group.output, output)) groups.push_back(&group);
    }
    const std::vector<bool> sample = Sample(groups);
    std::vector<Expected> expected;
    for (size_t g = 0; g < groups.size(); ++g) {
      const RowGroupDigest& group = *groups[g];
      Expected& expect = expected.emplace_back();
      expect.columns.resize(file.leaves.size(), false);
      expect.digest.rows = group.digest.rows;
      if (request.verify != Verify::kFull && !sample[g]) continue;
      expect.digest = group.digest;
      expect.whole_rows = group.complete;
      expect.rows_only = group.rows_only;
      expect.places = group.places;
      for (size_t leaf = 0; leaf < expect.columns.size(); ++leaf) {
        expect.columns[leaf] =
            group.rows_only || group.digest.columns.contains(file.leaves[leaf].path);
      }
    }
    for (const ChunkDigest& chunk : recoded.samples) {
      if (!std::cmp_equal(chunk.output, output)) continue;
      Expected& expect = expected[static_cast<size_t>(chunk.row_group)];
      expect.columns[chunk.leaf] = true;
      expect.digest.columns[file.leaves[chunk.leaf].path].Add(chunk.digest);
      expect.places += chunk.places;
    }
    return expected;
  }

  storage::Store& store_;
  const int64_t memory_bytes_;
  KnownFacts known_;
  FileKinds kinds_;
};

}  // namespace

std::unique_ptr<GroupRunner> MakeParquetRunner(storage::Store& store, int64_t memory_bytes) {
  return std::make_unique<ParquetRunner>(store, memory_bytes);
}

}  // namespace lithify::rewrite
