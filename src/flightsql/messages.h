// The messages of Flight SQL as plain structs, and their bytes: what a client puts into a
// FlightDescriptor, a Ticket or an Action, and what a server answers. Names are those of Arrow's
// protocol (format/FlightSql.proto); flight_sql.proto has what lithify speaks of it.
//
// Bytes come from strangers: nothing here crashes on them, and none is larger than
// kMessageBytesMax.
//
// Thread safety: free functions.
#ifndef LITHIFY_FLIGHTSQL_MESSAGES_H_
#define LITHIFY_FLIGHTSQL_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace lithify::flightsql {

inline constexpr size_t kMessageBytesMax = size_t{16} * 1024 * 1024;

struct StatementQuery {
  std::string query;
};
struct StatementUpdate {
  std::string query;
};
struct PreparedQuery {
  std::string handle;
};
struct PreparedUpdate {
  std::string handle;
};
// Of a Ticket: what GetFlightInfo made of a query.
struct StatementTicket {
  std::string handle;
};
struct GetSqlInfo {
  std::vector<uint32_t> info;  // Empty: all.
};
struct GetXdbcTypeInfo {
  std::optional<int32_t> data_type;
};
struct GetCatalogs {};
// Patterns have % and _; an empty catalog means "without one".
struct GetDbSchemas {
  std::optional<std::string> catalog;
  std::optional<std::string> schema_pattern;
};
struct GetTables {
  std::optional<std::string> catalog;
  std::optional<std::string> schema_pattern;
  std::optional<std::string> table_pattern;
  std::vector<std::string> table_types;  // Empty: all.
  bool include_schema = false;
};
struct GetTableTypes {};
// Iceberg tables have none of these; what asks is answered with no rows.
struct GetKeys {
  enum class Kind { kPrimary, kExported, kImported, kCross };
  Kind kind = Kind::kPrimary;
  std::string table;
};

using Command = std::variant<StatementQuery, StatementUpdate, PreparedQuery, PreparedUpdate,
                             StatementTicket, GetSqlInfo, GetXdbcTypeInfo, GetCatalogs,
                             GetDbSchemas, GetTables, GetTableTypes, GetKeys>;

// Of a descriptor's command or a ticket. kInvalid: not a message at all, cut off, too large;
// kUnsupported, naming it: a message of Flight SQL or another protocol that lithify does not know,
// or one inside a transaction.
Result<Command> ParseCommand(std::string_view bytes);
std::string PackCommand(const Command& command);

// --- actions ------------------------------------------------------------------------------------

inline constexpr std::string_view kCreatePreparedStatement = "CreatePreparedStatement";
inline constexpr std::string_view kClosePreparedStatement = "ClosePreparedStatement";
inline constexpr std::string_view kCancelQuery = "CancelQuery";

// The same errors as ParseCommand.
Result<std::string> ParseCreatePrepared(std::string_view body);  // The query.
std::string PackCreatePrepared(std::string_view query);
Result<std::string> ParseClosePrepared(std::string_view body);  // The handle.
std::string PackClosePrepared(std::string_view handle);
Result<std::string> ParseCancelQuery(std::string_view body);  // A serialised FlightInfo.

// Schemas are serialised as Arrow IPC messages; empty: none.
struct PreparedStatement {
  std::string handle;
  std::string dataset_schema;
  std::string parameter_schema;
};
std::string PackPrepared(const PreparedStatement& prepared);
Result<PreparedStatement> ParsePrepared(std::string_view body);

enum class CancelOutcome { kUnspecified = 0, kCancelled = 1, kCancelling = 2, kNotCancellable = 3 };
std::string PackCancelResult(CancelOutcome outcome);

// --- application metadata of DoPut: messages without an envelope ---------------------------------

std::string PackUpdateCount(int64_t count);  // -1: not known.
Result<int64_t> ParseUpdateCount(std::string_view bytes);
std::string PackBoundHandle(std::string_view handle);

}  // namespace lithify::flightsql

#endif  // LITHIFY_FLIGHTSQL_MESSAGES_H_
