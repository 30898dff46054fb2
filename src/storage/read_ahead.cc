#include "storage/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>
#include <tuple>

namespace lithify::storage {
namespace {

// Of several MiB, a request's transfer takes longer than its round trip.
constexpr int64_t kExtentBytes = 8 * kMiB;
// The flag of who cancels wakes nobody.
constexpr auto kLookForCancel = std::chrono::milliseconds(20);

}  // namespace

ReadAhead::ReadAhead(Open open, int64_t bytes_max, const CancelFlag* cancel)
    : open_(std::move(open)),
      bytes_max_(bytes_max),
      extent_bytes_max_(std::clamp(bytes_max / 8, int64_t{1}, kExtentBytes)),
      cancel_(cancel) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void ReadAhead::Expect(std::vector<Extent> extents) {
  if (extents.empty()) return;
  const std::lock_guard lock(mutex_);
  for (Extent& extent : extents) {
    const auto node = std::make_shared<Node>();
    node->place = {extent.first_round, expected_++};
    node->extent = std::move(extent);
    node->failed = node->extent.bytes > bytes_max_;
    by_key_[node->extent.key].push_back(node);
    nodes_.emplace(node->place, node);
    next_ = std::min(next_, node->place);
  }
  try {
    const auto most = std::min(nodes_.size(), size_t{kRequestsAtOnce});
    while (threads_.size() < most) threads_.emplace_back([this] { Serve(); });
  } catch (const std::system_error&) {
    // The system gives no more threads: readers fetch for themselves.
  }
  changed_.notify_all();
}

void ReadAhead::End(int64_t round) {
  const std::lock_guard lock(mutex_);
  round_ = std::max(round_, round + 1);
  for (auto at = nodes_.begin(); at != nodes_.end() && at->first.first <= round;) {
    const NodePtr node = at->second;
    if (node->extent.last_round > round) {
      ++at;
      continue;
    }
    at = nodes_.erase(at);
    const auto of_key = by_key_.find(node->extent.key);
    std::erase(of_key->second, node);
    if (of_key->second.empty()) by_key_.erase(of_key);
  }
  changed_.notify_all();
}

Result<int64_t> ReadAhead::ReadAt(const std::string& key, int64_t offset,
                                  std::span<std::byte> out) {
  int64_t done = 0;
  while (done < std::ssize(out)) {
    LITHIFY_TRY(Check());
    const int64_t at = offset + done;
    const auto rest = out.subspan(static_cast<size_t>(done));
    std::unique_lock lock(mutex_);
    const NodePtr node = Find(key, at);
    std::shared_ptr<Block> block;
    if (node != nullptr) {
      LITHIFY_TRY_ASSIGN(block, Obtain(lock, node));
    }
    if (block == nullptr) {
      lock.unlock();
      LITHIFY_TRY_ASSIGN(const auto reader, open_(key));
      LITHIFY_TRY_ASSIGN(const int64_t got, reader->ReadAt(at, rest));
      return done + got;
    }
    const int64_t from = at - node->extent.offset;
    const int64_t some = std::min(std::ssize(rest), node->extent.bytes - from);
    lock.unlock();
    std::memcpy(rest.data(), block->data.get() + from, static_cast<size_t>(some));
    done += some;
    lock.lock();
    const bool had_more = !node->spent();
    node->served += some;
    node->used = ++uses_;
    // There may be room now. Blocks come and go under the lock only.
    if ((had_more && node->spent()) || block.use_count() == 1) changed_.notify_all();
    block.reset();
  }
  return done;
}

// The best of those that have this byte.
ReadAhead::NodePtr ReadAhead::Find(const std::string& key, int64_t offset) const {
  const auto of_key = by_key_.find(key);
  if (of_key == by_key_.end()) return nullptr;
  NodePtr best;
  for (const NodePtr& node : of_key->second) {
    const Extent& extent = node->extent;
    if (offset < extent.offset || offset - extent.offset >= extent.bytes) continue;
    if (best == nullptr || node->state > best->state) best = node;
  }
  return best;
}

// Null: it cannot be had.
Result<std::shared_ptr<ReadAhead::Block>> ReadAhead::Obtain(std::unique_lock<std::mutex>& lock,
                                                            const NodePtr& node) {
  if (node->state == State::kAbsent && !node->failed && MakeRoom(*node, true)) {
    // What was evicted is needed again, and so will be what comes after it.
    next_ = std::min(next_, node->place);
    Fetch(lock, node);
  }
  while (node->state == State::kFetching) {
    changed_.wait_for(lock, kLookForCancel);
    LITHIFY_TRY(Check());
  }
  return node->block;
}

void ReadAhead::Evict(Node& node) {
  if (!node.spent()) next_ = std::min(next_, node.place);
  node.state = State::kAbsent;
  node.block.reset();
  node.served = 0;
}

// What is needed later makes room, the last first; then what was read through, the longest unused
// first, but not for rounds to come: a reader that wants it once more fetches it again. For a
// reader that waits also what has been unused for the longest time.
bool ReadAhead::MakeRoom(const Node& wanted, bool waited_for) {
  const int64_t round = wanted.extent.first_round;
  const auto rank = [&](const Node& node) {
    const int64_t later = std::max<int64_t>(0, node.extent.first_round - round);
    return std::tuple(-later, node.spent() ? 0 : 1, node.used);
  };
  while (wanted.extent.bytes > bytes_max_ - bytes_held_) {
    Node* victim = nullptr;
    for (const auto& [place, node] : nodes_) {
      if (node->state != State::kHere) continue;
      const bool gives = place.first > round || (node->spent() && round <= round_) || waited_for;
      if (gives && (victim == nullptr || rank(*node) < rank(*victim))) victim = node.get();
    }
    if (victim == nullptr) return false;
    Evict(*victim);
  }
  return true;
}

// Null: there is none, or no room for it.
ReadAhead::NodePtr ReadAhead::NextToFetch() {
  if (cancel_ != nullptr && cancel_->requested()) return nullptr;
  for (auto at = nodes_.lower_bound(next_); at != nodes_.end(); ++at) {
    const NodePtr& node = at->second;
    if (node->state != State::kAbsent || node->failed) continue;
    next_ = at->first;
    if (!MakeRoom(*node, false)) return nullptr;
    ++next_.second;
    return node;
  }
  return nullptr;
}

void ReadAhead::Serve() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (const NodePtr node = NextToFetch()) {
      Fetch(lock, node);
    } else {
      changed_.wait(lock);
    }
  }
}

// There is room for it.
void ReadAhead::Fetch(std::unique_lock<std::mutex>& lock, const NodePtr& node) {
  auto block = std::make_shared<Block>(bytes_held_, node->extent.bytes);
  node->state = State::kFetching;
  lock.unlock();
  const bool loaded = Load(node->extent, *block);
  lock.lock();
  if (!loaded) block.reset();
  node->state = loaded ? State::kHere : State::kAbsent;
  node->failed = !loaded;
  node->block = std::move(block);
  node->served = 0;
  node->used = ++uses_;
  changed_.notify_all();
}

bool ReadAhead::Load(const Extent& extent, Block& block) const {
  try {
    const auto bytes = static_cast<size_t>(extent.bytes);
    block.data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    const auto reader = open_(extent.key);
    if (!reader) return false;
    const auto got = (*reader)->ReadAt(extent.offset, {block.data.get(), bytes});
    return got && *got == extent.bytes;
  } catch (const std::exception&) {
    // No memory: the reader may do with less.
    return false;
  }
}

}  // namespace lithify::storage
