// What catalogs that keep only a table's metadata location do with the files themselves.
#ifndef LITHIFY_CATALOG_METADATA_FILE_H_
#define LITHIFY_CATALOG_METADATA_FILE_H_

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "storage/locations.h"

namespace lithify::catalog {

// kConflict: what CreateTable() says of a name that is taken.
std::unexpected<Error> TableExists(const TableIdent& ident);

// Reads and parses the file. kCorrupt if it is missing: a catalog names it.
Result<LoadedTable> ReadTable(storage::Locations& locations, const TableIdent& ident,
                              const std::string& metadata_location);

// "<directory>/<version + 1, five digits>-<uuid>.metadata.json"; the version is that of the
// current file's name, and the directory the property write.metadata.path, or "metadata" below the
// table.
std::string NextMetadataLocation(const iceberg::TableMetadata& metadata,
                                 std::string_view current_location, std::string_view uuid);

// Checks the requirements, applies the updates, and writes the next metadata file. The table does
// not change: who swaps the location does that. kTransient also where it is unknown whether the
// file was written, since nothing refers to it; it is removed as far as that goes.
Result<LoadedTable> StageCommit(storage::Locations& locations, const Clock& clock, Random& random,
                                const LoadedTable& current,
                                std::span<const table::TableRequirement> requirements,
                                std::span<const table::TableUpdate> updates);

// Writes the first metadata file of a new table, below its location, or below that of the
// namespace in `warehouse` where the draft has none. The catalog does not know of it yet. Errors
// as StageCommit(), and kInvalid without any location.
Result<LoadedTable> StageTable(storage::Locations& locations, const Clock& clock, Random& random,
                               const TableIdent& ident, const TableDraft& draft,
                               const std::string& warehouse);

// Removes the metadata files that the commit dropped from the table's log of them, if the table
// asks for that (write.metadata.delete-after-commit.enabled); as far as it can. `next` is the table
// as the catalog has it now, made of `before`.
void RemoveDropped(storage::Locations& locations, const LoadedTable& before,
                   const LoadedTable& next);

// Removes a staged file that is known to be referred to by nobody. As far as it can: what stays is
// an orphan.
void Unstage(storage::Locations& locations, const std::string& metadata_location);

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_METADATA_FILE_H_
