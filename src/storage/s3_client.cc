#include "storage/s3_client.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "storage/amazon_endpoint.h"
#include "storage/s3_call.h"
#include "storage/xml.h"

namespace lithify::storage {
namespace {

using net::HttpMethod;
using net::HttpRequest;
using net::HttpResponse;
using s3::CodeIn;
using s3::DecodeForm;
using s3::Harmless;
using s3::kFirstWait;
using s3::NoAnswer;
using s3::NumberOf;

constexpr int64_t kSlowestBytesPerSecond = 256 * kKiB;
// Stores take 15 minutes; what is signed with a wrong time is refused or soon will be.
constexpr Duration kLongestWait = std::chrono::seconds(20);
constexpr std::string_view kWriteIdHeader = "x-amz-meta-lithify-write";

// Keys as they stand in the path of a URL.
std::string EncodePath(std::string_view key) {
  std::string out;
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    out += '/' + net::PercentEncode(key.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

bool IsWorthATry(int status) {
  constexpr std::array kPassing = {408, 429, 500, 502, 503, 504};
  return std::ranges::find(kPassing, status) != kPassing.end();
}

// Nothing was asked of the store: no code may say anything of an object, or of what became of a
// write. A file of a token that is not there is no object that is not there.
Error OfCredentials(Error error) {
  switch (error.code) {
    case Code::kUnknownOutcome: error.code = Code::kTransient; break;
    case Code::kNotFound:
    case Code::kConflict:
    case Code::kCorrupt:
    case Code::kLimit:
    case Code::kUnsupported: error.code = Code::kDenied; break;
    default: break;
  }
  return error;
}

// The loser of conditional writes at once is not told what the object is by then, but to try again.
bool IsOfARace(const HttpResponse& response) {
  return response.status == 409 && CodeIn(response) == "ConditionalRequestConflict";
}

// Whatever the last try met, an earlier one may have been carried out.
Error InDoubt(Error error) {
  if (error.code == Code::kCancelled) error.message = "given up, but may have been done";
  error.code = Code::kUnknownOutcome;
  return error;
}

// What came is not what was sent.
bool IsOfDamage(std::string_view code) {
  return code == "BadDigest" || code == "XAmzContentSHA256Mismatch";
}

}  // namespace

S3Client::S3Client(S3Options options, net::HttpClient& http, S3Credentials& credentials,
                   const Clock& clock, std::function<void(Duration)> sleep, Random& random)
    : options_(std::move(options)),
      http_(http),
      credentials_(credentials),
      clock_(clock),
      sleep_(std::move(sleep)),
      random_(random) {
  const std::string endpoint =
      options_.endpoint.empty() ? AmazonEndpoint("s3", options_.region) : options_.endpoint;
  const size_t host = endpoint.find("://") + 3;
  scheme_ = endpoint.substr(0, host);
  host_ = endpoint.substr(host, endpoint.find('/', host) - host);
  if (options_.path_style) {
    path_prefix_ = "/" + options_.bucket;
  } else {
    host_ = options_.bucket + "." + host_;
  }
}

S3Client::~S3Client() = default;

std::string S3Client::Name(const std::string& key) const {
  return "s3://" + options_.bucket + "/" + key;
}

std::string S3Client::NewWriteId() { return MakeUuidV7(clock_, random_); }

// ------------------------------------------------------------------------------------- sending

Error S3Client::ErrorOf(const HttpResponse& response, const std::string& where) const {
  const std::string code = CodeIn(response);
  const std::string said =
      "the store answers " + std::to_string(response.status) + (code.empty() ? "" : " " + code);
  switch (response.status) {
    case 404:
      if (code == "NoSuchBucket") return {Code::kInvalid, said, where, "check the bucket's name"};
      return {Code::kNotFound, "no such object", where, ""};
    case 401:
    case 403: return {Code::kDenied, said, where, "check the credentials and what they may do"};
    case 409:
    case 412: return {Code::kConflict, "another version is there", where, ""};
    case 301:
    case 307:
      return {Code::kInvalid, said, where, "the bucket is in another region: set the region"};
    default: break;
  }
  if (IsWorthATry(response.status)) return {Code::kTransient, said, where, ""};
  return {Code::kInvalid, said, where, ""};
}

Result<HttpResponse> S3Client::SendOnce(HttpRequest& request, const net::SigV4Request& to_sign,
                                        const net::HttpLimits& limits, Refusal& refusal) {
  auto got = credentials_.Get();
  if (!got) return Fail(OfCredentials(std::move(got.error())));
  const net::AwsCredentials& credentials = *got;
  const Time signed_at = Now();
  net::SigV4Signed made = net::SignV4(to_sign, credentials, {options_.region}, signed_at);
  request.headers = std::move(made.headers);
  request.authorization = std::move(made.authorization);
  const S3Pace::Turn turn(pace_);
  LITHIFY_TRY_ASSIGN(HttpResponse response, http_.Send(request, limits));
  const auto date = net::ParseHttpDate(response.Header("date").value_or(""));
  if (date) skew_ = (*date - clock_.Now()).count();
  if (response.status == 429 || response.status == 503) {
    pace_.Throttled(clock_.Monotonic());
  } else {
    pace_.Answered(clock_.Monotonic());
  }
  if (response.status == 400 || response.status == 401 || response.status == 403) {
    const std::string code = CodeIn(response);
    // Of credentials that ran out, and of those that the store does not know any more.
    constexpr std::array<std::string_view, 4> kOfCredentials = {
        "ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId"};
    if (std::ranges::find(kOfCredentials, code) != kOfCredentials.end()) {
      refusal.credentials = credentials_.Invalidate(credentials).has_value();
    }
    // Told by the times, not by the code: the answer to a HEAD has none.
    if (date && std::chrono::abs(*date - signed_at) > kClockSkewMax) {
      ahead_ = (*date - clock_.Now()).count();
      refusal.time = true;
    }
  }
  return response;
}

// The first answer that another try would not change.
Result<S3Client::Answer> S3Client::Send(Call call) {
  const std::string where = Name(call.key);
  net::SigV4Request to_sign;
  to_sign.method = call.method;
  to_sign.host = host_;
  to_sign.path = path_prefix_ + (call.key.empty() ? "/" : EncodePath(call.key));
  to_sign.query = std::move(call.query);
  to_sign.headers = std::move(call.headers);
  const std::string digest = net::Sha256(call.body);
  to_sign.payload_sha256 = net::Hex(digest);
  std::string checksum;
  if (call.checksum) {
    checksum = net::EncodeBase64(digest);
    to_sign.headers.emplace_back("x-amz-checksum-sha256", checksum);
  }
  HttpRequest request;
  request.method = call.method;
  request.url = scheme_ + host_ + to_sign.path;
  if (!to_sign.query.empty()) request.url += "?" + net::QueryString(to_sign.query);
  request.body = std::move(call.body);
  request.stored_form = true;
  // A write with a condition carries its number, and is in doubt then; all else may be repeated.
  request.may_repeat = true;
  request.publishes = call.conditional;
  request.into = call.into;
  const auto bytes = static_cast<int64_t>(request.body.size()) + call.bytes;
  const net::HttpLimits limits(
      options_.connect_timeout,
      options_.request_timeout + std::chrono::seconds(bytes / kSlowestBytesPerSecond),
      call.answer_bytes_max);
  bool in_doubt = false;  // Some try may have been carried out.
  Refusal mended;
  Duration wait = kFirstWait;
  for (int attempt = 1;; ++attempt) {
    if (call.given_up != nullptr && *call.given_up) {
      return Fail(Code::kCancelled, "given up", where);
    }
    Refusal refusal;
    Duration at_least = Duration::zero();
    auto answer = SendOnce(request, to_sign, limits, refusal);
    Error error;
    if (answer) {
      in_doubt = in_doubt || answer->repeated;
      if ((refusal.credentials && !mended.credentials) || (refusal.time && !mended.time)) {
        mended.credentials = mended.credentials || refusal.credentials;
        mended.time = mended.time || refusal.time;
        continue;
      }
      const bool damaged = answer->status == 400 && IsOfDamage(CodeIn(*answer));
      const bool raced = attempt < options_.attempts && IsOfARace(*answer);
      if (!damaged && !raced && !IsWorthATry(answer->status)) {
        return Answer{std::move(*answer), in_doubt, std::move(checksum)};
      }
      error = ErrorOf(*answer, where);
      in_doubt = in_doubt || (!damaged && !raced && answer->status != 429);
      if (const auto after = answer->Header("retry-after")) {
        at_least = net::ParseRetryAfter(*after, Now()).value_or(Duration::zero());
      }
    } else {
      error = std::move(answer.error());
      if (error.code != Code::kTransient && error.code != Code::kUnknownOutcome) {
        if (in_doubt && call.conditional) error = InDoubt(std::move(error));
        return Fail(std::move(error).In(where));
      }
      in_doubt = in_doubt || error.code == Code::kUnknownOutcome;
    }
    if (attempt >= options_.attempts) {
      error.code = in_doubt ? Code::kUnknownOutcome : Code::kTransient;
      return Fail(std::move(error).In(where));
    }
    BackOff(wait, at_least);
  }
}

void S3Client::BackOff(Duration& wait, Duration at_least) {
  // Spread over half of the wait, so that many clients do not come back together.
  const auto half = static_cast<uint64_t>(wait.count() / 2);
  const Duration spread(static_cast<int64_t>(half + random_.Next() % (half + 1)));
  sleep_(std::clamp(std::max(spread, at_least), Duration::zero(), kLongestWait));
  wait = std::min(wait * 2, kLongestWait);
}

namespace {

S3Head HeadOf(const HttpResponse& response) {
  S3Head head;
  head.etag = response.Header("etag").value_or("");
  head.write_id = response.Header(kWriteIdHeader).value_or("");
  head.size = NumberOf(response.Header("content-length").value_or("")).value_or(-1);
  if (const auto modified = response.Header("last-modified")) {
    head.modified = net::ParseHttpDate(*modified).value_or(Time{});
  }
  return head;
}

template <typename Call>
void AddCondition(const S3Condition& condition, Call& call) {
  call.conditional = !condition.any();
  if (condition.absent) call.headers.emplace_back("if-none-match", "*");
  if (!condition.etag.empty()) call.headers.emplace_back("if-match", condition.etag);
}

}  // namespace

// ------------------------------------------------------------------------------------- objects

Result<S3Head> S3Client::Head(const std::string& key) {
  auto answer = Send(Call{.method = HttpMethod::kHead, .key = key});
  if (answer && (answer->response.status == 400 || answer->response.status == 403) &&
      answer->response.body.empty()) {
    // Nothing says why. A read is told, and mends what can be mended; then this one may go through.
    LITHIFY_TRY(GetRange(key, 0, 1, {}, {}));
    answer = Send(Call{.method = HttpMethod::kHead, .key = key});
  }
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status != 200) return Fail(ErrorOf(answer->response, Name(key)));
  S3Head head = HeadOf(answer->response);
  if (head.size < 0) return NoAnswer("does not tell the object's size", Name(key));
  return head;
}

namespace {

// What a 206 says that it brings, held against what was asked for and what came.
Result<S3Head> HeadOfRange(const HttpResponse& response, int64_t offset, int64_t length,
                           int64_t came, const std::string& where) {
  // "bytes 0-9/100".
  const std::string range = response.Header("content-range").value_or("");
  const size_t slash = std::min(range.find('/'), range.size() - 1);
  const auto size = NumberOf(range.empty() ? "" : std::string_view(range).substr(slash + 1));
  const std::string from = "bytes " + std::to_string(offset) + "-";
  if (!size || !range.starts_with(from) || came != std::min(length, *size - offset)) {
    return NoAnswer("is another part than was asked for", where);
  }
  S3Head head = HeadOf(response);
  head.size = *size;
  return head;
}

// The whole object, from a store that knows no ranges, or of an object that is no larger.
std::string_view PartOf(std::string_view whole, int64_t offset, int64_t length) {
  if (std::cmp_greater_equal(offset, whole.size())) return {};
  return whole.substr(static_cast<size_t>(offset), static_cast<size_t>(length));
}

}  // namespace

// Less than was asked for may be damage on the way: it is asked for again.
Result<S3Client::Answer> S3Client::GetRange(const std::string& key, int64_t offset, int64_t length,
                                            const std::string& etag, std::span<std::byte> into) {
  Call call{.method = HttpMethod::kGet, .key = key};
  call.headers.emplace_back(
      "range", "bytes=" + std::to_string(offset) + "-" + std::to_string(offset + length - 1));
  if (!etag.empty()) call.headers.emplace_back("if-match", etag);
  call.answer_bytes_max = length + kMiB;
  call.bytes = length;
  call.into = into;
  Duration wait = kFirstWait;
  for (int attempt = 1;; ++attempt) {
    auto answer = Send(call);
    if (!answer) return Fail(Harmless(std::move(answer.error())));
    const HttpResponse& response = answer->response;
    const int status = response.status;
    if (status != 200 && status != 206 && status != 416) {
      return Fail(ErrorOf(response, Name(key)));
    }
    const int64_t came = into.empty() ? std::ssize(response.body) : response.placed;
    if (status != 206 || HeadOfRange(response, offset, length, came, Name(key)) ||
        attempt >= options_.attempts) {
      return answer;
    }
    BackOff(wait, Duration::zero());
  }
}

Result<S3Client::Body> S3Client::Get(const std::string& key, int64_t offset, int64_t length,
                                     const std::string& etag) {
  if (length <= 0) return Body{};
  LITHIFY_TRY_ASSIGN(Answer answer, GetRange(key, offset, length, etag, {}));
  HttpResponse& response = answer.response;
  // Behind the end.
  if (response.status == 416) return Body{};
  Body body;
  if (response.status == 200) {
    body.head = HeadOf(response);
    body.head.size = std::ssize(response.body);
    body.bytes = PartOf(response.body, offset, length);
    return body;
  }
  LITHIFY_TRY_ASSIGN(body.head,
                     HeadOfRange(response, offset, length, std::ssize(response.body), Name(key)));
  body.bytes = std::move(response.body);
  return body;
}

Result<S3Head> S3Client::Read(const std::string& key, int64_t offset, std::span<std::byte> out,
                              const std::string& etag) {
  LITHIFY_TRY_ASSIGN(const Answer answer, GetRange(key, offset, std::ssize(out), etag, out));
  const HttpResponse& response = answer.response;
  if (response.status == 416) {
    // "bytes */100": none of them were asked for.
    const std::string range = response.Header("content-range").value_or("");
    const auto size = range.starts_with("bytes */") ? NumberOf(range.substr(8)) : std::nullopt;
    if (!size || *size > offset) return NoAnswer("is that the object ends before", Name(key));
    S3Head head = HeadOf(response);
    head.size = *size;
    return head;
  }
  if (response.status == 206) {
    return HeadOfRange(response, offset, std::ssize(out), response.placed, Name(key));
  }
  S3Head head = HeadOf(response);
  head.size = std::ssize(response.body);
  std::ranges::copy(std::as_bytes(std::span(PartOf(response.body, offset, std::ssize(out)))),
                    out.begin());
  return head;
}

// A write whose condition did not hold: it may have been carried out all the same, and be what is
// in its way. Either a try before this one was (`in_doubt`), or something between here and the
// store repeats requests by itself. If it is not there after a try of ours: another write may have
// been made on top of it, and nothing is known.
Result<S3Head> S3Client::SettleWrite(const std::string& key, const std::string& write_id,
                                     Error refused, bool in_doubt) {
  auto head = Head(key);
  if (head && head->write_id == write_id) return head;
  // Nobody answers: not that there is another one's.
  const bool unanswered =
      !head && (head.error().code == Code::kTransient || head.error().code == Code::kCancelled);
  if (!unanswered && !in_doubt) return Fail(std::move(refused));
  if (!head && head.error().code == Code::kNotFound && refused.code == Code::kNotFound) {
    return Fail(std::move(refused));
  }
  refused.code = Code::kUnknownOutcome;
  refused.message =
      unanswered ? "a write met another version, and nobody tells whether that is its own: " +
                       head.error().message
                 : "a repeated write met another version: the first try may have been carried out";
  return Fail(std::move(refused));
}

Result<std::string> S3Client::Put(const std::string& key, std::string bytes,
                                  const S3Condition& condition) {
  Call call{.method = HttpMethod::kPut, .key = key, .body = std::move(bytes), .checksum = true};
  AddCondition(condition, call);
  const std::string write_id = NewWriteId();
  call.headers.emplace_back(kWriteIdHeader, write_id);
  auto answer = Send(std::move(call));
  if (!answer) {
    return Fail(condition.any() ? Harmless(std::move(answer.error())) : std::move(answer.error()));
  }
  if (answer->response.status == 200) return answer->response.Header("etag").value_or("");
  Error refused = ErrorOf(answer->response, Name(key));
  if (condition.any()) return Fail(std::move(refused));
  if (refused.code != Code::kConflict) {
    return Fail(answer->in_doubt ? InDoubt(std::move(refused)) : std::move(refused));
  }
  LITHIFY_TRY_ASSIGN(S3Head head, SettleWrite(key, write_id, std::move(refused), answer->in_doubt));
  return std::move(head.etag);
}

Status S3Client::Delete(const std::string& key) {
  auto answer = Send(Call{.method = HttpMethod::kDelete, .key = key});
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status == 204 || answer->response.status == 200 ||
      answer->response.status == 404)
    return {};
  return Fail(ErrorOf(answer->response, Name(key)));
}

// ------------------------------------------------------------------------------------- listing

namespace {

// As a condition names it. Some stores leave the quotes out of listings; a weak one fits nothing.
std::string ListedETag(std::string_view text) {
  if (text.empty() || text.starts_with("W/")) return {};
  return text.starts_with('"') ? std::string(text) : '"' + std::string(text) + '"';
}

}  // namespace

Result<S3ListPage> S3Client::List(const std::string& prefix, const std::string& delimiter,
                                  const std::string& token) {
  Call call{.method = HttpMethod::kGet, .key = ""};
  call.query = {{"list-type", "2"}, {"prefix", prefix}, {"encoding-type", "url"}};
  if (!delimiter.empty()) call.query.emplace_back("delimiter", delimiter);
  if (!token.empty()) call.query.emplace_back("continuation-token", token);
  auto answer = Send(std::move(call));
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status != 200) return Fail(ErrorOf(answer->response, Name(prefix)));
  LITHIFY_TRY_ASSIGN(const XmlElement root, ParseXml(answer->response.body));
  if (root.name != "ListBucketResult") return NoAnswer("is no listing", Name(prefix));
  const bool encoded = root.Text("EncodingType") == "url";
  const auto decode = [&](std::string_view text) {
    return encoded ? DecodeForm(text) : std::string(text);
  };
  S3ListPage page;
  for (const XmlElement& element : root.children) {
    if (element.name == "CommonPrefixes") {
      page.prefixes.push_back(decode(element.Text("Prefix")));
    } else if (element.name == "Contents") {
      ObjectInfo& info = page.objects.emplace_back();
      info.key = decode(element.Text("Key"));
      const auto size = NumberOf(element.Text("Size"));
      const auto modified = ParseTime(element.Text("LastModified"));
      if (!size || !modified || info.key.empty()) {
        return NoAnswer("lists an object without its size or time", Name(info.key));
      }
      info.size = *size;
      info.version = ListedETag(element.Text("ETag"));
      // A HEAD tells it in whole seconds; both are to be compared.
      info.modified = std::chrono::floor<std::chrono::seconds>(*modified);
    }
  }
  page.next = root.Text("NextContinuationToken");
  if (root.Text("IsTruncated") == "true" && page.next.empty()) {
    return NoAnswer("is cut off without telling how to go on", Name(prefix));
  }
  if (root.Text("IsTruncated") != "true") page.next.clear();
  return page;
}

