// What a configuration says about S3; plain values. What is left empty is looked up where Amazon's
// own tools look (s3_access.h).
#ifndef LITHIFY_STORAGE_S3_SETTINGS_H_
#define LITHIFY_STORAGE_S3_SETTINGS_H_

#include <string>

#include "base/secret.h"

namespace lithify::storage {

// How a bucket stands in a URL: in the path, or before the host's name.
enum class S3Addressing { kAuto, kPath, kVirtual };

struct S3Settings {
  // Empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, "us-east-1".
  std::string region;
  // Empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's of the region.
  std::string endpoint;
  // kAuto: in the path where an endpoint is given or the bucket's name has a dot.
  S3Addressing addressing = S3Addressing::kAuto;
  std::string
      ca_file;   // PEM with the trusted roots. Empty: AWS_CA_BUNDLE, the profile's, the system's.
  Secret proxy;  // It may name a user. Empty: http_proxy, https_proxy and no_proxy; "none": none.
  // Empty: the chain.
  std::string access_key_id;
  Secret secret_access_key;
  Secret session_token;
  bool operator==(const S3Settings&) const = default;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_SETTINGS_H_
