// What the name of a sorted file tells of how it was written, for as long as the file lives:
// metadata of snapshots is expired, and footers are not read while planning. "…-s<order>-<run>":
// which order its rows are in, and with which files it was written in one go, whose keys it shares
// none with. Eight hexadecimal digits each.
//
// A name is a hint for planning alone: one that lies costs a rewrite, or saves one.
#ifndef LITHIFY_BASE_ORDER_MARK_H_
#define LITHIFY_BASE_ORDER_MARK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/row_order.h"

namespace lithify {

// Of fields with an id the id counts, so that a column may be renamed.
std::string OrderDigits(const RowOrder& order);

// Of one group of a job. The suffix of the names of all its outputs, before ".parquet".
std::string OrderSuffix(const RowOrder& order, std::string_view job_id, int64_t group);

struct OrderMark {
  std::string_view order;  // As of OrderDigits().
  std::string_view run;    // `order` and what is the same for all files of one run.
};
// Of a location or name, which outlives the result. nullopt: it has none.
std::optional<OrderMark> ReadOrderMark(std::string_view path);

}  // namespace lithify

#endif  // LITHIFY_BASE_ORDER_MARK_H_
