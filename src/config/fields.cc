#include "config/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "table/hive_claim.h"

namespace lithify::config {
namespace {

using rewrite::Verify;
using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kTiB = 1024 * kGiB;

std::string Written(const Raw& raw) {
  struct Print {
    std::string operator()(int64_t n) const { return std::to_string(n); }
    std::string operator()(double n) const { return std::to_string(n); }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(const std::string& text) const { return "\"" + text + "\""; }
    std::string operator()(const std::vector<std::string>& items) const { return TomlList(items); }
  };
  return std::visit(Print{}, raw.value);
}

std::unexpected<Error> Wrong(const Raw& raw, std::string_view wanted) {
  return Fail(Code::kInvalid, Written(raw) + " is not allowed; it must be " + std::string(wanted));
}

std::string BytesText(int64_t bytes) {
  for (const auto& [unit, name] : {std::pair{kTiB, "TiB"}, std::pair{kGiB, "GiB"},
                                   std::pair{kMiB, "MiB"}, std::pair{kKiB, "KiB"}}) {
    if (bytes != 0 && bytes % unit == 0) return std::to_string(bytes / unit) + name;
  }
  return std::to_string(bytes);
}

std::string DurationText(Duration d) {
  const int64_t millis = std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  for (const auto& [unit, name] :
       {std::pair{int64_t{86'400'000}, "d"}, std::pair{int64_t{3'600'000}, "h"},
        std::pair{int64_t{60'000}, "min"}, std::pair{int64_t{1000}, "s"}}) {
    if (millis != 0 && millis % unit == 0) return std::to_string(millis / unit) + name;
  }
  return millis == 0 ? "0s" : std::to_string(millis) + "ms";
}

template <typename T>
std::optional<T> ParseWhole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The wrong kind gives nullopt; the caller says what it wants.
std::optional<int64_t> ReadInteger(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) return *n;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr || raw.typed) return std::nullopt;
  return ParseWhole<int64_t>(*text);
}

std::optional<double> ReadNumber(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) return static_cast<double>(*n);
  if (const auto* n = std::get_if<double>(&raw.value)) return *n;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr || raw.typed) return std::nullopt;
  return ParseWhole<double>(*text);
}

std::optional<bool> ReadBool(const Raw& raw) {
  if (const auto* b = std::get_if<bool>(&raw.value)) return *b;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr || raw.typed) return std::nullopt;
  if (*text == "true" || *text == "1" || *text == "yes") return true;
  if (*text == "false" || *text == "0" || *text == "no") return false;
  return std::nullopt;
}

std::optional<int64_t> ReadBytes(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) return *n;
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr) return std::nullopt;
  const auto parsed = ParseBytes(*text);
  return parsed ? std::optional(*parsed) : std::nullopt;
}

std::optional<Duration> ReadDuration(const Raw& raw) {
  if (const auto* n = std::get_if<int64_t>(&raw.value)) {
    constexpr int64_t kMax = std::chrono::duration_cast<seconds>(Duration::max()).count();
    if (*n < 0 || *n > kMax) return std::nullopt;
    return seconds(*n);
  }
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr) return std::nullopt;
  const auto parsed = ParseDuration(*text);
  return parsed ? std::optional(*parsed) : std::nullopt;
}

// `at` gives the member's address; called with a const config for dumps.
template <typename At>
Field CountField(std::string_view key, int64_t low, int64_t high, At at) {
  const std::string wanted = "a whole number from " + FormatCount(low) + " to " + FormatCount(high);
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            const auto n = ReadInteger(raw);
            if (!n || *n < low || *n > high) return Wrong(raw, wanted);
            using Target = std::remove_reference_t<decltype(at(c))>;
            at(c) = static_cast<Target>(*n);
            return {};
          },
          [=](const HiveConfig& c) { return std::to_string(at(c)); }};
}