// ------------------------------------------------------------------------------------- uploads

Result<std::string> S3Client::CreateUpload(const std::string& key, const std::string& write_id) {
  Call call{.method = HttpMethod::kPost, .key = key};
  call.query = {{"uploads", ""}};
  call.headers.emplace_back(kWriteIdHeader, write_id);
  call.headers.emplace_back("x-amz-checksum-algorithm", "SHA256");
  auto answer = Send(std::move(call));
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status != 200) return Fail(ErrorOf(answer->response, Name(key)));
  LITHIFY_TRY_ASSIGN(const XmlElement root, ParseXml(answer->response.body));
  std::string id(root.Text("UploadId"));
  if (id.empty()) return NoAnswer("names no upload", Name(key));
  return id;
}

Result<S3Part> S3Client::UploadPart(const std::string& key, const std::string& upload_id,
                                    int number, std::string bytes,
                                    const std::atomic<bool>* given_up) {
  Call call{.method = HttpMethod::kPut, .key = key, .body = std::move(bytes), .checksum = true};
  call.query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_id}};
  call.given_up = given_up;
  auto answer = Send(std::move(call));
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status != 200) return Fail(ErrorOf(answer->response, Name(key)));
  std::string etag = answer->response.Header("etag").value_or("");
  if (etag.empty()) return NoAnswer("names no ETag of the part", Name(key));
  return S3Part{std::move(etag), std::move(answer->checksum)};
}

