#include "serve/sql_info.h"

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/builder_union.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/config.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

namespace lithify::serve {
namespace {

// Values of an info; the index of the alternative is the union's type code.
using Text = std::string;
using Flag = bool;
using Long = int64_t;
using Mask = int32_t;
using Texts = std::vector<std::string>;
using InfoValue = std::variant<Text, Flag, Long, Mask, Texts>;

struct Info {
  uint32_t name = 0;
  InfoValue value;
};

// Numbers of the protocol's enum SqlInfo.
std::vector<Info> AllInfo(const std::string& version) {
  return {
      {0, Text("lithify")},             // FLIGHT_SQL_SERVER_NAME
      {1, Text(version)},               // FLIGHT_SQL_SERVER_VERSION
      {2, Text(ARROW_VERSION_STRING)},  // FLIGHT_SQL_SERVER_ARROW_VERSION
      {3, Flag(false)},                 // FLIGHT_SQL_SERVER_READ_ONLY
      {4, Flag(true)},                  // FLIGHT_SQL_SERVER_SQL
      {5, Flag(false)},                 // FLIGHT_SQL_SERVER_SUBSTRAIT
      {8, Mask(0)},                     // FLIGHT_SQL_SERVER_TRANSACTION: none
      {9, Flag(true)},                  // FLIGHT_SQL_SERVER_CANCEL
      {10, Flag(false)},                // FLIGHT_SQL_SERVER_BULK_INGESTION
      {100, Mask(15 * 60 * 1000)},      // FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT, ms
      {101, Mask(0)},                   // FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT
      {500, Flag(false)},               // SQL_DDL_CATALOG
      {501, Flag(false)},               // SQL_DDL_SCHEMA
      {502, Flag(false)},               // SQL_DDL_TABLE
      {503, Mask(1)},                   // SQL_IDENTIFIER_CASE: case-insensitive
      {504, Text("\"")},                // SQL_IDENTIFIER_QUOTE_CHAR
      {505, Mask(1)},                   // SQL_QUOTED_IDENTIFIER_CASE
      {506, Flag(false)},               // SQL_ALL_TABLES_ARE_SELECTABLE: the catalog decides
      {507, Mask(3)},                   // SQL_NULL_ORDERING: nulls at the end
      {508, Texts{"CALL", "CANCEL", "JOB", "JOBS", "SNAPSHOTS", "TBLPROPERTIES"}},  // SQL_KEYWORDS
      {513, Text("\\")},         // SQL_SEARCH_STRING_ESCAPE
      {514, Text("")},           // SQL_EXTRA_NAME_CHARACTERS
      {515, Flag(true)},         // SQL_SUPPORTS_COLUMN_ALIASING
      {516, Flag(true)},         // SQL_NULL_PLUS_NULL_IS_NULL
      {518, Flag(true)},         // SQL_SUPPORTS_TABLE_CORRELATION_NAMES
      {519, Flag(false)},        // SQL_SUPPORTS_DIFFERENT_TABLE_CORRELATION_NAMES
      {520, Flag(true)},         // SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY
      {521, Flag(true)},         // SQL_SUPPORTS_ORDER_BY_UNRELATED
      {522, Mask(3)},            // SQL_SUPPORTED_GROUP_BY
      {523, Flag(true)},         // SQL_SUPPORTS_LIKE_ESCAPE_CLAUSE
      {524, Flag(true)},         // SQL_SUPPORTS_NON_NULLABLE_COLUMNS
      {525, Mask(3)},            // SQL_SUPPORTED_GRAMMAR: minimum, core
      {526, Mask(1)},            // SQL_ANSI92_SUPPORTED_LEVEL: entry
      {527, Flag(false)},        // SQL_SUPPORTS_INTEGRITY_ENHANCEMENT_FACILITY
      {528, Mask(2)},            // SQL_OUTER_JOINS_SUPPORT_LEVEL: full
      {529, Text("namespace")},  // SQL_SCHEMA_TERM
      {530, Text("procedure")},  // SQL_PROCEDURE_TERM
      {531, Text("catalog")},    // SQL_CATALOG_TERM
      {532, Flag(true)},         // SQL_CATALOG_AT_START
      {533, Mask(1)},            // SQL_SCHEMAS_SUPPORTED_ACTIONS: in procedure calls
      {534, Mask(1)},            // SQL_CATALOGS_SUPPORTED_ACTIONS
      {535, Mask(0)},            // SQL_SUPPORTED_POSITIONED_COMMANDS
      {536, Flag(false)},        // SQL_SELECT_FOR_UPDATE_SUPPORTED
      {537, Flag(true)},         // SQL_STORED_PROCEDURES_SUPPORTED
      {538, Mask(15)},           // SQL_SUPPORTED_SUBQUERIES
      {539, Flag(true)},         // SQL_CORRELATED_SUBQUERIES_SUPPORTED
      {540, Mask(3)},            // SQL_SUPPORTED_UNIONS
      {557, Long(1 << 20)},      // SQL_MAX_STATEMENT_LENGTH
      {562, Mask(0)},            // SQL_DEFAULT_TRANSACTION_ISOLATION: none
      {563, Flag(false)},        // SQL_TRANSACTIONS_SUPPORTED
      {564, Mask(1)},            // SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS
      {567, Mask(2)},            // SQL_SUPPORTED_RESULT_SET_TYPES: forward only
  };
}

std::shared_ptr<arrow::DataType> InfoType() {
  return arrow::dense_union(
      {arrow::field("string_value", arrow::utf8()), arrow::field("bool_value", arrow::boolean()),
       arrow::field("bigint_value", arrow::int64()), arrow::field("int32_bitmask", arrow::int32()),
       arrow::field("string_list", arrow::list(arrow::utf8())),
       arrow::field("int32_to_int32_list_map",
                    arrow::map(arrow::int32(), arrow::list(arrow::int32())))});
}

// Appends one value to the child of its kind.
class InfoAppender {
 public:
  explicit InfoAppender(arrow::DenseUnionBuilder& builder) : builder_(builder) {}
  arrow::Status operator()(const Text& text) { return Scalar<arrow::StringBuilder>(0, text); }
  arrow::Status operator()(Flag flag) { return Scalar<arrow::BooleanBuilder>(1, flag); }
  arrow::Status operator()(Long number) { return Scalar<arrow::Int64Builder>(2, number); }
  arrow::Status operator()(Mask mask) { return Scalar<arrow::Int32Builder>(3, mask); }
  arrow::Status operator()(const Texts& texts) {
    ARROW_RETURN_NOT_OK(builder_.Append(4));
    auto& list = static_cast<arrow::ListBuilder&>(*builder_.child_builder(4));
    ARROW_RETURN_NOT_OK(list.Append());
    auto& items = static_cast<arrow::StringBuilder&>(*list.value_builder());
    for (const std::string& text : texts) ARROW_RETURN_NOT_OK(items.Append(text));
    return arrow::Status::OK();
  }

