#include "storage/s3_pace.h"

#include <algorithm>

namespace lithify::storage {
namespace {

constexpr Duration kStep = std::chrono::seconds(1);

}  // namespace

void S3Pace::Begin() {
  std::unique_lock lock(mutex_);
  free_.wait(lock, [this] { return limit_ == kNoLimit || under_way_ < limit_; });
  ++under_way_;
}

void S3Pace::End() {
  std::lock_guard lock(mutex_);
  --under_way_;
  free_.notify_one();
}

void S3Pace::Throttled(Duration now) {
  std::lock_guard lock(mutex_);
  if (limit_ != kNoLimit && now - changed_ < kStep) return;
  // Half of what there was, not of what there might have been.
  limit_ = std::max(1, std::min(limit_, under_way_) / 2);
  changed_ = now;
}

void S3Pace::Answered(Duration now) {
  std::lock_guard lock(mutex_);
  if (limit_ == kNoLimit || now - changed_ < kStep) return;
  ++limit_;
  changed_ = now;
  if (limit_ == kNoLimit) {
    free_.notify_all();
  } else {
    free_.notify_one();
  }
}

int S3Pace::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

}  // namespace lithify::storage
