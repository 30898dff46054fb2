#include "sort/key_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "sort/key_field.h"
#include "table/iceberg_value.h"

namespace lithify::sort {
namespace {

constexpr size_t kPrefixBytes = sizeof(uint64_t);

struct PlacedField {
  KeyField field;
  size_t column = 0;
};

// Appends `n` rests that are empty; `before`: rows that `out` had.
void AppendNoRests(KeyRows& out, size_t n) {
  if (out.has_rests()) out.ends.insert(out.ends.end(), n, out.bytes.size());
}

class FieldsEncoder final : public KeyEncoder {
 public:
  explicit FieldsEncoder(std::vector<PlacedField> fields) : fields_(std::move(fields)) {
    bool only_codes = true;
    bool texts = false;
    for (const PlacedField& placed : fields_) {
      usual_bytes_ += placed.field.usual_bytes();
      texts |= placed.field.usual_bytes() == 0;
      only_codes &= placed.field.only_code();
    }
    in_prefix_ = only_codes && usual_bytes_ <= kPrefixBytes;
    if (texts) usual_bytes_ = 0;
  }

  size_t key_bytes() const override { return usual_bytes_; }

  void Append(std::span<const KeyColumn> columns, size_t rows, KeyRows& out) override {
    const size_t before = out.size();
    out.prefixes.resize(before + rows);
    for (size_t begin = 0; begin < rows; begin += kBlockRows) {
      const size_t n = std::min(kBlockRows, rows - begin);
      bool all_usual = true;
      for (PlacedField& placed : fields_) {
        placed.field.Load(columns[placed.column], begin, n);
        all_usual &= placed.field.all_usual();
      }
      if (in_prefix_ && all_usual) {
        AppendCodes(before + begin, n, out);
      } else {
        AppendElements(before + begin, n, out);
      }
    }
  }

 private:
  // What this gives is what AppendElements() would.
  void AppendCodes(size_t at, size_t n, KeyRows& out) const {
    uint64_t* const prefixes = out.prefixes.data() + at;
    size_t end = 0;
    for (const PlacedField& placed : fields_) {
      end += placed.field.usual_bytes();
      const auto shift = static_cast<int>(8 * (kPrefixBytes - end));
      const uint64_t* const codes = placed.field.codes().data();
      for (size_t i = 0; i < n; ++i) prefixes[i] |= codes[i] << shift;
    }
    AppendNoRests(out, n);
  }

  void AppendElements(size_t at, size_t n, KeyRows& out) {
    places_.assign(n, 0);
    for (const PlacedField& placed : fields_) placed.field.AddBytes(places_.data());
    size_t end = 0;
    size_t rests = 0;
    begins_.resize(n + 1);
    for (size_t i = 0; i < n; ++i) {
      begins_[i] = end;
      rests += std::max(places_[i], kPrefixBytes) - kPrefixBytes;
      end += places_[i];
      places_[i] = begins_[i];
    }
    begins_[n] = end;
    if (keys_.size() < end + kPrefixBytes) keys_.resize(end + kPrefixBytes + end / 2);
    for (const PlacedField& placed : fields_) placed.field.Write(keys_.data(), places_.data());
    Split(at, n, rests, out);
  }

  // The keys of keys_ to prefixes and rests.
  void Split(size_t at, size_t n, size_t rests, KeyRows& out) const {
    for (size_t i = 0; i < n; ++i) {
      uint64_t prefix = 0;
      std::memcpy(&prefix, keys_.data() + begins_[i], sizeof prefix);
      const size_t size = begins_[i + 1] - begins_[i];
      const uint64_t beyond = size >= kPrefixBytes ? 0 : UINT64_MAX >> (8 * size);
      out.prefixes[at + i] = std::byteswap(prefix) & ~beyond;
    }
    if (rests == 0) return AppendNoRests(out, n);
    if (!out.has_rests()) out.ends.assign(at, 0);
    size_t end = out.bytes.size();
    out.ends.resize(at + n);
    // (The size that the library passes on is that of the memory.)
    out.bytes.resize_and_overwrite(end + rests, [&](char* bytes, size_t) {
      for (size_t i = 0; i < n; ++i) {
        const size_t key = begins_[i + 1] - begins_[i];
        if (key > kPrefixBytes) {
          std::memcpy(bytes + end, keys_.data() + begins_[i] + kPrefixBytes, key - kPrefixBytes);
          end += key - kPrefixBytes;
        }
        out.ends[at + i] = end;
      }
      return end;
    });
  }

  std::vector<PlacedField> fields_;
  size_t usual_bytes_ = 0;
  bool in_prefix_ = false;  // Usual keys are codes that fit into the prefix together.
  std::vector<size_t> places_;
  std::vector<size_t> begins_;
  std::vector<uint8_t> keys_;
};

}  // namespace

Result<std::unique_ptr<KeyEncoder>> MakeKeyEncoder(const RowOrder& order,
                                                   std::span<const iceberg::Type> types) {
  LITHIFY_CHECK(order.curve == Curve::kNone && types.size() == order.fields.size(),
                "an order without a curve has one type per field");
  if (order.fields.empty()) {
    return Fail(Code::kInvalid, "an order of rows without a field", {},
                "name the columns to order by");
  }
  std::vector<size_t> ordering;  // Fields that order something.
  for (size_t i = 0; i < order.fields.size(); ++i) {
    const table::Transform transform = table::ParseTransform(order.fields[i].transform);
    if (transform.kind != table::Transform::Kind::kVoid) ordering.push_back(i);
  }
  std::vector<PlacedField> fields;
  for (const size_t i : ordering) {
    LITHIFY_TRY_ASSIGN(KeyField field,
                       KeyField::Make(order.fields[i], types[i], i == ordering.back()));
    fields.push_back({std::move(field), i});
  }
  return std::make_unique<FieldsEncoder>(std::move(fields));
}

}  // namespace lithify::sort
