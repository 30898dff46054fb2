// The grammar: tokens to one statement, by recursive descent.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

#include "base/text.h"
#include "sql/lexer.h"
#include "sql/statement.h"
#include "sql/times.h"

namespace lithify::sql {
namespace {

constexpr std::array<std::string_view, 4> kQueryWords = {"SELECT", "WITH", "VALUES", "FROM"};
constexpr std::array<std::string_view, 11> kFirstWords = {"SELECT",   "WITH", "VALUES", "FROM",
                                                          "EXPLAIN",  "CALL", "ALTER",  "SHOW",
                                                          "DESCRIBE", "DESC", "CANCEL"};
constexpr std::string_view kStatements =
    "a query (SELECT, WITH, VALUES, FROM), CALL, EXPLAIN, ALTER TABLE, SHOW, DESCRIBE or "
    "CANCEL JOB";
// Statements that users of other engines try.
constexpr std::array<std::string_view, 27> kForeignWords = {
    "INSERT", "UPDATE",  "DELETE",   "MERGE",   "CREATE", "DROP",   "TRUNCATE",
    "GRANT",  "REVOKE",  "SET",      "RESET",   "USE",    "COPY",   "ATTACH",
    "DETACH", "INSTALL", "LOAD",     "PRAGMA",  "BEGIN",  "COMMIT", "ROLLBACK",
    "VACUUM", "ANALYZE", "OPTIMIZE", "REFRESH", "EXPORT", "IMPORT"};

bool IsQueryWord(const Token& token) {
  return std::ranges::any_of(kQueryWords, [&](std::string_view word) { return token.Is(word); });
}

std::unexpected<Error> FailAt(const Position& at, std::string message, std::string hint = {}) {
  return Fail(Code::kInvalid, std::move(message), at.ToString(), std::move(hint));
}

// Whether a query begins here, EXPLAIN and its options before it (then `explain`) or not.
Result<bool> BeginsQuery(std::string_view text, bool& explain) {
  Lexer lexer(text);
  const auto skip_open = [&](Token& token) -> Status {
    while (token.IsSymbol("(")) {
      LITHIFY_TRY_ASSIGN(token, lexer.Next());
    }
    return {};
  };
  LITHIFY_TRY_ASSIGN(Token token, lexer.Next());
  LITHIFY_TRY(skip_open(token));
  if (token.Is("SUMMARIZE")) return true;
  if (token.Is("DESCRIBE") || token.Is("DESC")) {
    LITHIFY_TRY_ASSIGN(token, lexer.Next());
    return token.IsSymbol("(") || IsQueryWord(token);
  }
  explain = token.Is("EXPLAIN");
  if (!explain) return IsQueryWord(token);
  LITHIFY_TRY_ASSIGN(token, lexer.Next());
  if (token.Is("ANALYZE")) {
    LITHIFY_TRY_ASSIGN(token, lexer.Next());
  }
  const bool open = token.IsSymbol("(");
  LITHIFY_TRY(skip_open(token));
  if (IsQueryWord(token)) return true;
  if (!open) return false;
  while (token.kind != TokenKind::kEnd && !token.IsSymbol(")")) {
    LITHIFY_TRY_ASSIGN(token, lexer.Next());
  }
  LITHIFY_TRY_ASSIGN(token, lexer.Next());
  LITHIFY_TRY(skip_open(token));
  return IsQueryWord(token);
}

Status CheckText(std::string_view text) {
  if (text.size() > kStatementBytesMax) {
    return Fail(Code::kLimit,
                "the statement has " + FormatBytes(static_cast<int64_t>(text.size())) +
                    ", the limit is " + FormatBytes(static_cast<int64_t>(kStatementBytesMax)),
                {}, "send a shorter statement");
  }
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text.substr(at));
    if (length == 0) {
      return FailAt(PositionAt(text, at), "the bytes that begin here are no UTF-8",
                    "send statements in UTF-8");
    }
    if (text[at] == '\0') return FailAt(PositionAt(text, at), "a zero byte", "leave it out");
    at += length;
  }
  return {};
}

