#include <gtest/gtest.h>

#include "observe/audit_log.h"

namespace lithify::observe {
namespace {

TEST(Redact, R171MasksWhatIsSecret) {
  EXPECT_EQ(Redact("Authorization: Bearer abc.DEF-1"), "Authorization: ***");
  EXPECT_EQ(Redact("sent bearer  abcDEF123== to it"), "sent bearer *** to it");
  EXPECT_EQ(Redact("Basic dXNlcjpwYXNz"), "Basic ***");
  EXPECT_EQ(Redact("x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig-x_y;"), "x=***;");
  EXPECT_EQ(Redact("'s3.access-key-id'='AKIAIOSFODNN7EXAMPLE'"), "'s3.access-key-id'='***'");
  EXPECT_EQ(Redact("key AKIAIOSFODNN7EXAMPLE refused"), "key *** refused");
  EXPECT_EQ(Redact("SET TBLPROPERTIES ('s3.secret-access-key' = 'a''b', 'x' = 'y')"),
            "SET TBLPROPERTIES ('s3.secret-access-key' = '***', 'x' = 'y')");
  EXPECT_EQ(Redact("map('client_secret', 'abc', 'n', '2')"),
            "map('client_secret', '***', 'n', '2')");
  EXPECT_EQ(Redact("p(api_key => \"k\", b => 1)"), "p(api_key => \"***\", b => 1)");
  EXPECT_EQ(Redact("{\"token\":\"a\\\"b\",\"n\":1}"), "{\"token\":\"***\",\"n\":1}");
  EXPECT_EQ(Redact("CREATE SECRET s (TYPE s3, KEY_ID 'k', SECRET 'x')"),
            "CREATE SECRET s (TYPE s3, KEY_ID '***', SECRET '***')");
  EXPECT_EQ(Redact("password=hunter2&user=me"), "password=***&user=me");
  EXPECT_EQ(Redact("GET https://me:pw@host/x?X-Amz-Signature=ab12&y=1"),
            "GET https://***@host/x?X-Amz-Signature=***&y=1");
  EXPECT_EQ(Redact("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY----- end"),
            "*** end");
  EXPECT_EQ(Redact("-----BEGIN PRIVATE KEY-----\nabc"), "***");
  EXPECT_EQ(Redact("WHERE mail = 'jane.doe+x@example.org'"), "WHERE mail = '***'");
  EXPECT_EQ(Redact("card 4111 1111 1111 1111, 5500-0000-0000-0004"), "card ***, ***");
  EXPECT_EQ(Redact("token = 'never closed"), "token = '***'");
}

TEST(Redact, LeavesTheRest) {
  for (const char* text :
       {"", "SELECT a, b FROM lake.sales.orders WHERE day >= DATE '2026-11-01'",
        "CALL system.rollback_to_snapshot(table => 'a.b', snapshot_id => 4111111111111111111)",
        "a bearer of news", "basic types", "SELECT token, name FROM t", "https://host/a@b",
        "4111 1111 1111 1112", "conflict: main was 5436871223, is 998", "eyJ", "user@localhost",
        "2026-11-30T12:00:00.123456Z", "denied: s3://bucket/x: é"}) {
    EXPECT_EQ(Redact(text), text);
  }
}

TEST(Redact, LongHostileTextsTakeLinearTime) {
  for (const char* piece : {"a.", "'", "token", "token=", "eyJ", "a@", "4", "4-", "://", "bearer ",
                            "-----BEGIN ", "secret '", "-----BEGIN PRIVATE KEY-----x"}) {
    std::string text;
    while (text.size() < 300'000) text += piece;
    EXPECT_FALSE(Redact(text).empty()) << piece;
  }
}

}  // namespace
}  // namespace lithify::observe
