// The one seam to bytes at rest. Keys are relative to the store's root, '/'-separated, without a
// leading slash and without empty, "." or ".." segments (kInvalid otherwise).
//
// The commit primitives are named verbs with a contract suite (tests/contract) that runs on every
// implementation: PutNew creates only if absent, PutIf replaces only if unchanged; both are durable
// (file and directory entry) when they return success.
//
// Errors, all verbs: kNotFound absent, kDenied no permission or read-only, kLimit no space left,
// kTransient worth a retry, kInvalid bad key, kCancelled. Only PutNew, PutIf and Publish may give
// kConflict, or kUnknownOutcome: the bytes may or may not be there, look before anything else.
//
// Thread safety: every Store is thread-safe; a Writer belongs to one thread at a time.
#ifndef LITHIFY_STORAGE_STORE_H_
#define LITHIFY_STORAGE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace lithify::storage {

struct ObjectInfo {
  std::string key;
  int64_t size = 0;  // Bytes.
  Time modified = {};
  // False, in a listing only, for what no other verb touches: symbolic links, pipes, devices. Their
  // size is 0 and their time unset.
  bool regular = true;
  // When it was last put, moved or altered in any way, where the store knows better than by
  // `modified`, which on a disk anybody may set back. The epoch: it does not.
  Time changed = {};
  // Opaque; equal versions of one key mean equal bytes. Empty: the store does not tell.
  std::string version = {};
  bool operator==(const ObjectInfo&) const = default;
};

struct Blob {
  std::string bytes;
  std::string version;  // Opaque; equal versions of one key mean equal bytes.
};

// An open object for positioned reads; the bytes are those at opening time as long as the object
// is not overwritten in place (files that a store publishes never are). Thread-safe.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual int64_t size() const = 0;
  // Fills `out` from `offset`; returns bytes read, short only at the end. kCorrupt if somebody cut
  // the object short in place since it was opened.
  virtual Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) = 0;
};

// A new object being streamed. Nothing is visible under its key before Publish() succeeds.
// Destroying an unpublished writer discards its bytes, as far as it can.
class Writer {
 public:
  virtual ~Writer() = default;
  // May hold them back: an error of writing them then comes from a later call.
  virtual Status Append(std::span<const std::byte> bytes) = 0;
  virtual int64_t size() const = 0;
  // No Append follows. Hands on what it holds, so that it takes next to no memory until Publish.
  virtual Status Flush() { return {}; }
  // Makes the bytes durable and visible under the key, only if the key is absent (kConflict). The
  // object's time is that of this call, not of the last Append.
  virtual Status Publish() = 0;
  virtual void Discard() noexcept = 0;
};

enum class ListDepth { kChildren, kAll };
inline constexpr size_t kListPage = 1000;
using ListVisitor = std::function<Status(std::vector<ObjectInfo> page)>;

class Store {
 public:
  virtual ~Store() = default;

  virtual Result<ObjectInfo> Stat(const std::string& key) = 0;
  // The whole object; for small metadata. kLimit if larger than `max_bytes`.
  virtual Result<Blob> Get(const std::string& key, int64_t max_bytes) = 0;
  virtual Result<std::unique_ptr<Reader>> Open(const std::string& key) = 0;
  // The same, for who knows what is there: by a listing, or at least its size. Where to open an
  // object is a request of its own it is spared, and what Open() would fail with comes of the first
  // read. If it is not so, either fails: kCorrupt for another size, kConflict for another version
  // than `known.version`, where that is not empty and the store tells versions.
  virtual Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known);
  // What lies below `prefix` (ends in '/' or is empty), in pages of 1 to kListPage entries, in no
  // order; what is there all the while is listed once. An absent prefix has no pages. An error that
  // `visit` returns ends the listing and is returned; it may use the store meanwhile.
  //
  // kChildren: immediate children, that is objects, and common prefixes (with a trailing slash,
  // size 0). kAll: the objects of all levels and no prefixes, where the store can with a request
  // per page, not per prefix.
  //
  // Links and special files are listed, as not `regular`, because other readers of the tree may
  // follow them; Stat, Get, Open and Remove refuse them (kDenied). So are objects under names that
  // are no well-formed keys (kInvalid).
  virtual Status ListPages(const std::string& prefix, ListDepth depth,
                           const ListVisitor& visit) = 0;
  // The immediate children, sorted by key. Of many, it takes memory for all.
  Result<std::vector<ObjectInfo>> List(const std::string& prefix);

  // Creates `key` with `bytes`, or kConflict if it exists.
  virtual Status PutNew(const std::string& key, std::string_view bytes) = 0;
  // Replaces `key` if its version is still `version`; kConflict if it is another one or absent.
  virtual Status PutIf(const std::string& key, std::string_view bytes,
                       const std::string& version) = 0;
  // A streaming PutNew.
  virtual Result<std::unique_ptr<Writer>> Create(const std::string& key) = 0;
  // kNotFound if it is absent already.
  virtual Status Remove(const std::string& key) = 0;
  // Removes each of them, whatever becomes of the others, in any order: whoever needs one makes
  // several calls. One status per key, in the order of `keys`, as of Remove; but a store that
  // removes many in one request does not tell what was absent: success says that nothing is there
  // any more. What may pass has been tried again where requests are; it is kTransient then.
  virtual std::vector<Status> RemoveMany(std::span<const std::string> keys);

  // Streams below `prefix` whose bytes a store keeps apart from its objects, and that were begun
  // before `before` and neither published nor discarded: their writer has died (T28). Ends those
  // whose key `is_ours` takes, unless it is a dry run, and returns them with the time that they
  // were begun; their size is 0. None where such bytes lie in objects of their own.
  virtual Result<std::vector<ObjectInfo>> AbortStaleUploads(
      const std::string& prefix, Time before,
      const std::function<bool(const std::string& key)>& is_ours, bool dry_run);

  // Whether a read of few bytes costs little more than these bytes: on disks of this machine and in
  // memory. False: it is a round trip, and had better bring much.
  virtual bool small_reads_are_cheap() const { return false; }
  // What one of its writers holds in memory while it is written to; 0: next to nothing.
  virtual int64_t writer_buffer_bytes() const { return 0; }
  // How far the store's clock was ahead of this machine's when it was last heard of (negative:
  // behind); zero where there is only one, or nothing was heard.
  virtual Duration clock_skew() const { return Duration::zero(); }
  // For messages: "/data/lake" or "memory:".
  virtual std::string Describe() const = 0;
};

// kCorrupt: it has `size` bytes, where others are `known`.
Status CheckSize(const ObjectInfo& known, int64_t size);
// kInvalid unless `key` is well formed (see the top).
Status CheckKey(std::string_view key);
// The same for a prefix: empty, or a well-formed key and a slash.
Status CheckPrefix(std::string_view prefix);
// kInvalid if the store's clock and this machine's are more than kClockSkewMax apart: then no age
// of an object says whether it may be removed.
inline constexpr Duration kClockSkewMax = std::chrono::minutes(4);
Status CheckClock(const Store& store);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_STORE_H_
