#include "rewrite/masked_pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lithify::rewrite {
namespace {

// A value that is longer is not stated in a page's header.
constexpr size_t kStatedBytesMax = 1024;
// A page of more is not taken apart: a few bytes may claim any number of levels and indices.
constexpr int32_t kEntriesMax = 4 << 20;

std::unexpected<Error> Leave(std::string why) { return Fail(Code::kUnsupported, std::move(why)); }

std::unexpected<Error> Changed() {
  return Fail(Code::kCorrupt, "the file changed while it was read", "",
              "find out who writes to it; files of a table are never changed in place");
}

int64_t DeletedIn(const MaskedChunk& chunk, int64_t first, int64_t rows) {
  return chunk.deleted->CountBelow(first + rows) - chunk.deleted->CountBelow(first);
}

// Moves what is in `keep` to the front; returns how much that is.
size_t Compact(std::span<const EntryRange> keep, std::vector<uint32_t>& numbers) {
  size_t to = 0;
  for (const EntryRange& range : keep) {
    const auto begin = static_cast<size_t>(range.begin);
    const auto count = static_cast<size_t>(range.end - range.begin);
    if (to != begin) {
      std::memmove(numbers.data() + to, numbers.data() + begin, count * sizeof(uint32_t));
    }
    to += count;
  }
  return to;
}

Status DecodeLevels(std::span<const uint8_t> hybrid, int max, int64_t count,
                    std::vector<uint32_t>& out) {
  out.resize(static_cast<size_t>(count));
  const auto top = static_cast<uint32_t>(max);
  return DecodeHybrid(hybrid, BitWidth(top), count, uint64_t{top} + 1, out.data());
}

}  // namespace

// ------------------------------------------------------------------------------------- entries

Status KeptEntries::Find(const MaskedChunk& chunk, int64_t first_row, const PageHeader& header,
                         const PageParts& parts) {
  const int64_t entries = header.num_values;
  definition_max_ = chunk.shape.definition_max;
  repetition_max_ = chunk.shape.repetition_max;
  definition_.clear();
  repetition_.clear();
  values_.clear();
  entry_count_ = value_count_ = 0;
  if (parts.present != entries) {
    LITHIFY_TRY(DecodeLevels(parts.definition, definition_max_, entries, definition_));
  }
  if (repetition_max_ > 0) {
    LITHIFY_TRY(DecodeLevels(parts.repetition, repetition_max_, entries, repetition_));
    repetition_short_.assign(repetition_.begin(), repetition_.end());
    rows_.Restart();
    ranges_ = rows_.KeepRepeated(*chunk.deleted, first_row, repetition_short_);
  } else {
    ranges_ = rows_.KeepFlat(*chunk.deleted, first_row, entries);
  }
  const auto max = static_cast<uint32_t>(definition_max_);
  int64_t at = 0;
  int64_t value_at = 0;
  const auto present = [&](int64_t begin, int64_t end) -> int64_t {
    if (definition_.empty()) return end - begin;
    return std::count(definition_.begin() + begin, definition_.begin() + end, max);
  };
  for (const EntryRange& range : ranges_) {
    value_at += present(at, range.begin);
    const int64_t count = present(range.begin, range.end);
    if (count > 0) values_.push_back(EntryRange{value_at, value_at + count});
    value_at += count;
    value_count_ += count;
    entry_count_ += range.end - range.begin;
    at = range.end;
  }
  return {};
}

void KeptEntries::AppendLevels(const std::vector<uint32_t>& levels, int max,
                               std::string* out) const {
  if (max == 0) return;
  if (levels.empty()) return AppendLevelRun(max, entry_count_, max, out);
  std::vector<uint32_t> kept = levels;
  kept.resize(Compact(ranges_, kept));
  AppendHybrid(kept, BitWidth(static_cast<uint32_t>(max)), out);
}

// ----------------------------------------------------------------------------------------- mask

