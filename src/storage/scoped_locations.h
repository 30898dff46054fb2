// Locations with bounds, for who works for somebody else (R124): what may be read, where new
// objects may go, and nothing of anybody else removed or replaced. All else is kDenied, before the
// store is asked.
//
// Reading: objects that were named, and what lies below places that were. New objects: below places
// for them. PutIf, listing and stale uploads: never. Remove: what was written through the same
// ScopedLocations, and is known to have come into being by it.
//
// Thread-safe, with Allow…() before what needs it.
#ifndef LITHIFY_STORAGE_SCOPED_LOCATIONS_H_
#define LITHIFY_STORAGE_SCOPED_LOCATIONS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "storage/locations.h"

namespace lithify::storage {

class ScopedStore;

class ScopedLocations final : public Locations {
 public:
  // `inner` outlives it and its stores. `on_step` is called whenever a request to a store has come
  // back, by any thread; it may be empty.
  ScopedLocations(Locations& inner, std::function<void()> on_step);
  ~ScopedLocations() override;

  // This object alone.
  Status AllowReading(std::string_view location);
  // What lies below a place, which may be the root of a bucket; the place is no object.
  Status AllowReadingBelow(std::string_view place);
  Status AllowWritingBelow(std::string_view place);

  // The same store for all places in one.
  Result<Place> Resolve(std::string_view location) override;
  Result<std::string> Canonical(std::string_view location) override;

 private:
  Result<std::shared_ptr<ScopedStore>> StoreOf(const Place& place);
  struct Below {
    std::shared_ptr<ScopedStore> store;
    std::string prefix;
  };
  Result<Below> PrefixOf(std::string_view place);

  Locations& inner_;
  const std::function<void()> on_step_;
  std::mutex mutex_;
  std::map<Store*, std::shared_ptr<ScopedStore>> stores_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_SCOPED_LOCATIONS_H_
