#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "table/iceberg_filter_tree.h"
#include "table/iceberg_value.h"

namespace lithify::table {
namespace {

using iceberg::Field;
using iceberg::TypeKind;
using iceberg::Value;
using Node = std::unique_ptr<FilterNode>;
using Test = FilterNode::Test;

constexpr size_t kTextMax = size_t{1} << 20;
constexpr int kDepthMax = 100;

enum class TokenKind { kWord, kQuotedName, kText, kNumber, kSymbol, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // Quotes resolved; words as written.
  std::string word;  // Words in upper case.
  size_t at = 0;
};

std::unexpected<Error> BadAt(size_t at, std::string message) {
  return Fail(Code::kInvalid, std::move(message) + " (at character " + std::to_string(at + 1) + ")",
              "where");
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// In ASCII only, whatever the locale.
std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<Token> Next() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
    Token token;
    token.at = at_;
    if (at_ == text_.size()) return token;
    const char c = text_[at_];
    if (c == '\'' || c == '"' || c == '`') {
      token.kind = c == '\'' ? TokenKind::kText : TokenKind::kQuotedName;
      LITHIFY_TRY_ASSIGN(token.text, Quoted(c));
    } else if (IsWordStart(c)) {
      token.kind = TokenKind::kWord;
      token.text = While([](char d) { return IsWordStart(d) || IsDigit(d); });
      token.word = Upper(token.text);
    } else if (IsDigit(c) || (c == '.' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]))) {
      token.kind = TokenKind::kNumber;
      token.text = Number();
    } else {
      token.kind = TokenKind::kSymbol;
      token.text = Symbol();
      if (token.text.empty()) return BadAt(at_, "unexpected character " + JsonQuote({&c, 1}));
    }
    return token;
  }

 private:
  template <typename Predicate>
  std::string While(Predicate predicate) {
    const size_t begin = at_;
    while (at_ < text_.size() && predicate(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Result<std::string> Quoted(char quote) {
    const size_t begin = at_++;
    std::string text;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != quote) {
          ++at_;
          return text;
        }
        ++at_;  // A doubled quote is one.
      }
      text += text_[at_];
    }
    return BadAt(begin, std::string("a ") + quote + " without its partner");
  }

  std::string Number() {
    std::string number = While([](char c) { return IsDigit(c) || c == '.'; });
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      number += text_[at_++];
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) number += text_[at_++];
      number += While(IsDigit);
    }
    return number;
  }

  std::string Symbol() {
    for (const std::string_view symbol :
         {"<=", ">=", "<>", "!=", "==", "<", ">", "=", "(", ")", ",", ".", "-", "+"}) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      at_ += symbol.size();
      return std::string(symbol);
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

Test Opposite(Test test) {
  switch (test) {
    case Test::kLess: return Test::kGreaterOrEqual;
    case Test::kLessOrEqual: return Test::kGreater;
    case Test::kGreater: return Test::kLessOrEqual;
    case Test::kGreaterOrEqual: return Test::kLess;
    case Test::kIn: return Test::kNotIn;
    case Test::kNotIn: return Test::kIn;
    case Test::kStartsWith: return Test::kNotStartsWith;
    case Test::kNotStartsWith: return Test::kStartsWith;
    case Test::kIsNull: return Test::kNotNull;
    case Test::kNotNull: return Test::kIsNull;
  }
  return test;
}

// What `literal < column` means with the column first.
Test Mirrored(Test test) {
  switch (test) {
    case Test::kLess: return Test::kGreater;
    case Test::kLessOrEqual: return Test::kGreaterOrEqual;
    case Test::kGreater: return Test::kLess;
    case Test::kGreaterOrEqual: return Test::kLessOrEqual;
    default: return test;
  }
}

std::optional<Test> Comparison(std::string_view symbol) {
  if (symbol == "=" || symbol == "==") return Test::kIn;
  if (symbol == "<>" || symbol == "!=") return Test::kNotIn;
  if (symbol == "<") return Test::kLess;
  if (symbol == "<=") return Test::kLessOrEqual;
  if (symbol == ">") return Test::kGreater;
  if (symbol == ">=") return Test::kGreaterOrEqual;
  return std::nullopt;
}

bool IsNumber(TypeKind kind) {
  return kind == TypeKind::kInt || kind == TypeKind::kLong || kind == TypeKind::kFloat ||
         kind == TypeKind::kDouble || kind == TypeKind::kDecimal;
}

// Types whose values can be written, and have an order or at least equality.
bool HasValues(TypeKind kind) {
  return kind < TypeKind::kUnknown;  // Not geometry, geography, variant or nested ones.
}

// A field of the row itself, or of structs in it: below a list or map a test would be about many.
bool InStructs(const std::vector<Field>& fields, const Field* wanted) {
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
    return &field == wanted ||
           (field.type.kind == TypeKind::kStruct && InStructs(field.type.fields, wanted));
  });
}

