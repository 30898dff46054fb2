#include "sort/key_merge.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel.h"

namespace lithify::sort {
namespace {

constexpr size_t kGallopAfter = 8;  // Keys of one run in a row.
constexpr size_t kGallopAfterMost = 512;
constexpr uint64_t kPartRowsMin = 1 << 15;  // That are worth a part of the merge.

// A place in a run: before key `at` of a block.
struct Position {
  size_t block = 0;
  uint32_t at = 0;
};

int Compare(const RowKey& a, const RowKey& b) {
  if (a.prefix != b.prefix) return a.prefix < b.prefix ? -1 : 1;
  if (const int order = a.rest.compare(b.rest); order != 0) return order;
  return a.row < b.row ? -1 : (a.row > b.row ? 1 : 0);
}

// Where a run's part of a merge is.
class Cursor {
 public:
  Cursor(const Run& run, Position begin, Position end, const KeyStore& store, KeyBlockCodec& codec)
      : run_(&run), block_(begin.block), at_(begin.at), end_(end), reader_(store, codec) {
    FindStop();
  }

  bool done() const { return block_ == run_->blocks.size() || stop_ == 0; }
  const Block& block() const { return run_->blocks[block_]; }
  // Only the first key of the block is known else.
  bool loaded() const { return loaded_; }
  // Unless the key is known from what is kept of the block.
  bool must_load() const { return !loaded_ && (at_ > 0 || block().first.cut); }
  // Nothing of the block is outside of the part.
  bool whole() const { return at_ == 0 && stop_ == block().count; }
  size_t at() const { return at_; }
  size_t stop() const { return stop_; }
  const BlockReader& reader() const { return reader_; }

  Status Load() {
    // The one after it, too, if it is of this part.
    if (block_ + 1 < end_.block) BlockReader::WillLoad(run_->blocks[block_ + 1]);
    LITHIFY_TRY(reader_.Load(block()));
    loaded_ = true;
    return {};
  }
  // To key `at` of this block, or the first of the next one.
  void MoveTo(size_t at) {
    at_ = static_cast<uint32_t>(at);
    if (at_ < stop_) return;
    ++block_;
    at_ = 0;
    loaded_ = false;
    FindStop();
  }
  RowKey key() const { return loaded_ ? reader_.key(at_) : block().first.key(); }
  uint64_t prefix() const { return loaded_ ? reader_.prefix(at_) : block().first.prefix; }
  uint32_t row() const { return loaded_ ? reader_.row(at_) : block().first.row; }

 private:
  void FindStop() {
    if (block_ < end_.block) {
      stop_ = run_->blocks[block_].count;
    } else {
      stop_ = block_ == end_.block && at_ < end_.at ? end_.at : 0;
    }
  }

  const Run* run_;
  size_t block_;
  uint32_t at_;
  uint32_t stop_ = 0;  // 0: nothing is left.
  Position end_;
  bool loaded_ = false;
  BlockReader reader_;
};

// Merges what cursors have to a sink, which has
//   One(reader, i): the next key;
//   Range(reader, from, to): the next keys;
//   Skip(block): all keys of a block that is not loaded; false: that cannot be done;
//   BeforeLoad(): keys that were given before are gone after it;
//   status().
template <typename Sink>
class Merger {
 public:
  Merger(std::vector<Cursor> cursors, bool rests, const CancelFlag* cancel, Sink& sink)
      : cursors_(std::move(cursors)), rests_(rests), cancel_(cancel), sink_(sink) {}

  Status Run() {
    if (cursors_.empty()) return {};
    heads_.resize(cursors_.size());
    for (size_t i = 0; i < cursors_.size(); ++i) LITHIFY_TRY(SetHead(i));
    Build();
    size_t in_a_row = heads_.size() == 1 ? gallop_after_ : 0;  // Alone: all follows each other.
    while (!heads_[winner_].done) {
      if (in_a_row >= gallop_after_) {
        LITHIFY_TRY(Gallop());
        in_a_row = heads_.size() == 1 ? gallop_after_ : 0;
        continue;
      }
      Cursor& cursor = cursors_[winner_];
      if (!cursor.loaded()) LITHIFY_TRY(Load(cursor));
      sink_.One(cursor.reader(), cursor.at());
      cursor.MoveTo(cursor.at() + 1);
      LITHIFY_TRY(SetHead(winner_));
      const size_t before = winner_;
      Replay();
      in_a_row = winner_ == before ? in_a_row + 1 : 0;
    }
    return sink_.status();
  }

