#include "rewrite/column_copy.h"

#include <parquet/exception.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "rewrite/entry_reader.h"
#include "rewrite/physical_type.h"
#include "rewrite/row_hash.h"
#include "rewrite/row_mask.h"
#include "rewrite/value_reader.h"

namespace lithify::rewrite {
namespace {

constexpr int kEmptyPagesMax = 10'000;

template <typename OutType>
class TypedCopy final : public ColumnCopy {
  using T = typename OutType::c_type;

 public:
  TypedCopy(const std::vector<std::unique_ptr<InputSource>>& inputs,
            const ColumnCopyOptions& options)
      : inputs_(inputs),
        options_(options),
        seed_(ColumnSeed(options.output.path)),
        input_(options.start_input),
        group_(std::max(options.first_group, options.start_group)) {
    for (int g = options.first_group; g < group_; ++g) {
      closed_rows_ += inputs_[input_]->footer->row_group(g).num_rows;
    }
    if (closed_rows_ > 0 && inputs_[input_]->deleted != nullptr) {
      closed_rows_dropped_ = inputs_[input_]->deleted->CountBelow(closed_rows_);
    }
  }

  Result<Digest128> Copy(int64_t rows, ColumnEncoder* encoder, RowGroupRows& shared) override {
    Borrow();
    auto digest = CopyRows(rows, encoder, shared);
    if (digest) {
      if (auto rested = Rest(); !rested) return Fail(std::move(rested.error()));
    }
    return digest;
  }

  std::string current_input() const override {
    return input_ < inputs_.size() ? inputs_[input_]->key : std::string("end of input");
  }

  int64_t rows_dropped() const override { return rows_dropped_; }

  Status PassOver(int64_t rows, int64_t dropped) override {
    LITHIFY_TRY(PassDeleted());
    while (rows > 0) {
      if (input_ == inputs_.size()) return Fail(NotAtStart());
      const InputSource& in = *inputs_[input_];
      const int64_t group_rows = in.footer->row_group(group_).num_rows;
      const int64_t deleted = in.deleted == nullptr
                                  ? 0
                                  : in.deleted->CountBelow(closed_rows_ + group_rows) -
                                        in.deleted->CountBelow(closed_rows_);
      if (group_rows - deleted > rows) return Fail(NotAtStart());
      closed_rows_ += group_rows;
      closed_rows_dropped_ += deleted;
      rows -= group_rows - deleted;
      dropped -= deleted;
      ++group_;
      if (rows > 0) LITHIFY_TRY(PassDeleted());
    }
    if (dropped != 0) {
      return Fail(Code::kCorrupt, "its pages lost another number of rows than are deleted", "",
                  "a delete file or the metadata is damaged; compare with another copy");
    }
    if (!borrowed_fresh_) LITHIFY_TRY(Rest());
    at_chunk_end_ = true;
    return {};
  }

  Status Finish() override {
    Borrow();
    if (!batch_.drained()) return Fail(Long());
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool more, Fill());
      if (!more) return {};
      if (!batch_.drained()) return Fail(Long());
    }
  }

 private:
  void Borrow() {
    if (!batch_.values) std::swap(batch_, Batch<T>::Spare());
    if (!batch_.values) batch_.Allocate();
    if (borrowed_fresh_) batch_.levels = batch_.level_at = batch_.value_at = 0;
    borrowed_fresh_ = false;
  }

  // Between two calls: gives back what the next column can use, and closes the chunk if it is done
  // or, where memory is short, in any case.
  Status Rest() {
    if (chunk_open_ && batch_.drained() && chunk_rows_seen_ == chunk_rows_) {
      LITHIFY_TRY(ReadSome());
      if (!batch_.drained() && options_.output.repetition_max == 0) return Fail(Long());
      if (batch_.drained()) CloseChunk();
    }
    if (chunk_open_ && options_.release) {
      resume_rows_ = chunk_rows_consumed_;
      chunk_open_ = false;
      column_.reset();
      batch_.levels = batch_.level_at = 0;
    }
    if (batch_.drained()) {
      std::swap(batch_, Batch<T>::Spare());
      batch_ = Batch<T>();
      borrowed_fresh_ = true;
    }
    return {};
  }

