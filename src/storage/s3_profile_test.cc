#include "storage/s3_profile.h"

#include <gtest/gtest.h>

#include <map>

namespace lithify::storage {
namespace {

class S3ProfileTest : public testing::Test {
 protected:
  S3ProfileTest() {
    around_.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
    around_.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files_.find(path);
      if (found == files_.end()) return Fail(Code::kNotFound, "no such file", path);
      return found->second;
    };
  }
  // A key of a profile with these files.
  std::string Of(const std::string& profile, const std::string& key) {
    const auto read = S3Profiles::Read(around_);
    if (!read) return "error: " + read.error().ToString();
    const S3Section* section = read->Find(profile);
    return section == nullptr ? "no such profile" : section->Value(key);
  }
  std::string EndpointOf(const char* service) {
    return S3Profiles::Read(around_).value().Endpoint(around_, service);
  }

  S3Surroundings around_;
  std::map<std::string, std::string> environment_ = {{"HOME", "/h"}};
  std::map<std::string, std::string> files_;
};

TEST_F(S3ProfileTest, SectionsOfBothFiles) {
  files_["/h/.aws/config"] =
      "[default]\nregion = a\n[profile one]\nregion=b\n[ profile\t two ]\nRegion = c\n"
      "[profile \"with space\"]\nregion = d\n[bare]\nregion = e\n[sso-session s]\nsso_region = f\n"
      "[profile one]\noutput = json\n";
  files_["/h/.aws/credentials"] = "[bare]\nregion = g\n[profile three]\nregion = h\n";
  EXPECT_EQ(Of("default", "region"), "a");
  EXPECT_EQ(Of("one", "region"), "b");
  EXPECT_EQ(Of("one", "output"), "json");
  EXPECT_EQ(Of("two", "region"), "c");
  EXPECT_EQ(Of("with space", "region"), "d");
  // Without "profile" it is no profile in the one file, with it none in the other.
  EXPECT_EQ(Of("bare", "region"), "g");
  EXPECT_EQ(Of("three", "region"), "no such profile");
  EXPECT_EQ(S3Profiles::Read(around_).value().FindSsoSession("s")->Value("sso_region"), "f");
  EXPECT_EQ(Of("s", "sso_region"), "no such profile");
  files_["/h/.aws/config"] = "[profile default]\nregion = x\n[default]\nregion = y\noutput = z\n";
  EXPECT_EQ(Of("default", "region"), "x");
  EXPECT_EQ(Of("default", "output"), "");
}

TEST_F(S3ProfileTest, CommentsAndIndentedLines) {
  files_["/h/.aws/config"] =
      "; first\r\n\r\n[profile a] # mine\r\nkey = value # not this\r\nadjacent = x#y;z\r\n"
      "s3 =\r\n  endpoint_url = nested\r\n  other = 1\r\nregion = r ; no\r\nempty =\r\n"
      "[profile b]\r\n  region = indented\r\n  output = too\r\nlong = one\r\n two\r\n"
      "last = it";
  EXPECT_EQ(Of("a", "key"), "value");
  EXPECT_EQ(Of("a", "adjacent"), "x#y;z");
  EXPECT_EQ(Of("a", "endpoint_url"), "");
  EXPECT_EQ(Of("a", "s3.endpoint_url"), "nested");
  EXPECT_EQ(Of("a", "s3.other"), "1");
  EXPECT_EQ(Of("a", "region"), "r");
  EXPECT_EQ(Of("b", "region"), "indented");
  EXPECT_EQ(Of("b", "output"), "too");
  EXPECT_EQ(Of("b", "long"), "one");
  EXPECT_EQ(Of("b", "last"), "it");
}

// Under a heading that is cut off, the keys would be those of the profile before it.
TEST_F(S3ProfileTest, R267_ALineThatIsNoneIsAnErrorWithoutItsWords) {
  for (const char* bad : {"[profile hush\n", "key = hush\n", "[default]\nhush hush\n",
                          "[default]\n= hush\n", "[default] hush\n"}) {
    files_["/h/.aws/config"] = std::string("# comment\n") + bad;
    const auto read = S3Profiles::Read(around_);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::kInvalid) << bad;
    EXPECT_NE(read.error().ToString().find("/h/.aws/config: line "), std::string::npos)
        << read.error().ToString();
    EXPECT_EQ(read.error().ToString().find("hush"), std::string::npos);
  }
}

