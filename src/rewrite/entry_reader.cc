#include "rewrite/entry_reader.h"

#include <parquet/column_page.h>
#include <parquet/encoding.h>
#include <parquet/exception.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rewrite/index_pages.h"
#include "rewrite/physical_type.h"

namespace lithify::rewrite {
namespace {

using parquet::Encoding;
using parquet::ParquetException;

bool UsesDictionary(Encoding::type encoding) {
  return encoding == Encoding::RLE_DICTIONARY || encoding == Encoding::PLAIN_DICTIONARY;
}

template <typename DType>
class Entries final : public TypedEntryReader<DType> {
  using T = typename DType::c_type;
  static constexpr bool kFolds = !std::is_same_v<DType, parquet::BooleanType>;

 public:
  Entries(const parquet::ColumnDescriptor* descr, std::unique_ptr<parquet::PageReader> pages,
          arrow::MemoryPool* pool)
      : TypedEntryReader<DType>(descr),
        definition_max_(descr->max_definition_level()),
        repetition_max_(descr->max_repetition_level()),
        pages_(std::move(pages)),
        pool_(pool) {}

  bool folded() override { return At() && folded_; }

  int64_t Read(int64_t most, int16_t* definition, int16_t* repetition, T* values,
               int64_t* present) override {
    *present = 0;
    if (!At()) return 0;
    const int64_t entries = ReadLevels(most, definition, repetition, present);
    *present = decoder_->Decode(values, static_cast<int>(*present));
    return entries;
  }

  int64_t ReadIndices(int64_t most, int16_t* definition, int16_t* repetition, uint32_t* indices,
                      int64_t* present) override {
    *present = 0;
    if constexpr (kFolds) {
      if (!folded()) return 0;
      const int64_t entries = ReadLevels(most, definition, repetition, present);
      // As many bits either way; what would be negative is beyond every dictionary.
      *present = dictionary_->DecodeIndices(static_cast<int>(*present),
                                            reinterpret_cast<int32_t*>(indices));
      const std::span<const uint32_t> read(indices, static_cast<size_t>(*present));
      if (!read.empty() && MaxOf(read) >= values_.size()) {
        throw ParquetException("an index is beyond its dictionary");
      }
      return entries;
    }
    return 0;
  }

  std::span<const T> dictionary() const override { return values_; }

  int64_t Skip(int64_t entries) override {
    if (!At()) return 0;
    const int64_t left = entries_ - taken_;
    if (entries >= left) {
      taken_ = entries_;
      return left;
    }
    // Enough at a time that the calls are nothing beside what they do.
    constexpr int64_t kStep = 1024;
    definition_skipped_.resize(kStep);
    repetition_skipped_.resize(kStep);
    if (values_skipped_ == nullptr) values_skipped_ = std::make_unique<T[]>(kStep);
    int64_t skipped = 0;
    while (skipped < entries) {
      int64_t present = 0;
      const int64_t read = Read(std::min(kStep, entries - skipped), definition_skipped_.data(),
                                repetition_skipped_.data(), values_skipped_.get(), &present);
      if (read == 0) break;
      skipped += read;
    }
    return skipped;
  }

 private:
  // Goes on to the next page where this one has no more; false: the end, or an empty page.
  bool At() {
    if (taken_ < entries_) return true;
    while (true) {
      page_ = pages_->NextPage();
      if (page_ == nullptr) return false;
      switch (page_->type()) {
        case parquet::PageType::DICTIONARY_PAGE:
          TakeDictionary(static_cast<const parquet::DictionaryPage&>(*page_));
          break;
        case parquet::PageType::DATA_PAGE: {
          const auto& page = static_cast<const parquet::DataPageV1&>(*page_);
          Begin(page, LevelsOf(page));
          return entries_ > 0;
        }
        case parquet::PageType::DATA_PAGE_V2: {
          const auto& page = static_cast<const parquet::DataPageV2&>(*page_);
          Begin(page, LevelsOf(page));
          return entries_ > 0;
        }
        default: break;
      }
    }
  }

  void TakeDictionary(const parquet::DictionaryPage& page) {
    if constexpr (kFolds) {
      if (dictionary_ != nullptr) throw ParquetException("a second dictionary");
      if (page.encoding() != Encoding::PLAIN && page.encoding() != Encoding::PLAIN_DICTIONARY) {
        throw ParquetException("a dictionary in another encoding than PLAIN");
      }
      // Room is made for as many as are claimed.
      const int64_t least =
          std::is_same_v<DType, parquet::ByteArrayType> ? int64_t{sizeof(uint32_t)}
          : std::is_same_v<DType, parquet::FLBAType>    ? std::max(1, this->descr()->type_length())
                                                        : int64_t{sizeof(T)};
      if (page.num_values() < 0 || page.num_values() > page.size() / least) {
        throw ParquetException("a dictionary of " + std::to_string(page.num_values()) +
                               " values in " + std::to_string(page.size()) + " bytes");
      }
      const auto plain = parquet::MakeTypedDecoder<DType>(Encoding::PLAIN, this->descr(), pool_);
      plain->SetData(page.num_values(), page.data(), static_cast<int>(page.size()));
      auto decoder = parquet::MakeDictDecoder<DType>(this->descr(), pool_);
      decoder->SetDict(plain.get());
      const T* values = nullptr;
      int32_t count = 0;
      decoder->GetDictionary(&values, &count);
      values_ = std::span(values, static_cast<size_t>(count));
      dictionary_ = std::move(decoder);
    } else {
      throw ParquetException("a dictionary of booleans");
    }
  }

