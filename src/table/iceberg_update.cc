// Updates of the REST catalog's protocol: as its JSON, and applied to metadata.json.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "table/iceberg_json.h"
#include "table/iceberg_metadata.h"

namespace lithify::table {
namespace {

using iceberg_json::Json;

Json SnapshotJson(const iceberg::Snapshot& snapshot) {
  Json json = Json::object();
  if (snapshot.sequence_number > 0) json["sequence-number"] = snapshot.sequence_number;
  json["snapshot-id"] = snapshot.snapshot_id;
  if (snapshot.parent_snapshot_id) json["parent-snapshot-id"] = *snapshot.parent_snapshot_id;
  json["timestamp-ms"] = snapshot.timestamp_ms;
  json["summary"] = snapshot.summary;
  if (snapshot.manifest_list.empty()) {
    json["manifests"] = snapshot.manifests;
  } else {
    json["manifest-list"] = snapshot.manifest_list;
  }
  if (snapshot.schema_id) json["schema-id"] = *snapshot.schema_id;
  if (snapshot.first_row_id) json["first-row-id"] = *snapshot.first_row_id;
  if (snapshot.added_rows) json["added-rows"] = *snapshot.added_rows;
  if (!snapshot.key_id.empty()) json["key-id"] = snapshot.key_id;
  return json;
}

void SetOrErase(Json& json, const char* key, std::optional<int64_t> value) {
  if (value) {
    json[key] = *value;
  } else {
    json.erase(key);
  }
}

// Members that are not known stay.
void PutRef(Json& json, const iceberg::SnapshotRef& ref) {
  json["snapshot-id"] = ref.snapshot_id;
  json["type"] = ref.is_branch ? "branch" : "tag";
  SetOrErase(json, "min-snapshots-to-keep", ref.min_snapshots_to_keep);
  SetOrErase(json, "max-snapshot-age-ms", ref.max_snapshot_age_ms);
  SetOrErase(json, "max-ref-age-ms", ref.max_ref_age_ms);
}

// --- the protocol's JSON -----------------------------------------------------------------------

struct RequirementWriter {
  Json operator()(const AssertTableUuid& requirement) const {
    return {{"type", "assert-table-uuid"}, {"uuid", requirement.uuid}};
  }
  Json operator()(const AssertRefSnapshotId& requirement) const {
    Json json = {{"type", "assert-ref-snapshot-id"}, {"ref", requirement.ref}};
    json["snapshot-id"] = nullptr;  // Required; null: the ref must not exist.
    if (requirement.snapshot_id) json["snapshot-id"] = *requirement.snapshot_id;
    return json;
  }
  Json operator()(const AssertCurrentSchemaId& requirement) const {
    return {{"type", "assert-current-schema-id"}, {"current-schema-id", requirement.schema_id}};
  }
  Json operator()(const AssertDefaultSpecId& requirement) const {
    return {{"type", "assert-default-spec-id"}, {"default-spec-id", requirement.spec_id}};
  }
  Json operator()(const AssertDefaultSortOrderId& requirement) const {
    return {{"type", "assert-default-sort-order-id"},
            {"default-sort-order-id", requirement.order_id}};
  }
};

// Appends the actions of an update.
struct UpdateWriter {
  Json& actions;

