#include "page/self_contained.h"

#include <algorithm>
#include <cstdint>

#include "base/result.h"
#include "page/assets.h"

namespace lithify::page {
namespace {

std::string Nonce(Random& random) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int word = 0; word < 2; ++word) {
    uint64_t bits = random.Next();
    for (int digit = 0; digit < 16; ++digit, bits >>= 4) text += kDigits[bits & 15];
  }
  return text;
}

// JSON within <script>: no "<" is in it, so that nothing ends it.
std::string WithoutMarkup(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string_view Bytes(std::string_view path) {
  const auto assets = Assets();
  const auto at = std::ranges::find(assets, path, &Asset::path);
  LITHIFY_CHECK(at != assets.end(), "a file of the page is not built in");
  return at->bytes;
}

// What is between two quotes after `attribute`, in a line of the page's own markup.
std::string_view Attribute(std::string_view line, std::string_view attribute) {
  const size_t at = line.find(attribute);
  if (at == std::string_view::npos) return {};
  const size_t begin = at + attribute.size();
  return line.substr(begin, line.find('"', begin) - begin);
}

}  // namespace

std::string SelfContained(std::string_view json, Random& random) {
  const std::string nonce = Nonce(random);
  const std::string policy =
      "    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'nonce-" +
      nonce + "'; style-src 'nonce-" + nonce +
      "'; img-src data:; base-uri 'none'; form-action 'none'\" />\n";
  std::string scripts;
  std::string out;
  std::string_view rest = Bytes("/");
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n') + 1, rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end);
    if (line.find("<meta charset") != std::string_view::npos) {
      out.append(line).append(policy);
    } else if (const auto style = Attribute(line, "rel=\"stylesheet\" href=\""); !style.empty()) {
      out += "    <style nonce=\"" + nonce + "\">\n";
      out.append(Bytes("/" + std::string(style))).append("    </style>\n");
    } else if (const auto script = Attribute(line, "<script src=\""); !script.empty()) {
      // A script in the markup runs where it stands, so that all of them are at the end.
      scripts += "    <script nonce=\"" + nonce + "\">\n";
      scripts.append(Bytes("/" + std::string(script))).append("    </script>\n");
    } else if (line.find("</body>") != std::string_view::npos) {
      out += "    <script type=\"application/json\" id=\"data\" nonce=\"" + nonce + "\">";
      out += WithoutMarkup(json) + "</script>\n" + scripts;
      out.append(line);
    } else {
      out.append(line);
    }
  }
  return out;
}

}  // namespace lithify::page
