#include "rewrite/masked_statistics.h"

#include <algorithm>
#include <utility>

namespace lithify::rewrite {

using parquet::EncodedStatistics;
using parquet::Type;

PlainForm FormOf(const parquet::ColumnDescriptor& column) {
  using Kind = PlainForm::Kind;
  switch (column.physical_type()) {
    case Type::BOOLEAN: return {Kind::kBoolean, 0};
    case Type::INT32:
    case Type::FLOAT: return {Kind::kFixed, 4};
    case Type::INT96: return {Kind::kFixed, 12};
    case Type::BYTE_ARRAY: return {Kind::kByteArray, 0};
    case Type::FIXED_LEN_BYTE_ARRAY: return {Kind::kFixed, std::max(1, column.type_length())};
    default: return {Kind::kFixed, 8};
  }
}

ValueOrder OrderOf(const parquet::ColumnDescriptor& column) {
  const bool is_signed = column.sort_order() == parquet::SortOrder::SIGNED;
  if (!is_signed && column.sort_order() != parquet::SortOrder::UNSIGNED) return ValueOrder::kNone;
  const auto& logical = column.logical_type();
  switch (column.physical_type()) {
    case Type::BOOLEAN: return ValueOrder::kUnsigned;
    case Type::INT32:
    case Type::INT64: return is_signed ? ValueOrder::kSigned : ValueOrder::kUnsigned;
    case Type::FLOAT:
    case Type::DOUBLE: return ValueOrder::kFloat;
    case Type::BYTE_ARRAY: return is_signed ? ValueOrder::kNone : ValueOrder::kBytes;
    case Type::FIXED_LEN_BYTE_ARRAY:
      if (logical != nullptr && logical->is_float16()) return ValueOrder::kNone;
      return is_signed ? ValueOrder::kSignedBytes : ValueOrder::kBytes;
    default: return ValueOrder::kNone;
  }
}

MaskedStatistics::MaskedStatistics(const MaskedChunk& chunk, ValueOrder order,
                                   EncodedStatistics stated, OfPage of_page, PageCodec& codec)
    : chunk_(chunk),
      stated_(std::move(stated)),
      of_page_(std::move(of_page)),
      codec_(codec),
      kept_(chunk.form, order),
      left_(chunk.form, order) {}

void MaskedStatistics::OnValues(const ValueBounds& kept, const ValueBounds& left) {
  kept_.Add(kept);
  left_.Add(left);
}

std::optional<MaskWitness::Stated> MaskedStatistics::StatedOf(const RawPage& page) {
  const auto own = of_page_(page);
  if (!own || own->all_null_value || !own->has_min || !own->has_max) return std::nullopt;
  // Writers cut long bounds, and not all say so.
  const bool cut = chunk_.form.kind == PlainForm::Kind::kByteArray;
  if (!own->is_min_value_exact.value_or(!cut) || !own->is_max_value_exact.value_or(!cut)) {
    return std::nullopt;
  }
  return Stated{own->min(), own->max()};
}

Status MaskedStatistics::OnKept(const RawPage& page) {
  if (!kept_.ordered()) return {};
  if (const auto stated = StatedOf(page)) {
    kept_.AddValue(stated->min);
    kept_.AddValue(stated->max);
    return {};
  }
  const auto own = of_page_(page);
  if (!own || !own->all_null_value) unknown_.push_back(page.ordinal);
  return {};
}

Status MaskedStatistics::OnDropped(const RawPage& page) {
  const PageHeader& header = page.header;
  dropped_indices_ = dropped_indices_ || header.uses_dictionary();
  const auto own = of_page_(page);
  // Those of nested columns were counted for the mask.
  bool count_nulls = chunk_.shape.repetition_max == 0 && chunk_.shape.definition_max > 0 &&
                     stated_.has_null_count && stated_.null_count > 0;
  if (count_nulls && own && own->has_null_count) {
    nulls_left_ += own->null_count;
    count_nulls = false;
  }
  bool scan = left_.ordered() && left_known_ && !header.uses_dictionary();
  if (scan && own && (own->all_null_value || (own->has_min && own->has_max))) {
    if (!own->all_null_value) left_.AddValue(own->min());
    if (!own->all_null_value) left_.AddValue(own->max());
    scan = false;
  }
  if (scan && !HasPlainForm(header.encoding, chunk_.form)) scan = left_known_ = false;
  if (!scan && !count_nulls) return {};
  if (header.uncompressed_page_size > chunk_.page_bytes_max) {
    left_known_ = left_known_ && !scan;
    nulls_known_ = nulls_known_ && !count_nulls;
    return {};
  }
  LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                     UnpackPage(page, chunk_.shape, codec_, &unpacked_));
  const int64_t present = unpacked.parts.present;
  if (count_nulls) nulls_left_ += header.num_values - present;
  if (!scan) return {};
  LITHIFY_TRY_ASSIGN(const auto plain,
                     ToPlain(header.encoding, chunk_.form, unpacked.values, present, &plain_));
  return left_.Add(plain, present);
}

