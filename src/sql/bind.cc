// A call against the table of procedures.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/order_text.h"
#include "base/text.h"
#include "sql/lexer.h"
#include "sql/procedures.h"

namespace lithify::sql {
namespace {

// Arguments of Spark's procedures that mean nothing here.
struct ForeignArgument {
  std::string_view procedure;
  std::string_view name;
  std::string_view why;
};
constexpr std::string_view kNoConcurrentDeletes = "how many files are removed at once is no choice";
constexpr std::string_view kNoListView = "the table's own location is listed";
constexpr std::array<ForeignArgument, 13> kForeign = {{
    {"rewrite_data_files", "use_starting_sequence_number", "it is always so"},
    {"rewrite_data_files", "partial_progress_max_failed_commits",
     "the first failure ends the call, which keeps what was committed"},
    {"expire_snapshots", "max_concurrent_deletes", kNoConcurrentDeletes},
    {"expire_snapshots", "stream_results", "results are never collected in memory"},
    {"expire_snapshots", "clean_expired_metadata", "specs and schemas are kept"},
    {"remove_orphan_files", "location", kNoListView},
    {"remove_orphan_files", "file_list_view", kNoListView},
    {"remove_orphan_files", "max_concurrent_deletes", kNoConcurrentDeletes},
    {"remove_orphan_files", "equal_schemes", "s3, s3a and s3n are always the same"},
    {"remove_orphan_files", "equal_authorities", "each bucket is itself"},
    {"remove_orphan_files", "prefix_mismatch_mode", "files of unknown places are never removed"},
    {"rewrite_manifests", "use_caching", "nothing is cached"},
    {"rewrite_manifests", "spec_id", "manifests of every spec are merged, each with its like"},
}};

std::unexpected<Error> FailAt(const Position& at, std::string message, std::string hint) {
  return Fail(Code::kInvalid, std::move(message), at.ToString(), std::move(hint));
}

std::string Names(const Procedure& procedure) {
  std::string out;
  for (const ArgumentSpec& spec : procedure.arguments) {
    out += (out.empty() ? "" : ", ") + std::string(spec.name);
  }
  return out;
}

std::string Join(const std::vector<std::string_view>& items) {
  std::string out;
  for (const std::string_view item : items) out += (out.empty() ? "" : ", ") + std::string(item);
  return out;
}

std::string ExampleOf(const ArgumentSpec& spec) {
  switch (spec.type) {
    case ArgumentType::kTable: return "'namespace.table'";
    case ArgumentType::kText: return "'…'";
    case ArgumentType::kChoice: return QuoteText(spec.choices.front());
    case ArgumentType::kBoolean: return "TRUE";
    case ArgumentType::kInteger: return "5";
    case ArgumentType::kNumber: return "0.5";
    case ArgumentType::kBytes: return "'512MiB'";
    case ArgumentType::kTime: return "TIMESTAMP '2026-11-01 00:00:00'";
    case ArgumentType::kIntegers: return "ARRAY(1, 2)";
    case ArgumentType::kOptions: return "MAP('min-input-files', '2')";
  }
  return "…";
}

// "; did you mean …?" or nothing.
std::string Meant(std::string_view name, const std::vector<std::string_view>& candidates) {
  const std::string_view nearest = Nearest(name, candidates);
  return nearest.empty() ? "" : "; did you mean \"" + std::string(nearest) + "\"?";
}

const ArgumentSpec* FindArgument(const Procedure& procedure, std::string_view name) {
  for (const ArgumentSpec& spec : procedure.arguments) {
    if (spec.name == name || std::ranges::find(spec.aliases, name) != spec.aliases.end()) {
      return &spec;
    }
  }
  return nullptr;
}

// One argument on its way to a value.
class Converter {
 public:
  // `loose`: of an option, whose values Spark writes as text.
  Converter(const ArgumentSpec& spec, const Literal& literal, bool loose)
      : spec_(spec), literal_(literal), loose_(loose) {}

  Result<BoundValue> Convert() const {
    switch (spec_.type) {
      case ArgumentType::kTable: return Table();
      case ArgumentType::kText:
        if (const std::string* text = AsText()) return *text;
        return WrongType();
      case ArgumentType::kChoice: return Choice();
      case ArgumentType::kBoolean: return Boolean();
      case ArgumentType::kInteger: return Integer();
      case ArgumentType::kNumber: return Number();
      case ArgumentType::kBytes: return Bytes();
      case ArgumentType::kTime: return When();
      case ArgumentType::kIntegers: return Integers();
      case ArgumentType::kOptions: return WrongType();
    }
    return WrongType();
  }

