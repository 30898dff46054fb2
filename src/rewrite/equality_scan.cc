// FindEqualityDeleted(): a hash join of the targets with the deletes, the deletes taken in parts.
#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/delete_keys.h"
#include "rewrite/delete_scan.h"
#include "rewrite/leaf_scan.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;

constexpr size_t kOpenFilesMax = 4;

// The columns that some delete files compare, in the order of their ids.
struct KeyColumns {
  std::vector<int> ids;
  std::vector<std::vector<const Field*>> paths;  // From the top of the table's schema.
  // One column of 64 bits, by far the most frequent key: compared without being encoded.
  bool single_word = false;
};

Result<KeyColumns> MakeKeyColumns(const TableTarget& table, std::vector<int> ids) {
  KeyColumns columns;
  columns.ids = std::move(ids);
  for (const int id : columns.ids) {
    LITHIFY_TRY_ASSIGN(auto path, PathToField(table.schema, id));
    columns.paths.push_back(std::move(path));
  }
  columns.single_word =
      columns.ids.size() == 1 && FormOf(columns.paths[0].back()->type) == LeafForm::kWord;
  return columns;
}

// The keys of one file's rows, batch by batch.
//
// An encoded key has per column a byte, 0 for null, and for a value: 8 bytes of a word, 16 of a
// decimal, 4 of the length and the bytes themselves. Equal rows have equal keys and no others do.
class KeyReader {
 public:
  KeyReader(const ScanFile& file, const KeyColumns& columns, size_t bytes_max)
      : file_(file), columns_(columns), bytes_max_(bytes_max) {}

  void Add(std::unique_ptr<LeafCursor> cursor, LeafForm form) {
    cursors_.push_back(Column{std::move(cursor), form});
  }

  // The next rows, none at the end of the file.
  Result<size_t> Next() {
    Consume();
    while (rows_left_ == 0) {
      if (group_ >= 0) {
        for (Column& column : cursors_) LITHIFY_TRY(column.cursor->CloseGroup());
      }
      if (++group_ == file_.footer->num_row_groups()) return size_t{0};
      rows_left_ = file_.footer->row_group(group_).num_rows;
      for (Column& column : cursors_) LITHIFY_TRY(column.cursor->OpenGroup(group_));
    }
    rows_ = std::numeric_limits<size_t>::max();
    for (Column& column : cursors_) {
      LITHIFY_TRY(column.cursor->Fill());
      rows_ = std::min(rows_, column.cursor->available());
    }
    if (rows_ == 0) return Fail(Code::kInternal, "a row group without rows at hand", file_.key);
    if (!columns_.single_word) Encode();
    return rows_;
  }

  // Rows of the file before those at hand.
  int64_t first_row() const { return first_row_; }
  // Of a single word.
  std::span<const int64_t> words() const {
    const LeafCursor& cursor = *cursors_[0].cursor;
    return {cursor.words() + cursor.at(), rows_};
  }
  const uint8_t* valid() const { return cursors_[0].cursor->valids() + cursors_[0].cursor->at(); }
  // Of encoded keys.
  const char* buffer() const { return buffer_.data(); }
  std::span<const size_t> offsets() const { return {offsets_.data(), rows_ + 1}; }
  std::string_view key(size_t i) const {
    return {buffer_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }

 private:
  struct Column {
    std::unique_ptr<LeafCursor> cursor;
    LeafForm form;
  };

  void Consume() {
    for (Column& column : cursors_) column.cursor->Advance(rows_);
    rows_left_ -= static_cast<int64_t>(rows_);
    first_row_ += static_cast<int64_t>(rows_);
    rows_ = 0;
  }

  static size_t ValueBytes(const Column& column, size_t i) {
    switch (column.form) {
      case LeafForm::kWord: return sizeof(int64_t);
      case LeafForm::kDecimal: return sizeof(iceberg::Int128);
      case LeafForm::kBytes: return sizeof(uint32_t) + column.cursor->bytes()[i].size();
    }
    return 0;
  }

  // Sizes first, and no more rows than fit the buffer; then the bytes, column by column.
  void Encode() {
    offsets_.assign(rows_ + 1, 0);
    for (const Column& column : cursors_) {
      const size_t at = column.cursor->at();
      for (size_t i = 0; i < rows_; ++i) {
        offsets_[i + 1] += 1 + (column.cursor->valid(at + i) ? ValueBytes(column, at + i) : 0);
      }
    }
    for (size_t i = 0; i < rows_; ++i) {
      if (i > 0 && offsets_[i] + offsets_[i + 1] > bytes_max_) {
        rows_ = i;
        break;
      }
      offsets_[i + 1] += offsets_[i];
    }
    buffer_.resize(std::max(buffer_.size(), offsets_[rows_]));
    ends_.assign(offsets_.begin(), offsets_.begin() + static_cast<std::ptrdiff_t>(rows_));
    for (const Column& column : cursors_) {
      const size_t at = column.cursor->at();
      for (size_t i = 0; i < rows_; ++i) ends_[i] = Append(column, at + i, ends_[i]);
    }
  }

  size_t Append(const Column& column, size_t i, size_t end) {
    const bool valid = column.cursor->valid(i);
    buffer_[end++] = valid ? 1 : 0;
    if (!valid) return end;
    const auto put = [&](const void* data, size_t size) {
      std::memcpy(buffer_.data() + end, data, size);
      end += size;
    };
    switch (column.form) {
      case LeafForm::kWord: put(column.cursor->words() + i, sizeof(int64_t)); break;
      case LeafForm::kDecimal: put(column.cursor->decimals() + i, sizeof(iceberg::Int128)); break;
      case LeafForm::kBytes: {
        const std::string_view text = column.cursor->bytes()[i];
        const auto length = static_cast<uint32_t>(text.size());  // Parquet's own bound.
        put(&length, sizeof(length));
        put(text.data(), text.size());
        break;
      }
    }
    return end;
  }

  const ScanFile& file_;
  const KeyColumns& columns_;
  const size_t bytes_max_;
  std::vector<Column> cursors_;
  int group_ = -1;
  int64_t rows_left_ = 0;
  int64_t first_row_ = 0;
  size_t rows_ = 0;
  std::vector<char> buffer_;
  std::vector<size_t> offsets_;
  std::vector<size_t> ends_;
};

// Delete files that compare the same columns and are in scope of the same targets. A target that
// is newer than a delete file is unaffected either way.
struct Scope {
  enum Target : uint8_t { kEither, kIn, kOut };
  std::vector<Target> targets;

