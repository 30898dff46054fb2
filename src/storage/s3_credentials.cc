#include "storage/s3_credentials.h"

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "storage/xml.h"

namespace lithify::storage {
namespace {

using net::AwsCredentials;
using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;
using nlohmann::json;

constexpr Duration kRenewBefore = std::chrono::minutes(5);
const net::HttpLimits kLimits(std::chrono::seconds(5), std::chrono::seconds(10), kMiB);
// The instance's service is near, or not there.
const net::HttpLimits kNearLimits(std::chrono::seconds(1), std::chrono::seconds(2), kMiB);

std::unexpected<Error> None() {
  return Fail(Code::kDenied, "no credentials for S3 were found", "",
              "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile");
}

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

// "[name]" and "key = value" lines, as in ~/.aws/credentials.
using Profiles = std::map<std::string, std::map<std::string, std::string>>;
Profiles ReadProfiles(std::string_view file) {
  Profiles profiles;
  std::map<std::string, std::string>* current = nullptr;
  for (size_t at = 0; at < file.size();) {
    const size_t end = std::min(file.find('\n', at), file.size());
    const std::string line = Trimmed(file.substr(at, end - at));
    at = end + 1;
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      std::string name = Trimmed(std::string_view(line).substr(1, line.size() - 2));
      // In the configuration file all but the default one are "[profile name]".
      if (name.starts_with("profile ")) name = Trimmed(std::string_view(name).substr(8));
      current = &profiles[name];
      continue;
    }
    const size_t equals = line.find('=');
    if (current == nullptr || equals == std::string::npos) continue;
    current->insert_or_assign(Trimmed(std::string_view(line).substr(0, equals)),
                              Trimmed(std::string_view(line).substr(equals + 1)));
  }
  return profiles;
}

Result<LeasedCredentials> LeasedOf(const std::string& id, const std::string& secret,
                                   const std::string& token, const std::string& expires,
                                   const std::string& where) {
  if (id.empty() || secret.empty()) {
    return Fail(Code::kCorrupt, "the answer has no credentials", where);
  }
  LeasedCredentials leased{{id, Secret(secret), Secret(token)}, std::nullopt};
  if (!expires.empty()) {
    LITHIFY_TRY_ASSIGN(leased.expires, ParseTime(expires));
  }
  return leased;
}

// As containers and instances answer.
Result<LeasedCredentials> LeasedOfJson(const std::string& body, const std::string& where) {
  const json parsed = json::parse(body, nullptr, false);
  const auto text = [&](const char* key) {
    return parsed.is_object() && parsed.contains(key) && parsed[key].is_string()
               ? parsed[key].get<std::string>()
               : std::string();
  };
  return LeasedOf(text("AccessKeyId"), text("SecretAccessKey"), text("Token"), text("Expiration"),
                  where);
}

class Renewed final : public S3Credentials {
 public:
  Renewed(std::function<Result<LeasedCredentials>()> fetch, const Clock& clock)
      : fetch_(std::move(fetch)), clock_(clock) {}

  Result<AwsCredentials> Get() override {
    std::lock_guard lock(mutex_);
    const Time now = clock_.Now();
    const bool valid = held_ && (!held_->expires || *held_->expires > now);
    if (valid && (!held_->expires || *held_->expires - now > kRenewBefore)) {
      return held_->credentials;
    }
    // One try now and then: who has some that are valid goes on with them.
    if (valid && now < next_try_) return held_->credentials;
    auto fetched = fetch_();
    next_try_ = now + std::chrono::seconds(30);
    if (!fetched) {
      if (valid) return held_->credentials;
      return Fail(std::move(fetched.error()));
    }
    held_ = std::move(*fetched);
    return held_->credentials;
  }

  Status Invalidate(const AwsCredentials& refused) override {
    std::lock_guard lock(mutex_);
    if (held_ && held_->credentials == refused) held_.reset();
    return {};
  }

 private:
  const std::function<Result<LeasedCredentials>()> fetch_;
  const Clock& clock_;
  std::mutex mutex_;
  std::optional<LeasedCredentials> held_;
  Time next_try_{};
};

// For ever the same.
class Given final : public S3Credentials {
 public:
  explicit Given(AwsCredentials credentials) : credentials_(std::move(credentials)) {}
  Result<AwsCredentials> Get() override { return credentials_; }
  Status Invalidate(const AwsCredentials&) override {
    return Fail(Code::kDenied, "the store refuses the credentials", credentials_.access_key_id);
  }

