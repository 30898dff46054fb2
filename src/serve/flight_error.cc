#include "serve/flight_error.h"

#include <arrow/flight/types.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace lithify::serve {
namespace {

using arrow::flight::FlightStatusCode;

std::string Details(const Error& error) {
  return nlohmann::ordered_json{{"code", CodeName(error.code)},
                                {"message", error.message},
                                {"context", error.context},
                                {"hint", error.hint}}
      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// gRPC sends errors in headers, which have a limit; the text goes twice.
constexpr size_t kPartBytesMax = 1000;

// Cut between characters of UTF-8.
std::string Short(std::string text) {
  if (text.size() <= kPartBytesMax) return text;
  size_t end = kPartBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text + "…";
}

Error Short(const Error& error) {
  return {error.code, Short(error.message), Short(error.context), Short(error.hint)};
}

arrow::Status Make(FlightStatusCode code, const Error& error) {
  return arrow::flight::MakeFlightError(code, error.ToString(), Details(error));
}

// The codes that only Arrow has names for: details would make an unknown error of them.
arrow::Status Make(arrow::StatusCode code, const Error& error) { return {code, error.ToString()}; }

}  // namespace

arrow::Status ToFlight(const Error& whole) {
  const Error error = Short(whole);
  switch (error.code) {
    case Code::kInvalid: return Make(arrow::StatusCode::Invalid, error);
    case Code::kNotFound: return Make(arrow::StatusCode::KeyError, error);
    case Code::kUnsupported: return Make(arrow::StatusCode::NotImplemented, error);
    case Code::kDenied: return Make(FlightStatusCode::Unauthorized, error);
    case Code::kTransient: return Make(FlightStatusCode::Unavailable, error);
    case Code::kCancelled: return Make(FlightStatusCode::Cancelled, error);
    case Code::kConflict:
    case Code::kUnknownOutcome:
    case Code::kCorrupt:
    case Code::kLimit:
    case Code::kInternal: break;
  }
  return Make(FlightStatusCode::Internal, error);
}

arrow::Status NotAuthenticated(const Error& error) {
  return Make(FlightStatusCode::Unauthenticated, Short(error));
}

}  // namespace lithify::serve
