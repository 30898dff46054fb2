// Values as PLAIN pages and dictionaries hold them: some of them taken out, and their bounds. No
// Arrow.
#ifndef LITHIFY_REWRITE_PLAIN_VALUES_H_
#define LITHIFY_REWRITE_PLAIN_VALUES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rewrite/row_mask.h"

namespace lithify::rewrite {

// How one value lies in a page.
struct PlainForm {
  enum class Kind { kBoolean, kFixed, kByteArray };
  Kind kind = Kind::kFixed;
  int bytes = 0;  // Of a value; kFixed only, and at least 1.
};

// How values compare (Parquet, "ColumnOrder").
enum class ValueOrder {
  kNone,         // Not at all, or in a way that is not known here.
  kSigned,       // Integers of 4 or 8 bytes.
  kUnsigned,     // Likewise; booleans.
  kFloat,        // Of 4 or 8 bytes.
  kBytes,        // By unsigned bytes.
  kSignedBytes,  // Big-endian numbers of one length in two's complement.
};

// Appends the values in `keep`, which are ordered and within [0, count), of the `count` values that
// `plain` begins with, to `kept` and the others to `left` (null: they are not wanted). kCorrupt:
// `plain` is cut off.
Status SplitPlain(const PlainForm& form, std::span<const uint8_t> plain, int64_t count,
                  std::span<const EntryRange> keep, std::string* kept, std::string* left);

// The error of values that end too early.
std::unexpected<Error> ValuesCutOff();

// Where the byte array after the one at `at`, which is within `plain`, begins; 0: it is cut off.
size_t NextByteArray(std::span<const uint8_t> plain, size_t at);

// The least and the greatest of many values. NaNs are none of them, as in Parquet's statistics.
class ValueBounds {
 public:
  ValueBounds(const PlainForm& form, ValueOrder order) : form_(form), order_(order) {}

  bool ordered() const { return order_ != ValueOrder::kNone; }
  // The `count` values that `plain` begins with. kCorrupt: it is cut off.
  Status Add(std::span<const uint8_t> plain, int64_t count);
  // What another has seen.
  void Add(const ValueBounds& other);
  // A value by itself, as statistics state it: without a length in front.
  void AddValue(std::string_view value);
  // Of none, nothing.
  const std::optional<std::string>& min() const { return min_; }
  const std::optional<std::string>& max() const { return max_; }
  bool Less(std::string_view a, std::string_view b) const;

 private:
  template <typename T>
  void AddNumbers(std::span<const uint8_t> plain, int64_t count);
  void AddBooleans(std::span<const uint8_t> plain, int64_t count);

  PlainForm form_;
  ValueOrder order_;
  std::optional<std::string> min_;
  std::optional<std::string> max_;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_PLAIN_VALUES_H_
