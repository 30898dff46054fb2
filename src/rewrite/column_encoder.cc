#include "rewrite/column_encoder.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <parquet/encoding.h>
#include <parquet/exception.h>
#include <parquet/geospatial/statistics.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/text.h"
#include "rewrite/arrow_io.h"
#include "rewrite/dictionary_union.h"
#include "rewrite/filter_values.h"
#include "rewrite/index_pages.h"
#include "rewrite/masked_statistics.h"
#include "rewrite/page_codec.h"
#include "rewrite/page_numbers.h"
#include "rewrite/physical_type.h"
#include "rewrite/plain_values.h"
#include "rewrite/typed_values.h"

namespace lithify::rewrite {
namespace {

constexpr int64_t kUnitEntries = 1024;    // Added at a time.
constexpr int64_t kEntriesMax = 1 << 20;  // Of a page, rows of very many entries apart.
constexpr int64_t kIndexBytes = 2;        // About, of one value.
constexpr int64_t kDictionaryEntries = 1 << 20;
constexpr int64_t kRowInDictionary = 16;     // Times the bounds, where it ends within a row.
constexpr int64_t kUselessEntries = 16'384;  // So many show whether a dictionary is of use.
constexpr size_t kKeptBytes = 8 << 20;
constexpr uint32_t kUnknown = 0xffffffff;  // An entry that was not looked up yet,
constexpr uint32_t kAsked = 0xfffffffe;    // or is among those that are being looked up.

[[noreturn]] void Throw(const Error& error) {
  throw parquet::ParquetStatusException(ToArrow(error));
}
void ThrowUnless(const Status& status) {
  if (!status) Throw(status.error());
}

// What was needed once, for a huge value, is not kept.
void ShrinkAbove(size_t bytes, std::string* text) {
  if (text->capacity() > bytes) std::string().swap(*text);
}

// The first bytes as a number that compares as they do; equal numbers say nothing.
inline uint64_t PrefixOf(const parquet::ByteArray& value) {
  uint64_t prefix = 0;
  if (value.len >= sizeof prefix) {
    std::memcpy(&prefix, value.ptr, sizeof prefix);
    return std::byteswap(prefix);
  }
  for (uint32_t i = 0; i < value.len; ++i) prefix |= uint64_t{value.ptr[i]} << (56 - 8 * i);
  return prefix;
}

std::string_view TextOf(const parquet::ByteArray& value) {
  return {reinterpret_cast<const char*>(value.ptr), value.len};
}

// Where entries get their values from: an array of them,
template <typename T>
struct ValueSource {
  const T* values;
  const T& At(int64_t i) const { return values[i]; }
  template <typename Room>
  const T* Some(int64_t first, int64_t, Room&) const {
    return values + first;
  }
};
// or a dictionary.
template <typename T>
struct FoldedSource {
  const uint32_t* indices;
  const ValueDictionary<T>& dictionary;
  const T& At(int64_t i) const { return dictionary.values[indices[i]]; }
  const T* Some(int64_t first, int64_t count, std::vector<T>& into) const {
    into.resize(static_cast<size_t>(count));
    const T* const values = dictionary.values.data();
    for (int64_t i = 0; i < count; ++i) into[static_cast<size_t>(i)] = values[indices[first + i]];
    return into.data();
  }
};

// Bounds and counts of the open page and of the chunk; those of values that have no order are
// unknown.
template <typename DType>
class Bounds {
  using T = typename DType::c_type;

 public:
  Bounds(const ColumnEncoderOptions& options) : options_(options) {
    const parquet::ColumnDescriptor* const column = options.column;
    if (options.statistics && column->sort_order() != parquet::SortOrder::UNKNOWN) {
      page_ = parquet::MakeStatistics<DType>(column, options.pool);
      chunk_ = parquet::MakeStatistics<DType>(column, options.pool);
    }
    by_bytes_ = std::is_same_v<DType, parquet::ByteArrayType> &&
                column->sort_order() == parquet::SortOrder::UNSIGNED;
    const auto& logical = column->logical_type();
    if (options.statistics && logical != nullptr &&
        (logical->is_geometry() || logical->is_geography())) {
      geo_.emplace();
    }
  }

  bool wanted() const { return page_ != nullptr || geo_; }

