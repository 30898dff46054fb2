#include <nlohmann/json.hpp>
#include <utility>

#include "observe/audit_line.h"

namespace lithify::observe {

using Json = nlohmann::ordered_json;

ChainWalker::Break ChainWalker::SkipWrong(std::string_view line, Error error) {
  Break found{.trouble = Trouble::kUnreadable,
              .what = std::move(error.message),
              .seq = std::nullopt,
              .record = std::nullopt};
  const Json object = Json::parse(line, nullptr, false);
  if (object.is_object() && object.contains("integrity")) {
    found.trouble = Trouble::kEdited;
    const Json& integrity = object["integrity"];
    const auto seq = integrity.is_object() ? integrity.find("seq") : integrity.end();
    if (seq != integrity.end() && seq->is_number_unsigned()) found.seq = seq->get<uint64_t>();
  }
  // What it says of itself may be wrong, too: a number far off is not believed.
  constexpr uint64_t kNear = 1000;
  const bool near = found.seq && *found.seq >= next_seq_ && *found.seq - next_seq_ < kNear;
  next_seq_ = near ? *found.seq + 1 : next_seq_ + 1;
  hash_.reset();
  return found;
}

std::expected<std::optional<AuditRecord>, ChainWalker::Break> ChainWalker::Line(
    std::string_view line, bool ended) {
  if (!ended || line.ends_with(kTornMark)) {
    if (fragment_) {
      fragment_->append("\n").append(line);
    } else {
      fragment_ = std::string(line);
    }
    return std::nullopt;
  }
  const std::optional<std::string> fragment = std::exchange(fragment_, std::nullopt);
  auto parsed = ParseAuditLine(line);
  if (!parsed) return std::unexpected(SkipWrong(line, std::move(parsed.error())));
  const uint64_t seq = parsed->record.seq;
  const auto broken = [&](Trouble trouble, std::string what) {
    return std::unexpected(Break{.trouble = trouble,
                                 .what = std::move(what),
                                 .seq = seq,
                                 .record = std::move(parsed->record)});
  };
  if (seq != next_seq_) {
    std::string what = "expected seq " + std::to_string(next_seq_) + ", found " +
                       std::to_string(seq) + ": lines were removed, added or reordered";
    if (seq < next_seq_) return broken(Trouble::kReordered, std::move(what));
    next_seq_ = seq + 1;
    hash_ = parsed->record.hash;
    return broken(Trouble::kGap, std::move(what));
  }
  const bool continues = !hash_ || parsed->prev_hash == *hash_;
  next_seq_ += 1;
  hash_ = parsed->record.hash;
  if (!continues) {
    return broken(Trouble::kBroken, "prev_hash is not the hash of the record before it");
  }
  if (parsed->torn != (fragment ? Sha256Hex(*fragment) : std::string())) {
    return broken(Trouble::kTorn, "the torn fragment before this line is not the one it covers");
  }
  if (fragment) ++fragments_;
  return std::move(parsed->record);
}

}  // namespace lithify::observe
