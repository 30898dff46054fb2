// Each rule of "Scan Planning" on its own, and all of them against the rules written out plainly.
#include "base/delete_index.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lithify::iceberg {
namespace {

using Indices = std::vector<int32_t>;

class LiveFiles {
 public:
  // Partitions 0 and 1 of spec 0, partition 2 of spec 1, partition 3 of an unpartitioned spec.
  LiveFiles() {
    live_.partitions = {{0, {int64_t{1}}}, {0, {int64_t{2}}}, {1, {int64_t{1}}}, {2, {}}};
    live_.unpartitioned = {false, false, false, true};
  }

  LiveFiles& Data(std::string path, int64_t sequence, int32_t partition = 0) {
    LiveDataFile file;
    file.path = std::move(path);
    file.sequence_number = sequence;
    file.partition = partition;
    live_.data_files.push_back(file);
    return *this;
  }
  LiveFiles& Equality(int64_t sequence, int32_t partition = 0) {
    return Add(FileContent::kEqualityDeletes, sequence, partition);
  }
  LiveFiles& Position(int64_t sequence, int32_t partition = 0, std::string lower = "",
                      std::string upper = "") {
    Add(FileContent::kPositionDeletes, sequence, partition);
    live_.delete_files.back().lower_path = std::move(lower);
    live_.delete_files.back().upper_path = std::move(upper);
    return *this;
  }
  LiveFiles& PositionOf(std::string path, int64_t sequence, int32_t partition = 0) {
    Add(FileContent::kPositionDeletes, sequence, partition);
    live_.delete_files.back().referenced_data_file = std::move(path);
    return *this;
  }
  LiveFiles& Vector(std::string path, int64_t sequence, int32_t partition = 0) {
    PositionOf(std::move(path), sequence, partition);
    live_.delete_files.back().deletion_vector = true;
    return *this;
  }

  std::vector<Indices> Applied() const {
    const DeleteIndex index(live_);
    std::vector<Indices> applied;
    for (size_t i = 0; i < live_.data_files.size(); ++i) {
      applied.push_back(index.AppliesTo(static_cast<int32_t>(i)));
    }
    return applied;
  }
  Indices Dangling() const { return DeleteIndex(live_).Dangling(); }
  LiveSet& live() { return live_; }

 private:
  LiveFiles& Add(FileContent content, int64_t sequence, int32_t partition) {
    LiveDeleteFile file;
    file.content = content;
    file.sequence_number = sequence;
    file.partition = partition;
    live_.delete_files.push_back(file);
    return *this;
  }