template <typename At>
Field BytesField(std::string_view key, int64_t low, int64_t high, bool zero, At at) {
  const std::string wanted = "a size from " + BytesText(low) + " to " + BytesText(high) +
                             (zero ? ", or 0 for none" : "") + ", like 4096 or \"128MiB\"";
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            const auto n = ReadBytes(raw);
            if (!n || ((*n < low || *n > high) && !(zero && *n == 0))) return Wrong(raw, wanted);
            at(c) = *n;
            return {};
          },
          [=](const HiveConfig& c) {
            const std::string text = BytesText(at(c));
            return text.back() == 'B' ? TomlText(text) : text;
          }};
}

template <typename At>
Field DurationField(std::string_view key, Duration low, Duration high, bool zero, At at) {
  const std::string wanted = "a duration from " + DurationText(low) + " to " + DurationText(high) +
                             (zero ? ", or 0 for none" : "") + ", as seconds or like \"15min\"";
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            const auto d = ReadDuration(raw);
            const bool none = zero && d && *d == Duration::zero();
            if (!d || ((*d < low || *d > high) && !none)) return Wrong(raw, wanted);
            at(c) = *d;
            return {};
          },
          [=](const HiveConfig& c) { return TomlText(DurationText(at(c))); }};
}

template <typename At>
Field TextField(std::string_view key, At at) {
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            LITHIFY_TRY_ASSIGN(at(c), ReadText(raw));
            return {};
          },
          [=](const HiveConfig& c) { return TomlText(at(c)); }};
}

template <typename At>
Field ListField(std::string_view key, At at) {
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            LITHIFY_TRY_ASSIGN(at(c), ReadList(raw));
            return {};
          },
          [=](const HiveConfig& c) { return TomlList(at(c)); }};
}

template <typename At>
Field ChoiceField(std::string_view key, const std::vector<std::string_view>& choices, At at) {
  std::string wanted = "one of ";
  for (const std::string_view choice : choices) {
    wanted += (wanted.back() == ' ' ? "\"" : ", \"") + std::string(choice) + "\"";
  }
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            const auto* text = std::get_if<std::string>(&raw.value);
            if (text == nullptr || std::ranges::find(choices, *text) == choices.end()) {
              return Wrong(raw, wanted);
            }
            at(c) = *text;
            return {};
          },
          [=](const HiveConfig& c) { return TomlText(at(c)); }};
}

constexpr std::array kVerifyNames = {std::pair{Verify::kCounts, std::string_view("counts")},
                                     std::pair{Verify::kSample, std::string_view("sample")},
                                     std::pair{Verify::kFull, std::string_view("full")}};

Field VerifyField() {
  return {"compaction.verify",
          [](HiveConfig& c, const Raw& raw) -> Status {
            const auto* text = std::get_if<std::string>(&raw.value);
            for (const auto& [value, name] : kVerifyNames) {
              if (text == nullptr || *text != name) continue;
              c.verify = value;
              return {};
            }
            return Wrong(raw, "one of \"counts\", \"sample\", \"full\"");
          },
          [](const HiveConfig& c) {
            for (const auto& [value, name] : kVerifyNames) {
              if (value == c.verify) return TomlText(name);
            }
            return TomlText("");
          }};
}

Field GrowthField() {
  return {"output.growth_max",
          [](HiveConfig& c, const Raw& raw) -> Status {
            const auto n = ReadNumber(raw);
            if (!n || !std::isfinite(*n) || ((*n < 1.0 || *n > 100.0) && *n != 0.0)) {
              return Wrong(raw, "a number from 1.0 to 100.0, or 0 for no bound");
            }
            c.shape.growth_max = *n;
            return {};
          },
          [](const HiveConfig& c) {
            std::array<char, 32> text;
            const auto end =
                std::to_chars(text.data(), text.data() + text.size(), c.shape.growth_max).ptr;
            std::string out(text.data(), end);
            return out.find_first_of(".e") == out.npos ? out + ".0" : out;
          }};
}

template <typename At>
Field BoolField(std::string_view key, At at) {
  return {key,
          [at](HiveConfig& c, const Raw& raw) -> Status {
            const auto b = ReadBool(raw);
            if (!b) return Wrong(raw, "true or false");
            at(c) = *b;
            return {};
          },
          [at](const HiveConfig& c) { return std::string(at(c) ? "true" : "false"); }};
}

