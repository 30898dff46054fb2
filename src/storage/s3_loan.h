// Keys that somebody lends for some locations of an object store, and until when: what a catalog
// vends with a table (R034), and what a coordinator passes on to a worker (Q9).
#ifndef LITHIFY_STORAGE_S3_LOAN_H_
#define LITHIFY_STORAGE_S3_LOAN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "storage/s3_settings.h"

namespace lithify::storage {

struct Loan {
  std::string prefix;  // "s3://bucket/x", "s3", or empty for all.
  S3Settings settings;
  std::optional<Time> expires;
  bool operator==(const Loan&) const = default;
};

// The loan for a canonical location: the one with the longest prefix of it; null: none.
const Loan* FindLoan(const std::vector<Loan>& loans, std::string_view location);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_LOAN_H_
