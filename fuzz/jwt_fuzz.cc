// Tokens that callers send, and what an issuer publishes. The first byte says what the rest is: a
// token; claims, which are then signed as they are; a header, claims and a signature with a NUL
// between them; a set of keys.
#include <algorithm>
#include <chrono>

#include "fuzz_input.h"
#include "net/jwt.h"
#include "net/jwt_signed.h"

namespace lithify::fuzz {
namespace {

using net::JsonWebKey;

constexpr Time kNow{std::chrono::seconds(1'800'000'000)};

class FixedKeys final : public net::KeySource {
 public:
  explicit FixedKeys(std::vector<JsonWebKey> keys) : keys_(std::move(keys)) {}
  Result<JsonWebKey> Find(const std::string& id, const std::string& algorithm) override {
    return net::ChooseKey(keys_, id, algorithm);
  }

 private:
  const std::vector<JsonWebKey> keys_;
};

const net::SigningKey& Key() {
  static const net::SigningKey key("k", "EdDSA");
  return key;
}

// What the issuer publishes: one key for each of the libraries and ways.
std::vector<JsonWebKey> Published() {
  static const net::SigningKey rsa("r", "RS256");
  static const net::SigningKey ec("e", "ES256");
  return Must(net::ParseJwks(net::JwksOf({&Key(), &rsa, &ec})), "our keys");
}

bool IsPlain(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Returns whether it was taken.
bool Verify(const std::string& token, net::KeySource& keys) {
  net::JwtRules rules;
  rules.roles_claim = "realm_access.roles";
  rules.groups_claim = "a.b.c";
  const auto claims = net::VerifyJwt(token, keys, rules, kNow);
  if (!claims) {
    Require(claims.error().code == Code::kDenied, claims.error().ToString());
    Require(token.size() < 64 || claims.error().ToString().find(token) == std::string::npos,
            "no error has the token");
    return false;
  }
  Require(!claims->subject.empty() && IsPlain(claims->subject) && IsPlain(claims->username),
          "a caller has a plain name");
  Require(claims->expires_at + rules.leeway > kNow, "a good token has not ended");
  for (const std::string& role : claims->roles) Require(IsPlain(role), "a plain role");
  Require(net::LooksLikeJwt(token), "a good token looks like one");
  Require(net::UnverifiedJwtExpiry(token) == claims->expires_at, "its end is read as it is");
  return true;
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace net = lithify::net;
  namespace fuzz = lithify::fuzz;
  using fuzz::Require;
  fuzz::Taker taker(fuzz::Text(data, size));
  const int kind = taker.Byte() % 4;
  static fuzz::FixedKeys keys(fuzz::Published());
  if (kind == 0) {
    const std::string token(taker.Bytes(size));
    (void)net::UnverifiedJwtExpiry(token);
    Require(!fuzz::Verify(token, keys), "nobody can sign with our key");
  } else if (kind == 1) {
    (void)fuzz::Verify(fuzz::Key().Sign(std::string(taker.Bytes(size))), keys);
  } else if (kind == 2) {
    const std::string header(taker.Until('\0'));
    const std::string claims(taker.Until('\0'));
    const std::string token = net::EncodeBase64Url(header) + "." + net::EncodeBase64Url(claims) +
                              "." + net::EncodeBase64Url(taker.Bytes(size));
    (void)net::UnverifiedJwtExpiry(token);
    Require(!fuzz::Verify(token, keys), "nothing is signed by that");
  } else {
    auto published = net::ParseJwks(taker.Bytes(size));
    if (!fuzz::Gave(published)) return 0;
    for (const auto& key : *published) {
      Require(key.type == "RSA" || key.type == "EC" || key.type == "OKP", "a key pair's type");
    }
    fuzz::FixedKeys theirs(std::move(*published));
    for (const char* algorithm : {"RS256", "ES256", "EdDSA"}) {
      const std::string header = R"({"alg":")" + std::string(algorithm) + "\"}";
      const std::string token = net::EncodeBase64Url(header) + "." +
                                net::EncodeBase64Url(R"({"sub":"x","exp":1900000000})") + "." +
                                net::EncodeBase64Url(std::string(64, 'x'));
      (void)fuzz::Verify(token, theirs);
    }
  }
  return 0;
}
