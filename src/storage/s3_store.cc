#include "storage/s3_store.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/text.h"
#include "storage/s3_writer.h"

namespace lithify::storage {
namespace {

// Reads one version of an object: that of the first answer, or the one that is known.
class S3Reader final : public Reader {
 public:
  // `known`: `key` of the bucket, and what is known of it. `told`: by the object itself, in an
  // answer for it, and not by others.
  S3Reader(S3Client& client, ObjectInfo known, bool told)
      : client_(client), known_(std::move(known)), etag_(known_.version), told_(told) {}

  int64_t size() const override { return known_.size; }

  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    if (offset < 0) return Fail(Code::kInvalid, "negative offset", client_.Name(known_.key));
    const int64_t wanted =
        std::min(static_cast<int64_t>(out.size()), std::max<int64_t>(0, size() - offset));
    if (wanted == 0) return 0;
    LITHIFY_TRY_ASSIGN(const S3Head head, Read(offset, out.first(static_cast<size_t>(wanted))));
    Status same = CheckSize(known_, head.size);
    if (!same) return Fail(std::move(same.error()).In(client_.Name(known_.key)));
    return wanted;
  }

 private:
  Result<S3Head> Read(int64_t offset, std::span<std::byte> out) {
    const auto [etag, told] = Version();
    auto head = client_.Read(known_.key, offset, out, etag);
    if (head && (etag.empty() || head->etag.empty() || head->etag == etag)) {
      LITHIFY_TRY(Tell(head->etag));
      return head;
    }
    if (!head && (etag.empty() || head.error().code != Code::kConflict)) return head;
    if (told) return Fail(Replaced());
    return ReadListed(offset, out, etag);
  }

  // It is not the version of the listing. Some stores list another ETag than they answer with: then
  // the object's size and time tell whether it is the one.
  Result<S3Head> ReadListed(int64_t offset, std::span<std::byte> out, const std::string& listed) {
    LITHIFY_TRY_ASSIGN(const S3Head now, client_.Head(known_.key));
    if (now.etag == listed || now.etag.empty() || now.size != known_.size ||
        now.modified != known_.modified) {
      return Fail(Replaced());
    }
    LITHIFY_TRY_ASSIGN(S3Head head, client_.Read(known_.key, offset, out, now.etag));
    LITHIFY_TRY(Tell(now.etag));
    return head;
  }

  std::pair<std::string, bool> Version() const {
    const std::lock_guard lock(mutex_);
    return {etag_, told_};
  }

  // The first answer settles which version it is. Others may be under way by then.
  Status Tell(const std::string& etag) {
    const std::lock_guard lock(mutex_);
    const bool first = !std::exchange(told_, true);
    if (etag.empty()) return {};
    if (first || etag_.empty()) etag_ = etag;
    if (etag == etag_) return {};
    return Fail(Replaced());
  }

  Error Replaced() const {
    return {Code::kConflict, "the object was replaced meanwhile", client_.Name(known_.key), {}};
  }

  S3Client& client_;
  const ObjectInfo known_;
  mutable std::mutex mutex_;
  std::string etag_;  // Empty: any, as long as told_ is false.
  bool told_;
};

}  // namespace

Result<ObjectInfo> S3Store::Stat(const std::string& key) {
  LITHIFY_TRY(CheckKey(key));
  LITHIFY_TRY_ASSIGN(const S3Head head, client_.Head(prefix_ + key));
  // An object is never altered: it was put when it was last modified.
  return ObjectInfo{.key = key, .size = head.size, .modified = head.modified, .version = head.etag};
}

Result<Blob> S3Store::Get(const std::string& key, int64_t max_bytes) {
  LITHIFY_TRY(CheckKey(key));
  // One byte more tells that there is more.
  const int64_t wanted = std::max<int64_t>(0, max_bytes) + 1;
  constexpr int64_t kFirstBytes = 8 * kMiB;
  LITHIFY_TRY_ASSIGN(S3Client::Body body,
                     client_.Get(prefix_ + key, 0, std::min(wanted, kFirstBytes), {}));
  if (body.head.etag.empty() && body.bytes.empty()) {
    // An empty object has no first byte to ask for.
    LITHIFY_TRY_ASSIGN(body.head, client_.Head(prefix_ + key));
  }
  if (body.head.size > max_bytes) {
    return Fail(Code::kLimit,
                "it has " + std::to_string(body.head.size) + " bytes; at most " +
                    std::to_string(max_bytes) + " are read",
                key);
  }
  size_t at = body.bytes.size();
  body.bytes.resize(static_cast<size_t>(body.head.size));
  for (size_t some = 0; at < body.bytes.size(); at += some) {
    some = std::min(body.bytes.size() - at, static_cast<size_t>(kS3PartBytes));
    const auto out = std::as_writable_bytes(std::span(body.bytes)).subspan(at, some);
    LITHIFY_TRY_ASSIGN(const S3Head head,
                       client_.Read(prefix_ + key, static_cast<int64_t>(at), out, body.head.etag));
    if (head.size != body.head.size) {
      return Fail(Code::kCorrupt, "the object has another size than before", key);
    }
  }
  return Blob{std::move(body.bytes), std::move(body.head.etag)};
}

