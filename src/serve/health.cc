#include "serve/health.h"

#include <utility>

namespace lithify::serve {

Result<std::unique_ptr<http::Listener>> ListenForProbes(const std::string& listen,
                                                        std::function<bool()> draining) {
  constexpr int kUnavailable = 503;
  const auto alive = [](const http::Request&) { return http::Response{.body = "ok\n"}; };
  const auto ready = [draining = std::move(draining)](const http::Request&) {
    if (draining()) return http::Response{.status = kUnavailable, .body = "draining\n"};
    return http::Response{.body = "ok\n"};
  };
  auto listener =
      http::Listener::Start({.listen = listen}, {{"/healthz", alive}, {"/readyz", ready}});
  if (listener) return listener;
  return Fail(std::move(listener.error()).In("server.health_listen = \"" + listen + "\""));
}

}  // namespace lithify::serve
