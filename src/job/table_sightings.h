// What this process knows of tables without asking anybody: each as a caller's statement last
// loaded it (R020, T2). Who acts for callers tells it; who acts on nobody's behalf may look, and
// has to say that nothing else is known.
//
// Of a table it keeps its name, the totals of its newest snapshot and what its owner says of
// maintenance: no rows, no schema, no location, no token, and not whose statement it was.
//
// Thread safety: thread-safe.
#ifndef LITHIFY_JOB_TABLE_SIGHTINGS_H_
#define LITHIFY_JOB_TABLE_SIGHTINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "catalog/catalog.h"
#include "job/table_looks.h"

namespace lithify::job {

struct TableSighting {
  TableLook look;  // Only properties below the prefixes, and of the summary the totals.
  Time seen;
};

class TableSightings {
 public:
  // `prefixes` of the properties to keep: "sqe.maintenance". Of more tables than `tables_max` those
  // are kept that were seen last.
  explicit TableSightings(std::vector<std::string> prefixes, size_t tables_max = 10'000)
      : prefixes_(std::move(prefixes)), tables_max_(tables_max) {}

  // A caller has just loaded the table from the catalog of that name.
  void Saw(const std::string& catalog, const catalog::LoadedTable& table, Time now);

  // Of one catalog, by name.
  std::vector<TableSighting> Of(const std::string& catalog) const;
  size_t tables_max() const { return tables_max_; }

  // Longer values are not kept, nor more of them for one table: a caller's tables are hostile
  // input.
  static constexpr size_t kValueBytesMax = 1024;
  static constexpr size_t kValuesMax = 64;

 private:
  using Key = std::pair<std::string, catalog::TableIdent>;
  struct Kept {
    TableSighting sighting;
    uint64_t order = 0;  // In which it was seen.
  };

  const std::vector<std::string> prefixes_;
  const size_t tables_max_;
  mutable std::mutex mutex_;
  std::map<Key, Kept> tables_;
  std::map<uint64_t, Key> by_order_;
  uint64_t next_ = 0;
};

}  // namespace lithify::job

#endif  // LITHIFY_JOB_TABLE_SIGHTINGS_H_
