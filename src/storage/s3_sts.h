// Credentials of a role, from Amazon's security token service (STS) or one that speaks like it.
#ifndef LITHIFY_STORAGE_S3_STS_H_
#define LITHIFY_STORAGE_S3_STS_H_

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "net/http.h"
#include "net/sigv4.h"
#include "storage/s3_lease.h"

namespace lithify::storage {

// Where the service is. All of them outlive the calls.
struct StsPlace {
  net::HttpClient& http;
  const Clock& clock;
  std::string region;
  std::string endpoint;  // Empty: Amazon's of the region.
};

// A role as it is asked for; the names are those of a profile's keys.
struct RoleRequest {
  std::string role_arn;
  std::string role_session_name = {};  // Empty: "lithify".
  std::string external_id = {};        // Empty: none.
  std::string duration_seconds = {};   // Empty: the service's default, an hour.
};

// As who has `by`. kInvalid for settings that are none; kDenied: refused; kTransient: not now;
// kCorrupt: an answer that is none.
Result<LeasedCredentials> AssumeRole(const StsPlace& sts, const RoleRequest& role,
                                     const net::AwsCredentials& by);
// As who has the token, which another service made; likewise.
Result<LeasedCredentials> AssumeRoleWithWebIdentity(const StsPlace& sts, const RoleRequest& role,
                                                    const Secret& token);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_STS_H_
