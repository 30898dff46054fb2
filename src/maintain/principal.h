// The identity that works on its own, and what one job gets of it.
//
// Principal is constructed by the autonomous half alone, once, and only where the mode asks for it.
// It gives tokens to nobody: it mints a JobCredential for a job, which dies with the job. What the
// job works with takes a catalog, not a token, so there is no way from here to a statement (R005).
// Nothing here can be printed.
#ifndef LITHIFY_MAINTAIN_PRINCIPAL_H_
#define LITHIFY_MAINTAIN_PRINCIPAL_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "maintain/maintenance_config.h"
#include "net/http.h"
#include "net/token.h"

namespace lithify::maintain {

// Where the identity provider gives no token, the error says so with these words, however far it
// has come: it is nothing that a grant of the catalog could help.
inline constexpr std::string_view kPrincipalToken = "the token of the maintenance principal";

class JobTokens;

// What one job has of the principal: a token of its own, got for it and wiped with it (R004). It
// can be moved and not copied, and only Principal makes one: who holds it was given it. A
// moved-from credential is none: only assigning and destroying it are allowed.
// Thread-safe, but for moving and destroying.
class JobCredential {
 public:
  JobCredential(JobCredential&&) noexcept;
  JobCredential& operator=(JobCredential&&) noexcept;
  JobCredential(const JobCredential&) = delete;
  JobCredential& operator=(const JobCredential&) = delete;
  // From here on what tokens() gave is dead.
  ~JobCredential();

  // For the job's catalog. It may be held longer than the credential: then it has no token any
  // more, and says so (kDenied). Errors otherwise as net::TokenSource has them.
  std::shared_ptr<net::TokenSource> tokens() const;

  // Right before a commit (R012, T9): gets a fresh token, which lives for `minimum_life` at least.
  // An endpoint that is down (kTransient) goes unnoticed while the token at hand lives that long.
  // kDenied: the principal is refused, or its credential dropped: nothing may be committed; kLimit:
  // the endpoint gives no token that lives so long; others as net::TokenSource has them.
  Status Renew(Duration minimum_life);

  const std::string& job_id() const { return job_id_; }
  std::string session_id() const { return "maintenance-job-" + job_id_; }  // R008.
  // Who it is in audit records and log rows.
  const std::string& user_id() const { return user_id_; }

 private:
  friend class Principal;
  JobCredential(std::string job_id, std::string user_id, std::shared_ptr<JobTokens> tokens);

  std::string job_id_;
  std::string user_id_;
  std::shared_ptr<JobTokens> tokens_;
};

// Thread-safe. Credentials may outlive it; `clock` and `random` must outlive both.
class Principal {
 public:
  // No request is made (R009), no file is read but ca_file. kInvalid: no token endpoint, one that
  // is no https URL (http to this machine is allowed), no client id, no secret or several of them,
  // an unusable ca_file. Of `options` all counts but ca_file.
  static Result<std::unique_ptr<Principal>> Make(const PrincipalConfig& config, const Clock& clock,
                                                 Random& random, net::HttpOptions options = {});
  Principal(const Principal&) = delete;
  Principal& operator=(const Principal&) = delete;
  ~Principal();

  // Gets the job's token, within 5 s (R010). kInvalid: no job id, or a key that is none; kDenied:
  // the client is refused, or the file with its secret cannot be read or can be read by others;
  // kTransient: the endpoint is down; kCorrupt, kUnsupported: it gives no bearer token. The job
  // must fail, others may go on (R298).
  Result<JobCredential> Mint(const std::string& job_id) const;

  const std::string& client_id() const;
  const std::string& user_id() const;

 private:
  class State;
  explicit Principal(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_PRINCIPAL_H_