Result<std::unique_ptr<Reader>> S3Store::Open(const std::string& key) {
  LITHIFY_TRY(CheckKey(key));
  LITHIFY_TRY_ASSIGN(S3Head head, client_.Head(prefix_ + key));
  ObjectInfo known{.key = prefix_ + key,
                   .size = head.size,
                   .modified = head.modified,
                   .version = std::move(head.etag)};
  return std::make_unique<S3Reader>(client_, std::move(known), true);
}

Result<std::unique_ptr<Reader>> S3Store::OpenKnown(const ObjectInfo& known) {
  LITHIFY_TRY(CheckKey(known.key));
  ObjectInfo in_bucket = known;
  in_bucket.key = prefix_ + known.key;
  return std::make_unique<S3Reader>(client_, std::move(in_bucket), false);
}

Status S3Store::ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) {
  LITHIFY_TRY(CheckPrefix(prefix));
  const std::string below = prefix_ + prefix;
  const std::string delimiter = depth == ListDepth::kAll ? "" : "/";
  const auto outside = [&](const std::string& key) {
    return Fail(Code::kCorrupt, "the store lists what lies elsewhere", client_.Name(key));
  };
  std::string token;
  while (true) {
    LITHIFY_TRY_ASSIGN(S3ListPage page, client_.List(below, delimiter, token));
    std::vector<ObjectInfo> listed;
    listed.reserve(page.objects.size() + page.prefixes.size());
    for (ObjectInfo& object : page.objects) {
      if (!object.key.starts_with(below)) return outside(object.key);
      // Some tools make an object for a directory itself.
      if (object.key.ends_with('/')) continue;
      object.key.erase(0, prefix_.size());
      if (!CheckKey(object.key)) {
        object = {.key = std::move(object.key), .size = 0, .modified = {}, .regular = false};
      }
      listed.push_back(std::move(object));
    }
    for (const std::string& name : page.prefixes) {
      if (!name.starts_with(below)) return outside(name);
      listed.push_back({.key = name.substr(prefix_.size()), .size = 0, .modified = {}});
    }
    if (!listed.empty()) LITHIFY_TRY(visit(std::move(listed)));
    if (page.next.empty()) return {};
    if (page.next == token) {
      return Fail(Code::kCorrupt, "the store lists the same page again", client_.Name(below));
    }
    token = std::move(page.next);
  }
}

Status S3Store::PutNew(const std::string& key, std::string_view bytes) {
  LITHIFY_TRY(CheckKey(key));
  const auto put = client_.Put(prefix_ + key, std::string(bytes), {.absent = true, .etag = {}});
  return put ? Status() : Fail(put.error());
}

Status S3Store::PutIf(const std::string& key, std::string_view bytes, const std::string& version) {
  LITHIFY_TRY(CheckKey(key));
  if (version.empty()) return Fail(Code::kConflict, "another version is there", key);
  const auto put =
      client_.Put(prefix_ + key, std::string(bytes), {.absent = false, .etag = version});
  if (put) return {};
  Error error = put.error();
  // Absent is another version, too.
  if (error.code == Code::kNotFound) error.code = Code::kConflict;
  return Fail(std::move(error));
}

Result<std::unique_ptr<Writer>> S3Store::Create(const std::string& key) {
  LITHIFY_TRY(CheckKey(key));
  return std::make_unique<S3Writer>(client_, prefix_ + key);
}

Status S3Store::Remove(const std::string& key) {
  LITHIFY_TRY(CheckKey(key));
  // A delete says nothing of what was there.
  LITHIFY_TRY(client_.Head(prefix_ + key));
  return client_.Delete(prefix_ + key);
}

