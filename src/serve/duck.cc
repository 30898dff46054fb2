#include "serve/duck.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "serve/duck_table.h"

namespace lithify::serve {
namespace {

using Json = nlohmann::json;

constexpr auto kPoll = std::chrono::milliseconds(50);

struct Kind {
  std::string_view type;
  Code code;
  std::string_view hint;
};

// Others are of the statement: syntax, names, types, values.
constexpr std::array kKinds = {
    Kind{"Permission", Code::kDenied, "only the caller's tables can be read"},
    Kind{"Not implemented", Code::kUnsupported, ""},
    Kind{"Out of Memory", Code::kLimit, "select fewer rows, or ask for a greater memory limit"},
    Kind{"INTERRUPT", Code::kCancelled, ""},
    Kind{"Interrupt", Code::kCancelled, ""},
    Kind{"INTERNAL", Code::kInternal, ""},
    Kind{"FATAL", Code::kInternal, ""},
    Kind{"IO", Code::kInternal, ""},
};

}  // namespace

Error DuckError(std::string_view message, const std::function<std::string(size_t)>& place) {
  Error error{Code::kInvalid, std::string(message), "", "correct the statement"};
  // Some come with their kind before them: "Parser Error: {…".
  const size_t begin = std::min(message.find('{'), message.size());
  const Json json = Json::parse(message.substr(begin), nullptr, false);
  if (!json.is_object()) return error;
  const auto text = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  error.message = text("exception_message");
  const std::string position = text("position");
  if (!position.empty()) error.context = place(std::strtoull(position.c_str(), nullptr, 10));
  const std::string type = text("exception_type");
  for (const Kind& kind : kKinds) {
    if (kind.type != type) continue;
    error.code = kind.code;
    error.hint = kind.hint;
  }
  return error;
}

Result<std::unique_ptr<Duck>> Duck::Open(const SelectLimits& limits) {
  auto duck = std::unique_ptr<Duck>(new Duck());
  duckdb_config config = nullptr;
  if (duckdb_create_config(&config) != DuckDBSuccess) {
    return Fail(Code::kLimit, "out of memory");
  }
  const std::string threads = std::to_string(limits.threads < 1 ? 1 : limits.threads);
  const std::string memory =
      std::to_string(std::max<int64_t>(limits.memory_bytes, 16 * kMiB)) + "B";
  const std::pair<const char*, const char*> settings[] = {
      {"threads", threads.c_str()},
      {"memory_limit", memory.c_str()},
      {"autoinstall_known_extensions", "false"},
      {"autoload_known_extensions", "false"},
      {"allow_community_extensions", "false"},
      {"allow_unsigned_extensions", "false"},
      {"allow_persistent_secrets", "false"},
      {"max_temp_directory_size", "0KB"},
  };
  char* why = nullptr;
  duckdb_state state = DuckDBSuccess;
  for (const auto& [name, value] : settings) {
    if (duckdb_set_config(config, name, value) != DuckDBSuccess) state = DuckDBError;
  }
  if (state == DuckDBSuccess) state = duckdb_open_ext(nullptr, &duck->database_, config, &why);
  duckdb_destroy_config(&config);
  if (state != DuckDBSuccess) {
    const std::string message = why == nullptr ? "a setting is unknown" : why;
    duckdb_free(why);
    return Fail(Code::kInternal, "DuckDB does not start: " + message);
  }
  duckdb_connection setup = nullptr;
  if (duckdb_connect(duck->database_, &setup) != DuckDBSuccess) {
    return Fail(Code::kInternal, "DuckDB gives no connection");
  }
  Status ready = RegisterScan(setup, *duck);
  // Once external access is disabled, the folder for temporary files stays what it is; once the
  // configuration is locked, nothing of it changes. DuckDB takes time for the cube of an
  // expression's depth before it runs it, and is not to be stopped then: of 900 levels half a
  // minute.
  for (const char* statement :
       {"SET GLOBAL temp_directory = ''", "SET GLOBAL max_expression_depth = 250",
        "SET GLOBAL TimeZone = 'UTC'", "SET GLOBAL errors_as_json = true",
        "SET GLOBAL enable_external_access = false",
        "SET GLOBAL disabled_filesystems = 'LocalFileSystem'",
        "SET GLOBAL lock_configuration = true"}) {
    if (ready) ready = Execute(setup, statement);
  }
  duckdb_disconnect(&setup);
  if (ready) ready = duck->Connect();
  if (!ready) return Fail(std::move(ready.error()));
  return duck;
}

Status Duck::Connect() {
  if (duckdb_connect(database_, &connection_) != DuckDBSuccess ||
      duckdb_connect(database_, &second_) != DuckDBSuccess) {
    return Fail(Code::kInternal, "DuckDB gives no connection");
  }
  return {};
}

bool Duck::Clean(size_t views) {
  bool clean = true;
  for (size_t i = 0; i < views; ++i) {
    clean = Execute("DROP VIEW memory.main." + DuckTables::ViewName(i)).has_value() && clean;
  }
  duckdb_disconnect(&second_);
  duckdb_disconnect(&connection_);
  tables_ = nullptr;
  return clean;
}

Duck::~Duck() {
  if (second_ != nullptr) duckdb_disconnect(&second_);
  if (connection_ != nullptr) duckdb_disconnect(&connection_);
  if (database_ != nullptr) duckdb_close(&database_);
}

Status Duck::Execute(const std::string& sql) { return Execute(connection_, sql); }

Status Duck::Execute(duckdb_connection connection, const std::string& sql) {
  duckdb_result result;
  const duckdb_state state = duckdb_query(connection, sql.c_str(), &result);
  Status status;
  if (state != DuckDBSuccess) {
    const char* why = duckdb_result_error(&result);
    status =
        Fail(Code::kInternal, "DuckDB refuses \"" + sql + "\": " + (why == nullptr ? "" : why));
  }
  duckdb_destroy_result(&result);
  return status;
}

Result<std::unique_ptr<Duck>> DuckPool::Take(const SelectLimits& limits) {
  Kept kept;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(idle_, [&](const Kept& idle) {
      return idle.memory_bytes == limits.memory_bytes && idle.threads == limits.threads;
    });
    if (at != idle_.end()) {
      kept = std::move(*at);
      idle_.erase(at);
    }
  }
  if (kept.duck != nullptr) {
    LITHIFY_TRY(kept.duck->Connect());
  } else {
    LITHIFY_TRY_ASSIGN(kept.duck, Duck::Open(limits));
    kept.memory_bytes = limits.memory_bytes;
    kept.threads = limits.threads;
  }
  ++kept.uses;
  std::unique_ptr<Duck> duck = std::move(kept.duck);
  const std::lock_guard lock(mutex_);
  lent_[duck.get()] = std::move(kept);
  return duck;
}

