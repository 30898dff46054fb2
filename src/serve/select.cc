#include "serve/select.h"

#include <arrow/array/concatenate.h>
#include <arrow/c/bridge.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/byte_size.h>
#include <duckdb.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/text.h"
#include "serve/duck.h"
#include "serve/duck_table.h"
#include "serve/select_parameters.h"
#include "serve/select_plan.h"
#include "serve/select_statement.h"

namespace lithify::serve {
namespace {

constexpr size_t kSqlBytesMax = size_t{1} << 20;
constexpr int64_t kBatchRows = 8192;
constexpr int64_t kBatchBytes = 4 * kMiB;

Error FromArrow(const arrow::Status& status) {
  return Error{status.IsOutOfMemory() ? Code::kLimit : Code::kInternal, status.ToString(), "", ""};
}

std::string NameText(const TableName& name) {
  std::string text;
  for (const std::string& part : name.parts) text += (text.empty() ? "" : ".") + part;
  return text;
}

// Texts that the caller frees are constant in the C API, and what frees them takes others.
std::string TakeText(const char* text) {
  std::string out(text == nullptr ? "" : text);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the only way but a const_cast.
  duckdb_free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(text)));
  return out;
}

// One statement from its text to its last row. Members are destroyed from the last to the first:
// what DuckDB still runs ends before what it reads does.
class Session {
 public:
  static Result<std::unique_ptr<Session>> Prepare(std::string_view sql,
                                                  std::shared_ptr<DuckPool> pool,
                                                  TableProvider& provider,
                                                  const SelectLimits& limits,
                                                  const CancelFlag& cancel, bool explain = false) {
    auto session = std::unique_ptr<Session>(new Session(std::string(sql), std::move(pool), limits));
    session->explain_ = explain;
    LITHIFY_TRY(cancel.Check());
    if (sql.size() > kSqlBytesMax) {
      return Fail(Code::kLimit, "the statement is longer than 1 MiB");
    }
    if (sql.find('\0') != std::string_view::npos) {
      return Fail(Code::kInvalid, "the statement has a character that is none");
    }
    LITHIFY_TRY(session->Open(provider, cancel));
    return session;
  }

