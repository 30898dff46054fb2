#include "serve/select_statement.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "serve/select_filter.h"

namespace lithify::serve {
namespace {

using Json = nlohmann::json;

constexpr size_t kNoPosition = static_cast<size_t>(-1);

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Functions of tables that read nothing but their arguments. All others, also those of later
// versions, are refused: files, settings, secrets and extensions are read by such functions.
constexpr std::array kTableFunctions = {"generate_series", "json_each",  "json_tree", "range",
                                        "repeat",          "repeat_row", "unnest"};
// Of the others those that tell something of the server, keep a thread, or run text as a statement.
constexpr std::array kDeniedFunctions = {"current_setting",
                                         "currval",
                                         "getenv",
                                         "getvariable",
                                         "json_execute_serialized_sql",
                                         "json_serialize_plan",
                                         "nextval",
                                         "query",
                                         "query_table",
                                         "sleep_ms",
                                         "write_log"};

// Values as large as a number says: DuckDB makes them outside of its memory limit, in one step that
// cannot be interrupted. The number is argument `size`, from 0; -1: the greatest of all.
struct Growing {
  const char* name;
  int size;
};
constexpr std::array kGrowing = {
    Growing{"array_resize", 1}, Growing{"bitstring", 1}, Growing{"generate_series", -1},
    Growing{"list_resize", 1},  Growing{"lpad", 1},      Growing{"range", -1},
    Growing{"repeat", 1},       Growing{"rpad", 1},
};
// Of all of them in one statement, multiplied: one may be within another.
constexpr double kGrowthMax = 1e7;

// DuckDB's planner is not to be interrupted, its time is the cube of some of these counts, and its
// memory is not bounded: so that it is short, its work is. Of joins, subqueries count, too; of
// expressions, literals do not.
constexpr int kJoinsMax = 64;
constexpr int kSelectsMax = 1'000;
constexpr int kUsesMax = 1'000;
constexpr int kExpressionsMax = 10'000;

template <size_t kCount>
bool Contains(const std::array<const char*, kCount>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string Text(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

bool Is(const Json& object, const char* key, std::string_view value) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() && at->get_ref<const std::string&>() == value;
}

size_t Location(const Json& node) {
  const auto at = node.find("query_location");
  if (at == node.end() || !at->is_number_unsigned()) return kNoPosition;
  return at->get<size_t>();
}

// --- names as they are written

// Passes over white space and comments.
size_t SkipSpace(std::string_view sql, size_t at) {
  while (at < sql.size()) {
    if (std::isspace(static_cast<unsigned char>(sql[at])) != 0) {
      ++at;
    } else if (sql.substr(at, 2) == "--") {
      at = std::min(sql.find('\n', at), sql.size());
    } else if (sql.substr(at, 2) == "/*") {
      int depth = 0;
      do {
        if (sql.substr(at, 2) == "/*") {
          ++depth;
          at += 2;
        } else if (sql.substr(at, 2) == "*/") {
          --depth;
          at += 2;
        } else {
          ++at;
        }
      } while (depth > 0 && at < sql.size());
    } else {
      break;
    }
  }
  return std::min(at, sql.size());
}

// The end of the quoted text that begins at `at`; doubled quotes stand for themselves.
size_t SkipQuoted(std::string_view sql, size_t at) {
  const char quote = sql[at++];
  while (at < sql.size()) {
    if (sql[at] != quote) {
      ++at;
    } else if (at + 1 < sql.size() && sql[at + 1] == quote) {
      at += 2;
    } else {
      return at + 1;
    }
  }
  return sql.size();
}

struct NamePart {
  std::string text;
  size_t end = 0;
};

std::optional<NamePart> ReadPart(std::string_view sql, size_t at) {
  if (at >= sql.size()) return std::nullopt;
  if (sql[at] == '"') {
    const size_t end = SkipQuoted(sql, at);
    std::string text;
    for (size_t i = at + 1; i + 1 < end; ++i) {
      text += sql[i];
      if (sql[i] == '"') ++i;
    }
    return NamePart{std::move(text), end};
  }
  size_t end = at;
  while (end < sql.size() &&
         (std::isalnum(static_cast<unsigned char>(sql[end])) != 0 || sql[end] == '_' ||
          sql[end] == '$' || static_cast<unsigned char>(sql[end]) >= 0x80)) {
    ++end;
  }
  if (end == at) return std::nullopt;
  return NamePart{std::string(sql.substr(at, end - at)), end};
}

// The end of the dotted name that begins at `at` and has these parts, and where its last part
// begins; nullopt if another one does.
struct NamePlace {
  size_t last = 0;
  size_t end = 0;
};
std::optional<NamePlace> FindName(std::string_view sql, size_t at,
                                  const std::vector<std::string>& parts) {
  NamePlace place;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      at = SkipSpace(sql, at);
      if (at >= sql.size() || sql[at] != '.') return std::nullopt;
      at = SkipSpace(sql, at + 1);
    }
    const auto part = ReadPart(sql, at);
    if (!part || Lower(part->text) != Lower(parts[i])) return std::nullopt;
    place = {at, part->end};
    at = part->end;
  }
  return place;
}

// The end of what stands in parentheses at `at`; nullopt if nothing does.
std::optional<size_t> SkipParentheses(std::string_view sql, size_t at) {
  if (at >= sql.size() || sql[at] != '(') return std::nullopt;
  for (int depth = 0; at < sql.size();) {
    const size_t next = SkipSpace(sql, at);
    if (next != at) {
      at = next;
    } else if (sql[at] == '\'' || sql[at] == '"') {
      at = SkipQuoted(sql, at);
    } else {
      if (sql[at] == '(') ++depth;
      if (sql[at] == ')' && --depth == 0) return at + 1;
      ++at;
    }
  }
  return std::nullopt;
}

// "AT (…)" after a table's name, which ends at `at`, and its alias, if it has one.
std::optional<std::pair<size_t, size_t>> FindAtClause(std::string_view sql, size_t at,
                                                      bool aliased) {
  at = SkipSpace(sql, at);
  if (aliased) {
    auto word = ReadPart(sql, at);
    if (word && Lower(word->text) == "as" && sql[at] != '"') {
      word = ReadPart(sql, SkipSpace(sql, word->end));
    }
    if (!word) return std::nullopt;
    at = SkipSpace(sql, word->end);
    if (const auto columns = SkipParentheses(sql, at)) at = SkipSpace(sql, *columns);
  }
  if (Lower(sql.substr(at, 2)) != "at") return std::nullopt;
  const auto end = SkipParentheses(sql, SkipSpace(sql, at + 2));
  if (!end) return std::nullopt;
  return std::pair(at, *end);
}

// Whether the name at `at` is one that takes no alias: TABLE t, DESCRIBE t.
bool TakesNoAlias(std::string_view sql, size_t at) {
  size_t end = at;
  while (end > 0 && std::isspace(static_cast<unsigned char>(sql[end - 1])) != 0) --end;
  size_t begin = end;
  while (begin > 0 && std::isalpha(static_cast<unsigned char>(sql[begin - 1])) != 0) --begin;
  const std::string word = Lower(sql.substr(begin, end - begin));
  constexpr std::array kWords = {"desc", "describe", "show", "summarize", "summarise", "table"};
  return Contains(kWords, word);
}

std::string Quoted(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += c;
    out += c;
  }
  return out + "\"";
}

