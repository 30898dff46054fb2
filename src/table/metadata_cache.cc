#include "table/metadata_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "table/iceberg_snapshot.h"

namespace lithify::table {

Result<MetadataCache::Bytes> MetadataCache::Read(storage::Locations& locations,
                                                 const std::string& location) {
  LITHIFY_TRY_ASSIGN(const storage::Place place, locations.Resolve(location));
  if (place.store->small_reads_are_cheap()) {
    LITHIFY_TRY_ASSIGN(std::string bytes, ReadMetadataFile(locations, location));
    return std::make_shared<const std::string>(std::move(bytes));
  }
  Entry known;
  uint64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    round = round_;
    if (const auto found = entries_.find(location); found != entries_.end()) known = found->second;
  }
  if (known.bytes != nullptr && known.round == round) return known.bytes;
  if (known.bytes != nullptr) {
    auto now = place.store->Stat(place.key);
    if (!now) return Fail(std::move(now.error()).In(location));
    if (now->version == known.version) {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(location);
      if (found != entries_.end() && found->second.version == known.version) {
        found->second.round = std::max(found->second.round, round);
      }
      return known.bytes;
    }
  }
  auto blob = place.store->Get(place.key, kMetadataBytesMax);
  if (!blob) return Fail(std::move(blob.error()).In(location));
  const auto bytes = std::make_shared<const std::string>(std::move(blob->bytes));
  const std::lock_guard lock(mutex_);
  if (round == round_) Keep(location, bytes, std::move(blob->version));
  return bytes;
}

void MetadataCache::Add(const storage::Store& store, const std::string& location,
                        std::string_view bytes, const std::string& version) {
  if (store.small_reads_are_cheap()) return;
  const std::lock_guard lock(mutex_);
  Keep(location, std::make_shared<const std::string>(bytes), version);
}

void MetadataCache::Recheck() {
  const std::lock_guard lock(mutex_);
  ++round_;
}

int64_t MetadataCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// Needs the mutex, as Forget() does.
void MetadataCache::Keep(const std::string& location, Bytes bytes, std::string version) {
  if (const auto old = entries_.find(location); old != entries_.end()) Forget(old);
  const int64_t size = std::ssize(*bytes);
  if (version.empty() || size > bytes_max_) return;
  // What was not asked for since the last look at the table is of an older state of it.
  for (auto at = entries_.begin(); at != entries_.end() && bytes_ + size > bytes_max_;) {
    const auto entry = at++;
    if (entry->second.round != round_) Forget(entry);
  }
  if (bytes_ + size > bytes_max_) return;
  bytes_ += size;
  entries_[location] = {std::move(bytes), std::move(version), round_};
}

void MetadataCache::Forget(std::map<std::string, Entry>::iterator entry) {
  bytes_ -= std::ssize(*entry->second.bytes);
  entries_.erase(entry);
}

Result<MetadataCache::Bytes> MetadataSource::Read(const std::string& location) const {
  if (cache != nullptr) return cache->Read(locations, location);
  LITHIFY_TRY_ASSIGN(std::string bytes, ReadMetadataFile(locations, location));
  return std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace lithify::table
