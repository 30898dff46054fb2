#include "table/hive_claim.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace lithify::table {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> Text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    return Fail(Code::kCorrupt, std::string("a claim without a text \"") + name + "\"");
  }
  return found->get<std::string>();
}

Result<Time> TimeMember(const Json& object, const char* name) {
  LITHIFY_TRY_ASSIGN(const std::string text, Text(object, name));
  const auto time = ParseTime(text);
  if (time) return *time;
  return Fail(Code::kCorrupt, std::string("a claim whose \"") + name + "\" is no time");
}

}  // namespace

std::string SerializeClaim(const HiveClaim& claim) {
  Json out;
  out["holder"] = claim.holder;
  out["job_id"] = claim.job_id;
  out["claimed_at"] = FormatTime(claim.claimed_at);
  out["expires_at"] = FormatTime(claim.expires_at);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<HiveClaim> ParseClaim(std::string_view json) {
  if (std::cmp_greater(json.size(), kClaimBytesMax)) {
    return Fail(Code::kCorrupt, "too large for a claim");
  }
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) return Fail(Code::kCorrupt, "a claim that is no JSON object");
  HiveClaim claim;
  LITHIFY_TRY_ASSIGN(claim.holder, Text(object, "holder"));
  LITHIFY_TRY_ASSIGN(claim.job_id, Text(object, "job_id"));
  LITHIFY_TRY_ASSIGN(claim.claimed_at, TimeMember(object, "claimed_at"));
  LITHIFY_TRY_ASSIGN(claim.expires_at, TimeMember(object, "expires_at"));
  return claim;
}

bool IsLiveClaim(const HiveClaim& claim, Time now) {
  return claim.expires_at > now && claim.expires_at - now <= kClaimTtlMax;
}

}  // namespace lithify::table
