// A server for tests: plain sockets on loopback, one thread, answers made by a function, so that it
// can do what a real server won't do on demand: half an answer, none, a reset, garbage, waiting.
#ifndef LITHIFY_NET_SCRIPTED_SERVER_H_
#define LITHIFY_NET_SCRIPTED_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lithify::net {

struct ScriptedRequest {
  std::string method;
  std::string target;                          // Path and query as they came.
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;
  int connection = 0;  // The how-manieth connection it came on, from 0.
};

struct ScriptedAnswer {
  std::string bytes;  // Sent as they are.
  enum class Then { kKeep, kClose, kReset, kHang };
  Then then = Then::kKeep;
  std::chrono::milliseconds before{0};  // Wait before `bytes`.
};

// A whole answer with Content-Length.
ScriptedAnswer Answer(int status, const std::string& body,
                      const std::vector<std::pair<std::string, std::string>>& headers = {});

// One connection after the other is served as their requests become complete.
class ScriptedServer {
 public:
  using Script = std::function<ScriptedAnswer(const ScriptedRequest&)>;
  explicit ScriptedServer(Script script);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // What becomes of new connections: kKeep serves them, kReset and kClose end them unread, kHang
  // leaves them alone.
  void OnAccept(ScriptedAnswer::Then what) { on_accept_ = what; }

  int port() const { return port_; }
  std::string Url(const std::string& target) const;
  std::vector<ScriptedRequest> Requests() const;
  int connections() const { return connections_; }

 private:
  struct Connection {
    int fd = -1;
    int number = 0;
    bool hanging = false;
    std::string received;
  };
  void Run();
  void Accept();
  // False when the connection is at its end.
  bool Read(Connection& connection);
  bool Serve(Connection& connection, ScriptedRequest request);

  const Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<ScriptedAnswer::Then> on_accept_{ScriptedAnswer::Then::kKeep};
  std::atomic<int> connections_{0};
  std::vector<Connection> open_;
  mutable std::mutex mutex_;
  std::vector<ScriptedRequest> requests_;
  std::thread thread_;
};

}  // namespace lithify::net

#endif  // LITHIFY_NET_SCRIPTED_SERVER_H_
