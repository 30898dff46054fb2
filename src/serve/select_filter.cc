#include "serve/select_filter.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace lithify::serve {
namespace {

using Json = nlohmann::json;

constexpr size_t kFilterBytesMax = size_t{64} << 10;
constexpr int kDepthMax = 32;

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string Text(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

bool Is(const Json& object, const char* key, std::string_view value) {
  return Text(object, key) == value;
}

const Json& Member(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto at = object.find(key);
  return at == object.end() ? kNull : *at;
}

std::string InQuotes(std::string_view text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote) out += c;
    out += c;
  }
  return out + quote;
}

// What the FROM clause of one SELECT names.
struct Source {
  FilteredTable* table = nullptr;  // Null: a query, a function, a common table expression.
  std::string alias;
  bool pushable = false;  // Rows that the WHERE clause rules out may be missing.
};

// `pushable`: as far as the joins above are concerned. An outer join makes up rows for those that
// find none, and a condition like IS NULL holds for these.
void Collect(const Json& from, bool pushable, std::vector<FilteredTable>& tables,
             std::vector<Source>& sources) {
  if (Is(from, "type", "JOIN")) {
    const std::string kind = Text(from, "join_type");
    const std::string form = Text(from, "ref_type");
    const bool plain = form == "REGULAR" || form == "CROSS" || form == "NATURAL";
    const bool left = kind == "INNER" || kind == "LEFT" || kind == "SEMI" || kind == "ANTI";
    Collect(Member(from, "left"), pushable && plain && left, tables, sources);
    Collect(Member(from, "right"), pushable && plain && kind == "INNER", tables, sources);
    return;
  }
  if (Is(from, "type", "EMPTY")) return;
  Source source;
  source.alias = Text(from, "alias");
  const auto at = std::ranges::find(tables, &from, &FilteredTable::node);
  if (at != tables.end()) {
    source.table = &*at;
    source.alias = at->alias;
    // A sample is taken of all rows.
    source.pushable =
        pushable && Member(from, "sample").is_null() && Member(from, "column_name_alias").empty();
  }
  sources.push_back(std::move(source));
}

const UsedColumn* FindColumn(const FilteredTable& table, std::string_view name) {
  const UsedColumn* found = nullptr;
  for (const UsedColumn& column : *table.columns) {
    if (!SameName(column.name, name)) continue;
    if (found != nullptr) return nullptr;
    found = &column;
  }
  return found;
}

// --- literals

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "2026-11-30"
bool IsDay(std::string_view text) {
  return text.size() == 10 && text[4] == '-' && text[7] == '-' && IsDigits(text.substr(0, 4)) &&
         IsDigits(text.substr(5, 2)) && IsDigits(text.substr(8, 2));
}

// "08:15:30", with up to six digits of a second's parts.
bool IsTimeOfDay(std::string_view text) {
  if (text.size() < 8 || text[2] != ':' || text[5] != ':' || !IsDigits(text.substr(0, 2)) ||
      !IsDigits(text.substr(3, 2)) || !IsDigits(text.substr(6, 2))) {
    return false;
  }
  text.remove_prefix(8);
  return text.empty() || (text.size() <= 7 && text[0] == '.' && IsDigits(text.substr(1)));
}

struct Constant {
  std::string type;  // DuckDB's name.
  Json value;
  int scale = 0;       // Of a decimal.
  std::string cast;    // To this type; empty: as it is.
  bool typed = false;  // A VARCHAR that is one, and no literal of whatever type it is beside.
};

using Parameters = std::vector<ParameterValue>;

std::optional<Constant> ParameterOf(const Json& node, const Parameters& parameters) {
  const std::string name = Text(node, "identifier");
  if (!IsDigits(name) || name.size() > 6) return std::nullopt;
  const size_t number = std::strtoull(name.c_str(), nullptr, 10);
  if (number < 1 || number > parameters.size()) return std::nullopt;
  const ParameterValue& value = parameters[number - 1];
  Constant out;
  out.type = value.type;
  out.value = value.text;
  if (value.type == "BIGINT") {
    out.value = static_cast<int64_t>(std::strtoll(value.text.c_str(), nullptr, 10));
  } else if (value.type == "BOOLEAN") {
    out.value = value.text == "true";
  } else if (value.type == "DATE" || value.type == "TIMESTAMP") {
    out.type = "VARCHAR";
    out.cast = value.type;
  } else if (value.type == "VARCHAR") {
    out.typed = true;
  } else {
    return std::nullopt;
  }
  return out;
}