class PageMask::Maker {
 public:
  Maker(const MaskedChunk& chunk, PageCodec& codec) : codec_(codec) { mask_.chunk_ = chunk; }

  Result<PageMask> Run(PageSource& pages) {
    const MaskedChunk& chunk = mask_.chunk_;
    if (chunk.shape.repetition_max > 0) mask_.nulls_ = 0;
    int64_t rows = 0;
    RawPage page;
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool more, pages.Next(&page));
      if (!more) break;
      if (!page.header.is_data()) {
        LITHIFY_TRY(TakeDictionary(page.header));
        continue;
      }
      Page plan;
      plan.first_row = chunk.first_row + rows;
      LITHIFY_TRY(Look(page, chunk.rows - rows, plan));
      rows += plan.rows;
      mask_.pages_.push_back(plan);
    }
    if (rows != chunk.rows || left_ != DeletedIn(chunk, chunk.first_row, chunk.rows)) {
      return Fail(Code::kCorrupt, "it has another number of rows than its row group");
    }
    mask_.rows_ = rows - left_;
    CloseDictionary();
    return std::move(mask_);
  }

 private:
  Status TakeDictionary(const PageHeader& header) {
    if (header.uncompressed_page_size > mask_.chunk_.page_bytes_max) {
      return Leave("its dictionary is large");
    }
    // Each entry has bytes, but for one of no length, which has its length.
    if (header.num_values > header.uncompressed_page_size) {
      return Fail(Code::kCorrupt, "a dictionary of more entries than bytes");
    }
    mask_.dictionary_entries_ = header.num_values;
    used_.assign(static_cast<size_t>(header.num_values), 0);
    return {};
  }

  // One data page, of `rows_max` rows at most.
  Status Look(const RawPage& page, int64_t rows_max, Page& plan) {
    const PageHeader& header = page.header;
    if (header.num_values == 0) return {};
    const MaskedChunk& chunk = mask_.chunk_;
    const bool nested = chunk.shape.repetition_max > 0;
    plan.rows = header.num_values;
    UnpackedPage unpacked;
    const bool dictionary = header.uses_dictionary();
    if (nested || dictionary) {
      if (header.uncompressed_page_size > chunk.page_bytes_max) return Leave("a page is large");
      LITHIFY_TRY_ASSIGN(unpacked, UnpackPage(page, chunk.shape, codec_, &unpacked_));
      if (nested && !unpacked.parts.begins_row) return Leave("a page begins within a row");
      plan.rows = unpacked.parts.rows;
    }
    if (plan.rows > rows_max) {
      return Fail(Code::kCorrupt, "it has more rows than its row group");
    }
    const int64_t deleted = DeletedIn(chunk, plan.first_row, plan.rows);
    left_ += deleted;
    plan.fate = deleted == 0 ? Fate::kKept : deleted == plan.rows ? Fate::kDropped : Fate::kCut;
    if (plan.fate == Fate::kDropped) return {};
    if (plan.fate == Fate::kCut && !dictionary && !HasPlainForm(header.encoding, chunk.form)) {
      return Leave("rows are deleted from pages in an encoding that is not taken apart");
    }
    if (plan.fate == Fate::kCut && header.uncompressed_page_size > chunk.page_bytes_max) {
      return Leave("a page is large");
    }
    if ((plan.fate == Fate::kCut || dictionary) && header.num_values > kEntriesMax) {
      return Leave("a page of very many values");
    }
    if (!nested) mask_.entries_ += plan.rows - deleted;
    if (nested || dictionary) LITHIFY_TRY(LookInside(header, unpacked, nested, plan));
    return {};
  }

  // Entries and nulls of nested columns, and which entries of the dictionary are used.
  Status LookInside(const PageHeader& header, const UnpackedPage& unpacked, bool nested,
                    const Page& plan) {
    const int64_t present = unpacked.parts.present;
    const EntryRange all{0, present};
    std::span<const EntryRange> values(&all, 1);
    int64_t entries = header.num_values;
    int64_t kept = present;
    if (plan.fate == Fate::kCut) {
      LITHIFY_TRY(kept_.Find(mask_.chunk_, plan.first_row, header, unpacked.parts));
      values = kept_.values();
      entries = kept_.entries();
      kept = kept_.present();
    }
    if (nested) {
      mask_.entries_ += entries;
      mask_.nulls_ += entries - kept;
    }
    if (!header.uses_dictionary()) return {};
    mask_.uses_dictionary_ = true;
    indices_.resize(static_cast<size_t>(present));
    LITHIFY_TRY(DecodeIndices(unpacked.values, present, used_.size(), indices_.data()));
    for (const EntryRange& range : values) {
      for (auto i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); ++i) {
        used_[indices_[i]] = 1;
        in_order_ = in_order_ && indices_[i] >= next_;
        next_ = indices_[i] + 1;
      }
    }
    values_ += kept;
    return {};
  }

  void CloseDictionary() {
    const auto size = static_cast<int64_t>(used_.size());
    for (int64_t i = 0; i < size; ++i) {
      if (used_[static_cast<size_t>(i)] == 0) continue;
      ++mask_.used_entries_;
      if (mask_.used_.empty() || mask_.used_.back().end != i) {
        mask_.used_.push_back(EntryRange{i, i});
      }
      mask_.used_.back().end = i + 1;
    }
    if (!mask_.uses_dictionary_ || mask_.used_entries_ == size) return;
    // One that counts up becomes a page by itself; others of hardly fewer entries than values are
    // of no use (DictionaryUnion).
    mask_.keeps_unused_ = !in_order_ && mask_.used_entries_ * 2 > values_;
    if (mask_.keeps_unused_) return;
    mask_.renumbered_.resize(used_.size());
    uint32_t next = 0;
    for (size_t i = 0; i < used_.size(); ++i) {
      mask_.renumbered_[i] = next;
      if (used_[i] != 0) ++next;
    }
  }

  PageCodec& codec_;
  PageMask mask_;
  int64_t left_ = 0;
  std::vector<char> used_;
  bool in_order_ = true;  // Each index is greater than those before it.
  uint32_t next_ = 0;
  int64_t values_ = 0;  // That survive and are in the dictionary.
  KeptEntries kept_;
  std::string unpacked_;
  std::vector<uint32_t> indices_;
};

