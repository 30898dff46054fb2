// How a section of a configuration is read from its file, the environment and flags: one list of
// fields says of each key its range, how to set it and how to print it, and loading, messages and
// dumps go by that list. config.h is made of it, and so is a section that another module owns.
#ifndef LITHIFY_CONFIG_SECTION_H_
#define LITHIFY_CONFIG_SECTION_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/hive.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/text.h"

namespace lithify::config {

using Environment = std::vector<std::pair<std::string, std::string>>;
// All variables of this process.
Environment ProcessEnvironment();

// One override from the command line: dotted key and text value ("compaction.min_files", "8").
struct Override {
  std::string key;
  std::string value;
  std::string source;  // "--min-files" or "LITHIFY_COMPACTION__MIN_FILES"; for messages.
};

// One of "--set KEY=VALUE". kInvalid for what is none.
Result<Override> ParseOverride(std::string_view text);
Result<std::vector<Override>> ParseOverrides(const std::vector<std::string>& texts);

// Where a configuration comes from, the later ones above the earlier (R044). Views: what they
// name must live while it is read.
struct Sources {
  std::string_view toml;       // May be empty.
  std::string_view file_name;  // For messages.
  const Environment& environment;
  std::span<const Override> flags;
};

// A value as it was written, before it is known what the key wants. From the environment and the
// command line it is always text.
struct Raw {
  std::variant<int64_t, double, bool, std::string, std::vector<std::string>> value;
  bool typed = false;  // From TOML, where 8 and "8" differ.
};

struct Assignment {
  std::string key;
  Raw raw;
  std::string source;  // "lithify.toml:12", "LITHIFY_LIMITS__JOBS", "--jobs".
};

// A key of a configuration that is read into a C.
template <typename C>
struct Field {
  std::string_view key;  // "compaction.min_files".
  // kInvalid, with what is wrong and the allowed range, without the key.
  std::function<Status(C&, const Raw&)> set;
  std::function<std::string(const C&)> dump;  // As a TOML value; empty: it is not set.
};

// Reading.

// What `section` ("maintenance"), and what is below it, is set to: first by the file, then by the
// environment (LITHIFY_MAINTENANCE__PRINCIPAL__SCOPE), then by flags. ${NAME} in a text of the file
// is replaced by that variable (R034). `keys` are those that exist. What is wrong is added to
// `problems`, one line each; other sections are not looked at.
std::vector<Assignment> ReadSection(const Sources& sources, std::string_view section,
                                    const std::vector<std::string_view>& keys,
                                    std::vector<std::string>& problems);

// Whether `key` lies below a section that another module reads by itself; LoadHiveConfig leaves
// those alone, in the file and in the environment.
bool IsOthers(std::string_view key);

// "where: key: what".
void AddProblem(std::vector<std::string>& problems, std::string_view source, std::string_view key,
                std::string_view what);

// All of them as one error (R043).
std::unexpected<Error> FailWith(const std::vector<std::string>& problems);

// The one of `candidates` nearest to `name`, as "; did you mean …?" (with its section before it),
// or nothing if all are far.
std::string Suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       std::string_view section = {});
// For a key that does not exist: the same field of another section first ("compaction.jobs" is
// "limits.jobs"), then the nearest field of this section, then the nearest key of all.
std::string SuggestKey(std::string_view key, const std::vector<std::string_view>& keys);

template <typename C>
std::vector<std::string_view> KeysOf(std::span<const Field<C>> fields) {
  std::vector<std::string_view> keys;
  for (const Field<C>& field : fields) keys.push_back(field.key);
  return keys;
}

template <typename C>
void ApplyAll(const std::vector<Assignment>& values, std::span<const Field<C>> fields, C& config,
              std::vector<std::string>& problems) {
  for (const Assignment& value : values) {
    const auto field = std::ranges::find(fields, value.key, &Field<C>::key);
    if (field == fields.end()) {
      AddProblem(problems, value.source, value.key,
                 "unknown key" + SuggestKey(value.key, KeysOf(fields)));
      continue;
    }
    if (Status set = field->set(config, value.raw); !set) {
      AddProblem(problems, value.source, value.key, set.error().message);
    }
  }
}

