#include "group/live_files.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/from_exception.h"
#include "base/parallel.h"
#include "table/iceberg_manifest.h"
#include "table/iceberg_snapshot.h"
#include "table/iceberg_value.h"

namespace lithify::group {
namespace {

using iceberg::DataFile;
using iceberg::FileContent;
using iceberg::LiveDataFile;
using iceberg::LiveDeleteFile;
using iceberg::LiveSet;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::PartitionKey;
using iceberg::Value;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 32);
}

// Values that CompareValues holds equal have the same hash.
uint64_t HashOf(const Value& value) {
  const uint64_t kind = value.index();
  if (const auto* text = std::get_if<std::string>(&value)) {
    return Mix(kind, std::hash<std::string>()(*text));
  }
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return Mix(kind, static_cast<uint64_t>(*number));
  }
  if (const auto* flag = std::get_if<bool>(&value)) return Mix(kind, *flag ? 1 : 0);
  if (const auto* decimal = std::get_if<iceberg::Decimal>(&value)) {
    return Mix(kind, static_cast<uint64_t>(decimal->unscaled));
  }
  return kind;  // Partitions by a floating-point number are as rare as they are few.
}

// Numbers partitions in the order in which they are asked for. A table may have many, and their
// files in any order, so they are looked up by hash first; those of one hash are sorted, too, so
// that no choice of values makes a look-up slow.
class PartitionNumbers {
 public:
  int32_t Of(int spec_id, const std::vector<Value>& values) {
    uint64_t hash = static_cast<uint64_t>(spec_id);
    for (const Value& value : values) hash = Mix(hash, HashOf(value));
    const auto found = numbers_.find({hash, spec_id, &values});
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<int32_t>(keys_.size());
    keys_.push_back({.spec_id = spec_id, .values = values});
    numbers_.emplace(Probe{hash, spec_id, &keys_.back().values}, number);
    return number;
  }

  const std::deque<PartitionKey>& keys() const { return keys_; }

  std::vector<PartitionKey> TakeKeys() && {
    numbers_.clear();
    return {std::move_iterator(keys_.begin()), std::move_iterator(keys_.end())};
  }

 private:
  struct Probe {
    uint64_t hash = 0;
    int spec_id = 0;
    const std::vector<Value>* values = nullptr;

    bool operator<(const Probe& other) const {
      if (hash != other.hash) return hash < other.hash;
      if (spec_id != other.spec_id) return spec_id < other.spec_id;
      return std::ranges::lexicographical_compare(
          *values, *other.values,
          [](const Value& a, const Value& b) { return iceberg::CompareValues(a, b) < 0; });
    }
  };

  std::deque<PartitionKey> keys_;  // By number; they stay where they are.
  std::map<Probe, int32_t> numbers_;
};

// Files of one manifest; `partition` counts in the numbers of the reader that read it.
struct Part {
  const PartitionNumbers* numbers = nullptr;
  std::vector<LiveDataFile> data_files;
  std::vector<LiveDeleteFile> delete_files;
  std::vector<iceberg::KeyRange> key_ranges;
};

// One for each thread: most manifests have the partitions of those before.
class NumbersPool {
 public:
  PartitionNumbers* Borrow() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return &all_.emplace_back();
    PartitionNumbers* numbers = free_.back();
    free_.pop_back();
    return numbers;
  }
  void Return(PartitionNumbers* numbers) {
    std::lock_guard lock(mutex_);
    free_.push_back(numbers);
  }

 private:
  std::mutex mutex_;
  std::deque<PartitionNumbers> all_;
  std::vector<PartitionNumbers*> free_;
};

// Why lithify leaves a file alone; a literal, or empty.
std::string_view Unsupported(const DataFile& file, int format_version) {
  if (file.key_metadata) return "encrypted";
  if (file.record_count < 0) return "number of rows unknown";
  if (file.file_format == "PARQUET") {
    // Without it, row ids would be lost (I22); a table that came from version 2 may have such.
    const bool lineage = format_version >= 3 && file.content == FileContent::kData;
    return lineage && !file.first_row_id ? "no row ids yet" : std::string_view();
  }
  if (file.deletion_vector()) return {};
  if (file.file_format == "AVRO") return "Avro file";
  if (file.file_format == "ORC") return "ORC file";
  return "unknown file format";
}

const std::string* BoundOf(const iceberg::ByField<std::string>& bounds, int field_id) {
  for (const auto& [id, bound] : bounds) {
    if (id == field_id) return &bound;
  }
  return nullptr;
}

