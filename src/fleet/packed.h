// Answers of some length, packed: most of one are locations that begin alike. Requests are not,
// since they hold keys beside texts that writers of the table choose, and lengths can be seen.
//
// Unpacked() is for bytes whose seal was checked; sizes are bounded nevertheless. Thread-safe.
#ifndef LITHIFY_FLEET_PACKED_H_
#define LITHIFY_FLEET_PACKED_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::fleet {

// An answer as JSON, or where that is shorter "Z", its size as 4 bytes (big-endian), and a
// Zstandard frame.
std::string Packed(std::string text);
// kCorrupt; kLimit beyond kAnswerBytesMax.
Result<std::string> Unpacked(std::string_view bytes);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_PACKED_H_
