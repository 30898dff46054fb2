#include "rewrite/partition_scan.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rewrite/arrow_io.h"
#include "rewrite/leaf_scan.h"

namespace lithify::rewrite {
namespace {

using iceberg::Field;
using iceberg::TypeKind;
using iceberg::Value;

constexpr size_t kOpenFilesMax = 4;
constexpr size_t kRowsMax = 4096;  // At a time, where no column says so.
constexpr size_t kRangeRows = 64;  // Runs from this length on are added as one.
constexpr int64_t kRowsPerCheck = int64_t{1} << 20;
constexpr size_t kKnownSlots = 4096;
constexpr size_t kKnownKeyBytes = 128;

// Roughly what a partition takes besides its values and positions.
constexpr int64_t kPartitionBytes = 512;

struct ByValues {
  bool operator()(const std::vector<Value>& a, const std::vector<Value>& b) const {
    return std::ranges::lexicographical_compare(
        a, b, [](const Value& x, const Value& y) { return iceberg::CompareValues(x, y) < 0; });
  }
};

int64_t SizeOf(const std::vector<Value>& values) {
  int64_t bytes = kPartitionBytes;
  for (const Value& value : values) {
    bytes += static_cast<int64_t>(sizeof(Value));
    if (const auto* text = std::get_if<std::string>(&value)) {
      bytes += static_cast<int64_t>(text->size());
    }
  }
  return bytes;
}

// A source column, read once however many partition fields come from it.
struct Source {
  std::vector<const Field*> path;
  std::unique_ptr<LeafCursor> cursor;  // Of the file at hand.
  TypeKind kind() const { return path.back()->type.kind; }
};

Value ValueAt(const Source& source, size_t row) {
  const LeafCursor& cursor = *source.cursor;
  const size_t i = cursor.at() + row;
  if (!cursor.valid(i)) return {};
  switch (FormOf(source.path.back()->type)) {
    case LeafForm::kDecimal: return iceberg::Decimal{cursor.decimals()[i]};
    case LeafForm::kBytes: return std::string(cursor.bytes()[i]);
    case LeafForm::kWord: break;
  }
  const int64_t word = cursor.words()[i];
  switch (source.kind()) {
    case TypeKind::kBoolean: return word != 0;
    case TypeKind::kFloat: return std::bit_cast<float>(static_cast<uint32_t>(word));
    case TypeKind::kDouble: return std::bit_cast<double>(word);
    default: return word;
  }
}

// The value as bytes that differ wherever values do.
void AppendKey(const Source& source, size_t row, std::string& key) {
  const LeafCursor& cursor = *source.cursor;
  const size_t i = cursor.at() + row;
  const bool valid = cursor.valid(i);
  key += valid ? '\1' : '\0';
  if (!valid) return;
  const auto append = [&key](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  switch (FormOf(source.path.back()->type)) {
    case LeafForm::kWord: append(cursor.words()[i]); return;
    case LeafForm::kDecimal: append(cursor.decimals()[i]); return;
    case LeafForm::kBytes: {
      const std::string_view text = cursor.bytes()[i];
      append(text.size());
      key += text;
      return;
    }
  }
}

class PartitionSplitter {
 public:
  PartitionSplitter(storage::Store& store, const TableTarget& table, const PartitionRule& rule,
                    const ScanBounds& bounds)
      : table_(table),
        rule_(rule),
        bounds_(bounds),
        cache_(store, kOpenFilesMax),
        pool_(bounds.memory_bytes / 2),
        known_(kKnownSlots) {}

  Result<SplitRows> Run(const std::vector<InputFile>& files) {
    LITHIFY_TRY(FindSources());
    SplitRows out;
    for (size_t f = 0; f < files.size(); ++f) {
      LITHIFY_TRY_ASSIGN(const int64_t rows, Scan(f, files[f]));
      out.rows_per_file.push_back(rows);
    }
    for (const auto& [values, number] : numbers_) {
      out.partitions.push_back(std::move(partitions_[number]));
      out.partitions.back().values = values;
    }
    return out;
  }

 private:
  Status FindSources() {
    for (const std::optional<int>& id : rule_.sources) {
      if (!id) {
        source_of_.push_back(std::nullopt);
        continue;
      }
      const auto same = [&](const Source& source) { return source.path.back()->id == *id; };
      const auto known = std::ranges::find_if(sources_, same);
      source_of_.push_back(static_cast<size_t>(known - sources_.begin()));
      if (known != sources_.end()) continue;
      Source source;
      LITHIFY_TRY_ASSIGN(source.path, PathToField(table_.schema, *id));
      sources_.push_back(std::move(source));
    }
    return {};
  }

  Result<int64_t> Scan(size_t f, const InputFile& input) {
    LITHIFY_TRY_ASSIGN(const ScanFile file, OpenScanFile(cache_, input.key, input.size,
                                                         input.records, pool_, bounds_.cancel));
    sets_.assign(partitions_.size(), nullptr);
    file_ = f;
    deleted_ = input.deleted.get();
    int64_t first = 0;
    const Status scanned = GuardParquet(input.key, [&] { return ScanRows(file, input, first); });
    if (!scanned) return Fail(Error(scanned.error()));
    for (Source& source : sources_) source.cursor.reset();
    LITHIFY_TRY(FinishFile(f, input, first));
    return first;
  }

  Status ScanRows(const ScanFile& file, const InputFile& input, int64_t& first) {
    if (deleted_ != nullptr && deleted_->MaxOr(-1) >= file.footer->num_rows()) {
      return Fail(Code::kCorrupt,
                  "row " + std::to_string(deleted_->MaxOr(-1)) + " is deleted, the file has " +
                      std::to_string(file.footer->num_rows()) + " rows",
                  "", "a delete file or the metadata is damaged; compare with another copy");
    }
    for (Source& source : sources_) {
      LITHIFY_TRY_ASSIGN(source.cursor,
                         MakeTableCursor(file, input, source.path, table_.name_mapping));
    }
    for (int g = 0; g < file.footer->num_row_groups(); ++g) {
      LITHIFY_TRY(ScanGroup(g, file.footer->row_group(g).num_rows, first));
    }
    return CheckMemory();
  }

  Status ScanGroup(int group, int64_t left, int64_t& first) {
    for (Source& source : sources_) LITHIFY_TRY(source.cursor->OpenGroup(group));
    while (left > 0) {
      if (bounds_.cancel != nullptr) LITHIFY_TRY(bounds_.cancel->Check());
      auto rows = static_cast<size_t>(std::min<int64_t>(left, kRowsMax));
      for (Source& source : sources_) {
        LITHIFY_TRY(source.cursor->Fill());
        rows = std::min(rows, source.cursor->available());
      }
      if (rows == 0) return Fail(Code::kInternal, "a row group without rows at hand");
      LITHIFY_TRY(Take(first, rows));
      for (Source& source : sources_) source.cursor->Advance(rows);
      left -= static_cast<int64_t>(rows);
      first += static_cast<int64_t>(rows);
      unchecked_ += static_cast<int64_t>(rows);
      if (unchecked_ >= kRowsPerCheck) LITHIFY_TRY(CheckMemory());
    }
    for (Source& source : sources_) LITHIFY_TRY(source.cursor->CloseGroup());
    return {};
  }

  // Rows [first, first + rows) of the file, by runs of one partition.
  Status Take(int64_t first, size_t rows) {
    live_.assign(rows, 1);
    if (deleted_ != nullptr) {
      deleted_->ForEachRange(
          first, first + static_cast<int64_t>(rows), [&](int64_t begin, int64_t end) {
            std::fill(live_.begin() + (begin - first), live_.begin() + (end - first), uint8_t{0});
          });
    }
    for (size_t begin = 0; begin < rows;) {
      if (live_[begin] == 0) {
        ++begin;
        continue;
      }
      LITHIFY_TRY_ASSIGN(const size_t partition, PartitionOf(begin));
      size_t end = begin + 1;
      while (end < rows && live_[end] != 0) {
        LITHIFY_TRY_ASSIGN(const size_t next, PartitionOf(end));
        if (next != partition) break;
        ++end;
      }
      Add(partition, first + static_cast<int64_t>(begin), first + static_cast<int64_t>(end));
      begin = end;
    }
    for (const size_t partition : touched_) {
      SetOf(partition).AddMany(pending_[partition]);
      pending_[partition].clear();
    }
    touched_.clear();
    return {};
  }

  void Add(size_t partition, int64_t begin, int64_t end) {
    partitions_[partition].rows += end - begin;
    if (end - begin >= static_cast<int64_t>(kRangeRows)) {
      SetOf(partition).AddRange(begin, end);
      return;
    }
    pending_.resize(partitions_.size());
    if (pending_[partition].empty()) touched_.push_back(partition);
    for (int64_t row = begin; row < end; ++row) pending_[partition].push_back(row);
  }

  PositionSet& SetOf(size_t partition) {
    if (partition >= sets_.size()) sets_.resize(partitions_.size(), nullptr);
    if (sets_[partition] == nullptr) sets_[partition] = &partitions_[partition].files[file_];
    return *sets_[partition];
  }

  Result<size_t> PartitionOf(size_t row) {
    key_.clear();
    for (const Source& source : sources_) AppendKey(source, row, key_);
    if (key_ == last_key_ && any_) return last_;
    Known* slot = nullptr;
    if (key_.size() <= kKnownKeyBytes) {
      slot = &known_[std::hash<std::string_view>()(key_) % kKnownSlots];
      if (slot->used && slot->key == key_) return Remember(slot->partition);
    }
    std::vector<Value> values;
    for (size_t i = 0; i < rule_.sources.size(); ++i) {
      const Value source = source_of_[i] ? ValueAt(sources_[*source_of_[i]], row) : Value();
      LITHIFY_TRY_ASSIGN(Value value, rule_.transform(i, source));
      values.push_back(std::move(value));
    }
    LITHIFY_TRY_ASSIGN(const size_t partition, NumberOf(std::move(values)));
    if (slot != nullptr) *slot = Known{true, partition, key_};
    return Remember(partition);
  }

  size_t Remember(size_t partition) {
    std::swap(last_key_, key_);
    any_ = true;
    last_ = partition;
    return partition;
  }

  Result<size_t> NumberOf(std::vector<Value> values) {
    const auto known = numbers_.find(values);
    if (known != numbers_.end()) return known->second;
    const size_t number = partitions_.size();
    if (static_cast<int64_t>(number) >= rule_.partitions_max) {
      return Fail(Code::kLimit,
                  "the rows of one group belong to more than " +
                      std::to_string(rule_.partitions_max) + " partitions of the output spec",
                  "output-spec-id",
                  "each partition reads its files once more: raise --max-output-partitions, or "
                  "take fewer files at a time by --where or --max-file-group-size-bytes");
    }
    values_bytes_ += SizeOf(values);
    numbers_.emplace(std::move(values), number);
    partitions_.emplace_back();
    return number;
  }

  Status CheckMemory() {
    unchecked_ = 0;
    int64_t bytes = values_bytes_ + finished_bytes_;
    for (const PositionSet* set : sets_) bytes += set == nullptr ? 0 : set->memory_bytes();
    if (bytes <= bounds_.memory_bytes / 2) return {};
    return Fail(Code::kLimit, "the positions of the rows by partition do not fit the memory bound",
                "output-spec-id", "raise --memory, or lower --max-file-group-size-bytes");
  }

  // Each live row is in one partition (R100).
  Status FinishFile(size_t f, const InputFile& input, int64_t rows) {
    int64_t found = 0;
    for (const PositionSet* set : sets_) {
      if (set == nullptr) continue;
      found += set->size();
      finished_bytes_ += set->memory_bytes();
    }
    const int64_t deleted = deleted_ == nullptr ? 0 : deleted_->size();
    if (found == rows - deleted) return {};
    return Fail(Code::kInternal,
                "file " + std::to_string(f) + " has " + std::to_string(rows - deleted) +
                    " live rows, " + std::to_string(found) + " are in a partition",
                input.key);
  }

  struct Known {
    bool used = false;
    size_t partition = 0;
    std::string key;
  };

  const TableTarget& table_;
  const PartitionRule& rule_;
  const ScanBounds& bounds_;
  ReaderCache cache_;
  BoundedPool pool_;
  std::vector<Source> sources_;
  std::vector<std::optional<size_t>> source_of_;  // By partition field.
  std::map<std::vector<Value>, size_t, ByValues> numbers_;
  std::deque<PartitionRows> partitions_;  // By number; they stay where they are.
  int64_t values_bytes_ = 0;
  int64_t finished_bytes_ = 0;
  int64_t unchecked_ = 0;
  // Source values whose partition is known, each in the one slot that its hash names.
  std::vector<Known> known_;
  std::string key_;
  std::string last_key_;
  bool any_ = false;
  size_t last_ = 0;
  // Of the file at hand.
  size_t file_ = 0;
  const PositionSet* deleted_ = nullptr;
  std::vector<PositionSet*> sets_;  // By partition number.
  std::vector<uint8_t> live_;
  std::vector<std::vector<int64_t>> pending_;  // By partition number.
  std::vector<size_t> touched_;
};

}  // namespace

Result<SplitRows> SplitByPartition(storage::Store& store, const TableTarget& table,
                                   const PartitionRule& rule, const std::vector<InputFile>& files,
                                   const ScanBounds& bounds) {
  return PartitionSplitter(store, table, rule, bounds).Run(files);
}

}  // namespace lithify::rewrite
