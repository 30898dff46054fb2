// Other engines that write to a simulated Iceberg table, as Spark, Flink and their like do:
// appends, deletes of every kind, updates, overwrites, each one snapshot, with the retry of
// optimistic commits. Everything that they write is announced to the oracle first.
#ifndef LITHIFY_TESTS_SIM_ICEBERG_ENGINE_H_
#define LITHIFY_TESTS_SIM_ICEBERG_ENGINE_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "catalog/catalog.h"
#include "iceberg_oracle.h"
#include "sim_scheduler.h"
#include "storage/locations.h"

namespace lithify::sim {

// What all writers of one table agree on.
struct TableShape {
  catalog::TableIdent ident;
  int format_version = 2;
  std::vector<int> specs;  // That writers use: 0 by p, 1 unpartitioned.
  int64_t partitions = 1;  // p is below.
  int64_t values = 5;      // v is below, or null.
  int64_t next_id = 0;
};

// The first metadata.json.
std::string FirstMetadata(const TableShape& shape);

struct EngineServices {
  catalog::Catalog& catalog;
  storage::Locations& locations;
  const Clock& clock;
  Random& random;
  Dice& dice;
  IcebergOracle& oracle;
  TableShape& shape;
};

class ForeignEngine {
 public:
  explicit ForeignEngine(EngineServices services) : services_(services) {}

  // One operation of a random kind on the branch. What came of it, for a trace.
  std::string Run(const std::string& branch);
  // A plain append of new rows.
  std::string Append(const std::string& branch);

 private:
  struct Base {
    catalog::LoadedTable table;
    const iceberg::Snapshot* head = nullptr;  // Null: the branch is empty.
    const SnapshotView* view = nullptr;
  };
  struct Change {
    std::string operation = "append";
    std::vector<iceberg::DataFile> added;
    std::set<DeleteName> removed;  // Data files and deletes.
    Effect effect;
  };
  // Fills in a change for this state; an empty kind: there is nothing to do.
  using Make = Status (ForeignEngine::*)(const Base& base, Change& change);

  std::string Retry(const std::string& branch, Make make, bool keep_files);
  Result<Base> Load(const std::string& branch);
  Status Commit(const std::string& branch, const Base& base, const Change& change);
  Result<iceberg::Snapshot> MakeSnapshot(const Base& base, const Change& change);
  Result<iceberg::ManifestFile> WriteManifest(const Base& base, const iceberg::Snapshot& snapshot,
                                              std::vector<iceberg::ManifestEntry> entries,
                                              int spec_id, iceberg::ManifestContent content);
  Status AddNewManifests(const Base& base, const Change& change, const iceberg::Snapshot& snapshot,
                         std::vector<iceberg::ManifestFile>& manifests);
  Status CarryManifests(const Base& base, const std::set<DeleteName>& removed,
                        const iceberg::Snapshot& snapshot,
                        std::vector<iceberg::ManifestFile>& manifests);
  std::set<DeleteName> TooOld(const Base& base, const std::set<DeleteName>& removed) const;
  Result<std::string> Put(const std::string& directory, const std::string& suffix,
                          std::string_view bytes);

  Status MakeAppend(const Base& base, Change& change);
  Status MakeEquality(const Base& base, Change& change);
  Status MakeUpsert(const Base& base, Change& change);
  Status MakePositions(const Base& base, Change& change);
  Status MakeUpdate(const Base& base, Change& change);
  Status MakeWholeFiles(const Base& base, Change& change);

  Status AddRows(std::vector<Row> rows, Change& change);
  Status AddEquality(const Base& base, Change& change);
  // Deletes these positions, by position deletes or deletion vectors.
  using Positions = std::map<std::string, std::set<int64_t>>;  // By data file.
  Status DeletePositions(const Base& base, const Positions& positions, Change& change);
  Status AddPositionFiles(const Base& base, const Positions& positions, Change& change);
  Status AddVectors(const Base& base, const Positions& positions, Change& change);
  std::vector<Row> NewRows(int64_t count);

  EngineServices services_;
};

}  // namespace lithify::sim

#endif  // LITHIFY_TESTS_SIM_ICEBERG_ENGINE_H_
