#include "maintain/lease.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "embed/claim_holder.h"
#include "maintain/lease_guard.h"

namespace lithify::maintain {
namespace {

using job::LogRow;
using job::LogView;

int64_t ToMs(Time t) {
  return std::chrono::floor<std::chrono::milliseconds>(t.time_since_epoch()).count();
}
Time FromMs(int64_t ms) { return Time(std::chrono::milliseconds(ms)); }
int64_t ToMs(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

class NoLease final : public Lease {
 public:
  NoLease(const Clock& clock, Random& random) : clock_(clock), random_(random) {}

  Result<ClaimResult> Claim(const std::string& key, Duration ttl,
                            const CancelFlag& /*cancel*/) override {
    ClaimResult result;
    result.claim = {key, MakeUuidV7(clock_, random_), clock_.Now() + ttl};
    return result;
  }
  Result<ClaimResult> Renew(const OwnClaim& claim, Duration ttl,
                            const CancelFlag& /*cancel*/) override {
    ClaimResult result;
    result.claim = {claim.key, claim.id, clock_.Now() + ttl};
    return result;
  }
  Status Release(const OwnClaim& /*claim*/, const CancelFlag& /*cancel*/) override { return {}; }
  std::string_view name() const override { return "none"; }

 private:
  const Clock& clock_;
  Random& random_;
};

class CatalogLease final : public Lease {
 public:
  CatalogLease(job::MaintenanceLog& log, CatalogLeaseOptions options, const Clock& clock,
               Random& random)
      : log_(log), options_(std::move(options)), clock_(clock), random_(random) {}

  Result<ClaimResult> Claim(const std::string& key, Duration ttl,
                            const CancelFlag& cancel) override;
  Result<ClaimResult> Renew(const OwnClaim& claim, Duration ttl, const CancelFlag& cancel) override;
  Status Release(const OwnClaim& claim, const CancelFlag& cancel) override;
  std::string_view name() const override { return "catalog"; }

 private:
  struct Seen {
    LogView view;
    std::vector<ClaimState> claims;
  };
  Result<Seen> Look(const std::string& key, const CancelFlag& cancel);
  bool Holds(const ClaimState& claim, int64_t now_ms) const {
    return !claim.ended && claim.until_ms > now_ms &&
           claim.started_ms <= now_ms + ToMs(options_.skew_max);
  }
  LogRow ClaimRow(const std::string& key, const std::string& id, int64_t now_ms,
                  int64_t until_ms) const;
  LogRow EndRow(const std::string& key, const ClaimState& claim, int64_t now_ms,
                std::string note) const;
  // One attempt; nullopt: somebody else wrote to the log meanwhile.
  Result<std::optional<ClaimResult>> TryClaim(const std::string& key, const std::string& id,
                                              Duration ttl, const CancelFlag& cancel);
  Result<std::optional<ClaimResult>> TryRenew(const OwnClaim& claim, Duration ttl,
                                              const CancelFlag& cancel);
  // Appends on top of what was seen. False: the head was another one.
  Result<bool> AppendOn(const Seen& seen, const std::vector<LogRow>& rows,
                        const CancelFlag& cancel);
  template <typename Try>
  Result<ClaimResult> Repeat(const std::string& key, Try attempt);

  job::MaintenanceLog& log_;
  const CatalogLeaseOptions options_;
  const Clock& clock_;
  Random& random_;
};

// Files of older claims are not read (T17): they are neither live nor worth a note.
Result<CatalogLease::Seen> CatalogLease::Look(const std::string& key, const CancelFlag& cancel) {
  job::LogFilter filter;
  filter.trigger = std::string(job::log_trigger::kLease);
  filter.table_name = key;
  filter.finished_after_ms = ToMs(clock_.Now() - options_.skew_max);
  LITHIFY_TRY_ASSIGN(LogView view, log_.Read(filter, cancel));
  std::vector<ClaimState> claims = ClaimsOf(view.rows, key);
  return Seen{std::move(view), std::move(claims)};
}

LogRow CatalogLease::ClaimRow(const std::string& key, const std::string& id, int64_t now_ms,
                              int64_t until_ms) const {
  LogRow row;
  row.job_id = id;
  row.table_name = key;
  row.trigger = job::log_trigger::kLease;
  row.principal = options_.holder;
  row.started_at_ms = now_ms;
  row.finished_at_ms = until_ms;
  row.status = job::log_status::kClaimed;
  return row;
}

// It has the end of the claim that it ends, so that whoever reads the one reads the other.
LogRow CatalogLease::EndRow(const std::string& key, const ClaimState& claim, int64_t now_ms,
                            std::string note) const {
  LogRow row = ClaimRow(key, claim.id, now_ms, claim.until_ms);
  row.status = job::log_status::kReleased;
  if (!note.empty()) row.error = std::move(note);
  return row;
}

Result<bool> CatalogLease::AppendOn(const Seen& seen, const std::vector<LogRow>& rows,
                                    const CancelFlag& cancel) {
  const auto done =
      guard::kLeaseHead ? log_.AppendOn(seen.view, rows, cancel) : log_.Append(rows, cancel);
  if (done) return true;
  if (done.error().code == Code::kConflict) return false;
  return Fail(done.error());
}

template <typename Try>
Result<ClaimResult> CatalogLease::Repeat(const std::string& key, Try attempt) {
  for (int i = 0; i < options_.attempts; ++i) {
    LITHIFY_TRY_ASSIGN(auto result, attempt());
    if (result) return std::move(*result);
  }
  return Fail(Code::kConflict,
              "others wrote to the log " + std::to_string(options_.attempts) +
                  " times while this claim was to be written",
              log_.ident().ToString() + ", key " + key,
              "go on without a lease; if it happens often, use lease = \"none\"");
}

Result<std::optional<ClaimResult>> CatalogLease::TryClaim(const std::string& key,
                                                          const std::string& id, Duration ttl,
                                                          const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const Seen seen, Look(key, cancel));
  const int64_t now_ms = ToMs(clock_.Now());
  ClaimResult result;
  result.claim = {key, id, FromMs(now_ms + ToMs(ttl))};
  std::vector<LogRow> rows;
  for (const ClaimState& claim : seen.claims) {
    if (claim.ended) continue;
    if (Holds(claim, now_ms)) {
      if (claim.holder == options_.holder) {
        result.claim = {key, claim.id, FromMs(claim.until_ms)};
        result.reacquired = true;
      } else {
        result.kind = ClaimResult::Kind::kHeld;
        result.claim = {};
      }
      result.stolen_from.clear();
      result.holder = claim.holder;
      result.until = FromMs(claim.until_ms);
      return result;
    }
    if (claim.holder != options_.holder) result.stolen_from = claim.holder;
    rows.push_back(EndRow(
        key, claim, now_ms,
        "stolen by " + options_.holder +
            (claim.until_ms > now_ms
                 ? ": began by a clock that is ahead, at " + FormatTime(FromMs(claim.started_ms))
                 : ": ran out at " + FormatTime(FromMs(claim.until_ms)))));
  }
  LogRow row = ClaimRow(key, id, now_ms, ToMs(result.claim.until.time_since_epoch()));
  if (!result.stolen_from.empty()) row.error = "stolen from " + result.stolen_from;
  rows.push_back(std::move(row));
  LITHIFY_TRY_ASSIGN(const bool written, AppendOn(seen, rows, cancel));
  if (!written) return std::nullopt;
  return result;
}

Result<ClaimResult> CatalogLease::Claim(const std::string& key, Duration ttl,
                                        const CancelFlag& cancel) {
  const std::string id = MakeUuidV7(clock_, random_);
  return Repeat(key, [&] { return TryClaim(key, id, ttl, cancel); });
}

Result<std::optional<ClaimResult>> CatalogLease::TryRenew(const OwnClaim& claim, Duration ttl,
                                                          const CancelFlag& cancel) {
  LITHIFY_TRY_ASSIGN(const Seen seen, Look(claim.key, cancel));
  const int64_t now_ms = ToMs(clock_.Now());
  ClaimResult result;
  bool found = false;
  for (const ClaimState& state : seen.claims) {
    if (state.id == claim.id) {
      found = true;
      if (state.ended) result.kind = ClaimResult::Kind::kLost;
    } else if (Holds(state, now_ms)) {
      result.kind = ClaimResult::Kind::kLost;
      result.holder = state.holder;
    }
  }
  // So long ago that it is not even read any more.
  if (!found) result.kind = ClaimResult::Kind::kLost;
  if (result.kind == ClaimResult::Kind::kLost) return result;
  const int64_t until_ms = now_ms + ToMs(ttl);
  result.claim = {claim.key, claim.id, FromMs(until_ms)};
  LITHIFY_TRY_ASSIGN(const bool written,
                     AppendOn(seen, {ClaimRow(claim.key, claim.id, now_ms, until_ms)}, cancel));
  if (!written) return std::nullopt;
  return result;
}

Result<ClaimResult> CatalogLease::Renew(const OwnClaim& claim, Duration ttl,
                                        const CancelFlag& cancel) {
  return Repeat(claim.key, [&] { return TryRenew(claim, ttl, cancel); });
}

// What ends a claim depends on nothing that others write.
Status CatalogLease::Release(const OwnClaim& claim, const CancelFlag& cancel) {
  ClaimState state;
  state.id = claim.id;
  state.until_ms = ToMs(claim.until.time_since_epoch());
  const LogRow row = EndRow(claim.key, state, ToMs(clock_.Now()), {});
  const auto done = log_.Append(std::span(&row, 1), cancel);
  if (!done) return Fail(done.error());
  return {};
}

}  // namespace

std::string_view ClaimKindName(ClaimResult::Kind kind) {
  switch (kind) {
    case ClaimResult::Kind::kAcquired: return "acquired";
    case ClaimResult::Kind::kHeld: return "held";
    case ClaimResult::Kind::kLost: return "lost";
  }
  return "unknown";
}

std::vector<ClaimState> ClaimsOf(const std::vector<LogRow>& rows, std::string_view key) {
  std::map<std::string, ClaimState> claims;
  for (const LogRow& row : rows) {
    if (row.trigger != job::log_trigger::kLease || row.table_name != key) continue;
    const bool claimed = row.status == job::log_status::kClaimed;
    if (!claimed && row.status != job::log_status::kReleased) continue;
    const auto [at, fresh] = claims.try_emplace(row.job_id);
    ClaimState& claim = at->second;
    claim.id = row.job_id;
    claim.started_ms = fresh ? row.started_at_ms : std::min(claim.started_ms, row.started_at_ms);
    claim.until_ms = fresh ? row.finished_at_ms : std::max(claim.until_ms, row.finished_at_ms);
    // The row of an end may be somebody else's.
    if (claimed) claim.holder = row.principal;
    if (!claimed) claim.ended = true;
  }
  std::vector<ClaimState> out;
  for (auto& [id, claim] : claims) out.push_back(std::move(claim));
  return out;
}

std::string ProcessHolder() {
  static const std::string holder = [] {
    SystemRandom random;
    return embed::MakeClaimHolder(random);
  }();
  return holder;
}

std::unique_ptr<Lease> MakeNoLease(const Clock& clock, Random& random) {
  return std::make_unique<NoLease>(clock, random);
}

std::unique_ptr<Lease> MakeCatalogLease(job::MaintenanceLog& log, CatalogLeaseOptions options,
                                        const Clock& clock, Random& random) {
  return std::make_unique<CatalogLease>(log, std::move(options), clock, random);
}

}  // namespace lithify::maintain
