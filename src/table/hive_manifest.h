// manifest.json of a hive partition: text to model and back (R211, R214, R217, R218;
// docs/FORMATS.md).
#ifndef LITHIFY_TABLE_HIVE_MANIFEST_H_
#define LITHIFY_TABLE_HIVE_MANIFEST_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/hive.h"
#include "base/result.h"
#include "storage/store.h"

namespace lithify::table {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr int64_t kManifestBytesMax = 64LL * 1024 * 1024;

// kCorrupt, naming the entry, for anything that is not a valid manifest: not JSON, duplicate keys
// of the contract, a name outside the partition, a duplicate, a generation that is not a positive
// 64-bit integer, a file both live and retired. Never a fallback (R217).
Result<HiveManifest> ParseManifest(std::string_view json);
// Refuses (kInternal) to serialise what ParseManifest would refuse.
Result<std::string> SerializeManifest(const HiveManifest& manifest);

// nullopt if the partition has none.
Result<std::optional<ManifestSnapshot>> ReadManifest(storage::Store& store,
                                                     const std::string& key_prefix);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_HIVE_MANIFEST_H_
