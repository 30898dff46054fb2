#include "observe/audit_verify.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

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
  event.rows = n;
  event.actor = "me";
  return event;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}
std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}
void WriteLines(const std::string& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  WriteFile(path, text);
}

// A new key pair as two PEM files.
void MakeKeys(const std::string& secret, const std::string& open, const char* kind = "ED25519") {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, kind);
  ASSERT_NE(key, nullptr);
  FILE* file = std::fopen(secret.c_str(), "w");
  ASSERT_EQ(PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(file);
  file = std::fopen(open.c_str(), "w");
  ASSERT_EQ(PEM_write_PUBKEY(file, key), 1);
  std::fclose(file);
  EVP_PKEY_free(key);
}

class AuditVerifyTest : public testing::Test {
 protected:
  AuditVerifyTest() {
    std::string pattern = (fs::temp_directory_path() / "lithify_verify_XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/audit.jsonl";
    MakeKeys(directory_ + "/key.pem", directory_ + "/public.pem");
    signer_ = AuditSigner::Load(directory_ + "/key.pem").value();
    key_ = AuditPublicKey::Load(directory_ + "/public.pem").value();
  }
  ~AuditVerifyTest() override { fs::remove_all(directory_); }

  AuditFileOptions Signed(int64_t max_bytes = 0) {
    return {.max_bytes = max_bytes, .signer = signer_, .checkpoint_records = 5};
  }
  void Write(int count, const AuditFileOptions& options, int from = 0) {
    const auto log = OpenFileAuditLog(path_, options);
    for (int i = 0; i < count; ++i) ASSERT_TRUE(log->Append(Event(from + i)));
  }
  AuditVerification Verify(bool with_key = true, std::string checkpoints = {}) {
    AuditVerifyOptions options{.keys = {}, .checkpoints = std::move(checkpoints)};
    if (with_key) options.keys.push_back(key_);
    const auto progress = MakeSilentProgress();
    auto result = VerifyAuditLog(path_, options, *progress, {});
    EXPECT_TRUE(result) << result.error().ToString();
    return result ? std::move(*result) : AuditVerification();
  }
  // "edited audit.jsonl:3 seq 2".
  static std::vector<std::string> Faults(const AuditVerification& result) {
    std::vector<std::string> out;
    for (const AuditFinding& finding : result.findings) {
      out.push_back(std::string(FaultName(finding.fault)) + " " +
                    fs::path(finding.file).filename().string() + ":" +
                    std::to_string(finding.line) +
                    (finding.seq ? " seq " + std::to_string(*finding.seq) : ""));
    }
    return out;
  }
  using Found = std::vector<std::string>;

  std::string directory_;
  std::string path_;
  std::shared_ptr<const AuditSigner> signer_;
  std::shared_ptr<const AuditPublicKey> key_;
};

TEST_F(AuditVerifyTest, ASoundLogIsWhole) {
  Write(12, Signed(1500));
  const auto result = Verify();
  EXPECT_EQ(Faults(result), Found());
  EXPECT_EQ(result.records, 12);
  EXPECT_EQ(result.last_seq, 11U);
  EXPECT_GT(result.files.size(), 2U);
  EXPECT_EQ(result.files.back(), path_);
  EXPECT_EQ(result.checkpoints, 3) << "after 5, after 10, and when it was closed";
  EXPECT_EQ(result.checkpoints_signed, 3);
  EXPECT_EQ(result.signed_through, 11U);
  EXPECT_EQ(result.notes, std::vector<std::string>());
}

TEST_F(AuditVerifyTest, WithoutAKeyItSaysWhatCannotBeFound) {
  Write(3, {});
  auto result = Verify(false);
  EXPECT_TRUE(result.ok());
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_EQ(result.notes[0],
            "nothing is signed (audit_log.signing_key): that records were cut off at the end, or "
            "the whole log made anew, cannot be found");
  EXPECT_EQ(Faults(Verify(true)), (Found{"no_checkpoints audit.jsonl.checkpoints:0"}));
  Write(3, Signed(), 3);
  result = Verify(false);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.signed_through, std::nullopt);
  EXPECT_EQ(result.notes[0],
            "no public key was given: the checkpoints may be forged, and with them that records "
            "were cut off at the end");
}

