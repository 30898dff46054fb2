// How an autonomous job reaches a table: with a catalog opened for this job alone, under the
// principal, and closed with it (R004, R005). There is no way here to a statement.
#ifndef LITHIFY_MAINTAIN_TABLE_SESSIONS_H_
#define LITHIFY_MAINTAIN_TABLE_SESSIONS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "catalog/rest_catalog.h"
#include "config/config.h"
#include "embed/environment.h"
#include "group/fleet.h"
#include "job/iceberg_job.h"
#include "maintain/opt_in_catalog.h"
#include "maintain/principal.h"
#include "observe/progress.h"
#include "storage/locations.h"

namespace lithify::maintain {

struct SessionRequest {
  std::string job_id = {};
  std::string procedure = {};      // For the record of a refusal; "" of a look around.
  catalog::TableIdent ident = {};  // Empty name: the catalog as a whole.
  // Of a job that changes the table: what its owner must have opted in to. Unset: for reading,
  // and for lithify's own log.
  std::function<bool(const OptInCatalog::Properties&)> opted_in = {};
  std::string property = {};
  std::function<Status()> may_commit = {};  // OptInCatalog::Rules::may_commit.
  std::function<bool()> stop = {};
  // At many tables, time and again: what did not change is not sent anew.
  bool looks_around = false;
};

// One job's, or one look around. Its calls are those of IcebergSession; thread-safe, but for jobs.
class TableSession {
 public:
  virtual ~TableSession() = default;
  virtual catalog::Catalog& catalog() = 0;
  // The same catalog, unguarded, for what else its server has to read; null: it is none of REST.
  virtual catalog::RestCatalog* rest() { return nullptr; }
  // Of a session of the catalog as a whole: one that reads this table's files, with what the
  // catalog lends for it, and changes nothing; with the same credential, which this one outlives.
  virtual Result<std::unique_ptr<TableSession>> ForReading(const catalog::TableIdent& ident) = 0;
  virtual storage::Locations& locations() = 0;
  virtual job::IcebergJob MakeJob(observe::Progress& progress, job::IcebergSettings settings) = 0;
  virtual job::IcebergServices Services(observe::Progress& progress) = 0;
};

// Thread-safe.
class TableSessions {
 public:
  virtual ~TableSessions() = default;
  // kDenied, kTransient: there is no token, or the catalog refuses it; as IcebergSession::Open().
  virtual Result<std::unique_ptr<TableSession>> Open(const SessionRequest& request) = 0;
  virtual std::string actor() const = 0;  // Who it is in audit records and log rows.
};

// Sessions of the configured catalog: `principal` is null for a catalog without identities. A
// commit needs a token that lives so long, to outlast the request.
inline constexpr Duration kCommitTokenLife = std::chrono::seconds(30);
// All but `config` and `catalog`, which are copied, outlive the result. `threads`: of one session's
// job. `fleet`: workers that jobs may go to, with the storage keys that the catalog lends and never
// with a token; null: there are none. `telemetry`: where spans of jobs go; null: nowhere.
std::unique_ptr<TableSessions> MakeTableSessions(const config::HiveConfig& config,
                                                 const config::CatalogConfig& catalog,
                                                 const Principal* principal,
                                                 embed::Environment environment, int threads,
                                                 group::Fleet* fleet = nullptr,
                                                 observe::Telemetry* telemetry = nullptr);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_TABLE_SESSIONS_H_