  Result<Digest128> CopyRows(int64_t rows, ColumnEncoder* encoder, RowGroupRows& shared) {
    auto* typed = static_cast<TypedColumnEncoder<OutType>*>(encoder);
    digest_ = Digest128{};
    row_ = 0;
    row_open_ = false;
    while (true) {
      if (batch_.drained()) {
        if (row_ == rows && (at_chunk_end_ || options_.output.repetition_max == 0)) break;
        LITHIFY_TRY_ASSIGN(const bool more, Fill());
        if (!more) break;
        continue;
      }
      const int64_t take = TakeLevels(rows);
      if (take == 0) break;
      LITHIFY_TRY(Consume(take, typed, shared));
      if (options_.pool != nullptr) LITHIFY_TRY(options_.pool->Check());
    }
    CloseRow(shared);
    if (row_ != rows) return Fail(Short());
    return digest_;
  }

  const LeafSource& source() const {
    return inputs_[input_]->leaves[static_cast<size_t>(options_.leaf)];
  }

  Error Short() const {
    return Error{Code::kCorrupt, "the column has fewer rows than its row group claims", "",
                 "restore the file from its source"};
  }
  Error NotAtStart() const {
    return Error{Code::kInternal, "only whole row groups can be passed over", "", ""};
  }
  Error Long() const {
    return Error{Code::kCorrupt, "the column has more rows than its row group claims", "",
                 "restore the file from its source"};
  }

  // Number of the next row, within its file; deleted rows do not count in the row group under way.
  int64_t RowInFile() const { return closed_rows_ + chunk_rows_consumed_; }

  int EndGroup(const InputSource& in) const {
    return options_.last_group < 0 ? in.footer->num_row_groups() : options_.last_group + 1;
  }

  // How many of the batch's entries belong to rows before `rows`.
  int64_t TakeLevels(int64_t rows) const {
    const int64_t left = batch_.levels - batch_.level_at;
    if (options_.output.repetition_max == 0) return std::min(left, rows - row_);
    int64_t started = row_;
    int64_t i = batch_.level_at;
    for (; i < batch_.levels; ++i) {
      if (batch_.repetition[static_cast<size_t>(i)] == 0 && started++ == rows) break;
    }
    return i - batch_.level_at;
  }

  // Next entries into the batch; false at the end of all inputs.
  Result<bool> Fill() {
    batch_.level_at = batch_.levels = batch_.value_at = 0;
    while (input_ < inputs_.size()) {
      const InputSource& in = *inputs_[input_];
      if (!chunk_open_) {
        if (group_ == EndGroup(in)) {
          LITHIFY_TRY(NextInput(in));
          continue;
        }
        LITHIFY_TRY(OpenChunk(in));
      }
      if (batch_.drained()) LITHIFY_TRY(ReadSome());
      if (!batch_.drained()) {
        at_chunk_end_ = false;
        return true;
      }
      if (chunk_rows_seen_ != chunk_rows_) {
        return Fail(chunk_rows_seen_ < chunk_rows_ ? Short() : Long());
      }
      CloseChunk();
      if (options_.output.repetition_max > 0) return true;  // Let Copy() see the boundary.
    }
    at_chunk_end_ = true;
    return false;
  }

  // Leaves out the deleted rows in front of the next row group that has others.
  Status PassDeleted() {
    while (true) {
      if (chunk_open_ || resume_rows_ > 0) {
        Borrow();
        if (!chunk_open_) LITHIFY_TRY(OpenChunk(*inputs_[input_]));
        if (batch_.drained()) LITHIFY_TRY(ReadSome());
        if (!batch_.drained()) return Fail(NotAtStart());
        if (chunk_rows_seen_ != chunk_rows_) return Fail(Short());
        CloseChunk();
      }
      if (input_ == inputs_.size()) return {};
      const InputSource& in = *inputs_[input_];
      if (group_ == EndGroup(in)) {
        LITHIFY_TRY(NextInput(in));
        continue;
      }
      const int64_t rows = in.footer->row_group(group_).num_rows;
      if (rows == 0) {
        ++group_;
        continue;
      }
      if (in.deleted == nullptr ||
          in.deleted->CountBelow(closed_rows_ + rows) - in.deleted->CountBelow(closed_rows_) !=
              rows) {
        return {};
      }
      Borrow();
      LITHIFY_TRY(OpenChunk(in));
    }
  }

  Status NextInput(const InputSource& done) {
    LITHIFY_TRY(CheckDropped(done));
    ++input_;
    group_ = options_.first_group;
    closed_rows_ = 0;
    closed_rows_dropped_ = 0;
    return {};
  }

