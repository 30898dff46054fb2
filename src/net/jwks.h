// The keys of an issuer, fetched over HTTP and kept for a while.
#ifndef LITHIFY_NET_JWKS_H_
#define LITHIFY_NET_JWKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "net/jwt.h"

namespace lithify::net {

// What an issuer says of itself [OpenID Connect Discovery 1.0].
struct IssuerMetadata {
  std::string jwks_uri;        // Never empty.
  std::string token_endpoint;  // May be.
};

// Reads ISSUER/.well-known/openid-configuration. kCorrupt: it is none, or one of another issuer, or
// names an address that is neither https nor of this machine; kDenied, kInvalid: the address is
// wrong or refuses; kTransient: worth a retry.
Result<IssuerMetadata> Discover(const std::string& issuer, HttpClient& http, Duration timeout);

// https, or http to this machine itself: nothing that is secret or trusted goes over other wires.
bool IsPrivateUrl(std::string_view url);

struct JwksOptions {
  std::string jwks_url;  // Empty: what discovery at `issuer` says.
  std::string issuer;
  Duration timeout = std::chrono::seconds(5);  // Of one request.
  int64_t max_bytes = int64_t{512} * 1024;
  Duration life = std::chrono::minutes(10);  // After that the keys are fetched again.
  // While the issuer can't be asked they serve on, but never longer than this after their fetch.
  Duration life_max = std::chrono::hours(1);
  // No fetch sooner after the last, whatever key ids callers make up.
  Duration pause = std::chrono::seconds(10);
};

// One fetch for all who wait for it. A key id that is not known leads to one fetch, since the
// issuer may have new keys. `http` and `clock` must outlive the source.
std::unique_ptr<KeySource> MakeJwksSource(JwksOptions options, HttpClient& http,
                                          const Clock& clock);

}  // namespace lithify::net

#endif  // LITHIFY_NET_JWKS_H_
