#include "config/worker.h"

#include <array>
#include <span>

namespace lithify::config {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::seconds;
using WorkerField = Field<WorkerConfig>;

constexpr std::string_view kSection = "worker";
constexpr int64_t kTiB = 1024 * kGiB;

using storage::S3Addressing;
constexpr std::array kAddressings = {
    std::pair{S3Addressing::kAuto, std::string_view("auto")},
    std::pair{S3Addressing::kPath, std::string_view("path")},
    std::pair{S3Addressing::kVirtual, std::string_view("virtual")}};

#define AT(member) MemberOf<WorkerConfig>([](auto& c) -> auto& { return c.member; })

std::span<const WorkerField> WorkerFields() {
  static const std::vector<WorkerField> fields = {
      TextField("worker.listen", AT(listen)),
      TextField("worker.id", AT(id)),
      SecretField("worker.secret", AT(secret)),
      TextField("worker.secret_file", AT(secret_file)),
      TextField("worker.tls_cert", AT(tls_cert)),
      TextField("worker.tls_key", AT(tls_key)),
      TextField("worker.tls_client_ca", AT(tls_client_ca)),
      BoolField("worker.insecure_loopback", AT(insecure_loopback)),
      CountField("worker.max_inflight_groups", 1, 1024, AT(max_inflight_groups)),
      CountField("worker.threads", 0, 4096, AT(threads)),
      BytesField("worker.memory", 64 * kMiB, 1024 * kTiB, false, AT(memory_bytes)),
      TextField("worker.spill_directory", AT(spill_directory)),
      BytesField("worker.spill", kMiB, 1024 * kTiB, true, AT(spill_bytes_max)),
      DurationField("worker.drain", seconds(0), hours(24), false, AT(drain)),
      DurationField("worker.unadopted", seconds(1), days(1), false, AT(unadopted)),
      BoolField("worker.local_files", AT(local_files)),
      ListField("worker.endpoints", AT(endpoints)),
      TextField("worker.s3.endpoint", AT(s3.endpoint)),
      TextField("worker.s3.region", AT(s3.region)),
      NamedField("worker.s3.addressing", kAddressings, AT(s3.addressing)),
      TextField("worker.s3.ca_file", AT(s3.ca_file)),
      SecretField("worker.s3.proxy", AT(s3.proxy)),
      TextField("worker.s3.access_key_id", AT(s3.access_key_id)),
      SecretField("worker.s3.secret_access_key", AT(s3.secret_access_key)),
      SecretField("worker.s3.session_token", AT(s3.session_token)),
  };
  return fields;
}

#undef AT

// What is each allowed, but not together.
void Check(const WorkerConfig& worker, std::string_view where, std::vector<std::string>& problems) {
  const bool tls = !worker.tls_cert.empty() || !worker.tls_key.empty();
  const auto problem = [&](std::string_view key, std::string_view what) {
    AddProblem(problems, where, key, what);
  };
  if (!worker.secret.empty() && !worker.secret_file.empty()) {
    problem("worker.secret", "and worker.secret_file exclude each other");
  }
  if (worker.secret.empty() && worker.secret_file.empty() && !worker.insecure_loopback) {
    problem("worker.secret", "or worker.secret_file is needed: requests are signed with it");
  }
  if (worker.tls_cert.empty() != worker.tls_key.empty()) {
    problem(worker.tls_cert.empty() ? "worker.tls_cert" : "worker.tls_key",
            "is missing: certificate and key go together");
  }
  if (!tls && !worker.insecure_loopback) {
    problem("worker.tls_cert",
            "and worker.tls_key are needed: keys of the storage must not cross a network in "
            "plaintext. On one machine: worker.insecure_loopback = true");
  }
  if (worker.insecure_loopback && (tls || !worker.tls_client_ca.empty())) {
    problem("worker.insecure_loopback", "leaves TLS out; it does not go with worker.tls_…");
  }
  if (worker.s3.access_key_id.empty() != worker.s3.secret_access_key.empty()) {
    problem("worker.s3.access_key_id", "and worker.s3.secret_access_key go together");
  }
}

}  // namespace

Result<WorkerConfig> LoadWorkerConfig(const Sources& sources) {
  WorkerConfig config;
  std::vector<std::string> problems;
  const auto values = ReadSection(sources, kSection, KeysOf(WorkerFields()), problems);
  ApplyAll(values, WorkerFields(), config, problems);
  for (const Override& flag : sources.flags) {
    if (!flag.key.starts_with("worker.")) {
      AddProblem(problems, flag.source, flag.key,
                 "a worker has keys below worker. alone" +
                     SuggestKey("worker." + flag.key, KeysOf(WorkerFields())));
    }
  }
  if (problems.empty()) {
    Check(config, sources.file_name.empty() ? "configuration" : sources.file_name, problems);
  }
  if (!problems.empty()) return FailWith(problems);
  return config;
}

std::string DumpWorkerConfig(const WorkerConfig& config) {
  return DumpFields(WorkerFields(), config);
}

}  // namespace lithify::config