  Json& Add(const char* action) const {
    actions.push_back(Json::object());
    actions.back()["action"] = action;
    return actions.back();
  }
  void operator()(const AddSnapshot& update) const {
    Add("add-snapshot")["snapshot"] = SnapshotJson(update.snapshot);
  }
  void operator()(const SetSnapshotRef& update) const {
    Json& json = Add("set-snapshot-ref");
    json["ref-name"] = update.ref;
    PutRef(json, update.value);
  }
  // One action a snapshot: older servers of Iceberg refuse a list of several.
  void operator()(const RemoveSnapshots& update) const {
    for (const int64_t id : update.snapshot_ids) {
      Add("remove-snapshots")["snapshot-ids"] = Json::array({id});
    }
  }
  void operator()(const RemoveSnapshotRef& update) const {
    Add("remove-snapshot-ref")["ref-name"] = update.ref;
  }
  void operator()(const SetProperties& update) const {
    Add("set-properties")["updates"] = update.updates;
  }
  void operator()(const RemoveProperties& update) const {
    Add("remove-properties")["removals"] = update.removals;
  }
  void operator()(const RemoveStatistics& update) const {
    Add("remove-statistics")["snapshot-id"] = update.snapshot_id;
  }
  void operator()(const RemovePartitionStatistics& update) const {
    Add("remove-partition-statistics")["snapshot-id"] = update.snapshot_id;
  }
};

// --- applied to a document ---------------------------------------------------------------------

std::unexpected<Error> Wrong(std::string message) {
  return Fail(Code::kInvalid, std::move(message));
}

// A number that somebody else's commit took meanwhile, perhaps on another branch.
std::unexpected<Error> Taken(std::string message) {
  return Fail(Code::kConflict, std::move(message), {}, "load the table and plan again");
}

// Changes the JSON, and keeps what later updates of the same commit are judged by in step.
class Editor {
 public:
  Editor(Json& json, const iceberg::TableMetadata& table, int64_t now_ms)
      : json_(json),
        version_(table.format_version),
        updated_ms_(std::max(table.last_updated_ms, now_ms)),
        last_sequence_(table.last_sequence_number),
        next_row_id_(table.next_row_id) {
    for (const iceberg::Snapshot& snapshot : table.snapshots) ids_.insert(snapshot.snapshot_id);
    for (const iceberg::Schema& schema : table.schemas) schemas_.insert(schema.schema_id);
    for (const auto& [name, ref] : table.refs) refs_.emplace(name, ref.snapshot_id);
    if (!table.snapshot_log.empty()) log_end_ms_ = table.snapshot_log.back().timestamp_ms;
  }

  Status operator()(const AddSnapshot& update) {
    const iceberg::Snapshot& snapshot = update.snapshot;
    LITHIFY_TRY(CheckSnapshot(snapshot));
    ids_.insert(snapshot.snapshot_id);
    gone_.erase(snapshot.snapshot_id);
    added_ms_.emplace(snapshot.snapshot_id, snapshot.timestamp_ms);
    Array("snapshots").push_back(SnapshotJson(snapshot));
    updated_ms_ = std::max(updated_ms_, snapshot.timestamp_ms);
    if (version_ < 2) return {};
    last_sequence_ = snapshot.sequence_number;
    json_["last-sequence-number"] = last_sequence_;
    if (version_ < 3) return {};
    next_row_id_ = *snapshot.first_row_id + *snapshot.added_rows;
    json_["next-row-id"] = next_row_id_;
    return {};
  }

  Status operator()(const SetSnapshotRef& update) {
    const iceberg::SnapshotRef& ref = update.value;
    if (update.ref.empty()) return Wrong("a ref has no name");
    if (!ids_.contains(ref.snapshot_id)) {
      return Wrong("ref " + JsonQuote(update.ref) + " is to point to snapshot " +
                   std::to_string(ref.snapshot_id) + ", which the table does not have");
    }
    if (update.ref == kMain && !ref.is_branch) return Wrong("main cannot be a tag");
    if (!ref.is_branch && (ref.min_snapshots_to_keep || ref.max_snapshot_age_ms)) {
      return Wrong("tag " + JsonQuote(update.ref) + " cannot say how many snapshots to keep");
    }
    Json& json = Object("refs")[update.ref];
    if (!json.is_object()) json = Json::object();
    PutRef(json, ref);
    const auto before = refs_.find(update.ref);
    const bool moved = before == refs_.end() || before->second != ref.snapshot_id;
    refs_[update.ref] = ref.snapshot_id;
    if (update.ref == kMain && moved) SetCurrent(ref.snapshot_id);
    return {};
  }

  Status operator()(const RemoveSnapshots& update) {
    const std::unordered_set<int64_t> gone(update.snapshot_ids.begin(), update.snapshot_ids.end());
    const auto main = refs_.find(kMain);
    if (main != refs_.end() && gone.contains(main->second)) {
      return Wrong("snapshot " + std::to_string(main->second) +
                   " is the current one and cannot be removed");
    }
    for (const int64_t id : gone) {
      if (ids_.erase(id) > 0) gone_.insert(id);
    }
    EraseWhere("snapshots", gone);
    EraseWhere("statistics", gone);
    EraseWhere("partition-statistics", gone);
    CutSnapshotLog();
    return {};
  }

  Status operator()(const RemoveSnapshotRef& update) {
    if (update.ref == kMain) return Wrong("branch main cannot be removed");
    if (refs_.erase(update.ref) > 0) Object("refs").erase(update.ref);
    return {};
  }

