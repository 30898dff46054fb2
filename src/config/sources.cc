#include "config/sources.h"

#include <algorithm>
#include <array>
#include <optional>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "table/hive_layout.h"

extern "C" char** environ;

namespace lithify::config {
namespace {

constexpr std::array<std::string_view, 11> kSeriesKeys = {"name",
                                                          "prefix",
                                                          "partition_columns",
                                                          "tenant",
                                                          "year",
                                                          "month",
                                                          "day",
                                                          "hour",
                                                          "date",
                                                          "check_tenant_column",
                                                          "check_time_columns"};

struct RoleKey {
  std::string_view key;
  ColumnRole role;
  std::string_view default_column;
};
constexpr std::array kRoleKeys = {
    RoleKey{"tenant", ColumnRole::kTenant, "tenant_id"}, RoleKey{"year", ColumnRole::kYear, "year"},
    RoleKey{"month", ColumnRole::kMonth, "month"},       RoleKey{"day", ColumnRole::kDay, "day"},
    RoleKey{"hour", ColumnRole::kHour, "hour"},          RoleKey{"date", ColumnRole::kDate, ""}};

// Sections that a module above reads by itself.
constexpr std::array<std::string_view, 2> kOthers = {"maintenance", "worker"};

std::string ToText(std::string_view text) { return std::string(text); }

// Replaces ${NAME} by the variable (R034); "$${" stands for "${" itself.
Result<std::string> Interpolate(const std::string& text, const Environment& environment) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 3, "$${") == 0) {
      out += "${";
      at += 3;
      continue;
    }
    if (text.compare(at, 2, "${") != 0) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    if (end == std::string::npos) return Fail(Code::kInvalid, "\"${\" without its \"}\"");
    const std::string name = text.substr(at + 2, end - at - 2);
    const auto found = std::ranges::find(environment, name, &Environment::value_type::first);
    if (found == environment.end()) {
      return Fail(Code::kInvalid, "the environment variable " + name + " is not set");
    }
    out += found->second;
    at = end + 1;
  }
  return out;
}

class FileReader {
 public:
  FileReader(std::string_view file_name, const Environment& environment,
             std::vector<std::string>& problems)
      : file_name_(file_name), environment_(environment), problems_(problems) {}

  FileContent Read(const toml::table& root) {
    FileContent content;
    for (const auto& [key, node] : root) {
      const std::string section = ToText(key.str());
      // Not even looked at: it may hold secrets, and ask for variables that have some.
      if (IsOthers(section)) continue;
      if (section == "series") {
        ReadAllSeries(node, content);
      } else if (section == "catalogs" && node.is_table()) {
        ReadCatalogs(*node.as_table(), content);
      } else if (const toml::table* table = node.as_table();
                 table != nullptr && KnownSection(section)) {
        ReadSection(section, *table, content);
      } else {
        UnknownTop(section, node);
      }
    }
    return content;
  }