// What is wrong is told without the value.
template <typename At>
Field SecretField(std::string_view key, At at) {
  return {key,
          [=](HiveConfig& c, const Raw& raw) -> Status {
            const auto text = ReadText(raw);
            if (!text) return Fail(Code::kInvalid, "must be a text without control characters");
            at(c) = Secret(*text);
            return {};
          },
          [=](const HiveConfig& c) { return TomlText(at(c).empty() ? "" : "***"); }};
}

Field AddressingField() {
  using storage::S3Addressing;
  static constexpr std::array kNames = {
      std::pair{S3Addressing::kAuto, std::string_view("auto")},
      std::pair{S3Addressing::kPath, std::string_view("path")},
      std::pair{S3Addressing::kVirtual, std::string_view("virtual")}};
  return {"s3.addressing",
          [](HiveConfig& c, const Raw& raw) -> Status {
            const auto* text = std::get_if<std::string>(&raw.value);
            for (const auto& [value, name] : kNames) {
              if (text == nullptr || *text != name) continue;
              c.s3.addressing = value;
              return {};
            }
            return Wrong(raw, "one of \"auto\", \"path\", \"virtual\"");
          },
          [](const HiveConfig& c) {
            for (const auto& [value, name] : kNames) {
              if (value == c.s3.addressing) return TomlText(name);
            }
            return TomlText("");
          }};
}

// What has no caller is refused with more than a list of names: who asks for it wants something
// that exists, elsewhere (R003).
Field ProvidersField() {
  return {"auth.providers",
          [](HiveConfig& c, const Raw& raw) -> Status {
            LITHIFY_TRY_ASSIGN(const auto names, ReadList(raw));
            std::vector<AuthProvider> providers;
            for (const std::string& name : names) {
              for (const auto& [value, known] : kAuthProviders) {
                if (name == known) providers.push_back(value);
              }
            }
            if (providers.size() != names.size()) {
              return Wrong(raw,
                           "a list of \"bearer\", \"oidc_password\", \"token_exchange\", "
                           "\"anonymous\"; every statement runs as its caller, so that nothing "
                           "here is for a machine");
            }
            c.auth.providers = std::move(providers);
            return {};
          },
          [](const HiveConfig& c) {
            std::vector<std::string> names;
            for (const AuthProvider provider : c.auth.providers) {
              names.emplace_back(AuthProviderName(provider));
            }
            return TomlList(names);
          }};
}

// The member that a key sets, of a const or a mutable HiveConfig.
#define AT(member) [](auto& c) -> auto& { return c.member; }

std::vector<Field> CompactionFields() {
  return {
      DurationField("compaction.interval", seconds(1), days(7), false, AT(interval)),
      DurationField("compaction.grace", seconds(0), days(30), false, AT(options.grace)),
      CountField("compaction.min_files", 1, 1'000'000, AT(options.min_files)),
      BytesField("compaction.small_file_bytes", 1, kTiB, false, AT(options.small_file_bytes)),
      BytesField("compaction.target_file_bytes", 1, kTiB, false, AT(options.target_file_bytes)),
      BytesField("compaction.file_bytes_min", 1, kTiB, false, AT(options.file_bytes_min)),
      BytesField("compaction.file_bytes_max", 1, kTiB, false, AT(options.file_bytes_max)),
      CountField("compaction.max_input_files", 2, 1'000'000, AT(options.max_input_files)),
      BytesField("compaction.max_input_bytes", 1, kTiB, false, AT(options.max_input_bytes)),
      DurationField("compaction.claim_ttl", seconds(1), table::kClaimTtlMax, true, AT(claim_ttl)),
      DurationField("compaction.gc_grace", minutes(1), days(365), false, AT(options.gc_grace)),
      DurationField("compaction.retention", days(1), days(36500), true, AT(options.retention)),
      VerifyField(),
      TextField("compaction.audit_series", AT(audit_series)),
  };
}

