#include "serve/taken_tokens.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace lithify::serve {
namespace {

// Whether the catalog took the token of `call`.
Status Ask(const TableAccess& access, const std::string& catalog, const CallContext& call,
           const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const auto session, access.Open(catalog, "select", {}, call,
                                                     [&cancel] { return cancel.requested(); }));
  const auto listed = session->catalog().ListNamespaces({});
  if (listed) return {};
  const Code code = listed.error().code;
  const bool known =
      (code == Code::kDenied || code == Code::kNotFound || code == Code::kUnsupported) &&
      !call.token->refused();
  return known ? Status() : Status(Fail(listed.error()));
}

}  // namespace

Status TakenTokens::Check(const TableAccess& access, const CallContext& call,
                          const CancelFlag& cancel) {
  const Caller& caller = call.caller;
  if (caller.verified || caller.token.empty() || Knows(caller.owner)) return {};
  std::optional<Error> refusal;
  std::optional<Error> silence;
  bool refused = false;
  for (const std::string& catalog : access.catalogs()) {
    // Of its own: that one catalog does not take it is no word of the others.
    CallContext asking = call;
    asking.token = std::make_shared<CallerToken>(caller.token);
    const Status taken = Ask(access, catalog, asking, cancel);
    if (taken) {
      Keep(caller);
      return {};
    }
    refused = refused || asking.token->refused();
    const bool denied = taken.error().code == Code::kDenied || asking.token->refused();
    (denied ? refusal : silence) = taken.error();
    LITHIFY_TRY(cancel.Check());
  }
  if (silence) return Fail(std::move(*silence));
  // Told as the catalog's 401, if it was one.
  if (refused) static_cast<void>(call.token->Invalidate(caller.token));
  return Fail(std::move(*refusal));
}

bool TakenTokens::Knows(const std::string& owner) {
  const std::lock_guard lock(mutex_);
  const auto at = until_.find(owner);
  return at != until_.end() && clock_.Monotonic() < at->second;
}

void TakenTokens::Keep(const Caller& caller) {
  Duration life = kLife;
  if (caller.expires_at) life = std::min<Duration>(life, *caller.expires_at - clock_.Now());
  if (life <= Duration::zero()) return;
  const Duration now = clock_.Monotonic();
  const std::lock_guard lock(mutex_);
  if (until_.size() >= kKept) {
    std::erase_if(until_, [now](const auto& known) { return known.second <= now; });
  }
  if (until_.size() >= kKept)
    until_.erase(std::ranges::min_element(until_, {}, [](const auto& k) { return k.second; }));
  until_[caller.owner] = now + life;
}

}  // namespace lithify::serve
