// docs/SQL.md names the columns that results have.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "serve/executor.h"
#include "serve/procedures.h"
#include "serve/show.h"
#include "serve/views.h"
#include "sql/procedures.h"
#include "sql/statement.h"

namespace lithify::serve {
namespace {

std::string Page() {
  std::ifstream in(LITHIFY_SQL_PAGE);
  EXPECT_TRUE(in) << LITHIFY_SQL_PAGE;
  return {std::istreambuf_iterator<char>(in), {}};
}

// "`table`, `status`".
std::string Names(const std::vector<Column>& columns) {
  std::string out;
  for (const Column& column : columns) out += (out.empty() ? "`" : ", `") + column.name + "`";
  return out;
}

// The part of the page about one procedure.
std::string Section(const std::string& page, std::string_view procedure) {
  const size_t begin = page.find("\n### " + std::string(procedure) + "\n");
  EXPECT_NE(begin, std::string::npos) << procedure;
  return begin == std::string::npos ? "" : page.substr(begin, page.find("\n##", begin + 1) - begin);
}

sql::BoundCall Call(const std::string& procedure) {
  const std::string more = procedure == "rollback_to_snapshot" ? ", snapshot_id => 1" : "";
  const auto statement = sql::Parse("CALL system." + procedure + "(table => 'a.t'" + more + ")");
  return sql::Bind(std::get<sql::Call>(statement.value())).value();
}

TEST(Documentation, HasTheColumnsOfProcedures) {
  const std::string page = Page();
  int run = 0;
  for (const sql::Procedure& procedure : sql::Procedures()) {
    const std::string section = Section(page, procedure.name);
    for (const bool explain : {false, true}) {
      const auto columns = ProcedureColumns(Call(std::string(procedure.name)), explain);
      if (!columns) {
        EXPECT_EQ(columns.error().code, Code::kUnsupported);
        const bool refused = section.find("Refused") != std::string::npos;
        const bool unexplained = section.find("cannot be explained") != std::string::npos;
        EXPECT_TRUE(refused || (explain && unexplained)) << procedure.name;
        continue;
      }
      ++run;
      EXPECT_NE(section.find(Names(*columns)), std::string::npos)
          << procedure.name << ": " << Names(*columns);
    }
  }
  EXPECT_GE(run, 10);
}

TEST(Documentation, HasTheColumnsOfOtherStatements) {
  const std::string page = Page();
  const std::pair<const char*, const char*> statements[] = {
      {"SHOW TABLES", "SHOW TABLES"},
      {"SHOW NAMESPACES", "SHOW NAMESPACES"},
      {"SHOW TBLPROPERTIES", "SHOW TBLPROPERTIES a.t"},
      {"SHOW SNAPSHOTS", "SHOW SNAPSHOTS a.t"},
      {"DESCRIBE", "DESCRIBE a.t"},
      {"ALTER TABLE", "ALTER TABLE a.t SET TBLPROPERTIES ('k' = 'v')"}};
  for (const auto& [name, text] : statements) {
    const std::string row =
        "| `" + std::string(name) + "` | " + Names(ShowColumns(sql::Parse(text).value())) + " |\n";
    EXPECT_NE(page.find(row), std::string::npos) << "docs/SQL.md must have " << row;
  }
  EXPECT_NE(page.find("| `EXPLAIN query` | " + Names(PlanRows({}).columns()) + " |\n"),
            std::string::npos);
  const std::string jobs = "| `SHOW JOBS` | " + Names(JobRows({}).columns()) + " |\n";
  EXPECT_NE(page.find(jobs), std::string::npos) << "docs/SQL.md must have " << jobs;
}

TEST(Documentation, HasTheViews) {
  const std::string page = Page();
  for (const View& view : Views()) {
    EXPECT_NE(page.find("| `system." + std::string(view.name) + "` |"), std::string::npos)
        << view.name;
  }
}

}  // namespace
}  // namespace lithify::serve
