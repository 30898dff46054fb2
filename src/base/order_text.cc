#include "base/order_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "base/text.h"

namespace lithify {
namespace {

// As they are written, and as Iceberg writes them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kTransforms = {{
    {"bucket", "bucket"},
    {"truncate", "truncate"},
    {"identity", "identity"},
    {"year", "year"},
    {"years", "year"},
    {"month", "month"},
    {"months", "month"},
    {"day", "day"},
    {"days", "day"},
    {"date", "day"},
    {"hour", "hour"},
    {"hours", "hour"},
    {"date_hour", "hour"},
}};
constexpr std::array<std::pair<std::string_view, Curve>, 2> kCurves = {
    {{"zorder", Curve::kZOrder}, {"hilbert", Curve::kHilbert}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
// Bytes beyond ASCII are letters.
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string_view TransformOf(std::string_view word) {
  const std::string lower = Lower(word);
  const auto found = std::ranges::find(kTransforms, std::string_view(lower),
                                       &std::pair<std::string_view, std::string_view>::first);
  return found == kTransforms.end() ? std::string_view() : found->second;
}

Curve CurveOf(std::string_view word) {
  const std::string lower = Lower(word);
  const auto found = std::ranges::find(kCurves, std::string_view(lower),
                                       &std::pair<std::string_view, Curve>::first);
  return found == kCurves.end() ? Curve::kNone : found->second;
}

bool TakesNumber(std::string_view transform) {
  return transform == "bucket" || transform == "truncate";
}

struct Token {
  enum class Kind { kWord, kQuoted, kNumber, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // Without quotes.
  size_t at = 0;     // Byte.

  bool Is(std::string_view word) const { return kind == Kind::kWord && Lower(text) == word; }
  bool IsSymbol(char c) const { return kind == Kind::kSymbol && text.front() == c; }
  bool IsName() const { return kind == Kind::kWord || kind == Kind::kQuoted; }
  std::string Shown() const {
    return kind == Kind::kEnd ? std::string("the end") : JsonQuote(text);
  }
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<RowOrder> Run() {
    LITHIFY_TRY(Advance());
    if (token_.kind == Token::Kind::kEnd) {
      return Wrong(0, "no column", "name at least one: 'ts', 'region, ts DESC' or 'zorder(a, b)'");
    }
    RowOrder order;
    bool curve = false;
    for (size_t fields = 0;; ++fields) {
      if (fields == kOrderFieldsMax) {
        return Wrong(token_.at, "more than " + std::to_string(kOrderFieldsMax) + " columns",
                     "leave the last ones out: they hardly order anything");
      }
      LITHIFY_TRY(ReadField(order));
      curve = order.curve != Curve::kNone;
      if (token_.kind == Token::Kind::kEnd) break;
      if (!token_.IsSymbol(',')) return Unexpected(curve);
      LITHIFY_TRY(Advance());
      if (curve) {
        return Wrong(token_.at, "a curve stands alone",
                     "put the column into the curve, or leave it out");
      }
    }
    return order;
  }

 private:
  std::unexpected<Error> Wrong(size_t at, std::string message, std::string hint) const {
    size_t character = 1;
    for (const char c : text_.substr(0, at)) {
      character += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }
    return Fail(
        Code::kInvalid,
        std::move(message) + " at character " + std::to_string(character) + " of the sort order",
        {}, std::move(hint));
  }

  std::unexpected<Error> Unexpected(bool after_curve) const {
    if (after_curve) {
      return Wrong(token_.at, "unexpected " + token_.Shown() + " after a curve",
                   "a curve has no direction, and nulls are first");
    }
    if (token_.kind == Token::Kind::kWord) {
      return Wrong(token_.at, "unexpected " + token_.Shown(),
                   "a direction is ASC or DESC, then NULLS FIRST or NULLS LAST; columns are "
                   "separated by commas");
    }
    return Wrong(token_.at, "unexpected " + token_.Shown(),
                 "columns are separated by commas; quote a name with other characters: \"a-b\"");
  }

  Status Advance() {
    size_t at = next_;
    while (at < text_.size() && IsSpace(text_[at])) ++at;
    token_ = {.kind = Token::Kind::kEnd, .text = {}, .at = at};
    next_ = at;
    if (at == text_.size()) return {};
    const char c = text_[at];
    if (c == '"' || c == '`') return ReadQuoted(c);
    size_t end = at + 1;
    if (IsDigit(c)) {
      while (end < text_.size() && (IsDigit(text_[end]) || IsLetter(text_[end]))) ++end;
      token_.kind = Token::Kind::kNumber;
    } else if (IsLetter(c)) {
      while (end < text_.size() &&
             (IsLetter(text_[end]) || IsDigit(text_[end]) || text_[end] == '$')) {
        ++end;
      }
      token_.kind = Token::Kind::kWord;
    } else {
      token_.kind = Token::Kind::kSymbol;
    }
    token_.text = text_.substr(at, end - at);
    next_ = end;
    return {};
  }

  Status ReadQuoted(char quote) {
    token_.kind = Token::Kind::kQuoted;
    for (size_t at = token_.at + 1; at < text_.size(); ++at) {
      if (text_[at] != quote) {
        token_.text += text_[at];
      } else if (at + 1 < text_.size() && text_[at + 1] == quote) {
        token_.text += text_[at++];
      } else {
        next_ = at + 1;
        if (!token_.text.empty()) return {};
        return Wrong(token_.at, "an empty name", "write the column's name between the quotes");
      }
    }
    return Wrong(token_.at, "the quote that begins here has no end", "close it");
  }

  // Consumes the word if it is the next token.
  Result<bool> Take(std::string_view word) {
    if (!token_.Is(word)) return false;
    LITHIFY_TRY(Advance());
    return true;
  }

  Status Expect(char symbol, std::string hint) {
    if (token_.IsSymbol(symbol)) return Advance();
    return Wrong(token_.at, std::string("'") + symbol + "' is missing before " + token_.Shown(),
                 std::move(hint));
  }

  Status ReadField(RowOrder& order) {
    const Token first = token_;
    if (!first.IsName()) {
      return Wrong(first.at, "a column is missing before " + first.Shown(),
                   "write a column or a transform of one: 'ts', 'bucket(16, id)'");
    }
    LITHIFY_TRY(Advance());
    OrderField field;
    if (token_.IsSymbol('(') && first.kind == Token::Kind::kWord) {
      if (const Curve curve = CurveOf(first.text); curve != Curve::kNone) {
        if (!order.fields.empty()) {
          return Wrong(first.at, "a curve stands alone",
                       "write either columns or one zorder(…) or hilbert(…)");
        }
        order.curve = curve;
        return ReadCurve(first, order);
      }
      LITHIFY_TRY(ReadTransform(first, field));
    } else {
      LITHIFY_TRY_ASSIGN(field.column, RestOfColumn(first));
    }
    LITHIFY_TRY(ReadDirection(field));
    return Append(first, std::move(field), order);
  }

  static bool SameTerm(const OrderField& a, const OrderField& b) {
    return a.column == b.column && a.transform == b.transform;
  }

  Status Append(const Token& at, OrderField field, RowOrder& order) const {
    if (std::ranges::any_of(order.fields,
                            [&](const OrderField& other) { return SameTerm(other, field); })) {
      return Wrong(at.at, JsonQuote(field.column) + " is given twice", "leave the second one out");
    }
    order.fields.push_back(std::move(field));
    return {};
  }

  // `first` is taken already.
  Result<std::string> RestOfColumn(const Token& first) {
    std::string column = first.text;
    while (token_.IsSymbol('.')) {
      LITHIFY_TRY(Advance());
      if (!token_.IsName()) {
        return Wrong(token_.at, "a name is missing after \".\"",
                     "nested columns are written a.b; quote a name with other characters");
      }
      column += "." + token_.text;
      LITHIFY_TRY(Advance());
    }
    return column;
  }

  Result<std::string> ReadColumn(std::string_view hint) {
    if (!token_.IsName()) {
      return Wrong(token_.at, "a column is missing before " + token_.Shown(), std::string(hint));
    }
    const Token first = token_;
    LITHIFY_TRY(Advance());
    return RestOfColumn(first);
  }

  Status ReadCurve(const Token& name, RowOrder& order) {
    const std::string hint = "write " + Lower(name.text) + "(a, b) with 1 to " +
                             std::to_string(kCurveColumnsMax) + " columns";
    LITHIFY_TRY(Advance());
    do {
      if (!order.fields.empty()) LITHIFY_TRY(Advance());
      const Token at = token_;
      OrderField field;
      LITHIFY_TRY_ASSIGN(field.column, ReadColumn(hint));
      if (token_.IsSymbol('(')) {
        return Wrong(at.at, "a curve takes columns, and no transforms of them", hint);
      }
      if (order.fields.size() == kCurveColumnsMax) {
        return Wrong(at.at, "more than " + std::to_string(kCurveColumnsMax) + " columns in a curve",
                     "each one weakens the others: name those that queries filter by");
      }
      LITHIFY_TRY(Append(at, std::move(field), order));
    } while (token_.IsSymbol(','));
    return Expect(')', hint);
  }

  Status ReadTransform(const Token& name, OrderField& field) {
    const std::string_view transform = TransformOf(name.text);
    if (transform.empty()) return UnknownTransform(name);
    const std::string hint = TakesNumber(transform)
                                 ? "write " + std::string(transform) + "(16, column)"
                                 : "write " + std::string(transform) + "(column)";
    LITHIFY_TRY(Advance());
    int number = 0;
    const bool number_first = token_.kind == Token::Kind::kNumber;
    if (number_first) {
      LITHIFY_TRY_ASSIGN(number, ReadNumber(transform, hint));
      LITHIFY_TRY(Expect(',', hint));
    }
    LITHIFY_TRY_ASSIGN(field.column, ReadColumn(hint));
    if (TakesNumber(transform) && !number_first) {
      LITHIFY_TRY(Expect(',', hint));
      LITHIFY_TRY_ASSIGN(number, ReadNumber(transform, hint));
    }
    field.transform = transform;
    if (TakesNumber(transform)) field.transform += "[" + std::to_string(number) + "]";
    return Expect(')', hint);
  }

  std::unexpected<Error> UnknownTransform(const Token& name) const {
    std::vector<std::string_view> names;
    for (const auto& [known, transform] : kTransforms) names.push_back(known);
    for (const auto& [known, curve] : kCurves) names.push_back(known);
    const std::string_view nearest = Nearest(Lower(name.text), names);
    return Wrong(name.at, "unknown transform " + name.Shown(),
                 (nearest.empty() ? "" : "did you mean " + std::string(nearest) + "? ") +
                     std::string("There are bucket, truncate, year, month, day, hour, and the "
                                 "curves zorder and hilbert; a column of that name is quoted"));
  }

  Result<int> ReadNumber(std::string_view transform, const std::string& hint) {
    const Token at = token_;
    int number = 0;
    const char* end = at.text.data() + at.text.size();
    const auto [stop, error] = std::from_chars(at.text.data(), end, number);
    if (!TakesNumber(transform)) {
      return Wrong(at.at, std::string(transform) + " takes no number", hint);
    }
    if (at.kind != Token::Kind::kNumber || error != std::errc() || stop != end || number < 1) {
      return Wrong(
          at.at, std::string(transform) + " needs a whole number of at least 1, not " + at.Shown(),
          hint);
    }
    LITHIFY_TRY(Advance());
    return number;
  }

  Status ReadDirection(OrderField& field) {
    LITHIFY_TRY_ASSIGN(const bool ascending, Take("asc"));
    if (!ascending) {
      LITHIFY_TRY_ASSIGN(const bool descending, Take("desc"));
      field.ascending = !descending;
    }
    field.nulls_first = field.ascending;
    LITHIFY_TRY_ASSIGN(const bool nulls, Take("nulls"));
    if (!nulls) return {};
    LITHIFY_TRY_ASSIGN(const bool first, Take("first"));
    if (!first) {
      LITHIFY_TRY_ASSIGN(const bool last, Take("last"));
      if (!last) {
        return Wrong(token_.at, "unexpected " + token_.Shown() + " after NULLS",
                     "write NULLS FIRST or NULLS LAST");
      }
    }
    field.nulls_first = first;
    return {};
  }

  std::string_view text_;
  size_t next_ = 0;
  Token token_;
};

bool IsKeyword(std::string_view word) {
  const std::string lower = Lower(word);
  return lower == "asc" || lower == "desc" || lower == "nulls" || lower == "first" ||
         lower == "last";
}

std::string Quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// A dot is not quoted, since of a nested column it is the path, unless it cannot be.
std::string ColumnText(std::string_view column) {
  std::string out;
  for (size_t begin = 0; begin <= column.size();) {
    const size_t dot = std::min(column.find('.', begin), column.size());
    const std::string_view name = column.substr(begin, dot - begin);
    if (name.empty()) return Quoted(column);
    const bool plain = IsLetter(name.front()) && !IsKeyword(name) &&
                       std::ranges::all_of(name, [](char c) { return IsLetter(c) || IsDigit(c); });
    if (begin > 0) out += '.';
    out += plain ? std::string(name) : Quoted(name);
    begin = dot + 1;
  }
  return out;
}

std::string TermText(const OrderField& field) {
  std::string column = ColumnText(field.column);
  if (field.transform == "identity") return column;
  const size_t bracket = field.transform.find('[');
  if (bracket == std::string::npos) return field.transform + "(" + column + ")";
  const std::string number =
      field.transform.substr(bracket + 1, field.transform.size() - bracket - 2);
  return field.transform.substr(0, bracket) + "(" + number + ", " + column + ")";
}

}  // namespace

Result<RowOrder> ParseRowOrder(std::string_view text) { return Parser(text).Run(); }

std::string RowOrderText(const RowOrder& order) {
  std::string out;
  for (const OrderField& field : order.fields) {
    out += (out.empty() ? "" : ", ") + TermText(field);
    if (order.curve != Curve::kNone) continue;
    if (!field.ascending) out += " DESC";
    if (field.nulls_first != field.ascending) {
      out += field.nulls_first ? " NULLS FIRST" : " NULLS LAST";
    }
  }
  for (const auto& [name, curve] : kCurves) {
    if (curve == order.curve) return std::string(name) + "(" + out + ")";
  }
  return out;
}

}  // namespace lithify
