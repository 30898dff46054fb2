#include "sql/statement.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "sql/lexer.h"
#include "sql/times.h"

namespace lithify::sql {
namespace {

std::string NameSql(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ".") + QuoteName(part);
  return out;
}

std::string LiteralSql(const Literal& literal);

struct ValueSql {
  std::string operator()(const Null&) const { return "NULL"; }
  std::string operator()(bool value) const { return value ? "TRUE" : "FALSE"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    std::array<char, 64> text{};
    // With an exponent always, which makes it no decimal.
    const auto [end, error] =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
    return {text.data(), end};
  }
  std::string operator()(const Decimal& value) const { return value.text; }
  std::string operator()(const std::string& value) const { return QuoteText(value); }
  std::string operator()(const Time& value) const {
    return "TIMESTAMP '" + FormatTime(value) + "'";
  }
  std::string operator()(const Date& value) const {
    return "DATE '" + FormatTime(value).substr(0, 10) + "'";
  }
  std::string operator()(const Interval& value) const { return IntervalSql(value.duration); }
  std::string operator()(const BeforeNow& value) const {
    return value.ago == Duration::zero() ? "CURRENT_TIMESTAMP"
                                         : "CURRENT_TIMESTAMP - " + IntervalSql(value.ago);
  }
  std::string operator()(const Array& value) const {
    std::string out = "ARRAY(";
    for (const Literal& item : value) out += (&item == value.data() ? "" : ", ") + LiteralSql(item);
    return out + ")";
  }
  std::string operator()(const Map& value) const {
    std::string out = "MAP(";
    for (const MapEntry& entry : value) {
      out += (&entry == value.data() ? "" : ", ") + LiteralSql(entry.key) + ", " +
             LiteralSql(entry.value);
    }
    return out + ")";
  }
};

std::string LiteralSql(const Literal& literal) { return std::visit(ValueSql{}, literal.value); }

struct StatementSql {
  std::string operator()(const Query& query) const { return query.text; }
  std::string operator()(const Call& call) const {
    std::string out = "CALL ";
    if (!call.catalog.empty()) out += QuoteName(call.catalog) + ".";
    out += "system." + QuoteName(call.procedure) + "(";
    for (const Argument& argument : call.arguments) {
      if (&argument != call.arguments.data()) out += ", ";
      if (!argument.name.empty()) out += QuoteName(argument.name) + " => ";
      out += LiteralSql(argument.value);
    }
    return out + ")";
  }
  std::string operator()(const ExplainCall& explain) const {
    return "EXPLAIN " + (*this)(explain.call);
  }
  std::string operator()(const SetProperties& set) const {
    std::string out = "ALTER TABLE " + set.table.ToString() + " SET TBLPROPERTIES (";
    for (const Property& property : set.properties) {
      out += (&property == set.properties.data() ? "" : ", ") + QuoteText(property.key) + " = " +
             QuoteText(property.value);
    }
    return out + ")";
  }
  std::string operator()(const UnsetProperties& unset) const {
    std::string out = "ALTER TABLE " + unset.table.ToString() + " UNSET TBLPROPERTIES ";
    out += unset.if_exists ? "IF EXISTS (" : "(";
    for (const std::string& key : unset.keys) {
      out += (&key == unset.keys.data() ? "" : ", ") + QuoteText(key);
    }
    return out + ")";
  }
  std::string operator()(const ShowTables& show) const {
    return "SHOW TABLES" + InLike(show.namespace_parts, show.like);
  }
  std::string operator()(const ShowNamespaces& show) const {
    return "SHOW NAMESPACES" + InLike(show.parent, show.like);
  }
  std::string operator()(const ShowProperties& show) const {
    return "SHOW TBLPROPERTIES " + show.table.ToString() +
           (show.key ? " (" + QuoteText(*show.key) + ")" : "");
  }
  std::string operator()(const ShowSnapshots& show) const {
    return "SHOW SNAPSHOTS IN " + show.table.ToString();
  }
  std::string operator()(const ShowJobs&) const { return "SHOW JOBS"; }
  std::string operator()(const CancelJob& cancel) const {
    return "CANCEL JOB " + QuoteText(cancel.id);
  }
  std::string operator()(const Describe& describe) const {
    return "DESCRIBE TABLE " + describe.table.ToString();
  }

  static std::string InLike(const std::vector<std::string>& name,
                            const std::optional<std::string>& like) {
    return (name.empty() ? "" : " IN " + NameSql(name)) + (like ? " LIKE " + QuoteText(*like) : "");
  }
};

// One character of a pattern: what it stands for, and how many bytes it has.
struct PatternStep {
  enum class Kind { kAnyText, kAnyOne, kItself } kind = Kind::kItself;
  std::string_view itself;
  size_t bytes = 0;
};

size_t CharacterBytes(std::string_view text) { return std::max<size_t>(1, Utf8Length(text)); }

PatternStep StepOf(std::string_view pattern) {
  const char c = pattern.front();
  if (c == '%') return {.kind = PatternStep::Kind::kAnyText, .itself = {}, .bytes = 1};
  if (c == '_') return {.kind = PatternStep::Kind::kAnyOne, .itself = {}, .bytes = 1};
  if (c == '\\' && pattern.size() > 1 &&
      (pattern[1] == '%' || pattern[1] == '_' || pattern[1] == '\\')) {
    return {.itself = pattern.substr(1, 1), .bytes = 2};
  }
  const size_t bytes = CharacterBytes(pattern);
  return {.itself = pattern.substr(0, bytes), .bytes = bytes};
}

}  // namespace

std::string Position::ToString() const {
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

bool Literal::operator==(const Literal& other) const = default;
bool MapEntry::operator==(const MapEntry& other) const = default;

std::string_view KindName(const Value& value) {
  static constexpr std::array<std::string_view, std::variant_size_v<Value>> kNames = {
      "NULL",     "a boolean",   "a whole number", "a number",    "a number",
      "text",     "a timestamp", "a date",         "an interval", "a time relative to now",
      "an array", "a map"};
  return kNames[value.index()];
}

std::string TableName::ToString() const { return NameSql(parts); }

std::string ToSql(const Statement& statement) { return std::visit(StatementSql{}, statement); }

bool Like(std::string_view text, std::string_view pattern) {
  // Where to go on if the rest does not match: with one character more for the last %.
  std::optional<std::pair<std::string_view, std::string_view>> again;
  for (;;) {
    if (!pattern.empty()) {
      const PatternStep step = StepOf(pattern);
      if (step.kind == PatternStep::Kind::kAnyText) {
        pattern.remove_prefix(step.bytes);
        again.emplace(text, pattern);
        continue;
      }
      const bool one = step.kind == PatternStep::Kind::kAnyOne && !text.empty();
      const bool same = step.kind == PatternStep::Kind::kItself && text.starts_with(step.itself);
      if (one || same) {
        text.remove_prefix(one ? CharacterBytes(text) : step.itself.size());
        pattern.remove_prefix(step.bytes);
        continue;
      }
    } else if (text.empty()) {
      return true;
    }
    if (!again || again->first.empty()) return false;
    again->first.remove_prefix(CharacterBytes(again->first));
    text = again->first;
    pattern = again->second;
  }
}

}  // namespace lithify::sql
