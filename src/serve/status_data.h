// What the status page shows, as JSON (docs/api/openapi.yaml): made for one caller, with the
// caller's token, when it is asked for. Private to this module.
//
// Errors, all calls: kDenied the catalog does not take the token, or does not let the caller;
// kNotFound there is no such catalog or table, or none for the caller; kInvalid; kCancelled; and
// what the catalog and the store give.
#ifndef LITHIFY_SERVE_STATUS_DATA_H_
#define LITHIFY_SERVE_STATUS_DATA_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "serve/job_registry.h"
#include "serve/table_access.h"

namespace lithify::serve {

class StatusData {
 public:
  // All of it outlives this.
  StatusData(const TableAccess& access, const CallContext& call, const CancelFlag& cancel)
      : access_(access), call_(call), cancel_(cancel) {}

  // Names alone; of all catalogs, or of one namespace, which need not be one that can be listed.
  Result<std::string> Tables() const;
  Result<std::string> TablesIn(const std::string& catalog,
                               const std::vector<std::string>& namespace_parts) const;

  struct Batch {
    std::string catalog;
    std::vector<std::string> namespace_parts;
    std::optional<std::string> after;
    size_t limit = 0;
  };
  Result<std::string> Health(const Batch& batch) const;
  Result<std::string> Table(const ResolvedTable& table) const;
  Result<std::string> Plan() const;

 private:
  Result<std::vector<std::string>> NamesIn(const std::string& catalog,
                                           const std::vector<std::string>& namespace_parts) const;

  const TableAccess& access_;
  const CallContext& call_;
  const CancelFlag& cancel_;
};

// Of the caller's own jobs.
std::string JobsJson(const std::vector<JobInfo>& jobs, Time now);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_STATUS_DATA_H_
