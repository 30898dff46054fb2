#include "net/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace lithify::net {
namespace {

std::string Hmac(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &length);
  return std::string(reinterpret_cast<const char*>(digest), length);
}

// nullopt: OpenSSL may not do that one (FIPS).
std::optional<std::string> DigestOf(std::string_view bytes, const EVP_MD* kind) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, kind, nullptr) != 1) {
    return std::nullopt;
  }
  return std::string(reinterpret_cast<const char*>(digest), length);
}

// A header's value as it is signed: runs of spaces are one.
std::string Folded(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c;
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// "20130524T000000Z".
std::string BasicTime(Time now) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts));
}

}  // namespace

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::string Sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr);
  return std::string(reinterpret_cast<const char*>(digest), length);
}

std::string Sha256Hex(std::string_view bytes) { return Hex(Sha256(bytes)); }

std::optional<std::string> Sha1Hex(std::string_view bytes) {
  const auto digest = DigestOf(bytes, EVP_sha1());
  return digest ? std::optional(Hex(*digest)) : std::nullopt;
}

std::optional<std::string> ContentMd5(std::string_view bytes) {
  const auto digest = DigestOf(bytes, EVP_md5());
  return digest ? std::optional(EncodeBase64(*digest)) : std::nullopt;
}

std::string QueryString(std::vector<std::pair<std::string, std::string>> query) {
  // Sorted as encoded: that is another order than that of the names themselves.
  for (auto& [name, value] : query) {
    name = PercentEncode(name);
    value = PercentEncode(value);
  }
  std::ranges::sort(query);
  std::string out;
  for (const auto& [name, value] : query) {
    if (!out.empty()) out += '&';
    out += name + '=' + value;
  }
  return out;
}

SigV4Signed SignV4(const SigV4Request& request, const AwsCredentials& credentials,
                   const SigV4Scope& scope, Time now) {
  const std::string time = BasicTime(now);
  const std::string day = time.substr(0, 8);
  SigV4Signed out;
  out.headers = request.headers;
  out.headers.emplace_back("x-amz-date", time);
  out.headers.emplace_back("x-amz-content-sha256", request.payload_sha256);
  if (!credentials.session_token.empty()) {
    out.headers.emplace_back("x-amz-security-token", credentials.session_token.Reveal());
  }

  auto all = out.headers;
  all.emplace_back("host", request.host);
  std::ranges::sort(all);
  std::string names;
  std::string lines;
  for (const auto& [name, value] : all) {
    names += (names.empty() ? "" : ";") + name;
    lines += name + ':' + Folded(value) + '\n';
  }
  const std::string canonical = std::string(MethodName(request.method)) + '\n' + request.path +
                                '\n' + QueryString(request.query) + '\n' + lines + '\n' + names +
                                '\n' + request.payload_sha256;
  const std::string within = day + '/' + scope.region + '/' + scope.service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + time + '\n' + within + '\n' + Sha256Hex(canonical);
  std::string key = Hmac("AWS4" + credentials.secret_access_key.Reveal(), day);
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view("aws4_request")}) {
    key = Hmac(key, part);
  }
  out.authorization =
      Secret("AWS4-HMAC-SHA256 Credential=" + credentials.access_key_id + '/' + within +
             ",SignedHeaders=" + names + ",Signature=" + Hex(Hmac(key, to_sign)));
  return out;
}

}  // namespace lithify::net
