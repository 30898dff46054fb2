// Lengths of time as text. Private to this module.
#ifndef LITHIFY_SQL_TIMES_H_
#define LITHIFY_SQL_TIMES_H_

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::sql {

// "7 days", "1 hour 30 minutes", "-5 second": whole numbers and units of a fixed length. kInvalid.
Result<Duration> ParseIntervalText(std::string_view text);

// "INTERVAL '7' DAY".
std::string IntervalSql(Duration duration);

}  // namespace lithify::sql

#endif  // LITHIFY_SQL_TIMES_H_
