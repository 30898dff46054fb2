// Text of a statement to tokens. Private to this module.
#ifndef LITHIFY_SQL_LEXER_H_
#define LITHIFY_SQL_LEXER_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "sql/statement.h"

namespace lithify::sql {

enum class TokenKind {
  kWord,    // A keyword or a plain name.
  kQuoted,  // "…" or `…`: a name, whatever is in it.
  kText,    // '…'
  kNumber,  // 12, 1.5, 3e-4, with the letters that follow it.
  kSymbol,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;      // Without quotes; of words as they are written.
  std::string_view raw;  // As it is in the statement.
  Position position;

  // An unquoted word, in any case; `word` is in upper case.
  bool Is(std::string_view word) const;
  bool IsSymbol(std::string_view symbol) const {
    return kind == TokenKind::kSymbol && text == symbol;
  }
  bool IsName() const { return kind == TokenKind::kWord || kind == TokenKind::kQuoted; }
  // For messages: "\"x\"", shortened, or "the end of the statement".
  std::string Shown() const;
};

class Lexer {
 public:
  // `text` is well-formed UTF-8 and outlives the lexer and its tokens.
  explicit Lexer(std::string_view text) : text_(text) {}
  // kEnd at the end, again and again. kInvalid for quotes and comments that are not closed, and for
  // numbers that run into letters.
  Result<Token> Next();

 private:
  char At(size_t ahead) const {
    return position_.offset + ahead < text_.size() ? text_[position_.offset + ahead] : '\0';
  }
  void Skip(size_t bytes);
  Status SkipSpace();
  Status SkipComment();
  Result<Token> Quoted(TokenKind kind);
  Result<Token> Number();
  Token Make(TokenKind kind, size_t bytes);

  std::string_view text_;
  Position position_;
};

bool IsPlainName(std::string_view text);
// In double quotes where it is no plain name, or a word that the grammar would take for its own.
std::string QuoteName(std::string_view name);
// In single quotes.
std::string QuoteText(std::string_view text);
// A word of the message in double quotes, cut after 40 characters, control characters escaped.
std::string Shown(std::string_view text);

std::string LowerCase(std::string_view text);
std::string UpperCase(std::string_view text);

// The end of the query that `text` begins with: its size, or the offset of the semicolon that ends
// it. kInvalid if something follows that, or quotes and comments are not closed; kLimit.
Result<size_t> QueryEnd(std::string_view text);

// Where `offset` is.
Position PositionAt(std::string_view text, size_t offset);

}  // namespace lithify::sql

#endif  // LITHIFY_SQL_LEXER_H_
