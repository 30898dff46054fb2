// Credentials of a profile, in any of the ways in which a profile may have some. In this order:
//
//   role_arn with source_profile or credential_source (Environment, EcsContainer,
//     Ec2InstanceMetadata): STS AssumeRole, with role_session_name, external_id, duration_seconds
//   web_identity_token_file with role_arn: AssumeRoleWithWebIdentity
//   sso_session, or sso_start_url and sso_region, with sso_account_id and sso_role_name
//   aws_access_key_id with aws_secret_access_key and aws_session_token
//   credential_process: a program that prints some
//
// A profile that another one names as its source uses its keys, if it has any, before all others.
#ifndef LITHIFY_STORAGE_S3_PROFILE_CREDENTIALS_H_
#define LITHIFY_STORAGE_S3_PROFILE_CREDENTIALS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "storage/s3_lease.h"
#include "storage/s3_profile.h"

namespace lithify::storage {

class S3ProfileCredentials {
 public:
  // `region`: of the STS. `stop`: ends a program that runs; empty: never. All outlive this.
  S3ProfileCredentials(const S3Profiles& profiles, const S3Surroundings& around, std::string region,
                       net::HttpClient& http, const Clock& clock, const std::function<bool()>& stop)
      : profiles_(profiles),
        around_(around),
        region_(std::move(region)),
        http_(http),
        clock_(clock),
        stop_(stop) {}

  // nullopt: it has none, in whichever way. kInvalid, naming profile and key, for settings that are
  // not whole or go in a circle, and for `mfa_serial`: nobody is there to be asked.
  Result<std::optional<LeasedCredentials>> Of(const std::string& profile) const {
    return Of(profile, {});
  }

 private:
  using Path = std::vector<std::string>;  // The profiles that led here.
  using Found = Result<std::optional<LeasedCredentials>>;
  Found Of(const std::string& name, Path path) const;
  Found InSomeWay(const std::string& name, const S3Section& profile, const Path& path) const;
  Found ByRole(const std::string& name, const S3Section& profile, const Path& path) const;
  Result<LeasedCredentials> OfSource(const std::string& name, const S3Section& profile,
                                     const Path& path) const;
  Found ByWebIdentity(const S3Section& profile) const;
  Found ByProcess(const std::string& command) const;

  const S3Profiles& profiles_;
  const S3Surroundings& around_;
  const std::string region_;
  net::HttpClient& http_;
  const Clock& clock_;
  const std::function<bool()>& stop_;
};

// A pair of keys from where they stand. nullopt: there are none; kInvalid, naming it, if one is
// missing.
struct KeyNames {
  const char* id;
  const char* secret;
  const char* token;
};
Result<std::optional<LeasedCredentials>> KeysOf(
    const std::function<std::string(const std::string& name)>& value, const KeyNames& names);
// AWS_ACCESS_KEY_ID and the others of the environment.
Result<std::optional<LeasedCredentials>> KeysOfEnvironment(const S3Surroundings& around);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_PROFILE_CREDENTIALS_H_
