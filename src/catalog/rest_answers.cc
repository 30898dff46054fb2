#include "catalog/rest_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lithify::catalog::rest {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxWords = 2000;              // Of a server's own words in an error.
constexpr size_t kMaxErrorBody = 1024 * 1024;   // Errors larger than that are not read.
constexpr std::string_view kBlank = " \t\r\n";  // JSON's white space.

std::unexpected<Error> Broken(std::string what) {
  return Fail(Code::kCorrupt, "the catalog's answer breaks the protocol: " + std::move(what));
}

std::string OneLine(std::string text) {
  if (text.size() > kMaxWords) text = text.substr(0, kMaxWords) + "…";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// A map of strings; numbers and booleans are taken as text, null as absent.
Result<std::map<std::string, std::string>> StringMap(const Json& value, const char* name) {
  std::map<std::string, std::string> out;
  if (value.is_null()) return out;
  if (!value.is_object()) return Broken(std::string(name) + " is not an object");
  for (const auto& [key, item] : value.items()) {
    if (item.is_null()) continue;
    if (item.is_structured()) return Broken(std::string(name) + "." + key + " is not a string");
    out[key] = item.is_string() ? item.get<std::string>() : item.dump();
  }
  return out;
}

Json Member(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() ? Json() : *at;
}

// Keys whose values are credentials for the catalog itself: the token source's matter.
bool IsToken(const std::string& key) {
  return key == "token" || key == "credential" || key.starts_with("urn:ietf:params:oauth:");
}

bool IsUnreservedOrEncoded(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (net::PercentEncode(text.substr(i, 1)).size() != 1) return false;
      continue;
    }
    if (i + 2 >= text.size() || kHex.find(text[i + 1]) == std::string_view::npos ||
        kHex.find(text[i + 2]) == std::string_view::npos) {
      return false;
    }
    i += 2;
  }
  return !text.empty();
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The prefix goes into paths as it is: it may consist of several segments, encoded already.
Result<std::string> PathPrefix(std::string prefix) {
  while (prefix.starts_with('/')) prefix.erase(0, 1);
  while (prefix.ends_with('/')) prefix.pop_back();
  if (prefix.empty()) return prefix;
  std::string out;
  for (size_t at = 0; at <= prefix.size();) {
    const size_t end = std::min(prefix.find('/', at), prefix.size());
    const std::string segment = prefix.substr(at, end - at);
    if (segment.empty() || segment == "." || segment == "..") {
      return Broken("prefix '" + OneLine(prefix) + "' is no path");
    }
    out += (IsUnreservedOrEncoded(segment) ? segment : net::PercentEncode(segment)) + "/";
    at = end + 1;
  }
  return out;
}

Result<std::vector<std::string>> Strings(const Json& value, const std::string& name) {
  if (!value.is_array()) return Broken(name + " is not an array");
  std::vector<std::string> out;
  for (const Json& item : value) {
    if (!item.is_string()) return Broken(name + " has an element that is not a string");
    out.push_back(item.get<std::string>());
  }
  return out;
}

Result<Json> ParseObject(std::string_view body) {
  Json value = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return Broken("not a JSON object");
  return value;
}

Result<std::string> NextToken(const Json& body) {
  const Json token = Member(body, "next-page-token");
  if (token.is_null()) return std::string();
  if (!token.is_string()) return Broken("next-page-token is not a string");
  return token.get<std::string>();
}

// --- SplitObject ---------------------------------------------------------------------------------

size_t SkipBlank(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kBlank, at), text.size());
}

// Behind the string that begins at `at`; npos if it does not end.
size_t SkipString(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// Behind the value that begins at `at`; npos if it does not end.
size_t SkipValue(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      if (at == std::string_view::npos || depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || kBlank.find(c) != std::string_view::npos)) {
      return at;
    }
    ++at;
  }
  return std::string_view::npos;
}

// --- errors --------------------------------------------------------------------------------------

struct Words {
  std::string type;
  std::string message;
};

// IcebergErrorResponse, or what an OAuth2 gate in front of the catalog says.
std::optional<Words> ServerWords(const net::HttpResponse& response) {
  if (response.body.size() > kMaxErrorBody) return std::nullopt;
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return std::nullopt;
  const auto text = [](const Json& object, const char* key) {
    const Json value = Member(object, key);
    return value.is_string() ? OneLine(value.get<std::string>()) : std::string();
  };
  const Json error = Member(body, "error");
  Words words;
  if (error.is_object()) {
    words = {text(error, "type"), text(error, "message")};
  } else if (error.is_string()) {
    words = {text(body, "error"), text(body, "error_description")};
  }
  if (words.type.empty() && words.message.empty()) return std::nullopt;
  return words;
}

