#include "observe/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "observe/audit_line.h"

namespace lithify::observe {
namespace {

using Phase = AuditEvent::Phase;

AuditEvent Event(int n, Phase phase = Phase::kIntent) {
  AuditEvent event;
  event.phase = phase;
  event.time = Time(std::chrono::microseconds(1796000000123456 + n));
  event.job_id = "job-" + std::to_string(n);
  event.series = "data";
  event.tenant = "a/b \"quoted\" é";
  event.partition = "data/tenant_id=a%2Fb/year=2026/month=11/day=29/hour=07/";
  event.inputs = {"x.parquet", "y.parquet"};
  event.outputs = {"z.parquet"};
  event.rows = n;
  event.bytes_in = 1000;
  event.bytes_out = 900;
  event.generation = 18446744073709551615ULL;
  event.row_digest = "00ff";
  event.error = phase == Phase::kAborted ? "lost\nthe race" : "";
  event.emitted_file = "audit/e.parquet";
  event.actor = "me";
  return event;
}

TEST(AuditLine, TheTreeIsAMemberOnlyWhereThereIsOne) {
  AuditEvent event = Event(1);
  EXPECT_EQ(AuditEventJson(event).find("\"tree\""), std::string::npos);
  event.tree = "/data/lake";
  EXPECT_NE(AuditEventJson(event).find("\"tree\":\"/data/lake\""), std::string::npos);
  ChainHead head;
  const auto line = ParseAuditLine(MakeAuditLine(event, {}, head));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->record.event.tree, "/data/lake");
  ChainHead other;
  EXPECT_EQ(ParseAuditLine(MakeAuditLine(Event(1), {}, other))->record.event.tree, "");
}

TEST(AuditLine, EventOfATableComesBack) {
  AuditEvent event = Event(3);
  event.series = event.tenant = event.partition = "";
  event.generation = 0;
  event.procedure = "rewrite_data_files";
  event.catalog = "sqlite:///lake/catalog.db";
  event.table = "sales.orders";
  event.snapshot_id = 7301942841984218431;
  const std::string text = AuditEventJson(event);
  EXPECT_NE(text.find("\"statement_type\":\"rewrite_data_files\""), std::string::npos);
  EXPECT_EQ(text.find("\"generation\""), std::string::npos);
  ChainHead head;
  const auto line = ParseAuditLine(MakeAuditLine(event, {}, head));
  ASSERT_TRUE(line) << line.error().ToString();
  EXPECT_EQ(line->record.event.table, "sales.orders");
  EXPECT_EQ(line->record.event.procedure, "rewrite_data_files");
  EXPECT_EQ(line->record.event.catalog, "sqlite:///lake/catalog.db");
  EXPECT_EQ(line->record.event.snapshot_id, 7301942841984218431);
}

class AuditFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "audit_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ + "/deep/er/audit.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  void Put(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  void AppendEvents(int from, int to) const {
    const auto log = OpenFileAuditLog(path_);
    for (int i = from; i < to; ++i) {
      const Status done = log->Append(Event(i));
      ASSERT_TRUE(done) << done.error().ToString();
    }
  }
  Result<std::vector<AuditRecord>> Read(bool* torn = nullptr) const {
    return OpenFileAuditLog(path_)->ReadAll(torn);
  }

  std::string directory_;
  std::string path_;
};

void ExpectEqual(const AuditEvent& a, const AuditEvent& b) {
  EXPECT_EQ(AuditEventJson(a), AuditEventJson(b));
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.phase, b.phase);
}

TEST(AuditLine, JsonHasTheFieldsOfR169) {
  AuditEvent event = Event(7, Phase::kAborted);
  EXPECT_EQ(AuditEventJson(event),
            "{\"time\":\"2026-11-30T00:53:20.123463Z\",\"kind\":\"maintenance\","
            "\"statement_type\":\"hive_compact\",\"phase\":\"aborted\",\"job_id\":\"job-7\","
            "\"actor\":{\"username\":\"me\"},\"status\":\"failure\",\"series\":\"data\","
            "\"tenant\":\"a/b \\\"quoted\\\" é\","
            "\"partition\":\"data/tenant_id=a%2Fb/year=2026/month=11/day=29/hour=07/\","
            "\"inputs\":[\"x.parquet\",\"y.parquet\"],\"outputs\":[\"z.parquet\"],\"rows\":7,"
            "\"bytes_in\":1000,\"bytes_out\":900,\"generation\":18446744073709551615,"
            "\"row_digest\":\"00ff\",\"error\":\"lost\\nthe "
            "race\",\"emitted_file\":\"audit/e.parquet\"}");
}

