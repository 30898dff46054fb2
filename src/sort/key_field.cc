#include "sort/key_field.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "sort/key_transform.h"
#include "table/iceberg_transform.h"

namespace lithify::sort {
namespace {

using iceberg::Int128;
using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;
using table::Transform;
using table::UInt128;

constexpr uint64_t kSign = uint64_t{1} << 63;
constexpr int kDecimalDigitsMax = 38;
constexpr size_t kUuidBytes = 16;

// A value of the type, to see what a transform says to it; null where the type has no order.
Value Specimen(const Type& type) {
  switch (type.kind) {
    case TypeKind::kBoolean: return false;
    case TypeKind::kFloat: return 0.0F;
    case TypeKind::kDouble: return 0.0;
    case TypeKind::kDecimal: return iceberg::Decimal{0};
    case TypeKind::kString:
    case TypeKind::kUuid:
    case TypeKind::kFixed:
    case TypeKind::kBinary: return std::string(kUuidBytes, '\0');
    case TypeKind::kUnknown:
    case TypeKind::kVariant:
    case TypeKind::kGeometry:
    case TypeKind::kGeography:
    case TypeKind::kStruct:
    case TypeKind::kList:
    case TypeKind::kMap: return {};
    default: return int64_t{0};
  }
}

Status Orders(const OrderField& order, const Transform& transform, const Type& type) {
  const Value specimen = Specimen(type);
  if (iceberg::IsNull(specimen)) {
    return Fail(Code::kUnsupported,
                "values of type " + std::string(table::TypeKindName(type.kind)) + " have no order",
                {}, "order by a column of another type");
  }
  if (transform.kind == Transform::Kind::kUnknown) {
    return Fail(Code::kUnsupported, "rows cannot be ordered by transform \"" + order.transform +
                                        "\": it is not one of Iceberg's with one argument");
  }
  if (auto value = table::ApplyTransform(transform, type, specimen); !value) {
    return Fail(std::move(value.error()));
  }
  return {};
}

uint64_t MaxOfBytes(size_t bytes) {
  return bytes >= 8 ? UINT64_MAX : (uint64_t{1} << (8 * bytes)) - 1;
}

// The numbers that a code of `code` bytes, followed by `tail` more, can say.
std::pair<Int128, Int128> DecimalRange(size_t code, size_t tail) {
  const UInt128 bias = UInt128{1} << (8 * (code + tail) - 1);
  const UInt128 lowest = UInt128{2} << (8 * tail);
  const UInt128 beyond = UInt128{MaxOfBytes(code) - 1} << (8 * tail);
  return {static_cast<Int128>(lowest - bias), static_cast<Int128>(beyond - 1 - bias)};
}

size_t DecimalBytes(int precision) {
  Int128 bound = 1;  // All values are below.
  for (int i = 0; i < std::clamp(precision, 1, kDecimalDigitsMax); ++i) bound *= 10;
  size_t bytes = 1;
  while (bytes < sizeof(Int128)) {
    const auto [lowest, highest] =
        DecimalRange(std::min<size_t>(bytes, 8), bytes - std::min<size_t>(bytes, 8));
    if (lowest <= 1 - bound && bound - 1 <= highest) break;
    ++bytes;
  }
  return bytes;
}

// --- bytes ---------------------------------------------------------------------------------------

constexpr uint8_t kEscapedBelow = 2;  // In texts: these bytes are written as two.

uint64_t EachByte(uint8_t byte) { return uint64_t{0x0101'0101'0101'0101} * byte; }

// Whether any of eight bytes is escaped.
bool AnyEscaped(uint64_t bytes) {
  const uint64_t without_lowest = bytes & EachByte(0xFE);
  return ((without_lowest - EachByte(1)) & ~without_lowest & EachByte(0x80)) != 0;
}

uint64_t LoadEight(const char* from) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

size_t CountEscaped(std::string_view text) {
  bool any = false;
  const char* from = text.data();
  if (text.size() >= 8) {
    const char* const last = from + text.size() - 8;
    for (; from < last; from += 8) any |= AnyEscaped(LoadEight(from));
    any |= AnyEscaped(LoadEight(last));
    if (!any) return 0;
  }
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return static_cast<uint8_t>(c) < kEscapedBelow; }));
}

void StoreBigEndian(uint64_t number, uint8_t* to) {
  number = std::byteswap(number);
  std::memcpy(to, &number, sizeof number);
}

template <size_t kBytes>
void StoreCodes(const std::vector<uint64_t>& codes, size_t n, uint8_t* base, size_t* places) {
  for (size_t i = 0; i < n; ++i) {
    const uint64_t code = std::byteswap(codes[i] << (64 - 8 * kBytes));
    std::memcpy(base + places[i], &code, kBytes);
    places[i] += kBytes;
  }
}

void StoreCodes(size_t bytes, const std::vector<uint64_t>& codes, size_t n, uint8_t* base,
                size_t* places) {
  switch (bytes) {
    case 1: return StoreCodes<1>(codes, n, base, places);
    case 2: return StoreCodes<2>(codes, n, base, places);
    case 3: return StoreCodes<3>(codes, n, base, places);
    case 4: return StoreCodes<4>(codes, n, base, places);
    case 5: return StoreCodes<5>(codes, n, base, places);
    case 6: return StoreCodes<6>(codes, n, base, places);
    case 7: return StoreCodes<7>(codes, n, base, places);
    default: return StoreCodes<8>(codes, n, base, places);
  }
}

// `size` bytes from `begin` on; those that a value does not have are zero.
void StoreFixed(std::string_view value, size_t begin, size_t size, uint8_t* to) {
  if (size == 8 && value.size() >= begin + 8) {  // Both halves of a uuid.
    std::memcpy(to, value.data() + begin, 8);
    return;
  }
  const size_t end = std::min(value.size(), begin + size);
  const size_t there = end > begin ? end - begin : 0;
  if (there > 0) std::memcpy(to, value.data() + begin, there);
  std::memset(to + there, 0, size - there);
}

}  // namespace

