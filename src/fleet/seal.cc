#include "fleet/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "net/sigv4.h"

namespace lithify::fleet {
namespace {

constexpr size_t kSealDigits = 64;
constexpr size_t kNonceDigits = 32;
constexpr size_t kWorkerBytesMax = 256;
constexpr std::string_view kRequest = "lithify fleet 1 request";
constexpr std::string_view kFrame = "lithify fleet 1 frame";
constexpr std::string_view kHelloLabel = "lithify fleet 1 hello";
constexpr const char* kHeaders[] = {"x-lithify-worker", "x-lithify-issued-at",
                                    "x-lithify-expires-at", "x-lithify-nonce",
                                    "x-lithify-signature"};

int64_t Millis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}
int64_t Millis(Time t) { return Millis(t.time_since_epoch()); }

void Append(std::string& out, std::string_view field) {
  const uint64_t size = field.size();
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xff);
  out += field;
}

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// A whole number without a sign, of one spelling.
bool ReadNumber(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0 &&
         std::to_string(out) == text;
}

std::vector<std::string_view> Fields(const RequestSeal& seal, const std::string& issued,
                                     const std::string& expires, std::string_view action,
                                     std::string_view body) {
  return {action, seal.worker, issued, expires, seal.nonce, body};
}

}  // namespace

Result<FleetKey> FleetKey::Make(Secret secret, bool unsecured) {
  if (secret.empty() && unsecured) return FleetKey(std::move(secret));
  if (secret.Reveal().size() < kSecretBytesMin) {
    return Fail(Code::kInvalid,
                secret.empty()
                    ? "there is no secret"
                    : "the secret has fewer than " + std::to_string(kSecretBytesMin) + " bytes",
                "the fleet's secret", "make one with: openssl rand -hex 32");
  }
  return FleetKey(std::move(secret));
}

std::string FleetKey::Seal(std::string_view label,
                           const std::vector<std::string_view>& fields) const {
  std::string text;
  Append(text, label);
  for (const std::string_view field : fields) Append(text, field);
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  const std::string& key = secret_.Reveal();
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &size);
  LITHIFY_CHECK(made != nullptr && size == 32, "no HMAC: nobody could be told apart");
  Wipe(text);  // A body has keys in it.
  return net::Hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), size));
}

bool FleetKey::Fits(std::string_view seal, std::string_view label,
                    const std::vector<std::string_view>& fields) const {
  const std::string right = Seal(label, fields);
  return seal.size() == right.size() && CRYPTO_memcmp(seal.data(), right.data(), right.size()) == 0;
}

std::vector<std::pair<std::string, std::string>> RequestSeal::Headers() const {
  return {{kHeaders[0], worker},
          {kHeaders[1], std::to_string(issued_at_ms)},
          {kHeaders[2], std::to_string(expires_at_ms)},
          {kHeaders[3], nonce},
          {kHeaders[4], signature}};
}

Result<RequestSeal> RequestSeal::OfHeaders(
    const std::multimap<std::string_view, std::string_view>& all) {
  std::array<std::string_view, 5> values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (all.count(kHeaders[i]) != 1) {
      return Fail(Code::kDenied,
                  "the request is not signed: not one header " + std::string(kHeaders[i]));
    }
    values[i] = all.find(kHeaders[i])->second;
  }
  RequestSeal seal;
  seal.worker = values[0].substr(0, kWorkerBytesMax);
  seal.nonce = values[3];
  seal.signature = values[4];
  if (!ReadNumber(values[1], seal.issued_at_ms) || !ReadNumber(values[2], seal.expires_at_ms) ||
      values[0].size() > kWorkerBytesMax || !IsNonce(values[3]) || !IsHex(values[4], kSealDigits)) {
    return Fail(Code::kDenied, "the request is not signed: a header is of no such form");
  }
  return seal;
}

RequestSeal SealRequest(const FleetKey& key, std::string_view worker, std::string_view action,
                        std::string_view body, Time now, Random& random) {
  RequestSeal seal;
  seal.worker = worker;
  seal.issued_at_ms = Millis(now);
  seal.expires_at_ms = seal.issued_at_ms + Millis(kRequestLife);
  seal.nonce = MakeNonce(random);
  const std::string issued = std::to_string(seal.issued_at_ms);
  const std::string expires = std::to_string(seal.expires_at_ms);
  seal.signature = key.Seal(kRequest, Fields(seal, issued, expires, action, body));
  return seal;
}

RequestGuard::RequestGuard(FleetKey key, std::string worker, const Clock& clock, size_t nonces_max)
    : key_(std::move(key)), worker_(std::move(worker)), clock_(clock), nonces_max_(nonces_max) {}