  LiveSet live_;
};

using Applied = std::vector<Indices>;

TEST(DeleteIndex, NothingApplies) {
  EXPECT_EQ(LiveFiles().Applied(), Applied{});
  EXPECT_EQ(LiveFiles().Data("a", 1).Data("b", 2, 3).Applied(), (Applied{{}, {}}));
  EXPECT_EQ(LiveFiles().Equality(5).Position(5).Vector("a", 5).Dangling(), (Indices{0, 1, 2}));
}

TEST(DeleteIndex, EqualityDeletesReachOlderDataOnly) {
  const LiveFiles files =
      LiveFiles().Data("a", 1).Data("b", 2).Data("c", 3).Equality(2).Equality(3).Equality(1);
  EXPECT_EQ(files.Applied(), (Applied{{0, 1}, {1}, {}}));
  EXPECT_EQ(files.Dangling(), (Indices{2}));
}

// I1: an output that keeps the plan's sequence number is reached by the delete that came after.
TEST(DeleteIndex, I1_OutputWithThePlansSequenceNumberIsStillReached) {
  EXPECT_EQ(LiveFiles().Data("output", 2).Equality(3).Applied(), (Applied{{0}}));
  EXPECT_EQ(LiveFiles().Data("output", 2).Equality(3).Dangling(), Indices{});
  // With the commit's number it would not be: the row would come back.
  EXPECT_EQ(LiveFiles().Data("output", 4).Equality(3).Applied(), (Applied{{}}));
  EXPECT_EQ(LiveFiles().Data("output", 4).Equality(3).Dangling(), (Indices{0}));
}

TEST(DeleteIndex, PositionDeletesReachDataOfTheSameCommitToo) {
  const LiveFiles files =
      LiveFiles().Data("a", 1).Data("b", 2).Data("c", 3).Position(2).PositionOf("c", 3).PositionOf(
          "c", 2);
  EXPECT_EQ(files.Applied(), (Applied{{0}, {0}, {1}}));
  EXPECT_EQ(files.Dangling(), (Indices{2}));
}

// I6: one file of position deletes covers both data files; it serves the one that is left.
TEST(DeleteIndex, I6_PartitionWidePositionDeletesServeEveryFileOfThePartition) {
  EXPECT_EQ(LiveFiles().Data("F1", 1).Data("F2", 1).Position(2, 0, "F1", "F2").Applied(),
            (Applied{{0}, {0}}));
  const LiveFiles after = LiveFiles().Data("F2", 1).Data("output", 2).Position(2, 0, "F1", "F2");
  EXPECT_EQ(after.Applied(), (Applied{{0}, {}}));
  EXPECT_EQ(after.Dangling(), Indices{});
  EXPECT_EQ(LiveFiles().Data("output", 2).Position(2, 0, "F1", "F2").Dangling(), (Indices{0}));
}

TEST(DeleteIndex, PathBoundsAreInclusiveAndMayBeUnknown) {
  const LiveFiles files = LiveFiles()
                              .Data("b", 1)
                              .Data("c", 1)
                              .Data("d", 1)
                              .Position(2, 0, "b", "c")
                              .Position(2, 0, "", "b")  // Lower unknown.
                              .Position(2, 0, "c", "")  // Upper unknown.
                              .Position(2, 0, "", "")   // Both.
                              .Position(2, 0, "ba", "bz")
                              .Position(2, 0, "e", "")
                              .Position(2, 0, "", "a");
  EXPECT_EQ(files.Applied(), (Applied{{0, 1, 3}, {0, 2, 3}, {2, 3}}));
  EXPECT_EQ(files.Dangling(), (Indices{4, 5, 6}));
}

TEST(DeleteIndex, PathsCompareAsUnsignedBytes) {
  EXPECT_EQ(LiveFiles().Data("\xc3\xa9", 1).Position(2, 0, "a", "z").Dangling(), (Indices{0}));
  EXPECT_EQ(LiveFiles().Data("\xc3\xa9", 1).Position(2, 0, "z", "\xff").Dangling(), Indices{});
}

// A delete that names its file is obeyed by readers wherever it is filed.
TEST(DeleteIndex, PartitionAndSpecMustBeEqualUnlessTheFileIsReferenced) {
  const LiveFiles files = LiveFiles()
                              .Data("a", 1, 0)
                              .Data("b", 1, 1)
                              .Data("c", 1, 2)
                              .Equality(2, 1)
                              .Position(2, 2)
                              .PositionOf("a", 2, 1)
                              .Vector("b", 2, 2);
  EXPECT_EQ(files.Applied(), (Applied{{2}, {0, 3}, {1}}));
  EXPECT_EQ(files.Dangling(), (Indices{}));
}

// I23: equality deletes of an unpartitioned spec are global; position deletes never are.
TEST(DeleteIndex, I23_OnlyEqualityDeletesOfAnUnpartitionedSpecAreGlobal) {
  const LiveFiles files = LiveFiles()
                              .Data("a", 1, 0)
                              .Data("b", 3, 2)
                              .Data("c", 1, 3)
                              .Equality(2, 3)
                              .Position(2, 3)
                              .Equality(4, 3);
  EXPECT_EQ(files.Applied(), (Applied{{0, 2}, {2}, {0, 1, 2}}));
  EXPECT_EQ(files.Dangling(), Indices{});
  // Global, although no data file is in its partition.
  EXPECT_EQ(LiveFiles().Data("a", 1, 0).Equality(2, 3).Position(2, 3).Dangling(), (Indices{1}));
}

TEST(DeleteIndex, ADeletionVectorReplacesPositionDeletesButNotEqualityDeletes) {
  const LiveFiles files = LiveFiles()
                              .Data("a", 1)
                              .Data("b", 1)
                              .Position(2, 0, "a", "a")
                              .PositionOf("a", 2)
                              .Vector("a", 3)
                              .PositionOf("a", 4)
                              .Equality(4)
                              .Position(2);
  EXPECT_EQ(files.Applied(), (Applied{{2, 4}, {4, 5}}));
  EXPECT_EQ(files.Dangling(), (Indices{0, 1, 3}));
}

TEST(DeleteIndex, ADeletionVectorOlderThanItsDataFileIsNone) {
  const LiveFiles files = LiveFiles().Data("a", 3).Vector("a", 2).Position(3).PositionOf("a", 3);
  EXPECT_EQ(files.Applied(), (Applied{{1, 2}}));
  EXPECT_EQ(files.Dangling(), (Indices{0}));
  EXPECT_EQ(LiveFiles().Data("a", 3).Vector("a", 3).Applied(), (Applied{{0}}));
}

// I11: two vectors for one file must not be an internal error, nor lose one.
TEST(DeleteIndex, I11_TwoDeletionVectorsOfOneFileAreBothTold) {
  const LiveFiles files =
      LiveFiles().Data("a", 1).PositionOf("a", 2).Vector("a", 2).PositionOf("a", 2).Vector("a", 3);
  EXPECT_EQ(files.Applied(), (Applied{{1, 3}}));
}

// I26: when a rewrite has left no data file, every delete is dead.
TEST(DeleteIndex, I26_WithoutDataFilesEveryDeleteDangles) {
  EXPECT_EQ(LiveFiles().Equality(2).Equality(2, 3).Position(2).Vector("gone", 2).Dangling(),
            (Indices{0, 1, 2, 3}));
  // Another partition's data keeps only the global one alive.
  EXPECT_EQ(LiveFiles()
                .Data("x", 1, 1)
                .Equality(2)
                .Equality(2, 3)
                .Position(2)
                .Vector("gone", 2)
                .Dangling(),
            (Indices{0, 2, 3}));
}

// The rules, one by one, as the specification words them.
std::vector<Indices> Plainly(const LiveSet& live) {
  std::vector<Indices> applied;
  for (const LiveDataFile& data : live.data_files) {
    Indices vectors;
    Indices positions;
    Indices equality;
    for (size_t i = 0; i < live.delete_files.size(); ++i) {
      const LiveDeleteFile& one = live.delete_files[i];
      const auto index = static_cast<int32_t>(i);
      const bool same = one.partition == data.partition;
      if (one.content == FileContent::kEqualityDeletes) {
        const bool global = live.unpartitioned[static_cast<size_t>(one.partition)];
        if (one.sequence_number > data.sequence_number && (same || global)) {
          equality.push_back(index);
        }
        continue;
      }
      if (one.sequence_number < data.sequence_number) continue;
      const bool named = one.referenced_data_file.empty()
                             ? same && one.lower_path <= data.path &&
                                   (one.upper_path.empty() || data.path <= one.upper_path)
                             : one.referenced_data_file == data.path;
      if (named) (one.deletion_vector ? vectors : positions).push_back(index);
    }
    Indices all = vectors.empty() ? positions : vectors;
    all.insert(all.end(), equality.begin(), equality.end());
    std::sort(all.begin(), all.end());
    applied.push_back(all);
  }
  return applied;
}

TEST(DeleteIndex, IsTheRulesOfTheSpecification) {
  const bool holds = rc::check([] {
    LiveFiles files;
    const auto path = [] { return "f" + std::to_string(*rc::gen::inRange(100, 130)); };
    const auto sequence = [] { return *rc::gen::inRange<int64_t>(0, 8); };
    const auto partition = [] { return *rc::gen::inRange(0, 4); };
    for (int i = *rc::gen::inRange(0, 30); i > 0; --i) files.Data(path(), sequence(), partition());
    for (int i = *rc::gen::inRange(0, 40); i > 0; --i) {
      switch (*rc::gen::inRange(0, 4)) {
        case 0: files.Equality(sequence(), partition()); break;
        case 1: files.PositionOf(path(), sequence(), partition()); break;
        case 2: files.Vector(path(), sequence(), partition()); break;
        default: {
          std::string lower = *rc::gen::arbitrary<bool>() ? path() : "";
          std::string upper = *rc::gen::arbitrary<bool>() ? path() : "";
          files.Position(sequence(), partition(), lower, upper);
        }
      }
    }
    const std::vector<Indices> expected = Plainly(files.live());
    RC_ASSERT(files.Applied() == expected);
    Indices dangling;
    for (size_t i = 0; i < files.live().delete_files.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      if (std::none_of(expected.begin(), expected.end(), [&](const Indices& applied) {
            return std::binary_search(applied.begin(), applied.end(), index);
          })) {
        dangling.push_back(index);
      }
    }
    RC_ASSERT(files.Dangling() == dangling);
  });
  EXPECT_TRUE(holds);
}

// A million data files and ten thousand deletes of each kind; a linear search would take 10^10
// steps (the time-out of the test is its bound).
TEST(DeleteIndex, TakesAMillionDataFiles) {
  constexpr int kFiles = 1'000'000;
  constexpr int kDeletes = 10'000;
  const auto path = [](int i) {
    return "s3://warehouse/db/table/data/day=2026-11-29/" + std::to_string(10'000'000 + i);
  };
  LiveFiles files;
  files.live().data_files.reserve(kFiles);
  for (int i = 0; i < kFiles; ++i) files.Data(path(i), 10, i % 4);
  for (int i = 0; i < kDeletes; ++i) {
    files.Position(20, i % 4, path(i * 100), path(i * 100 + 8));
    files.Equality(5, i % 4);
    files.PositionOf(path(i * 100 + 50), 20, (i * 100 + 50) % 4);
  }
  const DeleteIndex index(files.live());
  size_t applied = 0;
  for (int i = 0; i < kFiles; ++i) applied += index.AppliesTo(i).size();
  // Bounds of 9 paths hold 3 of partition 0, else 2 of each; i * 100 is in partition 0.
  EXPECT_EQ(applied, size_t{kDeletes / 4 * (3 + 2 + 2 + 2) + kDeletes});
  EXPECT_EQ(index.Dangling().size(), size_t{kDeletes});  // The equality deletes.
}

}  // namespace
}  // namespace lithify::iceberg
