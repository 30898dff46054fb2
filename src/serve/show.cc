#include "serve/show.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "job/iceberg_job.h"

namespace lithify::serve {
namespace {

using enum ColumnType;
using Namespace = std::vector<std::string>;

constexpr std::string_view kTable = "TABLE";

const std::vector<Column> kTablesColumns = {
    {"catalog", kText, false}, {"namespace", kText, false}, {"table", kText, false}};
const std::vector<Column> kNamespacesColumns = {{"catalog", kText, false},
                                                {"namespace", kText, false}};
const std::vector<Column> kPropertiesColumns = {{"key", kText, false}, {"value", kText, false}};
const std::vector<Column> kSnapshotsColumns = {
    {"snapshot_id", kInt, false},   {"parent_id", kInt, true},    {"committed_at", kTime, false},
    {"operation", kText, true},     {"is_current", kBool, false}, {"refs", kTexts, false},
    {"manifest_list", kText, true}, {"summary", kText, false},
};
const std::vector<Column> kDescribeColumns = {{"name", kText, false},
                                              {"type", kText, false},
                                              {"nullable", kBool, false},
                                              {"partition", kText, true},
                                              {"comment", kText, true}};
const std::vector<Column> kAlterColumns = {
    {"table", kText, false}, {"status", kText, false}, {"properties", kInt, false}};

// Patterns of Flight SQL are LIKE patterns without an escape.
bool Matches(const std::optional<std::string>& pattern, const std::string& text) {
  return !pattern || sql::Like(text, *pattern);
}

// A catalog opened as the caller, for one statement.
class Opened {
 public:
  static Result<Opened> Open(const TableAccess& access, const std::string& catalog,
                             const std::string& what, const catalog::TableIdent& ident,
                             const CallContext& call, const CancelFlag& cancel) {
    LITHIFY_TRY_ASSIGN(auto session, access.Open(catalog, what, ident, call,
                                                 [&cancel] { return cancel.requested(); }));
    return Opened(std::move(session), call);
  }

  embed::IcebergSession& session() { return *session_; }
  catalog::Catalog& catalog() { return session_->catalog(); }

  // kDenied where a list is short only because the token counts no more.
  Status StillTaken() const {
    if (!call_->token->refused()) return {};
    return Fail(Code::kDenied, "the catalog does not take the caller's token");
  }

  // Hidden ones are empty.
  Result<std::vector<catalog::TableIdent>> TablesIn(const Namespace& parts) {
    auto tables = catalog().ListTables(parts);
    if (tables) return tables;
    const Code code = tables.error().code;
    if (code != Code::kDenied && code != Code::kNotFound) return tables;
    LITHIFY_TRY(StillTaken());
    return std::vector<catalog::TableIdent>();
  }

  Result<std::vector<Namespace>> Namespaces(const Namespace& parent) {
    LITHIFY_TRY_ASSIGN(auto all, catalog::AllNamespaces(catalog(), parent));
    LITHIFY_TRY(StillTaken());
    return all;
  }

 private:
  Opened(std::unique_ptr<embed::IcebergSession> session, const CallContext& call)
      : session_(std::move(session)), call_(&call) {}

  std::unique_ptr<embed::IcebergSession> session_;
  const CallContext* call_;
};

// A table loaded as the caller.
struct LoadedFor {
  ResolvedTable name;
  Opened opened;
  catalog::LoadedTable table;
};
Result<LoadedFor> Load(const sql::TableName& name, const std::string& what,
                       const TableAccess& access, const CallContext& call,
                       const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(ResolvedTable resolved, access.Resolve(name.parts, call));
  LITHIFY_TRY_ASSIGN(Opened opened,
                     Opened::Open(access, resolved.catalog, what, resolved.ident, call, cancel));
  auto table = opened.catalog().LoadTable(resolved.ident);
  if (!table) return Fail(std::move(table.error()).In(resolved.ident.ToString()));
  return LoadedFor{std::move(resolved), std::move(opened), *std::move(table)};
}

class Show {
 public:
  Show(const TableAccess& access, const CallContext& call, const CancelFlag& cancel)
      : access_(access), call_(call), cancel_(cancel) {}

