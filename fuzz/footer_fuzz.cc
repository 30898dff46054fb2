// A hostile Parquet file, through everything that a rewrite does: the footer, every value in memory
// of 64 MiB, and a rewrite that must keep what the reading saw.
#include <memory>

#include "base/cancel.h"
#include "base/clock.h"
#include "fuzz_input.h"
#include "rewrite/parquet_runner.h"
#include "storage/memory_store.h"

namespace lithify::fuzz {
namespace {

constexpr int64_t kMemory = int64_t{64} << 20;

rewrite::GroupRequest Request(int64_t size) {
  rewrite::GroupRequest request;
  request.job_id = "job";
  request.partition = "p/";
  request.inputs = {rewrite::InputFile{"p/in.parquet", size}};
  request.shape.row_group_bytes = 128 << 20;
  request.shape.row_group_rows = 1 << 20;
  request.shape.page_bytes = 1 << 20;
  request.shape.file_size_bytes_max = int64_t{2} << 30;
  request.shape.growth_max = 0;
  request.verify = rewrite::Verify::kFull;
  request.memory_bytes = kMemory;
  request.new_name = [made = 0]() mutable { return "out" + std::to_string(made++) + ".parquet"; };
  return request;
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  const lithify::SystemClock clock;
  lithify::storage::MemoryStore store(clock);
  const lithify::CancelFlag cancel;
  fuzz::Require(store.PutNew("p/in.parquet", fuzz::Text(data, size)).has_value(), "a store");
  const auto runner = lithify::rewrite::MakeParquetRunner(store, fuzz::kMemory);
  const auto facts = runner->Inspect({.key = "p/in.parquet"});
  if (!fuzz::Gave(facts)) return 0;
  const auto read = runner->VerifyFile("p/in.parquet", {}, cancel);
  (void)fuzz::Gave(read);
  if (read) fuzz::Require(read->rows == facts->rows, "all rows were read");
  const auto report = runner->Run(fuzz::Request(static_cast<int64_t>(size)), cancel);
  if (!fuzz::Gave(report)) return 0;
  fuzz::Require(report->rows_in == facts->rows && report->rows_out == facts->rows, "all rows");
  if (read) fuzz::Require(report->digest_in == read->digest, "the same rows");
  return 0;
}