  bool Join(const std::vector<Target>& other) {
    for (size_t t = 0; t < targets.size(); ++t) {
      if (targets[t] != kEither && other[t] != kEither && targets[t] != other[t]) return false;
    }
    for (size_t t = 0; t < targets.size(); ++t) {
      if (other[t] != kEither) targets[t] = other[t];
    }
    return true;
  }
};

struct Unit {
  Unit(size_t key_columns, Scope unit_scope, KeyBudget& budget)
      : columns(key_columns), scope(std::move(unit_scope)), words(budget), bytes(budget) {}
  const size_t columns;  // Index of the KeyColumns.
  Scope scope;
  std::vector<size_t> deletes;
  // The keys of this part.
  WordKeys words;
  ByteKeys bytes;
  int64_t null_sequence_number = kNotDeleted;  // Of the null key, for a single word.
  int64_t newest = kNotDeleted;                // The greatest of all its keys.

  bool Affects(size_t target, int64_t sequence_number) const {
    return scope.targets[target] == Scope::kIn && newest > sequence_number;
  }
  void Clear() {
    words.Clear();
    bytes.Clear();
    null_sequence_number = newest = kNotDeleted;
  }
};

class EqualityScan {
 public:
  EqualityScan(storage::Store& store, const TableTarget& table,
               const std::vector<EqualityDeleteFile>& deletes,
               const std::vector<EqualityTarget>& targets, const ScanBounds& bounds)
      : table_(table),
        deletes_(deletes),
        targets_(targets),
        bounds_(bounds),
        cache_(store, kOpenFilesMax),
        pool_(bounds.memory_bytes / 2),
        budget_(bounds.memory_bytes / 2),
        batch_bytes_(static_cast<size_t>(
            std::clamp(bounds.memory_bytes / 64, 16 * kKiB, int64_t{4} * kMiB))),
        found_(targets.size()) {}

  Result<std::vector<PositionSet>> Run() {
    LITHIFY_TRY(MakeUnits());
    for (const auto& unit : units_) {
      remaining_ = 0;
      for (const size_t d : unit->deletes) remaining_ += std::max<int64_t>(0, deletes_[d].records);
      Reserve(*unit);
      for (const size_t d : unit->deletes) LITHIFY_TRY(Load(*unit, deletes_[d]));
    }
    LITHIFY_TRY(FinishPart());
    return std::move(found_);
  }

 private:
  // --- which deletes go together

