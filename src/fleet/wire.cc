#include "fleet/wire.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/order_text.h"
#include "base/text.h"
#include "fleet/data_files.h"
#include "fleet/strict_json.h"

namespace lithify::fleet {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr size_t kNameBytesMax = 1024;  // Of a table, a column, a note.
constexpr size_t kKeyBytesMax = 16 * 1024;
constexpr size_t kIdBytesMax = 64;
constexpr size_t kListMax = 1'000'000;
constexpr size_t kErrorBytesMax = 16 * 1024;
constexpr int kProtocol = 1;

struct VerifyName {
  rewrite::Verify value;
  const char* name;
};
constexpr VerifyName kVerifyNames[] = {{rewrite::Verify::kCounts, "counts"},
                                       {rewrite::Verify::kSample, "sample"},
                                       {rewrite::Verify::kFull, "full"}};
struct AddressingName {
  storage::S3Addressing value;
  const char* name;
};
constexpr AddressingName kAddressingNames[] = {{storage::S3Addressing::kAuto, "auto"},
                                               {storage::S3Addressing::kPath, "path"},
                                               {storage::S3Addressing::kVirtual, "virtual"}};

struct CurveName {
  Curve value;
  const char* name;
};
constexpr CurveName kCurveNames[] = {
    {Curve::kNone, "none"}, {Curve::kZOrder, "zorder"}, {Curve::kHilbert, "hilbert"}};

template <typename Names, typename T>
const char* NameOf(const Names& names, T value) {
  for (const auto& known : names) {
    if (known.value == value) return known.name;
  }
  return "";
}

template <typename Names>
auto ValueOf(const Names& names, Members& in, const char* member) {
  const std::string text = in.Text(member, kNameBytesMax);
  for (const auto& known : names) {
    if (text == known.name) return known.value;
  }
  in.Problem(member, "is none of those that are known");
  return names[0].value;
}

bool IsId(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
}

// Part of names of files and lines of logs.
std::string IdOf(Members& in, const char* member) {
  std::string id = in.Text(member, kIdBytesMax);
  if (!IsId(id)) in.Problem(member, "is no id");
  return id;
}

void CheckProtocol(Members& in) { in.Integer("protocol", kProtocol, kProtocol); }

// --- loans ---------------------------------------------------------------------------------------

Json LoanJson(const storage::Loan& loan) {
  const storage::S3Settings& settings = loan.settings;
  Json json = {{"prefix", loan.prefix},
               {"endpoint", settings.endpoint},
               {"region", settings.region},
               {"addressing", NameOf(kAddressingNames, settings.addressing)},
               {"access_key", settings.access_key_id},
               {"secret_key", settings.secret_access_key.Reveal()},
               {"session_token", settings.session_token.Reveal()}};
  if (loan.expires) json["expires_at_us"] = loan.expires->time_since_epoch().count();
  return json;
}

storage::Loan LoanOf(const Json& json, Members& parent) {
  Members in(json, "s3", parent.code());
  storage::Loan loan;
  loan.prefix = in.Text("prefix", kLocationBytesMax);
  loan.settings.endpoint = in.Text("endpoint", kLocationBytesMax);
  loan.settings.region = in.Text("region", kNameBytesMax);
  loan.settings.addressing = ValueOf(kAddressingNames, in, "addressing");
  loan.settings.access_key_id = in.Text("access_key", kKeyBytesMax);
  loan.settings.secret_access_key = Secret(in.Text("secret_key", kKeyBytesMax));
  loan.settings.session_token = Secret(in.Text("session_token", kKeyBytesMax));
  if (in.Has("expires_at_us")) loan.expires = Time(Duration(in.Integer("expires_at_us", 0, kMax)));
  if (loan.settings.access_key_id.empty() != loan.settings.secret_access_key.empty()) {
    in.Problem("secret_key", "and access_key go together");
  }
  if (const Status good = in.Finish(); !good) parent.Problem("s3", good.error().message);
  return loan;
}

Json LoansJson(const std::vector<storage::Loan>& loans) {
  Json json = Json::array();
  for (const storage::Loan& loan : loans) json.push_back(LoanJson(loan));
  return json;
}

std::vector<storage::Loan> LoansOf(Members& in) {
  std::vector<storage::Loan> loans;
  for (const Json& item : in.List("s3", kLoansMax)) loans.push_back(LoanOf(item, in));
  return loans;
}

Result<Secret> WriteSecret(const Json& json) {
  LITHIFY_TRY_ASSIGN(std::string text, WriteStrict(json));
  if (text.size() > kRequestBytesMax) {
    return Fail(Code::kUnsupported,
                "a group of so many files does not fit into one order: " +
                    FormatBytes(static_cast<int64_t>(text.size())),
                {}, "make smaller groups");
  }
  Secret secret(text);
  Wipe(text);
  return secret;
}

// --- orders of rows ------------------------------------------------------------------------------

Json OrderJson(const RowOrder& order) {
  Json fields = Json::array();
  for (const OrderField& field : order.fields) {
    fields.push_back({{"field_id", field.field_id},
                      {"column", field.column},
                      {"transform", field.transform},
                      {"ascending", field.ascending},
                      {"nulls_first", field.nulls_first}});
  }
  return {{"curve", NameOf(kCurveNames, order.curve)}, {"fields", std::move(fields)}};
}

OrderField OrderFieldOf(const Json& json, Members& parent) {
  Members in(json, "order.fields", parent.code());
  OrderField field;
  field.field_id = static_cast<int>(in.Integer("field_id", 1, std::numeric_limits<int>::max()));
  field.column = in.Text("column", kNameBytesMax);
  field.transform = in.Text("transform", kNameBytesMax);
  field.ascending = in.Bool("ascending");
  field.nulls_first = in.Bool("nulls_first");
  if (const Status good = in.Finish(); !good) parent.Problem("fields", good.error().message);
  return field;
}

RowOrder RowOrderOf(const Json& json, Members& parent) {
  Members in(json, "order", parent.code());
  RowOrder order;
  order.curve = ValueOf(kCurveNames, in, "curve");
  for (const Json& item : in.List("fields", kOrderFieldsMax)) {
    order.fields.push_back(OrderFieldOf(item, in));
  }
  const size_t most = order.curve == Curve::kNone ? kOrderFieldsMax : kCurveColumnsMax;
  if (order.fields.empty() || order.fields.size() > most) {
    in.Problem("fields", "are none or too many");
  }
  if (const Status good = in.Finish(); !good) parent.Problem("order", good.error().message);
  return order;
}

// --- results -------------------------------------------------------------------------------------

Json DigestJson(const ContentDigest& digest) {
  Json columns = Json::object();
  for (const auto& [name, column] : digest.columns) columns[name] = column.ToHex();
  return {{"rows", digest.rows}, {"row", digest.row.ToHex()}, {"columns", std::move(columns)}};
}

Digest128 HexOf(const std::string& hex, Members& in) {
  const auto digest = Digest128::FromHex(hex);
  if (!digest) in.Problem("digest", "is none");
  return digest.value_or(Digest128());
}

ContentDigest DigestOf(const Json& json, Members& parent) {
  Members in(json, "digest", parent.code());
  ContentDigest digest;
  digest.rows = in.Integer("rows", 0, kMax);
  digest.row = HexOf(in.Text("row", kNameBytesMax), in);
  for (const auto& [name, column] : in.Object("columns", kListMax).items()) {
    const auto* text = column.get_ptr<const std::string*>();
    digest.columns[name] = HexOf(text == nullptr ? std::string() : *text, in);
  }
  if (const Status good = in.Finish(); !good) parent.Problem("digest", good.error().message);
  return digest;
}

Json ReportJson(const rewrite::GroupReport& report) {
  Json outputs = Json::array();
  for (const rewrite::OutputFile& output : report.outputs) {
    outputs.push_back({{"name", output.name},
                       {"size", output.size},
                       {"rows", output.rows},
                       {"row_groups", output.row_groups},
                       {"footer_bytes", output.footer_bytes},
                       {"digest", DigestJson(output.digest)}});
  }
  Json json = {{"outputs", std::move(outputs)},
               {"rows_per_input", report.rows_per_input},
               {"rows_in", report.rows_in},
               {"rows_deleted", report.rows_deleted},
               {"rows_out", report.rows_out},
               {"bytes_in", report.bytes_in},
               {"bytes_out", report.bytes_out},
               {"digest_in", DigestJson(report.digest_in)},
               {"digest_complete", report.digest_complete},
               {"tiers", Json(report.tiers)},
               {"splices", Json(report.splices)},
               {"recoded", Json(report.recoded)},
               {"notes", report.notes}};
  if (report.came_in_order) json["came_in_order"] = true;
  if (report.spilled_bytes != 0) json["spilled_bytes"] = report.spilled_bytes;
  return json;
}

rewrite::OutputFile OutputOf(const Json& json, Members& parent) {
  Members in(json, "report.outputs", parent.code());
  rewrite::OutputFile output;
  output.name = in.Text("name", kLocationBytesMax);
  output.size = in.Integer("size", 0, kMax);
  output.rows = in.Integer("rows", 0, kMax);
  output.row_groups = in.Integer("row_groups", 0, kMax);
  output.footer_bytes = in.Integer("footer_bytes", 0, kMax);
  output.digest = DigestOf(in.Object("digest", 3), in);
  if (const Status good = in.Finish(); !good) parent.Problem("outputs", good.error().message);
  return output;
}

rewrite::GroupReport ReportOf(const Json& json, Members& parent) {
  Members in(json, "report", parent.code());
  rewrite::GroupReport report;
  for (const Json& item : in.List("outputs", kListMax)) {
    report.outputs.push_back(OutputOf(item, in));
  }
  report.rows_per_input = in.Integers("rows_per_input", kFilesMax, 0);
  report.rows_in = in.Integer("rows_in", 0, kMax);
  report.rows_deleted = in.Integer("rows_deleted", 0, kMax);
  report.rows_out = in.Integer("rows_out", 0, kMax);
  report.bytes_in = in.Integer("bytes_in", 0, kMax);
  report.bytes_out = in.Integer("bytes_out", 0, kMax);
  report.digest_in = DigestOf(in.Object("digest_in", 3), in);
  report.digest_complete = in.Bool("digest_complete");
  report.tiers = in.Counts("tiers", kListMax);
  report.splices = in.Counts("splices", kListMax);
  report.recoded = in.Counts("recoded", kListMax);
  report.notes = in.Texts("notes", kListMax, kErrorBytesMax);
  // Of sorted groups alone.
  if (in.Has("came_in_order")) report.came_in_order = in.Bool("came_in_order");
  if (in.Has("spilled_bytes")) report.spilled_bytes = in.Integer("spilled_bytes", 0, kMax);
  if (const Status good = in.Finish(); !good) parent.Problem("report", good.error().message);
  return report;
}

Json InputJson(const group::GroupInput& input) {
  return {{"path", input.path},
          {"records", input.records},
          {"rows_deleted", input.rows_deleted},
          {"partition", PartitionJson(input.partition)}};
}

group::GroupInput InputOf(const Json& json, Members& parent) {
  Members in(json, "inputs", parent.code());
  group::GroupInput input;
  input.path = in.Text("path", kLocationBytesMax);
  input.records = in.Integer("records", 0, kMax);
  input.rows_deleted = in.Integer("rows_deleted", 0, kMax);
  input.partition = PartitionOf(in.Object("partition", 2), in);
  if (const Status good = in.Finish(); !good) parent.Problem("inputs", good.error().message);
  return input;
}

Result<Json> DoneJson(const DoneFrame& frame) {
  const group::GroupResult& result = frame.result;
  LITHIFY_TRY_ASSIGN(Json files, DataFilesJson(result.outputs));
  Json inputs = Json::array();
  for (const group::GroupInput& input : result.inputs) inputs.push_back(InputJson(input));
  Json uploaded = Json::array();
  for (const iceberg::DataFile& file : result.outputs) uploaded.push_back(file.file_path);
  return Json{{"frame", "done"},
              {"protocol", kProtocol},
              {"group_id", frame.group_id},
              {"snapshot_id", result.snapshot_id},
              {"new_data_files_avro", std::move(files)},
              {"uploaded_paths", std::move(uploaded)},
              {"rows_written", result.report.rows_out},
              {"bytes_written", result.report.bytes_out},
              {"rows_deleted", result.rows_deleted},
              {"inputs", std::move(inputs)},
              {"report", ReportJson(result.report)}};
}

DoneFrame DoneOf(Members& in) {
  DoneFrame frame;
  CheckProtocol(in);
  frame.group_id = in.Integer("group_id", 0, kMax);
  group::GroupResult& result = frame.result;
  result.snapshot_id = in.Integer("snapshot_id", 0, kMax);
  const Json& files = in.List("new_data_files_avro", kListMax);
  auto outputs = DataFilesOf(files, in.code());
  if (outputs) {
    result.outputs = *std::move(outputs);
  } else {
    in.Problem("new_data_files_avro", outputs.error().message);
  }
  std::vector<std::string> paths;
  for (const iceberg::DataFile& file : result.outputs) paths.push_back(file.file_path);
  if (in.Texts("uploaded_paths", kListMax, kLocationBytesMax) != paths) {
    in.Problem("uploaded_paths", "are not those of the data files");
  }
  result.rows_deleted = in.Integer("rows_deleted", 0, kMax);
  for (const Json& item : in.List("inputs", kFilesMax)) result.inputs.push_back(InputOf(item, in));
  result.report = ReportOf(in.Object("report", 32), in);
  if (in.Integer("rows_written", 0, kMax) != result.report.rows_out ||
      in.Integer("bytes_written", 0, kMax) != result.report.bytes_out) {
    in.Problem("rows_written", "or bytes_written is not what the report says");
  }
  return frame;
}

// Words of an error may come from anywhere.
std::string Utf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size() && i < kErrorBytesMax / 2;) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) out += "\xef\xbf\xbd";
    if (length > 0) out += text.substr(i, length);
    i += std::max(length, size_t{1});
  }
  return out;
}

