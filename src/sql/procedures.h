// The procedures that CALL runs: their arguments, and a call checked against them. docs/SQL.md has
// the same tables, which a test compares.
//
// Thread safety: plain values and free functions.
#ifndef LITHIFY_SQL_PROCEDURES_H_
#define LITHIFY_SQL_PROCEDURES_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "sql/statement.h"

namespace lithify::sql {

enum class ArgumentType {
  kTable,     // 'sales.orders'
  kText,      // 'day >= DATE ''2026-11-01'''
  kChoice,    // One of ArgumentSpec::choices, in any case.
  kBoolean,   // TRUE
  kInteger,   // 5
  kNumber,    // 0.3
  kBytes,     // 536870912, or '512MiB'
  kTime,      // TIMESTAMP '…', DATE '…', '2026-11-01 00:00:00', 'now', INTERVAL '5' DAY, '5d'
  kIntegers,  // ARRAY(1, 2), or 1
  kOptions,   // MAP('min-input-files', '2'): more arguments, under Spark's names.
};
// "timestamp or age", as the documentation says it.
std::string_view TypeName(ArgumentType type);

struct ArgumentSpec {
  std::string_view name;
  ArgumentType type = ArgumentType::kText;
  bool required = false;
  std::string_view default_text;  // As documented; empty: there is none to speak of.
  std::string_view description;
  std::vector<std::string_view> choices = {};
  std::vector<std::string_view> aliases = {};  // Spark's, where its name differs.
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

struct Procedure {
  std::string_view name;
  std::string_view description;
  bool changes = true;  // Something, so that reading rights are not enough (R062).
  std::vector<ArgumentSpec> arguments;
};

std::span<const Procedure> Procedures();
// nullptr: there is none of that name, which is in lower case.
const Procedure* FindProcedure(std::string_view name);

// A time, or an age counted from when the call runs.
struct TimeBound {
  std::optional<Time> at;
  Duration ago = Duration::zero();
  Time Resolve(Time now) const { return at ? *at : now - ago; }
  bool operator==(const TimeBound&) const = default;
};

using BoundValue =
    std::variant<TableName, std::string, bool, int64_t, double, TimeBound, std::vector<int64_t>>;

// A call whose arguments are known, of the right types and within their bounds. Which of them go
// together is for who runs it (plan::CheckOptions).
//
// Each getter gives nothing for an argument that was not given, and ends the process for one that
// the procedure does not have, or has with another type: that is a bug of the caller's.
class BoundCall {
 public:
  const Procedure& procedure() const { return *procedure_; }
  const std::string& catalog() const { return catalog_; }  // Empty: not named.
  std::optional<TableName> Table(std::string_view name = "table") const;
  std::optional<std::string> Text(std::string_view name) const;  // kText, kChoice (lower case).
  std::optional<bool> Boolean(std::string_view name) const;
  std::optional<int64_t> Integer(std::string_view name) const;  // kInteger, kBytes.
  std::optional<double> Number(std::string_view name) const;
  std::optional<TimeBound> Bound(std::string_view name) const;
  std::vector<int64_t> Integers(std::string_view name) const;  // Empty: not given.

 private:
  friend Result<BoundCall> Bind(const Call& call);
  template <typename T>
  std::optional<T> Get(std::string_view name, std::initializer_list<ArgumentType> types) const;

  const Procedure* procedure_ = nullptr;
  std::string catalog_;
  std::map<std::string_view, BoundValue> values_;  // By ArgumentSpec::name.
};

// kInvalid for unknown procedures and arguments (with the nearest name), arguments by position,
// twice, missing, NULL, of a wrong type or beyond their bounds; kUnsupported for what the grammar
// has and lithify has not yet, and for arguments of Spark's that mean nothing here. The context is
// the position (R064).
Result<BoundCall> Bind(const Call& call);

}  // namespace lithify::sql

#endif  // LITHIFY_SQL_PROCEDURES_H_
