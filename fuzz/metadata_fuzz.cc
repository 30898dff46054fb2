// metadata.json: read or refused; what was accepted can be changed, and stays readable.
#include <chrono>
#include <vector>

#include "fuzz_input.h"
#include "table/iceberg_metadata.h"

namespace lithify::fuzz {
namespace {

using iceberg::TableMetadata;

void Schemas(const TableMetadata& metadata) {
  for (const iceberg::Schema& schema : metadata.schemas) {
    const std::string text = table::SchemaToJson(schema);
    const auto back = Must(table::ParseSchemaJson(text, "schema"), "a schema of ours");
    Require(back == schema, "a schema survives being written");
  }
  for (const iceberg::PartitionSpec& spec : metadata.partition_specs) {
    Require(!table::PartitionFieldsToJson(spec).empty(), "a spec has a text");
  }
}

std::vector<table::TableUpdate> Updates(const TableMetadata& metadata) {
  iceberg::Snapshot snapshot;
  snapshot.snapshot_id = 4711;
  snapshot.parent_snapshot_id = metadata.current_snapshot_id;
  snapshot.sequence_number =
      metadata.format_version == 1 || metadata.last_sequence_number == INT64_MAX
          ? 0
          : metadata.last_sequence_number + 1;
  snapshot.timestamp_ms = metadata.last_updated_ms;
  snapshot.manifest_list = "file:///lake/t/metadata/snap-4711.avro";
  snapshot.summary = {{"operation", "replace"}};
  if (metadata.format_version >= 3) snapshot.first_row_id = metadata.next_row_id;
  if (metadata.format_version >= 3) snapshot.added_rows = 10;
  iceberg::SnapshotRef ref;
  ref.snapshot_id = snapshot.snapshot_id;
  table::RemoveSnapshots remove;
  for (const auto& old : metadata.snapshots) remove.snapshot_ids.push_back(old.snapshot_id);
  return {table::AddSnapshot{snapshot},
          table::SetSnapshotRef{"main", ref},
          table::SetProperties{{{"write.metadata.previous-versions-max", "2"}, {"k", "v"}}},
          table::RemoveProperties{{"absent"}},
          table::RemoveStatistics{1},
          remove};
}

void Change(std::string_view text, const TableMetadata& metadata) {
  const auto updates = Updates(metadata);
  Require(!table::CommitToJson({}, updates).empty(), "a commit has a text");
  const Time now{std::chrono::seconds(1'800'000'000)};
  for (size_t count = 0; count <= updates.size(); ++count) {
    const auto next = table::ApplyUpdates(text, std::span(updates).first(count), now,
                                          "file:///lake/t/metadata/v1.metadata.json");
    if (!Gave(next)) continue;
    const auto back = Must(table::ParseTableMetadata(*next, "next"), "metadata of ours");
    Require(back.last_updated_ms >= metadata.last_updated_ms, "time never goes back");
    if (count >= 2) Require(back.current_snapshot_id == 4711, "main is at the new snapshot");
    if (count >= 3) Require(back.Property("k", "") == "v", "the property is set");
    Require(back.schemas == metadata.schemas, "schemas stay");
    Require(back.partition_specs == metadata.partition_specs, "specs stay");
  }
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  const std::string_view text = fuzz::Text(data, size);
  (void)fuzz::Gave(lithify::table::ParseNameMapping(text));
  (void)fuzz::Gave(lithify::table::ParseSchemaJson(text, "schema"));
  const auto metadata = lithify::table::ParseTableMetadata(text, "fuzz.metadata.json");
  if (!fuzz::Gave(metadata)) return 0;
  fuzz::Schemas(*metadata);
  fuzz::Change(text, *metadata);
  return 0;
}
