#include "sort/curve.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "sort/curve_bits.h"
#include "sort/curve_cells.h"

namespace lithify::sort {
namespace {

constexpr size_t kFieldsMax = 8;
constexpr size_t kRowsAtATime = 1024;
// Any: with another one other rows are kept.
constexpr uint64_t kSeed = 0x6c69'7468'6966'7921;

// A bijection (splitmix64's), so that no two rows of one input have the same number.
uint64_t DrawOf(uint64_t row) {
  uint64_t x = kSeed + row * 0x9e37'79b9'7f4a'7c15;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

void AppendSample(const KeyRows& from, size_t row, KeyRows& to) {
  to.prefixes.push_back(from.prefixes[row]);
  to.bytes += from.rest(row).substr(0, kSampledRestBytes);
  to.ends.push_back(to.bytes.size());
}

// Some rows of a column, one after the other.
class PickedRows {
 public:
  KeyColumn Pick(const KeyColumn& from, std::span<const uint32_t> rows) {
    return {Take(from.valid, rows, valid_), Take(from.words, rows, words_),
            Take(from.decimals, rows, decimals_), Take(from.bytes, rows, bytes_)};
  }

 private:
  template <typename T>
  static const T* Take(const T* from, std::span<const uint32_t> rows, std::vector<T>& to) {
    if (from == nullptr) return nullptr;
    to.clear();
    for (const uint32_t row : rows) to.push_back(from[row]);
    return to.data();
  }

  std::vector<uint8_t> valid_;
  std::vector<int64_t> words_;
  std::vector<iceberg::Int128> decimals_;
  std::vector<std::string_view> bytes_;
};

// A column of the curve: its values as keys of their own.
struct CurveColumn {
  std::unique_ptr<KeyEncoder> encoder;
  // While samples are collected, of the rows that are kept:
  KeyRows samples;
  std::vector<uint8_t> valid;
};

class CurveEncoder final : public KeyEncoder {
 public:
  CurveEncoder(std::vector<CurveColumn>& columns, Curve curve)
      : curve_(curve), interleaver_(columns.size()), coordinates_(columns.size()) {
    for (CurveColumn& column : columns) {
      KeyRows samples;
      for (size_t i = 0; i < column.valid.size(); ++i) {
        if (column.valid[i] != 0) AppendSample(column.samples, i, samples);
      }
      column.samples = {};
      encoders_.push_back(std::move(column.encoder));
      cells_.emplace_back(samples);
    }
  }

  size_t key_bytes() const override { return interleaver_.wide() ? 16 : 8; }

  void Append(std::span<const KeyColumn> columns, size_t rows, KeyRows& out) override {
    for (size_t begin = 0; begin < rows; begin += kRowsAtATime) {
      const size_t n = std::min(kRowsAtATime, rows - begin);
      for (size_t c = 0; c < encoders_.size(); ++c) Place(columns[c], c, begin, n);
      if (curve_ == Curve::kHilbert) HilbertCoordinates(coordinates_);
      AppendPositions(n, out);
    }
  }

 private:
  void Place(const KeyColumn& column, size_t c, size_t begin, size_t n) {
    const KeyColumn block = column.From(begin);
    keys_.Clear();
    encoders_[c]->Append({&block, 1}, n, keys_);
    coordinates_[c].resize(n);
    cells_[c].Look(keys_, n, coordinates_[c].data());
    if (block.valid == nullptr) return;
    for (size_t i = 0; i < n; ++i) {
      if (block.valid[i] == 0) coordinates_[c][i] = kCellOfNulls;
    }
  }

  void AppendPositions(size_t n, KeyRows& out) {
    const size_t before = out.size();
    out.prefixes.resize(before + n);
    if (!interleaver_.wide()) {
      return interleaver_.Interleave(coordinates_, n, out.prefixes.data() + before, nullptr);
    }
    low_.resize(n);
    interleaver_.Interleave(coordinates_, n, out.prefixes.data() + before, low_.data());
    for (uint64_t& low : low_) low = std::byteswap(low);
    out.bytes.append(reinterpret_cast<const char*>(low_.data()), n * sizeof(uint64_t));
    const size_t first = out.bytes.size() - n * sizeof(uint64_t);
    for (size_t i = 1; i <= n; ++i) out.ends.push_back(first + i * sizeof(uint64_t));
  }

  Curve curve_;
  Interleaver interleaver_;
  std::vector<std::unique_ptr<KeyEncoder>> encoders_;
  std::vector<CurveCells> cells_;
  KeyRows keys_;
  std::vector<std::vector<uint32_t>> coordinates_;
  std::vector<uint64_t> low_;
};

// Keeps the rows with the least draws: any rows with the same chance, whatever their number is, and
// the same ones of the same number of rows.
class Samples final : public CurveSamples {
 public:
  Samples(std::vector<CurveColumn> columns, Curve curve, size_t most)
      : columns_(std::move(columns)), curve_(curve), most_(std::max<size_t>(most, 1)) {}

  void Add(std::span<const KeyColumn> columns, size_t rows) override {
    for (size_t begin = 0; begin < rows; begin += kRowsAtATime) {
      const size_t end = std::min(begin + kRowsAtATime, rows);
      picked_.clear();
      for (size_t row = begin; row < end; ++row) {
        const uint64_t draw = DrawOf(rows_ + row);
        if (draw > draw_most_) continue;
        picked_.push_back(static_cast<uint32_t>(row - begin));
        draws_.push_back(draw);
      }
      if (!picked_.empty()) Keep(columns, begin);
      if (draws_.size() >= 2 * most_) Shrink();
    }
    rows_ += rows;
  }

  Result<std::unique_ptr<KeyEncoder>> Finish() override {
    if (draws_.size() > most_) Shrink();
    return std::make_unique<CurveEncoder>(columns_, curve_);
  }

 private:
  void Keep(std::span<const KeyColumn> columns, size_t begin) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const KeyColumn picked = picker_.Pick(columns[c].From(begin), picked_);
      keys_.Clear();
      columns_[c].encoder->Append({&picked, 1}, picked_.size(), keys_);
      for (size_t i = 0; i < picked_.size(); ++i) {
        AppendSample(keys_, i, columns_[c].samples);
        columns_[c].valid.push_back(picked.valid == nullptr || picked.valid[i] != 0 ? 1 : 0);
      }
    }
  }

