// An Iceberg catalog opened for work: catalog client, locations, runner, audit log, put together
// from a configuration or from flags.
#ifndef LITHIFY_EMBED_ICEBERG_SESSION_H_
#define LITHIFY_EMBED_ICEBERG_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/trace_context.h"
#include "catalog/catalog.h"
#include "catalog/rest_catalog.h"
#include "catalog/table_cache.h"
#include "config/config.h"
#include "embed/audit.h"
#include "embed/environment.h"
#include "embed/table_buckets.h"
#include "group/fleet.h"
#include "job/iceberg_job.h"
#include "net/http.h"
#include "net/token.h"
#include "observe/audit_log.h"
#include "observe/progress.h"
#include "observe/telemetry.h"
#include "storage/locations.h"

namespace lithify::embed {

// A table as a person names it: "lake.sales.orders" is table orders of namespace sales of catalog
// lake. kInvalid for less than a catalog and a table.
struct TableName {
  std::string catalog;
  catalog::TableIdent ident;
};
Result<TableName> ParseTableName(std::string_view text);

// Thread-safe, but for the jobs it makes.
class IcebergSession {
 public:
  // What a session is opened for.
  struct Call {
    std::string procedure;
    catalog::TableIdent ident;
    std::string principal = {};
    // For the catalog and for what is in buckets: S3Access::StopWhen(). Empty: never.
    std::function<bool()> stop = {};
    // Of a REST catalog; null: made of the catalog's configuration.
    std::shared_ptr<net::TokenSource> tokens = {};
    // Of a REST catalog's tables, for several sessions of one principal; null: the session's own.
    std::shared_ptr<catalog::TableCache> cache = {};
    // Around the catalog, for what works with the session; what it gives goes before the session.
    // Empty: nothing.
    std::function<std::unique_ptr<catalog::Catalog>(catalog::Catalog&)> guard = {};
    // Workers that jobs may send groups to; null: none. It outlives the session.
    group::Fleet* fleet = nullptr;
    TraceContext trace = {};  // What jobs are part of.
    // Where the spans of jobs go; it outlives the session. Null: nowhere.
    observe::Telemetry* telemetry = nullptr;
    // Around what the session's files are reached by; `access` tells with what a location is:
    // TableBuckets::Describe(). Empty: nothing.
    std::function<std::unique_ptr<storage::Locations>(
        std::unique_ptr<storage::Locations> all,
        std::function<std::string(std::string_view location)> access)>
        around_storage = {};
    // Where the work goes on without the records (audit_log.on_error = "continue").
    AuditErrorHandler on_audit_error = {};
    // For somebody else, who must reach nothing that this process may and they may not: buckets
    // only with what the catalog lends (R001),
    bool only_lent_storage = false;
    // and no files of this machine (kDenied).
    bool no_local_files = false;
  };

  // `config` gives the limits and the audit log; `catalog` what to open: sqlite:///path/to.db,
  // http:// or https://. kInvalid for other schemes; what opening it gives otherwise. That the
  // catalog refuses already here is in the audit log, as a refusal of the call (R168).
  static Result<std::unique_ptr<IcebergSession>> Open(const config::HiveConfig& config,
                                                      const config::CatalogConfig& catalog,
                                                      const Call& call,
                                                      const Environment& environment);

  // Borrows this session and `progress`. `job_id`: IcebergSettings::job_id.
  job::IcebergJob MakeJob(observe::Progress& progress, const std::string& principal,
                          const std::string& job_id = {});
  // With these settings; of `verify`, threads, memory and spilling the configuration decides.
  job::IcebergJob MakeJob(observe::Progress& progress, job::IcebergSettings settings);
  // What such a job works with, for what is made of the procedures' own parts.
  job::IcebergServices Services(observe::Progress& progress);

  catalog::Catalog& catalog() { return guard_ ? *guard_ : *catalog_; }
  // The same, unguarded; null: it is no REST catalog.
  catalog::RestCatalog* rest() { return rest_; }
  storage::Locations& locations() { return *locations_; }
  Clock& clock() { return clock_; }
  observe::AuditLog& audit() { return *audit_; }
  const std::string& audit_path() const { return audit_path_; }

 private:
  explicit IcebergSession(const config::HiveConfig& config) : config_(config) {}
  Status OpenCatalog(const config::CatalogConfig& catalog, const Call& call);
  // The table, with what the catalog lends for it.
  Result<catalog::LoadedTable> Borrow(const catalog::TableIdent& ident);
  Status OpenRest(const config::CatalogConfig& catalog, const Call& call);
  Status OpenSqlite(const config::CatalogConfig& catalog, const std::string& path);
  void AuditRefusal(const Call& call, const std::string& catalog_uri, const Error& error);

  const config::HiveConfig config_;
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<TableBuckets> buckets_;
  std::unique_ptr<storage::Locations> locations_;
  std::unique_ptr<net::HttpClient> http_;
  std::shared_ptr<net::TokenSource> tokens_;
  std::unique_ptr<catalog::Catalog> catalog_;
  catalog::RestCatalog* rest_ = nullptr;     // What `catalog_` is, if it is one.
  std::unique_ptr<catalog::Catalog> guard_;  // Around it; null: none.
  group::Fleet* fleet_ = nullptr;
  observe::Telemetry* telemetry_ = nullptr;
  TraceContext trace_;
  catalog::RestOptions lending_options_;  // Of a REST catalog; without a URI: it is not to lend.
  std::unique_ptr<catalog::Catalog> lending_;  // The same catalog, once it was asked to.
  std::unique_ptr<observe::AuditLog> audit_;
  std::string audit_path_;
};

// What a catalog's URI is of, by its scheme.
bool IsSqliteCatalog(std::string_view uri);
bool IsRestCatalog(std::string_view uri);

// A file of that name below the user's state directory: $XDG_STATE_HOME/lithify,
// ~/.local/state/lithify or /var/tmp/lithify.
std::string StatePath(const std::string& file_name);

// The catalog called `name` in the configuration, with the flags above it; a catalog that is not
// there is made of the flags alone. kInvalid, naming the catalogs there are, without a URI.
//
// Token, client, token endpoint, scope and headers of a section go with the scheme, host and port
// that they were written beside and with no other: kInvalid, naming both, where `uri` differs.
Result<config::CatalogConfig> ChooseCatalog(const config::HiveConfig& config,
                                            const std::string& name, const std::string& uri,
                                            const std::string& warehouse);

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_ICEBERG_SESSION_H_
