// Planned statements between two calls of a client: tickets, between GetFlightInfo and DoGet, and
// prepared statements. Both are found by a random handle, and only by whom they were made for.
//
// Thread safety: thread-safe.
#ifndef LITHIFY_SERVE_STATEMENT_STORE_H_
#define LITHIFY_SERVE_STATEMENT_STORE_H_

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "serve/executor.h"

namespace lithify::serve {

// What a handle stands for.
struct StoredStatement {
  std::shared_ptr<const PlannedStatement> planned;
  std::shared_ptr<arrow::RecordBatch> parameters;  // Null: none bound.
};

class StatementStore {
 public:
  struct Limits {
    size_t all = 10'000;
    size_t of_owner = 1000;
    Duration idle = std::chrono::minutes(15);  // A handle that nobody uses is forgotten.
    // Where there are too many, the owner's oldest goes, or else the oldest of all; else the new
    // one is refused. For tickets, which clients use at once and never give back.
    bool oldest_goes = false;
  };
  StatementStore(const Clock& clock, Random& random, Limits limits)
      : clock_(clock), random_(random), limits_(limits) {}

  // A new handle. kLimit if there are too many and none may go.
  Result<std::string> Add(const std::string& owner, StoredStatement statement);
  // kNotFound for a handle that is unknown, forgotten, used up, or somebody else's: the same words
  // for all of them.
  Result<StoredStatement> Get(const std::string& handle, const std::string& owner);
  // The same, and nobody gets it again.
  Result<StoredStatement> Take(const std::string& handle, const std::string& owner);
  Status Bind(const std::string& handle, const std::string& owner,
              std::shared_ptr<arrow::RecordBatch> parameters);
  // Whether there was one.
  bool Remove(const std::string& handle, const std::string& owner);

  size_t size() const;

 private:
  struct Entry {
    std::string handle;
    std::string owner;
    StoredStatement statement;
    Duration used = Duration::zero();  // Monotonic.
  };
  using Entries = std::list<Entry>;

  // Under the lock.
  void Forget();
  Status MakeRoom(const std::string& owner);
  Result<Entries::iterator> Find(const std::string& handle, const std::string& owner);
  void Erase(Entries::iterator at);

  const Clock& clock_;
  Random& random_;
  const Limits limits_;
  mutable std::mutex mutex_;
  Entries entries_;  // The one that was used longest ago first.
  std::unordered_map<std::string, Entries::iterator> by_handle_;
  std::unordered_map<std::string, size_t> by_owner_;  // How many.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_STATEMENT_STORE_H_
