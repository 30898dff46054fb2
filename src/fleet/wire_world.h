// Random messages, the same ones for the same seed: for the tests of the wire.
#ifndef LITHIFY_FLEET_WIRE_WORLD_H_
#define LITHIFY_FLEET_WIRE_WORLD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "fleet/worker_link.h"
#include "group/table_group.h"

namespace lithify::fleet {

class WireWorld {
 public:
  explicit WireWorld(uint64_t seed) : random_(seed) {}

  GroupOrder Order() {
    GroupOrder order;
    group::GroupTask& task = order.task;
    task.job_id = "0193a1b2-0000-7000-8000-" + std::to_string(100000000000 + Below(900000000000));
    task.number = Number();
    task.table = "sales." + Text();
    task.metadata_location = "s3://lake/t/metadata/" + Text() + ".metadata.json";
    task.snapshot_id = Number();
    for (uint64_t i = 0; i <= Below(20); ++i) task.data_files.push_back("s3://lake/t/" + Text());
    task.outputs = static_cast<int>(1 + Below(50));
    task.sizes.min = 1 + Number() / 4;
    task.sizes.target = task.sizes.min + Number() / 4;
    task.sizes.max = task.sizes.target + Number() / 4;
    if (Flip()) {
      task.output_spec_id = static_cast<int>(Below(9));
    } else if (Flip()) {
      task.order = RowsBy();
      if (Flip()) task.sort_order_id = static_cast<int>(1 + Below(9));
    }
    task.max_output_partitions = 1 + static_cast<int64_t>(Below(1000));
    task.verify = static_cast<rewrite::Verify>(Below(3));
    order.attempt = "0193a1b2-0000-7000-9000-" + std::to_string(100000000000 + Below(900000000000));
    order.loans = Loans();
    order.memory_bytes = Number();
    return order;
  }

  RowOrder RowsBy() {
    RowOrder order;
    order.curve = static_cast<Curve>(Below(3));
    for (uint64_t i = 0; i <= Below(6); ++i) {
      order.fields.push_back({.field_id = static_cast<int>(1 + Below(99)),
                              .column = Text(),
                              .transform = Flip() ? "identity" : "bucket[16]",
                              .ascending = Flip(),
                              .nulls_first = Flip()});
    }
    return order;
  }

  std::vector<storage::Loan> Loans() {
    std::vector<storage::Loan> loans;
    for (uint64_t i = Below(3); i > 0; --i) {
      storage::Loan loan;
      loan.prefix = "s3://lake/" + Text();
      loan.settings.endpoint = Flip() ? "" : "https://store:9000";
      loan.settings.region = Text();
      loan.settings.addressing = static_cast<storage::S3Addressing>(Below(3));
      loan.settings.access_key_id = "id" + Text();
      loan.settings.secret_access_key = Secret("secret" + Text());
      loan.settings.session_token = Secret(Text());
      if (Flip()) loan.expires = Time(Duration(Number()));
      loans.push_back(std::move(loan));
    }
    return loans;
  }

  group::GroupResult Result() {
    group::GroupResult result;
    for (uint64_t i = Below(5); i > 0; --i) {
      result.inputs.push_back(
          {"s3://lake/t/" + Text(), Number(), Number(), {static_cast<int>(Below(3)), Tuple(2)}});
    }
    const uint64_t specs = 1 + Below(3);
    std::vector<std::vector<int>> kinds(specs);
    for (auto& kind : kinds) {
      for (uint64_t i = Below(4); i > 0; --i) kind.push_back(static_cast<int>(1 + Below(6)));
    }
    for (uint64_t i = Below(7); i > 0; --i) {
      const auto spec = static_cast<size_t>(Below(specs));
      result.outputs.push_back(File(static_cast<int>(spec), kinds[spec]));
    }
    result.report = Report();
    result.rows_deleted = Number();
    result.snapshot_id = Number();
    return result;
  }

  std::string Text() {
    static const std::vector<std::string> kParts = {
        "a", "Z9", "/", "%2F", "\"", "\\", "ä", "\u20ac", " ", "=", "\n", std::string(1, '\0'),
        "_"};
    std::string text;
    for (uint64_t i = Below(8); i > 0; --i) text += kParts[Below(kParts.size())];
    return text;
  }

  uint64_t Below(uint64_t bound) { return random_.Next() % bound; }
  bool Flip() { return Below(2) == 0; }
  int64_t Number() { return static_cast<int64_t>(random_.Next() >> (1 + Below(63))); }