  Result<Rows> operator()(const sql::ShowTables& show) {
    LITHIFY_TRY_ASSIGN(const Scope scope, ReadScope(show.namespace_parts, access_, call_));
    LITHIFY_TRY_ASSIGN(Opened opened,
                       Opened::Open(access_, scope.catalog, "show_tables", {}, call_, cancel_));
    std::vector<Namespace> within = {scope.parts};
    if (scope.parts.empty()) {
      LITHIFY_TRY_ASSIGN(within, opened.Namespaces({}));
    }
    Rows rows(kTablesColumns);
    for (const Namespace& parts : within) {
      LITHIFY_TRY(cancel_.Check());
      // A namespace that was named is asked for as it is: that it is not there is told.
      std::vector<catalog::TableIdent> tables;
      if (scope.parts.empty()) {
        LITHIFY_TRY_ASSIGN(tables, opened.TablesIn(parts));
      } else {
        LITHIFY_TRY_ASSIGN(tables, opened.catalog().ListTables(parts));
      }
      for (const catalog::TableIdent& table : tables) {
        if (!Matches(show.like, table.name)) continue;
        rows.Add({scope.catalog, catalog::NamespaceName(parts), table.name});
      }
    }
    rows.Sort();
    return rows;
  }

  Result<Rows> operator()(const sql::ShowNamespaces& show) {
    LITHIFY_TRY_ASSIGN(const Scope scope, ReadScope(show.parent, access_, call_));
    LITHIFY_TRY_ASSIGN(Opened opened,
                       Opened::Open(access_, scope.catalog, "show_namespaces", {}, call_, cancel_));
    LITHIFY_TRY_ASSIGN(const auto all, opened.Namespaces(scope.parts));
    Rows rows(kNamespacesColumns);
    for (const Namespace& parts : all) {
      const std::string text = catalog::NamespaceName(parts);
      if (parts != scope.parts && Matches(show.like, text)) rows.Add({scope.catalog, text});
    }
    rows.Sort();
    return rows;
  }

  Result<Rows> operator()(const sql::ShowProperties& show) {
    LITHIFY_TRY_ASSIGN(const auto loaded,
                       Load(show.table, "show_properties", access_, call_, cancel_));
    Rows rows(kPropertiesColumns);
    for (const auto& [key, value] : loaded.table.metadata.properties) {
      if (!show.key || *show.key == key) rows.Add({key, value});
    }
    return rows;
  }

  Result<Rows> operator()(const sql::ShowSnapshots& show) {
    LITHIFY_TRY_ASSIGN(const auto loaded,
                       Load(show.table, "show_snapshots", access_, call_, cancel_));
    Rows rows(kSnapshotsColumns);
    AddSnapshots(loaded.table.metadata, {}, rows);
    return rows;
  }

  Result<Rows> operator()(const sql::Describe& describe) {
    LITHIFY_TRY_ASSIGN(const auto loaded,
                       Load(describe.table, "describe", access_, call_, cancel_));
    const iceberg::TableMetadata& table = loaded.table.metadata;
    const iceberg::PartitionSpec* spec = table.FindSpec(table.default_spec_id);
    Rows rows(kDescribeColumns);
    for (const iceberg::Field& field : table.schema().fields) {
      rows.Add({field.name, TypeText(field.type), !field.required, PartitionOf(spec, field.id),
                field.doc.empty() ? Cell() : Cell(field.doc)});
    }
    return rows;
  }

  Result<Rows> operator()(const sql::SetProperties& alter) {
    std::map<std::string, std::string> set;
    for (const sql::Property& property : alter.properties) set[property.key] = property.value;
    return Alter(alter.table, set, {}, true);
  }
  Result<Rows> operator()(const sql::UnsetProperties& alter) {
    return Alter(alter.table, {}, alter.keys, alter.if_exists);
  }

  template <typename Other>
  Result<Rows> operator()(const Other&) {
    return Fail(Code::kInternal, "no such statement");
  }

 private:
  // "day", "bucket[16]", by the fields of the spec that come from this column.
  static Cell PartitionOf(const iceberg::PartitionSpec* spec, int field_id) {
    if (spec == nullptr) return {};
    std::string out;
    for (const iceberg::PartitionField& field : spec->fields) {
      if (std::ranges::find(field.source_ids, field_id) == field.source_ids.end()) continue;
      out += (out.empty() ? "" : ", ") + field.name;
    }
    return out.empty() ? Cell() : Cell(out);
  }

