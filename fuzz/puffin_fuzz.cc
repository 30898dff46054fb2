// Puffin files, deletion vectors and their bitmaps: read or refused, and equal sets give equal
// bytes.
#include <zlib.h>

#include <limits>
#include <utility>
#include <vector>

#include "base/position_set.h"
#include "fuzz_input.h"
#include "table/puffin.h"

namespace lithify::fuzz {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges RangesOf(const PositionSet& set) {
  Ranges ranges;
  set.ForEachRange(0, std::numeric_limits<int64_t>::max(), [&](int64_t begin, int64_t end) {
    Require(begin < end, "no empty range");
    Require(ranges.empty() || ranges.back().second < begin, "maximal ranges, in order");
    ranges.emplace_back(begin, end);
  });
  return ranges;
}

void Bitmap(std::string_view bytes) {
  const auto set = PositionSet::Deserialize(bytes);
  if (!Gave(set)) return;
  const Ranges ranges = RangesOf(*set);
  int64_t count = 0;
  for (const auto& [begin, end] : ranges) count += end - begin;
  // ForEachRange leaves out the last position there is.
  const bool last = set->MaxOr(-1) == std::numeric_limits<int64_t>::max();
  Require(set->size() == count + (last ? 1 : 0), "size() counts what ForEachRange() gives");
  if (!ranges.empty()) {
    Require(set->Contains(ranges.front().first), "the first member is one");
    Require(set->CountBelow(ranges.front().first) == 0, "nothing is below it");
  }
  const std::string once = set->Serialize();
  const auto back = Must(PositionSet::Deserialize(once), "a bitmap of ours");
  Require(back.size() == set->size() && RangesOf(back) == ranges, "the same members");
  Require(back.Serialize() == once, "equal sets give equal bytes");
}

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

// With length, magic and checksum as they should be, which no mutation would find.
void Vector(std::string_view bitmap) {
  const std::string body = std::string("\xD1\xD3\x39\x64") + std::string(bitmap);
  const uint32_t sum = static_cast<uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  const std::string blob = BigEndian(static_cast<uint32_t>(body.size())) + body + BigEndian(sum);
  const auto decoded = table::DecodeDeletionVector(blob, "blob");
  const auto set = PositionSet::Deserialize(bitmap);
  Require(Gave(decoded) == set.has_value(), "a vector is valid if its bitmap is");
  if (!set) return;
  const std::string encoded = table::EncodeDeletionVector(*decoded);
  const auto back = Must(table::DecodeDeletionVector(encoded, "ours"), "a vector of ours");
  Require(back.Serialize() == set->Serialize(), "the same members");
}

void Footer(std::string_view file) {
  const auto blobs = table::ReadPuffinFooter(file, "f.puffin");
  if (!Gave(blobs)) return;
  for (const table::PuffinBlob& blob : *blobs) {
    Require(blob.offset >= 0 && blob.length >= 0, "blobs are somewhere");
    Require(blob.offset <= static_cast<int64_t>(file.size()) - blob.length, "blobs are inside");
  }
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = lithify::fuzz::Text(data, size);
  lithify::fuzz::Footer(bytes);
  (void)lithify::fuzz::Gave(lithify::table::DecodeDeletionVector(bytes, "blob"));
  lithify::fuzz::Bitmap(bytes);
  lithify::fuzz::Vector(bytes);
  return 0;
}
