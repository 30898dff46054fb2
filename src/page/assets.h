// The status page (docs/STATUS_PAGE.md): its files, and what is said with them over HTTP. They hold
// no data: what the page shows it asks its server for, or finds written into itself.
#ifndef LITHIFY_PAGE_ASSETS_H_
#define LITHIFY_PAGE_ASSETS_H_

#include <span>
#include <string_view>

namespace lithify::page {

struct Asset {
  std::string_view path;  // "/", "/page.css", "/openapi.yaml".
  std::string_view content_type;
  std::string_view bytes;
};

// Of the program itself: no file is read.
std::span<const Asset> Assets();

// Content-Security-Policy of the page where a server sends it: its own files and its own API, and
// nothing of anybody else; no script or style in the markup; in nobody's frame.
inline constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace lithify::page

#endif  // LITHIFY_PAGE_ASSETS_H_