  // A section that is read by itself, with those below it.
  void ReadOne(const std::string& section, const toml::node& node,
               const std::vector<std::string_view>& keys, std::vector<Assignment>& values) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      AddProblem(problems_, At(node), section, "must be a table: [" + section + "]");
      return;
    }
    const auto below = [&](std::string_view name) {
      return std::ranges::any_of(
          keys, [&](std::string_view key) { return key.starts_with(std::string(name) + "."); });
    };
    for (const auto& [key, value] : *table) {
      const std::string full = section + "." + ToText(key.str());
      if (below(full)) {
        ReadOne(full, value, keys, values);
      } else if (value.is_table()) {
        AddProblem(problems_, At(value), full,
                   "unknown section" + Suggestion(full, SectionsOf(keys)));
      } else if (auto raw = ReadNode(value, full)) {
        values.push_back({.key = full, .raw = std::move(*raw), .source = At(value)});
      }
    }
  }

  std::string At(const toml::node& node) const {
    return file_name_ + ":" + std::to_string(node.source().begin.line);
  }

 private:
  static std::vector<std::string_view> SectionsOf(const std::vector<std::string_view>& keys) {
    std::vector<std::string_view> sections;
    for (const std::string_view key : keys) {
      const std::string_view section = key.substr(0, key.rfind('.'));
      if (std::ranges::find(sections, section) == sections.end()) sections.push_back(section);
    }
    return sections;
  }

  static std::vector<std::string_view> Sections() {
    std::vector<std::string_view> sections = SectionsOf(KeysOf(Fields()));
    sections.insert(sections.end(), {"series", "catalogs"});
    sections.insert(sections.end(), kOthers.begin(), kOthers.end());
    return sections;
  }

  static bool KnownSection(std::string_view name) {
    const auto sections = Sections();
    return std::ranges::find(sections, name) != sections.end();
  }

  void UnknownTop(const std::string& name, const toml::node& node) {
    if (KnownSection(name)) {
      AddProblem(problems_, At(node), name, "must be a table: [" + name + "]");
      return;
    }
    AddProblem(problems_, At(node), name, "unknown section" + Suggestion(name, Sections()));
  }

  void ReadSection(const std::string& section, const toml::table& table, FileContent& content) {
    for (const auto& [key, node] : table) {
      const std::string full = section + "." + ToText(key.str());
      if (auto raw = ReadNode(node, full)) {
        content.values.push_back({.key = full, .raw = std::move(*raw), .source = At(node)});
      }
    }
  }

  void ReadAllSeries(const toml::node& node, FileContent& content) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      AddProblem(problems_, At(node), "series", "must be an array of tables: [[series]]");
      return;
    }
    for (const toml::node& item : *array) {
      const toml::table* table = item.as_table();
      if (table == nullptr) {
        AddProblem(problems_, At(item), "series", "must be an array of tables: [[series]]");
        continue;
      }
      SeriesTable series{.values = {}, .source = At(item)};
      for (const auto& [key, value] : *table) {
        const std::string name = ToText(key.str());
        if (auto raw = ReadNode(value, "series." + name)) {
          series.values.push_back({.key = name, .raw = std::move(*raw), .source = At(value)});
        }
      }
      content.series.push_back(std::move(series));
    }
  }

  void ReadCatalogs(const toml::table& table, FileContent& content) {
    for (const auto& [key, node] : table) {
      const std::string name = ToText(key.str());
      const toml::table* catalog = node.as_table();
      if (catalog == nullptr) {
        AddProblem(problems_, At(node), "catalogs." + name,
                   "must be a table: [catalogs." + name + "]");
        continue;
      }
      CatalogTable out{.name = name, .values = {}, .source = At(node)};
      for (const auto& [field, value] : *catalog) {
        const std::string member = ToText(field.str());
        if (auto raw = ReadNode(value, "catalogs." + name + "." + member)) {
          out.values.push_back({.key = member, .raw = std::move(*raw), .source = At(value)});
        }
      }
      content.catalogs.push_back(std::move(out));
    }
  }

  std::optional<std::string> ReadString(const toml::node& node, const std::string& key) {
    auto text = Interpolate(node.as_string()->get(), environment_);
    if (text) return std::move(*text);
    AddProblem(problems_, At(node), key, text.error().message);
    return std::nullopt;
  }

  std::optional<Raw> ReadNode(const toml::node& node, const std::string& key) {
    if (const auto* n = node.as_integer()) return Raw{.value = n->get(), .typed = true};
    if (const auto* n = node.as_floating_point()) return Raw{.value = n->get(), .typed = true};
    if (const auto* b = node.as_boolean()) return Raw{.value = b->get(), .typed = true};
    if (node.is_string()) {
      auto text = ReadString(node, key);
      if (!text) return std::nullopt;
      return Raw{.value = std::move(*text), .typed = true};
    }
    if (const toml::array* array = node.as_array()) {
      std::vector<std::string> items;
      for (const toml::node& item : *array) {
        if (!item.is_string()) {
          AddProblem(problems_, At(item), key, "a list may hold only texts");
          return std::nullopt;
        }
        auto text = ReadString(item, key);
        if (!text) return std::nullopt;
        items.push_back(std::move(*text));
      }
      return Raw{.value = std::move(items), .typed = true};
    }
    AddProblem(problems_, At(node), key, "a value of this kind is not allowed here");
    return std::nullopt;
  }

  const std::string file_name_;
  const Environment& environment_;
  std::vector<std::string>& problems_;
};