  ~Session() {
    if (tables_ != nullptr) tables_->stopped().Request();
    if (has_result_) duckdb_destroy_result(&result_);
    if (statement_ != nullptr) duckdb_destroy_prepare(&statement_);
    const bool interrupted = watch_ != nullptr && watch_->reason().has_value();
    watch_.reset();
    if (duck_ == nullptr) return;
    // What was cut off in the middle, or failed in a way that is not the statement's, is not used
    // again.
    const bool good = !interrupted && !broken_ && has_result_ == at_end_;
    pool_->Give(std::move(duck_), views_, good);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  duckdb_prepared_statement statement() const { return statement_; }
  duckdb_connection connection() const { return duck_->connection(); }

  // The names and types of the columns of the prepared statement; null where they depend on
  // parameters.
  Result<std::shared_ptr<arrow::Schema>> ResultSchema() {
    std::vector<duckdb_logical_type> types;
    std::vector<std::string> held;
    bool known = true;
    const idx_t count = duckdb_prepared_statement_column_count(statement_);
    for (idx_t i = 0; i < count; ++i) {
      types.push_back(duckdb_prepared_statement_column_logical_type(statement_, i));
      held.push_back(TakeText(duckdb_prepared_statement_column_name(statement_, i)));
      known = known && types.back() != nullptr &&
              duckdb_get_type_id(types.back()) != DUCKDB_TYPE_INVALID;
    }
    Result<std::shared_ptr<arrow::Schema>> schema = nullptr;
    if (known) schema = MakeSchema(types, Pointers(held));
    for (duckdb_logical_type& type : types) duckdb_destroy_logical_type(&type);
    return schema;
  }

  // Likewise, of what is executed: parameters have their types by now.
  Result<std::shared_ptr<arrow::Schema>> ExecutedSchema() {
    std::vector<duckdb_logical_type> types;
    std::vector<const char*> names;
    for (idx_t i = 0; i < duckdb_column_count(&result_); ++i) {
      types.push_back(duckdb_column_logical_type(&result_, i));
      names.push_back(duckdb_column_name(&result_, i));
    }
    auto schema = MakeSchema(types, names);
    for (duckdb_logical_type& type : types) duckdb_destroy_logical_type(&type);
    return schema;
  }

  Result<std::shared_ptr<arrow::Schema>> ParameterSchema() {
    std::vector<duckdb_logical_type> types;
    std::vector<std::string> names;
    for (idx_t i = 1; i <= duckdb_nparams(statement_); ++i) {
      duckdb_logical_type type = duckdb_param_logical_type(statement_, i);
      const auto id = type == nullptr ? DUCKDB_TYPE_INVALID : duckdb_get_type_id(type);
      if (id == DUCKDB_TYPE_INVALID || id == DUCKDB_TYPE_ANY) {
        if (type != nullptr) duckdb_destroy_logical_type(&type);
        type = duckdb_create_logical_type(DUCKDB_TYPE_SQLNULL);
      }
      types.push_back(type);
      names.push_back(std::to_string(i));
    }
    auto schema = MakeSchema(types, Pointers(names));
    for (duckdb_logical_type& type : types) duckdb_destroy_logical_type(&type);
    return schema;
  }

  Status Execute(const std::shared_ptr<arrow::RecordBatch>& parameters) {
    LITHIFY_TRY(BindParameters(statement_, parameters));
    std::vector<std::vector<UsedColumn>> columns;
    for (const DuckTable& table : tables_->tables()) columns.push_back(table.columns);
    tables_->SetFilters(parsed_->Filters(columns, ParameterValues(parameters)));
    duckdb_pending_result pending = nullptr;
    duckdb_state state = duckdb_pending_prepared_streaming(statement_, &pending);
    if (state == DuckDBSuccess) {
      has_result_ = true;
      state = duckdb_execute_pending(pending, &result_);
    }
    Status status;
    if (state != DuckDBSuccess) {
      const char* why = has_result_ ? duckdb_result_error(&result_) : nullptr;
      if (why == nullptr) why = duckdb_pending_error(pending);
      status = Fail(Explain(why));
    }
    duckdb_destroy_pending(&pending);
    return status;
  }

  // After Prepare() with `explain`.
  Result<SelectPlan> Plan(const std::shared_ptr<arrow::RecordBatch>& parameters) {
    std::vector<std::vector<UsedColumn>> columns;
    for (const DuckTable& table : tables_->tables()) columns.push_back(table.columns);
    const std::vector<std::string> filters = parsed_->Filters(columns, ParameterValues(parameters));
    LITHIFY_TRY_ASSIGN(const std::string json, PlanJson(parameters));
    std::vector<std::string> names;
    for (const TableUse& use : parsed_->tables()) names.push_back(NameText(use.name));
    LITHIFY_TRY_ASSIGN(DuckPlan plan, ReadDuckPlan(json, names));
    SelectPlan out;
    out.text = std::move(plan.text);
    for (size_t i = 0; i < names.size(); ++i) {
      TableRead read;
      read.filter = filters[i];
      read.cancel = &tables_->stopped();
      auto table = tables_->tables()[i].source->Plan(read);
      if (auto reason = watch_->reason()) return Fail(std::move(*reason));
      if (!table) return Fail(std::move(table.error()));
      out.reads.push_back(
          {parsed_->tables()[i].name, std::move(plan.columns[i]), filters[i], std::move(*table)});
    }
    return out;
  }

  // Null at the end. One of DuckDB's small batches.
  Result<std::shared_ptr<arrow::RecordBatch>> Fetch(const std::shared_ptr<arrow::Schema>& schema) {
    if (auto reason = watch_->reason()) return Fail(std::move(*reason));
    duckdb_data_chunk chunk = duckdb_fetch_chunk(result_);
    if (chunk == nullptr) {
      const char* why = duckdb_result_error(&result_);
      if (why != nullptr && *why != '\0') return Fail(Explain(why));
      at_end_ = true;
      // The end may also be that of an interrupted scan.
      if (auto reason = watch_->reason()) return Fail(std::move(*reason));
      if (auto error = tables_->error()) return Fail(std::move(*error));
      return nullptr;
    }
    duckdb_arrow_options options = duckdb_result_get_arrow_options(&result_);
    ArrowArray array = {};
    duckdb_error_data error = duckdb_data_chunk_to_arrow(options, chunk, &array);
    duckdb_destroy_arrow_options(&options);
    duckdb_destroy_data_chunk(&chunk);
    LITHIFY_TRY(Check(error));
    auto batch = arrow::ImportRecordBatch(&array, schema);
    if (!batch.ok()) return Fail(FromArrow(batch.status()));
    return *std::move(batch);
  }

  const SelectLimits& limits() const { return limits_; }

 private:
  Session(std::string sql, std::shared_ptr<DuckPool> pool, const SelectLimits& limits)
      : sql_(std::move(sql)), pool_(std::move(pool)), limits_(limits) {}

  Status Open(TableProvider& provider, const CancelFlag& cancel) {
    LITHIFY_TRY_ASSIGN(duck_, pool_->Take(limits_));
    LITHIFY_TRY_ASSIGN(const std::string tree, duck_->Parse(sql_));
    LITHIFY_TRY_ASSIGN(parsed_, Read(tree));
    std::vector<DuckTable> tables;
    std::vector<std::string> replacements;
    LITHIFY_TRY(FindTables(provider, cancel, tables, replacements));
    tables_ = std::make_unique<DuckTables>(std::move(tables), limits_.threads, duck_->second());
    // From now on things take as long as they take.
    watch_ = std::make_unique<DuckWatch>(duck_->connection(), cancel, limits_.time_max,
                                         tables_->stopped());
    duck_->SetTables(tables_.get());
    broken_ = true;  // Until all views are there.
    if (explain_) {
      for (size_t i = 0; i < tables_->tables().size(); ++i) {
        LITHIFY_TRY(RegisterScan(duck_->connection(), *duck_, "_" + std::to_string(i)));
      }
    }
    LITHIFY_TRY(tables_->MakeViews(duck_->connection(), explain_));
    broken_ = explain_;  // Functions are not taken away again.
    views_ = tables_->tables().size();
    LITHIFY_TRY_ASSIGN(replaced_, parsed_->Replace(replacements));
    LITHIFY_TRY(CheckReplaced(replaced_));
    return PrepareStatement(replaced_);
  }

  // The parser must see our views where it saw the tables, one by one, and no other table: what
  // names mean is not left to how they were found in the text.
  Status CheckReplaced(const std::string& sql) {
    LITHIFY_TRY_ASSIGN(const std::string tree, duck_->Parse(sql));
    const auto replaced = SelectStatement::Read(sql, tree);
    bool same = replaced && replaced->tables().size() == parsed_->tables().size();
    for (size_t i = 0; same && i < replaced->tables().size(); ++i) {
      const TableUse& use = replaced->tables()[i];
      const std::vector<std::string> name = {"memory", "main", DuckTables::ViewName(i)};
      same = use.name.parts == name && use.name.version.empty();
    }
    if (same) return {};
    return Fail(Code::kUnsupported, "its tables are named in a way that is not understood", "",
                "write their names in plain or in \"…\"");
  }

  Result<std::unique_ptr<SelectStatement>> Read(const std::string& tree) const {
    LITHIFY_TRY_ASSIGN(auto parsed, SelectStatement::Read(sql_, tree));
    return std::make_unique<SelectStatement>(std::move(parsed));
  }

  // One for each use.
  Status FindTables(TableProvider& provider, const CancelFlag& cancel,
                    std::vector<DuckTable>& tables, std::vector<std::string>& replacements) {
    std::map<std::pair<std::vector<std::string>, std::string>, DuckTable> found;
    for (const TableUse& use : parsed_->tables()) {
      LITHIFY_TRY(cancel.Check());
      const auto [at, is_new] = found.try_emplace({use.name.parts, use.name.version});
      if (is_new) {
        LITHIFY_TRY_ASSIGN(auto source, provider.Find(use.name));
        if (source == nullptr) {
          return Fail(Code::kNotFound, "there is no table " + NameText(use.name), "",
                      "tables are namespace.table or catalog.namespace.table, as the catalog has "
                      "them");
        }
        LITHIFY_TRY_ASSIGN(at->second, MakeDuckTable(std::move(source)));
      }
      replacements.push_back("memory.main." + DuckTables::ViewName(tables.size()));
      tables.push_back(at->second);
    }
    return {};
  }

  static std::vector<const char*> Pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    return pointers;
  }