  Result<Rows> Alter(const sql::TableName& name, const std::map<std::string, std::string>& set,
                     const std::vector<std::string>& remove, bool missing_is_fine) {
    LITHIFY_TRY(access_.CheckToken(call_));
    LITHIFY_TRY_ASSIGN(auto loaded, Load(name, "change_properties", access_, call_, cancel_));
    if (!missing_is_fine) {
      for (const std::string& key : remove) {
        if (loaded.table.metadata.properties.contains(key)) continue;
        return Fail(Code::kNotFound, "the table has no property \"" + key + "\"",
                    loaded.name.ident.ToString(), "write UNSET TBLPROPERTIES IF EXISTS (…)");
      }
    }
    const auto progress = observe::MakeSilentProgress();
    auto job = loaded.opened.session().MakeJob(*progress, call_.caller.name);
    LITHIFY_TRY_ASSIGN(const auto done, job.ChangeProperties(loaded.name.ident, set, remove));
    Rows rows(kAlterColumns);
    rows.Add({loaded.name.ident.ToString(), std::string(done.changed ? "committed" : "unchanged"),
              std::ssize(done.properties)});
    return rows;
  }

  const TableAccess& access_;
  const CallContext& call_;
  const CancelFlag& cancel_;
};

struct ColumnsOf {
  std::vector<Column> operator()(const sql::ShowTables&) const { return kTablesColumns; }
  std::vector<Column> operator()(const sql::ShowNamespaces&) const { return kNamespacesColumns; }
  std::vector<Column> operator()(const sql::ShowProperties&) const { return kPropertiesColumns; }
  std::vector<Column> operator()(const sql::ShowSnapshots&) const { return kSnapshotsColumns; }
  std::vector<Column> operator()(const sql::Describe&) const { return kDescribeColumns; }
  std::vector<Column> operator()(const sql::SetProperties&) const { return kAlterColumns; }
  std::vector<Column> operator()(const sql::UnsetProperties&) const { return kAlterColumns; }
  template <typename Other>
  std::vector<Column> operator()(const Other&) const {
    return {};
  }
};

// --- questions -----------------------------------------------------------------------------------

class Answer {
 public:
  Answer(const TableAccess& access, const CallContext& call, const TableSchema& table_schema,
         const CancelFlag& cancel)
      : access_(access), call_(call), table_schema_(table_schema), cancel_(cancel) {}

  Result<Rows> operator()(const flightsql::GetCatalogs& question) {
    Rows rows(AnswerColumns(question));
    for (const std::string& name : access_.catalogs()) rows.Add({name});
    return rows;
  }

  Result<Rows> operator()(const flightsql::GetDbSchemas& question) {
    Rows rows(AnswerColumns(question));
    for (const std::string& name : Chosen(question.catalog)) {
      LITHIFY_TRY_ASSIGN(Opened opened,
                         Opened::Open(access_, name, "show_namespaces", {}, call_, cancel_));
      LITHIFY_TRY_ASSIGN(const auto all, opened.Namespaces({}));
      for (const Namespace& parts : all) {
        const std::string text = catalog::NamespaceName(parts);
        if (Matches(question.schema_pattern, text)) rows.Add({name, text});
      }
    }
    rows.Sort();
    return rows;
  }

  Result<Rows> operator()(const flightsql::GetTables& question) {
    Rows rows(AnswerColumns(question));
    const auto& types = question.table_types;
    if (!types.empty() && std::ranges::find(types, kTable) == types.end()) return rows;
    for (const std::string& name : Chosen(question.catalog)) {
      LITHIFY_TRY(AddTables(question, name, rows));
    }
    rows.Sort();
    return rows;
  }

  Result<Rows> operator()(const flightsql::GetTableTypes& question) {
    Rows rows(AnswerColumns(question));
    rows.Add({std::string(kTable)});
    return rows;
  }

  Result<Rows> operator()(const flightsql::GetKeys& question) {
    return Rows(AnswerColumns(question));
  }

  template <typename Other>
  Result<Rows> operator()(const Other&) {
    return Fail(Code::kInternal, "no such question");
  }