Json ErrorJson(const LinkError& failed) {
  const Error& error = failed.error;
  return {{"frame", "failed"},
          {"transport", failed.transport},
          {"code", CodeName(error.code)},
          {"message", Utf8(error.message)},
          {"context", Utf8(error.context)},
          {"hint", Utf8(error.hint)}};
}

FailedFrame FailedOf(Members& in) {
  FailedFrame frame;
  frame.error.transport = in.Bool("transport");
  const std::string name = in.Text("code", kNameBytesMax);
  Error& error = frame.error.error;
  bool known = false;
  for (int i = 0; i <= static_cast<int>(Code::kInternal); ++i) {
    if (CodeName(static_cast<Code>(i)) != name) continue;
    error.code = static_cast<Code>(i);
    known = true;
  }
  if (!known) in.Problem("code", "is none that is known");
  error.message = in.Text("message", kErrorBytesMax);
  error.context = in.Text("context", kErrorBytesMax);
  error.hint = in.Text("hint", kErrorBytesMax);
  return frame;
}

WorkerStatus StatusOf(Members& in) {
  WorkerStatus status;
  status.id = in.Text("worker", kNameBytesMax);
  status.version = in.Text("version", kNameBytesMax);
  status.inflight = static_cast<int>(in.Integer("inflight", 0, 1'000'000));
  status.max_inflight_groups = static_cast<int>(in.Integer("max_inflight_groups", 0, 1'000'000));
  status.memory_bytes = in.Integer("memory_bytes", 0, kMax);
  status.draining = in.Bool("draining");
  return status;
}

