#include "net/http.h"

#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstring>
#include <mutex>

namespace lithify::net {
namespace {

constexpr size_t kMaxHeaderBytes = 256 * 1024;
constexpr size_t kMaxIdleHandles = 64;
constexpr int kStopPollMs = 100;
constexpr int kPollMs = 1000;

std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' ||
                           text.back() == '\n')) {
    text.remove_suffix(1);
  }
  return text;
}

// What a header's name may consist of [RFC 9110, 5.6.2].
bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// A line break in a value would add headers of somebody else's choice.
bool IsHeaderValue(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; });
}

// Owns the list that curl reads during one exchange, with the secrets in it.
class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() {
    for (curl_slist* at = list_; at != nullptr; at = at->next) {
      for (volatile char* c = at->data; *c != 0; ++c) *c = 0;
    }
    curl_slist_free_all(list_);
  }
  bool Add(std::string line) {
    curl_slist* longer = curl_slist_append(list_, line.c_str());
    Wipe(line);
    if (longer == nullptr) return false;
    list_ = longer;
    return true;
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// What the callbacks fill.
struct Exchange {
  HttpResponse response;
  std::span<std::byte> into;
  int sends = 0;  // How often the request was about to go out over a connection.
  size_t header_bytes = 0;
  int64_t max_body = 0;
  bool partial = false;  // The answer is a 206.
  bool too_large = false;
  bool headers_too_large = false;
};

int OnSend(void* user, char*, char*, int, int) {
  ++static_cast<Exchange*>(user)->sends;
  return CURL_PREREQFUNC_OK;
}

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, size * count);
  exchange.header_bytes += line.size();
  if (exchange.header_bytes > kMaxHeaderBytes) {
    exchange.headers_too_large = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) {  // A new answer: what came before was an interim one.
    exchange.response.headers.clear();
    const size_t space = std::min(line.find(' '), line.size());
    exchange.partial = line.substr(space).starts_with(" 206");
    return line.size();
  }
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    exchange.response.headers.emplace_back(LowerCase(Trim(line.substr(0, colon))),
                                           std::string(Trim(line.substr(colon + 1))));
  }
  return line.size();
}

// Room for the whole body at once, where the answer tells how much it is.
void Reserve(Exchange& exchange) {
  const auto length = exchange.response.Header("content-length");
  int64_t bytes = 0;
  if (!length) return;
  std::from_chars(length->data(), length->data() + length->size(), bytes);
  if (bytes > 0 && bytes <= exchange.max_body) {
    exchange.response.body.reserve(static_cast<size_t>(bytes));
  }
}

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  HttpResponse& response = exchange.response;
  const size_t bytes = size * count;
  if (exchange.partial && !exchange.into.empty()) {
    const auto at = static_cast<size_t>(response.placed);
    exchange.too_large = bytes > exchange.into.size() - at;
    if (exchange.too_large) return 0;
    std::memcpy(exchange.into.data() + at, data, bytes);
    response.placed += static_cast<int64_t>(bytes);
    return bytes;
  }
  const auto room = static_cast<size_t>(exchange.max_body) -
                    std::min(response.body.size(), static_cast<size_t>(exchange.max_body));
  exchange.too_large = bytes > room;
  if (exchange.too_large) return 0;
  try {
    if (response.body.empty()) Reserve(exchange);
    response.body.append(data, bytes);
  } catch (const std::bad_alloc&) {
    exchange.too_large = true;
    return 0;
  }
  return bytes;
}