  // `values`: among them all that are different; there are `count`.
  void Add(std::span<const T> values, int64_t count) {
    const auto given = std::ssize(values);
    if constexpr (std::is_same_v<DType, parquet::ByteArrayType>) {
      if (geo_) geo_->Update(values.data(), given);
      if (by_bytes_ && page_ != nullptr && given > 2) {
        const auto [min, max] = ByBytes(values);
        const T both[] = {min, max};
        page_->Update(both, 2, 0);
        page_->IncrementNumValues(count - 2);
        return;
      }
    }
    if (page_ == nullptr) return;
    if (given > 0) page_->Update(values.data(), given, 0);
    page_->IncrementNumValues(count - given);
  }

  // Of the page, which is complete.
  std::optional<parquet::EncodedStatistics> EndPage(int64_t nulls) {
    if (page_ == nullptr) return std::nullopt;
    page_->IncrementNullCount(nulls);
    const auto stated = Encode(*page_);
    chunk_->Merge(*page_);
    page_->Reset();
    return stated;
  }

  parquet::EncodedStatistics OfChunk() {
    return chunk_ == nullptr ? parquet::EncodedStatistics() : Encode(*chunk_);
  }
  std::optional<parquet::geospatial::EncodedGeoStatistics> Geo() const {
    return geo_ ? geo_->Encode() : std::nullopt;
  }

 private:
  static std::pair<T, T> ByBytes(std::span<const T> values)
    requires std::is_same_v<DType, parquet::ByteArrayType>
  {
    const auto less = [](const T& a, uint64_t prefix_a, const T& b, uint64_t prefix_b) {
      return prefix_a != prefix_b ? prefix_a < prefix_b : TextOf(a) < TextOf(b);
    };
    T min = values.front();
    T max = min;
    uint64_t min_prefix = PrefixOf(min);
    uint64_t max_prefix = min_prefix;
    for (const T& value : values.subspan(1)) {
      const uint64_t prefix = PrefixOf(value);
      if (less(value, prefix, min, min_prefix)) {
        min = value;
        min_prefix = prefix;
      } else if (less(max, max_prefix, value, prefix)) {
        max = value;
        max_prefix = prefix;
      }
    }
    return {min, max};
  }

  parquet::EncodedStatistics Encode(parquet::Statistics& statistics) const {
    parquet::EncodedStatistics stated = statistics.Encode();
    stated.ApplyStatSizeLimits(options_.statistics_bytes_max);
    stated.set_is_signed(options_.column->sort_order() == parquet::SortOrder::SIGNED);
    return stated;
  }

  const ColumnEncoderOptions& options_;
  std::shared_ptr<parquet::TypedStatistics<DType>> page_;
  std::shared_ptr<parquet::TypedStatistics<DType>> chunk_;
  bool by_bytes_ = false;
  std::optional<parquet::geospatial::GeoStatistics> geo_;
};

// Where complete pages go: at once into the column, packed here or by other threads, or, as long as
// the dictionary in front of them may still grow, packed into memory.
class PageRoute {
 public:
  PageRoute(const ColumnEncoderOptions& options, RawColumn& to, PageCodec codec,
            PageThreads* threads)
      : options_(options), to_(to), codec_(std::move(codec)), threads_(threads) {}

  void Send(MadePage& page, bool wait) {
    if (!wait && threads_ != nullptr && options_.codec != arrow::Compression::UNCOMPRESSED) {
      if (!aside_) {
        aside_ = std::make_unique<PackAside>(
            options_.codec, options_.codec_level, *threads_,
            [this](const MadePage& made, std::span<const uint8_t> packed) {
              to_.WriteData(made, packed);
            });
      }
      return aside_->Write(page);
    }
    const std::span<const uint8_t> packed = Pack(BytesOf(page.body));
    if (!wait) {
      to_.WriteData(page, packed);
      return ShrinkAbove(kKeptBytes, &packed_);
    }
    if (waiting_bytes_ == nullptr) {
      constexpr int64_t kBytes = 16 << 10;
      PARQUET_ASSIGN_OR_THROW(waiting_bytes_,
                              arrow::io::BufferOutputStream::Create(kBytes, options_.pool));
    }
    PARQUET_THROW_NOT_OK(waiting_bytes_->Write(packed.data(), std::ssize(packed)));
    page.body.clear();
    waiting_.push_back({page, packed.size()});
  }

