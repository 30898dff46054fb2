#include "net/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <optional>

namespace lithify::net {
namespace {

void Reset(int fd) {
  const linger now{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void SendAll(int fd, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t sent = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (sent <= 0) return;
    done += static_cast<size_t>(sent);
  }
}

// Takes a whole request off the front of `text`.
std::optional<ScriptedRequest> TakeRequest(std::string& text) {
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  ScriptedRequest request;
  const std::string head = text.substr(0, end + 2);
  const size_t line = head.find("\r\n");
  const size_t first = head.find(' ');
  const size_t second = head.find(' ', first + 1);
  request.method = head.substr(0, first);
  request.target = head.substr(first + 1, second - first - 1);
  for (size_t at = line + 2; at < head.size();) {
    const size_t stop = head.find("\r\n", at);
    const size_t colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const size_t value = head.find_first_not_of(' ', colon + 1);
    request.headers[name] = value < stop ? head.substr(value, stop - value) : "";
    at = stop + 2;
  }
  const auto length = request.headers.find("content-length");
  const size_t body =
      length == request.headers.end() ? 0 : static_cast<size_t>(std::stoul(length->second));
  if (text.size() < end + 4 + body) return std::nullopt;
  request.body = text.substr(end + 4, body);
  text.erase(0, end + 4 + body);
  return request;
}

}  // namespace

ScriptedAnswer Answer(int status, const std::string& body,
                      const std::vector<std::pair<std::string, std::string>>& headers) {
  ScriptedAnswer answer;
  answer.bytes = "HTTP/1.1 " + std::to_string(status) + " Scripted\r\n";
  for (const auto& [name, value] : headers) answer.bytes += name + ": " + value + "\r\n";
  answer.bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  return answer;
}

ScriptedServer::ScriptedServer(Script script) : script_(std::move(script)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

ScriptedServer::~ScriptedServer() {
  stop_ = true;
  thread_.join();
  for (const Connection& connection : open_) close(connection.fd);
  close(listener_);
}

std::string ScriptedServer::Url(const std::string& target) const {
  return "http://127.0.0.1:" + std::to_string(port_) + target;
}

std::vector<ScriptedRequest> ScriptedServer::Requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::Accept() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  Connection connection;
  connection.fd = fd;
  connection.number = connections_++;
  const ScriptedAnswer::Then what = on_accept_;
  if (what == ScriptedAnswer::Then::kReset) Reset(fd);
  if (what == ScriptedAnswer::Then::kReset || what == ScriptedAnswer::Then::kClose) {
    close(fd);
    return;
  }
  connection.hanging = what == ScriptedAnswer::Then::kHang;
  open_.push_back(std::move(connection));
}

bool ScriptedServer::Serve(Connection& connection, ScriptedRequest request) {
  request.connection = connection.number;
  {
    std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  const ScriptedAnswer answer = script_(request);
  std::this_thread::sleep_for(answer.before);
  SendAll(connection.fd, answer.bytes);
  if (answer.then == ScriptedAnswer::Then::kHang) connection.hanging = true;
  if (answer.then == ScriptedAnswer::Then::kReset) Reset(connection.fd);
  return answer.then == ScriptedAnswer::Then::kKeep || connection.hanging;
}

bool ScriptedServer::Read(Connection& connection) {
  char buffer[64 * 1024];
  const ssize_t got = recv(connection.fd, buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  connection.received.append(buffer, static_cast<size_t>(got));
  while (!connection.hanging) {
    std::optional<ScriptedRequest> request = TakeRequest(connection.received);
    if (!request) return true;
    if (!Serve(connection, std::move(*request))) return false;
  }
  return true;
}

void ScriptedServer::Run() {
  while (!stop_) {
    std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
    for (const Connection& connection : open_) {
      // One that hangs is not even read from.
      waiting.push_back({connection.hanging ? -1 : connection.fd, POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), 20) <= 0) continue;
    std::vector<Connection> kept;
    for (size_t i = 0; i < open_.size(); ++i) {
      if (waiting[i + 1].revents == 0 || Read(open_[i])) {
        kept.push_back(std::move(open_[i]));
      } else {
        close(open_[i].fd);
      }
    }
    open_ = std::move(kept);
    if (waiting[0].revents != 0) Accept();
  }
}

}  // namespace lithify::net
