#include "rewrite/page_builder.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "rewrite/dictionary_union.h"

namespace lithify::rewrite {
namespace {

constexpr int64_t kEntriesMax = 1 << 20;  // Of a page, rows of very many entries apart.
constexpr int64_t kIndexBytes = 2;        // About, of one value.
constexpr size_t kLengthBytes = sizeof(uint32_t);

std::unexpected<Error> Corrupt(std::string message) {
  return Fail(Code::kCorrupt, std::move(message), "page body", "restore the file from its source");
}

// Bytes of the first `count` values with their lengths in front.
Result<size_t> WalkByteArrays(std::span<const uint8_t> plain, int64_t count) {
  const uint8_t* at = plain.data();
  const uint8_t* const end = at + plain.size();
  for (; count > 0; --count) {
    uint32_t length = 0;
    if (static_cast<size_t>(end - at) < kLengthBytes) return Corrupt("the values are cut off");
    std::memcpy(&length, at, kLengthBytes);
    at += kLengthBytes;
    if (length > static_cast<size_t>(end - at)) return Corrupt("a value is cut off");
    at += length;
  }
  return static_cast<size_t>(at - plain.data());
}

template <size_t kWidth>
void GatherFixed(const char* plain, std::span<const uint32_t> indices, uint8_t* out) {
  for (const uint32_t index : indices) {
    std::memcpy(out, plain + size_t{index} * kWidth, kWidth);
    out += kWidth;
  }
}

void GatherFixed(const char* plain, size_t width, std::span<const uint32_t> indices, uint8_t* out) {
  switch (width) {
    case 4: return GatherFixed<4>(plain, indices, out);
    case 8: return GatherFixed<8>(plain, indices, out);
    case 12: return GatherFixed<12>(plain, indices, out);
    case 16: return GatherFixed<16>(plain, indices, out);
    default:
      for (const uint32_t index : indices) {
        std::memcpy(out, plain + index * width, width);
        out += width;
      }
  }
}

}  // namespace

// ----------------------------------------------------------------------------- PlainDictionary

Result<PlainDictionary> PlainDictionary::Make(std::string plain, int64_t entries, int value_bytes) {
  PlainDictionary made;
  made.value_bytes_ = value_bytes;
  made.entries_ = entries;
  const size_t least =
      value_bytes == DictionaryUnion::kByteArray ? kLengthBytes : static_cast<size_t>(value_bytes);
  if (entries < 0 || std::cmp_greater(entries, plain.size() / least)) {
    return Corrupt("a dictionary of " + std::to_string(entries) + " values in " +
                   std::to_string(plain.size()) + " bytes");
  }
  if (value_bytes == DictionaryUnion::kByteArray) {
    if (plain.size() > (size_t{1} << 31)) return Corrupt("a dictionary of more than 2 GiB");
    made.offsets_.reserve(static_cast<size_t>(entries) + 1);
    made.offsets_.push_back(0);
    for (int64_t i = 0; i < entries; ++i) {
      LITHIFY_TRY_ASSIGN(const size_t bytes,
                         WalkByteArrays(rewrite::BytesOf(plain).subspan(made.bytes_), 1));
      made.bytes_ += bytes;
      made.offsets_.push_back(static_cast<uint32_t>(made.bytes_));
    }
  } else {
    made.bytes_ = static_cast<size_t>(entries) * least;
  }
  made.plain_ = std::move(plain);
  made.plain_.resize(made.bytes_ + kOverrun);
  return made;
}

std::span<const uint8_t> PlainDictionary::plain() const {
  return rewrite::BytesOf(plain_).first(bytes_);
}

int64_t PlainDictionary::BytesOf(std::span<const uint32_t> indices) const {
  if (value_bytes_ != DictionaryUnion::kByteArray) return std::ssize(indices) * value_bytes_;
  int64_t bytes = 0;
  for (const uint32_t index : indices) {
    bytes += static_cast<int64_t>(offsets_[index + 1] - offsets_[index]);
  }
  return bytes;
}

void PlainDictionary::Gather(std::span<const uint32_t> indices, uint8_t* out) const {
  if (value_bytes_ != DictionaryUnion::kByteArray) {
    return GatherFixed(plain_.data(), static_cast<size_t>(value_bytes_), indices, out);
  }
  static_assert(kOverrun >= 32);
  for (const uint32_t index : indices) {
    const uint32_t from = offsets_[index];
    const uint32_t bytes = offsets_[index + 1] - from;
    // A copy of a size that is known in advance takes a few instructions.
    if (bytes <= 16) {
      std::memcpy(out, plain_.data() + from, 16);
    } else if (bytes <= 32) {
      std::memcpy(out, plain_.data() + from, 32);
    } else {
      std::memcpy(out, plain_.data() + from, bytes);
    }
    out += bytes;
  }
}

// -------------------------------------------------------------------------------------- values

// The values of a piece, in order.
class PageBuilder::Values {
 public:
  virtual ~Values() = default;
  // Bytes that the next `count` have in a page, about where they are packed.
  virtual Result<int64_t> Measure(int64_t count) = 0;
  // `bytes`: as measured for as many.
  virtual void Append(int64_t count, int64_t bytes, PageBuilder& to) = 0;
};

class PageBuilder::PlainFixed final : public PageBuilder::Values {
 public:
  PlainFixed(std::span<const uint8_t> values, int width) : rest_(values), width_(width) {}
  Result<int64_t> Measure(int64_t count) override {
    const int64_t bytes = count * width_;
    if (bytes > std::ssize(rest_)) return Corrupt("the values are cut off");
    return bytes;
  }
  void Append(int64_t, int64_t bytes, PageBuilder& to) override {
    to.plain_.append(reinterpret_cast<const char*>(rest_.data()), static_cast<size_t>(bytes));
    rest_ = rest_.subspan(static_cast<size_t>(bytes));
  }

