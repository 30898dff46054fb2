#include "table/iceberg_metadata.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "table/iceberg_json.h"

namespace lithify::table {
namespace iceberg_json {
namespace {

using iceberg::TableMetadata;

constexpr int kPartitionFieldIdFirst = 1000;

// All elements of an array member; an absent one is empty.
template <typename T, typename Read>
Status ReadList(const Node& parent, std::string_view key, Read read, std::vector<T>& out) {
  const std::optional<Node> list = parent.Find(key);
  if (!list) return {};
  LITHIFY_TRY_ASSIGN(const size_t size, list->ArraySize());
  out.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const Node element = list->At(i);
    LITHIFY_TRY(element.IsObject());
    LITHIFY_TRY_ASSIGN(T value, read(element));
    out.push_back(std::move(value));
  }
  return {};
}

template <typename T, typename Id>
Status CheckUnique(const Node& root, std::string_view key, const std::vector<T>& items,
                   Id T::* id) {
  std::unordered_set<Id> seen;
  for (const T& item : items) {
    if (seen.insert(item.*id).second) continue;
    return root.Bad(std::string(key) + " has id " + std::to_string(item.*id) + " twice");
  }
  return {};
}

Result<std::vector<int>> ReadSourceIds(const Node& node) {
  // Multi-argument transforms (v3) have a list; a writer of one argument may give either.
  const std::optional<Node> list = node.Find("source-ids");
  if (!list) {
    LITHIFY_TRY_ASSIGN(const int id, node.Int32("source-id"));
    return std::vector<int>{id};
  }
  LITHIFY_TRY_ASSIGN(const size_t size, list->ArraySize());
  if (size == 0) return list->Bad("is empty");
  std::vector<int> ids;
  for (size_t i = 0; i < size; ++i) {
    LITHIFY_TRY_ASSIGN(const int id, list->At(i).Int32());
    ids.push_back(id);
  }
  return ids;
}

// Old v1 writers gave partition fields no ids: they count from 1000 in order [Partition Evolution].
Result<std::vector<iceberg::PartitionField>> ReadPartitionFields(const Node& list) {
  LITHIFY_TRY_ASSIGN(const size_t size, list.ArraySize());
  std::vector<iceberg::PartitionField> fields;
  for (size_t i = 0; i < size; ++i) {
    const Node node = list.At(i);
    iceberg::PartitionField field;
    LITHIFY_TRY(node.IsObject());
    LITHIFY_TRY_ASSIGN(field.source_ids, ReadSourceIds(node));
    LITHIFY_TRY_ASSIGN(const std::optional<int> id, node.OptionalInt32("field-id"));
    field.field_id = id.value_or(kPartitionFieldIdFirst + static_cast<int>(i));
    LITHIFY_TRY_ASSIGN(field.name, node.Text("name"));
    LITHIFY_TRY_ASSIGN(field.transform, node.Text("transform"));
    fields.push_back(std::move(field));
  }
  LITHIFY_TRY(CheckUnique(list, "the list", fields, &iceberg::PartitionField::field_id));
  return fields;
}

Result<iceberg::PartitionSpec> ReadSpec(const Node& node) {
  iceberg::PartitionSpec spec;
  LITHIFY_TRY_ASSIGN(spec.spec_id, node.Int32("spec-id"));
  LITHIFY_TRY_ASSIGN(const Node fields, node.Member("fields"));
  LITHIFY_TRY_ASSIGN(spec.fields, ReadPartitionFields(fields));
  return spec;
}

Result<iceberg::SortField> ReadSortField(const Node& node) {
  iceberg::SortField field;
  LITHIFY_TRY_ASSIGN(field.source_ids, ReadSourceIds(node));
  LITHIFY_TRY_ASSIGN(field.transform, node.Text("transform"));
  LITHIFY_TRY_ASSIGN(const std::string direction, node.Text("direction"));
  LITHIFY_TRY_ASSIGN(const std::string nulls, node.Text("null-order"));
  if (direction != "asc" && direction != "desc") {
    return node.Bad("has a direction that is neither asc nor desc");
  }
  if (nulls != "nulls-first" && nulls != "nulls-last") {
    return node.Bad("has a null-order that is neither nulls-first nor nulls-last");
  }
  field.ascending = direction == "asc";
  field.nulls_first = nulls == "nulls-first";
  return field;
}

Result<iceberg::SortOrder> ReadSortOrder(const Node& node) {
  iceberg::SortOrder order;
  LITHIFY_TRY_ASSIGN(order.order_id, node.Int32("order-id"));
  LITHIFY_TRY(node.Member("fields"));
  LITHIFY_TRY(ReadList(node, "fields", ReadSortField, order.fields));
  return order;
}

Result<iceberg::Snapshot> ReadSnapshot(const Node& node, int format_version) {
  iceberg::Snapshot snapshot;
  LITHIFY_TRY_ASSIGN(snapshot.snapshot_id, node.Int64("snapshot-id"));
  LITHIFY_TRY_ASSIGN(snapshot.parent_snapshot_id, node.OptionalInt64("parent-snapshot-id"));
  LITHIFY_TRY_ASSIGN(snapshot.timestamp_ms, node.Int64("timestamp-ms"));
  LITHIFY_TRY_ASSIGN(const std::optional<int64_t> sequence, node.OptionalInt64("sequence-number"));
  // A table that was upgraded to v2 has snapshots of v1, with sequence number 0.
  if (sequence.value_or(0) < 0) return node.Bad("has a negative sequence-number");
  if (format_version > 1) snapshot.sequence_number = sequence.value_or(0);
  LITHIFY_TRY_ASSIGN(const std::optional<std::string> list, node.OptionalText("manifest-list"));
  if (list) {
    if (list->empty()) return node.Bad("has an empty manifest-list");
    snapshot.manifest_list = *list;
  } else {
    LITHIFY_TRY_ASSIGN(const Node manifests, node.Member("manifests"));
    LITHIFY_TRY_ASSIGN(const size_t size, manifests.ArraySize());
    for (size_t i = 0; i < size; ++i) {
      LITHIFY_TRY_ASSIGN(std::string location, manifests.At(i).Text());
      snapshot.manifests.push_back(std::move(location));
    }
  }
  if (const std::optional<Node> summary = node.Find("summary")) {
    LITHIFY_TRY_ASSIGN(snapshot.summary, summary->TextMap());
  }
  LITHIFY_TRY_ASSIGN(snapshot.schema_id, node.OptionalInt32("schema-id"));
  if (format_version >= 3) {
    LITHIFY_TRY_ASSIGN(snapshot.first_row_id, node.OptionalInt64("first-row-id"));
    LITHIFY_TRY_ASSIGN(snapshot.added_rows, node.OptionalInt64("added-rows"));
    if (snapshot.first_row_id.value_or(0) < 0 || snapshot.added_rows.value_or(0) < 0) {
      return node.Bad("has a negative first-row-id or added-rows");
    }
    LITHIFY_TRY_ASSIGN(const std::optional<std::string> key, node.OptionalText("key-id"));
    snapshot.key_id = key.value_or("");
  }
  return snapshot;
}

Result<iceberg::SnapshotRef> ReadRef(const Node& node) {
  iceberg::SnapshotRef ref;
  LITHIFY_TRY_ASSIGN(ref.snapshot_id, node.Int64("snapshot-id"));
  LITHIFY_TRY_ASSIGN(const std::string type, node.Text("type"));
  if (type != "branch" && type != "tag") return node.Bad("has a type other than branch and tag");
  ref.is_branch = type == "branch";
  LITHIFY_TRY_ASSIGN(ref.min_snapshots_to_keep, node.OptionalInt32("min-snapshots-to-keep"));
  LITHIFY_TRY_ASSIGN(ref.max_snapshot_age_ms, node.OptionalInt64("max-snapshot-age-ms"));
  LITHIFY_TRY_ASSIGN(ref.max_ref_age_ms, node.OptionalInt64("max-ref-age-ms"));
  return ref;
}

Result<iceberg::StatisticsFile> ReadStatistics(const Node& node) {
  iceberg::StatisticsFile file;
  LITHIFY_TRY_ASSIGN(file.snapshot_id, node.Int64("snapshot-id"));
  LITHIFY_TRY_ASSIGN(file.path, node.Text("statistics-path"));
  LITHIFY_TRY_ASSIGN(file.size, node.Int64("file-size-in-bytes"));
  return file;
}

Result<iceberg::SnapshotLogEntry> ReadSnapshotLogEntry(const Node& node) {
  iceberg::SnapshotLogEntry entry;
  LITHIFY_TRY_ASSIGN(entry.snapshot_id, node.Int64("snapshot-id"));
  LITHIFY_TRY_ASSIGN(entry.timestamp_ms, node.Int64("timestamp-ms"));
  return entry;
}

Result<iceberg::MetadataLogEntry> ReadMetadataLogEntry(const Node& node) {
  iceberg::MetadataLogEntry entry;
  LITHIFY_TRY_ASSIGN(entry.metadata_file, node.Text("metadata-file"));
  LITHIFY_TRY_ASSIGN(entry.timestamp_ms, node.Int64("timestamp-ms"));
  return entry;
}

Status ReadIdentity(const Node& root, TableMetadata& table) {
  LITHIFY_TRY_ASSIGN(table.format_version, root.Int32("format-version"));
  if (table.format_version < 1) return root.Bad("format-version is below 1");
  if (table.format_version > 3) {
    return root.Fault(
        Code::kUnsupported,
        "format-version is " + std::to_string(table.format_version) + ", and lithify knows 1 to 3");
  }
  LITHIFY_TRY_ASSIGN(const std::optional<std::string> uuid, root.OptionalText("table-uuid"));
  if (!uuid && table.format_version > 1) return root.Bad("table-uuid is missing");
  table.table_uuid = uuid.value_or("");
  LITHIFY_TRY_ASSIGN(table.location, root.Text("location"));
  while (table.location.ends_with('/') && !table.location.ends_with("://")) {
    table.location.pop_back();
  }
  if (table.location.empty()) return root.Bad("location is empty");
  if (table.format_version > 1) {
    LITHIFY_TRY_ASSIGN(table.last_sequence_number, root.Int64("last-sequence-number"));
    if (table.last_sequence_number < 0) return root.Bad("last-sequence-number is negative");
  }
  if (table.format_version > 2) {
    LITHIFY_TRY_ASSIGN(table.next_row_id, root.Int64("next-row-id"));
    if (table.next_row_id < 0) return root.Bad("next-row-id is negative");
  }
  LITHIFY_TRY_ASSIGN(table.last_updated_ms, root.Int64("last-updated-ms"));
  LITHIFY_TRY_ASSIGN(table.last_column_id, root.Int32("last-column-id"));
  if (const std::optional<Node> properties = root.Find("properties")) {
    LITHIFY_TRY_ASSIGN(table.properties, properties->TextMap());
  }
  if (const std::optional<Node> keys = root.Find("encryption-keys")) {
    LITHIFY_TRY_ASSIGN(const size_t size, keys->ArraySize());
    table.has_encryption = size > 0;
  }
  return {};
}

// v1 tables may have "schema" and "partition-spec" alone [Appendix E].
Status ReadSchemas(const Node& root, TableMetadata& table) {
  if (root.Find("schemas") || table.format_version > 1) {
    LITHIFY_TRY(root.Member("schemas"));
    LITHIFY_TRY(ReadList(root, "schemas", ReadSchema, table.schemas));
    LITHIFY_TRY_ASSIGN(table.current_schema_id, root.Int32("current-schema-id"));
  } else {
    LITHIFY_TRY_ASSIGN(const Node node, root.Member("schema"));
    LITHIFY_TRY_ASSIGN(iceberg::Schema schema, ReadSchema(node));
    table.current_schema_id = schema.schema_id;
    table.schemas.push_back(std::move(schema));
  }
  LITHIFY_TRY(CheckUnique(root, "schemas", table.schemas, &iceberg::Schema::schema_id));
  if (table.FindSchema(table.current_schema_id) == nullptr) {
    return root.Bad("current-schema-id is " + std::to_string(table.current_schema_id) +
                    ", which is none of schemas");
  }
  return {};
}

Status ReadSpecs(const Node& root, TableMetadata& table) {
  if (root.Find("partition-specs") || table.format_version > 1) {
    LITHIFY_TRY(root.Member("partition-specs"));
    LITHIFY_TRY(ReadList(root, "partition-specs", ReadSpec, table.partition_specs));
    LITHIFY_TRY_ASSIGN(table.default_spec_id, root.Int32("default-spec-id"));
  } else {
    LITHIFY_TRY_ASSIGN(const Node fields, root.Member("partition-spec"));
    iceberg::PartitionSpec spec;
    LITHIFY_TRY_ASSIGN(spec.fields, ReadPartitionFields(fields));
    table.partition_specs.push_back(std::move(spec));
  }
  LITHIFY_TRY(CheckUnique(root, "partition-specs", table.partition_specs,
                          &iceberg::PartitionSpec::spec_id));
  if (table.FindSpec(table.default_spec_id) == nullptr) {
    return root.Bad("default-spec-id is " + std::to_string(table.default_spec_id) +
                    ", which is none of partition-specs");
  }
  LITHIFY_TRY_ASSIGN(const std::optional<int> last, root.OptionalInt32("last-partition-id"));
  if (!last && table.format_version > 1) return root.Bad("last-partition-id is missing");
  table.last_partition_id = last.value_or(kPartitionFieldIdFirst - 1);
  for (const iceberg::PartitionSpec& spec : table.partition_specs) {
    for (const iceberg::PartitionField& field : spec.fields) {
      if (!last) table.last_partition_id = std::max(table.last_partition_id, field.field_id);
    }
  }
  return {};
}

Status ReadSortOrders(const Node& root, TableMetadata& table) {
  if (root.Find("sort-orders") || table.format_version > 1) {
    LITHIFY_TRY(root.Member("sort-orders"));
    LITHIFY_TRY(ReadList(root, "sort-orders", ReadSortOrder, table.sort_orders));
    LITHIFY_TRY_ASSIGN(table.default_sort_order_id, root.Int32("default-sort-order-id"));
  } else {
    table.sort_orders.emplace_back();
  }
  // Order 0, unsorted, is reserved, and there without being listed [Sorting].
  if (table.default_sort_order_id == 0 && table.FindSortOrder(0) == nullptr) {
    table.sort_orders.emplace_back();
  }
  LITHIFY_TRY(CheckUnique(root, "sort-orders", table.sort_orders, &iceberg::SortOrder::order_id));
  if (table.FindSortOrder(table.default_sort_order_id) == nullptr) {
    return root.Bad("default-sort-order-id is " + std::to_string(table.default_sort_order_id) +
                    ", which is none of sort-orders");
  }
  return {};
}

Status ReadSnapshots(const Node& root, TableMetadata& table) {
  const int version = table.format_version;
  LITHIFY_TRY(ReadList(
      root, "snapshots", [version](const Node& node) { return ReadSnapshot(node, version); },
      table.snapshots));
  LITHIFY_TRY(CheckUnique(root, "snapshots", table.snapshots, &iceberg::Snapshot::snapshot_id));
  LITHIFY_TRY_ASSIGN(table.current_snapshot_id, root.OptionalInt64("current-snapshot-id"));
  if (table.current_snapshot_id == -1) table.current_snapshot_id.reset();
  if (table.current_snapshot_id && table.FindSnapshot(*table.current_snapshot_id) == nullptr) {
    return root.Bad("current-snapshot-id is " + std::to_string(*table.current_snapshot_id) +
                    ", which is none of snapshots");
  }
  return {};
}

Status ReadRefs(const Node& root, TableMetadata& table) {
  if (const std::optional<Node> refs = root.Find("refs")) {
    LITHIFY_TRY(refs->IsObject());
    std::unordered_set<int64_t> known;
    for (const iceberg::Snapshot& snapshot : table.snapshots) known.insert(snapshot.snapshot_id);
    for (const auto& [name, value] : refs->json().get_ref<const Json::object_t&>()) {
      const Node node(value, *refs, name);
      LITHIFY_TRY(node.IsObject());
      LITHIFY_TRY_ASSIGN(iceberg::SnapshotRef ref, ReadRef(node));
      if (!known.contains(ref.snapshot_id)) {
        return node.Bad("points to snapshot " + std::to_string(ref.snapshot_id) +
                        ", which is none of snapshots");
      }
      table.refs.emplace(name, ref);
    }
  }
  const auto main = table.refs.find("main");
  if (main == table.refs.end()) {
    if (table.current_snapshot_id) table.refs["main"].snapshot_id = *table.current_snapshot_id;
    return {};
  }
  if (!main->second.is_branch) return root.Bad("refs.main is a tag");
  if (table.current_snapshot_id != main->second.snapshot_id) {
    return root.Bad("refs.main and current-snapshot-id point to different snapshots");
  }
  return {};
}

}  // namespace

Result<TableMetadata> ReadTableMetadata(const Node& root) {
  TableMetadata table;
  LITHIFY_TRY(root.IsObject());
  LITHIFY_TRY(ReadIdentity(root, table));
  LITHIFY_TRY(ReadSchemas(root, table));
  LITHIFY_TRY(ReadSpecs(root, table));
  LITHIFY_TRY(ReadSortOrders(root, table));
  LITHIFY_TRY(ReadSnapshots(root, table));
  LITHIFY_TRY(ReadRefs(root, table));
  LITHIFY_TRY(ReadList(root, "snapshot-log", ReadSnapshotLogEntry, table.snapshot_log));
  LITHIFY_TRY(ReadList(root, "metadata-log", ReadMetadataLogEntry, table.metadata_log));
  LITHIFY_TRY(ReadList(root, "statistics", ReadStatistics, table.statistics));
  LITHIFY_TRY(ReadList(root, "partition-statistics", ReadStatistics, table.partition_statistics));
  return table;
}

}  // namespace iceberg_json

