#include "job/table_looks.h"

#include <atomic>
#include <utility>

#include "base/from_exception.h"
#include "base/parallel.h"
#include "base/text.h"

namespace lithify::job {
namespace {

TableLook Look(catalog::Catalog& catalog, catalog::TableIdent ident) {
  TableLook look;
  look.ident = std::move(ident);
  auto loaded = catalog.LoadTable(look.ident);
  if (!loaded) {
    look.error = std::move(loaded.error());
    return look;
  }
  iceberg::TableMetadata& metadata = loaded->metadata;
  look.table_uuid = metadata.table_uuid;
  if (const iceberg::Snapshot* head = metadata.RefSnapshot("main")) {
    look.snapshot_id = head->snapshot_id;
    look.snapshot_ms = head->timestamp_ms;
    look.summary = head->summary;
  }
  look.properties = std::move(metadata.properties);
  return look;
}

// A catalog that fails so often in a row is not asked for the rest.
constexpr int kFailuresMax = 8;

// About the one asked for, as opposed to the catalog as a whole.
bool IsOfOne(const Error& error) {
  return error.code == Code::kDenied || error.code == Code::kNotFound ||
         error.code == Code::kUnsupported || error.code == Code::kCorrupt ||
         error.code == Code::kInvalid || error.code == Code::kLimit ||
         error.code == Code::kInternal;
}

}  // namespace

Result<std::vector<NamespaceLook>> LookAtTables(catalog::Catalog& catalog,
                                                const LookRequest& request,
                                                const CancelFlag& cancel) {
  std::vector<std::vector<std::string>> namespaces;
  if (request.namespaces) {
    namespaces = *request.namespaces;
  } else {
    LITHIFY_TRY_ASSIGN(namespaces, catalog::AllNamespaces(catalog, {}));
  }
  std::vector<NamespaceLook> looks;
  std::vector<std::pair<size_t, size_t>> all;  // Namespace and table.
  int unlisted = 0;                            // In a row, and not by a refusal.
  for (std::vector<std::string>& parts : namespaces) {
    LITHIFY_TRY(cancel.Check());
    auto tables = catalog.ListTables(parts);
    if (!tables && !IsOfOne(tables.error()) && ++unlisted >= kFailuresMax) {
      return Fail(std::move(tables.error()));
    }
    if (tables) unlisted = 0;
    NamespaceLook look{.parts = std::move(parts), .error = {}, .tables = {}};
    if (!tables) {
      look.error = std::move(tables.error());
    } else {
      if (all.size() + tables->size() > request.tables_max) {
        return Fail(Code::kLimit,
                    "there are more than " + FormatCount(static_cast<int64_t>(request.tables_max)) +
                        " tables",
                    {}, "name the namespaces that count");
      }
      for (catalog::TableIdent& ident : *tables) {
        all.emplace_back(looks.size(), look.tables.size());
        look.tables.emplace_back().ident = std::move(ident);
      }
    }
    looks.push_back(std::move(look));
  }
  std::atomic<int> failures{0};
  std::atomic<bool> given_up{false};
  ForEach(all.size(), request.at_once, [&](size_t i) {
    if (!cancel.Check() || given_up.load()) return;
    TableLook& look = looks[all[i].first].tables[all[i].second];
    try {
      look = Look(catalog, look.ident);
    } catch (const std::exception& e) {
      look.error = FromException(e, look.ident.ToString());
    }
    if (!look.error) {
      failures = 0;
    } else if (!IsOfOne(*look.error) && ++failures >= kFailuresMax) {
      given_up = true;
    }
  });
  LITHIFY_TRY(cancel.Check());
  for (NamespaceLook& look : looks) {
    for (TableLook& table : look.tables) {
      if (!given_up.load() || !table.error || IsOfOne(*table.error)) continue;
      return Fail(std::move(*table.error));
    }
  }
  return looks;
}

}  // namespace lithify::job
