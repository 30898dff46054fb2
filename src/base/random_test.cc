#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"

namespace lithify {
namespace {

class FixedClock final : public Clock {
 public:
  explicit FixedClock(Time now) : now_(now) {}
  Time Now() const override { return now_; }
  Duration Monotonic() const override { return {}; }
  void Sleep(Duration) override {}

 private:
  Time now_;
};

class FixedRandom final : public Random {
 public:
  explicit FixedRandom(uint64_t value) : value_(value) {}
  uint64_t Next() override { return value_; }

 private:
  uint64_t value_;
};

TEST(SeededRandom, RepeatsAndFollowsSplitmix64) {
  SeededRandom a(0);
  EXPECT_EQ(a.Next(), 0xe220a8397b1dcdafULL);  // The published first outputs for seed 0.
  EXPECT_EQ(a.Next(), 0x6e789e6aa1b965f4ULL);
  SeededRandom b(7);
  SeededRandom c(7);
  SeededRandom d(8);
  const uint64_t first = b.Next();
  EXPECT_EQ(first, c.Next());
  EXPECT_NE(first, d.Next());
}

TEST(SystemRandom, Varies) {
  SystemRandom random;
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random.Next());
  EXPECT_EQ(seen.size(), 100U);
}

// R196, RFC 9562 section 5.7: 48 bits of milliseconds, version 7, variant 10.
TEST(UuidV7, HasTheFieldsOfTheRfc) {
  const FixedClock clock(Time(std::chrono::milliseconds(0x017F22E279B0)));  // The RFC's example.
  FixedRandom ones(~0ULL);
  FixedRandom zeros(0);
  EXPECT_EQ(MakeUuidV7(clock, ones), "017f22e2-79b0-7fff-bfff-ffffffffffff");
  EXPECT_EQ(MakeUuidV7(clock, zeros), "017f22e2-79b0-7000-8000-000000000000");
}

TEST(UuidV7, NamesSortByMillisecondAndTellTheirTime) {
  SeededRandom random(1);
  const Time start = ParseTime("2026-11-29T16:20:00Z").value();
  std::string last;
  for (int i = 0; i < 50; ++i) {
    const Time now = start + std::chrono::milliseconds(i) + Duration(999);
    const std::string name = MakeUuidV7(FixedClock(now), random);
    EXPECT_LT(last, name);
    EXPECT_EQ(UuidV7Time(name), start + std::chrono::milliseconds(i));
    EXPECT_EQ(UuidV7Time(name + ".parquet"), start + std::chrono::milliseconds(i));
    last = name;
  }
}

TEST(UuidV7, OtherTextHasNoTime) {
  for (const char* text :
       {"", "x", "manifest.json", "017f22e2-79b0-4fff-bfff-ffffffffffff",
        "017F22E2-79B0-7FFF-BFFF-FFFFFFFFFFFF", "017f22e279b0-7fff-bfff-fffffffffffff",
        "017f22e2-79b0-7fff-bfff-fffffffffffg", "017f22e2-79b0-7fff-bfff-ffffffffffff.tmp",
        "017f22e2-79b0-7fff-bfff-ffffffffffff0"}) {
    EXPECT_EQ(UuidV7Time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lithify