  void CloseChunk() {
    at_chunk_end_ = true;
    chunk_open_ = false;
    column_.reset();
    closed_rows_ += chunk_rows_;
    closed_rows_dropped_ += chunk_rows_dropped_;
    ++group_;
  }

  // Every deleted position was one row that was there to leave out (R100).
  Status CheckDropped(const InputSource& in) {
    const int64_t expected = in.deleted == nullptr ? 0 : in.deleted->size();
    if (closed_rows_dropped_ == expected) {
      rows_dropped_ += expected;
      return {};
    }
    return Fail(Code::kCorrupt,
                std::to_string(expected) + " rows are deleted, but " +
                    std::to_string(closed_rows_dropped_) + " were left out",
                in.key);
  }

  Status OpenChunk(const InputSource& in) {
    chunk_open_ = true;
    chunk_rows_consumed_ = 0;
    chunk_rows_ = in.footer->row_group(group_).num_rows;
    chunk_rows_seen_ = 0;
    chunk_levels_seen_ = 0;
    chunk_rows_dropped_ = 0;
    mask_.Restart();
    // Of a row group without survivors, one column is read to count its rows, no more.
    if (in.deleted != nullptr && options_.leaf != in.counting_leaf &&
        DeletedFrom(*in.deleted, closed_rows_, chunk_rows_, chunk_rows_) == chunk_rows_) {
      chunk_rows_dropped_ = chunk_rows_seen_ = chunk_rows_;
      return {};
    }
    if (source().input_leaf < 0 || chunk_rows_ == 0) return Discard();
    chunk_levels_ = in.footer->Chunk(group_, source().input_leaf).num_values;
    column_ = OpenColumn(in, source().input_leaf);
    dictionary_ = {};
    unfolds_ = false;
    const std::vector<int16_t>& map = source().definition_map;
    definition_kept_ = true;
    for (size_t level = 0; level < map.size(); ++level) {
      definition_kept_ = definition_kept_ && map[level] == static_cast<int16_t>(level);
    }
    return Discard();
  }

  std::unique_ptr<EntryReader> OpenColumn(const InputSource& in, int leaf) {
    auto pages = ReadPages(in.Pages(), group_, leaf);
    if (options_.read_ahead != nullptr) {
      pages = ReadAhead(std::move(pages), *options_.read_ahead, in.pool);
    }
    return MakeEntryReader(in.footer->schema().Column(leaf), std::move(pages), in.pool);
  }

  // Reads over the rows of a chunk that was released half-way.
  Status Discard() {
    const int64_t rows = std::exchange(resume_rows_, 0);
    while (chunk_rows_consumed_ < rows || (rows > 0 && batch_.drained())) {
      LITHIFY_TRY(ReadSome());
      if (batch_.drained()) return {};
      int64_t i = 0;
      for (; i < batch_.levels; ++i) {
        const bool starts = batch_.repetition[static_cast<size_t>(i)] == 0;
        if (starts && chunk_rows_consumed_ == rows) break;
        if (starts) ++chunk_rows_consumed_;
      }
      batch_.level_at = i;
      const auto begin = batch_.definition.begin();
      const int16_t max = options_.output.definition_max;
      batch_.value_at = max == 0 ? i : std::count(begin, begin + i, max);
    }
    return {};
  }

  // Fills the batch from the open chunk, deleted rows left out; leaves it empty at the chunk's end.
  Status ReadSome() {
    const LeafSource& src = source();
    const PositionSet* deleted = inputs_[input_]->deleted.get();
    int empty_pages = 0;
    batch_.levels = batch_.level_at = batch_.value_at = 0;
    batch_.folded = false;
    while (batch_.levels == 0) {
      if (deleted != nullptr) SkipDeleted(*deleted);
      const int64_t first = closed_rows_ + chunk_rows_seen_;
      int64_t levels = 0;
      if (column_ == nullptr) {
        levels = MakeEntries(src);
        if (levels == 0) return {};
      } else {
        LITHIFY_TRY_ASSIGN(levels, Decode(src));
        if (levels == 0) {
          // Arrow reports an empty page as the end; writers do make them. The chunk's own count of
          // levels tells the two apart.
          if (chunk_levels_seen_ == chunk_levels_) return {};
          if (++empty_pages > kEmptyPagesMax) return Fail(Short());
          continue;
        }
        levels = CountRows(src, levels);
      }
      if (chunk_rows_seen_ > chunk_rows_) return Fail(Long());
      if (src.inherited) LITHIFY_TRY(Inherit(*src.inherited, first, levels));
      if (deleted != nullptr) levels = DropDeleted(*deleted, src, first, levels);
      if (src.fill) FillWith(*src.fill, levels);
      batch_.levels = levels;
    }
    return {};
  }

