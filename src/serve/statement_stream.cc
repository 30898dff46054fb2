#include "serve/statement_stream.h"

#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/text.h"

namespace lithify::serve {
namespace {

using arrow::flight::FlightPayload;

constexpr std::chrono::milliseconds kLook(100);  // How soon it is seen that a client has gone.
constexpr std::chrono::seconds kProgressEvery(1);

class StatementStream final : public arrow::flight::FlightDataStream {
 public:
  StatementStream(std::shared_ptr<arrow::Schema> schema, StatementRun run)
      : schema_(std::move(schema)), run_(std::move(run)), worker_([this] { Work(); }) {}

  ~StatementStream() override {
    {
      const std::lock_guard lock(mutex_);
      // Also where the client left in the middle: the statement ends with its stream.
      if (!ended_) run_.stop();
      closing_ = true;
      changed_.notify_all();
    }
    worker_.join();
  }

  std::shared_ptr<arrow::Schema> schema() override { return schema_; }

  arrow::Result<FlightPayload> GetSchemaPayload() override {
    FlightPayload payload;
    ARROW_RETURN_NOT_OK(
        arrow::ipc::GetSchemaPayload(*schema_, options_, mapper_, &payload.ipc_message));
    return payload;
  }

  arrow::Result<FlightPayload> Next() override {
    std::unique_lock lock(mutex_);
    if (!result_) {
      ARROW_ASSIGN_OR_RAISE(auto waiting, Wait(lock));
      if (waiting) return *std::move(waiting);
    }
    if (!*result_) {
      ended_ = true;
      return run_.to_flight(result_->error());
    }
    // Not under the lock: whoever looks whether the client has gone must not wait for a batch.
    SelectResult& result = ***result_;
    reading_ = true;
    lock.unlock();
    auto payload = NextBatch(result);
    lock.lock();
    reading_ = false;
    taken_ = std::chrono::steady_clock::now();
    return payload;
  }

 private:
  // Runs the statement; then looks whether anybody takes its result.
  void Work() {
    auto result = Guarded([this] { return run_.run(); });
    if (result && !(*result)->schema()->Equals(*schema_)) {
      result = Fail(Code::kConflict, "the table's columns changed since the statement was planned",
                    {}, "send (or prepare) it again");
    }
    std::unique_lock lock(mutex_);
    result_ = std::move(result);
    taken_ = std::chrono::steady_clock::now();
    changed_.notify_all();
    while (!closing_ && !ended_) {
      changed_.wait_for(lock, kLook);
      if (closing_ || ended_) return;
      if (run_.gone && run_.gone()) run_.stop();
      const bool stalled = run_.stall_max > Duration::zero() && !reading_ &&
                           std::chrono::steady_clock::now() >= taken_ + run_.stall_max;
      if (stalled) return GiveUp();
    }
  }

  // What libraries throw ends the statement, and not the process.
  template <typename Step>
  static std::invoke_result_t<Step> Guarded(Step step) {
    try {
      return step();
    } catch (const std::exception& e) {
      return Fail(Code::kInternal, std::string("unexpected exception: ") + e.what(), {},
                  "please report this");
    }
  }

  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void GiveUp() {
    run_.stop();
    result_ =
        Fail(Code::kCancelled, "the client has not taken its result for too long",
             "server.client_stall", "send the statement again and read its result as it comes");
  }

  arrow::Result<FlightPayload> NextBatch(SelectResult& result) {
    const auto read = Guarded([&] { return result.Next(); });
    if (!read) {
      End();
      return run_.to_flight(read.error());
    }
    const std::shared_ptr<arrow::RecordBatch>& batch = *read;
    if (!batch) {
      End();
      return FlightPayload();
    }
    ARROW_ASSIGN_OR_RAISE(FlightPayload payload, Pack(*batch));
    bytes_ += payload.ipc_message.body_length;
    if (run_.bytes_max <= 0 || bytes_ <= run_.bytes_max) return payload;
    return run_.to_flight(
        Error{Code::kLimit, "the result is larger than " + FormatBytes(run_.bytes_max),
              "server.result_bytes_max", "select fewer columns or rows, or aggregate"});
  }

  // A payload with progress, or none once there is a result.
  arrow::Result<std::optional<FlightPayload>> Wait(std::unique_lock<std::mutex>& lock) {
    const auto until = std::chrono::steady_clock::now() + kProgressEvery;
    while (!result_) {
      changed_.wait_for(lock, kLook);
      if (run_.gone && run_.gone()) run_.stop();
      if (result_ || std::chrono::steady_clock::now() < until) continue;
      ARROW_ASSIGN_OR_RAISE(auto payload, Beat());
      return std::optional(std::move(payload));
    }
    return std::nullopt;
  }

  arrow::Result<FlightPayload> Beat() {
    ARROW_ASSIGN_OR_RAISE(const auto empty, arrow::RecordBatch::MakeEmpty(schema_));
    ARROW_ASSIGN_OR_RAISE(FlightPayload payload, Pack(*empty));
    if (run_.progress) payload.app_metadata = arrow::Buffer::FromString(run_.progress());
    return payload;
  }

  arrow::Result<FlightPayload> Pack(const arrow::RecordBatch& batch) {
    FlightPayload payload;
    ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchPayload(batch, options_, &payload.ipc_message));
    return payload;
  }

  const std::shared_ptr<arrow::Schema> schema_;
  const StatementRun run_;
  const arrow::ipc::IpcWriteOptions options_ = arrow::ipc::IpcWriteOptions::Defaults();
  const arrow::ipc::DictionaryFieldMapper mapper_{*schema_};
  int64_t bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<std::unique_ptr<SelectResult>>> result_;
  std::chrono::steady_clock::time_point taken_;  // When the client last took a batch.
  bool reading_ = false;
  bool ended_ = false;
  bool closing_ = false;
  std::thread worker_;  // Last: it uses all of the above.
};

}  // namespace

std::unique_ptr<arrow::flight::FlightDataStream> MakeStatementStream(
    std::shared_ptr<arrow::Schema> schema, StatementRun run) {
  return std::make_unique<StatementStream>(std::move(schema), std::move(run));
}

}  // namespace lithify::serve
