// What a store in a bucket promises while requests and answers get lost, come twice, late or in
// part (s3_fault_proxy.py), with a real server behind. Errors are allowed here; lies are not (H5,
// R216).
//
// LITHIFY_S3_FAULT_SEEDS sets how many seeds are run (default 2).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "s3_service.h"

namespace lithify::storage {
namespace {

const testing::Environment* const kServer = testing::AddGlobalTestEnvironment(new S3Server);

constexpr int kThreads = 8;
// About one request in four meets a fault; most calls end well after some tries.
constexpr const char* kPlan =
    "latency=0.05,reset_before=0.03,reset_after=0.04,reset_body=0.03,truncated=0.03,"
    "internal_error=0.03,internal_error_after=0.03,bad_gateway_after=0.02,slow_down=0.03,"
    "conflict=0.02,doubled=0.04,shortened=0.03";

std::span<const std::byte> AsBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// One seed's proxy before the server.
class Faults {
 public:
  Faults(const std::string& seed, const std::string& plan)
      : directory_(std::filesystem::temp_directory_path() /
                   ("lithify-s3-faults-" + std::to_string(getpid()))) {
    endpoint =
        S3Server::Script("s3_faults.sh", "start '" + directory_.string() + "' " +
                                             S3Server::endpoint + " " + seed + " '" + plan + "'");
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults() {
    (void)Stop();
    std::filesystem::remove_all(directory_);
  }

  // What it did, as JSON.
  std::string Stop() {
    if (!std::exchange(running_, false)) return {};
    return S3Server::Script("s3_faults.sh", "stop '" + directory_.string() + "'");
  }

  std::string endpoint;

 private:
  const std::filesystem::path directory_;
  bool running_ = true;
};

std::vector<std::string> Seeds() {
  const char* count = std::getenv("LITHIFY_S3_FAULT_SEEDS");
  std::vector<std::string> seeds;
  for (int seed = 1; seed <= (count == nullptr ? 2 : std::atoi(count)); ++seed) {
    seeds.push_back(std::to_string(seed));
  }
  return seeds;
}

class S3Faults : public testing::TestWithParam<std::string> {
 protected:
  void TearDown() override {
    const std::string done = faults_.Stop();
    RecordProperty("faults", done);
    for (const char* kind : kinds_) {
      const std::string none = "\"" + std::string(kind) + "\": 0";
      EXPECT_NE(done.find(kind), std::string::npos) << done;
      EXPECT_EQ(done.find(none), std::string::npos) << "it met no such fault: " << done;
    }
  }

  Faults faults_{GetParam(), kPlan};
  S3World harmed_{faults_.endpoint};
  // The same objects, seen without faults.
  S3World plain_{S3Server::endpoint};
  S3Store truth_{*plain_.client, harmed_.prefix};
  std::vector<const char*> kinds_;
};

bool MayHaveBeenDone(const Status& status) {
  return status || status.error().code == Code::kUnknownOutcome;
}

// In one piece, streamed, or completed from parts.
Status WriteNew(S3World& world, const std::string& key, const std::string& text, int how) {
  if (how == 0) return world.s3->PutNew(key, text);
  if (how == 1) {
    LITHIFY_TRY_ASSIGN(const auto writer, world.s3->Create(key));
    LITHIFY_TRY(writer->Append(AsBytes(text)));
    return writer->Publish();
  }
  const std::string whole = world.prefix + key;
  const std::string write_id = world.client->NewWriteId();
  LITHIFY_TRY_ASSIGN(const std::string upload, world.client->CreateUpload(whole, write_id));
  LITHIFY_TRY_ASSIGN(S3Part part, world.client->UploadPart(whole, upload, 1, text));
  return world.client->CompleteUpload(whole, upload, {std::move(part)}, write_id,
                                      {.absent = true, .etag = {}});
}

TEST_P(S3Faults, NoTwoPutNewsWin) {
  int won = 0;
  for (int round = 0; round < 15; ++round) {
    const std::string key = "r" + std::to_string(round) + "/m";
    std::vector<Status> told(kThreads);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        told[static_cast<size_t>(t)] = WriteNew(harmed_, key, std::to_string(t), t % 3);
      });
    }
    threads.clear();
    const auto winners = std::ranges::count_if(told, [](const Status& s) { return s.has_value(); });
    EXPECT_LE(winners, 1) << key;
    won += static_cast<int>(winners);
    const auto blob = truth_.Get(key, 9);
    if (!blob) {
      // Nobody got through.
      EXPECT_EQ(blob.error().code, Code::kNotFound);
      EXPECT_EQ(winners, 0) << key << ": a success is lost";
      continue;
    }
    for (int t = 0; t < kThreads; ++t) {
      const Status& status = told[static_cast<size_t>(t)];
      if (blob->bytes == std::to_string(t)) {
        EXPECT_TRUE(MayHaveBeenDone(status))
            << key << ": it is there, and its writer was told: " << status.error().ToString();
      } else {
        EXPECT_FALSE(status) << key << ": " << t << " won, too";
      }
    }
  }
  EXPECT_GE(won, 5) << "with these faults most rounds have a winner who knows it";
  kinds_ = {"reset_after", "doubled", "internal_error_after", "slow_down"};
}

