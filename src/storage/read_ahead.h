// Parts of objects, read in few large requests before somebody asks for them. For stores where each
// read is a round trip (Store::small_reads_are_cheap() is false).
//
// Whoever knows what it will read says so as extents, each of which one request brings, in rounds:
// all of a round is needed before all of the next one, any number of times, until the round is
// ended. Threads of its own fetch them in that order, as far as the bound on memory goes; a reader
// that comes before them fetches its extent itself. What is not expected is read as it is asked
// for.
//
// It only ever changes when bytes are read, and how many at once. Where an extent cannot be had,
// for whatever reason, the reader asks the store for just what it was asked for, and gives what
// comes of that: errors are those of reading without any of this, and concern nobody else.
#ifndef LITHIFY_STORAGE_READ_AHEAD_H_
#define LITHIFY_STORAGE_READ_AHEAD_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "base/text.h"
#include "storage/store.h"

namespace lithify::storage {

// A part of an object. Those of one object may overlap.
struct Extent {
  std::string key;
  int64_t offset = 0;
  int64_t bytes = 0;        // Greater than 0.
  int64_t wanted = 0;       // That will be read of these; the others only lie between.
  int64_t first_round = 0;  // When it is read first,
  int64_t last_round = 0;   // and last.
};

// Thread-safe. Cancelled: nothing more is fetched, and readers that wait get kCancelled.
class ReadAhead {
 public:
  // Requests that are under way together. A round trip to an object store takes some ten
  // milliseconds, a connection to it brings some ten MB/s: so many bring what a machine can take.
  static constexpr int kRequestsAtOnce = 16;

  // The reader of an object; called by any thread, also for one that was asked for before.
  using Open = std::function<Result<std::shared_ptr<Reader>>(const std::string& key)>;

  // Holds up to `bytes_max`, extents that are being fetched included. `cancel` may be null.
  ReadAhead(Open open, int64_t bytes_max, const CancelFlag* cancel);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  // Waits for the requests that are under way.
  ~ReadAhead();

  // No extent should have more: several of them fit.
  int64_t extent_bytes_max() const { return extent_bytes_max_; }
  // What will be read, those of one round in that order; at any time.
  void Expect(std::vector<Extent> extents);
  // The rounds up to this one are over; what was expected for no later one is forgotten.
  void End(int64_t round);

  // As Reader::ReadAt() of the object.
  Result<int64_t> ReadAt(const std::string& key, int64_t offset, std::span<std::byte> out);

  int64_t bytes_held() const { return bytes_held_; }

 private:
  // Counts against the bound as long as it lives.
  struct Block {
    Block(std::atomic<int64_t>& held, int64_t bytes) : held_(held), bytes_(bytes) { held += bytes; }
    ~Block() { held_ -= bytes_; }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    std::unique_ptr<std::byte[]> data;

   private:
    std::atomic<int64_t>& held_;
    const int64_t bytes_;
  };
  enum class State { kAbsent, kFetching, kHere };
  using Place = std::pair<int64_t, uint64_t>;  // Round, and number in the order of expectation.
  struct Node {
    Extent extent;
    Place place;
    State state = State::kAbsent;
    bool failed = false;           // To be fetched: it is not tried again.
    std::shared_ptr<Block> block;  // Of kHere.
    int64_t served = 0;            // Bytes, since it is there.
    uint64_t used = 0;             // When, as numbers that rise.
    bool spent() const { return served >= extent.wanted; }
  };
  using NodePtr = std::shared_ptr<Node>;
  using Nodes = std::map<Place, NodePtr>;

  void Serve();
  void Fetch(std::unique_lock<std::mutex>& lock, const NodePtr& node);
  bool Load(const Extent& extent, Block& block) const;
  NodePtr NextToFetch();
  bool MakeRoom(const Node& wanted, bool waited_for);
  NodePtr Find(const std::string& key, int64_t offset) const;
  Result<std::shared_ptr<Block>> Obtain(std::unique_lock<std::mutex>& lock, const NodePtr& node);
  Status Check() const { return cancel_ == nullptr ? Status() : cancel_->Check(); }
  void Evict(Node& node);

  const Open open_;
  const int64_t bytes_max_;
  const int64_t extent_bytes_max_;
  const CancelFlag* const cancel_;
  std::atomic<int64_t> bytes_held_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Nodes nodes_;
  std::unordered_map<std::string, std::vector<NodePtr>> by_key_;
  Place next_{0, 0};   // From here on extents are fetched ahead.
  int64_t round_ = 0;  // The first that is not over.
  uint64_t expected_ = 0;
  uint64_t uses_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_READ_AHEAD_H_
