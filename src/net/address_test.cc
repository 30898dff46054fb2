#include "net/address.h"

#include <gtest/gtest.h>

namespace lithify::net {
namespace {

TEST(Address, HostAndPort) {
  EXPECT_EQ(ParseAddress("10.0.0.3:9140").value(), (Address{"10.0.0.3", 9140}));
  EXPECT_EQ(ParseAddress("0.0.0.0:0").value(), (Address{"0.0.0.0", 0}));
  EXPECT_EQ(ParseAddress("[fe80::1%eth0]:1").value(), (Address{"fe80::1%eth0", 1}));
  EXPECT_EQ((Address{"::1", 9140}).ToString(), "[::1]:9140");
  EXPECT_EQ((Address{"a.b", 1}).ToString(), "a.b:1");
  for (const char* wrong :
       {"", "a", "a:", ":1", "a:65536", "a:1x", "::1:9140", "[a]:1", "a b:1", "grpc://a:1", "[]:1",
        "a:-1", "*:1", "a/b:1", "[::1]", "a:99999999999"}) {
    const auto address = ParseAddress(wrong);
    ASSERT_FALSE(address) << wrong;
    EXPECT_EQ(address.error().code, Code::kInvalid) << wrong;
  }
}

TEST(Address, LoopbackIsNoNameThatOnlyBeginsLikeIt) {
  for (const char* own : {"localhost", "::1", "[::1]", "127.0.0.1", "127.8.8.8"}) {
    EXPECT_TRUE(IsLoopback(own)) << own;
  }
  for (const char* other :
       {"127.example.com", "0.0.0.0", "localhost.example.com", "10.0.0.1", ""}) {
    EXPECT_FALSE(IsLoopback(other)) << other;
  }
}

}  // namespace
}  // namespace lithify::net
