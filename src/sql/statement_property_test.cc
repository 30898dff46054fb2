// What is printed is read as the same statement.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <string>
#include <vector>

#include "sql/statement.h"

namespace lithify::sql {
namespace {

constexpr int kDraws = 50;  // For each case of rapidcheck's.

// Text with what might go wrong in it.
std::string DrawText() {
  static const std::vector<std::string> pieces = {
      "a",  "Z",  "_",  "0",    "'",  "\"", "`",  "\\", "\n",   ";",      "--",   "/*", "*/",
      ".",  " ",  "%",  "é",    "😀", "$$", "=>", ",",  "(",    "]",      "\x01", "-",  "like",
      "IN", "if", "E'", "NULL", "\t", "#",  "@",  "}",  "from", "\u00a0", "\r\n", "set"};
  const auto chosen = *rc::gen::resize(
      6, rc::gen::container<std::vector<size_t>>(rc::gen::inRange<size_t>(0, pieces.size())));
  std::string text;
  for (const size_t i : chosen) text += pieces[i];
  return text;
}

std::string DrawName() {
  std::string text = DrawText();
  return text.empty() ? "x" : text;
}

// As the parser keeps the names of procedures and arguments.
std::string DrawLowerName() {
  std::string name = DrawName();
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

std::vector<std::string> DrawParts(int least) {
  std::vector<std::string> parts;
  const int count = *rc::gen::inRange(least, 4);
  for (int i = 0; i < count; ++i) parts.push_back(DrawName());
  return parts;
}

TableName DrawTable() { return {.parts = DrawParts(1), .position = {}}; }

Literal DrawLiteral(int depth);

Value DrawValue(int depth) {
  const auto micros = [] { return Duration(*rc::gen::arbitrary<int64_t>()); };
  switch (*rc::gen::inRange(0, depth > 0 ? 12 : 10)) {
    case 0: return Null{};
    case 1: return *rc::gen::arbitrary<bool>();
    case 2: return *rc::gen::arbitrary<int64_t>();
    case 3: {
      const double value = *rc::gen::arbitrary<double>();
      return std::isfinite(value) ? value : 0.0;
    }
    case 4:
      return Decimal{std::to_string(*rc::gen::arbitrary<int32_t>()) + "." +
                     std::to_string(*rc::gen::inRange(0, 100'000))};
    case 5: return DrawText();
    // The years 1 to 9999.
    case 6:
      return Time(
          Duration(*rc::gen::inRange<int64_t>(-62'135'596'800'000'000, 253'402'300'800'000'000)));
    case 7: return Date(std::chrono::days(*rc::gen::inRange(-719'162, 2'932'897)));
    case 8: return Interval{micros()};
    case 9: return BeforeNow{Duration(*rc::gen::positive<int64_t>())};
    case 10: {
      Array array;
      const int count = *rc::gen::inRange(0, 4);
      for (int i = 0; i < count; ++i) array.push_back(DrawLiteral(depth - 1));
      return array;
    }
    default: {
      Map map;
      const int count = *rc::gen::inRange(0, 3);
      for (int i = 0; i < count; ++i) {
        map.push_back({.key = DrawLiteral(depth - 1), .value = DrawLiteral(depth - 1)});
      }
      return map;
    }
  }
}

Literal DrawLiteral(int depth) { return {.value = DrawValue(depth), .position = {}}; }

Call DrawCall() {
  Call call;
  if (*rc::gen::arbitrary<bool>()) call.catalog = DrawName();
  call.procedure = DrawLowerName();
  const int count = *rc::gen::inRange(0, 5);
  for (int i = 0; i < count; ++i) {
    const bool named = *rc::gen::inRange(0, 5) > 0;
    call.arguments.push_back(
        {.name = named ? DrawLowerName() : "", .value = DrawLiteral(2), .position = {}});
  }
  return call;
}

std::optional<std::string> DrawMaybe() {
  if (*rc::gen::arbitrary<bool>()) return DrawName();
  return std::nullopt;
}

Statement DrawStatement() {
  switch (*rc::gen::inRange(0, 11)) {
    case 0: return ExplainCall{DrawCall()};
    case 1: {
      SetProperties set{.table = DrawTable(), .properties = {}};
      // A number before each: no key comes twice.
      for (const char* first : {"1", "2", "3"}) {
        set.properties.push_back({.key = first + DrawText(), .value = DrawText(), .position = {}});
      }
      return set;
    }
    case 2:
      return UnsetProperties{.table = DrawTable(),
                             .keys = {"1" + DrawText(), "2" + DrawText()},
                             .if_exists = *rc::gen::arbitrary<bool>()};
    case 3: return ShowTables{.namespace_parts = DrawParts(0), .like = DrawMaybe(), .position = {}};
    case 4: return ShowNamespaces{.parent = DrawParts(0), .like = DrawMaybe(), .position = {}};
    case 5: return ShowProperties{.table = DrawTable(), .key = DrawMaybe()};
    case 6: return ShowSnapshots{DrawTable()};
    case 7: return ShowJobs{};
    case 8: return CancelJob{.id = DrawName(), .position = {}};
    case 9: return Describe{DrawTable()};
    default: return DrawCall();
  }
}

void Forget(Literal& literal) {
  literal.position = {};
  if (auto* array = std::get_if<Array>(&literal.value)) {
    for (Literal& item : *array) Forget(item);
  }
  if (auto* map = std::get_if<Map>(&literal.value)) {
    for (MapEntry& entry : *map) {
      Forget(entry.key);
      Forget(entry.value);
    }
  }
}

void Forget(Call& call) {
  call.position = {};
  for (Argument& argument : call.arguments) {
    argument.position = {};
    Forget(argument.value);
  }
}

struct Forgetting {
  void operator()(Call& call) const { Forget(call); }
  void operator()(ExplainCall& explain) const { Forget(explain.call); }
  void operator()(SetProperties& set) const {
    set.table.position = {};
    for (Property& property : set.properties) property.position = {};
  }
  template <typename T>
  void operator()(T& statement) const {
    if constexpr (requires { statement.table; }) statement.table.position = {};
    if constexpr (requires { statement.position; }) statement.position = {};
  }
};

TEST(ToSql, IsParsedAsTheSameStatement) {
  EXPECT_TRUE(rc::check([] {
    for (int i = 0; i < kDraws; ++i) {
      const Statement statement = DrawStatement();
      const std::string text = ToSql(statement);
      auto parsed = Parse(text);
      if (!parsed) RC_FAIL(text + ": " + parsed.error().ToString());
      std::visit(Forgetting{}, *parsed);
      if (!(*parsed == statement)) RC_FAIL(text + " became " + ToSql(*parsed));
    }
  }));
}

TEST(Parse, AnyTextIsReadOrRefusedWithAPlaceInIt) {
  EXPECT_TRUE(rc::check([] {
    static const std::vector<std::string> starts = {"CALL p(a => ", "SELECT ", "SHOW TABLES ",
                                                    "ALTER TABLE t SET TBLPROPERTIES (", ""};
    for (int i = 0; i < kDraws; ++i) {
      const std::string text = *rc::gen::elementOf(starts) + DrawText() + DrawText() + DrawText();
      const auto parsed = Parse(text);
      if (parsed) {
        const auto again = Parse(ToSql(*parsed));
        if (!again) RC_FAIL(text + " printed: " + again.error().ToString());
        RC_ASSERT(ToSql(*again) == ToSql(*parsed));
      } else {
        RC_ASSERT(parsed.error().code == Code::kInvalid);
        RC_ASSERT(parsed.error().context.starts_with("line "));
      }
    }
  }));
}

}  // namespace
}  // namespace lithify::sql
