// Where a worker listens. Private to this module.
#ifndef LITHIFY_FLEET_ADDRESS_H_
#define LITHIFY_FLEET_ADDRESS_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lithify::fleet {

struct Address {
  std::string host;  // "::1" without brackets.
  int port = 0;
  // "[::1]:50061".
  std::string ToString() const;
  // Whether no byte to it leaves the machine.
  bool loopback() const;
};

// "host:port", "[::1]:port"; port 0 is taken. kInvalid otherwise; `where` names it.
Result<Address> ParseAddress(std::string_view text, std::string_view where);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_ADDRESS_H_
