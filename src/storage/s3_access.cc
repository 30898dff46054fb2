#include "storage/s3_access.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/text.h"

namespace lithify::storage {
namespace {

constexpr std::string_view kAnyRegion = "us-east-1";

// What may stand in a host's name or a path without a meaning of its own; wider than Amazon's rules
// of today, for older buckets and other stores.
bool IsBucketName(std::string_view name) {
  if (name.size() < 3 || name.size() > 255) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return letter(name.front()) && letter(name.back()) && std::ranges::all_of(name, [&](char c) {
           return letter(c) || c == '.' || c == '-' || c == '_';
         });
}

Result<std::string> ReadWholeFile(const std::string& path) {
  constexpr int64_t kBytesMax = kMiB;
  std::ifstream in(path, std::ios::binary);
  if (!in) return Fail(Code::kNotFound, "the file cannot be opened", path);
  std::string content(static_cast<size_t>(kBytesMax) + 1, '\0');
  in.read(content.data(), std::ssize(content));
  if (in.bad() || (in.fail() && !in.eof())) {
    return Fail(Code::kInvalid, "the file cannot be read", path);
  }
  if (in.gcount() > kBytesMax) return Fail(Code::kLimit, "the file is larger than 1 MiB", path);
  content.resize(static_cast<size_t>(in.gcount()));
  return content;
}

// The first variable that is set to something.
std::string FirstOf(const S3Access::Environment& environment,
                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = environment(name); value && !value->empty()) return *std::move(value);
  }
  return {};
}

// What is not set comes from the environment, and then from the profile.
Result<S3Settings> Completed(S3Settings settings, const S3Surroundings& around) {
  LITHIFY_TRY_ASSIGN(const S3Profiles profiles, S3Profiles::Read(around));
  const auto complete = [&](std::string& value, std::initializer_list<const char*> variables,
                            const char* key) {
    if (value.empty()) value = FirstOf(around.environment, variables);
    if (value.empty()) value = profiles.Value(key);
  };
  complete(settings.region, {"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  if (settings.region.empty()) settings.region = kAnyRegion;
  if (settings.endpoint.empty()) settings.endpoint = profiles.Endpoint(around, "s3");
  complete(settings.ca_file, {"AWS_CA_BUNDLE"}, "ca_bundle");
  return settings;
}

Result<std::string> EndpointOf(const std::string& url) {
  LITHIFY_TRY_ASSIGN(std::string origin, net::UrlOrigin(url));
  const size_t path = url.find_first_of("/?", url.find("://") + 3);
  if (path != std::string::npos && url.substr(path) != "/") {
    return Fail(Code::kInvalid, "an S3 endpoint is scheme, host and port, without a path", url);
  }
  return origin;
}

}  // namespace

std::string S3Place::ToString() const { return "s3://" + bucket + (key.empty() ? "" : "/" + key); }

Result<std::optional<S3Place>> ParseS3Place(std::string_view location) {
  const size_t end = location.find("://");
  if (end == std::string_view::npos) return std::optional<S3Place>();
  std::string scheme(location.substr(0, end));
  std::ranges::transform(scheme, scheme.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (scheme != "s3" && scheme != "s3a" && scheme != "s3n") return std::optional<S3Place>();
  std::string_view rest = location.substr(end + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  S3Place place;
  place.bucket = rest.substr(0, slash);
  if (!IsBucketName(place.bucket)) {
    return Fail(Code::kInvalid, "\"" + place.bucket + "\" is no name of a bucket",
                std::string(location), "write it like s3://bucket/prefix");
  }
  rest.remove_prefix(slash);
  if (!rest.empty()) rest.remove_prefix(1);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  place.key = rest;
  if (place.key.empty()) return place;
  if (Status good = CheckKey(place.key); !good) {
    return Fail(std::move(good.error()).In(location));
  }
  return place;
}

S3Access::S3Access(S3Settings settings, Clock& clock, Random& random)
    : settings_(std::move(settings)), clock_(clock), random_(random) {}

Result<std::unique_ptr<S3Access>> S3Access::Open(S3Settings settings,
                                                 const Environment& environment, Clock& clock,
                                                 Random& random,
                                                 std::unique_ptr<S3Credentials> lent) {
  const S3Surroundings around{environment, ReadWholeFile};
  LITHIFY_TRY_ASSIGN(settings, Completed(std::move(settings), around));
  if (!settings.endpoint.empty()) {
    LITHIFY_TRY_ASSIGN(settings.endpoint, EndpointOf(settings.endpoint));
  }
  std::unique_ptr<S3Access> access(new S3Access(std::move(settings), clock, random));
  const S3Settings& known = access->settings_;
  net::HttpOptions http;
  http.ca_file = known.ca_file;
  if (const std::string& proxy = known.proxy.Reveal(); !proxy.empty()) {
    http.proxy = proxy == "none" ? std::string() : proxy;
  }
  http.stop = [raw = access.get()] { return raw->stopped(); };
  LITHIFY_TRY_ASSIGN(access->http_, net::OpenHttpClient(std::move(http)));
  if (lent) {
    access->credentials_ = std::move(lent);
    return access;
  }
  S3CredentialOptions credentials;
  credentials.access_key_id = known.access_key_id;
  credentials.secret_access_key = known.secret_access_key;
  credentials.session_token = known.session_token;
  credentials.region = known.region;
  credentials.around = around;
  credentials.stop = [raw = access.get()] { return raw->stopped(); };
  LITHIFY_TRY_ASSIGN(access->credentials_,
                     MakeS3Credentials(std::move(credentials), *access->http_, clock));
  return access;
}

S3Client& S3Access::Client(const std::string& bucket) {
  std::unique_ptr<S3Client>& client = clients_[bucket];
  if (client) return *client;
  S3Options options;
  options.bucket = bucket;
  options.region = settings_.region;
  options.endpoint = settings_.endpoint;
  switch (settings_.addressing) {
    case S3Addressing::kPath: options.path_style = true; break;
    case S3Addressing::kVirtual: options.path_style = false; break;
    // A certificate for "*.host" is none for "a.b.host".
    case S3Addressing::kAuto:
      options.path_style = !settings_.endpoint.empty() || bucket.find('.') != std::string::npos;
      break;
  }
  client = std::make_unique<S3Client>(
      std::move(options), *http_, *credentials_, clock_, [this](Duration d) { Pause(d); }, random_);
  return *client;
}

void S3Access::Pause(Duration d) {
  constexpr Duration kSlice = std::chrono::milliseconds(100);
  for (; d > Duration::zero() && !stopped(); d -= kSlice) {
    clock_.Sleep(std::min(d, kSlice));
  }
}

std::shared_ptr<S3Store> S3Access::Store(const std::string& bucket, const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<S3Store>& store = stores_[bucket + "/" + prefix];
  if (!store) store = std::make_shared<S3Store>(Client(bucket), prefix);
  return store;
}

}  // namespace lithify::storage