Status S3Client::CompleteUpload(const std::string& key, const std::string& upload_id,
                                const std::vector<S3Part>& parts, const std::string& write_id,
                                const S3Condition& condition) {
  Call call{.method = HttpMethod::kPost, .key = key};
  call.query = {{"uploadId", upload_id}};
  AddCondition(condition, call);
  call.body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < parts.size(); ++i) {
    call.body += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
                 XmlEscape(parts[i].etag) + "</ETag><ChecksumSHA256>" + XmlEscape(parts[i].sha256) +
                 "</ChecksumSHA256></Part>";
  }
  call.body += "</CompleteMultipartUpload>";
  auto answer = Send(std::move(call));
  if (!answer) return Fail(std::move(answer.error()));
  Error refused;
  if (answer->response.status == 200) {
    // An error may come after the status has been sent.
    const std::string code = CodeIn(answer->response);
    if (code.empty()) return {};
    refused = {Code::kConflict, "the store answers " + code, Name(key), ""};
    LITHIFY_TRY(SettleWrite(key, write_id, std::move(refused), true));
    return {};
  }
  refused = ErrorOf(answer->response, Name(key));
  const bool gone = refused.code == Code::kConflict || refused.code == Code::kNotFound;
  if (!gone) return Fail(answer->in_doubt ? InDoubt(std::move(refused)) : std::move(refused));
  LITHIFY_TRY(SettleWrite(key, write_id, std::move(refused), answer->in_doubt));
  return {};
}