Status RequestGuard::CheckTimes(const RequestSeal& seal, int64_t now_ms) const {
  const int64_t skew = Millis(kClockSkew);
  // Both are not negative: no difference overflows.
  if (seal.expires_at_ms < seal.issued_at_ms ||
      seal.expires_at_ms - seal.issued_at_ms > Millis(kRequestLife)) {
    return Fail(Code::kDenied, "the request is signed for longer than is allowed");
  }
  if (seal.issued_at_ms - now_ms > skew) {
    return Fail(Code::kDenied,
                "the request was signed " + std::to_string((seal.issued_at_ms - now_ms) / 1000) +
                    " s in the future",
                {}, "set both clocks");
  }
  if (now_ms - seal.expires_at_ms > skew) {
    return Fail(Code::kDenied,
                "the request is out of date since " +
                    std::to_string((now_ms - seal.expires_at_ms) / 1000) + " s",
                {}, "set both clocks");
  }
  return {};
}

Status RequestGuard::Admit(const RequestSeal& seal, std::string_view action,
                           std::string_view body) {
  const std::string issued = std::to_string(seal.issued_at_ms);
  const std::string expires = std::to_string(seal.expires_at_ms);
  if (!key_.Fits(seal.signature, kRequest, Fields(seal, issued, expires, action, body))) {
    return Fail(Code::kDenied, "the signature is not right", {}, "give both sides the same secret");
  }
  // From here on it is somebody who knows the secret.
  if (seal.worker != worker_) {
    return Fail(Code::kTransient,
                "the request is for worker " + seal.worker + ", and this is " + worker_);
  }
  const int64_t now = Millis(clock_.Now());
  LITHIFY_TRY(CheckTimes(seal, now));
  const std::lock_guard lock(mutex_);
  // Strictly: at this very time it could still be used.
  while (!until_.empty() && until_.begin()->first < now) {
    seen_.erase(until_.begin()->second);
    until_.erase(until_.begin());
  }
  if (seen_.contains(seal.nonce)) return Fail(Code::kDenied, "the request was seen already");
  if (seen_.size() >= nonces_max_) {
    return Fail(Code::kLimit, "too many requests in one minute");
  }
  seen_.insert(seal.nonce);
  until_.emplace(seal.expires_at_ms + Millis(kClockSkew), seal.nonce);
  return {};
}

std::string SealFrame(const FleetKey& key, std::string_view request_nonce, uint64_t index,
                      std::string_view body) {
  return key.Seal(kFrame, {request_nonce, std::to_string(index), body}) + std::string(body);
}

Result<std::string_view> OpenFrame(const FleetKey& key, std::string_view request_nonce,
                                   uint64_t index, std::string_view frame) {
  const std::string_view seal = frame.substr(0, kSealDigits);
  const std::string_view body = frame.substr(seal.size());
  if (key.Fits(seal, kFrame, {request_nonce, std::to_string(index), body})) return body;
  return Fail(Code::kDenied, "the worker's answer is not signed with the fleet's secret", {},
              "give both sides the same secret");
}

std::string EncodeHello(const FleetKey& key, std::string_view nonce, const Hello& hello) {
  const std::string now = std::to_string(hello.now_ms);
  return key.Seal(kHelloLabel, {nonce, now, hello.worker}) + now + " " + hello.worker;
}

Result<Hello> DecodeHello(const FleetKey& key, std::string_view nonce, std::string_view answer) {
  const std::string_view seal = answer.substr(0, kSealDigits);
  answer.remove_prefix(seal.size());
  const size_t space = std::min(answer.find(' '), answer.size());
  const std::string_view now = answer.substr(0, space);
  Hello hello;
  hello.worker = answer.substr(std::min(space + 1, answer.size()));
  if (!key.Fits(seal, kHelloLabel, {nonce, now, hello.worker})) {
    return Fail(Code::kDenied, "the worker does not know the fleet's secret", {},
                "give both sides the same secret");
  }
  constexpr int64_t kMillisMax = int64_t{1} << 50;
  if (!ReadNumber(now, hello.now_ms) || hello.now_ms > kMillisMax || hello.worker.empty() ||
      hello.worker.size() > kWorkerBytesMax) {
    return Fail(Code::kCorrupt, "the worker does not say who it is");
  }
  return hello;
}

std::string MakeNonce(Random& random) {
  std::string bytes;
  for (int i = 0; i < 2; ++i) {
    const uint64_t word = random.Next();
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(word >> shift & 0xff);
  }
  return net::Hex(bytes);
}

bool IsNonce(std::string_view text) { return IsHex(text, kNonceDigits); }

}  // namespace lithify::fleet