 private:
  std::vector<std::string> Chosen(const std::optional<std::string>& wanted) const {
    std::vector<std::string> names = access_.catalogs();
    std::erase_if(names, [&](const std::string& name) { return wanted && name != *wanted; });
    return names;
  }

  Status AddTables(const flightsql::GetTables& question, const std::string& name, Rows& rows) {
    LITHIFY_TRY_ASSIGN(Opened opened,
                       Opened::Open(access_, name, "show_tables", {}, call_, cancel_));
    LITHIFY_TRY_ASSIGN(const auto all, opened.Namespaces({}));
    for (const Namespace& parts : all) {
      const std::string text = catalog::NamespaceName(parts);
      if (!Matches(question.schema_pattern, text)) continue;
      LITHIFY_TRY(cancel_.Check());
      LITHIFY_TRY_ASSIGN(const auto tables, opened.TablesIn(parts));
      for (const catalog::TableIdent& table : tables) {
        if (!Matches(question.table_pattern, table.name)) continue;
        std::vector<Cell> row = {name, text, table.name, std::string(kTable)};
        if (question.include_schema) {
          const auto loaded = opened.catalog().LoadTable(table);
          // Listed, and gone or not to be read: as if it were not listed.
          if (!loaded) continue;
          LITHIFY_TRY_ASSIGN(auto schema, table_schema_(loaded->metadata.schema()));
          row.emplace_back(std::move(schema));
        }
        rows.Add(std::move(row));
      }
    }
    return opened.StillTaken();
  }

