#include "sql/lexer.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace lithify::sql {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
// Bytes beyond ASCII are letters.
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsWordByte(char c) { return IsLetter(c) || IsDigit(c) || c == '$'; }

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// Length of the letters and digits at the start.
size_t WordLength(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, IsWordByte) - text.begin());
}

size_t DigitsLength(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, IsDigit) - text.begin());
}

// "1", "1.5", "1e-3", "1.5e3": the number without the letters that follow it.
size_t NumberLength(std::string_view text) {
  size_t length = DigitsLength(text);
  if (length + 1 < text.size() && text[length] == '.' && IsDigit(text[length + 1])) {
    length += 1 + DigitsLength(text.substr(length + 1));
  }
  if (length < text.size() && Lower(text[length]) == 'e') {
    size_t digits = length + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const size_t exponent = DigitsLength(text.substr(std::min(digits, text.size())));
    if (exponent > 0) length = digits + exponent;
  }
  return length;
}

// The size of the comment at the start of `text`, 0 if there is none; npos if it has no end.
size_t CommentLength(std::string_view text) {
  if (text.starts_with("--")) return std::min(text.find('\n'), text.size());
  if (!text.starts_with("/*")) return 0;
  size_t depth = 0;
  for (size_t at = 0; at + 1 < text.size();) {
    const std::string_view two = text.substr(at, 2);
    depth += two == "/*" ? 1 : 0;
    depth -= two == "*/" ? 1 : 0;
    at += two == "/*" || two == "*/" ? 2 : 1;
    if (depth == 0) return at;
  }
  return std::string_view::npos;
}

// The size of what begins with a quote and ends with the same one; npos if it has no end.
size_t QuotedLength(std::string_view text, bool backslashes) {
  const char quote = text.front();
  for (size_t at = 1; at < text.size(); ++at) {
    if (backslashes && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      if (at + 1 >= text.size() || text[at + 1] != quote) return at + 1;
      ++at;
    }
  }
  return std::string_view::npos;
}

// The size of "$tag$…$tag$" at the start of `text`; 0 if it does not begin so, npos without an end.
size_t DollarLength(std::string_view text) {
  size_t tag = 1;
  while (tag < text.size() && IsWordByte(text[tag]) && text[tag] != '$') ++tag;
  if (tag >= text.size() || text[tag] != '$' || (tag > 1 && IsDigit(text[1]))) return 0;
  const std::string_view mark = text.substr(0, tag + 1);
  const size_t end = text.find(mark, mark.size());
  return end == std::string_view::npos ? end : end + mark.size();
}

std::unexpected<Error> NotClosed(std::string_view text, size_t at) {
  const std::string what = text.substr(at).starts_with("/*") ? "the comment" : "what is quoted";
  return Fail(
      Code::kInvalid, what + " that begins here has no end", PositionAt(text, at).ToString(),
      text[at] == '\'' ? "close it with '; a quote within text is doubled: ''" : "close it");
}

// One step of a query's text: how many bytes belong together at `at`.
size_t QueryStep(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  const char c = rest.front();
  if (c == '\'' || c == '"') return QuotedLength(rest, false);
  if (const size_t comment = CommentLength(rest); comment > 0) return comment;
  if (c == '$') return std::max<size_t>(1, DollarLength(rest));
  if (IsDigit(c)) return NumberLength(rest);
  if (!IsLetter(c)) return 1;
  const size_t word = WordLength(rest);
  // In E'…' a backslash takes the meaning of a quote away.
  if (word == 1 && Lower(c) == 'e' && rest.size() > 1 && rest[1] == '\'') {
    const size_t length = QuotedLength(rest.substr(1), true);
    return length == std::string_view::npos ? length : 1 + length;
  }
  return word;
}

// Words that the grammar takes for its own where a name may stand.
constexpr std::array<std::string_view, 10> kOwnWords = {
    "FROM", "IF", "IN", "LIKE", "SELECT", "SET", "TABLE", "UNSET", "VALUES", "WITH"};

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), Lower);
  return out;
}

std::string UpperCase(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), Upper);
  return out;
}

bool IsPlainName(std::string_view text) {
  return !text.empty() && IsLetter(text.front()) && WordLength(text) == text.size();
}

std::string QuoteName(std::string_view name) {
  if (IsPlainName(name) && std::ranges::find(kOwnWords, UpperCase(name)) == kOwnWords.end()) {
    return std::string(name);
  }
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string QuoteText(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + '\'';
}

std::string Shown(std::string_view text) {
  constexpr size_t kShownMax = 40;
  size_t bytes = 0;
  for (size_t shown = 0; bytes < text.size() && shown < kShownMax; ++shown) {
    bytes += std::max<size_t>(1, Utf8Length(text.substr(bytes)));
  }
  std::string out = "\"";
  for (const char c : text.substr(0, bytes)) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == '\x7f';
    out += control ? ' ' : c;
  }
  return out + (bytes < text.size() ? "…\"" : "\"");
}

