// How a statement reaches tables: names to catalogs, and catalogs opened as the caller (R001). What
// is opened here has the caller's token and what the catalog lends for it, and nothing else: no
// storage key, no variable of the environment, and no file of this machine unless the operator
// allows it (server.local_files).
//
// Thread safety: thread-safe, but for what it opens.
#ifndef LITHIFY_SERVE_TABLE_ACCESS_H_
#define LITHIFY_SERVE_TABLE_ACCESS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/trace_context.h"
#include "catalog/catalog.h"
#include "config/config.h"
#include "embed/audit.h"
#include "embed/iceberg_session.h"
#include "group/fleet.h"
#include "job/table_sightings.h"
#include "net/token.h"
#include "serve/caller.h"

namespace lithify::serve {

// The bearer token of one call, for as long as the call. Thread-safe.
class CallerToken final : public net::TokenSource {
 public:
  // Empty: anonymous; requests go without one.
  explicit CallerToken(Secret token) : token_(std::move(token)) {}
  Result<Secret> Token() override;
  // There can be no other one.
  Status Invalidate(const Secret& token) override;
  // The catalog took it for no valid token (401), as opposed to one without the right (403).
  bool refused() const { return refused_.load(std::memory_order_relaxed); }
  bool anonymous() const { return token_.empty(); }

 private:
  const Secret token_;
  std::atomic<bool> refused_{false};
};

// Of one call, borrowed by everything that works for it.
struct CallContext {
  Caller caller;
  std::string session;                 // Empty: none.
  std::string client;                  // Address, as the transport sees it.
  std::string job_id;                  // Of its job in the registry; empty: it is none.
  std::string catalog;                 // Of the session; empty: the server's.
  std::vector<std::string> schema;     // Of the session; of names of one part. Empty: "default".
  std::shared_ptr<CallerToken> token;  // Of the caller; never null.
  TraceContext trace = {};             // That the caller says this is part of.
};

// What a caller asks for; never more than the server's own.
struct CallLimits {
  int jobs = 0;              // Threads; 0: the server's.
  int64_t memory_bytes = 0;  // Likewise.
  std::string verify;        // "counts", "sample", "full"; empty: the server's.
};

struct ResolvedTable {
  std::string catalog;
  catalog::TableIdent ident;
};

class TableAccess {
 public:
  // kInvalid, naming all of it: no catalog, an unknown server.catalog, a catalog with a credential
  // of its own, [s3] keys, or a SQLite catalog without server.local_files.
  // `clock` outlives it. `audit_failed` gets what cannot be written to the audit log where the work
  // goes on without it; thread-safe. `sightings`, unless null, is told of each table that is loaded
  // for a caller, and outlives it; so does `fleet`, which callers' jobs may go to.
  static Result<TableAccess> Make(const config::HiveConfig& config, const Clock& clock,
                                  embed::AuditErrorHandler audit_failed,
                                  job::TableSightings* sightings = nullptr,
                                  group::Fleet* fleet = nullptr);

  // The catalog called `name`; empty: that of the session, else the server's. kNotFound, with those
  // that there are.
  Result<std::string> ChooseCatalog(const std::string& name, const CallContext& call) const;
  // "orders", "sales.orders", "lake.sales.orders", deeper namespaces: the first part is a catalog
  // if one of the server's is called so and there are two more. One part: in the session's schema,
  // else in namespace "default" (R064).
  Result<ResolvedTable> Resolve(const std::vector<std::string>& parts,
                                const CallContext& call) const;

  // For `procedure` on `ident` (empty name: on the catalog), as the caller.
  Result<std::unique_ptr<embed::IcebergSession>> Open(
      const std::string& catalog, const std::string& procedure, const catalog::TableIdent& ident,
      const CallContext& call, std::function<bool()> stop, const CallLimits& limits = {}) const;

  // kDenied if the caller's token ends before a change could be committed (Q14).
  Status CheckToken(const CallContext& call) const;

  // Of a job with these limits.
  int Threads(const CallLimits& limits) const;

  std::vector<std::string> catalogs() const;  // Sorted.
  const config::HiveConfig& config() const { return config_; }

 private:
  TableAccess(config::HiveConfig config, const Clock& clock, embed::AuditErrorHandler audit_failed,
              job::TableSightings* sightings, group::Fleet* fleet)
      : config_(std::move(config)),
        clock_(&clock),
        audit_failed_(std::move(audit_failed)),
        sightings_(sightings),
        fleet_(fleet) {}
  const config::CatalogConfig* Find(const std::string& name) const;

  config::HiveConfig config_;
  const Clock* clock_;
  embed::AuditErrorHandler audit_failed_;
  job::TableSightings* sightings_;  // Null: nobody wants to know.
  group::Fleet* fleet_;             // Null: there are no workers.
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_TABLE_ACCESS_H_
