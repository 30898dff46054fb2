// The status page and its API over HTTP (docs/STATUS_PAGE.md, docs/api/openapi.yaml): the files of
// the page for everybody, since nothing is in them; data for a caller who shows a token with each
// request, with what the catalog says of that caller. Nothing here changes anything.
#ifndef LITHIFY_SERVE_STATUS_PAGE_H_
#define LITHIFY_SERVE_STATUS_PAGE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "config/config.h"
#include "group/fleet.h"
#include "http/listener.h"
#include "serve/audit_trail.h"
#include "serve/call_watch.h"
#include "serve/executor.h"
#include "serve/identity.h"
#include "serve/job_registry.h"
#include "serve/running_statements.h"

namespace lithify::serve {

// Thread safety: Listen and the end of life by one thread.
class StatusPage {
 public:
  // Everything is borrowed.
  struct Services {
    const config::ServerConfig& config;
    Authenticator& authenticator;
    const TableAccess& access;
    JobRegistry& jobs;
    AuditTrail& audit;
    const Clock& clock;
    std::string version;
    bool signs = false;                   // The audit log.
    std::function<bool()> audit_fails;    // Whether a record could not be written; any thread.
    const group::Fleet* fleet = nullptr;  // Null: there are no workers.
  };

  // Answers on server.page_listen until it is destroyed; what is being made for a client then is
  // given up. kInvalid: an address, certificate or key that will not do, or plaintext beyond
  // loopback without server.allow_plaintext.
  static Result<std::unique_ptr<StatusPage>> Listen(Services services);
  ~StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;

  std::string location() const;  // "http://127.0.0.1:50080/", with the port that was taken.

 private:
  explicit StatusPage(Services services);
  struct Call;
  using Make = std::function<Result<std::string>(Call&)>;

  std::vector<http::Route> Routes();
  http::Response Answer(const http::Request& request, bool on_record, const Make& make);
  Result<std::string> MakeAnswer(const http::Request& request, bool on_record, const Make& make,
                                 bool& known);
  Result<std::string> ServerJson(const Call& call) const;
  void Record(const Call& call, const http::Request& request, const Result<std::string>& outcome,
              Duration took);

  const Services services_;
  std::atomic<bool> ending_{false};
  CallWatch watch_;
  RunningStatements running_;  // Questions about tables: they cost the catalog and memory.
  bool tls_ = false;
  std::unique_ptr<http::Listener> listener_;  // Last: its threads use all of the above.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_STATUS_PAGE_H_
