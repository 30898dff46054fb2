// The storage of one order: buckets with the keys that came with it, or that the worker's own
// configuration has, and local files where that allows them (Q9, T16). Nothing of the environment:
// whoever may give orders gets no keys by it that a machine has lying about.
#ifndef LITHIFY_FLEET_ORDER_STORAGE_H_
#define LITHIFY_FLEET_ORDER_STORAGE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "storage/locations.h"
#include "storage/s3_access.h"
#include "storage/s3_loan.h"

namespace lithify::fleet {

struct OrderStorageOptions {
  // CA file and proxy of this machine. Endpoint, region and addressing go before those of a loan;
  // keys are for what came without any.
  storage::S3Settings s3;
  // Where keys may be sent to ("https://store:9000"); empty: wherever an order says.
  std::vector<std::string> endpoints;
  bool local_files = false;
};

// Thread-safe.
class OrderStorage final : public storage::Locations {
 public:
  // `stop`: S3Access::StopWhen(). `clock` and `random` outlive it.
  OrderStorage(const OrderStorageOptions& options, std::vector<storage::Loan> loans,
               std::function<bool()> stop, Clock& clock, Random& random);

  // Fresh keys, by the prefixes that they were lent for. New prefixes count, too.
  void Refresh(std::vector<storage::Loan> loans);

  // kDenied: no keys for it, an endpoint that is not allowed, or a local file that is not.
  Result<storage::Place> Resolve(std::string_view location) override;
  Result<std::string> Canonical(std::string_view location) override;

 private:
  Status Check(std::string_view location) const;
  Result<std::shared_ptr<storage::Store>> OpenBucket(const std::string& bucket,
                                                     const std::string& location);
  Result<storage::S3Access*> Lent(const storage::Loan& loan);
  Result<storage::S3Access*> Own(const std::string& location);
  Result<storage::LeasedCredentials> Latest(const std::string& prefix);
  Status CheckEndpoint(const std::string& endpoint) const;

  const OrderStorageOptions options_;
  const std::function<bool()> stop_;
  Clock& clock_;
  Random& random_;
  const std::unique_ptr<storage::Locations> lake_;
  std::mutex mutex_;
  std::vector<storage::Loan> loans_;
  std::unique_ptr<storage::S3Access> own_;
  std::map<std::string, std::unique_ptr<storage::S3Access>> lent_;  // By prefix.
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_ORDER_STORAGE_H_
