// Credentials that somebody lends for a while, and what all who do have in common.
#ifndef LITHIFY_STORAGE_S3_LEASE_H_
#define LITHIFY_STORAGE_S3_LEASE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"
#include "net/sigv4.h"
#include "storage/s3_client.h"

namespace lithify::storage {

// What a source gave, and until when.
struct LeasedCredentials {
  net::AwsCredentials credentials;
  std::optional<Time> expires;
};

// Credentials that somebody else hands out and renews: a catalog's vended ones (I34). `fetch` is
// asked when there are none yet, five minutes before they run out, and after they were refused; by
// one thread at a time, while others go on with the old ones as long as these are valid. A renewal
// that fails goes unnoticed while they are. `clock` outlives it.
std::unique_ptr<S3Credentials> MakeRenewedCredentials(
    std::function<Result<LeasedCredentials>()> fetch, const Clock& clock);

// As they stand in an answer.
struct LentWords {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // Empty: none.
  std::string expires;        // Empty: never.
};
// kCorrupt, without a word of them, for credentials that are none. `where` names the answer.
Result<LeasedCredentials> LeaseOf(LentWords words, const std::string& where);

// A time as such answers write it: like ParseTime(), also with an offset, or "UTC" for "Z".
Result<Time> ParseExpiration(std::string_view text);

// The JSON object that containers, instances and programs give. kCorrupt if it is none, or lacks a
// key; `token_key` is what they call the session token.
Result<LeasedCredentials> LeaseOfJson(std::string_view text, const char* token_key,
                                      const std::string& where);

// A request for credentials, which may be repeated: kTransient where no answer came or the service
// is out of order, kDenied, with the error's code and no more of the answer, for another status
// than 200. kCancelled passes.
Result<net::HttpResponse> AskForCredentials(net::HttpClient& http, net::HttpRequest request,
                                            const net::HttpLimits& limits);
// What it makes of an answer that is not a 200.
Error RefusalOf(const net::HttpResponse& response, const std::string& where);

std::string TrimmedText(std::string_view text);

}  // namespace lithify::storage

#endif  // LITHIFY_STORAGE_S3_LEASE_H_