// --- shape ---------------------------------------------------------------------------------------

Result<KeyField> KeyField::Make(const OrderField& order, const Type& type, bool last) {
  KeyField field;
  field.source_ = type.kind;
  field.transform_ = table::ParseTransform(order.transform);
  if (Status orders = Orders(order, field.transform_, type); !orders) {
    return Fail(std::move(orders.error())
                    .In(order.column.empty() ? "field " + std::to_string(order.field_id)
                                             : "column " + order.column));
  }
  field.descending_ = !order.ascending;
  field.null_low_ = order.nulls_first == order.ascending;
  field.last_ = last;
  field.Shape(type);
  field.turned_ = field.descending_ ? field.code_max_ : 0;
  field.numbers_.resize(kBlockRows);
  field.codes_.resize(kBlockRows);
  return field;
}

void KeyField::SignedCodes(size_t bytes) {
  code_bytes_ = bytes;
  code_max_ = MaxOfBytes(bytes);
  bias_ = uint64_t{1} << (8 * bytes - 1);
  lowest_ = static_cast<int64_t>(2 - bias_);
  highest_ = static_cast<int64_t>(code_max_ - 2 - bias_);
}

void KeyField::UnsignedCodes(uint64_t highest) {
  code_bytes_ = 1;
  while (MaxOfBytes(code_bytes_) - 4 < highest) ++code_bytes_;
  code_max_ = MaxOfBytes(code_bytes_);
  bias_ = 2;
  lowest_ = 0;
  highest_ = static_cast<int64_t>(highest);
}

void KeyField::Shape(const Type& type) {
  switch (transform_.kind) {
    case Transform::Kind::kBucket:
      return UnsignedCodes(static_cast<uint64_t>(transform_.parameter) - 1);
    case Transform::Kind::kYear: return SignedCodes(3);
    case Transform::Kind::kMonth:
    case Transform::Kind::kDay:
    case Transform::Kind::kHour: return SignedCodes(4);
    default: break;
  }
  switch (type.kind) {
    case TypeKind::kBoolean: return UnsignedCodes(1);
    case TypeKind::kInt:
    case TypeKind::kDate:
    case TypeKind::kFloat: return SignedCodes(4);
    case TypeKind::kDecimal: {
      form_ = Form::kDecimal;
      const size_t bytes = DecimalBytes(type.precision);
      code_bytes_ = std::min<size_t>(bytes, 8);
      tail_bytes_ = bytes - code_bytes_;
      std::tie(decimal_lowest_, decimal_highest_) = DecimalRange(code_bytes_, tail_bytes_);
      break;
    }
    case TypeKind::kUuid:
    case TypeKind::kFixed: {
      form_ = Form::kFixed;
      fixed_bytes_ =
          type.kind == TypeKind::kUuid ? kUuidBytes : static_cast<size_t>(std::max(type.length, 1));
      code_bytes_ = std::min<size_t>(fixed_bytes_, 8);
      tail_bytes_ = fixed_bytes_ - code_bytes_;
      break;
    }
    case TypeKind::kString:
    case TypeKind::kBinary: form_ = Form::kText; break;
    default: return SignedCodes(8);
  }
  code_max_ = MaxOfBytes(code_bytes_);
}

// --- loading -------------------------------------------------------------------------------------

void KeyField::Load(const KeyColumn& column, size_t begin, size_t n) {
  column_ = column.From(begin);
  rows_ = n;
  all_usual_ = true;
  switch (form_) {
    case Form::kWord: return LoadNumbers();
    case Form::kDecimal: return LoadDecimals();
    case Form::kFixed: return LoadFixed();
    case Form::kText: return LoadTexts();
  }
}