std::vector<std::string> Names(const Json& reference) {
  std::vector<std::string> names;
  const auto at = reference.find("column_names");
  if (at == reference.end() || !at->is_array()) return names;
  for (const Json& name : *at) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

struct SelectStatement::Tree {
  struct Place {
    const Json* node = nullptr;
    size_t location = 0;
  };

  Json root;
  std::vector<Place> places;           // Of each table use.
  std::vector<const Json*> qualified;  // Columns of three names and more.
};

namespace {

// Goes through the tree once.
class TreeWalk {
 public:
  TreeWalk(std::vector<TableUse>& tables, std::vector<std::pair<const Json*, size_t>>& places,
           std::vector<const Json*>& qualified)
      : tables_(tables), places_(places), qualified_(qualified) {}

  Status Walk(const Json& node) { return Visit(node, {}); }
  const std::set<std::string>& expressions() const { return expressions_; }

 private:
  // Common table expressions that are in scope, and how many operators a use of each may become.
  using Names = std::map<std::string, double>;

  Status Visit(const Json& node, const Names& scope) {
    if (node.is_array()) {
      for (const Json& child : node) LITHIFY_TRY(Visit(child, scope));
      return {};
    }
    if (!node.is_object()) return {};
    LITHIFY_TRY(Count(node));
    LITHIFY_TRY(CheckFunction(node));
    if (Is(node, "type", "TABLE_FUNCTION")) {
      // Of the function itself, which gives rows and no value, all but its name.
      return Members(node.value("function", Json::object()), scope);
    }
    if (Is(node, "type", "SHOW_REF") && !Text(node, "table_name").empty()) {
      return Fail(Code::kDenied, "only DESCRIBE and SUMMARIZE of a table or query are to be had",
                  "", "ask system.* for what there is");
    }
    if (Is(node, "type", "BASE_TABLE")) return Table(node, scope);
    if (Is(node, "class", "COLUMN_REF") && serve::Names(node).size() >= 3) {
      qualified_.push_back(&node);
    }
    const auto ctes = node.find("cte_map");
    if (ctes == node.end()) return Members(node, scope);
    Names inner = scope;
    LITHIFY_TRY(Expressions(*ctes, inner));
    return Members(node, inner);
  }

  static Status CheckCount(int count, int most, const char* what) {
    if (count <= most) return {};
    return Fail(Code::kLimit,
                "the statement has more than " + std::to_string(most) + " " + std::string(what), "",
                "ask for it in several statements");
  }

  Status CountUses(double operators) {
    uses_ += operators;
    if (uses_ <= kUsesMax) return {};
    return Fail(Code::kLimit,
                "what WITH defines may be put in place more than " + std::to_string(kUsesMax) +
                    " times, each within the other",
                "", "name them less often, or ask for it in several statements");
  }

  Status Count(const Json& node) {
    if (Is(node, "type", "JOIN") || Is(node, "class", "SUBQUERY")) {
      return CheckCount(++joins_, kJoinsMax, "joins and subqueries");
    }
    if (Is(node, "type", "SELECT_NODE")) return CheckCount(++selects_, kSelectsMax, "SELECTs");
    if (!node.contains("class") || Is(node, "class", "CONSTANT")) return {};
    return CheckCount(++expressions_found_, kExpressionsMax, "columns, functions and operators");
  }

  Status Members(const Json& node, const Names& scope) {
    for (const auto& [key, child] : node.items()) {
      if (key != "cte_map") LITHIFY_TRY(Visit(child, scope));
    }
    return {};
  }

  Status Expressions(const Json& ctes, Names& scope) {
    const auto map = ctes.find("map");
    if (map == ctes.end() || !map->is_array()) return {};
    for (const Json& entry : *map) {
      const std::string name = Lower(Text(entry, "key"));
      expressions_.insert(name);
      const double before = std::exchange(uses_, 0);
      Names inner = scope;
      // One that is not recursive does not see itself.
      if (IsRecursive(entry)) inner.emplace(name, 1);
      LITHIFY_TRY(Visit(entry, inner));
      // The planner may put it in the place of each of its uses, with those within it; that it is
      // MATERIALIZED the tree does not tell.
      scope[name] = IsRecursive(entry) ? 1 : 1 + uses_;
      uses_ += before;
    }
    return {};
  }

  static bool IsRecursive(const Json& entry) {
    return Is(entry.value(Json::json_pointer("/value/query/node"), Json::object()), "type",
              "RECURSIVE_CTE_NODE");
  }

  Status CheckFunction(const Json& node) {
    if (Is(node, "type", "TABLE_FUNCTION")) {
      const auto function = node.find("function");
      const std::string name =
          function == node.end() ? "" : Lower(Text(*function, "function_name"));
      if (Contains(kTableFunctions, name)) return {};
      return Fail(Code::kDenied, "the function " + name + " cannot be read from here", "",
                  "tables are read by their names; of functions range, generate_series, unnest, "
                  "repeat, json_each and json_tree");
    }
    const std::string name = Lower(Text(node, "function_name"));
    if (name.empty()) return {};
    if (Contains(kDeniedFunctions, name)) {
      return Fail(Code::kDenied, "the function " + name + " is not to be had here");
    }
    const auto* growing = std::ranges::find(kGrowing, name, &Growing::name);
    if (growing != kGrowing.end()) return CheckGrowth(node, *growing);
    if (name == "printf" || name == "format") return CheckPattern(node, name);
    return {};
  }

  static double Number(const Json& argument) {
    static const Json::json_pointer kValue("/value/value");
    const bool number = Is(argument, "class", "CONSTANT") && argument.contains(kValue) &&
                        argument.at(kValue).is_number();
    return number ? std::abs(argument.at(kValue).get<double>()) : kGrowthMax * 2;
  }

  Status CheckGrowth(const Json& node, const Growing& growing) {
    const Json arguments = node.value("children", Json::array());
    double size = 1;
    if (growing.size < 0) {
      for (const Json& argument : arguments) size = std::max(size, Number(argument));
    } else if (arguments.size() > static_cast<size_t>(growing.size)) {
      size = std::max(size, Number(arguments[static_cast<size_t>(growing.size)]));
    }
    growth_ *= size;
    if (growth_ <= kGrowthMax) return {};
    return Fail(Code::kDenied,
                std::string("the function ") + growing.name +
                    " would make values of a size that is not known, or too large",
                "", "write its size as a number; with range() as a table there may be more rows");
  }

  // Patterns say how wide a value gets.
  static Status CheckPattern(const Json& node, const std::string& name) {
    static const Json::json_pointer kPattern("/children/0/value/value");
    const bool known = node.contains(kPattern) && node.at(kPattern).is_string();
    const std::string pattern = known ? node.at(kPattern).get<std::string>() : "";
    int digits = 0;
    bool asks = false;  // For a width among the arguments.
    int open = 0;       // Braces; two in a row stand for one that is text, which does no harm here.
    for (const char c : pattern) {
      digits = std::isdigit(static_cast<unsigned char>(c)) != 0 ? digits + 1 : 0;
      if (c == '{') ++open;
      if (c == '}') open = 0;
      asks = asks || digits > 4 || (name == "printf" ? c == '*' : open > 1);
    }
    if (known && !asks) return {};
    return Fail(Code::kDenied, "the pattern of " + name + " may make values of any size", "",
                "write the pattern as a text, with widths of up to four digits");
  }

  Status Table(const Json& node, const Names& scope) {
    TableUse use;
    for (const char* key : {"catalog_name", "schema_name", "table_name"}) {
      if (std::string part = Text(node, key); !part.empty()) {
        use.name.parts.push_back(std::move(part));
      }
    }
    if (use.name.parts.empty()) return Fail(Code::kInvalid, "a table without a name");
    const auto expression =
        use.name.parts.size() == 1 ? scope.find(Lower(use.name.parts[0])) : scope.end();
    LITHIFY_TRY(CountUses(expression == scope.end() ? 1 : expression->second));
    if (expression != scope.end()) return {};
    use.alias = Text(node, "alias");
    if (use.alias.empty()) use.alias = use.name.parts.back();
    const auto at = node.find("at_clause");
    if (at != node.end() && !at->is_null()) {
      LITHIFY_TRY_ASSIGN(use.name.version, Version(*at));
    }
    tables_.push_back(std::move(use));
    places_.emplace_back(&node, Location(node));
    return {};
  }

  static Result<std::string> Version(const Json& at) {
    const Json value =
        at.value(Json::json_pointer("/expr/value"), Json::object()).value("value", Json());
    if (Is(at, "unit", "VERSION") && value.is_number_integer()) return value.dump();
    if (Is(at, "unit", "VERSION") && value.is_string() && !value.get<std::string>().empty()) {
      return value.get<std::string>();
    }
    return Fail(Code::kUnsupported, "a table is read as of a version only", "",
                "write AT (VERSION => 8744736658442914487) with a snapshot's number, or "
                "AT (VERSION => 'name') with that of a branch or tag");
  }

  std::vector<TableUse>& tables_;
  std::vector<std::pair<const Json*, size_t>>& places_;
  std::vector<const Json*>& qualified_;
  std::set<std::string> expressions_;
  int joins_ = 0;
  int selects_ = 0;
  int expressions_found_ = 0;
  double uses_ = 0;  // Of tables and common table expressions, as in Names.
  double growth_ = 1;
};

}  // namespace

SelectStatement::SelectStatement(std::string sql, std::unique_ptr<Tree> tree)
    : sql_(std::move(sql)), tree_(std::move(tree)) {}
SelectStatement::SelectStatement(SelectStatement&&) noexcept = default;
SelectStatement& SelectStatement::operator=(SelectStatement&&) noexcept = default;
SelectStatement::~SelectStatement() = default;

std::string SelectStatement::Place(std::string_view sql, size_t position) {
  position = std::min(position, sql.size());
  const std::string_view before = sql.substr(0, position);
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(position - start + 1);
}

Result<SelectStatement> SelectStatement::Read(std::string_view sql, std::string_view tree) {
  auto parsed = std::make_unique<Tree>();
  parsed->root = Json::parse(tree, nullptr, false);
  const Json& root = parsed->root;
  if (!root.is_object()) return Fail(Code::kInternal, "the parser's answer is not understood");
  if (root.value("error", false)) {
    if (Is(root, "error_type", "not implemented")) {
      return Fail(Code::kDenied, "only SELECT statements are run here", "",
                  "SELECT, WITH, VALUES, DESCRIBE and SUMMARIZE are; tables are maintained by CALL "
                  "and ALTER TABLE … EXECUTE");
    }
    const std::string position = Text(root, "position");
    const size_t at = position.empty() ? 0 : std::strtoull(position.c_str(), nullptr, 10);
    return Fail(Code::kInvalid, Text(root, "error_message"), position.empty() ? "" : Place(sql, at),
                "correct the statement");
  }
  const Json statements = root.value("statements", Json::array());
  if (statements.size() != 1) {
    return Fail(statements.empty() ? Code::kInvalid : Code::kDenied,
                statements.empty() ? "there is no statement" : "there is more than one statement",
                "", "send one SELECT statement at a time");
  }
  SelectStatement out(std::string(sql), std::move(parsed));
  std::vector<std::pair<const Json*, size_t>> places;
  TreeWalk walk(out.tables_, places, out.tree_->qualified);
  LITHIFY_TRY(walk.Walk(out.tree_->root["statements"]));
  for (const auto& [node, location] : places) out.tree_->places.push_back({node, location});
  for (TableUse& use : out.tables_) {
    use.shadowed =
        use.name.parts.size() == 1 && walk.expressions().contains(Lower(use.name.parts[0]));
  }
  return out;
}

Result<std::string> SelectStatement::Replace(const std::vector<std::string>& replacements) {
  edits_.clear();
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (replacements[i].empty()) continue;
    const size_t begin = tree_->places[i].location;
    const auto name =
        begin == kNoPosition ? std::nullopt : FindName(sql_, begin, tables_[i].name.parts);
    if (!name) {
      return Fail(
          Code::kUnsupported,
          "the table " + tables_[i].name.parts.back() + " is named in a way that is not understood",
          begin == kNoPosition ? "" : Place(sql_, begin), "write its name in plain or in \"…\"");
    }
    const bool aliased = !Text(*tree_->places[i].node, "alias").empty();
    if (!tables_[i].name.version.empty()) {
      const auto at = FindAtClause(sql_, name->end, aliased);
      if (!at) {
        return Fail(Code::kUnsupported, "AT is written in a way that is not understood",
                    Place(sql_, begin));
      }
      edits_.push_back({at->first, at->second, ""});
    }
    const bool as = !aliased && !TakesNoAlias(sql_, begin);
    edits_.push_back(
        {begin, name->end, replacements[i] + (as ? " AS " + Quoted(tables_[i].alias) : "")});
  }
  // Of columns that are qualified by a dotted name, what is before the table's.
  for (const Json* reference : tree_->qualified) {
    const std::vector<std::string> names = Names(*reference);
    for (size_t i = 0; i < tables_.size(); ++i) {
      const auto& parts = tables_[i].name.parts;
      if (replacements[i].empty()) continue;
      const size_t longest = std::min(parts.size(), names.size() - 1);
      size_t taken = 0;
      for (size_t n = 2; n <= longest; ++n) {
        const auto begin = parts.end() - static_cast<std::ptrdiff_t>(n);
        if (std::equal(begin, parts.end(), names.begin(),
                       [](const auto& a, const auto& b) { return Lower(a) == Lower(b); })) {
          taken = n;
        }
      }
      if (taken == 0) continue;
      const size_t begin = Location(*reference);
      const auto place =
          begin == kNoPosition
              ? std::nullopt
              : FindName(sql_, begin, {names.begin(), names.begin() + static_cast<int>(taken)});
      if (place) edits_.push_back({begin, place->last, ""});
      break;
    }
  }
  std::ranges::sort(edits_, {}, &Edit::begin);
  std::string out;
  size_t at = 0;
  for (const Edit& edit : edits_) {
    if (edit.begin < at) return Fail(Code::kInternal, "two names in one place");
    out += std::string_view(sql_).substr(at, edit.begin - at);
    out += edit.text;
    at = edit.end;
  }
  return out + sql_.substr(at);
}

size_t SelectStatement::OriginalPosition(size_t position) const {
  size_t before = 0;  // Bytes of the original text that are accounted for,
  size_t after = 0;   // and of the new one.
  for (const Edit& edit : edits_) {
    const size_t plain = edit.begin - before;
    if (position < after + plain) break;
    if (position < after + plain + edit.text.size()) return edit.begin;
    after += plain + edit.text.size();
    before = edit.end;
  }
  return std::min(before + (position - after), sql_.size());
}

std::vector<std::string> SelectStatement::Filters(
    const std::vector<std::vector<UsedColumn>>& columns,
    const std::vector<ParameterValue>& parameters) const {
  std::vector<FilteredTable> uses;
  for (size_t i = 0; i < tables_.size(); ++i) {
    uses.push_back({tree_->places[i].node, tables_[i].alias, &columns[i], {}});
  }
  FindFilters(tree_->root["statements"], parameters, uses);
  std::vector<std::string> filters;
  for (FilteredTable& use : uses) filters.push_back(std::move(use.filter));
  return filters;
}

}  // namespace lithify::serve
