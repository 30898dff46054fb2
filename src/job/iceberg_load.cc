#include "job/iceberg_load.h"

#include <utility>

#include "base/order_text.h"
#include "group/live_files.h"
#include "group/target.h"
#include "job/iceberg_job.h"
#include "table/iceberg_order.h"

namespace lithify::job {
namespace {

Result<table::TableOrder> WantedOrder(const plan::RewriteOptions& options,
                                      const iceberg::TableMetadata& table) {
  table::TableOrder wanted;
  if (options.sort_order.empty()) {
    LITHIFY_TRY_ASSIGN(wanted, table::DeclaredOrder(table));
  } else {
    LITHIFY_TRY_ASSIGN(const RowOrder order, ParseRowOrder(options.sort_order));
    LITHIFY_TRY_ASSIGN(wanted, table::BindOrder(order, table));
  }
  if (options.strategy != plan::Strategy::kZorder || wanted.order.curve != Curve::kNone) {
    return wanted;
  }
  return table::AlongCurve(std::move(wanted), Curve::kZOrder);
}

}  // namespace

Error IfMovedOn(const IcebergServices& services, const catalog::LoadedTable& seen, Error error) {
  if (error.code != Code::kNotFound) return error;
  const auto now = services.catalog.LoadTable(seen.ident);
  if (!now && now.error().code != Code::kNotFound) {
    // Nobody knows why the file is gone: that the table could not be loaded decides what to do.
    Error failed = now.error();
    failed.message += "; it was to tell why a file is gone: " + error.ToString();
    return failed;
  }
  if (!now || now->metadata_location == seen.metadata_location) return error;
  return {Code::kConflict, "the table changed while it was read: " + error.ToString(),
          seen.ident.ToString(), "try again"};
}

Result<iceberg::LiveSet> LoadLiveSet(storage::Locations& locations,
                                     const iceberg::TableMetadata& table,
                                     const iceberg::Snapshot& snapshot, const std::string& where) {
  auto live = group::LoadLiveFiles(locations, table, snapshot, {});
  if (!live) return Fail(std::move(live.error()).In(where));
  return live;
}

Result<plan::RewriteOptions> ResolveOptions(plan::RewriteOptions options,
                                            const iceberg::TableMetadata& table) {
  const FileSizes sizes = group::WithTableDefaults({.target = options.target_file_size_bytes,
                                                    .min = options.min_file_size_bytes,
                                                    .max = options.max_file_size_bytes},
                                                   table);
  options.target_file_size_bytes = sizes.target;
  options.min_file_size_bytes = sizes.min;
  options.max_file_size_bytes = sizes.max;
  options.sort.reset();
  if (options.strategy == plan::Strategy::kBinpack) return options;
  auto wanted = WantedOrder(options, table);
  if (wanted) {
    const bool ranges = table::RangeField(wanted->order) != nullptr;
    options.sort = plan::SortTarget{.order = std::move(wanted->order),
                                    .sort_order_id = wanted->sort_order_id,
                                    .ranges = ranges};
    return options;
  }
  if (!options.binpack_if_unsorted) return Fail(std::move(wanted.error()));
  options.strategy = plan::Strategy::kBinpack;
  options.unsorted_because = wanted.error().message;
  return options;
}

PlanKey KeyOf(const plan::RewriteOptions& resolved, const iceberg::TableMetadata& table) {
  RowOrder order;
  if (resolved.sort) {
    order = resolved.sort->order;
  } else if (auto declared = table::DeclaredOrder(table)) {
    order = std::move(declared->order);
  }
  const OrderField* first = table::RangeField(order);
  if (first == nullptr) return {};
  return {iceberg::FindField(table.schema(), first->field_id), first->transform};
}

}  // namespace lithify::job