// As TOML; keys of one section are together.
template <typename C>
std::string DumpFields(std::span<const Field<C>> fields, const C& config) {
  std::string out;
  std::string_view section;
  for (const Field<C>& field : fields) {
    const std::string value = field.dump(config);
    if (value.empty()) continue;
    const size_t dot = field.key.rfind('.');
    if (field.key.substr(0, dot) != section) {
      section = field.key.substr(0, dot);
      if (!out.empty()) out += "\n";
      out.append("[").append(section).append("]\n");
    }
    out.append(field.key.substr(dot + 1)).append(" = ").append(value).append("\n");
  }
  return out;
}

// Values.

std::string TomlText(std::string_view text);
std::string TomlList(const std::vector<std::string>& items);
std::string BytesText(int64_t bytes);
std::string DurationText(Duration d);

// "8 is not allowed; it must be <wanted>".
std::unexpected<Error> Wrong(const Raw& raw, std::string_view wanted);

// nullopt: of the wrong kind; the caller says what it wants.
std::optional<int64_t> ReadInteger(const Raw& raw);
std::optional<double> ReadNumber(const Raw& raw);
std::optional<bool> ReadBool(const Raw& raw);
std::optional<int64_t> ReadBytes(const Raw& raw);
std::optional<Duration> ReadDuration(const Raw& raw);
// Text without control characters; kInvalid otherwise.
Result<std::string> ReadText(const Raw& raw);
// A TOML array of texts, or one text with commas. No empty and no repeated item.
Result<std::vector<std::string>> ReadList(const Raw& raw);

// Fields.

// A member of C, by what gives its address of a const and of a mutable C:
// MemberOf<HiveConfig>([](auto& c) -> auto& { return c.jobs; }).
template <typename C, typename At>
struct Member {
  At at;
  auto& operator()(C& c) const { return at(c); }
  const auto& operator()(const C& c) const { return at(c); }
};
template <typename C, typename At>
Member<C, At> MemberOf(At at) {
  return {std::move(at)};
}

template <typename C, typename At>
Field<C> CountField(std::string_view key, int64_t low, int64_t high, Member<C, At> at) {
  const std::string wanted = "a whole number from " + FormatCount(low) + " to " + FormatCount(high);
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto n = ReadInteger(raw);
            if (!n || *n < low || *n > high) return Wrong(raw, wanted);
            at(c) = static_cast<std::remove_reference_t<decltype(at(c))>>(*n);
            return {};
          },
          [=](const C& c) { return std::to_string(at(c)); }};
}

template <typename C, typename At>
Field<C> BytesField(std::string_view key, int64_t low, int64_t high, bool zero, Member<C, At> at) {
  const std::string wanted = "a size from " + BytesText(low) + " to " + BytesText(high) +
                             (zero ? ", or 0 for none" : "") + ", like 4096 or \"128MiB\"";
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto n = ReadBytes(raw);
            if (!n || ((*n < low || *n > high) && !(zero && *n == 0))) return Wrong(raw, wanted);
            at(c) = *n;
            return {};
          },
          [=](const C& c) {
            const std::string text = BytesText(at(c));
            return text.back() == 'B' ? TomlText(text) : text;
          }};
}

template <typename C, typename At>
Field<C> DurationField(std::string_view key, Duration low, Duration high, bool zero,
                       Member<C, At> at) {
  const std::string wanted = "a duration from " + DurationText(low) + " to " + DurationText(high) +
                             (zero ? ", or 0 for none" : "") + ", as seconds or like \"15min\"";
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto d = ReadDuration(raw);
            const bool none = zero && d && *d == Duration::zero();
            if (!d || ((*d < low || *d > high) && !none)) return Wrong(raw, wanted);
            at(c) = *d;
            return {};
          },
          [=](const C& c) { return TomlText(DurationText(at(c))); }};
}

