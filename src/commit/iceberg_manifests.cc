#include "commit/iceberg_manifests.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "commit/iceberg_commit.h"
#include "table/iceberg_snapshot.h"
#include "table/iceberg_value.h"

namespace lithify::commit {
namespace {

using iceberg::ManifestFile;
using iceberg::TableMetadata;

std::string TrimSlashes(std::string text) {
  while (!text.empty() && text.back() == '/') text.pop_back();
  return text;
}

const iceberg::Field* FindAnywhere(const TableMetadata& table, int field_id) {
  if (const auto* field = iceberg::FindField(table.schema(), field_id)) return field;
  for (auto schema = table.schemas.rbegin(); schema != table.schemas.rend(); ++schema) {
    if (const auto* field = iceberg::FindField(*schema, field_id)) return field;
  }
  return nullptr;
}

bool IsFloating(const iceberg::Value& value) {
  return std::holds_alternative<float>(value) || std::holds_alternative<double>(value);
}

// Whether a partition field's summary leaves room for the value.
bool SummaryAllows(const TableMetadata& table, const iceberg::PartitionField& field,
                   const iceberg::FieldSummary& summary, const iceberg::Value& value) {
  if (iceberg::IsNull(value)) return summary.contains_null;
  // Zeros with signs and NaNs are where writers differ.
  if (IsFloating(value) || field.source_ids.size() != 1) return true;
  const iceberg::Field* source = FindAnywhere(table, field.source_ids[0]);
  const table::Transform transform = table::ParseTransform(field.transform);
  if (source == nullptr || transform.kind == table::Transform::Kind::kUnknown) return true;
  const iceberg::Type type = table::TransformedType(transform, source->type);
  const auto bound = [&](const std::optional<std::string>& bytes) -> std::optional<iceberg::Value> {
    if (!bytes) return std::nullopt;
    auto parsed = table::ValueFromBytes(type, *bytes);
    if (!parsed || parsed->index() != value.index()) return std::nullopt;
    return std::move(*parsed);
  };
  const auto lower = bound(summary.lower_bound);
  if (lower && iceberg::CompareValues(value, *lower) < 0) return false;
  const auto upper = bound(summary.upper_bound);
  if (!upper || iceberg::CompareValues(value, *upper) <= 0) return true;
  // An upper bound that was cut short is a prefix of what it bounds.
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr && text->starts_with(std::get<std::string>(*upper));
}

// The version in which it was read back.
Result<std::string> CheckSameBytes(storage::Store& store, const std::string& key,
                                   std::string_view bytes) {
  LITHIFY_TRY_ASSIGN(storage::Blob blob, store.Get(key, table::kMetadataBytesMax));
  if (blob.bytes == bytes) return std::move(blob.version);
  return Fail(Code::kCorrupt, "what was written reads back as something else");
}

Result<table::MetadataCache::Bytes> ReadManifestBytes(const table::MetadataSource& source,
                                                      const ManifestFile& manifest) {
  auto bytes = source.Read(manifest.manifest_path);
  if (bytes || bytes.error().code != Code::kNotFound) return bytes;
  return Fail(Code::kConflict, "a manifest was removed while it was needed", manifest.manifest_path,
              "load the table and plan again");
}

}  // namespace

Result<std::vector<ManifestFile>> ManifestsOf(const table::MetadataSource& source,
                                              const TableMetadata& table,
                                              const iceberg::Snapshot& snapshot) {
  auto manifests = table::SnapshotManifests(source, table, snapshot);
  if (manifests || manifests.error().code != Code::kNotFound) return manifests;
  return Fail(Code::kConflict, "a manifest list was removed while it was needed",
              snapshot.manifest_list, "load the table and plan again");
}

Status ForEachEntry(const table::MetadataSource& source, const TableMetadata& table,
                    const ManifestFile& manifest, const table::ManifestReadOptions& options,
                    const std::function<Status(iceberg::ManifestEntry&&)>& visit) {
  LITHIFY_TRY_ASSIGN(const auto bytes, ReadManifestBytes(source, manifest));
  return table::ReadManifest(*bytes, manifest, table, options, visit);
}

Result<LiveEntries> ReadLiveEntries(const table::MetadataSource& source, const TableMetadata& table,
                                    const ManifestFile& manifest) {
  LITHIFY_TRY_ASSIGN(const auto bytes, ReadManifestBytes(source, manifest));
  LiveEntries live;
  LITHIFY_TRY_ASSIGN(live.partition_types, table::ManifestPartitionTypes(*bytes, manifest, table));
  const table::ManifestReadOptions options{.metrics = true, .live_only = true, .bounds_of = {}};
  LITHIFY_TRY(
      table::ReadManifest(*bytes, manifest, table, options, [&](iceberg::ManifestEntry&& entry) {
        live.entries.push_back(std::move(entry));
        return Status();
      }));
  return live;
}

bool MayHold(const TableMetadata& table, const ManifestFile& manifest,
             const iceberg::PartitionKey& partition) {
  if (manifest.partition_spec_id != partition.spec_id) return false;
  const iceberg::PartitionSpec* spec = table.FindSpec(partition.spec_id);
  const size_t fields = partition.values.size();
  if (spec == nullptr || spec->fields.size() != fields || manifest.partitions.size() != fields) {
    return true;
  }
  for (size_t i = 0; i < fields; ++i) {
    if (!SummaryAllows(table, spec->fields[i], manifest.partitions[i], partition.values[i])) {
      return false;
    }
  }
  return true;
}

MetadataFiles::MetadataFiles(const table::MetadataSource& source, const TableMetadata& table,
                             const Clock& clock, Random& random)
    : locations_(&source.locations),
      cache_(source.cache),
      directory_(TrimSlashes(table.Property("write.metadata.path", ""))),
      uuid_(MakeUuidV7(clock, random)) {
  if (directory_.empty()) directory_ = TrimSlashes(table.location) + "/metadata";
}

std::string MetadataFiles::NextManifest() {
  return directory_ + "/" + uuid_ + "-m" + std::to_string(manifests_++) + ".avro";
}

std::string MetadataFiles::ManifestList(int64_t snapshot_id, int attempt) const {
  return directory_ + "/snap-" + std::to_string(snapshot_id) + "-" + std::to_string(attempt) + "-" +
         uuid_ + ".avro";
}

Status MetadataFiles::Put(const std::string& location, std::string_view bytes) {
  LITHIFY_TRY_ASSIGN(const storage::Place place, locations_->Resolve(location));
  Status put = place.store->PutNew(place.key, bytes);
  if (!put && put.error().code == Code::kConflict) {
    return Fail(Code::kInternal, "a new metadata file's name is taken", location);
  }
  written_.push_back(location);
  // Whatever the store said of its outcome, what can be read is what counts.
  if (!put && put.error().code != Code::kUnknownOutcome) {
    return Fail(std::move(put.error()).In(location));
  }
  auto same = CheckSameBytes(*place.store, place.key, bytes);
  if (same) {
    if (cache_ != nullptr) cache_->Add(*place.store, location, bytes, *same);
    return {};
  }
  if (!put && same.error().code == Code::kNotFound) {
    return Fail(Code::kTransient, "the metadata file was not written", location, "try again");
  }
  return Fail(std::move(same.error()).In(location));
}

void MetadataFiles::Remove() noexcept {
  for (const std::string& location : written_) {
    try {
      const auto place = locations_->Resolve(location);
      // What stays is an orphan, which remove_orphan_files takes by its age (R117).
      if (place) (void)place->store->Remove(place->key);
    } catch (const std::exception&) {
      continue;
    }
  }
  written_.clear();
}

}  // namespace lithify::commit