Result<std::vector<Token>> Tokenize(std::string_view text) {
  std::vector<Token> tokens;
  Lexer lexer(text);
  do {
    LITHIFY_TRY_ASSIGN(Token token, lexer.Next());
    if (tokens.size() >= kTokensMax) {
      return Fail(Code::kLimit,
                  "more than " + FormatCount(static_cast<int64_t>(kTokensMax)) + " words and signs",
                  token.position.ToString(), "send a shorter statement");
    }
    tokens.push_back(std::move(token));
  } while (tokens.back().kind != TokenKind::kEnd);
  return tokens;
}

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Statement> ParseStatement() {
    LITHIFY_TRY_ASSIGN(Statement statement, ParseByVerb());
    const bool ended = Accept(";");
    while (Accept(";")) {
    }
    if (Peek().kind == TokenKind::kEnd) return statement;
    if (ended) {
      return FailAt(Peek().position, "a second statement begins here",
                    "send one statement at a time");
    }
    return Unexpected("the end of the statement");
  }

 private:
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  const Token& Take() {
    const Token& token = Peek();
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  bool Accept(std::string_view symbol) {
    if (!Peek().IsSymbol(symbol)) return false;
    Take();
    return true;
  }
  bool AcceptWord(std::string_view word) {
    if (!Peek().Is(word)) return false;
    Take();
    return true;
  }

  std::unexpected<Error> Unexpected(std::string_view expected, std::string hint = {}) const {
    const Token& token = Peek();
    const bool after_text = next_ > 0 && tokens_[next_ - 1].kind == TokenKind::kText;
    if (hint.empty() && after_text && tokens_[next_ - 1].text.ends_with('\\')) {
      hint = "a quote within text is doubled: ''; a backslash means nothing";
    }
    return FailAt(token.position, "expected " + std::string(expected) + ", found " + token.Shown(),
                  std::move(hint));
  }

  Status Expect(std::string_view symbol) {
    if (Accept(symbol)) return {};
    return Unexpected(Shown(symbol));
  }
  Status ExpectWord(std::string_view word) {
    if (AcceptWord(word)) return {};
    return Unexpected(word);
  }
  // One of several words was expected: the nearest one as the hint.
  std::unexpected<Error> UnexpectedWord(std::string_view expected,
                                        std::span<const std::string_view> words) const {
    const std::string_view nearest =
        Peek().kind == TokenKind::kWord ? Nearest(UpperCase(Peek().text), words) : "";
    return Unexpected(expected,
                      nearest.empty() ? "" : "did you mean " + std::string(nearest) + "?");
  }

  Result<Statement> ParseByVerb() {
    const Token& verb = Peek();
    if (verb.kind == TokenKind::kEnd || verb.IsSymbol(";")) {
      return FailAt(verb.position, "there is no statement", "write " + std::string(kStatements));
    }
    if (AcceptWord("CALL")) {
      LITHIFY_TRY_ASSIGN(Call call, ParseCall());
      return call;
    }
    if (AcceptWord("EXPLAIN")) {
      if (!AcceptWord("CALL")) return Unexpected("CALL or a query after EXPLAIN");
      LITHIFY_TRY_ASSIGN(Call call, ParseCall());
      return ExplainCall{.call = std::move(call)};
    }
    if (AcceptWord("ALTER")) return ParseAlter();
    if (AcceptWord("SHOW")) return ParseShow();
    if (AcceptWord("DESCRIBE") || AcceptWord("DESC")) {
      (void)AcceptWord("TABLE");
      LITHIFY_TRY_ASSIGN(TableName table, ParseTable());
      return Describe{.table = std::move(table)};
    }
    if (AcceptWord("CANCEL")) return ParseCancel();
    for (const std::string_view foreign : kForeignWords) {
      if (!verb.Is(foreign)) continue;
      return FailAt(verb.position,
                    std::string(foreign) +
                        " is no statement of this server, which reads tables and maintains them",
                    "statements are " + std::string(kStatements));
    }
    return UnexpectedWord(kStatements, kFirstWords);
  }

  // --- names ---

  Result<std::vector<std::string>> ParseName(std::string_view what) {
    std::vector<std::string> parts;
    do {
      const Token& token = Peek();
      if (!token.IsName()) {
        return Unexpected(what, token.kind == TokenKind::kText
                                    ? "a name is written without quotes, or in double ones"
                                    : "");
      }
      if (token.text.empty()) return FailAt(token.position, "an empty name", "write its letters");
      parts.push_back(Take().text);
    } while (Accept("."));
    if (Peek().IsSymbol("-")) {
      return FailAt(Peek().position, "a name with \"-\" in it is not quoted",
                    "put it in double quotes: \"" + parts.back() + "-…\"");
    }
    return parts;
  }

  Result<TableName> ParseTable() {
    const Position position = Peek().position;
    LITHIFY_TRY_ASSIGN(std::vector<std::string> parts, ParseName("the name of a table"));
    return TableName{.parts = std::move(parts), .position = position};
  }

  // --- CALL ---

  Result<Call> ParseCall() {
    Call call;
    call.position = Peek().position;
    LITHIFY_TRY_ASSIGN(std::vector<std::string> name, ParseName("the name of a procedure"));
    const std::string example = "write CALL system." + LowerCase(name.back()) + "(…)";
    if (name.size() > 3) {
      return FailAt(call.position, "the name of the procedure has too many parts",
                    example + ", a catalog before it if need be");
    }
    if (name.size() > 1 && LowerCase(name[name.size() - 2]) != "system") {
      return FailAt(call.position,
                    Shown(name[name.size() - 2]) + " has no procedures, only \"system\" has",
                    example);
    }
    if (name.size() == 3) call.catalog = name.front();
    call.procedure = LowerCase(name.back());
    LITHIFY_TRY(Expect("("));
    if (Accept(")")) return call;
    do {
      LITHIFY_TRY_ASSIGN(Argument argument, ParseArgument());
      call.arguments.push_back(std::move(argument));
    } while (Accept(","));
    if (!Accept(")")) return Unexpected("\",\" or \")\" after an argument");
    return call;
  }

  Result<Argument> ParseArgument() {
    Argument argument;
    argument.position = Peek().position;
    if (Peek().IsName() && Peek(1).kind == TokenKind::kSymbol) {
      const std::string name = LowerCase(Peek().text);
      const std::string& sign = Peek(1).text;
      if (sign == "=" || sign == ":=" || sign == ":" || sign == "==") {
        Take();
        return Unexpected("\"=>\" after the name of an argument", "write " + name + " => …");
      }
      if (sign == "=>") {
        if (name.empty()) return FailAt(argument.position, "an empty name", "write its letters");
        argument.name = name;
        Take();
        Take();
      }
    }
    LITHIFY_TRY_ASSIGN(argument.value, ParseLiteral(0));
    return argument;
  }

  // --- literals ---

  Result<Literal> ParseLiteral(size_t depth) {
    const Token token = Peek();
    const auto made = [&](Value value) {
      return Literal{.value = std::move(value), .position = token.position};
    };
    if (token.kind == TokenKind::kText) return made(Take().text);
    if (token.kind == TokenKind::kNumber || token.IsSymbol("-") || token.IsSymbol("+")) {
      LITHIFY_TRY_ASSIGN(Value number, ParseNumber());
      return made(std::move(number));
    }
    if (AcceptWord("NULL")) return made(Null{});
    if (AcceptWord("TRUE")) return made(true);
    if (AcceptWord("FALSE")) return made(false);
    if (Accept("[")) {
      LITHIFY_TRY_ASSIGN(Array array, ParseArray("]", depth));
      return made(std::move(array));
    }
    if (token.kind == TokenKind::kWord) {
      LITHIFY_TRY_ASSIGN(std::optional<Value> value, ParseTyped(depth));
      if (value) return made(std::move(*value));
    }
    if (token.text == "?" || token.text == "$") {
      return Unexpected("a value", "only queries have parameters: write the value here");
    }
    return Unexpected("a value", token.IsName()
                                     ? "text is written in single quotes: " + QuoteText(token.text)
                                     : "");
  }

  // What begins with a word; nullopt: no value begins with this one.
  Result<std::optional<Value>> ParseTyped(size_t depth) {
    const Token& word = Peek();
    const Token& next = Peek(1);
    const bool text = next.kind == TokenKind::kText;
    if (text && (word.Is("TIMESTAMP") || word.Is("TIMESTAMP_LTZ") || word.Is("TIMESTAMP_NTZ") ||
                 word.Is("TIMESTAMPTZ"))) {
      LITHIFY_TRY_ASSIGN(const Time time, ParseTimeText());
      return Value(time);
    }
    if (text && word.Is("DATE")) {
      LITHIFY_TRY_ASSIGN(const Time time, ParseTimeText());
      const Date date = std::chrono::floor<std::chrono::days>(time);
      if (time != date) return FailAt(next.position, Shown(next.raw) + " is no date");
      return Value(date);
    }
    if (AcceptWord("INTERVAL")) {
      LITHIFY_TRY_ASSIGN(const Duration duration, ParseInterval());
      return Value(Interval{duration});
    }
    if (word.Is("CURRENT_TIMESTAMP") || (word.Is("NOW") && next.IsSymbol("("))) {
      LITHIFY_TRY_ASSIGN(const BeforeNow before, ParseBeforeNow());
      return Value(before);
    }
    if (word.Is("ARRAY") && (next.IsSymbol("(") || next.IsSymbol("["))) {
      Take();
      const bool round = Take().text == "(";
      LITHIFY_TRY_ASSIGN(Array array, ParseArray(round ? ")" : "]", depth));
      return Value(std::move(array));
    }
    if (word.Is("MAP") && (next.IsSymbol("(") || next.IsSymbol("{"))) {
      Take();
      const bool round = Take().text == "(";
      LITHIFY_TRY_ASSIGN(Map map, ParseMap(round, depth));
      return Value(std::move(map));
    }
    return std::optional<Value>();
  }

  // TIMESTAMP '…' and its like: both tokens.
  Result<Time> ParseTimeText() {
    Take();
    const Token text = Take();
    auto time = ParseTimestamp(text.text);
    if (!time) return Fail(std::move(time.error()).In(text.position.ToString()));
    return time;
  }

  Result<Value> ParseNumber() {
    const Position at = Peek().position;
    std::string sign;
    if (Accept("-")) {
      sign = "-";
    } else {
      (void)Accept("+");
    }
    if (Peek().kind != TokenKind::kNumber) return Unexpected("a number");
    std::string digits = sign + LowerCase(Take().text);
    const char suffix = digits.back();
    if (suffix == 'l' || suffix == 'd' || suffix == 'f') digits.pop_back();
    const bool real = suffix == 'd' || suffix == 'f' || digits.find('e') != std::string::npos;
    const bool whole = !real && digits.find('.') == std::string::npos;
    const char* const end = digits.data() + digits.size();
    if (real) {
      double value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      // Of what is too near to zero from_chars says "out of range", too.
      if (error != std::errc() || stop != end || !std::isfinite(value) || suffix == 'l') {
        return FailAt(at, Shown(digits) + " is no number that fits 64 bits");
      }
      return Value(value);
    }
    if (whole) {
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      if (error == std::errc() && stop == end) return Value(value);
    }
    if (suffix == 'l') return FailAt(at, Shown(digits) + " is no whole number of 64 bits");
    return Value(Decimal{std::move(digits)});
  }

  // After INTERVAL: "'7' DAY", "7 DAYS 3 HOURS", "'7 days'".
  Result<Duration> ParseInterval() {
    const Position at = Peek().position;
    std::string text;
    if (Peek().kind == TokenKind::kText && Peek(1).kind != TokenKind::kWord) {
      text = Take().text;
    } else {
      do {
        const bool minus = Accept("-");
        const Token& number = Peek();
        if (number.kind != TokenKind::kNumber && number.kind != TokenKind::kText) {
          return Unexpected("a number after INTERVAL", "write INTERVAL '7' DAY");
        }
        text += (text.empty() ? "" : " ") + std::string(minus ? "-" : "") + Take().text;
        if (Peek().kind != TokenKind::kWord) {
          return Unexpected("a unit of time", "write INTERVAL '7' DAY");
        }
        text += " " + Take().text;
      } while (Peek().kind == TokenKind::kNumber);
    }
    auto duration = ParseIntervalText(text);
    if (!duration) return Fail(std::move(duration.error()).In(at.ToString()));
    return duration;
  }

  Result<BeforeNow> ParseBeforeNow() {
    Take();
    if (Accept("(")) LITHIFY_TRY(Expect(")"));
    if (!Accept("-")) return BeforeNow{};
    LITHIFY_TRY(ExpectWord("INTERVAL"));
    const Position at = Peek().position;
    LITHIFY_TRY_ASSIGN(const Duration ago, ParseInterval());
    if (ago < Duration::zero()) return FailAt(at, "a time after now", "write a positive interval");
    return BeforeNow{ago};
  }

  Status CheckDepth(size_t depth) const {
    if (depth < kLiteralDepthMax) return {};
    return Fail(Code::kLimit,
                "more than " + FormatCount(static_cast<int64_t>(kLiteralDepthMax)) +
                    " arrays and maps within each other",
                Peek().position.ToString(), "write fewer of them");
  }

  Result<Array> ParseArray(std::string_view close, size_t depth) {
    LITHIFY_TRY(CheckDepth(depth));
    Array array;
    if (Accept(close)) return array;
    do {
      LITHIFY_TRY_ASSIGN(Literal item, ParseLiteral(depth + 1));
      array.push_back(std::move(item));
    } while (Accept(","));
    LITHIFY_TRY(Expect(close));
    return array;
  }

  // "k, v, k, v)", or "k: v, k: v}".
  Result<Map> ParseMap(bool round, size_t depth) {
    LITHIFY_TRY(CheckDepth(depth));
    const std::string_view close = round ? ")" : "}";
    Map map;
    if (Accept(close)) return map;
    do {
      LITHIFY_TRY_ASSIGN(Literal key, ParseLiteral(depth + 1));
      if (!Accept(round ? "," : ":")) {
        return Unexpected(round ? "\",\" and the key's value" : "\":\" and the key's value");
      }
      LITHIFY_TRY_ASSIGN(Literal value, ParseLiteral(depth + 1));
      map.push_back({.key = std::move(key), .value = std::move(value)});
    } while (Accept(","));
    LITHIFY_TRY(Expect(close));
    return map;
  }

  // --- ALTER TABLE ---

  Result<Statement> ParseAlter() {
    LITHIFY_TRY(ExpectWord("TABLE"));
    LITHIFY_TRY_ASSIGN(TableName table, ParseTable());
    const bool set = AcceptWord("SET");
    if (!set && !AcceptWord("UNSET")) {
      return Unexpected("SET or UNSET", "only properties can be changed here: SET TBLPROPERTIES");
    }
    LITHIFY_TRY(ExpectWord("TBLPROPERTIES"));
    if (set) return ParseSet(std::move(table));
    UnsetProperties unset{.table = std::move(table), .keys = {}};
    if (AcceptWord("IF")) {
      LITHIFY_TRY(ExpectWord("EXISTS"));
      unset.if_exists = true;
    }
    LITHIFY_TRY(Expect("("));
    do {
      const Position at = Peek().position;
      LITHIFY_TRY_ASSIGN(std::string key, ParseKey());
      if (std::ranges::find(unset.keys, key) != unset.keys.end()) return Twice(at, key);
      unset.keys.push_back(std::move(key));
    } while (Accept(","));
    LITHIFY_TRY(Expect(")"));
    return unset;
  }

  Result<Statement> ParseSet(TableName table) {
    SetProperties set{.table = std::move(table), .properties = {}};
    LITHIFY_TRY(Expect("("));
    do {
      Property property;
      property.position = Peek().position;
      LITHIFY_TRY_ASSIGN(property.key, ParseKey());
      LITHIFY_TRY(Expect("="));
      LITHIFY_TRY_ASSIGN(property.value, ParsePropertyValue());
      if (std::ranges::find(set.properties, property.key, &Property::key) != set.properties.end()) {
        return Twice(property.position, property.key);
      }
      set.properties.push_back(std::move(property));
    } while (Accept(","));
    LITHIFY_TRY(Expect(")"));
    return set;
  }

  static std::unexpected<Error> Twice(const Position& at, std::string_view key) {
    return FailAt(at, "the property " + Shown(key) + " is given twice", "name it once");
  }

  // 'write.parquet.compression-codec', or its dotted words.
  Result<std::string> ParseKey() {
    const Position at = Peek().position;
    std::string key;
    if (Peek().kind == TokenKind::kText) {
      key = Take().text;
    } else {
      LITHIFY_TRY_ASSIGN(const auto parts, ParseName("the key of a property"));
      for (const std::string& part : parts) key += (key.empty() ? "" : ".") + part;
    }
    if (key.empty()) return FailAt(at, "an empty key", "write 'key' = 'value'");
    return key;
  }

  Result<std::string> ParsePropertyValue() {
    if (Peek().kind == TokenKind::kText) return Take().text;
    if (AcceptWord("TRUE")) return std::string("true");
    if (AcceptWord("FALSE")) return std::string("false");
    const std::string sign = Accept("-") ? "-" : "";
    if (Peek().kind == TokenKind::kNumber) return sign + Take().text;
    return Unexpected("the property's value", "write 'key' = 'value'");
  }

  // --- SHOW, CANCEL ---

  Result<Statement> ParseShow() {
    static constexpr std::array<std::string_view, 7> kWords = {
        "TABLES", "NAMESPACES", "SCHEMAS", "DATABASES", "TBLPROPERTIES", "SNAPSHOTS", "JOBS"};
    const Position at = Peek().position;
    if (AcceptWord("TABLES")) {
      ShowTables show{.namespace_parts = {}, .like = {}, .position = at};
      LITHIFY_TRY(ParseInLike(show.namespace_parts, show.like));
      return show;
    }
    if (AcceptWord("NAMESPACES") || AcceptWord("SCHEMAS") || AcceptWord("DATABASES")) {
      ShowNamespaces show{.parent = {}, .like = {}, .position = at};
      LITHIFY_TRY(ParseInLike(show.parent, show.like));
      return show;
    }
    if (AcceptWord("TBLPROPERTIES")) {
      LITHIFY_TRY_ASSIGN(TableName table, ParseTable());
      ShowProperties show{.table = std::move(table), .key = {}};
      if (Accept("(")) {
        LITHIFY_TRY_ASSIGN(show.key, ParseKey());
        LITHIFY_TRY(Expect(")"));
      }
      return show;
    }
    if (AcceptWord("SNAPSHOTS")) {
      if (!AcceptWord("IN")) (void)AcceptWord("FROM");
      LITHIFY_TRY_ASSIGN(TableName table, ParseTable());
      return ShowSnapshots{.table = std::move(table)};
    }
    if (AcceptWord("JOBS")) return ShowJobs{};
    return UnexpectedWord("TABLES, NAMESPACES, TBLPROPERTIES, SNAPSHOTS or JOBS after SHOW",
                          kWords);
  }

  // "[IN | FROM name] [LIKE 'pattern']"
  Status ParseInLike(std::vector<std::string>& name, std::optional<std::string>& like) {
    if (AcceptWord("IN") || AcceptWord("FROM")) {
      LITHIFY_TRY_ASSIGN(name, ParseName("the name of a namespace"));
    }
    if (AcceptWord("LIKE")) {
      if (Peek().kind != TokenKind::kText) return Unexpected("a pattern in single quotes");
      like = Take().text;
    }
    return {};
  }

  Result<Statement> ParseCancel() {
    LITHIFY_TRY(ExpectWord("JOB"));
    if (Peek().kind != TokenKind::kText || Peek().text.empty()) {
      return Unexpected("the id of a job in single quotes", "SHOW JOBS lists them");
    }
    const Token& id = Take();
    return CancelJob{.id = id.text, .position = id.position};
  }

  std::vector<Token> tokens_;
  size_t next_ = 0;
};

}  // namespace

