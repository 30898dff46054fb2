#include "fleet/seal.h"

#include <gtest/gtest.h>

#include "base/manual_clock.h"

namespace lithify::fleet {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";
constexpr std::string_view kWorker = "w/0193a1b2";
constexpr std::string_view kBody = R"({"attempt":"a"})";

FleetKey Key(std::string_view secret = kSecret) {
  return FleetKey::Make(Secret(secret), false).value();
}

class SealTest : public testing::Test {
 protected:
  RequestSeal Make(std::string_view body = kBody) {
    return SealRequest(Key(), kWorker, "adopt_outputs", body, clock_.Now(), random_);
  }
  Code Refusal(const RequestSeal& seal, std::string_view action = "adopt_outputs",
               std::string_view body = kBody) {
    const Status admitted = guard_.Admit(seal, action, body);
    EXPECT_FALSE(admitted);
    return admitted ? Code::kInternal : admitted.error().code;
  }

  ManualClock clock_;
  SeededRandom random_{1};
  RequestGuard guard_{Key(), std::string(kWorker), clock_};
};

TEST(FleetKeyTest, ShortAndEmptySecrets) {
  EXPECT_EQ(FleetKey::Make(Secret(""), false).error().code, Code::kInvalid);
  EXPECT_EQ(FleetKey::Make(Secret(std::string(31, 'x')), false).error().code, Code::kInvalid);
  EXPECT_EQ(FleetKey::Make(Secret(std::string(31, 'x')), true).error().code, Code::kInvalid);
  EXPECT_TRUE(FleetKey::Make(Secret(std::string(32, 'x')), false));
  EXPECT_TRUE(FleetKey::Make(Secret(""), true));
  EXPECT_EQ(FleetKey::Make(Secret("hush"), false).error().ToString().find("hush"),
            std::string::npos);
}

// The first value is Python's hmac of the same bytes.
TEST(FleetKeyTest, IsHmacSha256OfLengthsAndFields) {
  EXPECT_EQ(Key().Seal("a", {"b", ""}),
            "751c2d96f0609eb4b2d5f7a0c0da1c8de61a4dfb570901263507ad09ffadd6d5");
  EXPECT_NE(Key().Seal("a", {"b"}), Key().Seal("ab", {""}));
  EXPECT_NE(Key().Seal("a", {"b", ""}), Key().Seal("a", {"b"}));
  EXPECT_NE(Key().Seal("a", {"bc", "d"}), Key().Seal("a", {"b", "cd"}));
  EXPECT_NE(Key().Seal("a", {"b"}), Key("another secret of more than 32 b.").Seal("a", {"b"}));
  EXPECT_EQ(Key().Seal("a", {"b"}), Key().Seal("a", {"b"}));
}

TEST_F(SealTest, OnceAndNotAgain) {
  const RequestSeal seal = Make();
  EXPECT_TRUE(guard_.Admit(seal, "adopt_outputs", kBody));
  EXPECT_EQ(Refusal(seal), Code::kDenied);
  EXPECT_TRUE(guard_.Admit(Make(), "adopt_outputs", kBody));  // Another nonce.
}

TEST_F(SealTest, EveryFieldCounts) {
  EXPECT_EQ(Refusal(Make(), "drop_attempt"), Code::kDenied);
  EXPECT_EQ(Refusal(Make(), "adopt_outputs", R"({"attempt":"b"})"), Code::kDenied);
  EXPECT_EQ(Refusal(Make(), "adopt_outputs", ""), Code::kDenied);
  EXPECT_EQ(Refusal(Make(), "adopt_outputs", std::string(kBody) + " "), Code::kDenied);
  const auto changed = [&](auto change) {
    RequestSeal seal = Make();
    change(seal);
    return Refusal(seal);
  };
  EXPECT_EQ(changed([](RequestSeal& s) { s.worker = "w/other"; }), Code::kDenied);
  EXPECT_EQ(changed([](RequestSeal& s) { ++s.issued_at_ms; }), Code::kDenied);
  EXPECT_EQ(changed([](RequestSeal& s) { ++s.expires_at_ms; }), Code::kDenied);
  EXPECT_EQ(changed([](RequestSeal& s) { s.nonce[0] = s.nonce[0] == 'a' ? 'b' : 'a'; }),
            Code::kDenied);
  EXPECT_EQ(changed([](RequestSeal& s) { s.signature.pop_back(); }), Code::kDenied);
  EXPECT_EQ(changed([](RequestSeal& s) { s.signature.clear(); }), Code::kDenied);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(changed([&](RequestSeal& s) { s.signature[i] = s.signature[i] == '0' ? '1' : '0'; }),
              Code::kDenied);
  }
  // The control: what was not changed is taken.
  EXPECT_TRUE(guard_.Admit(Make(), "adopt_outputs", kBody));
}