 private:
  struct Head {
    uint64_t prefix = 0;
    uint32_t row = 0;
    bool done = false;
  };

  Status Load(Cursor& cursor) {
    if (cancel_ != nullptr) LITHIFY_TRY(cancel_->Check());
    LITHIFY_TRY(sink_.status());
    sink_.BeforeLoad();
    return cursor.Load();
  }

  Status SetHead(size_t i) {
    Cursor& cursor = cursors_[i];
    if (cursor.done()) {
      heads_[i] = {std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint32_t>::max(),
                   true};
      return {};
    }
    if (cursor.must_load()) LITHIFY_TRY(Load(cursor));
    heads_[i] = {cursor.prefix(), cursor.row(), false};
    return {};
  }

  bool TieLess(size_t a, size_t b) const {
    const Head& x = heads_[a];
    const Head& y = heads_[b];
    if (x.done || y.done) return y.done && !x.done;
    if (rests_) {
      if (const int order = cursors_[a].key().rest.compare(cursors_[b].key().rest); order != 0) {
        return order < 0;
      }
    }
    return x.row < y.row;
  }
  bool Less(size_t a, size_t b) const {
    if (heads_[a].prefix != heads_[b].prefix) return heads_[a].prefix < heads_[b].prefix;
    return TieLess(a, b);
  }

  // losers_[n]: of the game at inner node n; node n plays nodes 2n and 2n + 1, cursor i is node
  // k + i.
  void Build() {
    const size_t k = cursors_.size();
    losers_.assign(k, 0);
    std::vector<size_t> winners(2 * k);
    for (size_t i = 0; i < k; ++i) winners[k + i] = i;
    for (size_t node = k; node-- > 1;) {
      const size_t a = winners[2 * node];
      const size_t b = winners[2 * node + 1];
      const bool first = Less(a, b);
      winners[node] = first ? a : b;
      losers_[node] = first ? b : a;
    }
    winner_ = k == 1 ? 0 : winners[1];
  }
  void Replay() {
    size_t winner = winner_;
    for (size_t node = (cursors_.size() + winner) / 2; node > 0; node /= 2) {
      if (Less(losers_[node], winner)) std::swap(losers_[node], winner);
    }
    winner_ = winner;
  }
  // Who would win without the winner: none, if all others are done.
  std::optional<size_t> RunnerUp() const {
    std::optional<size_t> out;
    for (size_t node = (cursors_.size() + winner_) / 2; node > 0; node /= 2) {
      if (!out.has_value() || Less(losers_[node], *out)) out = losers_[node];
    }
    if (out.has_value() && heads_[*out].done) out.reset();
    return out;
  }

