// Key pairs of a client that signs who it is, of OpenSSL's own making, for tests.
#ifndef LITHIFY_NET_CLIENT_KEY_PAIR_H_
#define LITHIFY_NET_CLIENT_KEY_PAIR_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "net/http.h"

namespace lithify::net {

class ClientKeyPair {
 public:
  // EVP_RSA_gen(2048), EVP_EC_gen("P-256").
  explicit ClientKeyPair(EVP_PKEY* made) : key_(made, EVP_PKEY_free) {}

  bool ec() const { return EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_EC; }

  // The private half.
  Secret Pem(const char* password = nullptr) const {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), password ? EVP_aes_128_cbc() : nullptr,
                                  password, password ? 4 : 0, nullptr, nullptr);
    char* bytes = nullptr;
    const auto size = BIO_get_mem_data(bio.get(), &bytes);
    return Secret(std::string_view(bytes, static_cast<size_t>(size)));
  }

  // The public half, as a member of a JWK set; `more` goes into it: R"(,"kid":"1")".
  std::string PublicJson(const std::string& more = "") const {
    if (ec()) {
      const auto padded = [&](const char* name) {
        std::string bytes = Number(name);
        return EncodeBase64Url(std::string(32 - bytes.size(), '\0') + bytes);
      };
      return R"({"kty":"EC","crv":"P-256","x":")" + padded("qx") + R"(","y":")" + padded("qy") +
             "\"" + more + "}";
    }
    return R"({"kty":"RSA","n":")" + EncodeBase64Url(Number("n")) + R"(","e":")" +
           EncodeBase64Url(Number("e")) + "\"" + more + "}";
  }

 private:
  std::string Number(const char* name) const {
    BIGNUM* number = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), name, &number);
    std::string bytes(static_cast<size_t>(BN_num_bytes(number)), '\0');
    BN_bn2bin(number, reinterpret_cast<unsigned char*>(bytes.data()));
    BN_free(number);
    return bytes;
  }

  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

}  // namespace lithify::net

#endif  // LITHIFY_NET_CLIENT_KEY_PAIR_H_