Result<PageMask> PageMask::Make(const MaskedChunk& chunk, PageSource& pages, PageCodec& codec) {
  return Maker(chunk, codec).Run(pages);
}

// ---------------------------------------------------------------------------------------- pages

MaskedPages::MaskedPages(const PageMask& mask, std::unique_ptr<PageSource> pages, PageCodec& codec,
                         ValueOrder order, MaskWitness* witness)
    : mask_(mask),
      pages_(std::move(pages)),
      codec_(codec),
      order_(order),
      witness_(witness),
      bounds_(mask.chunk_.form, order) {}

Result<bool> MaskedPages::Next(RawPage* page) {
  while (true) {
    LITHIFY_TRY_ASSIGN(const bool more, pages_->Next(page));
    if (!more && at_ != mask_.pages_.size()) return Changed();
    if (!more) return false;
    if (!page->header.is_data()) {
      LITHIFY_TRY_ASSIGN(const bool comes, TakeDictionary(page));
      if (comes) return true;
      continue;
    }
    if (at_ == mask_.pages_.size()) return Changed();
    const PageMask::Page& plan = mask_.pages_[at_++];
    const PageHeader& header = page->header;
    if (header.num_values == 0) continue;
    if (mask_.chunk_.shape.repetition_max == 0 && header.num_values != plan.rows) return Changed();
    switch (plan.fate) {
      case PageMask::Fate::kDropped:
        if (witness_ != nullptr) LITHIFY_TRY(witness_->OnDropped(*page));
        continue;
      case PageMask::Fate::kCut: LITHIFY_TRY(Cut(plan, page)); return true;
      case PageMask::Fate::kKept: break;
    }
    if (!header.uses_dictionary()) {
      if (witness_ != nullptr) LITHIFY_TRY(witness_->OnKept(*page));
    } else if (!mask_.renumbered_.empty()) {
      LITHIFY_TRY(Renumber(page));
    }
    return true;
  }
}

