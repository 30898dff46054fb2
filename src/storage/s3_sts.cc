#include "storage/s3_sts.h"

#include <charconv>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "storage/amazon_endpoint.h"
#include "storage/store.h"
#include "storage/xml.h"

namespace lithify::storage {
namespace {

using net::HttpRequest;
using net::HttpResponse;
using Fields = std::vector<std::pair<std::string, std::string>>;

const net::HttpLimits kLimits(std::chrono::seconds(5), std::chrono::seconds(10), kMiB);

struct Endpoint {
  std::string origin;
  std::string host;
  std::string path;
};

Result<Endpoint> EndpointOf(const StsPlace& sts) {
  LITHIFY_TRY(CheckRegion(sts.region, "region"));
  const std::string url = sts.endpoint.empty() ? AmazonEndpoint("sts", sts.region) : sts.endpoint;
  auto origin = net::UrlOrigin(url);
  if (!origin) return Fail(std::move(origin.error()).In("the endpoint of STS"));
  Endpoint endpoint{*origin, origin->substr(origin->find("://") + 3), "/"};
  const size_t path = url.find_first_of("/?", url.find("://") + 3);
  if (path != std::string::npos) endpoint.path = url.substr(path);
  if (endpoint.path.find('?') != std::string::npos) {
    return Fail(Code::kInvalid, "the endpoint of STS has a query", net::UrlForMessages(url));
  }
  return endpoint;
}

Fields FieldsOf(const char* action, const RoleRequest& role) {
  return {{"Action", action},
          {"Version", "2011-06-15"},
          {"RoleArn", role.role_arn},
          {"RoleSessionName", role.role_session_name.empty() ? "lithify" : role.role_session_name}};
}

HttpRequest PostOf(const Endpoint& endpoint, Fields fields) {
  HttpRequest request;
  request.method = net::HttpMethod::kPost;
  request.url = endpoint.origin + endpoint.path;
  request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
  request.body = net::EncodeForm(fields);
  for (auto& [name, value] : fields) Wipe(value);
  return request;
}

// "<ActionResponse><ActionResult><Credentials>".
Result<LeasedCredentials> LeaseOfXml(HttpResponse response, const std::string& action,
                                     const std::string& where) {
  auto root = ParseXml(response.body);
  Wipe(response.body);
  if (!root) return Fail(std::move(root.error()).In(where));
  const XmlElement* result = root->Find(action + "Result");
  const XmlElement* made = result == nullptr ? nullptr : result->Find("Credentials");
  if (made == nullptr) return Fail(Code::kCorrupt, "the answer has no credentials", where);
  const auto text = [&](const char* name) { return TrimmedText(made->Text(name)); };
  return LeaseOf(
      {text("AccessKeyId"), text("SecretAccessKey"), text("SessionToken"), text("Expiration")},
      where);
}

Status CheckDuration(const std::string& seconds) {
  if (seconds.empty()) return {};
  int64_t number = 0;
  const char* const last = seconds.data() + seconds.size();
  const auto [end, error] = std::from_chars(seconds.data(), last, number);
  if (error == std::errc() && end == last && number >= 900 && number <= 43'200) return {};
  return Fail(Code::kInvalid, "\"" + seconds + "\" is no number from 900 to 43200",
              "duration_seconds");
}

}  // namespace

Result<LeasedCredentials> AssumeRole(const StsPlace& sts, const RoleRequest& role,
                                     const net::AwsCredentials& by) {
  LITHIFY_TRY(CheckDuration(role.duration_seconds));
  LITHIFY_TRY_ASSIGN(const Endpoint endpoint, EndpointOf(sts));
  Fields fields = FieldsOf("AssumeRole", role);
  if (!role.external_id.empty()) fields.emplace_back("ExternalId", role.external_id);
  if (!role.duration_seconds.empty()) fields.emplace_back("DurationSeconds", role.duration_seconds);
  const HttpRequest unsigned_request = PostOf(endpoint, std::move(fields));
  const std::string where = "AssumeRole " + net::UrlForMessages(unsigned_request.url);
  net::SigV4Request to_sign;
  to_sign.method = unsigned_request.method;
  to_sign.host = endpoint.host;
  to_sign.path = endpoint.path;
  to_sign.headers = unsigned_request.headers;
  to_sign.payload_sha256 = net::Sha256Hex(unsigned_request.body);
  Time now = sts.clock.Now();
  for (bool again = true;; again = false) {
    HttpRequest request = unsigned_request;
    net::SigV4Signed made = net::SignV4(to_sign, by, {sts.region, "sts"}, now);
    request.headers = std::move(made.headers);
    request.authorization = std::move(made.authorization);
    auto response = sts.http.Send(request, kLimits);
    if (!response) {
      // A session that nobody has heard of does no harm.
      if (response.error().code == Code::kUnknownOutcome) response.error().code = Code::kTransient;
      return Fail(std::move(response.error()).In("AssumeRole"));
    }
    if (response->status == 200) return LeaseOfXml(std::move(*response), "AssumeRole", where);
    // A clock that is wrong, as with S3 itself.
    const auto date = net::ParseHttpDate(response->Header("date").value_or(""));
    const bool refused = response->status == 400 || response->status == 403;
    if (!again || !refused || !date || std::chrono::abs(*date - now) <= kClockSkewMax) {
      return Fail(RefusalOf(*response, where).Hint("check the role and who may assume it"));
    }
    now = *date;
  }
}

Result<LeasedCredentials> AssumeRoleWithWebIdentity(const StsPlace& sts, const RoleRequest& role,
                                                    const Secret& token) {
  LITHIFY_TRY_ASSIGN(const Endpoint endpoint, EndpointOf(sts));
  Fields fields = FieldsOf("AssumeRoleWithWebIdentity", role);
  fields.emplace_back("WebIdentityToken", token.Reveal());
  HttpRequest request = PostOf(endpoint, std::move(fields));
  const std::string where = "AssumeRoleWithWebIdentity " + net::UrlForMessages(request.url);
  LITHIFY_TRY_ASSIGN(HttpResponse response,
                     AskForCredentials(sts.http, std::move(request), kLimits));
  return LeaseOfXml(std::move(response), "AssumeRoleWithWebIdentity", where);
}

}  // namespace lithify::storage
