// Where sorting keeps what does not fit the memory, if nobody says.
#ifndef LITHIFY_CONFIG_SPILL_H_
#define LITHIFY_CONFIG_SPILL_H_

#include <string>

namespace lithify::config {

// `configured`, or "lithify-<user id>" below the system's directory for temporary files (TMPDIR,
// else /tmp). Nothing is made here: whoever spills makes it, for this user alone.
std::string SpillDirectoryOf(const std::string& configured);

}  // namespace lithify::config

#endif  // LITHIFY_CONFIG_SPILL_H_
