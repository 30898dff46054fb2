#include "sql/procedures.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lithify::sql {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr std::string_view kByTable = "the table's `write.target-file-size-bytes`, else 512 MiB";

ArgumentSpec TableArgument() {
  return {.name = "table",
          .type = ArgumentType::kTable,
          .required = true,
          .default_text = "",
          .description = "The table, as `'namespace.table'`"};
}

ArgumentSpec Flag(std::string_view name, std::string_view description,
                  std::vector<std::string_view> aliases = {}) {
  return {.name = name,
          .type = ArgumentType::kBoolean,
          .default_text = "`FALSE`",
          .description = description,
          .aliases = std::move(aliases)};
}

ArgumentSpec Bytes(std::string_view name, std::string_view default_text,
                   std::string_view description) {
  return {.name = name,
          .type = ArgumentType::kBytes,
          .default_text = default_text,
          .description = description,
          .min = 0};
}

ArgumentSpec Whole(std::string_view name, int64_t min, std::string_view default_text,
                   std::string_view description, std::vector<std::string_view> aliases = {}) {
  return {.name = name,
          .type = ArgumentType::kInteger,
          .default_text = default_text,
          .description = description,
          .aliases = std::move(aliases),
          .min = min,
          .max = kIntMax};
}

ArgumentSpec Choice(std::string_view name, std::vector<std::string_view> choices,
                    std::string_view default_text, std::string_view description) {
  return {.name = name,
          .type = ArgumentType::kChoice,
          .default_text = default_text,
          .description = description,
          .choices = std::move(choices)};
}

ArgumentSpec Text(std::string_view name, std::string_view default_text,
                  std::string_view description) {
  return {.name = name,
          .type = ArgumentType::kText,
          .default_text = default_text,
          .description = description};
}

ArgumentSpec OlderThan(std::string_view default_text, std::string_view description) {
  return {.name = "older_than",
          .type = ArgumentType::kTime,
          .default_text = default_text,
          .description = description};
}

// What decides which files are candidates: the same for health and rewriting (R079, T11).
std::vector<ArgumentSpec> CandidateArguments() {
  return {
      Bytes("target_file_size_bytes", kByTable, "Size of an output"),
      Bytes("min_file_size_bytes", "75 % of the target", "Smaller files are candidates"),
      Bytes("max_file_size_bytes", "180 % of the target", "Larger files are candidates"),
      Whole("min_input_files", 1, "`5`",
            "A group needs so many files, unless there is another "
            "reason"),
      Whole("delete_file_threshold", 0, "`0`",
            "So many delete files make a data file a candidate; 0: off"),
      {.name = "delete_ratio_threshold",
       .type = ArgumentType::kNumber,
       .default_text = "`0.3`",
       .description = "Such a share of deleted rows makes a data file a candidate; 0: off",
       .min = 0,
       .max = 1},
  };
}

Procedure RewriteDataFiles() {
  Procedure made{.name = "rewrite_data_files",
                 .description = "Makes few large files of many small ones, and applies deletes",
                 .arguments = {TableArgument()}};
  auto& arguments = made.arguments;
  std::ranges::move(CandidateArguments(), std::back_inserter(arguments));
  const std::vector<ArgumentSpec> own = {
      Flag("rewrite_all", "Every file is a candidate"),
      Text("where", "every file",
           "Only files that may hold such rows, like `'day >= DATE ''2026-11-01'''`"),
      Bytes("max_file_group_size_bytes", "100 GiB", "Input bytes that are rewritten together"),
      Choice("rewrite_job_order", {"none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"},
             "`'none'`", "Which groups go first"),
      Flag("partial_progress", "Commit several times, so that a conflict costs only a part",
           {"partial_progress_enabled"}),
      Whole("partial_progress_max_commits", 1, "`10`", "Commits at most, with partial_progress"),
      Whole("max_attempts", 1, "`4`", "Plans at most, when other writers are faster"),
      Flag("remove_dangling_deletes", "Also drop delete files that apply to no file any more"),
      Whole("output_spec_id", 0, "rows stay in their spec",
            "Move the rows of all other partition specs to this one of the table's"),
      Whole("max_output_partitions", 1, "`1000`",
            "Partitions at most that one group's rows go to, with output_spec_id"),
      Text("branch", "`'main'`", "Branch to work on"),
      Whole("max_concurrent_file_group_rewrites", 1, "as the server's limits allow",
            "Groups that are rewritten at once, at most"),
      Choice("distributed", {"auto", "local", "require"}, "`'auto'`",
             "Whether workers rewrite the groups"),
      Whole("jobs", 0, "the server's `limits.jobs`", "Threads, at most; 0: as many as there are"),
      Bytes("memory", "the server's `limits.memory`", "Memory bound"),
      Choice("verify", {"full", "sample", "counts"}, "the server's `compaction.verify`",
             "How outputs are checked"),
      Choice("strategy", {"binpack", "sort"}, "`'binpack'`, or `'sort'` with a sort_order",
             "How rows are put into files: as they come, or in an order"),
      Text("sort_order", "the table's own",
           "Order of rows: `'region, ts DESC NULLS LAST'`, `'bucket(16, id), days(ts)'`, "
           "`'zorder(a, b)'`, `'hilbert(a, b)'`"),
      Whole("min_overlap_depth", 2, "`2`",
            "Sorting: files are rewritten where so many share a key"),
      Flag("dry_run", "Change nothing; tell what would be done"),
      {.name = "options",
       .type = ArgumentType::kOptions,
       .default_text = "",
       .description = "Any of the others but table, under Spark's names: "
                      "`MAP('min-input-files', '2')`"},
  };
  std::ranges::copy(own, std::back_inserter(arguments));
  return made;
}

