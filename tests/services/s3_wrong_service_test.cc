// Real S3 servers that do not keep their word (gofakes3.sh) are refused before anything is
// published.
#include <gtest/gtest.h>

#include <string>

#include "s3_service.h"

namespace lithify::storage {
namespace {

const testing::Environment* const kServer = testing::AddGlobalTestEnvironment(new S3Server);

// Q2. What it gets wrong is shown first, so that a server that learned it is noticed.
TEST(S3WrongServer, Q2_CompletingAnUploadOverAnObject) {
  S3World world(S3Server::endpoint);
  const std::string key = world.prefix + "x";
  ASSERT_TRUE(world.s3->PutNew("x", "first"));
  const std::string upload = world.client->CreateUpload(key, "id").value();
  const auto part = world.client->UploadPart(key, upload, 1, "second").value();
  ASSERT_TRUE(
      world.client->CompleteUpload(key, upload, {part}, "id", {.absent = true, .etag = {}}));
  ASSERT_EQ(world.s3->Get("x", 9).value().bytes, "second") << "it keeps its word now";
  ASSERT_TRUE(world.s3->Remove("x"));

  const Status probed = world.s3->Probe("probe");
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().code, Code::kUnsupported);
  EXPECT_EQ(probed.error().message,
            "the store does not honour conditional writes: a completed upload replaced an object");
  EXPECT_TRUE(world.s3->List("").value().empty());
  EXPECT_TRUE(world.client->ListUploads(world.prefix, {}).value().uploads.empty());
}

}  // namespace
}  // namespace lithify::storage