struct FrameJson {
  Result<Json> operator()(const ProgressFrame& frame) const {
    return Json{{"frame", "progress"},
                {"group_id", frame.group_id},
                {"bytes_read", frame.bytes_read},
                {"moved", frame.moved}};
  }
  Result<Json> operator()(const DoneFrame& frame) const { return DoneJson(frame); }
  Result<Json> operator()(const FailedFrame& frame) const { return ErrorJson(frame.error); }
  Result<Json> operator()(const AcceptedFrame&) const { return Json{{"frame", "accepted"}}; }
  Result<Json> operator()(const WorkerStatus& status) const {
    return Json{{"frame", "status"},
                {"worker", status.id},
                {"version", status.version},
                {"inflight", status.inflight},
                {"max_inflight_groups", status.max_inflight_groups},
                {"memory_bytes", status.memory_bytes},
                {"draining", status.draining}};
  }
};

Frame FrameOf(Members& in) {
  const std::string kind = in.Text("frame", kNameBytesMax);
  if (kind == "progress") {
    ProgressFrame frame;
    frame.group_id = in.Integer("group_id", 0, kMax);
    frame.bytes_read = in.Integer("bytes_read", 0, kMax);
    frame.moved = in.Bool("moved");
    return frame;
  }
  if (kind == "done") return DoneOf(in);
  if (kind == "failed") return FailedOf(in);
  if (kind == "status") return StatusOf(in);
  if (kind != "accepted") in.Problem("frame", "is of no kind that is known");
  return AcceptedFrame();
}

}  // namespace