Procedure TableHealth() {
  Procedure made{.name = "table_health",
                 .description = "Small files, deletes and what a rewrite would do; reads no data",
                 .changes = false,
                 .arguments = {TableArgument()}};
  std::ranges::move(CandidateArguments(), std::back_inserter(made.arguments));
  return made;
}

Procedure ExpireSnapshots() {
  return {.name = "expire_snapshots",
          .description = "Drops old snapshots and the files that only they need",
          .arguments = {
              TableArgument(),
              OlderThan("the table's `history.expire.max-snapshot-age-ms`, else 5 days",
                        "Snapshots that are older may go"),
              Whole("retain_last", 1, "the table's `history.expire.min-snapshots-to-keep`, else 1",
                    "Keep so many snapshots of each branch"),
              {.name = "snapshot_ids",
               .type = ArgumentType::kIntegers,
               .default_text = "",
               .description = "Only these, whatever their age; not with the two before"},
              Flag("dry_run", "Change nothing; tell what would go"),
          }};
}

Procedure RemoveOrphanFiles() {
  return {.name = "remove_orphan_files",
          .description = "Removes files under the table that nothing refers to",
          .arguments = {
              TableArgument(),
              OlderThan("3 days ago", "Only files that are older; at least a day"),
              {.name = "max_deletes",
               .type = ArgumentType::kInteger,
               .default_text = "`0`",
               .description = "Remove so many at most; 0: all",
               .min = 0},
              Flag("other_locations",
                   "Also look below `write.data.path` and the like outside the table's location"),
              Flag("force", "Even if more than half of all files look like orphans"),
              Flag("dry_run", "Remove nothing; tell what would go"),
          }};
}

std::vector<Procedure> AllProcedures() {
  return {
      RewriteDataFiles(),
      TableHealth(),
      ExpireSnapshots(),
      RemoveOrphanFiles(),
      {.name = "rewrite_manifests",
       .description = "Merges small manifests",
       .arguments = {TableArgument()}},
      {.name = "rollback_to_snapshot",
       .description = "Makes an older snapshot of the table its current one",
       .arguments = {TableArgument(),
                     {.name = "snapshot_id",
                      .type = ArgumentType::kInteger,
                      .required = true,
                      .default_text = "",
                      .description = "An ancestor of the current snapshot"}}},
      {.name = "run_maintenance",
       .description = "One round of what the scheduler would do now",
       .arguments = {{.name = "table",
                      .type = ArgumentType::kTable,
                      .default_text = "every table that is opted in",
                      .description = "Only this table"},
                     Flag("dry_run", "Change nothing; tell what would be done")}},
  };
}

}  // namespace

std::span<const Procedure> Procedures() {
  static const std::vector<Procedure> procedures = AllProcedures();
  return procedures;
}

const Procedure* FindProcedure(std::string_view name) {
  const auto found = std::ranges::find(Procedures(), name, &Procedure::name);
  return found == Procedures().end() ? nullptr : &*found;
}

std::string_view TypeName(ArgumentType type) {
  switch (type) {
    case ArgumentType::kTable: return "name of a table";
    case ArgumentType::kText: return "text";
    case ArgumentType::kChoice: return "choice";
    case ArgumentType::kBoolean: return "boolean";
    case ArgumentType::kInteger: return "whole number";
    case ArgumentType::kNumber: return "number";
    case ArgumentType::kBytes: return "size in bytes";
    case ArgumentType::kTime: return "timestamp or age";
    case ArgumentType::kIntegers: return "array of whole numbers";
    case ArgumentType::kOptions: return "map";
  }
  return "text";
}

template <typename T>
std::optional<T> BoundCall::Get(std::string_view name,
                                std::initializer_list<ArgumentType> types) const {
  const auto spec = std::ranges::find(procedure_->arguments, name, &ArgumentSpec::name);
  LITHIFY_CHECK(
      spec != procedure_->arguments.end() && std::ranges::find(types, spec->type) != types.end(),
      "the procedure has no such argument of that type: " + std::string(name));
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return std::get<T>(found->second);
}

std::optional<TableName> BoundCall::Table(std::string_view name) const {
  return Get<TableName>(name, {ArgumentType::kTable});
}
std::optional<std::string> BoundCall::Text(std::string_view name) const {
  return Get<std::string>(name, {ArgumentType::kText, ArgumentType::kChoice});
}
std::optional<bool> BoundCall::Boolean(std::string_view name) const {
  return Get<bool>(name, {ArgumentType::kBoolean});
}
std::optional<int64_t> BoundCall::Integer(std::string_view name) const {
  return Get<int64_t>(name, {ArgumentType::kInteger, ArgumentType::kBytes});
}
std::optional<double> BoundCall::Number(std::string_view name) const {
  return Get<double>(name, {ArgumentType::kNumber});
}
std::optional<TimeBound> BoundCall::Bound(std::string_view name) const {
  return Get<TimeBound>(name, {ArgumentType::kTime});
}
std::vector<int64_t> BoundCall::Integers(std::string_view name) const {
  return Get<std::vector<int64_t>>(name, {ArgumentType::kIntegers})
      .value_or(std::vector<int64_t>());
}

}  // namespace lithify::sql
