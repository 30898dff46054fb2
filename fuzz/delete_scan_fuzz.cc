// Hostile Parquet as position deletes, as equality deletes and as the data file that they delete
// from.
#include <memory>

#include "base/clock.h"
#include "fuzz_input.h"
#include "rewrite/delete_scan.h"
#include "rewrite/parquet_runner.h"
#include "storage/memory_store.h"

namespace lithify::fuzz {
namespace {

using iceberg::TypeKind;

rewrite::TableTarget Table() {
  rewrite::TableTarget table;
  const TypeKind kinds[] = {TypeKind::kLong,        TypeKind::kString,  TypeKind::kDecimal,
                            TypeKind::kDouble,      TypeKind::kBoolean, TypeKind::kDate,
                            TypeKind::kTimestamptz, TypeKind::kFixed,   TypeKind::kInt};
  for (const TypeKind kind : kinds) {
    iceberg::Field field;
    field.id = static_cast<int>(table.schema.fields.size()) + 1;
    field.name = "c" + std::to_string(field.id);
    field.type.kind = kind;
    if (kind == TypeKind::kDecimal) field.type.precision = 20;
    if (kind == TypeKind::kDecimal) field.type.scale = 2;
    if (kind == TypeKind::kFixed) field.type.length = 4;
    table.schema.fields.push_back(field);
  }
  return table;
}

// A file whose rows are all deleted by themselves.
void Equality(storage::Store& store, std::vector<int> ids, const rewrite::ScanBounds& bounds) {
  static const rewrite::TableTarget table = Table();
  rewrite::EqualityDeleteFile deletes;
  deletes.key = "f.parquet";
  deletes.sequence_number = 2;
  deletes.equality_ids = std::move(ids);
  rewrite::EqualityTarget target;
  target.file.key = "f.parquet";
  target.file.size = store.Stat("f.parquet")->size;
  target.file.data_sequence_number = 1;
  target.deletes = {0};
  const auto sets = rewrite::FindEqualityDeleted(store, table, {deletes}, {target}, bounds);
  if (!Gave(sets)) return;
  const auto facts = Must(rewrite::MakeParquetRunner(store)->Inspect({.key = "f.parquet"}),
                          "the footer of what was read");
  Require(sets->size() == 1 && sets->front().size() == facts.rows, "every row is equal to itself");
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = lithify::fuzz;
  namespace rewrite = lithify::rewrite;
  const lithify::SystemClock clock;
  lithify::storage::MemoryStore store(clock);
  fuzz::Require(store.PutNew("f.parquet", fuzz::Text(data, size)).has_value(), "a store");
  rewrite::ScanBounds bounds;
  bounds.memory_bytes = int64_t{64} << 20;
  const auto same = [](std::string_view path) { return std::string(path); };
  const auto sets = rewrite::ReadPositionDeletes(store, "f.parquet", -1, same, bounds);
  (void)fuzz::Gave(sets);
  const auto paths = rewrite::ReadPositionDeletePaths(store, "f.parquet", -1, bounds);
  (void)fuzz::Gave(paths);
  // An empty path is left out of the sets.
  if (sets && paths) fuzz::Require(sets->size() <= paths->size(), "every path is named");
  fuzz::Equality(store, {1}, bounds);
  fuzz::Equality(store, {2}, bounds);
  fuzz::Equality(store, {1, 2, 3, 4, 5, 6, 7, 8, 9}, bounds);
  return 0;
}
