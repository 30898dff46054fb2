#include "net/jwt.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text.h"
#include "net/jws.h"

namespace lithify::net {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 16;
constexpr size_t kKeysMax = 100;
constexpr size_t kNameBytesMax = 512;  // Of a subject, a role, …: they go into logs.
constexpr size_t kKeyTextMax = 2732;   // A number of 16,384 bits.
constexpr size_t kRolesMax = 1000;
constexpr double kSecondsMax = 253'402'300'799;  // The year 9999.

std::unexpected<Error> Bad(std::string message, std::string hint = {}) {
  return Fail(Code::kDenied, std::move(message), "token", std::move(hint));
}

bool Contains(const Json& list, const std::string& text) {
  return list.is_array() &&
         std::any_of(list.begin(), list.end(), [&](const Json& item) { return item == text; });
}

// nullopt for everything but an object in which no name stands twice: of two readers one would take
// the first and the other the second.
std::optional<Json> ParseObject(std::string_view text) {
  std::vector<std::set<std::string>> names;
  bool sound = true;
  const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    sound = sound && depth <= kDepthMax;
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) {
      sound = names.back().insert(value.get<std::string>()).second && sound;
    }
    return true;
  };
  Json parsed = Json::parse(text, look, /*allow_exceptions=*/false);
  if (!sound || !parsed.is_object()) return std::nullopt;
  return parsed;
}

// The member's text; nullopt if it is there and something else.
std::optional<std::string> Text(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) return std::string();
  if (!at->is_string()) return std::nullopt;
  return at->get<std::string>();
}

bool IsPlain(std::string_view text) {
  return text.size() <= kNameBytesMax &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// --- keys ----------------------------------------------------------------------------------------

bool MayVerify(const Json& key) {
  const auto use = Text(key, "use");
  if (!use || (!use->empty() && *use != "sig")) return false;
  const auto operations = key.find("key_ops");
  if (operations == key.end()) return true;
  return Contains(*operations, "verify");
}

std::optional<JsonWebKey> ReadKey(const Json& key) {
  if (!key.is_object() || !MayVerify(key)) return std::nullopt;
  const auto id = Text(key, "kid");
  const auto type = Text(key, "kty");
  const auto curve = Text(key, "crv");
  const auto algorithm = Text(key, "alg");
  if (!id || !type || !curve || !algorithm || id->size() > kNameBytesMax) return std::nullopt;
  JsonWebKey out{.id = *id, .type = *type, .curve = "", .algorithm = *algorithm, .json = ""};
  const auto members = [&](std::initializer_list<const char*> names) {
    Json kept = {{"kty", *type}};
    for (const char* name : names) {
      const auto value = Text(key, name);
      if (!value || value->size() > kKeyTextMax || !IsBase64Url(*value)) return false;
      kept[name] = *value;
    }
    if (*type == "EC") kept["crv"] = *curve;
    out.json = kept.dump(-1, ' ', false, Json::error_handler_t::replace);
    return true;
  };
  if (*type == "RSA") return members({"n", "e"}) ? std::optional(out) : std::nullopt;
  out.curve = *curve;
  if (*type == "EC") return members({"x", "y"}) ? std::optional(out) : std::nullopt;
  if (*type != "OKP" || *curve != "Ed25519") return std::nullopt;
  out.json = Text(key, "x").value_or("");
  return IsBase64Url(out.json) ? std::optional(out) : std::nullopt;
}

bool Fits(const JsonWebKey& key, std::string_view algorithm) {
  const auto kind = KindFor(algorithm);
  return kind && key.type == kind->type && (kind->curve.empty() || key.curve == kind->curve) &&
         (key.algorithm.empty() || key.algorithm == algorithm);
}

// --- claims --------------------------------------------------------------------------------------

// The member at `path`; nullptr if there is none.
const Json* At(const Json& object, std::string_view path) {
  if (!object.is_object()) return nullptr;
  if (const auto whole = object.find(std::string(path)); whole != object.end()) return &*whole;
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    const auto part = object.find(std::string(path.substr(0, dot)));
    if (part == object.end()) continue;
    if (const Json* found = At(*part, path.substr(dot + 1))) return found;
  }
  return nullptr;
}