void KeyField::SetMore(size_t i, More more) {
  if (all_usual_) more_.assign(rows_, More::kTail);
  all_usual_ = false;
  more_[i] = more;
}

void KeyField::SetNull(size_t i) {
  codes_[i] = (null_low_ ? 0 : code_max_) ^ turned_;
  if (tail_bytes_ > 0) SetMore(i, More::kNull);
}

void KeyField::SetBeyond(size_t i, bool below) {
  codes_[i] = (below ? 1 : code_max_ - 1) ^ turned_;
  SetMore(i, More::kWhole);
}

void KeyField::LoadNumbers() {
  const int buckets = transform_.parameter;
  if (column_.decimals != nullptr) {
    for (size_t i = 0; i < rows_; ++i) {
      numbers_[i] = table::BucketOf(table::BucketHash(column_.decimals[i]), buckets);
    }
  } else if (column_.bytes != nullptr) {
    for (size_t i = 0; i < rows_; ++i) {
      numbers_[i] = valid(i) ? table::BucketOf(table::BucketHash(column_.bytes[i]), buckets) : 0;
    }
  } else {
    LITHIFY_CHECK(column_.words != nullptr, "a column of numbers comes without them");
    TransformWords(transform_, source_, column_.words, rows_, numbers_.data());
  }

  int beyond = 0;
  for (size_t i = 0; i < rows_; ++i) {
    codes_[i] = ((static_cast<uint64_t>(numbers_[i]) + bias_) & code_max_) ^ turned_;
    beyond |= static_cast<int>(numbers_[i] < lowest_) | static_cast<int>(numbers_[i] > highest_);
  }
  if (column_.valid != nullptr) {
    const uint64_t null = (null_low_ ? 0 : code_max_) ^ turned_;
    for (size_t i = 0; i < rows_; ++i) codes_[i] = column_.valid[i] != 0 ? codes_[i] : null;
  }
  if (beyond == 0) return;
  for (size_t i = 0; i < rows_; ++i) {
    if (!valid(i) || (numbers_[i] >= lowest_ && numbers_[i] <= highest_)) continue;
    SetBeyond(i, numbers_[i] < lowest_);
  }
}

void KeyField::LoadDecimals() {
  LITHIFY_CHECK(column_.decimals != nullptr, "a column of decimals comes without them");
  decimals_.assign(column_.decimals, column_.decimals + rows_);
  if (transform_.kind == Transform::Kind::kTruncate) {
    for (Int128& decimal : decimals_)
      decimal = table::TruncateDecimal(decimal, transform_.parameter);
  }
  tails_.resize(rows_);
  const size_t bytes = code_bytes_ + tail_bytes_;
  const UInt128 bias = UInt128{1} << (8 * bytes - 1);
  const auto left = static_cast<int>(128 - 8 * bytes);
  const auto right = static_cast<int>(64 - 8 * code_bytes_);
  for (size_t i = 0; i < rows_; ++i) {
    const UInt128 biased = (static_cast<UInt128>(decimals_[i]) + bias) << left;
    codes_[i] = (static_cast<uint64_t>(biased >> 64) >> right) ^ turned_;
    tails_[i] = static_cast<uint64_t>(biased);
    if (!valid(i)) {
      SetNull(i);
    } else if (decimals_[i] < decimal_lowest_ || decimals_[i] > decimal_highest_) {
      SetBeyond(i, decimals_[i] < decimal_lowest_);
    }
  }
}

void KeyField::LoadFixed() {
  LITHIFY_CHECK(column_.bytes != nullptr, "a column of fixed bytes comes without them");
  std::array<uint8_t, 8> head{};
  for (size_t i = 0; i < rows_; ++i) {
    if (!valid(i)) {
      SetNull(i);
      continue;
    }
    StoreFixed(column_.bytes[i], 0, code_bytes_, head.data() + 8 - code_bytes_);
    const uint64_t code = std::byteswap(std::bit_cast<uint64_t>(head));
    codes_[i] = code ^ turned_;
    if (code < 2 || code > code_max_ - 2) SetBeyond(i, code < 2);
  }
}

void KeyField::LoadTexts() {
  LITHIFY_CHECK(column_.bytes != nullptr, "a column of texts comes without them");
  texts_.resize(rows_);
  sizes_.resize(rows_);
  for (size_t i = 0; i < rows_; ++i) {
    if (!valid(i)) {
      sizes_[i] = 1;
      continue;
    }
    std::string_view text = column_.bytes[i];
    if (transform_.kind == Transform::Kind::kTruncate) {
      text = source_ == TypeKind::kString
                 ? table::TruncateUtf8(text, transform_.parameter)
                 : text.substr(0, static_cast<size_t>(transform_.parameter));
    }
    texts_[i] = text;
    sizes_[i] = TextBytes(text);
  }
}

