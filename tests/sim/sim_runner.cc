#include "sim_runner.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace lithify::sim {
namespace {

constexpr std::string_view kHeader = "sim";
constexpr int64_t kFileBytesMax = 1 << 20;

std::vector<std::string> Split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// An output on its way: written, not visible.
struct Pending {
  rewrite::OutputFile file;
  std::unique_ptr<storage::Writer> writer;
};

Result<Pending> WritePending(storage::Store& store, const rewrite::GroupRequest& request,
                             std::vector<std::string> rows) {
  Pending pending;
  pending.file.name = request.new_name();
  pending.file.rows = static_cast<int64_t>(rows.size());
  pending.file.row_groups = 1;
  pending.file.digest = DigestRows(rows);
  SimFile file;
  file.mark.emplace();
  file.mark->job_id = request.job_id;
  file.mark->partition = request.partition;
  file.rows = std::move(rows);
  const std::string bytes = EncodeSimFile(file);
  pending.file.size = static_cast<int64_t>(bytes.size());
  LITHIFY_TRY_ASSIGN(pending.writer, store.Create(request.partition + pending.file.name));
  LITHIFY_TRY(pending.writer->Append(std::as_bytes(std::span(bytes))));
  return pending;
}

}  // namespace

std::string EncodeSimFile(const SimFile& file) {
  std::string text(kHeader);
  if (file.mark) text += " " + file.mark->job_id + " " + file.mark->partition;
  text += "\n";
  for (const std::string& row : file.rows) text += row + "\n";
  return text;
}

Result<SimFile> DecodeSimFile(std::string_view bytes) {
  if (!bytes.starts_with(kHeader) || !bytes.ends_with('\n')) {
    return Fail(Code::kCorrupt, "no sim file");
  }
  SimFile file;
  file.rows = Split(bytes, '\n');
  const std::vector<std::string> header = Split(file.rows.front(), ' ');
  file.rows.erase(file.rows.begin());
  if (header.size() == 3) {
    file.mark.emplace();
    file.mark->job_id = header[1];
    file.mark->partition = header[2];
  }
  return file;
}

ContentDigest DigestRows(const std::vector<std::string>& rows) {
  ContentDigest digest;
  for (const std::string& row : rows) {
    ++digest.rows;
    const uint64_t hash = std::hash<std::string>()(row);
    digest.row.Add(hash, hash * 0x9E3779B97F4A7C15ULL);
  }
  return digest;
}

Result<SimFile> SimRunner::Read(const std::string& key) {
  LITHIFY_TRY_ASSIGN(const storage::Blob blob, store_.Get(key, kFileBytesMax));
  return DecodeSimFile(blob.bytes);
}

Result<rewrite::FileFacts> SimRunner::Inspect(const storage::ObjectInfo& object,
                                              int64_t /*first_read*/) {
  LITHIFY_TRY_ASSIGN(SimFile file, Read(object.key));
  rewrite::FileFacts facts;
  facts.rows = static_cast<int64_t>(file.rows.size());
  facts.row_groups = 1;
  facts.mark = std::move(file.mark);
  if (!file.rows.empty() && file.rows.front() == "encrypted") facts.unsupported = "encrypted";
  return facts;
}

// A row group per output, and no pages to move.
Result<rewrite::TierPlan> SimRunner::Explain(const rewrite::GroupRequest& request,
                                             const CancelFlag& cancel) {
  size_t rows = 0;
  for (const rewrite::InputFile& input : request.inputs) {
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY_ASSIGN(const SimFile file, Read(input.key));
    rows += file.rows.size();
  }
  const auto chunks = std::ssize(request.inputs);
  rewrite::ColumnTiers column{"row", {{"recode", chunks}}, {{"it has no pages", chunks}}};
  rewrite::TierPlan plan;
  plan.row_groups =
      static_cast<int64_t>(std::min(static_cast<size_t>(request.shape.outputs), rows));
  plan.tiers = column.tiers;
  plan.recoded = column.recoded;
  plan.columns.push_back(std::move(column));
  return plan;
}

Result<rewrite::GroupReport> SimRunner::Run(const rewrite::GroupRequest& request,
                                            const CancelFlag& cancel) {
  rewrite::GroupReport report;
  std::vector<std::string> rows;
  for (const rewrite::InputFile& input : request.inputs) {
    LITHIFY_TRY(cancel.Check());
    LITHIFY_TRY_ASSIGN(SimFile file, Read(input.key));
    report.rows_per_input.push_back(static_cast<int64_t>(file.rows.size()));
    report.bytes_in += input.size;
    std::ranges::move(file.rows, std::back_inserter(rows));
    request.on_progress(input.size);
  }
  report.rows_in = static_cast<int64_t>(rows.size());
  report.digest_in = DigestRows(rows);

  std::vector<Pending> pending;
  const size_t outputs = std::min(static_cast<size_t>(request.shape.outputs), rows.size());
  for (size_t i = 0; i < outputs; ++i) {
    const auto at = [&](size_t part) {
      return rows.begin() + static_cast<ptrdiff_t>(rows.size() * part / outputs);
    };
    LITHIFY_TRY_ASSIGN(Pending next, WritePending(store_, request, {at(i), at(i + 1)}));
    pending.push_back(std::move(next));
  }
  LITHIFY_TRY(cancel.Check());
  LITHIFY_TRY(request.before_publish());
  for (Pending& output : pending) {
    Status published = output.writer->Publish();
    if (!published) {
      for (const rewrite::OutputFile& done : report.outputs) {
        (void)store_.Remove(request.partition + done.name);  // Else garbage, by its mark.
      }
      return Fail(std::move(published.error()));
    }
    report.rows_out += output.file.rows;
    report.bytes_out += output.file.size;
    report.outputs.push_back(output.file);
  }
  return report;
}

Result<rewrite::VerifyReport> SimRunner::VerifyFile(const std::string& key,
                                                    const rewrite::RowRule& /*rows*/,
                                                    const CancelFlag& cancel) {
  LITHIFY_TRY(cancel.Check());
  LITHIFY_TRY_ASSIGN(const SimFile file, Read(key));
  rewrite::VerifyReport report;
  report.rows = static_cast<int64_t>(file.rows.size());
  report.digest = DigestRows(file.rows);
  if (file.mark) report.recorded = report.digest;
  return report;
}

}  // namespace lithify::sim
