// Manifests and manifest lists, read once for one job. Iceberg writes no such file twice under one
// name, but nothing keeps a broken or hostile writer from it, and an expiry removes them: what is
// kept is therefore given again only after the store has shown, since the last Recheck(), that the
// object is there in the very version that was read. Where stores tell no versions, and where small
// reads are cheap, nothing is kept.
//
// Whoever decides by a table's newest metadata calls Recheck() when he has loaded it; that metadata
// itself is never read through this. Thread-safe.
#ifndef LITHIFY_TABLE_METADATA_CACHE_H_
#define LITHIFY_TABLE_METADATA_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "storage/locations.h"

namespace lithify::table {

class MetadataCache {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  // Keeps contents of up to so many bytes together; what does not fit is read each time.
  explicit MetadataCache(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // As ReadMetadataFile(). Between two calls of Recheck() a location has one content, if it is
  // kept.
  Result<Bytes> Read(storage::Locations& locations, const std::string& location);
  // What was just written and read back from `store`, in this version.
  void Add(const storage::Store& store, const std::string& location, std::string_view bytes,
           const std::string& version);
  void Recheck();

  int64_t bytes() const;

 private:
  struct Entry {
    Bytes bytes;
    std::string version;
    uint64_t round = 0;  // In which the store showed it last.
  };

  void Keep(const std::string& location, Bytes bytes, std::string version);
  void Forget(std::map<std::string, Entry>::iterator entry);

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  int64_t bytes_ = 0;
  uint64_t round_ = 0;
};

// Where metadata files are read from, and what keeps them for a job; null: nothing.
struct MetadataSource {
  // Implicit: most readers have no job.
  MetadataSource(storage::Locations& from, MetadataCache* kept = nullptr)
      : locations(from), cache(kept) {}
  Result<MetadataCache::Bytes> Read(const std::string& location) const;

  storage::Locations& locations;
  MetadataCache* cache;
};

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_METADATA_CACHE_H_
