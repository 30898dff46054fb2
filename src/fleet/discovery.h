// Which workers there are: a list, the addresses of a name, or a file that somebody else keeps.
#ifndef LITHIFY_FLEET_DISCOVERY_H_
#define LITHIFY_FLEET_DISCOVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/address.h"

namespace lithify::fleet {

// That of a worker, as net::ParseAddress() has it, with a port. kInvalid for what is none.
Result<net::Address> ParseWorkerAddress(std::string_view text);

// Thread-safe; calls may block for some seconds.
class Discovery {
 public:
  virtual ~Discovery() = default;
  // "host:port" each, each once, sorted. Called every few seconds; an error means: what was found
  // last still holds.
  virtual Result<std::vector<std::string>> Find() = 0;
};

// kInvalid: one that is no address, or stands twice.
Result<std::unique_ptr<Discovery>> MakeListDiscovery(const std::vector<std::string>& addresses);

// All addresses of a name, as of a headless service. None is no error: then there is no worker.
// `resolve` gives the addresses of a host, in numbers.
using Resolve = std::function<Result<std::vector<std::string>>(const std::string& host)>;
Result<std::vector<std::string>> ResolveHost(const std::string& host);
Result<std::unique_ptr<Discovery>> MakeDnsDiscovery(std::string_view name, Resolve resolve);

// {"version": 1, "workers": [{"address": "10.0.0.3:9140", "id": "…"}, …]}, read again when it has
// changed. It is to be replaced by a rename; members that are not known are passed over.
inline constexpr int64_t kWorkersFileBytesMax = int64_t{4} << 20;
Result<std::vector<std::string>> ParseWorkersFile(std::string_view text);
Result<std::unique_ptr<Discovery>> MakeFileDiscovery(std::string path);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_DISCOVERY_H_