// A duration in whole seconds, for a key whose name says so.
template <typename C, typename At>
Field<C> SecondsField(std::string_view key, int64_t low, int64_t high, bool zero,
                      Member<C, At> at) {
  using std::chrono::seconds;
  const std::string wanted = "a whole number of seconds from " + FormatCount(low) + " to " +
                             FormatCount(high) + (zero ? ", or 0 for none" : "");
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto d = ReadDuration(raw);
            const bool none = zero && d && *d == Duration::zero();
            if (!d || *d % seconds(1) != Duration::zero() ||
                ((*d < seconds(low) || *d > seconds(high)) && !none)) {
              return Wrong(raw, wanted);
            }
            at(c) = *d;
            return {};
          },
          [=](const C& c) {
            return std::to_string(std::chrono::duration_cast<seconds>(at(c)).count());
          }};
}

template <typename C, typename At>
Field<C> TextField(std::string_view key, Member<C, At> at) {
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            LITHIFY_TRY_ASSIGN(at(c), ReadText(raw));
            return {};
          },
          [=](const C& c) { return TomlText(at(c)); }};
}

template <typename C, typename At>
Field<C> ListField(std::string_view key, Member<C, At> at) {
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            LITHIFY_TRY_ASSIGN(at(c), ReadList(raw));
            return {};
          },
          [=](const C& c) { return TomlList(at(c)); }};
}

template <typename C, typename At>
Field<C> BoolField(std::string_view key, Member<C, At> at) {
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto b = ReadBool(raw);
            if (!b) return Wrong(raw, "true or false");
            at(c) = *b;
            return {};
          },
          [=](const C& c) { return std::string(at(c) ? "true" : "false"); }};
}

// What is wrong is told without the value, and the value is dumped as "***".
template <typename C, typename At>
Field<C> SecretField(std::string_view key, Member<C, At> at) {
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto text = ReadText(raw);
            if (!text) return Fail(Code::kInvalid, "must be a text without control characters");
            at(c) = Secret(*text);
            return {};
          },
          [=](const C& c) { return TomlText(at(c).empty() ? "" : "***"); }};
}

// One of a few names, which is kept as text.
template <typename C, typename At>
Field<C> ChoiceField(std::string_view key, const std::vector<std::string_view>& choices,
                     Member<C, At> at) {
  std::string wanted = "one of ";
  for (const std::string_view choice : choices) {
    wanted += (wanted.back() == ' ' ? "\"" : ", \"") + std::string(choice) + "\"";
  }
  return {key,
          [=](C& c, const Raw& raw) -> Status {
            const auto* text = std::get_if<std::string>(&raw.value);
            if (text == nullptr || std::ranges::find(choices, *text) == choices.end()) {
              return Wrong(raw, wanted);
            }
            at(c) = *text;
            return {};
          },
          [=](const C& c) { return TomlText(at(c)); }};
}

// One of a few names, each for a value: `names` is an array of pairs of both, which must live.
template <typename C, typename At, typename Names>
Field<C> NamedField(std::string_view key, const Names& names, Member<C, At> at) {
  std::string wanted = "one of ";
  for (const auto& [value, name] : names) {
    wanted += (wanted.back() == ' ' ? "\"" : ", \"") + std::string(name) + "\"";
  }
  return {key,
          [at, wanted, &names](C& c, const Raw& raw) -> Status {
            const auto* text = std::get_if<std::string>(&raw.value);
            for (const auto& [value, name] : names) {
              if (text == nullptr || *text != name) continue;
              at(c) = value;
              return {};
            }
            return Wrong(raw, wanted);
          },
          [at, &names](const C& c) {
            for (const auto& [value, name] : names) {
              if (value == at(c)) return TomlText(name);
            }
            return TomlText("");
          }};
}

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_SECTION_H_
