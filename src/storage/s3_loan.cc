#include "storage/s3_loan.h"

namespace lithify::storage {
namespace {

bool IsBelow(std::string_view location, std::string_view prefix) {
  if (!location.starts_with(prefix)) return false;
  if (prefix.empty() || prefix.ends_with('/') || location.size() == prefix.size()) return true;
  // "s3" and "s3://bucket" are prefixes that end anywhere.
  return location[prefix.size()] == '/' || location[prefix.size()] == ':';
}

}  // namespace

const Loan* FindLoan(const std::vector<Loan>& loans, std::string_view location) {
  const Loan* best = nullptr;
  for (const Loan& loan : loans) {
    // A prefix may be written with another scheme of the same store.
    std::string prefix = loan.prefix;
    for (const std::string_view scheme : {"s3a", "s3n"}) {
      if (prefix == scheme || prefix.starts_with(std::string(scheme) + "://")) prefix.erase(2, 1);
    }
    if (!IsBelow(location, prefix)) continue;
    if (best == nullptr || loan.prefix.size() > best->prefix.size()) best = &loan;
  }
  return best;
}

}  // namespace lithify::storage