TEST(AuditLine, EveryPhaseSurvives) {
  ChainHead head;
  for (const Phase phase : {Phase::kIntent, Phase::kCommitted, Phase::kAborted, Phase::kUnknown,
                            Phase::kAdopted, Phase::kCollected, Phase::kEmitted}) {
    const std::string line = MakeAuditLine(Event(1, phase), {}, head);
    const auto back = ParseAuditLine(line);
    ASSERT_TRUE(back) << back.error().ToString();
    ExpectEqual(back->record.event, Event(1, phase));
  }
  EXPECT_EQ(head.next_seq, 7U);
}

AuditEvent Asked() {
  AuditEvent event;
  event.kind = AuditKind::kQuery;
  event.phase = Phase::kRecorded;
  event.time = Time(std::chrono::microseconds(1796000000123456));
  event.procedure = "select";
  event.actor = "ann";
  event.subject = "sub-1";
  event.roles = {"reader", "a\"b"};
  event.groups = {"eu"};
  event.failed = true;
  event.error = "denied: no";
  event.error_code = "denied";
  event.session_id = "s-1";
  event.client_ip = "::1";
  event.query_id = "q-1";
  event.query_text = "SELECT 1";
  event.duration_ms = 12;
  event.resources = {{.catalog = "lake",
                      .namespace_parts = {"sales", "eu"},
                      .name = "orders",
                      .object_type = "table"}};
  return event;
}

TEST(AuditLine, R169WhatAServerWasAskedComesBack) {
  ChainHead head;
  const AuditEvent event = PrepareAuditEvent(Asked());
  const std::string line = MakeAuditLine(event, {}, head);
  EXPECT_EQ(
      line.substr(0, line.find(",\"integrity\"")),
      "{\"time\":\"2026-11-30T00:53:20.123456Z\",\"kind\":\"query\",\"statement_type\":"
      "\"select\",\"actor\":{\"username\":\"ann\",\"subject\":\"sub-1\",\"roles\":[\"reader\","
      "\"a\\\"b\"],\"groups\":[\"eu\"]},\"status\":\"failure\",\"error\":\"denied: no\","
      "\"error_code\":\"denied\",\"session_id\":\"s-1\",\"client_ip\":\"::1\",\"query_id\":"
      "\"q-1\",\"query\":{\"text\":\"SELECT 1\",\"query_hash\":\"" +
          Sha256Hex("SELECT 1") +
          "\"},\"timing\":{\"duration_ms\":12},\"resources\":[{\"catalog\":\"lake\","
          "\"namespace\":[\"sales\",\"eu\"],\"name\":\"orders\",\"object_type\":\"table\"}]");
  const auto parsed = ParseAuditLine(line);
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(AuditEventJson(parsed->record.event), AuditEventJson(event));
  EXPECT_EQ(parsed->record.event.kind, AuditKind::kQuery);
  EXPECT_EQ(parsed->record.event.phase, Phase::kRecorded);
  EXPECT_EQ(parsed->record.event.resources, event.resources);
}

TEST(AuditLine, AStepOfAChangeMaySayWhoAskedForIt) {
  ChainHead head;
  AuditEvent event = Event(1);
  event.session_id = "s-1";
  event.client_ip = "10.0.0.1";
  event.query_text = "CALL system.table_health(table => 't')";
  const auto parsed = ParseAuditLine(MakeAuditLine(PrepareAuditEvent(event), {}, head));
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(parsed->record.event.phase, Phase::kIntent);
  EXPECT_EQ(parsed->record.event.session_id, "s-1");
  EXPECT_EQ(parsed->record.event.client_ip, "10.0.0.1");
  EXPECT_EQ(parsed->record.event.query_text, event.query_text);
}