Result<iceberg::TableMetadata> ParseTableMetadata(std::string_view text, std::string_view where) {
  LITHIFY_TRY_ASSIGN(const iceberg_json::Json json, iceberg_json::Parse(text, where));
  auto table = iceberg_json::ReadTableMetadata(iceberg_json::Node(json));
  if (!table) return Fail(std::move(table.error()).In(where));
  return table;
}

namespace {

std::unexpected<Error> Differs(const std::string& what, const std::string& expected,
                               const std::string& found) {
  return Fail(Code::kConflict, what + " was to be " + expected + " and is " + found, {},
              "somebody else changed the table: load it and plan again");
}

Status CheckId(const std::string& what, int64_t expected, int64_t found) {
  if (expected == found) return {};
  return Differs(what, std::to_string(expected), std::to_string(found));
}

bool SameUuid(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

struct Checker {
  const iceberg::TableMetadata& table;

  Status operator()(const AssertTableUuid& requirement) const {
    if (SameUuid(requirement.uuid, table.table_uuid)) return {};
    return Differs("table-uuid", JsonQuote(requirement.uuid), JsonQuote(table.table_uuid));
  }
  Status operator()(const AssertRefSnapshotId& requirement) const {
    const auto found = table.refs.find(requirement.ref);
    std::optional<int64_t> id;
    if (found != table.refs.end()) id = found->second.snapshot_id;
    if (id == requirement.snapshot_id) return {};
    return Differs("ref " + JsonQuote(requirement.ref),
                   requirement.snapshot_id ? std::to_string(*requirement.snapshot_id) : "absent",
                   id ? std::to_string(*id) : "absent");
  }
  Status operator()(const AssertCurrentSchemaId& requirement) const {
    return CheckId("current-schema-id", requirement.schema_id, table.current_schema_id);
  }
  Status operator()(const AssertDefaultSpecId& requirement) const {
    return CheckId("default-spec-id", requirement.spec_id, table.default_spec_id);
  }
  Status operator()(const AssertDefaultSortOrderId& requirement) const {
    return CheckId("default-sort-order-id", requirement.order_id, table.default_sort_order_id);
  }
};

}  // namespace

Status CheckRequirements(const iceberg::TableMetadata& metadata,
                         std::span<const TableRequirement> requirements) {
  for (const TableRequirement& requirement : requirements) {
    LITHIFY_TRY(std::visit(Checker{metadata}, requirement));
  }
  return {};
}

}  // namespace lithify::table
