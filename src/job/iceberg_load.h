// What a table says of the options of a rewrite, and what it means that a file of it is gone.
// Private to this module.
#ifndef LITHIFY_JOB_ICEBERG_LOAD_H_
#define LITHIFY_JOB_ICEBERG_LOAD_H_

#include "base/result.h"
#include "catalog/catalog.h"
#include "job/iceberg_job.h"
#include "plan/iceberg_plan.h"

namespace lithify::job {

// For an error of reading what `seen` refers to: kNotFound is a kConflict if the table has moved on
// since, as an expiry removes what only old metadata needs (I9), and what loading the table gave if
// that fails with anything but kNotFound. Other errors stay as they are.
Error IfMovedOn(const IcebergServices& services, const catalog::LoadedTable& seen, Error error);

// rewrite_data_files takes what the caller did not set from the table (group/target.h).
plan::RewriteOptions WithTableDefaults(plan::RewriteOptions options,
                                       const iceberg::TableMetadata& table);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_ICEBERG_LOAD_H_