TEST(AuditLine, EveryKindSurvives) {
  for (const AuditKind kind :
       {AuditKind::kQuery, AuditKind::kAuth, AuditKind::kSession, AuditKind::kGrant,
        AuditKind::kAdminDdl, AuditKind::kPolicyDecision}) {
    ChainHead head;
    AuditEvent event = Asked();
    event.kind = kind;
    event.failed = false;
    const auto parsed = ParseAuditLine(MakeAuditLine(event, {}, head));
    ASSERT_TRUE(parsed) << parsed.error().ToString();
    EXPECT_EQ(parsed->record.event.kind, kind);
    EXPECT_FALSE(parsed->record.event.failed);
  }
}

TEST(AuditLine, R171SecretsAreMaskedBeforeTheyAreChained) {
  const auto log = OpenMemoryAuditLog();
  AuditEvent event = Asked();
  event.query_text = "SET 's3.secret-access-key' = 'abc'";
  event.error = "denied: Bearer abc.DEF123";
  ASSERT_TRUE(log->Append(event));
  const AuditEvent kept = log->ReadAll().value()[0].event;
  EXPECT_EQ(kept.query_text, "SET 's3.secret-access-key' = '***'");
  EXPECT_EQ(kept.query_hash, Sha256Hex(kept.query_text));
  EXPECT_EQ(kept.error, "denied: Bearer ***");
}

TEST(AuditLine, LongStatementsAreCutBetweenCharacters) {
  AuditEvent event = Asked();
  event.query_text = "x";
  while (event.query_text.size() <= kAuditQueryBytesMax) event.query_text += "é";
  const std::string hash = Sha256Hex(event.query_text);
  const AuditEvent kept = PrepareAuditEvent(event);
  EXPECT_EQ(kept.query_hash, hash) << "of the whole text";
  EXPECT_EQ(kept.query_text.size(), kAuditQueryBytesMax - 1 + 3);
  EXPECT_TRUE(kept.query_text.ends_with("é…"));
}

// A line as the first versions wrote it.
TEST(AuditLine, LinesOfOldAreReadAndVerified) {
  const std::string body =
      "{\"time\":\"2026-11-30T00:53:20.123463Z\",\"kind\":\"maintenance\",\"statement_type\":"
      "\"hive_compact\",\"phase\":\"intent\",\"job_id\":\"j\",\"actor\":{\"username\":\"me\"},"
      "\"status\":\"success\",\"series\":\"data\",\"tenant\":\"a\",\"partition\":\"p/\",\"inputs\":"
      "[],\"outputs\":[],\"rows\":7,\"bytes_in\":1,\"bytes_out\":1,\"generation\":1,\"integrity\":"
      "{\"seq\":0,\"prev_hash\":\"" +
      std::string(64, '0') + "\",\"hash\":\"";
  const std::string hash = Sha256Hex(std::string(64, '0') + body + "\"}}");
  const auto parsed = ParseAuditLine(body + hash + "\"}}");
  ASSERT_TRUE(parsed) << parsed.error().ToString();
  EXPECT_EQ(parsed->record.event.rows, 7);
  EXPECT_EQ(parsed->record.event.kind, AuditKind::kMaintenance);
}

TEST(AuditLine, Sha256IsTheStandardOne) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AuditLine, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  AuditEvent event = Event(1);
  event.tenant = "a\xff";
  ChainHead head;
  const auto back = ParseAuditLine(MakeAuditLine(event, {}, head));
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_EQ(back->record.event.tenant, "a\xef\xbf\xbd");
}

TEST_F(AuditFileTest, R170AppendsChainAndComeBack) {
  AppendEvents(0, 5);
  bool torn = true;
  const auto records = Read(&torn);
  ASSERT_TRUE(records) << records.error().ToString();
  ASSERT_EQ(records->size(), 5U);
  EXPECT_FALSE(torn);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ((*records)[static_cast<size_t>(i)].seq, static_cast<uint64_t>(i));
    ExpectEqual((*records)[static_cast<size_t>(i)].event, Event(i));
  }
  EXPECT_TRUE(Bytes().starts_with("{\"time\""));
  EXPECT_NE(Bytes().find("\"integrity\":{\"seq\":0,\"prev_hash\":\"" + std::string(64, '0') + "\""),
            std::string::npos);
}

