#include "sort/curve.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sort/column_fixture.h"
#include "sort/curve_bits.h"
#include "sort/curve_cells.h"

namespace lithify::sort {
namespace {

using iceberg::Type;
using iceberg::TypeKind;
using iceberg::Value;

__extension__ typedef unsigned __int128 UInt128;

RowOrder Along(Curve curve, size_t columns) {
  return {.fields = std::vector<OrderField>(columns), .curve = curve};
}

std::vector<KeyColumn> ColumnsOf(const std::vector<ValueColumn>& columns, size_t begin) {
  std::vector<KeyColumn> all;
  for (const ValueColumn& column : columns) all.push_back(column.rows(begin));
  return all;
}

KeyRows CurveKeys(Curve curve, std::span<const Type> types, const std::vector<ValueColumn>& columns,
                  size_t samples_max, size_t at_a_time = 1 << 20) {
  const size_t rows = columns[0].values.size();
  auto samples = MakeCurveSamples(Along(curve, columns.size()), types, samples_max).value();
  for (size_t begin = 0; begin < rows; begin += at_a_time) {
    samples->Add(ColumnsOf(columns, begin), std::min(at_a_time, rows - begin));
  }
  const auto encoder = samples->Finish().value();
  KeyRows keys;
  for (size_t begin = 0; begin < rows; begin += at_a_time) {
    encoder->Append(ColumnsOf(columns, begin), std::min(at_a_time, rows - begin), keys);
  }
  return keys;
}

// --- bits ----------------------------------------------------------------------------------------

TEST(CurveBits, BitsAlternate) {
  SeededRandom random(3);
  for (size_t n = 1; n <= 8; ++n) {
    std::vector<std::vector<uint32_t>> columns(n);
    for (auto& column : columns) {
      for (int i = 0; i < 50; ++i) column.push_back(random.Next() & 0xFFFF);
    }
    const Interleaver interleaver(n);
    EXPECT_EQ(interleaver.wide(), n > 4);
    std::vector<uint64_t> high(50);
    std::vector<uint64_t> low(50);
    interleaver.Interleave(columns, 50, high.data(), low.data());
    for (size_t i = 0; i < 50; ++i) {
      UInt128 right = 0;
      for (int bit = 15; bit >= 0; --bit) {
        for (const auto& column : columns) right = right << 1 | (column[i] >> bit & 1);
      }
      right <<= 128 - 16 * n;
      EXPECT_EQ(high[i], static_cast<uint64_t>(right >> 64));
      EXPECT_EQ(low[i], n > 4 ? static_cast<uint64_t>(right) : 0);
    }
  }
}

// A cube at the origin is the beginning of the curve: all its points follow each other, and each is
// a neighbour of the one before.
TEST(CurveBits, TheHilbertCurveGoesFromNeighbourToNeighbour) {
  const struct {
    size_t dimensions;
    uint32_t side;
  } kCubes[] = {{2, 64}, {3, 16}, {4, 8}, {5, 4}, {6, 4}, {7, 2}, {8, 4}};
  for (const auto& [n, side] : kCubes) {
    size_t points = 1;
    for (size_t d = 0; d < n; ++d) points *= side;
    std::vector<std::vector<uint32_t>> columns(n, std::vector<uint32_t>(points));
    for (size_t i = 0; i < points; ++i) {
      size_t rest = i;
      for (size_t d = 0; d < n; ++d, rest /= side) columns[d][i] = rest % side;
    }
    std::vector<std::vector<uint32_t>> turned = columns;
    HilbertCoordinates(turned);
    std::vector<uint64_t> high(points);
    std::vector<uint64_t> low(points);
    Interleaver(n).Interleave(turned, points, high.data(), low.data());
    std::vector<size_t> by_position(points, SIZE_MAX);
    for (size_t i = 0; i < points; ++i) {
      const auto position =
          static_cast<size_t>((UInt128{high[i]} << 64 | low[i]) >> (128 - 16 * n));
      ASSERT_LT(position, points);
      by_position[position] = i;
    }
    for (size_t p = 1; p < points; ++p) {
      uint32_t far = 0;
      for (const auto& column : columns) {
        const uint32_t a = column[by_position.at(p - 1)];
        const uint32_t b = column[by_position.at(p)];
        far += a > b ? a - b : b - a;
      }
      ASSERT_EQ(far, 1U) << n << " dimensions, position " << p;
    }
  }
}

// --- cells ---------------------------------------------------------------------------------------

KeyRows KeysOf(const Type& type, const ValueColumn& column) {
  const RowOrder order = {.fields = std::vector<OrderField>(1)};
  KeyRows keys;
  const KeyColumn rows = column.rows();
  MakeKeyEncoder(order, {&type, 1}).value()->Append({&rows, 1}, column.values.size(), keys);
  return keys;
}

TEST(CurveCells, FollowTheOrderOfAnyValues) {
  const bool holds = rc::check("cells", [](uint64_t seed) {
    ValueSource source(seed);
    for (const Type& type :
         {TypeOf(TypeKind::kLong), TypeOf(TypeKind::kString), TypeOf(TypeKind::kDouble),
          TypeOf(TypeKind::kUuid), TypeOf(TypeKind::kDecimal, 30), TypeOf(TypeKind::kBinary)}) {
      const CurveCells cells(KeysOf(type, source.Column(type, source.Below(200), 0)));
      const KeyRows keys = KeysOf(type, source.Column(type, 60, 0));
      std::vector<uint32_t> found(60);
      cells.Look(keys, 60, found.data());
      for (size_t i = 0; i < 60; ++i) {
        RC_ASSERT(found[i] > kCellOfNulls && found[i] <= kCellMax);
        for (size_t j = 0; j < 60; ++j) {
          if (CompareKeys(keys, i, keys, j) <= 0) RC_ASSERT(found[i] <= found[j]);
        }
      }
    }
  });
  ASSERT_TRUE(holds);
}

size_t DifferentCells(const Type& type, const std::vector<Value>& values) {
  const KeyRows keys = KeysOf(type, ValueColumn(type, values));
  std::vector<uint32_t> found(keys.size());
  CurveCells(keys).Look(keys, keys.size(), found.data());
  return std::set<uint32_t>(found.begin(), found.end()).size();
}

TEST(CurveCells, TextsAreToldApartFarBehindTheirBeginnings) {
  std::vector<Value> values;
  for (int i = 1000; i < 3000; ++i) {
    values.emplace_back("https://example.org/catalog/items/" + std::to_string(i) + "/view");
  }
  EXPECT_EQ(DifferentCells(TypeOf(TypeKind::kString), values), 2000U);
  // And where the eight bytes that differ first do not tell them all apart.
  for (int i = 1000; i < 2000; ++i) {
    values.emplace_back("https://example.org/catalog/unlimited/" + std::to_string(i));
  }
  EXPECT_EQ(DifferentCells(TypeOf(TypeKind::kString), values), 3000U);
  values.emplace_back("");
  values.emplace_back("z");
  EXPECT_EQ(DifferentCells(TypeOf(TypeKind::kString), values), 3002U);
}

TEST(CurveCells, AFrequentValueLeavesOthersTheirCells) {
  std::vector<Value> values(90'000, Value(int64_t{5000}));
  for (int64_t i = 0; i < 10'000; ++i) values.emplace_back(i);
  // A tenth of the cells for a tenth of the rows.
  EXPECT_GE(DifferentCells(TypeOf(TypeKind::kLong), values), 6500U);
  values.resize(50'000);
  for (int64_t i = 0; i < 10'000; ++i) values.emplace_back(i);
  EXPECT_EQ(DifferentCells(TypeOf(TypeKind::kLong), values), 10'000U);
}

// --- keys ----------------------------------------------------------------------------------------

TEST(Curve, NullsHaveTheLowestCellOfTheirOwn) {
  const std::vector<Type> types = {TypeOf(TypeKind::kLong), TypeOf(TypeKind::kString)};
  std::vector<ValueColumn> columns;
  columns.emplace_back(types[0], std::vector<Value>{Value(), Value(INT64_MIN), Value(int64_t{3}),
                                                    Value(), Value(int64_t{3})});
  columns.emplace_back(types[1],
                       std::vector<Value>{Value(), Value(), Value(), Value("a"), Value("")});
  const KeyRows keys = CurveKeys(Curve::kZOrder, types, columns, 100);
  EXPECT_EQ(keys.prefixes[0], 0U);
  EXPECT_FALSE(keys.has_rests());
  EXPECT_EQ(std::set<uint64_t>(keys.prefixes.begin(), keys.prefixes.end()).size(), 5U);
  // Also where no sample was null.
  auto samples = MakeCurveSamples(Along(Curve::kZOrder, 2), types, 100).value();
  samples->Add(ColumnsOf(columns, 4), 1);
  KeyRows later;
  const auto encoder = samples->Finish().value();
  EXPECT_EQ(encoder->key_bytes(), 8U);
  encoder->Append(ColumnsOf(columns, 0), 5, later);
  EXPECT_EQ(later.prefixes[0], 0U);
  EXPECT_EQ(std::ranges::count(later.prefixes, 0U), 1);
}

// R232: what is kept follows from the number of rows alone, not from how they come.
TEST(Curve, EqualRowsHaveEqualKeysHoweverTheyCome) {
  ValueSource source(9);
  const std::vector<Type> types = {TypeOf(TypeKind::kDouble), TypeOf(TypeKind::kString),
                                   TypeOf(TypeKind::kDecimal, 12), TypeOf(TypeKind::kUuid),
                                   TypeOf(TypeKind::kDate)};
  for (const size_t n : {size_t{2}, size_t{5}}) {
    std::vector<ValueColumn> columns;
    for (size_t c = 0; c < n; ++c) columns.push_back(source.Column(types[c], 5000, 10));
    const std::span<const Type> of(types.data(), n);
    const KeyRows once = CurveKeys(Curve::kHilbert, of, columns, 300);
    for (const size_t at_a_time : {size_t{1}, size_t{77}, size_t{1024}, size_t{1025}}) {
      const KeyRows keys = CurveKeys(Curve::kHilbert, of, columns, 300, at_a_time);
      EXPECT_EQ(keys.prefixes, once.prefixes);
      EXPECT_EQ(keys.bytes, once.bytes);
      EXPECT_EQ(keys.ends, once.ends);
    }
    EXPECT_EQ(once.bytes.size(), n == 5 ? 8U * 5000 : 0U);
    EXPECT_NE(CurveKeys(Curve::kHilbert, of, columns, 301).prefixes, once.prefixes);
  }
}

TEST(Curve, OneColumnIsItsOrder) {
  ValueSource source(2);
  const Type type = TypeOf(TypeKind::kString);
  std::vector<ValueColumn> columns;
  columns.push_back(source.Column(type, 50, 5));
  const KeyRows right = KeysOf(type, columns[0]);
  const KeyRows keys = CurveKeys(Curve::kZOrder, {&type, 1}, columns, 10);
  EXPECT_EQ(keys.prefixes, right.prefixes);
  EXPECT_EQ(keys.bytes, right.bytes);
}

TEST(Curve, WithoutARowThereAreStillKeys) {
  const std::vector<Type> types(2, TypeOf(TypeKind::kLong));
  const auto encoder =
      MakeCurveSamples(Along(Curve::kHilbert, 2), types, 10).value()->Finish().value();
  ValueSource source(1);
  std::vector<ValueColumn> columns;
  for (const Type& type : types) columns.push_back(source.Column(type, 3, 0));
  KeyRows keys;
  encoder->Append(ColumnsOf(columns, 0), 3, keys);
  EXPECT_EQ(keys.prefixes[0], keys.prefixes[1]);
  EXPECT_EQ(keys.size(), 3U);
}

TEST(Curve, Refusals) {
  const std::vector<Type> types(9, TypeOf(TypeKind::kLong));
  const auto refused = [&](const RowOrder& order, Code code) {
    const auto samples = MakeCurveSamples(order, std::span(types).first(order.fields.size()), 10);
    ASSERT_FALSE(samples);
    EXPECT_EQ(samples.error().code, code) << samples.error().ToString();
  };
  refused(Along(Curve::kZOrder, 9), Code::kInvalid);
  refused(Along(Curve::kZOrder, 0), Code::kInvalid);
  RowOrder order = Along(Curve::kZOrder, 2);
  order.fields[1].ascending = false;
  refused(order, Code::kInvalid);
  order = Along(Curve::kZOrder, 2);
  order.fields[0].transform = "bucket[4]";
  refused(order, Code::kInvalid);
  const std::vector<Type> geometry(2, TypeOf(TypeKind::kGeometry));
  EXPECT_EQ(MakeCurveSamples(Along(Curve::kZOrder, 2), geometry, 10).error().code,
            Code::kUnsupported);
}

// --- what a curve is for -------------------------------------------------------------------------

constexpr size_t kRows = 1 << 16;
constexpr size_t kFiles = 64;
constexpr size_t kSamples = 20'000;

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  double Uniform() { return static_cast<double>(random_.Next() >> 11) * 0x1p-53; }
  double Exponential() { return -std::log1p(-Uniform()); }
  // Near enough to a normal distribution.
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }
  // Of 10,000 values, the frequent ones anywhere among the others.
  double Zipf() {
    if (zipf_.empty()) {
      double sum = 0;
      for (int i = 1; i <= 10'000; ++i) zipf_.push_back(sum += 1 / std::pow(i, 1.1));
    }
    const auto rank = std::ranges::upper_bound(zipf_, Uniform() * zipf_.back()) - zipf_.begin();
    return static_cast<double>(rank * 7919 % 10'007);
  }

 private:
  SeededRandom random_;
  std::vector<double> zipf_;
};

enum class Spread { kUniform, kExponential, kZipf, kCorrelated };

std::vector<std::vector<double>> DrawTable(Spread spread, size_t columns) {
  Draws draws(17);
  std::vector<std::vector<double>> table(columns);
  for (size_t i = 0; i < kRows; ++i) {
    const double shared = draws.Normal();
    for (auto& column : table) {
      // Of one exponent: to raw bits the numbers are what whole ones are.
      column.push_back(spread == Spread::kUniform       ? 1 + draws.Uniform()
                       : spread == Spread::kExponential ? draws.Exponential()
                       : spread == Spread::kZipf        ? draws.Zipf()
                                                        : shared + 0.1 * draws.Normal());
    }
  }
  return table;
}

// The share of the files that a filter on one column opens: by their bounds, a mean over columns
// and over filters of a hundredth of the rows each.
double Opened(const std::vector<std::vector<double>>& table, const std::vector<size_t>& rows) {
  constexpr size_t kInFile = kRows / kFiles;
  constexpr size_t kFilters = 200;
  constexpr size_t kInFilter = kRows / 100;
  double opened = 0;
  for (const auto& column : table) {
    std::vector<std::pair<double, double>> files;
    for (size_t f = 0; f < kFiles; ++f) {
      std::pair<double, double> bounds(column[rows[f * kInFile]], column[rows[f * kInFile]]);
      for (size_t i = f * kInFile; i < (f + 1) * kInFile; ++i) {
        bounds = {std::min(bounds.first, column[rows[i]]),
                  std::max(bounds.second, column[rows[i]])};
      }
      files.push_back(bounds);
    }
    std::vector<double> sorted = column;
    std::ranges::sort(sorted);
    for (size_t q = 0; q < kFilters; ++q) {
      const size_t at = q * (kRows - kInFilter) / kFilters;
      opened += static_cast<double>(std::ranges::count_if(files, [&](const auto& bounds) {
        return bounds.first <= sorted[at + kInFilter] && bounds.second >= sorted[at];
      }));
    }
  }
  return opened / static_cast<double>(kFiles * kFilters * table.size());
}

template <typename Less>
std::vector<size_t> SortedBy(const Less& less) {
  std::vector<size_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), size_t{0});
  std::ranges::stable_sort(rows, less);
  return rows;
}

std::vector<size_t> SortedAlong(Curve curve, const std::vector<std::vector<double>>& table) {
  const std::vector<Type> types(table.size(), TypeOf(TypeKind::kDouble));
  std::vector<ValueColumn> columns;
  for (const auto& column : table) {
    columns.emplace_back(types[0], std::vector<Value>(column.begin(), column.end()));
  }
  const KeyRows keys = CurveKeys(curve, types, columns, kSamples);
  return SortedBy([&](size_t a, size_t b) { return CompareKeys(keys, a, keys, b) < 0; });
}

// Of the raw bits of values, turned so that they order them (R106): what others do.
std::vector<size_t> SortedByRawBits(const std::vector<std::vector<double>>& table) {
  std::vector<std::vector<uint64_t>> keys;
  for (size_t i = 0; i < kRows; ++i) {
    std::vector<uint64_t>& key = keys.emplace_back(table.size());
    size_t at = 0;
    for (int bit = 63; bit >= 0; --bit) {
      for (const auto& column : table) {
        const auto bits = std::bit_cast<uint64_t>(column[i]);
        const uint64_t turned = bits ^ ((bits >> 63) != 0 ? UINT64_MAX : uint64_t{1} << 63);
        key[at / 64] = key[at / 64] << 1 | (turned >> bit & 1);
        ++at;
      }
    }
  }
  return SortedBy([&](size_t a, size_t b) { return keys[a] < keys[b]; });
}

struct Layouts {
  double linear = 0;
  double raw = 0;
  double z_order = 0;
  double hilbert = 0;
};

Layouts Measure(Spread spread, size_t columns) {
  const auto table = DrawTable(spread, columns);
  Layouts share;
  share.linear = Opened(table, SortedBy([&](size_t a, size_t b) {
                          for (const auto& column : table) {
                            if (column[a] != column[b]) return column[a] < column[b];
                          }
                          return false;
                        }));
  share.raw = Opened(table, SortedByRawBits(table));
  share.z_order = Opened(table, SortedAlong(Curve::kZOrder, table));
  share.hilbert = Opened(table, SortedAlong(Curve::kHilbert, table));
  const std::string name = std::to_string(static_cast<int>(spread)) + "_" + std::to_string(columns);
  ::testing::Test::RecordProperty("linear_" + name, std::to_string(share.linear));
  ::testing::Test::RecordProperty("raw_" + name, std::to_string(share.raw));
  ::testing::Test::RecordProperty("z_order_" + name, std::to_string(share.z_order));
  ::testing::Test::RecordProperty("hilbert_" + name, std::to_string(share.hilbert));
  return share;
}

TEST(CurveLayout, OnUniformValuesQuantilesAreAsGoodAsBits) {
  for (size_t columns = 2; columns <= 4; ++columns) {
    const Layouts share = Measure(Spread::kUniform, columns);
    EXPECT_LE(share.z_order, share.raw * 1.03);  // Cells are as exact as samples are many.
    EXPECT_LE(share.z_order, share.linear * 0.7);
    EXPECT_LE(share.hilbert, share.z_order * 0.9);
  }
}

TEST(CurveLayout, OnSkewedValuesTheyAreBetter) {
  for (size_t columns = 2; columns <= 4; ++columns) {
    const Layouts exponential = Measure(Spread::kExponential, columns);
    EXPECT_LE(exponential.z_order, exponential.raw * 0.8);
    EXPECT_LE(exponential.hilbert, exponential.z_order * 0.95);
    const Layouts zipf = Measure(Spread::kZipf, columns);
    EXPECT_LE(zipf.z_order, zipf.raw * 0.97);
    EXPECT_LE(zipf.hilbert, zipf.z_order * 0.95);
  }
}

TEST(CurveLayout, OnCorrelatedValuesToo) {
  for (size_t columns = 2; columns <= 4; ++columns) {
    const Layouts share = Measure(Spread::kCorrelated, columns);
    EXPECT_LE(share.z_order, share.raw * 1.02);
    EXPECT_LE(share.z_order, share.linear * 0.8);
    EXPECT_LE(share.hilbert, share.z_order * 1.05);
  }
}

}  // namespace
}  // namespace lithify::sort
