// A Store in a directory of a local POSIX file system.
//
// Durability: PutNew, PutIf and Publish write "<key>.<random>.tmp" beside the key, fsync it, give
// it its name, and fsync the directory; new directories are fsynced into their parents. A crash or
// power loss at any point leaves the old object or the new one, whole, and perhaps a ".tmp" file.
//
// Confinement: no symbolic link below the root is followed, read, replaced or removed; listings
// leave links, devices, sockets and pipes out. The root itself may be a link.
//
// Several processes of one machine may use one root: see DirectoryLock (local_files.h).
#ifndef LITHIFY_STORAGE_LOCAL_STORE_H_
#define LITHIFY_STORAGE_LOCAL_STORE_H_

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "storage/store.h"

namespace lithify::storage {

struct LocalStoreOptions {
  bool sync = true;  // Off gives up durability, not atomicity; for tests on throw-away trees.
  // What is written to long objects goes past the page cache, where the file system can.
  bool direct = true;
  Duration lock_wait = std::chrono::seconds(30);  // Then kTransient.
};

// Keeps the root open, so that an unmount or a rename of it cannot lead to another tree.
// kNotFound or kInvalid where `root` is no directory.
Result<std::unique_ptr<Store>> OpenLocalStore(std::string root, LocalStoreOptions options = {});

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_LOCAL_STORE_H_