bool Token::Is(std::string_view word) const {
  return kind == TokenKind::kWord && text.size() == word.size() && UpperCase(text) == word;
}

std::string Token::Shown() const {
  return kind == TokenKind::kEnd ? "the end of the statement" : sql::Shown(raw);
}

void Lexer::Skip(size_t bytes) {
  for (const char c : text_.substr(position_.offset, bytes)) {
    ++position_.offset;
    if (c == '\n') {
      ++position_.line;
      position_.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      ++position_.column;
    }
  }
}

Status Lexer::SkipSpace() {
  for (;;) {
    if (IsSpace(At(0))) {
      Skip(1);
      continue;
    }
    const size_t comment = CommentLength(text_.substr(position_.offset));
    if (comment == 0) return {};
    if (comment == std::string_view::npos) return NotClosed(text_, position_.offset);
    Skip(comment);
  }
}

Token Lexer::Make(TokenKind kind, size_t bytes) {
  Token token{.kind = kind,
              .text = std::string(text_.substr(position_.offset, bytes)),
              .raw = text_.substr(position_.offset, bytes),
              .position = position_};
  Skip(bytes);
  return token;
}

Result<Token> Lexer::Quoted(TokenKind kind) {
  const size_t length = QuotedLength(text_.substr(position_.offset), false);
  if (length == std::string_view::npos) return NotClosed(text_, position_.offset);
  Token token = Make(kind, length);
  const char quote = token.raw.front();
  const std::string_view inside = token.raw.substr(1, length - 2);
  token.text.clear();
  for (size_t i = 0; i < inside.size(); ++i) {
    token.text += inside[i];
    if (inside[i] == quote) ++i;  // The second of two.
  }
  return token;
}

Result<Token> Lexer::Number() {
  const std::string_view rest = text_.substr(position_.offset);
  const size_t digits = NumberLength(rest);
  const size_t letters = WordLength(rest.substr(digits));
  const std::string suffix = UpperCase(rest.substr(digits, letters));
  if (!suffix.empty() && suffix != "L" && suffix != "D" && suffix != "F") {
    return Fail(Code::kInvalid, sql::Shown(rest.substr(0, digits + letters)) + " is no number",
                position_.ToString(),
                "text is written in single quotes, a name that begins with a digit in double ones");
  }
  return Make(TokenKind::kNumber, digits + letters);
}

Result<Token> Lexer::Next() {
  LITHIFY_TRY(SkipSpace());
  if (position_.offset >= text_.size()) return Make(TokenKind::kEnd, 0);
  const char c = At(0);
  if (c == '\'') return Quoted(TokenKind::kText);
  if (c == '"' || c == '`') return Quoted(TokenKind::kQuoted);
  if (IsDigit(c)) return Number();
  if (IsLetter(c)) {
    return Make(TokenKind::kWord, WordLength(text_.substr(position_.offset)));
  }
  const std::string_view two = text_.substr(position_.offset, 2);
  return Make(TokenKind::kSymbol, two == "=>" || two == ":=" || two == "==" ? 2 : 1);
}

Position PositionAt(std::string_view text, size_t offset) {
  Position position;
  for (const char c : text.substr(0, offset)) {
    ++position.offset;
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      ++position.column;
    }
  }
  return position;
}

Result<size_t> QueryEnd(std::string_view text) {
  size_t depth = 0;
  size_t end = text.size();
  for (size_t at = 0; at < text.size();) {
    const size_t step = QueryStep(text, at);
    if (step == std::string_view::npos) return NotClosed(text, at);
    const char c = text[at];
    const bool open = c == '(' || c == '[' || c == '{';
    const bool closed = c == ')' || c == ']' || c == '}';
    if (open && ++depth > kQueryDepthMax) {
      return Fail(Code::kLimit,
                  "more than " + FormatCount(kQueryDepthMax) + " brackets within each other",
                  PositionAt(text, at).ToString(), "write the query with fewer of them");
    }
    if (closed && depth > 0) --depth;
    const bool nothing = IsSpace(c) || c == ';' || CommentLength(text.substr(at)) > 0;
    if (end < text.size() && !nothing) {
      return Fail(Code::kInvalid, "a second statement begins here", PositionAt(text, at).ToString(),
                  "send one statement at a time");
    }
    if (c == ';' && end == text.size()) end = at;
    at += step;
  }
  return end;
}

}  // namespace lithify::sql
