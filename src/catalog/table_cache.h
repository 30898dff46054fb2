// The last tables that a REST catalog gave, with their ETags: who asks again is told only whether
// they changed. It may be shared by catalogs that are opened one after the other for the same
// principal; the catalog answers for each request whether that principal may still see the table.
#ifndef LITHIFY_CATALOG_TABLE_CACHE_H_
#define LITHIFY_CATALOG_TABLE_CACHE_H_

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "catalog/catalog.h"

namespace lithify::catalog {

// Thread-safe.
class TableCache {
 public:
  struct Bounds {
    size_t tables = 32;
    size_t bytes =
        size_t{64} << 20;  // Of their metadata files; what is parsed of them comes on top.
  };
  struct Entry {
    std::string etag;
    std::shared_ptr<const LoadedTable> table;
  };
  explicit TableCache(Bounds bounds) : bounds_(bounds) {}

  std::optional<Entry> Find(const TableIdent& ident) {
    const std::lock_guard lock(mutex_);
    const auto found = by_ident_.find(ident);
    if (found == by_ident_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front();
  }
  void Put(Entry entry) {
    const std::lock_guard lock(mutex_);
    const TableIdent ident = entry.table->ident;
    if (const auto known = by_ident_.find(ident); known != by_ident_.end()) Drop(known->second);
    bytes_ += entry.table->metadata_text.size();
    entries_.push_front(std::move(entry));
    by_ident_[ident] = entries_.begin();
    while (!entries_.empty() && (entries_.size() > bounds_.tables || bytes_ > bounds_.bytes)) {
      Drop(std::prev(entries_.end()));
    }
  }

 private:
  using List = std::list<Entry>;  // The last used first.
  void Drop(List::iterator entry) {
    bytes_ -= entry->table->metadata_text.size();
    by_ident_.erase(entry->table->ident);
    entries_.erase(entry);
  }

  const Bounds bounds_;
  std::mutex mutex_;
  List entries_;
  std::map<TableIdent, List::iterator> by_ident_;
  size_t bytes_ = 0;
};

}  // namespace lithify::catalog

#endif  // LITHIFY_CATALOG_TABLE_CACHE_H_
