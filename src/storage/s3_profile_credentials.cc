#include "storage/s3_profile_credentials.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "storage/program_output.h"
#include "storage/s3_metadata.h"
#include "storage/s3_sso.h"
#include "storage/s3_sts.h"

namespace lithify::storage {
namespace {

using Found = Result<std::optional<LeasedCredentials>>;

constexpr Duration kProcessTime = std::chrono::seconds(60);
constexpr int64_t kProcessBytes = 64 * kKiB;

Found KeysOfProfile(const S3Section& profile) {
  return KeysOf([&](const std::string& key) { return profile.Value(key); },
                {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"});
}

std::unexpected<Error> Missing(const std::string& key, const std::string& because) {
  return Fail(Code::kInvalid, key + " is missing", "", because + " needs it");
}

std::unexpected<Error> Circle(const std::vector<std::string>& path, const std::string& again) {
  std::string all;
  for (const std::string& name : path) all += name + " -> ";
  return Fail(Code::kInvalid, "the profiles go in a circle: " + all + again, "source_profile");
}

}  // namespace

Found KeysOf(const std::function<std::string(const std::string& name)>& value,
             const KeyNames& names) {
  const std::string id = value(names.id);
  std::string secret = value(names.secret);
  if (id.empty() && secret.empty()) return std::nullopt;
  if (id.empty() || secret.empty()) {
    return Fail(Code::kInvalid, std::string(id.empty() ? names.id : names.secret) + " is missing",
                "", "set both, or neither");
  }
  LeasedCredentials keys{{id, Secret(secret), Secret(value(names.token))}, std::nullopt};
  Wipe(secret);
  return keys;
}

Found KeysOfEnvironment(const S3Surroundings& around) {
  return KeysOf([&](const std::string& name) { return around.Variable(name); },
                {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"});
}

Found S3ProfileCredentials::Of(const std::string& name, Path path) const {
  const S3Section* profile = profiles_.Find(name);
  if (profile == nullptr) return std::nullopt;
  path.push_back(name);
  auto found = InSomeWay(name, *profile, path);
  if (!found) return Fail(std::move(found.error()).In("profile " + name));
  return found;
}

Found S3ProfileCredentials::InSomeWay(const std::string& name, const S3Section& profile,
                                      const Path& path) const {
  if (path.size() > 1) {
    LITHIFY_TRY_ASSIGN(auto keys, KeysOfProfile(profile));
    if (keys) return keys;
  }
  const bool has_role = !profile.Value("role_arn").empty();
  const bool has_token = !profile.Value("web_identity_token_file").empty();
  for (const char* key : {"web_identity_token_file", "source_profile", "credential_source"}) {
    if (!has_role && !profile.Value(key).empty()) return Missing("role_arn", key);
  }
  if (has_token) return ByWebIdentity(profile);
  if (has_role) return ByRole(name, profile, path);
  if (SignsOn(profile)) {
    return SsoCredentials(profiles_, name, profiles_.Endpoint(around_, "sso"), around_, http_,
                          clock_);
  }
  LITHIFY_TRY_ASSIGN(auto keys, KeysOfProfile(profile));
  if (keys) return keys;
  const std::string command = profile.Value("credential_process");
  return command.empty() ? Found(std::nullopt) : ByProcess(command);
}

Found S3ProfileCredentials::ByRole(const std::string& name, const S3Section& profile,
                                   const Path& path) const {
  if (!profile.Value("mfa_serial").empty()) {
    return Fail(Code::kInvalid, "the role wants a one-time password (mfa_serial)", "",
                "lithify asks nobody: give it a profile that needs none, or keys of a session");
  }
  const RoleRequest role{.role_arn = profile.Value("role_arn"),
                         .role_session_name = profile.Value("role_session_name"),
                         .external_id = profile.Value("external_id"),
                         .duration_seconds = profile.Value("duration_seconds")};
  LITHIFY_TRY_ASSIGN(const LeasedCredentials source, OfSource(name, profile, path));
  return AssumeRole({http_, clock_, region_, profiles_.Endpoint(around_, "sts")}, role,
                    source.credentials);
}

Result<LeasedCredentials> S3ProfileCredentials::OfSource(const std::string& name,
                                                         const S3Section& profile,
                                                         const Path& path) const {
  const std::string from_profile = profile.Value("source_profile");
  const std::string from = profile.Value("credential_source");
  if (from_profile.empty() == from.empty()) {
    return from.empty() ? Missing("source_profile or credential_source", "role_arn")
                        : Fail(Code::kInvalid, "source_profile and credential_source are both set",
                               "", "the role is assumed with the credentials of one of them");
  }
  Found found = std::nullopt;
  if (from == "Environment") {
    found = KeysOfEnvironment(around_);
  } else if (from == "EcsContainer") {
    found = ContainerCredentials(around_, http_);
  } else if (from == "Ec2InstanceMetadata") {
    found = InstanceCredentials(around_, http_);
  } else if (!from.empty()) {
    return Fail(Code::kInvalid, "\"" + from + "\" is no source", "credential_source",
                "give Environment, EcsContainer or Ec2InstanceMetadata");
  } else if (from_profile == name) {
    // Its own keys, which it uses for nothing else.
    found = KeysOfProfile(profile);
    if (found && !*found) return Circle(path, name);
  } else if (std::ranges::find(path, from_profile) != path.end()) {
    return Circle(path, from_profile);
  } else if (profiles_.Find(from_profile) == nullptr) {
    return Fail(Code::kInvalid, "there is no profile " + from_profile, "source_profile");
  } else {
    found = Of(from_profile, path);
  }
  if (!found) return Fail(std::move(found.error()));
  if (!*found) {
    return Fail(Code::kDenied, "there are no credentials to assume the role with",
                from.empty() ? "source_profile " + from_profile : "credential_source " + from);
  }
  return std::move(**found);
}

Found S3ProfileCredentials::ByWebIdentity(const S3Section& profile) const {
  auto read = around_.read_file(profile.Value("web_identity_token_file"));
  if (!read) return Fail(std::move(read.error()).In("web_identity_token_file"));
  const Secret token(TrimmedText(*read));
  Wipe(*read);
  return AssumeRoleWithWebIdentity({http_, clock_, region_, profiles_.Endpoint(around_, "sts")},
                                   {.role_arn = profile.Value("role_arn"),
                                    .role_session_name = profile.Value("role_session_name")},
                                   token);
}

Found S3ProfileCredentials::ByProcess(const std::string& command) const {
  const auto where = [](Error error) { return Fail(std::move(error).In("credential_process")); };
  auto words = SplitCommand(command);
  if (!words) return where(std::move(words.error()));
  auto output = OutputOf(*words, {kProcessTime, kProcessBytes, stop_}, clock_);
  if (!output) return where(std::move(output.error()));
  const std::string program = words->front();
  const nlohmann::json parsed = nlohmann::json::parse(*output, nullptr, false);
  const bool known = parsed.is_object() && parsed.contains("Version") &&
                     parsed["Version"].is_number_integer() && parsed["Version"] == 1;
  auto lease = known
                   ? LeaseOfJson(*output, "SessionToken", program)
                   : Fail(Code::kCorrupt, "it prints no JSON object with \"Version\": 1", program);
  Wipe(*output);
  if (!lease) return where(std::move(lease.error()));
  return *std::move(lease);
}

}  // namespace lithify::storage
