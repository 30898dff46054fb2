// Credentials of a profile that signs on once (IAM Identity Center): `aws sso login` leaves a token
// under ~/.aws/sso/cache, which is exchanged for credentials of one role in one account. The token
// is not renewed here.
#ifndef LITHIFY_STORAGE_S3_SSO_H_
#define LITHIFY_STORAGE_S3_SSO_H_

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "storage/s3_lease.h"
#include "storage/s3_profile.h"

namespace lithify::storage {

// Whether the profile asks for it.
bool SignsOn(const S3Section& profile);

// Of the profile `name` of `profiles`, which signs on. kInvalid, naming the key, for settings that
// are not whole; kDenied, with what to do, where nobody has signed on or that has run out.
// `endpoint`: empty, Amazon's of sso_region; https, or a loopback address.
Result<LeasedCredentials> SsoCredentials(const S3Profiles& profiles, const std::string& name,
                                         const std::string& endpoint, const S3Surroundings& around,
                                         net::HttpClient& http, const Clock& clock);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_SSO_H_