  // To `most_` rows; from now on none is picked that would not be kept.
  void Shrink() {
    std::vector<uint64_t> draws = draws_;
    const auto last = draws.begin() + static_cast<ptrdiff_t>(most_) - 1;
    std::ranges::nth_element(draws, last);
    draw_most_ = *last;
    for (CurveColumn& column : columns_) {
      KeyRows samples;
      std::vector<uint8_t> valid;
      for (size_t i = 0; i < draws_.size(); ++i) {
        if (draws_[i] > draw_most_) continue;
        AppendSample(column.samples, i, samples);
        valid.push_back(column.valid[i]);
      }
      column.samples = std::move(samples);
      column.valid = std::move(valid);
    }
    std::erase_if(draws_, [this](uint64_t draw) { return draw > draw_most_; });
  }

  std::vector<CurveColumn> columns_;
  Curve curve_;
  size_t most_;
  uint64_t rows_ = 0;  // Seen in earlier calls.
  uint64_t draw_most_ = UINT64_MAX;
  std::vector<uint64_t> draws_;  // Of the rows that are kept.
  std::vector<uint32_t> picked_;
  PickedRows picker_;
  KeyRows keys_;
};

// The curve of one column is the line: its values in order.
class NoSamples final : public CurveSamples {
 public:
  explicit NoSamples(std::unique_ptr<KeyEncoder> encoder) : encoder_(std::move(encoder)) {}
  void Add(std::span<const KeyColumn>, size_t) override {}
  Result<std::unique_ptr<KeyEncoder>> Finish() override { return std::move(encoder_); }

 private:
  std::unique_ptr<KeyEncoder> encoder_;
};

Status CheckFields(const RowOrder& order) {
  if (order.fields.empty()) {
    return Fail(Code::kInvalid, "a curve without a column", {}, "name the columns to order by");
  }
  if (order.fields.size() > kFieldsMax) {
    return Fail(Code::kInvalid,
                "a curve through " + std::to_string(order.fields.size()) + " columns, at most " +
                    std::to_string(kFieldsMax) + " are possible",
                {}, "name the columns that queries filter by most");
  }
  for (const OrderField& field : order.fields) {
    if (field.transform == "identity" && field.ascending && field.nulls_first) continue;
    return Fail(
        Code::kInvalid, "a column of a curve has no transform, direction or null order",
        field.column.empty() ? "field " + std::to_string(field.field_id) : "column " + field.column,
        "name the column alone");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<CurveSamples>> MakeCurveSamples(const RowOrder& order,
                                                       std::span<const iceberg::Type> types,
                                                       size_t samples_max) {
  LITHIFY_CHECK(order.curve != Curve::kNone && types.size() == order.fields.size(),
                "an order along a curve has one type per field");
  LITHIFY_TRY(CheckFields(order));
  std::vector<CurveColumn> columns(order.fields.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const RowOrder of_one = {.fields = {order.fields[i]}, .curve = Curve::kNone};
    LITHIFY_TRY_ASSIGN(columns[i].encoder, MakeKeyEncoder(of_one, types.subspan(i, 1)));
  }
  if (columns.size() == 1) return std::make_unique<NoSamples>(std::move(columns[0].encoder));
  return std::make_unique<Samples>(std::move(columns), order.curve, samples_max);
}

}  // namespace lithify::sort
