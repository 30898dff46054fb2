// Where Amazon's services are, by region.
#ifndef LITHIFY_STORAGE_AMAZON_ENDPOINT_H_
#define LITHIFY_STORAGE_AMAZON_ENDPOINT_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::storage {

// "https://s3.eu-west-1.amazonaws.com". China, Europe's sovereign cloud and the isolated regions
// have names of their own.
std::string AmazonEndpoint(std::string_view service, std::string_view region);

// kInvalid, naming `key`, for a region that would not be one label of a host's name: a secret is
// sent there.
Status CheckRegion(std::string_view region, std::string_view key);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_AMAZON_ENDPOINT_H_