std::optional<Constant> ConstantOf(const Json& node, const Parameters& parameters) {
  if (Is(node, "class", "PARAMETER")) return ParameterOf(node, parameters);
  if (Is(node, "class", "CAST") && !node.value("try_cast", true)) {
    auto inner = ConstantOf(Member(node, "child"), parameters);
    if (!inner || !inner->cast.empty()) return std::nullopt;
    inner->cast = Text(Member(node, "cast_type"), "id");
    return inner;
  }
  const Json& value = Member(node, "value");
  if (!Is(node, "class", "CONSTANT") || value.value("is_null", true)) return std::nullopt;
  Constant out;
  out.type = Text(Member(value, "type"), "id");
  out.value = Member(value, "value");
  const Json& info = Member(Member(value, "type"), "type_info");
  if (out.type == "DECIMAL") out.scale = info.is_object() ? info.value("scale", 0) : 0;
  return out;
}

std::optional<int64_t> Whole(const Constant& constant) {
  const bool whole = constant.type == "TINYINT" || constant.type == "SMALLINT" ||
                     constant.type == "INTEGER" || constant.type == "BIGINT";
  if (!whole || !constant.cast.empty() || !constant.value.is_number_integer()) return std::nullopt;
  return constant.value.get<int64_t>();
}

std::optional<std::string> WholeBelow(const Constant& constant, int64_t most) {
  const auto whole = Whole(constant);
  if (!whole || *whole > most || *whole < -most) return std::nullopt;
  return std::to_string(*whole);
}

