#include "config/config.h"

#include <algorithm>

#include "base/order_text.h"
#include "base/text.h"
#include "config/catalogs.h"
#include "config/fields.h"
#include "config/sources.h"
#include "table/hive_layout.h"

namespace lithify::config {
namespace {

using Problems = std::vector<std::string>;

constexpr int64_t kRowGroupBytes = 128 * kMiB;
constexpr int64_t kPageBytes = kMiB;

// The last of the sources that names the preset decides, before everything else is read.
void ApplyPreset(const std::vector<const std::vector<Assignment>*>& sources, HiveConfig& config) {
  for (const auto* values : sources) {
    for (const Assignment& value : *values) {
      if (value.key != "layout.preset") continue;
      // A wrong value is reported when all values are applied.
      [[maybe_unused]] const Status set = FindField(value.key)->set(config, value.raw);
    }
  }
  config.shape.row_group_bytes = kRowGroupBytes;
  config.shape.row_group_rows = rewrite::kRowGroupRows;
  config.shape.page_bytes = kPageBytes;
  if (config.preset != "ourios") return;
  config.series = table::OuriosLayout();
  config.audit_series = "audit";
  config.shape.plain_columns = {"body"};
  config.shape.bloom_columns = {"template_id", "trace_id", "span_id"};
}

void ApplySeries(const std::vector<SeriesTable>& tables, HiveConfig& config, Problems& problems) {
  std::vector<std::string> seen;
  for (const SeriesTable& table : tables) {
    SeriesLayout layout = ReadSeries(table, problems);
    if (std::ranges::find(seen, layout.name) != seen.end()) {
      AddProblem(problems, table.source, "series.name",
                 "\"" + layout.name + "\" is used by another [[series]] already");
      continue;
    }
    seen.push_back(layout.name);
    const auto same = std::ranges::find(config.series, layout.name, &SeriesLayout::name);
    if (same != config.series.end()) {
      *same = std::move(layout);
    } else {
      config.series.push_back(std::move(layout));
    }
  }
}

bool HasRole(const SeriesLayout& layout, ColumnRole role) {
  return std::ranges::find(layout.columns, role, &PartitionColumn::role) != layout.columns.end();
}

void CheckAllSeries(const HiveConfig& config, const std::string& where, Problems& problems) {
  if (config.series.empty()) {
    AddProblem(problems, where, "series",
               "none is defined; with layout.preset = \"none\" at least one [[series]] is needed");
  }
  for (size_t i = 0; i < config.series.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (config.series[i].prefix != config.series[j].prefix) continue;
      AddProblem(problems, where, "series.prefix",
                 "\"" + config.series[i].prefix + "\" is the prefix of both \"" +
                     config.series[j].name + "\" and \"" + config.series[i].name + "\"");
    }
  }
  if (config.audit_series.empty()) return;
  const auto audit = std::ranges::find(config.series, config.audit_series, &SeriesLayout::name);
  if (audit == config.series.end()) {
    AddProblem(problems, where, "compaction.audit_series",
               "\"" + config.audit_series + "\" is not the name of a series; \"\" writes none");
    return;
  }
  const bool day = HasRole(*audit, ColumnRole::kDate) || HasRole(*audit, ColumnRole::kDay);
  if (!day || !HasRole(*audit, ColumnRole::kTenant)) {
    AddProblem(problems, where, "compaction.audit_series",
               "the series \"" + config.audit_series + "\" must have a tenant and a day");
  }
}

void CheckOrder(std::string_view low_key, int64_t low, std::string_view high_key, int64_t high,
                const std::string& where, Problems& problems) {
  if (low <= high) return;
  AddProblem(problems, where, low_key,
             "is " + FormatBytes(low) + ", but must be at most " + std::string(high_key) +
                 ", which is " + FormatBytes(high));
}

void CrossCheck(const HiveConfig& config, const std::string& where, Problems& problems) {
  const plan::HiveOptions& options = config.options;
  CheckOrder("compaction.small_file_bytes", options.small_file_bytes, "compaction.file_bytes_min",
             options.file_bytes_min, where, problems);
  CheckOrder("compaction.file_bytes_min", options.file_bytes_min, "compaction.target_file_bytes",
             options.target_file_bytes, where, problems);
  CheckOrder("compaction.target_file_bytes", options.target_file_bytes, "compaction.file_bytes_max",
             options.file_bytes_max, where, problems);
  CheckOrder("compaction.file_bytes_max", options.file_bytes_max, "compaction.max_input_bytes",
             options.max_input_bytes, where, problems);
  CheckOrder("output.page_bytes", config.shape.page_bytes, "output.row_group_bytes",
             config.shape.row_group_bytes, where, problems);
  if (config.jobs > 0 && config.partitions_at_once > config.jobs) {
    AddProblem(problems, where, "limits.partitions_at_once",
               "is " + std::to_string(config.partitions_at_once) +
                   ", but must be at most limits.jobs, which is " + std::to_string(config.jobs));
  }
  if (config.shape.codec == "gzip" && config.shape.codec_level > 9) {
    AddProblem(
        problems, where, "output.codec_level",
        "is " + std::to_string(config.shape.codec_level) + ", but gzip has the levels 1 to 9");
  }
}

Result<std::optional<RowOrder>> ReadSort(const std::vector<std::string>& terms) {
  if (terms.empty()) return std::nullopt;
  std::string text;
  for (const std::string& term : terms) {
    // Alone, so that the message counts in what was written.
    if (auto alone = ParseRowOrder(term); !alone) {
      return Fail(std::move(alone.error()).In(JsonQuote(term)));
    }
    text += (text.empty() ? "" : ", ") + term;
  }
  LITHIFY_TRY_ASSIGN(RowOrder order, ParseRowOrder(text));
  return order;
}

void CheckSort(const HiveConfig& config, const std::string& where, Problems& problems) {
  const auto order = ReadSort(config.sort);
  if (order) return;
  const Error& error = order.error();
  AddProblem(
      problems, where, "output.sort",
      (error.context.empty() ? "" : error.context + ": ") + error.message + "; " + error.hint);
}

// R267: the key that is missing is named, no value of any.
void CheckS3(const storage::S3Settings& s3, const std::string& where, Problems& problems) {
  const bool id = !s3.access_key_id.empty();
  if (id != !s3.secret_access_key.empty()) {
    AddProblem(problems, where, id ? "s3.secret_access_key" : "s3.access_key_id",
               std::string("is missing; it goes with ") +
                   (id ? "s3.access_key_id" : "s3.secret_access_key"));
  }
  if (!id && !s3.session_token.empty()) {
    AddProblem(problems, where, "s3.session_token",
               "goes with s3.access_key_id and s3.secret_access_key");
  }
}

}  // namespace

