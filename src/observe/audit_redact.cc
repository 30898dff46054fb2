// Secrets in texts of statements and errors (R171). One pass from left to right; what is looked at
// from each place is bounded, so that any text takes time in proportion to its length.
#include <algorithm>
#include <array>
#include <optional>

#include "observe/audit_log.h"

namespace lithify::observe {
namespace {

constexpr std::string_view kMask = "***";
constexpr size_t kWordMax = 128;  // Longer ones are no key and no address.

// Parts of the names of keys whose values are secret, without "-", "_" and ".".
constexpr std::array<std::string_view, 13> kSecretNames = {
    "secret",     "password",  "passwd",        "token", "credential", "accesskey",    "apikey",
    "privatekey", "signature", "authorization", "keyid", "accountkey", "encryptionkey"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsWord(char c) { return IsDigit(c) || IsUpper(c) || (c >= 'a' && c <= 'z') || c == '_'; }
bool IsName(char c) { return IsWord(c) || c == '-' || c == '.'; }
bool IsToken(char c) { return IsName(c) || c == '~' || c == '+' || c == '/' || c == '='; }
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsQuote(char c) { return c == '\'' || c == '"' || c == '`'; }
char Lower(char c) { return IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

size_t Run(std::string_view text, bool (*fits)(char), size_t most = std::string_view::npos) {
  const std::string_view bounded = text.substr(0, most);
  return static_cast<size_t>(std::ranges::find_if_not(bounded, fits) - bounded.begin());
}

bool StartsWith(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower,
                            [](char a, char b) { return Lower(a) == b; });
}

bool IsSecretName(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (IsWord(c) && c != '_') plain += Lower(c);
  }
  return std::ranges::any_of(
      kSecretNames, [&](std::string_view part) { return plain.find(part) != std::string::npos; });
}

// A part of a text, and what is written for it.
struct Replacement {
  size_t bytes = 0;
  std::string text;
};
using Found = std::optional<Replacement>;

// "-----BEGIN PRIVATE KEY-----…-----END PRIVATE KEY-----".
Found PrivateKey(std::string_view text) {
  if (!text.starts_with("-----BEGIN ")) return std::nullopt;
  if (text.substr(0, kWordMax).find("PRIVATE KEY-----") == std::string_view::npos) {
    return std::nullopt;
  }
  const size_t end = text.find("PRIVATE KEY-----", text.find("-----END "));
  return Replacement{end == std::string_view::npos ? text.size() : end + 16, std::string(kMask)};
}

// "://user:password@".
Found UserInfo(std::string_view text) {
  if (!text.starts_with("://")) return std::nullopt;
  const size_t length = text.substr(0, 4096).find_first_of("@/?# \t\r\n'\"`<>", 3);
  if (length == std::string_view::npos || text[length] != '@') return std::nullopt;
  return Replacement{length, "://***"};
}

// "Bearer x", "Basic x": the word stays. Prose is told by having neither digits nor capitals.
Found Scheme(std::string_view text) {
  const size_t word = StartsWith(text, "bearer") ? 6 : StartsWith(text, "basic") ? 5 : 0;
  if (word == 0) return std::nullopt;
  const size_t spaces = Run(text.substr(word), IsSpace, kWordMax);
  if (spaces == 0) return std::nullopt;
  const size_t length = Run(text.substr(word + spaces), IsToken);
  const std::string_view token = text.substr(word + spaces, length);
  const bool prose = std::ranges::none_of(token, [](char c) { return IsDigit(c) || IsUpper(c); });
  if (length == 0 || (prose && length < 20)) return std::nullopt;
  return Replacement{word + spaces + length, std::string(text.substr(0, word)) + " ***"};
}

// Tokens that tell themselves: JWT, access keys of Amazon's.
Found KnownToken(std::string_view text) {
  if (text.starts_with("eyJ")) {
    const size_t header = Run(text, IsName, 1024);
    if (header >= 16 && text.substr(0, header).find('.') != std::string_view::npos) {
      return Replacement{Run(text, IsName), std::string(kMask)};
    }
  }
  if (text.starts_with("AKIA") || text.starts_with("ASIA")) {
    const size_t length = Run(text, IsWord, kWordMax);
    const bool capitals = std::ranges::all_of(text.substr(0, length),
                                              [](char c) { return IsDigit(c) || IsUpper(c); });
    if (length >= 16 && capitals) return Replacement{length, std::string(kMask)};
  }
  return std::nullopt;
}

// The end of a quoted value that begins `text`; its size if it has none.
size_t QuotedLength(std::string_view text) {
  const char quote = text.front();
  for (size_t at = 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      if (at + 1 >= text.size() || text[at + 1] != quote) return at + 1;
      ++at;
    }
  }
  return text.size();
}

// A value after "key =": its length, 0 if there is none to mask.
size_t ValueLength(std::string_view text) {
  if (text.empty()) return 0;
  if (IsQuote(text.front())) return QuotedLength(text);
  const auto value = [](char c) {
    return !IsSpace(c) && !IsQuote(c) && c != ',' && c != ';' && c != '(' && c != ')' && c != '&' &&
           c != '}' && c != ']' && c != '[' && c != '{';
  };
  size_t length = Run(text, value);
  if (StartsWith(text, "bearer") || StartsWith(text, "basic")) {
    const size_t spaces = Run(text.substr(length), IsSpace, kWordMax);
    length += spaces + Run(text.substr(length + spaces), value);
  }
  return length;
}

// "password = 'x'", "'s3.secret-access-key', 'x'", "\"token\": \"x\"", "SECRET 'x'".
Found KeyAndValue(std::string_view text) {
  const bool quoted = IsQuote(text.front());
  size_t at = quoted ? 1 : 0;
  const size_t name = Run(text.substr(at), IsName, kWordMax + 1);
  if (name == 0 || name > kWordMax || !IsSecretName(text.substr(at, name))) return std::nullopt;
  at += name;
  if (quoted) {
    if (at >= text.size() || text[at] != text.front()) return std::nullopt;
    ++at;
  }
  const size_t before = Run(text.substr(at), IsSpace, kWordMax);
  at += before;
  const std::string_view rest = text.substr(at);
  size_t sign = 0;
  if (rest.starts_with("=>") || rest.starts_with(":=") || rest.starts_with("==")) {
    sign = 2;
  } else if (rest.starts_with('=') || rest.starts_with(':') || (quoted && rest.starts_with(','))) {
    sign = 1;
  } else if (before == 0 || quoted || rest.empty() || rest.front() != '\'') {
    return std::nullopt;
  }
  at += sign + Run(rest.substr(sign), IsSpace, kWordMax);
  const size_t length = ValueLength(text.substr(at));
  if (length == 0) return std::nullopt;
  const bool quotes = IsQuote(text[at]);
  std::string out(text.substr(0, at + (quotes ? 1 : 0)));
  out += kMask;
  if (quotes) out += text[at];
  return Replacement{at + length, std::move(out)};
}

Found MailAddress(std::string_view text) {
  const auto local = [](char c) { return IsName(c) || c == '%' || c == '+'; };
  const size_t name = Run(text, local, kWordMax + 1);
  if (name == 0 || name >= text.size() || text[name] != '@') return std::nullopt;
  const size_t domain = Run(text.substr(name + 1), IsName, 2 * kWordMax);
  const size_t dot = text.substr(name + 1, domain).rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 2 >= domain) return std::nullopt;
  return Replacement{name + 1 + domain, std::string(kMask)};
}

