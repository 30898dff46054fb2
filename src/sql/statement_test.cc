#include "sql/statement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/text.h"

namespace lithify::sql {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
T Parsed(std::string_view text) {
  auto statement = Parse(text);
  EXPECT_TRUE(statement) << text << ": " << statement.error().ToString();
  if (!statement) return {};
  const T* made = std::get_if<T>(&*statement);
  EXPECT_NE(made, nullptr) << text << " is another statement: " << ToSql(*statement);
  return made == nullptr ? T{} : *made;
}

std::string ErrorOf(std::string_view text) {
  const auto statement = Parse(text);
  return statement ? "parsed as " + ToSql(*statement) : statement.error().ToString();
}

// The one literal of a call's argument.
Value ValueOf(std::string_view literal) {
  const auto call = Parsed<Call>("CALL p(a => " + std::string(literal) + ")");
  EXPECT_EQ(call.arguments.size(), 1U) << literal;
  return call.arguments.empty() ? Value() : call.arguments[0].value.value;
}

std::string LiteralError(std::string_view literal) {
  return ErrorOf("CALL p(a => " + std::string(literal) + ")");
}

Time At(std::string_view text) { return ParseTime(text).value(); }

TEST(ParseCall, TakesNamedArgumentsWithTheirPositions) {
  const auto call = Parsed<Call>(
      "call System.Rewrite_Data_Files(table => 'sales.orders',\n  Min_Input_Files => 2) ; ");
  EXPECT_EQ(call.catalog, "");
  EXPECT_EQ(call.procedure, "rewrite_data_files");
  EXPECT_EQ(call.position, (Position{.offset = 5, .line = 1, .column = 6}));
  ASSERT_EQ(call.arguments.size(), 2U);
  EXPECT_EQ(call.arguments[0].name, "table");
  EXPECT_EQ(call.arguments[0].value.value, Value("sales.orders"));
  EXPECT_EQ(call.arguments[0].value.position.column, 41);
  EXPECT_EQ(call.arguments[1].name, "min_input_files");
  EXPECT_EQ(call.arguments[1].value.value, Value(int64_t{2}));
  EXPECT_EQ(call.arguments[1].position, (Position{.offset = 58, .line = 2, .column = 3}));
  EXPECT_EQ(call.arguments[1].value.position, (Position{.offset = 77, .line = 2, .column = 22}));
}

TEST(ParseCall, TheCatalogMayComeFirstAndSystemMayBeLeftOut) {
  EXPECT_EQ(Parsed<Call>("CALL lake.system.table_health(table => 'a.b')").catalog, "lake");
  EXPECT_EQ(Parsed<Call>("CALL \"my-lake\".`system`.table_health()").catalog, "my-lake");
  EXPECT_EQ(Parsed<Call>("CALL table_health()").procedure, "table_health");
  EXPECT_EQ(ErrorOf("CALL lake.table_health()"),
            "invalid: line 1, column 6: \"lake\" has no procedures, only \"system\" has (next: "
            "write CALL system.table_health(…))");
  EXPECT_EQ(ErrorOf("CALL a.b.system.p()"),
            "invalid: line 1, column 6: the name of the procedure has too many parts (next: write "
            "CALL system.p(…), a catalog before it if need be)");
}

TEST(ParseCall, ArgumentsByPositionAreForBindToRefuse) {
  const auto call = Parsed<Call>("CALL system.table_health('ns', 't')");  // T32
  ASSERT_EQ(call.arguments.size(), 2U);
  EXPECT_EQ(call.arguments[1].name, "");
  EXPECT_EQ(call.arguments[1].position.column, 32);
}

TEST(ParseCall, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf("CALL system.p(table = 'a.b')"),
            "invalid: line 1, column 21: expected \"=>\" after the name of an argument, found "
            "\"=\" (next: write table => …)");
  EXPECT_EQ(ErrorOf("CALL system.p(table := 'a.b')"),
            "invalid: line 1, column 21: expected \"=>\" after the name of an argument, found "
            "\":=\" (next: write table => …)");
  EXPECT_EQ(ErrorOf("CALL system.p(table => sales.orders)"),
            "invalid: line 1, column 24: expected a value, found \"sales\" (next: text is written "
            "in single quotes: 'sales')");
  EXPECT_EQ(ErrorOf("CALL system.p(table => \"a.b\")"),
            "invalid: line 1, column 24: expected a value, found \"\"a.b\"\" (next: text is "
            "written in single quotes: 'a.b')");
  EXPECT_EQ(ErrorOf("CALL system.p(a => 1 b => 2)"),
            "invalid: line 1, column 22: expected \",\" or \")\" after an argument, found \"b\"");
  EXPECT_EQ(ErrorOf("CALL system.p(a => 1"),
            "invalid: line 1, column 21: expected \",\" or \")\" after an argument, found the end "
            "of the statement");
  for (const char* parameter : {"?", "$1"}) {
    EXPECT_THAT(ErrorOf(std::string("CALL system.p(a => ") + parameter + ")"),
                testing::HasSubstr("(next: only queries have parameters: write the value here)"));
  }
  EXPECT_EQ(ErrorOf("CALL system.p(a => )"),
            "invalid: line 1, column 20: expected a value, found \")\"");
  EXPECT_EQ(ErrorOf("CALL system.p"),
            "invalid: line 1, column 14: expected \"(\", found the end of the statement");
  EXPECT_EQ(ErrorOf("CALL 'system.p'()"),
            "invalid: line 1, column 6: expected the name of a procedure, found \"'system.p'\" "
            "(next: a name is written without quotes, or in double ones)");
  EXPECT_EQ(ErrorOf("CALL system.p(where => 'day = \\'x\\'')"),
            "invalid: line 1, column 33: expected \",\" or \")\" after an argument, found \"x\" "
            "(next: a quote within text is doubled: ''; a backslash means nothing)");
  EXPECT_EQ(ErrorOf("CALL\n  system.p(\n\ta => 'é' 5)"),
            "invalid: line 3, column 11: expected \",\" or \")\" after an argument, found \"5\"");
}

