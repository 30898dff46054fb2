#include "rewrite/open_group.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/parallel.h"
#include "base/text.h"
#include "rewrite/footer.h"
#include "rewrite/leaf_map.h"
#include "rewrite/lineage.h"
#include "rewrite/table_schema.h"

namespace lithify::rewrite {
namespace {

// What the table says of a file must be so (R100, T13).
Status CheckClaims(const InputFile& input, const InputSource& source) {
  const int64_t rows = source.footer->num_rows();
  if (input.records >= 0 && input.records != rows) {
    return Fail(Code::kCorrupt,
                "the table's metadata says " + std::to_string(input.records) +
                    " rows, the file has " + std::to_string(rows),
                "", "the file or the metadata is damaged; compare with another copy");
  }
  if (input.deleted != nullptr && input.deleted->MaxOr(-1) >= rows) {
    return Fail(Code::kCorrupt,
                "row " + std::to_string(input.deleted->MaxOr(-1)) + " is deleted, the file has " +
                    std::to_string(rows) + " rows",
                "", "a delete file or the metadata is damaged; compare with another copy");
  }
  return {};
}

// Which of the inputs are read once and kept. Small ones are, up to a bound: column after column,
// opening them again and again would cost more than their bytes. Where each read is a request, so
// would their footers alone.
std::vector<char> ChooseHeld(const std::vector<InputFile>& inputs, int64_t bytes_max, bool cheap) {
  const int64_t small_bytes = cheap ? 512 * kKiB : kWholeBytes;
  std::vector<char> held(inputs.size(), false);
  int64_t left = bytes_max;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t size = inputs[i].size;
    held[i] = size > 0 && size <= small_bytes && size <= left;
    if (held[i]) left -= size;
  }
  return held;
}

Result<std::unique_ptr<InputSource>> OpenInput(ReaderCache& cache, const InputFile& input,
                                               bool held, FileKinds& kinds, BoundedPool& pool,
                                               const CancelFlag* cancel) {
  auto source = std::make_unique<InputSource>();
  source->key = input.key;
  source->size = input.size;
  source->small_reads_are_cheap = cache.store().small_reads_are_cheap();
  source->pool = pool.hard();
  if (input.deleted != nullptr && !input.deleted->empty()) source->deleted = input.deleted;
  auto opened = GuardParquet(input.key, [&]() -> Status {
    if (held) {
      LITHIFY_TRY_ASSIGN(source->file,
                         ReadArrowFile(cache.store(), input.object(), pool.hard(), cancel));
    } else {
      source->file = MakeArrowFile(cache, input.object(), cancel);
    }
    LITHIFY_TRY_ASSIGN(source->footer, ReadFooter(*source->file, input.size, kinds,
                                                  FooterReadBytes(cache.store(), input.size)));
    LITHIFY_TRY_ASSIGN(const std::string reason, UnsupportedReason(*source->footer, input.size));
    if (!reason.empty()) return Fail(Code::kUnsupported, reason);
    LITHIFY_TRY(CheckClaims(input, *source));
    LITHIFY_TRY_ASSIGN(source->schema, source->footer->kind().Tree());
    return {};
  });
  if (!opened) return Fail(std::move(opened.error()));
  return source;
}

Result<OpenedGroup> OpenInputs(ReaderCache& cache, const std::vector<InputFile>& inputs,
                               Reading reading, int threads, BoundedPool& pool,
                               const CancelFlag* cancel,
                               const std::function<void()>& nearly_there) {
  const bool cheap = cache.store().small_reads_are_cheap();
  const std::vector<char> held =
      ChooseHeld(inputs, reading == Reading::kPages ? pool.bytes_max() / 8 : 0, cheap);
  // They mostly wait.
  if (!cheap) threads = std::max(threads, storage::ReadAhead::kRequestsAtOnce);
  OpenedGroup group;
  group.ahead = cache.ahead();
  group.inputs.resize(inputs.size());
  FileKinds kinds;
  std::atomic<int64_t> footer_bytes{0};  // Outside of any pool.
  std::atomic<size_t> opened{0};
  const size_t most = inputs.size() - std::max<size_t>(1, inputs.size() / 8);
  LITHIFY_TRY(TryForEach(inputs.size(), threads, [&](size_t i) -> Status {
    LITHIFY_TRY_ASSIGN(group.inputs[i],
                       OpenInput(cache, inputs[i], held[i] != 0, kinds, pool, cancel));
    const int64_t bytes = group.inputs[i]->footer->memory_bytes();
    if (footer_bytes.fetch_add(bytes) + bytes > pool.bytes_max() / 2) {
      return Fail(Code::kLimit, "the footers of the inputs do not fit the memory bound",
                  inputs[i].key, "raise --memory");
    }
    if (++opened == most && nearly_there) nearly_there();
    return {};
  }));
  return group;
}

Status UnderUnion(OpenedGroup& group, bool fold_case) {
  std::vector<const SchemaNode*> schemas;
  for (const auto& source : group.inputs) schemas.push_back(source->schema.get());
  LITHIFY_TRY_ASSIGN(group.output_schema, UniteSchemas(schemas, &group.notes, fold_case));
  for (auto& source : group.inputs) {
    group.one_schema = group.one_schema && group.output_schema->SameAs(*source->schema);
    LITHIFY_TRY_ASSIGN(source->leaves, MapLeaves(*group.output_schema, *source->schema));
  }
  return {};
}

Status UnderTable(OpenedGroup& group, const std::vector<InputFile>& files,
                  const TableTarget& table) {
  std::vector<TableInput> inputs;
  for (size_t i = 0; i < files.size(); ++i) {
    InputSource& source = *group.inputs[i];
    // One of its own: files of one schema may come by their ids in different ways.
    LITHIFY_TRY_ASSIGN(auto schema, ParseSchema(source.footer->schema()));
    auto resolved = ResolveFieldIds(*schema, table.name_mapping, files[i].constants);
    if (!resolved) return Fail(std::move(resolved.error()).In(files[i].key));
    source.schema = std::move(schema);
    inputs.push_back(TableInput{&files[i], source.schema.get(), {}});
  }
  LITHIFY_TRY_ASSIGN(group.output_schema, MakeTargetSchema(table.schema, inputs));
  for (size_t i = 0; i < files.size(); ++i) {
    LITHIFY_TRY_ASSIGN(group.inputs[i]->leaves,
                       MapLeaves(*group.output_schema, *inputs[i].schema, inputs[i].fills));
  }
  if (table.row_lineage) LITHIFY_TRY(AddLineage(files, *group.output_schema, group.inputs));
  // Keys that describe a schema describe another one.
  group.one_schema = false;
  return {};
}

// Some column of every file is read, so that its rows are counted and not taken on trust (R100).
void ChooseCountingLeaves(OpenedGroup& group) {
  for (auto& source : group.inputs) {
    if (source->leaves.empty()) continue;
    size_t leaf = 0;
    while (leaf < source->leaves.size() && source->leaves[leaf].input_leaf < 0) ++leaf;
    if (leaf < source->leaves.size()) {
      source->counting_leaf = static_cast<int>(leaf);
      continue;
    }
    // The outputs have no column of this file: one of its own tells how many rows there are.
    LeafSource& first = source->leaves.front();
    const SchemaNode* cheapest = CheapestLeaf(*source->schema);
    if (cheapest == nullptr) continue;
    first.input_leaf = cheapest->leaf_index;
    const auto* column = source->footer->schema().Column(cheapest->leaf_index);
    first.definition_map.resize(static_cast<size_t>(column->max_definition_level()) + 1,
                                first.definition_map.front());
  }
}

}  // namespace