// --- elements ------------------------------------------------------------------------------------

void KeyField::AddBytes(size_t* sizes) const {
  if (form_ == Form::kText) {
    for (size_t i = 0; i < rows_; ++i) sizes[i] += sizes_[i];
  } else if (all_usual_) {
    for (size_t i = 0; i < rows_; ++i) sizes[i] += code_bytes_ + tail_bytes_;
  } else {
    for (size_t i = 0; i < rows_; ++i) sizes[i] += code_bytes_ + MoreBytes(more_[i]);
  }
}

size_t KeyField::MoreBytes(More more) const {
  if (more == More::kTail) return tail_bytes_;
  if (more == More::kNull) return 0;
  return form_ == Form::kWord      ? sizeof(int64_t)
         : form_ == Form::kDecimal ? sizeof(Int128)
                                   : fixed_bytes_;
}

void KeyField::Write(uint8_t* base, size_t* places) const {
  if (form_ == Form::kText) {
    for (size_t i = 0; i < rows_; ++i) {
      WriteText(i, base + places[i]);
      places[i] += sizes_[i];
    }
    return;
  }
  StoreCodes(code_bytes_, codes_, rows_, base, places);
  if (all_usual_ && tail_bytes_ == 0) return;
  for (size_t i = 0; i < rows_; ++i) {
    const More more = all_usual_ ? More::kTail : more_[i];
    const size_t size = MoreBytes(more);
    if (size == 0) continue;
    WriteMore(i, more, base + places[i]);
    if (descending_) Turn(base + places[i], size);
    places[i] += size;
  }
}

void KeyField::Turn(uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(~bytes[i]);
}

void KeyField::WriteMore(size_t i, More more, uint8_t* to) const {
  const bool whole = more == More::kWhole;
  switch (form_) {
    case Form::kWord: return StoreBigEndian(static_cast<uint64_t>(numbers_[i]) ^ kSign, to);
    case Form::kDecimal: {
      if (whole) {
        const auto bits = static_cast<UInt128>(decimals_[i]);
        StoreBigEndian(static_cast<uint64_t>(bits >> 64) ^ kSign, to);
        return StoreBigEndian(static_cast<uint64_t>(bits), to + 8);
      }
      const uint64_t tail = std::byteswap(tails_[i]);
      std::memcpy(to, &tail, tail_bytes_);
      return;
    }
    default:
      return whole ? StoreFixed(column_.bytes[i], 0, fixed_bytes_, to)
                   : StoreFixed(column_.bytes[i], code_bytes_, tail_bytes_, to);
  }
}

// The byte of a first place is escaped by another byte than those behind it: null_low_ takes 00 for
// null and 01 for the empty text; otherwise 00 is the end of an empty text like of any other, and
// FF null.
std::pair<uint8_t, uint8_t> KeyField::First(uint8_t byte) const {
  if (null_low_)
    return byte <= 2 ? std::pair<uint8_t, uint8_t>(2, byte + 1)
                     : std::pair<uint8_t, uint8_t>(byte, 0);
  if (byte < kEscapedBelow) return {1, byte + 1};
  if (byte >= 0xFE) return {0xFE, byte - 0xFE + 1};
  return {byte, 0};
}

size_t KeyField::TextBytes(std::string_view text) const {
  if (text.empty()) return null_low_ || ends() ? 1 : 0;
  const size_t first = First(static_cast<uint8_t>(text[0])).second == 0 ? 1 : 2;
  return first + text.size() - 1 + CountEscaped(text.substr(1)) + (ends() ? 1 : 0);
}

void KeyField::WriteText(size_t i, uint8_t* to) const {
  const std::string_view text = texts_[i];
  const size_t size = sizes_[i];
  uint8_t* next = to;
  if (!valid(i)) {
    *next = null_low_ ? 0 : 0xFF;
  } else if (text.empty()) {
    if (size > 0) *next = null_low_ ? 1 : 0;
  } else if (size == text.size() + (ends() ? 1 : 0)) {
    std::memcpy(next, text.data(), text.size());
    if (ends()) next[text.size()] = 0;
  } else {
    const auto [first, second] = First(static_cast<uint8_t>(text[0]));
    *next++ = first;
    if (second != 0) *next++ = second;
    for (const char c : text.substr(1)) {
      const auto byte = static_cast<uint8_t>(c);
      if (byte < kEscapedBelow) *next++ = 1;
      *next++ = byte < kEscapedBelow ? byte + 1 : byte;
    }
    if (ends()) *next = 0;
  }
  if (descending_) Turn(to, size);
}

}  // namespace lithify::sort