LiveDeleteFile ToDelete(ManifestEntry&& entry, int format_version) {
  DataFile& file = entry.file;
  LiveDeleteFile out;
  out.content = file.content;
  out.deletion_vector = file.deletion_vector();
  out.size = file.file_size_in_bytes;
  out.records = file.record_count;
  out.sequence_number = entry.sequence_number;
  out.unsupported = Unsupported(file, format_version);
  out.equality_ids = std::move(file.equality_ids);
  out.content_offset = file.content_offset.value_or(0);
  out.content_size = file.content_size_in_bytes.value_or(0);
  if (file.referenced_data_file) {
    out.referenced_data_file = std::move(*file.referenced_data_file);
  } else if (file.content == FileContent::kPositionDeletes) {
    const std::string* lower = BoundOf(file.lower_bounds, iceberg::kFilePathFieldId);
    const std::string* upper = BoundOf(file.upper_bounds, iceberg::kFilePathFieldId);
    if (lower != nullptr) out.lower_path = *lower;
    if (upper != nullptr) out.upper_path = *upper;
    // Equal bounds may both be the cut beginning of many paths. A whole path is never cut to equal
    // bounds, since a cut upper bound is raised above every path that begins so.
    if (lower != nullptr && upper != nullptr && *lower == *upper) out.referenced_data_file = *lower;
  }
  out.path = std::move(file.file_path);
  return out;
}

int64_t CountOf(const iceberg::ByField<int64_t>& counts, int field_id) {
  for (const auto& [id, count] : counts) {
    if (id == field_id) return std::max<int64_t>(0, count);
  }
  return 0;
}

// A bound that is no value of the type is not known.
iceberg::KeyRange KeyRangeOf(const DataFile& file, const iceberg::Field& key,
                             const table::Transform& transform) {
  const auto value = [&](const iceberg::ByField<std::string>& bounds) -> Value {
    const std::string* bytes = BoundOf(bounds, key.id);
    if (bytes == nullptr) return {};
    const auto bound = table::ValueFromBytes(key.type, *bytes);
    if (!bound) return {};
    return table::ApplyTransform(transform, key.type, *bound).value_or(Value());
  };
  const int64_t nulls = CountOf(file.null_value_counts, key.id);
  const int64_t nans = CountOf(file.nan_value_counts, key.id);
  const int64_t rows = std::max<int64_t>(file.record_count, 0);
  iceberg::KeyRange range{.lower = value(file.lower_bounds),
                          .upper = value(file.upper_bounds),
                          .nulls = nulls > 0,
                          .nans = nans > 0};
  // Counts may be of anybody's making: no sum of them.
  range.no_values = iceberg::IsNull(range.lower) && iceberg::IsNull(range.upper) &&
                    (nulls >= rows || nans >= rows - nulls);
  return range;
}

LiveDataFile ToData(ManifestEntry&& entry, int format_version, bool may_match) {
  LiveDataFile out;
  out.size = entry.file.file_size_in_bytes;
  out.records = entry.file.record_count;
  out.sequence_number = entry.sequence_number;
  out.first_row_id = entry.file.first_row_id;
  out.sort_order_id = entry.file.sort_order_id;
  out.unsupported = Unsupported(entry.file, format_version);
  out.may_match = may_match;
  out.path = std::move(entry.file.file_path);
  return out;
}

// What the manifest list says, as far as it can be true of a file of so many bytes.
size_t ClaimedFiles(const ManifestFile& manifest, size_t bytes) {
  constexpr size_t kEntryBytes = 16;  // Compressed; few are so small.
  const auto claimed = [](const std::optional<int64_t>& count) {
    return static_cast<size_t>(std::clamp<int64_t>(count.value_or(0), 0, INT32_MAX));
  };
  return std::min(bytes / kEntryBytes,
                  claimed(manifest.added_files_count) + claimed(manifest.existing_files_count));
}

Status ReadPart(const table::MetadataSource& source, const iceberg::TableMetadata& table,
                const ManifestFile& manifest, const LiveSetOptions& options,
                PartitionNumbers& numbers, Part& part) {
  part.numbers = &numbers;
  if (options.cancel != nullptr) LITHIFY_TRY(options.cancel->Check());
  LITHIFY_TRY_ASSIGN(const auto bytes, source.Read(manifest.manifest_path));
  const iceberg::PartitionSpec* spec = table.FindSpec(manifest.partition_spec_id);
  if (spec == nullptr) {
    return Fail(Code::kCorrupt,
                "partition spec " + std::to_string(manifest.partition_spec_id) +
                    " is not in the table's metadata",
                manifest.manifest_path);
  }
  const table::FileFilter* filter = options.filter;
  table::ManifestReadOptions read{.metrics = filter != nullptr, .live_only = true, .bounds_of = {}};
  if (manifest.content == iceberg::ManifestContent::kData) {
    part.data_files.reserve(ClaimedFiles(manifest, bytes->size()));
    if (options.key != nullptr) {
      read.bounds_of.push_back(options.key->id);
      read.null_counts = true;
    }
  } else {
    read.bounds_of.push_back(iceberg::kFilePathFieldId);
  }
  const table::Transform transform = table::ParseTransform(options.key_transform);
  return table::ReadManifest(*bytes, manifest, table, read, [&](ManifestEntry&& entry) -> Status {
    const int32_t partition = numbers.Of(entry.file.spec_id, entry.file.partition);
    if (entry.file.content == FileContent::kData) {
      const bool may_match = filter == nullptr || filter->MayMatch(entry.file, *spec);
      if (options.key != nullptr) {
        part.key_ranges.push_back(KeyRangeOf(entry.file, *options.key, transform));
      }
      part.data_files.push_back(ToData(std::move(entry), table.format_version, may_match));
      part.data_files.back().partition = partition;
    } else {
      part.delete_files.push_back(ToDelete(std::move(entry), table.format_version));
      part.delete_files.back().partition = partition;
    }
    return {};
  });
}