// Sets the roles that `table` asks for, then the defaults for columns without one.
void AssignRoles(const SeriesTable& table, SeriesLayout& layout,
                 std::vector<std::string>& problems) {
  const auto column = [&](std::string_view name) {
    return std::ranges::find(layout.columns, name, &PartitionColumn::name);
  };
  std::vector<std::string_view> asked;
  for (const Assignment& value : table.values) {
    const auto role = std::ranges::find(kRoleKeys, value.key, &RoleKey::key);
    if (role == kRoleKeys.end()) continue;
    asked.push_back(role->key);
    const auto name = ReadText(value.raw);
    if (!name) {
      AddProblem(problems, value.source, "series." + value.key, name.error().message);
    } else if (!name->empty() && column(*name) == layout.columns.end()) {
      AddProblem(problems, value.source, "series." + value.key,
                 "\"" + *name + "\" is not one of the partition_columns");
    } else if (!name->empty() && column(*name)->role != ColumnRole::kOther) {
      AddProblem(problems, value.source, "series." + value.key,
                 "\"" + *name + "\" stands for something else already");
    } else if (!name->empty()) {
      column(*name)->role = role->role;
    }
  }
  for (const RoleKey& role : kRoleKeys) {
    if (role.default_column.empty() || std::ranges::find(asked, role.key) != asked.end()) continue;
    const auto found = column(role.default_column);
    if (found != layout.columns.end() && found->role == ColumnRole::kOther) found->role = role.role;
  }
}

Status CheckPrefix(std::string_view prefix) {
  if (prefix.empty()) return {};
  for (size_t at = 0; at <= prefix.size();) {
    const size_t slash = std::min(prefix.find('/', at), prefix.size());
    const std::string_view part = prefix.substr(at, slash - at);
    if (part.empty() || part == "." || part == ".." || part.starts_with('_')) {
      return Fail(Code::kInvalid, "\"" + std::string(prefix) +
                                      "\" is not allowed; it must be directory names below the "
                                      "root, joined by \"/\", none of them empty, \".\", \"..\" or "
                                      "starting with \"_\"");
    }
    at = slash + 1;
  }
  return {};
}

Status CheckSeriesName(std::string_view name) {
  const bool ok = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  if (ok) return {};
  return Fail(Code::kInvalid, "\"" + std::string(name) +
                                  "\" is not allowed; it must be 1 to 64 letters, digits, \"_\", "
                                  "\"-\" or \".\"");
}

std::optional<toml::table> Parse(std::string_view toml, std::string_view file_name,
                                 std::vector<std::string>& problems) {
  toml::parse_result parsed = toml::parse(toml, file_name);
  if (parsed) return std::move(parsed).table();
  const toml::parse_error& error = parsed.error();
  AddProblem(problems, std::string(file_name) + ":" + std::to_string(error.source().begin.line), "",
             "not valid TOML: " + std::string(error.description()));
  return std::nullopt;
}

}  // namespace

bool IsOthers(std::string_view key) {
  return std::ranges::find(kOthers, key.substr(0, key.find('.'))) != kOthers.end();
}

FileContent ReadFileContent(std::string_view toml, std::string_view file_name,
                            const Environment& environment, std::vector<std::string>& problems) {
  const std::optional<toml::table> root = Parse(toml, file_name, problems);
  if (!root) return {};
  return FileReader(file_name, environment, problems).Read(*root);
}

