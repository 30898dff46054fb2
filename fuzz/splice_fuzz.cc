// Files whose footers are sound and whose pages are not: headers, levels, indices, dictionaries and
// values changed byte by byte, spliced together with a sound file, with and without deleted rows.
// The recode tier is the judge: what both tiers accept is the same rows in both.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/memory.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/position_set.h"
#include "fuzz_input.h"
#include "rewrite/parquet_runner.h"
#include "storage/memory_store.h"

namespace lithify::fuzz {
namespace {

constexpr int kRows = 120;
constexpr int64_t kMemory = int64_t{64} << 20;

// What a byte says of the sound file that is then damaged.
struct Form {
  bool dictionary = false;
  bool version_2 = false;
  bool nullable = false;
  bool nested = false;
  bool texts = false;
  bool unique = false;  // All values differ: the dictionary may become a page.
  bool indexed = false;
  bool packed = false;

  explicit Form(uint8_t bits)
      : dictionary((bits & 1) != 0),
        version_2((bits & 2) != 0),
        nullable((bits & 4) != 0),
        nested((bits & 8) != 0),
        texts((bits & 16) != 0),
        unique((bits & 32) != 0),
        indexed((bits & 64) != 0),
        packed((bits & 128) != 0) {}
};

template <typename T>
T Good(arrow::Result<T> result) {
  Require(result.ok(), "an arrow result");
  return std::move(result).ValueOrDie();
}

void Good(const arrow::Status& status) { Require(status.ok(), "an arrow call"); }

std::shared_ptr<arrow::Array> Values(const Form& form, int rows, int salt) {
  arrow::Int64Builder numbers;
  arrow::StringBuilder texts;
  for (int i = 0; i < rows; ++i) {
    const int64_t value = form.unique ? i : (i * 7 + salt) % 11;
    const bool null = form.nullable && i % 5 == 3;
    if (form.texts) {
      Good(null ? texts.AppendNull() : texts.Append("text " + std::to_string(value + salt)));
    } else {
      Good(null ? numbers.AppendNull() : numbers.Append(value + salt));
    }
  }
  return Good(form.texts ? texts.Finish() : numbers.Finish());
}

std::string MakeFile(const Form& form, int salt) {
  auto values = Values(form, form.nested ? 2 * kRows : kRows, salt);
  const bool nullable = form.nullable;
  auto type = values->type();
  if (form.nested) {
    arrow::Int32Builder offsets;
    for (int i = 0; i <= kRows; ++i) Good(offsets.Append(i * 2 - i % 2));
    type = arrow::list(arrow::field("element", type, nullable));
    values = Good(arrow::ListArray::FromArrays(type, *Good(offsets.Finish()), *values));
  }
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("c", type, nullable)}), {values});
  parquet::WriterProperties::Builder builder;
  builder.compression(form.packed ? arrow::Compression::SNAPPY : arrow::Compression::UNCOMPRESSED)
      ->data_pagesize(100)
      ->write_batch_size(40);
  if (!form.dictionary) builder.disable_dictionary();
  if (form.version_2) builder.data_page_version(parquet::ParquetDataPageVersion::V2);
  if (form.indexed) builder.enable_write_page_index();
  const auto sink = Good(arrow::io::BufferOutputStream::Create());
  Good(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 1 << 20,
                                  builder.build()));
  return Good(sink->Finish())->ToString();
}

// Made once for each form: one to damage, one to leave alone.
const std::pair<std::string, std::string>& Files(uint8_t bits) {
  static std::map<uint8_t, std::pair<std::string, std::string>> made;
  auto& files = made[bits];
  if (files.first.empty()) files = {MakeFile(Form(bits), 0), MakeFile(Form(bits), 4)};
  return files;
}

// The rest of the input: places among the pages, and what is put there. False: nothing was.
bool Damage(Taker& taker, std::string& file) {
  uint32_t footer = 0;
  std::memcpy(&footer, file.data() + file.size() - 8, sizeof footer);
  const size_t pages = file.size() - footer - 12;
  for (int i = 0; i < 64; ++i) {
    const std::string_view change = taker.Bytes(3);
    if (change.size() < 3) return i > 0;
    const auto place =
        static_cast<size_t>(static_cast<uint8_t>(change[0])) << 8 | static_cast<uint8_t>(change[1]);
    file[4 + place % pages] = change[2];
  }
  return true;
}

