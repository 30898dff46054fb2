// Where credentials for S3 come from: given ones, or the chain that Amazon's own tools go through.
//
// In this order, the first that has any: those that were given; AWS_ACCESS_KEY_ID with
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; a web identity (AWS_WEB_IDENTITY_TOKEN_FILE,
// AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME), exchanged at the region's STS; the profile (AWS_PROFILE, or
// `default`) of the files AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE; a container's
// (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, AWS_CONTAINER_AUTHORIZATION_TOKEN or
// _TOKEN_FILE); the instance's metadata service, version 2, unless AWS_EC2_METADATA_DISABLED is
// `true`. Half of a pair is an error that names the missing half, never its value (R267).
#ifndef LITHIFY_STORAGE_S3_CREDENTIALS_H_
#define LITHIFY_STORAGE_S3_CREDENTIALS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "net/http.h"
#include "net/sigv4.h"
#include "storage/s3_client.h"

namespace lithify::storage {

struct S3CredentialOptions {
  // Given ones; empty: the chain.
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;
  std::string region = "us-east-1";  // Of the STS.
  // A variable of the environment; nullopt: unset.
  std::function<std::optional<std::string>(const std::string& name)> environment;
  // A whole file; kNotFound if there is none.
  std::function<Result<std::string>(const std::string& path)> read_file;
};

// What the profile AWS_PROFILE, or `default`, says in the two files, by lower-case key; empty where
// there is no such profile. kInvalid or kNotFound for a file that a variable names and that cannot
// be read.
Result<std::map<std::string, std::string>> ReadS3Profile(
    const std::function<std::optional<std::string>(const std::string& name)>& environment,
    const std::function<Result<std::string>(const std::string& path)>& read_file);

// Credentials that run out are renewed five minutes before, while others go on with the old ones. A
// renewal that fails goes unnoticed while these are valid. `http` and `clock` outlive it. kInvalid:
// half of a pair was given.
Result<std::unique_ptr<S3Credentials>> MakeS3Credentials(S3CredentialOptions options,
                                                         net::HttpClient& http, const Clock& clock);

// What a source gave, and until when.
struct LeasedCredentials {
  net::AwsCredentials credentials;
  std::optional<Time> expires;
};

// Credentials that somebody else hands out and renews: a catalog's vended ones (I34). `fetch` is
// asked when there are none yet, before they run out, and after they were refused.
std::unique_ptr<S3Credentials> MakeRenewedCredentials(
    std::function<Result<LeasedCredentials>()> fetch, const Clock& clock);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_CREDENTIALS_H_