// Polaris lets the refusal of a snapshot that lost a race through as 400 (polaris#5138).
bool IsLostRace(const Words& words) {
  static constexpr std::string_view kTypes[] = {"CommitFailedException", "CommitConflictException",
                                                "RetryableValidationException"};
  static constexpr std::string_view kMessages[] = {"older than last sequence number",
                                                   "first-row-id is behind table next-row-id"};
  const auto said = [&](std::string_view part) {
    return words.message.find(part) != std::string::npos;
  };
  return std::ranges::find(kTypes, words.type) != std::end(kTypes) ||
         std::ranges::any_of(kMessages, said);
}

Code CommitCode(int status, const Words& words) {
  if (words.type == "CommitStateUnknownException") return Code::kUnknownOutcome;
  switch (status) {
    case 400: return IsLostRace(words) ? Code::kConflict : Code::kInvalid;
    case 401:
    case 403:
    case 419: return Code::kDenied;
    case 404: return Code::kNotFound;
    case 406:
    case 501: return Code::kUnsupported;
    case 409:
    case 412: return Code::kConflict;
    case 408:
    case 429: return Code::kUnknownOutcome;
    default: return status >= 400 && status < 500 ? Code::kInvalid : Code::kUnknownOutcome;
  }
}

Code ReadCode(int status) {
  switch (status) {
    case 401:
    case 403:
    case 419: return Code::kDenied;
    case 404: return Code::kNotFound;
    case 406:
    case 501: return Code::kUnsupported;
    case 408:
    case 429: return Code::kTransient;
    default:
      if (status >= 500) return Code::kTransient;
      return status >= 300 ? Code::kInvalid : Code::kCorrupt;  // A success that makes no sense.
  }
}

std::string HintFor(const net::HttpResponse& response, Call call, Code code, bool understood) {
  const int status = response.status;
  if (status == 401 || status == 419) return "check the token or the client's credentials";
  if (status == 403) return "grant the principal what the message names";
  if (status >= 300 && status < 400) {
    const std::string to = response.Header("location").value_or("");
    return "set the catalog's uri to where it is now" +
           (to.empty() ? std::string() : ": " + OneLine(net::UrlForMessages(to)));
  }
  if (code == Code::kUnknownOutcome && call == Call::kCommit) {
    return "load the table and look for the snapshot; remove nothing";
  }
  if (call == Call::kCommit && code == Code::kInvalid) {
    return "the catalog finds the change itself wrong; its log may say more";
  }
  if (status == 404) {
    return understood
               ? "check the name; a catalog may also say so of what the principal may not see"
               : "check the catalog's uri";
  }
  return {};
}

}  // namespace

Result<Config> ParseConfig(std::string_view body, const std::string& uri,
                           const std::map<std::string, std::string>& client_properties) {
  LITHIFY_TRY_ASSIGN(const Json json, ParseObject(body));
  Config config;
  LITHIFY_TRY_ASSIGN(config.properties, StringMap(Member(json, "defaults"), "defaults"));
  for (const auto& [key, value] : client_properties) config.properties[key] = value;
  LITHIFY_TRY_ASSIGN(const auto overrides, StringMap(Member(json, "overrides"), "overrides"));
  for (const auto& [key, value] : overrides) config.properties[key] = value;
  std::erase_if(config.properties, [](const auto& item) { return IsToken(item.first); });

  const auto uri_at = config.properties.find("uri");
  if (uri_at != config.properties.end()) {
    LITHIFY_TRY_ASSIGN(const std::string ours, net::UrlOrigin(uri));
    const auto theirs = net::UrlOrigin(uri_at->second);
    if (!theirs || *theirs != ours) {
      return Fail(Code::kInvalid,
                  "the catalog's configuration leads to another host: " +
                      OneLine(net::UrlForMessages(uri_at->second)),
                  {}, "set the catalog's uri to it if you trust it");
    }
  }
  const auto prefix = config.properties.find("prefix");
  if (prefix != config.properties.end()) {
    LITHIFY_TRY_ASSIGN(config.prefix, PathPrefix(prefix->second));
  }
  const auto separator = config.properties.find("namespace-separator");
  if (separator != config.properties.end() && !separator->second.empty()) {
    config.separator = IsUnreservedOrEncoded(separator->second)
                           ? separator->second
                           : net::PercentEncode(separator->second);
    config.plain_separator = PercentDecode(config.separator);
  }
  config.idempotency = Member(json, "idempotency-key-lifetime").is_string();
  const Json endpoints = Member(json, "endpoints");
  if (!endpoints.is_null()) {
    LITHIFY_TRY_ASSIGN(auto list, Strings(endpoints, "endpoints"));
    if (!list.empty()) {
      config.endpoints.emplace(std::make_move_iterator(list.begin()),
                               std::make_move_iterator(list.end()));
    }
  }
  return config;
}

