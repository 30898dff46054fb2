#include "maintain/principal.h"

#include <functional>
#include <mutex>
#include <utility>

#include "net/client_assertion.h"
#include "net/jwks.h"
#include "storage/secret_file.h"

namespace lithify::maintain {
namespace {

// What the client shows, for a file read again each time.
std::function<Result<Secret>()> ProofOf(const PrincipalConfig& config, const Clock& clock,
                                        Random& random) {
  if (!config.client_secret_file.empty()) {
    return [path = config.client_secret_file] { return storage::ReadSecretLine(path); };
  }
  if (config.private_key_file.empty()) return {};
  return [path = config.private_key_file, id = config.key_id, algorithm = config.key_algorithm,
          client = config.client_id, endpoint = config.token_endpoint, &clock,
          &random]() -> Result<Secret> {
    net::ClientKey key{.pem = {}, .key_id = id, .algorithm = algorithm};
    LITHIFY_TRY_ASSIGN(key.pem, storage::ReadSecretFile(path));
    auto assertion = net::SignClientAssertion(key, client, endpoint, clock, random);
    if (!assertion) return Fail(std::move(assertion.error()).In(path));
    return assertion;
  };
}

std::unexpected<Error> Wrong(std::string message, std::string hint = {}) {
  return Fail(Code::kInvalid, std::move(message), "maintenance.principal", std::move(hint));
}

}  // namespace

// The token of one job, for as long as the job lives.
class JobTokens final : public net::TokenSource {
 public:
  JobTokens(std::string job_id, std::shared_ptr<net::HttpClient> http,
            net::ClientCredentials credentials, const Clock& clock)
      : job_id_(std::move(job_id)), living_(std::make_shared<Living>()) {
    living_->http = std::move(http);
    living_->source =
        net::MakeClientCredentialsSource(std::move(credentials), *living_->http, clock);
  }

  Result<Secret> Token() override {
    return With([](net::RenewableTokenSource& source) { return source.Token(); });
  }
  Status Invalidate(const Secret& token) override {
    return With([&](net::RenewableTokenSource& source) { return source.Invalidate(token); });
  }
  Status Renew(Duration minimum_life) {
    return With([&](net::RenewableTokenSource& source) { return source.Renew(minimum_life); });
  }

  // The token goes with the source, once nobody waits for it any more.
  void Drop() {
    const std::lock_guard lock(mutex_);
    living_.reset();
  }

 private:
  struct Living {
    std::shared_ptr<net::HttpClient> http;
    std::unique_ptr<net::RenewableTokenSource> source;
  };

  std::shared_ptr<Living> Look() const {
    const std::lock_guard lock(mutex_);
    return living_;
  }

  template <typename Act>
  std::invoke_result_t<Act, net::RenewableTokenSource&> With(const Act& act) const {
    const std::shared_ptr<Living> living = Look();
    if (!living) return Dropped();
    auto outcome = act(*living->source);
    if (!outcome) outcome = Fail(std::move(outcome.error()).In(kPrincipalToken));
    // It may have been dropped while this waited for the endpoint.
    if (!Look()) return Dropped();
    return outcome;
  }

  std::unexpected<Error> Dropped() const {
    return Fail(Code::kDenied, "the credential of job " + job_id_ + " was dropped");
  }

  const std::string job_id_;
  mutable std::mutex mutex_;
  std::shared_ptr<Living> living_;
};

JobCredential::JobCredential(std::string job_id, std::string user_id,
                             std::shared_ptr<JobTokens> tokens)
    : job_id_(std::move(job_id)), user_id_(std::move(user_id)), tokens_(std::move(tokens)) {}

JobCredential::JobCredential(JobCredential&&) noexcept = default;

JobCredential& JobCredential::operator=(JobCredential&& other) noexcept {
  if (this == &other) return *this;
  if (tokens_) tokens_->Drop();
  job_id_ = std::move(other.job_id_);
  user_id_ = std::move(other.user_id_);
  tokens_ = std::move(other.tokens_);
  return *this;
}

JobCredential::~JobCredential() {
  if (tokens_) tokens_->Drop();
}

std::shared_ptr<net::TokenSource> JobCredential::tokens() const { return tokens_; }

Status JobCredential::Renew(Duration minimum_life) {
  LITHIFY_CHECK(tokens_ != nullptr, "a credential that was moved away is used");
  return tokens_->Renew(minimum_life);
}

class Principal::State {
 public:
  State(const PrincipalConfig& config, std::shared_ptr<net::HttpClient> http, const Clock& clock,
        Random& random)
      : clock_(clock), http_(std::move(http)) {
    user_id_ = config.user_id.empty() ? config.client_id : config.user_id;
    credentials_.token_endpoint = config.token_endpoint;
    credentials_.client_id = config.client_id;
    credentials_.client_secret = config.client_secret;
    credentials_.scope = config.scope;
    credentials_.refresh_skew = config.refresh_skew;
    // A catalog's own endpoint takes form fields only; an identity provider takes either.
    credentials_.authentication = config.private_key_file.empty()
                                      ? net::ClientCredentials::Authentication::kForm
                                      : net::ClientCredentials::Authentication::kAssertion;
    credentials_.proof = ProofOf(config, clock, random);
  }

  std::shared_ptr<JobTokens> TokensFor(const std::string& job_id) const {
    return std::make_shared<JobTokens>(job_id, http_, credentials_, clock_);
  }
  const std::string& client_id() const { return credentials_.client_id; }
  const std::string& user_id() const { return user_id_; }

 private:
  const Clock& clock_;
  const std::shared_ptr<net::HttpClient> http_;
  net::ClientCredentials credentials_;
  std::string user_id_;
};

Principal::Principal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Principal::~Principal() = default;

Result<std::unique_ptr<Principal>> Principal::Make(const PrincipalConfig& config,
                                                   const Clock& clock, Random& random,
                                                   net::HttpOptions options) {
  if (config.token_endpoint.empty()) return Wrong("there is no token_endpoint");
  if (!net::IsPrivateUrl(config.token_endpoint)) {
    return Wrong("token_endpoint is no https URL", "http is for this machine alone");
  }
  if (config.client_id.empty()) return Wrong("there is no client_id");
  const int proofs = (config.client_secret.empty() ? 0 : 1) +
                     (config.client_secret_file.empty() ? 0 : 1) +
                     (config.private_key_file.empty() ? 0 : 1);
  if (proofs != 1) {
    return Wrong(proofs == 0 ? "there is no secret" : "there is more than one secret",
                 "give one of client_secret, client_secret_file and private_key_file");
  }
  options.ca_file = config.ca_file;
  LITHIFY_TRY_ASSIGN(std::shared_ptr<net::HttpClient> http,
                     net::OpenHttpClient(std::move(options)));
  return std::unique_ptr<Principal>(
      new Principal(std::make_unique<State>(config, std::move(http), clock, random)));
}

Result<JobCredential> Principal::Mint(const std::string& job_id) const {
  if (job_id.empty()) return Fail(Code::kInvalid, "a credential is for a job, and this has no id");
  JobCredential credential(job_id, state_->user_id(), state_->TokensFor(job_id));
  if (const auto token = credential.tokens()->Token(); !token) {
    return Fail(Error(token.error()).In("principal, job " + job_id));
  }
  return credential;
}

const std::string& Principal::client_id() const { return state_->client_id(); }
const std::string& Principal::user_id() const { return state_->user_id(); }

}  // namespace lithify::maintain
