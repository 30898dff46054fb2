// What stands for a token where the token itself must not be kept.
#ifndef LITHIFY_SERVE_KEYED_HASH_H_
#define LITHIFY_SERVE_KEYED_HASH_H_

#include <string>
#include <string_view>

#include "base/random.h"
#include "base/secret.h"

namespace lithify::serve {

// HMAC-SHA256 by a key that is made here and leaves with it: no table of tokens can be matched
// against what it gives. Thread-safe.
class KeyedHash {
 public:
  explicit KeyedHash(Random& random);
  // 64 hexadecimal digits.
  std::string Of(std::string_view text) const;

 private:
  Secret key_;
};

// In a time that does not tell where they differ.
bool SameText(std::string_view a, std::string_view b);

// 128 random bits as 32 hexadecimal digits.
std::string MakeRandomId(Random& random);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_KEYED_HASH_H_
