// Signed JSON Web Tokens [RFC 7519, 7515, 7517, 8725]: who a caller is, as an issuer that we trust
// says it, and only once signature, issuer, audience and life have been checked.
//
// Taken are compact tokens signed with a key pair, by an algorithm of the list. "none" and secrets
// shared with the issuer (HMAC) are no members of it and can't be added: a public key can't be
// taken for a shared secret. Messages never have the token or a part of it.
#ifndef LITHIFY_NET_JWT_H_
#define LITHIFY_NET_JWT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::net {

// A public key as an issuer publishes it.
struct JsonWebKey {
  std::string id;         // "kid"; may be empty.
  std::string type;       // "RSA", "EC", "OKP".
  std::string curve;      // "P-256", "P-384", "P-521", "Ed25519"; RSA: empty.
  std::string algorithm;  // The only one it is for; empty: all of its type.
  std::string json;       // Its public members alone.
  bool operator==(const JsonWebKey&) const = default;
};

// The keys of a JWK set that may verify signatures. Others (for encryption, shared secrets, types
// that are not known) are left out. kCorrupt if it is no JWK set.
Result<std::vector<JsonWebKey>> ParseJwks(std::string_view text);

// Every algorithm there is: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA.
const std::vector<std::string>& JwtAlgorithms();

// Where the keys of an issuer come from. Thread-safe.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // The key of that id for signatures by `algorithm`; without an id the only one that fits.
  // kDenied: there is none; kTransient: the issuer can't be asked; kCorrupt, kInvalid: what it
  // answers are no keys.
  virtual Result<JsonWebKey> Find(const std::string& id, const std::string& algorithm) = 0;
};

// kDenied unless exactly one of `keys` fits.
Result<JsonWebKey> ChooseKey(const std::vector<JsonWebKey>& keys, const std::string& id,
                             const std::string& algorithm);

struct JwtRules {
  std::vector<std::string> algorithms = JwtAlgorithms();
  std::string issuer;                          // "iss" must be it; empty: not checked.
  std::string audience;                        // "aud" must be or contain it; empty: not checked.
  Duration leeway = std::chrono::seconds(60);  // Of the issuer's clock and ours.
  // Where the claims are: the name of a member, or names joined by dots ("realm_access.roles"; a
  // member whose own name has the dots goes first). Empty: not read.
  std::string subject_claim = "sub";
  std::string username_claim = "preferred_username";
  std::string email_claim = "email";
  std::string roles_claim;
  std::string groups_claim;
};

struct JwtClaims {
  std::string issuer;
  std::string subject;   // Never empty.
  std::string username;  // These may be empty.
  std::string email;
  std::vector<std::string> roles;  // A list, or one text with spaces; in its order.
  std::vector<std::string> groups;
  Time expires_at;  // As the token says, without leeway.
};

inline constexpr size_t kJwtBytesMax = size_t{16} * 1024;

// kDenied, with the reason, for every token that is not good: damaged, of another algorithm or
// issuer, for another audience, without an end, expired, not valid yet, issued in the future. What
// `keys` gives otherwise.
Result<JwtClaims> VerifyJwt(std::string_view token, KeySource& keys, const JwtRules& rules,
                            Time now);

// Whether it has the form of a signed JWT; else it is opaque.
bool LooksLikeJwt(std::string_view token);

// "exp" of a token that nobody has checked: to tell early that it will not last (Q14), never to
// allow anything. nullopt if it has none.
std::optional<Time> UnverifiedJwtExpiry(std::string_view token);

}  // namespace lithify::net

#endif  // LITHIFY_NET_JWT_H_
