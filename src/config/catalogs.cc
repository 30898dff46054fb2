#include "config/catalogs.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lithify::config {
namespace {

constexpr std::array<std::string_view, 10> kKeys = {
    "uri",           "warehouse",         "token", "credential", "client_id",
    "client_secret", "oauth2_server_uri", "scope", "headers",    "vended_credentials"};

class Reader {
 public:
  Reader(const CatalogTable& table, std::vector<std::string>& problems)
      : table_(table), problems_(problems) {}

  CatalogConfig Read() {
    out_.name = table_.name;
    if (table_.name.empty() || table_.name.find('.') != std::string::npos) {
      Problem(table_.source, "", "the name of a catalog is one word without a dot");
    }
    for (const Assignment& value : table_.values) Take(value);
    if (out_.uri.empty()) {
      Problem(table_.source, "uri", "is needed, like \"sqlite:///lake/catalog.db\"");
    }
    if (!out_.token.empty() && !out_.client_id.empty()) {
      Problem(table_.source, "token", "and a client id exclude each other");
    }
    if (out_.client_id.empty() != out_.client_secret.empty()) {
      Problem(table_.source, "client_id", "and client_secret go together");
    }
    return std::move(out_);
  }

 private:
  void Problem(std::string_view source, std::string_view key, std::string_view what) {
    std::string full = "catalogs." + table_.name;
    if (!key.empty()) full.append(".").append(key);
    AddProblem(problems_, source, full, what);
  }

  void Take(const Assignment& value) {
    if (std::ranges::find(kKeys, value.key) == kKeys.end()) {
      Problem(value.source, value.key,
              "unknown key" + Suggestion(value.key, {kKeys.begin(), kKeys.end()}));
      return;
    }
    if (value.key == "headers") {
      TakeHeaders(value);
      return;
    }
    if (value.key == "vended_credentials") {
      const auto* flag = std::get_if<bool>(&value.raw.value);
      if (flag == nullptr) {
        Problem(value.source, value.key, "must be true or false");
      } else {
        out_.vended_credentials = *flag;
      }
      return;
    }
    auto text = ReadText(value.raw);
    if (!text) {
      Problem(value.source, value.key, text.error().message);
      return;
    }
    if (value.key == "uri") out_.uri = std::move(*text);
    if (value.key == "warehouse") out_.warehouse = std::move(*text);
    if (value.key == "token") out_.token = Secret(*text);
    if (value.key == "client_id") out_.client_id = std::move(*text);
    if (value.key == "client_secret") out_.client_secret = Secret(*text);
    if (value.key == "oauth2_server_uri") out_.oauth2_server_uri = std::move(*text);
    if (value.key == "scope") out_.scope = std::move(*text);
    if (value.key == "credential") TakeCredential(value, *text);
  }

  // "id:secret", as other Iceberg clients write it.
  void TakeCredential(const Assignment& value, const std::string& text) {
    const size_t colon = text.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
      Problem(value.source, value.key, "must be \"client id:client secret\"");
      return;
    }
    out_.client_id = text.substr(0, colon);
    out_.client_secret = Secret(std::string_view(text).substr(colon + 1));
  }

  void TakeHeaders(const Assignment& value) {
    const auto lines = ReadList(value.raw);
    if (!lines) {
      Problem(value.source, value.key, lines.error().message);
      return;
    }
    for (const std::string& line : *lines) {
      const size_t colon = line.find(':');
      if (colon == std::string::npos || colon == 0) {
        Problem(value.source, value.key, "must be a list of \"Name: value\"");
        return;
      }
      const size_t start = line.find_first_not_of(' ', colon + 1);
      out_.headers.emplace_back(line.substr(0, colon),
                                start == std::string::npos ? "" : line.substr(start));
    }
  }

  const CatalogTable& table_;
  std::vector<std::string>& problems_;
  CatalogConfig out_;
};

}  // namespace

std::vector<CatalogConfig> ReadCatalogs(const std::vector<CatalogTable>& tables,
                                        std::vector<std::string>& problems) {
  std::vector<CatalogConfig> catalogs;
  catalogs.reserve(tables.size());
  for (const CatalogTable& table : tables) catalogs.push_back(Reader(table, problems).Read());
  return catalogs;
}

}  // namespace lithify::config
