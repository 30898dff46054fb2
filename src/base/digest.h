// Order-independent content digests: proof that a rewrite kept every row (R220, R229).
//
// A Digest128 is a pair of sums, each modulo 2^64, over two hashes of every row, so the order of
// rows and their split over files do not matter, and a lost, doubled or altered row does. (No carry
// from one to the other: the sums of a batch are taken in vector registers.) `rows` is kept beside
// it. Two multisets of rows that differ give the same digest with probability about 2^-64 or less
// against accidents; it is no defence against an adversary who chooses the rows.
#ifndef LITHIFY_BASE_DIGEST_H_
#define LITHIFY_BASE_DIGEST_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace lithify {

struct Digest128 {
  uint64_t lo = 0;
  uint64_t hi = 0;

  void Add(uint64_t other_lo, uint64_t other_hi) {
    lo += other_lo;
    hi += other_hi;
  }
  void Add(const Digest128& other) { Add(other.lo, other.hi); }
  bool operator==(const Digest128&) const = default;

  std::string ToHex() const;  // 32 lower-case hexadecimal digits, high half first.
  static Result<Digest128> FromHex(std::string_view hex);
};

// Digests of a set of rows: one per leaf column (by dotted path) and one over whole rows, which
// also catches values that moved from one row to another.
struct ContentDigest {
  int64_t rows = 0;
  Digest128 row;
  std::map<std::string, Digest128> columns;

  // Sums `other` in; a column that one side lacks is taken as the other side's.
  void Add(const ContentDigest& other);
  bool operator==(const ContentDigest&) const = default;
  // Empty if equal; else what differs, in words ("column body: … != …").
  std::string Difference(const ContentDigest& other) const;
};

}  // namespace lithify

#endif  // LITHIFY_BASE_DIGEST_H_
