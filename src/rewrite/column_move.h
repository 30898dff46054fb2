// The copy tier for one column: the chunk of a well-sized row group goes to the output page by page
// as it is, with its own dictionary and its Bloom filter. No page is unpacked, but for counting the
// rows of nested columns in pages of version 1; headers are written anew, with a checksum.
//
// What the output states of the chunk is what the input states, by the rules of the splice tier
// (merged_statistics.h): right or absent (P3, P17).
#ifndef LITHIFY_REWRITE_COLUMN_MOVE_H_
#define LITHIFY_REWRITE_COLUMN_MOVE_H_

#include <memory>

#include "base/result.h"
#include "rewrite/column_splice.h"

namespace lithify::rewrite {

// Whether the input's footer allows it for this column of a row group of which all rows go on. No
// page is read. Of `options`, what tells of pages plays no part.
bool MayBeMoved(const InputSource& in, const GroupPlace& place, const ColumnSpliceOptions& options);

// Looks at every page of the chunk, for which MayBeMoved() holds: verifies checksums, and counts
// rows (R100). Null: the splice tier should have a look, since the chunk is odd, or better made
// anew: its pages are small, or in an order that readers take wrongly. `in` and `options.column`
// outlive the result. Errors are those of reading.
Result<std::unique_ptr<ColumnSplice>> SurveyMove(const InputSource& in, const GroupPlace& place,
                                                 const ColumnSpliceOptions& options);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_COLUMN_MOVE_H_
