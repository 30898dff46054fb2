// Text that must not leak: a token, a password, a key.
#ifndef LITHIFY_BASE_SECRET_H_
#define LITHIFY_BASE_SECRET_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace lithify {

// Overwrites the bytes of `text`, those of its spare room too, and empties it.
inline void Wipe(std::string& text) {
  text.resize(text.capacity());
  volatile char* bytes = text.data();  // A plain memset before the end of life is optimised away.
  for (size_t i = 0; i < text.size(); ++i) bytes[i] = 0;
  text.clear();
}

// Prints as "***" and zeroes its bytes when it goes. It guards against a slip (a log line, an
// error text, a core dump long after); who calls Reveal() answers for where the copy goes.
// Thread safety: a plain value.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view value) : value_(value) {}
  Secret(const Secret&) = default;
  // Short strings are copied by a move, so the source is wiped.
  Secret(Secret&& other) noexcept : value_(std::move(other.value_)) { Wipe(other.value_); }
  Secret& operator=(const Secret& other) {
    if (this != &other) *this = Secret(other);
    return *this;
  }
  Secret& operator=(Secret&& other) noexcept {
    if (this != &other) {
      Wipe(value_);
      value_ = std::move(other.value_);
      Wipe(other.value_);
    }
    return *this;
  }
  ~Secret() { Wipe(value_); }

  const std::string& Reveal() const { return value_; }
  bool empty() const { return value_.empty(); }
  bool operator==(const Secret&) const = default;

  // `text` with every occurrence of the secret replaced by "***": for words that a server said.
  std::string HideIn(std::string text) const {
    if (value_.empty()) return text;
    for (size_t at = 0; (at = text.find(value_, at)) != std::string::npos; at += 3) {
      text.replace(at, value_.size(), "***");
    }
    return text;
  }

 private:
  std::string value_;
};

inline std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "***"; }

}  // namespace lithify

#endif  // LITHIFY_BASE_SECRET_H_
