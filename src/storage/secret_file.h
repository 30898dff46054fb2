// Files that hold a secret.
#ifndef LITHIFY_STORAGE_SECRET_FILE_H_
#define LITHIFY_STORAGE_SECRET_FILE_H_

#include <string>

#include "base/result.h"
#include "base/secret.h"

namespace lithify::storage {

// What is in the file. kDenied: it is not there, cannot be read, or can be read or written by
// everybody on the machine (its owner and its group may); kInvalid: it is no file, empty, or larger
// than any secret.
Result<Secret> ReadSecretFile(const std::string& path);
// The one line in the file, without its end. kInvalid also for more than one.
Result<Secret> ReadSecretLine(const std::string& path);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_SECRET_FILE_H_
