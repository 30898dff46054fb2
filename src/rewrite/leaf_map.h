// Where each output column comes from in one input file: which of its columns, how its levels and
// values become those of the output, and what stands in where it has none.
#ifndef LITHIFY_REWRITE_LEAF_MAP_H_
#define LITHIFY_REWRITE_LEAF_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// How the values of an input column become those of the output column. What does not fit the
// output is refused (kUnsupported, or kCorrupt where the input's own type forbids it), never cut.
enum class Conversion {
  kNone,
  kInt32ToInt64,
  kUint32ToUint64,
  kFloatToDouble,
  kScaleInt64,    // Timestamps to a finer unit: times `factor` (P12).
  kScaleInt32,    // INT32 to INT64, times `factor`: dates to timestamps, times in ms to us.
  kInt96ToInt64,  // Timestamps; `factor` is the output's unit in nanoseconds (P12).
  kInt64ToInt32,  // Decimals of few digits.
  kInt32ToFixed,  // Decimals: big-endian two's complement, sign-extended.
  kInt64ToFixed,
  kBytesToDecimal,  // Decimals in bytes, of fixed length or not, to any physical type.
};

// What a null of a top-level INT64 column stands for [Iceberg, Row Lineage].
struct Inherited {
  int64_t value = 0;
  bool plus_position = false;  // Of the row in its file, from 0, deleted rows counted.
};

// Where the output column's levels and values come from in one input file.
struct LeafSource {
  int input_leaf = -1;  // Column of the input to read; levels only if `levels_only`.
  // True if the input lacks the column: a neighbour's levels tell the shape of the ancestors, the
  // value is null below them, or `fill`. -1 as input_leaf with levels_only: a top-level column, one
  // entry per row.
  bool levels_only = false;
  // The input's column is annotated as always null (P5): a value in it is damage, not data.
  bool must_be_null = false;
  int16_t repetition_max = 0;           // Entries with a greater repetition level are dropped.
  std::vector<int16_t> definition_map;  // Input definition level -> output definition level.
  Conversion conversion = Conversion::kNone;
  int64_t factor = 1;
  // With levels_only: the value wherever the column's parent is there. Numbers as they lie in
  // memory in the output's physical type, else the bytes.
  std::optional<std::string> fill;
  std::optional<Inherited> inherited;
};

// One LeafSource per output leaf, in order. `output` must be a union that includes `input`, or what
// a table's schema makes of it (rewrite/table_schema.h). `fills` has, by field id, the values of
// leaves that the input lacks.
Result<std::vector<LeafSource>> MapLeaves(const SchemaNode& output, const SchemaNode& input,
                                          const std::map<int, std::string>& fills = {});

// A leaf of `root` with the fewest repeated ancestors: the cheapest to read rows from.
const SchemaNode* CheapestLeaf(const SchemaNode& root);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_LEAF_MAP_H_
