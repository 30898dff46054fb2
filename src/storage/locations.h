// Absolute locations, as table formats write them ("file:///lake/t/data/x.parquet", "/lake/t",
// "s3://bucket/t/x"), to a store and a key in it.
//
// Two spellings of one object must resolve to the same (store, key), and what cannot be resolved
// with certainty is an error, never a guess (I17, R183): Canonical() is the one form to compare.
#ifndef LITHIFY_STORAGE_LOCATIONS_H_
#define LITHIFY_STORAGE_LOCATIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "storage/local_store.h"
#include "storage/store.h"

namespace lithify::storage {

struct Place {
  std::shared_ptr<Store> store;
  std::string key;
};

// Thread-safe.
class Locations {
 public:
  virtual ~Locations() = default;
  // kInvalid for a relative, empty or malformed location; kUnsupported for a scheme that is not
  // configured.
  virtual Result<Place> Resolve(std::string_view location) = 0;
  // The one spelling of a location: scheme, authority and path, e.g. "file:///lake/t/x",
  // "s3://bucket/t/x" (also for s3a:, s3n:). Percent signs and other characters of the path are
  // taken as they are: a location is no URL. (iceberg-go decodes it, for local files: what it names
  // with a "%" is found by itself alone.)
  virtual Result<std::string> Canonical(std::string_view location) = 0;
};

// Whether `location` certainly is in another storage than the canonical one, whatever either path
// is: one in a directory of this machine, the other in an object store or HDFS. False where that is
// not certain, as for two object stores (one may be reached by the protocols of several), another
// bucket or host, an unknown scheme, and for what is no absolute location: it may be the same under
// another name.
bool IsElsewhere(std::string_view canonical, std::string_view location);

// The text with every "%XX" as that byte; what is no two hexadecimal digits after a percent sign
// stays as it is.
std::string PercentDecode(std::string_view text);

// "file:/x", "file:///x", "file://localhost/x" and "/x" below one local store at "/". Symbolic
// links to directories are resolved when a directory is first seen, so that a lake may lie behind
// one and has one spelling still; a link to a file, and one that comes later, is refused by the
// store.
std::unique_ptr<Locations> MakeLocalLocations();
// Local ones as above, and "s3://bucket/key" (also s3a:, s3n:) in the store that `bucket` gives for
// a bucket's name and the canonical location: one that holds the whole bucket, and the same one for
// places that files may be moved between. `bucket` is thread-safe.
using OpenBucket = std::function<Result<std::shared_ptr<Store>>(const std::string& bucket,
                                                                const std::string& location)>;
std::unique_ptr<Locations> MakeLakeLocations(OpenBucket bucket,
                                             const LocalStoreOptions& local = {});
// Everything in one store, under "scheme://authority/": for tests, with MemoryStore.
std::unique_ptr<Locations> MakeStoreLocations(std::shared_ptr<Store> store, std::string scheme,
                                              std::string authority);

// Whether the error's context begins with this name.
bool IsNamed(const Error& error, std::string_view name);
// The same error by the location, where its context begins with the store's key.
Error NameByLocation(Error error, const std::string& key, const std::string& location);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_LOCATIONS_H_
