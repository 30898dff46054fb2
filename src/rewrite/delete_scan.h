// Row-level deletes turned into row positions, whatever form they come in, so that rewriting knows
// only one kind: InputFile::deleted. Reads Parquet delete files.
//
// Errors: kCorrupt for a delete file that is not readable or lacks a column; kUnsupported for one
// in another format or a type that cannot be compared; kLimit if `memory_bytes` cannot hold even
// one batch; what the store gives. Thread safety: pure functions of files that do not change.
#ifndef LITHIFY_REWRITE_DELETE_SCAN_H_
#define LITHIFY_REWRITE_DELETE_SCAN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/iceberg.h"
#include "base/position_set.h"
#include "base/result.h"
#include "rewrite/group_runner.h"
#include "storage/store.h"

namespace lithify::rewrite {

struct ScanBounds {
  // Of pages and of keys or paths, half each; the positions that FindEqualityDeleted() gives come
  // on top.
  int64_t memory_bytes = int64_t{256} << 20;
  const CancelFlag* cancel = nullptr;
};

// What a position delete file (file_path, pos [, row]) says: positions by data file, duplicates
// counted once (T13). `wanted` maps a path as written to the name to keep it under, or to an empty
// text to leave it out; it sees each distinct path at least once. `records` is what the metadata
// says the file holds, -1: unknown; a difference is kCorrupt.
Result<std::map<std::string, PositionSet>> ReadPositionDeletes(
    storage::Store& store, const std::string& key, int64_t records,
    const std::function<std::string(std::string_view)>& wanted, const ScanBounds& bounds);

// Every distinct path that a position delete file names (R102), sorted. Where reads are requests,
// little more is read than the footer and that column, whatever its encodings. `size` as the
// table's metadata says, -1: unknown; a wrong one costs another request.
Result<std::vector<std::string>> ReadPositionDeletePaths(storage::Store& store,
                                                         const std::string& key, int64_t size,
                                                         const ScanBounds& bounds);

struct EqualityDeleteFile {
  std::string key;
  int64_t records = -1;
  int64_t sequence_number = 0;
  std::vector<int> equality_ids;
};

struct EqualityTarget {
  InputFile file;            // With data_sequence_number and constants.
  std::vector<int> deletes;  // Indices of the delete files that are in its scope.
};

// The rows of each target that are equal to a row of a delete file with a greater sequence number,
// on that file's equality columns (I23: null equals null; a column that a file lacks has its
// constant, its initial default or null; promoted types compare as the table's type now). Memory
// stays below the bound whatever the number of deletes (I32): the deletes are taken in parts, and
// the targets' equality columns are read once per part. One set per target, in order.
//
// `table.schema` must also have the columns that were dropped since a delete file compared them
// (Iceberg, "Equality Delete Files": they still count); kUnsupported for an id that it lacks, for
// columns in lists or maps, and for types without equality. Floats, which the specification does
// not allow as delete columns, compare as in Java readers: NaN equals NaN, -0.0 is not +0.0.
// A delete file that no target in its scope is older than is not read.
Result<std::vector<PositionSet>> FindEqualityDeleted(storage::Store& store,
                                                     const TableTarget& table,
                                                     const std::vector<EqualityDeleteFile>& deletes,
                                                     const std::vector<EqualityTarget>& targets,
                                                     const ScanBounds& bounds);

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_DELETE_SCAN_H_