struct Literal {
  TokenKind kind = TokenKind::kEnd;  // kWord: TRUE or FALSE.
  std::string text;
  std::string prefix;  // DATE, X, … before a text.
  size_t at = 0;
};

// Recursive descent; `negate` is the parity of the NOTs around.
class Parser {
 public:
  Parser(std::string_view text, const iceberg::Schema& schema) : lexer_(text), schema_(schema) {}

  Result<Node> Parse() {
    LITHIFY_TRY(Advance());
    if (token_.kind == TokenKind::kEnd) return std::make_unique<FilterNode>();
    LITHIFY_TRY_ASSIGN(Node root, Disjunction(false));
    if (token_.kind != TokenKind::kEnd) return Unexpected("the end, AND or OR");
    return root;
  }

 private:
  Status Advance() {
    LITHIFY_TRY_ASSIGN(token_, lexer_.Next());
    return {};
  }

  std::unexpected<Error> Unexpected(std::string_view expected) const {
    const std::string found = token_.kind == TokenKind::kEnd
                                  ? "the text ends"
                                  : JsonQuote(std::string_view(token_.text).substr(0, 40));
    return BadAt(token_.at, found + " where " + std::string(expected) + " should be");
  }

  bool AtWord(std::string_view word) const {
    return token_.kind == TokenKind::kWord && token_.word == word;
  }
  bool AtSymbol(std::string_view symbol) const {
    return token_.kind == TokenKind::kSymbol && token_.text == symbol;
  }
  Result<bool> TakeWord(std::string_view word) {
    if (!AtWord(word)) return false;
    LITHIFY_TRY(Advance());
    return true;
  }
  Status NeedWord(std::string_view word) {
    if (!AtWord(word)) return Unexpected(word);
    return Advance();
  }
  Status NeedSymbol(std::string_view symbol) {
    if (!AtSymbol(symbol)) return Unexpected(JsonQuote(symbol));
    return Advance();
  }

  Result<Node> Disjunction(bool negate) {
    return Chain("OR", negate ? FilterNode::Kind::kAnd : FilterNode::Kind::kOr,
                 [&] { return Conjunction(negate); });
  }
  Result<Node> Conjunction(bool negate) {
    return Chain("AND", negate ? FilterNode::Kind::kOr : FilterNode::Kind::kAnd,
                 [&] { return Factor(negate); });
  }

  template <typename Operand>
  Result<Node> Chain(std::string_view word, FilterNode::Kind kind, Operand operand) {
    LITHIFY_TRY_ASSIGN(Node first, operand());
    if (!AtWord(word)) return first;
    auto chain = std::make_unique<FilterNode>();
    chain->kind = kind;
    chain->children.push_back(std::move(first));
    while (AtWord(word)) {
      LITHIFY_TRY(Advance());
      LITHIFY_TRY_ASSIGN(Node next, operand());
      chain->children.push_back(std::move(next));
    }
    return chain;
  }

  Result<Node> Factor(bool negate) {
    while (AtWord("NOT")) {
      negate = !negate;
      LITHIFY_TRY(Advance());
    }
    if (!AtSymbol("(")) return Predicate(negate);
    if (++depth_ > kDepthMax) return BadAt(token_.at, "more than 100 parentheses are open");
    LITHIFY_TRY(Advance());
    LITHIFY_TRY_ASSIGN(Node inner, Disjunction(negate));
    LITHIFY_TRY(NeedSymbol(")"));
    --depth_;
    return inner;
  }

