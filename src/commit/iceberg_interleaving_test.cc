// Seeded interleavings of rewrites with every kind of concurrent change, against a model that knows
// each row: what a reader sees must always be what the writers of rows left (I1, I4, I5, I6, I8,
// I10, T14).
#include <map>
#include <set>
#include <utility>

#include "commit/iceberg_commit.h"
#include "commit/iceberg_fixture.h"

namespace lithify::commit {
namespace {

using catalog::MemoryCatalog;
using iceberg::FileContent;

using Ids = std::multiset<int64_t>;

// A delete file, by what is in it.
struct ModelDelete {
  std::set<std::pair<std::string, size_t>> positions;  // (name of a data file, row).
  std::set<int64_t> ids;                               // Equality.
};

class IcebergInterleaving : public IcebergTable {
 protected:
  size_t Roll(size_t n) { return n == 0 ? 0 : random_.Next() % n; }

  // --- what a reader sees [Scan Planning] --------------------------------------------------------

  bool Deletes(const iceberg::ManifestEntry& entry, const iceberg::ManifestEntry& data,
               size_t row) {
    const ModelDelete& model = deletes_.at(NameOf(entry.file));
    const std::string name = NameOf(data.file);
    if (entry.file.content == FileContent::kPositionDeletes) {
      return data.sequence_number <= entry.sequence_number && model.positions.contains({name, row});
    }
    return data.sequence_number < entry.sequence_number &&
           data.file.partition == entry.file.partition && model.ids.contains(files_.at(name)[row]);
  }
  // Rows of one data file that are live.
  std::vector<size_t> LiveRows(const Entries& live, const std::string& name) {
    std::vector<size_t> rows;
    for (size_t row = 0; row < files_.at(name).size(); ++row) {
      bool deleted = false;
      for (const auto& [other, entry] : live) {
        deleted |= entry.file.content != FileContent::kData && Deletes(entry, live.at(name), row);
      }
      if (!deleted) rows.push_back(row);
    }
    return rows;
  }
  Ids Visible(const Entries& live) {
    Ids ids;
    for (const auto& [name, entry] : live) {
      if (entry.file.content != FileContent::kData) continue;
      EXPECT_TRUE(files_.contains(name)) << name << " was removed and is live";
      if (!files_.contains(name)) continue;
      for (const size_t row : LiveRows(live, name)) ids.insert(files_.at(name)[row]);
    }
    return ids;
  }
  static std::vector<std::string> DataFiles(const Entries& live, std::optional<int64_t> day = {}) {
    std::vector<std::string> names;
    for (const auto& [name, entry] : live) {
      if (entry.file.content != FileContent::kData) continue;
      if (!day || entry.file.partition[0] == iceberg::Value(*day)) names.push_back(name);
    }
    return names;
  }

  // --- writers of rows
  // -----------------------------------------------------------------------------

  void AppendRows() {
    const std::string name = "f" + std::to_string(++names_);
    const int64_t day = 1 + static_cast<int64_t>(Roll(2));
    std::vector<int64_t> rows;
    // Few ids per day, so that deleted ones come back.
    for (size_t n = 1 + Roll(4); n > 0; --n) {
      rows.push_back(day * 100 + static_cast<int64_t>(Roll(12)));
    }
    Append({Data(name, static_cast<int64_t>(rows.size()), day)});
    truth_.insert(rows.begin(), rows.end());
    files_[name] = std::move(rows);
  }

  void DeletePosition() {
    const Entries live = Live();
    const std::vector<std::string> names = DataFiles(live);
    if (names.empty()) return;
    const std::string name = names[Roll(names.size())];
    const std::vector<size_t> rows = LiveRows(live, name);
    if (rows.empty()) return;
    const size_t row = rows[Roll(rows.size())];
    truth_.extract(files_.at(name)[row]);
    const int64_t day = std::get<int64_t>(live.at(name).file.partition[0]);
    Change change{"delete", {}, {}, "main", {}};
    ModelDelete model{{{name, row}}, {}};
    const std::string id = std::to_string(++names_);
    if (version_ == 3) {
      for (const auto& [other, entry] : live) {
        if (entry.file.referenced_data_file != Path(name)) continue;
        model.positions.merge(deletes_.at(other).positions);
        change.removed.insert(other);
      }
      iceberg::DataFile vector = Vector("v" + id, name);
      vector.partition = {iceberg::Value(day)};
      vector.record_count = static_cast<int64_t>(model.positions.size());
      change.added = {vector};
    } else {
      // Of one file, or of any.
      change.added = {Positions("p" + id, Roll(2) == 0 ? name : "", day)};
      if (Roll(2) == 0) change.added[0].lower_bounds = {{iceberg::kFilePathFieldId, Path(name)}};
    }
    deletes_[NameOf(change.added[0])] = std::move(model);
    Commit(change);
  }

  void DeleteEqual() {
    const Entries live = Live();
    const int64_t day = 1 + static_cast<int64_t>(Roll(2));
    const int64_t id = day * 100 + static_cast<int64_t>(Roll(12));
    const std::string name = "e" + std::to_string(++names_);
    truth_.erase(id);
    deletes_[name] = ModelDelete{{}, {id}};
    Delete({Equality(name, day)});
  }

  void RemoveFile() {
    const Entries live = Live();
    const std::vector<std::string> names = DataFiles(live);
    if (names.empty()) return;
    const std::string name = names[Roll(names.size())];
    for (const size_t row : LiveRows(live, name)) truth_.extract(files_.at(name)[row]);
    Remove({name});
  }