  Status MakeUnits() {
    std::vector<std::vector<Scope::Target>> scopes;
    LITHIFY_TRY_ASSIGN(scopes, ScopesOfDeletes());
    for (size_t d = 0; d < deletes_.size(); ++d) {
      // One that no target is older than is not read.
      if (std::ranges::find(scopes[d], Scope::kIn) == scopes[d].end()) continue;
      auto columns = ColumnsOf(deletes_[d]);
      if (!columns) return Fail(std::move(columns.error()).In(deletes_[d].key));
      Unit* unit = nullptr;
      for (const auto& candidate : units_) {
        if (candidate->columns == *columns && candidate->scope.Join(scopes[d])) {
          unit = candidate.get();
          break;
        }
      }
      if (unit == nullptr) {
        units_.push_back(std::make_unique<Unit>(*columns, Scope{scopes[d]}, budget_));
        unit = units_.back().get();
      }
      unit->deletes.push_back(d);
    }
    // Units of the same columns side by side, so that a target's keys are made once for them.
    std::ranges::stable_sort(units_, {}, [](const auto& unit) { return unit->columns; });
    return {};
  }

  Result<std::vector<std::vector<Scope::Target>>> ScopesOfDeletes() const {
    std::vector<std::vector<Scope::Target>> scopes(
        deletes_.size(), std::vector<Scope::Target>(targets_.size(), Scope::kOut));
    for (size_t t = 0; t < targets_.size(); ++t) {
      for (const int d : targets_[t].deletes) {
        if (d < 0 || static_cast<size_t>(d) >= deletes_.size()) {
          return Fail(Code::kInvalid, "there is no delete file " + std::to_string(d),
                      targets_[t].file.key);
        }
        scopes[static_cast<size_t>(d)][t] = Scope::kIn;
      }
      for (size_t d = 0; d < deletes_.size(); ++d) {
        const bool older = targets_[t].file.data_sequence_number < deletes_[d].sequence_number;
        if (!older) scopes[d][t] = Scope::kEither;
      }
    }
    return scopes;
  }