Result<OpenedGroup> OpenGroup(ReaderCache& cache, const std::vector<InputFile>& inputs,
                              const TableTarget* table, Reading reading, int threads,
                              BoundedPool& pool, const CancelFlag* cancel,
                              const std::function<void()>& nearly_there) {
  LITHIFY_TRY_ASSIGN(OpenedGroup group,
                     OpenInputs(cache, inputs, reading, threads, pool, cancel, nearly_there));
  if (table != nullptr) {
    LITHIFY_TRY(UnderTable(group, inputs, *table));
  } else {
    LITHIFY_TRY(UnderUnion(group, true));
  }
  group.leaves = OutputLeaves(*group.output_schema);
  for (const auto& source : group.inputs) {
    LITHIFY_CHECK(source->leaves.size() == group.leaves.size(), "a leaf without a source");
  }
  ChooseCountingLeaves(group);
  return group;
}

Result<OpenedGroup> OpenFile(ReaderCache& cache, const InputFile& file, BoundedPool& pool,
                             const CancelFlag* cancel) {
  LITHIFY_TRY_ASSIGN(OpenedGroup group,
                     OpenInputs(cache, {file}, Reading::kPages, 1, pool, cancel, {}));
  LITHIFY_TRY(UnderUnion(group, false));
  group.leaves = OutputLeaves(*group.output_schema);
  return group;
}

}  // namespace lithify::rewrite
