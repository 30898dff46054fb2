#include "serve/keyed_hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstdint>

#include "net/sigv4.h"

namespace lithify::serve {
namespace {

std::string RandomBytes(Random& random, int words) {
  std::string out;
  for (int i = 0; i < words; ++i) {
    const uint64_t word = random.Next();
    for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(word >> shift & 0xff);
  }
  return out;
}

}  // namespace

KeyedHash::KeyedHash(Random& random) {
  std::string key = RandomBytes(random, 4);
  key_ = Secret(key);
  Wipe(key);
}

std::string KeyedHash::Of(std::string_view text) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  const std::string& key = key_.Reveal();
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes.data(), &size);
  LITHIFY_CHECK(made != nullptr && size == 32, "no HMAC: nothing could be told apart");
  return net::Hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), size));
}

bool SameText(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string MakeRandomId(Random& random) { return net::Hex(RandomBytes(random, 2)); }

}  // namespace lithify::serve
