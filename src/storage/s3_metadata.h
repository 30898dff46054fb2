// Credentials that the machine has: those of its container, and those of its instance.
#ifndef LITHIFY_STORAGE_S3_METADATA_H_
#define LITHIFY_STORAGE_S3_METADATA_H_

#include <optional>

#include "base/result.h"
#include "net/http.h"
#include "storage/s3_lease.h"
#include "storage/s3_profile.h"

namespace lithify::storage {

// What AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI names, asked
// with the token of the file AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE, or else with that in
// AWS_CONTAINER_AUTHORIZATION_TOKEN. nullopt: neither is set. kInvalid for a URL without TLS that
// leaves the machine: only loopback addresses and those of the container services may have one.
Result<std::optional<LeasedCredentials>> ContainerCredentials(const S3Surroundings& around,
                                                              net::HttpClient& http);

// Those of the instance's role, from the metadata service, version 2. nullopt: there is no such
// service, or no role, or AWS_EC2_METADATA_DISABLED is `true`.
// AWS_EC2_METADATA_SERVICE_ENDPOINT names another address, AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE
// `IPv6` the service's other one.
Result<std::optional<LeasedCredentials>> InstanceCredentials(const S3Surroundings& around,
                                                             net::HttpClient& http);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_METADATA_H_
