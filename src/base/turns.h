// Turns at something of which only so much should be done at a time.
#ifndef LITHIFY_BASE_TURNS_H_
#define LITHIFY_BASE_TURNS_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "base/cancel.h"
#include "base/result.h"

namespace lithify {

// Given in the order in which they were asked for. Thread-safe; outlives the turns that it gave.
class Turns {
 public:
  // Lasts until its last copy goes.
  using Turn = std::shared_ptr<void>;

  // So many at once, at least one.
  explicit Turns(int at_once);
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits for one. kCancelled if a stop is asked for before it comes.
  Result<Turn> Take(const CancelFlag& cancel);
  // Who wait at this moment.
  int waiting() const;

 private:
  void End();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> waiting_;  // By the order of asking.
  uint64_t asked_ = 0;
  int free_;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_TURNS_H_
