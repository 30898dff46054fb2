#include "config/section.h"

#include <charconv>

namespace lithify::config {
namespace {

constexpr int64_t kTiB = 1024 * kGiB;

std::string Written(const Raw& raw) {
  struct Print {
    std::string operator()(int64_t n) const { return std::to_string(n); }
    std::string operator()(double n) const { return std::to_string(n); }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(const std::string& text) const { return "\"" + text + "\""; }
    std::string operator()(const std::vector<std::string>& items) const { return TomlList(items); }
  };
  return std::visit(Print{}, raw.value);
}

template <typename T>
std::optional<T> ParseWhole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<Override> ParseOverride(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Fail(Code::kInvalid, "\"" + std::string(text) + "\" is not KEY=VALUE", "--set",
                "write it like --set compaction.min_files=8");
  }
  return Override{.key = std::string(text.substr(0, equals)),
                  .value = std::string(text.substr(equals + 1)),
                  .source = "--set"};
}

Result<std::vector<Override>> ParseOverrides(const std::vector<std::string>& texts) {
  std::vector<Override> out;
  for (const std::string& text : texts) {
    LITHIFY_TRY_ASSIGN(out.emplace_back(), ParseOverride(text));
  }
  return out;
}

std::unexpected<Error> Wrong(const Raw& raw, std::string_view wanted) {
  return Fail(Code::kInvalid, Written(raw) + " is not allowed; it must be " + std::string(wanted));
}

std::string BytesText(int64_t bytes) {
  for (const auto& [unit, name] : {std::pair{kTiB, "TiB"}, std::pair{kGiB, "GiB"},
                                   std::pair{kMiB, "MiB"}, std::pair{kKiB, "KiB"}}) {
    if (bytes != 0 && bytes % unit == 0) return std::to_string(bytes / unit) + name;
  }
  return std::to_string(bytes);
}

std::string DurationText(Duration d) {
  const int64_t millis = std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  for (const auto& [unit, name] :
       {std::pair{int64_t{86'400'000}, "d"}, std::pair{int64_t{3'600'000}, "h"},
        std::pair{int64_t{60'000}, "min"}, std::pair{int64_t{1000}, "s"}}) {
    if (millis != 0 && millis % unit == 0) return std::to_string(millis / unit) + name;
  }
  return millis == 0 ? "0s" : std::to_string(millis) + "ms";
}

std::optional<int64_t> ReadInteger(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) return *n;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr || raw.typed) return std::nullopt;
  return ParseWhole<int64_t>(*text);
}

std::optional<double> ReadNumber(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<double>(&raw.value)) return *n;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr || raw.typed) return std::nullopt;
  return ParseWhole<double>(*text);
}

std::optional<bool> ReadBool(const Raw& raw) {
  if (const auto* b = std::get_if<bool>(&raw.value)) return *b;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr || raw.typed) return std::nullopt;
  if (*text == "true" || *text == "1" || *text == "yes") return true;
  if (*text == "false" || *text == "0" || *text == "no") return false;
  return std::nullopt;
}

std::optional<int64_t> ReadBytes(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) return *n;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr) return std::nullopt;
  const auto parsed = ParseBytes(*text);
  return parsed ? std::optional(*parsed) : std::nullopt;
}

std::optional<Duration> ReadDuration(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) {
    constexpr int64_t kMax =
        std::chrono::duration_cast<std::chrono::seconds>(Duration::max()).count();
    if (*n < 0 || *n > kMax) return std::nullopt;
    return std::chrono::seconds(*n);
  }
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr) return std::nullopt;
  const auto parsed = ParseDuration(*text);
  return parsed ? std::optional(*parsed) : std::nullopt;
}

void AddProblem(std::vector<std::string>& problems, std::string_view source, std::string_view key,
                std::string_view what) {
  std::string line(source);
  if (!key.empty()) line.append(": ").append(key);
  line.append(": ").append(what);
  problems.push_back(std::move(line));
}

std::unexpected<Error> FailWith(const std::vector<std::string>& problems) {
  std::string message = problems.size() == 1 ? "the configuration has a problem"
                                             : "the configuration has " +
                                                   std::to_string(problems.size()) + " problems";
  message += ":";
  for (const std::string& problem : problems) message += "\n  " + problem;
  return Fail(Code::kInvalid, message);
}

std::string SuggestKey(std::string_view key, const std::vector<std::string_view>& keys) {
  const auto field_of = [](std::string_view k) { return k.substr(k.rfind('.') + 1); };
  const std::string_view section = key.substr(0, key.rfind('.'));
  std::vector<std::string_view> near;
  for (const std::string_view known : keys) {
    if (field_of(known) == field_of(key)) {
      return "; did you mean \"" + std::string(known) + "\"?";
    }
    if (known.substr(0, known.rfind('.')) == section) near.push_back(field_of(known));
  }
  if (std::string text = Suggestion(field_of(key), near, section); !text.empty()) return text;
  return Suggestion(key, keys);
}

std::string Suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       std::string_view section) {
  const std::string_view best = Nearest(name, candidates);
  if (best.empty()) return {};
  std::string key(section);
  if (!key.empty()) key += '.';
  return "; did you mean \"" + key.append(best) + "\"?";
}

std::string TomlText(std::string_view text) {
  // A JSON string is a TOML basic string, except that TOML wants DEL escaped.
  std::string out;
  for (const char c : JsonQuote(text))
    out += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
  return out;
}

std::string TomlList(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + TomlText(item);
  return out + "]";
}

Result<std::string> ReadText(const Raw& raw) {
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr) return Wrong(raw, "a text");
  for (const char c : *text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      return Wrong(raw, "a text without control characters");
    }
  }
  return *text;
}

Result<std::vector<std::string>> ReadList(const Raw& raw) {
  std::vector<std::string> items;
  if (const auto* list = std::get_if<std::vector<std::string>>(&raw.value)) {
    items = *list;
  } else if (const auto* text = std::get_if<std::string>(&raw.value);
             text != nullptr && !raw.typed) {
    for (size_t at = 0; !text->empty() && at <= text->size();) {
      const size_t comma = std::min(text->find(',', at), text->size());
      items.push_back(text->substr(at, comma - at));
      at = comma + 1;
    }
  } else {
    return Wrong(raw, "a list of texts");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    LITHIFY_TRY(ReadText({.value = items[i]}));
    if (items[i].empty()) return Wrong(raw, "a list without empty items");
    if (std::find(items.begin(), items.begin() + static_cast<int64_t>(i), items[i]) !=
        items.begin() + static_cast<int64_t>(i)) {
      return Wrong(raw, "a list without repeated items");
    }
  }
  return items;
}

}  // namespace lithify::config
