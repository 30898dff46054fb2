// Key pairs that sign tokens as an issuer does, for tests.
#ifndef LITHIFY_NET_JWT_SIGNED_H_
#define LITHIFY_NET_JWT_SIGNED_H_

#include <cjose/cjose.h>
#include <openssl/evp.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http.h"

namespace lithify::net {

// One key pair; `algorithm` says of what type.
class SigningKey {
 public:
  SigningKey(std::string id, std::string algorithm, size_t rsa_bits = 2048)
      : id_(std::move(id)), algorithm_(std::move(algorithm)) {
    cjose_err error{};
    if (algorithm_ == "EdDSA") {
      ed25519_ = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
      return;
    }
    if (algorithm_.starts_with("ES")) {
      const auto curve = algorithm_ == "ES256"   ? CJOSE_JWK_EC_P_256
                         : algorithm_ == "ES384" ? CJOSE_JWK_EC_P_384
                                                 : CJOSE_JWK_EC_P_521;
      jwk_ = cjose_jwk_create_EC_random(curve, &error);
    } else if (algorithm_.starts_with("HS")) {
      jwk_ = cjose_jwk_create_oct_random(512, &error);
    } else {
      static constexpr uint8_t kExponent[] = {1, 0, 1};
      jwk_ = cjose_jwk_create_RSA_random(rsa_bits, kExponent, sizeof(kExponent), &error);
    }
    cjose_jwk_set_kid(jwk_, id_.data(), id_.size(), &error);
  }
  ~SigningKey() {
    if (jwk_ != nullptr) cjose_jwk_release(jwk_);
    EVP_PKEY_free(ed25519_);
  }
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;

  const std::string& id() const { return id_; }

  // The public half, as a member of a JWK set; `more` goes into it: R"(,"use":"sig")".
  std::string PublicJson(const std::string& more = "") const {
    if (ed25519_ != nullptr) {
      std::string raw(32, '\0');
      size_t size = raw.size();
      EVP_PKEY_get_raw_public_key(ed25519_, reinterpret_cast<unsigned char*>(raw.data()), &size);
      return R"({"kty":"OKP","crv":"Ed25519","kid":")" + id_ + R"(","x":")" + EncodeBase64Url(raw) +
             "\"" + more + "}";
    }
    cjose_err error{};
    char* json = cjose_jwk_to_json(jwk_, false, &error);
    std::string out(json);
    std::free(json);
    out.insert(out.size() - 1, more);
    return out;
  }

  // With the header that is usual; `type` empty: none.
  std::string Sign(const std::string& claims, const std::string& type = "JWT") const {
    std::vector<std::pair<std::string, std::string>> header = {{"alg", algorithm_}, {"kid", id_}};
    if (!type.empty()) header.emplace_back("typ", type);
    return SignWith(header, claims);
  }
  std::string SignWith(const std::vector<std::pair<std::string, std::string>>& header,
                       const std::string& claims) const {
    if (ed25519_ != nullptr) return SignEd25519(header, claims);
    cjose_err error{};
    cjose_header_t* fields = cjose_header_new(&error);
    for (const auto& [name, value] : header) {
      cjose_header_set(fields, name.c_str(), value.c_str(), &error);
    }
    cjose_jws_t* jws = cjose_jws_sign(jwk_, fields, reinterpret_cast<const uint8_t*>(claims.data()),
                                      claims.size(), &error);
    const char* text = nullptr;
    cjose_jws_export(jws, &text, &error);
    std::string out(text);
    cjose_jws_release(jws);
    cjose_header_release(fields);
    return out;
  }

 private:
  std::string SignEd25519(const std::vector<std::pair<std::string, std::string>>& header,
                          const std::string& claims) const {
    std::string json = "{";
    for (const auto& [name, value] : header) {
      json += (json.size() > 1 ? "," : "") + ("\"" + name + "\":\"" + value + "\"");
    }
    std::string text = EncodeBase64Url(json + "}") + "." + EncodeBase64Url(claims);
    std::string signature(64, '\0');
    size_t size = signature.size();
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, nullptr, nullptr, ed25519_);
    EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    EVP_MD_CTX_free(context);
    return text + "." + EncodeBase64Url(signature);
  }

  const std::string id_;
  const std::string algorithm_;
  cjose_jwk_t* jwk_ = nullptr;
  EVP_PKEY* ed25519_ = nullptr;
};

// The key sets that an issuer publishes.
inline std::string JwksOf(const std::vector<const SigningKey*>& keys,
                          const std::string& more = "") {
  std::string out = R"({"keys":[)";
  for (const SigningKey* key : keys) {
    out += (key == keys.front() ? "" : ",") + key->PublicJson(more);
  }
  return out + "]}";
}

}  // namespace lithify::net

#endif  // LITHIFY_NET_JWT_SIGNED_H_