Result<std::string> TextClaim(const Json& claims, const std::string& path) {
  const Json* value = path.empty() ? nullptr : At(claims, path);
  if (value == nullptr || value->is_null()) return std::string();
  if (!value->is_string() || !IsPlain(value->get_ref<const std::string&>())) {
    return Bad("the claim \"" + path + "\" is not a plain text of at most " +
               std::to_string(kNameBytesMax) + " bytes");
  }
  return value->get<std::string>();
}

Result<std::vector<std::string>> ListClaim(const Json& claims, const std::string& path) {
  std::vector<std::string> out;
  const Json* value = path.empty() ? nullptr : At(claims, path);
  if (value == nullptr || value->is_null()) return out;
  const auto wrong = [&] {
    return Bad("the claim \"" + path + "\" is not a list of at most " + std::to_string(kRolesMax) +
               " plain texts");
  };
  if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(' ', at), text.size());
      if (end > at) out.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  } else if (value->is_array()) {
    for (const Json& item : *value) {
      if (!item.is_string()) return wrong();
      out.push_back(item.get<std::string>());
    }
  } else {
    return wrong();
  }
  if (out.size() > kRolesMax || !std::ranges::all_of(out, IsPlain)) return wrong();
  return out;
}

// Seconds since 1970, also with a fraction [RFC 7519, 2].
Result<std::optional<Time>> TimeClaim(const Json& claims, const char* name) {
  const auto at = claims.find(name);
  if (at == claims.end()) return std::nullopt;
  const double seconds = at->is_number() ? at->get<double>() : -1;
  if (!(seconds >= 0 && seconds <= kSecondsMax)) {
    return Bad(std::string("\"") + name + "\" is not a time");
  }
  return Time(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
}

bool HasAudience(const Json& claims, const std::string& audience) {
  const auto at = claims.find("aud");
  if (at == claims.end()) return false;
  if (at->is_string()) return *at == audience;
  return Contains(*at, audience);
}

Result<Time> CheckLife(const Json& claims, Duration leeway, Time now) {
  LITHIFY_TRY_ASSIGN(const auto expires, TimeClaim(claims, "exp"));
  LITHIFY_TRY_ASSIGN(const auto begins, TimeClaim(claims, "nbf"));
  LITHIFY_TRY_ASSIGN(const auto issued, TimeClaim(claims, "iat"));
  if (!expires) return Bad("it has no end (\"exp\")", "let the issuer give tokens that expire");
  if (now >= *expires + leeway) {
    return Bad("it expired at " + FormatTime(*expires), "get a new token");
  }
  if (begins && now + leeway < *begins) {
    return Bad("it is not valid before " + FormatTime(*begins), "compare the clocks");
  }
  if (issued && now + leeway < *issued) {
    return Bad("it was issued in the future, at " + FormatTime(*issued), "compare the clocks");
  }
  return *expires;
}

Result<JwtClaims> ReadClaims(const Json& claims, const JwtRules& rules, Time now) {
  JwtClaims out;
  LITHIFY_TRY_ASSIGN(out.issuer, TextClaim(claims, "iss"));
  if (!rules.issuer.empty() && out.issuer != rules.issuer) {
    return Bad("it is of another issuer than " + rules.issuer);
  }
  if (!rules.audience.empty() && !HasAudience(claims, rules.audience)) {
    return Bad("it is for another audience than " + rules.audience,
               "get a token whose \"aud\" has it");
  }
  LITHIFY_TRY_ASSIGN(out.expires_at, CheckLife(claims, rules.leeway, now));
  LITHIFY_TRY_ASSIGN(out.subject, TextClaim(claims, rules.subject_claim));
  if (out.subject.empty()) return Bad("it names nobody in \"" + rules.subject_claim + "\"");
  LITHIFY_TRY_ASSIGN(out.username, TextClaim(claims, rules.username_claim));
  LITHIFY_TRY_ASSIGN(out.email, TextClaim(claims, rules.email_claim));
  LITHIFY_TRY_ASSIGN(out.roles, ListClaim(claims, rules.roles_claim));
  LITHIFY_TRY_ASSIGN(out.groups, ListClaim(claims, rules.groups_claim));
  return out;
}

struct JwtHeader {
  std::string algorithm;
  std::string key_id;
};

Result<JwtHeader> ReadHeader(std::string_view part, const JwtRules& rules) {
  const auto text = DecodeBase64Url(part);
  const auto header = text ? ParseObject(*text) : std::nullopt;
  if (!header) return Bad("its header is damaged");
  // What must be understood, and nothing is [RFC 7515, 4.1.11].
  if (header->contains("crit")) return Bad("it has extensions that are not known (\"crit\")");
  auto type = Text(*header, "typ");
  if (type) {
    for (char& c : *type) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  // A token that was made for something else [RFC 8725, 3.11].
  static constexpr std::array<std::string_view, 5> kTypes = {"", "jwt", "at+jwt", "application/jwt",
                                                             "application/at+jwt"};
  if (!type || std::ranges::find(kTypes, *type) == kTypes.end()) {
    return Bad("its \"typ\" is not that of an access token");
  }
  const auto algorithm = Text(*header, "alg");
  const bool allowed = algorithm && KindFor(*algorithm) &&
                       std::ranges::find(rules.algorithms, *algorithm) != rules.algorithms.end();
  if (!allowed) return Bad("its algorithm (\"alg\") is not allowed");
  const auto id = Text(*header, "kid");
  if (!id || id->size() > kNameBytesMax) return Bad("its key id (\"kid\") is damaged");
  return JwtHeader{*algorithm, *id};
}

}  // namespace

Result<std::vector<JsonWebKey>> ParseJwks(std::string_view text) {
  const Json set = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!set.is_object() || !set.contains("keys") || !set["keys"].is_array()) {
    return Fail(Code::kCorrupt, "the answer is not a JWK set");
  }
  std::vector<JsonWebKey> keys;
  for (const Json& key : set["keys"]) {
    if (keys.size() == kKeysMax) break;
    if (auto read = ReadKey(key)) keys.push_back(std::move(*read));
  }
  return keys;
}

