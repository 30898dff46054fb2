// In-memory DuckDBs, locked down, each for one statement at a time. Private to this module.
#ifndef LITHIFY_SERVE_DUCK_H_
#define LITHIFY_SERVE_DUCK_H_

#include <duckdb.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "serve/select.h"

namespace lithify::serve {

// What DuckDB said went wrong, as our codes have it. `message` is as its setting errors_as_json
// makes it, or plain. `place` turns the position in the statement into words.
Error DuckError(std::string_view message, const std::function<std::string(size_t)>& place);

class DuckTables;

class Duck {
 public:
  // Nothing can be read or written but what is registered with it: no files, network, extensions or
  // settings.
  static Result<std::unique_ptr<Duck>> Open(const SelectLimits& limits);
  ~Duck();
  Duck(const Duck&) = delete;
  Duck& operator=(const Duck&) = delete;

  // The tables that its scan function reads; null: none. They outlive what runs on it.
  void SetTables(DuckTables* tables) { tables_ = tables; }
  DuckTables* tables() const { return tables_; }

  // Connections of the statement's own: what a statement does to them ends with it.
  Status Connect();
  // Takes away what a statement left: `views` of its tables, and its connections. False: it is not
  // as it was.
  bool Clean(size_t views);

  duckdb_connection connection() const { return connection_; }
  // Of the same database: for what may not wait for a statement of the other one.
  duckdb_connection second() const { return second_; }

  // Statements of ours.
  Status Execute(const std::string& sql);
  // json_serialize_sql(): what the parser makes of a statement; it is not run.
  Result<std::string> Parse(std::string_view sql);

 private:
  Duck() = default;
  static Status Execute(duckdb_connection connection, const std::string& sql);

  duckdb_database database_ = nullptr;
  DuckTables* tables_ = nullptr;
  duckdb_connection connection_ = nullptr;
  duckdb_connection second_ = nullptr;
};

// Opening one takes longer than most statements: those that are as they were are used again, up to
// kUsesMax times, by one statement at a time. Thread-safe.
class DuckPool {
 public:
  // With connections.
  Result<std::unique_ptr<Duck>> Take(const SelectLimits& limits);
  // `good`: nothing went wrong with it. Whatever it runs must have ended.
  void Give(std::unique_ptr<Duck> duck, size_t views, bool good);

 private:
  static constexpr size_t kIdleMax = 16;
  static constexpr int kUsesMax = 100;

  // What an instance was opened for, and how often it was used.
  struct Kept {
    std::unique_ptr<Duck> duck;
    int64_t memory_bytes = 0;
    int threads = 0;
    int uses = 0;
  };
  std::mutex mutex_;
  std::vector<Kept> idle_;
  std::map<const Duck*, Kept> lent_;  // Their instances are the takers'.
};

// Interrupts what a connection runs once a stop was asked for, or its time is over, until it is
// destroyed.
class DuckWatch {
 public:
  // All of these outlive this; `stopped` is raised with a stop of either kind. `time_max` zero:
  // there is no bound.
  DuckWatch(duckdb_connection connection, const CancelFlag& cancel, Duration time_max,
            CancelFlag& stopped);
  ~DuckWatch();
  DuckWatch(const DuckWatch&) = delete;
  DuckWatch& operator=(const DuckWatch&) = delete;

  // kCancelled or kLimit, if that is why.
  std::optional<Error> reason() const;

 private:
  void Run();
  bool late() const { return deadline_ && clock_.Monotonic() >= *deadline_; }

  const duckdb_connection connection_;
  const CancelFlag& cancel_;
  const Duration time_max_;
  SystemClock clock_;
  std::optional<Duration> deadline_;
  CancelFlag& stopped_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_DUCK_H_