void DuckPool::Give(std::unique_ptr<Duck> duck, size_t views, bool good) {
  Kept kept;
  {
    const std::lock_guard lock(mutex_);
    const auto at = lent_.find(duck.get());
    if (at == lent_.end()) return;
    kept = std::move(at->second);
    lent_.erase(at);
  }
  if (!good || kept.uses >= kUsesMax || !duck->Clean(views)) return;
  kept.duck = std::move(duck);
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(kept));
}

Result<std::string> Duck::Parse(std::string_view sql) {
  duckdb_prepared_statement statement = nullptr;
  duckdb_result result = {};
  Result<std::string> out;
  if (duckdb_prepare(connection_, "SELECT json_serialize_sql(?::VARCHAR)", &statement) ==
          DuckDBSuccess &&
      duckdb_bind_varchar_length(statement, 1, sql.data(), sql.size()) == DuckDBSuccess &&
      duckdb_execute_prepared(statement, &result) == DuckDBSuccess) {
    duckdb_data_chunk chunk = duckdb_fetch_chunk(result);
    if (chunk != nullptr && duckdb_data_chunk_get_size(chunk) == 1) {
      auto* values = static_cast<duckdb_string_t*>(
          duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0)));
      out = std::string(duckdb_string_t_data(values), duckdb_string_t_length(values[0]));
    } else {
      out = Fail(Code::kInternal, "DuckDB's parser gives no answer");
    }
    duckdb_destroy_data_chunk(&chunk);
  } else {
    const char* why = duckdb_result_error(&result);
    if (why == nullptr) why = duckdb_prepare_error(statement);
    out = Fail(DuckError(why == nullptr ? "the statement cannot be parsed" : why,
                         [](size_t) { return std::string(); }));
  }
  duckdb_destroy_result(&result);
  duckdb_destroy_prepare(&statement);
  return out;
}

DuckWatch::DuckWatch(duckdb_connection connection, const CancelFlag& cancel, Duration time_max,
                     CancelFlag& stopped)
    : connection_(connection), cancel_(cancel), time_max_(time_max), stopped_(stopped) {
  if (time_max > Duration::zero()) deadline_ = clock_.Monotonic() + time_max;
  thread_ = std::thread([this] { Run(); });
}

DuckWatch::~DuckWatch() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DuckWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    if (cancel_.requested() || late()) stopped_.Request();
    // Again and again: one that comes between two of the statement's steps is forgotten.
    if (stopped_.requested()) duckdb_interrupt(connection_);
    changed_.wait_for(lock, kPoll);
  }
}

std::optional<Error> DuckWatch::reason() const {
  if (cancel_.requested()) return Error{Code::kCancelled, "stopped on request", "", ""};
  if (late()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time_max_);
    return Error{Code::kLimit,
                 "the statement took longer than " + std::to_string(seconds.count()) + " s", "",
                 "select less, or raise the time limit"};
  }
  return std::nullopt;
}

}  // namespace lithify::serve
