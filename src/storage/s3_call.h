// What the sources of S3Client share; nobody else's business.
#ifndef LITHIFY_STORAGE_S3_CALL_H_
#define LITHIFY_STORAGE_S3_CALL_H_

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "storage/locations.h"
#include "storage/s3_client.h"
#include "storage/xml.h"

namespace lithify::storage {
namespace s3 {

inline constexpr int64_t kAnswerBytesMax = 16 * kMiB;
inline constexpr Duration kFirstWait = std::chrono::milliseconds(100);

// Keys as listings have them: a space may be a plus.
inline std::string DecodeForm(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace(spaced, '+', ' ');
  return PercentDecode(spaced);
}

inline std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// The code that stands in an answer's body; empty: none.
inline std::string CodeIn(const net::HttpResponse& response) {
  if (response.body.empty()) return {};
  const auto parsed = ParseXml(response.body);
  return parsed && parsed->name == "Error" ? std::string(parsed->Text("Code")) : std::string();
}

inline std::unexpected<Error> NoAnswer(const std::string& what, const std::string& where) {
  return Fail(Code::kCorrupt, "the store's answer " + what, where,
              "check that the endpoint is an S3 store and no proxy or web page");
}

// An error of what may be repeated at will: that nothing is known of it, is no matter.
inline Error Harmless(Error error) {
  if (error.code == Code::kUnknownOutcome) error.code = Code::kTransient;
  return error;
}

}  // namespace s3

struct S3Client::Call {
  net::HttpMethod method = net::HttpMethod::kGet;
  std::string key;  // Empty: the bucket itself.
  std::vector<std::pair<std::string, std::string>> query = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  bool conditional = false;  // Once it may have been carried out, no failure is a known one.
  bool checksum = false;     // The store shall hold the body against its SHA-256, and keep it.
  int64_t answer_bytes_max = s3::kAnswerBytesMax;
  // How long it may take besides what every request may.
  int64_t bytes = 0;
  std::span<std::byte> into = {};               // As in net::HttpRequest.
  const std::atomic<bool>* given_up = nullptr;  // True: no other try.
};

// Why it was refused, if that can be mended: each of them once.
struct S3Client::Refusal {
  bool credentials = false;  // There are others now.
  bool time = false;         // Another one is signed with from now on.
  bool any() const { return credentials || time; }
};

struct S3Client::Answer {
  net::HttpResponse response;
  bool in_doubt = false;      // An earlier try may have been carried out.
  std::string checksum = {};  // That of the body, in base64, where one was sent.
};

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_CALL_H_