Status CheckRequest(const HttpRequest& request, const HttpLimits& limits) {
  LITHIFY_TRY_ASSIGN(const std::string origin, UrlOrigin(request.url));
  if (limits.connect_timeout <= Duration::zero() || limits.total_timeout <= Duration::zero() ||
      limits.max_response_bytes <= 0) {
    return Fail(Code::kInvalid, "a request needs time-outs and a size limit above zero", origin);
  }
  const bool takes_body = request.method != HttpMethod::kGet && request.method != HttpMethod::kHead;
  if (!takes_body && !request.body.empty()) {
    return Fail(Code::kInvalid, "GET and HEAD have no body", origin);
  }
  for (const auto& [name, value] : request.headers) {
    if (!IsToken(name)) return Fail(Code::kInvalid, "a header's name is not a token", origin);
    if (!IsHeaderValue(value)) {
      return Fail(Code::kInvalid, "header " + name + " has a control character in it", origin);
    }
  }
  if (!IsHeaderValue(request.authorization.Reveal())) {
    return Fail(Code::kInvalid, "the credential has a control character in it", origin);
  }
  return {};
}

long Milliseconds(Duration d) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(d).count();
  return static_cast<long>(std::clamp<int64_t>(ms, 1, 0x7fffffff));
}

bool IsCertificateProblem(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_ISSUER_ERROR ||
         code == CURLE_SSL_INVALIDCERTSTATUS || code == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
}

bool IsLocalProblem(CURLcode code) {
  return code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
         code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_CERTPROBLEM ||
         code == CURLE_BAD_FUNCTION_ARGUMENT || code == CURLE_NOT_BUILT_IN ||
         code == CURLE_SSL_CIPHER;
}

// What the requests of a client know of a stop. Thread-safe.
class Stop {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  explicit Stop(const HttpOptions& options)
      : asked_(options.stop),
        grace_(options.stop_grace),
        publish_grace_(options.publish_stop_grace) {}

  bool possible() const { return static_cast<bool>(asked_); }
  // Whether none is begun any more.
  bool Refuses() { return IsOn() && gave_up_; }
  // Whether one that began then is given up now.
  bool GivesUp(Moment began, bool publishes) {
    if (!IsOn()) return false;
    const Moment since{std::chrono::steady_clock::duration(since_.load())};
    const Moment until = std::max(since + (publishes ? publish_grace_ : grace_), began + grace_);
    if (std::chrono::steady_clock::now() < until) return false;
    gave_up_ = true;
    return true;
  }

 private:
  bool IsOn() {
    if (!asked_ || !asked_()) {
      since_ = 0;
      gave_up_ = false;
      return false;
    }
    int64_t never = 0;
    since_.compare_exchange_strong(never,
                                   std::chrono::steady_clock::now().time_since_epoch().count());
    return true;
  }

  const std::function<bool()> asked_;
  const Duration grace_;
  const Duration publish_grace_;
  std::atomic<int64_t> since_{0};  // Of the steady clock; 0: no stop.
  std::atomic<bool> gave_up_{false};
};

// A transfer and what drives it, with its kept connections.
struct Handle {
  CURL* easy = nullptr;
  CURLM* multi = nullptr;
};

void Free(const Handle& handle) {
  curl_easy_cleanup(handle.easy);
  curl_multi_cleanup(handle.multi);
}

class CurlHttpClient final : public HttpClient {
 public:
  explicit CurlHttpClient(HttpOptions options) : options_(std::move(options)), stop_(options_) {}
  ~CurlHttpClient() override {
    for (const Handle& handle : idle_) Free(handle);
  }

  Result<HttpResponse> Send(const HttpRequest& request, const HttpLimits& limits) override;

 private:
  std::optional<Handle> Take();
  void GiveBack(const Handle& handle);
  Result<HttpResponse> Perform(const Handle& handle, const HttpRequest& request,
                               const HttpLimits& limits);
  bool SetUp(CURL* handle, const HttpRequest& request, const HttpLimits& limits) const;
  // Until it is done; nullopt: it was given up.
  std::optional<CURLcode> Drive(const Handle& handle, bool publishes);

  const HttpOptions options_;
  Stop stop_;
  std::mutex mutex_;
  std::vector<Handle> idle_;  // Each keeps its connections; the last used is taken first.
};

std::optional<Handle> CurlHttpClient::Take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const Handle handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  const Handle handle{curl_easy_init(), curl_multi_init()};
  if (handle.easy != nullptr && handle.multi != nullptr) return handle;
  Free(handle);
  return std::nullopt;
}