  void SendDictionary(const std::string& plain, int64_t entries) {
    PageHeader header;
    header.type = PageType::kDictionary;
    header.num_values = static_cast<int32_t>(entries);
    header.uncompressed_page_size = static_cast<int32_t>(plain.size());
    to_.WriteDictionary(header, Pack(BytesOf(plain)));
    if (waiting_bytes_ == nullptr) return;
    PARQUET_ASSIGN_OR_THROW(const auto bytes, waiting_bytes_->Finish());
    waiting_bytes_.reset();
    std::span<const uint8_t> rest(bytes->data(), static_cast<size_t>(bytes->size()));
    for (const auto& [page, size] : waiting_) {
      to_.WriteData(page, rest.first(size));
      rest = rest.subspan(size);
    }
    waiting_ = {};
  }

  void Finish() {
    if (aside_) aside_->Drain();
    aside_.reset();
    packed_ = {};
  }

 private:
  std::span<const uint8_t> Pack(std::span<const uint8_t> body) {
    packed_.clear();
    const auto packed = codec_.Compress(body, &packed_);
    if (!packed) Throw(packed.error());
    return BytesOf(packed_);
  }

  const ColumnEncoderOptions& options_;
  RawColumn& to_;
  PageCodec codec_;
  PageThreads* const threads_;
  std::unique_ptr<PackAside> aside_;
  std::string packed_;
  std::shared_ptr<arrow::io::BufferOutputStream> waiting_bytes_;
  std::vector<std::pair<MadePage, size_t>> waiting_;  // And how many of the bytes each has.
};

template <typename DType>
class Encoder final : public TypedColumnEncoder<DType> {
  using T = typename DType::c_type;
  static constexpr bool kArrays = std::is_same_v<DType, parquet::ByteArrayType>;
  static constexpr bool kBooleans = std::is_same_v<DType, parquet::BooleanType>;

 public:
  Encoder(const ColumnEncoderOptions& options, RawColumn& to, PageCodec codec, PageThreads* threads)
      : options_(options),
        form_(FormOf(*options.column)),
        plain_form_(kArrays ? 0 : form_.bytes),
        definition_max_(options.column->max_definition_level()),
        repetition_max_(options.column->max_repetition_level()),
        unit_bytes_max_(std::max<int64_t>(options.page_bytes / 8, 1)),
        to_(to),
        route_(options_, to, std::move(codec), threads),
        bounds_(options_),
        page_sizes_(parquet::SizeStatistics::Make(options.column)),
        chunk_sizes_(parquet::SizeStatistics::Make(options.column)) {
    if (options.dictionary && !kBooleans) {
      // A row is not torn apart where it can be helped.
      const int64_t rows = repetition_max_ > 0 ? kRowInDictionary : 1;
      union_.emplace(
          kArrays ? DictionaryUnion::kByteArray : form_.bytes,
          DictionaryBounds{options.dictionary_bytes_max * rows, kDictionaryEntries * rows});
    }
    if (kBooleans || options.encoding != parquet::Encoding::PLAIN) {
      encoder_ =
          parquet::MakeTypedEncoder<DType>(options.encoding, false, options.column, options.pool);
    }
  }

  void Add(const EntrySpan& entries, const T* values) override {
    AddAll(entries, ValueSource<T>{values});
  }

  void AddFolded(const EntrySpan& entries, const uint32_t* indices,
                 const ValueDictionary<T>& dictionary) override {
    if constexpr (kBooleans) {
      throw parquet::ParquetException("a dictionary of booleans");
    } else {
      AddAll(entries, FoldedSource<T>{indices, dictionary});
    }
  }

  void Finish() override {
    ClosePage();
    if (union_) EndDictionary();
    route_.Finish();
    to_.SetStatistics(bounds_.OfChunk(), *chunk_sizes_);
    if (const auto geo = bounds_.Geo()) to_.SetGeoStatistics(*geo);
    made_ = {};
    plain_ = {};
    some_ = {};
    definition_.Release();
    repetition_.Release();
    indices_.Release();
    encoder_.reset();
  }

 private:
  // Entries that are added together.
  struct Unit {
    int64_t levels = 0;
    int64_t present = 0;
    int64_t rows = 0;   // That begin in it.
    int64_t bytes = 0;  // Of its values, PLAIN.
  };

  template <typename Source>
  void AddAll(const EntrySpan& entries, const Source& source) {
    int64_t value = 0;
    for (int64_t at = 0; at < entries.levels;) {
      const bool begins_row = entries.repetition == nullptr || entries.repetition[at] == 0;
      if (begins_row && union_ && IsUseless()) GiveUpDictionary();
      if (begins_row && Full()) ClosePage();
      const Unit unit = NextUnit(entries, at, source, value);
      CheckRow(unit);
      AddValues(source, value, unit);
      if (entries_ == 0) begins_row_ = begins_row;
      AddLevels(entries, at, unit);
      entries_ += unit.levels;
      present_ += unit.present;
      rows_ += unit.rows;
      at += unit.levels;
      value += unit.present;
    }
  }

