// lithify rewrite-data-files and lithify table-health.
#include <unistd.h>

#include <memory>

#include "base/order_text.h"
#include "base/text.h"
#include "commands.h"
#include "iceberg_table.h"
#include "iceberg_text.h"
#include "text/text_table.h"

namespace lithify::cli {
namespace {

struct Options {
  TableOptions table;
  std::string target_file_size = {};
  std::string min_file_size = {};
  std::string max_file_size = {};
  std::string max_group_size = {};
  std::string job_order = "none";
  std::string strategy = {};
  std::string distributed = {};
  job::RewriteRequest request = {};
  std::optional<int> output_spec_id = {};
};

Result<plan::JobOrder> ParseOrder(const std::string& text) {
  if (text == "none") return plan::JobOrder::kNone;
  if (text == "bytes-asc") return plan::JobOrder::kBytesAsc;
  if (text == "bytes-desc") return plan::JobOrder::kBytesDesc;
  if (text == "files-asc") return plan::JobOrder::kFilesAsc;
  if (text == "files-desc") return plan::JobOrder::kFilesDesc;
  return Fail(Code::kInvalid,
              "\"" + text +
                  "\" is not none, bytes-asc, bytes-desc, files-asc or "
                  "files-desc",
              "--rewrite-job-order");
}

Status ReadSizes(const Options& options, plan::RewriteOptions& out) {
  // 0: the table's own property, else the default.
  out.target_file_size_bytes = 0;
  const auto size = [](const std::string& text, const char* flag, int64_t& to) -> Status {
    if (text.empty()) return {};
    LITHIFY_TRY_ASSIGN(to, ParseSize(text, flag));
    return {};
  };
  LITHIFY_TRY(
      size(options.target_file_size, "--target-file-size-bytes", out.target_file_size_bytes));
  LITHIFY_TRY(size(options.min_file_size, "--min-file-size-bytes", out.min_file_size_bytes));
  LITHIFY_TRY(size(options.max_file_size, "--max-file-size-bytes", out.max_file_size_bytes));
  return size(options.max_group_size, "--max-file-group-size-bytes", out.max_file_group_size_bytes);
}

Result<std::optional<group::Distribution>> ParseDistribution(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "auto") return group::Distribution::kAuto;
  if (text == "local") return group::Distribution::kLocal;
  if (text == "require") return group::Distribution::kRequire;
  return Fail(Code::kInvalid, "\"" + text + "\" is neither auto, local nor require",
              "--distributed");
}

// Only an order implies a sort (R103).
Result<plan::Strategy> ParseStrategy(const std::string& text, const std::string& sort_order) {
  if (!sort_order.empty()) {
    if (auto order = ParseRowOrder(sort_order); !order) {
      return Fail(std::move(order.error()).In("--sort-order"));
    }
  }
  if (text.empty()) return sort_order.empty() ? plan::Strategy::kBinpack : plan::Strategy::kSort;
  const auto strategy = plan::ParseStrategy(text);
  if (strategy == plan::Strategy::kZorder) {
    return Fail(Code::kInvalid, "\"" + text + "\" is an order of rows along some columns",
                "--strategy", "write --sort-order 'zorder(a, b)'");
  }
  if (strategy) return *strategy;
  return Fail(Code::kInvalid, "\"" + text + "\" is neither binpack nor sort", "--strategy");
}

Result<job::RewriteRequest> MakeRequest(const Options& options, const catalog::TableIdent& ident) {
  job::RewriteRequest request = options.request;
  request.ident = ident;
  LITHIFY_TRY_ASSIGN(request.options.strategy,
                     ParseStrategy(options.strategy, request.options.sort_order));
  request.output_spec_id = options.output_spec_id;
  LITHIFY_TRY_ASSIGN(request.distribution, ParseDistribution(options.distributed));
  LITHIFY_TRY(ReadSizes(options, request.options));
  LITHIFY_TRY_ASSIGN(request.options.rewrite_job_order, ParseOrder(options.job_order));
  return request;
}

int RunRewrite(const Options& options) {
  const CancelFlag& cancel = CatchSignals();
  const auto failed = [&](const Error& error) {
    return ReportTable(options.table, "rewrite_data_files", error);
  };
  auto opened = OpenTable(options.table, "rewrite_data_files");
  if (!opened) return failed(opened.error());
  const auto request = MakeRequest(options, opened->ident);
  if (!request) return failed(request.error());
  const auto progress = StartProgress(options.table.common, opened->session->clock(), "rewrite");
  auto job = opened->session->MakeJob(*progress, "");
  const auto result = job.RewriteDataFiles(*request, cancel);
  progress->Finish();
  if (!result) return failed(result.error());
  const bool printed =
      options.table.common.json
          ? PrintJson(RewriteJson(*result))
          : options.table.common.quiet || Print(RewriteText(*result, ColourOn(STDOUT_FILENO)));
  if (!printed) return kFailed;
  return result->status == job::RewriteStatus::kPartial ? kFailed : kDone;
}

int RunHealth(const Options& options) {
  const auto failed = [&](const Error& error) {
    return ReportTable(options.table, "table_health", error);
  };
  auto opened = OpenTable(options.table, "table_health");
  if (!opened) return failed(opened.error());
  plan::RewriteOptions wanted = options.request.options;
  if (Status sizes = ReadSizes(options, wanted); !sizes) return failed(sizes.error());
  const auto progress = StartProgress(options.table.common, opened->session->clock(), "health");
  auto job = opened->session->MakeJob(*progress, "");
  const auto result = job.GetTableHealth(opened->ident, wanted);
  progress->Finish();
  if (!result) return failed(result.error());
  const bool printed = options.table.common.json
                           ? PrintJson(HealthJson(*result))
                           : Print(HealthText(*result, ColourOn(STDOUT_FILENO)));
  return printed ? kDone : kFailed;
}

// What decides which files are candidates: the same for both commands (R079).
void AddCandidateOptions(CLI::App& command, Options& options) {
  plan::RewriteOptions& plan = options.request.options;
  command.add_option("--target-file-size-bytes", options.target_file_size,
                     "Size of an output, like 512MiB (default: the table's "
                     "write.target-file-size-bytes, else 512MiB)");
  command.add_option("--min-file-size-bytes", options.min_file_size,
                     "Smaller files are candidates (default: 75 % of the target)");
  command.add_option("--max-file-size-bytes", options.max_file_size,
                     "Larger files are candidates (default: 180 % of the target)");
  command
      .add_option("--min-input-files", plan.min_input_files,
                  "A group needs so many files, unless there is another reason")
      ->capture_default_str();
  command
      .add_option("--delete-file-threshold", plan.delete_file_threshold,
                  "So many delete files make a data file a candidate; 0: off")
      ->capture_default_str();
  command
      .add_option("--delete-ratio-threshold", plan.delete_ratio_threshold,
                  "Such a share of deleted rows makes a data file a candidate; 0: off")
      ->capture_default_str();
}

}  // namespace