 private:
  const std::string* AsText() const { return std::get_if<std::string>(&literal_.value); }

  std::unexpected<Error> Wrong(std::string message, std::string hint) const {
    return FailAt(literal_.position, Shown(spec_.name) + " " + std::move(message), std::move(hint));
  }
  std::unexpected<Error> WrongType() const {
    const std::string_view type = TypeName(spec_.type);
    return Wrong("must be " + std::string(type.starts_with('a') ? "an " : "a ") +
                     std::string(type) + ", not " + std::string(KindName(literal_.value)),
                 "write " + std::string(spec_.name) + " => " + ExampleOf(spec_));
  }
  // An error of another parser, which knows no position.
  std::unexpected<Error> Say(Error error) const {
    return FailAt(literal_.position, Shown(spec_.name) + ": " + error.message,
                  std::move(error.hint));
  }

  Result<BoundValue> Table() const {
    const std::string* text = AsText();
    if (text == nullptr) return WrongType();
    auto table = ParseTableName(*text);
    if (!table) return Say(std::move(table.error()));
    table->position = literal_.position;
    return *std::move(table);
  }

  Result<BoundValue> Choice() const {
    const std::string* text = AsText();
    if (text == nullptr) return WrongType();
    std::string chosen = LowerCase(*text);
    if (std::ranges::find(spec_.choices, chosen) != spec_.choices.end()) return chosen;
    if (chosen == "zorder" || chosen == "z-order" || chosen == "hilbert") {
      return Wrong("cannot be " + Shown(*text) + ", which is an order of rows along some columns",
                   "write sort_order => '" + std::string(chosen == "hilbert" ? chosen : "zorder") +
                       "(a, b)', with " + std::string(spec_.name) + " => 'sort' or without");
    }
    return Wrong("cannot be " + Shown(*text) + Meant(chosen, spec_.choices),
                 "it is one of: " + Join(spec_.choices));
  }

  Result<BoundValue> Boolean() const {
    if (const bool* value = std::get_if<bool>(&literal_.value)) return *value;
    const std::string* text = loose_ ? AsText() : nullptr;
    const std::string lower = text == nullptr ? "" : LowerCase(*text);
    if (lower == "true" || lower == "false") return lower == "true";
    return WrongType();
  }

  std::optional<int64_t> Whole() const {
    if (const int64_t* value = std::get_if<int64_t>(&literal_.value)) return *value;
    const std::string* text = loose_ ? AsText() : nullptr;
    if (text == nullptr) return std::nullopt;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
    return value;
  }

  Result<BoundValue> InBounds(int64_t value) const {
    if (value >= spec_.min && value <= spec_.max) return value;
    const std::string bound = value < spec_.min ? "at least " + std::to_string(spec_.min)
                                                : "at most " + std::to_string(spec_.max);
    return Wrong("must be " + bound + ", not " + std::to_string(value),
                 "leave it out for the default");
  }

  Result<BoundValue> Integer() const {
    if (const auto value = Whole()) return InBounds(*value);
    return WrongType();
  }

  Result<BoundValue> Bytes() const {
    if (const auto value = Whole()) return InBounds(*value);
    const std::string* text = AsText();
    if (text == nullptr) return WrongType();
    auto bytes = ParseBytes(*text);
    if (!bytes) return Say(std::move(bytes.error()));
    return InBounds(*bytes);
  }

  Result<BoundValue> Number() const {
    double value = 0;
    std::string_view digits;
    if (const auto* whole = std::get_if<int64_t>(&literal_.value)) {
      value = static_cast<double>(*whole);
    } else if (const auto* real = std::get_if<double>(&literal_.value)) {
      value = *real;
    } else if (const auto* decimal = std::get_if<Decimal>(&literal_.value)) {
      digits = decimal->text;
    } else if (const std::string* text = AsText(); text != nullptr && loose_) {
      digits = *text;
    } else {
      return WrongType();
    }
    if (digits.data() != nullptr) {
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || end != digits.data() + digits.size()) return WrongType();
    }
    if (std::isfinite(value) && value >= static_cast<double>(spec_.min) &&
        value <= static_cast<double>(spec_.max)) {
      return value;
    }
    return Wrong(
        "must be between " + std::to_string(spec_.min) + " and " + std::to_string(spec_.max),
        "leave it out for the default");
  }

