// Results of the procedures on Iceberg tables, as text and as JSON. Pure.
#ifndef LITHIFY_APPS_LITHIFY_ICEBERG_TEXT_H_
#define LITHIFY_APPS_LITHIFY_ICEBERG_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "job/iceberg_job.h"

namespace lithify::cli {

// One row, R068; a dry run also has "plan".
nlohmann::ordered_json RewriteJson(const job::RewriteResult& result);
std::string RewriteText(const job::RewriteResult& result, bool colour);

// R073 first, then R074; definitions in docs/COMPACTION.md.
nlohmann::ordered_json HealthJson(const job::HealthResult& result);
std::string HealthText(const job::HealthResult& result, bool colour);

nlohmann::ordered_json RemovedJson(const job::RemovedFiles& removed);
std::string RemovedText(const job::RemovedFiles& removed, bool colour);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_ICEBERG_TEXT_H_