  // Entries of a column that this file lacks, or of an empty row group: one per row.
  int64_t MakeEntries(const LeafSource& src) {
    const int64_t n = std::min<int64_t>(kBatchLevels, chunk_rows_ - chunk_rows_seen_);
    std::fill_n(batch_.definition.begin(), n, src.definition_map.front());
    std::fill_n(batch_.repetition.begin(), n, int16_t{0});
    chunk_rows_seen_ += n;
    return n;
  }

  // Next entries of the chunk, levels in output terms; 0 at its end or at an empty page.
  Result<int64_t> Decode(const LeafSource& src) {
    const auto* descr = column_->descr();
    ValueReader<OutType> reader(*column_, batch_, options_.output.type_length);
    int64_t values = 0;
    int64_t levels = 0;
    batch_.folded = StaysFolded(src, reader);
    if (batch_.folded) {
      levels = reader.ReadIndices(values);
    } else if (src.levels_only) {
      levels = reader.ReadLevelsOnly(values);
    } else {
      LITHIFY_TRY_ASSIGN(levels, reader.Read(src, values));
    }
    if (levels == 0) return levels;
    chunk_levels_seen_ += levels;
    // A damaged page may decode fewer values than its levels announce, and Arrow does not say
    // so: the rest of the buffer would be values of another column or file.
    const int16_t max = descr->max_definition_level();
    const auto first = batch_.definition.begin();
    const int64_t announced = max == 0 ? levels : std::count(first, first + levels, max);
    if (values != announced) {
      return Fail(Code::kCorrupt,
                  "a page holds " + std::to_string(values) + " values where its levels say " +
                      std::to_string(announced),
                  "", "restore the file from its source");
    }
    if (src.must_be_null && announced > 0) {
      return Fail(Code::kCorrupt, "the column is annotated as always null, and holds values", "",
                  "rewrite the file with the type of the values");
    }
    MapDefinition(src, levels, max > 0);
    return levels;
  }

  // Whether the values of the next entries are taken as indices into dictionary_.
  bool StaysFolded(const LeafSource& src, ValueReader<OutType>& reader) {
    // What is put in the place of nulls or values is in no dictionary.
    if (unfolds_ || src.levels_only || src.inherited || src.fill || !column_->folded())
      return false;
    if (dictionary_.serial > 0) return true;
    if (!reader.ReadDictionary(src, dictionary_)) {
      unfolds_ = true;
      return false;
    }
    dictionary_.serial = ++dictionaries_;
    return true;
  }

  // Counts the rows that begin in what was decoded; returns how many of its entries stay.
  int64_t CountRows(const LeafSource& src, int64_t levels) {
    const auto first = batch_.repetition.begin();
    if (column_->descr()->max_repetition_level() == 0) {
      std::fill_n(first, levels, int16_t{0});
      chunk_rows_seen_ += levels;
      return levels;
    }
    chunk_rows_seen_ += std::count(first, first + levels, int16_t{0});
    return src.levels_only ? DropDeeper(src.repetition_max, levels) : levels;
  }

  void MapDefinition(const LeafSource& src, int64_t levels, bool has_levels) {
    if (!has_levels) {
      std::fill_n(batch_.definition.begin(), levels, src.definition_map.front());
      return;
    }
    if (definition_kept_) return;
    const int16_t* map = src.definition_map.data();
    for (int64_t i = 0; i < levels; ++i) {
      auto& level = batch_.definition[static_cast<size_t>(i)];
      level = map[level];
    }
  }

  int64_t DropDeeper(int16_t repetition_max, int64_t levels) {
    int64_t kept = 0;
    for (int64_t i = 0; i < levels; ++i) {
      const auto from = static_cast<size_t>(i);
      if (batch_.repetition[from] > repetition_max) continue;
      batch_.repetition[static_cast<size_t>(kept)] = batch_.repetition[from];
      batch_.definition[static_cast<size_t>(kept)] = batch_.definition[from];
      ++kept;
    }
    return kept;
  }

