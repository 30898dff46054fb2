#include "net/token_endpoint.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

namespace lithify::net {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxAnswerBytes = 256 * 1024;
constexpr size_t kMaxWords = 500;  // Of a server's own words in an error.

std::string Words(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return {};
  std::string text = at->get<std::string>().substr(0, kMaxWords);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// expires_in: seconds, which some servers write as a string.
Result<std::optional<Duration>> Lifetime(const Json& answer, const std::string& where) {
  const auto at = answer.find("expires_in");
  if (at == answer.end() || at->is_null()) return std::nullopt;
  double seconds = -1;
  if (at->is_number()) {
    seconds = at->get<double>();
  } else if (at->is_string()) {
    const auto& text = at->get_ref<const std::string&>();
    const bool digits = !text.empty() && text.size() < 12 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (digits) seconds = std::stod(text);
  }
  if (!(seconds >= 0) || seconds > 1e10) {
    return Fail(Code::kCorrupt, "expires_in is not a number of seconds", where);
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

Result<IssuedToken> ParseToken(const std::string& body, const std::string& where) {
  const Json answer = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return Fail(Code::kCorrupt, "the answer is not a JSON object", where);
  const auto token = answer.find("access_token");
  if (token == answer.end() || !token->is_string() ||
      !IsHeaderSafe(token->get_ref<const std::string&>())) {
    return Fail(Code::kCorrupt, "the answer has no usable access_token", where);
  }
  std::string type = Words(answer, "token_type");
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!type.empty() && type != "bearer") {
    return Fail(Code::kUnsupported, "token_type is '" + type + "', not bearer", where);
  }
  IssuedToken issued;
  issued.token = Secret(token->get_ref<const std::string&>());
  LITHIFY_TRY_ASSIGN(issued.lifetime, Lifetime(answer, where));
  return issued;
}

// An answer other than 200 as an error [RFC 6749, 5.2].
std::unexpected<Error> Refusal(const HttpResponse& response, const TokenRequest& request,
                               const std::string& where) {
  const Json body = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  std::string words;
  if (body.is_object()) {
    words = Words(body, "error");
    const std::string more = Words(body, "error_description");
    if (!more.empty()) words += (words.empty() ? "" : ": ") + more;
  }
  words = request.client_secret.HideIn(std::move(words));
  for (const Secret& secret : request.hide) words = secret.HideIn(std::move(words));
  std::string message = "status " + std::to_string(response.status);
  if (!words.empty()) message += ": " + words;
  const int status = response.status;
  if (status == 429 || status == 408 || status >= 500) {
    return Fail(Code::kTransient, std::move(message), where);
  }
  if (status == 400 || status == 401 || status == 403) {
    return Fail(Code::kDenied, request.who + " gets no token: " + message, where,
                request.hint_when_denied);
  }
  return Fail(Code::kInvalid, std::move(message), where, "check the token endpoint's URL");
}

void ShowClient(TokenRequest& request, HttpRequest& http) {
  if (request.authentication == TokenRequest::Authentication::kBasic) {
    // Both parts are form-encoded before they are joined [RFC 6749, 2.3.1].
    std::string pair =
        PercentEncode(request.client_id) + ":" + PercentEncode(request.client_secret.Reveal());
    std::string basic = "Basic " + EncodeBase64(pair);
    http.authorization = Secret(basic);
    Wipe(pair);
    Wipe(basic);
    return;
  }
  request.fields.emplace_back("client_id", request.client_id);
  if (request.authentication == TokenRequest::Authentication::kForm) {
    request.fields.emplace_back("client_secret", request.client_secret.Reveal());
  }
  if (request.authentication == TokenRequest::Authentication::kAssertion) {
    request.fields.emplace_back("client_assertion_type",
                                "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    request.fields.emplace_back("client_assertion", request.client_secret.Reveal());
  }
}

}  // namespace

bool IsHeaderSafe(std::string_view token) {
  return !token.empty() && std::all_of(token.begin(), token.end(),
                                       [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

Result<IssuedToken> AskTokenEndpoint(HttpClient& http, TokenRequest request) {
  const std::string where = "token endpoint " + UrlForMessages(request.endpoint);
  HttpRequest sent;
  sent.method = HttpMethod::kPost;
  sent.url = request.endpoint;
  sent.headers = {{"Accept", "application/json"},
                  {"Content-Type", "application/x-www-form-urlencoded"}};
  ShowClient(request, sent);
  sent.body = EncodeForm(request.fields);
  for (auto& [name, value] : request.fields) Wipe(value);
  Result<HttpResponse> response =
      http.Send(sent, HttpLimits(request.timeout, request.timeout, kMaxAnswerBytes));
  Wipe(sent.body);
  if (!response) {
    Error error = std::move(response.error());
    // A token that was issued and got lost does no harm: ask again.
    if (error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
    return Fail(std::move(error).In("token endpoint"));
  }
  if (response->status != 200) return Refusal(*response, request, where);
  Result<IssuedToken> issued = ParseToken(response->body, where);
  Wipe(response->body);
  return issued;
}

}  // namespace lithify::net
