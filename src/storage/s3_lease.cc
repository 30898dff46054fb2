#include "storage/s3_lease.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "storage/xml.h"

namespace lithify::storage {
namespace {

using net::AwsCredentials;
using nlohmann::json;

constexpr Duration kRenewBefore = std::chrono::minutes(5);
constexpr Duration kRetryAfter = std::chrono::seconds(30);

class Renewed final : public S3Credentials {
 public:
  Renewed(std::function<Result<LeasedCredentials>()> fetch, const Clock& clock)
      : fetch_(std::move(fetch)), clock_(clock) {}

  Result<AwsCredentials> Get() override {
    std::unique_lock lock(mutex_);
    while (!IsUsable()) {
      if (!in_flight_) return Fetch(lock);
      const uint64_t before = flights_;
      landed_.wait(lock, [&] { return flights_ != before; });
      // One failure answers all that waited for it.
      if (error_) return Fail(*error_);
    }
    return held_->credentials;
  }

  Status Invalidate(const AwsCredentials& refused) override {
    std::lock_guard lock(mutex_);
    if (held_ && held_->credentials == refused) held_.reset();
    return {};
  }

 private:
  bool IsValid() const { return held_ && (!held_->expires || *held_->expires > clock_.Now()); }

  bool IsUsable() const {
    if (!held_) return false;
    const Time now = clock_.Now();
    if (!held_->expires || *held_->expires - now > kRenewBefore) return true;
    // One try now and then: who has some that are valid goes on with them. What came as run out has
    // the store's word, not that of our clock.
    return now < next_try_ || (in_flight_ && *held_->expires > now);
  }

  // Shorter where less is left of what is held.
  Duration PauseOfTries() const {
    if (!held_ || !held_->expires) return kRetryAfter;
    const Duration left = *held_->expires - clock_.Now();
    return left > Duration::zero() ? std::min(kRetryAfter, left / 2) : kRetryAfter;
  }

  Result<AwsCredentials> Fetch(std::unique_lock<std::mutex>& lock) {
    in_flight_ = true;
    lock.unlock();
    Result<LeasedCredentials> fetched = Fail(Code::kLimit, "out of memory");
    try {
      fetched = fetch_();
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it says so.
    }
    lock.lock();
    in_flight_ = false;
    ++flights_;
    landed_.notify_all();
    error_.reset();
    if (fetched) held_ = std::move(*fetched);
    next_try_ = clock_.Now() + PauseOfTries();
    if (!fetched && !IsValid()) {
      held_.reset();
      error_ = std::move(fetched.error());
      return Fail(*error_);
    }
    return held_->credentials;
  }