std::string EncodeSegment(std::string_view text) {
  if (text == ".") return "%2E";
  if (text == "..") return "%2E%2E";
  return net::PercentEncode(text);
}

Result<std::string> EncodeNamespace(const Config& config, const std::vector<std::string>& parts) {
  if (parts.empty()) return Fail(Code::kInvalid, "a namespace has at least one part");
  std::string out;
  for (const std::string& part : parts) {
    if (part.empty()) return Fail(Code::kInvalid, "a namespace part is empty");
    if (part.find(config.plain_separator) != std::string::npos ||
        part.find('\x1f') != std::string::npos) {
      return Fail(Code::kInvalid, "a namespace part has the catalog's separator in it",
                  OneLine(part));
    }
    if (!out.empty()) out += config.separator;
    out += parts.size() == 1 ? EncodeSegment(part) : net::PercentEncode(part);
  }
  return out;
}

Result<NamespacePage> ParseNamespaces(std::string_view body) {
  LITHIFY_TRY_ASSIGN(const Json json, ParseObject(body));
  NamespacePage page;
  LITHIFY_TRY_ASSIGN(page.next_token, NextToken(json));
  const Json list = Member(json, "namespaces");
  if (list.is_null()) return page;
  if (!list.is_array()) return Broken("namespaces is not an array");
  for (size_t i = 0; i < list.size(); ++i) {
    LITHIFY_TRY_ASSIGN(auto parts, Strings(list[i], "namespaces[" + std::to_string(i) + "]"));
    page.namespaces.push_back(std::move(parts));
  }
  return page;
}

Result<TablePage> ParseTables(std::string_view body) {
  LITHIFY_TRY_ASSIGN(const Json json, ParseObject(body));
  TablePage page;
  LITHIFY_TRY_ASSIGN(page.next_token, NextToken(json));
  const Json list = Member(json, "identifiers");
  if (list.is_null()) return page;
  if (!list.is_array()) return Broken("identifiers is not an array");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = "identifiers[" + std::to_string(i) + "]";
    if (!list[i].is_object()) return Broken(name + " is not an object");
    TableIdent ident;
    LITHIFY_TRY_ASSIGN(ident.namespace_parts,
                       Strings(Member(list[i], "namespace"), name + ".namespace"));
    const Json table = Member(list[i], "name");
    if (!table.is_string() || table.get_ref<const std::string&>().empty()) {
      return Broken(name + ".name is not a name");
    }
    ident.name = table.get<std::string>();
    page.tables.push_back(std::move(ident));
  }
  return page;
}

Result<std::map<std::string, std::string_view>> SplitObject(std::string_view text) {
  std::map<std::string, std::string_view> members;
  size_t at = SkipBlank(text, 0);
  if (at >= text.size() || text[at] != '{') return Broken("not a JSON object");
  at = SkipBlank(text, at + 1);
  bool more = at < text.size() && text[at] != '}';
  while (more) {
    const size_t key_end =
        at < text.size() && text[at] == '"' ? SkipString(text, at) : std::string_view::npos;
    if (key_end == std::string_view::npos) return Broken("a member has no name");
    const Json key = Json::parse(text.substr(at, key_end - at), nullptr, false);
    if (!key.is_string()) return Broken("a member's name is not a string");
    at = SkipBlank(text, key_end);
    if (at >= text.size() || text[at] != ':') return Broken("a member has no value");
    at = SkipBlank(text, at + 1);
    const size_t end = SkipValue(text, at);
    if (end == std::string_view::npos || end == at) return Broken("a member's value has no end");
    if (!members.emplace(key.get<std::string>(), text.substr(at, end - at)).second) {
      return Broken("member '" + OneLine(key.get<std::string>()) + "' is there twice");
    }
    at = SkipBlank(text, end);
    if (at >= text.size()) return Broken("the object has no end");
    more = text[at] == ',';
    if (more) at = SkipBlank(text, at + 1);
  }
  if (at >= text.size() || text[at] != '}') return Broken("the object has no end");
  if (SkipBlank(text, at + 1) != text.size()) return Broken("something follows the object");
  return members;
}

