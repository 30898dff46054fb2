#include <string>

#include "config/config.h"
#include "config/fields.h"

namespace lithify::config {
namespace {

std::string_view RoleKeyName(ColumnRole role) {
  switch (role) {
    case ColumnRole::kTenant: return "tenant";
    case ColumnRole::kYear: return "year";
    case ColumnRole::kMonth: return "month";
    case ColumnRole::kDay: return "day";
    case ColumnRole::kHour: return "hour";
    case ColumnRole::kDate: return "date";
    case ColumnRole::kOther: return "";
  }
  return "";
}

std::string DumpSeries(const SeriesLayout& layout) {
  std::string out = "\n[[series]]\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    out.append(key).append(" = ").append(value).append("\n");
  };
  line("name", TomlText(layout.name));
  line("prefix", TomlText(layout.prefix));
  std::vector<std::string> names;
  for (const PartitionColumn& column : layout.columns) names.push_back(column.name);
  line("partition_columns", TomlList(names));
  // Every role is written, the absent ones as "": a default by name must not give them back.
  for (const ColumnRole role : {ColumnRole::kTenant, ColumnRole::kYear, ColumnRole::kMonth,
                                ColumnRole::kDay, ColumnRole::kHour, ColumnRole::kDate}) {
    std::string name;
    for (const PartitionColumn& column : layout.columns) {
      if (column.role == role) name = column.name;
    }
    line(RoleKeyName(role), TomlText(name));
  }
  line("check_tenant_column", TomlText(layout.tenant_row_column));
  line("check_time_columns", TomlList(layout.time_row_columns));
  return out;
}

// Secrets are shown as "***".
std::string DumpCatalog(const CatalogConfig& catalog) {
  std::string out = "\n[catalogs." + TomlText(catalog.name) + "]\n";
  const auto line = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) out.append(key).append(" = ").append(TomlText(value)).append("\n");
  };
  line("uri", catalog.uri);
  line("warehouse", catalog.warehouse);
  line("token", catalog.token.empty() ? "" : "***");
  line("client_id", catalog.client_id);
  line("client_secret", catalog.client_secret.empty() ? "" : "***");
  line("oauth2_server_uri", catalog.oauth2_server_uri);
  line("scope", catalog.scope);
  std::vector<std::string> headers;
  for (const auto& [name, value] : catalog.headers) headers.push_back(name + ": ***");
  if (!headers.empty()) out += "headers = " + TomlList(headers) + "\n";
  if (!catalog.vended_credentials) out += "vended_credentials = false\n";
  return out;
}

}  // namespace

std::string DumpHiveConfig(const HiveConfig& config) {
  std::string out = DumpFields(Fields(), config);
  for (const SeriesLayout& layout : config.series) out += DumpSeries(layout);
  for (const CatalogConfig& catalog : config.catalogs) out += DumpCatalog(catalog);
  return out;
}

}  // namespace lithify::config