void AddRewriteDataFiles(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "rewrite-data-files", "Iceberg: make few large files of many small ones, apply deletes");
  const auto options = std::make_shared<Options>();
  job::RewriteRequest& request = options->request;
  AddTable(*command, options->table);
  AddLimits(*command, options->table);
  AddCandidateOptions(*command, *options);
  command->add_flag("--dry-run", request.dry_run, "Change nothing; print what would be done");
  command->add_option("--where", request.where,
                      "Only files that may hold such rows, like \"day >= '2026-11-01'\"");
  command->add_flag("--rewrite-all", request.options.rewrite_all, "Every file is a candidate");
  command->add_option("--max-file-group-size-bytes", options->max_group_size,
                      "Input bytes that are rewritten together (default: 100GiB)");
  command
      ->add_option("--rewrite-job-order", options->job_order,
                   "none, bytes-asc, bytes-desc, files-asc or files-desc")
      ->capture_default_str();
  command->add_flag("--partial-progress", request.partial_progress,
                    "Commit several times, so that a conflict costs only a part");
  command
      ->add_option("--partial-progress-max-commits", request.partial_progress_max_commits,
                   "Commits at most, with --partial-progress")
      ->capture_default_str();
  command
      ->add_option("--max-attempts", request.max_attempts,
                   "Plans at most, when other writers are faster")
      ->capture_default_str();
  command->add_flag("--remove-dangling-deletes", request.remove_dangling_deletes,
                    "Also drop delete files that apply to no file any more");
  command->add_option("--output-spec-id", options->output_spec_id,
                      "Move the rows of all other partition specs to this one of the table's");
  command
      ->add_option("--max-output-partitions", request.max_output_partitions,
                   "Partitions at most that one group's rows go to, with --output-spec-id")
      ->capture_default_str();
  command->add_option("--distributed", options->distributed,
                      "Whether workers rewrite: auto, local or require (default: "
                      "fleet.distribution)");
  command->add_option("--branch", request.branch, "Branch to work on")->capture_default_str();
  command->add_option("--strategy", options->strategy,
                      "binpack or sort (default: binpack, or sort with --sort-order)");
  command->add_option("--sort-order", request.options.sort_order,
                      "Order of rows, like \"region, ts DESC NULLS LAST\" or \"zorder(a, b)\" "
                      "(default of a sort: the table's own)");
  command
      ->add_option("--min-overlap-depth", request.options.min_overlap_depth,
                   "Sorting: files are rewritten where so many share a key")
      ->capture_default_str();
  AddOverride(*command, options->table.common, "--spill-dir", "limits.spill_directory",
              "Sorting: directory for what does not fit the memory");
  AddOverride(*command, options->table.common, "--spill-limit", "limits.spill",
              "Sorting: bytes in it, at most, like 100GiB");
  command->callback([options, &chosen] { chosen = [options] { return RunRewrite(*options); }; });
}

void AddTableHealth(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "table-health", "Iceberg: small files, deletes and what a rewrite would do; reads no data");
  const auto options = std::make_shared<Options>();
  AddTable(*command, options->table);
  AddCandidateOptions(*command, *options);
  command->callback([options, &chosen] { chosen = [options] { return RunHealth(*options); }; });
}

}  // namespace lithify::cli