  // A unit ends where a page may.
  template <typename Source>
  Unit NextUnit(const EntrySpan& entries, int64_t at, const Source& source, int64_t value) const {
    int64_t most = kUnitEntries;
    while (true) {
      Unit unit = Cut(entries, at, most);
      const int16_t* const definition = entries.definition + at;
      unit.present = definition_max_ == 0
                         ? unit.levels
                         : std::count(definition, definition + unit.levels, definition_max_);
      if constexpr (kArrays) {
        for (int64_t i = value; i < value + unit.present; ++i) {
          unit.bytes += plain_form_.BytesOf(source.At(i));
        }
      } else {
        unit.bytes = unit.present * std::max(1, form_.bytes);
      }
      if (unit.bytes <= unit_bytes_max_ || unit.rows <= 1 || most == 1) return unit;
      most = std::max<int64_t>(1, std::min(most, unit.levels) / 2);
    }
  }

  void CheckRow(const Unit& unit) const {
    const int64_t most = options_.row_bytes_max;
    if (most == 0 || OpenBytes() + unit.bytes <= most) return;
    Throw(Error{Code::kLimit, "a row of more than " + FormatBytes(most), "", "raise --memory"});
  }

  Unit Cut(const EntrySpan& entries, int64_t at, int64_t most) const {
    Unit unit;
    const int64_t rows_left = std::max<int64_t>(1, options_.page_rows - rows_);
    if (entries.repetition == nullptr) {
      unit.levels = unit.rows = std::min({entries.levels - at, most, rows_left});
      return unit;
    }
    int64_t end = at;
    for (; end < entries.levels; ++end) {
      if (entries.repetition[end] != 0) continue;
      if (end > at && (end - at >= most || unit.rows == rows_left)) break;
      ++unit.rows;
    }
    unit.levels = end - at;
    return unit;
  }

  void AddLevels(const EntrySpan& entries, int64_t at, const Unit& unit) {
    const auto count = static_cast<size_t>(unit.levels);
    if (definition_max_ > 0) {
      const std::span levels(entries.definition + at, count);
      definition_.Append(levels);
      CountLevels(levels, page_sizes_->definition_level_histogram);
    }
    if (repetition_max_ > 0) {
      const std::span levels(entries.repetition + at, count);
      repetition_.Append(levels);
      CountLevels(levels, page_sizes_->repetition_level_histogram);
    }
    if constexpr (kArrays) {
      page_sizes_->IncrementUnencodedByteArrayDataBytes(
          unit.bytes - unit.present * static_cast<int64_t>(kLengthBytes));
    }
  }

  static void CountLevels(std::span<const int16_t> levels, std::vector<int64_t>& histogram) {
    if (!histogram.empty()) parquet::UpdateLevelHistogram(levels, histogram);
  }

  template <typename Source>
  void AddValues(const Source& source, int64_t first, const Unit& unit) {
    if (unit.present == 0) return;
    if constexpr (!kBooleans) {
      if (union_ && AddToDictionary(source, first, unit)) return;
      if (union_) GiveUpDictionary();
    }
    const T* const values = source.Some(first, unit.present, some_);
    if (bounds_.wanted()) {
      bounds_.Add({values, static_cast<size_t>(unit.present)}, unit.present);
    }
    if (encoder_ == nullptr) {
      plain_form_.Append(values, unit.present, unit.bytes, &plain_);
      return;
    }
    encoder_->Put(values, static_cast<int>(unit.present));
    if constexpr (!kBooleans) {
      if (to_.bloom_filter() == nullptr) return;
      plain_.clear();
      plain_form_.Append(values, unit.present, unit.bytes, &plain_);
      Filter(unit.present);
    }
  }

  // ------------------------------------------------------------------------------- dictionary