  // Where the values begin.
  int64_t LevelsOf(const parquet::DataPageV1& page) {
    const uint8_t* const data = page.data();
    const auto size = static_cast<int32_t>(page.size());
    int32_t at = 0;
    if (repetition_max_ > 0) {
      at += repetition_.SetData(page.repetition_level_encoding(), repetition_max_,
                                page.num_values(), data, size);
    }
    if (definition_max_ > 0) {
      at += definition_.SetData(page.definition_level_encoding(), definition_max_,
                                page.num_values(), data + at, size - at);
    }
    return at;
  }

  int64_t LevelsOf(const parquet::DataPageV2& page) {
    const int64_t repetition = page.repetition_levels_byte_length();
    const int64_t definition = page.definition_levels_byte_length();
    if (repetition < 0 || definition < 0 || repetition + definition > page.size()) {
      throw ParquetException("levels that are larger than their page");
    }
    // Levels that must all be 0 may be there all the same (ARROW-17453).
    if (repetition_max_ > 0) {
      repetition_.SetDataV2(static_cast<int32_t>(repetition), repetition_max_, page.num_values(),
                            page.data());
    }
    if (definition_max_ > 0) {
      definition_.SetDataV2(static_cast<int32_t>(definition), definition_max_, page.num_values(),
                            page.data() + repetition);
    }
    return repetition + definition;
  }

  void Begin(const parquet::DataPage& page, int64_t values_at) {
    folded_ = UsesDictionary(page.encoding());
    if (!folded_) {
      auto& decoder = decoders_[page.encoding()];
      if (decoder == nullptr) {
        decoder = parquet::MakeTypedDecoder<DType>(page.encoding(), this->descr(), pool_);
      }
      decoder_ = decoder.get();
    } else {
      if constexpr (kFolds) decoder_ = dictionary_.get();
      if (dictionary_ == nullptr) throw ParquetException("indices without a dictionary");
    }
    decoder_->SetData(page.num_values(), page.data() + values_at,
                      static_cast<int>(page.size() - values_at));
    entries_ = page.num_values();
    taken_ = 0;
  }

  int64_t ReadLevels(int64_t most, int16_t* definition, int16_t* repetition, int64_t* present) {
    const int64_t entries = std::min(most, entries_ - taken_);
    *present = entries;
    if (definition_max_ > 0) {
      if (definition_.Decode(static_cast<int>(entries), definition) != entries) ThrowCutOff();
      *present = std::count(definition, definition + entries, definition_max_);
    }
    if (repetition_max_ > 0 &&
        repetition_.Decode(static_cast<int>(entries), repetition) != entries) {
      ThrowCutOff();
    }
    taken_ += entries;
    return entries;
  }

  [[noreturn]] static void ThrowCutOff() {
    throw ParquetException("the levels of a page are cut off");
  }

  const int16_t definition_max_;
  const int16_t repetition_max_;
  const std::unique_ptr<parquet::PageReader> pages_;
  arrow::MemoryPool* const pool_;
  std::unique_ptr<parquet::DictDecoder<DType>> dictionary_;
  std::span<const T> values_;  // Of the dictionary.
  std::map<Encoding::type, std::unique_ptr<parquet::TypedDecoder<DType>>> decoders_;
  // The page at hand.
  std::shared_ptr<parquet::Page> page_;
  parquet::TypedDecoder<DType>* decoder_ = nullptr;
  parquet::LevelDecoder definition_;
  parquet::LevelDecoder repetition_;
  bool folded_ = false;
  int64_t entries_ = 0;
  int64_t taken_ = 0;
  // Read and forgotten.
  std::vector<int16_t> definition_skipped_;
  std::vector<int16_t> repetition_skipped_;
  std::unique_ptr<T[]> values_skipped_;
};

}  // namespace

std::unique_ptr<EntryReader> MakeEntryReader(const parquet::ColumnDescriptor* descr,
                                             std::unique_ptr<parquet::PageReader> pages,
                                             arrow::MemoryPool* pool) {
  const auto make = [&]<typename DType>(DType*) -> std::unique_ptr<EntryReader> {
    return std::make_unique<Entries<DType>>(descr, std::move(pages), pool);
  };
  return OfPhysicalType(descr->physical_type(), make);
}

}  // namespace lithify::rewrite
