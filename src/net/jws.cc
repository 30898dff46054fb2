#include "net/jws.h"

#include <cjose/cjose.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "net/http.h"

namespace lithify::net {
namespace {

constexpr size_t kRsaBitsMin = 2048;  // [RFC 7518, 3.3].
constexpr size_t kEd25519Bytes = 32;

struct Free {
  void operator()(cjose_jws_t* jws) const { cjose_jws_release(jws); }
  void operator()(cjose_jwk_t* jwk) const { cjose_jwk_release(jwk); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::unexpected<Error> Bad(std::string message) { return Fail(Code::kDenied, std::move(message)); }

std::unexpected<Error> WrongSignature() {
  return Bad("the signature is not made with the issuer's key");
}

// RSA and EC.
Result<std::string> VerifyWithCjose(std::string_view token, const JsonWebKey& key) {
  cjose_err error{};
  // A key of its own for each call: cjose's counts of references are not atomic.
  const Owned<cjose_jwk_t> jwk(cjose_jwk_import(key.json.data(), key.json.size(), &error));
  if (!jwk) return Bad("the issuer's key is damaged");
  if (key.type == "RSA" && cjose_jwk_get_keysize(jwk.get(), &error) < kRsaBitsMin) {
    return Bad("the issuer's RSA key has less than " + std::to_string(kRsaBitsMin) + " bits");
  }
  const Owned<cjose_jws_t> jws(cjose_jws_import(token.data(), token.size(), &error));
  if (!jws) return Bad("it is not a signed JWT");
  if (!cjose_jws_verify(jws.get(), jwk.get(), &error)) {
    ERR_clear_error();  // Of this thread: the next TLS connection would stumble over it.
    return WrongSignature();
  }
  uint8_t* bytes = nullptr;
  size_t size = 0;
  if (!cjose_jws_get_plaintext(jws.get(), &bytes, &size, &error)) {
    return Bad("it signs nothing");
  }
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

// Ed25519, which cjose does not know.
Result<std::string> VerifyEdDsa(std::string_view token, const JsonWebKey& key) {
  const auto raw = DecodeBase64Url(key.json);
  if (!raw || raw->size() != kEd25519Bytes) return Bad("the issuer's key is damaged");
  const Owned<EVP_PKEY> pkey(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(raw->data()), raw->size()));
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const auto parts = SplitJws(token);
  const auto signature = DecodeBase64Url((*parts)[2]);
  auto payload = DecodeBase64Url((*parts)[1]);
  if (!pkey || !context || !signature || !payload) return Bad("it is not a signed JWT");
  const size_t signed_bytes = token.rfind('.');
  const bool good =
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, pkey.get()) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature->data()),
                       signature->size(), reinterpret_cast<const unsigned char*>(token.data()),
                       signed_bytes) == 1;
  if (!good) {
    ERR_clear_error();
    return WrongSignature();
  }
  return std::move(*payload);
}

}  // namespace

std::optional<KeyKind> KindFor(std::string_view algorithm) {
  static constexpr std::array<std::string_view, 6> kRsa = {"RS256", "RS384", "RS512",
                                                           "PS256", "PS384", "PS512"};
  if (std::ranges::find(kRsa, algorithm) != kRsa.end()) return KeyKind{"RSA", ""};
  if (algorithm == "ES256") return KeyKind{"EC", "P-256"};
  if (algorithm == "ES384") return KeyKind{"EC", "P-384"};
  if (algorithm == "ES512") return KeyKind{"EC", "P-521"};
  if (algorithm == "EdDSA") return KeyKind{"OKP", "Ed25519"};
  return std::nullopt;
}

bool IsBase64Url(std::string_view text) {
  return !text.empty() && text.size() % 4 != 1 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

std::optional<std::array<std::string_view, 3>> SplitJws(std::string_view token) {
  const size_t first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::array<std::string_view, 3> parts = {token.substr(0, first),
                                                 token.substr(first + 1, second - first - 1),
                                                 token.substr(second + 1)};
  if (!std::ranges::all_of(parts, IsBase64Url)) return std::nullopt;
  return parts;
}

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  if (!IsBase64Url(text)) return std::nullopt;
  std::string standard(text);
  for (char& c : standard) c = c == '-' ? '+' : c == '_' ? '/' : c;
  standard.append((4 - standard.size() % 4) % 4, '=');
  return DecodeBase64(standard);
}

Result<std::string> VerifyJws(std::string_view token, const std::string& algorithm,
                              const JsonWebKey& key) {
  const auto kind = KindFor(algorithm);
  const bool fits = kind && key.type == kind->type &&
                    (kind->curve.empty() || key.curve == kind->curve) &&
                    (key.algorithm.empty() || key.algorithm == algorithm);
  if (!fits) return Bad("the issuer's key is not for the token's algorithm");
  return algorithm == "EdDSA" ? VerifyEdDsa(token, key) : VerifyWithCjose(token, key);
}

}  // namespace lithify::net
