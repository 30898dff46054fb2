#include "serve/duck_table.h"

#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lithify::serve {
namespace {

constexpr const char* kFunction = "lithify_scan";
// The first column of the function, which DuckDB asks for where it needs no column at all.
constexpr const char* kNoColumn = "lithify: no column";

Error FromArrow(const arrow::Status& status) {
  return Error{status.IsOutOfMemory() ? Code::kLimit : Code::kInternal, status.ToString(), "", ""};
}

// The message of an error of the C API, which is destroyed; nullopt: there is none.
std::optional<std::string> TakeMessage(duckdb_error_data error) {
  std::optional<std::string> message;
  if (error != nullptr && duckdb_error_data_has_error(error)) {
    message = duckdb_error_data_message(error);
  }
  duckdb_destroy_error_data(&error);
  return message;
}

// Turns batches of one schema into DuckDB's.
class Converter {
 public:
  static Result<std::unique_ptr<Converter>> Make(duckdb_connection connection,
                                                 std::shared_ptr<arrow::Schema> schema) {
    auto out = std::unique_ptr<Converter>(new Converter(connection, std::move(schema)));
    ArrowSchema exported;
    if (const auto status = arrow::ExportSchema(*out->schema_, &exported); !status.ok()) {
      return Fail(FromArrow(status));
    }
    const auto message =
        TakeMessage(duckdb_schema_from_arrow(connection, &exported, &out->converted_));
    if (exported.release != nullptr) exported.release(&exported);
    if (message) return Fail(Code::kUnsupported, "a type that DuckDB does not read: " + *message);
    return out;
  }
  ~Converter() {
    if (converted_ != nullptr) duckdb_destroy_arrow_converted_schema(&converted_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

  // The caller destroys the chunk.
  Result<duckdb_data_chunk> Convert(const arrow::RecordBatch& batch) const {
    ArrowArray array;
    if (const auto status = arrow::ExportRecordBatch(batch, &array); !status.ok()) {
      return Fail(FromArrow(status));
    }
    duckdb_data_chunk chunk = nullptr;
    const auto message =
        TakeMessage(duckdb_data_chunk_from_arrow(connection_, &array, converted_, &chunk));
    if (array.release != nullptr) array.release(&array);
    if (message) return Fail(Code::kInternal, "DuckDB does not take a batch: " + *message);
    return chunk;
  }

 private:
  Converter(duckdb_connection connection, std::shared_ptr<arrow::Schema> schema)
      : connection_(connection), schema_(std::move(schema)) {}

  const duckdb_connection connection_;
  const std::shared_ptr<arrow::Schema> schema_;
  duckdb_arrow_converted_schema converted_ = nullptr;
};

// --- the table function

struct Bound {
  DuckTables* tables = nullptr;
  const DuckTable* table = nullptr;
};

// One scan; its threads share the stream.
struct Scanning {
  std::unique_ptr<Converter> converter;  // Null: only rows are counted.
  std::unique_ptr<TableStream> stream;
  // Of what DuckDB asks for, the place in the batch; -1: no column.
  std::vector<int> places;
};

// What one thread has at hand.
struct AtHand {
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t rows = 0;
  int64_t at = 0;
};

template <typename T>
void Delete(void* object) {
  delete static_cast<T*>(object);
}

Status DescribeColumns(const DuckTables& tables, const DuckTable& table, duckdb_bind_info info) {
  duckdb_logical_type flag = duckdb_create_logical_type(DUCKDB_TYPE_BOOLEAN);
  duckdb_bind_add_result_column(info, kNoColumn, flag);
  duckdb_destroy_logical_type(&flag);
  // The C API tells types of a batch, not of a schema.
  LITHIFY_TRY_ASSIGN(const auto converter, Converter::Make(tables.second(), table.schema));
  auto empty = arrow::RecordBatch::MakeEmpty(table.schema);
  if (!empty.ok()) return Fail(FromArrow(empty.status()));
  LITHIFY_TRY_ASSIGN(duckdb_data_chunk chunk, converter->Convert(**empty));
  for (idx_t i = 0; i < duckdb_data_chunk_get_column_count(chunk); ++i) {
    duckdb_logical_type type =
        duckdb_vector_get_column_type(duckdb_data_chunk_get_vector(chunk, i));
    duckdb_bind_add_result_column(info, table.columns[i].name.c_str(), type);
    duckdb_destroy_logical_type(&type);
  }
  duckdb_destroy_data_chunk(&chunk);
  return {};
}

void Bind(duckdb_bind_info info) {
  DuckTables* tables = static_cast<Duck*>(duckdb_bind_get_extra_info(info))->tables();
  duckdb_value parameter = duckdb_bind_get_parameter(info, 0);
  const int64_t number = duckdb_get_int64(parameter);
  duckdb_destroy_value(&parameter);
  if (tables == nullptr || number < 0 || static_cast<size_t>(number) >= tables->tables().size()) {
    duckdb_bind_set_error(info, "there is no such table");
    return;
  }
  const DuckTable& table = tables->tables()[static_cast<size_t>(number)];
  if (auto described = DescribeColumns(*tables, table, info); !described) {
    duckdb_bind_set_error(info, described.error().message.c_str());
    tables->Note(std::move(described.error()));
    return;
  }
  if (const auto rows = table.source->rows()) {
    duckdb_bind_set_cardinality(info, static_cast<idx_t>(std::max<int64_t>(*rows, 0)), false);
  }
  duckdb_bind_set_bind_data(info, new Bound{tables, &table}, Delete<Bound>);
}

Result<std::unique_ptr<Scanning>> OpenScan(const Bound& bound, duckdb_init_info info) {
  auto out = std::make_unique<Scanning>();
  TableRead read;
  read.filter = bound.table->filter;
  read.threads = bound.tables->threads();
  read.cancel = &bound.tables->stopped();
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (idx_t i = 0; i < duckdb_init_get_column_count(info); ++i) {
    const idx_t column = duckdb_init_get_column_index(info, i);
    if (column == 0 || column > bound.table->columns.size()) {
      out->places.push_back(-1);
      continue;
    }
    out->places.push_back(static_cast<int>(read.columns.size()));
    read.columns.push_back(static_cast<int>(column - 1));
    fields.push_back(bound.table->schema->field(read.columns.back()));
  }
  if (!read.columns.empty()) {
    LITHIFY_TRY_ASSIGN(out->converter,
                       Converter::Make(bound.tables->second(), arrow::schema(std::move(fields))));
  }
  LITHIFY_TRY_ASSIGN(out->stream, bound.table->source->Open(read));
  return out;
}

void Init(duckdb_init_info info) {
  const auto& bound = *static_cast<Bound*>(duckdb_init_get_bind_data(info));
  auto scanning = OpenScan(bound, info);
  if (!scanning) {
    duckdb_init_set_error(info, scanning.error().message.c_str());
    bound.tables->Note(std::move(scanning.error()));
    return;
  }
  duckdb_init_set_max_threads(info, static_cast<idx_t>(bound.tables->threads()));
  duckdb_init_set_init_data(info, scanning->release(), Delete<Scanning>);
}

void InitThread(duckdb_init_info info) {
  duckdb_init_set_init_data(info, new AtHand(), Delete<AtHand>);
}

// False at the end.
Result<bool> Refill(Scanning& scanning, AtHand& hand) {
  while (hand.at == hand.rows) {
    ArrowArray array;
    LITHIFY_TRY_ASSIGN(const bool more, scanning.stream->Next(&array));
    if (!more) return false;
    hand.at = 0;
    if (scanning.converter == nullptr) {
      hand.rows = array.length;
      array.release(&array);
      continue;
    }
    auto batch = arrow::ImportRecordBatch(&array, scanning.converter->schema());
    if (!batch.ok()) return Fail(FromArrow(batch.status()));
    hand.batch = *std::move(batch);
    hand.rows = hand.batch->num_rows();
  }
  return true;
}

Status Fill(Scanning& scanning, AtHand& hand, duckdb_data_chunk output) {
  LITHIFY_TRY_ASSIGN(const bool more, Refill(scanning, hand));
  if (!more) {
    duckdb_data_chunk_set_size(output, 0);
    return {};
  }
  const int64_t rows = std::min(hand.rows - hand.at, static_cast<int64_t>(duckdb_vector_size()));
  duckdb_data_chunk chunk = nullptr;
  if (scanning.converter != nullptr) {
    LITHIFY_TRY_ASSIGN(chunk, scanning.converter->Convert(*hand.batch->Slice(hand.at, rows)));
  }
  for (size_t i = 0; i < scanning.places.size(); ++i) {
    duckdb_vector to = duckdb_data_chunk_get_vector(output, i);
    if (scanning.places[i] < 0) {
      std::memset(duckdb_vector_get_data(to), 0, static_cast<size_t>(rows) * sizeof(bool));
    } else {
      duckdb_vector_reference_vector(
          to, duckdb_data_chunk_get_vector(chunk, static_cast<idx_t>(scanning.places[i])));
    }
  }
  duckdb_data_chunk_set_size(output, static_cast<idx_t>(rows));
  if (chunk != nullptr) duckdb_destroy_data_chunk(&chunk);
  hand.at += rows;
  return {};
}

void Scan(duckdb_function_info info, duckdb_data_chunk output) {
  const auto& bound = *static_cast<Bound*>(duckdb_function_get_bind_data(info));
  auto& scanning = *static_cast<Scanning*>(duckdb_function_get_init_data(info));
  auto& hand = *static_cast<AtHand*>(duckdb_function_get_local_init_data(info));
  if (auto filled = Fill(scanning, hand, output); !filled) {
    duckdb_function_set_error(info, filled.error().message.c_str());
    bound.tables->Note(std::move(filled.error()));
  }
}

}  // namespace

Result<DuckTable> MakeDuckTable(std::shared_ptr<TableSource> source) {
  DuckTable out;
  ArrowSchema exported;
  LITHIFY_TRY(source->GetSchema(&exported));
  for (int64_t i = 0; i < exported.n_children; ++i) {
    out.columns.push_back({exported.children[i]->name, exported.children[i]->format});
  }
  auto schema = arrow::ImportSchema(&exported);
  if (!schema.ok()) return Fail(FromArrow(schema.status()));
  out.schema = *std::move(schema);
  out.source = std::move(source);
  return out;
}

DuckTables::DuckTables(std::vector<DuckTable> tables, int threads, duckdb_connection second)
    : tables_(std::move(tables)), threads_(std::max(threads, 1)), second_(second) {}

std::string DuckTables::ViewName(size_t table) { return "lithify_" + std::to_string(table); }

bool DuckTables::IsNoColumn(std::string_view name) { return name.find(kNoColumn) != name.npos; }

std::string ScanName(size_t table) { return std::string(kFunction) + "_" + std::to_string(table); }

Status RegisterScan(duckdb_connection connection, Duck& duck, const std::string& suffix) {
  duckdb_table_function function = duckdb_create_table_function();
  duckdb_table_function_set_name(function, (kFunction + suffix).c_str());
  duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
  duckdb_table_function_add_parameter(function, number);
  duckdb_destroy_logical_type(&number);
  duckdb_table_function_set_extra_info(function, &duck, nullptr);
  duckdb_table_function_set_bind(function, Bind);
  duckdb_table_function_set_init(function, Init);
  duckdb_table_function_set_local_init(function, InitThread);
  duckdb_table_function_set_function(function, Scan);
  duckdb_table_function_supports_projection_pushdown(function, true);
  const duckdb_state state = duckdb_register_table_function(connection, function);
  duckdb_destroy_table_function(&function);
  if (state != DuckDBSuccess) return Fail(Code::kInternal, "DuckDB takes no table function");
  return {};
}

Status DuckTables::MakeViews(duckdb_connection connection, bool apart) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const std::string function = apart ? ScanName(i) : kFunction;
    const std::string sql = "CREATE VIEW memory.main." + ViewName(i) + " AS SELECT * EXCLUDE (\"" +
                            kNoColumn + "\") FROM " + function + "(" + std::to_string(i) + ")";
    duckdb_result result;
    const bool done = duckdb_query(connection, sql.c_str(), &result) == DuckDBSuccess;
    const char* why = done ? nullptr : duckdb_result_error(&result);
    Error failed{Code::kInternal, why == nullptr ? "no view" : why, "", ""};
    duckdb_destroy_result(&result);
    if (!done) return Fail(error().value_or(std::move(failed)));
  }
  return {};
}

void DuckTables::SetFilters(std::vector<std::string> filters) {
  for (size_t i = 0; i < tables_.size(); ++i) tables_[i].filter = std::move(filters[i]);
}

void DuckTables::Note(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

std::optional<Error> DuckTables::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace lithify::serve
