#include "job/maintenance_log.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "commit/iceberg_commit.h"
#include "group/target.h"
#include "job/iceberg_scan.h"
#include "job/maintenance_log_columns.h"
#include "rewrite/row_file.h"
#include "table/iceberg_value.h"

namespace lithify::job {
namespace {

using iceberg::Value;

constexpr int kTries = 3;  // Of an append whose table changed its schema or spec meanwhile.

// The columns as the table has them now, in the order of kLogColumns.
Result<std::vector<const iceberg::Field*>> BindColumns(const iceberg::Schema& schema) {
  LITHIFY_TRY(CheckLogSchema(schema));
  std::vector<const iceberg::Field*> fields;
  for (const LogColumn& column : kLogColumns) {
    fields.push_back(&*std::ranges::find(schema.fields, column.name, &iceberg::Field::name));
  }
  return fields;
}

// In the order of kLogColumns, as the two functions below.
rewrite::Row ToValues(const LogRow& row) {
  return {row.job_id,
          row.table_name,
          row.trigger,
          row.principal,
          row.started_at_ms,
          row.finished_at_ms,
          row.status,
          row.files_in,
          row.files_out,
          row.bytes_in,
          row.bytes_out,
          row.rows_removed,
          row.snapshot_id ? Value(*row.snapshot_id) : Value(),
          row.error ? Value(*row.error) : Value()};
}

std::string TextIn(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? std::string() : *text;
}
int64_t NumberIn(const Value& value) {
  const auto* number = std::get_if<int64_t>(&value);
  return number == nullptr ? 0 : *number;
}

LogRow FromValues(const rewrite::Row& values) {
  LogRow row;
  row.job_id = TextIn(values[0]);
  row.table_name = TextIn(values[1]);
  row.trigger = TextIn(values[2]);
  row.principal = TextIn(values[3]);
  row.started_at_ms = NumberIn(values[4]);
  row.finished_at_ms = NumberIn(values[5]);
  row.status = TextIn(values[6]);
  row.files_in = NumberIn(values[7]);
  row.files_out = NumberIn(values[8]);
  row.bytes_in = NumberIn(values[9]);
  row.bytes_out = NumberIn(values[10]);
  row.rows_removed = NumberIn(values[11]);
  if (!iceberg::IsNull(values[12])) row.snapshot_id = NumberIn(values[12]);
  if (!iceberg::IsNull(values[13])) row.error = TextIn(values[13]);
  return row;
}

std::string Literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

// For FileFilter: which files may hold such rows.
std::string WhereOf(const LogFilter& filter) {
  std::string where;
  const auto add = [&](const std::string& condition) {
    where += (where.empty() ? "" : " AND ") + condition;
  };
  if (filter.trigger) add("\"trigger\" = " + Literal(*filter.trigger));
  if (!filter.leases) add("\"trigger\" <> " + Literal(log_trigger::kLease));
  if (filter.table_name) add("table_name = " + Literal(*filter.table_name));
  if (filter.finished_after_ms) {
    add("finished_at_ms > " + std::to_string(*filter.finished_after_ms));
  }
  return where;
}

bool Matches(const LogFilter& filter, const LogRow& row) {
  return (!filter.trigger || row.trigger == *filter.trigger) &&
         (filter.leases || row.trigger != log_trigger::kLease) &&
         (!filter.table_name || row.table_name == *filter.table_name) &&
         (!filter.finished_after_ms || row.finished_at_ms > *filter.finished_after_ms);
}

// The tuple of a row in the table's default spec.
Result<iceberg::PartitionKey> PartitionOf(const iceberg::TableMetadata& table,
                                          const std::vector<const iceberg::Field*>& fields,
                                          const rewrite::Row& row) {
  const iceberg::PartitionSpec* spec = table.FindSpec(table.default_spec_id);
  if (spec == nullptr) return Fail(Code::kCorrupt, "the table lacks its default partition spec");
  iceberg::PartitionKey key;
  key.spec_id = spec->spec_id;
  for (const iceberg::PartitionField& field : spec->fields) {
    Value value;
    iceberg::Type type;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (field.source_ids.size() != 1 || fields[i]->id != field.source_ids[0]) continue;
      value = row[i];
      type = fields[i]->type;
    }
    // Of a column that is not ours, which is null in our rows.
    if (iceberg::IsNull(value)) {
      key.values.emplace_back();
      continue;
    }
    auto transformed = table::ApplyTransform(table::ParseTransform(field.transform), type, value);
    if (!transformed) return Fail(std::move(transformed.error()).In("partition " + field.name));
    key.values.push_back(std::move(*transformed));
  }
  return key;
}

// New data files of one append, which go again if nothing refers to them.
class NewFiles {
 public:
  NewFiles(const MaintenanceLogServices& services, const iceberg::TableMetadata& table)
      : services_(services), table_(table) {}

