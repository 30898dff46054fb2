// Iceberg types as Parquet leaves [Appendix A, Parquet], and which Parquet types of older files
// they read [Schema Evolution].
#ifndef LITHIFY_REWRITE_TABLE_TYPES_H_
#define LITHIFY_REWRITE_TABLE_TYPES_H_

#include <string>

#include "base/iceberg.h"
#include "base/result.h"
#include "rewrite/schema_tree.h"

namespace lithify::rewrite {

// Sets the leaf's physical and logical type. kUnsupported for types that are not written here.
Status SetLeafType(const iceberg::Type& type, SchemaNode& leaf);

// A file says more of a geometry or geography than its table: what it says stays on the output.
// Takes the annotation of one input into that of the output, which has those of `first` inputs so
// far; false if the two do not mean the same coordinate system and edges.
bool TakeGeoAnnotation(const SchemaNode& file_leaf, bool first, SchemaNode& leaf);

// True if every value of the file's leaf is a value of the type, or is converted to one without
// loss, or refused one by one (MapLeaves has the conversion).
bool LeafIsReadAs(const SchemaNode& file_leaf, const iceberg::Type& type);

// "decimal(9, 2)", for messages.
std::string IcebergTypeText(const iceberg::Type& type);

// A non-null constant as LeafSource::fill wants it. kCorrupt if it is no value of the type.
Result<std::string> EncodeConstant(const iceberg::Value& value, const SchemaNode& leaf);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_TABLE_TYPES_H_