  const TableAccess& access_;
  const CallContext& call_;
  const TableSchema& table_schema_;
  const CancelFlag& cancel_;
};

std::vector<Column> KeyColumns(flightsql::GetKeys::Kind kind) {
  if (kind == flightsql::GetKeys::Kind::kPrimary) {
    return {{"catalog_name", kText, true}, {"db_schema_name", kText, true},
            {"table_name", kText, false},  {"column_name", kText, false},
            {"key_name", kText, true},     {"key_sequence", kInt32, false}};
  }
  return {{"pk_catalog_name", kText, true}, {"pk_db_schema_name", kText, true},
          {"pk_table_name", kText, false},  {"pk_column_name", kText, false},
          {"fk_catalog_name", kText, true}, {"fk_db_schema_name", kText, true},
          {"fk_table_name", kText, false},  {"fk_column_name", kText, false},
          {"key_sequence", kInt32, false},  {"fk_key_name", kText, true},
          {"pk_key_name", kText, true},     {"update_rule", kByte, false},
          {"delete_rule", kByte, false}};
}

struct AnswerColumnsOf {
  std::vector<Column> operator()(const flightsql::GetCatalogs&) const {
    return {{"catalog_name", kText, false}};
  }
  std::vector<Column> operator()(const flightsql::GetDbSchemas&) const {
    return {{"catalog_name", kText, true}, {"db_schema_name", kText, false}};
  }
  std::vector<Column> operator()(const flightsql::GetTables& question) const {
    std::vector<Column> columns = {{"catalog_name", kText, true},
                                   {"db_schema_name", kText, true},
                                   {"table_name", kText, false},
                                   {"table_type", kText, false}};
    if (question.include_schema) columns.push_back({"table_schema", kBytes, false});
    return columns;
  }
  std::vector<Column> operator()(const flightsql::GetTableTypes&) const {
    return {{"table_type", kText, false}};
  }
  std::vector<Column> operator()(const flightsql::GetKeys& question) const {
    return KeyColumns(question.kind);
  }
  template <typename Other>
  std::vector<Column> operator()(const Other&) const {
    return {};
  }
};

std::string StructText(const iceberg::Type& type) {
  std::string out;
  for (const iceberg::Field& field : type.fields) {
    out += (out.empty() ? "" : ", ") + field.name + ": " + TypeText(field.type);
  }
  return "struct<" + out + ">";
}

}  // namespace

Result<Scope> ReadScope(const std::vector<std::string>& written, const TableAccess& access,
                        const CallContext& call) {
  Scope scope{.catalog = {}, .parts = written};
  const auto catalogs = access.catalogs();
  const bool named =
      !written.empty() && std::ranges::find(catalogs, written.front()) != catalogs.end();
  LITHIFY_TRY_ASSIGN(scope.catalog, access.ChooseCatalog(named ? written.front() : "", call));
  if (named) scope.parts.erase(scope.parts.begin());
  return scope;
}

// Schemas of Flight SQL are namespaces, their parts joined by dots; a part with a dot in it is
// quoted, as names in statements are.

const std::vector<Column>& SnapshotColumns() { return kSnapshotsColumns; }

void AddSnapshots(const iceberg::TableMetadata& table, const std::vector<Cell>& before,
                  Rows& rows) {
  for (const iceberg::Snapshot& snapshot : table.snapshots) {
    std::vector<std::string> refs;
    for (const auto& [name, ref] : table.refs) {
      if (ref.snapshot_id == snapshot.snapshot_id) refs.push_back(name);
    }
    const auto operation = snapshot.summary.find("operation");
    std::vector<Cell> row = before;
    row.insert(row.end(),
               {snapshot.snapshot_id,
                snapshot.parent_snapshot_id ? Cell(*snapshot.parent_snapshot_id) : Cell(),
                Time(std::chrono::milliseconds(snapshot.timestamp_ms)),
                operation != snapshot.summary.end() ? Cell(operation->second) : Cell(),
                table.current_snapshot_id == snapshot.snapshot_id, std::move(refs),
                snapshot.manifest_list.empty() ? Cell() : Cell(snapshot.manifest_list),
                nlohmann::json(snapshot.summary)
                    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    rows.Add(std::move(row));
  }
}

Result<std::vector<ResolvedTable>> ListTables(const TableAccess& access, const std::string& catalog,
                                              const CallContext& call, const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(Opened opened, Opened::Open(access, catalog, "show_tables", {}, call, cancel));
  LITHIFY_TRY_ASSIGN(const auto namespaces, opened.Namespaces({}));
  std::vector<ResolvedTable> all;
  for (const Namespace& parts : namespaces) {
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY_ASSIGN(auto tables, opened.TablesIn(parts));
    for (catalog::TableIdent& table : tables) all.push_back({catalog, std::move(table)});
  }
  std::ranges::sort(all, {}, &ResolvedTable::ident);
  return all;
}

std::string TypeText(const iceberg::Type& type) {
  using enum iceberg::TypeKind;
  switch (type.kind) {
    case kBoolean: return "boolean";
    case kInt: return "int";
    case kLong: return "long";
    case kFloat: return "float";
    case iceberg::TypeKind::kDouble: return "double";
    case kDecimal:
      return "decimal(" + std::to_string(type.precision) + ", " + std::to_string(type.scale) + ")";
    case kDate: return "date";
    case iceberg::TypeKind::kTime: return "time";
    case kTimestamp: return "timestamp";
    case kTimestamptz: return "timestamptz";
    case kTimestampNs: return "timestamp_ns";
    case kTimestamptzNs: return "timestamptz_ns";
    case kString: return "string";
    case kUuid: return "uuid";
    case kFixed: return "fixed[" + std::to_string(type.length) + "]";
    case kBinary: return "binary";
    case kUnknown: return "unknown";
    case kVariant: return "variant";
    case kGeometry: return "geometry" + type.parameters;
    case kGeography: return "geography" + type.parameters;
    case kStruct: return StructText(type);
    case kList: return "list<" + TypeText(type.fields.at(0).type) + ">";
    case kMap:
      return "map<" + TypeText(type.fields.at(0).type) + ", " + TypeText(type.fields.at(1).type) +
             ">";
  }
  return "unknown";
}

std::vector<Column> ShowColumns(const sql::Statement& statement) {
  return std::visit(ColumnsOf(), statement);
}

Result<Rows> RunShow(const sql::Statement& statement, const TableAccess& access,
                     const CallContext& call, const CancelFlag& cancel) {
  return std::visit(Show(access, call, cancel), statement);
}

std::vector<Column> AnswerColumns(const flightsql::Command& question) {
  return std::visit(AnswerColumnsOf(), question);
}

Result<Rows> AnswerQuestion(const flightsql::Command& question, const TableAccess& access,
                            const CallContext& call, const TableSchema& table_schema,
                            const CancelFlag& cancel) {
  return std::visit(Answer(access, call, table_schema, cancel), question);
}

}  // namespace lithify::serve