  Status Write(std::span<const LogRow> rows) {
    LITHIFY_TRY_ASSIGN(const auto fields, BindColumns(table_.schema()));
    LITHIFY_TRY_ASSIGN(const auto target, group::MakeTarget(table_));
    std::vector<int> columns;
    for (const iceberg::Field* field : fields) columns.push_back(field->id);
    std::map<iceberg::PartitionKey, std::vector<rewrite::Row>> parts;
    for (const LogRow& row : rows) {
      rewrite::Row values = ToValues(row);
      LITHIFY_TRY_ASSIGN(iceberg::PartitionKey key, PartitionOf(table_, fields, values));
      parts[std::move(key)].push_back(std::move(values));
    }
    for (const auto& [key, part] : parts) {
      LITHIFY_TRY_ASSIGN(rewrite::EncodedRows encoded, rewrite::EncodeRows(*target, columns, part));
      LITHIFY_TRY(Put(key, std::ssize(part), std::move(encoded)));
    }
    return {};
  }

  const std::vector<iceberg::DataFile>& files() const { return files_; }

  void Remove() {
    for (const iceberg::DataFile& file : files_) {
      const auto place = services_.locations.Resolve(file.file_path);
      if (place) static_cast<void>(place->store->Remove(place->key));  // What stays is an orphan.
    }
    files_.clear();
  }

 private:
  Status Put(const iceberg::PartitionKey& key, int64_t rows, rewrite::EncodedRows encoded) {
    iceberg::DataFile file;
    file.file_path = group::DataLocation(table_, key) +
                     MakeUuidV7(services_.clock, services_.random) + ".parquet";
    file.file_format = "PARQUET";
    file.spec_id = key.spec_id;
    file.partition = key.values;
    file.record_count = rows;
    file.file_size_in_bytes = std::ssize(encoded.bytes);
    file.column_sizes = std::move(encoded.metrics.column_sizes);
    file.value_counts = std::move(encoded.metrics.value_counts);
    file.null_value_counts = std::move(encoded.metrics.null_value_counts);
    file.nan_value_counts = std::move(encoded.metrics.nan_value_counts);
    file.lower_bounds = std::move(encoded.metrics.lower_bounds);
    file.upper_bounds = std::move(encoded.metrics.upper_bounds);
    file.split_offsets = std::move(encoded.split_offsets);
    LITHIFY_TRY_ASSIGN(const storage::Place place, services_.locations.Resolve(file.file_path));
    Status put = place.store->PutNew(place.key, encoded.bytes);
    // Nobody has ever been told its name: whether it is there or not, nothing happened.
    const std::string path = file.file_path;
    files_.push_back(std::move(file));
    if (put) return {};
    Error error = std::move(put.error());
    if (error.code == Code::kUnknownOutcome || error.code == Code::kConflict) {
      error.code = Code::kTransient;
    }
    return Fail(std::move(error).In(path));
  }

  const MaintenanceLogServices& services_;
  const iceberg::TableMetadata& table_;
  std::vector<iceberg::DataFile> files_;
};

}  // namespace

