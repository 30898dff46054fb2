// The buckets of one Iceberg table: with credentials that its catalog lends for it, else with those
// of the configuration and the environment (Q9).
#ifndef LITHIFY_EMBED_TABLE_BUCKETS_H_
#define LITHIFY_EMBED_TABLE_BUCKETS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog.h"
#include "embed/environment.h"
#include "storage/s3_access.h"
#include "storage/s3_loan.h"

namespace lithify::embed {

// What a catalog lends with a table: its storage credentials, or else its configuration, by the
// properties s3.access-key-id, s3.secret-access-key, s3.session-token,
// s3.session-token-expires-at-ms, s3.endpoint, client.region, s3.region and s3.path-style-access.
// None: it lends none. kCorrupt: half of a pair.
Result<std::vector<storage::Loan>> LoansOf(const catalog::LoadedTable& table);

// Begins the context of an error that a catalog gave which was asked for a loan: it is no word of a
// store.
inline constexpr std::string_view kAskedToLend = "the catalog, asked to lend credentials";

// Thread-safe.
class TableBuckets {
 public:
  // The table as a catalog gives it that was asked to lend credentials. Empty: nobody lends.
  using Lender = std::function<Result<catalog::LoadedTable>()>;

  // `own`: endpoint, region and addressing in it go before those of a loan; its keys are for what
  // nobody lends keys for. They, and those of the environment, go to no endpoint that a catalog
  // names. `clock` and `random` outlive this.
  TableBuckets(storage::S3Settings own, Environment environment, Lender lender, Clock& clock,
               Random& random);
  // Without credentials of its own, in whatever place they may be found: what nobody lends keys for
  // is kDenied (R001). Before the first Open().
  void OnlyLent() { only_lent_ = true; }
  ~TableBuckets();

  // S3Access::StopWhen(), of all that it opens. Before the first Open().
  void StopWhen(std::function<bool()> stop) { stop_ = std::move(stop); }

  // The store of a whole bucket for a canonical location in it. The lender is asked when the first
  // one is opened, and again before a loan runs out (I34). kDenied: the catalog lends, but not for
  // this.
  Result<std::shared_ptr<storage::Store>> Open(const std::string& bucket,
                                               const std::string& location);
  // With what such a location is reached, for messages, as far as is known yet: "the keys of [s3]".
  std::string Describe(std::string_view location);

  // Fresh loans, for somebody who works on the table elsewhere (Q9): with endpoint, region and
  // addressing as they are used here, and never with keys of this process. Empty: nobody lends.
  Result<std::vector<storage::Loan>> Lend();

 private:
  Result<storage::S3Access*> AccessFor(const std::string& location);
  Result<storage::S3Access*> Own(const std::string& location);
  Result<storage::S3Access*> Lent(const storage::Loan& loan);
  storage::S3Settings SettingsFor(const storage::Loan& loan) const;

  const storage::S3Settings own_;
  const Environment environment_;
  const Lender lender_;
  Clock& clock_;
  Random& random_;
  bool only_lent_ = false;
  std::function<bool()> stop_;
  std::mutex mutex_;
  std::optional<std::vector<storage::Loan>> loans_;
  std::unique_ptr<storage::S3Access> own_access_;
  std::map<std::string, std::unique_ptr<storage::S3Access>> lent_access_;  // By prefix.
};

}  // namespace lithify::embed

#endif  // LITHIFY_EMBED_TABLE_BUCKETS_H_