  // The first key from cursor.at() on that does not come before `bound`.
  static size_t Bound(const Cursor& cursor, const RowKey& bound) {
    const BlockReader& reader = cursor.reader();
    const auto before = [&](size_t i) {
      const uint64_t prefix = reader.prefix(i);
      return prefix != bound.prefix ? prefix < bound.prefix : Compare(reader.key(i), bound) < 0;
    };
    size_t low = cursor.at();  // All below come before.
    size_t step = 1;
    while (low + step <= cursor.stop() && before(low + step - 1)) {
      low += step;
      step *= 2;
    }
    size_t high = std::min(low + step, cursor.stop() + 1) - 1;
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (before(middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  Status Gallop() {
    Cursor& cursor = cursors_[winner_];
    const std::optional<size_t> runner_up = RunnerUp();
    size_t moved = 0;
    while (!cursor.done()) {
      if (!cursor.loaded()) {
        if (cancel_ != nullptr) LITHIFY_TRY(cancel_->Check());
        if (cursor.whole() && ComesWhole(cursor.block(), runner_up) && sink_.Skip(cursor.block())) {
          moved += cursor.block().count;
          cursor.MoveTo(cursor.stop());
          continue;
        }
        LITHIFY_TRY(Load(cursor));
      }
      const size_t from = cursor.at();
      const size_t to =
          runner_up.has_value() ? Bound(cursor, cursors_[*runner_up].key()) : cursor.stop();
      if (to == from) break;
      sink_.Range(cursor.reader(), from, to);
      moved += to - from;
      const bool goes_on = to == cursor.stop();
      cursor.MoveTo(to);
      if (!goes_on) break;
    }
    // Where it does not pay, it is tried less often.
    gallop_after_ = moved >= 2 * kGallopAfter ? std::max(gallop_after_ / 2, kGallopAfter)
                                              : std::min(gallop_after_ * 2, kGallopAfterMost);
    LITHIFY_TRY(SetHead(winner_));
    Replay();
    return {};
  }

  bool ComesWhole(const Block& block, std::optional<size_t> runner_up) const {
    if (!runner_up.has_value()) return true;
    const Cursor& other = cursors_[*runner_up];
    if (block.last.prefix != other.prefix()) return block.last.prefix < other.prefix();
    return !block.last.cut && Compare(block.last.key(), other.key()) < 0;
  }

  std::vector<Cursor> cursors_;
  const bool rests_;
  const CancelFlag* cancel_;
  Sink& sink_;
  std::vector<Head> heads_;
  std::vector<size_t> losers_;
  size_t winner_ = 0;
  size_t gallop_after_ = kGallopAfter;
};

// Writes some of the bits of an array whose other bits other threads write. They were 0.
class BitWriter {
 public:
  BitWriter(std::vector<uint64_t>& words, size_t begin)
      : words_(words), first_word_(begin / 64), shared_(begin % 64 != 0), at_(begin) {}
  void Push(bool bit) {
    pending_ |= uint64_t{bit} << (at_ % 64);
    if (++at_ % 64 == 0) Flush();
  }
  // `count` bits from bit `from` on.
  void Append(const std::vector<uint64_t>& bits, size_t from, size_t count) {
    while (count > 0) {
      const size_t some = std::min(64 - at_ % 64, count);
      uint64_t word = bits[from / 64] >> (from % 64);
      if (from % 64 + some > 64) word |= bits[from / 64 + 1] << (64 - from % 64);
      if (some < 64) word &= (uint64_t{1} << some) - 1;
      pending_ |= word << (at_ % 64);
      at_ += some;
      from += some;
      count -= some;
      if (at_ % 64 == 0) Flush();
    }
  }
  void Finish() {
    if (at_ % 64 != 0) Share(at_ / 64);
  }

 private:
  void Flush() {
    const size_t word = at_ / 64 - 1;
    if (word == first_word_ && shared_) {
      Share(word);
    } else {
      words_[word] = pending_;
    }
    pending_ = 0;
  }
  void Share(size_t word) {
    std::atomic_ref(words_[word]).fetch_or(pending_, std::memory_order_relaxed);
  }

  std::vector<uint64_t>& words_;
  const size_t first_word_;
  const bool shared_;
  size_t at_;
  uint64_t pending_ = 0;
};

// The rows of one part of the ranks.
class RowsSink {
 public:
  struct Key {
    uint64_t prefix = 0;
    std::string rest;
    bool operator==(const Key&) const = default;
  };

  RowsSink(const RowBits& differ, bool rests, uint64_t begin, SortedRows& out)
      : differ_(differ.words()),
        rests_(rests),
        begin_(begin),
        rows_(out.rows.data() + begin),
        bits_(out.key_begins.words(), begin) {}

  void One(const BlockReader& reader, size_t i) {
    const uint64_t prefix = reader.prefix(i);
    Begin(prefix, rests_ ? reader.rest(i) : std::string_view());
    *rows_++ = reader.row(i);
  }
  void Range(const BlockReader& reader, size_t from, size_t to) {
    One(reader, from);
    const size_t more = to - from - 1;
    if (reader.rows() == nullptr) {
      const uint32_t row = reader.row(from) + 1;
      bits_.Append(differ_, row, more);
      std::iota(rows_, rows_ + more, row);
      if (more > 0) Last(reader.prefix(to - 1), rests_ ? reader.rest(to - 1) : std::string_view());
    } else if (rests_) {
      for (size_t i = from + 1; i < to; ++i) Begin(reader.prefix(i), reader.rest(i));
      std::copy_n(reader.rows() + from + 1, more, rows_);
    } else {
      const uint64_t* prefixes = reader.prefixes();
      for (size_t i = from + 1; i < to; ++i) bits_.Push(prefixes[i] != prefixes[i - 1]);
      std::copy_n(reader.rows() + from + 1, more, rows_);
      last_prefix_ = prefixes[to - 1];
    }
    rows_ += more;
  }
  bool Skip(const Block& block) {
    if (!block.consecutive || block.last.cut || block.first.cut) return false;
    Begin(block.first.prefix, block.first.rest);
    bits_.Append(differ_, block.first.row + size_t{1}, block.count - 1);
    std::iota(rows_, rows_ + block.count, block.first.row);
    rows_ += block.count;
    Last(block.last.prefix, block.last.rest);
    return true;
  }
  void BeforeLoad() {
    if (!rests_ || last_rest_.data() == held_.data()) return;
    held_ = last_rest_;
    last_rest_ = held_;
  }
  Status status() const { return {}; }

  void Finish() { bits_.Finish(); }
  bool empty() const { return !has_first_; }
  uint64_t begin() const { return begin_; }
  const Key& first() const { return first_; }
  Key last() const { return {last_prefix_, std::string(last_rest_)}; }

 private:
  void Begin(uint64_t prefix, std::string_view rest) {
    if (!has_first_) {
      has_first_ = true;
      first_ = {prefix, std::string(rest)};
      bits_.Push(true);
    } else {
      bits_.Push(prefix != last_prefix_ || rest != last_rest_);
    }
    Last(prefix, rest);
  }
  void Last(uint64_t prefix, std::string_view rest) {
    last_prefix_ = prefix;
    last_rest_ = rest;
  }

  const std::vector<uint64_t>& differ_;
  const bool rests_;
  const uint64_t begin_;
  uint32_t* rows_;
  BitWriter bits_;
  bool has_first_ = false;
  Key first_;
  uint64_t last_prefix_ = 0;
  std::string_view last_rest_;
  std::string held_;
};

class RunSink {
 public:
  explicit RunSink(RunWriter& out) : out_(out) {}
  void One(const BlockReader& reader, size_t i) {
    if (status_) status_ = out_.Add(reader.key(i));
  }
  void Range(const BlockReader& reader, size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) One(reader, i);
  }
  bool Skip(const Block&) const { return false; }
  void BeforeLoad() const {}
  Status status() const { return status_; }

 private:
  RunWriter& out_;
  Status status_;
};

// Where each part begins in each run, by [part][run]; the last one is the ends.
using Parts = std::vector<std::vector<Position>>;

// The first place that does not come before `bound`.
Result<Position> Find(const Run& run, const EdgeKey& bound, BlockReader& reader) {
  // Up to this block all begin before it, by what is kept of them.
  size_t block = static_cast<size_t>(
      std::ranges::partition_point(run.blocks,
                                   [&](const Block& b) { return IsBefore(b.first, bound); }) -
      run.blocks.begin());
  if (block > 0) --block;
  for (; block < run.blocks.size(); ++block) {
    if (IsBefore(run.blocks[block].last, bound)) continue;
    const uint32_t count = run.blocks[block].count;
    LITHIFY_TRY(reader.Load(run.blocks[block]));
    uint32_t low = 0;
    for (uint32_t high = count; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      if (Compare(reader.key(middle), bound.key()) < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low < count) return Position{block, low};
  }
  return Position{run.blocks.size(), 0};
}

// Keys that cut all rows into so many parts of about as many rows.
std::vector<EdgeKey> ChooseBounds(std::span<const Run> runs, size_t parts, uint64_t rows) {
  std::vector<const Block*> blocks;
  for (const Run& run : runs) {
    for (const Block& block : run.blocks) blocks.push_back(&block);
  }
  // Where what is kept of them does not tell, any order will do that is one.
  std::ranges::sort(blocks, [](const Block* a, const Block* b) {
    return Compare(a->first.key(), b->first.key()) < 0;
  });
  std::vector<EdgeKey> out;
  uint64_t before = 0;
  for (const Block* block : blocks) {
    if (before >= rows * (out.size() + 1) / parts && out.size() + 1 < parts) {
      out.push_back(block->first);
      out.back().cut = false;  // What is kept of it is a place in the order by itself.
    }
    before += block->count;
  }
  return out;
}

Result<Parts> CutRuns(std::span<const Run> runs, const MergeOptions& options, uint64_t rows) {
  Parts out(1, std::vector<Position>(runs.size()));
  const auto threads = static_cast<size_t>(std::max(options.threads, 1));
  const size_t parts = threads == 1 ? 1 : std::clamp<size_t>(rows / kPartRowsMin, 1, threads * 4);
  KeyBlockCodec codec;
  for (const EdgeKey& bound : ChooseBounds(runs, parts, rows)) {
    if (options.cancel != nullptr) LITHIFY_TRY(options.cancel->Check());
    std::vector<Position> positions;
    for (const Run& run : runs) {
      BlockReader reader(*options.store, codec);
      LITHIFY_TRY_ASSIGN(const Position position, Find(run, bound, reader));
      positions.push_back(position);
    }
    out.push_back(std::move(positions));
  }
  std::vector<Position> ends;
  for (const Run& run : runs) ends.push_back({run.blocks.size(), 0});
  out.push_back(std::move(ends));
  return out;
}

// The rows of all runs before each of the parts.
std::vector<uint64_t> Ranks(std::span<const Run> runs, const Parts& parts) {
  std::vector<uint64_t> out(parts.size());
  for (size_t r = 0; r < runs.size(); ++r) {
    std::vector<uint64_t> before = {0};
    for (const Block& block : runs[r].blocks) before.push_back(before.back() + block.count);
    for (size_t part = 0; part < parts.size(); ++part) {
      out[part] += before[parts[part][r].block] + parts[part][r].at;
    }
  }
  return out;
}

std::vector<Cursor> MakeCursors(std::span<const Run> runs, const std::vector<Position>& begins,
                                const std::vector<Position>& ends, const KeyStore& store,
                                KeyBlockCodec& codec) {
  std::vector<Cursor> out;
  for (size_t i = 0; i < runs.size(); ++i) {
    Cursor cursor(runs[i], begins[i], ends[i], store, codec);
    if (!cursor.done()) out.push_back(std::move(cursor));
  }
  return out;
}

}  // namespace

Status MergeToRows(std::span<const Run> runs, const MergeOptions& options, SortedRows& out) {
  uint64_t rows = 0;
  for (const Run& run : runs) rows += run.rows();
  out.rows.resize(rows);
  out.key_begins.Resize(rows);
  LITHIFY_TRY_ASSIGN(const Parts parts, CutRuns(runs, options, rows));
  const std::vector<uint64_t> ranks = Ranks(runs, parts);
  const bool rests = options.store->has_rests();
  std::vector<RowsSink> sinks;
  for (size_t part = 0; part + 1 < parts.size(); ++part) {
    sinks.emplace_back(*options.differ, rests, ranks[part], out);
  }
  std::vector<RowsSink::Key> lasts(sinks.size());
  const auto merge = [&](size_t part) -> Status {
    KeyBlockCodec codec;
    Merger merger(MakeCursors(runs, parts[part], parts[part + 1], *options.store, codec), rests,
                  options.cancel, sinks[part]);
    LITHIFY_TRY(merger.Run());
    sinks[part].Finish();
    lasts[part] = sinks[part].last();  // While it is there.
    return {};
  };
  LITHIFY_TRY(TryForEach(sinks.size(), options.threads,
                         [&](size_t part) { return Caught([&] { return merge(part); }); }));
  // A key that goes on from one part to the next does not begin there.
  const RowsSink::Key* before = nullptr;
  for (size_t part = 0; part < sinks.size(); ++part) {
    if (sinks[part].empty()) continue;
    if (before != nullptr && *before == sinks[part].first()) {
      const uint64_t rank = sinks[part].begin();
      out.key_begins.words()[rank / 64] &= ~(uint64_t{1} << (rank % 64));
    }
    before = &lasts[part];
  }
  return {};
}

Status MergeToRun(std::span<const Run> runs, const MergeOptions& options, RunWriter& out) {
  std::vector<Position> begins(runs.size());
  std::vector<Position> ends;
  for (const Run& run : runs) ends.push_back({run.blocks.size(), 0});
  KeyBlockCodec codec;
  RunSink sink(out);
  Merger merger(MakeCursors(runs, begins, ends, *options.store, codec), options.store->has_rests(),
                options.cancel, sink);
  return merger.Run();
}

}  // namespace lithify::sort