Result<Statement> Parse(std::string_view text) {
  LITHIFY_TRY(CheckText(text));
  bool explain = false;
  LITHIFY_TRY_ASSIGN(const bool query, BeginsQuery(text, explain));
  if (query) {
    LITHIFY_TRY_ASSIGN(const size_t end, QueryEnd(text));
    return Query{.text = std::string(text.substr(0, end)), .explain = explain};
  }
  LITHIFY_TRY_ASSIGN(std::vector<Token> tokens, Tokenize(text));
  return Parser(std::move(tokens)).ParseStatement();
}

Result<std::string> Explained(const Query& query) {
  Lexer lexer(query.text);
  LITHIFY_TRY_ASSIGN(Token word, lexer.Next());
  if (!word.Is("EXPLAIN")) {
    return FailAt(word.position, "EXPLAIN stands within brackets", "write it before them");
  }
  std::string text = query.text;
  for (size_t i = 0; i < word.raw.size(); ++i) text[word.position.offset + i] = ' ';
  const Position begin = word.position;
  LITHIFY_TRY_ASSIGN(word, lexer.Next());
  bool options = word.Is("ANALYZE");
  while (word.IsSymbol("(")) {
    LITHIFY_TRY_ASSIGN(word, lexer.Next());
  }
  options = options || !IsQueryWord(word);
  if (!options) return text;
  return Fail(Code::kUnsupported, "EXPLAIN takes no ANALYZE and no options here", begin.ToString(),
              "write EXPLAIN SELECT …: it runs nothing");
}

Result<TableName> ParseTableName(std::string_view text) {
  const auto bad = [&] {
    return Fail(Code::kInvalid, Shown(text) + " is no name of a table", {},
                "write 'namespace.table'; a part with a dot in it goes in double quotes");
  };
  LITHIFY_TRY(CheckText(text));
  TableName table;
  for (std::string_view rest = text;; rest.remove_prefix(1)) {
    const bool quoted = rest.starts_with('"') || rest.starts_with('`');
    std::string part;
    if (quoted) {
      const auto token = Lexer(rest).Next();
      if (!token) return bad();
      part = token->text;
      rest.remove_prefix(token->raw.size());
    } else {
      part = rest.substr(0, rest.find('.'));
      rest.remove_prefix(part.size());
      if (part.find_first_of("\"`' \t\r\n\v\f") != std::string::npos) return bad();
    }
    if (part.empty()) return bad();
    table.parts.push_back(std::move(part));
    if (rest.empty()) return table;
    if (rest.front() != '.') return bad();
  }
}

}  // namespace lithify::sql
