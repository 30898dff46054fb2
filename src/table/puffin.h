// Puffin files and deletion vectors (Puffin specification; "deletion-vector-v1").
//
// Errors: kCorrupt, also where a checksum or a cardinality does not hold; what the store gives.
#ifndef LITHIFY_TABLE_PUFFIN_H_
#define LITHIFY_TABLE_PUFFIN_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/position_set.h"
#include "base/result.h"
#include "storage/store.h"

namespace lithify::table {

// The bytes of one blob "deletion-vector-v1": length, magic, bitmap, CRC-32.
Result<PositionSet> DecodeDeletionVector(std::string_view blob, std::string_view where);
std::string EncodeDeletionVector(const PositionSet& positions);

// Reads the blob that a manifest entry points to, with one ranged read, and checks its checksum and
// that it has `records` members.
Result<PositionSet> ReadDeletionVector(storage::Store& store, const std::string& key,
                                       int64_t content_offset, int64_t content_size,
                                       int64_t records);

struct PuffinBlob {
  std::string type;
  std::vector<int> fields;
  int64_t snapshot_id = -1;
  int64_t sequence_number = -1;
  int64_t offset = 0;
  int64_t length = 0;
  std::string compression_codec;  // Empty: none.
  std::map<std::string, std::string> properties;
};
// The footer of a whole Puffin file.
Result<std::vector<PuffinBlob>> ReadPuffinFooter(std::string_view file, std::string_view where);
// A file of these blobs; fills in their offsets and lengths.
std::string WritePuffin(std::vector<PuffinBlob>& blobs, const std::vector<std::string>& payloads,
                        const std::map<std::string, std::string>& properties);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_PUFFIN_H_