Result<LogView> MaintenanceLog::Read(const LogFilter& filter, const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(catalog::LoadedTable loaded, services_.catalog.LoadTable(ident_));
  LogView view;
  view.table = std::make_shared<const catalog::LoadedTable>(std::move(loaded));
  const iceberg::TableMetadata& table = view.table->metadata;
  const auto in_log = [&](Error error) { return Fail(std::move(error).In(ident_.ToString())); };
  const auto fields = BindColumns(table.schema());
  if (!fields) return in_log(fields.error());
  LITHIFY_TRY_ASSIGN(const ScanVersion version, FindVersion(table, ""));
  if (version.snapshot == nullptr) return view;
  view.snapshot_id = version.snapshot->snapshot_id;

  ScanRequest request;
  std::vector<iceberg::Field> columns;
  for (const iceberg::Field* field : *fields) {
    request.field_ids.push_back(field->id);
    columns.push_back(*field);
  }
  request.where = WhereOf(filter);
  request.count_live = false;
  request.threads = services_.threads;
  request.memory_bytes = 64 * kMiB;
  request.cancel = &cancel;
  auto scan = OpenScan(services_.locations, table, version, request);
  if (!scan) return in_log(std::move(scan.error()));
  for (;;) {
    rewrite::ArrowBatch batch = rewrite::ArrowBatch::Make();
    const auto more = (*scan)->Next(batch.get());
    if (!more) return in_log(more.error());
    if (!*more) break;
    auto rows = rewrite::DecodeRows(std::move(batch), columns);
    if (!rows) return in_log(std::move(rows.error()));
    for (const rewrite::Row& values : *rows) {
      LogRow row = FromValues(values);
      if (!Matches(filter, row)) continue;
      if (std::ssize(view.rows) >= filter.rows_max) {
        return in_log({Code::kLimit,
                       "more than " + FormatCount(filter.rows_max) + " rows match",
                       {},
                       "ask for fewer days, or one table"});
      }
      view.rows.push_back(std::move(row));
    }
  }
  view.files_read = (*scan)->files_read();
  return view;
}

Result<int64_t> MaintenanceLog::AppendTo(const catalog::LoadedTable& table, bool expect_head,
                                         std::span<const LogRow> rows, const CancelFlag& cancel) {
  if (rows.empty()) return Fail(Code::kInternal, "an append of no row", ident_.ToString());
  NewFiles files(services_, table.metadata);
  if (Status written = files.Write(rows); !written) {
    files.Remove();
    return Fail(std::move(written.error()).In(ident_.ToString()));
  }
  commit::AppendCommit request;
  request.ident = ident_;
  request.job_id = MakeUuidV7(services_.clock, services_.random);
  request.trigger = rows.front().trigger;
  request.principal = rows.front().principal;
  request.table_uuid = table.metadata.table_uuid;
  request.schema_id = table.metadata.current_schema_id;
  request.files = files.files();
  if (expect_head)
    request.expected = commit::AppendCommit::Head{table.metadata.current_snapshot_id};
  commit::IcebergCommitter committer({.catalog = services_.catalog,
                                      .locations = services_.locations,
                                      .clock = services_.clock,
                                      .random = services_.random,
                                      .sleep = services_.sleep});
  const auto done = committer.CommitAppend(request, cancel);
  if (done) return done->snapshot_id;
  // While the outcome is unknown the table may refer to them (R302).
  if (done.error().code != Code::kUnknownOutcome) files.Remove();
  return Fail(done.error());
}

Result<int64_t> MaintenanceLog::AppendOn(const LogView& seen, std::span<const LogRow> rows,
                                         const CancelFlag& cancel) {
  return AppendTo(*seen.table, /*expect_head=*/true, rows, cancel);
}

Result<int64_t> MaintenanceLog::Append(std::span<const LogRow> rows, const CancelFlag& cancel) {
  for (int attempt = 1;; ++attempt) {
    LITHIFY_TRY_ASSIGN(const auto table, services_.catalog.LoadTable(ident_));
    auto done = AppendTo(table, /*expect_head=*/false, rows, cancel);
    if (done || done.error().code != Code::kConflict || attempt == kTries) return done;
  }
}

}  // namespace lithify::job