Result<Secret> EncodeOrder(const GroupOrder& order) {
  const group::GroupTask& task = order.task;
  Json json = {{"protocol", kProtocol},
               {"job_id", task.job_id},
               {"group_id", task.number},
               {"attempt", order.attempt},
               {"table_ident", task.table},
               {"metadata_location", task.metadata_location},
               {"snapshot_id", task.snapshot_id},
               {"group_file_paths", task.data_files},
               {"outputs", task.outputs},
               {"target_file_size_bytes", task.sizes.target},
               {"min_file_size_bytes", task.sizes.min},
               {"max_file_size_bytes", task.sizes.max},
               {"max_output_partitions", task.max_output_partitions},
               {"verify", NameOf(kVerifyNames, task.verify)},
               {"memory_bytes", order.memory_bytes},
               {"s3", LoansJson(order.loans)}};
  if (task.output_spec_id) json["output_spec_id"] = *task.output_spec_id;
  // A worker that does not know them refuses the order: none that does not sort says it did.
  if (task.order) json["order"] = OrderJson(*task.order);
  if (task.sort_order_id) json["sort_order_id"] = *task.sort_order_id;
  return WriteSecret(json);
}

Result<GroupOrder> DecodeOrder(std::string_view body) {
  LITHIFY_TRY_ASSIGN(const Json json, ParseStrict(body, kRequestBytesMax, Code::kInvalid));
  Members in(json, "the order", Code::kInvalid);
  CheckProtocol(in);
  GroupOrder order;
  group::GroupTask& task = order.task;
  task.job_id = IdOf(in, "job_id");
  task.number = in.Integer("group_id", 0, kMax);
  order.attempt = IdOf(in, "attempt");
  task.table = in.Text("table_ident", kNameBytesMax);
  task.metadata_location = in.Text("metadata_location", kLocationBytesMax);
  task.snapshot_id = in.Integer("snapshot_id", 0, kMax);
  task.data_files = in.Texts("group_file_paths", kFilesMax, kLocationBytesMax);
  if (task.data_files.empty()) in.Problem("group_file_paths", "is empty");
  constexpr int64_t kOutputsMax = 1'000'000;
  task.outputs = static_cast<int>(in.Integer("outputs", 1, kOutputsMax));
  task.sizes.target = in.Integer("target_file_size_bytes", 1, kMax);
  task.sizes.min = in.Integer("min_file_size_bytes", 1, task.sizes.target);
  task.sizes.max = in.Integer("max_file_size_bytes", task.sizes.target, kMax);
  task.max_output_partitions = in.Integer("max_output_partitions", 1, kOutputsMax);
  task.verify = ValueOf(kVerifyNames, in, "verify");
  if (in.Has("output_spec_id")) {
    task.output_spec_id =
        static_cast<int>(in.Integer("output_spec_id", 0, std::numeric_limits<int>::max()));
  }
  if (in.Has("order")) task.order = RowOrderOf(in.Object("order", 2), in);
  if (in.Has("sort_order_id")) {
    task.sort_order_id =
        static_cast<int>(in.Integer("sort_order_id", 1, std::numeric_limits<int>::max()));
    if (!task.order) in.Problem("sort_order_id", "is there without order");
  }
  if (task.order && task.output_spec_id)
    in.Problem("order", "and output_spec_id exclude each other");
  order.memory_bytes = in.Integer("memory_bytes", 0, kMax);
  order.loans = LoansOf(in);
  LITHIFY_TRY(in.Finish());
  return order;
}