  Status PrepareStatement(const std::string& sql) {
    if (duckdb_prepare(duck_->connection(), sql.c_str(), &statement_) != DuckDBSuccess) {
      return Fail(Explain(duckdb_prepare_error(statement_)));
    }
    if (duckdb_prepared_statement_type(statement_) != DUCKDB_STATEMENT_TYPE_SELECT) {
      return Fail(Code::kDenied, "only SELECT statements are run here");
    }
    return {};
  }

  Result<std::string> PlanJson(const std::shared_ptr<arrow::RecordBatch>& parameters) {
    const std::string sql = "EXPLAIN (FORMAT json) " + replaced_;
    duckdb_prepared_statement explain = nullptr;
    Result<std::string> json;
    if (duckdb_prepare(duck_->connection(), sql.c_str(), &explain) != DuckDBSuccess) {
      json = Fail(Explain(duckdb_prepare_error(explain)));
    } else if (Status bound = BindParameters(explain, parameters); !bound) {
      json = Fail(std::move(bound.error()));
    } else {
      json = ExplainedJson(explain);
    }
    duckdb_destroy_prepare(&explain);
    return json;
  }

  Result<std::string> ExplainedJson(duckdb_prepared_statement explain) {
    duckdb_result result = {};
    Result<std::string> json;
    if (duckdb_execute_prepared(explain, &result) != DuckDBSuccess) {
      json = Fail(Explain(duckdb_result_error(&result)));
    } else {
      duckdb_data_chunk chunk = duckdb_fetch_chunk(result);
      if (chunk != nullptr && duckdb_data_chunk_get_size(chunk) == 1 &&
          duckdb_data_chunk_get_column_count(chunk) == 2) {
        auto* values = static_cast<duckdb_string_t*>(
            duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 1)));
        json = std::string(duckdb_string_t_data(values), duckdb_string_t_length(values[0]));
      } else {
        json = Fail(Code::kInternal, "DuckDB gives no plan");
      }
      duckdb_destroy_data_chunk(&chunk);
    }
    duckdb_destroy_result(&result);
    return json;
  }

  // Of what DuckDB says, what was behind it.
  Error Explain(const char* why) {
    Error error = ExplainIt(why);
    broken_ = broken_ || error.code == Code::kInternal || error.code == Code::kLimit ||
              error.code == Code::kCancelled;
    return error;
  }

  Error ExplainIt(const char* why) const {
    if (tables_ != nullptr) {
      if (auto error = tables_->error(); error && error->code != Code::kCancelled) return *error;
    }
    if (watch_ != nullptr) {
      if (auto reason = watch_->reason()) return *reason;
    }
    return DuckError(why == nullptr ? "DuckDB does not say why it failed" : why,
                     [this](size_t position) {
                       return SelectStatement::Place(sql_, parsed_->OriginalPosition(position));
                     });
  }

  Result<std::shared_ptr<arrow::Schema>> MakeSchema(std::vector<duckdb_logical_type>& types,
                                                    std::vector<const char*> names) {
    duckdb_arrow_options options = nullptr;
    duckdb_connection_get_arrow_options(duck_->connection(), &options);
    ArrowSchema exported = {};
    duckdb_error_data error =
        duckdb_to_arrow_schema(options, types.data(), names.data(), types.size(), &exported);
    duckdb_destroy_arrow_options(&options);
    LITHIFY_TRY(Check(error));
    auto schema = arrow::ImportSchema(&exported);
    if (!schema.ok()) {
      return Fail(Code::kUnsupported,
                  "a result that Arrow does not have: " + schema.status().message(), "",
                  "CAST the column to VARCHAR");
    }
    return *std::move(schema);
  }

  static Status Check(duckdb_error_data error) {
    Status status;
    if (error != nullptr && duckdb_error_data_has_error(error)) {
      status = Fail(
          Code::kUnsupported,
          std::string("a result that Arrow does not have: ") + duckdb_error_data_message(error), "",
          "CAST the column to VARCHAR");
    }
    duckdb_destroy_error_data(&error);
    return status;
  }

  const std::string sql_;
  const std::shared_ptr<DuckPool> pool_;
  const SelectLimits limits_;
  std::unique_ptr<SelectStatement> parsed_;
  std::unique_ptr<DuckTables> tables_;
  std::unique_ptr<Duck> duck_;
  std::unique_ptr<DuckWatch> watch_;
  duckdb_prepared_statement statement_ = nullptr;
  bool has_result_ = false;
  bool at_end_ = false;  // Of the result.
  bool broken_ = false;
  bool explain_ = false;
  std::string replaced_;  // The statement, with views in the places of its tables.
  size_t views_ = 0;
  duckdb_result result_ = {};
};

