#include "embed/table_buckets.h"

#include <charconv>
#include <system_error>
#include <utility>

namespace lithify::embed {
namespace {

using storage::LeasedCredentials;
using storage::Loan;
using storage::S3Access;
using storage::S3Addressing;
using storage::S3Settings;
using Properties = std::map<std::string, std::string>;

std::string Property(const Properties& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? std::string() : found->second;
}

// nullopt: there are no keys.
Result<std::optional<Loan>> LoanOf(const std::string& prefix, const Properties& properties,
                                   const std::string& table) {
  Loan loan{.prefix = prefix, .settings = {}, .expires = {}};
  S3Settings& settings = loan.settings;
  settings.access_key_id = Property(properties, "s3.access-key-id");
  settings.secret_access_key = Secret(Property(properties, "s3.secret-access-key"));
  settings.session_token = Secret(Property(properties, "s3.session-token"));
  const bool id = !settings.access_key_id.empty();
  if (id == settings.secret_access_key.empty()) {
    return Fail(Code::kCorrupt,
                std::string("the catalog lends credentials without ") +
                    (id ? "s3.secret-access-key" : "s3.access-key-id"),
                table);
  }
  if (!id) return std::optional<Loan>();
  settings.endpoint = Property(properties, "s3.endpoint");
  settings.region = Property(properties, "client.region");
  if (settings.region.empty()) settings.region = Property(properties, "s3.region");
  if (Property(properties, "s3.path-style-access") == "true") {
    settings.addressing = S3Addressing::kPath;
  }
  const std::string until = Property(properties, "s3.session-token-expires-at-ms");
  int64_t millis = 0;
  const auto [end, error] = std::from_chars(until.data(), until.data() + until.size(), millis);
  constexpr int64_t kMillisMax = int64_t{1} << 50;  // 37,000 years: no product overflows.
  if (error == std::errc() && end == until.data() + until.size() && millis > 0 &&
      millis < kMillisMax) {
    loan.expires = Time(std::chrono::milliseconds(millis));
  }
  return loan;
}

LeasedCredentials Leased(const Loan& loan) {
  const S3Settings& settings = loan.settings;
  return {{settings.access_key_id, settings.secret_access_key, settings.session_token},
          loan.expires};
}

}  // namespace

Result<std::vector<Loan>> LoansOf(const catalog::LoadedTable& table) {
  std::vector<Loan> loans;
  for (const catalog::StorageCredential& credential : table.credentials) {
    // What it does not say of endpoint and region, the table's configuration says.
    Properties all = credential.config;
    for (const char* name : {"s3.endpoint", "client.region", "s3.region", "s3.path-style-access"}) {
      const auto general = table.config.find(name);
      if (general != table.config.end()) all.insert(*general);
    }
    LITHIFY_TRY_ASSIGN(auto loan, LoanOf(credential.prefix, all, table.ident.ToString()));
    if (loan) loans.push_back(std::move(*loan));
  }
  if (!loans.empty()) return loans;
  LITHIFY_TRY_ASSIGN(auto loan, LoanOf("", table.config, table.ident.ToString()));
  if (loan) loans.push_back(std::move(*loan));
  return loans;
}

TableBuckets::TableBuckets(S3Settings own, Environment environment, Lender lender, Clock& clock,
                           Random& random)
    : own_(std::move(own)),
      environment_(std::move(environment)),
      lender_(std::move(lender)),
      clock_(clock),
      random_(random) {}

TableBuckets::~TableBuckets() = default;

Result<std::shared_ptr<storage::Store>> TableBuckets::Open(const std::string& bucket,
                                                           const std::string& location) {
  const std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(S3Access* const access, AccessFor(location));
  return access->Store(bucket, "");
}

std::string TableBuckets::Describe(std::string_view location) {
  const auto place = storage::ParseS3Place(location);
  if (!place || !*place) return "the user that lithify runs as";
  const std::lock_guard lock(mutex_);
  if (loans_ && FindLoan(*loans_, (*place)->ToString()) != nullptr) {
    return "the credentials that the catalog lends";
  }
  if (only_lent_) return "credentials that the catalog lends";
  return own_.access_key_id.empty() ? "the credentials of the environment or the machine"
                                    : "the keys of [s3]";
}

Result<S3Access*> TableBuckets::AccessFor(const std::string& location) {
  if (!lender_) return Own(location);
  if (!loans_) {
    LITHIFY_TRY_ASSIGN(const auto table, lender_());
    LITHIFY_TRY_ASSIGN(loans_, LoansOf(table));
  }
  if (loans_->empty()) return Own(location);
  if (const Loan* loan = storage::FindLoan(*loans_, location)) return Lent(*loan);
  if (only_lent_ || !own_.access_key_id.empty()) return Own(location);
  return Fail(Code::kDenied, "the catalog lends credentials for the table, but not for this",
              location, "give [s3] keys, or set vended_credentials = false for the catalog");
}

Result<S3Access*> TableBuckets::Own(const std::string& location) {
  if (only_lent_) {
    return Fail(Code::kDenied,
                "the catalog lends no credentials for this, and there are no others here", location,
                "let the catalog vend storage credentials for the table to you");
  }
  if (!own_access_) {
    LITHIFY_TRY_ASSIGN(own_access_, S3Access::Open(own_, LookUpIn(environment_), clock_, random_));
    own_access_->StopWhen(stop_);
  }
  return own_access_.get();
}

storage::S3Settings TableBuckets::SettingsFor(const Loan& loan) const {
  S3Settings settings = own_;
  if (settings.endpoint.empty()) settings.endpoint = loan.settings.endpoint;
  if (settings.region.empty()) settings.region = loan.settings.region;
  if (settings.addressing == S3Addressing::kAuto) settings.addressing = loan.settings.addressing;
  return settings;
}

Result<std::vector<Loan>> TableBuckets::Lend() {
  if (!lender_) return std::vector<Loan>();
  const std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(const auto table, lender_());
  LITHIFY_TRY_ASSIGN(auto loans, LoansOf(table));
  for (Loan& loan : loans) {
    const S3Settings here = SettingsFor(loan);
    loan.settings.endpoint = here.endpoint;
    loan.settings.region = here.region;
    loan.settings.addressing = here.addressing;
  }
  return loans;
}

Result<S3Access*> TableBuckets::Lent(const Loan& loan) {
  std::unique_ptr<S3Access>& access = lent_access_[loan.prefix];
  if (access) return access.get();
  // The first are at hand; later ones are asked for.
  auto first = std::make_shared<std::optional<LeasedCredentials>>(Leased(loan));
  const auto fetch = [lender = lender_, prefix = loan.prefix,
                      first]() -> Result<LeasedCredentials> {
    if (*first) return *std::exchange(*first, std::nullopt);
    LITHIFY_TRY_ASSIGN(const auto table, lender());
    LITHIFY_TRY_ASSIGN(const auto loans, LoansOf(table));
    for (const Loan& renewed : loans) {
      if (renewed.prefix == prefix) return Leased(renewed);
    }
    return Fail(Code::kDenied, "the catalog lends no credentials any more", table.ident.ToString());
  };
  LITHIFY_TRY_ASSIGN(access,
                     S3Access::Open(SettingsFor(loan), LookUpIn(environment_), clock_, random_,
                                    storage::MakeRenewedCredentials(fetch, clock_)));
  access->StopWhen(stop_);
  return access.get();
}

}  // namespace lithify::embed