// True: the page comes, as it is or without the entries that only deleted rows used.
Result<bool> MaskedPages::TakeDictionary(RawPage* page) {
  if (!mask_.uses_dictionary_) return false;
  PageHeader& header = page->header;
  const int64_t entries = mask_.dictionary_entries_;
  if (header.num_values != entries) return Changed();
  const bool cut = !mask_.renumbered_.empty();
  if (!cut && witness_ == nullptr) return true;
  const PlainForm& form = mask_.chunk_.form;
  dictionary_.clear();
  LITHIFY_TRY(codec_.Decompress(page->body, header.uncompressed_page_size, &dictionary_));
  kept_values_.clear();
  left_values_.clear();
  LITHIFY_TRY(
      SplitPlain(form, BytesOf(dictionary_), entries, mask_.used_, &kept_values_, &left_values_));
  if (witness_ != nullptr) {
    dictionary_at_.clear();
    if (form.kind == PlainForm::Kind::kByteArray) {
      dictionary_at_.reserve(static_cast<size_t>(entries) + 1);
      size_t at = 0;
      for (int64_t i = 0; i <= entries; ++i) {
        dictionary_at_.push_back(at);
        uint32_t length = 0;
        if (i < entries) std::memcpy(&length, dictionary_.data() + at, sizeof length);
        at += sizeof length + length;
      }
    }
    ValueBounds left(form, order_);
    bounds_ = ValueBounds(form, order_);
    LITHIFY_TRY(left.Add(BytesOf(left_values_), entries - mask_.used_entries_));
    LITHIFY_TRY(bounds_.Add(BytesOf(kept_values_), mask_.used_entries_));
    witness_->OnValues(bounds_, left);
    State(-1, header);
  }
  if (!cut) return true;
  header.num_values = static_cast<int32_t>(mask_.used_entries_);
  body_ = std::move(kept_values_);
  Made(page, BytesOf(body_));
  return true;
}

// A value of the dictionary, without a length in front.
std::string_view MaskedPages::Entry(size_t i) const {
  const std::string_view all = dictionary_;
  if (mask_.chunk_.form.kind == PlainForm::Kind::kByteArray) {
    const size_t at = dictionary_at_[i] + sizeof(uint32_t);
    return all.substr(at, dictionary_at_[i + 1] - at);
  }
  const auto width = static_cast<size_t>(mask_.chunk_.form.bytes);
  return all.substr(i * width, width);
}

// Whether nobody needs the page's body to know how many rows and values it has.
bool MaskedPages::MaySketch(const PageHeader& header) const {
  // Of fewer bytes, a page may be one of nulls alone.
  constexpr int32_t kSketchedBytesMin = 64 << 10;
  return witness_ == nullptr && header.type == PageType::kData && !header.uses_dictionary() &&
         mask_.chunk_.shape.repetition_max == 0 &&
         header.uncompressed_page_size >= kSketchedBytesMin;
}

void MaskedPages::Sketch(const PageMask::Page& plan, RawPage* page) const {
  PageHeader& header = page->header;
  const int64_t rows = plan.rows - DeletedIn(mask_.chunk_, plan.first_row, plan.rows);
  const auto share = static_cast<int32_t>(header.uncompressed_page_size * rows / plan.rows);
  header.num_values = static_cast<int32_t>(rows);
  header.statistics.reset();
  Made(page, {});
  header.uncompressed_page_size = std::max(share, 4 << 10);
}