TEST_F(AuditVerifyTest, ATailThatWasCutIsFound) {
  Write(12, Signed());
  const auto lines = LinesOf(path_);
  for (size_t kept = 0; kept < 12; ++kept) {
    WriteLines(path_, {lines.begin(), lines.begin() + static_cast<int64_t>(kept)});
    const auto result = Verify();
    ASSERT_FALSE(result.ok()) << kept;
    EXPECT_EQ(result.findings.back().fault, AuditFault::kCutTail) << kept;
    EXPECT_EQ(result.findings.back().seq, 11U);
    EXPECT_EQ(result.signed_through, std::nullopt);
  }
  fs::remove(path_);
  EXPECT_EQ(Faults(Verify()).size(), 3U) << "all of it";
  // Also after others went on with what was left.
  WriteLines(path_, {lines.begin(), lines.begin() + 7});
  Write(10, {}, 100);
  EXPECT_EQ(Faults(Verify()), (Found{"rewritten audit.jsonl.checkpoints:2 seq 9",
                                     "rewritten audit.jsonl.checkpoints:3 seq 11"}));
}

TEST_F(AuditVerifyTest, OlderPartsThatAreGoneAreFound) {
  Write(20, Signed(1500));
  const auto parts = OlderParts(path_).value();
  ASSERT_GE(parts.size(), 4U);
  fs::remove(parts[0]);
  fs::remove(parts[2]);
  const auto faults = Faults(Verify());
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_TRUE(faults[0].starts_with("gap " + fs::path(parts[1]).filename().string() + ":1"));
  EXPECT_TRUE(faults[1].starts_with("gap " + fs::path(parts[3]).filename().string() + ":1"));
}

TEST_F(AuditVerifyTest, ALogThatWasMadeAnewIsFound) {
  Write(6, Signed());
  fs::remove(path_);
  Write(6, {}, 50);  // A valid chain, by somebody without the key.
  EXPECT_TRUE(Verify(false).findings.size() == 2) << "its hashes are others";
  EXPECT_EQ(Faults(Verify()), (Found{"rewritten audit.jsonl.checkpoints:1 seq 4",
                                     "rewritten audit.jsonl.checkpoints:2 seq 5"}));
}

TEST_F(AuditVerifyTest, EditedLinesAreEachFound) {
  Write(12, Signed());
  auto lines = LinesOf(path_);
  lines[2][lines[2].find("job-2")] = 'J';
  lines[7].insert(lines[7].find("\"rows\":7") + 7, "7");
  lines[9] = "what is this";
  WriteLines(path_, lines);
  EXPECT_EQ(Faults(Verify()), (Found{"edited audit.jsonl:3 seq 2", "edited audit.jsonl:8 seq 7",
                                     "unreadable audit.jsonl:10"}));
}

TEST_F(AuditVerifyTest, AnEditWithItsHashPutRightBreaksTheChain) {
  Write(12, Signed());
  auto lines = LinesOf(path_);
  const auto before = ParseAuditLine(lines[2]).value();
  ChainHead head{.next_seq = 3, .hash = before.record.hash};
  lines[3] = MakeAuditLine(Event(999), {}, head);
  WriteLines(path_, lines);
  EXPECT_EQ(Faults(Verify()), (Found{"broken_chain audit.jsonl:5 seq 4"}));
}

TEST_F(AuditVerifyTest, RemovedSwappedAndRepeatedLinesAreFound) {
  Write(12, Signed());
  const auto lines = LinesOf(path_);
  auto removed = lines;
  removed.erase(removed.begin() + 6);
  WriteLines(path_, removed);
  EXPECT_EQ(Faults(Verify()), (Found{"gap audit.jsonl:7 seq 7"}));
  auto swapped = lines;
  std::swap(swapped[6], swapped[7]);
  WriteLines(path_, swapped);
  EXPECT_EQ(Faults(Verify()), (Found{"gap audit.jsonl:7 seq 7", "reordered audit.jsonl:8 seq 6"}));
  auto repeated = lines;
  repeated.insert(repeated.begin() + 6, lines[3]);
  WriteLines(path_, repeated);
  EXPECT_EQ(Faults(Verify()), (Found{"reordered audit.jsonl:7 seq 3"}));
}

