// HTTP/1.1 requests with bounds: every call states its time-outs and the largest answer it takes.
//
// TLS certificates and host names are always verified; there is no switch. Redirects are never
// followed (a 3xx answer is returned as it is), so credentials reach no host but the one that was
// named. No cookies, no .netrc, no credentials inside URLs.
//
// Errors of Send tell what is known of the request:
//   kTransient       it was never sent: no byte of it left (name not resolved, connection refused,
//                    no tunnel through the proxy, TLS handshake failed, time-out before that).
//   kDenied          never sent: the server's certificate is not trusted or not of that host.
//   kInvalid         never sent: the request, the URL or a local TLS file is wrong.
//   kUnknownOutcome  at least one byte of it was sent, and no whole answer came: it may have taken
//                    effect (connection lost, time-out, garbage instead of HTTP, an answer that is
//                    cut off).
//   kLimit           GET and HEAD only: the answer is larger than allowed. For the other methods
//                    that is kUnknownOutcome.
//   kCancelled       HttpOptions::stop said so: never sent, or GET and HEAD. For the other methods,
//                    once a byte of them was sent, that is kUnknownOutcome.
// Messages name host and path; never a query, a header's value or a body.
#ifndef LITHIFY_NET_HTTP_H_
#define LITHIFY_NET_HTTP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"

namespace lithify::net {

enum class HttpMethod { kGet, kHead, kPost, kPut, kDelete };
std::string_view MethodName(HttpMethod method);

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  std::string url;  // http:// or https://.
  std::vector<std::pair<std::string, std::string>> headers;
  Secret authorization;  // Value of the Authorization header; empty: none.
  std::string body;      // Not for kGet and kHead.
  // The answer's body is wanted as it is stored, also where it is compressed.
  bool stored_form = false;
  // Sent twice it does no more harm than sent once, or the sender looks at HttpResponse::repeated:
  // it may go over a kept connection, as GET and HEAD do.
  bool may_repeat = false;
  // Past any proxy: to the machine itself, of which a proxy has another.
  bool direct = false;
  // It makes something visible: it is given longer after a stop, since nobody knows what became of
  // it once it is cut off.
  bool publishes = false;
  // The body of a 206 (part of what is stored) goes here instead of into the response; one that is
  // longer is too large. Alive until Send returns; undefined after an error.
  std::span<std::byte> into;
};

// All of them > 0; there are no defaults on purpose.
struct HttpLimits {
  HttpLimits(Duration connect, Duration total, int64_t response_bytes)
      : connect_timeout(connect), total_timeout(total), max_response_bytes(response_bytes) {}
  Duration connect_timeout;    // Name resolution, TCP and TLS.
  Duration total_timeout;      // The whole exchange.
  int64_t max_response_bytes;  // Of the body, after decompression.
};

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // In order; names in lower case.
  std::string body;
  int64_t placed = 0;  // Bytes of the body that are in HttpRequest::into.
  // A kept connection turned out to be dead, and the request went out again over another one: it
  // may have been carried out twice.
  bool repeated = false;

  // The first header of that name (any case).
  std::optional<std::string> Header(std::string_view name) const;
};

// Thread-safe.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Any status is a result, 4xx and 5xx too. GET, HEAD and what `may_repeat` may be sent a second
  // time when a kept connection turns out to be dead; all else goes out once at most, on a
  // connection of its own, since a silent second try would take the first one's effect for somebody
  // else's.
  virtual Result<HttpResponse> Send(const HttpRequest& request, const HttpLimits& limits) = 0;
};

struct HttpOptions {
  // PEM with the trusted roots, also those of a proxy that speaks TLS; empty: the system's.
  std::string ca_file;
  // Unset: http_proxy, HTTPS_PROXY and ALL_PROXY of the environment; empty: none. NO_PROXY names
  // the hosts that are spoken to directly in any case. https:// goes through a tunnel, in which the
  // proxy sees the host's name only.
  std::optional<std::string> proxy;
  // Whether to stop; asked by each request, ten times a second. Thread-safe, and may take it back.
  // Empty: never. Then what is under way may go on for `stop_grace`, so that what is nearly there
  // comes in, and what publishes for `publish_stop_grace`. What begins after that (an end that is
  // to be told) is given `stop_grace` from its begin. From the first that was given up on no other
  // is sent: nobody answers.
  std::function<bool()> stop = {};
  Duration stop_grace = std::chrono::seconds(1);
  Duration publish_stop_grace = std::chrono::seconds(10);
};

// libcurl with a pool of kept connections. kInvalid if the CA file can't be read.
Result<std::unique_ptr<HttpClient>> OpenHttpClient(HttpOptions options);

// Everything but letters, digits and "-._~" as %XX.
std::string PercentEncode(std::string_view text);
// application/x-www-form-urlencoded: "a=1&b=x%20y".
std::string EncodeForm(const std::vector<std::pair<std::string, std::string>>& fields);
std::string EncodeBase64(std::string_view bytes);
std::string EncodeBase64Url(std::string_view bytes);  // Without padding [RFC 4648, 5].
// With its padding, and nothing else; nullopt otherwise.
std::optional<std::string> DecodeBase64(std::string_view text);

// "https://host:port/path" of a URL, for messages: no query, no user.
std::string UrlForMessages(std::string_view url);
// "https://host:port" in lower case, the default port left out; kInvalid for anything that is not
// an absolute http or https URL without user and fragment.
Result<std::string> UrlOrigin(std::string_view url);

// "Sun, 06 Nov 1994 08:49:37 GMT" and older forms [RFC 9110, 5.6.7]; nullopt if it is none.
std::optional<Time> ParseHttpDate(std::string_view value);
// Value of Retry-After (seconds or an HTTP date) as a wait from `now`; nullopt if it is neither.
std::optional<Duration> ParseRetryAfter(std::string_view value, Time now);

// Whether a header of this name may carry a credential: what else it may carry, nobody knows.
bool MayBeCredential(std::string_view header_name);

}  // namespace lithify::net

#endif  // LITHIFY_NET_HTTP_H_
