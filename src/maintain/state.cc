#include "maintain/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace lithify::maintain {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int64_t kStateBytesMax = 256 * kMiB;
constexpr int kReplaceTries = 5;

Json OfUse(const BudgetUse& use) {
  return Json{{"bytes", use.bytes}, {"seconds", use.seconds}, {"commits", use.commits}};
}

BudgetUse ToUse(const Json& json) {
  return {.bytes = json.at("bytes").get<int64_t>(),
          .seconds = json.at("seconds").get<double>(),
          .commits = json.at("commits").get<int64_t>()};
}

int64_t Micros(Time t) { return t.time_since_epoch().count(); }
Time FromMicros(int64_t micros) { return Time(Duration(micros)); }

MaintenanceState ToState(const Json& json) {
  MaintenanceState state;
  for (const auto& [table, fields] : json.at("tables").items()) {
    auto history = plan::HistoryFromFields(fields.get<std::map<std::string, std::string>>());
    if (!history) throw std::runtime_error(table + ": " + history.error().ToString());
    state.tables.emplace(table, std::move(*history));
  }
  for (const auto& [name, since] : json.at("waiting_since").items()) {
    state.waiting_since.emplace(name, FromMicros(since.get<int64_t>()));
  }
  state.priors = plan::PriorsFromNumbers(json.at("priors").get<std::map<std::string, double>>());
  for (const auto& [table, since] : json.at("running").items()) {
    state.running.emplace(table, FromMicros(since.get<int64_t>()));
  }
  // A state from before there were trees has none.
  if (const auto trees = json.find("tree_priors"); trees != json.end()) {
    state.tree_priors = plan::PriorsFromNumbers(trees->get<std::map<std::string, double>>());
  }
  const Json& run = json.at("run");
  state.run.since = FromMicros(run.at("since").get<int64_t>());
  state.run.all = ToUse(run.at("all"));
  for (const auto& [name, use] : run.at("namespaces").items()) {
    state.run.of_namespace.emplace(name, ToUse(use));
  }
  return state;
}

}  // namespace

plan::MaintenancePriors TreePriors() {
  plan::MaintenancePriors priors;
  priors.seconds_per_commit = 0.05;
  return priors;
}

std::string StateJson(const MaintenanceState& state) {
  Json out;
  out["version"] = kVersion;
  out["tables"] = Json::object();
  for (const auto& [table, history] : state.tables) {
    out["tables"][table] = plan::HistoryFields(history);
  }
  out["waiting_since"] = Json::object();
  for (const auto& [name, since] : state.waiting_since) out["waiting_since"][name] = Micros(since);
  out["priors"] = plan::PriorsToNumbers(state.priors);
  out["running"] = Json::object();
  for (const auto& [table, since] : state.running) out["running"][table] = Micros(since);
  out["tree_priors"] = plan::PriorsToNumbers(state.tree_priors);
  Json& run = out["run"];
  run["since"] = Micros(state.run.since);
  run["all"] = OfUse(state.run.all);
  run["namespaces"] = Json::object();
  for (const auto& [name, use] : state.run.of_namespace) run["namespaces"][name] = OfUse(use);
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<MaintenanceState> ParseState(std::string_view text) {
  if (text.empty()) return MaintenanceState();
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() != kVersion) {
      return Fail(Code::kCorrupt, "version " + json.at("version").dump() + " is not known", {},
                  "an older lithify reads no newer state");
    }
    return ToState(json);
  } catch (const std::exception& e) {
    return Fail(Code::kCorrupt, std::string("no state of maintenance: ") + e.what());
  }
}

Result<MaintenanceState> StateFile::Load() {
  const std::string where = store_.Describe() + "/" + key_;
  auto blob = store_.Get(key_, kStateBytesMax);
  if (!blob && blob.error().code == Code::kNotFound) return MaintenanceState();
  if (!blob) return Fail(std::move(blob.error()).In(where));
  auto state = ParseState(blob->bytes);
  if (!state) {
    return Fail(
        std::move(state.error())
            .In(where)
            .Hint("move the file away: runs are then known from the maintenance log alone"));
  }
  return state;
}