  Result<Node> Predicate(bool negate) {
    if (AtLiteral()) {
      LITHIFY_TRY_ASSIGN(const Literal literal, TakeLiteral());
      const auto test = ComparisonHere();
      if (!test) return Unexpected("a comparison");
      LITHIFY_TRY(Advance());
      LITHIFY_TRY_ASSIGN(const Field* column, Column());
      return Leaf(*column, Mirrored(*test), {literal}, negate);
    }
    LITHIFY_TRY_ASSIGN(const Field* column, Column());
    if (const auto test = ComparisonHere()) {
      LITHIFY_TRY(Advance());
      LITHIFY_TRY_ASSIGN(const Literal literal, TakeLiteral());
      return Leaf(*column, *test, {literal}, negate);
    }
    LITHIFY_TRY_ASSIGN(const bool is, TakeWord("IS"));
    if (is) {
      LITHIFY_TRY_ASSIGN(const bool is_not, TakeWord("NOT"));
      LITHIFY_TRY(NeedWord("NULL"));
      return Leaf(*column, Test::kIsNull, {}, negate != is_not);
    }
    LITHIFY_TRY_ASSIGN(const bool opposite, TakeWord("NOT"));
    negate = negate != opposite;
    if (AtWord("IN")) return InList(*column, negate);
    if (AtWord("BETWEEN")) return Between(*column, negate);
    if (AtWord("LIKE")) return Like(*column, negate);
    return Unexpected(opposite ? "IN, BETWEEN or LIKE" : "a comparison");
  }

  std::optional<Test> ComparisonHere() const {
    return token_.kind == TokenKind::kSymbol ? Comparison(token_.text) : std::nullopt;
  }

  Result<Node> InList(const Field& column, bool negate) {
    LITHIFY_TRY(Advance());
    LITHIFY_TRY(NeedSymbol("("));
    std::vector<Literal> literals;
    while (true) {
      LITHIFY_TRY_ASSIGN(Literal literal, TakeLiteral());
      literals.push_back(std::move(literal));
      if (!AtSymbol(",")) break;
      LITHIFY_TRY(Advance());
    }
    LITHIFY_TRY(NeedSymbol(")"));
    return Leaf(column, Test::kIn, literals, negate);
  }

  Result<Node> Between(const Field& column, bool negate) {
    LITHIFY_TRY(Advance());
    LITHIFY_TRY_ASSIGN(const Literal low, TakeLiteral());
    LITHIFY_TRY(NeedWord("AND"));
    LITHIFY_TRY_ASSIGN(const Literal high, TakeLiteral());
    auto both = std::make_unique<FilterNode>();
    both->kind = negate ? FilterNode::Kind::kOr : FilterNode::Kind::kAnd;
    LITHIFY_TRY_ASSIGN(Node above, Leaf(column, Test::kGreaterOrEqual, {low}, negate));
    LITHIFY_TRY_ASSIGN(Node below, Leaf(column, Test::kLessOrEqual, {high}, negate));
    both->children.push_back(std::move(above));
    both->children.push_back(std::move(below));
    return both;
  }

  // 'text' is equality, 'text%' a prefix. Of any other pattern only what comes before its first
  // wildcard can be looked at, and nothing can be said of its opposite.
  Result<Node> Like(const Field& column, bool negate) {
    LITHIFY_TRY(Advance());
    if (column.type.kind != TypeKind::kString || token_.kind != TokenKind::kText) {
      return BadAt(token_.at, "LIKE takes a string column and a text");
    }
    Literal literal{TokenKind::kText, token_.text, "", token_.at};
    LITHIFY_TRY(Advance());
    const size_t wildcard = literal.text.find_first_of("%_\\");
    if (wildcard == std::string::npos) return Leaf(column, Test::kIn, {literal}, negate);
    const bool prefix = wildcard + 1 == literal.text.size() && literal.text.back() == '%';
    literal.text.resize(wildcard);
    if (negate && !prefix) return Leaf(column, Test::kNotNull, {}, false);
    return Leaf(column, Test::kStartsWith, {literal}, negate);
  }

  Result<const Field*> Column() {
    const size_t at = token_.at;
    std::string name;
    while (true) {
      if (token_.kind != TokenKind::kWord && token_.kind != TokenKind::kQuotedName) {
        return Unexpected("a column");
      }
      name += token_.text;
      LITHIFY_TRY(Advance());
      if (!AtSymbol(".")) break;
      name += '.';
      LITHIFY_TRY(Advance());
    }
    const Field* field = iceberg::FindField(schema_, name);
    const std::string quoted = JsonQuote(name.substr(0, 120));
    if (field == nullptr) return BadAt(at, "no column " + quoted);
    if (!InStructs(schema_.fields, field)) {
      return BadAt(at, "column " + quoted + " is inside a list or map");
    }
    return field;
  }

