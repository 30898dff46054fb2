#include "group/repartition.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "table/iceberg_value.h"

namespace lithify::group {
namespace {

using table::Transform;

// "0 (unpartitioned), 1 (bucket[16](id), day(at))", for messages.
std::string ListSpecs(const iceberg::TableMetadata& table) {
  std::string list;
  for (const iceberg::PartitionSpec& spec : table.partition_specs) {
    std::string fields;
    for (const iceberg::PartitionField& field : spec.fields) {
      const iceberg::Field* source =
          field.source_ids.empty() ? nullptr
                                   : iceberg::FindField(table.schema(), field.source_ids.front());
      const std::string name = source == nullptr ? field.name : source->name;
      fields += (fields.empty() ? "" : ", ") + field.transform + "(" + name + ")";
    }
    list += (list.empty() ? "" : ", ") + std::to_string(spec.spec_id) + " (" +
            (fields.empty() ? "unpartitioned" : fields) + ")";
  }
  return list;
}

struct FieldRule {
  Transform transform;
  iceberg::Type source;
};

Result<FieldRule> RuleOf(const iceberg::TableMetadata& table,
                         const iceberg::PartitionField& field) {
  const std::string where = "output-spec-id: partition field " + field.name;
  FieldRule rule;
  rule.transform = table::ParseTransform(field.transform);
  if (rule.transform.kind == Transform::Kind::kVoid) return rule;
  if (rule.transform.kind == Transform::Kind::kUnknown || field.source_ids.size() != 1) {
    return Fail(Code::kUnsupported,
                "no file may be written under the unknown transform " + field.transform, where);
  }
  const iceberg::Field* source = iceberg::FindField(table.schema(), field.source_ids.front());
  if (source == nullptr) {
    return Fail(Code::kUnsupported,
                "its source, the column with id " + std::to_string(field.source_ids.front()) +
                    ", is not in the table any more",
                where, "choose another spec");
  }
  rule.source = source->type;
  return rule;
}

}  // namespace

Result<rewrite::PartitionRule> MakePartitionRule(const iceberg::TableMetadata& table, int spec_id,
                                                 int64_t partitions_max) {
  const iceberg::PartitionSpec* spec = table.FindSpec(spec_id);
  if (spec == nullptr) {
    return Fail(Code::kInvalid, "the table has no partition spec " + std::to_string(spec_id),
                "output-spec-id", "its specs are " + ListSpecs(table));
  }
  if (partitions_max < 1)
    return Fail(Code::kInvalid, "must be at least 1", "max-output-partitions");
  rewrite::PartitionRule rule;
  rule.partitions_max = partitions_max;
  std::vector<FieldRule> fields;
  for (const iceberg::PartitionField& field : spec->fields) {
    LITHIFY_TRY_ASSIGN(FieldRule one, RuleOf(table, field));
    const bool is_void = one.transform.kind == Transform::Kind::kVoid;
    rule.sources.push_back(is_void ? std::nullopt : std::optional(field.source_ids.front()));
    fields.push_back(std::move(one));
  }
  rule.transform = [fields = std::move(fields)](size_t field, const iceberg::Value& source) {
    return table::ApplyTransform(fields[field].transform, fields[field].source, source);
  };
  return rule;
}

size_t PartsOf(const rewrite::SplitRows& split) {
  return std::max<size_t>(1, split.partitions.size());
}

PartitionPart MakePart(const rewrite::SplitRows& split, size_t number, int spec_id,
                       const std::vector<rewrite::InputFile>& inputs) {
  PartitionPart part;
  part.key.spec_id = spec_id;
  const rewrite::PartitionRows* rows = nullptr;
  if (number < split.partitions.size()) {
    rows = &split.partitions[number];
    part.key.values = rows->values;
    part.rows = rows->rows;
  }
  const auto is_live = [&](size_t f) {
    return std::ranges::any_of(split.partitions,
                               [f](const auto& other) { return other.files.contains(f); });
  };
  for (size_t f = 0; f < inputs.size(); ++f) {
    const bool has_rows = rows != nullptr && rows->files.contains(f);
    if (!has_rows && (number != 0 || is_live(f))) continue;
    part.files.push_back(f);
    part.inputs.push_back(inputs[f]);
    if (!has_rows) continue;  // All of its rows are deleted, or it has none.
    auto others = rows->files.at(f).Complement(split.rows_per_file[f]);
    part.inputs.back().deleted =
        others.empty() ? nullptr : std::make_shared<const PositionSet>(std::move(others));
  }
  return part;
}

}  // namespace lithify::group
