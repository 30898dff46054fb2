// The tables that a SELECT of one caller finds: those of the catalogs, opened as the caller, and
// the views of schema "system". Private to this module.
#ifndef LITHIFY_SERVE_CALLER_TABLES_H_
#define LITHIFY_SERVE_CALLER_TABLES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "serve/job_registry.h"
#include "serve/select.h"
#include "serve/table_access.h"

namespace lithify::serve {

// "system": of the views, which are in no catalog.
inline constexpr std::string_view kViewSchema = "system";

class CallerTables final : public TableProvider {
 public:
  // All of it outlives what is found here; this itself need not.
  CallerTables(const TableAccess& access, const CallContext& call, JobRegistry& jobs,
               const CancelFlag& cancel)
      : access_(access), call_(call), jobs_(jobs), cancel_(cancel) {}

  // kNotFound comes from the catalog, and says where it was looked for.
  Result<std::shared_ptr<TableSource>> Find(const TableName& name) override;
  // Of all that was asked for, as written; views too.
  const std::vector<std::vector<std::string>>& asked() const { return asked_; }

 private:
  Result<std::shared_ptr<TableSource>> FindView(const std::string& view);
  Result<std::shared_ptr<TableSource>> FindTable(const TableName& name);

  const TableAccess& access_;
  const CallContext& call_;
  JobRegistry& jobs_;
  const CancelFlag& cancel_;
  std::vector<std::vector<std::string>> asked_;
};

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_CALLER_TABLES_H_
