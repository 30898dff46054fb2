// The page as one file that needs nothing else, with what it shows written into it.
#ifndef LITHIFY_PAGE_SELF_CONTAINED_H_
#define LITHIFY_PAGE_SELF_CONTAINED_H_

#include <string>
#include <string_view>

#include "base/random.h"

namespace lithify::page {

// `json` is one JSON value: {"kind": "tree" | "maintenance", "made": TIME, "program": TEXT, …}. Of
// what is in it nothing becomes markup. The file's own policy lets its scripts and styles run, by a
// number that nobody can guess, and lets it ask nobody for anything.
std::string SelfContained(std::string_view json, Random& random);

}  // namespace lithify::page

#endif  // LITHIFY_PAGE_SELF_CONTAINED_H_
