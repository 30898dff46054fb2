#include "fleet/discovery.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace lithify::fleet {
namespace {

using nlohmann::json;

constexpr size_t kWorkersMax = 100'000;

class ListDiscovery final : public Discovery {
 public:
  explicit ListDiscovery(std::vector<std::string> addresses) : addresses_(std::move(addresses)) {}
  Result<std::vector<std::string>> Find() override { return addresses_; }

 private:
  const std::vector<std::string> addresses_;
};

class DnsDiscovery final : public Discovery {
 public:
  DnsDiscovery(net::Address name, Resolve resolve)
      : name_(std::move(name)), resolve_(std::move(resolve)) {}

  Result<std::vector<std::string>> Find() override {
    LITHIFY_TRY_ASSIGN(const auto hosts, resolve_(name_.host));
    std::vector<std::string> addresses;
    for (const std::string& host : hosts)
      addresses.push_back(net::Address{host, name_.port}.ToString());
    std::ranges::sort(addresses);
    addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
    return addresses;
  }

 private:
  const net::Address name_;
  const Resolve resolve_;
};

class FileDiscovery final : public Discovery {
 public:
  explicit FileDiscovery(std::string path) : path_(std::move(path)) {}

  Result<std::vector<std::string>> Find() override {
    const std::lock_guard lock(mutex_);
    struct stat info{};
    if (stat(path_.c_str(), &info) != 0) {
      return Fail(Code::kNotFound, "cannot be looked at", path_,
                  "write it, by a rename; until then the workers that it named last count");
    }
    const Version version{info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    if (version_ == version) return workers_;
    if (info.st_size > kWorkersFileBytesMax) {
      return Fail(Code::kLimit, "has more than " + FormatBytes(kWorkersFileBytesMax), path_);
    }
    std::ifstream file(path_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file.good() && !file.eof()) return Fail(Code::kTransient, "cannot be read", path_);
    auto workers = ParseWorkersFile(text);
    if (!workers) return Fail(std::move(workers.error()).In(path_));
    workers_ = std::move(*workers);
    version_ = version;
    return workers_;
  }

 private:
  using Version = std::tuple<ino_t, off_t, time_t, int64_t>;

  const std::string path_;
  std::mutex mutex_;
  std::optional<Version> version_;  // Of what was read.
  std::vector<std::string> workers_;
};

}  // namespace

Result<net::Address> ParseWorkerAddress(std::string_view text) {
  LITHIFY_TRY_ASSIGN(net::Address at, net::ParseAddress(text));
  if (at.port > 0) return at;
  return Fail(Code::kInvalid, JsonQuote(text) + " is nobody's address: its port is 0");
}

Result<std::unique_ptr<Discovery>> MakeListDiscovery(const std::vector<std::string>& addresses) {
  std::vector<std::string> found;
  for (const std::string& address : addresses) {
    LITHIFY_TRY_ASSIGN(const net::Address at, ParseWorkerAddress(address));
    found.push_back(at.ToString());
  }
  std::ranges::sort(found);
  const auto twice = std::ranges::adjacent_find(found);
  if (twice != found.end()) return Fail(Code::kInvalid, JsonQuote(*twice) + " stands twice");
  return std::make_unique<ListDiscovery>(std::move(found));
}

Result<std::vector<std::string>> ResolveHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  // A service without a ready worker has a name without an address, or none.
  if (error == EAI_NONAME || error == EAI_NODATA) return std::vector<std::string>{};
  if (error != 0) {
    return Fail(Code::kTransient, std::string("cannot be resolved: ") + gai_strerror(error), host,
                "until it can, the workers found last count");
  }
  std::vector<std::string> addresses;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(info->ai_addr, info->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

Result<std::unique_ptr<Discovery>> MakeDnsDiscovery(std::string_view name, Resolve resolve) {
  LITHIFY_TRY_ASSIGN(net::Address at, ParseWorkerAddress(name));
  return std::make_unique<DnsDiscovery>(std::move(at), std::move(resolve));
}

Result<std::vector<std::string>> ParseWorkersFile(std::string_view text) {
  const json root = json::parse(text, nullptr, false);
  if (!root.is_object()) return Fail(Code::kInvalid, "is no JSON object");
  const auto version = root.find("version");
  if (version == root.end() || *version != 1) {
    return Fail(Code::kInvalid, "version must be 1");
  }
  const auto list = root.find("workers");
  if (list == root.end() || !list->is_array() || list->size() > kWorkersMax) {
    return Fail(Code::kInvalid,
                "workers must be a list, of " + FormatCount(kWorkersMax) + " workers at most");
  }
  std::vector<std::string> addresses;
  for (const json& worker : *list) {
    const auto address = worker.is_object() ? worker.find("address") : worker.end();
    if (!worker.is_object() || address == worker.end() || !address->is_string()) {
      return Fail(Code::kInvalid,
                  "workers[" + std::to_string(addresses.size()) + "] must have an address");
    }
    LITHIFY_TRY_ASSIGN(const net::Address at, ParseWorkerAddress(address->get<std::string>()));
    addresses.push_back(at.ToString());
  }
  std::ranges::sort(addresses);
  addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
  return addresses;
}

Result<std::unique_ptr<Discovery>> MakeFileDiscovery(std::string path) {
  if (path.empty()) return Fail(Code::kInvalid, "the file of workers has no name");
  return std::make_unique<FileDiscovery>(std::move(path));
}

}  // namespace lithify::fleet