class Rows final : public SelectResult {
 public:
  Rows(std::unique_ptr<Session> session, std::shared_ptr<arrow::Schema> schema)
      : session_(std::move(session)), schema_(std::move(schema)) {}

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    std::vector<std::shared_ptr<arrow::RecordBatch>> parts;
    int64_t rows = 0;
    int64_t bytes = 0;
    while (!done_ && rows < kBatchRows && bytes < kBatchBytes) {
      LITHIFY_TRY_ASSIGN(auto batch, session_->Fetch(schema_));
      if (batch == nullptr) {
        done_ = true;
        break;
      }
      if (batch->num_rows() == 0) continue;
      rows += batch->num_rows();
      bytes += arrow::util::TotalBufferSize(*batch);
      parts.push_back(std::move(batch));
    }
    if (parts.empty()) return nullptr;
    LITHIFY_TRY(Count(rows, bytes));
    if (parts.size() == 1) return std::move(parts.front());
    auto joined = arrow::ConcatenateRecordBatches(parts);
    if (!joined.ok()) return Fail(FromArrow(joined.status()));
    return *std::move(joined);
  }

 private:
  Status Count(int64_t rows, int64_t bytes) {
    rows_ += rows;
    bytes_ += bytes;
    const SelectLimits& limits = session_->limits();
    if (limits.result_rows_max > 0 && rows_ > limits.result_rows_max) {
      return Fail(Code::kLimit,
                  "the result has more than " + std::to_string(limits.result_rows_max) + " rows",
                  "", "add a LIMIT, or raise the limit");
    }
    if (limits.result_bytes_max > 0 && bytes_ > limits.result_bytes_max) {
      return Fail(Code::kLimit,
                  "the result has more than " + std::to_string(limits.result_bytes_max) + " bytes",
                  "", "add a LIMIT, or raise the limit");
    }
    return {};
  }

  const std::unique_ptr<Session> session_;
  const std::shared_ptr<arrow::Schema> schema_;
  bool done_ = false;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

