// Reports of the scheduler, for a person at a terminal. Pure.
#ifndef LITHIFY_APPS_LITHIFY_MAINTAIN_REPORT_TEXT_H_
#define LITHIFY_APPS_LITHIFY_MAINTAIN_REPORT_TEXT_H_

#include <cstddef>
#include <limits>
#include <string>

#include "maintain/report.h"

namespace lithify {

// Lines of a table or list that are shown; of more there is one that counts them. The JSON report
// has all.
inline constexpr size_t kRowsShown = 50;
inline constexpr size_t kAllRows = std::numeric_limits<size_t>::max();

// Candidates in the order in which they would be run, each with its verdict and the number that
// decided, and what must not go unnoticed.
std::string PlanText(const maintain::TickReport& report, bool colour, size_t rows_max);
// What was run; of tables that nothing was done to, how many and why.
std::string RunText(const maintain::TickReport& report, bool colour, size_t rows_max);
// Tables with their gates, and when they are due. Where not all are shown, those that something is
// the matter with come first.
std::string StatusText(const maintain::TickReport& report, bool colour, size_t rows_max);
// One line of a log: what a tick did. Empty: nothing that somebody must know.
std::string TickLine(const maintain::TickReport& report);

}  // namespace lithify

#endif  // LITHIFY_APPS_LITHIFY_MAINTAIN_REPORT_TEXT_H_
