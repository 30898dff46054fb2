#include "storage/s3_metadata.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "net/address.h"

namespace lithify::storage {
namespace {

using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;
using Found = Result<std::optional<LeasedCredentials>>;

constexpr int64_t kAnswerBytesMax = 256 * kKiB;
const net::HttpLimits kLimits(std::chrono::seconds(2), std::chrono::seconds(5), kAnswerBytesMax);
// The instance's service is near, or not there.
const net::HttpLimits kNearLimits(std::chrono::seconds(1), std::chrono::seconds(2),
                                  kAnswerBytesMax);

std::string LowerCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// What goes over it unencrypted, nobody else hears.
Status CheckContainerUrl(const std::string& url) {
  constexpr const char* kVariable = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
  auto origin = net::UrlOrigin(url);
  if (!origin) return Fail(std::move(origin.error()).In(kVariable));
  if (origin->starts_with("https://")) return {};
  std::string_view host = std::string_view(*origin).substr(origin->find("://") + 3);
  const size_t port = host.find(':', host.starts_with('[') ? host.find(']') : 0);
  host = host.substr(0, port);
  constexpr std::array<std::string_view, 3> kServices = {"169.254.170.2", "169.254.170.23",
                                                         "[fd00:ec2::23]"};
  if (net::IsLoopback(host) || std::ranges::find(kServices, host) != kServices.end()) return {};
  return Fail(Code::kInvalid, "credentials do not travel over plain http", kVariable,
              "use https, a loopback address or that of the container service");
}

}  // namespace

Found ContainerCredentials(const S3Surroundings& around, net::HttpClient& http) {
  const std::string relative = around.Variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  HttpRequest request;
  request.direct = true;
  request.url = around.Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative.empty()) {
    if (!relative.starts_with('/')) {
      return Fail(Code::kInvalid, "it is no path that begins with a slash",
                  "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    }
    request.url = "http://169.254.170.2" + relative;
  }
  if (request.url.empty()) return std::nullopt;
  if (relative.empty()) LITHIFY_TRY(CheckContainerUrl(request.url));
  std::string token = around.Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const std::string file = around.Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
      !file.empty()) {
    auto read = around.read_file(file);
    if (!read) return Fail(std::move(read.error()).In("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
    token = std::move(*read);
  }
  request.authorization = Secret(TrimmedText(token));
  Wipe(token);
  const std::string where = net::UrlForMessages(request.url);
  LITHIFY_TRY_ASSIGN(HttpResponse response, AskForCredentials(http, std::move(request), kLimits));
  auto lease = LeaseOfJson(response.body, "Token", where);
  Wipe(response.body);
  return lease;
}

Found InstanceCredentials(const S3Surroundings& around, net::HttpClient& http) {
  if (LowerCase(around.Variable("AWS_EC2_METADATA_DISABLED")) == "true") return std::nullopt;
  std::string base = around.Variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (base.empty()) {
    const std::string mode = LowerCase(around.Variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"));
    base = mode == "ipv6" ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
  }
  while (base.ends_with('/')) base.pop_back();
  HttpRequest request;
  request.direct = true;
  request.method = HttpMethod::kPut;
  request.url = base + "/latest/api/token";
  request.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  const auto token = AskForCredentials(http, request, kNearLimits);
  if (!token && token.error().code == Code::kCancelled) return Fail(token.error());
  // Not on such an instance.
  if (!token) return std::nullopt;
  request.method = HttpMethod::kGet;
  request.headers = {{"x-aws-ec2-metadata-token", TrimmedText(token->body)}};
  request.url = base + "/latest/meta-data/iam/security-credentials/";
  const auto roles = http.Send(request, kLimits);
  if (!roles) return Fail(roles.error());
  // The instance has no role.
  if (roles->status == 404) return std::nullopt;
  const std::string where = net::UrlForMessages(request.url);
  if (roles->status != 200) return Fail(RefusalOf(*roles, where));
  const std::string role = TrimmedText(roles->body.substr(0, roles->body.find('\n')));
  if (role.empty()) return std::nullopt;
  request.url += net::PercentEncode(role);
  LITHIFY_TRY_ASSIGN(HttpResponse response, AskForCredentials(http, std::move(request), kLimits));
  auto lease = LeaseOfJson(response.body, "Token", where);
  Wipe(response.body);
  return lease;
}

}  // namespace lithify::storage
