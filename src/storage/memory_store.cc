#include "storage/memory_store.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "storage/object_version.h"

namespace lithify::storage {
namespace {

class MemoryReader final : public Reader {
 public:
  explicit MemoryReader(std::shared_ptr<const std::string> bytes) : bytes_(std::move(bytes)) {}

  int64_t size() const override { return static_cast<int64_t>(bytes_->size()); }

  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    if (offset < 0) return Fail(Code::kInvalid, "negative offset");
    if (offset >= size()) return 0;
    const int64_t n = std::min<int64_t>(static_cast<int64_t>(out.size()), size() - offset);
    if (n > 0) std::memcpy(out.data(), bytes_->data() + offset, static_cast<size_t>(n));
    return n;
  }

 private:
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace

class MemoryWriter final : public Writer {
 public:
  MemoryWriter(MemoryStore& store, std::string key, std::string temporary)
      : store_(store), key_(std::move(key)), temporary_(std::move(temporary)) {}
  ~MemoryWriter() override { Discard(); }

  int64_t size() const override { return size_; }

  Status Append(std::span<const std::byte> bytes) override {
    std::lock_guard lock(store_.mutex_);
    LITHIFY_TRY_ASSIGN(MemoryStore::Object * object, FindTemporary());
    object->chunks.push_back(std::make_shared<const std::string>(
        reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    object->size += static_cast<int64_t>(bytes.size());
    object->version.clear();
    object->modified = store_.clock_.Now();
    size_ = object->size;
    return {};
  }

  Status Publish() override {
    std::lock_guard lock(store_.mutex_);
    LITHIFY_TRY_ASSIGN(MemoryStore::Object * object, FindTemporary());
    LITHIFY_TRY(store_.CheckFree(key_));
    object->modified = store_.clock_.Now();
    store_.objects_.emplace(key_, std::move(*object));
    store_.objects_.erase(temporary_);
    open_ = false;
    return {};
  }

  void Discard() noexcept override {
    if (!open_) return;
    std::lock_guard lock(store_.mutex_);
    store_.objects_.erase(temporary_);
    open_ = false;
  }

 private:
  // Needs the store's mutex.
  Result<MemoryStore::Object*> FindTemporary() {
    if (!open_) return Fail(Code::kInternal, "the writer is closed already", key_);
    const auto found = store_.objects_.find(temporary_);
    if (found != store_.objects_.end()) return &found->second;
    return Fail(Code::kTransient, "the temporary file was removed by somebody else", key_,
                "check that no other clean-up runs on this tree");
  }

  MemoryStore& store_;
  const std::string key_;
  const std::string temporary_;
  int64_t size_ = 0;
  bool open_ = true;
};

MemoryStore::Bytes MemoryStore::Whole(Object& object) {
  if (object.chunks.size() != 1) {
    std::string all;
    all.reserve(static_cast<size_t>(object.size));
    for (const Bytes& chunk : object.chunks) all += *chunk;
    object.chunks = {std::make_shared<const std::string>(std::move(all))};
  }
  return object.chunks.front();
}

const std::string& MemoryStore::Version(Object& object) {
  if (object.version.empty()) object.version = VersionOf(*Whole(object));
  return object.version;
}

ObjectInfo MemoryStore::InfoOf(const std::string& key, Object& object) {
  return {.key = key, .size = object.size, .modified = object.modified, .version = Version(object)};
}

MemoryStore::Object MemoryStore::MakeObject(std::string_view bytes) const {
  return {.chunks = {std::make_shared<const std::string>(bytes)},
          .size = static_cast<int64_t>(bytes.size()),
          .modified = clock_.Now(),
          .version = {}};
}

Status MemoryStore::CheckFree(const std::string& key) const {
  // A directory of that name is in the way as well.
  const auto child = objects_.lower_bound(key + "/");
  if (objects_.contains(key) || (child != objects_.end() && child->first.starts_with(key + "/"))) {
    return Fail(Code::kConflict, "it exists already", key);
  }
  for (size_t slash = key.find('/'); slash != std::string::npos; slash = key.find('/', slash + 1)) {
    if (!objects_.contains(std::string_view(key).substr(0, slash))) continue;
    return Fail(Code::kInvalid, "a file is where a directory is needed", key.substr(0, slash));
  }
  return {};
}

Result<MemoryStore::Object*> MemoryStore::Find(const std::string& key) {
  LITHIFY_TRY(CheckKey(key));
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Fail(Code::kNotFound, "no such object", key);
  return &found->second;
}

Result<ObjectInfo> MemoryStore::Stat(const std::string& key) {
  std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(Object * object, Find(key));
  return InfoOf(key, *object);
}

Result<Blob> MemoryStore::Get(const std::string& key, int64_t max_bytes) {
  Blob blob;
  Bytes bytes;
  {
    std::lock_guard lock(mutex_);
    LITHIFY_TRY_ASSIGN(Object * object, Find(key));
    if (object->size > max_bytes) {
      return Fail(Code::kLimit,
                  "it has " + std::to_string(object->size) + " bytes; at most " +
                      std::to_string(max_bytes) + " are read",
                  key);
    }
    bytes = Whole(*object);
    blob.version = Version(*object);
  }
  blob.bytes = *bytes;
  return blob;
}

Result<std::unique_ptr<Reader>> MemoryStore::Open(const std::string& key) {
  std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(Object * object, Find(key));
  return std::make_unique<MemoryReader>(Whole(*object));
}

Result<std::unique_ptr<Reader>> MemoryStore::OpenKnown(const ObjectInfo& known) {
  std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(Object * object, Find(known.key));
  if (!known.version.empty() && known.version != Version(*object)) {
    return Fail(Code::kConflict, "it was replaced meanwhile", known.key);
  }
  LITHIFY_TRY(CheckSize(known, object->size));
  return std::make_unique<MemoryReader>(Whole(*object));
}

Status MemoryStore::ListPages(const std::string& prefix, ListDepth depth,
                              const ListVisitor& visit) {
  LITHIFY_TRY(CheckPrefix(prefix));
  // Each page begins at this key: the store may change between them.
  for (std::string next = prefix;;) {
    std::vector<ObjectInfo> page;
    {
      std::lock_guard lock(mutex_);
      auto at = objects_.lower_bound(next);
      next.clear();
      while (at != objects_.end() && at->first.starts_with(prefix)) {
        if (page.size() == kListPage) {
          next = at->first;
          break;
        }
        const size_t slash = at->first.find('/', prefix.size());
        if (slash == std::string::npos || depth == ListDepth::kAll) {
          page.push_back(InfoOf(at->first, at->second));
          ++at;
        } else {
          // Past all keys below this prefix: '0' follows '/'.
          page.push_back({at->first.substr(0, slash + 1), 0, {}});
          at = objects_.lower_bound(at->first.substr(0, slash) + '0');
        }
      }
    }
    if (!page.empty()) LITHIFY_TRY(visit(std::move(page)));
    if (next.empty()) return {};
  }
}

Status MemoryStore::PutNew(const std::string& key, std::string_view bytes) {
  LITHIFY_TRY(CheckKey(key));
  std::lock_guard lock(mutex_);
  LITHIFY_TRY(CheckFree(key));
  objects_.emplace(key, MakeObject(bytes));
  return {};
}

Status MemoryStore::PutIf(const std::string& key, std::string_view bytes,
                          const std::string& version) {
  LITHIFY_TRY(CheckKey(key));
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Fail(Code::kConflict, "it does not exist (any more)", key);
  if (Version(found->second) != version) {
    return Fail(Code::kConflict, "somebody else changed it meanwhile", key);
  }
  found->second = MakeObject(bytes);
  return {};
}

Result<std::unique_ptr<Writer>> MemoryStore::Create(const std::string& key) {
  LITHIFY_TRY(CheckKey(key));
  std::lock_guard lock(mutex_);
  std::array<char, 32> suffix;
  std::snprintf(suffix.data(), suffix.size(), ".%016llx.tmp",
                static_cast<unsigned long long>(++temporaries_));
  const std::string temporary = key + suffix.data();
  LITHIFY_TRY(CheckFree(temporary));
  objects_.emplace(temporary,
                   Object{.chunks = {}, .size = 0, .modified = clock_.Now(), .version = {}});
  return std::make_unique<MemoryWriter>(*this, key, temporary);
}

Status MemoryStore::Remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  LITHIFY_TRY(Find(key));
  objects_.erase(key);
  return {};
}

Status MemoryStore::SetModified(const std::string& key, Time modified) {
  std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(Object * object, Find(key));
  object->modified = modified;
  return {};
}

std::vector<std::string> MemoryStore::Keys() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [key, object] : objects_) out.push_back(key);
  return out;
}

}  // namespace lithify::storage