std::vector<Field> OutputFields() {
  return {
      ChoiceField("output.codec", {"zstd", "snappy", "lz4_raw", "gzip", "none"}, AT(shape.codec)),
      CountField("output.codec_level", 1, 22, AT(shape.codec_level)),
      BytesField("output.row_group_bytes", 64 * kKiB, 8 * kGiB, false, AT(shape.row_group_bytes)),
      CountField("output.row_group_rows", 100, 100'000'000, AT(shape.row_group_rows)),
      BytesField("output.page_bytes", 4 * kKiB, 64 * kMiB, false, AT(shape.page_bytes)),
      ListField("output.plain_columns", AT(shape.plain_columns)),
      ListField("output.bloom_columns", AT(shape.bloom_columns)),
      GrowthField(),
      BoolField("output.splice", AT(shape.splice)),
  };
}

std::vector<Field> LimitFields() {
  return {
      CountField("limits.jobs", 0, 1024, AT(jobs)),
      CountField("limits.partitions_at_once", 0, 1024, AT(partitions_at_once)),
      BytesField("limits.memory", 256 * kMiB, 16 * kTiB, false, AT(memory_bytes)),
      BytesField("limits.io_limit", 64 * kKiB, kTiB, true, AT(io_limit_bytes_per_second)),
      BoolField("limits.direct_io", AT(direct_io)),
      BoolField("limits.low_priority", AT(low_priority)),
  };
}

std::vector<Field> S3Fields() {
  return {
      TextField("s3.endpoint", AT(s3.endpoint)),
      TextField("s3.region", AT(s3.region)),
      AddressingField(),
      TextField("s3.ca_file", AT(s3.ca_file)),
      SecretField("s3.proxy", AT(s3.proxy)),
      TextField("s3.access_key_id", AT(s3.access_key_id)),
      SecretField("s3.secret_access_key", AT(s3.secret_access_key)),
      SecretField("s3.session_token", AT(s3.session_token)),
  };
}

