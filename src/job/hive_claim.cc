#include "job/hive_claim.h"

#include <utility>

#include "job/hive_memory.h"

namespace lithify::job {
namespace {

// Somebody else's claim may come or go between two looks, but not for ever.
constexpr int kTriesMax = 3;

}  // namespace

PartitionClaim::PartitionClaim(const HiveServices& services, const PartitionId& id,
                               const std::string& job_id, Duration ttl)
    : services_(services),
      key_(id.key_prefix + std::string(kClaimName)),
      job_id_(job_id),
      ttl_(ttl) {}

PartitionClaim::~PartitionClaim() { Release(); }

std::optional<table::HiveClaim> PartitionClaim::Take() {
  services_.memory->BeginWork(job_id_);
  tried_ = true;
  std::optional<table::HiveClaim> other;
  doubt_.reset();
  for (int i = 0; i < kTriesMax; ++i) {
    auto tried = TryOnce(other);
    if (!tried) {
      Note("goes on without a claim: " + tried.error().ToString());
      return std::nullopt;
    }
    if (*tried == Tried::kTaken) return other;
    if (*tried == Tried::kDone) {
      renew_at_ = (services_.clock.Monotonic() + ttl_ / 2).count();
      held_ = true;
      return std::nullopt;
    }
  }
  Note("goes on without a claim: " + (doubt_ ? doubt_->ToString() : key_ + " kept changing"));
  return std::nullopt;
}

table::HiveClaim PartitionClaim::Make() const {
  const Time now = services_.clock.Now();
  return {.holder = services_.memory->holder(),
          .job_id = job_id_,
          .claimed_at = now,
          .expires_at = now + ttl_};
}

Result<PartitionClaim::Tried> PartitionClaim::TryOnce(std::optional<table::HiveClaim>& other) {
  Status put = services_.store.PutNew(key_, table::SerializeClaim(Make()));
  if (put) return Tried::kDone;
  if (put.error().code == Code::kUnknownOutcome) return InDoubt(std::move(put.error()));
  if (put.error().code != Code::kConflict) return Fail(std::move(put.error()));
  auto blob = services_.store.Get(key_, table::kClaimBytesMax);
  if (!blob && blob.error().code == Code::kNotFound) return Tried::kAgain;  // Released meanwhile.
  if (!blob) return Fail(std::move(blob.error()));
  // What is no claim of a lithify's belongs to somebody else, and stays.
  auto claim = table::ParseClaim(blob->bytes);
  if (!claim) return Fail(std::move(claim.error()).In(key_));
  if (IsOurs(*claim)) return Tried::kDone;  // A try that was in doubt.
  if (table::IsLiveClaim(*claim, services_.clock.Now()) && !services_.memory->IsAbandoned(*claim)) {
    other = std::move(*claim);
    return Tried::kTaken;
  }
  put = services_.store.PutIf(key_, table::SerializeClaim(Make()), blob->version);
  if (put) return Tried::kDone;
  if (put.error().code == Code::kConflict) return Tried::kAgain;
  if (put.error().code == Code::kUnknownOutcome) return InDoubt(std::move(put.error()));
  return Fail(std::move(put.error()));
}

// The next look shows what became of it.
PartitionClaim::Tried PartitionClaim::InDoubt(Error error) {
  doubt_ = std::move(error);
  return Tried::kAgain;
}

void PartitionClaim::Renew() {
  if (!held_ || services_.clock.Monotonic().count() < renew_at_) return;
  const std::unique_lock lock(renewing_, std::try_to_lock);
  if (!lock.owns_lock() || services_.clock.Monotonic().count() < renew_at_) return;
  // Also after a failure: once in a while is often enough.
  renew_at_ = (services_.clock.Monotonic() + ttl_ / 2).count();
  if (Status renewed = RenewNow(); !renewed) {
    Note("the claim was not renewed: " + renewed.error().ToString());
  }
}

Status PartitionClaim::RenewNow() {
  LITHIFY_TRY_ASSIGN(const storage::Blob blob, services_.store.Get(key_, table::kClaimBytesMax));
  LITHIFY_TRY_ASSIGN(table::HiveClaim claim, table::ParseClaim(blob.bytes));
  if (!IsOurs(claim)) {
    held_ = false;
    return Fail(Code::kConflict, claim.holder + " has taken it over", key_);
  }
  claim.expires_at = services_.clock.Now() + ttl_;
  return services_.store.PutIf(key_, table::SerializeClaim(claim), blob.version);
}

void PartitionClaim::Release() {
  if (!tried_) return;
  tried_ = false;
  held_ = false;
  Remove();
  // Last: as long as the claim is there, other jobs of this process are to see that we are.
  services_.memory->EndWork(job_id_);
}

void PartitionClaim::Remove() {
  // Also where a claim is not known to have succeeded. Between the look and the removal somebody
  // may take over an expired claim; that costs work, no more.
  const auto blob = services_.store.Get(key_, table::kClaimBytesMax);
  if (!blob) return;
  const auto claim = table::ParseClaim(blob->bytes);
  if (!claim || !IsOurs(*claim)) return;
  Status removed = services_.store.Remove(key_);
  if (removed || removed.error().code == Code::kNotFound) return;
  Note("the claim is left behind, and expires: " + removed.error().ToString());
}

bool PartitionClaim::IsOurs(const table::HiveClaim& claim) const {
  return claim.holder == services_.memory->holder() && claim.job_id == job_id_;
}

void PartitionClaim::Note(std::string text) {
  const std::lock_guard lock(notes_mutex_);
  notes_.push_back(std::move(text));
}

std::vector<std::string> PartitionClaim::TakeNotes() {
  const std::lock_guard lock(notes_mutex_);
  return std::exchange(notes_, {});
}

}  // namespace lithify::job
