// metadata.json of Iceberg tables, format versions 1 to 3 [Table Metadata]: read into the model,
// and changed by the updates of the REST catalog's protocol (TableRequirement, TableUpdate in its
// OpenAPI document). A member that lithify does not know survives every change with its value.
//
// Errors: kCorrupt with the member's path ("snapshots[3].manifest-list") for what is not a table's
// metadata; kUnsupported for a format version above 3 and for types that it does not define. Thread
// safety: pure functions.
#ifndef LITHIFY_TABLE_ICEBERG_METADATA_H_
#define LITHIFY_TABLE_ICEBERG_METADATA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::table {

// `where` names the file in errors. Gzip-compressed text (…gz.metadata.json) is accepted.
Result<iceberg::TableMetadata> ParseTableMetadata(std::string_view text, std::string_view where);

// JSON of a schema as in metadata.json and in a manifest's header ("schema").
Result<iceberg::Schema> ParseSchemaJson(std::string_view text, std::string_view where);
std::string SchemaToJson(const iceberg::Schema& schema);
// JSON array of a spec's fields, as in a manifest's header ("partition-spec").
std::string PartitionFieldsToJson(const iceberg::PartitionSpec& spec);
// Property schema.name-mapping.default.
Result<std::vector<iceberg::NameMapping>> ParseNameMapping(std::string_view text);

// The first metadata.json of a table without snapshots. kInvalid for a format version other than 2
// and 3, and for a schema or spec that no reader takes.
struct NewTable {
  std::string uuid;
  std::string location;
  int format_version = 2;
  iceberg::Schema schema;       // Its id becomes 0,
  iceberg::PartitionSpec spec;  // and this one's, too.
  std::map<std::string, std::string> properties;
};
Result<std::string> FirstMetadata(const NewTable& table, Time now);
// The bodies of the REST catalog's "create namespace" and "create table".
std::string CreateNamespaceToJson(const std::vector<std::string>& parts,
                                  const std::map<std::string, std::string>& properties);
// An empty location is left out.
std::string CreateTableToJson(const std::string& name, const std::string& location,
                              const iceberg::Schema& schema, const iceberg::PartitionSpec& spec,
                              const std::map<std::string, std::string>& properties);

// What must hold for a commit to be applied; the catalog checks it.
struct AssertTableUuid {
  std::string uuid;
};
struct AssertRefSnapshotId {
  std::string ref;
  std::optional<int64_t> snapshot_id;  // Unset: the ref must not exist.
};
struct AssertCurrentSchemaId {
  int schema_id = 0;
};
struct AssertDefaultSpecId {
  int spec_id = 0;
};
struct AssertDefaultSortOrderId {
  int order_id = 0;
};
using TableRequirement = std::variant<AssertTableUuid, AssertRefSnapshotId, AssertCurrentSchemaId,
                                      AssertDefaultSpecId, AssertDefaultSortOrderId>;

struct AddSnapshot {
  iceberg::Snapshot snapshot;
};
struct SetSnapshotRef {
  std::string ref;
  iceberg::SnapshotRef value;
};
struct RemoveSnapshots {
  std::vector<int64_t> snapshot_ids;
};
struct RemoveSnapshotRef {
  std::string ref;
};
struct SetProperties {
  std::map<std::string, std::string> updates;
};
struct RemoveProperties {
  std::vector<std::string> removals;
};
struct RemoveStatistics {
  int64_t snapshot_id = 0;
};
struct RemovePartitionStatistics {
  int64_t snapshot_id = 0;
};
using TableUpdate =
    std::variant<AddSnapshot, SetSnapshotRef, RemoveSnapshots, RemoveSnapshotRef, SetProperties,
                 RemoveProperties, RemoveStatistics, RemovePartitionStatistics>;

// The body of the REST catalog's commit: {"requirements": […], "updates": […]}.
std::string CommitToJson(std::span<const TableRequirement> requirements,
                         std::span<const TableUpdate> updates);

// kConflict, with what was expected and what is there.
Status CheckRequirements(const iceberg::TableMetadata& metadata,
                         std::span<const TableRequirement> requirements);

// The next metadata.json: `text` with the updates applied, last-updated-ms moved on (never back),
// snapshot-log and metadata-log continued and cut by write.metadata.previous-versions-max.
//
// kConflict if a new snapshot's sequence number is not above last-sequence-number, or its
// first-row-id is below next-row-id (v3): another commit was first; and if a ref that this commit
// neither removes nor moves points to a snapshot that it removes: somebody made the ref meanwhile.
// (Servers of the REST protocol may drop such a ref without a word.) kInvalid for what the
// specification forbids, e.g. a ref to a snapshot that does not exist, and for the removal of the
// branch "main" or of its snapshot. Removing a snapshot drops the log up to its last entry, and its
// statistics. To remove what is not there is no error.
Result<std::string> ApplyUpdates(std::string_view text, std::span<const TableUpdate> updates,
                                 Time now, const std::string& previous_metadata_location);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_METADATA_H_
