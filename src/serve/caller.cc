#include "serve/caller.h"

#include "base/text.h"

namespace lithify::serve {

Status CheckTokenLife(const Caller& caller, Time now, Duration needed) {
  if (!caller.expires_at || *caller.expires_at - now > needed) return {};
  return Fail(Code::kDenied,
              "token expires before the commit: it ends at " + FormatTime(*caller.expires_at) +
                  ", and " + FormatDuration(needed) + " are needed from " + FormatTime(now),
              "caller " + caller.name,
              "get a new token, and a longer one for a long statement; lithify cannot renew it");
}

}  // namespace lithify::serve
