// A small HTTP/1.1 server, for what a program says of itself, to probes and to people: a fixed set
// of paths, GET and HEAD, no request with a body. libmicrohttpd stays behind this header.
//
// What a client can make it hold is bounded: so many connections, of all and of one address, each
// with so many bytes and for so long, whatever it sends or does not send.
#ifndef LITHIFY_HTTP_LISTENER_H_
#define LITHIFY_HTTP_LISTENER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"

namespace lithify::http {

struct Request {
  std::string path;    // "/healthz": percent-decoded, without the query.
  std::string client;  // "127.0.0.1:40312": who asks, as the socket has it.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::pair<std::string, std::string>> query;  // Percent-decoded, in order.
  // Whether the client has left meanwhile; any thread, until the handler returns.
  std::function<bool()> gone;

  // Of the first header of that name, in any case; empty: there is none.
  std::string_view Header(std::string_view name) const;
  // The values of that parameter, in order.
  std::vector<std::string> Values(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  // Beside the content's type and length, and that nothing is cached or sniffed.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// What answers requests for `path` and no other. `handler` is called by the one thread that serves
// all connections: it answers from memory, unless ListenerOptions::waits. What it throws is
// answered with 500.
struct Route {
  std::string path;
  std::function<Response(const Request&)> handler;
};

struct ListenerOptions {
  std::string listen = {};    // "host:port"; port 0: any free one.
  std::string tls_cert = {};  // PEM, with the chain. Empty: plaintext.
  Secret tls_key = {};
  unsigned connections_max = 64;              // More wait in the kernel's queue.
  unsigned connections_per_address_max = 16;  // More are closed at once.
  // From accepting one to its end, however many requests come on it.
  Duration connection_life = std::chrono::seconds(10);
  size_t connection_bytes = 16 * size_t{1024};  // Of the request's head and the answer's, together.
  // Each connection has a thread of its own: handlers, called by several at once, may wait.
  bool waits = false;
  // Takes only requests for an address in numbers, "localhost" or one of `hosts`, and answers
  // others with 421: a name of somebody else's that leads here (DNS rebinding) would make the page
  // of that name one with ours, for a browser.
  bool known_hosts_only = false;
  std::vector<std::string> hosts = {};
};

// Answers 404 for other paths, 405 for other methods, 413 for a body, 431 or 414 for a head that is
// too large, 400 for what is no HTTP.
//
// Thread safety: one thread at a time.
class Listener {
 public:
  // Listens, on a thread of its own, until it is destroyed. kInvalid, without a context: an address
  // that will not do or is taken, a certificate and key that are no pair.
  static Result<std::unique_ptr<Listener>> Start(const ListenerOptions& options,
                                                 std::vector<Route> routes);
  // Answers nobody any more, and closes all connections.
  virtual ~Listener() = default;

  // "127.0.0.1:8081", with the port that was taken.
  virtual std::string address() const = 0;
};

}  // namespace lithify::http

#endif  // LITHIFY_HTTP_LISTENER_H_