rewrite::GroupRequest Request(uint8_t detail, const std::string& codec) {
  rewrite::GroupRequest request;
  request.job_id = "job";
  request.partition = "p/";
  request.shape.row_group_bytes = 128 << 20;
  // Well-sized row groups are moved as they are.
  request.shape.row_group_rows = (detail & 8) != 0 ? kRows + kRows / 2 : 1 << 20;
  request.shape.page_bytes = 1 << 20;
  request.shape.file_size_bytes_max = int64_t{2} << 30;
  request.shape.growth_max = 0;
  request.shape.codec = codec;
  request.shape.splice_page_bytes_min = (detail & 4) != 0 ? 200 : 0;
  request.shape.splice_page_values_min = 0;
  request.verify = rewrite::Verify::kFull;
  request.memory_bytes = kMemory;
  return request;
}

class Case {
 public:
  explicit Case(Taker& taker) {
    const uint8_t bits = taker.Byte();
    const uint8_t detail = taker.Byte();
    std::string damaged = Files(bits).first;
    const std::string& sound = Files(bits).second;
    sound_ = !Damage(taker, damaged) && (detail & 6) == 0;
    request_ = Request(detail, Form(bits).packed ? "snappy" : "none");
    Put("p/damaged.parquet", damaged);
    Put("p/sound.parquet", sound);
    if ((detail & 1) != 0) std::swap(request_.inputs[0], request_.inputs[1]);
    if ((detail & 2) == 0) return;
    for (rewrite::InputFile& input : request_.inputs) {
      auto deleted = std::make_shared<PositionSet>();
      const int64_t step = 1 + detail / 8;
      for (int64_t row = detail % 16; row < kRows; row += step) deleted->Add(row);
      input.deleted = deleted;
    }
  }

  // Whether all pages are as they were written, and all rows and pages are wanted.
  bool sound() const { return sound_; }

  Result<rewrite::GroupReport> Run(bool splice) {
    request_.shape.splice = splice;
    request_.new_name = [this] { return "out" + std::to_string(made_++) + ".parquet"; };
    return rewrite::MakeParquetRunner(store_, kMemory)->Run(request_, cancel_);
  }

  // Of all that the outputs hold, read again.
  ContentDigest Read(const rewrite::GroupReport& report) {
    ContentDigest digest;
    const auto runner = rewrite::MakeParquetRunner(store_, kMemory);
    for (const rewrite::OutputFile& output : report.outputs) {
      const auto read = Must(runner->VerifyFile("p/" + output.name, {}, cancel_), "an output");
      digest.Add(read.digest);
    }
    return digest;
  }

 private:
  void Put(const std::string& key, const std::string& bytes) {
    Require(store_.PutNew(key, bytes).has_value(), "a store");
    request_.inputs.push_back(rewrite::InputFile{key, static_cast<int64_t>(bytes.size())});
  }

  const SystemClock clock_;
  storage::MemoryStore store_{clock_};
  const CancelFlag cancel_;
  rewrite::GroupRequest request_;
  bool sound_ = false;
  int made_ = 0;
};

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  fuzz::Taker taker(fuzz::Text(data, size));
  fuzz::Case tried(taker);
  const auto spliced = tried.Run(true);
  const auto recoded = tried.Run(false);
  // Full verification decodes what is moved: neither tier takes what the other cannot read.
  const bool both = fuzz::Gave(spliced) && fuzz::Gave(recoded);
  if (!both) {
    fuzz::Require(spliced.has_value() == recoded.has_value(),
                  "one tier reads what the other refuses: " +
                      (spliced ? recoded.error() : spliced.error()).ToString());
    return 0;
  }
  const bool moves = !spliced->splices.empty() || spliced->tiers.contains("copy");
  fuzz::Require(!tried.sound() || moves, "a sound file is spliced");
  fuzz::Require(spliced->rows_out == recoded->rows_out, "the same number of rows");
  fuzz::Require(spliced->digest_in == recoded->digest_in, "the same rows read");
  fuzz::Require(tried.Read(*spliced) == tried.Read(*recoded), "the same rows written");
  return 0;
}