const std::vector<std::string>& JwtAlgorithms() {
  static const std::vector<std::string> all = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                               "PS512", "ES256", "ES384", "ES512", "EdDSA"};
  return all;
}

Result<JsonWebKey> ChooseKey(const std::vector<JsonWebKey>& keys, const std::string& id,
                             const std::string& algorithm) {
  const JsonWebKey* found = nullptr;
  bool several = false;
  for (const JsonWebKey& key : keys) {
    if ((!id.empty() && key.id != id) || !Fits(key, algorithm)) continue;
    several = several || found != nullptr;
    found = &key;
  }
  if (found == nullptr) return Bad("it is signed with a key that the issuer does not publish");
  if (several) return Bad("it does not name its key, of which the issuer has several");
  return *found;
}

Result<JwtClaims> VerifyJwt(std::string_view token, KeySource& keys, const JwtRules& rules,
                            Time now) {
  if (token.size() > kJwtBytesMax) {
    return Bad("it is longer than " + std::to_string(kJwtBytesMax) + " bytes");
  }
  const auto parts = SplitJws(token);
  if (!parts) return Bad("it is not a signed JWT");
  LITHIFY_TRY_ASSIGN(const JwtHeader header, ReadHeader((*parts)[0], rules));
  LITHIFY_TRY_ASSIGN(const JsonWebKey key, keys.Find(header.key_id, header.algorithm));
  Result<std::string> payload = VerifyJws(token, header.algorithm, key);
  if (!payload) return Fail(std::move(payload.error()).In("token"));
  const auto claims = ParseObject(*payload);
  if (!claims) return Bad("its claims are damaged");
  return ReadClaims(*claims, rules, now);
}

bool LooksLikeJwt(std::string_view token) {
  const auto parts = SplitJws(token);
  const auto header = parts ? DecodeBase64Url((*parts)[0]) : std::nullopt;
  const auto object = header ? ParseObject(*header) : std::nullopt;
  return object && object->contains("alg");
}

std::optional<Time> UnverifiedJwtExpiry(std::string_view token) {
  if (token.size() > kJwtBytesMax || !LooksLikeJwt(token)) return std::nullopt;
  const auto payload = DecodeBase64Url((*SplitJws(token))[1]);
  const auto claims = payload ? ParseObject(*payload) : std::nullopt;
  if (!claims) return std::nullopt;
  const auto expires = TimeClaim(*claims, "exp");
  return expires ? *expires : std::nullopt;
}

}  // namespace lithify::net