TEST_F(AuditVerifyTest, TornPartsCountUnlessTheyAreAltered) {
  Write(3, {});
  WriteFile(path_, ReadFile(path_) + "{\"time\":\"2026");
  EXPECT_TRUE(Verify(false).torn_tail);
  Write(3, Signed(), 3);
  auto result = Verify();
  EXPECT_EQ(Faults(result), Found());
  EXPECT_EQ(result.torn_fragments, 1);
  EXPECT_FALSE(result.torn_tail);
  auto lines = LinesOf(path_);
  ASSERT_TRUE(lines[3].ends_with(kTornMark));
  lines[3].insert(2, "x");
  WriteLines(path_, lines);
  EXPECT_EQ(Faults(Verify()), (Found{"torn audit.jsonl:5 seq 3"}));
  lines.erase(lines.begin() + 3);
  WriteLines(path_, lines);
  EXPECT_EQ(Faults(Verify()), (Found{"torn audit.jsonl:4 seq 3"}));
}

TEST_F(AuditVerifyTest, ForgedCheckpointsAreFound) {
  Write(12, Signed());
  const std::string file = CheckpointFile(path_);
  const auto lines = LinesOf(file);
  ASSERT_EQ(lines.size(), 3U);
  AuditCheckpoint checkpoint = ParseCheckpointLine(lines[1]).value();
  EXPECT_TRUE(key_->Signed(checkpoint));
  const std::vector<std::function<void(AuditCheckpoint&)>> forgeries = {
      [](AuditCheckpoint& c) { c.seq = 3; },
      [](AuditCheckpoint& c) { c.hash[0] = c.hash[0] == '0' ? '1' : '0'; },
      [](AuditCheckpoint& c) { c.time += std::chrono::seconds(1); },
      [](AuditCheckpoint& c) { c.signature[5] = c.signature[5] == '0' ? '1' : '0'; },
      [](AuditCheckpoint& c) { c.signature = "zz"; },
  };
  for (const auto& forge : forgeries) {
    AuditCheckpoint forged = checkpoint;
    forge(forged);
    WriteLines(file, {lines[0], CheckpointLine(forged), lines[2]});
    const auto result = Verify();
    ASSERT_EQ(result.findings.size(), 1U);
    EXPECT_EQ(result.findings[0].fault, AuditFault::kBadSignature);
    EXPECT_EQ(result.findings[0].line, 2);
  }
}

TEST_F(AuditVerifyTest, CheckpointsOfAnotherKeyDoNotCount) {
  Write(6, Signed());
  MakeKeys(directory_ + "/other.pem", directory_ + "/other_public.pem");
  key_ = AuditPublicKey::Load(directory_ + "/other_public.pem").value();
  const auto result = Verify();
  EXPECT_EQ(Faults(result), (Found{"no_checkpoints audit.jsonl.checkpoints:0"}));
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_EQ(result.notes[0], "2 checkpoints are signed by key " + signer_->key_id() +
                                 ", whose public key was not given");
}

TEST_F(AuditVerifyTest, CutCheckpointsAreNotedAndACopyOfThemFindsTheCut) {
  Write(12, Signed());
  const std::string file = CheckpointFile(path_);
  const auto lines = LinesOf(path_);
  const auto marks = LinesOf(file);
  const std::string copy = directory_ + "/copy";
  WriteLines(copy, marks);
  WriteLines(file, {marks[0]});
  WriteLines(path_, {lines.begin(), lines.begin() + 7});
  const auto result = Verify();
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.signed_through, 4U);
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_EQ(result.notes[0],
            "records after seq 4 are not signed yet: that the last ones were cut off would not be "
            "found");
  EXPECT_EQ(Faults(Verify(true, copy)), (Found{"cut_tail copy:2 seq 9", "cut_tail copy:3 seq 11"}));
}

TEST_F(AuditVerifyTest, ATornCheckpointIsPassedOver) {
  Write(5, Signed());
  const std::string file = CheckpointFile(path_);
  WriteFile(file, ReadFile(file) + "{\"seq\":7,");
  Write(5, Signed(), 5);
  const auto result = Verify();
  EXPECT_EQ(Faults(result), Found());
  EXPECT_EQ(result.checkpoints_signed, 2);
  EXPECT_EQ(result.signed_through, 9U);
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_TRUE(result.notes[0].starts_with("1 lines of " + file + " are no checkpoints"));
}