 private:
  template <typename Builder, typename T>
  arrow::Status Scalar(int8_t code, const T& value) {
    ARROW_RETURN_NOT_OK(builder_.Append(code));
    return static_cast<Builder&>(*builder_.child_builder(code)).Append(value);
  }
  arrow::DenseUnionBuilder& builder_;
};

// --- types ---------------------------------------------------------------------------------------

// One type of DuckDB that results have; numbers are those of ODBC.
struct SqlType {
  const char* name;
  int32_t number;
  std::optional<int32_t> size;  // Digits, bits or characters.
  const char* quote;            // Before and after a literal; null: none.
  std::optional<bool> is_unsigned;
  bool fixed_precision;
  std::optional<int32_t> scale_max;
  std::optional<int32_t> radix;
  int32_t generic_number;  // Of dates and times: 9.
  std::optional<int32_t> datetime_subcode;
};

constexpr auto kNone = std::nullopt;

// By number, then by name.
constexpr std::array kTypes = {
    SqlType{"UUID", -11, 36, "'", kNone, false, kNone, kNone, -11, kNone},
    SqlType{"BOOLEAN", -7, 1, nullptr, kNone, false, kNone, kNone, -7, kNone},
    SqlType{"TINYINT", -6, 3, nullptr, false, false, 0, 10, -6, kNone},
    SqlType{"BIGINT", -5, 19, nullptr, false, false, 0, 10, -5, kNone},
    SqlType{"BLOB", -3, kNone, "'", kNone, false, kNone, kNone, -3, kNone},
    SqlType{"DECIMAL", 3, 38, nullptr, false, true, 38, 10, 3, kNone},
    SqlType{"INTEGER", 4, 10, nullptr, false, false, 0, 10, 4, kNone},
    SqlType{"SMALLINT", 5, 5, nullptr, false, false, 0, 10, 5, kNone},
    SqlType{"FLOAT", 7, 24, nullptr, false, false, kNone, 2, 7, kNone},
    SqlType{"DOUBLE", 8, 53, nullptr, false, false, kNone, 2, 8, kNone},
    SqlType{"VARCHAR", 12, kNone, "'", kNone, false, kNone, kNone, 12, kNone},
    SqlType{"DATE", 91, 10, "'", kNone, false, kNone, kNone, 9, 1},
    SqlType{"TIME", 92, 15, "'", kNone, false, 6, kNone, 9, 2},
    SqlType{"TIMESTAMP", 93, 26, "'", kNone, false, 6, kNone, 9, 3},
};

constexpr int32_t kNullable = 1;
constexpr int32_t kSearchable = 3;
constexpr int32_t kVarchar = 12;

template <typename Builder, typename T, typename Get>
arrow::Status Column(const std::vector<const SqlType*>& types, Get get,
                     std::vector<std::shared_ptr<arrow::Array>>& columns) {
  Builder builder;
  for (const SqlType* type : types) {
    const std::optional<T> value = get(*type);
    ARROW_RETURN_NOT_OK(value ? builder.Append(*value) : builder.AppendNull());
  }
  ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), builder.Finish());
  return arrow::Status::OK();
}

