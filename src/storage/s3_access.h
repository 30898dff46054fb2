// Buckets opened with one set of settings: endpoint, region and credentials from the configuration,
// else from the environment that Amazon's own tools read. Where credentials come from is in
// s3_credentials.h.
#ifndef LITHIFY_STORAGE_S3_ACCESS_H_
#define LITHIFY_STORAGE_S3_ACCESS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "net/http.h"
#include "storage/s3_client.h"
#include "storage/s3_credentials.h"
#include "storage/s3_settings.h"
#include "storage/s3_store.h"

namespace lithify::storage {

// "s3://bucket/a/b/", "s3a://…" and "s3n://…" in its parts.
struct S3Place {
  std::string bucket;
  std::string key;               // "a/b"; may be empty.
  std::string ToString() const;  // "s3://bucket/a/b".
  bool operator==(const S3Place&) const = default;
};
// nullopt: of another scheme, or a path. kInvalid: a bucket's name that is none, or a key that no
// store would take.
Result<std::optional<S3Place>> ParseS3Place(std::string_view location);

// Thread-safe.
class S3Access {
 public:
  // A variable of the environment; nullopt: unset.
  using Environment = std::function<std::optional<std::string>(const std::string& name)>;

  // `environment` may be asked again later. `clock` and `random` outlive it and all stores.
  // kInvalid: half of a pair of keys, an endpoint that is no URL, a file of roots that cannot be
  // read.
  // With `lent` credentials those of settings and environment are not looked at.
  static Result<std::unique_ptr<S3Access>> Open(S3Settings settings, const Environment& environment,
                                                Clock& clock, Random& random,
                                                std::unique_ptr<S3Credentials> lent = nullptr);

  // For who was told to end: once `stop` says so, pauses before a request is repeated end, and
  // requests and programs that run are given up (kCancelled; net::HttpOptions::stop says when).
  // Asked ten times a second, by many threads. Before the first request.
  void StopWhen(std::function<bool()> stop) { stop_ = std::move(stop); }

  // The store below `prefix` (empty, or a key and a slash) of a bucket; the same one for the same
  // place. Nothing is asked of the server yet. Valid as long as this.
  std::shared_ptr<S3Store> Store(const std::string& bucket, const std::string& prefix);

 private:
  S3Access(S3Settings settings, Clock& clock, Random& random);
  S3Client& Client(const std::string& bucket);
  void Pause(Duration d);
  bool stopped() const { return stop_ && stop_(); }

  const S3Settings settings_;  // After the environment.
  Clock& clock_;
  Random& random_;
  std::function<bool()> stop_;  // Empty: never.
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<S3Credentials> credentials_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<S3Client>> clients_;
  std::map<std::string, std::shared_ptr<S3Store>> stores_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_ACCESS_H_