  const std::function<Result<LeasedCredentials>()> fetch_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable landed_;
  bool in_flight_ = false;
  uint64_t flights_ = 0;        // That have landed.
  std::optional<Error> error_;  // Of the last flight, if nothing was valid then.
  std::optional<LeasedCredentials> held_;
  Time next_try_{};
};

bool IsCredential(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

// Words of a server in our messages: an error's code, and nothing that could be a secret.
std::string CodeFor(std::string_view code) {
  const bool good = code.size() <= 64 && std::ranges::all_of(code, [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
                    });
  return good && !code.empty() ? " " + std::string(code) : std::string();
}

// STS answers in XML, with the error in an <ErrorResponse>; others in JSON.
std::string CodeOf(const std::string& body) {
  if (body.starts_with('<')) {
    const auto root = ParseXml(body);
    const XmlElement* error = root ? root->Find("Error") : nullptr;
    if (error == nullptr) return {};
    return CodeFor(error->Text("Code"));
  }
  const json parsed = json::parse(body, nullptr, false);
  for (const char* key : {"code", "Code", "__type"}) {
    if (parsed.is_object() && parsed.contains(key) && parsed[key].is_string()) {
      return CodeFor(parsed[key].get_ref<const std::string&>());
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<S3Credentials> MakeRenewedCredentials(
    std::function<Result<LeasedCredentials>()> fetch, const Clock& clock) {
  return std::make_unique<Renewed>(std::move(fetch), clock);
}

std::string TrimmedText(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpace) + 1 - first));
}

Result<Time> ParseExpiration(std::string_view text) {
  const auto none = [] { return Fail(Code::kCorrupt, "the time of expiration is no time"); };
  std::string zulu(text);
  if (zulu.ends_with("UTC")) zulu.replace(zulu.size() - 3, 3, "Z");
  Duration offset{};
  // "+01:00" or "+0100" behind the time of day; a date has such a dash, too.
  const size_t day = zulu.find('T');
  const size_t sign = day == std::string::npos ? day : zulu.find_first_of("+-", day);
  if (sign != std::string::npos) {
    std::string digits = zulu.substr(sign + 1);
    if (digits.size() == 5 && digits[2] == ':') digits.erase(2, 1);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789") != std::string::npos) {
      return none();
    }
    const int hhmm = std::stoi(digits);
    offset = std::chrono::hours(hhmm / 100) + std::chrono::minutes(hhmm % 100);
    if (zulu[sign] == '-') offset = -offset;
    zulu.replace(sign, std::string::npos, "Z");
  }
  const auto time = ParseTime(zulu);
  if (!time) return none();
  return *time - offset;
}

Result<LeasedCredentials> LeaseOf(LentWords words, const std::string& where) {
  const auto lacks = [&](const char* what) {
    return Fail(Code::kCorrupt, std::string("the answer has no ") + what, where);
  };
  if (words.access_key_id.empty()) return lacks("access key id");
  if (words.secret_access_key.empty()) return lacks("secret access key");
  if (!IsCredential(words.access_key_id) || !IsCredential(words.secret_access_key) ||
      !IsCredential(words.session_token)) {
    return Fail(Code::kCorrupt, "the credentials have characters that no credential has", where);
  }
  LeasedCredentials leased{
      {words.access_key_id, Secret(words.secret_access_key), Secret(words.session_token)},
      std::nullopt};
  if (!words.expires.empty()) {
    auto expires = ParseExpiration(words.expires);
    if (!expires) return Fail(std::move(expires.error()).In(where));
    leased.expires = *expires;
  }
  Wipe(words.secret_access_key);
  Wipe(words.session_token);
  return leased;
}

Result<LeasedCredentials> LeaseOfJson(std::string_view text, const char* token_key,
                                      const std::string& where) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return Fail(Code::kCorrupt, "the answer is no JSON object", where);
  const auto word = [&](const char* key) {
    return parsed.contains(key) && parsed[key].is_string() ? parsed[key].get<std::string>()
                                                           : std::string();
  };
  // An instance's service answers 200 and says here what went wrong.
  if (const std::string code = word("Code"); !code.empty() && code != "Success") {
    return Fail(Code::kDenied, "it answers with an error" + CodeFor(code), where);
  }
  return LeaseOf(
      {word("AccessKeyId"), word("SecretAccessKey"), word(token_key), word("Expiration")}, where);
}

Error RefusalOf(const net::HttpResponse& response, const std::string& where) {
  const bool passing = response.status >= 500 || response.status == 429 || response.status == 408;
  return {passing ? Code::kTransient : Code::kDenied,
          "it answers " + std::to_string(response.status) + CodeOf(response.body), where, ""};
}

Result<net::HttpResponse> AskForCredentials(net::HttpClient& http, net::HttpRequest request,
                                            const net::HttpLimits& limits) {
  const std::string where = net::UrlForMessages(request.url);
  auto response = http.Send(request, limits);
  Wipe(request.body);
  if (!response) {
    Error error = std::move(response.error());
    // What was made and got lost does no harm.
    if (error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
    return Fail(std::move(error));
  }
  if (response->status == 200) return response;
  return Fail(RefusalOf(*response, where));
}

}  // namespace lithify::storage