std::vector<Field> ServerFields() {
  return {
      TextField("server.listen", AT(server.listen)),
      TextField("server.tls_cert_file", AT(server.tls_cert_file)),
      TextField("server.tls_key_file", AT(server.tls_key_file)),
      TextField("server.tls_client_ca_file", AT(server.tls_client_ca_file)),
      BoolField("server.allow_plaintext", AT(server.allow_plaintext)),
      TextField("server.catalog", AT(server.catalog)),
      BoolField("server.local_files", AT(server.local_files)),
      CountField("server.statements_max", 1, 100'000, AT(server.statements_max)),
      CountField("server.statements_per_user_max", 1, 100'000, AT(server.statements_per_user_max)),
      CountField("server.jobs_max", 1, 1024, AT(server.jobs_max)),
      CountField("server.jobs_per_user_max", 1, 1024, AT(server.jobs_per_user_max)),
      BytesField("server.request_bytes_max", kKiB, 16 * kMiB, false, AT(server.request_bytes_max)),
      BytesField("server.result_bytes_max", kKiB, kTiB, false, AT(server.result_bytes_max)),
      BytesField("server.statement_memory", 16 * kMiB, kTiB, false,
                 AT(server.statement_memory_bytes)),
      DurationField("server.statement_timeout", seconds(1), days(7), true,
                    AT(server.statement_timeout)),
      DurationField("server.client_stall", seconds(1), days(1), true, AT(server.client_stall)),
      DurationField("server.session_idle", seconds(1), days(1), false, AT(server.session_idle)),
      DurationField("server.session_max", seconds(1), days(30), false, AT(server.session_max)),
      DurationField("server.drain", seconds(0), hours(1), false, AT(server.drain)),
  };
}

std::vector<Field> AuthFields() {
  return {
      ProvidersField(),
      TextField("auth.issuer", AT(auth.issuer)),
      TextField("auth.jwks_url", AT(auth.jwks_url)),
      TextField("auth.audience", AT(auth.audience)),
      TextField("auth.subject_claim", AT(auth.subject_claim)),
      TextField("auth.username_claim", AT(auth.username_claim)),
      TextField("auth.email_claim", AT(auth.email_claim)),
      TextField("auth.roles_claim", AT(auth.roles_claim)),
      TextField("auth.groups_claim", AT(auth.groups_claim)),
      DurationField("auth.leeway", seconds(0), minutes(5), false, AT(auth.leeway)),
      DurationField("auth.keys_life", seconds(10), hours(24), false, AT(auth.keys_life)),
      DurationField("auth.keys_life_max", seconds(10), days(7), false, AT(auth.keys_life_max)),
      TextField("auth.token_endpoint", AT(auth.token_endpoint)),
      TextField("auth.client_id", AT(auth.client_id)),
      SecretField("auth.client_secret", AT(auth.client_secret)),
      TextField("auth.scope", AT(auth.scope)),
      TextField("auth.ca_file", AT(auth.ca_file)),
      TextField("auth.anonymous_user", AT(auth.anonymous_user)),
      ListField("auth.anonymous_roles", AT(auth.anonymous_roles)),
  };
}

std::vector<Field> AllFields() {
  std::vector<Field> all = {ChoiceField("layout.preset", {"ourios", "none"}, AT(preset))};
  for (auto&& part : {CompactionFields(), OutputFields(), LimitFields(), S3Fields(), AuthFields(),
                      ServerFields()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  all.push_back(TextField("audit_log.path", AT(audit_log.path)));
  all.push_back(BytesField("audit_log.max_bytes", 64 * kKiB, kTiB, true, AT(audit_log.max_bytes)));
  all.push_back(TextField("audit_log.signing_key", AT(audit_log.signing_key)));
  all.push_back(ChoiceField("audit_log.on_error", {"fail", "continue"}, AT(audit_log.on_error)));
  return all;
}

#undef AT

}  // namespace

std::span<const Field> Fields() {
  static const std::vector<Field> fields = AllFields();
  return fields;
}

const Field* FindField(std::string_view key) {
  for (const Field& field : Fields()) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

std::string Suggestion(std::string_view name, const std::vector<std::string_view>& candidates,
                       std::string_view section) {
  const std::string_view best = Nearest(name, candidates);
  if (best.empty()) return {};
  std::string key(section);
  if (!key.empty()) key += '.';
  return "; did you mean \"" + key.append(best) + "\"?";
}

std::string TomlText(std::string_view text) {
  // A JSON string is a TOML basic string, except that TOML wants DEL escaped.
  std::string out;
  for (const char c : JsonQuote(text))
    out += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
  return out;
}

std::string TomlList(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + TomlText(item);
  return out + "]";
}

Result<std::string> ReadText(const Raw& raw) {
  const auto* text = std::get_if<std::string>(&raw.value);
  if (text == nullptr) return Wrong(raw, "a text");
  for (const char c : *text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      return Wrong(raw, "a text without control characters");
    }
  }
  return *text;
}

Result<std::vector<std::string>> ReadList(const Raw& raw) {
  std::vector<std::string> items;
  if (const auto* list = std::get_if<std::vector<std::string>>(&raw.value)) {
    items = *list;
  } else if (const auto* text = std::get_if<std::string>(&raw.value);
             text != nullptr && !raw.typed) {
    for (size_t at = 0; !text->empty() && at <= text->size();) {
      const size_t comma = std::min(text->find(',', at), text->size());
      items.push_back(text->substr(at, comma - at));
      at = comma + 1;
    }
  } else {
    return Wrong(raw, "a list of texts");
  }
  for (size_t i = 0; i < items.size(); ++i) {
    LITHIFY_TRY(ReadText({.value = items[i]}));
    if (items[i].empty()) return Wrong(raw, "a list without empty items");
    if (std::find(items.begin(), items.begin() + static_cast<int64_t>(i), items[i]) !=
        items.begin() + static_cast<int64_t>(i)) {
      return Wrong(raw, "a list without repeated items");
    }
  }
  return items;
}

}  // namespace lithify::config
