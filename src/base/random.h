// Randomness as an interface (replayable in simulation) and UUIDv7 names (R196, RFC 9562 5.7).
#ifndef LITHIFY_BASE_RANDOM_H_
#define LITHIFY_BASE_RANDOM_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace lithify {

// Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;  // Uniform over all 64-bit values.
};

// From the kernel's entropy source.
class SystemRandom final : public Random {
 public:
  uint64_t Next() override;
};

// splitmix64 from a seed: the same seed gives the same sequence.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override;

 private:
  std::mutex mutex_;
  uint64_t state_;
};

// 36 lower-case characters, time-ordered to the millisecond: "0193a1b2-…-7…".
std::string MakeUuidV7(const Clock& clock, Random& random);

// Creation time of a UUIDv7 text (a trailing ".parquet" is allowed); nullopt if it is not one.
std::optional<Time> UuidV7Time(std::string_view text);

}  // namespace lithify

#endif  // LITHIFY_BASE_RANDOM_H_