TEST(ParseLiteral, EveryKind) {
  EXPECT_EQ(ValueOf("NULL"), Value(Null{}));
  EXPECT_EQ(ValueOf("true"), Value(true));
  EXPECT_EQ(ValueOf("False"), Value(false));
  EXPECT_EQ(ValueOf("+5"), Value(int64_t{5}));
  EXPECT_EQ(ValueOf("10L"), Value(int64_t{10}));
  EXPECT_EQ(ValueOf("9223372036854775807"), Value(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(ValueOf("-9223372036854775808"), Value(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(ValueOf("9223372036854775808"), Value(Decimal{"9223372036854775808"}));
  EXPECT_EQ(ValueOf("-12.50"), Value(Decimal{"-12.50"}));
  EXPECT_EQ(ValueOf("1.5e3"), Value(1500.0));
  EXPECT_EQ(ValueOf("-3D"), Value(-3.0));
  EXPECT_EQ(ValueOf("'it''s \\ \"so\"'"), Value("it's \\ \"so\""));
  EXPECT_EQ(ValueOf("''"), Value(""));
  EXPECT_EQ(ValueOf("TIMESTAMP '2026-11-01 10:00:00'"), Value(At("2026-11-01T10:00:00Z")));
  EXPECT_EQ(ValueOf("timestamptz '2026-11-01T10:00:00+02:00'"), Value(At("2026-11-01T08:00:00Z")));
  EXPECT_EQ(ValueOf("DATE '2026-11-01'"),
            Value(std::chrono::floor<days>(At("2026-11-01T00:00:00Z"))));
  EXPECT_EQ(ValueOf("INTERVAL '7' DAY"), Value(Interval{days(7)}));
  EXPECT_EQ(ValueOf("INTERVAL 1 day 30 Minutes"), Value(Interval{days(1) + minutes(30)}));
  EXPECT_EQ(ValueOf("INTERVAL '2 hours'"), Value(Interval{hours(2)}));
  EXPECT_EQ(ValueOf("INTERVAL -5 weeks"), Value(Interval{days(-35)}));
  EXPECT_EQ(ValueOf("CURRENT_TIMESTAMP"), Value(BeforeNow{}));
  EXPECT_EQ(ValueOf("now() - INTERVAL '3' DAYS"), Value(BeforeNow{days(3)}));
  EXPECT_EQ(ValueOf("ARRAY()"), Value(Array{}));
  EXPECT_EQ(ValueOf("MAP()"), Value(Map{}));
}

TEST(ParseLiteral, ArraysAndMapsInEverySpelling) {
  for (const char* text : {"ARRAY(1, 'x')", "array[1, 'x']", "[1, 'x']"}) {
    const Value value = ValueOf(text);
    const auto* array = std::get_if<Array>(&value);
    ASSERT_NE(array, nullptr) << text;
    ASSERT_EQ(array->size(), 2U) << text;
    EXPECT_EQ((*array)[0].value, Value(int64_t{1})) << text;
    EXPECT_EQ((*array)[1].value, Value("x")) << text;
  }
  for (const char* text : {"map('a', 1, 'b', [2])", "MAP {'a': 1, 'b': [2]}"}) {
    const Value value = ValueOf(text);
    const auto* map = std::get_if<Map>(&value);
    ASSERT_NE(map, nullptr) << text;
    ASSERT_EQ(map->size(), 2U) << text;
    EXPECT_EQ((*map)[0].key.value, Value("a")) << text;
    EXPECT_EQ((*map)[0].value.value, Value(int64_t{1})) << text;
    EXPECT_EQ(std::get<Array>((*map)[1].value.value).size(), 1U) << text;
  }
}

TEST(ParseLiteral, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(LiteralError("TIMESTAMP '2026-13-01'"),
            "invalid: line 1, column 23: \"2026-13-01\" is no time (next: write it like "
            "'2026-11-29 16:20:00' (UTC) or '2026-11-29T16:20:00+01:00')");
  EXPECT_EQ(LiteralError("DATE '2026-11-01 10:00:00'"),
            "invalid: line 1, column 18: \"'2026-11-01 10:00:00'\" is no date");
  EXPECT_EQ(LiteralError("INTERVAL '1' MONTH"),
            "invalid: line 1, column 22: a month has no fixed length (next: write it in days)");
  EXPECT_EQ(LiteralError("INTERVAL 5"),
            "invalid: line 1, column 23: expected a unit of time, found \")\" (next: write "
            "INTERVAL '7' DAY)");
  EXPECT_EQ(LiteralError("INTERVAL '7' DAZE"),
            "invalid: line 1, column 22: \"DAZE\" is no unit of time (next: units are WEEK, DAY, "
            "HOUR, MINUTE, SECOND, MILLISECOND and MICROSECOND)");
  EXPECT_EQ(LiteralError("INTERVAL 99999999 WEEKS"),
            "invalid: line 1, column 22: the interval \"99999999 WEEKS\" is too long (next: write "
            "INTERVAL '7' DAY)");
  EXPECT_EQ(LiteralError("NOW() - INTERVAL -1 DAY"),
            "invalid: line 1, column 30: a time after now (next: write a positive interval)");
  EXPECT_EQ(LiteralError("MAP('a')"),
            "invalid: line 1, column 20: expected \",\" and the key's value, found \")\"");
  EXPECT_EQ(LiteralError("1e999"),
            "invalid: line 1, column 13: \"1e999\" is no number that fits 64 bits");
  EXPECT_EQ(LiteralError("1.5L"),
            "invalid: line 1, column 13: \"1.5\" is no whole number of 64 bits");
  EXPECT_EQ(LiteralError("12abc"),
            "invalid: line 1, column 13: \"12abc\" is no number (next: text is written in single "
            "quotes, a name that begins with a digit in double ones)");
  EXPECT_EQ(LiteralError("- x"), "invalid: line 1, column 15: expected a number, found \"x\"");
}

TEST(ParseProperties, SetAndUnset) {
  const auto set = Parsed<SetProperties>(
      "ALTER TABLE lake.\"a.b\".Orders SET TBLPROPERTIES ('k' = 'v', write.format.default = "
      "'parquet', 'n' = -5, 'b' = TRUE);");
  EXPECT_THAT(set.table.parts, ElementsAre("lake", "a.b", "Orders"));
  EXPECT_EQ(set.table.position.column, 13);
  EXPECT_EQ(set.table.ToString(), "lake.\"a.b\".Orders");
  ASSERT_EQ(set.properties.size(), 4U);
  EXPECT_EQ(set.properties[0].key + "=" + set.properties[0].value, "k=v");
  EXPECT_EQ(set.properties[1].key + "=" + set.properties[1].value, "write.format.default=parquet");
  EXPECT_EQ(set.properties[2].key + "=" + set.properties[2].value, "n=-5");
  EXPECT_EQ(set.properties[3].key + "=" + set.properties[3].value, "b=true");
  const auto unset =
      Parsed<UnsetProperties>("alter table t unset tblproperties if exists ('a', b.c)");
  EXPECT_THAT(unset.keys, ElementsAre("a", "b.c"));
  EXPECT_TRUE(unset.if_exists);
  EXPECT_FALSE(Parsed<UnsetProperties>("ALTER TABLE t UNSET TBLPROPERTIES ('a')").if_exists);
}

TEST(ParseProperties, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf("ALTER TABLE t RENAME TO u"),
            "invalid: line 1, column 15: expected SET or UNSET, found \"RENAME\" (next: only "
            "properties can be changed here: SET TBLPROPERTIES)");
  EXPECT_EQ(ErrorOf("ALTER TABLE t SET TBLPROPERTIES ('k' = NULL)"),
            "invalid: line 1, column 40: expected the property's value, found \"NULL\" (next: "
            "write 'key' = 'value')");
  EXPECT_EQ(ErrorOf("ALTER TABLE t SET TBLPROPERTIES ('k' = '1', 'k' = '2')"),
            "invalid: line 1, column 45: the property \"k\" is given twice (next: name it once)");
  EXPECT_EQ(ErrorOf("ALTER TABLE t UNSET TBLPROPERTIES ('')"),
            "invalid: line 1, column 36: an empty key (next: write 'key' = 'value')");
  EXPECT_EQ(ErrorOf("ALTER TABLE my-db.t SET TBLPROPERTIES ('k' = '1')"),
            "invalid: line 1, column 15: a name with \"-\" in it is not quoted (next: put it in "
            "double quotes: \"my-…\")");
  EXPECT_EQ(ErrorOf("ALTER VIEW t"), "invalid: line 1, column 7: expected TABLE, found \"VIEW\"");
}

TEST(ParseShow, EveryForm) {
  EXPECT_THAT(Parsed<ShowTables>("SHOW TABLES").namespace_parts, ElementsAre());
  const auto tables = Parsed<ShowTables>("show tables from a.\"b c\" like 'ord%'");
  EXPECT_THAT(tables.namespace_parts, ElementsAre("a", "b c"));
  EXPECT_EQ(tables.like, "ord%");
  EXPECT_EQ(Parsed<ShowTables>("SHOW TABLES LIKE '%'").like, "%");
  for (const char* text :
       {"SHOW NAMESPACES IN a.b", "SHOW SCHEMAS IN a.b", "SHOW DATABASES FROM a.b"}) {
    EXPECT_THAT(Parsed<ShowNamespaces>(text).parent, ElementsAre("a", "b")) << text;
  }
  EXPECT_EQ(Parsed<ShowProperties>("SHOW TBLPROPERTIES a.t").key, std::nullopt);
  EXPECT_EQ(Parsed<ShowProperties>("SHOW TBLPROPERTIES a.t ('k.l')").key, "k.l");
  EXPECT_EQ(Parsed<ShowProperties>("SHOW TBLPROPERTIES a.t (k.l)").key, "k.l");
  for (const char* text :
       {"SHOW SNAPSHOTS a.t", "SHOW SNAPSHOTS IN a.t", "SHOW SNAPSHOTS FROM a.t"}) {
    EXPECT_THAT(Parsed<ShowSnapshots>(text).table.parts, ElementsAre("a", "t")) << text;
  }
  (void)Parsed<ShowJobs>("SHOW JOBS;;");
  for (const char* text : {"DESCRIBE a.t", "DESC TABLE a.t", "describe table a.t"}) {
    EXPECT_THAT(Parsed<Describe>(text).table.parts, ElementsAre("a", "t")) << text;
  }
  const auto cancel = Parsed<CancelJob>("CANCEL JOB '0199'");
  EXPECT_EQ(cancel.id, "0199");
  EXPECT_EQ(cancel.position.column, 12);
}

TEST(ParseShow, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf("SHOW TABELS"),
            "invalid: line 1, column 6: expected TABLES, NAMESPACES, TBLPROPERTIES, SNAPSHOTS or "
            "JOBS after SHOW, found \"TABELS\" (next: did you mean TABLES?)");
  EXPECT_EQ(ErrorOf("SHOW CREATE TABLE t"),
            "invalid: line 1, column 6: expected TABLES, NAMESPACES, TBLPROPERTIES, SNAPSHOTS or "
            "JOBS after SHOW, found \"CREATE\"");
  EXPECT_EQ(ErrorOf("SHOW TABLES IN 'a'"),
            "invalid: line 1, column 16: expected the name of a namespace, found \"'a'\" (next: a "
            "name is written without quotes, or in double ones)");
  EXPECT_EQ(ErrorOf("SHOW TABLES LIKE x"),
            "invalid: line 1, column 18: expected a pattern in single quotes, found \"x\"");
  EXPECT_EQ(ErrorOf("SHOW TABLES a"),
            "invalid: line 1, column 13: expected the end of the statement, found \"a\"");
  EXPECT_EQ(ErrorOf("DESCRIBE a..t"),
            "invalid: line 1, column 12: expected the name of a table, found \".\"");
  EXPECT_EQ(ErrorOf("DESCRIBE \"\""),
            "invalid: line 1, column 10: an empty name (next: write its letters)");
  EXPECT_EQ(ErrorOf("CANCEL JOB 7"),
            "invalid: line 1, column 12: expected the id of a job in single quotes, found \"7\" "
            "(next: SHOW JOBS lists them)");
}

TEST(ParseQuery, IsHandedOnAsItIs) {
  for (const char* text :
       {"SELECT 1", " -- why\n\tselect ';' ", "WITH x AS (SELECT 1) FROM x", "VALUES (1)",
        "from lake.a.t", "((SELECT 1) UNION (SELECT 2))", "EXPLAIN SELECT 1",
        "explain analyze select 1", "EXPLAIN (FORMAT json) SELECT 1", "EXPLAIN (SELECT 1)",
        "DESCRIBE SELECT 1", "desc (FROM t)", "SUMMARIZE a.t", "summarize SELECT 1",
        "/* a /* b */ ; */ SELECT \"a;b\", `, $$;$$, $x$;$$;$x$, E'\\';' -- ; \n"}) {
    EXPECT_EQ(Parsed<Query>(text).text, text);
  }
  EXPECT_EQ(Parsed<Query>("SELECT 1;").text, "SELECT 1");
  EXPECT_EQ(Parsed<Query>("SELECT ';' ; -- end\n ;").text, "SELECT ';' ");
}

TEST(ParseQuery, ASecondStatementIsFoundWhereDuckDbWouldSeeOne) {
  EXPECT_EQ(ErrorOf("SELECT 1; DROP TABLE t"),
            "invalid: line 1, column 11: a second statement begins here (next: send one statement "
            "at a time)");
  for (const char* text : {"SELECT '\\'; DROP TABLE t --'", "SELECT 1e'\\''; DROP TABLE t --'",
                           "SELECT a$b$; DROP TABLE t --$b$", "SELECT xe'\\'; DROP TABLE t --'",
                           "SELECT '--'; DROP TABLE t", "SELECT $1; DROP TABLE $1",
                           "SELECT /* ' */ 1; DROP TABLE t"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("a second statement begins here")) << text;
  }
}

TEST(ParseQuery, WhatIsNotClosedIsFound) {
  EXPECT_EQ(ErrorOf("SELECT\n 'abc"),
            "invalid: line 2, column 2: what is quoted that begins here has no end (next: close "
            "it with '; a quote within text is doubled: '')");
  EXPECT_EQ(ErrorOf("SELECT \"abc"),
            "invalid: line 1, column 8: what is quoted that begins here has no end (next: close "
            "it)");
  EXPECT_EQ(ErrorOf("SELECT 1 /* /* */"),
            "invalid: line 1, column 10: the comment that begins here has no end (next: close it)");
  EXPECT_THAT(ErrorOf("SELECT $a$ x"), HasSubstr("line 1, column 8: what is quoted"));
}

TEST(ParseExplain, OfAQuery) {
  EXPECT_FALSE(Parsed<Query>("SELECT 'EXPLAIN'").explain);
  const auto query = Parsed<Query>("-- why\n explain (SELECT 1)");
  EXPECT_TRUE(query.explain);
  EXPECT_EQ(Explained(query).value(), "-- why\n         (SELECT 1)");
  for (const char* text : {"EXPLAIN ANALYZE SELECT 1", "EXPLAIN (FORMAT json) SELECT 1",
                           "EXPLAIN ANALYZE (SELECT 1)"}) {
    const auto refused = Explained(Parsed<Query>(text));
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::kUnsupported) << text;
  }
  EXPECT_EQ(Explained(Parsed<Query>("(EXPLAIN SELECT 1)")).error().code, Code::kInvalid);
}

TEST(ParseExplain, OfACall) {
  const auto explain = Parsed<ExplainCall>("EXPLAIN CALL system.p(a => 1)");
  EXPECT_EQ(explain.call.procedure, "p");
  EXPECT_EQ(explain.call.arguments.size(), 1U);
  EXPECT_EQ(ErrorOf("EXPLAIN SHOW JOBS"),
            "invalid: line 1, column 9: expected CALL or a query after EXPLAIN, found \"SHOW\"");
}

TEST(Parse, RefusesOtherStatements) {
  const std::string statements =
      "a query (SELECT, WITH, VALUES, FROM), CALL, EXPLAIN, ALTER TABLE, SHOW, DESCRIBE or CANCEL "
      "JOB";
  EXPECT_EQ(ErrorOf("INSERT INTO t VALUES (1)"),
            "invalid: line 1, column 1: INSERT is no statement of this server, which reads tables "
            "and maintains them (next: statements are " +
                statements + ")");
  EXPECT_EQ(ErrorOf("SELCT 1"), "invalid: line 1, column 1: expected " + statements +
                                    ", found \"SELCT\" (next: did you mean SELECT?)");
  for (const char* text : {"", "  ", "-- nothing", ";"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("there is no statement (next: write " + statements))
        << text;
  }
  EXPECT_EQ(ErrorOf("SHOW JOBS; SHOW JOBS"),
            "invalid: line 1, column 12: a second statement begins here (next: send one statement "
            "at a time)");
}

TEST(Parse, HostileTextIsACleanError) {
  EXPECT_EQ(ErrorOf("SELECT '\xff'"),
            "invalid: line 1, column 9: the bytes that begin here are no UTF-8 (next: send "
            "statements in UTF-8)");
  EXPECT_EQ(ErrorOf(std::string_view("SELECT 1\0 2", 11)),
            "invalid: line 1, column 9: a zero byte (next: leave it out)");
  EXPECT_EQ(ErrorOf(std::string(kStatementBytesMax + 1, ' ')),
            "limit: the statement has 1.0 MiB, the limit is 1.0 MiB (next: send a shorter "
            "statement)");
  EXPECT_TRUE(Parse("SELECT '" + std::string(kStatementBytesMax - 9, 'x') + "'"));
  EXPECT_EQ(LiteralError(std::string(17, '[') + std::string(17, ']')),
            "limit: line 1, column 30: more than 16 arrays and maps within each other (next: write "
            "fewer of them)");
  EXPECT_EQ(ValueOf(std::string(16, '[') + std::string(16, ']')).index(), Value(Array{}).index());
  EXPECT_EQ(ErrorOf("SELECT " + std::string(1001, '(')),
            "limit: line 1, column 1008: more than 1,000 brackets within each other (next: write "
            "the query with fewer of them)");
  EXPECT_THAT(ErrorOf("CALL p(" + std::string(kTokensMax, '[')),
              HasSubstr("limit: line 1, column 20005: more than 20,000 words and signs"));
  EXPECT_THAT(ErrorOf(std::string(100'000, '(') + "x"), HasSubstr("more than 20,000 words"));
  EXPECT_THAT(ErrorOf(std::string(900'000, 'x')), HasSubstr("xxx…\""));
}

TEST(ParseTimestamp, AsSparkAndRfc3339HaveIt) {
  const auto shown = [](std::string_view text) {
    const auto parsed = ParseTimestamp(text);
    return parsed ? FormatTime(*parsed) : parsed.error().ToString();
  };
  EXPECT_EQ(shown("2026-11-01"), "2026-11-01T00:00:00.000000Z");
  EXPECT_EQ(shown("2026-11-01 10:20"), "2026-11-01T10:20:00.000000Z");
  EXPECT_EQ(shown("2026-11-01 10:20:30.5"), "2026-11-01T10:20:30.500000Z");
  EXPECT_EQ(shown("2026-11-01T10:20:30.123456789Z"), "2026-11-01T10:20:30.123456Z");
  EXPECT_EQ(shown("2026-11-01 10:20:30 UTC"), "2026-11-01T10:20:30.000000Z");
  EXPECT_EQ(shown("2026-11-01T00:30:00+01:00"), "2026-10-31T23:30:00.000000Z");
  EXPECT_EQ(shown("2026-11-01T00:30:00 -0530"), "2026-11-01T06:00:00.000000Z");
  EXPECT_EQ(shown("2026-11-01T00:30:00+02"), "2026-10-31T22:30:00.000000Z");
  for (const char* text :
       {"", "2026", "2026-02-29", "0000-01-01", "2026-11-01T", "2026-11-01 24:00:00",
        "2026-11-01 10", "2026-11-01 10:20:60", "2026-11-01 10:20:30.", "2026-11-01 10:20:30+",
        "2026-11-01 10:20:30+1:00", "2026-11-01 10:20:30+19:00", "2026-11-01 10:20:30+01:",
        "2026-11-01 10:20:30 CET", "2026-11-01 10:20:30Zx", "2026-11-01  10:20:30", "2026-11-01Z",
        "2026-11-01 10:20:30.1234567890", "2026-11-01 10:20:30 "}) {
    EXPECT_FALSE(ParseTimestamp(text)) << text;
  }
}

TEST(ParseTableName, PartsAndQuotes) {
  const auto parts = [](std::string_view text) {
    const auto table = ParseTableName(text);
    return table ? table->parts : std::vector<std::string>{table.error().ToString()};
  };
  EXPECT_THAT(parts("orders"), ElementsAre("orders"));
  EXPECT_THAT(parts("my-lake.2026.orders"), ElementsAre("my-lake", "2026", "orders"));
  EXPECT_THAT(parts("a.\"b.c\".`d\"`"), ElementsAre("a", "b.c", "d\""));
  for (const char* text : {"", ".", "a.", ".a", "a..b", "a b", "a.\"\"", "a.\"b", "a\"b\"",
                           "\"a\"b", "a.b ", "'a'.b", "\xff"}) {
    const auto table = ParseTableName(text);
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.error().code, Code::kInvalid) << text;
  }
  EXPECT_THAT(parts("a..b"),
              ElementsAre("invalid: \"a..b\" is no name of a table (next: write "
                          "'namespace.table'; a part with a dot in it goes in double quotes)"));
}

TEST(Like, IsSqls) {
  EXPECT_TRUE(Like("orders", "orders"));
  EXPECT_TRUE(Like("orders", "o%"));
  EXPECT_TRUE(Like("orders", "%der_"));
  EXPECT_TRUE(Like("", "%"));
  EXPECT_TRUE(Like("aXbXc", "a%X%c"));
  EXPECT_TRUE(Like("é", "_"));
  EXPECT_TRUE(Like("a_b", "a\\_b"));
  EXPECT_TRUE(Like("a\\b", "a\\\\b"));
  EXPECT_FALSE(Like("axb", "a\\_b"));
  EXPECT_FALSE(Like("Orders", "orders"));
  EXPECT_FALSE(Like("orders", "order"));
  EXPECT_FALSE(Like("", "_"));
  EXPECT_FALSE(Like("é", "__"));
  EXPECT_FALSE(Like(std::string(2000, 'a'), std::string(500, '%') + "b"));
}

}  // namespace
}  // namespace lithify::sql
