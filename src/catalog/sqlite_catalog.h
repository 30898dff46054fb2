// The embedded catalog: one SQLite file in the layout that pyiceberg's SqlCatalog and Iceberg's
// JdbcCatalog share (schema V0, and V1 with the column iceberg_type), so that all of them may use
// one file at the same time.
//
// A namespace is one text, its parts joined by dots: parts with a dot in them are kInvalid.
// Old metadata files are deleted only where write.metadata.delete-after-commit.enabled is "true".
#ifndef LITHIFY_CATALOG_SQLITE_CATALOG_H_
#define LITHIFY_CATALOG_SQLITE_CATALOG_H_

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "storage/locations.h"

namespace lithify::catalog {

struct SqliteOptions {
  std::string path;  // Of the file.
  // One file may hold several catalogs. Empty: the only one in the file; kInvalid with a list of
  // them if there are more. In an empty file it is "default".
  std::string catalog_name;
  // A name that the file does not have stands for the only one that it has, if there is one only.
  bool or_the_only_one = false;
  // Where tables without a location of their own go; empty: nowhere.
  std::string warehouse = {};
  bool create = false;  // Makes the file and its tables where they are missing.
  // How long a call waits for others that use the file; then kTransient.
  Duration busy_wait = std::chrono::seconds(10);
};

// kNotFound where there is no file, kInvalid where it is no Iceberg catalog. `locations`, `clock`
// and `random` must outlive the catalog.
Result<std::unique_ptr<Catalog>> OpenSqliteCatalog(SqliteOptions options,
                                                   storage::Locations& locations,
                                                   const Clock& clock, Random& random);

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_SQLITE_CATALOG_H_
