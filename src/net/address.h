// "host:port", as services listen on it and are reached by it.
#ifndef LITHIFY_NET_ADDRESS_H_
#define LITHIFY_NET_ADDRESS_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::net {

struct Address {
  std::string host;  // "::1" without brackets.
  int port = 0;
  bool operator==(const Address&) const = default;
  // As it stands in a URL: "[::1]".
  std::string bracketed_host() const;
  // "[::1]:50061".
  std::string ToString() const;
};

// "host:port", "[::1]:port"; port 0 is taken. kInvalid for all else, with what it must be.
Result<Address> ParseAddress(std::string_view text);

// Whether no byte to this host, with or without brackets, leaves the machine: by its name alone.
bool IsLoopback(std::string_view host);

}  // namespace lithify::net

#endif  // LITHIFY_NET_ADDRESS_H_
