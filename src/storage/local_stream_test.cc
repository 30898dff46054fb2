#include "storage/local_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "storage/local_files.h"

namespace lithify::storage {
namespace {

using Mode = LocalStream::Mode;
constexpr int64_t kBuffer = LocalStream::kBufferBytes;
constexpr int64_t kCached = LocalStream::kCachedBytes;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

class LocalStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    // Not /tmp, which may be in memory, where nothing is written past the page cache.
    std::string name = std::filesystem::current_path() / "local_stream_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    Reopen();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Reopen() {
    fd_.Close();
    fd_ = Fd(open(path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd_.valid());
  }
  std::string path() const { return directory_ + "/f"; }
  std::string Content() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  bool DirectIsOn() const { return (fcntl(fd_.get(), F_GETFL) & O_DIRECT) != 0; }

  static std::string Random(int64_t bytes, uint64_t seed) {
    SeededRandom random(seed);
    std::string out(static_cast<size_t>(bytes), '\0');
    for (size_t i = 0; i + 8 <= out.size(); i += 8) {
      const uint64_t next = random.Next();
      std::memcpy(out.data() + i, &next, 8);
    }
    return out;
  }

  std::string directory_;
  Fd fd_;
};

TEST_F(LocalStreamTest, WritesWhatItWasGivenWhateverTheSizes) {
  const std::string all = Random(kCached + 5 * kBuffer + 12'345, 1);
  for (const Mode mode : {Mode::kCached, Mode::kWriteBack, Mode::kDirect}) {
    for (const int64_t size :
         {int64_t{0}, int64_t{1}, kBuffer - 1, kBuffer, kBuffer + 1, kCached - 1, kCached,
          kCached + 1, kCached + kBuffer - 1, kCached + kBuffer, kCached + kBuffer + 1,
          kCached + 4 * kBuffer, std::ssize(all)}) {
      for (const size_t step : {size_t{100'001}, size_t{kBuffer}, size_t{7 * kBuffer + 3}}) {
        SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode) << ", " << size
                                        << " bytes in steps of " << step);
        Reopen();
        LocalStream stream(fd_.get(), "f", mode);
        const auto given = std::string_view(all).substr(0, static_cast<size_t>(size));
        for (size_t at = 0; at < given.size(); at += step) {
          ASSERT_TRUE(stream.Append(Bytes(given.substr(at, step))));
        }
        EXPECT_EQ(stream.size(), size);
        ASSERT_TRUE(stream.Finish());
        ASSERT_TRUE(Content() == given);
        EXPECT_FALSE(DirectIsOn());
      }
    }
  }
}

// That it does so at all is seen on the machines that run this: their build trees are on disks.
TEST_F(LocalStreamTest, OnlyWhatIsLongGoesPastThePageCache) {
  const std::string all = Random(kCached + 3 * kBuffer + 1, 2);
  const bool can = fcntl(fd_.get(), F_SETFL, O_WRONLY | O_DIRECT) == 0;
  for (const auto& [mode, size, direct] : std::vector<std::tuple<Mode, int64_t, int64_t>>{
           {Mode::kDirect, std::ssize(all), can ? 3 * kBuffer : 0},
           {Mode::kDirect, kCached + kBuffer - 1, 0},
           {Mode::kWriteBack, std::ssize(all), 0},
           {Mode::kCached, std::ssize(all), 0}}) {
    Reopen();
    LocalStream stream(fd_.get(), "f", mode);
    ASSERT_TRUE(stream.Append(Bytes(std::string_view(all).substr(0, static_cast<size_t>(size)))));
    ASSERT_TRUE(stream.Finish());
    EXPECT_EQ(stream.direct_bytes(), direct) << static_cast<int>(mode) << " " << size;
  }
}

// R314: the bytes of a full disk are lost while the stream takes others.
TEST_F(LocalStreamTest, AnErrorOfTheThreadEndsTheStream) {
  const std::string all = Random(8 * kBuffer, 3);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const int64_t room : {kCached + kBuffer, kCached + kBuffer + 8192, kCached + kBuffer + 1}) {
    Reopen();
    rlimit tight = old;
    tight.rlim_cur = static_cast<rlim_t>(room);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    LocalStream stream(fd_.get(), "f", Mode::kDirect);
    const Status first =
        stream.Append(Bytes(std::string_view(all).substr(0, static_cast<size_t>(kCached))));
    const Status rest =
        stream.Append(Bytes(std::string_view(all).substr(static_cast<size_t>(kCached))));
    const Status again = stream.Append(Bytes("x"));
    const Status finished = stream.Finish();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_TRUE(first);
    ASSERT_FALSE(rest);
    EXPECT_EQ(rest.error().code, Code::kLimit) << rest.error().ToString();
    EXPECT_EQ(again.error().code, Code::kLimit);
    EXPECT_EQ(finished.error().code, Code::kLimit);
  }
  std::signal(SIGXFSZ, old_handler);
}

// The last buffer handed over fails after the last Append has returned.
TEST_F(LocalStreamTest, AnErrorOfTheLastBytesIsSeenByFinish) {
  const std::string all = Random(kCached + kBuffer, 4);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = old;
  tight.rlim_cur = static_cast<rlim_t>(kCached);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  LocalStream stream(fd_.get(), "f", Mode::kDirect);
  const Status appended = stream.Append(Bytes(all));
  const Status finished = stream.Finish();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(!appended || stream.direct_bytes() == kBuffer);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, Code::kLimit);
}

// A descriptor that is closed may be another file's at once.
TEST_F(LocalStreamTest, NobodyWritesAnyMoreOnceItIsAbandoned) {
  const std::string all = Random(kCached + 2 * kBuffer, 5);
  for (int i = 0; i < 20; ++i) {
    Reopen();
    const int number = fd_.get();
    LocalStream stream(number, "f", Mode::kDirect);
    ASSERT_TRUE(stream.Append(Bytes(all)));
    stream.Abandon();
    fd_.Close();
    const std::string other = directory_ + "/other";
    fd_ = Fd(open(other.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    ASSERT_EQ(fd_.get(), number);
    EXPECT_EQ(std::filesystem::file_size(other), 0U);
  }
}

// Memory takes no direct writes on older kernels, and on newer ones takes them like any other.
TEST_F(LocalStreamTest, GoesOnThroughThePageCacheWhereTheFileSystemRefuses) {
  const int memory = memfd_create("lithify", MFD_CLOEXEC);
  ASSERT_GE(memory, 0);
  const Fd owned(memory);
  const std::string all = Random(kCached + 3 * kBuffer + 5, 6);
  LocalStream stream(memory, "memory", Mode::kDirect);
  ASSERT_TRUE(stream.Append(Bytes(all)));
  ASSERT_TRUE(stream.Finish());
  std::string read(all.size() + 1, '\0');
  const auto got = ReadFully(memory, 0, std::as_writable_bytes(std::span(read)), "memory");
  ASSERT_EQ(got.value(), std::ssize(all));
  read.pop_back();
  EXPECT_TRUE(read == all);
}

}  // namespace
}  // namespace lithify::storage