  // False: it has no room for what is new; then it is as it was.
  template <typename Source>
  bool AddToDictionary(const Source& source, int64_t first, const Unit& unit) {
    numbers_.resize(static_cast<size_t>(unit.present));
    if constexpr (std::is_same_v<Source, FoldedSource<T>>) {
      if (!Translate(source.indices + first, source.dictionary)) return false;
    } else {
      plain_.clear();
      plain_form_.Append(source.values + first, unit.present, unit.bytes, &plain_);
      if (!LookUp(unit.present, numbers_.data())) return false;
    }
    used_.resize(static_cast<size_t>(union_->size()));
    for (const uint32_t number : numbers_) {
      if (used_[number] == page_) continue;
      used_[number] = page_;
      distinct_.push_back(number);
    }
    indices_.Append(numbers_);
    values_seen_ += unit.present;
    return true;
  }

  // The `count` values in plain_ to their numbers.
  bool LookUp(int64_t count, uint32_t* numbers) {
    auto added = union_->Add(BytesOf(plain_), count);
    if (!added) Throw(added.error());
    if (!*added) return false;
    std::ranges::copy((*added)->to, numbers);
    return true;
  }

  bool Translate(const uint32_t* indices, const ValueDictionary<T>& dictionary) {
    if (table_of_ != dictionary.serial) {
      table_.assign(dictionary.values.size(), kUnknown);
      table_of_ = dictionary.serial;
    }
    uint32_t max = 0;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      numbers_[i] = table_[indices[i]];
      max = std::max(max, numbers_[i]);
    }
    if (max < kAsked) return true;
    if (!LookUpNew(indices, dictionary)) return false;
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = table_[indices[i]];
    return true;
  }

  // Entries come in the order in which they are used first, and only those that are.
  bool LookUpNew(const uint32_t* indices, const ValueDictionary<T>& dictionary) {
    asked_.clear();
    some_.clear();
    int64_t bytes = 0;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      uint32_t& number = table_[indices[i]];
      if (number != kUnknown) continue;
      number = kAsked;
      asked_.push_back(indices[i]);
      some_.push_back(dictionary.values[indices[i]]);
      bytes += plain_form_.BytesOf(some_.back());
    }
    plain_.clear();
    plain_form_.Append(some_.data(), std::ssize(some_), bytes, &plain_);
    found_.resize(asked_.size());
    if (!LookUp(std::ssize(asked_), found_.data())) return false;
    for (size_t i = 0; i < asked_.size(); ++i) table_[asked_[i]] = found_[i];
    return true;
  }

  // It is full, or it has many entries, and values come less than twice on average.
  bool IsUseless() const {
    return std::ssize(union_->plain()) >= options_.dictionary_bytes_max ||
           (union_->size() >= kUselessEntries && 2 * union_->size() > values_seen_);
  }

  void GiveUpDictionary() {
    ClosePage();
    EndDictionary();
  }

  void EndDictionary() {
    if (to_.bloom_filter() != nullptr) {
      ThrowUnless(
          InsertPlain(form_, BytesOf(union_->plain()), union_->size(), *to_.bloom_filter()));
    }
    route_.SendDictionary(union_->plain(), union_->size());
    union_.reset();
    plain_.clear();
    for (auto* numbers : {&table_, &asked_, &found_, &used_, &distinct_, &numbers_}) *numbers = {};
  }

  // The `count` values in plain_ into the chunk's filter.
  void Filter(int64_t count) {
    ThrowUnless(InsertPlain(form_, BytesOf(plain_), count, *to_.bloom_filter()));
  }

  // ------------------------------------------------------------------------------------ pages

  bool Full() const {
    return entries_ > 0 && (rows_ >= options_.page_rows || OpenBytes() >= options_.page_bytes ||
                            entries_ >= kEntriesMax);
  }

  int64_t OpenBytes() const {
    if (union_) return indices_.count() * kIndexBytes;
    return encoder_ != nullptr ? encoder_->EstimatedDataEncodedSize() : std::ssize(plain_);
  }

  void ClosePage() {
    if (entries_ == 0) return;
    made_.body.clear();
    repetition_.WriteLevels(repetition_max_, &made_.body);
    definition_.WriteLevels(definition_max_, &made_.body);
    AppendValues();
    if (std::cmp_greater(made_.body.size(), std::numeric_limits<int32_t>::max())) {
      throw parquet::ParquetException("a page of more than 2 GiB");
    }
    made_.header.num_values = static_cast<int32_t>(entries_);
    made_.header.uncompressed_page_size = static_cast<int32_t>(made_.body.size());
    made_.rows = rows_;
    made_.begins_row = begins_row_;
    made_.statistics = bounds_.EndPage(entries_ - present_);
    made_.sizes = *page_sizes_;
    chunk_sizes_->Merge(*page_sizes_);
    page_sizes_->Reset();
    route_.Send(made_, union_.has_value());
    for (std::string* text : {&made_.body, &plain_}) ShrinkAbove(kKeptBytes, text);
    definition_.Clear();
    repetition_.Clear();
    entries_ = present_ = rows_ = 0;
  }