 private:
  const AwsCredentials credentials_;
};

// Goes through the sources each time that it is asked.
class Chain {
 public:
  Chain(S3CredentialOptions options, net::HttpClient& http)
      : options_(std::move(options)), http_(http) {}

  Result<LeasedCredentials> Fetch() const {
    LITHIFY_TRY_ASSIGN(auto found, FromEnvironment());
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, FromWebIdentity());
    }
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, FromProfile());
    }
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, FromContainer());
    }
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, FromInstance());
    }
    if (!found) return None();
    return std::move(*found);
  }

 private:
  using Found = Result<std::optional<LeasedCredentials>>;

  std::string Variable(const std::string& name) const {
    return options_.environment(name).value_or("");
  }

  static Found Pair(const std::string& id, const std::string& secret, const std::string& token,
                    const std::string& id_name, const std::string& secret_name) {
    if (id.empty() && secret.empty()) return std::optional<LeasedCredentials>();
    if (id.empty() || secret.empty()) {
      return Fail(Code::kInvalid, (id.empty() ? id_name : secret_name) + " is missing", "",
                  "set both, or neither");
    }
    return LeasedCredentials{{id, Secret(secret), Secret(token)}, std::nullopt};
  }

  Found FromEnvironment() const {
    return Pair(Variable("AWS_ACCESS_KEY_ID"), Variable("AWS_SECRET_ACCESS_KEY"),
                Variable("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
  }

  Result<HttpResponse> Ask(const HttpRequest& request, const net::HttpLimits& limits) const {
    LITHIFY_TRY_ASSIGN(HttpResponse response, http_.Send(request, limits));
    if (response.status == 200) return response;
    return Fail(response.status >= 500 ? Code::kTransient : Code::kDenied,
                "it answers " + std::to_string(response.status), net::UrlForMessages(request.url));
  }

  Found FromWebIdentity() const {
    const std::string file = Variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    const std::string role = Variable("AWS_ROLE_ARN");
    if (file.empty() && role.empty()) return std::optional<LeasedCredentials>();
    if (file.empty() || role.empty()) {
      return Fail(Code::kInvalid,
                  std::string(file.empty() ? "AWS_WEB_IDENTITY_TOKEN_FILE" : "AWS_ROLE_ARN") +
                      " is missing",
                  "", "set both, or neither");
    }
    LITHIFY_TRY_ASSIGN(const std::string token, options_.read_file(file));
    std::string session = Variable("AWS_ROLE_SESSION_NAME");
    if (session.empty()) session = "lithify";
    HttpRequest request;
    request.method = HttpMethod::kPost;
    request.url = Variable("AWS_ENDPOINT_URL_STS");
    if (request.url.empty()) request.url = "https://sts." + options_.region + ".amazonaws.com/";
    request.headers = {{"content-type", "application/x-www-form-urlencoded"}};
    request.body = net::EncodeForm({{"Action", "AssumeRoleWithWebIdentity"},
                                    {"Version", "2011-06-15"},
                                    {"RoleArn", role},
                                    {"RoleSessionName", session},
                                    {"WebIdentityToken", Trimmed(token)}});
    LITHIFY_TRY_ASSIGN(const HttpResponse response, Ask(request, kLimits));
    LITHIFY_TRY_ASSIGN(const XmlElement root, ParseXml(response.body));
    const XmlElement* result = root.Find("AssumeRoleWithWebIdentityResult");
    const XmlElement* made = result == nullptr ? nullptr : result->Find("Credentials");
    if (made == nullptr) return Fail(Code::kCorrupt, "the answer has no credentials", request.url);
    return LeasedOf(std::string(made->Text("AccessKeyId")),
                    std::string(made->Text("SecretAccessKey")),
                    std::string(made->Text("SessionToken")), std::string(made->Text("Expiration")),
                    request.url);
  }

  Found FromProfile() const {
    LITHIFY_TRY_ASSIGN(const auto profile, ReadS3Profile(options_.environment, options_.read_file));
    const auto value = [&](const char* key) {
      const auto found = profile.find(key);
      return found == profile.end() ? std::string() : found->second;
    };
    LITHIFY_TRY_ASSIGN(
        auto found, Pair(value("aws_access_key_id"), value("aws_secret_access_key"),
                         value("aws_session_token"), "aws_access_key_id", "aws_secret_access_key"));
    const std::string asked = Variable("AWS_PROFILE");
    if (!found && !asked.empty()) {
      return Fail(Code::kInvalid, "the profile has no keys", "AWS_PROFILE " + asked,
                  "lithify reads aws_access_key_id and aws_secret_access_key of a profile");
    }
    return found;
  }

  Found FromContainer() const {
    const std::string relative = Variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    HttpRequest request;
    request.url = relative.empty() ? Variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                                   : "http://169.254.170.2" + relative;
    if (request.url.empty()) return std::optional<LeasedCredentials>();
    std::string token = Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (const std::string file = Variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        !file.empty()) {
      LITHIFY_TRY_ASSIGN(token, options_.read_file(file));
    }
    request.authorization = Secret(Trimmed(token));
    LITHIFY_TRY_ASSIGN(const HttpResponse response, Ask(request, kLimits));
    return LeasedOfJson(response.body, net::UrlForMessages(request.url));
  }

  Found FromInstance() const {
    if (Variable("AWS_EC2_METADATA_DISABLED") == "true") return std::optional<LeasedCredentials>();
    std::string base = Variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (base.empty()) base = "http://169.254.169.254";
    while (base.ends_with('/')) base.pop_back();
    HttpRequest request;
    request.method = HttpMethod::kPut;
    request.url = base + "/latest/api/token";
    request.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
    const auto token = http_.Send(request, kNearLimits);
    // Not on such an instance.
    if (!token || token->status != 200) return std::optional<LeasedCredentials>();
    request.method = HttpMethod::kGet;
    request.headers = {{"x-aws-ec2-metadata-token", Trimmed(token->body)}};
    request.url = base + "/latest/meta-data/iam/security-credentials/";
    LITHIFY_TRY_ASSIGN(const HttpResponse roles, Ask(request, kLimits));
    const std::string role = Trimmed(roles.body.substr(0, roles.body.find('\n')));
    if (role.empty()) return std::optional<LeasedCredentials>();
    request.url += net::PercentEncode(role);
    LITHIFY_TRY_ASSIGN(const HttpResponse response, Ask(request, kLimits));
    return LeasedOfJson(response.body, request.url);
  }

  const S3CredentialOptions options_;
  net::HttpClient& http_;
};

}  // namespace