void CurlHttpClient::GiveBack(const Handle& handle) {
  curl_easy_reset(handle.easy);  // Options only: connections stay.
  std::lock_guard lock(mutex_);
  if (idle_.size() < kMaxIdleHandles) {
    idle_.push_back(handle);
  } else {
    Free(handle);
  }
}

std::optional<CURLcode> CurlHttpClient::Drive(const Handle& handle, bool publishes) {
  const Stop::Moment began = std::chrono::steady_clock::now();
  if (curl_multi_add_handle(handle.multi, handle.easy) != CURLM_OK) return CURLE_FAILED_INIT;
  std::optional<CURLcode> code = CURLE_FAILED_INIT;
  int running = 1;
  while (curl_multi_perform(handle.multi, &running) == CURLM_OK && running > 0) {
    if (stop_.GivesUp(began, publishes)) {
      code.reset();
      break;
    }
    const int wait = stop_.possible() ? kStopPollMs : kPollMs;
    if (curl_multi_poll(handle.multi, nullptr, 0, wait, nullptr) != CURLM_OK) break;
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(handle.multi, &left)) {
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  }
  // One that is not done loses its connection.
  curl_multi_remove_handle(handle.multi, handle.easy);
  return code;
}

bool SetMethod(CURL* handle, const HttpRequest& request) {
  bool ok = true;
  switch (request.method) {
    case HttpMethod::kGet: ok = curl_easy_setopt(handle, CURLOPT_HTTPGET, 1L) == CURLE_OK; break;
    case HttpMethod::kHead: ok = curl_easy_setopt(handle, CURLOPT_NOBODY, 1L) == CURLE_OK; break;
    default:
      ok =
          curl_easy_setopt(handle, CURLOPT_POST, 1L) == CURLE_OK &&
          curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST,
                           std::string(MethodName(request.method)).c_str()) == CURLE_OK &&
          curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                           static_cast<curl_off_t>(request.body.size())) == CURLE_OK &&
          curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data()) == CURLE_OK &&
          // curl repeats a request by itself when a kept connection turns out to be dead. The
          // first one may have been carried out: a new connection is never retried.
          curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, request.may_repeat ? 0L : 1L) == CURLE_OK;
  }
  return ok;
}

bool CurlHttpClient::SetUp(CURL* handle, const HttpRequest& request,
                           const HttpLimits& limits) const {
  bool ok = true;
  const auto set = [&](CURLoption option, auto value) {
    ok = ok && curl_easy_setopt(handle, option, value) == CURLE_OK;
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "lithify/" LITHIFY_VERSION);
  if (!request.stored_form) set(CURLOPT_ACCEPT_ENCODING, "gzip");
  set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(limits.connect_timeout));
  set(CURLOPT_TIMEOUT_MS, Milliseconds(limits.total_timeout));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  // Who stops does not wait for a name that is being looked up.
  if (stop_.possible()) set(CURLOPT_QUICK_EXIT, 1L);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!options_.ca_file.empty()) {
    set(CURLOPT_CAINFO, options_.ca_file.c_str());
    set(CURLOPT_PROXY_CAINFO, options_.ca_file.c_str());
  }
  if (request.direct) {
    set(CURLOPT_PROXY, "");
  } else if (options_.proxy) {
    set(CURLOPT_PROXY, options_.proxy->c_str());
  }
  return ok && SetMethod(handle, request);
}

bool AddHeaders(const HttpRequest& request, HeaderList* list) {
  bool typed = false;
  for (const auto& [name, value] : request.headers) {
    typed = typed || LowerCase(name) == "content-type";
    // "Name;" is curl's way to send a header without a value.
    if (!list->Add(value.empty() ? name + ";" : name + ": " + value)) return false;
  }
  if (!typed && !list->Add("Content-Type:")) return false;  // None that nobody asked for.
  if (!list->Add("Expect:")) return false;                  // No waiting for "100 Continue".
  return request.authorization.empty() ||
         list->Add("Authorization: " + request.authorization.Reveal());
}

