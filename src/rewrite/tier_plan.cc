#include "rewrite/tier_plan.h"

#include <parquet/schema.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "rewrite/column_move.h"
#include "rewrite/column_splice.h"
#include "rewrite/schema_tree.h"
#include "rewrite/writer_properties.h"

namespace lithify::rewrite {
namespace {

// By tier, or, where there is a reason against the others, by that.
void Count(ColumnTiers& column, const std::string& tier, const std::string& why, int64_t chunks) {
  if (chunks == 0) return;
  column.tiers[why.empty() ? tier : "recode"] += chunks;
  if (!why.empty()) column.recoded[why] += chunks;
}

}  // namespace

std::string WhyRecoded(const GroupRequest& request, bool whole) {
  if (request.ordering != nullptr) return "sorted";
  if (!request.shape.splice) return "output.splice is off";
  return whole ? "" : "row groups are cut";
}

int64_t CutRowGroups(const OpenedGroup& group, const std::vector<RowGroupPlan>& plan) {
  int64_t cut = 0;
  for (const auto& in : group.inputs) {
    int64_t first_row = 0;
    for (int g = 0; g < in->footer->num_row_groups(); ++g) {
      const int64_t rows = in->footer->row_group(g).num_rows;
      cut += DeletedRows(*in, first_row, rows) < rows ? 1 : 0;
      first_row += rows;
    }
  }
  for (const RowGroupPlan& row_group : plan) cut -= std::ssize(row_group.places);
  return cut;
}

Result<TierPlan> ExplainTiers(const OpenedGroup& group, const GroupRequest& request,
                              BoundedPool& pool) {
  LITHIFY_TRY_ASSIGN(const auto plan, PlanRowGroups(group, request));
  LITHIFY_TRY_ASSIGN(const auto codec, CodecOf(request.shape.codec));
  parquet::SchemaDescriptor schema;
  schema.Init(ToParquet(*group.output_schema));
  const int64_t cut = CutRowGroups(group, plan);
  std::atomic<int64_t> hold_bytes{0};
  TierPlan tiers;
  tiers.row_groups = std::ssize(plan);
  for (size_t leaf = 0; leaf < group.leaves.size(); ++leaf) {
    ColumnSpliceOptions options = FooterOptions(group, request.shape, codec, leaf);
    options.column = schema.Column(options.leaf);
    options.pool = &pool;
    options.hold_bytes = &hold_bytes;
    ColumnTiers& column = tiers.columns.emplace_back();
    column.path = options.output.path;
    Count(column, "recode", WhyRecoded(request, false), cut);
    for (const RowGroupPlan& row_group : plan) {
      std::string why = WhyRecoded(request, row_group.whole);
      const bool moved = why.empty() && row_group.moved &&
                         MayBeMoved(*group.inputs[row_group.places.front().input],
                                    row_group.places.front(), options);
      if (why.empty() && !moved) {
        LITHIFY_TRY_ASSIGN(why, WhyFootersForbid(group.inputs, row_group.places, options));
      }
      Count(column, moved ? "copy" : "splice", why, std::ssize(row_group.places));
    }
    for (const auto& [tier, chunks] : column.tiers) tiers.tiers[tier] += chunks;
    for (const auto& [why, chunks] : column.recoded) tiers.recoded[why] += chunks;
  }
  return tiers;
}

}  // namespace lithify::rewrite