  // Passes over rows of a flat column that are all deleted without decoding their values: pages
  // where nothing survives cost no more than their bytes.
  void SkipDeleted(const PositionSet& deleted) {
    if (column_ == nullptr || column_->descr()->max_repetition_level() > 0) return;
    const int64_t first = closed_rows_ + chunk_rows_seen_;
    int64_t gone = DeletedFrom(deleted, first, chunk_rows_ - chunk_rows_seen_, kBatchLevels);
    while (gone > 0) {
      const int64_t skipped = column_->Skip(gone);
      if (skipped == 0) return;  // The end, or an empty page: decoding tells.
      gone -= skipped;
      chunk_levels_seen_ += skipped;
      chunk_rows_seen_ += skipped;
      chunk_rows_dropped_ += skipped;
    }
  }

  int64_t DropDeleted(const PositionSet& deleted, const LeafSource& src, int64_t first,
                      int64_t levels) {
    int16_t* const def = batch_.definition.data();
    int16_t* const rep = batch_.repetition.data();
    const bool has_values = !src.levels_only || src.inherited;
    T* const values = has_values ? batch_.values.get() : nullptr;
    const int16_t max = options_.output.definition_max;
    const auto keep = [&](std::span<const EntryRange> kept, int16_t* repetition) {
      return batch_.folded ? KeepEntries(kept, max, def, repetition, batch_.indices.data())
                           : KeepEntries(kept, max, def, repetition, values);
    };
    if (options_.output.repetition_max == 0) {
      const auto kept = mask_.KeepFlat(deleted, first, levels);
      chunk_rows_dropped_ += mask_.dropped();
      return mask_.dropped() == 0 ? levels : keep(kept, nullptr);
    }
    const auto kept =
        mask_.KeepRepeated(deleted, first, std::span(rep, static_cast<size_t>(levels)));
    chunk_rows_dropped_ += mask_.dropped();
    return keep(kept, rep);
  }

  // Puts the inherited value where the column has none.
  Status Inherit(const Inherited& inherited, int64_t first, int64_t levels) {
    if constexpr (std::is_same_v<OutType, parquet::Int64Type>) {
      const int16_t max = options_.output.definition_max;
      int16_t* def = batch_.definition.data();
      int64_t last = 0;
      if (inherited.value < 0 || __builtin_add_overflow(inherited.value, first + levels, &last)) {
        return Fail(Code::kCorrupt, "row ids or sequence numbers that no table can have");
      }
      int64_t value = std::count(def, def + levels, max);
      for (int64_t i = levels; i-- > 0;) {
        auto& out = batch_.values[static_cast<size_t>(i)];
        if (def[i] == max) {
          out = batch_.values[static_cast<size_t>(--value)];
        } else {
          out = inherited.value + (inherited.plus_position ? first + i : 0);
          def[i] = max;
        }
      }
      return {};
    } else {
      return Fail(Code::kInternal, "only whole numbers are inherited");
    }
  }

  // One value for every entry whose parent is there.
  void FillWith(const std::string& fill, int64_t levels) {
    T value{};
    if constexpr (std::is_same_v<OutType, parquet::ByteArrayType>) {
      value = parquet::ByteArray(std::string_view(fill));
    } else if constexpr (std::is_same_v<OutType, parquet::FLBAType>) {
      value = parquet::FixedLenByteArray(reinterpret_cast<const uint8_t*>(fill.data()));
    } else {
      LITHIFY_CHECK(fill.size() == sizeof value, "a value of another type");
      std::memcpy(&value, fill.data(), sizeof value);
    }
    const auto begin = batch_.definition.begin();
    const int16_t max = options_.output.definition_max;
    std::fill_n(batch_.values.get(), max == 0 ? levels : std::count(begin, begin + levels, max),
                value);
  }

