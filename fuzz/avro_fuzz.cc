// Avro files as manifests and manifest lists: read or refused, and what was read survives being
// written again.
#include <functional>
#include <vector>

#include "fuzz_input.h"
#include "table/avro.h"
#include "table/iceberg_manifest.h"

namespace lithify::fuzz {
namespace {

using iceberg::Field;
using iceberg::ManifestContent;
using iceberg::ManifestEntry;
using iceberg::ManifestFile;
using iceberg::TypeKind;

Field Column(int id, TypeKind kind) {
  Field field;
  field.id = id;
  field.name = "c" + std::to_string(id);
  field.type.kind = kind;
  if (kind == TypeKind::kDecimal) field.type.precision = 9;
  if (kind == TypeKind::kDecimal) field.type.scale = 2;
  if (kind == TypeKind::kFixed) field.type.length = 3;
  return field;
}

// Specs 3 and 4 are those of tests/data/iceberg, 5 has every type.
const iceberg::TableMetadata& Table() {
  static const iceberg::TableMetadata table = [] {
    iceberg::TableMetadata made;
    iceberg::Schema schema;
    const TypeKind kinds[] = {TypeKind::kLong,      TypeKind::kString,      TypeKind::kTimestamptz,
                              TypeKind::kDecimal,   TypeKind::kUuid,        TypeKind::kDouble,
                              TypeKind::kDate,      TypeKind::kBoolean,     TypeKind::kFloat,
                              TypeKind::kBinary,    TypeKind::kFixed,       TypeKind::kTime,
                              TypeKind::kTimestamp, TypeKind::kTimestampNs, TypeKind::kInt};
    int id = 0;
    for (const TypeKind kind : kinds) schema.fields.push_back(Column(++id, kind));
    made.schemas = {schema};
    iceberg::PartitionSpec none;
    iceberg::PartitionSpec fixtures;
    fixtures.spec_id = 3;
    fixtures.fields = {{{2}, 1000, "region", "identity"},      {{3}, 1001, "ts_day", "day"},
                       {{1}, 1002, "id_bucket", "bucket[16]"}, {{4}, 1003, "price", "identity"},
                       {{5}, 1004, "key", "identity"},         {{6}, 1005, "score", "identity"},
                       {{7}, 1006, "day", "identity"},         {{8}, 1007, "ok", "identity"}};
    iceberg::PartitionSpec foreign;
    foreign.spec_id = 4;
    foreign.fields = {{{1}, 1000, "id_bucket", "bucket[16]"}, {{99}, 1001, "money", "identity"}};
    iceberg::PartitionSpec every;
    every.spec_id = 5;
    for (int field = 1; field <= id; ++field) {
      every.fields.push_back({{field}, 999 + field, "p" + std::to_string(field), "identity"});
    }
    made.partition_specs = {none, fixtures, foreign, every};
    return made;
  }();
  return table;
}

void Blocks(std::string_view bytes) {
  auto reader = table::AvroReader::Open(bytes);
  if (!Gave(reader)) return;
  while (true) {
    const auto block = reader->NextBlock();
    if (!Gave(block) || !*block) return;
    table::AvroDecoder decoder((*block)->bytes);
    for (int64_t i = 0; i < (*block)->records && decoder.ok(); ++i) {
      decoder.Skip(reader->schema().root());
    }
  }
}

// Writes the entries as they are and reads them again.
void Rewrite(const std::vector<ManifestEntry>& entries, const ManifestFile& manifest,
             const std::vector<iceberg::Type>& types, int version) {
  table::ManifestWriteOptions options;
  options.format_version = version;
  options.spec = *Table().FindSpec(manifest.partition_spec_id);
  options.schema = Table().schema();
  options.partition_types = types;
  options.content = manifest.content;
  options.snapshot_id = manifest.added_snapshot_id;
  options.codec = "null";
  std::vector<ManifestEntry> kept = entries;
  // Numbers of added entries are inherited again, so they are not told apart from existing ones.
  for (ManifestEntry& entry : kept) {
    if (entry.status == iceberg::EntryStatus::kAdded)
      entry.status = iceberg::EntryStatus::kExisting;
  }
  const auto written = table::WriteManifest(kept, options);
  if (!Gave(written)) return;
  ManifestFile file = written->file;
  file.sequence_number = manifest.sequence_number;
  file.added_snapshot_id = manifest.added_snapshot_id;
  std::vector<ManifestEntry> back;
  const Status read =
      table::ReadManifest(written->bytes, file, Table(), {}, [&](ManifestEntry&& entry) -> Status {
        back.push_back(std::move(entry));
        return {};
      });
  Require(read.has_value(), read ? "" : "written, but not read: " + read.error().ToString());
  Require(back.size() == kept.size(), "the same number of entries");
  for (size_t i = 0; i < back.size(); ++i) {
    Require(back[i].file.file_path == kept[i].file.file_path, "the same path");
    Require(back[i].file.record_count == kept[i].file.record_count, "the same record count");
    Require(back[i].sequence_number == kept[i].sequence_number, "the same sequence number");
    Require(back[i].status == kept[i].status, "the same status");
  }
}

void Manifest(std::string_view bytes, int spec_id, ManifestContent content) {
  ManifestFile manifest;
  manifest.manifest_path = "m.avro";
  manifest.manifest_length = static_cast<int64_t>(bytes.size());
  manifest.partition_spec_id = spec_id;
  manifest.content = content;
  manifest.sequence_number = 9;
  manifest.min_sequence_number = 1;
  manifest.added_snapshot_id = 77;
  std::vector<ManifestEntry> entries;
  const auto keep = [&](ManifestEntry&& entry) -> Status {
    entries.push_back(std::move(entry));
    return {};
  };
  const bool whole = Gave(table::ReadManifest(bytes, manifest, Table(), {}, keep));
  const auto types = table::ManifestPartitionTypes(bytes, manifest, Table());
  if (whole && Gave(types)) {
    Rewrite(entries, manifest, *types, 2);
    Rewrite(entries, manifest, *types, 3);
  }
  table::ManifestReadOptions planning;
  planning.metrics = false;
  planning.live_only = true;
  planning.bounds_of = {2, iceberg::kFilePathFieldId};
  size_t live = 0;
  const auto count = [&](ManifestEntry&&) -> Status { return ++live, Status(); };
  const bool planned = Gave(table::ReadManifest(bytes, manifest, Table(), planning, count));
  Require(!whole || !planned || live <= entries.size(), "no more live entries than entries");
}

void List(std::string_view bytes) {
  const auto list = table::ReadManifestList(bytes, "list.avro");
  if (!Gave(list)) return;
  table::ManifestListHeader header;
  header.snapshot_id = 78;
  header.sequence_number = 10;
  header.codec = "null";
  const auto written = table::WriteManifestList(*list, header);
  if (!Gave(written)) return;
  const auto back = Must(table::ReadManifestList(written->bytes, "written.avro"), "written list");
  Require(back == *list, "a manifest list survives being written again");
}

}  // namespace
}  // namespace lithify::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lithify::iceberg::ManifestContent;
  const std::string_view bytes = lithify::fuzz::Text(data, size);
  (void)lithify::fuzz::Gave(lithify::table::AvroSchema::Parse(bytes));
  lithify::fuzz::Blocks(bytes);
  lithify::fuzz::List(bytes);
  for (const int spec : {0, 3, 4, 5}) {
    lithify::fuzz::Manifest(bytes, spec, ManifestContent::kData);
  }
  lithify::fuzz::Manifest(bytes, 0, ManifestContent::kDeletes);
  return 0;
}
