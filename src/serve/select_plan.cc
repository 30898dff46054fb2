#include "serve/select_plan.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "serve/duck_table.h"

namespace lithify::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// A detail of an operator: one text, or several.
std::vector<std::string> Texts(const Json& detail) {
  std::vector<std::string> texts;
  const auto add = [&](const Json& one) {
    texts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  };
  if (!detail.is_array()) {
    add(detail);
    return texts;
  }
  for (const Json& one : detail) add(one);
  return texts;
}

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

class Reader {
 public:
  explicit Reader(const std::vector<std::string>& names) : names_(names) {
    plan_.columns.resize(names.size());
  }

  void Add(const Json& node, size_t depth) {
    if (!node.is_object()) return;
    const Json details = node.value("extra_info", Json::object());
    std::string name = Trimmed(node.value("name", ""));
    const auto table = TableOf(name, details);
    if (table) name = "SCAN " + names_[*table];
    plan_.text += std::string(2 * depth, ' ') + name;
    std::string separator = ": ";
    for (const auto& [key, detail] : details.items()) {
      if (table && key == "Function") continue;
      std::string joined;
      for (const std::string& text : Texts(detail)) {
        if (text.empty() || DuckTables::IsNoColumn(text)) continue;
        joined += (joined.empty() ? "" : ", ") + text;
        if (table && key == "Projections") plan_.columns[*table].push_back(text);
      }
      if (joined.empty()) continue;
      plan_.text += separator + key + " " + joined;
      separator = "; ";
    }
    plan_.text += '\n';
    const auto children = node.find("children");
    if (children == node.end() || !children->is_array()) return;
    for (const Json& child : *children) Add(child, depth + 1);
  }

  DuckPlan Take() {
    while (plan_.text.ends_with('\n')) plan_.text.pop_back();
    return std::move(plan_);
  }

 private:
  std::optional<size_t> TableOf(const std::string& name, const Json& details) const {
    const std::string function = details.is_object() ? details.value("Function", "") : "";
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::string scan = Upper(ScanName(i));
      if (Upper(name) == scan || Upper(function) == scan) return i;
    }
    return std::nullopt;
  }

  const std::vector<std::string>& names_;
  DuckPlan plan_;
};

}  // namespace

Result<DuckPlan> ReadDuckPlan(std::string_view json, const std::vector<std::string>& names) {
  const Json roots = Json::parse(json, nullptr, false);
  if (!roots.is_array()) return Fail(Code::kInternal, "DuckDB's plan is not understood");
  Reader reader(names);
  for (const Json& root : roots) reader.Add(root, 0);
  return reader.Take();
}

}  // namespace lithify::serve
