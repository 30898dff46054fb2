#include "storage/s3_credentials.h"

#include <optional>
#include <utility>

#include "storage/s3_metadata.h"
#include "storage/s3_profile_credentials.h"
#include "storage/s3_sts.h"

namespace lithify::storage {
namespace {

using net::AwsCredentials;

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
  Chain(S3CredentialOptions options, net::HttpClient& http, const Clock& clock)
      : options_(std::move(options)), http_(http), clock_(clock) {}

  Result<LeasedCredentials> Fetch() const {
    LITHIFY_TRY_ASSIGN(auto found, KeysOfEnvironment(options_.around));
    if (found) return *std::move(found);
    LITHIFY_TRY_ASSIGN(const S3Profiles profiles, S3Profiles::Read(options_.around));
    LITHIFY_TRY_ASSIGN(found, FromWebIdentity(profiles));
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, FromProfile(profiles));
    }
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, ContainerCredentials(options_.around, http_));
    }
    if (!found) {
      LITHIFY_TRY_ASSIGN(found, InstanceCredentials(options_.around, http_));
    }
    if (found) return *std::move(found);
    return Fail(Code::kDenied, "no credentials for S3 were found",
                profiles.is_default() ? "" : "profile " + profiles.chosen(),
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile");
  }

 private:
  using Found = Result<std::optional<LeasedCredentials>>;

  std::string Variable(const std::string& name) const { return options_.around.Variable(name); }

  Found FromWebIdentity(const S3Profiles& profiles) const {
    const std::string file = Variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    const std::string role = Variable("AWS_ROLE_ARN");
    if (file.empty() && role.empty()) return std::nullopt;
    if (file.empty() || role.empty()) {
      return Fail(Code::kInvalid,
                  std::string(file.empty() ? "AWS_WEB_IDENTITY_TOKEN_FILE" : "AWS_ROLE_ARN") +
                      " is missing",
                  "", "set both, or neither");
    }
    auto read = options_.around.read_file(file);
    if (!read) return Fail(std::move(read.error()).In("AWS_WEB_IDENTITY_TOKEN_FILE"));
    const Secret token(TrimmedText(*read));
    Wipe(*read);
    return AssumeRoleWithWebIdentity(
        {http_, clock_, options_.region, profiles.Endpoint(options_.around, "sts")},
        {.role_arn = role, .role_session_name = Variable("AWS_ROLE_SESSION_NAME")}, token);
  }

  Found FromProfile(const S3Profiles& profiles) const {
    const std::string& name = profiles.chosen();
    if (!profiles.is_default() && profiles.Find(name) == nullptr) {
      return Fail(
          Code::kInvalid, "there is no such profile", "AWS_PROFILE " + name,
          "profiles stand in ~/.aws/config and ~/.aws/credentials, or where AWS_CONFIG_FILE "
          "and AWS_SHARED_CREDENTIALS_FILE say");
    }
    return S3ProfileCredentials(profiles, options_.around, options_.region, http_, clock_,
                                options_.stop)
        .Of(name);
  }

  const S3CredentialOptions options_;
  net::HttpClient& http_;
  const Clock& clock_;
};

}  // namespace

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
  auto chain = std::make_shared<const Chain>(std::move(options), http, clock);
  return MakeRenewedCredentials([chain] { return chain->Fetch(); }, clock);
}

}  // namespace lithify::storage