// One round of a thread that adds its words to an object; what it was told of its last try.
Status AddWord(Store& store, const std::string& key, const std::string& word) {
  LITHIFY_TRY_ASSIGN(const Blob blob, store.Get(key, kMiB));
  if (blob.bytes.find(" " + word + " ") != std::string::npos) return {};
  return store.PutIf(key, blob.bytes + word + " ", blob.version);
}

// Each word is tried until it is known to be there; whoever is not sure looks. A replacement that
// something on the way repeats may be replaced again before its writer hears of it: nobody can tell
// that from a conflict but by what was written, as those do who publish.
TEST_P(S3Faults, NoUpdateIsLostOrDoneTwice) {
  constexpr int kWords = 20;
  ASSERT_TRUE(truth_.PutNew("n", " "));
  std::atomic<int> unsure = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kWords; ++i) {
        const std::string word = std::to_string(t) + "." + std::to_string(i);
        for (bool done = false; !done;) {
          const Status added = AddWord(*harmed_.s3, "n", word);
          done = added.has_value();
          if (done || added.error().code != Code::kUnknownOutcome) continue;
          ++unsure;
          done = truth_.Get("n", kMiB).value().bytes.find(" " + word + " ") != std::string::npos;
        }
      }
    });
  }
  threads.clear();
  const std::string text = truth_.Get("n", kMiB).value().bytes;
  for (int t = 0; t < kThreads; ++t) {
    size_t at = 0;
    for (int i = 0; i < kWords; ++i) {
      const std::string word = " " + std::to_string(t) + "." + std::to_string(i) + " ";
      const size_t found = text.find(word);
      ASSERT_NE(found, std::string::npos) << "lost:" << word;
      EXPECT_EQ(text.find(word, found + 1), std::string::npos) << "twice:" << word;
      EXPECT_GE(found, at) << "out of order:" << word;
      at = found;
    }
  }
  kinds_ = {
      "reset_before",         "reset_after",       "reset_body", "truncated", "internal_error",
      "internal_error_after", "bad_gateway_after", "slow_down",  "conflict",  "doubled"};
}

TEST_P(S3Faults, BytesAreRightOrNotThere) {
  std::string data(20 * kMiB + 77, '\0');
  SeededRandom random(5);
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    const uint64_t word = random.Next();
    std::copy_n(reinterpret_cast<const char*>(&word), 8, data.data() + i);
  }
  Status published = Fail(Code::kTransient, "not tried");
  for (int attempt = 0; attempt < 10 && !published; ++attempt) {
    auto writer = harmed_.s3->Create("big").value();
    published = writer->Append(AsBytes(data));
    if (published) published = writer->Publish();
    if (!published && published.error().code == Code::kUnknownOutcome && truth_.Stat("big")) break;
  }
  ASSERT_TRUE(truth_.Get("big", kGiB).value().bytes == data);

  int right = 0;
  for (int i = 0; i < 100; ++i) {
    const auto reader = harmed_.s3->Open("big");
    if (!reader) continue;
    const auto offset = static_cast<int64_t>(random.Next() % data.size());
    std::string got(1 + random.Next() % (2 * kMiB), 'x');
    const auto read = (*reader)->ReadAt(offset, std::as_writable_bytes(std::span(got)));
    if (!read) continue;
    const std::string_view wanted = std::string_view(data).substr(static_cast<size_t>(offset));
    ASSERT_EQ(*read, std::ssize(wanted.substr(0, got.size())));
    ASSERT_TRUE(got.substr(0, static_cast<size_t>(*read)) == wanted.substr(0, got.size()));
    ++right;
  }
  EXPECT_GE(right, 60) << "most reads get through";
  kinds_ = {"reset_before", "reset_body", "truncated", "shortened"};
}

// Listings are whole or fail, and only what was to be removed is.
TEST_P(S3Faults, ListingsAreWholeAndRemovalsExact) {
  std::vector<std::string> keys;
  for (int i = 0; i < 60; ++i) {
    keys.push_back("d/k" + std::to_string(100 + i));
    ASSERT_TRUE(truth_.PutNew(keys.back(), "x"));
  }
  for (int i = 0; i < 40; ++i) {
    const auto listed = harmed_.s3->List("d/");
    if (!listed) continue;
    ASSERT_EQ(listed->size(), keys.size());
  }
  std::vector<std::string> left;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % 2 == 0) {
      left.push_back(keys[i]);
      continue;
    }
    const Status removed = harmed_.s3->Remove(keys[i]);
    if (removed) {
      EXPECT_EQ(truth_.Stat(keys[i]).error().code, Code::kNotFound);
    } else if (truth_.Stat(keys[i])) {
      EXPECT_NE(removed.error().code, Code::kNotFound) << keys[i] << " is there";
      left.push_back(keys[i]);
    }
  }
  std::ranges::sort(left);
  std::vector<std::string> found;
  const auto listed = truth_.List("d/").value();
  for (const ObjectInfo& info : listed) found.push_back(info.key);
  EXPECT_EQ(found, left);
  kinds_ = {"internal_error", "truncated"};
}

INSTANTIATE_TEST_SUITE_P(Seeds, S3Faults, testing::ValuesIn(Seeds()));

}  // namespace
}  // namespace lithify::storage