Result<HttpResponse> CurlHttpClient::Perform(const Handle& whole, const HttpRequest& request,
                                             const HttpLimits& limits) {
  CURL* const handle = whole.easy;
  const std::string where =
      std::string(MethodName(request.method)) + " " + UrlForMessages(request.url);
  HeaderList headers;
  Exchange exchange;
  exchange.max_body = limits.max_response_bytes;
  exchange.into = request.into;
  char detail[CURL_ERROR_SIZE] = "";
  const bool ok = SetUp(handle, request, limits) && AddHeaders(request, &headers) &&
                  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get()) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, detail) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, OnSend) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_PREREQDATA, &exchange) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, OnHeader) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_HEADERDATA, &exchange) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, OnBody) == CURLE_OK &&
                  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &exchange) == CURLE_OK;
  if (!ok) return Fail(Code::kInternal, "libcurl refused an option", where);

  const std::optional<CURLcode> driven = Drive(whole, request.publishes);
  const CURLcode code = driven.value_or(CURLE_ABORTED_BY_CALLBACK);
  long sent = 0;  // Bytes of the request that the connection took.
  curl_easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &sent);
  if (code == CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    exchange.response.status = static_cast<int>(status);
    exchange.response.repeated = exchange.sends > 1;
    return std::move(exchange.response);
  }
  std::string why = detail[0] != 0 ? detail : curl_easy_strerror(code);
  if (!driven) why = "stopped on request";
  // Bytes may have gone to a proxy, to ask it for a tunnel, without the request itself.
  if (exchange.sends == 0 || (exchange.sends == 1 && sent == 0)) {
    if (IsCertificateProblem(code)) {
      return Fail(Code::kDenied, "the server's certificate is not trusted: " + why, where,
                  "check the host name, or name the CA file that signed it");
    }
    if (IsLocalProblem(code)) return Fail(Code::kInvalid, std::move(why), where);
    return Fail(driven ? Code::kTransient : Code::kCancelled, "not sent: " + why, where);
  }
  const bool reads = request.method == HttpMethod::kGet || request.method == HttpMethod::kHead;
  if (!driven && reads) return Fail(Code::kCancelled, std::move(why), where);
  if (exchange.too_large) {
    const auto most = exchange.partial && !request.into.empty()
                          ? static_cast<int64_t>(request.into.size())
                          : limits.max_response_bytes;
    why = "the answer is larger than " + std::to_string(most) + " bytes";
    if (reads) return Fail(Code::kLimit, std::move(why), where);
  }
  if (exchange.headers_too_large) why = "the answer's header is too large";
  return Fail(Code::kUnknownOutcome, "sent, but no whole answer came: " + why, where);
}

Result<HttpResponse> CurlHttpClient::Send(const HttpRequest& request, const HttpLimits& limits) {
  LITHIFY_TRY(CheckRequest(request, limits));
  if (stop_.Refuses()) {
    return Fail(Code::kCancelled, "not sent: stopped on request", UrlForMessages(request.url));
  }
  const std::optional<Handle> handle = Take();
  if (!handle) return Fail(Code::kInternal, "libcurl gave no handle");
  Result<HttpResponse> response = Perform(*handle, request, limits);
  GiveBack(*handle);
  return response;
}

}  // namespace

std::string_view MethodName(HttpMethod method) {
  switch (method) {
    case HttpMethod::kGet: return "GET";
    case HttpMethod::kHead: return "HEAD";
    case HttpMethod::kPost: return "POST";
    case HttpMethod::kPut: return "PUT";
    case HttpMethod::kDelete: return "DELETE";
  }
  return "GET";
}

std::optional<std::string> HttpResponse::Header(std::string_view name) const {
  const std::string lower = LowerCase(name);
  for (const auto& [header, value] : headers) {
    if (header == lower) return value;
  }
  return std::nullopt;
}

