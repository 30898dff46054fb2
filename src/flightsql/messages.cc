#include "flightsql/messages.h"

#include <google/protobuf/stubs/logging.h>

#include <mutex>
#include <utility>

#include "flight_sql.pb.h"

namespace lithify::flightsql {
namespace {

namespace pb = arrow::flight::protocol::sql;

constexpr std::string_view kPrefix = "type.googleapis.com/";

// The library would write a line to stderr for each damaged message of a stranger.
void Silence() {
  static std::once_flag once;
  std::call_once(once, [] { google::protobuf::SetLogHandler(nullptr); });
}

template <typename Message>
bool Parse(std::string_view bytes, Message& message) {
  Silence();
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

std::unexpected<Error> Damaged(std::string_view what) {
  return Fail(Code::kInvalid, std::string(what) + " is not a message of Flight SQL", {},
              "connect with a Flight SQL client, such as lithify sql, ADBC or JDBC");
}

struct Opened {
  std::string type;  // Full name, without the prefix.
  std::string value;
};

Result<Opened> Open(std::string_view bytes, std::string_view what) {
  if (bytes.size() > kMessageBytesMax) {
    return Fail(Code::kInvalid, std::string(what) + " is larger than allowed (16 MiB)");
  }
  pb::Envelope envelope;
  if (!Parse(bytes, envelope) || envelope.type_url().empty()) return Damaged(what);
  const std::string& url = envelope.type_url();
  // Everything up to the last slash says where the type is described, and counts for nothing.
  return Opened{.type = url.substr(url.rfind('/') + 1),
                .value = std::move(*envelope.mutable_value())};
}

template <typename Message>
std::string Pack(const Message& message) {
  pb::Envelope envelope;
  envelope.set_type_url(std::string(kPrefix) + message.GetTypeName());
  message.SerializeToString(envelope.mutable_value());
  return envelope.SerializeAsString();
}

// The message of that type out of an action's body.
template <typename Message>
Result<Message> Unpack(std::string_view body, std::string_view what) {
  LITHIFY_TRY_ASSIGN(const auto opened, Open(body, what));
  Message message;
  if (opened.type != message.GetTypeName() || !Parse(opened.value, message)) return Damaged(what);
  return message;
}

Status NoTransaction(bool has, const std::string& id) {
  if (!has || id.empty()) return {};
  return Fail(Code::kUnsupported, "transactions are not supported", {},
              "turn autocommit on: each procedure commits by itself");
}

std::optional<std::string> Optional(bool has, const std::string& text) {
  return has ? std::optional(text) : std::nullopt;
}

GetTables ReadTables(const pb::CommandGetTables& message) {
  return {.catalog = Optional(message.has_catalog(), message.catalog()),
          .schema_pattern =
              Optional(message.has_db_schema_filter_pattern(), message.db_schema_filter_pattern()),
          .table_pattern = Optional(message.has_table_name_filter_pattern(),
                                    message.table_name_filter_pattern()),
          .table_types = {message.table_types().begin(), message.table_types().end()},
          .include_schema = message.include_schema()};
}

template <typename Message>
GetKeys ReadKeys(const Message& message, GetKeys::Kind kind) {
  return {.kind = kind, .table = message.table()};
}

// Tries the messages one after the other by the name of each.
class CommandReader {
 public:
  explicit CommandReader(const Opened& opened) : opened_(opened) {}

  // Whether the message is of that type; `message` has it, or damaged() is true.
  template <typename Message>
  bool Is(Message& message) {
    if (opened_.type != message.GetTypeName()) return false;
    damaged_ = !Parse(opened_.value, message);
    return true;
  }
  bool damaged() const { return damaged_; }

 private:
  const Opened& opened_;
  bool damaged_ = false;
};

std::optional<Command> ReadMetadata(CommandReader& reader) {
  if (pb::CommandGetSqlInfo m; reader.Is(m)) {
    return GetSqlInfo{.info = {m.info().begin(), m.info().end()}};
  }
  if (pb::CommandGetXdbcTypeInfo m; reader.Is(m)) {
    return GetXdbcTypeInfo{.data_type =
                               m.has_data_type() ? std::optional(m.data_type()) : std::nullopt};
  }
  if (pb::CommandGetCatalogs m; reader.Is(m)) return GetCatalogs{};
  if (pb::CommandGetDbSchemas m; reader.Is(m)) {
    return GetDbSchemas{
        .catalog = Optional(m.has_catalog(), m.catalog()),
        .schema_pattern = Optional(m.has_db_schema_filter_pattern(), m.db_schema_filter_pattern())};
  }
  if (pb::CommandGetTables m; reader.Is(m)) return ReadTables(m);
  if (pb::CommandGetTableTypes m; reader.Is(m)) return GetTableTypes{};
  if (pb::CommandGetPrimaryKeys m; reader.Is(m)) return ReadKeys(m, GetKeys::Kind::kPrimary);
  if (pb::CommandGetExportedKeys m; reader.Is(m)) return ReadKeys(m, GetKeys::Kind::kExported);
  if (pb::CommandGetImportedKeys m; reader.Is(m)) return ReadKeys(m, GetKeys::Kind::kImported);
  if (pb::CommandGetCrossReference m; reader.Is(m)) {
    return GetKeys{.kind = GetKeys::Kind::kCross, .table = m.pk_table()};
  }
  return std::nullopt;
}

Result<std::optional<Command>> ReadStatement(CommandReader& reader) {
  if (pb::CommandStatementQuery m; reader.Is(m)) {
    LITHIFY_TRY(NoTransaction(m.has_transaction_id(), m.transaction_id()));
    return StatementQuery{.query = std::move(*m.mutable_query())};
  }
  if (pb::CommandStatementUpdate m; reader.Is(m)) {
    LITHIFY_TRY(NoTransaction(m.has_transaction_id(), m.transaction_id()));
    return StatementUpdate{.query = std::move(*m.mutable_query())};
  }
  if (pb::CommandPreparedStatementQuery m; reader.Is(m)) {
    return PreparedQuery{.handle = std::move(*m.mutable_prepared_statement_handle())};
  }
  if (pb::CommandPreparedStatementUpdate m; reader.Is(m)) {
    return PreparedUpdate{.handle = std::move(*m.mutable_prepared_statement_handle())};
  }
  if (pb::TicketStatementQuery m; reader.Is(m)) {
    return StatementTicket{.handle = std::move(*m.mutable_statement_handle())};
  }
  return std::optional<Command>();
}

// What a server is told never has to be packed for one of its own tests alone: all that clients
// send.
struct Packer {
  std::string operator()(const StatementQuery& c) const {
    pb::CommandStatementQuery m;
    m.set_query(c.query);
    return Pack(m);
  }
  std::string operator()(const StatementUpdate& c) const {
    pb::CommandStatementUpdate m;
    m.set_query(c.query);
    return Pack(m);
  }
  std::string operator()(const PreparedQuery& c) const {
    pb::CommandPreparedStatementQuery m;
    m.set_prepared_statement_handle(c.handle);
    return Pack(m);
  }
  std::string operator()(const PreparedUpdate& c) const {
    pb::CommandPreparedStatementUpdate m;
    m.set_prepared_statement_handle(c.handle);
    return Pack(m);
  }
  std::string operator()(const StatementTicket& c) const {
    pb::TicketStatementQuery m;
    m.set_statement_handle(c.handle);
    return Pack(m);
  }
  std::string operator()(const GetSqlInfo& c) const {
    pb::CommandGetSqlInfo m;
    m.mutable_info()->Add(c.info.begin(), c.info.end());
    return Pack(m);
  }
  std::string operator()(const GetXdbcTypeInfo& c) const {
    pb::CommandGetXdbcTypeInfo m;
    if (c.data_type) m.set_data_type(*c.data_type);
    return Pack(m);
  }
  std::string operator()(const GetCatalogs&) const { return Pack(pb::CommandGetCatalogs()); }
  std::string operator()(const GetDbSchemas& c) const {
    pb::CommandGetDbSchemas m;
    if (c.catalog) m.set_catalog(*c.catalog);
    if (c.schema_pattern) m.set_db_schema_filter_pattern(*c.schema_pattern);
    return Pack(m);
  }
  std::string operator()(const GetTables& c) const {
    pb::CommandGetTables m;
    if (c.catalog) m.set_catalog(*c.catalog);
    if (c.schema_pattern) m.set_db_schema_filter_pattern(*c.schema_pattern);
    if (c.table_pattern) m.set_table_name_filter_pattern(*c.table_pattern);
    for (const std::string& type : c.table_types) m.add_table_types(type);
    m.set_include_schema(c.include_schema);
    return Pack(m);
  }
  std::string operator()(const GetTableTypes&) const { return Pack(pb::CommandGetTableTypes()); }
  std::string operator()(const GetKeys& c) const {
    switch (c.kind) {
      case GetKeys::Kind::kPrimary: return Keys<pb::CommandGetPrimaryKeys>(c);
      case GetKeys::Kind::kExported: return Keys<pb::CommandGetExportedKeys>(c);
      case GetKeys::Kind::kImported: return Keys<pb::CommandGetImportedKeys>(c);
      case GetKeys::Kind::kCross: break;
    }
    pb::CommandGetCrossReference m;
    m.set_pk_table(c.table);
    return Pack(m);
  }

 private:
  template <typename Message>
  static std::string Keys(const GetKeys& c) {
    Message m;
    m.set_table(c.table);
    return Pack(m);
  }
};

}  // namespace

Result<Command> ParseCommand(std::string_view bytes) {
  LITHIFY_TRY_ASSIGN(const auto opened, Open(bytes, "the command"));
  CommandReader reader(opened);
  LITHIFY_TRY_ASSIGN(auto command, ReadStatement(reader));
  if (!command && !reader.damaged()) command = ReadMetadata(reader);
  if (reader.damaged()) return Damaged("the command");
  if (command) return *std::move(command);
  return Fail(Code::kUnsupported, "lithify does not know the message \"" + opened.type + "\"", {},
              "send SQL statements, or ask for catalogs, schemas, tables and types");
}

std::string PackCommand(const Command& command) { return std::visit(Packer(), command); }

Result<std::string> ParseCreatePrepared(std::string_view body) {
  LITHIFY_TRY_ASSIGN(
      auto m, Unpack<pb::ActionCreatePreparedStatementRequest>(body, kCreatePreparedStatement));
  LITHIFY_TRY(NoTransaction(m.has_transaction_id(), m.transaction_id()));
  return std::move(*m.mutable_query());
}

std::string PackCreatePrepared(std::string_view query) {
  pb::ActionCreatePreparedStatementRequest m;
  m.set_query(std::string(query));
  return Pack(m);
}

Result<std::string> ParseClosePrepared(std::string_view body) {
  LITHIFY_TRY_ASSIGN(
      auto m, Unpack<pb::ActionClosePreparedStatementRequest>(body, kClosePreparedStatement));
  return std::move(*m.mutable_prepared_statement_handle());
}

std::string PackClosePrepared(std::string_view handle) {
  pb::ActionClosePreparedStatementRequest m;
  m.set_prepared_statement_handle(std::string(handle));
  return Pack(m);
}

Result<std::string> ParseCancelQuery(std::string_view body) {
  LITHIFY_TRY_ASSIGN(auto m, Unpack<pb::ActionCancelQueryRequest>(body, kCancelQuery));
  return std::move(*m.mutable_info());
}

std::string PackPrepared(const PreparedStatement& prepared) {
  pb::ActionCreatePreparedStatementResult m;
  m.set_prepared_statement_handle(prepared.handle);
  m.set_dataset_schema(prepared.dataset_schema);
  m.set_parameter_schema(prepared.parameter_schema);
  return Pack(m);
}

Result<PreparedStatement> ParsePrepared(std::string_view body) {
  LITHIFY_TRY_ASSIGN(auto m, Unpack<pb::ActionCreatePreparedStatementResult>(body, "the answer"));
  return PreparedStatement{.handle = std::move(*m.mutable_prepared_statement_handle()),
                           .dataset_schema = std::move(*m.mutable_dataset_schema()),
                           .parameter_schema = std::move(*m.mutable_parameter_schema())};
}

std::string PackCancelResult(CancelOutcome outcome) {
  pb::ActionCancelQueryResult m;
  m.set_result(static_cast<pb::ActionCancelQueryResult_CancelResult>(outcome));
  return Pack(m);
}

std::string PackUpdateCount(int64_t count) {
  pb::DoPutUpdateResult m;
  m.set_record_count(count);
  return m.SerializeAsString();
}

Result<int64_t> ParseUpdateCount(std::string_view bytes) {
  pb::DoPutUpdateResult m;
  if (bytes.size() > kMessageBytesMax || !Parse(bytes, m)) return Damaged("the answer");
  return m.record_count();
}

std::string PackBoundHandle(std::string_view handle) {
  pb::DoPutPreparedStatementResult m;
  m.set_prepared_statement_handle(std::string(handle));
  return m.SerializeAsString();
}

}  // namespace lithify::flightsql
