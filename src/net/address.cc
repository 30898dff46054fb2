#include "net/address.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace lithify::net {

std::string Address::bracketed_host() const {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

std::string Address::ToString() const { return bracketed_host() + ":" + std::to_string(port); }

Result<Address> ParseAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  Address address;
  bool good = colon != std::string_view::npos && colon > 0 && colon + 1 < text.size();
  if (good) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    good = error == std::errc() && at == end && address.port >= 0 && address.port <= 65'535;
    address.host = text.substr(0, colon);
  }
  if (good && address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
    good = address.host.find(':') != std::string::npos;
  } else if (good) {
    good = address.host.find(':') == std::string::npos;
  }
  good = good && !address.host.empty() && std::ranges::all_of(address.host, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == ':' || c == '_' || c == '%';
         });
  if (good) return address;
  return Fail(Code::kInvalid, JsonQuote(text.substr(0, 300)) +
                                  " is no address: it must be host:port, or [IPv6]:port");
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  // "127.example.com" is a name that leads anywhere.
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace lithify::net
