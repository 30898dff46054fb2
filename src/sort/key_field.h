// One field of an order: values of a block of rows to elements of their keys.
//
// An element is compared as bytes, and no element of a field begins with another one: then keys,
// which are elements one after the other, compare like the rows. Ascending, an element is
//   numbers: a code of few bytes, most significant first. Two codes at either end stand for no
//     number: the outer one is null, the other says that the value is beyond what codes can say, on
//     that side, and follows in full. So neither null nor the ends of a type's range cost the other
//     values a byte, and a long or a timestamp fits into the prefix of a key.
//   decimals, uuid, fixed: a code of up to eight bytes as above, then the bytes that are left.
//   string, binary: the bytes, 00 and 01 among them as 01 01 and 01 02, and 00 at the end, which is
//     left out where nothing follows. In the place of the first byte one (two) more are escaped,
//     to be free for null and for the empty text.
// Descending, all bits of an element are turned.
//
// Thread safety: a field serves one thread at a time.
#ifndef LITHIFY_SORT_KEY_FIELD_H_
#define LITHIFY_SORT_KEY_FIELD_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"
#include "base/row_order.h"
#include "sort/key_encoder.h"
#include "table/iceberg_value.h"

namespace lithify::sort {

// Small enough for the first caches, large enough for loops.
inline constexpr size_t kBlockRows = 1024;

class KeyField {
 public:
  // `last`: nothing follows the elements of this field.
  static Result<KeyField> Make(const OrderField& order, const iceberg::Type& type, bool last);

  // Bytes of an element but for null and for values at the ends of the range; 0: they differ.
  size_t usual_bytes() const { return form_ == Form::kText ? 0 : code_bytes_ + tail_bytes_; }
  // Whether usual elements are nothing but a code.
  bool only_code() const { return form_ != Form::kText && tail_bytes_ == 0; }

  // Takes up the rows [begin, begin + n) of the column, for the calls that follow. n is at most
  // kBlockRows, and `column` stays as it is until then.
  void Load(const KeyColumn& column, size_t begin, size_t n);
  // Of what is loaded. Where only_code(), and no element has more: codes()[i] is the whole element,
  // as a number of usual_bytes() bytes.
  bool all_usual() const { return all_usual_; }
  const std::vector<uint64_t>& codes() const { return codes_; }
  void AddBytes(size_t* sizes) const;  // Adds the size of each element.
  // Writes each element at base + places[i], and moves the place behind it.
  void Write(uint8_t* base, size_t* places) const;

 private:
  enum class Form { kWord, kDecimal, kFixed, kText };
  // What an element is besides its code.
  enum class More : uint8_t { kTail, kNull, kWhole };

  void Shape(const iceberg::Type& type);
  void SignedCodes(size_t bytes);
  void UnsignedCodes(uint64_t highest);

  bool valid(size_t i) const { return column_.valid == nullptr || column_.valid[i] != 0; }
  void LoadNumbers();
  void LoadDecimals();
  void LoadFixed();
  void LoadTexts();
  void SetMore(size_t i, More more);
  void SetNull(size_t i);
  void SetBeyond(size_t i, bool below);

  size_t MoreBytes(More more) const;
  void WriteMore(size_t i, More more, uint8_t* to) const;
  bool ends() const { return !last_ || descending_; }  // Whether a byte ends a text.
  std::pair<uint8_t, uint8_t> First(uint8_t byte) const;
  size_t TextBytes(std::string_view text) const;
  void WriteText(size_t i, uint8_t* to) const;
  static void Turn(uint8_t* bytes, size_t size);

  Form form_ = Form::kWord;
  iceberg::TypeKind source_ = iceberg::TypeKind::kLong;
  table::Transform transform_;
  bool null_low_ = true;  // Before the bits are turned.
  bool descending_ = false;
  bool last_ = false;
  size_t code_bytes_ = 8;
  size_t tail_bytes_ = 0;
  size_t fixed_bytes_ = 0;  // Of a value of kFixed.
  uint64_t code_max_ = UINT64_MAX;
  uint64_t turned_ = 0;  // What descending codes are combined with.
  int64_t lowest_ = 0;   // Of the numbers that a code can say.
  int64_t highest_ = 0;
  uint64_t bias_ = 0;  // From a number to its code.
  iceberg::Int128 decimal_lowest_ = 0;
  iceberg::Int128 decimal_highest_ = 0;

  // Of the block that is loaded.
  KeyColumn column_;  // From its first row on.
  size_t rows_ = 0;
  bool all_usual_ = true;
  std::vector<int64_t> numbers_;
  std::vector<uint64_t> codes_;
  std::vector<iceberg::Int128> decimals_;
  std::vector<uint64_t> tails_;  // Of decimals, the first byte uppermost.
  std::vector<More> more_;       // Where not all are usual.
  std::vector<std::string_view> texts_;
  std::vector<size_t> sizes_;  // Of texts.
};

}  // namespace lithify::sort

#endif  // LITHIFY_SORT_KEY_FIELD_H_