// 14 to 16 digits with the right check digit, in groups or not.
Found CardNumber(std::string_view text) {
  if (text.front() < '3' || text.front() > '6') return std::nullopt;
  std::string digits;
  size_t at = 0;
  for (; at < text.size() && digits.size() <= 16; ++at) {
    if (IsDigit(text[at])) {
      digits += text[at];
    } else if ((text[at] != ' ' && text[at] != '-') || at + 1 >= text.size() ||
               !IsDigit(text[at + 1])) {
      break;
    }
  }
  if (digits.size() < 14 || digits.size() > 16) return std::nullopt;
  if (at < text.size() && IsWord(text[at])) return std::nullopt;
  int sum = 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    const int digit = digits[digits.size() - 1 - i] - '0';
    const int twice = i % 2 == 1 ? 2 * digit : digit;
    sum += twice > 9 ? twice - 9 : twice;
  }
  if (sum % 10 != 0) return std::nullopt;
  return Replacement{at, std::string(kMask)};
}

// What begins here, at the start of a word or at a sign.
Found Secret(std::string_view text) {
  for (const auto& rule :
       {PrivateKey, UserInfo, Scheme, KnownToken, KeyAndValue, MailAddress, CardNumber}) {
    if (Found found = rule(text)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::string Redact(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (Found found = Secret(text)) {
      out += found->text;
      text.remove_prefix(found->bytes);
      continue;
    }
    const size_t word = std::max<size_t>(1, Run(text, IsWord));
    out += text.substr(0, word);
    text.remove_prefix(word);
  }
  return out;
}

}  // namespace lithify::observe
