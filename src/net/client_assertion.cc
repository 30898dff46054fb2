#include "net/client_assertion.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "net/http.h"

namespace lithify::net {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRsaBitsMin = 2048;  // [RFC 7518, 3.3].
constexpr int kP256Bytes = 32;     // Of each half of a signature [RFC 7518, 3.4].

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::unexpected<Error> Bad(std::string message, std::string hint = {}) {
  return Fail(Code::kInvalid, std::move(message), {}, std::move(hint));
}

// Without asking for a password on the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

Result<Owned<EVP_PKEY>> ParseKey(const Secret& pem) {
  const std::string& text = pem.Reveal();
  const Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  LITHIFY_CHECK(bio != nullptr, "OpenSSL has no memory");
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();  // Of this thread: the next TLS connection would stumble over it.
  if (key) return key;
  return Bad("no private key in PEM, or one with a password",
             "make one with: openssl genpkey -algorithm rsa -pkeyopt rsa_keygen_bits:3072");
}

bool IsP256(const EVP_PKEY* key) {
  std::array<char, 64> name{};
  size_t size = 0;
  const bool named = EVP_PKEY_get_group_name(key, name.data(), name.size(), &size) == 1;
  ERR_clear_error();
  return named && std::string_view(name.data(), size) == "prime256v1";
}

// The algorithm that is asked for, or the key's own.
Result<std::string> AlgorithmFor(const EVP_PKEY* key, const std::string& asked) {
  const int type = EVP_PKEY_get_base_id(key);
  const bool rsa = type == EVP_PKEY_RSA;
  const bool pss = type == EVP_PKEY_RSA_PSS;
  const bool ec = type == EVP_PKEY_EC;
  if (!rsa && !pss && !ec) return Bad("the key is neither RSA nor EC");
  if ((rsa || pss) && EVP_PKEY_get_bits(key) < kRsaBitsMin) {
    return Bad("the RSA key has less than " + std::to_string(kRsaBitsMin) + " bits");
  }
  if (ec && !IsP256(key)) return Bad("the EC key is not of the curve P-256");
  if (asked.empty()) return std::string(rsa ? "RS256" : pss ? "PS256" : "ES256");
  const bool fits =
      (asked == "RS256" && rsa) || (asked == "PS256" && (rsa || pss)) || (asked == "ES256" && ec);
  if (fits) return asked;
  return Bad("the key cannot sign with \"" + asked + "\"",
             "RSA keys sign with RS256 and PS256, EC keys with ES256");
}

// DER, as OpenSSL makes it, to both numbers one after the other [RFC 7518, 3.4].
std::string RawEcdsa(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const Owned<ECDSA_SIG> signature(
      d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));  // NOLINT(google-runtime-int)
  LITHIFY_CHECK(signature != nullptr, "OpenSSL cannot read its own signature");
  std::string raw(2 * kP256Bytes, '\0');
  auto* out = reinterpret_cast<unsigned char*>(raw.data());
  const bool fits =
      BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, kP256Bytes) == kP256Bytes &&
      BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + kP256Bytes, kP256Bytes) == kP256Bytes;
  LITHIFY_CHECK(fits, "a signature is larger than its curve");
  return raw;
}

Result<std::string> Sign(EVP_PKEY* key, const std::string& algorithm, const std::string& text) {
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  LITHIFY_CHECK(context != nullptr, "OpenSSL has no memory");
  EVP_PKEY_CTX* options = nullptr;
  bool good = EVP_DigestSignInit(context.get(), &options, EVP_sha256(), nullptr, key) == 1;
  if (good && algorithm == "PS256") {
    good = EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1;
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  good = good && EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1;
  std::string signature(size, '\0');
  good = good && EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                                &size, bytes, text.size()) == 1;
  ERR_clear_error();
  if (!good) return Bad("the key cannot sign with \"" + algorithm + "\"");
  signature.resize(size);
  return algorithm == "ES256" ? RawEcdsa(signature) : signature;
}

}  // namespace

Result<Secret> SignClientAssertion(const ClientKey& key, const std::string& client_id,
                                   const std::string& audience, const Clock& clock,
                                   Random& random) {
  LITHIFY_TRY_ASSIGN(const Owned<EVP_PKEY> pkey, ParseKey(key.pem));
  LITHIFY_TRY_ASSIGN(const std::string algorithm, AlgorithmFor(pkey.get(), key.algorithm));
  Json header = {{"alg", algorithm}, {"typ", "JWT"}};
  if (!key.key_id.empty()) header["kid"] = key.key_id;
  const auto seconds_of = [](Time time) {
    return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  };
  const Time now = clock.Now();
  const Json claims = {{"iss", client_id},       {"sub", client_id},
                       {"aud", audience},        {"jti", MakeUuidV7(clock, random)},
                       {"iat", seconds_of(now)}, {"exp", seconds_of(now + kClientAssertionLife)}};
  // Texts of the configuration may be no UTF-8.
  const auto write = [](const Json& json) {
    return EncodeBase64Url(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  std::string text = write(header) + "." + write(claims);
  LITHIFY_TRY_ASSIGN(const std::string signature, Sign(pkey.get(), algorithm, text));
  text += "." + EncodeBase64Url(signature);
  Secret assertion(text);
  Wipe(text);
  return assertion;
}

}  // namespace lithify::net
