#include "catalog/metadata_file.h"

#include <charconv>
#include <set>
#include <string_view>
#include <utility>

namespace lithify::catalog {
namespace {

constexpr int64_t kMetadataBytesMax = int64_t{512} << 20;

// "…/00012-<uuid>.metadata.json" is 12. -1 where the name has no version, as other catalogs do.
int64_t VersionOf(std::string_view location) {
  const std::string_view name = location.substr(location.rfind('/') + 1);
  const std::string_view digits = name.substr(0, name.find('-'));
  int64_t version = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return -1;
  return version < 0 || version >= 1'000'000'000 ? -1 : version;
}

Status PutStaged(storage::Locations& locations, const LoadedTable& next) {
  const std::string name = next.ident.ToString();
  auto place = locations.Resolve(next.metadata_location);
  if (!place) return Fail(std::move(place.error()).In(name));
  Status written = place->store->PutNew(place->key, next.metadata_text);
  if (written) return {};
  Error error = std::move(written.error());
  // Whether it is there or not: its name is ours alone, and no catalog has ever been told it.
  if (error.code == Code::kUnknownOutcome) Unstage(locations, next.metadata_location);
  if (error.code == Code::kUnknownOutcome || error.code == Code::kConflict) {
    error.code = Code::kTransient;
  }
  return Fail(std::move(error).In(name));
}

}  // namespace

std::unexpected<Error> TableExists(const TableIdent& ident) {
  return Fail(Code::kConflict, "there is a table or view of this name already", ident.ToString(),
              "load it and look whether it is what you want");
}

Result<LoadedTable> ReadTable(storage::Locations& locations, const TableIdent& ident,
                              const std::string& metadata_location) {
  auto place = locations.Resolve(metadata_location);
  if (!place) return Fail(std::move(place.error()).In(ident.ToString()));
  auto blob = place->store->Get(place->key, kMetadataBytesMax);
  if (!blob) {
    Error error = std::move(blob.error());
    if (error.code == Code::kNotFound) {
      error = Error{Code::kCorrupt, "the catalog names a metadata file that does not exist",
                    metadata_location, "restore the file, or register the table anew"};
    }
    return Fail(std::move(error).In(ident.ToString()));
  }
  LoadedTable table;
  table.ident = ident;
  table.metadata_location = metadata_location;
  table.metadata_text = std::move(blob->bytes);
  LITHIFY_TRY_ASSIGN(table.metadata,
                     table::ParseTableMetadata(table.metadata_text, metadata_location));
  return table;
}

std::string NextMetadataLocation(const iceberg::TableMetadata& metadata,
                                 std::string_view current_location, std::string_view uuid) {
  std::string directory = metadata.Property("write.metadata.path", "");
  if (directory.empty()) directory = metadata.location + "/metadata";
  while (directory.ends_with('/')) directory.pop_back();
  std::string version = std::to_string(VersionOf(current_location) + 1);
  if (version.size() < 5) version.insert(0, 5 - version.size(), '0');
  return directory + "/" + version + "-" + std::string(uuid) + ".metadata.json";
}

Result<LoadedTable> StageCommit(storage::Locations& locations, const Clock& clock, Random& random,
                                const LoadedTable& current,
                                std::span<const table::TableRequirement> requirements,
                                std::span<const table::TableUpdate> updates) {
  const std::string name = current.ident.ToString();
  Status met = table::CheckRequirements(current.metadata, requirements);
  if (!met) return Fail(std::move(met.error()).In(name));
  auto text =
      table::ApplyUpdates(current.metadata_text, updates, clock.Now(), current.metadata_location);
  if (!text) return Fail(std::move(text.error()).In(name));

  LoadedTable next;
  next.ident = current.ident;
  next.metadata_text = std::move(*text);
  LITHIFY_TRY_ASSIGN(next.metadata,
                     table::ParseTableMetadata(next.metadata_text, "the next metadata"));
  next.metadata_location =
      NextMetadataLocation(next.metadata, current.metadata_location, MakeUuidV7(clock, random));
  LITHIFY_TRY(PutStaged(locations, next));
  return next;
}

Result<LoadedTable> StageTable(storage::Locations& locations, const Clock& clock, Random& random,
                               const TableIdent& ident, const TableDraft& draft,
                               const std::string& warehouse) {
  table::NewTable wanted;
  wanted.uuid = MakeUuidV7(clock, random);
  wanted.location = draft.location;
  if (wanted.location.empty()) {
    if (warehouse.empty()) {
      return Fail(Code::kInvalid, "the catalog does not say where tables go", ident.ToString(),
                  "give a location");
    }
    wanted.location = warehouse;
    while (wanted.location.ends_with('/')) wanted.location.pop_back();
    for (const std::string& part : ident.namespace_parts) wanted.location += "/" + part;
    wanted.location += "/" + ident.name;
  }
  wanted.schema = draft.schema;
  wanted.spec = draft.spec;
  wanted.properties = draft.properties;
  if (const auto at = wanted.properties.find("format-version"); at != wanted.properties.end()) {
    wanted.format_version = at->second == "3" ? 3 : at->second == "2" ? 2 : 0;
    wanted.properties.erase(at);
  }
  auto text = table::FirstMetadata(wanted, clock.Now());
  if (!text) return Fail(std::move(text.error()).In(ident.ToString()));
  LoadedTable first;
  first.ident = ident;
  first.metadata_text = std::move(*text);
  LITHIFY_TRY_ASSIGN(first.metadata,
                     table::ParseTableMetadata(first.metadata_text, "the first metadata"));
  first.metadata_location = NextMetadataLocation(first.metadata, "", MakeUuidV7(clock, random));
  LITHIFY_TRY(PutStaged(locations, first));
  return first;
}

void RemoveDropped(storage::Locations& locations, const LoadedTable& before,
                   const LoadedTable& next) {
  if (next.metadata.Property("write.metadata.delete-after-commit.enabled", "") != "true") return;
  std::set<std::string_view> kept = {next.metadata_location};
  for (const auto& entry : next.metadata.metadata_log) kept.insert(entry.metadata_file);
  for (const auto& entry : before.metadata.metadata_log) {
    if (!kept.contains(entry.metadata_file)) Unstage(locations, entry.metadata_file);
  }
}

void Unstage(storage::Locations& locations, const std::string& metadata_location) {
  const auto place = locations.Resolve(metadata_location);
  if (place) static_cast<void>(place->store->Remove(place->key));
}

}  // namespace lithify::catalog
