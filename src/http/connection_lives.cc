#include "http/connection_lives.h"

#include <sys/socket.h>

#include <algorithm>

namespace lithify::http {

ConnectionLives::ConnectionLives(Duration life) : life_(life), thread_([this] { Watch(); }) {}

ConnectionLives::~ConnectionLives() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void ConnectionLives::Begin(int socket) {
  const std::lock_guard lock(mutex_);
  ends_[socket] = Steady::now() + life_;
  if (ends_.size() == 1) changed_.notify_all();  // Else an earlier end is waited for already.
}

void ConnectionLives::End(int socket) {
  const std::lock_guard lock(mutex_);
  ends_.erase(socket);
}

void ConnectionLives::Watch() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto now = Steady::now();
    // The server sees the end of the connection, and closes it.
    std::erase_if(ends_, [now](const auto& entry) {
      return entry.second <= now && (shutdown(entry.first, SHUT_RDWR), true);
    });
    if (ends_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next =
        std::ranges::min_element(ends_, {}, [](const auto& entry) { return entry.second; });
    changed_.wait_until(lock, next->second);
  }
}

}  // namespace lithify::http
