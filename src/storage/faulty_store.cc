#include "storage/faulty_store.h"

namespace lithify::storage {

Status FaultyStore::Ask(std::string_view op, const std::string& key, bool before) {
  if (!crashed()) {
    Status answer = hook_(op, key, before);
    if (answer || answer.error().code != Code::kCancelled) return answer;
    crashed_.store(true);
  }
  return Fail(Code::kCancelled, "this process has crashed", key);
}

template <typename F>
auto FaultyStore::Around(std::string_view op, const std::string& key, F operation)
    -> decltype(operation()) {
  LITHIFY_TRY(Ask(op, key, true));
  auto result = operation();
  LITHIFY_TRY(Ask(op, key, false));
  return result;
}

void FaultyStore::Abandon(std::unique_ptr<Writer> writer) {
  std::lock_guard lock(mutex_);
  abandoned_.push_back(std::move(writer));
}

class FaultyReader final : public Reader {
 public:
  FaultyReader(FaultyStore& store, std::string key, std::unique_ptr<Reader> reader)
      : store_(store), key_(std::move(key)), reader_(std::move(reader)) {}

  int64_t size() const override { return reader_->size(); }
  Result<int64_t> ReadAt(int64_t offset, std::span<std::byte> out) override {
    return store_.Around("ReadAt", key_, [&] { return reader_->ReadAt(offset, out); });
  }

 private:
  FaultyStore& store_;
  const std::string key_;
  std::unique_ptr<Reader> reader_;
};

class FaultyWriter final : public Writer {
 public:
  FaultyWriter(FaultyStore& store, std::string key, std::unique_ptr<Writer> writer)
      : store_(store), key_(std::move(key)), writer_(std::move(writer)) {}
  ~FaultyWriter() override {
    if (store_.crashed()) store_.Abandon(std::move(writer_));
  }

  Status Append(std::span<const std::byte> bytes) override {
    return store_.Around("Append", key_, [&] { return writer_->Append(bytes); });
  }
  int64_t size() const override { return writer_->size(); }
  Status Flush() override {
    return store_.crashed() ? Status(Fail(Code::kCancelled, "crashed", key_)) : writer_->Flush();
  }
  Status Publish() override {
    return store_.Around("Publish", key_, [&] { return writer_->Publish(); });
  }
  void Discard() noexcept override {
    if (!store_.crashed()) writer_->Discard();
  }

 private:
  FaultyStore& store_;
  const std::string key_;
  std::unique_ptr<Writer> writer_;
};

Result<ObjectInfo> FaultyStore::Stat(const std::string& key) {
  return Around("Stat", key, [&] { return store_.Stat(key); });
}

Result<Blob> FaultyStore::Get(const std::string& key, int64_t max_bytes) {
  return Around("Get", key, [&] { return store_.Get(key, max_bytes); });
}

Result<std::unique_ptr<Reader>> FaultyStore::Open(const std::string& key) {
  LITHIFY_TRY_ASSIGN(auto reader, Around("Open", key, [&] { return store_.Open(key); }));
  return std::make_unique<FaultyReader>(*this, key, std::move(reader));
}

Result<std::unique_ptr<Reader>> FaultyStore::OpenKnown(const ObjectInfo& known) {
  LITHIFY_TRY_ASSIGN(auto reader,
                     Around("Open", known.key, [&] { return store_.OpenKnown(known); }));
  return std::make_unique<FaultyReader>(*this, known.key, std::move(reader));
}

Status FaultyStore::ListPages(const std::string& prefix, ListDepth depth,
                              const ListVisitor& visit) {
  return Around("List", prefix, [&] { return store_.ListPages(prefix, depth, visit); });
}

Status FaultyStore::PutNew(const std::string& key, std::string_view bytes) {
  return Around("PutNew", key, [&] { return store_.PutNew(key, bytes); });
}

Status FaultyStore::PutIf(const std::string& key, std::string_view bytes,
                          const std::string& version) {
  return Around("PutIf", key, [&] { return store_.PutIf(key, bytes, version); });
}

Result<std::unique_ptr<Writer>> FaultyStore::Create(const std::string& key) {
  // Not Around(): a crash right after it must leave the temporary.
  LITHIFY_TRY(Ask("Create", key, true));
  LITHIFY_TRY_ASSIGN(auto writer, store_.Create(key));
  if (Status after = Ask("Create", key, false); !after) {
    if (crashed()) Abandon(std::move(writer));
    return Fail(std::move(after.error()));
  }
  return std::make_unique<FaultyWriter>(*this, key, std::move(writer));
}

Status FaultyStore::Remove(const std::string& key) {
  return Around("Remove", key, [&] { return store_.Remove(key); });
}

}  // namespace lithify::storage
