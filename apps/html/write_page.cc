#include "html/write_page.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "page/self_contained.h"

namespace lithify::apps {

Status WritePage(const std::string& path, const PageContent& content) {
  SystemRandom random;
  const std::string page = page::SelfContained(
      "{\"kind\": \"" + content.kind + "\", \"made\": \"" + FormatTime(SystemClock().Now()) +
          "\", \"program\": \"" + content.program + "\", \"" + content.key + "\": " + content.json +
          "}",
      random);
  const std::string partial = path + ".part";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  const bool written = file && (file << page) && file.flush();
  file.close();
  if (written && std::rename(partial.c_str(), path.c_str()) == 0) return {};
  const std::string why = std::generic_category().message(errno);
  std::remove(partial.c_str());
  return Fail(Code::kInvalid, "the page cannot be written: " + why, path);
}

}  // namespace lithify::apps