TEST_F(AuditFileTest, AbsentFileHasNoRecords) {
  bool torn = true;
  const auto records = Read(&torn);
  ASSERT_TRUE(records);
  EXPECT_TRUE(records->empty());
  EXPECT_FALSE(torn);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(AuditFileTest, ActorIsFilledFromTheProcess) {
  AuditEvent event = Event(0);
  event.actor.clear();
  ASSERT_TRUE(OpenFileAuditLog(path_)->Append(event));
  EXPECT_NE(Read()->front().event.actor, "");
}

TEST_F(AuditFileTest, R170AnyAlteredByteIsFound) {
  AppendEvents(0, 3);
  const std::string good = Bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    Put(bad);
    bool torn = false;
    const auto records = Read(&torn);
    // The very last newline: without it the line is torn, by definition.
    if (i + 1 == good.size()) {
      ASSERT_TRUE(records);
      EXPECT_TRUE(torn);
      EXPECT_EQ(records->size(), 2U);
      continue;
    }
    ASSERT_FALSE(records) << "byte " << i;
    ASSERT_EQ(records.error().code, Code::kCorrupt) << "byte " << i;
    const auto line = 1 + std::count(good.begin(), good.begin() + static_cast<int64_t>(i), '\n');
    ASSERT_NE(records.error().context.find(": line " + std::to_string(line)), std::string::npos)
        << "byte " << i << ": " << records.error().ToString();
  }
}

TEST_F(AuditFileTest, R170RemovedSwappedAndRepeatedLinesAreFound) {
  AppendEvents(0, 4);
  const std::string good = Bytes();
  std::vector<std::string> lines;
  for (size_t at = 0; at < good.size();) {
    const size_t end = good.find('\n', at) + 1;
    lines.push_back(good.substr(at, end - at));
    at = end;
  }
  ASSERT_EQ(lines.size(), 4U);
  for (size_t gone = 0; gone < 3; ++gone) {
    std::string bad;
    for (size_t i = 0; i < 4; ++i) {
      if (i != gone) bad += lines[i];
    }
    Put(bad);
    const auto records = Read();
    ASSERT_FALSE(records) << gone;
    EXPECT_NE(records.error().context.find(": line " + std::to_string(gone + 1)),
              std::string::npos);
  }
  Put(lines[0] + lines[2] + lines[1] + lines[3]);
  EXPECT_FALSE(Read());
  Put(lines[0] + lines[1] + lines[1] + lines[2] + lines[3]);
  EXPECT_FALSE(Read());
  Put(lines[0] + "not a record\n" + lines[1]);
  EXPECT_FALSE(Read());
  // A line made up to look like a torn fragment: the next record does not cover it.
  Put(lines[0] + "not a record #torn\n" + lines[1]);
  EXPECT_FALSE(Read());
  Put(good);
  EXPECT_TRUE(Read());
}

TEST_F(AuditFileTest, AppendRefusesAnAlteredLastRecord) {
  AppendEvents(0, 2);
  std::string bad = Bytes();
  bad[bad.size() - 100] = static_cast<char>(bad[bad.size() - 100] ^ 1);
  Put(bad);
  const Status done = OpenFileAuditLog(path_)->Append(Event(2));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCorrupt);
  EXPECT_EQ(Bytes(), bad);
}

