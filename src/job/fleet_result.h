// What a worker says it did for a group, against what the plan, the table's metadata and the store
// know (R141). Private to this module.
#ifndef LITHIFY_JOB_FLEET_RESULT_H_
#define LITHIFY_JOB_FLEET_RESULT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "group/table_group.h"

namespace lithify::job {

struct FleetCheck {
  group::GroupServices services;
  group::TableView view;
  const group::GroupTask& task;
  const std::vector<int32_t>& data_files;  // Of the task, in the live set.
};

// kCorrupt, with what differs, unless
// - the worker went by the snapshot of the plan;
// - the inputs are the task's, with the rows that the metadata claims, in their partitions;
// - rows are left out only of inputs that a delete applies to, no more than those deletes name
// where
//   all of them name rows, and no fewer than a deletion vector names;
// - rows in = rows out + rows left out, for the group and over its outputs (R100, T33);
// - each output is a new file of a name of its own right in the data location of its partition,
// which
//   is the group's, or one of the output spec (T31);
// - each output's footer has the rows that are claimed, and the mark of this job.
// That the outputs are there in the stated size and in no snapshot yet is checked by the commit.
// Other errors: what reading the footers gives.
//
// May run for several groups of one view at a time.
Status CheckFleetResult(const FleetCheck& check, const group::GroupResult& result);

// GroupResult::named_paths of the position delete files that apply to these data files, by index
// into LiveSet::delete_files: read here, since a delete file that is taken for needless by what a
// worker says of it would bring back the rows of others (R102). Of each file its column of paths is
// read, where the metadata does not say that it names one file.
using NamedPaths = std::map<int32_t, std::vector<std::string>>;
Result<NamedPaths> ReadNamedPaths(const group::GroupServices& services,
                                  const group::TableView& view,
                                  const std::vector<int32_t>& data_files, int threads,
                                  const CancelFlag& cancel);

// kCorrupt unless at least one row was left out of each of these data files that a position delete
// file names: a worker that left out none went by another snapshot than the plan's, and its rows
// would come back.
Status CheckDeletesSeen(const group::TableView& view, const std::vector<int32_t>& data_files,
                        const NamedPaths& named, const group::GroupResult& result);

// Paths of outputs that are known so far, of all groups of a job. kCorrupt: a file is said to be
// the output of two.
Status CheckOutputsApart(const group::GroupResult& result, std::set<std::string>& known);

}  // namespace lithify::job

#endif  // LITHIFY_JOB_FLEET_RESULT_H_
