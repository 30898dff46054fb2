// Signatures of compact JWS [RFC 7515], and nothing about what is signed. Private to this module.
#ifndef LITHIFY_NET_JWS_H_
#define LITHIFY_NET_JWS_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/jwt.h"

namespace lithify::net {

// Type and curve of the keys that an algorithm takes; an empty curve: any, or none. nullopt: not an
// algorithm of ours.
struct KeyKind {
  std::string_view type;
  std::string_view curve;
};
std::optional<KeyKind> KindFor(std::string_view algorithm);

// Whether it is base64url without padding, and not empty. Nothing else is shown to cjose, which
// ends the process over a '=' where none belongs (version 0.6.2).
bool IsBase64Url(std::string_view text);

// The three parts between the dots, as they are; nullopt unless there are three of base64url.
std::optional<std::array<std::string_view, 3>> SplitJws(std::string_view token);

std::optional<std::string> DecodeBase64Url(std::string_view text);

// What is signed, once the signature is found to be made by `key` with `algorithm`, which is the
// one that the token's header names. kDenied otherwise.
Result<std::string> VerifyJws(std::string_view token, const std::string& algorithm,
                              const JsonWebKey& key);

}  // namespace lithify::net

#endif  // LITHIFY_NET_JWS_H_
