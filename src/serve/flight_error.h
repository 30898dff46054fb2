// Errors as Flight sends them. Private to this module.
#ifndef LITHIFY_SERVE_FLIGHT_ERROR_H_
#define LITHIFY_SERVE_FLIGHT_ERROR_H_

#include <arrow/status.h>

#include "base/result.h"

namespace lithify::serve {

// The gRPC status by the error's code (docs/SERVER.md, "Errors"); the text is Error::ToString().
// Where gRPC's status alone does not tell the code, the binary details do, as JSON: {"code",
// "message", "context", "hint"}.
//
// kInvalid INVALID_ARGUMENT, kNotFound NOT_FOUND, kDenied PERMISSION_DENIED, kTransient
// UNAVAILABLE, kUnsupported UNIMPLEMENTED, kCancelled CANCELLED, all others INTERNAL.
arrow::Status ToFlight(const Error& error);
// Who asks is not known, or not any more: UNAUTHENTICATED.
arrow::Status NotAuthenticated(const Error& error);

}  // namespace lithify::serve

#endif  // LITHIFY_SERVE_FLIGHT_ERROR_H_
