// What a table says of the options of a rewrite, and what it means that a file of it is gone.
// Private to this module.
#ifndef LITHIFY_JOB_ICEBERG_LOAD_H_
#define LITHIFY_JOB_ICEBERG_LOAD_H_

#include <string>

#include "base/iceberg.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "job/iceberg_job.h"
#include "plan/iceberg_plan.h"

namespace lithify::job {

// For an error of reading what `seen` refers to: kNotFound is a kConflict if the table has moved on
// since, as an expiry removes what only old metadata needs (I9), and what loading the table gave if
// that fails with anything but kNotFound. Other errors stay as they are.
Error IfMovedOn(const IcebergServices& services, const catalog::LoadedTable& seen, Error error);

// What the caller did not set, from the table (group/target.h), and the order of a sort. Errors: as
// of ParseRowOrder(), BindOrder() and DeclaredOrder(), unless `binpack_if_unsorted`.
Result<plan::RewriteOptions> ResolveOptions(plan::RewriteOptions options,
                                            const iceberg::TableMetadata& table);

// The column whose bounds tell where files lie in the order of a sort. Of other strategies, the
// first one of the table's own order, which reads look for. A null `field`: there is none.
struct PlanKey {
  const iceberg::Field* field = nullptr;  // Of the table's current schema.
  std::string transform = "identity";
};
PlanKey KeyOf(const plan::RewriteOptions& resolved, const iceberg::TableMetadata& table);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_LOAD_H_
