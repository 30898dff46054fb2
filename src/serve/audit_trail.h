// What the server was asked and by whom, on its way to the audit log (R168, R169): statements,
// refused logins, sessions. Changes of tables are recorded by what makes them (src/job), in the
// same log and before they happen.
//
// Thread safety: thread-safe.
#ifndef LITHIFY_SERVE_AUDIT_TRAIL_H_
#define LITHIFY_SERVE_AUDIT_TRAIL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "observe/audit_log.h"

namespace lithify::serve {

class AuditTrail {
 public:
  using Told = std::function<void(const Error&)>;
  // `told` gets what cannot be written; by the trail's own thread.
  AuditTrail(std::unique_ptr<observe::AuditLog> log, Told told);
  // Writes what is waiting.
  ~AuditTrail();
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  // Written soon, in this order; waits where kWaitingMax are waiting, so that none is dropped.
  void Record(observe::AuditEvent event);

  static constexpr size_t kWaitingMax = 10'000;

 private:
  void Write();

  const std::unique_ptr<observe::AuditLog> log_;
  const Told told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<observe::AuditEvent> waiting_;
  bool ending_ = false;
  std::thread writer_;  // Last: it uses all of the above.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_AUDIT_TRAIL_H_
