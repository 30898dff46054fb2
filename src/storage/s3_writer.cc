#include "storage/s3_writer.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/text.h"

namespace lithify::storage {
namespace {

constexpr int64_t kUnderWayBytes = kS3WriterBytes - kS3PartBytes;

}  // namespace

int64_t S3PartBytes(int number) {
  constexpr int kStep = 900;
  constexpr int kDoublings = 6;
  return kS3PartBytes << std::min((number - 1) / kStep, kDoublings);
}

Status S3Writer::CheckOpen() const {
  if (failure_) return Fail(*failure_);
  if (open_) return {};
  return Fail(Code::kInternal, "the writer is closed already", client_.Name(key_));
}

Status S3Writer::Append(std::span<const std::byte> bytes) {
  LITHIFY_TRY(CheckOpen());
  if (flushed_) return Fail(Code::kInternal, "the writer was flushed", client_.Name(key_));
  Status appended = AppendAll(bytes);
  // Without that part the object would have a hole.
  if (!appended) failure_ = appended.error();
  return appended;
}

Status S3Writer::AppendAll(std::span<const std::byte> bytes) {
  while (!under_way_.empty() &&
         under_way_.front().wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    LITHIFY_TRY(Take());
  }
  while (!bytes.empty()) {
    const auto begun = static_cast<int>(parts_.size() + under_way_.size());
    const auto full = static_cast<size_t>(S3PartBytes(begun + 1));
    const auto some = bytes.first(std::min(full - part_.size(), bytes.size()));
    // Much will come: room for it at once.
    if (std::cmp_greater(part_.size() + some.size(), kMiB)) part_.reserve(full);
    part_.append(reinterpret_cast<const char*>(some.data()), some.size());
    size_ += std::ssize(some);
    bytes = bytes.subspan(some.size());
    if (part_.size() == full) LITHIFY_TRY(SendPart());
  }
  return {};
}

Status S3Writer::SendPart() {
  if (upload_id_.empty()) {
    write_id_ = client_.NewWriteId();
    LITHIFY_TRY_ASSIGN(upload_id_, client_.CreateUpload(key_, write_id_));
  }
  const int number = static_cast<int>(parts_.size() + under_way_.size()) + 1;
  if (number > kS3PartsMax) {
    return Fail(Code::kLimit, "an object of more than 10,000 parts", client_.Name(key_),
                "lower compaction.target_file_bytes");
  }
  const auto at_once =
      static_cast<size_t>(std::max<int64_t>(1, kUnderWayBytes / S3PartBytes(number)));
  while (under_way_.size() >= at_once) LITHIFY_TRY(Take());
  const auto part = std::make_shared<std::string>(std::exchange(part_, {}));
  const auto send = [this, number, part]() -> Result<S3Part> {
    try {
      return client_.UploadPart(key_, upload_id_, number, std::move(*part), &given_up_);
    } catch (const std::bad_alloc&) {
      return Fail(Code::kLimit, "out of memory", client_.Name(key_));
    }
  };
  // Where there are no threads to be had, it is sent when it is waited for.
  under_way_.push_back(std::async(std::launch::async | std::launch::deferred, send));
  return {};
}

Status S3Writer::Take() {
  Result<S3Part> part = under_way_.front().get();
  under_way_.pop_front();
  if (!part) return Fail(std::move(part.error()));
  parts_.push_back(std::move(*part));
  return {};
}

Status S3Writer::Flush() {
  LITHIFY_TRY(CheckOpen());
  flushed_ = true;
  Status flushed = FlushAll();
  if (!flushed) failure_ = flushed.error();
  return flushed;
}

Status S3Writer::FlushAll() {
  if (!part_.empty()) LITHIFY_TRY(SendPart());
  while (!under_way_.empty()) LITHIFY_TRY(Take());
  return {};
}

Status S3Writer::Publish() {
  LITHIFY_TRY(CheckOpen());
  Status published = PublishAll();
  // Of an unknown outcome nothing is taken back.
  if (published || published.error().code == Code::kUnknownOutcome) {
    open_ = false;
  } else {
    Discard();
  }
  return published;
}

Status S3Writer::PublishAll() {
  constexpr auto kAbsent = [] { return S3Condition{.absent = true, .etag = {}}; };
  if (upload_id_.empty()) {
    const auto put = client_.Put(key_, std::move(part_), kAbsent());
    return put ? Status() : Fail(put.error());
  }
  LITHIFY_TRY(FlushAll());
  return client_.CompleteUpload(key_, upload_id_, parts_, write_id_, kAbsent());
}

void S3Writer::Discard() noexcept {
  if (!std::exchange(open_, false)) return;
  given_up_ = true;
  under_way_.clear();  // Waits for them.
  if (upload_id_.empty()) return;
  try {
    (void)client_.AbortUpload(key_, upload_id_);
  } catch (...) {  // NOLINT(bugprone-empty-catch): gc aborts what is left.
  }
}

}  // namespace lithify::storage
