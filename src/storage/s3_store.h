// A Store over one bucket of S3, or a prefix of it.
//
// PutNew, PutIf and Publish are requests with a condition (If-None-Match, If-Match): nothing is
// ever renamed, and nothing is visible in part (R216, T28). Large objects go up in parts while they
// are written; an upload that is given up is aborted, and those of a process that died are what
// AbortStaleUploads() is for.
//
// Beyond what the contract of Store says of all: a key may lie below another key; a Reader fails
// with kConflict once its object is replaced, and with kNotFound once it is removed.
#ifndef LITHIFY_STORAGE_S3_STORE_H_
#define LITHIFY_STORAGE_S3_STORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "storage/s3_client.h"
#include "storage/store.h"

namespace lithify::storage {

class S3Store final : public Store {
 public:
  // `prefix`: empty, or a key and a slash. The client outlives this.
  S3Store(S3Client& client, std::string prefix) : client_(client), prefix_(std::move(prefix)) {}

  Result<ObjectInfo> Stat(const std::string& key) override;
  Result<Blob> Get(const std::string& key, int64_t max_bytes) override;
  Result<std::unique_ptr<Reader>> Open(const std::string& key) override;
  Result<std::unique_ptr<Reader>> OpenKnown(const ObjectInfo& known) override;
  Status ListPages(const std::string& prefix, ListDepth depth, const ListVisitor& visit) override;
  Status PutNew(const std::string& key, std::string_view bytes) override;
  Status PutIf(const std::string& key, std::string_view bytes, const std::string& version) override;
  Result<std::unique_ptr<Writer>> Create(const std::string& key) override;
  Status Remove(const std::string& key) override;
  std::vector<Status> RemoveMany(std::span<const std::string> keys) override;
  // Those that began before and were never completed.
  Result<std::vector<ObjectInfo>> AbortStaleUploads(
      const std::string& prefix, Time before,
      const std::function<bool(const std::string& key)>& is_ours, bool dry_run) override;
  Duration clock_skew() const override { return client_.clock_skew(); }
  int64_t writer_buffer_bytes() const override;
  std::string Describe() const override;

  // Whether the store keeps its word on conditions: tried out with an object under `key`, which is
  // removed again. kUnsupported, with what it got wrong, if it does not (Q2). Nobody else may write
  // there: what becomes unknown on the way is tried again.
  Status Probe(const std::string& key);

 private:
  Result<bool> CompletesOver(const std::string& key);

  S3Client& client_;
  const std::string prefix_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_STORE_H_