  Result<BoundValue> Ago(Duration ago) const {
    if (ago >= Duration::zero()) return TimeBound{.at = std::nullopt, .ago = ago};
    return Wrong("is an age below zero", "write INTERVAL '5' DAY for five days ago");
  }

  Result<BoundValue> When() const {
    if (const Time* time = std::get_if<Time>(&literal_.value)) return TimeBound{.at = *time};
    if (const Date* date = std::get_if<Date>(&literal_.value)) return TimeBound{.at = Time(*date)};
    if (const auto* age = std::get_if<Interval>(&literal_.value)) return Ago(age->duration);
    if (const auto* before = std::get_if<BeforeNow>(&literal_.value)) return Ago(before->ago);
    const std::string* text = AsText();
    if (text == nullptr) return WrongType();
    if (LowerCase(*text) == "now") return Ago(Duration::zero());
    if (auto time = ParseTimestamp(*text)) return TimeBound{.at = *time};
    // With its unit: a bare number may be meant as anything.
    const bool unit = !text->empty() && LowerCase(text->substr(text->size() - 1)) >= "a";
    if (auto age = ParseDuration(*text); age && unit) return Ago(*age);
    return Wrong("cannot be " + Shown(*text) + ", which is neither a time nor an age",
                 "write '2026-11-01 00:00:00' (UTC), '5d' or 'now'");
  }

  Result<BoundValue> Integers() const {
    std::vector<int64_t> out;
    if (const auto* one = std::get_if<int64_t>(&literal_.value)) {
      out.push_back(*one);
      return out;
    }
    const Array* array = std::get_if<Array>(&literal_.value);
    if (array == nullptr) return WrongType();
    for (const Literal& item : *array) {
      const auto* value = std::get_if<int64_t>(&item.value);
      if (value == nullptr) {
        return FailAt(item.position,
                      Shown(spec_.name) + " must have whole numbers only, not " +
                          std::string(KindName(item.value)),
                      "write " + std::string(spec_.name) + " => " + ExampleOf(spec_));
      }
      out.push_back(*value);
    }
    if (!out.empty()) return out;
    return Wrong("is an empty array", "leave it out");
  }

  const ArgumentSpec& spec_;
  const Literal& literal_;
  bool loose_;
};

// Spark's "partial-progress.max-commits" as a name of ours.
std::string OptionName(std::string_view key) {
  std::string name = LowerCase(key);
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
}

class Binder {
 public:
  Binder(const Procedure& procedure, const Call& call) : procedure_(procedure), call_(call) {}

  Status Run() {
    for (size_t i = 0; i < call_.arguments.size(); ++i) {
      const Argument& argument = call_.arguments[i];
      if (argument.name.empty()) return Positional(argument, i);
      LITHIFY_TRY_ASSIGN(const ArgumentSpec* spec,
                         Find(argument.name, argument.name, argument.position, "argument"));
      LITHIFY_TRY(Once(*spec, argument.name, argument.position));
      if (spec->type == ArgumentType::kOptions) {
        LITHIFY_TRY(Options(*spec, argument.value));
      } else {
        LITHIFY_TRY(Set(*spec, argument.value, false));
      }
    }
    for (const ArgumentSpec& spec : procedure_.arguments) {
      if (!spec.required || values_.contains(spec.name)) continue;
      return FailAt(call_.position,
                    std::string(procedure_.name) + " needs the argument " + Shown(spec.name),
                    "write " + std::string(spec.name) + " => " + ExampleOf(spec));
    }
    return CheckSortOrder();
  }

  std::map<std::string_view, BoundValue> TakeValues() { return std::move(values_); }

 private:
  std::string Of() const { return " of " + std::string(procedure_.name); }

  std::unexpected<Error> Positional(const Argument& argument, size_t index) const {
    const ArgumentSpec& meant =
        procedure_.arguments[std::min(index, procedure_.arguments.size() - 1)];
    const auto* text = std::get_if<std::string>(&argument.value.value);
    const bool usable = text != nullptr && meant.type == ArgumentType::kTable;
    return FailAt(argument.position, "arguments" + Of() + " are given by name",
                  "write " + std::string(meant.name) + " => " +
                      (usable ? QuoteText(*text) : ExampleOf(meant)));
  }