Status S3Client::AbortUpload(const std::string& key, const std::string& upload_id) {
  Call call{.method = HttpMethod::kDelete, .key = key};
  call.query = {{"uploadId", upload_id}};
  auto answer = Send(std::move(call));
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status == 204 || answer->response.status == 200 ||
      answer->response.status == 404)
    return {};
  return Fail(ErrorOf(answer->response, Name(key)));
}

Result<S3UploadPage> S3Client::ListUploads(const std::string& prefix, const S3UploadPage& after) {
  Call call{.method = HttpMethod::kGet, .key = ""};
  call.query = {{"uploads", ""}, {"prefix", prefix}, {"encoding-type", "url"}};
  if (after.more) {
    call.query.emplace_back("key-marker", after.next_key);
    call.query.emplace_back("upload-id-marker", after.next_upload_id);
  }
  auto answer = Send(std::move(call));
  if (!answer) return Fail(Harmless(std::move(answer.error())));
  if (answer->response.status != 200) return Fail(ErrorOf(answer->response, Name(prefix)));
  LITHIFY_TRY_ASSIGN(const XmlElement root, ParseXml(answer->response.body));
  const bool encoded = root.Text("EncodingType") == "url";
  const auto decode = [&](std::string_view text) {
    return encoded ? DecodeForm(text) : std::string(text);
  };
  S3UploadPage page;
  for (const XmlElement& element : root.children) {
    if (element.name != "Upload") continue;
    const auto initiated = ParseTime(element.Text("Initiated"));
    if (!initiated) return NoAnswer("lists an upload without its time", Name(prefix));
    page.uploads.push_back(
        {decode(element.Text("Key")), std::string(element.Text("UploadId")), *initiated});
  }
  page.more = root.Text("IsTruncated") == "true";
  page.next_key = decode(root.Text("NextKeyMarker"));
  page.next_upload_id = root.Text("NextUploadIdMarker");
  const bool again = page.next_key == after.next_key && page.next_upload_id == after.next_upload_id;
  if (page.more && (page.next_key.empty() || (after.more && again))) {
    return NoAnswer("is cut off without telling how to go on", Name(prefix));
  }
  return page;
}

}  // namespace lithify::storage