// With up to 18 digits on both sides DuckDB compares decimals exactly.
std::optional<std::string> DecimalText(const Constant& constant, int precision, int scale) {
  constexpr int64_t kMost = 999'999'999'999'999'999;
  if (precision > 18) return std::nullopt;
  if (constant.type != "DECIMAL")
    return scale > 0 ? WholeBelow(constant, 999'999) : WholeBelow(constant, kMost);
  if (!constant.cast.empty() || !constant.value.is_number_integer() || constant.scale > scale) {
    return std::nullopt;
  }
  const auto unscaled = constant.value.get<int64_t>();
  if (unscaled > kMost || unscaled < -kMost) return std::nullopt;
  std::string digits = std::to_string(unscaled < 0 ? -unscaled : unscaled);
  const auto places = static_cast<size_t>(constant.scale);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  if (places > 0) digits.insert(digits.size() - places, 1, '.');
  return (unscaled < 0 ? "-" : "") + digits;
}

std::optional<std::string> TimestampText(const Constant& constant, bool zoned) {
  if (constant.type != "VARCHAR" || !constant.value.is_string()) return std::nullopt;
  const std::string& cast = constant.cast;
  if (!cast.empty() && cast != "DATE" && cast != "TIMESTAMP" &&
      !(zoned && cast == "TIMESTAMP WITH TIME ZONE")) {
    return std::nullopt;
  }
  std::string text = constant.value.get<std::string>();
  if (IsDay(text)) return "TIMESTAMP '" + text + " 00:00:00'";
  if (cast == "DATE" || text.size() < 19 || !IsDay(std::string_view(text).substr(0, 10)) ||
      (text[10] != ' ' && text[10] != 'T') || !IsTimeOfDay(std::string_view(text).substr(11))) {
    return std::nullopt;
  }
  return "TIMESTAMP '" + text + "'";
}

// Of a type whose values DuckDB compares with the literal as they are.
std::optional<std::string> LiteralText(const std::string& format, const Json& node,
                                       const Parameters& parameters) {
  const auto constant = ConstantOf(node, parameters);
  if (!constant) return std::nullopt;
  const bool is_text = format == "u" || format == "U" || format == "vu";
  if (constant->typed && constant->cast.empty() && !is_text) return std::nullopt;
  if (format == "i") return WholeBelow(*constant, INT32_MAX);
  if (format == "l") return WholeBelow(*constant, INT64_MAX);
  if (format == "f") return WholeBelow(*constant, int64_t{1} << 24);
  if (format == "g") return WholeBelow(*constant, int64_t{1} << 53);
  if (format.starts_with("d:")) {
    int precision = 0;
    int scale = 0;
    const char* const last = format.data() + format.size();
    const char* at = std::from_chars(format.data() + 2, last, precision).ptr;
    // Those of more bits name them as a third number.
    if (at == last || *at != ',' || std::from_chars(at + 1, last, scale).ptr != last) {
      return std::nullopt;
    }
    return DecimalText(*constant, precision, scale);
  }
  const bool text = constant->type == "VARCHAR" && constant->value.is_string();
  if (format == "b") {
    if (constant->type == "BOOLEAN" && constant->value.is_boolean()) {
      return constant->value.get<bool>() ? "TRUE" : "FALSE";
    }
    if (!text || constant->cast != "BOOLEAN") return std::nullopt;
    if (constant->value == "t") return "TRUE";
    if (constant->value == "f") return "FALSE";
    return std::nullopt;
  }
  if (format == "tsu:") return TimestampText(*constant, false);
  if (format.starts_with("tsu:")) return TimestampText(*constant, true);
  if (!text) return std::nullopt;
  const std::string value = constant->value.get<std::string>();
  if (is_text) {
    if (!constant->cast.empty() || value.find('\0') != std::string::npos) return std::nullopt;
    return InQuotes(value, '\'');
  }
  if (format == "tdD" && (constant->cast.empty() || constant->cast == "DATE") && IsDay(value)) {
    return "DATE '" + value + "'";
  }
  return std::nullopt;
}

// --- conditions

// Of one SELECT, for one of its tables.
class Translator {
 public:
  Translator(const std::vector<Source>& sources, const Source& of, const Parameters& parameters)
      : sources_(sources), of_(of), parameters_(parameters) {}

  // A condition that holds wherever this one does; nullopt: none but "always".
  std::optional<std::string> Condition(const Json& node, int depth = 0) const {
    if (depth > kDepthMax || !node.is_object()) return std::nullopt;
    const std::string type = Text(node, "type");
    if (type == "CONJUNCTION_AND") return All(Member(node, "children"), depth);
    if (type == "CONJUNCTION_OR") return Any(Member(node, "children"), depth);
    if (Is(node, "class", "COMPARISON")) return Comparison(node, type);
    if (type == "COMPARE_BETWEEN") return Between(node);
    if (type == "COMPARE_IN") return In(Member(node, "children"));
    if (type == "OPERATOR_IS_NULL" || type == "OPERATOR_IS_NOT_NULL") {
      const Json& children = Member(node, "children");
      const UsedColumn* column = children.size() == 1 ? Column(children[0]) : nullptr;
      if (column == nullptr) return std::nullopt;
      return Name(*column) + (type == "OPERATOR_IS_NULL" ? " IS NULL" : " IS NOT NULL");
    }
    if (Is(node, "class", "FUNCTION") && Is(node, "function_name", "~~")) return Like(node);
    const UsedColumn* flag = Column(node);
    if (flag != nullptr && flag->format == "b") return Name(*flag) + " = TRUE";
    return std::nullopt;
  }

 private:
  std::optional<std::string> All(const Json& children, int depth) const {
    std::string out;
    for (const Json& child : children) {
      const auto one = Condition(child, depth + 1);
      if (!one) continue;
      out += (out.empty() ? "(" : " AND (") + *one + ")";
    }
    if (out.empty()) return std::nullopt;
    return out;
  }

  std::optional<std::string> Any(const Json& children, int depth) const {
    std::string out;
    for (const Json& child : children) {
      const auto one = Condition(child, depth + 1);
      if (!one) return std::nullopt;
      out += (out.empty() ? "(" : " OR (") + *one + ")";
    }
    if (out.empty()) return std::nullopt;
    return out;
  }

  std::optional<std::string> Comparison(const Json& node, const std::string& type) const {
    struct Operator {
      std::string_view type;
      std::string_view forth;
      std::string_view back;  // With the sides exchanged.
    };
    static constexpr Operator kOperators[] = {
        {"COMPARE_EQUAL", "=", "="},
        {"COMPARE_NOTEQUAL", "<>", "<>"},
        {"COMPARE_LESSTHAN", "<", ">"},
        {"COMPARE_GREATERTHAN", ">", "<"},
        {"COMPARE_LESSTHANOREQUALTO", "<=", ">="},
        {"COMPARE_GREATERTHANOREQUALTO", ">=", "<="},
    };
    const auto* found = std::ranges::find(kOperators, type, &Operator::type);
    if (found == std::end(kOperators)) return std::nullopt;
    const Json& left = Member(node, "left");
    const Json& right = Member(node, "right");
    const UsedColumn* column = Column(left);
    const bool forth = column != nullptr;
    if (!forth) column = Column(right);
    if (column == nullptr) return std::nullopt;
    const auto literal = Literal(*column, forth ? right : left);
    if (!literal) return std::nullopt;
    return Name(*column) + " " + std::string(forth ? found->forth : found->back) + " " + *literal;
  }

  // What is known of one end is worth having.
  std::optional<std::string> Between(const Json& node) const {
    const UsedColumn* column = Column(Member(node, "input"));
    if (column == nullptr) return std::nullopt;
    const auto lower = Literal(*column, Member(node, "lower"));
    const auto upper = Literal(*column, Member(node, "upper"));
    std::string out;
    if (lower) out = Name(*column) + " >= " + *lower;
    if (upper) out += (out.empty() ? "" : " AND ") + Name(*column) + " <= " + *upper;
    if (out.empty()) return std::nullopt;
    return out;
  }

  std::optional<std::string> In(const Json& children) const {
    const UsedColumn* column = children.size() < 2 ? nullptr : Column(children[0]);
    if (column == nullptr) return std::nullopt;
    std::string out = Name(*column) + " IN (";
    for (size_t i = 1; i < children.size(); ++i) {
      const auto literal = Literal(*column, children[i]);
      if (!literal) return std::nullopt;
      out += (i > 1 ? ", " : "") + *literal;
    }
    return out + ")";
  }

  // Patterns of a prefix alone: what escapes what is another matter.
  std::optional<std::string> Like(const Json& node) const {
    const Json& children = Member(node, "children");
    const UsedColumn* column = children.size() == 2 ? Column(children[0]) : nullptr;
    if (column == nullptr || column->format != "u") return std::nullopt;
    const auto literal = Literal(*column, children[1]);
    if (!literal || literal->find_first_of("_\\") != std::string::npos ||
        literal->find('%') != literal->size() - 2) {
      return std::nullopt;
    }
    return Name(*column) + " LIKE " + *literal;
  }

  std::optional<std::string> Literal(const UsedColumn& column, const Json& node) const {
    return LiteralText(column.format, node, parameters_);
  }

  static std::string Name(const UsedColumn& column) { return InQuotes(column.name, '"'); }

  // The column of this table that the expression is, and certainly is; else null.
  const UsedColumn* Column(const Json& node) const {
    if (!Is(node, "class", "COLUMN_REF")) return nullptr;
    std::vector<std::string> names;
    for (const Json& name : Member(node, "column_names")) {
      if (!name.is_string()) return nullptr;
      names.push_back(name.get<std::string>());
    }
    if (names.empty() || !(names.size() == 1 ? IsOurs(names[0]) : QualifierIsOurs(names))) {
      return nullptr;
    }
    const UsedColumn* column = FindColumn(*of_.table, names.back());
    // A dotted name means a field in a struct there.
    return column != nullptr && column->name.find('.') == std::string::npos ? column : nullptr;
  }

  bool IsOurs(const std::string& column) const {
    return std::ranges::all_of(sources_, [&](const Source& source) {
      if (&source == &of_) return true;
      return source.table != nullptr &&
             std::ranges::none_of(*source.table->columns, [&](const UsedColumn& other) {
               return SameName(other.name, column);
             });
    });
  }

  bool QualifierIsOurs(const std::vector<std::string>& names) const {
    if (std::ranges::any_of(sources_, [&](const Source& source) {
          return &source != &of_ && SameName(source.alias, of_.alias);
        })) {
      return false;
    }
    if (names.size() == 2) return SameName(names[0], of_.alias);
    const Json& node = *of_.table->node;
    if (!Text(node, "alias").empty()) return false;
    std::vector<std::string> parts;
    for (const char* key : {"catalog_name", "schema_name", "table_name"}) {
      if (std::string part = Text(node, key); !part.empty()) parts.push_back(std::move(part));
    }
    const size_t qualifiers = names.size() - 1;
    return qualifiers <= parts.size() &&
           std::equal(names.begin(), names.end() - 1,
                      parts.end() - static_cast<std::ptrdiff_t>(qualifiers), SameName);
  }

  const std::vector<Source>& sources_;
  const Source& of_;
  const Parameters& parameters_;
};

void FindInSelect(const Json& select, const Parameters& parameters,
                  std::vector<FilteredTable>& tables) {
  const Json& where = Member(select, "where_clause");
  if (!where.is_object() || !Member(select, "sample").is_null()) return;
  std::vector<Source> sources;
  Collect(Member(select, "from_table"), true, tables, sources);
  for (const Source& source : sources) {
    if (!source.pushable) continue;
    auto filter = Translator(sources, source, parameters).Condition(where);
    if (filter && filter->size() <= kFilterBytesMax) source.table->filter = std::move(*filter);
  }
}

}  // namespace

void FindFilters(const Json& node, const std::vector<ParameterValue>& parameters,
                 std::vector<FilteredTable>& tables) {
  if (!node.is_structured()) return;
  if (node.is_object() && Is(node, "type", "SELECT_NODE")) FindInSelect(node, parameters, tables);
  for (const Json& child : node) FindFilters(child, parameters, tables);
}

}  // namespace lithify::serve
