// Requests signed for Amazon S3 and stores that speak like it (AWS Signature Version 4, in the
// Authorization header).
#ifndef LITHIFY_NET_SIGV4_H_
#define LITHIFY_NET_SIGV4_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "net/http.h"

namespace lithify::net {

struct AwsCredentials {
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;  // Of temporary credentials; else empty.
  bool operator==(const AwsCredentials&) const = default;
};

struct SigV4Scope {
  std::string region;
  std::string service = "s3";
};

// A request as it is signed. The caller sends the same method, host, path, query and headers.
struct SigV4Request {
  HttpMethod method = HttpMethod::kGet;
  std::string host;  // With the port, unless it is the scheme's own.
  std::string path;  // As sent: each segment percent-encoded, beginning with '/'.
  // Names and values as they are meant, not encoded; QueryString() makes what is sent.
  std::vector<std::pair<std::string, std::string>> query;
  // All that are signed but "host" and those that Sign() adds; names in lower case.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string payload_sha256;  // Lower-case hex of the body, or kUnsignedPayload.
};

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

struct SigV4Signed {
  // The request's headers and x-amz-date, x-amz-content-sha256 and x-amz-security-token.
  std::vector<std::pair<std::string, std::string>> headers;
  Secret authorization;
};

SigV4Signed SignV4(const SigV4Request& request, const AwsCredentials& credentials,
                   const SigV4Scope& scope, Time now);

// "a=1&b=" with names and values percent-encoded, sorted by name and value.
std::string QueryString(std::vector<std::pair<std::string, std::string>> query);

// 32 bytes.
std::string Sha256(std::string_view bytes);
// Lower-case.
std::string Hex(std::string_view bytes);
std::string Sha256Hex(std::string_view bytes);
// Not against forgery: for names of files. nullopt where OpenSSL may not do SHA-1.
std::optional<std::string> Sha1Hex(std::string_view bytes);
// The value of a Content-MD5 header; nullopt where OpenSSL may not do MD5 (FIPS).
std::optional<std::string> ContentMd5(std::string_view bytes);

}  // namespace lithify::net

#endif  // LITHIFY_NET_SIGV4_H_
