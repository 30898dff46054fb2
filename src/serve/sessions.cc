#include "serve/sessions.h"

#include <utility>

namespace lithify::serve {
namespace {

std::unexpected<Error> NoSession() {
  return Fail(Code::kDenied, "there is no such session of this caller, or it has ended", "session",
              "open a new one");
}

}  // namespace

bool Sessions::Ended(const Session& session, Duration now) const {
  return now - session.used >= limits_.idle || now - session.opened >= limits_.absolute;
}

// Whoever comes without a token is known by the owner alone.
std::string Sessions::HashOf(const Caller& caller) const {
  if (caller.anonymous) return hash_.Of("anonymous " + caller.owner);
  std::string text = "token " + caller.token.Reveal();
  std::string hash = hash_.Of(text);
  Wipe(text);
  return hash;
}

Sessions::Map::iterator Sessions::Remove(Map::iterator at) {
  const auto count = owned_.find(at->second.owner);
  if (--count->second == 0) owned_.erase(count);
  return sessions_.erase(at);
}

void Sessions::RemoveEnded() {
  const Duration now = clock_.Monotonic();
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    at = Ended(at->second, now) ? Remove(at) : std::next(at);
  }
}

Sessions::Map::iterator Sessions::Own(const std::string& id, const Caller& caller) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return at;
  if (Ended(at->second, clock_.Monotonic())) {
    Remove(at);
    return sessions_.end();
  }
  return SameText(at->second.token_hash, HashOf(caller)) ? at : sessions_.end();
}

Result<std::string> Sessions::Open(const Caller& caller) {
  std::lock_guard lock(mutex_);
  RemoveEnded();
  const auto owned = owned_.find(caller.owner);
  if (owned != owned_.end() && owned->second >= limits_.per_owner) {
    return Fail(Code::kLimit,
                "the caller has " + std::to_string(limits_.per_owner) + " sessions already",
                "session", "close one, or wait until one ends");
  }
  if (sessions_.size() >= limits_.total) {
    return Fail(Code::kLimit, "the server has as many sessions as it may", "session",
                "try again later");
  }
  const Duration now = clock_.Monotonic();
  std::string id = MakeRandomId(random_);
  const bool added =
      sessions_.emplace(id, Session{caller.owner, HashOf(caller), now, now, {}}).second;
  LITHIFY_CHECK(added, "a random session id came twice");
  ++owned_[caller.owner];
  return id;
}

Result<std::map<std::string, std::string>> Sessions::Use(const std::string& id,
                                                         const Caller& caller) {
  std::lock_guard lock(mutex_);
  const auto at = Own(id, caller);
  if (at == sessions_.end()) return NoSession();
  at->second.used = clock_.Monotonic();
  return at->second.options;
}

Status Sessions::SetOption(const std::string& id, const Caller& caller, const std::string& name,
                           const std::optional<std::string>& value) {
  constexpr size_t kValueMax = 1000;
  std::lock_guard lock(mutex_);
  const auto at = Own(id, caller);
  if (at == sessions_.end()) return NoSession();
  if (value && value->size() > kValueMax) return Fail(Code::kLimit, "the value is too long", name);
  if (value) {
    at->second.options[name] = *value;
  } else {
    at->second.options.erase(name);
  }
  return {};
}

Status Sessions::Close(const std::string& id, const Caller& caller) {
  std::lock_guard lock(mutex_);
  const auto at = Own(id, caller);
  if (at == sessions_.end()) return NoSession();
  Remove(at);
  return {};
}

size_t Sessions::Count() {
  std::lock_guard lock(mutex_);
  RemoveEnded();
  return sessions_.size();
}

}  // namespace lithify::serve
