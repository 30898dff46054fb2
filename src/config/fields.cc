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

constexpr std::array kVerifyNames = {std::pair{Verify::kCounts, std::string_view("counts")},
                                     std::pair{Verify::kSample, std::string_view("sample")},
                                     std::pair{Verify::kFull, std::string_view("full")}};

using storage::S3Addressing;
constexpr std::array kAddressingNames = {
    std::pair{S3Addressing::kAuto, std::string_view("auto")},
    std::pair{S3Addressing::kPath, std::string_view("path")},
    std::pair{S3Addressing::kVirtual, std::string_view("virtual")}};

HiveField GrowthField() {
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

// What has no caller is refused with more than a list of names: who asks for it wants something
// that exists, elsewhere (R003).
HiveField ProvidersField() {
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
#define AT(member) MemberOf<HiveConfig>([](auto& c) -> auto& { return c.member; })

std::vector<HiveField> CompactionFields() {
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
      NamedField("compaction.verify", kVerifyNames, AT(verify)),
      TextField("compaction.audit_series", AT(audit_series)),
  };
}

std::vector<HiveField> OutputFields() {
  return {
      ChoiceField("output.codec", {"zstd", "snappy", "lz4_raw", "gzip", "none"}, AT(shape.codec)),
      CountField("output.codec_level", 1, 22, AT(shape.codec_level)),
      BytesField("output.row_group_bytes", 64 * kKiB, 8 * kGiB, false, AT(shape.row_group_bytes)),
      CountField("output.row_group_rows", 100, 100'000'000, AT(shape.row_group_rows)),
      BytesField("output.page_bytes", 4 * kKiB, 64 * kMiB, false, AT(shape.page_bytes)),
      ListField("output.plain_columns", AT(shape.plain_columns)),
      ListField("output.bloom_columns", AT(shape.bloom_columns)),
      ListField("output.sort", AT(sort)),
      GrowthField(),
      BoolField("output.splice", AT(shape.splice)),
  };
}

std::vector<HiveField> LimitFields() {
  return {
      CountField("limits.jobs", 0, 1024, AT(jobs)),
      CountField("limits.partitions_at_once", 0, 1024, AT(partitions_at_once)),
      BytesField("limits.memory", 256 * kMiB, 16 * kTiB, false, AT(memory_bytes)),
      TextField("limits.spill_directory", AT(spill_directory)),
      BytesField("limits.spill", kMiB, 1024 * kTiB, true, AT(spill_bytes_max)),
      BytesField("limits.io_limit", 64 * kKiB, kTiB, true, AT(io_limit_bytes_per_second)),
      BoolField("limits.direct_io", AT(direct_io)),
      BoolField("limits.low_priority", AT(low_priority)),
  };
}

std::vector<HiveField> S3Fields() {
  return {
      TextField("s3.endpoint", AT(s3.endpoint)),
      TextField("s3.region", AT(s3.region)),
      NamedField("s3.addressing", kAddressingNames, AT(s3.addressing)),
      TextField("s3.ca_file", AT(s3.ca_file)),
      SecretField("s3.proxy", AT(s3.proxy)),
      TextField("s3.access_key_id", AT(s3.access_key_id)),
      SecretField("s3.secret_access_key", AT(s3.secret_access_key)),
      SecretField("s3.session_token", AT(s3.session_token)),
  };
}

std::vector<HiveField> ServerFields() {
  return {
      TextField("server.listen", AT(server.listen)),
      TextField("server.tls_cert_file", AT(server.tls_cert_file)),
      TextField("server.tls_key_file", AT(server.tls_key_file)),
      TextField("server.tls_client_ca_file", AT(server.tls_client_ca_file)),
      BoolField("server.allow_plaintext", AT(server.allow_plaintext)),
      TextField("server.health_listen", AT(server.health_listen)),
      TextField("server.page_listen", AT(server.page_listen)),
      ListField("server.page_hosts", AT(server.page_hosts)),
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

std::vector<HiveField> AuthFields() {
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

std::vector<HiveField> FleetFields() {
  return {
      ChoiceField("fleet.distribution", {"auto", "local", "require"}, AT(fleet.distribution)),
      ChoiceField("fleet.discovery", {"list", "dns", "file"}, AT(fleet.discovery)),
      ListField("fleet.workers", AT(fleet.workers)),
      TextField("fleet.dns", AT(fleet.dns)),
      TextField("fleet.workers_file", AT(fleet.workers_file)),
      SecretField("fleet.secret", AT(fleet.secret)),
      TextField("fleet.secret_file", AT(fleet.secret_file)),
      TextField("fleet.tls_ca", AT(fleet.tls_ca)),
      TextField("fleet.tls_server_name", AT(fleet.tls_server_name)),
      TextField("fleet.tls_cert", AT(fleet.tls_cert)),
      TextField("fleet.tls_key", AT(fleet.tls_key)),
      BoolField("fleet.insecure_loopback", AT(fleet.insecure_loopback)),
      CountField("fleet.min_workers", 1, 10'000, AT(fleet.min_workers)),
      CountField("fleet.max_inflight_groups_per_worker", 0, 1024,
                 AT(fleet.max_inflight_groups_per_worker)),
      CountField("fleet.group_attempts", 1, 100, AT(fleet.group_attempts)),
      DurationField("fleet.silence", seconds(5), hours(1), false, AT(fleet.silence)),
      DurationField("fleet.attempt", seconds(30), days(7), false, AT(fleet.attempt)),
      BoolField("fleet.hedge", AT(fleet.hedge)),
      TextField("fleet.queue_file", AT(fleet.queue_file)),
  };
}

std::vector<HiveField> AllFields() {
  std::vector<HiveField> all = {ChoiceField("layout.preset", {"ourios", "none"}, AT(preset))};
  for (auto&& part : {CompactionFields(), OutputFields(), LimitFields(), S3Fields(), AuthFields(),
                      ServerFields(), FleetFields()}) {
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

std::span<const HiveField> Fields() {
  static const std::vector<HiveField> fields = AllFields();
  return fields;
}

const HiveField* FindField(std::string_view key) {
  for (const HiveField& field : Fields()) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

}  // namespace lithify::config