// The columns in the order of the schema.
arrow::Status TypeColumns(const std::vector<const SqlType*>& types,
                          std::vector<std::shared_ptr<arrow::Array>>& columns) {
  const auto text = [&](auto get) {
    return Column<arrow::StringBuilder, std::string>(types, get, columns);
  };
  const auto number = [&](auto get) {
    return Column<arrow::Int32Builder, int32_t>(types, get, columns);
  };
  const auto flag = [&](auto get) {
    return Column<arrow::BooleanBuilder, bool>(types, get, columns);
  };
  using OptionalText = std::optional<std::string>;
  const auto quote = [](const SqlType& t) {
    return t.quote == nullptr ? OptionalText() : OptionalText(t.quote);
  };
  ARROW_RETURN_NOT_OK(text([](const SqlType& t) { return OptionalText(t.name); }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) { return std::optional(t.number); }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) { return t.size; }));
  ARROW_RETURN_NOT_OK(text(quote));
  ARROW_RETURN_NOT_OK(text(quote));
  ARROW_ASSIGN_OR_RAISE(
      columns.emplace_back(),
      arrow::MakeArrayOfNull(arrow::list(arrow::field("item", arrow::utf8(), false)),
                             static_cast<int64_t>(types.size())));
  ARROW_RETURN_NOT_OK(number([](const SqlType&) { return std::optional(kNullable); }));
  ARROW_RETURN_NOT_OK(flag([](const SqlType& t) { return std::optional(t.number == kVarchar); }));
  ARROW_RETURN_NOT_OK(number([](const SqlType&) { return std::optional(kSearchable); }));
  ARROW_RETURN_NOT_OK(flag([](const SqlType& t) { return t.is_unsigned; }));
  ARROW_RETURN_NOT_OK(flag([](const SqlType& t) { return std::optional(t.fixed_precision); }));
  ARROW_RETURN_NOT_OK(flag([](const SqlType&) { return std::optional<bool>(); }));
  ARROW_RETURN_NOT_OK(text([](const SqlType& t) { return OptionalText(t.name); }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) {
    return t.scale_max ? std::optional<int32_t>(0) : std::optional<int32_t>();
  }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) { return t.scale_max; }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) { return std::optional(t.generic_number); }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) { return t.datetime_subcode; }));
  ARROW_RETURN_NOT_OK(number([](const SqlType& t) { return t.radix; }));
  return number([](const SqlType&) { return std::optional<int32_t>(); });
}

}  // namespace

std::shared_ptr<arrow::Schema> SqlInfoSchema() {
  return arrow::schema(
      {arrow::field("info_name", arrow::uint32(), false), arrow::field("value", InfoType())});
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> SqlInfo(const std::vector<uint32_t>& wanted,
                                                           const std::string& version) {
  arrow::UInt32Builder names;
  ARROW_ASSIGN_OR_RAISE(auto made, arrow::MakeBuilder(InfoType()));
  auto& values = static_cast<arrow::DenseUnionBuilder&>(*made);
  for (const Info& info : AllInfo(version)) {
    if (!wanted.empty() && std::ranges::find(wanted, info.name) == wanted.end()) continue;
    ARROW_RETURN_NOT_OK(names.Append(info.name));
    ARROW_RETURN_NOT_OK(std::visit(InfoAppender(values), info.value));
  }
  const int64_t rows = names.length();
  ARROW_ASSIGN_OR_RAISE(auto name_array, names.Finish());
  ARROW_ASSIGN_OR_RAISE(auto value_array, values.Finish());
  return arrow::RecordBatch::Make(SqlInfoSchema(), rows,
                                  {std::move(name_array), std::move(value_array)});
}

std::shared_ptr<arrow::Schema> TypeInfoSchema() {
  const auto text = arrow::utf8();
  const auto number = arrow::int32();
  const auto flag = arrow::boolean();
  return arrow::schema({
      arrow::field("type_name", text, false),
      arrow::field("data_type", number, false),
      arrow::field("column_size", number),
      arrow::field("literal_prefix", text),
      arrow::field("literal_suffix", text),
      arrow::field("create_params", arrow::list(arrow::field("item", text, false))),
      arrow::field("nullable", number, false),
      arrow::field("case_sensitive", flag, false),
      arrow::field("searchable", number, false),
      arrow::field("unsigned_attribute", flag),
      arrow::field("fixed_prec_scale", flag, false),
      arrow::field("auto_increment", flag),
      arrow::field("local_type_name", text),
      arrow::field("minimum_scale", number),
      arrow::field("maximum_scale", number),
      arrow::field("sql_data_type", number, false),
      arrow::field("datetime_subcode", number),
      arrow::field("num_prec_radix", number),
      arrow::field("interval_precision", number),
  });
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> TypeInfo(std::optional<int32_t> data_type) {
  std::vector<const SqlType*> types;
  for (const SqlType& type : kTypes) {
    if (!data_type || type.number == *data_type) types.push_back(&type);
  }
  std::vector<std::shared_ptr<arrow::Array>> columns;
  ARROW_RETURN_NOT_OK(TypeColumns(types, columns));
  return arrow::RecordBatch::Make(TypeInfoSchema(), static_cast<int64_t>(types.size()),
                                  std::move(columns));
}

}  // namespace lithify::serve
