// The statements of the Flight SQL server (docs/SQL.md): text to values, and back. What begins as a
// query is not looked into: its text goes to DuckDB as it is. Pure functions: no I/O, no clock.
//
// Thread safety: plain values and free functions.
#ifndef LITHIFY_SQL_STATEMENT_H_
#define LITHIFY_SQL_STATEMENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::sql {

// Of a byte in the text of a statement. Columns count characters, not bytes.
struct Position {
  size_t offset = 0;
  int line = 1;
  int column = 1;
  std::string ToString() const;  // "line 1, column 6", the context of errors.
  bool operator==(const Position&) const = default;
};

// --- literals ----------------------------------------------------------------------------------

struct Null {
  bool operator==(const Null&) const = default;
};
// 12.50, and whole numbers beyond 64 bits: digits as they were written, with a sign if negative.
struct Decimal {
  std::string text;
  bool operator==(const Decimal&) const = default;
};
// INTERVAL '7' DAY, INTERVAL 90 MINUTES. Months and years have no fixed length: they are refused.
struct Interval {
  Duration duration = Duration::zero();
  bool operator==(const Interval&) const = default;
};
// CURRENT_TIMESTAMP, NOW(), and either minus an interval; never after now.
struct BeforeNow {
  Duration ago = Duration::zero();
  bool operator==(const BeforeNow&) const = default;
};
using Date = std::chrono::sys_days;

struct Literal;
struct MapEntry;
using Array = std::vector<Literal>;  // ARRAY(1, 2), ARRAY[1, 2] or [1, 2].
using Map = std::vector<MapEntry>;   // MAP('a', 1, 'b', 2) or MAP {'a': 1, 'b': 2}.
using Value = std::variant<Null, bool, int64_t, double, Decimal, std::string, Time, Date, Interval,
                           BeforeNow, Array, Map>;

struct Literal {
  Value value;
  Position position;
  bool operator==(const Literal& other) const;
};
struct MapEntry {
  Literal key;
  Literal value;
  bool operator==(const MapEntry& other) const;
};

// "text", "integer", "timestamp", …: what a message calls the kind of a literal.
std::string_view KindName(const Value& value);

// A time as Spark writes it or by RFC 3339: "2026-11-01", "2026-11-01 00:00[:00[.123456]]", with a
// blank or a T between; a zone may follow ("Z", " UTC", "+02:00"), else it is UTC. Digits beyond
// microseconds are dropped. kInvalid for impossible ones.
Result<Time> ParseTimestamp(std::string_view text);

// --- statements --------------------------------------------------------------------------------

// Parts as they are called, without quotes; their case is kept.
struct TableName {
  std::vector<std::string> parts;  // At least one, none of them empty.
  Position position;
  std::string ToString() const;  // Parts that are no plain words in double quotes.
  bool operator==(const TableName&) const = default;
};
// The text of an argument: "orders", "sales.orders", "lake.\"a.b\".orders"; parts may be quoted by
// "…" or `…`. kInvalid.
Result<TableName> ParseTableName(std::string_view text);

struct Argument {
  std::string name;  // In lower case; empty: given by position, which Bind refuses.
  Literal value;
  Position position;  // Of the name, or of the value if there is none.
  bool operator==(const Argument&) const = default;
};
// CALL [[catalog.]system.]procedure(name => value, …)
struct Call {
  std::string catalog;    // Empty: not named.
  std::string procedure;  // In lower case. Whether there is such a one, Bind tells.
  std::vector<Argument> arguments;
  Position position;  // Of the procedure's name.
  bool operator==(const Call&) const = default;
};
// EXPLAIN CALL …: what the call would do; nothing is changed.
struct ExplainCall {
  Call call;
  bool operator==(const ExplainCall&) const = default;
};

