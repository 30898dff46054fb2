#include "fleet/strict_json.h"

#include <exception>
#include <limits>
#include <utility>

#include "net/http.h"

namespace lithify::fleet {
namespace {

constexpr int kDepthMax = 12;
constexpr int64_t kValuesMax = 4'000'000;

const Json kNothing = Json::array();
const Json kNobody = Json::object();

}  // namespace

Result<Json> ParseStrict(std::string_view text, size_t bytes_max, Code code) {
  if (text.size() > bytes_max) {
    return Fail(Code::kLimit, "it has " + std::to_string(text.size()) + " bytes, of at most " +
                                  std::to_string(bytes_max));
  }
  const char* problem = nullptr;
  int64_t values = 0;
  std::vector<std::set<std::string>> names;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (problem != nullptr) return false;
    if (++values > kValuesMax) problem = "it has too many values";
    if (depth > kDepthMax) problem = "it is nested too deep";
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key &&
        !names.back().insert(parsed.get_ref<const std::string&>()).second) {
      problem = "a member stands in it twice";
    }
    return problem == nullptr;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), look, false);
    if (problem != nullptr) return Fail(code, problem);
    if (json.is_discarded()) return Fail(code, "it is no JSON");
    return json;
  } catch (const std::exception&) {
    return Fail(code, "it is no JSON");
  }
}

Result<std::string> WriteStrict(const Json& json) {
  try {
    return json.dump();
  } catch (const std::exception&) {
    return Fail(Code::kUnsupported, "a text in it is not UTF-8", "a message of the fleet");
  }
}

Members::Members(const Json& json, std::string where, Code code)
    : json_(json.is_object() ? json : kNobody), where_(std::move(where)), code_(code) {
  if (!json.is_object()) problem_ = "is no object";
}

void Members::Problem(std::string_view member, std::string_view what) {
  if (!problem_.empty()) return;
  problem_ = std::string(member) + " " + std::string(what);
}

Status Members::Finish() const {
  if (!problem_.empty()) return Fail(code_, problem_, where_);
  for (const auto& [name, value] : json_.items()) {
    if (!taken_.contains(name)) {
      return Fail(code_, "has a member that is not known here", where_,
                  "run the same version on both sides");
    }
  }
  return {};
}

bool Members::Has(const char* name) const {
  const auto at = json_.find(name);
  return at != json_.end() && !at->is_null();
}

const Json* Members::Take(const char* name) {
  taken_.insert(name);
  if (!problem_.empty()) return nullptr;
  const auto at = json_.find(name);
  if (at != json_.end()) return &*at;
  Problem(name, "is missing");
  return nullptr;
}

std::string Members::TextOf(const Json& json, std::string_view member, size_t bytes_max) {
  const auto* text = json.get_ptr<const std::string*>();
  if (text == nullptr) {
    Problem(member, "is no text");
  } else if (text->size() > bytes_max) {
    Problem(member, "is too long");
  } else {
    return *text;
  }
  return {};
}

int64_t Members::IntegerOf(const Json& json, std::string_view member, int64_t low, int64_t high) {
  if (!json.is_number_integer()) {
    Problem(member, "is no whole number");
    return low;
  }
  const bool huge = json.is_number_unsigned() &&
                    json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
  const int64_t value = huge ? 0 : json.get<int64_t>();
  if (!huge && value >= low && value <= high) return value;
  Problem(member, "is out of range");
  return low;
}

std::string Members::Text(const char* name, size_t bytes_max) {
  const Json* json = Take(name);
  return json == nullptr ? std::string() : TextOf(*json, name, bytes_max);
}

int64_t Members::Integer(const char* name, int64_t low, int64_t high) {
  const Json* json = Take(name);
  return json == nullptr ? low : IntegerOf(*json, name, low, high);
}

bool Members::Bool(const char* name) {
  const Json* json = Take(name);
  if (json == nullptr) return false;
  if (!json->is_boolean()) Problem(name, "is neither true nor false");
  return json->is_boolean() && json->get<bool>();
}

double Members::Number(const char* name) {
  const Json* json = Take(name);
  if (json == nullptr) return 0;
  if (!json->is_number()) Problem(name, "is no number");
  return json->is_number() ? json->get<double>() : 0;
}

std::string Members::Bytes(const char* name, size_t bytes_max) {
  const std::string text = Text(name, bytes_max / 3 * 4 + 4);
  auto bytes = net::DecodeBase64(text);
  if (!bytes) Problem(name, "is no base64");
  return bytes ? *std::move(bytes) : std::string();
}

const Json& Members::List(const char* name, size_t count_max) {
  const Json* json = Take(name);
  if (json == nullptr) return kNothing;
  if (json->is_array() && json->size() <= count_max) return *json;
  Problem(name, json->is_array() ? "has too many items" : "is no list");
  return kNothing;
}

const Json& Members::Object(const char* name, size_t count_max) {
  const Json* json = Take(name);
  if (json == nullptr) return kNobody;
  if (json->is_object() && json->size() <= count_max) return *json;
  Problem(name, json->is_object() ? "has too many members" : "is no object");
  return kNobody;
}

std::vector<std::string> Members::Texts(const char* name, size_t count_max, size_t bytes_max) {
  std::vector<std::string> out;
  for (const Json& item : List(name, count_max)) out.push_back(TextOf(item, name, bytes_max));
  return out;
}

std::vector<int64_t> Members::Integers(const char* name, size_t count_max, int64_t low) {
  std::vector<int64_t> out;
  for (const Json& item : List(name, count_max)) {
    out.push_back(IntegerOf(item, name, low, std::numeric_limits<int64_t>::max()));
  }
  return out;
}

std::map<std::string, int64_t> Members::Counts(const char* name, size_t count_max) {
  std::map<std::string, int64_t> out;
  for (const auto& [key, value] : Object(name, count_max).items()) {
    out[key] = IntegerOf(value, name, 0, std::numeric_limits<int64_t>::max());
  }
  return out;
}

}  // namespace lithify::fleet
