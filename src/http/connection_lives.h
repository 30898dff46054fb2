// Ends connections whose time is over. The library that serves them knows how long one was silent;
// a client that sends a byte now and then is never silent. Private to this module.
#ifndef LITHIFY_HTTP_CONNECTION_LIVES_H_
#define LITHIFY_HTTP_CONNECTION_LIVES_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace lithify::http {

// Thread safety: thread-safe.
class ConnectionLives {
 public:
  explicit ConnectionLives(Duration life);
  ~ConnectionLives();
  ConnectionLives(const ConnectionLives&) = delete;
  ConnectionLives& operator=(const ConnectionLives&) = delete;

  // `socket` is open from Begin() to the end of End(): only in between is it shut down.
  void Begin(int socket);
  void End(int socket);

 private:
  using Steady = std::chrono::steady_clock;
  void Watch();

  const Duration life_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Steady::time_point> ends_;  // By socket; without those that were shut down.
  bool closing_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace lithify::http

#endif  // LITHIFY_HTTP_CONNECTION_LIVES_H_
