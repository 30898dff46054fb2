// Orders of rows as text: Spark's syntax for sort orders, and space-filling curves.
//
//   order  = curve | field {"," field}
//   curve  = ("zorder" | "hilbert") "(" column {"," column} ")"
//   field  = term ["ASC" | "DESC"] ["NULLS" ("FIRST" | "LAST")]
//   term   = column | transform "(" column ")" | transform "(" number "," column ")", the last also
//            the other way round
//   column = name {"." name}; a name in "…" or `…` may hold anything, that quote doubled.
//
// Without NULLS they are first where the order is ascending, and last where it is descending.
// Keywords and transforms are known in any case: bucket, truncate, year(s), month(s), day(s), date,
// hour(s), date_hour.
#ifndef LITHIFY_BASE_ORDER_TEXT_H_
#define LITHIFY_BASE_ORDER_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/row_order.h"

namespace lithify {

inline constexpr size_t kOrderFieldsMax = 100;
inline constexpr size_t kCurveColumnsMax = 8;

// By names alone: field ids are 0. kInvalid with the character that is wrong and a hint.
Result<RowOrder> ParseRowOrder(std::string_view text);

// What ParseRowOrder() reads as the same order, field ids aside: "bucket(16, id), ts DESC NULLS
// LAST"; what is the default is left out.
std::string RowOrderText(const RowOrder& order);

}  // namespace lithify

#endif  // LITHIFY_BASE_ORDER_TEXT_H_
