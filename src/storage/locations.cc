#include "storage/locations.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "storage/local_store.h"
#include "storage/s3_access.h"

namespace lithify::storage {
namespace {

std::unexpected<Error> Bad(std::string_view location, std::string problem, std::string hint = {}) {
  return Fail(Code::kInvalid, std::move(problem), JsonQuote(location.substr(0, 1000)),
              std::move(hint));
}

std::string LowerCase(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// A location in its parts. `path` begins with a slash, or is empty.
struct Parts {
  std::string scheme;  // Lower case; empty where there is none.
  std::string authority;
  std::string path;
};

bool IsSchemeText(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !letter(text.front())) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '+' && c != '-' && c != '.') return false;
  }
  return true;
}

Result<Parts> Split(std::string_view location) {
  if (location.empty()) return Bad(location, "a location is empty");
  Parts parts;
  std::string_view rest = location;
  const size_t colon = rest.substr(0, rest.find('/')).find(':');
  if (colon != std::string_view::npos && IsSchemeText(rest.substr(0, colon))) {
    parts.scheme = LowerCase(rest.substr(0, colon));
    rest.remove_prefix(colon + 1);
    if (rest.starts_with("//")) {
      rest.remove_prefix(2);
      const size_t slash = std::min(rest.find('/'), rest.size());
      parts.authority = rest.substr(0, slash);
      rest.remove_prefix(slash);
    }
  }
  if (!rest.starts_with('/')) return Bad(location, "it is no absolute location");
  parts.path = rest;
  return parts;
}

// "/a/b/" to "a/b". Only on a file system do doubled slashes mean nothing.
Result<std::string> KeyOf(std::string_view location, std::string_view path, bool collapse) {
  std::string key;
  if (collapse) {
    for (const char c : path) {
      if (c != '/' || !(key.empty() || key.ends_with('/'))) key += c;
    }
  } else {
    key = path.substr(1);
  }
  if (key.ends_with('/')) key.pop_back();
  if (key.empty()) return Bad(location, "it names nothing below the root");
  const Status good = CheckKey(key);
  if (!good) return Bad(location, "it has no certain meaning: " + good.error().message);
  return key;
}

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

class LocalLocations final : public Locations {
 public:
  explicit LocalLocations(const LocalStoreOptions& options) : options_(options) {}

  Result<Place> Resolve(std::string_view location) override {
    LITHIFY_TRY_ASSIGN(std::string key, RealKey(location));
    const std::lock_guard lock(mutex_);
    if (!store_) {
      LITHIFY_TRY_ASSIGN(std::unique_ptr<Store> opened, OpenLocalStore("/", options_));
      store_ = std::move(opened);
    }
    return Place{store_, std::move(key)};
  }

  Result<std::string> Canonical(std::string_view location) override {
    LITHIFY_TRY_ASSIGN(const std::string key, RealKey(location));
    return "file:///" + key;
  }

 private:
  // Directories whose real path is kept; then it starts anew.
  static constexpr size_t kCachedMax = size_t{1} << 17;

  Result<std::string> RealKey(std::string_view location) {
    LITHIFY_TRY_ASSIGN(const Parts parts, Split(location));
    if (!parts.scheme.empty() && parts.scheme != "file") {
      return Fail(Code::kUnsupported, "scheme " + JsonQuote(parts.scheme) + " is not configured",
                  JsonQuote(location));
    }
    // RFC 8089: "localhost" is what no host is.
    if (!parts.authority.empty() && LowerCase(parts.authority) != "localhost") {
      return Bad(location, "a local file has no host", "write file:///… with three slashes");
    }
    LITHIFY_TRY_ASSIGN(std::string key, KeyOf(location, parts.path, true));
    const std::string parent(ParentOf(key));
    LITHIFY_TRY_ASSIGN(const std::string real, RealDirectory(location, parent));
    const std::string name = key.substr(parent.empty() ? 0 : parent.size() + 1);
    key = real.empty() ? name : real + "/" + name;
    // A directory may be named by a link, as its files are; a file may not.
    struct stat info = {};
    const std::string path = "/" + key;
    if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode) &&
        stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      return RealDirectory(location, key);
    }
    return key;
  }

  // The directory ("a/b") without links; what does not exist yet stays as it is. Known once, so
  // that no link which is swapped later leads to another tree: the store refuses it.
  Result<std::string> RealDirectory(std::string_view location, const std::string& directory) {
    if (directory.empty()) return std::string();
    {
      const std::lock_guard lock(mutex_);
      const auto found = real_.find(directory);
      if (found != real_.end()) return found->second;
    }
    std::string_view known = directory;
    std::string real;
    for (; !known.empty(); known = ParentOf(known)) {
      char resolved[PATH_MAX];
      if (realpath(("/" + std::string(known)).c_str(), resolved) != nullptr) {
        real = resolved + 1;
        break;
      }
      if (errno != ENOENT && errno != ENOTDIR) {
        const Code code = errno == EACCES ? Code::kDenied : Code::kInvalid;
        return Fail(code, "cannot resolve its directory: " + std::generic_category().message(errno),
                    JsonQuote(location));
      }
      // A link that leads nowhere may lead somewhere tomorrow.
      struct stat info = {};
      if (lstat(("/" + std::string(known)).c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
        return Bad(location, "/" + std::string(known) + " is a link that leads nowhere");
      }
    }
    real += directory.substr(known.size());
    if (real.starts_with('/')) real.erase(0, 1);
    const std::lock_guard lock(mutex_);
    if (known.size() == directory.size()) {
      if (real_.size() >= kCachedMax) real_.clear();
      real_.emplace(directory, real);
    }
    return real;
  }

  const LocalStoreOptions options_;
  std::mutex mutex_;
  std::shared_ptr<Store> store_;
  std::unordered_map<std::string, std::string> real_;
};