namespace {

Result<Json> ParseMember(const std::map<std::string, std::string_view>& members,
                         const std::string& name) {
  const auto at = members.find(name);
  if (at == members.end()) return Json();
  Json value = Json::parse(at->second, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return Broken(name + " is not JSON");
  return value;
}

Result<std::vector<StorageCredential>> ParseCredentials(const Json& list) {
  std::vector<StorageCredential> out;
  if (list.is_null()) return out;
  if (!list.is_array()) return Broken("storage-credentials is not an array");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = "storage-credentials[" + std::to_string(i) + "]";
    if (!list[i].is_object() || !Member(list[i], "prefix").is_string()) {
      return Broken(name + " has no prefix");
    }
    StorageCredential credential;
    credential.prefix = Member(list[i], "prefix").get<std::string>();
    LITHIFY_TRY_ASSIGN(credential.config,
                       StringMap(Member(list[i], "config"), (name + ".config").c_str()));
    out.push_back(std::move(credential));
  }
  return out;
}

// ReadRestrictions: a client that can't follow them must not read; one that rewrites would write
// the filtered or masked rows back as the whole table.
Status CheckRestrictions(const Json& restrictions) {
  if (restrictions.is_null() || (restrictions.is_object() && restrictions.empty())) return {};
  bool none = restrictions.is_object();
  if (none) {
    for (const auto& [key, value] : restrictions.items()) {
      const bool always = value.is_null() || value == true ||
                          (value.is_object() && Member(value, "type") == "true");
      none = none && (key == "required-row-filter" ? always : value.is_null());
    }
  }
  if (none) return {};
  return Fail(Code::kUnsupported,
              "the catalog lets this principal read only some rows or columns of the table "
              "(read-restrictions); rewriting it would lose the others",
              {}, "use a principal that may read the whole table");
}

}  // namespace

Result<LoadedTable> ParseTable(std::string_view body, const TableIdent& ident,
                               const Config& config) {
  LITHIFY_TRY_ASSIGN(const auto members, SplitObject(body));
  LITHIFY_TRY_ASSIGN(const Json restrictions, ParseMember(members, "read-restrictions"));
  LITHIFY_TRY(CheckRestrictions(restrictions));
  LoadedTable table;
  table.ident = ident;
  LITHIFY_TRY_ASSIGN(const Json location, ParseMember(members, "metadata-location"));
  if (!location.is_string() || location.get_ref<const std::string&>().empty()) {
    return Broken("metadata-location is missing");
  }
  table.metadata_location = location.get<std::string>();
  const auto metadata = members.find("metadata");
  if (metadata == members.end()) return Broken("metadata is missing");
  table.metadata_text = std::string(metadata->second);
  LITHIFY_TRY_ASSIGN(table.metadata,
                     table::ParseTableMetadata(table.metadata_text, table.metadata_location));
  LITHIFY_TRY_ASSIGN(const Json own_json, ParseMember(members, "config"));
  LITHIFY_TRY_ASSIGN(const auto own, StringMap(own_json, "config"));
  table.config = config.properties;
  for (const auto& [key, value] : own) table.config[key] = value;
  std::erase_if(table.config, [](const auto& item) { return IsToken(item.first); });
  LITHIFY_TRY_ASSIGN(const Json credentials, ParseMember(members, "storage-credentials"));
  LITHIFY_TRY_ASSIGN(table.credentials, ParseCredentials(credentials));
  return table;
}

Error ErrorOf(const net::HttpResponse& response, Call call) {
  const std::optional<Words> words = ServerWords(response);
  const Code code = call == Call::kCommit ? CommitCode(response.status, words.value_or(Words{}))
                                          : ReadCode(response.status);
  std::string message = "status " + std::to_string(response.status);
  if (words) {
    message += ": " + words->type;
    if (!words->type.empty() && !words->message.empty()) message += ": ";
    message += words->message;
  } else {
    message += ", without the catalog's words (" + std::to_string(response.body.size()) +
               " bytes of " + OneLine(response.Header("content-type").value_or("no type")) + ")";
  }
  Error error{code, std::move(message), {}, {}};
  error.hint = HintFor(response, call, code, words.has_value());
  return error;
}

}  // namespace lithify::catalog::rest