Status MaskedPages::Cut(const PageMask::Page& plan, RawPage* page) {
  PageHeader& header = page->header;
  if (MaySketch(header)) {
    Sketch(plan, page);
    return {};
  }
  LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                     UnpackPage(*page, mask_.chunk_.shape, codec_, &unpacked_));
  LITHIFY_TRY(kept_.Find(mask_.chunk_, plan.first_row, header, unpacked.parts));
  body_.clear();
  std::string levels;
  int32_t level_bytes[2] = {0, 0};
  const int maxima[2] = {mask_.chunk_.shape.repetition_max, mask_.chunk_.shape.definition_max};
  for (size_t i = 0; i < 2; ++i) {
    if (maxima[i] == 0) continue;
    levels.clear();
    i == 0 ? kept_.AppendRepetition(&levels) : kept_.AppendDefinition(&levels);
    level_bytes[i] = static_cast<int32_t>(levels.size());
    if (header.type == PageType::kData) {
      AppendWithLength(levels, &body_);
    } else {
      body_ += levels;
    }
  }
  bounds_ = ValueBounds(mask_.chunk_.form, order_);
  if (header.uses_dictionary()) {
    LITHIFY_TRY(AppendIndicesOf(*page, unpacked));
  } else {
    LITHIFY_TRY(AppendValues(*page, unpacked));
  }
  const int64_t nulls = kept_.entries() - kept_.present();
  if (witness_ != nullptr) {
    witness_->OnNullsLeft(header.num_values - unpacked.parts.present - nulls);
  }
  header.num_values = static_cast<int32_t>(kept_.entries());
  if (header.type == PageType::kDataV2) {
    header.repetition_levels_byte_length = level_bytes[0];
    header.definition_levels_byte_length = level_bytes[1];
    header.num_nulls = static_cast<int32_t>(nulls);
    header.num_rows =
        static_cast<int32_t>(plan.rows - DeletedIn(mask_.chunk_, plan.first_row, plan.rows));
  }
  State(nulls, header);
  Made(page, BytesOf(body_));
  return {};
}

// The bounds that the input states of a page, unless a value that is left out reaches them.
bool MaskedPages::TakeStated(const RawPage& page, const ValueBounds& left) {
  const auto stated = witness_->StatedOf(page);
  if (!stated || !bounds_.ordered()) return false;
  if (left.min() && !bounds_.Less(stated->min, *left.min())) return false;
  if (left.max() && !bounds_.Less(*left.max(), stated->max)) return false;
  bounds_.AddValue(stated->min);
  bounds_.AddValue(stated->max);
  return true;
}

Status MaskedPages::AppendValues(const RawPage& page, const UnpackedPage& unpacked) {
  const PlainForm& form = mask_.chunk_.form;
  const int64_t present = unpacked.parts.present;
  const PageEncoding encoding = page.header.encoding;
  LITHIFY_TRY_ASSIGN(const auto plain, ToPlain(encoding, form, unpacked.values, present, &plain_));
  kept_values_.clear();
  left_values_.clear();
  const bool told = witness_ != nullptr && bounds_.ordered();
  // What is plain already goes straight where it belongs.
  const size_t before = body_.size();
  const bool direct = encoding == PageEncoding::kPlain;
  LITHIFY_TRY(SplitPlain(form, plain, present, kept_.values(), direct ? &body_ : &kept_values_,
                         told ? &left_values_ : nullptr));
  if (!direct) AppendEncoded(encoding, form, BytesOf(kept_values_), kept_.present(), &body_);
  if (!told) return {};
  ValueBounds left(form, order_);
  LITHIFY_TRY(left.Add(BytesOf(left_values_), present - kept_.present()));
  if (!TakeStated(page, left)) {
    const auto kept = direct ? BytesOf(body_).subspan(before) : BytesOf(kept_values_);
    LITHIFY_TRY(bounds_.Add(kept, kept_.present()));
  }
  witness_->OnValues(bounds_, left);
  return {};
}