  // Writes, checks and hashes the next `levels` entries of the batch.
  Status Consume(int64_t levels, TypedColumnEncoder<OutType>* encoder, RowGroupRows& shared) {
    const int16_t* def = batch_.definition.data() + batch_.level_at;
    const int16_t* rep = batch_.repetition.data() + batch_.level_at;
    const T* values = batch_.values.get() + batch_.value_at;
    const int16_t max = options_.output.definition_max;
    const int64_t present = max == 0 ? levels : std::count(def, def + levels, max);
    if (options_.rule != nullptr) {
      if (batch_.folded) Unfold(present);
      LITHIFY_TRY(Check(def, levels, values, present, shared));
    }
    if (shared.hashed()) Hash(def, rep, levels, present, shared);
    if (encoder != nullptr) {
      const bool flat = options_.output.repetition_max == 0;
      const EntrySpan entries{def, flat ? nullptr : rep, levels, present};
      if (batch_.folded) {
        encoder->AddFolded(entries, batch_.indices.data() + batch_.value_at, dictionary_);
      } else {
        encoder->Add(entries, values);
      }
    }
    if (options_.output.repetition_max == 0) {
      row_ += levels;
      chunk_rows_consumed_ += levels;
    } else {
      const int64_t starts = std::count(rep, rep + levels, int16_t{0});
      if (!shared.hashed()) row_ += starts;
      chunk_rows_consumed_ += starts;
    }
    batch_.level_at += levels;
    batch_.value_at += present;
    return {};
  }

  // The values that the next indices stand for, besides these.
  void Unfold(int64_t present) {
    for (int64_t i = batch_.value_at; i < batch_.value_at + present; ++i) {
      const auto at = static_cast<size_t>(i);
      batch_.values[at] = dictionary_.values[batch_.indices[at]];
    }
  }

  Status Check(const int16_t* def, int64_t levels, const T* values, int64_t present,
               RowGroupRows& shared) {
    const ColumnRule& rule = *options_.rule;
    const auto span = std::span(values, static_cast<size_t>(present));
    if constexpr (std::is_same_v<OutType, parquet::ByteArrayType>) {
      if (rule.equals_text) {
        return RowChecker::CheckEquals(rule, span, levels - present, RowInFile());
      }
    } else if constexpr (std::is_same_v<OutType, parquet::Int64Type> ||
                         std::is_same_v<OutType, parquet::Int32Type>) {
      if (rule.equals_number) {
        std::vector<int64_t> wide(span.begin(), span.end());
        if (rule.is_unsigned) {
          for (int64_t& value : wide) value &= std::is_same_v<T, int32_t> ? 0xffffffffLL : ~0LL;
        }
        return RowChecker::CheckEquals(rule, wide, levels - present, RowInFile());
      }
      if (rule.time_rank >= 0) {
        auto& times = shared.time_values(rule.time_rank);
        int64_t v = 0;
        for (int64_t i = 0; i < levels; ++i) {
          const bool is_null = options_.output.definition_max > 0 && def[i] == 0;
          times[static_cast<size_t>(row_ + i)] = is_null ? 0 : values[v++];
        }
        return {};
      }
    }
    return Fail(Error{Code::kInternal, "a check that does not fit the column", "", ""});
  }

  void Hash(const int16_t* def, const int16_t* rep, int64_t levels, int64_t present,
            RowGroupRows& shared) {
    const int16_t max = options_.output.definition_max;
    uint64_t* const hashes = batch_.hashes.data();
    if (options_.output.repetition_max == 0) {
      // Dense first, right-aligned, so that spreading over the nulls can go from the left in place.
      uint64_t* dense = hashes + (levels - present);
      HashValues(present, dense);
      if (present < levels) {
        for (int64_t i = 0; i < levels; ++i) {
          hashes[i] = def[i] == max ? *dense++ : HashNull(def[i]);
        }
      }
      FoldRowHashes(hashes, static_cast<size_t>(levels), seed_, digest_);
      shared.AddHashes(row_, hashes, static_cast<size_t>(levels));
      return;
    }
    // Rows that this stretch completes, gathered so that the lock is taken once. The one that ends
    // before entry i is at most number i, and the values from there on are behind that place.
    const int64_t first = row_open_ ? row_ - 1 : row_;
    uint64_t* const dense = hashes + (levels - present) + 1;
    HashValues(present, dense);
    const uint64_t* value = dense;
    size_t done = 0;
    for (int64_t i = 0; i < levels; ++i) {
      if (rep[i] == 0) {
        if (row_open_) hashes[done++] = row_hash_;
        row_open_ = true;
        row_hash_ = 0;
        ++row_;
      }
      const uint64_t hash = def[i] < max ? HashNull(def[i]) : *value++;
      row_hash_ = HashChain(row_hash_, hash, rep[i]);
    }
    FoldRowHashes(hashes, done, seed_, digest_);
    shared.AddHashes(first, hashes, done);
  }