Result<std::map<std::string, std::string>> ReadS3Profile(
    const std::function<std::optional<std::string>(const std::string& name)>& environment,
    const std::function<Result<std::string>(const std::string& path)>& read_file) {
  const auto variable = [&](const char* name) { return environment(name).value_or(""); };
  std::string name = variable("AWS_PROFILE");
  if (name.empty()) name = "default";
  std::map<std::string, std::string> profile;
  // What both say, the file of credentials says.
  for (const auto& [asked_by, usual] : {std::pair("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                                        std::pair("AWS_CONFIG_FILE", "config")}) {
    std::string path = variable(asked_by);
    const bool asked = !path.empty();
    if (!asked) {
      const std::string home = variable("HOME");
      if (home.empty()) continue;
      path = home + "/.aws/" + usual;
    }
    auto file = read_file(path);
    if (!file && file.error().code == Code::kNotFound && !asked) continue;
    if (!file) return Fail(std::move(file.error()).In(asked_by));
    Profiles profiles = ReadProfiles(*file);
    if (const auto found = profiles.find(name); found != profiles.end()) {
      profile.insert(found->second.begin(), found->second.end());
    }
  }
  return profile;
}

std::unique_ptr<S3Credentials> MakeRenewedCredentials(
    std::function<Result<LeasedCredentials>()> fetch, const Clock& clock) {
  return std::make_unique<Renewed>(std::move(fetch), clock);
}

Result<std::unique_ptr<S3Credentials>> MakeS3Credentials(S3CredentialOptions options,
                                                         net::HttpClient& http,
                                                         const Clock& clock) {
  const bool id = !options.access_key_id.empty();
  const bool secret = !options.secret_access_key.empty();
  if (id != secret || (!id && !options.session_token.empty())) {
    return Fail(Code::kInvalid,
                std::string(id ? "secret_access_key" : "access_key_id") + " is missing",
                "S3 credentials", "give both, or neither");
  }
  if (id) {
    return std::make_unique<Given>(
        AwsCredentials{options.access_key_id, options.secret_access_key, options.session_token});
  }
  auto chain = std::make_shared<const Chain>(std::move(options), http);
  return MakeRenewedCredentials([chain] { return chain->Fetch(); }, clock);
}

}  // namespace lithify::storage
