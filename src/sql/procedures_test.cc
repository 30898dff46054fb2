#include "sql/procedures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/text.h"
#include "plan/iceberg_plan.h"

namespace lithify::sql {
namespace {

using std::chrono::days;
using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;

Result<BoundCall> Bound(std::string_view text) {
  auto statement = Parse(text);
  if (!statement) return Fail(std::move(statement.error()));
  return Bind(std::get<Call>(*statement));
}

std::string ErrorOf(std::string_view text) {
  const auto bound = Bound(text);
  return bound ? "bound" : bound.error().ToString();
}

BoundCall Must(std::string_view text) {
  auto bound = Bound(text);
  EXPECT_TRUE(bound) << bound.error().ToString();
  return bound ? *bound : BoundCall();
}

TEST(Bind, GivesTypedArguments) {
  const BoundCall call = Must(
      "CALL lake.system.rewrite_data_files(table => 'sales.orders', target_file_size_bytes => "
      "'64MiB', min_input_files => 2, delete_ratio_threshold => 0.25, rewrite_all => true, "
      "rewrite_job_order => 'BYTES-desc', where => 'day = 1', strategy => 'binpack')");
  EXPECT_EQ(call.procedure().name, "rewrite_data_files");
  EXPECT_EQ(call.catalog(), "lake");
  EXPECT_THAT(call.Table()->parts, ElementsAre("sales", "orders"));
  EXPECT_EQ(call.Table()->position.column, 46);
  EXPECT_EQ(call.Integer("target_file_size_bytes"), 64 * kMiB);
  EXPECT_EQ(call.Integer("min_input_files"), 2);
  EXPECT_EQ(call.Number("delete_ratio_threshold"), 0.25);
  EXPECT_EQ(call.Boolean("rewrite_all"), true);
  EXPECT_EQ(call.Text("rewrite_job_order"), "bytes-desc");
  EXPECT_EQ(call.Text("where"), "day = 1");
  EXPECT_EQ(call.Boolean("dry_run"), std::nullopt);
  EXPECT_EQ(call.Integer("max_attempts"), std::nullopt);
}

TEST(Bind, TakesSparksOptions) {
  const BoundCall call = Must(
      "CALL system.rewrite_data_files(options => map('target-file-size-bytes','536870912', "
      "'min-input-files', '2', 'partial-progress.enabled', 'true', "
      "'partial-progress.max-commits', 3, 'delete-ratio-threshold', '0.5', 'rewrite-job-order', "
      "'files-asc'), table => 't')");
  EXPECT_EQ(call.Integer("target_file_size_bytes"), 512 * kMiB);
  EXPECT_EQ(call.Integer("min_input_files"), 2);
  EXPECT_EQ(call.Boolean("partial_progress"), true);
  EXPECT_EQ(call.Integer("partial_progress_max_commits"), 3);
  EXPECT_EQ(call.Number("delete_ratio_threshold"), 0.5);
  EXPECT_EQ(call.Text("rewrite_job_order"), "files-asc");
  const std::string prefix = "CALL system.rewrite_data_files(table => 't', ";
  EXPECT_EQ(ErrorOf(prefix + "options => map('min-imput-files', '2'))").substr(0, 115),
            "invalid: line 1, column 61: unknown option \"min-imput-files\" of rewrite_data_files; "
            "did you mean \"min_input_files\"?");
  EXPECT_EQ(ErrorOf(prefix + "min_input_files => 1, options => map('min-input-files', '2'))"),
            "invalid: line 1, column 83: argument \"min-input-files\" of rewrite_data_files is "
            "given twice (next: it is given at line 1, column 46, too: leave one of them out)");
  EXPECT_EQ(ErrorOf(prefix + "options => map('table', 'x'))"),
            "invalid: line 1, column 61: \"table\" is no option (next: give it as an argument of "
            "its own)");
  EXPECT_EQ(ErrorOf(prefix + "options => map(1, 'x'))"),
            "invalid: line 1, column 61: the key of an option must be text, not a whole number "
            "(next: write options => MAP('min-input-files', '2'))");
  EXPECT_EQ(ErrorOf(prefix + "options => 'x')"),
            "invalid: line 1, column 57: \"options\" must be a map, not text (next: write options "
            "=> MAP('min-input-files', '2'))");
  EXPECT_EQ(ErrorOf(prefix + "options => map('min-input-files', 'two'))"),
            "invalid: line 1, column 80: \"min_input_files\" must be a whole number, not text "
            "(next: write min_input_files => 5)");
  EXPECT_EQ(ErrorOf(prefix + "options => map('use-starting-sequence-number', 'true'))"),
            "unsupported: line 1, column 61: option \"use-starting-sequence-number\" of "
            "rewrite_data_files has no meaning here: it is always so (next: leave it out)");
}

TEST(Bind, TimesInEveryForm) {
  const Time now = ParseTime("2026-11-30T12:00:00Z").value();
  const auto resolved = [&](std::string_view literal) -> std::string {
    const auto call = Bound("CALL system.expire_snapshots(table => 't', older_than => " +
                            std::string(literal) + ")");
    return call ? FormatTime(call->Bound("older_than")->Resolve(now)) : call.error().ToString();
  };
  const std::string day = "2026-11-01T00:00:00.000000Z";
  EXPECT_EQ(resolved("TIMESTAMP '2026-11-01 00:00:00'"), day);
  EXPECT_EQ(resolved("DATE '2026-11-01'"), day);
  EXPECT_EQ(resolved("'2026-11-01 00:00:00'"), day);
  EXPECT_EQ(resolved("'2026-11-01T02:00:00+02:00'"), day);
  EXPECT_EQ(resolved("'now'"), "2026-11-30T12:00:00.000000Z");
  EXPECT_EQ(resolved("'5d'"), "2026-11-25T12:00:00.000000Z");
  EXPECT_EQ(resolved("INTERVAL '5' DAY"), "2026-11-25T12:00:00.000000Z");
  EXPECT_EQ(resolved("CURRENT_TIMESTAMP - INTERVAL 2 HOURS"), "2026-11-30T10:00:00.000000Z");
  EXPECT_EQ(resolved("'90'"),
            "invalid: line 1, column 58: \"older_than\" cannot be \"90\", which is neither a time "
            "nor an age (next: write '2026-11-01 00:00:00' (UTC), '5d' or 'now')");
  EXPECT_EQ(resolved("INTERVAL -5 DAYS"),
            "invalid: line 1, column 58: \"older_than\" is an age below zero (next: write INTERVAL "
            "'5' DAY for five days ago)");
  EXPECT_EQ(resolved("1764547200000"),
            "invalid: line 1, column 58: \"older_than\" must be a timestamp or age, not a whole "
            "number (next: write older_than => TIMESTAMP '2026-11-01 00:00:00')");
}

TEST(Bind, ArraysOfWholeNumbers) {
  EXPECT_THAT(Must("CALL system.expire_snapshots(table => 't', snapshot_ids => ARRAY(1, 2))")
                  .Integers("snapshot_ids"),
              ElementsAre(1, 2));
  EXPECT_THAT(Must("CALL system.expire_snapshots(table => 't', snapshot_ids => 7)")
                  .Integers("snapshot_ids"),
              ElementsAre(7));
  EXPECT_THAT(Must("CALL system.expire_snapshots(table => 't')").Integers("snapshot_ids"),
              ElementsAre());
  EXPECT_EQ(ErrorOf("CALL system.expire_snapshots(table => 't', snapshot_ids => [1, '2'])"),
            "invalid: line 1, column 64: \"snapshot_ids\" must have whole numbers only, not text "
            "(next: write snapshot_ids => ARRAY(1, 2))");
  EXPECT_EQ(ErrorOf("CALL system.expire_snapshots(table => 't', snapshot_ids => [])"),
            "invalid: line 1, column 60: \"snapshot_ids\" is an empty array (next: leave it out)");
}

TEST(Bind, R064NamesWhatIsWrong) {
  EXPECT_EQ(ErrorOf("CALL system.rewrite_datafiles(table => 't')"),
            "invalid: line 1, column 6: unknown procedure \"rewrite_datafiles\"; did you mean "
            "\"rewrite_data_files\"? (next: procedures are: rewrite_data_files, table_health, "
            "expire_snapshots, remove_orphan_files, rewrite_manifests, rollback_to_snapshot, "
            "run_maintenance)");
  EXPECT_EQ(ErrorOf("CALL system.rewrite_manifests(tabel => 't')"),
            "invalid: line 1, column 31: unknown argument \"tabel\" of rewrite_manifests; did you "
            "mean \"table\"? (next: arguments are: table)");
  EXPECT_EQ(ErrorOf("CALL system.rewrite_manifests()"),
            "invalid: line 1, column 6: rewrite_manifests needs the argument \"table\" (next: "
            "write table => 'namespace.table')");
  EXPECT_EQ(ErrorOf("CALL system.rewrite_manifests(table => 't', TABLE => 'u')"),
            "invalid: line 1, column 45: argument \"table\" of rewrite_manifests is given twice "
            "(next: it is given at line 1, column 31, too: leave one of them out)");
  EXPECT_EQ(ErrorOf("CALL system.rewrite_manifests(table => NULL)"),
            "invalid: line 1, column 40: \"table\" cannot be NULL (next: write table => "
            "'namespace.table')");
  EXPECT_EQ(
      ErrorOf("CALL system.expire_snapshots(table => 't', retain_last => NULL)"),
      "invalid: line 1, column 59: \"retain_last\" cannot be NULL (next: leave it out for the "
      "default)");
  EXPECT_EQ(ErrorOf("CALL system.expire_snapshots(table => 't', retain_last => '5')"),
            "invalid: line 1, column 59: \"retain_last\" must be a whole number, not text (next: "
            "write retain_last => 5)");
  EXPECT_EQ(ErrorOf("CALL system.expire_snapshots(table => 't', retain_last => 0)"),
            "invalid: line 1, column 59: \"retain_last\" must be at least 1, not 0 (next: leave it "
            "out for the default)");
  EXPECT_EQ(ErrorOf("CALL system.expire_snapshots(table => 't', dry_run => 'true')"),
            "invalid: line 1, column 55: \"dry_run\" must be a boolean, not text (next: write "
            "dry_run => TRUE)");
  EXPECT_EQ(ErrorOf("CALL system.rollback_to_snapshot(table => 5, snapshot_id => 5)"),
            "invalid: line 1, column 43: \"table\" must be a name of a table, not a whole number "
            "(next: write table => 'namespace.table')");
  EXPECT_EQ(ErrorOf("CALL system.table_health(table => 'a..b')"),
            "invalid: line 1, column 35: \"table\": \"a..b\" is no name of a table (next: write "
            "'namespace.table'; a part with a dot in it goes in double quotes)");
  EXPECT_EQ(ErrorOf("CALL system.table_health(table => 't', target_file_size_bytes => '1 parsec')"),
            "invalid: line 1, column 66: \"target_file_size_bytes\": '1 parsec' is no size: "
            "unknown unit 'parsec' (next: write it like 4096, 64KiB or 1.5GiB)");
  EXPECT_EQ(ErrorOf("CALL system.table_health(table => 't', delete_ratio_threshold => 1.5)"),
            "invalid: line 1, column 66: \"delete_ratio_threshold\" must be between 0 and 1 "
            "(next: leave it out for the default)");
  EXPECT_EQ(ErrorOf("CALL system.rewrite_data_files(table => 't', verify => 'sampel')"),
            "invalid: line 1, column 56: \"verify\" cannot be \"sampel\"; did you mean \"sample\"? "
            "(next: it is one of: full, sample, counts)");
  EXPECT_EQ(ErrorOf("CALL system.rewrite_manifests(table => 't', use_caching => false)"),
            "unsupported: line 1, column 45: argument \"use_caching\" of rewrite_manifests has no "
            "meaning here: nothing is cached (next: leave it out)");
}

TEST(Bind, T32ArgumentsByPositionAreRefusedWithTheNamedForm) {
  EXPECT_EQ(ErrorOf("CALL system.table_health('ns.t')"),
            "invalid: line 1, column 26: arguments of table_health are given by name (next: write "
            "table => 'ns.t')");
  EXPECT_EQ(ErrorOf("CALL system.rollback_to_snapshot(table => 't', 5)"),
            "invalid: line 1, column 48: arguments of rollback_to_snapshot are given by name "
            "(next: write snapshot_id => 5)");
}

TEST(Bind, R103OrdersAreReadBeforeTheTableIs) {
  for (const char* good :
       {"strategy => 'sort'", "strategy => 'SORT', sort_order => 'a, b DESC NULLS LAST'",
        "sort_order => 'zorder(a, b)'", "strategy => 'binpack', sort_order => 'a'",
        "options => MAP('sort-order', 'bucket(16, a)', 'min-overlap-depth', '4')"}) {
    EXPECT_EQ(ErrorOf("CALL system.rewrite_data_files(table => 't', " + std::string(good) + ")"),
              "bound")
        << good;
  }
  EXPECT_EQ(ErrorOf("CALL system.rewrite_data_files(table => 't', sort_order => 'a dwn')"),
            "invalid: line 1, column 46: \"sort_order\": unexpected \"dwn\" at character 3 of the "
            "sort order (next: a direction is ASC or DESC, then NULLS FIRST or NULLS LAST; columns "
            "are separated by commas)");
  EXPECT_THAT(ErrorOf("CALL system.rewrite_data_files(table => 't', sort_order => 'zorder()')"),
              HasSubstr("a column is missing before \")\""));
  EXPECT_THAT(ErrorOf("CALL system.rewrite_data_files(table => 't', strategy => 'sort', "
                      "sort_order => '')"),
              HasSubstr("no column"));
  EXPECT_THAT(ErrorOf("CALL system.rewrite_data_files(table => 't', min_overlap_depth => 1)"),
              HasSubstr("must be at least 2"));
}

// T5.
TEST(Bind, T5ZorderIsNoStrategyButAnOrder) {
  EXPECT_EQ(ErrorOf("CALL system.rewrite_data_files(table => 't', strategy => 'zorder')"),
            "invalid: line 1, column 58: \"strategy\" cannot be \"zorder\", which is an order of "
            "rows along some columns (next: write sort_order => 'zorder(a, b)', with strategy => "
            "'sort' or without)");
}

TEST(Bind, HealthOnlyReads) {
  for (const Procedure& procedure : Procedures()) {
    EXPECT_EQ(procedure.changes, procedure.name != "table_health") << procedure.name;  // R062
  }
}

TEST(Bind, AskingForWhatAProcedureDoesNotHaveIsABug) {
  const BoundCall call = Must("CALL system.rewrite_manifests(table => 't')");
  EXPECT_DEATH((void)call.Boolean("dry_run"), "no such argument");
  EXPECT_DEATH((void)call.Text("table"), "of that type");
}

// What the documentation calls the default is the default of the planner.
TEST(Procedures, DefaultsAreThePlanners) {
  const plan::RewriteOptions options;
  const auto shown = [](std::string_view name) {
    for (const ArgumentSpec& spec : FindProcedure("rewrite_data_files")->arguments) {
      if (spec.name == name) return std::string(spec.default_text);
    }
    return std::string("none");
  };
  EXPECT_EQ(shown("min_input_files"), "`" + std::to_string(options.min_input_files) + "`");
  EXPECT_EQ(shown("delete_file_threshold"),
            "`" + std::to_string(options.delete_file_threshold) + "`");
  EXPECT_EQ(shown("delete_ratio_threshold"), "`0.3`");
  EXPECT_EQ(options.delete_ratio_threshold, 0.3);
  EXPECT_EQ(shown("max_file_group_size_bytes"), "100 GiB");
  EXPECT_EQ(options.max_file_group_size_bytes, 100 * kGiB);
  EXPECT_EQ(options.target_file_size_bytes, 512 * kMiB);
}

// The rows of the table in docs/SQL.md.
std::string RowsOf(const Procedure& procedure) {
  std::string rows;
  for (const ArgumentSpec& spec : procedure.arguments) {
    std::string type(TypeName(spec.type));
    if (spec.type == ArgumentType::kChoice) {
      type.clear();
      for (const std::string_view choice : spec.choices) {
        type += (type.empty() ? "`'" : ", `'") + std::string(choice) + "'`";
      }
    }
    std::string described(spec.description);
    for (const std::string_view alias : spec.aliases) {
      described += " (also `" + std::string(alias) + "`)";
    }
    rows += "| `" + std::string(spec.name) + "` | " + type + " | " +
            (spec.required ? "required" : std::string(spec.default_text)) + " | " + described +
            " |\n";
  }
  return rows;
}

TEST(Procedures, AreWhatTheDocumentationSays) {
  std::ifstream in(LITHIFY_SQL_PAGE);
  ASSERT_TRUE(in) << LITHIFY_SQL_PAGE;
  const std::string page(std::istreambuf_iterator<char>(in), {});
  for (const Procedure& procedure : Procedures()) {
    const std::string name(procedure.name);
    const std::string expected = "### " + name + "\n\n" + std::string(procedure.description) +
                                 ".\n\n| argument | type | default | |\n|---|---|---|---|\n" +
                                 RowsOf(procedure) + "\n";
    EXPECT_TRUE(page.find(expected) != std::string::npos) << "docs/SQL.md must have:\n" << expected;
  }
  const auto count = [&](std::string_view what) {
    size_t found = 0;
    for (size_t at = 0; (at = page.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("| argument | type | default | |"), Procedures().size());
}

}  // namespace
}  // namespace lithify::sql