TEST_F(SealTest, AnotherSecretAnotherWorkerAnotherLife) {
  EXPECT_EQ(Refusal(SealRequest(Key("another secret of more than 32 b."), kWorker, "adopt_outputs",
                                kBody, clock_.Now(), random_)),
            Code::kDenied);
  // Whoever knows the secret is told to ask again.
  EXPECT_EQ(
      Refusal(SealRequest(Key(), "w/0193ffff", "adopt_outputs", kBody, clock_.Now(), random_)),
      Code::kTransient);
}

TEST_F(SealTest, EmptyFieldsDoNotMoveIntoEachOther) {
  RequestSeal seal = SealRequest(Key(), kWorker, "", "adopt_outputs", clock_.Now(), random_);
  EXPECT_EQ(Refusal(seal, "adopt_outputs", ""), Code::kDenied);
}

TEST_F(SealTest, StaleAndFutureOnes) {
  const RequestSeal seal = Make();
  clock_.Sleep(kRequestLife + kClockSkew);
  EXPECT_TRUE(guard_.Admit(seal, "adopt_outputs", kBody));
  const RequestSeal late = Make();
  clock_.Sleep(kRequestLife + kClockSkew + milliseconds(1));
  EXPECT_EQ(Refusal(late), Code::kDenied);
  const auto ahead = [&](Duration d) {
    return SealRequest(Key(), kWorker, "adopt_outputs", kBody, clock_.Now() + d, random_);
  };
  EXPECT_TRUE(guard_.Admit(ahead(kClockSkew), "adopt_outputs", kBody));
  EXPECT_EQ(Refusal(ahead(kClockSkew + milliseconds(1))), Code::kDenied);
}

// Signed for longer, by somebody who knows the secret and another program.
TEST_F(SealTest, LongLivedOnesAreRefused) {
  RequestSeal seal = Make();
  seal.expires_at_ms += 1;
  seal.signature = Key().Seal("lithify fleet 1 request",
                              {"adopt_outputs", seal.worker, std::to_string(seal.issued_at_ms),
                               std::to_string(seal.expires_at_ms), seal.nonce, kBody});
  const Status refused = guard_.Admit(seal, "adopt_outputs", kBody);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the request is signed for longer than is allowed");
  --seal.expires_at_ms;
  seal.signature = Key().Seal("lithify fleet 1 request",
                              {"adopt_outputs", seal.worker, std::to_string(seal.issued_at_ms),
                               std::to_string(seal.expires_at_ms), seal.nonce, kBody});
  EXPECT_TRUE(guard_.Admit(seal, "adopt_outputs", kBody));
}

// As long as it could be used, a request is remembered; and no longer.
TEST_F(SealTest, NoncesAreForgottenWhenTheyCannotBeUsedAnyMore) {
  RequestGuard small(Key(), std::string(kWorker), clock_, 2);
  const RequestSeal first = Make();
  ASSERT_TRUE(small.Admit(first, "adopt_outputs", kBody));
  ASSERT_TRUE(small.Admit(Make(), "adopt_outputs", kBody));
  EXPECT_EQ(small.Admit(Make(), "adopt_outputs", kBody).error().code, Code::kLimit);
  clock_.Sleep(kRequestLife + kClockSkew);
  EXPECT_EQ(small.Admit(first, "adopt_outputs", kBody).error().message,
            "the request was seen already");
  EXPECT_EQ(small.Admit(Make(), "adopt_outputs", kBody).error().code, Code::kLimit);
  clock_.Sleep(milliseconds(1));
  EXPECT_TRUE(small.Admit(Make(), "adopt_outputs", kBody));
  EXPECT_FALSE(small.Admit(first, "adopt_outputs", kBody));
}

