// A file filter as a tree, as its text is parsed into. Inner to the module.
#ifndef LITHIFY_TABLE_ICEBERG_FILTER_TREE_H_
#define LITHIFY_TABLE_ICEBERG_FILTER_TREE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::table {

// NOT is gone: it is pushed down to the tests, each of which has its opposite. Null makes a test
// and its opposite both fail, so that is what SQL's three values come to for a filter.
struct FilterNode {
  enum class Kind {
    kAll,  // Matches every row.
    kAnd,
    kOr,
    kTest,
  };
  enum class Test {
    kLess,
    kLessOrEqual,
    kGreater,
    kGreaterOrEqual,
    kIn,
    kNotIn,
    kStartsWith,
    kNotStartsWith,
    kIsNull,
    kNotNull,
  };

  Kind kind = Kind::kAll;
  std::vector<std::unique_ptr<FilterNode>> children;  // kAnd, kOr.

  Test test = Test::kNotNull;
  int field_id = 0;
  iceberg::Type type;
  std::vector<iceberg::Value> values;  // One, but for kIn and kNotIn; none for nulls.
};

// Errors: kInvalid with the position, as FileFilter::Parse.
Result<std::unique_ptr<FilterNode>> ParseFilter(std::string_view text,
                                                const iceberg::Schema& schema);

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_FILTER_TREE_H_