struct Property {
  std::string key;
  std::string value;  // Numbers and booleans as they were written, the latter in lower case.
  Position position;
  bool operator==(const Property&) const = default;
};
// ALTER TABLE t SET TBLPROPERTIES ('key' = 'value', …); no key twice.
struct SetProperties {
  TableName table;
  std::vector<Property> properties;
  bool operator==(const SetProperties&) const = default;
};
// ALTER TABLE t UNSET TBLPROPERTIES [IF EXISTS] ('key', …); no key twice.
struct UnsetProperties {
  TableName table;
  std::vector<std::string> keys;
  bool if_exists = false;
  bool operator==(const UnsetProperties&) const = default;
};

// SHOW TABLES [IN | FROM namespace] [LIKE 'pattern']
struct ShowTables {
  std::vector<std::string> namespace_parts;  // Empty: not named.
  std::optional<std::string> like;           // For Like().
  Position position;
  bool operator==(const ShowTables&) const = default;
};
// SHOW NAMESPACES | SCHEMAS | DATABASES [IN | FROM parent] [LIKE 'pattern']
struct ShowNamespaces {
  std::vector<std::string> parent;
  std::optional<std::string> like;
  Position position;
  bool operator==(const ShowNamespaces&) const = default;
};
// SHOW TBLPROPERTIES t [('key')]
struct ShowProperties {
  TableName table;
  std::optional<std::string> key;
  bool operator==(const ShowProperties&) const = default;
};
// SHOW SNAPSHOTS [IN | FROM] t
struct ShowSnapshots {
  TableName table;
  bool operator==(const ShowSnapshots&) const = default;
};
// SHOW JOBS
struct ShowJobs {
  bool operator==(const ShowJobs&) const = default;
};
// CANCEL JOB 'id'
struct CancelJob {
  std::string id;
  Position position;
  bool operator==(const CancelJob&) const = default;
};
// DESCRIBE | DESC [TABLE] t
struct Describe {
  TableName table;
  bool operator==(const Describe&) const = default;
};
// SELECT, WITH, VALUES, FROM, a parenthesis before one of them, EXPLAIN [ANALYZE] [(options)] or
// DESCRIBE of one of them, or SUMMARIZE. `text` is what came, up to its semicolon; it is
// well-formed UTF-8 without NUL, and has no second statement by DuckDB's rules of quotes and
// comments. That it only reads is not known (a WITH may be followed by an INSERT): whoever runs it
// asks DuckDB for the statement's type.
struct Query {
  std::string text;
  bool explain = false;  // It begins with EXPLAIN: see Explained().
  bool operator==(const Query&) const = default;
};

using Statement =
    std::variant<Query, Call, ExplainCall, SetProperties, UnsetProperties, ShowTables,
                 ShowNamespaces, ShowProperties, ShowSnapshots, ShowJobs, CancelJob, Describe>;

inline constexpr size_t kStatementBytesMax = size_t{1} << 20;
inline constexpr size_t kTokensMax = 20'000;     // Of other statements than queries.
inline constexpr size_t kLiteralDepthMax = 16;   // Arrays and maps within each other.
inline constexpr size_t kQueryDepthMax = 1'000;  // Brackets within each other in a query.

// One statement, with an optional semicolon. Keywords, procedures and names of arguments are read
// in any case; comments are --… and /*…*/, which may nest. kInvalid, and kLimit for what is beyond
// a bound above: the context is the position, the message says what was found and what was
// expected, the hint what to write.
Result<Statement> Parse(std::string_view text);

// The query that is to be explained: the text with blanks where EXPLAIN was, so that positions stay
// what they are. kUnsupported for ANALYZE and for options.
Result<std::string> Explained(const Query& query);

// The statement as text that Parse reads as the same statement, positions aside.
std::string ToSql(const Statement& statement);

// SQL's LIKE: % is any text, _ one character, and a backslash before one of them, or before itself,
// takes its meaning away.
bool Like(std::string_view text, std::string_view pattern);

}  // namespace lithify::sql

#endif  // LITHIFY_SQL_STATEMENT_H_
