#include "storage/amazon_endpoint.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lithify::storage {

std::string AmazonEndpoint(std::string_view service, std::string_view region) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kElsewhere = {{
      {"cn-", "amazonaws.com.cn"},
      {"eusc-", "amazonaws.eu"},
      {"us-iso-", "c2s.ic.gov"},
      {"us-isob-", "sc2s.sgov.gov"},
      {"us-isof-", "csp.hci.ic.gov"},
      {"eu-isoe-", "cloud.adc-e.uk"},
  }};
  std::string_view domain = "amazonaws.com";
  for (const auto& [prefix, other] : kElsewhere) {
    if (region.starts_with(prefix)) domain = other;
  }
  return "https://" + std::string(service) + "." + std::string(region) + "." + std::string(domain);
}

Status CheckRegion(std::string_view region, std::string_view key) {
  const bool good = !region.empty() && region.size() <= 63 && region.front() != '-' &&
                    region.back() != '-' && std::ranges::all_of(region, [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '-';
                    });
  if (good) return {};
  return Fail(Code::kInvalid, "\"" + std::string(region) + "\" is no name of a region",
              std::string(key), "write it like eu-west-1");
}

}  // namespace lithify::storage