 private:
  std::span<const uint8_t> rest_;
  const int64_t width_;
};

class PageBuilder::PlainBytes final : public PageBuilder::Values {
 public:
  explicit PlainBytes(std::span<const uint8_t> values) : rest_(values) {}
  Result<int64_t> Measure(int64_t count) override {
    LITHIFY_TRY_ASSIGN(const size_t bytes, WalkByteArrays(rest_, count));
    return static_cast<int64_t>(bytes);
  }
  void Append(int64_t, int64_t bytes, PageBuilder& to) override {
    to.plain_.append(reinterpret_cast<const char*>(rest_.data()), static_cast<size_t>(bytes));
    rest_ = rest_.subspan(static_cast<size_t>(bytes));
  }

 private:
  std::span<const uint8_t> rest_;
};

// Indices that stay indices, or booleans.
class PageBuilder::Small final : public PageBuilder::Values {
 public:
  explicit Small(std::span<const uint32_t> numbers) : rest_(numbers) {}
  Result<int64_t> Measure(int64_t count) override { return count * kIndexBytes; }
  void Append(int64_t count, int64_t, PageBuilder& to) override {
    to.numbers_.Append(rest_.first(static_cast<size_t>(count)));
    rest_ = rest_.subspan(static_cast<size_t>(count));
  }

 private:
  std::span<const uint32_t> rest_;
};

class PageBuilder::Gathered final : public PageBuilder::Values {
 public:
  Gathered(std::span<const uint32_t> indices, const PlainDictionary& dictionary)
      : rest_(indices), dictionary_(dictionary) {}
  Result<int64_t> Measure(int64_t count) override {
    return dictionary_.BytesOf(rest_.first(static_cast<size_t>(count)));
  }
  void Append(int64_t count, int64_t bytes, PageBuilder& to) override {
    const size_t before = to.plain_.size();
    const size_t after = before + static_cast<size_t>(bytes);
    to.plain_.resize_and_overwrite(after + PlainDictionary::kOverrun, [&](char* data, size_t) {
      dictionary_.Gather(rest_.first(static_cast<size_t>(count)),
                         reinterpret_cast<uint8_t*>(data) + before);
      return after;
    });
    rest_ = rest_.subspan(static_cast<size_t>(count));
  }