class LakeLocations final : public Locations {
 public:
  LakeLocations(OpenBucket bucket, const LocalStoreOptions& local)
      : bucket_(std::move(bucket)), local_(local) {}

  Result<Place> Resolve(std::string_view location) override {
    LITHIFY_TRY_ASSIGN(const auto place, InBucket(location));
    if (!place) return local_.Resolve(location);
    LITHIFY_TRY_ASSIGN(auto store, bucket_(place->bucket, place->ToString()));
    return Place{std::move(store), place->key};
  }

  Result<std::string> Canonical(std::string_view location) override {
    LITHIFY_TRY_ASSIGN(const auto place, InBucket(location));
    return place ? place->ToString() : local_.Canonical(location);
  }

 private:
  static Result<std::optional<S3Place>> InBucket(std::string_view location) {
    LITHIFY_TRY_ASSIGN(auto place, ParseS3Place(location));
    if (place && place->key.empty()) return Bad(location, "it names nothing below the bucket");
    return place;
  }

  const OpenBucket bucket_;
  LocalLocations local_;
};

bool IsS3(std::string_view scheme) { return scheme == "s3" || scheme == "s3a" || scheme == "s3n"; }

class StoreLocations final : public Locations {
 public:
  StoreLocations(std::shared_ptr<Store> store, std::string scheme, std::string authority)
      : store_(std::move(store)),
        scheme_(IsS3(scheme) ? "s3" : std::move(scheme)),
        authority_(std::move(authority)) {}

  Result<Place> Resolve(std::string_view location) override {
    LITHIFY_TRY_ASSIGN(std::string key, Key(location));
    return Place{store_, std::move(key)};
  }

  Result<std::string> Canonical(std::string_view location) override {
    LITHIFY_TRY_ASSIGN(const std::string key, Key(location));
    return scheme_ + "://" + authority_ + "/" + key;
  }

 private:
  Result<std::string> Key(std::string_view location) const {
    LITHIFY_TRY_ASSIGN(const Parts parts, Split(location));
    if (parts.scheme.empty()) return Bad(location, "it has no scheme");
    if ((IsS3(parts.scheme) ? "s3" : parts.scheme) != scheme_ || parts.authority != authority_) {
      return Fail(Code::kUnsupported,
                  "it is outside of " + scheme_ + "://" + authority_ +
                      "/, and nothing else is "
                      "configured",
                  JsonQuote(location));
    }
    return KeyOf(location, parts.path, false);
  }

  std::shared_ptr<Store> store_;
  std::string scheme_;
  std::string authority_;
};

enum class Side { kLocal, kRemote, kUnknown };

Side SideOf(const Parts& parts) {
  if (parts.scheme.empty() || parts.scheme == "file") {
    const bool here = parts.authority.empty() || LowerCase(parts.authority) == "localhost";
    return here ? Side::kLocal : Side::kUnknown;
  }
  static constexpr std::string_view kRemote[] = {"s3",   "s3a",   "s3n",  "gs",    "oss",
                                                 "abfs", "abfss", "wasb", "wasbs", "hdfs"};
  return std::ranges::find(kRemote, parts.scheme) != std::end(kRemote) ? Side::kRemote
                                                                       : Side::kUnknown;
}

}  // namespace

bool IsElsewhere(std::string_view canonical, std::string_view location) {
  const auto one = Split(canonical);
  const auto other = Split(location);
  if (!one || !other) return false;
  const Side first = SideOf(*one);
  const Side second = SideOf(*other);
  return first != Side::kUnknown && second != Side::kUnknown && first != second;
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size()) {
      const char* end = text.data() + i + 3;
      if (std::from_chars(text.data() + i + 1, end, value, 16).ptr == end) {
        out += static_cast<char>(value);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

std::unique_ptr<Locations> MakeLocalLocations() {
  return std::make_unique<LocalLocations>(LocalStoreOptions());
}

std::unique_ptr<Locations> MakeLakeLocations(OpenBucket bucket, const LocalStoreOptions& local) {
  return std::make_unique<LakeLocations>(std::move(bucket), local);
}

std::unique_ptr<Locations> MakeStoreLocations(std::shared_ptr<Store> store, std::string scheme,
                                              std::string authority) {
  return std::make_unique<StoreLocations>(std::move(store), std::move(scheme),
                                          std::move(authority));
}

bool IsNamed(const Error& error, std::string_view name) {
  return !name.empty() && error.context.starts_with(name) &&
         (error.context.size() == name.size() || error.context[name.size()] == ':');
}

Error NameByLocation(Error error, const std::string& key, const std::string& location) {
  if (IsNamed(error, key)) error.context.replace(0, key.size(), location);
  return error;
}

}  // namespace lithify::storage
