#include "rewrite/verify.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "rewrite/column_copy.h"
#include "rewrite/page_threads.h"
#include "rewrite/read_plan.h"
#include "rewrite/row_check.h"

namespace lithify::rewrite {

namespace {

constexpr int64_t kAheadBytes = 4 * kMiB;  // Chunks of fewer have too few pages to read ahead.

// The columns of one row group, the widest first, by several threads.
class RowGroupDigester {
 public:
  // `checker` null: not all columns are wanted, and rows are not checked.
  RowGroupDigester(const OpenedGroup& file, const RowChecker* checker, int row_group,
                   const std::vector<bool>& wanted, BoundedPool& pool, PageThreads* page_threads)
      : file_(file),
        checker_(checker),
        row_group_(row_group),
        pool_(pool),
        page_threads_(page_threads),
        digests_(file.leaves.size()),
        bytes_(file.leaves.size()) {
    const InputSource& in = *file_.inputs.front();
    for (size_t leaf = 0; leaf < bytes_.size(); ++leaf) {
      const int chunk = in.leaves[leaf].input_leaf;
      if (chunk >= 0) bytes_[leaf] = in.footer->Chunk(row_group, chunk).total_uncompressed_size;
    }
    for (size_t leaf = 0; leaf < wanted.size(); ++leaf) {
      if (wanted[leaf]) order_.push_back(leaf);
    }
    std::ranges::stable_sort(order_, std::greater<>(), [&](size_t leaf) { return bytes_[leaf]; });
  }

  // The columns' digests; their rows' hashes and times are added to `shared`.
  Result<std::vector<Digest128>> Read(int threads, RowGroupRows& shared) {
    LITHIFY_TRY(TryForEach(order_.size(), threads,
                           [&](size_t i) { return ReadColumn(order_[i], shared); }));
    return std::move(digests_);
  }

 private:
  Status ReadColumn(size_t leaf, RowGroupRows& shared) {
    ColumnCopyOptions options;
    options.leaf = static_cast<int>(leaf);
    options.output = file_.leaves[leaf];
    if (checker_ != nullptr) options.rule = checker_->For(options.leaf);
    options.first_group = row_group_;
    options.last_group = row_group_;
    if (page_threads_ != nullptr && bytes_[leaf] >= kAheadBytes) {
      options.pool = &pool_;
      options.read_ahead = page_threads_;
    }
    auto read = GuardParquet("column " + options.output.path, [&]() -> Status {
      const auto copy = MakeColumnCopy(file_.inputs, options);
      LITHIFY_TRY_ASSIGN(digests_[leaf], copy->Copy(shared.rows(), nullptr, shared));
      return copy->Finish();
    });
    if (!read) return Fail(std::move(read.error()).In(file_.inputs.front()->key));
    return {};
  }

  const OpenedGroup& file_;
  const RowChecker* const checker_;
  const int row_group_;
  BoundedPool& pool_;
  PageThreads* const page_threads_;
  std::vector<Digest128> digests_;
  std::vector<int64_t> bytes_;  // Uncompressed.
  std::vector<size_t> order_;
};

}  // namespace

Result<std::vector<RowGroupRead>> DigestRowGroups(OpenedGroup& file, const RowRule& rule,
                                                  const WantedColumns& wanted, int64_t bytes_max,
                                                  int threads, BoundedPool& pool,
                                                  const CancelFlag& cancel) {
  LITHIFY_CHECK(file.inputs.size() == 1, "one file at a time");
  LITHIFY_TRY_ASSIGN(const RowChecker checker, RowChecker::Make(rule, *file.output_schema));
  InputSource& in = *file.inputs.front();
  std::vector<RowGroupRead> all(static_cast<size_t>(in.footer->num_row_groups()));
  std::vector<std::vector<bool>> wanted_columns;
  for (int g = 0; g < in.footer->num_row_groups(); ++g) {
    wanted_columns.push_back(wanted(g));
    if (wanted_columns.back().empty()) wanted_columns.back().assign(file.leaves.size(), true);
  }
  if (file.ahead != nullptr) {
    file.ahead->Expect(PlanReading(file, wanted_columns, file.ahead->extent_bytes_max()));
  }
  std::unique_ptr<PageThreads> page_threads;
  if (threads > 1) page_threads = std::make_unique<PageThreads>(threads - 1, kAheadBytes);
  int64_t first_row = 0;
  for (int g = 0; g < in.footer->num_row_groups(); ++g) {
    const int64_t rows = in.footer->row_group(g).num_rows;
    ContentDigest& digest = all[static_cast<size_t>(g)].digest;
    const std::vector<bool>& columns = wanted_columns[static_cast<size_t>(g)];
    const bool whole = std::ranges::find(columns, false) == columns.end();
    digest.rows = std::ranges::find(columns, true) == columns.end() ? -1 : rows;
    if (digest.rows < 0 || rows == 0) {
      first_row += rows;
      continue;
    }
    LITHIFY_TRY(cancel.Check());
    const int64_t row_bytes = 8 * (1 + static_cast<int64_t>(checker.time_columns()));
    if (rows > bytes_max / row_bytes) {
      return Fail(Code::kLimit,
                  "a row group of " + std::to_string(rows) + " rows does not fit the memory bound",
                  in.key, "raise --memory");
    }
    RowGroupRows shared(rows, checker.time_columns(), true);
    RowGroupDigester digester(file, whole ? &checker : nullptr, g, columns, pool,
                              page_threads.get());
    LITHIFY_TRY_ASSIGN(const auto digests_read, digester.Read(threads, shared));
    for (size_t leaf = 0; leaf < columns.size(); ++leaf) {
      if (columns[leaf]) digest.columns[file.leaves[leaf].path].Add(digests_read[leaf]);
    }
    all[static_cast<size_t>(g)].places = shared.PlaceSum();
    if (file.ahead != nullptr) file.ahead->End(g);
    first_row += rows;
    if (!whole) continue;
    digest.row = shared.RowDigest();
    const int64_t first = first_row - rows;
    LITHIFY_TRY(checker.CheckTimes(shared.times(),
                                   [&](int64_t row) { return std::pair(in.key, first + row); }));
  }
  return all;
}

}  // namespace lithify::rewrite