 private:
  std::span<const uint32_t> rest_;
  const PlainDictionary& dictionary_;
};

// ------------------------------------------------------------------------------------ building

PageBuilder::PageBuilder(const PageBuilderOptions& options, Sink sink)
    : options_(options), sink_(std::move(sink)), bounds_(options.statistics) {}

Status PageBuilder::AddPlain(const PagePiece& piece, PageEncoding encoding) {
  const int64_t present = piece.parts.present;
  if (options_.value_bytes == PageBuilderOptions::kBoolean) {
    piece_numbers_.resize(static_cast<size_t>(present));
    LITHIFY_TRY(DecodeBooleans(encoding, piece.parts.values, present, piece_numbers_.data()));
    Small values(piece_numbers_);
    return Add(piece, Kind::kBooleans, values);
  }
  if (options_.value_bytes == DictionaryUnion::kByteArray) {
    PlainBytes values(piece.parts.values);
    return Add(piece, Kind::kPlain, values);
  }
  PlainFixed values(piece.parts.values, options_.value_bytes);
  return Add(piece, Kind::kPlain, values);
}

Status PageBuilder::AddIndices(const PagePiece& piece, int64_t dictionary_size,
                               std::span<const uint32_t> mapping) {
  LITHIFY_TRY(LoadIndices(piece, dictionary_size));
  if (!mapping.empty()) Replace(piece_numbers_, mapping);
  Small values(piece_numbers_);
  return Add(piece, Kind::kIndices, values);
}

Status PageBuilder::AddGathered(const PagePiece& piece, const PlainDictionary& dictionary) {
  LITHIFY_TRY(LoadIndices(piece, dictionary.size()));
  Gathered values(piece_numbers_, dictionary);
  return Add(piece, Kind::kPlain, values);
}

Status PageBuilder::LoadIndices(const PagePiece& piece, int64_t dictionary_size) {
  const int64_t present = piece.parts.present;
  piece_numbers_.resize(static_cast<size_t>(present));
  return DecodeIndices(piece.parts.values, present, static_cast<uint64_t>(dictionary_size),
                       piece_numbers_.data());
}

Status PageBuilder::LoadLevels(const PagePiece& piece) {
  const auto decode = [&](std::span<const uint8_t> hybrid, int max, std::vector<uint32_t>& into) {
    const auto top = static_cast<uint32_t>(max);
    into.resize(static_cast<size_t>(piece.entries));
    return DecodeHybrid(hybrid, BitWidth(top), piece.entries, uint64_t{top} + 1, into.data());
  };
  piece_definition_.clear();
  piece_repetition_.clear();
  if (piece.parts.present < piece.entries) {
    LITHIFY_TRY(decode(piece.parts.definition, options_.shape.definition_max, piece_definition_));
  }
  if (options_.shape.repetition_max > 0) {
    LITHIFY_TRY(decode(piece.parts.repetition, options_.shape.repetition_max, piece_repetition_));
  }
  return {};
}

Status PageBuilder::Add(const PagePiece& piece, Kind kind, Values& values) {
  // Nulls alone go with values of any kind.
  if (present_ > 0 && piece.parts.present > 0 && kind != kind_) LITHIFY_TRY(Flush());
  if (present_ == 0) kind_ = kind;
  LITHIFY_TRY(LoadLevels(piece));
  piece_statistics_ = piece.statistics;
  int64_t at = 0;
  if (!piece.parts.begins_row) {
    const auto head = std::ranges::find(piece_repetition_, 0U) - piece_repetition_.begin();
    LITHIFY_TRY(AddEntries(head, 0, values, at));
  }
  return AddRows(piece.parts.rows, values, at);
}

// Rows are spread over as many pages as they need.
Status PageBuilder::AddRows(int64_t rows, Values& values, int64_t& at) {
  while (rows > 0) {
    if (Full()) LITHIFY_TRY(Flush());
    int64_t some = std::min(rows, std::max<int64_t>(1, options_.page_rows - rows_));
    while (true) {
      LITHIFY_TRY_ASSIGN(const bool fits, Fits(EntriesOf(some, at), values, at));
      if (fits) break;
      if (entries_ > 0 && (some == 1 || OpenBytes() >= options_.page_bytes / 2)) {
        LITHIFY_TRY(Flush());
      } else if (some > 1) {
        some /= 2;
      } else {
        break;
      }
    }
    LITHIFY_TRY(AddEntries(EntriesOf(some, at), some, values, at));
    rows -= some;
  }
  return {};
}

Result<bool> PageBuilder::Fits(int64_t entries, Values& values, int64_t at) const {
  LITHIFY_TRY_ASSIGN(const int64_t bytes, values.Measure(PresentIn(at, entries)));
  return OpenBytes() + bytes <= options_.page_bytes + options_.page_bytes / 4 &&
         entries_ + entries <= kEntriesMax;
}

Status PageBuilder::AddEntries(int64_t entries, int64_t rows, Values& values, int64_t& at) {
  if (entries == 0) return {};
  const int64_t present = PresentIn(at, entries);
  LITHIFY_TRY_ASSIGN(const int64_t bytes, values.Measure(present));
  if (OpenBytes() + bytes > options_.page_bytes_max) {
    LITHIFY_TRY(Flush());
    if (bytes > options_.page_bytes_max) {
      return Fail(Code::kLimit, "a row of " + FormatBytes(bytes), "page body", "raise --memory");
    }
  }
  const auto from = static_cast<size_t>(at);
  const auto count = static_cast<size_t>(entries);
  if (entries_ == 0) begins_row_ = piece_repetition_.empty() || piece_repetition_[from] == 0;
  if (piece_definition_.empty()) {
    definition_.AppendRun(static_cast<uint32_t>(options_.shape.definition_max), entries);
  } else {
    definition_.Append(std::span(piece_definition_).subspan(from, count));
  }
  if (!piece_repetition_.empty()) {
    repetition_.Append(std::span(piece_repetition_).subspan(from, count));
  }
  if (present > 0) {
    values.Append(present, bytes, *this);
    bounds_.Add(piece_statistics_);
  }
  entries_ += entries;
  present_ += present;
  rows_ += rows;
  at += entries;
  return {};
}

// Entries of the next `rows` rows.
int64_t PageBuilder::EntriesOf(int64_t rows, int64_t at) const {
  if (piece_repetition_.empty() || rows == 0) return rows;
  // The first entry begins a row: the end is where one more would begin.
  auto entry = static_cast<size_t>(at) + 1;
  for (; entry < piece_repetition_.size(); ++entry) {
    if (piece_repetition_[entry] == 0 && --rows == 0) break;
  }
  return static_cast<int64_t>(entry) - at;
}

int64_t PageBuilder::PresentIn(int64_t first, int64_t entries) const {
  if (piece_definition_.empty()) return entries;
  return CountOf(std::span(piece_definition_)
                     .subspan(static_cast<size_t>(first), static_cast<size_t>(entries)),
                 static_cast<uint32_t>(options_.shape.definition_max));
}

int64_t PageBuilder::OpenBytes() const {
  return std::ssize(plain_) + numbers_.count() * kIndexBytes;
}

bool PageBuilder::Full() const {
  return entries_ > 0 && (rows_ >= options_.page_rows || OpenBytes() >= options_.page_bytes ||
                          entries_ >= kEntriesMax);
}

// -------------------------------------------------------------------------------------- a page

Status PageBuilder::Flush() {
  if (entries_ == 0) return {};
  body_.clear();
  repetition_.WriteLevels(options_.shape.repetition_max, &body_);
  definition_.WriteLevels(options_.shape.definition_max, &body_);
  PageHeader header;
  header.num_values = static_cast<int32_t>(entries_);
  switch (kind_) {
    case Kind::kPlain: body_ += plain_; break;
    case Kind::kBooleans: numbers_.WriteBooleans(&body_); break;
    case Kind::kIndices:
      header.encoding = PageEncoding::kRleDictionary;
      numbers_.WriteIndices(&body_);
      break;
  }
  header.uncompressed_page_size = static_cast<int32_t>(body_.size());
  const auto statistics = bounds_.Take(entries_, present_);
  const RawColumn::Facts facts{rows_, begins_row_, statistics ? &*statistics : nullptr};
  definition_.Clear();
  repetition_.Clear();
  numbers_.Clear();
  plain_.clear();
  entries_ = present_ = rows_ = 0;
  return sink_(header, rewrite::BytesOf(body_), facts);
}

}  // namespace lithify::rewrite