SelectEngine::SelectEngine() : pool_(std::make_shared<DuckPool>()) {}

Result<std::unique_ptr<SelectResult>> SelectEngine::Run(
    std::string_view sql, const std::shared_ptr<arrow::RecordBatch>& parameters,
    TableProvider& provider, const SelectLimits& limits, const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(auto session, Session::Prepare(sql, pool_, provider, limits, cancel));
  LITHIFY_TRY(session->Execute(parameters));
  // Now that the parameters are bound, their types are settled, too.
  LITHIFY_TRY_ASSIGN(auto schema, session->ExecutedSchema());
  return std::make_unique<Rows>(std::move(session), std::move(schema));
}

Result<SelectPlan> SelectEngine::Explain(std::string_view sql,
                                         const std::shared_ptr<arrow::RecordBatch>& parameters,
                                         TableProvider& provider, const SelectLimits& limits,
                                         const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(auto session, Session::Prepare(sql, pool_, provider, limits, cancel, true));
  return session->Plan(parameters);
}

Result<SelectDescription> SelectEngine::Describe(std::string_view sql, TableProvider& provider,
                                                 const SelectLimits& limits,
                                                 const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(auto session, Session::Prepare(sql, pool_, provider, limits, cancel));
  SelectDescription out;
  LITHIFY_TRY_ASSIGN(out.result, session->ResultSchema());
  LITHIFY_TRY_ASSIGN(out.parameters, session->ParameterSchema());
  return out;
}

}  // namespace lithify::serve