  void MergeManifests() {
    IcebergCommitter::ManifestRewrite request;
    request.ident = ident_;
    request.job_id = "merge-" + std::to_string(++names_);
    const auto merged = Committer().RewriteManifests(request, cancel_);
    EXPECT_TRUE(merged) << merged.error().ToString();
  }

  void Act() {
    switch (Roll(8)) {
      case 0:
      case 1: return AppendRows();
      case 2:
      case 3: return DeletePosition();
      case 4: return DeleteEqual();
      case 5: return RemoveFile();
      case 6: return MergeManifests();
      default: return Rewrite(true);
    }
  }

  // --- the rewrite
  // -----------------------------------------------------------------------------------

  // Some files of one day, their live rows in one new file, and all deletes offered for removal.
  std::optional<RewriteCommit> PlanRewrite(const std::string& output) {
    const Entries live = Live();
    const int64_t day = 1 + static_cast<int64_t>(Roll(2));
    std::vector<std::string> names = DataFiles(live, day);
    std::erase_if(names, [&](const std::string&) { return Roll(3) == 0; });
    if (names.empty()) return std::nullopt;
    RewriteCommit request;
    request.ident = ident_;
    request.job_id = "job-" + output;
    request.planned_snapshot_id = Head().snapshot_id;
    request.planned_sequence_number = Head().sequence_number;
    std::vector<int64_t> kept;
    for (const std::string& name : names) {
      const std::vector<size_t> rows = LiveRows(live, name);
      for (const size_t row : rows) kept.push_back(files_.at(name)[row]);
      const auto all = static_cast<int64_t>(files_.at(name).size());
      request.inputs.push_back({Path(name), all, all - static_cast<int64_t>(rows.size())});
      if (Roll(2) == 0) request.inputs.back().partition = iceberg::PartitionKey{0, {day}};
    }
    if (!kept.empty()) {
      request.outputs.push_back(Data(output, static_cast<int64_t>(kept.size()), day));
      EXPECT_TRUE(store_->PutNew("t/data/" + output, std::string(100, 'x')));
    }
    files_[output] = std::move(kept);
    for (const auto& [name, entry] : live) {
      if (entry.file.content == FileContent::kData) continue;
      DeleteRef ref{entry.file.file_path, entry.file.content_offset};
      if (entry.file.content == FileContent::kPositionDeletes && Roll(2) == 0) {
        for (const auto& [file, row] : deletes_.at(name).positions) ref.paths.push_back(Path(file));
      }
      request.removed_deletes.push_back(std::move(ref));
    }
    return request;
  }

  void Rewrite(bool nested) {
    const std::string output = "o" + std::to_string(++names_);
    const auto request = PlanRewrite(output);
    if (!request) return;
    if (!nested) {
      for (size_t n = Roll(3); n > 0; --n) Act();
    }
    in_rewrite_ = !nested;
    const auto done = Run(*request);
    in_rewrite_ = false;
    if (done) {
      ++committed_;
      return;
    }
    // The last attempt's request was lost: it may still be on its way, so all files stay.
    if (done.error().code == Code::kUnknownOutcome) return;
    EXPECT_EQ(CodeName(done.error().code), CodeName(Code::kConflict)) << done.error().ToString();
    ++conflicts_;
    files_.erase(output);  // The job removes it.
    (void)store_->Remove("t/data/" + output);
  }

  // Now and then somebody gets in between validation and commit, or a reply is lost.
  void SetHooks() {
    MemoryCatalog::Hooks hooks;
    hooks.fault = [this](const catalog::TableIdent&) {
      if (!in_rewrite_ || in_actor_ || Roll(4) != 0) return MemoryCatalog::Fault::kNone;
      return Roll(2) == 0 ? MemoryCatalog::Fault::kLostAfterApply
                          : MemoryCatalog::Fault::kLostBeforeApply;
    };
    hooks.before_apply = [this](const catalog::TableIdent&) {
      if (!in_rewrite_ || in_actor_ || Roll(3) != 0) return;
      in_actor_ = true;
      switch (Roll(4)) {
        case 0: AppendRows(); break;
        case 1: DeletePosition(); break;
        case 2: DeleteEqual(); break;
        default: RemoveFile(); break;
      }
      in_actor_ = false;
    };
    catalog_.set_hooks(std::move(hooks));
  }

  void RunSeed(int version, uint64_t rounds) {
    version_ = version;
    Create(version);
    SetHooks();
    for (uint64_t round = 0; round < rounds; ++round) {
      AppendRows();
      Act();
      Rewrite(false);
      ASSERT_EQ(Visible(Live()), truth_) << "round " << round;
    }
  }

  int version_ = 2;
  int names_ = 0;
  int committed_ = 0;
  int conflicts_ = 0;
  bool in_rewrite_ = false;
  bool in_actor_ = false;
  Ids truth_;
  std::map<std::string, std::vector<int64_t>> files_;  // Rows of each data file.
  std::map<std::string, ModelDelete> deletes_;
};

class IcebergInterleavings : public IcebergInterleaving, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    for (int i = 0; i < GetParam(); ++i) random_.Next();
  }
};

TEST_P(IcebergInterleavings, RowsAreWhatTheirWritersLeftInVersion2) {
  RunSeed(2, 8);
  EXPECT_GT(committed_ + conflicts_, 0);
}

TEST_P(IcebergInterleavings, RowsAreWhatTheirWritersLeftInVersion3) {
  RunSeed(3, 8);
  EXPECT_GT(committed_ + conflicts_, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, IcebergInterleavings, testing::Range(0, 12));

}  // namespace
}  // namespace lithify::commit
