// Opening Parquet files that may be anything: empty, cut off, encrypted, hostile (P10, P11, P20,
// P21, R309). Nothing here trusts a length that a file claims.
#ifndef LITHIFY_REWRITE_FOOTER_H_
#define LITHIFY_REWRITE_FOOTER_H_

#include <arrow/io/interfaces.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rewrite/file_footer.h"
#include "rewrite/group_runner.h"

namespace lithify::rewrite {

// The `created_by` of every file that lithify writes, in the form that readers parse.
inline constexpr std::string_view kCreatedByPrefix = "lithify ";
inline constexpr std::string_view kCreatedBy = "lithify version 0.1.0 (build release)";

inline constexpr int64_t kFooterBytesMax = 256LL * 1024 * 1024;

// One read from the end of a file asks for so many: most footers come with it.
inline constexpr int64_t kFooterReadBytes = 32 * 1024;

// Reads and checks the footer. kCorrupt: not a complete Parquet file. kUnsupported: encrypted. As
// Footer::Parse() does it throws Parquet's exceptions.
Result<std::shared_ptr<const Footer>> ReadFooter(arrow::io::RandomAccessFile& file, int64_t size,
                                                 FileKinds& kinds,
                                                 int64_t read_bytes = kFooterReadBytes);

// Empty if every column chunk can be decoded here; else the reason. Also checks that chunk offsets
// and sizes lie within the file, and that histograms of levels have as many numbers as there are
// levels (else the result is an error, kCorrupt).
Result<std::string> UnsupportedReason(const Footer& footer, int64_t file_size);

// The "lithify.*" key-value metadata as text pairs, and back (docs/FORMATS.md).
std::map<std::string, std::string> EncodeMark(const OutputMark& mark);
// nullopt if the footer has no mark; kCorrupt if it has a broken one.
Result<std::optional<OutputMark>> DecodeMark(const Footer& footer);

Result<FileFacts> FactsFrom(const Footer& footer, int64_t file_size);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_FOOTER_H_