std::vector<Status> S3Store::RemoveMany(std::span<const std::string> keys) {
  std::vector<Status> removed(keys.size());
  std::vector<std::string> good;
  std::vector<size_t> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    removed[i] = CheckKey(keys[i]);
    if (!removed[i]) continue;
    good.push_back(prefix_ + keys[i]);
    places.push_back(i);
  }
  std::vector<Status> deleted = client_.DeleteMany(good);
  for (size_t i = 0; i < places.size(); ++i) removed[places[i]] = std::move(deleted[i]);
  return removed;
}

int64_t S3Store::writer_buffer_bytes() const { return kS3WriterBytes; }

std::string S3Store::Describe() const {
  std::string name = client_.Name(prefix_);
  if (name.ends_with('/')) name.pop_back();
  return name;
}

namespace {

// What `write` comes to: it is one that must be refused, and may be made any number of times.
template <typename Write>
auto Known(Write write) {
  constexpr int kTries = 5;
  auto outcome = write();
  for (int tries = 1; tries < kTries; ++tries) {
    if (outcome || outcome.error().code != Code::kUnknownOutcome) break;
    outcome = write();
  }
  return outcome;
}

}  // namespace

// Whether an upload is completed over the object under `key`, with a condition that forbids it.
Result<bool> S3Store::CompletesOver(const std::string& key) {
  const std::string write_id = client_.NewWriteId();
  LITHIFY_TRY_ASSIGN(const std::string upload, client_.CreateUpload(prefix_ + key, write_id));
  Status completed;
  const auto part = client_.UploadPart(prefix_ + key, upload, 1, "upload");
  if (part) {
    completed = client_.CompleteUpload(prefix_ + key, upload, {*part}, write_id,
                                       {.absent = true, .etag = {}});
    if (completed) return true;
  }
  (void)client_.AbortUpload(prefix_ + key, upload);
  if (!part) return Fail(part.error());
  if (completed.error().code != Code::kConflict) return Fail(completed.error());
  return false;
}

Status S3Store::Probe(const std::string& key) {
  const auto wrong = [&](const std::string& what) {
    return Fail(Code::kUnsupported, "the store does not honour conditional writes: " + what,
                Describe(),
                "lithify cannot publish safely there; use a store that does If-None-Match and "
                "If-Match");
  };
  (void)client_.Delete(prefix_ + key);
  LITHIFY_TRY(PutNew(key, "first"));
  Status again = Known([&] { return PutNew(key, "second"); });
  const auto blob = Get(key, kKiB);
  Status stale;
  Status fresh;
  if (blob) {
    constexpr const char* kOther = "\"00000000000000000000000000000000\"";
    stale = Known([&] { return PutIf(key, "third", kOther); });
    fresh = PutIf(key, "fourth", blob->version);
  }
  const auto last = Get(key, kKiB);
  const auto completes = Known([&] { return CompletesOver(key); });
  LITHIFY_TRY(client_.Delete(prefix_ + key));
  Status absent = Known([&] { return PutIf(key, "fifth", blob ? blob->version : "x"); });
  (void)client_.Delete(prefix_ + key);
  if (!blob) return Fail(blob.error());
  if (!last) return Fail(last.error());
  if (again || blob->bytes != "first") return wrong("If-None-Match: * replaced an object");
  if (again.error().code != Code::kConflict) return again;
  if (stale) return wrong("If-Match of another version replaced an object");
  if (stale.error().code != Code::kConflict) return stale;
  if (!fresh && fresh.error().code != Code::kConflict) return fresh;
  if (!fresh) return wrong("If-Match of the current version was refused");
  if (last->bytes != "fourth") return wrong("a replaced object reads as it was before");
  if (absent) return wrong("If-Match made an object where none was");
  if (!completes) return Fail(completes.error());
  if (*completes) return wrong("a completed upload replaced an object");
  return {};
}

Result<std::vector<ObjectInfo>> S3Store::AbortStaleUploads(
    const std::string& prefix, Time before,
    const std::function<bool(const std::string& key)>& is_ours, bool dry_run) {
  LITHIFY_TRY(CheckPrefix(prefix));
  std::vector<ObjectInfo> aborted;
  S3UploadPage page;
  do {
    LITHIFY_TRY_ASSIGN(page, client_.ListUploads(prefix_ + prefix, page));
    for (const S3Upload& upload : page.uploads) {
      if (upload.initiated >= before || !upload.key.starts_with(prefix_)) continue;
      std::string key = upload.key.substr(prefix_.size());
      if (!is_ours(key)) continue;
      if (!dry_run) LITHIFY_TRY(client_.AbortUpload(upload.key, upload.upload_id));
      aborted.push_back({.key = std::move(key), .size = 0, .modified = upload.initiated});
    }
  } while (page.more);
  return aborted;
}

}  // namespace lithify::storage