Status MaskedPages::AppendIndicesOf(const RawPage& page, const UnpackedPage& unpacked) {
  const int64_t present = unpacked.parts.present;
  indices_.resize(static_cast<size_t>(present));
  LITHIFY_TRY(DecodeIndices(unpacked.values, present,
                            static_cast<uint64_t>(mask_.dictionary_entries_), indices_.data()));
  if (witness_ != nullptr && bounds_.ordered()) TellIndices(page);
  indices_.resize(Compact(kept_.values(), indices_));
  int64_t entries = mask_.dictionary_entries_;
  if (!mask_.renumbered_.empty()) {
    for (uint32_t& index : indices_) index = mask_.renumbered_[index];
    entries = mask_.used_entries_;
  }
  // Some readers stumble over a width of no bits.
  const int64_t last = std::max<int64_t>(entries - 1, 1);
  AppendIndices(indices_, BitWidth(static_cast<uint32_t>(last)), &body_);
  return {};
}

// Finds the bounds of what survives of a page with a dictionary, which the witness is told of by
// the dictionary.
void MaskedPages::TellIndices(const RawPage& page) {
  ValueBounds left(mask_.chunk_.form, order_);
  const auto each = [&](bool kept, auto&& visit) {
    int64_t at = 0;
    const auto visit_all = [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        visit(indices_[i]);
      }
    };
    for (const EntryRange& range : kept_.values()) {
      if (!kept) visit_all(at, range.begin);
      if (kept) visit_all(range.begin, range.end);
      at = range.end;
    }
    if (!kept) visit_all(at, std::ssize(indices_));
  };
  each(false, [&](uint32_t index) { left.AddValue(Entry(index)); });
  if (TakeStated(page, left)) return;
  seen_.assign(static_cast<size_t>(mask_.dictionary_entries_), 0);
  each(true, [&](uint32_t index) { seen_[index] = 1; });
  for (size_t i = 0; i < seen_.size(); ++i) {
    if (seen_[i] != 0) bounds_.AddValue(Entry(i));
  }
}

// The indices of a page that is whole, into the dictionary that lost entries.
Status MaskedPages::Renumber(RawPage* page) {
  LITHIFY_TRY_ASSIGN(const UnpackedPage unpacked,
                     UnpackPage(*page, mask_.chunk_.shape, codec_, &unpacked_));
  const std::span<const uint8_t> levels = unpacked.parts.levels;
  body_.assign(reinterpret_cast<const char*>(levels.data()), levels.size());
  const int64_t last = std::max<int64_t>(mask_.used_entries_ - 1, 1);
  LITHIFY_TRY(AppendMappedIndices(unpacked.values, unpacked.parts.present, mask_.renumbered_,
                                  BitWidth(static_cast<uint32_t>(last)), &body_));
  // Pages that are not packed state what was found here, or what can be relied on.
  if (witness_ == nullptr || !witness_->StatedOf(*page)) page->header.statistics.reset();
  Made(page, BytesOf(body_));
  return {};
}

void MaskedPages::Made(RawPage* page, std::span<const uint8_t> body) const {
  PageHeader& header = page->header;
  header.uncompressed_page_size = header.compressed_page_size = static_cast<int32_t>(body.size());
  header.crc.reset();
  if (header.type == PageType::kDataV2) header.is_compressed = false;
  page->header_bytes = page->whole = {};
  page->body = body;
  page->packed = false;
}

// What the header says of the values. `nulls` -1: not known.
void MaskedPages::State(int64_t nulls, PageHeader& header) const {
  header.statistics.reset();
  if (witness_ == nullptr) return;
  PageStatistics& stated = header.statistics.emplace();
  if (nulls >= 0) stated.null_count = nulls;
  if (!bounds_.min() || !bounds_.max()) return;
  if (std::max(bounds_.min()->size(), bounds_.max()->size()) > kStatedBytesMax) return;
  stated.min_value = *bounds_.min();
  stated.max_value = *bounds_.max();
  stated.is_min_value_exact = stated.is_max_value_exact = true;
}

}  // namespace lithify::rewrite
