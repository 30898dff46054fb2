#include "rewrite/spilling_column.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "rewrite/physical_type.h"

namespace lithify::rewrite {
namespace {

template <typename DType>
class Spilling final : public SpillingColumn, private TypedColumnEncoder<DType> {
  using T = typename DType::c_type;

 public:
  explicit Spilling(const SpillingColumnOptions& options) : options_(options) {
    if (options_.scatter != nullptr && options_.held_bytes_max == 0) {
      scattered_ = options_.scatter(0);
    } else {
      held_ = HoldColumn(options_.column, options_.rows, options_.pool);
    }
  }

  ColumnEncoder& collector() override { return *this; }
  const HeldColumn* held() const override { return held_.get(); }
  ScatteredColumn* scattered() const override { return scattered_.get(); }

 private:
  void Add(const EntrySpan& entries, const T* values) override {
    to().Add(entries, values);
    LookAtSize();
  }
  void AddFolded(const EntrySpan& entries, const uint32_t* indices,
                 const ValueDictionary<T>& dictionary) override {
    to().AddFolded(entries, indices, dictionary);
    LookAtSize();
  }
  void Finish() override { to().Finish(); }

  TypedColumnEncoder<DType>& to() {
    return static_cast<TypedColumnEncoder<DType>&>(held_ != nullptr ? held_->collector()
                                                                    : scattered_->collector());
  }

  void LookAtSize() {
    if (held_ == nullptr || options_.scatter == nullptr) return;
    const int64_t bytes = held_->memory_bytes();
    if (bytes <= options_.held_bytes_max) return;
    const double share = static_cast<double>(held_->rows()) /
                         static_cast<double>(std::max<int64_t>(1, options_.rows));
    auto scattered =
        options_.scatter(static_cast<int64_t>(static_cast<double>(bytes) / std::max(share, 0.001)));
    // What is there already goes first.
    constexpr int64_t kRowsAtATime = 1 << 16;
    held_->collector().Finish();
    std::vector<uint32_t> rows;
    for (int64_t first = 0; first < held_->rows(); first += kRowsAtATime) {
      rows.resize(static_cast<size_t>(std::min(kRowsAtATime, held_->rows() - first)));
      std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first));
      held_->Encode(rows, scattered->collector());
    }
    scattered_ = std::move(scattered);
    held_.reset();
  }

  const SpillingColumnOptions options_;
  std::unique_ptr<HeldColumn> held_;
  std::unique_ptr<ScatteredColumn> scattered_;
};

}  // namespace

std::unique_ptr<SpillingColumn> MakeSpillingColumn(const SpillingColumnOptions& options) {
  return OfPhysicalType(options.column->physical_type(),
                        [&]<typename DType>(DType*) -> std::unique_ptr<SpillingColumn> {
                          return std::make_unique<Spilling<DType>>(options);
                        });
}

}  // namespace lithify::rewrite
