// What a client signs to say who it is, instead of showing a secret to the token endpoint
// [RFC 7523, 2.2 and 3]: the key never leaves this process.
#ifndef LITHIFY_NET_CLIENT_ASSERTION_H_
#define LITHIFY_NET_CLIENT_ASSERTION_H_

#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/secret.h"

namespace lithify::net {

// For so long an assertion can be used, once; the clocks of both sides may differ by less.
inline constexpr Duration kClientAssertionLife = std::chrono::seconds(60);

struct ClientKey {
  Secret pem;          // A private key without a password: RSA of 2048 bits or more, or EC P-256.
  std::string key_id;  // `kid`; empty: none.
  std::string
      algorithm;  // "RS256", "PS256", "ES256"; empty: RS256 of an RSA key, ES256 of an EC one.
};

// A JWT for one request of `client_id` to `audience`, the token endpoint. kInvalid, without a word
// of the key, if that is none, or not for the algorithm. Thread-safe.
Result<Secret> SignClientAssertion(const ClientKey& key, const std::string& client_id,
                                   const std::string& audience, const Clock& clock, Random& random);

}  // namespace lithify::net

#endif  // LITHIFY_NET_CLIENT_ASSERTION_H_
