// Where credentials for S3 come from: given ones, or the chain that Amazon's own tools go through.
//
// In this order, the first that has any: those that were given; AWS_ACCESS_KEY_ID with
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; a web identity (AWS_WEB_IDENTITY_TOKEN_FILE,
// AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME), exchanged at the region's STS; the profile (AWS_PROFILE, or
// `default`), in any of its ways (s3_profile_credentials.h); a container's, then the instance's
// (s3_metadata.h). Half of a pair is an error that names the missing half, never its value (R267).
#ifndef LITHIFY_STORAGE_S3_CREDENTIALS_H_
#define LITHIFY_STORAGE_S3_CREDENTIALS_H_

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "net/http.h"
#include "storage/s3_client.h"
#include "storage/s3_lease.h"
#include "storage/s3_profile.h"

namespace lithify::storage {

struct S3CredentialOptions {
  // Given ones; empty: the chain.
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;
  std::string region = "us-east-1";  // Of the STS.
  S3Surroundings around;
  // Ends a program of the profile that runs; empty: never.
  std::function<bool()> stop;
};

// Credentials that run out are renewed as MakeRenewedCredentials() does it. `http` and `clock`
// outlive it. kInvalid: half of a pair was given. What Get() of the chain fails with: kInvalid for
// settings that are wrong; kDenied where nobody gives any; kTransient; kCancelled; kCorrupt.
Result<std::unique_ptr<S3Credentials>> MakeS3Credentials(S3CredentialOptions options,
                                                         net::HttpClient& http, const Clock& clock);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_CREDENTIALS_H_
