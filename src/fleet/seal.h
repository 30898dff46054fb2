// Who sends a request to a worker, and who answers it (R139, T29): HMAC-SHA256 with a secret that
// both share, over all that gives a message its meaning.
//
// A request is sealed for one worker in one life of it, one action, one body, a time and a nonce:
// it can be neither changed, nor sent elsewhere, nor sent again. Each frame of an answer is sealed
// for the request that it answers and its place among the frames. Nothing is decoded before its
// seal was compared, in a time that does not tell where they differ.
//
// What is sealed is a label and the fields, each with its length in front: no two messages have the
// same bytes.
#ifndef LITHIFY_FLEET_SEAL_H_
#define LITHIFY_FLEET_SEAL_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/secret.h"

namespace lithify::fleet {

inline constexpr size_t kSecretBytesMin = 32;
// For so long a request can be used, from when it was signed; more is not taken.
inline constexpr Duration kRequestLife = std::chrono::seconds(60);
// By so much the clocks of both sides may differ. A coordinator signs by the worker's clock, as
// that told it (Hello), so that this is for what happens between the two.
inline constexpr Duration kClockSkew = std::chrono::seconds(30);

// The secret of a fleet. Thread-safe: a plain value.
class FleetKey {
 public:
  // kInvalid: shorter than kSecretBytesMin bytes. An empty one is only taken with `unsecured`,
  // which is for a listener on loopback that was allowed to do without.
  static Result<FleetKey> Make(Secret secret, bool unsecured);

  // 64 lower-case hexadecimal digits.
  std::string Seal(std::string_view label, const std::vector<std::string_view>& fields) const;
  // Whether `seal` is it.
  bool Fits(std::string_view seal, std::string_view label,
            const std::vector<std::string_view>& fields) const;

 private:
  explicit FleetKey(Secret secret) : secret_(std::move(secret)) {}
  Secret secret_;
};

// What goes along with a body, as headers.
struct RequestSeal {
  std::string worker;  // Its id, of this life.
  int64_t issued_at_ms = 0;
  int64_t expires_at_ms = 0;
  std::string nonce;
  std::string signature;

  // Names in lower case: x-lithify-worker, -issued-at, -expires-at, -nonce and -signature.
  std::vector<std::pair<std::string, std::string>> Headers() const;
  // kDenied: one is missing or of no such form. `find` gives a header's value, or nothing.
  static Result<RequestSeal> OfHeaders(
      const std::multimap<std::string_view, std::string_view>& all);
};

// `now`: by the worker's clock.
RequestSeal SealRequest(const FleetKey& key, std::string_view worker, std::string_view action,
                        std::string_view body, Time now, Random& random);

// The worker's side: takes each sealed request once. Thread-safe.
class RequestGuard {
 public:
  // `worker`: the id of this life. `clock` outlives it. At most `nonces_max` are remembered, each
  // for as long as it can be used: beyond them requests are refused, not forgotten.
  RequestGuard(FleetKey key, std::string worker, const Clock& clock, size_t nonces_max = 100'000);

  // kDenied: not sealed by who knows the secret, too old or from the future, or seen already.
  // kTransient: it is for another worker, or for another life of this one: ask who it is, and
  // again. kLimit: too many requests at once.
  Status Admit(const RequestSeal& seal, std::string_view action, std::string_view body);

 private:
  Status CheckTimes(const RequestSeal& seal, int64_t now_ms) const;

  const FleetKey key_;
  const std::string worker_;
  const Clock& clock_;
  const size_t nonces_max_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> seen_;
  std::multimap<int64_t, std::string> until_;  // The same, by when they can be forgotten.
};

// A frame's bytes with its seal in front. `index`: 0 for the first.
std::string SealFrame(const FleetKey& key, std::string_view request_nonce, uint64_t index,
                      std::string_view body);
// The body. kDenied: not sealed by who knows the secret for this place of this answer.
Result<std::string_view> OpenFrame(const FleetKey& key, std::string_view request_nonce,
                                   uint64_t index, std::string_view frame);

// Who a worker is, asked with a nonce and told without a signature on the request: so that keys are
// sent to nobody who does not know the secret. Sealed as frame 0 of that nonce.
struct Hello {
  std::string worker;
  int64_t now_ms = 0;  // By its clock.
};
std::string EncodeHello(const FleetKey& key, std::string_view nonce, const Hello& hello);
Result<Hello> DecodeHello(const FleetKey& key, std::string_view nonce, std::string_view answer);

// 32 hexadecimal digits.
std::string MakeNonce(Random& random);
bool IsNonce(std::string_view text);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_SEAL_H_
