#include "storage/s3_sso.h"

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "net/sigv4.h"
#include "storage/amazon_endpoint.h"

namespace lithify::storage {
namespace {

using net::HttpRequest;
using net::HttpResponse;
using nlohmann::json;

const net::HttpLimits kLimits(std::chrono::seconds(5), std::chrono::seconds(10), 256 * kKiB);

// What is needed, from the profile and the session that it names.
struct SignOn {
  std::string account;
  std::string role;
  std::string region;
  std::string start_url;
  std::string cached_as;  // What the file of the token is named after.
};

Result<SignOn> SignOnOf(const S3Profiles& profiles, const std::string& name) {
  const S3Section& profile = *profiles.Find(name);
  const std::string where = "profile " + name;
  SignOn sign_on{.account = profile.Value("sso_account_id"),
                 .role = profile.Value("sso_role_name"),
                 .region = profile.Value("sso_region"),
                 .start_url = profile.Value("sso_start_url"),
                 .cached_as = {}};
  const std::string session_name = profile.Value("sso_session");
  if (!session_name.empty()) {
    const S3Section* session = profiles.FindSsoSession(session_name);
    if (session == nullptr) {
      return Fail(Code::kInvalid, "there is no [sso-session " + session_name + "]", where,
                  "sso_session names it");
    }
    // What both say has to be the same.
    for (const auto& [key, value] : {std::pair("sso_region", &sign_on.region),
                                     std::pair("sso_start_url", &sign_on.start_url)}) {
      const std::string of_session = session->Value(key);
      if (!value->empty() && *value != of_session) {
        return Fail(
            Code::kInvalid,
            std::string(key) + " is another one than that of [sso-session " + session_name + "]",
            where);
      }
      *value = of_session;
    }
  }
  sign_on.cached_as = session_name.empty() ? sign_on.start_url : session_name;
  for (const auto& [key, value] :
       {std::pair("sso_account_id", &sign_on.account), std::pair("sso_role_name", &sign_on.role),
        std::pair("sso_region", &sign_on.region), std::pair("sso_start_url", &sign_on.start_url)}) {
    if (value->empty()) return Fail(Code::kInvalid, std::string(key) + " is missing", where);
  }
  if (Status good = CheckRegion(sign_on.region, "sso_region"); !good) {
    return Fail(std::move(good.error()).In(where));
  }
  return sign_on;
}

std::unexpected<Error> SignOnAgain(const std::string& name, std::string why) {
  return Fail(Code::kDenied, std::move(why), "profile " + name,
              "run: aws sso login" + (name == "default" ? "" : " --profile " + name));
}

// What `aws sso login` has left.
Result<Secret> CachedToken(const SignOn& sign_on, const std::string& name,
                           const S3Surroundings& around, const Clock& clock) {
  const auto hash = net::Sha1Hex(sign_on.cached_as);
  if (!hash) return Fail(Code::kUnsupported, "SHA-1 is not to be had here", "profile " + name);
  const std::string path = around.Variable("HOME") + "/.aws/sso/cache/" + *hash + ".json";
  auto file = around.read_file(path);
  if (!file && file.error().code == Code::kNotFound) {
    return SignOnAgain(name, "nobody has signed on");
  }
  if (!file) return Fail(std::move(file.error()));
  const json parsed = json::parse(*file, nullptr, false);
  Wipe(*file);
  const auto word = [&](const char* key) {
    return parsed.is_object() && parsed.contains(key) && parsed[key].is_string()
               ? parsed[key].get<std::string>()
               : std::string();
  };
  const auto expires = ParseExpiration(word("expiresAt"));
  Secret token(word("accessToken"));
  if (token.empty() || !expires) {
    return SignOnAgain(name, "the cached token of the sign-on is damaged");
  }
  if (*expires <= clock.Now()) return SignOnAgain(name, "the sign-on has run out");
  return token;
}

// Where the token may be sent to.
Result<std::string> PortalOf(const SignOn& sign_on, const std::string& endpoint) {
  if (endpoint.empty()) return AmazonEndpoint("portal.sso", sign_on.region);
  auto origin = net::UrlOrigin(endpoint);
  if (!origin) return Fail(std::move(origin.error()).In("the endpoint of SSO"));
  const bool near = origin->starts_with("http://127.0.0.1:") ||
                    origin->starts_with("http://localhost:") ||
                    origin->starts_with("http://[::1]:");
  if (!near && !origin->starts_with("https://")) {
    return Fail(Code::kInvalid, "the token of a sign-on does not travel over plain http",
                "the endpoint of SSO", "use https");
  }
  if (endpoint.find('?') != std::string::npos) {
    return Fail(Code::kInvalid, "the endpoint of SSO has a query", net::UrlForMessages(endpoint));
  }
  std::string base = endpoint;
  while (base.ends_with('/')) base.pop_back();
  return base;
}

// {"roleCredentials": {"accessKeyId": …, "expiration": milliseconds}}.
Result<LeasedCredentials> LeaseOfAnswer(const std::string& body, const std::string& where) {
  const json parsed = json::parse(body, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("roleCredentials") ||
      !parsed["roleCredentials"].is_object()) {
    return Fail(Code::kCorrupt, "the answer has no credentials", where);
  }
  const json& made = parsed["roleCredentials"];
  const auto word = [&](const char* key) {
    return made.contains(key) && made[key].is_string() ? made[key].get<std::string>()
                                                       : std::string();
  };
  LITHIFY_TRY_ASSIGN(
      LeasedCredentials lease,
      LeaseOf({word("accessKeyId"), word("secretAccessKey"), word("sessionToken"), {}}, where));
  constexpr int64_t kMillisMax = int64_t{1} << 50;  // 37,000 years: no product overflows.
  const json expires = made.value("expiration", json());
  if (!expires.is_number_integer() || expires.get<int64_t>() <= 0 ||
      expires.get<int64_t>() > kMillisMax) {
    return Fail(Code::kCorrupt, "the time of expiration is no time", where);
  }
  lease.expires = Time(std::chrono::milliseconds(expires.get<int64_t>()));
  return lease;
}

}  // namespace

bool SignsOn(const S3Section& profile) {
  for (const char* key : {"sso_account_id", "sso_role_name", "sso_session", "sso_start_url"}) {
    if (!profile.Value(key).empty()) return true;
  }
  return false;
}

Result<LeasedCredentials> SsoCredentials(const S3Profiles& profiles, const std::string& name,
                                         const std::string& endpoint, const S3Surroundings& around,
                                         net::HttpClient& http, const Clock& clock) {
  LITHIFY_TRY_ASSIGN(const SignOn sign_on, SignOnOf(profiles, name));
  LITHIFY_TRY_ASSIGN(const std::string portal, PortalOf(sign_on, endpoint));
  LITHIFY_TRY_ASSIGN(const Secret token, CachedToken(sign_on, name, around, clock));
  HttpRequest request;
  request.url = portal + "/federation/credentials?" +
                net::QueryString({{"account_id", sign_on.account}, {"role_name", sign_on.role}});
  request.headers = {{"x-amz-sso_bearer_token", token.Reveal()}};
  const std::string where = "GET " + net::UrlForMessages(request.url);
  auto response = http.Send(request, kLimits);
  Wipe(request.headers.front().second);
  if (!response) {
    if (response.error().code == Code::kUnknownOutcome) response.error().code = Code::kTransient;
    return Fail(std::move(response.error()));
  }
  if (response->status == 401) return SignOnAgain(name, "the sign-on is not valid any more");
  if (response->status != 200) {
    return Fail(RefusalOf(*response, where).Hint("check sso_account_id and sso_role_name"));
  }
  auto lease = LeaseOfAnswer(response->body, where);
  Wipe(response->body);
  return lease;
}

}  // namespace lithify::storage
