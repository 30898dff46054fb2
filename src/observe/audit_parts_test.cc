// A log that goes on in a new file once one is full, with several processes and their deaths.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/random.h"
#include "observe/audit_line.h"
#include "observe/audit_log.h"
#include "observe/audit_posix.h"

namespace lithify::observe {
namespace {

namespace fs = std::filesystem;

AuditEvent Event(int64_t n) {
  AuditEvent event;
  event.time = Time(std::chrono::microseconds(1796000000123456 + n));
  event.job_id = "job-" + std::to_string(n);
  event.partition = "data/tenant_id=a/";
  event.rows = n;
  event.actor = "me";
  return event;
}

class AuditPartsTest : public testing::Test {
 protected:
  AuditPartsTest() {
    std::string pattern = (fs::temp_directory_path() / "lithify_parts_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/logs/audit.jsonl";
  }
  ~AuditPartsTest() override { fs::remove_all(directory_); }

  std::vector<int64_t> Rows(AuditLog& log) {
    const auto records = log.ReadAll();
    EXPECT_TRUE(records) << records.error().ToString();
    std::vector<int64_t> rows;
    if (!records) return rows;
    for (size_t i = 0; i < records->size(); ++i) {
      EXPECT_EQ((*records)[i].seq, i);
      rows.push_back((*records)[i].event.rows);
    }
    return rows;
  }
  std::vector<std::string> Parts() { return OlderParts(path_).value(); }

  std::string directory_;
  std::string path_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(AuditPartsTest, AFullFileIsContinuedInANewOne) {
  const auto log = OpenFileAuditLog(path_, {.max_bytes = 2000});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(log->Append(Event(i)));
  const auto parts = Parts();
  ASSERT_GE(parts.size(), 3U);
  EXPECT_EQ(parts[0], path_ + ".00000000000000000000");
  uint64_t next = 0;
  for (const std::string& part : parts) {
    EXPECT_EQ(FirstSeqOf(part), next) << part;
    const std::string text = ReadFile(part);
    EXPECT_LE(text.size(), 2000U);
    EXPECT_TRUE(text.ends_with('\n'));
    next += static_cast<uint64_t>(std::ranges::count(text, '\n'));
  }
  EXPECT_EQ(Rows(*log).size(), 20U);
  // Readers and writers that know of no limit go on all the same.
  const auto other = OpenFileAuditLog(path_);
  ASSERT_TRUE(other->Append(Event(20)));
  EXPECT_EQ(Rows(*other).back(), 20);
  EXPECT_EQ(Parts().size(), parts.size());
}

TEST_F(AuditPartsTest, ALineBeyondTheLimitHasAFileOfItsOwn) {
  const auto log = OpenFileAuditLog(path_, {.max_bytes = 1000});
  AuditEvent large = Event(1);
  large.inputs.assign(300, "x.parquet");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log->Append(large));
  EXPECT_EQ(Parts().size(), 2U);
  EXPECT_EQ(Rows(*log).size(), 3U);
}

TEST_F(AuditPartsTest, ADeathBetweenRenamingAndTheNextFileLosesNothing) {
  const auto log = OpenFileAuditLog(path_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log->Append(Event(i)));
  fs::rename(path_, OlderPart(path_, 0));
  EXPECT_EQ(Rows(*log).size(), 3U);
  // Another one, after it has made the file.
  std::ofstream(path_).flush();
  EXPECT_EQ(Rows(*log).size(), 3U);
  // And another, in the middle of the first line.
  std::ofstream(path_) << "{\"time\":\"20";
  bool torn = false;
  ASSERT_TRUE(log->ReadAll(&torn));
  EXPECT_TRUE(torn);
  ASSERT_TRUE(log->Append(Event(3)));
  EXPECT_EQ(Rows(*log), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(AuditPartsTest, ATornLineIsCoveredInTheFileThatItIsIn) {
  const auto log = OpenFileAuditLog(path_, {.max_bytes = 1000});
  ASSERT_TRUE(log->Append(Event(0)));
  std::ofstream(path_, std::ios::app) << std::string(900, 'x');
  ASSERT_TRUE(log->Append(Event(1)));
  EXPECT_EQ(Parts().size(), 0U);
  ASSERT_TRUE(log->Append(Event(2)));
  EXPECT_EQ(Parts().size(), 1U);
  EXPECT_EQ(Rows(*log).size(), 3U);
}

TEST_F(AuditPartsTest, APartThatIsMissingOrAlteredIsFound) {
  const auto log = OpenFileAuditLog(path_, {.max_bytes = 1500});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(log->Append(Event(i)));
  const auto parts = Parts();
  ASSERT_GE(parts.size(), 3U);
  const std::string text = ReadFile(parts[1]);
  fs::remove(parts[1]);
  EXPECT_EQ(log->ReadAll().error().code, Code::kCorrupt);
  std::string altered = text;
  altered[altered.find("job-")] = 'J';
  std::ofstream(parts[1]) << altered;
  EXPECT_EQ(log->ReadAll().error().code, Code::kCorrupt);
  EXPECT_TRUE(log->ReadAll().error().context.starts_with(parts[1] + ": line 1"));
  std::ofstream(parts[1]) << text;
  EXPECT_EQ(Rows(*log).size(), 20U);
}

TEST_F(AuditPartsTest, APartOfThatNameIsNotReplaced) {
  const auto log = OpenFileAuditLog(path_, {.max_bytes = 600});
  ASSERT_TRUE(log->Append(Event(0)));
  std::ofstream(OlderPart(path_, 0)) << "evidence";
  const Status second = log->Append(Event(1));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kCorrupt);
  EXPECT_EQ(ReadFile(OlderPart(path_, 0)), "evidence");
}

TEST_F(AuditPartsTest, ReadersSeeAPrefixWhileOthersAppend) {
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    const auto log = OpenFileAuditLog(path_, {.max_bytes = 1200});
    for (int i = 0; i < 150; ++i) ASSERT_TRUE(log->Append(Event(i)));
    done = true;
  });
  const auto log = OpenFileAuditLog(path_);
  size_t seen = 0;
  while (!done) {
    const size_t now = Rows(*log).size();
    EXPECT_GE(now, seen);
    seen = now;
  }
  writer.join();
  EXPECT_EQ(Rows(*log).size(), 150U);
}

// A child that appends until it is killed, and tells by the pipe what was acknowledged.
void AppendForEver(const std::string& path, int pipe, int64_t writer) {
  const auto log = OpenFileAuditLog(path, {.max_bytes = 1500});
  for (int64_t i = 0; i < 100'000; ++i) {
    if (!log->Append(Event(writer * 100'000 + i))) _exit(1);
    if (write(pipe, &i, sizeof i) != sizeof i) _exit(2);
  }
  _exit(0);
}

// What is acknowledged is there, once and in each writer's order, whoever dies when.
TEST_F(AuditPartsTest, ProcessesThatAreKilledLoseAndReorderNothing) {
  constexpr int kRounds = 12;
  SeededRandom random(7);
  std::map<int64_t, int64_t> acknowledged;  // By writer: how many.
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::pair<pid_t, int>> children;
    for (int i = 0; i < 2; ++i) {
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        close(ends[0]);
        AppendForEver(path_, ends[1], round * 2 + i);
      }
      close(ends[1]);
      children.emplace_back(child, ends[0]);
    }
    for (size_t i = 0; i < children.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(3000 + random.Next() % 40'000));
      ASSERT_EQ(kill(children[i].first, SIGKILL), 0);
      int status = 0;
      ASSERT_EQ(waitpid(children[i].first, &status, 0), children[i].first);
      ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
      int64_t told = 0;
      const int64_t writer = round * 2 + static_cast<int64_t>(i);
      while (read(children[i].second, &told, sizeof told) == sizeof told) {
        acknowledged[writer] = told + 1;
      }
      close(children[i].second);
    }
  }
  const auto log = OpenFileAuditLog(path_, {.max_bytes = 1500});
  ASSERT_TRUE(log->Append(Event(-1)));
  std::map<int64_t, int64_t> found;
  for (const int64_t row : Rows(*log)) {
    if (row < 0) continue;
    EXPECT_EQ(row % 100'000, found[row / 100'000]++) << "of writer " << row / 100'000;
  }
  int64_t all = 0;
  for (const auto& [writer, count] : acknowledged) {
    // One more may be there: it died before it could tell.
    EXPECT_GE(found[writer], count) << writer;
    EXPECT_LE(found[writer], count + 1) << writer;
    all += count;
  }
  EXPECT_GT(all, 20) << "nothing was tried";
  EXPECT_GT(Parts().size(), 3U);
}

}  // namespace
}  // namespace lithify::observe