TEST_F(AuditVerifyTest, RecordsThatGetOldAreSigned) {
  const auto log = OpenFileAuditLog(path_, {.signer = signer_});
  AuditEvent event = Event(0);
  ASSERT_TRUE(log->Append(event));
  event.time += std::chrono::minutes(9);
  ASSERT_TRUE(log->Append(event));
  EXPECT_FALSE(fs::exists(CheckpointFile(path_)));
  event.time += std::chrono::minutes(1);
  ASSERT_TRUE(log->Append(event));
  EXPECT_EQ(LinesOf(CheckpointFile(path_)).size(), 1U);
  EXPECT_EQ(Verify().signed_through, 2U);
}

TEST_F(AuditVerifyTest, ManyProcessesSignInOrder) {
  std::vector<pid_t> children;
  for (int process = 0; process < 3; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      {
        const auto log = OpenFileAuditLog(path_, Signed(2500));
        for (int i = 0; i < 20; ++i) {
          if (!log->Append(Event(process * 50 + i))) _exit(1);
        }
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
  const auto result = Verify();
  EXPECT_EQ(Faults(result), Found());
  EXPECT_EQ(result.records, 60);
  EXPECT_EQ(result.signed_through, 59U);
  uint64_t last = 0;
  for (const std::string& line : LinesOf(CheckpointFile(path_))) {
    const uint64_t seq = ParseCheckpointLine(line).value().seq;
    EXPECT_GE(seq, last);
    last = seq;
  }
}

TEST_F(AuditVerifyTest, AnAbsentLogIsNotASoundOne) {
  const auto progress = MakeSilentProgress();
  const auto result = VerifyAuditLog(path_, {}, *progress, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kNotFound);
}

TEST_F(AuditVerifyTest, AStopIsHeard) {
  Write(3, {});
  CancelFlag cancel;
  cancel.Request();
  const auto progress = MakeSilentProgress();
  const auto result = VerifyAuditLog(path_, {}, *progress, cancel);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCancelled);
}

TEST_F(AuditVerifyTest, KeysThatCannotBeUsedAreToldApart) {
  const std::string secret = directory_ + "/key.pem";
  const std::string open = directory_ + "/public.pem";
  EXPECT_EQ(AuditSigner::Load(directory_ + "/none").error().code, Code::kNotFound);
  EXPECT_EQ(AuditSigner::Load(open).error().ToString(),
            "invalid: " + open +
                ": no private Ed25519 key in PEM (next: make one with: openssl "
                "genpkey -algorithm ed25519 -out FILE)");
  EXPECT_EQ(AuditPublicKey::Load(secret).error().ToString(),
            "invalid: " + secret +
                ": no public Ed25519 key in PEM (next: make it from the private "
                "one: openssl pkey -in KEY -pubout -out FILE)");
  MakeKeys(directory_ + "/x.pem", directory_ + "/x_public.pem", "X25519");
  EXPECT_EQ(AuditSigner::Load(directory_ + "/x.pem").error().code, Code::kInvalid);
  EXPECT_EQ(AuditPublicKey::Load(directory_ + "/x_public.pem").error().code, Code::kInvalid);
  EXPECT_EQ(signer_->key_id(), key_->key_id());
  EXPECT_EQ(signer_->key_id().size(), 16U);
}

TEST_F(AuditVerifyTest, R178ALenientLogTellsAndGoesOn) {
  fs::create_directories(path_);  // No file can be there.
  std::vector<std::string> told;
  const auto log = MakeLenientAuditLog(
      OpenFileAuditLog(path_), [&](const Error& error) { told.push_back(error.ToString()); });
  EXPECT_TRUE(log->Append(Event(0)));
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(told[0].starts_with("invalid: " + path_ + ": cannot open the audit log")) << told[0];
  EXPECT_FALSE(OpenFileAuditLog(path_)->Append(Event(0)));
}

}  // namespace
}  // namespace lithify::observe
