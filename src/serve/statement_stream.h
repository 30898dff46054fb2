// The result of a statement on its way to a client. Private to this module.
#ifndef LITHIFY_SERVE_STATEMENT_STREAM_H_
#define LITHIFY_SERVE_STATEMENT_STREAM_H_

#include <arrow/flight/server.h>

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "serve/select.h"

namespace lithify::serve {

// What a running statement may be asked while its result is not there yet.
struct StatementRun {
  std::shared_ptr<void> owner = {};  // What all of it borrows: goes last.
  // Runs it; called once, by a thread of the stream's own. What it gives is read by the thread that
  // sends it.
  std::function<Result<std::unique_ptr<SelectResult>>()> run;
  // Progress as JSON, for the client; null: none is sent.
  std::function<std::string()> progress = {};
  // Whether the client has gone.
  std::function<bool()> gone = {};
  // The error as the client gets it.
  std::function<arrow::Status(const Error&)> to_flight;
  std::function<void()> stop;  // Asks it to end; any thread, often.
  int64_t bytes_max = 0;       // Of the whole result; 0: no bound.
  Duration stall_max = Duration::zero();
};

// Until there are batches, an empty one goes out every second with the progress as its metadata:
// all clients pass over it, and what stands between keeps the connection. Its end is the end of the
// statement: the stream that is dropped cancels it and waits.
std::unique_ptr<arrow::flight::FlightDataStream> MakeStatementStream(
    std::shared_ptr<arrow::Schema> schema, StatementRun run);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_STATEMENT_STREAM_H_
