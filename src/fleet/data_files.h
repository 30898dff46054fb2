// Data files and partitions as they stand in messages. Private to this module.
#ifndef LITHIFY_FLEET_DATA_FILES_H_
#define LITHIFY_FLEET_DATA_FILES_H_

#include <string>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "fleet/strict_json.h"

namespace lithify::fleet {

// One Avro manifest, in base64, for each partition spec, and the place of each of its files among
// all. The partition tuple's types are those of the values, not the table's: whoever reads it needs
// nothing but the bytes. kUnsupported: a file that no manifest of added files can hold.
Result<Json> DataFilesJson(const std::vector<iceberg::DataFile>& files);
Result<std::vector<iceberg::DataFile>> DataFilesOf(const Json& list, Code code);

Json PartitionJson(const iceberg::PartitionKey& partition);
iceberg::PartitionKey PartitionOf(const Json& json, Members& parent);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_DATA_FILES_H_
