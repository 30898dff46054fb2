// How many requests a store may get at once: as many as there are, until it says that this is too
// much (503, 429). Then half as many, and one more for every second without another complaint
// (additive increase, multiplicative decrease).
//
// The answers to what was under way when it complained may be complaints, too: within a second they
// are one. Thread-safe; shared by all threads of a client.
#ifndef LITHIFY_STORAGE_S3_PACE_H_
#define LITHIFY_STORAGE_S3_PACE_H_

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace lithify::storage {

class S3Pace {
 public:
  // One request's place among those that are under way.
  class Turn {
   public:
    explicit Turn(S3Pace& pace) : pace_(pace) { pace_.Begin(); }
    ~Turn() { pace_.End(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    S3Pace& pace_;
  };

  // The store complained, or it answered; `now` is monotonic.
  void Throttled(Duration now);
  void Answered(Duration now);

  // At once; kNoLimit: any number.
  static constexpr int kNoLimit = 256;
  int limit() const;

 private:
  void Begin();  // Waits for a place.
  void End();

  mutable std::mutex mutex_;
  std::condition_variable free_;
  int limit_ = kNoLimit;
  int under_way_ = 0;
  Duration changed_{};  // When limit_ was.
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_PACE_H_
