// Memory that is freed is overwritten first, that of the libraries too, through which tokens pass.
#ifndef LITHIFY_APPS_DAEMON_WIPING_FREE_H_
#define LITHIFY_APPS_DAEMON_WIPING_FREE_H_

namespace lithify::daemon {

// The functions free() and realloc() of this program do it from its start on. To call this links
// them in; it does nothing else.
void UseWipingFree();

}  // namespace lithify::daemon

#endif  // LITHIFY_APPS_DAEMON_WIPING_FREE_H_