std::string DescribeOrder(const GroupOrder& order) {
  std::string text = "job " + order.task.job_id + ", group " + std::to_string(order.task.number) +
                     " of " + order.task.table + ", attempt " + order.attempt + ": " +
                     FormatCount(static_cast<int64_t>(order.task.data_files.size())) +
                     " files of snapshot " + std::to_string(order.task.snapshot_id) + ", keys for";
  for (const storage::Loan& loan : order.loans) text += " " + JsonQuote(loan.prefix);
  return order.loans.empty() ? text + " nothing" : text;
}

Result<Secret> EncodeAttempt(const AttemptRequest& request) {
  return WriteSecret(
      {{"protocol", kProtocol}, {"attempt", request.attempt}, {"s3", LoansJson(request.loans)}});
}

Result<AttemptRequest> DecodeAttempt(std::string_view body) {
  LITHIFY_TRY_ASSIGN(const Json json, ParseStrict(body, kRequestBytesMax, Code::kInvalid));
  Members in(json, "the request", Code::kInvalid);
  CheckProtocol(in);
  AttemptRequest request;
  request.attempt = IdOf(in, "attempt");
  request.loans = LoansOf(in);
  LITHIFY_TRY(in.Finish());
  return request;
}

Result<std::string> EncodeFrame(const Frame& frame) {
  LITHIFY_TRY_ASSIGN(const Json json, std::visit(FrameJson(), frame));
  return WriteStrict(json);
}

Result<Frame> DecodeFrame(std::string_view body) {
  LITHIFY_TRY_ASSIGN(const Json json, ParseStrict(body, kAnswerBytesMax, Code::kCorrupt));
  Members in(json, "the worker's answer", Code::kCorrupt);
  Frame frame = FrameOf(in);
  LITHIFY_TRY(in.Finish());
  return frame;
}

}  // namespace lithify::fleet