  Result<size_t> ColumnsOf(const EqualityDeleteFile& file) {
    std::vector<int> ids = file.equality_ids;
    std::ranges::sort(ids);
    const auto repeated = std::ranges::unique(ids);
    ids.erase(repeated.begin(), repeated.end());
    if (ids.empty()) {
      return Fail(Code::kCorrupt, "the equality delete file compares no column", "equality_ids");
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i]->ids == ids) return i;
    }
    LITHIFY_TRY_ASSIGN(KeyColumns columns, MakeKeyColumns(table_, std::move(ids)));
    columns_.push_back(std::make_unique<KeyColumns>(std::move(columns)));
    return columns_.size() - 1;
  }

  // --- reading keys

  // `target` is null for a delete file, which must have every column.
  Result<std::unique_ptr<KeyReader>> ReadKeys(const ScanFile& file, const KeyColumns& columns,
                                              const InputFile* target) const {
    auto keys = std::make_unique<KeyReader>(file, columns, batch_bytes_);
    for (const auto& path : columns.paths) {
      const Field& field = *path.back();
      std::unique_ptr<LeafCursor> cursor;
      if (target != nullptr) {
        LITHIFY_TRY_ASSIGN(cursor, MakeTableCursor(file, *target, path, table_.name_mapping));
      } else {
        LITHIFY_TRY_ASSIGN(const LeafPlace place,
                           FindLeaf(file.footer->schema(), path, table_.name_mapping));
        if (place.column < 0) {
          return Fail(Code::kCorrupt,
                      "the equality delete file lacks the column with the field id " +
                          std::to_string(field.id) + ", which it compares",
                      "column " + field.name);
        }
        LITHIFY_TRY_ASSIGN(cursor, MakeLeafCursor(file, place.column, field.type));
      }
      keys->Add(std::move(cursor), FormOf(field.type));
    }
    return keys;
  }

  Status CheckCancel() const {
    return bounds_.cancel == nullptr ? Status() : bounds_.cancel->Check();
  }

  // --- filling

  void Reserve(Unit& unit) const {
    if (columns_[unit.columns]->single_word) {
      unit.words.Reserve(remaining_);
    } else {
      unit.bytes.Reserve(remaining_);
    }
  }

  Status Load(Unit& unit, const EqualityDeleteFile& file) {
    LITHIFY_TRY_ASSIGN(const ScanFile scan,
                       OpenScanFile(cache_, file.key, -1, file.records, pool_, bounds_.cancel));
    // An error of a target is not one of the delete file that was being read.
    std::optional<Error> of_target;
    auto loaded = GuardParquet(file.key, [&]() -> Status {
      LITHIFY_TRY_ASSIGN(const auto keys, ReadKeys(scan, *columns_[unit.columns], nullptr));
      while (true) {
        LITHIFY_TRY(CheckCancel());
        LITHIFY_TRY_ASSIGN(const size_t rows, keys->Next());
        if (rows == 0) return {};
        for (size_t i = 0; i < rows; ++i) {
          if (Insert(unit, *keys, i, file.sequence_number)) continue;
          if (auto done = FinishPart(); !done) {
            of_target = std::move(done.error());
            return Fail(Code::kInternal, "");
          }
          Reserve(unit);
          if (Insert(unit, *keys, i, file.sequence_number)) continue;
          return Fail(Code::kLimit, "one key does not fit the memory bound", "", "raise --memory");
        }
        remaining_ -= static_cast<int64_t>(rows);
      }
    });
    if (of_target) return Fail(std::move(*of_target));
    return loaded;
  }

  bool Insert(Unit& unit, const KeyReader& keys, size_t i, int64_t sequence_number) const {
    bool done = true;
    if (!columns_[unit.columns]->single_word) {
      done = unit.bytes.Insert(keys.key(i), sequence_number);
    } else if (keys.valid()[i] != 0) {
      done = unit.words.Insert(keys.words()[i], sequence_number);
    } else {
      unit.null_sequence_number = std::max(unit.null_sequence_number, sequence_number);
    }
    if (done) unit.newest = std::max(unit.newest, sequence_number);
    return done;
  }

  // --- matching

  // Reads the targets against the keys at hand, and drops those.
  Status FinishPart() {
    for (size_t t = 0; t < targets_.size(); ++t) {
      const InputFile& file = targets_[t].file;
      const bool affected = std::ranges::any_of(
          units_, [&](const auto& unit) { return unit->Affects(t, file.data_sequence_number); });
      if (affected) LITHIFY_TRY(Match(t));
    }
    for (const auto& unit : units_) unit->Clear();
    return {};
  }

  Status Match(size_t t) {
    const InputFile& file = targets_[t].file;
    LITHIFY_TRY_ASSIGN(const ScanFile scan, OpenScanFile(cache_, file.key, file.size, file.records,
                                                         pool_, bounds_.cancel));
    return GuardParquet(file.key, [&]() -> Status {
      for (size_t c = 0; c < columns_.size(); ++c) {
        std::vector<const Unit*> units;
        for (const auto& unit : units_) {
          if (unit->columns == c && unit->Affects(t, file.data_sequence_number)) {
            units.push_back(unit.get());
          }
        }
        if (!units.empty()) LITHIFY_TRY(MatchColumns(t, scan, *columns_[c], units));
      }
      return {};
    });
  }

  Status MatchColumns(size_t t, const ScanFile& scan, const KeyColumns& columns,
                      const std::vector<const Unit*>& units) {
    const InputFile& file = targets_[t].file;
    LITHIFY_TRY_ASSIGN(const auto keys, ReadKeys(scan, columns, &file));
    std::vector<int64_t> sequence_numbers;
    std::vector<int64_t> positions;
    while (true) {
      LITHIFY_TRY(CheckCancel());
      LITHIFY_TRY_ASSIGN(const size_t rows, keys->Next());
      if (rows == 0) return {};
      sequence_numbers.resize(rows);
      for (const Unit* unit : units) {
        Find(*unit, columns, *keys, sequence_numbers);
        positions.clear();
        for (size_t i = 0; i < rows; ++i) {
          // "the data file's data sequence number is strictly less" [Scan Planning].
          if (sequence_numbers[i] > file.data_sequence_number) {
            positions.push_back(keys->first_row() + static_cast<int64_t>(i));
          }
        }
        if (!positions.empty()) found_[t].AddMany(positions);
      }
    }
  }

  static void Find(const Unit& unit, const KeyColumns& columns, const KeyReader& keys,
                   std::vector<int64_t>& sequence_numbers) {
    if (!columns.single_word) {
      unit.bytes.FindMany(keys.buffer(), keys.offsets(), sequence_numbers.data());
      return;
    }
    unit.words.FindMany(keys.words(), sequence_numbers.data());
    const uint8_t* valid = keys.valid();
    for (size_t i = 0; i < sequence_numbers.size(); ++i) {
      if (valid[i] == 0) sequence_numbers[i] = unit.null_sequence_number;
    }
  }

  const TableTarget& table_;
  const std::vector<EqualityDeleteFile>& deletes_;
  const std::vector<EqualityTarget>& targets_;
  const ScanBounds& bounds_;
  ReaderCache cache_;
  BoundedPool pool_;
  KeyBudget budget_;
  const size_t batch_bytes_;
  std::vector<std::unique_ptr<KeyColumns>> columns_;
  std::vector<std::unique_ptr<Unit>> units_;
  int64_t remaining_ = 0;  // Rows of the unit's deletes that are not read yet, about.
  std::vector<PositionSet> found_;
};

}  // namespace

Result<std::vector<PositionSet>> FindEqualityDeleted(storage::Store& store,
                                                     const TableTarget& table,
                                                     const std::vector<EqualityDeleteFile>& deletes,
                                                     const std::vector<EqualityTarget>& targets,
                                                     const ScanBounds& bounds) {
  return EqualityScan(store, table, deletes, targets, bounds).Run();
}

}  // namespace lithify::rewrite
