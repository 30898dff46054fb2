#include "serve/statement_store.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

namespace lithify::serve {
namespace {

// 128 random bits, as text: some clients log handles.
std::string NewHandle(Random& random) {
  std::array<char, 33> text;
  std::snprintf(text.data(), text.size(), "%016" PRIx64 "%016" PRIx64, random.Next(),
                random.Next());
  return text.data();
}

}  // namespace

void StatementStore::Forget() {
  const Duration now = clock_.Monotonic();
  while (!entries_.empty() && now - entries_.front().used > limits_.idle) Erase(entries_.begin());
}

void StatementStore::Erase(Entries::iterator at) {
  by_handle_.erase(at->handle);
  const auto owned = by_owner_.find(at->owner);
  if (--owned->second == 0) by_owner_.erase(owned);
  entries_.erase(at);
}

Result<StatementStore::Entries::iterator> StatementStore::Find(const std::string& handle,
                                                               const std::string& owner) {
  Forget();
  const auto at = by_handle_.find(handle);
  if (at == by_handle_.end() || at->second->owner != owner) {
    return Fail(Code::kNotFound, "the statement's handle is not known (any more)", {},
                "a ticket of what changes something is good once, and unused handles are forgotten "
                "after a while: send the statement again");
  }
  at->second->used = clock_.Monotonic();
  entries_.splice(entries_.end(), entries_, at->second);
  return at->second;
}

Status StatementStore::MakeRoom(const std::string& owner) {
  const auto owned = by_owner_.find(owner);
  const bool own_full = owned != by_owner_.end() && owned->second >= limits_.of_owner;
  if (!own_full && entries_.size() < limits_.all) return {};
  if (!limits_.oldest_goes) {
    return Fail(Code::kLimit, "too many prepared statements", {},
                "close those that are not needed, or wait until unused ones are forgotten");
  }
  const auto oldest =
      own_full ? std::ranges::find(entries_, owner, &Entry::owner) : entries_.begin();
  Erase(oldest);
  return {};
}

Result<std::string> StatementStore::Add(const std::string& owner, StoredStatement statement) {
  const std::lock_guard lock(mutex_);
  Forget();
  LITHIFY_TRY(MakeRoom(owner));
  std::string handle = NewHandle(random_);
  entries_.push_back({.handle = handle,
                      .owner = owner,
                      .statement = std::move(statement),
                      .used = clock_.Monotonic()});
  by_handle_[handle] = std::prev(entries_.end());
  ++by_owner_[owner];
  return handle;
}

Result<StoredStatement> StatementStore::Get(const std::string& handle, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(const auto at, Find(handle, owner));
  return at->statement;
}

Result<StoredStatement> StatementStore::Take(const std::string& handle, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(const auto at, Find(handle, owner));
  StoredStatement statement = std::move(at->statement);
  Erase(at);
  return statement;
}

Status StatementStore::Bind(const std::string& handle, const std::string& owner,
                            std::shared_ptr<arrow::RecordBatch> parameters) {
  const std::lock_guard lock(mutex_);
  LITHIFY_TRY_ASSIGN(const auto at, Find(handle, owner));
  at->statement.parameters = std::move(parameters);
  return {};
}

bool StatementStore::Remove(const std::string& handle, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  const auto at = Find(handle, owner);
  if (at) Erase(*at);
  return at.has_value();
}

size_t StatementStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace lithify::serve