TEST_F(AuditFileTest, TornTailAtEveryByteOfTheLastLineIsRepaired) {
  AppendEvents(0, 3);
  const std::string good = Bytes();
  const size_t last = good.rfind('\n', good.size() - 2) + 1;
  for (size_t cut = last; cut < good.size(); ++cut) {
    Put(good.substr(0, cut));
    bool torn = false;
    auto records = Read(&torn);
    ASSERT_TRUE(records) << cut;
    ASSERT_EQ(records->size(), 2U) << cut;
    ASSERT_EQ(torn, cut != last) << cut;

    const Status done = OpenFileAuditLog(path_)->Append(Event(9));
    ASSERT_TRUE(done) << cut << ": " << done.error().ToString();
    records = Read(&torn);
    ASSERT_TRUE(records) << cut << ": " << records.error().ToString();
    ASSERT_EQ(records->size(), 3U) << cut;
    ASSERT_FALSE(torn);
    ASSERT_EQ(records->back().seq, 2U);
    ASSERT_EQ(records->back().event.job_id, "job-9");
  }
}

TEST_F(AuditFileTest, TornRepairAtEveryByteIsRepairedToo) {
  AppendEvents(0, 2);
  Put(Bytes().substr(0, Bytes().size() - 20));
  const size_t torn_size = Bytes().size();
  AppendEvents(5, 6);
  const std::string repaired = Bytes();
  for (size_t cut = torn_size; cut < repaired.size(); ++cut) {
    Put(repaired.substr(0, cut));
    bool torn = false;
    ASSERT_TRUE(Read(&torn)) << cut;
    ASSERT_TRUE(torn) << cut;
    AppendEvents(6, 8);
    const auto records = Read(&torn);
    ASSERT_TRUE(records) << cut << ": " << records.error().ToString();
    ASSERT_FALSE(torn);
    ASSERT_EQ(records->size(), 3U) << cut;
    ASSERT_EQ(records->back().event.job_id, "job-7");
  }
}

TEST_F(AuditFileTest, AlteredFragmentIsFoundOnceCovered) {
  AppendEvents(0, 2);
  const size_t begin = Bytes().find('\n') + 1;
  Put(Bytes().substr(0, begin + 30));
  AppendEvents(2, 3);
  std::string bad = Bytes();
  bad[begin + 3] = 'Q';
  Put(bad);
  EXPECT_FALSE(Read());
}

TEST_F(AuditFileTest, LinesLongerThanTheTailWindowContinueTheChain) {
  AuditEvent big = Event(0);
  for (int i = 0; i < 20000; ++i) big.inputs.push_back("file-" + std::to_string(i) + ".parquet");
  const auto log = OpenFileAuditLog(path_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log->Append(big));
  ASSERT_EQ(Read()->size(), 3U);
}

TEST_F(AuditFileTest, FourProcessesMakeOneChainOf200) {
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto log = OpenFileAuditLog(path_);
      for (int i = 0; i < 50; ++i) {
        if (!log->Append(Event(process * 50 + i))) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const auto records = Read();
  ASSERT_TRUE(records) << records.error().ToString();
  ASSERT_EQ(records->size(), 200U);
  std::vector<int64_t> rows;
  for (const AuditRecord& record : *records) rows.push_back(record.event.rows);
  std::sort(rows.begin(), rows.end());
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(rows[static_cast<size_t>(i)], i);
}

TEST_F(AuditFileTest, ThreadsOfOneProcessMakeOneChain) {
  const auto log = OpenFileAuditLog(path_);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(log->Append(Event(i)));
    });
  }
  threads.clear();
  EXPECT_EQ(Read()->size(), 40U);
}

TEST_F(AuditFileTest, APathBelowAFileIsAClearError) {
  std::ofstream(directory_ + "/plain") << "x";
  const Status done = OpenFileAuditLog(directory_ + "/plain/audit.jsonl")->Append(Event(0));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kInvalid);
  EXPECT_EQ(done.error().context, directory_ + "/plain/audit.jsonl");
}

TEST(MemoryAuditLogTest, KeepsTheChain) {
  const auto log = OpenMemoryAuditLog();
  ASSERT_TRUE(log->Append(Event(0)));
  ASSERT_TRUE(log->Append(Event(1, Phase::kCommitted)));
  const auto records = log->ReadAll();
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 2U);
  EXPECT_EQ((*records)[1].seq, 1U);
  EXPECT_EQ((*records)[1].event.phase, Phase::kCommitted);
  EXPECT_NE((*records)[0].hash, (*records)[1].hash);
}

}  // namespace
}  // namespace lithify::observe
