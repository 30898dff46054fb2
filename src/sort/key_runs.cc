#include "sort/key_runs.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <queue>
#include <utility>

#include "base/parallel.h"

namespace lithify::sort {
namespace {

constexpr size_t kEdgeRestBytes = 256;

std::strong_ordering Order(int comparison) { return comparison <=> 0; }

// A block of `count` rows with these edges.
Block MakeBlock(uint32_t count, const RowKey& first, const RowKey& last) {
  Block out;
  out.count = count;
  out.first = EdgeKey::Of(first);
  out.last = EdgeKey::Of(last);
  return out;
}

}  // namespace

EdgeKey EdgeKey::Of(const RowKey& key) {
  return {key.prefix, std::string(key.rest.substr(0, kEdgeRestBytes)), key.row,
          key.rest.size() > kEdgeRestBytes};
}

std::optional<std::strong_ordering> Compare(const EdgeKey& a, const EdgeKey& b) {
  if (a.row == b.row) return std::strong_ordering::equal;
  if (a.prefix != b.prefix) return a.prefix <=> b.prefix;
  const size_t both = std::min(a.rest.size(), b.rest.size());
  if (const int order = a.rest.compare(0, both, b.rest, 0, both); order != 0) return Order(order);
  // One begins with what is known of the other.
  if (!a.cut && !b.cut) {
    return a.rest.size() != b.rest.size() ? a.rest.size() <=> b.rest.size() : a.row <=> b.row;
  }
  if (!a.cut && a.rest.size() == both) return std::strong_ordering::less;
  if (!b.cut && b.rest.size() == both) return std::strong_ordering::greater;
  return std::nullopt;
}

bool IsBefore(const EdgeKey& a, const EdgeKey& b) {
  const auto order = Compare(a, b);
  return order.has_value() && *order < 0;
}

void AddStored(const KeyStore& store, RowRange range, const BlockBounds& bounds, Run& run) {
  const auto key = [&](uint32_t row) { return RowKey{*store.prefixes(row), store.rest(row), row}; };
  while (range.count > 0) {
    uint32_t count =
        std::min({range.count, bounds.rows, store.ChunkEnd(range.first) - range.first});
    if (store.has_rests()) {
      int64_t bytes = 0;
      for (uint32_t i = 0; i < count; ++i) {
        bytes += static_cast<int64_t>(sizeof(KeyRow) + store.rest(range.first + i).size());
        if (bytes >= bounds.bytes) count = i + 1;
      }
    }
    Block block = MakeBlock(count, key(range.first), key(range.first + count - 1));
    block.consecutive = true;
    run.blocks.push_back(std::move(block));
    range = {range.first + count, range.count - count};
  }
}

Run MakeSortedRun(const KeyStore& store, const KeyRow* rows, size_t count,
                  const BlockBounds& bounds) {
  const auto key = [&](size_t i) {
    return RowKey{rows[i].prefix(), store.rest(rows[i].row()), rows[i].row()};
  };
  Run run;
  for (size_t at = 0; at < count;) {
    size_t end = std::min(count, at + bounds.rows);
    if (store.has_rests()) {
      int64_t bytes = 0;
      for (size_t i = at; i < end; ++i) {
        bytes += static_cast<int64_t>(sizeof(KeyRow) + store.rest(rows[i].row()).size());
        if (bytes >= bounds.bytes) end = i + 1;
      }
    }
    Block block = MakeBlock(static_cast<uint32_t>(end - at), key(at), key(end - 1));
    block.sorted = rows + at;
    run.blocks.push_back(std::move(block));
    at = end;
  }
  return run;
}

std::vector<Run> ChainRuns(std::vector<Run> runs) {
  std::erase_if(runs, [](const Run& run) { return run.blocks.empty(); });
  // Keys that cannot be told apart by what is kept of them: in the order of rows, and not chained.
  std::ranges::sort(runs, [](const Run& a, const Run& b) {
    const EdgeKey& x = a.blocks.front().first;
    const EdgeKey& y = b.blocks.front().first;
    if (x.prefix != y.prefix) return x.prefix < y.prefix;
    if (x.rest != y.rest) return x.rest < y.rest;
    return x.row < y.row;
  });
  std::vector<Run> chains;
  const auto ends_later = [&](size_t a, size_t b) {
    const EdgeKey& x = chains[a].blocks.back().last;
    const EdgeKey& y = chains[b].blocks.back().last;
    if (x.prefix != y.prefix) return x.prefix > y.prefix;
    if (x.rest != y.rest) return x.rest > y.rest;
    return x.row > y.row;
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(ends_later)> by_end(ends_later);
  for (Run& run : runs) {
    size_t chain = chains.size();
    if (!by_end.empty() &&
        IsBefore(chains[by_end.top()].blocks.back().last, run.blocks.front().first)) {
      chain = by_end.top();
      by_end.pop();
      std::ranges::move(run.blocks, std::back_inserter(chains[chain].blocks));
    } else {
      chains.push_back(std::move(run));
    }
    by_end.push(chain);
  }
  return chains;
}

Status BlockReader::Load(const Block& block) {
  spilled_ = block.file != nullptr;
  first_row_ = block.first.row;
  if (spilled_) {
    std::vector<uint8_t>& packed = codec_->scratch();
    packed.resize(static_cast<size_t>(block.bytes));
    LITHIFY_TRY(block.file->Read(block.offset, packed));
    if (KeyBlockCodec::Checksum(packed) != block.checksum) {
      return Fail(Code::kCorrupt, "a spilled block of sort keys came back with other bytes", {},
                  "look for disk errors in the kernel log, then run it again");
    }
    LITHIFY_TRY(codec_->Decode(packed, block_));
    if (block_.count != block.count) {
      return Fail(Code::kCorrupt, "a spilled block of sort keys came back with other rows");
    }
    prefixes_ = block_.prefixes.data();
    rows_ = block.consecutive ? nullptr : block_.rows.data();
    return {};
  }
  if (block.sorted == nullptr) {
    prefixes_ = store_->prefixes(block.first.row);
    rows_ = nullptr;
    return {};
  }
  block_.Clear();
  block_.prefixes.resize(block.count);
  block_.rows.resize(block.count);
  for (size_t i = 0; i < block.count; ++i) {
    block_.prefixes[i] = block.sorted[i].prefix();
    block_.rows[i] = block.sorted[i].row();
  }
  prefixes_ = block_.prefixes.data();
  rows_ = block_.rows.data();
  return {};
}

void BlockReader::CopyTo(size_t count, KeyBlock& out) const {
  out.Clear();
  out.count = count;
  out.prefixes.assign(prefixes_, prefixes_ + count);
  out.rows.resize(count);
  for (size_t i = 0; i < count; ++i) out.rows[i] = row(i);
  if (!store_->has_rests()) return;
  for (size_t i = 0; i < count; ++i) {
    out.bytes.append(rest(i));
    out.ends.push_back(out.bytes.size());
  }
  if (out.bytes.empty()) out.ends.clear();
}

Status RunWriter::Flush() {
  if (block_.count == 0) return {};
  std::vector<uint8_t>& packed = codec_.scratch();
  LITHIFY_TRY(codec_.Encode(block_, packed));
  const auto key = [&](size_t i) {
    return RowKey{block_.prefixes[i], block_.rest(i), block_.rows[i]};
  };
  const RowKey first = key(0);
  const RowKey last = key(block_.count - 1);
  Block block = MakeBlock(static_cast<uint32_t>(block_.count), first, last);
  LITHIFY_TRY_ASSIGN(block.offset, file_->Append(packed));
  block.consecutive =
      last.row - first.row == block.count - 1 && std::ranges::is_sorted(block_.rows);
  block.file = file_;
  block.bytes = static_cast<int64_t>(packed.size());
  block.checksum = KeyBlockCodec::Checksum(packed);
  run_.blocks.push_back(std::move(block));
  block_.Clear();
  bytes_ = 0;
  return {};
}

Result<Run> RunWriter::Finish() {
  LITHIFY_TRY(Flush());
  return std::move(run_);
}

Status SpillRun(const KeyStore& store, const std::shared_ptr<SpillFile>& file, int threads,
                const CancelFlag* cancel, Run& run) {
  std::atomic<size_t> next{0};
  std::mutex mutex;  // Of the file. The order of blocks in it means nothing.
  const auto spill = [&]() -> Status {
    KeyBlockCodec codec;
    BlockReader reader(store, codec);
    KeyBlock keys;
    std::vector<uint8_t>& packed = codec.scratch();
    for (size_t i = next.fetch_add(1); i < run.blocks.size(); i = next.fetch_add(1)) {
      if (cancel != nullptr) LITHIFY_TRY(cancel->Check());
      Block& block = run.blocks[i];
      LITHIFY_TRY(reader.Load(block));
      reader.CopyTo(block.count, keys);
      LITHIFY_TRY(codec.Encode(keys, packed));
      const uint64_t checksum = KeyBlockCodec::Checksum(packed);
      const std::scoped_lock lock(mutex);
      LITHIFY_TRY_ASSIGN(block.offset, file->Append(packed));
      block.file = file;
      block.sorted = nullptr;
      block.bytes = static_cast<int64_t>(packed.size());
      block.checksum = checksum;
    }
    return {};
  };
  const size_t lanes = std::min(static_cast<size_t>(std::max(threads, 1)), run.blocks.size());
  return TryForEach(lanes, threads, [&](size_t) { return Caught(spill); });
}

}  // namespace lithify::sort
