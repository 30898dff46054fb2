// Values of Arrow results as text and as JSON.
#ifndef LITHIFY_APPS_LITHIFY_SQL_ARROW_TEXT_H_
#define LITHIFY_APPS_LITHIFY_SQL_ARROW_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace arrow {
class Array;
}  // namespace arrow

namespace lithify::cli {

// As a person reads it; "NULL" for null.
std::string CellText(const arrow::Array& column, int64_t row);
// Numbers, texts, booleans, lists and structs as such; all else (times, decimals, bytes) as text;
// null for null and for numbers that JSON has not.
nlohmann::ordered_json CellJson(const arrow::Array& column, int64_t row);

// A field of a CSV file [RFC 4180]: quoted where it must be.
std::string CsvField(const std::string& text);

}  // namespace lithify::cli

#endif  // LITHIFY_APPS_LITHIFY_SQL_ARROW_TEXT_H_
