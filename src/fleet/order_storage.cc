#include "fleet/order_storage.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lithify::fleet {
namespace {

using storage::Loan;
using storage::S3Access;
using storage::S3Settings;

std::optional<std::string> NoVariable(const std::string&) { return std::nullopt; }

std::string WithoutSlash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

}  // namespace

OrderStorage::OrderStorage(const OrderStorageOptions& options, std::vector<Loan> loans,
                           std::function<bool()> stop, Clock& clock, Random& random)
    : options_(options),
      stop_(std::move(stop)),
      clock_(clock),
      random_(random),
      lake_(storage::MakeLakeLocations(
          [this](const std::string& bucket, const std::string& location) {
            return OpenBucket(bucket, location);
          })),
      loans_(std::move(loans)) {}

void OrderStorage::Refresh(std::vector<Loan> loans) {
  const std::lock_guard lock(mutex_);
  loans_ = std::move(loans);
}

Status OrderStorage::Check(std::string_view location) const {
  if (options_.local_files) return {};
  LITHIFY_TRY_ASSIGN(const auto place, storage::ParseS3Place(location));
  if (place) return {};
  return Fail(Code::kDenied, "this worker does not touch local files", std::string(location),
              "where the worker has the same file system: worker.local_files = true");
}

Result<storage::Place> OrderStorage::Resolve(std::string_view location) {
  LITHIFY_TRY(Check(location));
  return lake_->Resolve(location);
}

Result<std::string> OrderStorage::Canonical(std::string_view location) {
  LITHIFY_TRY(Check(location));
  return lake_->Canonical(location);
}

Result<std::shared_ptr<storage::Store>> OrderStorage::OpenBucket(const std::string& bucket,
                                                                 const std::string& location) {
  const std::lock_guard lock(mutex_);
  const Loan* loan = storage::FindLoan(loans_, location);
  const bool has_keys = loan != nullptr && !loan->settings.access_key_id.empty();
  LITHIFY_TRY_ASSIGN(S3Access* const access, has_keys ? Lent(*loan) : Own(location));
  return access->Store(bucket, "");
}

Status OrderStorage::CheckEndpoint(const std::string& endpoint) const {
  if (options_.endpoints.empty()) return {};
  const auto same = [&](const std::string& allowed) {
    return WithoutSlash(allowed) == WithoutSlash(endpoint);
  };
  if (std::ranges::any_of(options_.endpoints, same)) return {};
  return Fail(Code::kDenied, "the order's endpoint is none of worker.endpoints",
              endpoint.empty() ? "Amazon's" : endpoint);
}

Result<S3Access*> OrderStorage::Lent(const Loan& loan) {
  std::unique_ptr<S3Access>& access = lent_[loan.prefix];
  if (access) return access.get();
  S3Settings settings = loan.settings;
  settings.access_key_id.clear();
  settings.secret_access_key = Secret();
  settings.session_token = Secret();
  settings.ca_file = options_.s3.ca_file;
  settings.proxy = options_.s3.proxy;
  if (!options_.s3.endpoint.empty()) settings.endpoint = options_.s3.endpoint;
  if (!options_.s3.region.empty()) settings.region = options_.s3.region;
  if (options_.s3.addressing != storage::S3Addressing::kAuto) {
    settings.addressing = options_.s3.addressing;
  }
  if (options_.s3.endpoint.empty()) {
    LITHIFY_TRY(CheckEndpoint(settings.endpoint));
  }
  const auto fetch = [this, prefix = loan.prefix] { return Latest(prefix); };
  // The first answer is there already, and Latest() needs the mutex that is held here: it is asked
  // by the first request, not now.
  LITHIFY_TRY_ASSIGN(access, S3Access::Open(std::move(settings), NoVariable, clock_, random_,
                                            storage::MakeRenewedCredentials(fetch, clock_)));
  access->StopWhen(stop_);
  return access.get();
}

Result<storage::LeasedCredentials> OrderStorage::Latest(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  const auto loan = std::ranges::find(loans_, prefix, &Loan::prefix);
  if (loan == loans_.end()) {
    return Fail(Code::kDenied, "the coordinator lends no keys for this any more", prefix);
  }
  if (loan->expires && *loan->expires <= clock_.Now()) {
    return Fail(Code::kDenied, "the keys have run out, and nobody sent new ones", prefix);
  }
  const S3Settings& keys = loan->settings;
  return storage::LeasedCredentials{
      {keys.access_key_id, keys.secret_access_key, keys.session_token}, loan->expires};
}

Result<S3Access*> OrderStorage::Own(const std::string& location) {
  if (options_.s3.access_key_id.empty()) {
    return Fail(Code::kDenied, "no keys came with the order for this, and the worker has none",
                location,
                "let the catalog vend storage credentials, or give the worker keys in [worker.s3]");
  }
  if (!own_) {
    LITHIFY_TRY_ASSIGN(own_, S3Access::Open(options_.s3, NoVariable, clock_, random_));
    own_->StopWhen(stop_);
  }
  return own_.get();
}

}  // namespace lithify::fleet
