// The status page as one file on disk.
#ifndef LITHIFY_APPS_HTML_WRITE_PAGE_H_
#define LITHIFY_APPS_HTML_WRITE_PAGE_H_

#include <string>

#include "base/result.h"

namespace lithify::apps {

struct PageContent {
  std::string kind;     // As page::SelfContained() has them: "tree" or "maintenance",
  std::string key;      // and what it shows, by this name:
  std::string json;     // one JSON value.
  std::string program;  // "lithify 0.1.0".
};

// Replaces what is at `path`, at once or not at all. kInvalid: it cannot be written there.
Status WritePage(const std::string& path, const PageContent& content);

}  // namespace lithify::apps

#endif  // LITHIFY_APPS_HTML_WRITE_PAGE_H_