  // `name` in our spelling, `written` in the caller's.
  Result<const ArgumentSpec*> Find(std::string_view name, std::string_view written,
                                   const Position& at, std::string_view what) const {
    if (const ArgumentSpec* spec = FindArgument(procedure_, name)) return spec;
    for (const ForeignArgument& foreign : kForeign) {
      if (foreign.procedure != procedure_.name || foreign.name != name) continue;
      return Fail(Code::kUnsupported,
                  std::string(what) + " " + Shown(written) + Of() +
                      " has no meaning here: " + std::string(foreign.why),
                  at.ToString(), "leave it out");
    }
    std::vector<std::string_view> names;
    for (const ArgumentSpec& spec : procedure_.arguments) names.push_back(spec.name);
    return FailAt(at,
                  "unknown " + std::string(what) + " " + Shown(written) + Of() + Meant(name, names),
                  "arguments are: " + Names(procedure_));
  }

  Status Once(const ArgumentSpec& spec, std::string_view written, const Position& at) {
    const auto [first, added] = places_.emplace(spec.name, at);
    if (added) return {};
    return FailAt(at, "argument " + Shown(written) + Of() + " is given twice",
                  "it is given at " + first->second.ToString() + ", too: leave one of them out");
  }

  Status Set(const ArgumentSpec& spec, const Literal& literal, bool loose) {
    if (std::holds_alternative<Null>(literal.value)) {
      return FailAt(literal.position, Shown(spec.name) + " cannot be NULL",
                    spec.required ? "write " + std::string(spec.name) + " => " + ExampleOf(spec)
                                  : "leave it out for the default");
    }
    LITHIFY_TRY_ASSIGN(BoundValue value, Converter(spec, literal, loose).Convert());
    values_.emplace(spec.name, std::move(value));
    return {};
  }

  Status Options(const ArgumentSpec& options, const Literal& literal) {
    if (std::holds_alternative<Null>(literal.value)) return Set(options, literal, false);
    const Map* map = std::get_if<Map>(&literal.value);
    if (map == nullptr) return Set(options, literal, false);
    for (const MapEntry& entry : *map) {
      const auto* key = std::get_if<std::string>(&entry.key.value);
      if (key == nullptr) {
        return FailAt(
            entry.key.position,
            "the key of an option must be text, not " + std::string(KindName(entry.key.value)),
            "write options => " + ExampleOf(options));
      }
      const Position& at = entry.key.position;
      LITHIFY_TRY_ASSIGN(const ArgumentSpec* spec, Find(OptionName(*key), *key, at, "option"));
      if (spec->type == ArgumentType::kTable || spec->type == ArgumentType::kOptions) {
        return FailAt(at, Shown(*key) + " is no option", "give it as an argument of its own");
      }
      LITHIFY_TRY(Once(*spec, *key, at));
      LITHIFY_TRY(Set(*spec, entry.value, true));
    }
    return {};
  }

  // Whether the columns are there is for the table to say.
  Status CheckSortOrder() const {
    const auto found = values_.find("sort_order");
    if (found == values_.end()) return {};
    auto order = ParseRowOrder(std::get<std::string>(found->second));
    if (order) return {};
    return FailAt(places_.at("sort_order"), Shown("sort_order") + ": " + order.error().message,
                  std::move(order.error().hint));
  }

  const Procedure& procedure_;
  const Call& call_;
  std::map<std::string_view, BoundValue> values_;
  std::map<std::string_view, Position> places_;
};

}  // namespace

Result<BoundCall> Bind(const Call& call) {
  const Procedure* procedure = FindProcedure(call.procedure);
  if (procedure == nullptr) {
    std::vector<std::string_view> names;
    for (const Procedure& known : Procedures()) names.push_back(known.name);
    return FailAt(call.position,
                  "unknown procedure " + Shown(call.procedure) + Meant(call.procedure, names),
                  "procedures are: " + Join(names));
  }
  Binder binder(*procedure, call);
  LITHIFY_TRY(binder.Run());
  BoundCall bound;
  bound.procedure_ = procedure;
  bound.catalog_ = call.catalog;
  bound.values_ = binder.TakeValues();
  return bound;
}

}  // namespace lithify::sql