Status StateFile::Save(const MaintenanceState& state) {
  return ReplaceObject(store_, key_, StateJson(state));
}

namespace {

constexpr size_t kResetsMax = 100'000;

Result<std::vector<ResetRequest>> ParseResets(std::string_view text) {
  std::vector<ResetRequest> requests;
  try {
    for (const Json& one : Json::parse(text)) {
      requests.push_back({.table = one.at("table"),
                          .by = one.at("by"),
                          .at = FromMicros(one.at("at").get<int64_t>())});
    }
  } catch (const std::exception& e) {
    return Fail(Code::kCorrupt, std::string("no list of resets: ") + e.what(), {},
                "remove the file, and ask again");
  }
  return requests;
}

std::string ResetsJson(const std::vector<ResetRequest>& requests) {
  Json list = Json::array();
  for (const ResetRequest& one : requests) {
    list.push_back({{"table", one.table}, {"by", one.by}, {"at", Micros(one.at)}});
  }
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Status StateFile::AskForReset(const ResetRequest& request) {
  const std::string key = key_ + ".resets";
  Status done;
  for (int i = 0; i < kReplaceTries; ++i) {
    auto known = store_.Get(key, kStateBytesMax);
    if (!known && known.error().code != Code::kNotFound) return Fail(known.error());
    std::vector<ResetRequest> requests;
    if (known) {
      LITHIFY_TRY_ASSIGN(requests, ParseResets(known->bytes));
    }
    if (requests.size() >= kResetsMax) {
      return Fail(Code::kLimit, "too many resets wait: nobody takes them", key,
                  "start lithify-maintain");
    }
    std::erase_if(requests, [&](const ResetRequest& one) { return one.table == request.table; });
    requests.push_back(request);
    const std::string bytes = ResetsJson(requests);
    done = known ? store_.PutIf(key, bytes, known->version) : store_.PutNew(key, bytes);
    if (done || done.error().code != Code::kConflict) return done;
  }
  return done;
}

// One that is asked for meanwhile is not lost: the list is emptied as it was read, or read again.
Result<std::vector<ResetRequest>> StateFile::TakeResets() {
  const std::string key = key_ + ".resets";
  Status done;
  for (int i = 0; i < kReplaceTries; ++i) {
    auto known = store_.Get(key, kStateBytesMax);
    if (!known && known.error().code == Code::kNotFound) return std::vector<ResetRequest>();
    if (!known) return Fail(std::move(known.error()));
    auto requests = ParseResets(known->bytes);
    if (!requests) return Fail(std::move(requests.error()).In(store_.Describe() + "/" + key));
    if (requests->empty()) return requests;
    done = store_.PutIf(key, ResetsJson({}), known->version);
    if (done) return requests;
    if (done.error().code != Code::kConflict) break;
  }
  return Fail(std::move(done.error()));
}

StateLock::~StateLock() {
  if (fd_ >= 0) close(fd_);
}

Status StateLock::Take() {
  if (fd_ >= 0) return {};
  const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Fail(
        Code::kDenied,
        std::string("cannot open it: ") + std::strerror(errno),  // NOLINT(concurrency-mt-unsafe)
        path_);
  }
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    fd_ = fd;
    return {};
  }
  close(fd);
  return Fail(Code::kConflict, "another process maintains by this state file", path_,
              "stop it, or give this one a maintenance.scheduler.state_file of its own");
}

Status ReplaceObject(storage::Store& store, const std::string& key, std::string_view bytes) {
  Status done;
  for (int i = 0; i < kReplaceTries; ++i) {
    const auto known = store.Get(key, kStateBytesMax);
    if (!known && known.error().code != Code::kNotFound) return Fail(known.error());
    done = known ? store.PutIf(key, bytes, known->version) : store.PutNew(key, bytes);
    if (done || done.error().code != Code::kConflict) return done;
  }
  return done;
}

}  // namespace lithify::maintain