  void AppendIndices() {
    made_.header.encoding = PageEncoding::kRleDictionary;
    indices_.WriteIndices(&made_.body);
    indices_.Clear();
    some_.clear();
    if constexpr (!kBooleans) {
      for (const uint32_t number : distinct_) {
        some_.push_back(plain_form_.Value(union_->Entry(number)));
      }
      bounds_.Add(some_, present_);
    }
    distinct_.clear();
    ++page_;
  }

  void AppendValues() {
    if (union_) return AppendIndices();
    made_.header.encoding = static_cast<PageEncoding>(options_.encoding);
    if (encoder_ != nullptr) {
      const auto values = encoder_->FlushValues();
      made_.body.append(reinterpret_cast<const char*>(values->data()),
                        static_cast<size_t>(values->size()));
      return;
    }
    if (to_.bloom_filter() != nullptr) Filter(present_);
    // Pages may be large: levels go in front of the values, not the values behind them.
    plain_.insert(0, made_.body);
    made_.body.swap(plain_);
    plain_.clear();
  }

  const ColumnEncoderOptions options_;
  const PlainForm form_;
  const Plain<DType> plain_form_;
  const int16_t definition_max_;
  const int16_t repetition_max_;
  const int64_t unit_bytes_max_;
  RawColumn& to_;
  PageRoute route_;
  Bounds<DType> bounds_;
  std::unique_ptr<parquet::SizeStatistics> page_sizes_;
  std::unique_ptr<parquet::SizeStatistics> chunk_sizes_;
  std::unique_ptr<parquet::TypedEncoder<DType>> encoder_;  // Null: PLAIN.
  // The dictionary; none: it was given up, or none is wanted.
  std::optional<DictionaryUnion> union_;
  int64_t values_seen_ = 0;
  std::vector<uint32_t> table_;  // Of the input dictionary table_of_: its entries' numbers here.
  uint64_t table_of_ = 0;
  std::vector<uint32_t> used_;  // Of each entry, the last page that has it.
  uint32_t page_ = 1;
  std::vector<uint32_t> distinct_;  // Entries that the open page has.
  // The open page.
  int64_t entries_ = 0;
  int64_t present_ = 0;
  int64_t rows_ = 0;
  bool begins_row_ = true;
  PageNumbers definition_;
  PageNumbers repetition_;
  PageNumbers indices_;
  std::string plain_;  // With a dictionary: values that are looked up.
  // Used again and again.
  MadePage made_;
  std::vector<std::conditional_t<kBooleans, char, T>> some_;
  std::vector<uint32_t> numbers_;
  std::vector<uint32_t> asked_;
  std::vector<uint32_t> found_;
};

}  // namespace

ColumnEncoderOptions EncoderOptions(const parquet::WriterProperties& properties,
                                    const parquet::ColumnDescriptor* column) {
  const auto path = column->path();
  ColumnEncoderOptions options;
  options.column = column;
  options.codec = properties.compression(path);
  const auto codec_options = properties.codec_options(path);
  if (codec_options != nullptr) options.codec_level = codec_options->compression_level;
  options.dictionary = properties.dictionary_enabled(path);
  options.dictionary_bytes_max = properties.dictionary_pagesize_limit();
  const auto encoding = properties.encoding(path);
  if (encoding != parquet::Encoding::UNKNOWN) options.encoding = encoding;
  options.page_bytes = properties.data_pagesize();
  options.page_rows = properties.max_rows_per_page();
  options.statistics = properties.statistics_enabled(path);
  options.statistics_bytes_max = properties.max_statistics_size(path);
  options.pool = properties.memory_pool();
  return options;
}

Result<std::unique_ptr<ColumnEncoder>> MakeColumnEncoder(const ColumnEncoderOptions& options,
                                                         RawColumn& to, PageThreads* threads) {
  LITHIFY_TRY_ASSIGN(PageCodec codec, PageCodec::Make(options.codec, options.codec_level));
  const auto make = [&]<typename DType>(DType*) -> std::unique_ptr<ColumnEncoder> {
    return std::make_unique<Encoder<DType>>(options, to, std::move(codec), threads);
  };
  return OfPhysicalType(options.column->physical_type(), make);
}

}  // namespace lithify::rewrite