Result<std::unique_ptr<HttpClient>> OpenHttpClient(HttpOptions options) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) {
    return Fail(Code::kInternal, std::string("libcurl: ") + curl_easy_strerror(global));
  }
  if (!options.ca_file.empty()) {
    std::FILE* file = std::fopen(options.ca_file.c_str(), "rb");
    if (file == nullptr) {
      return Fail(Code::kInvalid, "the CA file can't be read", options.ca_file);
    }
    std::fclose(file);
  }
  return std::make_unique<CurlHttpClient>(std::move(options));
}

std::string PercentEncode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string EncodeForm(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields) {
    if (!out.empty()) out += '&';
    out += PercentEncode(name);
    out += '=';
    out += PercentEncode(value);
  }
  return out;
}

std::string EncodeBase64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(length));
  return out;
}

std::string EncodeBase64Url(std::string_view bytes) {
  std::string out = EncodeBase64(bytes);
  for (char& c : out) c = c == '+' ? '-' : c == '/' ? '_' : c;
  while (out.ends_with('=')) out.pop_back();
  return out;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  const auto digits = text.substr(0, text.size() - padding);
  const bool plain = std::all_of(digits.begin(), digits.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '/';
  });
  if (text.size() % 4 != 0 || !plain) return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (length < 0) return std::nullopt;
  out.resize(static_cast<size_t>(length) - padding);
  return out;
}

std::string UrlForMessages(std::string_view url) {
  const size_t scheme = url.find("://");
  std::string out(url.substr(0, url.find_first_of("?#")));
  if (scheme == std::string_view::npos) return out;
  const size_t host = scheme + 3;
  const size_t at = out.substr(0, out.find('/', host)).rfind('@');
  if (at != std::string::npos && at >= host) out.erase(host, at + 1 - host);
  return out;
}

Result<std::string> UrlOrigin(std::string_view url) {
  const std::string shown = UrlForMessages(url);
  const bool plain =
      std::all_of(url.begin(), url.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  const std::string lower = LowerCase(url);
  const bool https = lower.starts_with("https://");
  if (!plain || url.find_first_of("#\\") != std::string_view::npos ||
      (!https && !lower.starts_with("http://"))) {
    return Fail(Code::kInvalid, "not an absolute http or https URL", shown);
  }
  const size_t host = https ? 8 : 7;
  std::string authority = lower.substr(host, lower.find_first_of("/?", host) - host);
  if (authority.find('@') != std::string::npos) {
    return Fail(Code::kInvalid, "a URL must not carry a user or password", shown);
  }
  const std::string_view port = https ? ":443" : ":80";
  if (authority.ends_with(port)) authority.resize(authority.size() - port.size());
  if (authority.empty() || authority.front() == ':') {
    return Fail(Code::kInvalid, "the URL names no host", shown);
  }
  return (https ? "https://" : "http://") + authority;
}

std::optional<Time> ParseHttpDate(std::string_view value) {
  const time_t date = curl_getdate(std::string(Trim(value)).c_str(), nullptr);
  if (date < 0) return std::nullopt;
  return Time{std::chrono::seconds(date)};
}

std::optional<Duration> ParseRetryAfter(std::string_view value, Time now) {
  value = Trim(value);
  if (value.empty()) return std::nullopt;
  if (value.find_first_not_of("0123456789") == std::string_view::npos) {
    // Ten digits are three centuries: whoever waits has a bound far below.
    if (value.size() > 9) return std::chrono::seconds(999'999'999);
    return std::chrono::seconds(std::stol(std::string(value)));
  }
  const auto at = ParseHttpDate(value);
  if (!at) return std::nullopt;
  return *at > now ? *at - now : Duration::zero();
}

bool MayBeCredential(std::string_view header_name) {
  std::string name(header_name);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view word :
       {"authorization", "cookie", "key", "token", "secret", "password", "credential", "auth"}) {
    if (name.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace lithify::net