// A forged request takes no room from good ones.
TEST_F(SealTest, OnlySignedRequestsAreRemembered) {
  RequestGuard small(Key(), std::string(kWorker), clock_, 1);
  for (int i = 0; i < 10; ++i) {
    RequestSeal seal = Make();
    seal.signature[0] = seal.signature[0] == '0' ? '1' : '0';
    EXPECT_EQ(small.Admit(seal, "adopt_outputs", kBody).error().code, Code::kDenied);
  }
  EXPECT_TRUE(small.Admit(Make(), "adopt_outputs", kBody));
}

class HeadersTest : public SealTest {
 protected:
  static Result<RequestSeal> Of(const std::vector<std::pair<std::string, std::string>>& headers) {
    std::multimap<std::string_view, std::string_view> all;
    for (const auto& [name, value] : headers) all.emplace(name, value);
    return RequestSeal::OfHeaders(all);
  }
};

TEST_F(HeadersTest, ThereAndBack) {
  const auto back = Of(Make().Headers());
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_TRUE(guard_.Admit(*back, "adopt_outputs", kBody));
}

TEST_F(HeadersTest, MissingDoubledOrOfNoForm) {
  const auto good = Make().Headers();
  for (size_t i = 0; i < good.size(); ++i) {
    auto headers = good;
    headers.erase(headers.begin() + static_cast<int64_t>(i));
    EXPECT_EQ(Of(headers).error().code, Code::kDenied) << i;
    headers = good;
    headers.push_back(good[i]);
    EXPECT_EQ(Of(headers).error().code, Code::kDenied) << i;
    if (i == 0) continue;
    for (const char* value : {"", "-1", "x", "+1", " 1", "01", "99999999999999999999"}) {
      headers = good;
      headers[i].second = value;
      EXPECT_EQ(Of(headers).error().code, Code::kDenied) << i << " " << value;
    }
    if (i < 3) continue;
    headers = good;
    for (char& c : headers[i].second) c = static_cast<char>(std::toupper(c));
    headers[i].second[0] = 'A';
    EXPECT_EQ(Of(headers).error().code, Code::kDenied) << "another spelling of the same";
  }
}

TEST_F(SealTest, FramesInTheirPlaceOfTheirAnswer) {
  const std::string nonce = MakeNonce(random_);
  const std::string frame = SealFrame(Key(), nonce, 3, "body");
  EXPECT_EQ(OpenFrame(Key(), nonce, 3, frame).value(), "body");
  EXPECT_EQ(OpenFrame(Key(), nonce, 2, frame).error().code, Code::kDenied);
  EXPECT_FALSE(OpenFrame(Key(), MakeNonce(random_), 3, frame));
  EXPECT_FALSE(OpenFrame(Key("another secret of more than 32 b."), nonce, 3, frame));
  EXPECT_EQ(OpenFrame(Key(), nonce, 0, SealFrame(Key(), nonce, 0, "")).value(), "");
  for (size_t i = 0; i < frame.size(); ++i) {
    std::string changed = frame;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(OpenFrame(Key(), nonce, 3, changed)) << i;
    EXPECT_FALSE(OpenFrame(Key(), nonce, 3, frame.substr(0, i))) << i;
  }
}

TEST_F(SealTest, WhoAWorkerIs) {
  const std::string nonce = MakeNonce(random_);
  const std::string answer = EncodeHello(Key(), nonce, {.worker = "w 1/x", .now_ms = 12});
  const auto hello = DecodeHello(Key(), nonce, answer);
  ASSERT_TRUE(hello) << hello.error().ToString();
  EXPECT_EQ(hello->worker, "w 1/x");
  EXPECT_EQ(hello->now_ms, 12);
  EXPECT_FALSE(DecodeHello(Key(), MakeNonce(random_), answer));  // Replayed.
  EXPECT_FALSE(DecodeHello(Key("another secret of more than 32 b."), nonce, answer));
  for (size_t i = 0; i < answer.size(); ++i) {
    std::string changed = answer;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(DecodeHello(Key(), nonce, changed)) << i;
    EXPECT_FALSE(DecodeHello(Key(), nonce, answer.substr(0, i))) << i;
  }
  // What says who it is can be taken for no answer of another kind.
  EXPECT_FALSE(OpenFrame(Key(), nonce, 0, answer));
}

}  // namespace
}  // namespace lithify::fleet
