// One bucket of Amazon S3, or of a store that speaks like it: each call is one request of its API,
// signed, repeated where that is safe, with its answer read. What the verbs of Store make of it is
// in s3_store.h.
//
// How fast: a store that says that it gets too much gets less at once, from all threads (S3Pace).
// A clock that is wrong: where the store refuses what was signed, and its own time is another, its
// time is signed with from then on.
//
// Repeating: time-outs, lost connections, 429, 500, 502, 503, 504 and 408 are tried again, with
// waits that grow and are spread at random, up to S3Options::attempts. A write with a condition
// that finds it broken may have met itself, as a try before or as something on the way repeated it:
// it carries a number of its own in the object's metadata, and reads it back (H5).
//
// Damage on the way: the SHA-256 of every body is signed, and sent as a checksum with objects and
// parts; what came damaged is sent again.
//
// Errors: kNotFound 404; kDenied 401 and 403; kConflict a condition that does not hold (409, 412);
// kTransient throttled, or nothing came after all tries, for reads and what may be repeated;
// kUnknownOutcome likewise for writes with a condition: the bytes may or may not be there; kInvalid
// other 4xx; kCorrupt an answer that is none; kCancelled the HTTP client was told to stop, and a
// write with a condition was not sent. Messages name bucket and key; never a credential.
#ifndef LITHIFY_STORAGE_S3_CLIENT_H_
#define LITHIFY_STORAGE_S3_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "net/http.h"
#include "net/sigv4.h"
#include "storage/s3_pace.h"
#include "storage/store.h"

namespace lithify::storage {

// Where credentials come from: they may run out and be renewed. Thread-safe.
class S3Credentials {
 public:
  virtual ~S3Credentials() = default;
  // Some that are valid as far as is known.
  virtual Result<net::AwsCredentials> Get() = 0;
  // The store refused these: the next Get() gives others, or kDenied where there are none.
  virtual Status Invalidate(const net::AwsCredentials& refused) = 0;
};

struct S3Options {
  std::string bucket;
  std::string region = "us-east-1";
  std::string endpoint;     // "https://host[:port]"; empty: Amazon's of the region.
  bool path_style = false;  // "/bucket/key" instead of "bucket.host/key"; always with an address.
  int attempts = 6;         // Of one request.
  Duration connect_timeout = std::chrono::seconds(5);
  Duration request_timeout = std::chrono::seconds(60);  // Grows with the bytes.
};

// Of a write: only if the object is absent, or still is the one with this ETag.
struct S3Condition {
  bool absent = false;
  std::string etag;
  bool any() const { return !absent && etag.empty(); }
};

struct S3Head {
  int64_t size = 0;
  Time modified;
  std::string etag;      // As the store writes it, with its quotes.
  std::string write_id;  // Of the write that made it, if it was one with a condition.
};

struct S3ListPage {
  std::vector<ObjectInfo> objects;    // Keys of the bucket, whole.
  std::vector<std::string> prefixes;  // That end with the delimiter.
  std::string next;                   // For the next page; empty: that was the last one.
};

// Of an upload, as it has to be named to complete that.
struct S3Part {
  std::string etag;
  std::string sha256;  // Base64.
};

struct S3Upload {
  std::string key;
  std::string upload_id;
  Time initiated;
};

struct S3UploadPage {
  std::vector<S3Upload> uploads;
  std::string next_key;
  std::string next_upload_id;
  bool more = false;
};

// Thread-safe.
class S3Client {
 public:
  // All of them outlive this.
  S3Client(S3Options options, net::HttpClient& http, S3Credentials& credentials, const Clock& clock,
           std::function<void(Duration)> sleep, Random& random);
  ~S3Client();

  const S3Options& options() const { return options_; }
  // "s3://bucket/key".
  std::string Name(const std::string& key) const;

  Result<S3Head> Head(const std::string& key);
  struct Body {
    std::string bytes;
    S3Head head;  // Its size is the object's.
  };
  // From `offset`, at most `length` bytes; of the object with this ETag (kConflict if it is another
  // one by now), empty: of any. An offset behind the end gives none.
  Result<Body> Get(const std::string& key, int64_t offset, int64_t length, const std::string& etag);
  // The same, to where it is wanted (not empty): as many bytes as `out` holds or, if that is less,
  // as there are from `offset` to the end of the object.
  Result<S3Head> Read(const std::string& key, int64_t offset, std::span<std::byte> out,
                      const std::string& etag);
  // Returns the ETag.
  Result<std::string> Put(const std::string& key, std::string bytes, const S3Condition& condition);
  // Also if it is absent.
  Status Delete(const std::string& key);
  // Likewise many, with one request per 1,000 of them; one by one where the store knows no such
  // request, and those that it does not answer for. A status for each, in their order; what failed
  // for now has been tried again (I21).
  std::vector<Status> DeleteMany(std::span<const std::string> keys);

  // Up to 1,000 objects below `prefix`, those of deeper levels by their prefixes up to `delimiter`
  // (empty: all objects). `token`: of the page before.
  Result<S3ListPage> List(const std::string& prefix, const std::string& delimiter,
                          const std::string& token);

  Result<std::string> CreateUpload(const std::string& key, const std::string& write_id);
  // Part numbers count from 1. kCancelled, instead of another try, once
  // `given_up` is true (null: never).
  Result<S3Part> UploadPart(const std::string& key, const std::string& upload_id, int number,
                            std::string bytes, const std::atomic<bool>* given_up = nullptr);
  Status CompleteUpload(const std::string& key, const std::string& upload_id,
                        const std::vector<S3Part>& parts, const std::string& write_id,
                        const S3Condition& condition);
  // Also if it is gone already.
  Status AbortUpload(const std::string& key, const std::string& upload_id);
  Result<S3UploadPage> ListUploads(const std::string& prefix, const S3UploadPage& after);

  std::string NewWriteId();
  // By the time of the last answer; zero before the first.
  Duration clock_skew() const { return Duration(skew_.load()); }

 private:
  struct Call;
  struct Answer;
  struct Refusal;
  Result<Answer> Send(Call call);
  Result<net::HttpResponse> SendOnce(net::HttpRequest& request, const net::SigV4Request& to_sign,
                                     const net::HttpLimits& limits, Refusal& refusal);
  // The store's time, as far as is known.
  Time Now() const { return clock_.Now() + Duration(ahead_.load()); }
  Result<Answer> GetRange(const std::string& key, int64_t offset, int64_t length,
                          const std::string& etag, std::span<std::byte> into);
  Result<S3Head> SettleWrite(const std::string& key, const std::string& write_id, Error refused,
                             bool in_doubt);
  Error ErrorOf(const net::HttpResponse& response, const std::string& where) const;
  // Waits about `wait`, at least `at_least`, and doubles `wait`.
  void BackOff(Duration& wait, Duration at_least);
  struct Batch;
  void DeletePending(Batch& batch);

  const S3Options options_;
  net::HttpClient& http_;
  S3Credentials& credentials_;
  const Clock& clock_;
  const std::function<void(Duration)> sleep_;
  Random& random_;
  std::string scheme_;
  std::string host_;         // With the bucket, unless by path.
  std::string path_prefix_;  // "/bucket", or nothing.
  S3Pace pace_;
  // Microseconds that the store's clock is ahead of ours: what is signed with, and what was heard.
  std::atomic<int64_t> ahead_{0};
  std::atomic<int64_t> skew_{0};
  std::atomic<bool> deletes_one_by_one_{false};  // The store knows no other way.
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_CLIENT_H_
