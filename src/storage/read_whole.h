// Small files that programs are configured with and that are no secret (else: secret_file.h).
#ifndef LITHIFY_STORAGE_READ_WHOLE_H_
#define LITHIFY_STORAGE_READ_WHOLE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::storage {

// A file of at most 4 MiB that is not empty, like a configuration or a certificate. kInvalid,
// naming `what` it is for.
Result<std::string> ReadWhole(const std::string& path, std::string_view what);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_READ_WHOLE_H_