  // One hash for each of the next values.
  void HashValues(int64_t present, uint64_t* out) {
    if (!batch_.folded) return HashEach(batch_.values.get() + batch_.value_at, present, out);
    if (dictionary_.hashes.empty() && present > 0) {
      dictionary_.hashes.resize(dictionary_.values.size());
      HashEach(dictionary_.values.data(), std::ssize(dictionary_.values),
               dictionary_.hashes.data());
    }
    const uint64_t* const hashes = dictionary_.hashes.data();
    const uint32_t* const indices = batch_.indices.data() + batch_.value_at;
    for (int64_t i = 0; i < present; ++i) out[i] = hashes[indices[i]];
  }

  void HashEach(const T* values, int64_t count, uint64_t* out) const {
    if constexpr (sizeof(T) == 4 && std::is_arithmetic_v<T>) {
      HashFixed(reinterpret_cast<const int32_t*>(values), static_cast<size_t>(count), out);
    } else if constexpr (sizeof(T) == 8 && std::is_arithmetic_v<T>) {
      HashFixed(reinterpret_cast<const int64_t*>(values), static_cast<size_t>(count), out);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        out[i] = HashValue(values[i], options_.output.type_length);
      }
    }
  }

  // Repeated columns: the current row, number row_ - 1, is complete.
  void CloseRow(RowGroupRows& shared) {
    if (!row_open_) return;
    row_open_ = false;
    FoldRowHashes(&row_hash_, 1, seed_, digest_);
    shared.AddHashes(row_ - 1, &row_hash_, 1);
  }

  const std::vector<std::unique_ptr<InputSource>>& inputs_;
  const ColumnCopyOptions options_;
  const uint64_t seed_;

  size_t input_ = 0;
  int group_;
  bool chunk_open_ = false;
  bool at_chunk_end_ = true;
  int64_t chunk_rows_ = 0;
  int64_t chunk_rows_seen_ = 0;
  int64_t chunk_rows_consumed_ = 0;
  int64_t chunk_rows_dropped_ = 0;
  int64_t closed_rows_ = 0;  // Of the input's row groups that are done.
  int64_t closed_rows_dropped_ = 0;
  int64_t rows_dropped_ = 0;  // Of the inputs that are done.
  RowMask mask_;
  int64_t resume_rows_ = 0;
  int64_t chunk_levels_ = 0;
  int64_t chunk_levels_seen_ = 0;
  std::unique_ptr<EntryReader> column_;
  ValueDictionary<T> dictionary_;  // Of the chunk, once its serial is not 0.
  bool unfolds_ = false;           // It cannot be had in output terms.
  uint64_t dictionaries_ = 0;      // That there were.
  bool definition_kept_ = false;   // Its definition levels mean the same in the output.

  Batch<T> batch_;
  bool borrowed_fresh_ = true;  // The batch is not ours yet: its positions mean nothing.

  // Of the Copy() call under way.
  Digest128 digest_;
  int64_t row_ = 0;
  bool row_open_ = false;
  uint64_t row_hash_ = 0;
};

}  // namespace

RowGroupRows::RowGroupRows(int64_t rows, size_t time_columns, bool hashed) : rows_(rows) {
  if (hashed) hashes_.assign(static_cast<size_t>(rows), 0);
  times_.assign(time_columns, std::vector<int64_t>(static_cast<size_t>(rows), 0));
}

void RowGroupRows::AddHashes(int64_t first, const uint64_t* hashes, size_t n) {
  std::lock_guard lock(mutex_);
  uint64_t* into = hashes_.data() + first;
  for (size_t i = 0; i < n; ++i) into[i] += hashes[i];
}

Digest128 RowGroupRows::RowDigest() const {
  Digest128 digest;
  for (const uint64_t hash : hashes_) AddRowHash(digest, HashMix(hash));
  return digest;
}

uint64_t RowGroupRows::PlaceSum() const {
  uint64_t sum = 0;
  for (size_t row = 0; row < hashes_.size(); ++row) sum += hashes_[row] * (HashMix(row) | 1);
  return sum;
}

std::unique_ptr<ColumnCopy> MakeColumnCopy(const std::vector<std::unique_ptr<InputSource>>& inputs,
                                           const ColumnCopyOptions& options) {
  return OfPhysicalType(options.output.physical,
                        [&]<typename DType>(DType*) -> std::unique_ptr<ColumnCopy> {
                          return std::make_unique<TypedCopy<DType>>(inputs, options);
                        });
}

}  // namespace lithify::rewrite