bool IsUnpartitioned(const iceberg::PartitionSpec* spec) {
  return spec != nullptr && std::ranges::all_of(spec->fields, [](const auto& field) {
           return table::ParseTransform(field.transform).kind == table::Transform::Kind::kVoid;
         });
}

// A file that two entries list has its rows twice, for every reader. What was meant nobody can
// tell: it is left alone, and so the rest of the table is not blocked by it.
void MarkListedTwice(std::vector<LiveDataFile>& files) {
  std::vector<std::pair<size_t, size_t>> by_hash;
  by_hash.reserve(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    by_hash.emplace_back(std::hash<std::string_view>()(files[i].path), i);
  }
  std::ranges::sort(by_hash);
  for (size_t i = 0; i < by_hash.size(); ++i) {
    for (size_t j = i + 1; j < by_hash.size() && by_hash[j].first == by_hash[i].first; ++j) {
      LiveDataFile& one = files[by_hash[i].second];
      LiveDataFile& other = files[by_hash[j].second];
      if (one.path == other.path) one.unsupported = other.unsupported = "listed twice";
    }
  }
}

LiveSet PutTogether(const iceberg::TableMetadata& table, const iceberg::Snapshot& snapshot,
                    std::vector<Part>& parts) {
  LiveSet live;
  live.snapshot_id = snapshot.snapshot_id;
  live.sequence_number = snapshot.sequence_number;
  size_t data = 0;
  size_t deletes = 0;
  for (const Part& part : parts) {
    data += part.data_files.size();
    deletes += part.delete_files.size();
  }
  live.data_files.reserve(data);
  live.delete_files.reserve(deletes);
  // In the order of their first file, whichever thread saw it.
  PartitionNumbers numbers;
  std::map<const PartitionNumbers*, std::vector<int32_t>> known;
  for (Part& part : parts) {
    std::vector<int32_t>& renumbered = known[part.numbers];
    renumbered.resize(part.numbers->keys().size(), -1);
    const auto renumber = [&](int32_t& partition) {
      int32_t& number = renumbered[static_cast<size_t>(partition)];
      if (number < 0) {
        const PartitionKey& key = part.numbers->keys()[static_cast<size_t>(partition)];
        number = numbers.Of(key.spec_id, key.values);
      }
      partition = number;
    };
    for (LiveDataFile& file : part.data_files) {
      renumber(file.partition);
      live.data_files.push_back(std::move(file));
    }
    for (LiveDeleteFile& file : part.delete_files) {
      renumber(file.partition);
      live.delete_files.push_back(std::move(file));
    }
    std::ranges::move(part.key_ranges, std::back_inserter(live.key_ranges));
    part = {};
  }
  MarkListedTwice(live.data_files);
  live.partitions = std::move(numbers).TakeKeys();
  for (const PartitionKey& key : live.partitions) {
    live.unpartitioned.push_back(IsUnpartitioned(table.FindSpec(key.spec_id)));
  }
  return live;
}

}  // namespace

Result<LiveSet> LoadLiveFiles(const table::MetadataSource& source,
                              const iceberg::TableMetadata& table,
                              const iceberg::Snapshot& snapshot, const LiveSetOptions& options) {
  LITHIFY_TRY_ASSIGN(auto manifests, table::SnapshotManifests(source, table, snapshot));
  if (options.matching_only && options.filter != nullptr) {
    std::erase_if(manifests, [&](const ManifestFile& manifest) {
      const iceberg::PartitionSpec* spec = table.FindSpec(manifest.partition_spec_id);
      if (!table::HasLiveFiles(manifest)) return true;
      return manifest.content == iceberg::ManifestContent::kData && spec != nullptr &&
             !options.filter->MayMatch(manifest, *spec);
    });
  }
  NumbersPool pool;
  std::vector<Part> parts(manifests.size());
  std::mutex mutex;
  std::optional<Error> first;  // Of the first manifest that failed, in time.
  ForEach(manifests.size(), options.threads, [&](size_t i) {
    {
      std::lock_guard lock(mutex);
      if (first) return;
    }
    Status read;
    try {
      PartitionNumbers* numbers = pool.Borrow();
      read = ReadPart(source, table, manifests[i], options, *numbers, parts[i]);
      pool.Return(numbers);
    } catch (const std::exception& e) {
      read = Fail(FromException(e, manifests[i].manifest_path));
    }
    if (read) return;
    std::lock_guard lock(mutex);
    if (!first) first = std::move(read.error());
  });
  if (first) return Fail(std::move(*first));
  return PutTogether(table, snapshot, parts);
}

}  // namespace lithify::group