  Status operator()(const SetProperties& update) {
    Json& properties = Object("properties");
    for (const auto& [key, value] : update.updates) properties[key] = value;
    return {};
  }

  Status operator()(const RemoveProperties& update) {
    Json& properties = Object("properties");
    for (const std::string& key : update.removals) properties.erase(key);
    return {};
  }

  Status operator()(const RemoveStatistics& update) {
    EraseWhere("statistics", {update.snapshot_id});
    return {};
  }

  Status operator()(const RemovePartitionStatistics& update) {
    EraseWhere("partition-statistics", {update.snapshot_id});
    return {};
  }

  // A ref that somebody made after the removal was planned keeps its snapshot: dropping the ref, as
  // servers of the REST protocol may do, would lose a tag that nobody asked to lose.
  Status CheckRefs() const {
    for (const auto& [name, id] : refs_) {
      if (!gone_.contains(id)) continue;
      return Fail(Code::kConflict,
                  "ref " + JsonQuote(name) + " points to snapshot " + std::to_string(id) +
                      ", which was to be removed",
                  {}, "load the table and plan again");
    }
    return {};
  }

  void Finish(const iceberg::TableMetadata& before, const std::string& previous_location) {
    if (!previous_location.empty()) {
      const size_t keep = PreviousVersionsMax();
      Json& log = Array("metadata-log");
      log.push_back(
          {{"metadata-file", previous_location}, {"timestamp-ms", before.last_updated_ms}});
      if (log.size() > keep) {
        log.erase(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(log.size() - keep));
      }
    }
    json_["last-updated-ms"] = updated_ms_;
  }

 private:
  static constexpr std::string_view kMain = "main";

  Status CheckSnapshot(const iceberg::Snapshot& snapshot) const {
    const std::string name = "snapshot " + std::to_string(snapshot.snapshot_id);
    if (snapshot.snapshot_id < 0) return Wrong(name + " has a negative id");
    if (ids_.contains(snapshot.snapshot_id)) return Wrong(name + " is in the table already");
    if (!snapshot.summary.contains("operation")) return Wrong(name + " names no operation");
    if (snapshot.schema_id && !schemas_.contains(*snapshot.schema_id)) {
      return Wrong(name + " has schema " + std::to_string(*snapshot.schema_id) +
                   ", which the table does not have");
    }
    if (version_ == 1) {
      if (snapshot.sequence_number != 0) return Wrong(name + " has a sequence number, in v1");
      return {};
    }
    if (snapshot.manifest_list.empty()) return Wrong(name + " has no manifest list");
    if (snapshot.sequence_number <= last_sequence_) {
      return Taken(name + " has sequence number " + std::to_string(snapshot.sequence_number) +
                   ", and the table is at " + std::to_string(last_sequence_) + " already");
    }
    if (version_ == 2) {
      if (snapshot.first_row_id || snapshot.added_rows) return Wrong(name + " has row ids, in v2");
      return {};
    }
    // [Row Lineage]
    int64_t next = 0;
    if (!snapshot.first_row_id || !snapshot.added_rows || *snapshot.added_rows < 0) {
      return Wrong(name + " says not which row ids it takes (first-row-id, added-rows)");
    }
    if (*snapshot.first_row_id < next_row_id_) {
      return Taken(name + " starts at row id " + std::to_string(*snapshot.first_row_id) +
                   ", and the table is at " + std::to_string(next_row_id_) + " already");
    }
    if (__builtin_add_overflow(*snapshot.first_row_id, *snapshot.added_rows, &next)) {
      return Wrong(name + " takes more row ids than there are");
    }
    return {};
  }

  // A reference holds until the next member is added to the document.
  Json& Array(const char* key) {
    Json& json = json_[key];
    if (!json.is_array()) json = Json::array();
    return json;
  }
  Json& Object(const char* key) {
    Json& json = json_[key];
    if (!json.is_object()) json = Json::object();
    return json;
  }

  // Elements of an array whose "snapshot-id" is one of these.
  void EraseWhere(const char* key, const std::unordered_set<int64_t>& ids) {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_array()) return;
    auto& list = found->get_ref<Json::array_t&>();
    std::erase_if(list,
                  [&ids](const Json& element) { return ids.contains(SnapshotIdOf(element)); });
  }

  static int64_t SnapshotIdOf(const Json& element) {
    return element.at("snapshot-id").get<int64_t>();
  }

