// Many objects deleted with one request (DeleteObjects).
#include <algorithm>
#include <array>
#include <map>

#include "net/sigv4.h"
#include "storage/s3_call.h"
#include "storage/s3_client.h"
#include "storage/xml.h"

namespace lithify::storage {
namespace {

using net::HttpMethod;

constexpr size_t kKeysPerRequest = 1000;

// Other control characters are in no XML document, however they are written.
bool FitsXml(std::string_view key) {
  return std::ranges::all_of(key, [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n' || c == '\r';
  });
}

// What the store says of one key; success: it is gone.
Status StatusOf(std::string_view code, std::string_view message, const std::string& where) {
  if (code == "NoSuchKey" || code == "NoSuchVersion") return {};
  const std::string said = "the store answers " + std::string(code.empty() ? message : code);
  constexpr std::array<std::string_view, 8> kPassing = {"",
                                                        "InternalError",
                                                        "SlowDown",
                                                        "ServiceUnavailable",
                                                        "RequestTimeout",
                                                        "OperationAborted",
                                                        "TooManyRequests",
                                                        "Throttling"};
  if (std::ranges::find(kPassing, code) != kPassing.end()) {
    return Fail(Code::kTransient, said, where);
  }
  if (code == "AccessDenied" || code == "AllAccessDisabled") {
    return Fail(Code::kDenied, said, where, "check what the credentials may do");
  }
  return Fail(Code::kInvalid, said, where);
}

}  // namespace

// Keys of one request, and what became of them.
struct S3Client::Batch {
  explicit Batch(std::vector<Status>& all) : statuses(all) {}

  std::vector<Status>& statuses;
  // Those that are still to be deleted, each with its places in `statuses`.
  std::map<std::string_view, std::vector<size_t>> pending;
  std::vector<std::pair<std::string_view, std::vector<size_t>>> alone;  // By a request each.

  void Settle(const std::vector<size_t>& places, const Status& status) {
    for (const size_t place : places) statuses[place] = status;
  }
  void SettlePending(const Status& status) {
    for (const auto& [key, places] : pending) Settle(places, status);
  }
  void LeaveAlone() {
    for (auto& [key, places] : pending) alone.emplace_back(key, std::move(places));
    pending.clear();
  }
};

// One request for all that is pending. What need not be tried again is pending no more.
void S3Client::DeletePending(Batch& batch) {
  Call call{.method = HttpMethod::kPost, .key = ""};
  call.query = {{"delete", ""}};
  // Not <Quiet>: what the answer does not name, nobody may count as deleted.
  call.body = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const auto& [key, places] : batch.pending) {
    call.body += "<Object><Key>" + XmlEscape(key) + "</Key></Object>";
  }
  call.body += "</Delete>";
  const auto md5 = net::ContentMd5(call.body);
  if (!md5) return batch.LeaveAlone();
  call.headers = {{"content-md5", *md5}, {"content-type", "application/xml"}};
  const auto all = [&batch](Error error) {
    batch.SettlePending(Fail(std::move(error)));
    batch.pending.clear();
  };
  auto answer = Send(std::move(call));
  if (!answer) return all(s3::Harmless(std::move(answer.error())));
  const net::HttpResponse& response = answer->response;
  if (response.status == 405 || response.status == 501) deletes_one_by_one_ = true;
  // 400: a key that it does not like, perhaps. One by one it will tell which.
  if (response.status == 400 || deletes_one_by_one_) return batch.LeaveAlone();
  if (response.status != 200) return all(ErrorOf(response, Name("")));
  const auto root = ParseXml(response.body);
  if (!root) return all(Error(root.error()).In(Name("")));
  if (root->name == "Error") {
    // After the status was sent: pending as they are.
    return batch.SettlePending(
        Fail(Code::kTransient, "the store answers " + std::string(root->Text("Code")), Name("")));
  }
  if (root->name != "DeleteResult") {
    return all(s3::NoAnswer("is no list of deleted objects", Name("")).error());
  }
  std::map<std::string_view, std::vector<size_t>> again;
  for (const XmlElement& element : root->children) {
    const bool failed = element.name == "Error";
    if (!failed && element.name != "Deleted") continue;
    const auto found = batch.pending.find(element.Text("Key"));
    if (found == batch.pending.end()) continue;
    Status status;
    if (failed) {
      status =
          StatusOf(element.Text("Code"), element.Text("Message"), Name(std::string(found->first)));
    }
    if (element.Text("Code") == "SlowDown") pace_.Throttled(clock_.Monotonic());
    batch.Settle(found->second, status);
    auto answered = batch.pending.extract(found);
    if (!status && status.error().code == Code::kTransient) again.insert(std::move(answered));
  }
  batch.LeaveAlone();
  batch.pending = std::move(again);
}

std::vector<Status> S3Client::DeleteMany(std::span<const std::string> keys) {
  std::vector<Status> statuses(keys.size());
  for (size_t at = 0; at < keys.size();) {
    Batch batch(statuses);
    for (; at < keys.size() && batch.pending.size() < kKeysPerRequest; ++at) {
      if (deletes_one_by_one_ || !FitsXml(keys[at])) {
        batch.alone.push_back({keys[at], {at}});
      } else {
        batch.pending[keys[at]].push_back(at);
      }
    }
    Duration wait = s3::kFirstWait;
    for (int attempt = 1; !batch.pending.empty() && attempt <= options_.attempts; ++attempt) {
      if (attempt > 1) BackOff(wait, Duration::zero());
      DeletePending(batch);
    }
    for (const auto& [key, places] : batch.alone) {
      batch.Settle(places, Delete(std::string(key)));
    }
  }
  return statuses;
}

}  // namespace lithify::storage
