// Files with a secret of the principal. Private to this module.
#ifndef LITHIFY_MAINTAIN_SECRET_FILE_H_
#define LITHIFY_MAINTAIN_SECRET_FILE_H_

#include <string>

#include "base/result.h"
#include "base/secret.h"

namespace lithify::maintain {

// What is in the file. kDenied: it is not there, cannot be read, or can be read or written by
// everybody on the machine (its owner and its group may); kInvalid: it is no file, empty, or larger
// than any secret.
Result<Secret> ReadSecretFile(const std::string& path);
// The one line in the file, without its end. kInvalid also for more than one.
Result<Secret> ReadClientSecret(const std::string& path);

}  // namespace lithify::maintain

#endif  // LITHIFY_MAINTAIN_SECRET_FILE_H_
