// Small files that programs are configured with. Apart from daemon.h: what reads one need not be a
// daemon, with all that makes a process safe for tokens.
#ifndef LITHIFY_APPS_DAEMON_READ_WHOLE_H_
#define LITHIFY_APPS_DAEMON_READ_WHOLE_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::daemon {

// A file of at most 4 MiB that is not empty, like a configuration or a certificate. kInvalid,
// naming `what` it is for.
Result<std::string> ReadWhole(const std::string& path, std::string_view what);

}  // namespace lithify::daemon

#endif  // LITHIFY_APPS_DAEMON_READ_WHOLE_H_