// The bound of what survives; nullopt: not known without another look.
std::optional<MaskedStatistics::Bound> MaskedStatistics::Resolve(bool lower) const {
  const auto& kept = lower ? kept_.min() : kept_.max();
  if (unknown_.empty()) {
    if (!kept) return std::nullopt;
    return Bound{*kept, true};
  }
  if (!stated_.has_min || !stated_.has_max) return std::nullopt;
  const std::string& stated = lower ? stated_.min() : stated_.max();
  const auto reaches = [&](const std::optional<std::string>& value) {
    return value && (lower ? !kept_.Less(stated, *value) : !kept_.Less(*value, stated));
  };
  // Some row has the stated value: if none of the deleted ones has, one that survives.
  if (left_known_ && !reaches(lower ? left_.min() : left_.max())) {
    return Bound{stated, lower ? stated_.is_min_value_exact : stated_.is_max_value_exact};
  }
  if (reaches(kept)) return Bound{*kept, true};
  return std::nullopt;
}

Status MaskedStatistics::ReadAgain(PageSource& pages) {
  RawPage page;
  auto next = unknown_.begin();
  while (next != unknown_.end()) {
    LITHIFY_TRY_ASSIGN(const bool more, pages.Next(&page));
    if (!more) return {};
    const PageHeader& header = page.header;
    if (!header.is_data() || page.ordinal != *next) continue;
    if (!HasPlainForm(header.encoding, chunk_.form) ||
        header.uncompressed_page_size > chunk_.page_bytes_max) {
      return {};
    }
    LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                       UnpackPage(page, chunk_.shape, codec_, &unpacked_));
    const int64_t present = unpacked.parts.present;
    LITHIFY_TRY_ASSIGN(const auto plain,
                       ToPlain(header.encoding, chunk_.form, unpacked.values, present, &plain_));
    LITHIFY_TRY(kept_.Add(plain, present));
    ++next;
  }
  unknown_.clear();
  return {};
}

Result<EncodedStatistics> MaskedStatistics::Finish(const PageMask& mask, const Reopen& reopen) {
  EncodedStatistics found;
  if (chunk_.shape.definition_max == 0) {
    found.set_null_count(0);
  } else if (mask.nulls() >= 0) {
    found.set_null_count(mask.nulls());
  } else if (nulls_known_ && stated_.has_null_count) {
    found.set_null_count(stated_.null_count - nulls_left_);
  }
  if (!kept_.ordered()) return found;
  // Of a dictionary that no surviving row uses, nobody has told.
  left_known_ = left_known_ && (mask.uses_dictionary() || !dropped_indices_);
  auto min = Resolve(true);
  auto max = Resolve(false);
  if ((!min || !max) && !unknown_.empty() && stated_.has_min && stated_.has_max) {
    LITHIFY_TRY(ReadAgain(*reopen()));
    min = Resolve(true);
    max = Resolve(false);
  }
  if (!min || !max) return found;
  found.set_min(std::move(min->value));
  found.set_max(std::move(max->value));
  found.is_min_value_exact = min->exact;
  found.is_max_value_exact = max->exact;
  return found;
}

}  // namespace lithify::rewrite
