// The variables of a process, as values: where configuration and credentials may come from.
#ifndef LITHIFY_EMBED_ENVIRONMENT_H_
#define LITHIFY_EMBED_ENVIRONMENT_H_

#include "config/section.h"
#include "storage/s3_access.h"

namespace lithify::embed {

using config::Environment;
using config::ProcessEnvironment;

// With a copy of the variables.
storage::S3Access::Environment LookUpIn(const Environment& environment);

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_ENVIRONMENT_H_
