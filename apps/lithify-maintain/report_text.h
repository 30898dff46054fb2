// Reports of the scheduler, for a person at a terminal. Pure.
#ifndef LITHIFY_APPS_LITHIFY_MAINTAIN_REPORT_TEXT_H_
#define LITHIFY_APPS_LITHIFY_MAINTAIN_REPORT_TEXT_H_

#include <string>

#include "maintain/report.h"

namespace lithify {

// Candidates in the order in which they would be run, each with its verdict and the number that
// decided, and what must not go unnoticed.
std::string PlanText(const maintain::TickReport& report, bool colour);
// What was run; of tables that nothing was done to, how many and why.
std::string RunText(const maintain::TickReport& report, bool colour);
// All tables with their gates, and when they are due.
std::string StatusText(const maintain::TickReport& report, bool colour);
// One line of a log: what a tick did. Empty: nothing that somebody must know.
std::string TickLine(const maintain::TickReport& report);

}  // namespace lithify

#endif  // LITHIFY_APPS_LITHIFY_MAINTAIN_REPORT_TEXT_H_