TEST_F(S3ProfileTest, TheCredentialsFileCountsAndKeysStayTogether) {
  files_["/h/.aws/config"] =
      "[default]\nregion = r\noutput = o\naws_access_key_id = old\naws_secret_access_key = old\n"
      "aws_session_token = of the old\n";
  files_["/h/.aws/credentials"] =
      "[default]\nregion = s\naws_access_key_id = new\naws_secret_access_key = new\n";
  EXPECT_EQ(Of("default", "region"), "s");
  EXPECT_EQ(Of("default", "output"), "o");
  EXPECT_EQ(Of("default", "aws_access_key_id"), "new");
  EXPECT_EQ(Of("default", "aws_session_token"), "");
  // In one file they may stand in two places.
  files_["/h/.aws/credentials"] =
      "[default]\naws_access_key_id = n\n[default]\naws_secret_access_key = m\n";
  EXPECT_EQ(Of("default", "aws_access_key_id"), "n");
  EXPECT_EQ(Of("default", "aws_secret_access_key"), "m");
}

TEST_F(S3ProfileTest, VariablesNameTheFilesAndTheProfile) {
  environment_["AWS_CONFIG_FILE"] = "~/mine";
  environment_["AWS_SHARED_CREDENTIALS_FILE"] = "/keys";
  files_ = {{"/h/mine", "[profile x]\nregion = r\n"}, {"/keys", "[x]\noutput = o\n"}};
  EXPECT_EQ(Of("x", "region"), "r");
  EXPECT_EQ(Of("x", "output"), "o");
  const auto chosen = [&] { return S3Profiles::Read(around_).value().chosen(); };
  EXPECT_EQ(chosen(), "default");
  EXPECT_TRUE(S3Profiles::Read(around_).value().is_default());
  environment_["AWS_DEFAULT_PROFILE"] = "y";
  EXPECT_EQ(chosen(), "y");
  environment_["AWS_PROFILE"] = "x";
  EXPECT_EQ(chosen(), "x");
  EXPECT_FALSE(S3Profiles::Read(around_).value().is_default());
  EXPECT_EQ(S3Profiles::Read(around_).value().Value("region"), "r");
  files_.erase("/keys");
  EXPECT_EQ(S3Profiles::Read(around_).error().code, Code::kNotFound);
}

TEST_F(S3ProfileTest, EndpointsFromTheNearestToTheFarthest) {
  files_["/h/.aws/config"] =
      "[default]\nservices = local\nendpoint_url = http://profile\n"
      "[services local]\nsts =\n  endpoint_url = http://services\n"
      "[services other]\ns3 =\n  endpoint_url = http://wrong\n";
  EXPECT_EQ(EndpointOf("s3"), "http://profile");
  EXPECT_EQ(EndpointOf("sts"), "http://services");
  environment_["AWS_ENDPOINT_URL"] = "http://all";
  EXPECT_EQ(EndpointOf("sts"), "http://all");
  environment_["AWS_ENDPOINT_URL_STS"] = "http://sts";
  EXPECT_EQ(EndpointOf("sts"), "http://sts");
  EXPECT_EQ(EndpointOf("s3"), "http://all");
  environment_["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "True";
  EXPECT_EQ(EndpointOf("sts"), "");
  environment_ = {{"HOME", "/h"}};
  files_["/h/.aws/config"] += "[default]\nignore_configured_endpoint_urls = true\n";
  EXPECT_EQ(EndpointOf("s3"), "");
}

}  // namespace
}  // namespace lithify::storage