  bool AtLiteral() const {
    return token_.kind == TokenKind::kText || token_.kind == TokenKind::kNumber || AtSymbol("-") ||
           AtSymbol("+");
  }

  Result<Literal> TakeLiteral() {
    Literal literal;
    literal.at = token_.at;
    if (AtWord("NULL")) return BadAt(token_.at, "nothing equals NULL: use IS NULL");
    if (AtSymbol("-") || AtSymbol("+")) {
      if (AtSymbol("-")) literal.text = "-";
      LITHIFY_TRY(Advance());
      if (token_.kind != TokenKind::kNumber) return Unexpected("a number");
    }
    constexpr std::array<std::string_view, 4> kPrefixes = {"DATE", "TIME", "TIMESTAMP", "X"};
    if (token_.kind == TokenKind::kWord &&
        std::find(kPrefixes.begin(), kPrefixes.end(), token_.word) != kPrefixes.end()) {
      literal.prefix = token_.word;
      LITHIFY_TRY(Advance());
      if (token_.kind != TokenKind::kText) return Unexpected("a text in '…'");
    }
    if (token_.kind != TokenKind::kText && token_.kind != TokenKind::kNumber && !AtWord("TRUE") &&
        !AtWord("FALSE")) {
      return Unexpected("a literal");
    }
    literal.kind = token_.kind;
    literal.text += AtWord("TRUE") ? "true" : AtWord("FALSE") ? "false" : token_.text;
    LITHIFY_TRY(Advance());
    return literal;
  }

  Result<Node> Leaf(const Field& column, Test test, const std::vector<Literal>& literals,
                    bool negate) {
    auto node = std::make_unique<FilterNode>();
    node->kind = FilterNode::Kind::kTest;
    node->test = negate ? Opposite(test) : test;
    node->field_id = column.id;
    node->type = column.type;
    for (const Literal& literal : literals) {
      LITHIFY_TRY_ASSIGN(Value value, ValueOf(column, test, literal));
      node->values.push_back(std::move(value));
    }
    return node;
  }

  static Result<Value> ValueOf(const Field& column, Test test, const Literal& literal) {
    const TypeKind kind = column.type.kind;
    const std::string name = "column " + JsonQuote(column.name);
    if (!HasValues(kind)) return BadAt(literal.at, name + " can only be tested for NULL");
    if (kind == TypeKind::kUuid && test != Test::kIn && test != Test::kNotIn) {
      return BadAt(literal.at, name + " is a uuid: engines do not agree on their order");
    }
    const TokenKind wanted = kind == TypeKind::kBoolean ? TokenKind::kWord
                             : IsNumber(kind)           ? TokenKind::kNumber
                                                        : TokenKind::kText;
    const bool bytes = kind == TypeKind::kBinary || kind == TypeKind::kFixed;
    const bool day = kind == TypeKind::kDate;
    const bool time = kind == TypeKind::kTime;
    const bool timestamp = kind >= TypeKind::kTimestamp && kind <= TypeKind::kTimestamptzNs;
    const std::string& prefix = literal.prefix;
    if (literal.kind != wanted || (prefix == "X" && !bytes) || (prefix == "TIME" && !time) ||
        (prefix == "TIMESTAMP" && !timestamp) || (prefix == "DATE" && !day && !timestamp)) {
      return BadAt(literal.at, "the literal is no value of the type of " + name);
    }
    Result<Value> value = ParseValue(column.type, literal.text);
    if (!value) return BadAt(literal.at, name + ": " + value.error().message);
    return value;
  }

  Lexer lexer_;
  const iceberg::Schema& schema_;
  Token token_;
  int depth_ = 0;
};

}  // namespace

Result<std::unique_ptr<FilterNode>> ParseFilter(std::string_view text,
                                                const iceberg::Schema& schema) {
  if (text.size() > kTextMax) return Fail(Code::kInvalid, "longer than 1 MiB", "where");
  return Parser(text, schema).Parse();
}

}  // namespace lithify::table
