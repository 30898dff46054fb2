// JSON of strangers, read member by member. Private to this module.
#ifndef LITHIFY_FLEET_STRICT_JSON_H_
#define LITHIFY_FLEET_STRICT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lithify::fleet {

using Json = nlohmann::json;

// kLimit: more than `bytes_max`, or more values than any message has. `code`: no JSON, a member
// that stands twice, nested too deep.
Result<Json> ParseStrict(std::string_view text, size_t bytes_max, Code code);
// UTF-8 alone: kUnsupported otherwise.
Result<std::string> WriteStrict(const Json& json);

// The members of an object. The first problem sticks, every later read gives nothing, and Finish()
// tells it; it is `code`. What was not read by then is not known: a problem.
class Members {
 public:
  Members(const Json& json, std::string where, Code code);

  // Whether there is such a member; null counts as absent.
  bool Has(const char* name) const;
  std::string Text(const char* name, size_t bytes_max);
  int64_t Integer(const char* name, int64_t low, int64_t high);
  bool Bool(const char* name);
  double Number(const char* name);
  // Bytes as base64.
  std::string Bytes(const char* name, size_t bytes_max);
  std::vector<std::string> Texts(const char* name, size_t count_max, size_t bytes_max);
  std::vector<int64_t> Integers(const char* name, size_t count_max, int64_t low);
  std::map<std::string, int64_t> Counts(const char* name, size_t count_max);
  // The items of a list, or the values of an object; empty after a problem.
  const Json& List(const char* name, size_t count_max);
  const Json& Object(const char* name, size_t count_max);

  void Problem(std::string_view member, std::string_view what);
  Status Finish() const;
  const std::string& where() const { return where_; }
  Code code() const { return code_; }

 private:
  const Json* Take(const char* name);
  std::string TextOf(const Json& json, std::string_view member, size_t bytes_max);
  int64_t IntegerOf(const Json& json, std::string_view member, int64_t low, int64_t high);

  const Json& json_;
  const std::string where_;
  const Code code_;
  std::set<std::string_view> taken_;
  std::string problem_;
};

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_STRICT_JSON_H_
