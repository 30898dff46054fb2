// The `where` of rewrite_data_files: a filter on files, never on rows (I3). A comparison of columns
// with literals, AND, OR, NOT, IN, BETWEEN, IS [NOT] NULL, LIKE 'prefix%', in SQL's syntax.
// Evaluated on partition values and column bounds ("inclusive projection" in the specification):
// false only if no row of the file can match. Nulls match IS NULL and nothing else; NaN is above
// every number, and equals itself.
//
//   day >= DATE '2026-11-29' AND (region IN ('eu', 'us') OR NOT "order".total < 12.50)
//
// Names are case-sensitive, and quoted by "…" or `…` where they are no plain words; text is in '…'.
// Literals must be values of their column's type: numbers for numbers, TRUE or FALSE, otherwise
// text, with DATE, TIME, TIMESTAMP or X (hexadecimal) before it if one likes.
//
// Errors: kInvalid with the position for bad syntax, unknown columns and literals of a wrong type.
// Thread safety: read-only after Parse.
#ifndef LITHIFY_TABLE_ICEBERG_FILTER_H_
#define LITHIFY_TABLE_ICEBERG_FILTER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "base/iceberg.h"
#include "base/result.h"

namespace lithify::table {

struct FilterNode;  // table/iceberg_filter_tree.h.

class FileFilter {
 public:
  // An empty text matches everything.
  static Result<FileFilter> Parse(std::string_view text, const iceberg::Schema& schema);
  FileFilter(FileFilter&&) noexcept;
  FileFilter& operator=(FileFilter&&) noexcept;
  ~FileFilter();

  bool MayMatch(const iceberg::DataFile& file, const iceberg::PartitionSpec& spec) const;
  // Whether any file of the manifest may match, from its partition summaries.
  bool MayMatch(const iceberg::ManifestFile& manifest, const iceberg::PartitionSpec& spec) const;
  // Fields whose bounds MayMatch looks at, sorted.
  const std::vector<int>& field_ids() const { return field_ids_; }

 private:
  explicit FileFilter(std::unique_ptr<FilterNode> root);

  std::unique_ptr<FilterNode> root_;
  std::vector<int> field_ids_;
};

}  // namespace lithify::table

#endif  // LITHIFY_TABLE_ICEBERG_FILTER_H_
