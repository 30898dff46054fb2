// Statements: any text is parsed or refused, what was parsed is printed as the same statement, and
// calls are bound or refused. A query never has a second statement behind it.
#include "fuzz_input.h"
#include "sql/procedures.h"
#include "sql/statement.h"

namespace lithify::fuzz {
namespace {

void Bound(const sql::Call& call) {
  const auto bound = sql::Bind(call);
  if (!Gave(bound)) {
    Require(bound.error().context.starts_with("line "), "an error has its position");
    return;
  }
  Require(bound->procedure().name == call.procedure, "the procedure that was asked for");
}

void Statement(std::string_view text) {
  const auto statement = sql::Parse(text);
  if (!Gave(statement)) return;
  const std::string printed = sql::ToSql(*statement);
  const auto again = Must(sql::Parse(printed), "a statement of ours");
  Require(again.index() == statement->index(), "the same kind of statement");
  Require(sql::ToSql(again) == printed, "the same statement");
  if (const auto* query = std::get_if<sql::Query>(&*statement)) {
    Require(text.starts_with(query->text), "a query's text is what came");
    // Cut off, the semicolon does not come back.
    const auto twice = sql::Parse(query->text + "; SELECT 1");
    Require(!twice || std::get_if<sql::Query>(&*twice)->text.size() > query->text.size(),
            "a second statement is found");
  }
  if (const auto* call = std::get_if<sql::Call>(&*statement)) Bound(*call);
  if (const auto* explain = std::get_if<sql::ExplainCall>(&*statement)) Bound(explain->call);
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lithify::fuzz::Gave;
  const std::string_view text = lithify::fuzz::Text(data, size);
  lithify::fuzz::Statement(text);
  (void)Gave(lithify::sql::ParseTimestamp(text));
  if (const auto table = lithify::sql::ParseTableName(text); Gave(table)) {
    const auto again =
        lithify::fuzz::Must(lithify::sql::ParseTableName(table->ToString()), "a name of ours");
    lithify::fuzz::Require(again.parts == table->parts, "the same name");
  }
  const size_t half = size / 2;
  (void)lithify::sql::Like(text.substr(0, half), text.substr(half));
  return 0;
}