std::vector<Assignment> ReadSection(const Sources& sources, std::string_view section,
                                    const std::vector<std::string_view>& keys,
                                    std::vector<std::string>& problems) {
  std::vector<Assignment> values;
  const std::optional<toml::table> root = Parse(sources.toml, sources.file_name, problems);
  if (root && root->contains(section)) {
    FileReader(sources.file_name, sources.environment, problems)
        .ReadOne(std::string(section), *root->get(section), keys, values);
  }
  for (Assignment& value : ReadEnvironment(sources.environment, section)) {
    values.push_back(std::move(value));
  }
  const std::string below = std::string(section) + ".";
  for (const Override& flag : sources.flags) {
    if (!flag.key.starts_with(below)) continue;
    values.push_back(
        {.key = flag.key, .raw = {.value = flag.value, .typed = false}, .source = flag.source});
  }
  return values;
}

std::string EnvironmentName(std::string_view key) {
  std::string out = "LITHIFY_";
  for (const char c : key) {
    if (c == '.') {
      out += "__";
    } else {
      out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return out;
}

Environment ProcessEnvironment() {
  Environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

std::vector<Assignment> ReadEnvironment(const Environment& environment, std::string_view section) {
  constexpr std::string_view kPrefix = "LITHIFY_";
  std::vector<Assignment> out;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix) || name.find("__") == std::string::npos) {
      continue;  // LITHIFY_CACHE and the like are not settings.
    }
    std::string key;
    for (size_t at = kPrefix.size(); at < name.size(); ++at) {
      const char c = name[at];
      if (name.compare(at, 2, "__") == 0) {
        key += '.';
        ++at;
      } else {
        key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
    }
    const bool ours =
        section.empty() ? !IsOthers(key) : key.starts_with(std::string(section) + ".");
    if (!ours) continue;
    out.push_back({.key = key, .raw = {.value = value, .typed = false}, .source = name});
  }
  return out;
}

SeriesLayout ReadSeries(const SeriesTable& table, std::vector<std::string>& problems) {
  SeriesLayout layout;
  bool has_prefix = false;
  const auto text = [&](const Assignment& value, std::string& out) {
    if (auto read = ReadText(value.raw)) {
      out = std::move(*read);
    } else {
      AddProblem(problems, value.source, "series." + value.key, read.error().message);
    }
  };
  const auto list = [&](const Assignment& value) {
    auto read = ReadList(value.raw);
    if (read) return std::move(*read);
    AddProblem(problems, value.source, "series." + value.key, read.error().message);
    return std::vector<std::string>();
  };
  const size_t before = problems.size();
  for (const Assignment& value : table.values) {
    if (value.key == "name") text(value, layout.name);
    if (value.key == "prefix") text(value, layout.prefix);
    has_prefix |= value.key == "prefix";
    if (value.key == "check_tenant_column") text(value, layout.tenant_row_column);
    if (value.key == "check_time_columns") layout.time_row_columns = list(value);
    if (value.key == "partition_columns") {
      for (std::string& name : list(value)) layout.columns.push_back({.name = std::move(name)});
    }
    const std::vector<std::string_view> known(kSeriesKeys.begin(), kSeriesKeys.end());
    if (std::ranges::find(known, value.key) == known.end()) {
      AddProblem(problems, value.source, "series." + value.key,
                 "unknown key" + Suggestion(value.key, known));
    }
  }
  if (!has_prefix) layout.prefix = layout.name;
  AssignRoles(table, layout, problems);
  if (Status ok = CheckSeriesName(layout.name); !ok) {
    AddProblem(problems, table.source, "series.name", ok.error().message);
  }
  if (Status ok = CheckPrefix(layout.prefix); !ok) {
    AddProblem(problems, table.source, "series.prefix", ok.error().message);
  }
  if (layout.columns.empty()) {
    AddProblem(problems, table.source, "series.partition_columns",
               "is required: the columns of the path, in order, like [\"tenant_id\", \"year\"]");
  }
  if (problems.size() == before) {
    if (Status ok = table::CheckLayout(layout); !ok) {
      AddProblem(problems, table.source, "series \"" + layout.name + "\"", ok.error().message);
    }
  }
  return layout;
}

}  // namespace lithify::config