 private:
  iceberg::Value Of(int kind) {
    switch (kind) {
      case 1: return Flip();
      case 2: return Flip() ? Number() : -Number();
      case 3: return static_cast<float>(Number()) / 3;
      case 4: return -static_cast<double>(Number()) / 7;
      case 5: return iceberg::Decimal{iceberg::Int128{Number()} * (Flip() ? 1'000'000 : -3)};
      case 6: return Text() + "\xff\xfe";  // Bytes, not text.
      default: return {};
    }
  }
  std::vector<iceberg::Value> Tuple(int fields) {
    std::vector<iceberg::Value> values;
    for (int i = 0; i < fields; ++i) values.push_back(Of(static_cast<int>(Below(7))));
    return values;
  }
  iceberg::DataFile File(int spec_id, const std::vector<int>& kinds) {
    iceberg::DataFile file;
    file.file_path = "s3://lake/t/data/" + Text() + ".parquet";
    file.file_format = "PARQUET";
    file.spec_id = spec_id;
    for (const int kind : kinds) file.partition.push_back(Below(4) == 0 ? Of(0) : Of(kind));
    file.record_count = Number() >> 4;  // The sum fits.
    file.file_size_in_bytes = Number();
    for (int field = 1; field <= 3; ++field) {
      file.column_sizes.emplace_back(field, Number());
      file.value_counts.emplace_back(field, Number());
      if (Flip()) file.null_value_counts.emplace_back(field, Number());
      if (Flip()) file.nan_value_counts.emplace_back(field, Number());
      if (Flip()) file.lower_bounds.emplace_back(field, Text() + "\xff");
      if (Flip()) file.upper_bounds.emplace_back(field, Text());
    }
    for (uint64_t i = Below(3); i > 0; --i) file.split_offsets.push_back(Number());
    if (Flip()) file.sort_order_id = static_cast<int>(Below(5));
    return file;
  }
  Digest128 Digest() { return {random_.Next(), random_.Next()}; }
  ContentDigest Digests() {
    ContentDigest digest{.rows = Number(), .row = Digest(), .columns = {}};
    for (uint64_t i = Below(4); i > 0; --i) digest.columns[Text()] = Digest();
    return digest;
  }
  std::map<std::string, int64_t> Counts() {
    std::map<std::string, int64_t> counts;
    for (uint64_t i = Below(4); i > 0; --i) counts[Text()] = Number();
    return counts;
  }
  rewrite::GroupReport Report() {
    rewrite::GroupReport report;
    for (uint64_t i = Below(4); i > 0; --i) {
      report.outputs.push_back({.name = Text(),
                                .size = Number(),
                                .rows = Number(),
                                .row_groups = Number(),
                                .digest = Digests(),
                                .metrics = {},
                                .split_offsets = {},
                                .footer_bytes = Number()});
      report.rows_per_input.push_back(Number());
    }
    report.rows_in = Number();
    report.rows_deleted = Number();
    report.rows_out = Number();
    report.bytes_in = Number();
    report.bytes_out = Number();
    report.digest_in = Digests();
    report.digest_complete = Flip();
    report.tiers = Counts();
    report.splices = Counts();
    report.recoded = Counts();
    for (uint64_t i = Below(3); i > 0; --i) report.notes.push_back(Text());
    report.came_in_order = Flip();
    if (Flip()) report.spilled_bytes = Number();
    return report;
  }

  SeededRandom random_;
};

// Whether two results say the same, in words of what does not; empty: they do.
inline std::string Difference(const group::GroupResult& a, const group::GroupResult& b) {
  std::string out;
  const auto compare = [&](const char* what, bool same) {
    if (!same) out += std::string(out.empty() ? "" : ", ") + what;
  };
  compare("snapshot", a.snapshot_id == b.snapshot_id);
  compare("number of inputs", a.inputs.size() == b.inputs.size());
  for (size_t i = 0; i < a.inputs.size() && i < b.inputs.size(); ++i) {
    const group::GroupInput& x = a.inputs[i];
    const group::GroupInput& y = b.inputs[i];
    compare("input", x.path == y.path && x.records == y.records &&
                         x.rows_deleted == y.rows_deleted && x.partition == y.partition);
  }
  compare("outputs", a.outputs == b.outputs);
  compare("named paths", a.named_paths == b.named_paths);
  compare("rows deleted", a.rows_deleted == b.rows_deleted);
  const rewrite::GroupReport& r = a.report;
  const rewrite::GroupReport& s = b.report;
  compare("number of outputs", r.outputs.size() == s.outputs.size());
  for (size_t i = 0; i < r.outputs.size() && i < s.outputs.size(); ++i) {
    const rewrite::OutputFile& x = r.outputs[i];
    const rewrite::OutputFile& y = s.outputs[i];
    compare("output", x.name == y.name && x.size == y.size && x.rows == y.rows &&
                          x.row_groups == y.row_groups && x.digest == y.digest &&
                          x.footer_bytes == y.footer_bytes);
  }
  compare("sorting", r.came_in_order == s.came_in_order && r.spilled_bytes == s.spilled_bytes);
  compare("counts", r.rows_per_input == s.rows_per_input && r.rows_in == s.rows_in &&
                        r.rows_deleted == s.rows_deleted && r.rows_out == s.rows_out &&
                        r.bytes_in == s.bytes_in && r.bytes_out == s.bytes_out);
  compare("digest", r.digest_in == s.digest_in && r.digest_complete == s.digest_complete);
  compare("tiers", r.tiers == s.tiers && r.splices == s.splices && r.recoded == s.recoded);
  compare("notes", r.notes == s.notes);
  return out;
}

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_WIRE_WORLD_H_
