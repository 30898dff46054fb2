#include "http/listener.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>

#include "http/connection_lives.h"
#include "net/address.h"

namespace lithify::http {
namespace {

constexpr int kBacklog = 64;
constexpr const char* kTlsPriorities = "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// A listening socket, closed unless it was taken.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Take()) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Take() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Result<Socket> Bind(const net::Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (rc != 0) return Fail(Code::kInvalid, std::string("no such host: ") + gai_strerror(rc));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  Socket made(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const bool listens =
      made.get() >= 0 && setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
      bind(made.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(made.get(), kBacklog) == 0;
  if (listens) return made;
  return Fail(Code::kInvalid, "cannot listen: " + std::generic_category().message(errno), {},
              "is the port taken, or the address of another machine?");
}

int PortOf(int socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  const in_port_t port = bound.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  return ntohs(port);
}

MHD_Result AddHeader(void* to, MHD_ValueKind, const char* name, const char* value) {
  static_cast<Request*>(to)->headers.emplace_back(name, value == nullptr ? "" : value);
  return MHD_YES;
}

MHD_Result AddParameter(void* to, MHD_ValueKind, const char* name, size_t name_bytes,
                        const char* value, size_t value_bytes) {
  auto& query = static_cast<Request*>(to)->query;
  query.emplace_back(std::string(name, name_bytes),
                     value == nullptr ? std::string() : std::string(value, value_bytes));
  return MHD_YES;
}

std::string ClientOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return {};
  const bool six = info->client_addr->sa_family == AF_INET6;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(info->client_addr, six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), host.data(),
                  host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string address = six ? "[" + std::string(host.data()) + "]" : host.data();
  return address + ":" + port.data();
}

// Whether the peer has closed its side: a browser does where its page goes away.
bool HasLeft(int socket) {
  pollfd one = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// "localhost:8080" without its port.
std::string_view HostOf(std::string_view header) {
  if (header.starts_with('[')) {
    const size_t end = header.find(']');
    return end == std::string_view::npos ? header : header.substr(1, end - 1);
  }
  return header.substr(0, header.find(':'));
}

bool IsNumeric(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

MHD_Result Send(MHD_Connection* connection, Response answer) {
  const std::unique_ptr<MHD_Response, void (*)(MHD_Response*)> response(
      MHD_create_response_from_buffer(answer.body.size(), answer.body.data(),
                                      MHD_RESPMEM_MUST_COPY),
      MHD_destroy_response);
  if (!response) return MHD_NO;
  const auto add = [&](const char* name, const std::string& value) {
    return MHD_add_response_header(response.get(), name, value.c_str()) == MHD_YES;
  };
  bool added = add(MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type) &&
               add(MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") &&
               add("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : answer.headers) added = added && add(name.c_str(), value);
  if (!added) return MHD_NO;  // The connection is closed.
  return MHD_queue_response(connection, static_cast<unsigned>(answer.status), response.get());
}

class MicroListener final : public Listener {
 public:
  MicroListener(std::vector<Route> routes, const ListenerOptions& options)
      : routes_(std::move(routes)),
        known_hosts_only_(options.known_hosts_only),
        hosts_(options.hosts),
        lives_(options.connection_life) {}
  ~MicroListener() override {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  Status Listen(const ListenerOptions& options) {
    LITHIFY_TRY_ASSIGN(address_, net::ParseAddress(options.listen));
    LITHIFY_TRY_ASSIGN(Socket socket, Bind(address_));
    address_.port = PortOf(socket.get());
    const auto idle = std::chrono::ceil<std::chrono::seconds>(options.connection_life);
    std::vector<MHD_OptionItem> items = {
        {MHD_OPTION_LISTEN_SOCKET, socket.get(), nullptr},
        {MHD_OPTION_CONNECTION_LIMIT, static_cast<intptr_t>(options.connections_max), nullptr},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT,
         static_cast<intptr_t>(options.connections_per_address_max), nullptr},
        {MHD_OPTION_CONNECTION_TIMEOUT, static_cast<intptr_t>(idle.count()), nullptr},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(options.connection_bytes),
         nullptr},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, nullptr},
        {MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<intptr_t>(&Notified), &lives_},
    };
    unsigned flags = MHD_USE_ITC;
    flags |= options.waits
                 ? MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL
                 : MHD_USE_EPOLL_INTERNAL_THREAD;
    // Read while it starts, and not after.
    std::string certificate = options.tls_cert;
    std::string key = options.tls_key.Reveal();
    std::string priorities = kTlsPriorities;
    if (!certificate.empty()) {
      flags |= MHD_USE_TLS;
      items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.data()});
      items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key.data()});
      items.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, priorities.data()});
    }
    items.push_back({MHD_OPTION_END, 0, nullptr});
    // The daemon's from here on, also where it does not start: in some of these cases it is closed.
    socket.Take();
    daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, &Handle, this, MHD_OPTION_ARRAY,
                               items.data(), MHD_OPTION_END);
    Wipe(key);
    if (daemon_ == nullptr) {
      return Fail(Code::kInvalid, "the HTTP server does not start", {},
                  options.tls_cert.empty() ? "" : "are certificate and key a pair, in PEM?");
    }
    return {};
  }

  std::string address() const override { return address_.ToString(); }

 private:
  static void Notified(void* lives, MHD_Connection* connection, void**,
                       MHD_ConnectionNotificationCode what) {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == nullptr) return;
    auto& all = *static_cast<ConnectionLives*>(lives);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) all.Begin(info->connect_fd);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) all.End(info->connect_fd);
  }

  // Called once with the head of a request, and again when it is there as a whole.
  static MHD_Result Handle(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char*, const char*, size_t* body_bytes,
                           void** seen) {
    try {
      auto& listener = *static_cast<MicroListener*>(self);
      if (*seen == nullptr) {
        *seen = self;
        const bool reads = std::strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
                           std::strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
        if (reads) return HasBody(connection) ? Send(connection, TooMuch()) : MHD_YES;
        return Send(connection, {.status = MHD_HTTP_METHOD_NOT_ALLOWED,
                                 .body = "only GET and HEAD\n",
                                 .headers = {{MHD_HTTP_HEADER_ALLOW, "GET, HEAD"}}});
      }
      if (*body_bytes != 0) return MHD_NO;
      return Send(connection, listener.Answer(connection, path));
    } catch (const std::exception&) {
      return MHD_NO;  // No memory for an answer.
    }
  }

  static bool HasBody(MHD_Connection* connection) {
    const auto header = [connection](const char* name) {
      const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
      return std::string_view(value == nullptr ? "" : value);
    };
    const std::string_view length = header(MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (!length.empty() && length != "0") || !header(MHD_HTTP_HEADER_TRANSFER_ENCODING).empty();
  }

  static Response TooMuch() {
    return {.status = MHD_HTTP_CONTENT_TOO_LARGE, .body = "no request here has a body\n"};
  }

  Response Answer(MHD_Connection* connection, const char* path) const {
    Request request{.path = path, .client = {}, .headers = {}, .query = {}, .gone = {}};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, AddHeader, &request);
    if (known_hosts_only_ && !IsKnownHost(HostOf(request.Header(MHD_HTTP_HEADER_HOST)))) {
      return {.status = MHD_HTTP_MISDIRECTED_REQUEST, .body = "not a name of this server\n"};
    }
    const auto at = std::ranges::find(routes_, path, &Route::path);
    if (at == routes_.end()) return {.status = MHD_HTTP_NOT_FOUND, .body = "not found\n"};
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, AddParameter, &request);
    request.client = ClientOf(connection);
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    request.gone = [socket = info == nullptr ? -1 : info->connect_fd] {
      return socket >= 0 && HasLeft(socket);
    };
    try {
      return at->handler(request);
    } catch (const std::exception&) {
      return {.status = MHD_HTTP_INTERNAL_SERVER_ERROR, .body = "internal error\n"};
    }
  }

  bool IsKnownHost(std::string_view host) const {
    return SameName(host, "localhost") || IsNumeric(std::string(host)) ||
           std::ranges::any_of(hosts_, [host](const auto& one) { return SameName(one, host); });
  }

  const std::vector<Route> routes_;
  const bool known_hosts_only_;
  const std::vector<std::string> hosts_;
  net::Address address_;
  ConnectionLives lives_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace

std::string_view Request::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (SameName(key, name)) return value;
  }
  return {};
}

std::vector<std::string> Request::Values(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : query) {
    if (key == name) values.push_back(value);
  }
  return values;
}

Result<std::unique_ptr<Listener>> Listener::Start(const ListenerOptions& options,
                                                  std::vector<Route> routes) {
  auto listener = std::make_unique<MicroListener>(std::move(routes), options);
  LITHIFY_TRY(listener->Listen(options));
  return listener;
}

}  // namespace lithify::http
