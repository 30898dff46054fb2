// One output file of a group while it is written: its pages, its mark, and what is told of it.
#ifndef LITHIFY_REWRITE_OUTPUT_FILE_H_
#define LITHIFY_REWRITE_OUTPUT_FILE_H_

#include <arrow/util/key_value_metadata.h>
#include <parquet/properties.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/result.h"
#include "rewrite/file_writer.h"
#include "rewrite/group_runner.h"
#include "rewrite/open_group.h"
#include "storage/store.h"

namespace lithify::rewrite {

// The key-value metadata of the outputs: that of the inputs, without marks of ours, and for tables
// without what tells of the inputs' schemas. Appends to `notes` what is dropped.
std::map<std::string, std::string> OutputMetadata(const OpenedGroup& group,
                                                  const GroupRequest& request,
                                                  std::vector<std::string>* notes);

// The mark of the request's outputs, without a digest.
OutputMark MarkOf(const OpenedGroup& group, const GroupRequest& request);

// kCorrupt unless rows that were read, left out and written add up, and what the footers claim is
// what was read (R100). kUnsupported: more files, or much larger ones, than the shape allows.
Status CheckAccounts(const OpenedGroup& group, const GroupRequest& request,
                     const GroupReport& report);

// Throws Parquet's exceptions. One thread at a time.
class OutputFileWriter {
 public:
  OutputFileWriter(std::string name, std::unique_ptr<storage::Writer> writer,
                   const OpenedGroup& group,
                   const std::shared_ptr<parquet::WriterProperties>& properties,
                   const std::map<std::string, std::string>& metadata, const CancelFlag& cancel);

  FileWriter& file() { return *file_; }
  int64_t position() const { return writer_->size(); }
  // `complete`: the digest is of every column.
  void AddRowGroup(const ContentDigest& digest, bool complete);
  int row_groups() const { return row_groups_; }

  // Writes the footer, with the mark. The rest is for tables.
  Status Close(OutputMark mark, const TableTarget* table);
  OutputFile Describe() const;
  std::unique_ptr<storage::Writer> TakeWriter() { return std::move(writer_); }

 private:
  const std::string name_;
  std::unique_ptr<storage::Writer> writer_;
  const std::shared_ptr<arrow::KeyValueMetadata> pairs_ =
      std::make_shared<arrow::KeyValueMetadata>();
  std::unique_ptr<FileWriter> file_;
  ContentDigest digest_;
  ColumnMetrics metrics_;
  std::vector<int64_t> split_offsets_;
  int64_t footer_bytes_ = 0;
  bool complete_ = true;
  int row_groups_ = 0;
};

}  // namespace lithify::rewrite

#endif  // LITHIFY_REWRITE_OUTPUT_FILE_H_