  // What came before a snapshot that is gone goes too: else it would look current for longer than
  // it was [Table Metadata, snapshot-log].
  void CutSnapshotLog() {
    const auto found = json_.find("snapshot-log");
    if (found == json_.end() || !found->is_array()) return;
    auto& log = found->get_ref<Json::array_t&>();
    const auto last_gone = std::find_if(log.rbegin(), log.rend(), [this](const Json& entry) {
      return !ids_.contains(SnapshotIdOf(entry));
    });
    log.erase(log.begin(), last_gone.base());
  }

  void SetCurrent(int64_t snapshot_id) {
    json_["current-snapshot-id"] = snapshot_id;
    // What was current only within this commit never was for a reader.
    Json& log = Array("snapshot-log");
    if (!log.empty() && added_ms_.contains(SnapshotIdOf(log.back()))) {
      log.erase(log.size() - 1);
    }
    // A snapshot of this commit became current when it was made; an older one does so now. Readers
    // demand that the log is in order.
    const auto added = added_ms_.find(snapshot_id);
    log_end_ms_ = std::max(log_end_ms_, added == added_ms_.end() ? updated_ms_ : added->second);
    updated_ms_ = std::max(updated_ms_, log_end_ms_);
    log.push_back({{"timestamp-ms", log_end_ms_}, {"snapshot-id", snapshot_id}});
  }

  // A property that is no number counts as its default.
  size_t PreviousVersionsMax() const {
    constexpr size_t kDefault = 100;
    const auto properties = json_.find("properties");
    if (properties == json_.end() || !properties->is_object()) return kDefault;
    const auto found = properties->find("write.metadata.previous-versions-max");
    if (found == properties->end() || !found->is_string()) return kDefault;
    const auto& text = found->get_ref<const std::string&>();
    int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return kDefault;
    return static_cast<size_t>(std::max<int64_t>(value, 1));
  }

  Json& json_;
  int version_;
  int64_t updated_ms_;
  int64_t last_sequence_;
  int64_t next_row_id_;
  int64_t log_end_ms_ = std::numeric_limits<int64_t>::min();
  std::unordered_set<int64_t> ids_;
  std::unordered_set<int64_t> gone_;  // Removed by this commit.
  std::unordered_set<int> schemas_;
  std::map<int64_t, int64_t> added_ms_;
  std::map<std::string, int64_t, std::less<>> refs_;
};

}  // namespace

std::string CommitToJson(std::span<const TableRequirement> requirements,
                         std::span<const TableUpdate> updates) {
  Json json = Json::object();
  Json& checks = json["requirements"] = Json::array();
  for (const TableRequirement& requirement : requirements) {
    checks.push_back(std::visit(RequirementWriter{}, requirement));
  }
  Json actions = Json::array();
  for (const TableUpdate& update : updates) std::visit(UpdateWriter{actions}, update);
  json["updates"] = std::move(actions);
  return iceberg_json::Write(json);
}

Result<std::string> ApplyUpdates(std::string_view text, std::span<const TableUpdate> updates,
                                 Time now, const std::string& previous_metadata_location) {
  LITHIFY_TRY_ASSIGN(Json json, iceberg_json::Parse(text, previous_metadata_location));
  auto table = iceberg_json::ReadTableMetadata(iceberg_json::Node(json));
  if (!table) return Fail(std::move(table.error()).In(previous_metadata_location));
  const int64_t now_ms =
      std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count();
  Editor editor(json, *table, now_ms);
  // A table without refs, as v1 writers leave it, gets its main branch written down first.
  const bool writes_refs = std::any_of(updates.begin(), updates.end(), [](const TableUpdate& u) {
    return std::holds_alternative<SetSnapshotRef>(u);
  });
  if (const auto main = table->refs.find("main"); writes_refs && main != table->refs.end()) {
    LITHIFY_TRY(editor(SetSnapshotRef{main->first, main->second}));
  }
  for (const TableUpdate& update : updates) LITHIFY_TRY(std::visit(editor, update));
  LITHIFY_TRY(editor.CheckRefs());
  editor.Finish(*table, previous_metadata_location);
  std::string next = iceberg_json::Write(json);
  // What we publish is what we would accept.
  auto check = iceberg_json::ReadTableMetadata(iceberg_json::Node(json));
  if (!check) {
    Error error = std::move(check.error()).In("the next metadata");
    error.code = Code::kInternal;
    return Fail(std::move(error));
  }
  return next;
}

}  // namespace lithify::table