std::optional<RowOrder> SortOrderOf(const HiveConfig& config) {
  auto order = ReadSort(config.sort);
  LITHIFY_CHECK(order.has_value(), "a configuration that was loaded has been checked");
  return *std::move(order);
}

Result<HiveConfig> LoadHiveConfig(
    std::string_view toml, std::string_view file_name,
    const std::vector<std::pair<std::string, std::string>>& environment,
    const std::vector<Override>& flags) {
  Problems problems;
  const FileContent file = ReadFileContent(toml, file_name, environment, problems);
  const std::vector<Assignment> variables = ReadEnvironment(environment, "");
  std::vector<Assignment> given;
  for (const Override& flag : flags) {
    given.push_back(
        {.key = flag.key, .raw = {.value = flag.value, .typed = false}, .source = flag.source});
  }

  HiveConfig config;
  ApplyPreset({&file.values, &variables, &given}, config);
  ApplySeries(file.series, config, problems);
  config.catalogs = ReadCatalogs(file.catalogs, problems);
  // R044: flags above the environment above the file above the defaults.
  ApplyAll(file.values, Fields(), config, problems);
  ApplyAll(variables, Fields(), config, problems);
  ApplyAll(given, Fields(), config, problems);
  config.shape.file_size_bytes_max = config.options.file_bytes_max;
  // Values that are each allowed, but not together; told only once each is.
  if (problems.empty()) {
    const std::string where = file_name.empty() ? "configuration" : std::string(file_name);
    CheckAllSeries(config, where, problems);
    CrossCheck(config, where, problems);
    CheckSort(config, where, problems);
    CheckS3(config.s3, where, problems);
    CheckAuth(config.auth, where, problems);
    CheckFleet(config.fleet, where, problems);
  }
  if (problems.empty()) return config;

  return FailWith(problems);
}

}  // namespace lithify::config
