// What a coordinator and a worker say to each other (R129, R130), as bytes: JSON, and the new data
// files in it as Avro manifests, one per partition spec. docs/FLEET.md lists the members.
//
// Bytes come from strangers until their signature was checked, and are believed in nothing after
// that: sizes, counts and nesting are bounded, and a member that is not known, stands twice or is
// of another type is refused, since what is not understood must not be left out. Nothing here
// crashes on them.
//
// Errors of decoding: kInvalid (an order), kCorrupt (an answer), kLimit, with the member's name and
// never a value of it. Thread safety: pure functions.
#ifndef LITHIFY_FLEET_WIRE_H_
#define LITHIFY_FLEET_WIRE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/secret.h"
#include "fleet/worker_link.h"
#include "group/table_group.h"
#include "storage/s3_loan.h"

namespace lithify::fleet {

// Types of Flight's actions. All but the first two are signed.
inline constexpr std::string_view kHealth = "health";
inline constexpr std::string_view kHello = "hello";
inline constexpr std::string_view kStatus = "status";
inline constexpr std::string_view kCompact = "compact_file_group";
inline constexpr std::string_view kAdopt = "adopt_outputs";
inline constexpr std::string_view kDrop = "drop_attempt";
inline constexpr std::string_view kRefresh = "refresh_credentials";

inline constexpr size_t kRequestBytesMax = size_t{32} << 20;
inline constexpr size_t kAnswerBytesMax = size_t{256} << 20;
inline constexpr size_t kFilesMax = 200'000;       // Of one order.
inline constexpr size_t kLocationBytesMax = 4096;  // Of one of them.
inline constexpr size_t kLoansMax = 64;

// --- requests ------------------------------------------------------------------------------------

// Bodies hold keys: they are secrets. Of the settings of a loan CA file and proxy stay behind: they
// are of the machine. kInvalid, kUnsupported: what cannot be written so.
Result<Secret> EncodeOrder(const GroupOrder& order);
Result<GroupOrder> DecodeOrder(std::string_view body);
// For logs: without a key, and with the number of files instead of their names.
std::string DescribeOrder(const GroupOrder& order);

// Of kAdopt, kDrop and, with loans, kRefresh.
struct AttemptRequest {
  std::string attempt;
  std::vector<storage::Loan> loans = {};
};
Result<Secret> EncodeAttempt(const AttemptRequest& request);
Result<AttemptRequest> DecodeAttempt(std::string_view body);

// --- answers -------------------------------------------------------------------------------------

// Of kCompact, as often as the worker likes; `moved`: the rewrite has moved since the last one. One
// that has not says that the worker is there, and nothing of its group.
struct ProgressFrame {
  int64_t group_id = 0;
  int64_t bytes_read = 0;  // Of input, in all.
  bool moved = false;
  bool operator==(const ProgressFrame&) const = default;
};
// The last one of kCompact. Metrics and split offsets of report.outputs do not go along: `outputs`
// has them. Nor do named paths: nobody would believe them, and they are long.
struct DoneFrame {
  int64_t group_id = 0;
  group::GroupResult result;
};
// The last one of any action.
struct FailedFrame {
  LinkError error;
};
struct AcceptedFrame {};
using Frame = std::variant<ProgressFrame, DoneFrame, FailedFrame, AcceptedFrame, WorkerStatus>;

// kUnsupported: a DoneFrame with what cannot be written so.
Result<std::string> EncodeFrame(const Frame& frame);
Result<Frame> DecodeFrame(std::string_view body);

}  // namespace lithify::fleet

#endif  // LITHIFY_FLEET_WIRE_H_
